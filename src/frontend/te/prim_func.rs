//! The function of a collection of stages.

use super::{Stage, Te, Tensor, statements};
use crate::ir::infer_accesses;
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{
    Annotations, AttrValue, Block, BlockIter, Body, BufferId, DType, Expr, Func, IterKind, Loop, LoopKind, Param, Stmt,
    StmtId, Symbol, VarId,
};

/// A parameter of a function of stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// A tensor: an argument, or a result.
    Tensor(Tensor),
    /// A number, on which stages depend.
    Scalar(VarId),
}

impl Te {
    /// Whether a stage computes a tensor; otherwise it is a placeholder.
    pub fn is_computed(&self, tensor: Tensor) -> bool {
        self.tensors[tensor.0 as usize].stage.is_some()
    }

    /// A function that computes the outputs from the inputs: its parameters are the inputs, then the outputs. A stage is computed
    /// if an output needs it, and all others are allocated by the function.
    ///
    /// # Panics
    /// If a stage needs a placeholder that is no input, or an output is a placeholder.
    pub fn prim_func(self, name: &str, inputs: &[Tensor], outputs: &[Tensor]) -> Func {
        assert!(outputs.iter().all(|&t| self.is_computed(t)), "an output is computed");
        let params: Vec<Parameter> = inputs.iter().chain(outputs).map(|&t| Parameter::Tensor(t)).collect();
        self.prim_func_of(name, &params)
    }

    /// A function with these parameters. It computes those that stages give, in the order in which they are needed.
    ///
    /// # Panics
    /// If a stage needs a placeholder that is no parameter.
    pub fn prim_func_of(self, name: &str, all: &[Parameter]) -> Func {
        let tensor = |p: &Parameter| match p {
            Parameter::Tensor(t) => Some(*t),
            Parameter::Scalar(_) => None,
        };
        let tensors: Vec<Tensor> = all.iter().filter_map(tensor).collect();
        let mut order = Vec::new();
        let mut seen = vec![false; self.stages.len()];
        for &t in &tensors {
            if let Some(stage) = self.tensors[t.0 as usize].stage {
                self.visit(stage, &tensors, &mut seen, &mut order);
            }
        }
        let params: Vec<BufferId> = tensors.iter().map(|&t| self.buffer_of(t)).collect();
        let allocated: Vec<BufferId> = order.iter().flat_map(|&s| self.stages[s].writes.clone()).collect();
        let Te { mut func, stages, .. } = self;
        let mut stages: Vec<Option<Stage>> = stages.into_iter().map(Some).collect();
        let mut names: Vec<Symbol> = vec!["root".into()];
        let mut body = Body::new();
        for mut stage in order.iter().filter_map(|&s| stages[s].take()) {
            if let Some((axes, copy)) = stage.copy.take() {
                let name = stage.name.with_suffix("_copy");
                let (writes, annotations, rank_0) = (Vec::new(), Vec::new(), stage.rank_0);
                let init = None;
                let (copy, locals, siblings, stage_copy) = (copy, None, Vec::new(), None);
                let copy = Stage {
                    name,
                    axes,
                    init,
                    body: copy,
                    writes,
                    annotations,
                    rank_0,
                    copy: stage_copy,
                    locals,
                    siblings,
                };
                body.extend(nest(&mut func, copy, &mut names));
            }
            body.extend(nest(&mut func, stage, &mut names));
        }
        func.name = name.into();
        func.private = true;
        func.attrs = Annotations::new();
        func.attrs.insert("tirx.noalias", AttrValue::Bool(true));
        let mut buffers = params.iter();
        for param in all {
            let buffer = match param {
                Parameter::Tensor(_) => buffers.next().copied(),
                Parameter::Scalar(_) => None,
            };
            let var = match (param, buffer) {
                (Parameter::Scalar(var), _) => *var,
                (_, Some(buffer)) => {
                    let name = func.arena.buffer(buffer).name;
                    func.arena.new_var(name, DType::Handle)
                }
                (_, None) => continue,
            };
            func.params.push(Param { var, buffer });
        }
        let root = func.root;
        func.set_body(root.stmt(), body);
        func.block_mut(root).allocs = allocated.into_iter().filter(|b| !params.contains(b)).collect();
        func
    }

    /// A placeholder that these tensors need, and that is none of them.
    pub fn unlisted(&self, tensors: &[Tensor]) -> Option<Tensor> {
        let mut seen = vec![false; self.stages.len()];
        let mut open: Vec<usize> = tensors.iter().filter_map(|t| self.tensors[t.0 as usize].stage).collect();
        while let Some(stage) = open.pop() {
            if std::mem::replace(&mut seen[stage], true) {
                continue;
            }
            for tensor in self.read_by(stage) {
                match self.tensors[tensor.0 as usize].stage {
                    Some(other) => open.push(other),
                    None if !tensors.contains(&tensor) => return Some(tensor),
                    None => {}
                }
            }
        }
        None
    }

    /// The tensors that the stage of a tensor reads, in the order in which they stand in its formulas. Empty for placeholders.
    pub fn producers(&self, tensor: Tensor) -> Vec<Tensor> {
        let own = self.computed_with(tensor);
        match self.tensors[tensor.0 as usize].stage {
            Some(stage) => self.read_by(stage).into_iter().filter(|t| !own.contains(t)).collect(),
            None => Vec::new(),
        }
    }

