//! Stages that are statements, for what formulas of elements cannot say, such as sorting.

use super::{Stage, Te, Tensor};
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{
    Annotations, BlockId, Body, BufferId, BufferRegion, DType, Expr, ExprId, ExprList, Func, IterKind, Loop, LoopKind,
    Stmt, VarId,
};
use std::ops::{Deref, DerefMut};

/// A tensor that statements write: its name, the type of its elements and its extents.
pub type Written<'a> = (&'a str, DType, &'a [ExprId]);

/// The statements of a block, in the order in which they are added. It dereferences to the [`Te`].
pub struct Statements<'a> {
    te: &'a mut Te,
    /// Memory of one instance of the block.
    locals: Vec<BufferId>,
    list: Body,
}

impl Deref for Statements<'_> {
    type Target = Te;

    fn deref(&self) -> &Te {
        self.te
    }
}

impl DerefMut for Statements<'_> {
    fn deref_mut(&mut self) -> &mut Te {
        self.te
    }
}

impl Te {
    /// Tensors that the statements of one block write. An instance of the block runs for each index of `spatial`, and different
    /// instances must write different elements. `body` is given the tensors and the indices of the instance.
    pub fn statements(
        &mut self,
        name: &str,
        spatial: &[ExprId],
        written: &[Written<'_>],
        body: impl FnOnce(&mut Statements<'_>, &[Tensor], &[ExprId]),
    ) -> Vec<Tensor> {
        let stage = self.stages.len();
        let tensors: Vec<Tensor> =
            written.iter().map(|&(name, dtype, shape)| self.tensor(name, dtype, shape, Some(stage))).collect();
        let mut axes = self.axes("i", spatial, IterKind::Spatial);
        let indices = self.indices(&axes);
        self.point_of_rank_0(&mut axes, spatial);
        let mut statements = Statements { te: self, locals: Vec::new(), list: Body::new() };
        body(&mut statements, &tensors, &indices);
        let Statements { locals, list: body, .. } = statements;
        let writes = tensors.iter().map(|&t| self.buffer_of(t)).collect();
        let (rank_0, locals) = (spatial.is_empty(), Some(locals));
        self.stages.push(Stage {
            name: name.into(),
            axes,
            init: None,
            body,
            writes,
            annotations: Vec::new(),
            rank_0,
            copy: None,
            locals,
            siblings: Vec::new(),
        });
        tensors
    }
}

impl Statements<'_> {
    /// A tensor in memory of the block's instance.
    pub fn local(&mut self, name: &str, dtype: DType, shape: &[ExprId]) -> Tensor {
        let stage = self.stages.len();
        let tensor = self.tensor(name, dtype, shape, Some(stage));
        let buffer = self.buffer_of(tensor);
        self.locals.push(buffer);
        tensor
    }

    /// An integer in memory of the block's instance, with its first value.
    pub fn counter(&mut self, name: &str, value: ExprId) -> Tensor {
        let counter = self.local(name, self.index_type(), &[]);
        self.set(counter, &[], value);
        counter
    }

    /// Stores an element.
    pub fn set(&mut self, tensor: Tensor, indices: &[ExprId], value: ExprId) {
        let store = self.store(tensor, indices, value);
        self.list.push(store);
    }

    /// Runs statements for all indices below the extents, the last one fastest.
    pub fn for_each(&mut self, extents: &[ExprId], body: impl FnOnce(&mut Self, &[ExprId])) {
        let vars = self.loop_vars(extents);
        let indices: Vec<ExprId> = vars.iter().map(|&v| self.var_expr(v)).collect();
        let inner = self.nested(|s| body(s, &indices));
        self.loops(&vars, extents, inner);
    }

    // What does not depend on the type of `body` is compiled once.
    fn loop_vars(&mut self, extents: &[ExprId]) -> Vec<VarId> {
        (extents.iter().enumerate())
            .map(|(i, &extent)| {
                let ty = self.dtype(extent);
                let name = if extents.len() == 1 { "j".to_owned() } else { format!("j{i}") };
                self.new_var(name.as_str(), ty)
            })
            .collect()
    }

    fn loops(&mut self, vars: &[VarId], extents: &[ExprId], mut inner: Body) {
        for (&var, &extent) in vars.iter().zip(extents).rev() {
            let dtype = self.dtype(extent);
            let min = self.int(0, dtype);
            inner = [self.func.stmts.add(Stmt::Loop(Loop {
                var,
                min,
                extent,
                step: None,
                kind: LoopKind::Serial,
                annotations: Annotations::new(),
                body: inner,
            }))]
            .into_iter()
            .collect();
        }
        self.list.extend(inner);
    }

    /// Runs statements as long as a condition holds.
    pub fn while_(&mut self, condition: ExprId, body: impl FnOnce(&mut Self)) {
        let body = self.nested(body);
        self.push(Stmt::While { condition, body });
    }

    /// Runs statements if a condition holds.
    pub fn if_(&mut self, condition: ExprId, then: impl FnOnce(&mut Self)) {
        self.if_else(condition, then, |_| {});
    }

    /// Runs statements if a condition holds, and others if it does not.
    pub fn if_else(&mut self, condition: ExprId, then: impl FnOnce(&mut Self), otherwise: impl FnOnce(&mut Self)) {
        let (then, otherwise) = (self.nested(then), self.nested(otherwise));
        self.push(Stmt::If { condition, then, otherwise });
    }

    fn push(&mut self, stmt: Stmt) {
        let stmt = self.func.stmts.add(stmt);
        self.list.push(stmt);
    }

    fn nested(&mut self, body: impl FnOnce(&mut Self)) -> Body {
        let outer = std::mem::take(&mut self.list);
        body(self);
        std::mem::replace(&mut self.list, outer)
    }
}

/// The regions that the statements of a block read and write. A dimension in which all accesses have the same iteration variable or
/// constant as their index is one element wide, and any other one is whole.
pub(super) fn accesses(func: &mut Func, block: BlockId) -> (Vec<BufferRegion>, Vec<BufferRegion>) {
    let block = func.block(block).clone();
    let mut reads: Vec<(BufferId, Vec<ExprList>)> = Vec::new();
    let mut writes: Vec<(BufferId, Vec<ExprList>)> = Vec::new();
    let add = |list: &mut Vec<(BufferId, Vec<ExprList>)>, buffer: BufferId, indices: ExprList| {
        if block.allocs.contains(&buffer) {
            return;
        }
        match list.iter_mut().find(|(b, _)| *b == buffer) {
            Some((_, all)) => all.push(indices),
            None => list.push((buffer, vec![indices])),
        }
    };
    for s in block.body.iter().flat_map(|&s| func.subtree(s)) {
        if let Stmt::Store { buffer, indices, .. } = *func.get(s) {
            add(&mut writes, buffer, indices);
        }
        for_each_own_expr(func, s, &mut |e| {
            for_each_subexpr(&func.arena, e, &mut |e| {
                if let Expr::Load(buffer, indices) = func.arena.expr(e) {
                    add(&mut reads, buffer, indices);
                }
            });
        });
    }
    let iters: Vec<VarId> = block.iters.iter().map(|i| i.var).collect();
    let mut regions = |list: Vec<(BufferId, Vec<ExprList>)>| {
        list.into_iter().map(|(buffer, indices)| region(func, &iters, buffer, &indices)).collect()
    };
    (regions(reads), regions(writes))
}

fn region(func: &mut Func, iters: &[VarId], buffer: BufferId, accesses: &[ExprList]) -> BufferRegion {
    let arena = &mut func.arena;
    let shape = arena.list(arena.buffer(buffer).shape).to_vec();
    let fixed = |arena: &crate::ir::Arena, e: ExprId| match arena.as_var(e) {
        Some(v) => iters.contains(&v),
        None => arena.as_int(e).is_some(),
    };
    let ranges: Vec<(ExprId, ExprId)> = (shape.iter().enumerate())
        .map(|(d, &extent)| {
            let index = arena.list(accesses[0])[d];
            let same = |a: &ExprList| {
                let other = arena.list(*a)[d];
                other == index || arena.as_var(index).is_some() && arena.as_var(other) == arena.as_var(index)
            };
            let dtype = arena.dtype(extent);
            match fixed(arena, index) && accesses.iter().all(same) {
                true => (index, arena.int(1, dtype)),
                false => (arena.int(0, dtype), extent),
            }
        })
        .collect();
    BufferRegion::new(arena, buffer, &ranges)
}
