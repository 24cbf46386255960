//! The samples of a batch in a prim_func.

use super::axis_of;
use crate::ir::stmt::{Block, BlockIter, Body, IterKind, Loop};
use crate::ir::{BufferId, Expr, ExprId, ExprList, Func, Stmt, StmtId, VarId, visit};

/// Checks a prim_func whose parameters have the batch as these dimensions; `None` for one that does not depend on it.
///
/// # Errors
/// Why the samples may depend on each other.
pub(super) fn check(func: &Func, axes: &[Option<usize>]) -> Result<(), String> {
    let buffers: Option<Vec<BufferId>> = func.params.iter().map(|p| p.buffer).collect();
    let Some(buffers) = buffers.filter(|all| all.len() == axes.len()) else {
        return Err("has parameters that are no tensors".to_owned());
    };
    let mut symbols: Vec<VarId> = Vec::new();
    for &buffer in &buffers {
        for &extent in func.arena.list(func.arena.buffer(buffer).shape) {
            symbols.extend(visit::vars_of(&func.arena, extent));
        }
    }
    symbols.dedup();
    let [batch] = symbols[..] else { return Err("has shapes with several symbols".to_owned()) };
    let mut walk = Walk { func, batch, over_batch: None, sample: None };
    for (&buffer, &axis) in buffers.iter().zip(axes) {
        if walk.axis(buffer)? != axis {
            return Err("has other shapes than its arguments".to_owned());
        }
    }
    walk.stmt(func.root.stmt())
}

struct Walk<'a> {
    func: &'a Func,
    /// The extent.
    batch: VarId,
    /// The variable of the loop over the batch that is open.
    over_batch: Option<VarId>,
    /// The iteration variable over the batch of the block that is open.
    sample: Option<VarId>,
}

impl Walk<'_> {
    /// The dimension of a buffer that is the batch.
    fn axis(&self, buffer: BufferId) -> Result<Option<usize>, String> {
        let arena = &self.func.arena;
        let buffer = arena.buffer(buffer);
        let is_placed = buffer.elem_offset.is_some_and(|e| !arena.is_int(e, 0)) || buffer.strides.is_some();
        match axis_of(arena, arena.list(buffer.shape), |v| v == self.batch) {
            Ok(axis) if !is_placed => Ok(axis),
            _ => Err(format!("has a tensor `{}` whose layout depends on the batch", buffer.name)),
        }
    }

    fn body(&mut self, body: &Body) -> Result<(), String> {
        body.iter().try_for_each(|&s| self.stmt(s))
    }

    fn stmt(&mut self, s: StmtId) -> Result<(), String> {
        let func = self.func;
        match func.get(s) {
            Stmt::Loop(l) => self.in_loop(l),
            Stmt::Block(block) => self.in_block(block),
            Stmt::Store { buffer, indices, value } => {
                if self.over_batch.is_some() && self.axis(*buffer)?.is_none() {
                    let name = func.arena.buffer(*buffer).name;
                    return Err(format!("combines samples in `{name}`"));
                }
                self.access(*buffer, *indices)?;
                self.expr(*value)
            }
            Stmt::If { condition, then, otherwise } => {
                self.expr(*condition)?;
                self.body(then)?;
                self.body(otherwise)
            }
            Stmt::Let { value, body, .. } => {
                self.expr(*value)?;
                self.body(body)
            }
            Stmt::Evaluate(value) => self.expr(*value),
            Stmt::Alloc { buffer, .. } => self.axis(*buffer).map(|_| ()),
            Stmt::Declare { .. }
            | Stmt::While { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_)
            | Stmt::Attr(_) => Err("has statements that are not understood".to_owned()),
        }
    }

    fn in_loop(&mut self, l: &Loop) -> Result<(), String> {
        self.expr(l.min)?;
        l.step.map_or(Ok(()), |step| self.expr(step))?;
        if !self.is_batch(l.extent) {
            self.expr(l.extent)?;
            return self.body(&l.body);
        }
        if self.func.arena.as_int(l.min) != Some(0) || l.step.is_some() {
            return Err("runs over a part of the batch".to_owned());
        }
        // What is inside would run as often as there are samples.
        if self.over_batch.is_some() {
            return Err("runs over the batch for each sample".to_owned());
        }
        self.over_batch = Some(l.var);
        self.body(&l.body)?;
        self.over_batch = None;
        Ok(())
    }

    fn in_block(&mut self, block: &Block) -> Result<(), String> {
        let outer = self.sample;
        for iter in &block.iters {
            if self.is_batch(iter.extent) {
                self.sample = Some(self.sample_of(iter)?);
            } else {
                self.expr(iter.min)?;
                self.expr(iter.extent)?;
                self.expr(iter.value)?;
            }
        }
        self.expr(block.predicate)?;
        if !block.matches.is_empty() {
            return Err("has views, which are not understood".to_owned());
        }
        block.allocs.iter().try_for_each(|&buffer| self.axis(buffer).map(|_| ()))?;
        block.init.iter().try_for_each(|init| self.body(init))?;
        self.body(&block.body)?;
        self.sample = outer;
        Ok(())
    }

    /// The iteration variable over the batch: it takes the values of a loop over all of it.
    fn sample_of(&self, iter: &BlockIter) -> Result<VarId, String> {
        let arena = &self.func.arena;
        let of_loop = matches!(arena.expr(iter.value), Expr::Var(v) if self.over_batch == Some(v));
        match iter.kind {
            IterKind::Spatial if of_loop && self.sample.is_none() && arena.as_int(iter.min) == Some(0) => Ok(iter.var),
            IterKind::Spatial | IterKind::Opaque => Err("combines samples of the batch".to_owned()),
            IterKind::Reduce => Err("reduces over the batch".to_owned()),
            IterKind::Scan => Err("computes a sample from the one before".to_owned()),
        }
    }

    /// Whether an expression is the extent of the batch.
    fn is_batch(&self, e: ExprId) -> bool {
        matches!(self.func.arena.expr(e), Expr::Var(v) if v == self.batch)
    }

    /// An access of an element: that of the sample, if the buffer has samples.
    fn access(&self, buffer: BufferId, indices: ExprList) -> Result<(), String> {
        let arena = &self.func.arena;
        let axis = self.axis(buffer)?;
        for (i, &index) in arena.list(indices).iter().enumerate() {
            if Some(i) != axis {
                self.expr(index)?;
            } else if !matches!(arena.expr(index), Expr::Var(v) if Some(v) == self.sample) {
                return Err(format!(
                    "accesses `{}` at other samples than the one that it computes",
                    arena.buffer(buffer).name
                ));
            }
        }
        Ok(())
    }

    /// An expression that must depend on neither the position of a sample nor the size of the batch.
    fn expr(&self, e: ExprId) -> Result<(), String> {
        let arena = &self.func.arena;
        match arena.expr(e) {
            Expr::Load(buffer, indices) => self.access(buffer, indices),
            Expr::Var(v) if self.sample == Some(v) || self.over_batch == Some(v) => {
                Err("depends on the position of a sample in the batch".to_owned())
            }
            Expr::Var(_) if self.is_batch(e) => Err("depends on the size of the batch".to_owned()),
            Expr::BufferData(_) | Expr::Builtin(..) => Err("has calls that are not understood".to_owned()),
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Str(_)
            | Expr::Var(_)
            | Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..) => {
                let mut found = Ok(());
                arena.for_each_child(e, |child| {
                    if found.is_ok() {
                        found = self.expr(child);
                    }
                });
                found
            }
        }
    }
}