    /// The position of a tensor among all that were defined.
    pub fn position(&self, tensor: Tensor) -> usize {
        tensor.0 as usize
    }

    /// The buffers of all tensors, in the order in which they were defined.
    pub fn buffers(&self) -> Vec<BufferId> {
        self.tensors.iter().map(|t| t.buffer).collect()
    }

    /// The tensors that one stage computes together.
    pub fn computed_with(&self, tensor: Tensor) -> Vec<Tensor> {
        let stage = self.tensors[tensor.0 as usize].stage;
        let all = (0..self.tensors.len() as u32).map(Tensor);
        match stage {
            Some(_) => all.filter(|t| self.tensors[t.0 as usize].stage == stage).collect(),
            None => vec![tensor],
        }
    }

    /// Lists the stages that a stage needs, and then itself.
    fn visit(&self, stage: usize, inputs: &[Tensor], seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[stage], true) {
            return;
        }
        for tensor in self.read_by(stage) {
            match self.tensors[tensor.0 as usize].stage {
                Some(other) => self.visit(other, inputs, seen, order),
                None => assert!(inputs.contains(&tensor), "every placeholder that is read is an input"),
            }
        }
        order.push(stage);
    }

    /// The tensors that a stage reads, in the order in which they stand in its formulas.
    fn read_by(&self, stage: usize) -> Vec<Tensor> {
        let mut read: Vec<BufferId> = Vec::new();
        let copy = self.stages[stage].copy.iter().flat_map(|(_, body)| body);
        let siblings = self.stages[stage].siblings.iter().flat_map(|s| &s.body);
        for &s in self.stages[stage].body.iter().chain(siblings).chain(copy) {
            for s in self.func.subtree(s) {
                for_each_own_expr(&self.func, s, &mut |e| {
                    for_each_subexpr(&self.func.arena, e, &mut |e| {
                        if let Expr::Load(buffer, _) = self.func.arena.expr(e)
                            && !read.contains(&buffer)
                        {
                            read.push(buffer);
                        }
                    });
                });
            }
        }
        let tensor = |b: BufferId| self.tensors.iter().position(|t| t.buffer == b).expect("every buffer is a tensor");
        read.into_iter().map(|b| Tensor(tensor(b) as u32)).collect()
    }
}

/// The blocks of a stage in its loops.
fn nest(func: &mut Func, stage: Stage, names: &mut Vec<Symbol>) -> Vec<StmtId> {
    let has_loops = stage.axes.iter().any(|axis| axis.kind == IterKind::Reduce) || !is_point(&stage);
    let iters = |func: &mut Func, vars: &mut dyn Iterator<Item = VarId>| -> Vec<BlockIter> {
        (stage.axes.iter().zip(vars))
            .map(|(axis, var)| {
                let value = if has_loops { func.arena.var_expr(axis.loop_var) } else { axis.min };
                BlockIter { var, min: axis.min, extent: axis.extent, kind: axis.kind, value }
            })
            .collect()
    };
    let predicate = func.arena.bool(true);
    let mut annotations = Annotations::new();
    for (key, value) in stage.annotations {
        annotations.insert(key, value);
    }
    let name = fresh(stage.name, names);
    let is_statements = stage.locals.is_some();
    let allocs = stage.locals.unwrap_or_default();
    let own = iters(func, &mut stage.axes.iter().map(|a| a.iter_var));
    let mut blocks = vec![Block {
        iters: own,
        init: stage.init,
        body: stage.body,
        annotations: annotations.clone(),
        allocs,
        ..Block::new(name, predicate)
    }];
    for sibling in stage.siblings {
        let (iters, name) = (iters(func, &mut sibling.iter_vars.into_iter()), fresh(sibling.name, names));
        let annotations = annotations.clone();
        blocks.push(Block { iters, body: sibling.body, annotations, ..Block::new(name, predicate) });
    }
    let mut nest: Vec<StmtId> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let block = func.stmts.add_block(block);
        let (reads, writes) = match is_statements {
            true => statements::accesses(func, block),
            false => infer_accesses::accesses(func, block),
        };
        let node = func.block_mut(block);
        (node.reads, node.writes) = (reads, writes);
        nest.push(block.stmt());
    }
    for axis in stage.axes.iter().rev().filter(|_| has_loops) {
        let outer = func.stmts.add(Stmt::Loop(Loop {
            var: axis.loop_var,
            min: axis.min,
            extent: axis.extent,
            step: None,
            kind: LoopKind::Serial,
            annotations: Annotations::new(),
            body: nest.into_iter().collect(),
        }));
        nest = vec![outer];
    }
    nest
}

/// Whether the stage computes a tensor without dimensions, element by element.
fn is_point(stage: &Stage) -> bool {
    matches!(&stage.axes[..], [axis] if axis.kind == IterKind::Spatial) && stage.init.is_none() && stage.rank_0
}

/// The name, or the name with the first number that makes it unique.
fn fresh(name: Symbol, names: &mut Vec<Symbol>) -> Symbol {
    let numbered = (1..).map(|i| name.with_suffix(&format!("_{i}")));
    let free = std::iter::once(name).chain(numbered).find(|n| !names.contains(n)).unwrap_or(name);
    names.push(free);
    free
}
