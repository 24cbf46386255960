//! The function of a collection of stages.

use super::{Stage, Te, Tensor, statements};
use crate::ir::infer_accesses;
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{
    Annotations, AttrValue, Block, BlockIter, Body, BufferId, DType, Expr, Func, IterKind, Loop, LoopKind, Param, Stmt,
    StmtId, Symbol,
};

impl Te {
    /// A function that computes the outputs from the inputs: its parameters are the inputs, then the outputs. A stage is computed
    /// if an output needs it, and all others are allocated by the function.
    ///
    /// # Panics
    /// If a stage needs a placeholder that is no input, or an output is a placeholder.
    pub fn prim_func(self, name: &str, inputs: &[Tensor], outputs: &[Tensor]) -> Func {
        let mut order = Vec::new();
        let mut seen = vec![false; self.stages.len()];
        for &output in outputs {
            let stage = self.tensors[output.0 as usize].stage.expect("an output is computed");
            self.visit(stage, inputs, &mut seen, &mut order);
        }
        let params: Vec<BufferId> = inputs.iter().chain(outputs).map(|&t| self.buffer_of(t)).collect();
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
                let copy =
                    Stage { name, axes, init, body: copy, writes, annotations, rank_0, copy: None, locals: None };
                body.push(nest(&mut func, copy, &mut names));
            }
            body.push(nest(&mut func, stage, &mut names));
        }
        func.name = name.into();
        func.private = true;
        func.attrs = Annotations::new();
        func.attrs.insert("tirx.noalias", AttrValue::Bool(true));
        for &buffer in &params {
            let name = func.arena.buffer(buffer).name;
            let var = func.arena.new_var(name, DType::Handle);
            func.params.push(Param { var, buffer: Some(buffer) });
        }
        let root = func.root;
        func.set_body(root.stmt(), body);
        func.block_mut(root).allocs = allocated.into_iter().filter(|b| !params.contains(b)).collect();
        func
    }

    /// Lists the stages that a stage needs, and then itself.
    fn visit(&self, stage: usize, inputs: &[Tensor], seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[stage], true) {
            return;
        }
        let mut read: Vec<BufferId> = Vec::new();
        let copy = self.stages[stage].copy.iter().flat_map(|(_, body)| body);
        for &s in self.stages[stage].body.iter().chain(copy) {
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
        for buffer in read {
            let tensor = self.tensors.iter().position(|t| t.buffer == buffer).expect("every buffer is a tensor");
            match self.tensors[tensor].stage {
                Some(other) => self.visit(other, inputs, seen, order),
                None => {
                    assert!(inputs.contains(&Tensor(tensor as u32)), "every placeholder that is read is an input");
                }
            }
        }
        order.push(stage);
    }
}

/// The block of a stage in its loops.
fn nest(func: &mut Func, stage: Stage, names: &mut Vec<Symbol>) -> StmtId {
    let has_loops = stage.axes.iter().any(|axis| axis.kind == IterKind::Reduce) || !is_point(&stage);
    let iters = (stage.axes.iter())
        .map(|axis| {
            let min = func.arena.int(0, func.arena.dtype(axis.extent));
            let value = if has_loops { func.arena.var_expr(axis.loop_var) } else { min };
            BlockIter { var: axis.iter_var, min, extent: axis.extent, kind: axis.kind, value }
        })
        .collect();
    let predicate = func.arena.bool(true);
    let mut annotations = Annotations::new();
    for (key, value) in stage.annotations {
        annotations.insert(key, value);
    }
    let name = fresh(stage.name, names);
    let is_statements = stage.locals.is_some();
    let allocs = stage.locals.unwrap_or_default();
    let block = Block { iters, init: stage.init, body: stage.body, annotations, allocs, ..Block::new(name, predicate) };
    let block = func.stmts.add_block(block);
    let (reads, writes) = match is_statements {
        true => statements::accesses(func, block),
        false => infer_accesses::accesses(func, block),
    };
    let node = func.block_mut(block);
    (node.reads, node.writes) = (reads, writes);
    let mut nest = block.stmt();
    if !has_loops {
        return nest;
    }
    for axis in stage.axes.iter().rev() {
        let min = func.arena.int(0, func.arena.dtype(axis.extent));
        nest = func.stmts.add(Stmt::Loop(Loop {
            var: axis.loop_var,
            min,
            extent: axis.extent,
            step: None,
            kind: LoopKind::Serial,
            annotations: Annotations::new(),
            body: [nest].into_iter().collect(),
        }));
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
