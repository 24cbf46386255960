//! Computes with the low halves of indices where these are all of them.
//!
//! ```text
//! select(splat(i, 64) <= ramp(j, 1, 64), x, y)
//! // becomes, if i and j have at most 32 bits
//! select(cast(int32, splat(i, 64)) <= cast(int32, ramp(j, 1, 64)), x, y)
//! ```
//!
//! Indices have 64 bits, twice as many as lanes of `float32`. Conditions of guarded loads stay: they become windows of lanes.

use super::machine::Machine;
use crate::codegen::facts::is_index_sum;
use crate::ir::DType;
use crate::loopir::rewrite::{ExprMap, map_operands};
use crate::loopir::{Arena, Body, Expr, ExprId, For, Kernel, Range, Ranges, Stmt, StmtId};

/// Narrows the vectors of indices in all values.
pub(super) fn narrow_indices(kernel: &mut Kernel, machine: &Machine) {
    if !machine.vectors.has_regions() {
        return;
    }
    let mut pass = Pass { ranges: Ranges::default(), memo: ExprMap::default() };
    kernel.body = pass.body(kernel, kernel.body);
}

struct Pass {
    ranges: Ranges,
    memo: ExprMap,
}

impl Pass {
    fn body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        let old: Vec<StmtId> = kernel.stmts.list(body).to_vec();
        let new: Vec<StmtId> = old.iter().map(|&s| self.stmt(kernel, s)).collect();
        if new == old { body } else { kernel.stmts.body(&new) }
    }

    fn stmt(&mut self, kernel: &mut Kernel, s: StmtId) -> StmtId {
        let old = kernel.stmts.get(s);
        let new = match old {
            Stmt::For(l) => {
                self.ranges.set_loop(&kernel.arena, l.var, l.extent);
                Stmt::For(For { body: self.body(kernel, l.body), ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (self.body(kernel, then), self.body(kernel, otherwise));
                Stmt::If { condition, then, otherwise }
            }
            Stmt::While { running, body } => Stmt::While { running, body: self.body(kernel, body) },
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {
                map_operands(old, |e| self.expr(&mut kernel.arena, e))
            }
        };
        if new == old { s } else { kernel.stmts.push(new) }
    }

    fn expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&known) = self.memo.get(&e) {
            return known;
        }
        let new = match arena.expr(e) {
            Expr::Load(..) => e,
            Expr::IfThenElse(c, t, o) => {
                let (t, o) = (self.expr(arena, t), self.expr(arena, o));
                arena.if_then_else(c, t, o)
            }
            Expr::Compare(op, a, b) if self.is_short(arena, a) && self.is_short(arena, b) => {
                let (a, b) = (arena.cast(DType::Int32, a), arena.cast(DType::Int32, b));
                arena.compare(op, a, b)
            }
            Expr::Cast(a) if arena.dtype(e).is_float() && arena.dtype(e).bytes() <= 4 && self.is_short(arena, a) => {
                let (short, dtype) = (arena.cast(DType::Int32, a), arena.dtype(e));
                arena.cast(dtype, short)
            }
            _ => arena.map_children(e, |arena, child| self.expr(arena, child)),
        };
        self.memo.insert(e, new);
        new
    }

    /// Whether a vector of indices has no more than 32 bits.
    fn is_short(&mut self, arena: &Arena, e: ExprId) -> bool {
        arena.lanes(e) > 1 && is_index_sum(arena, e) && self.ranges.of(arena, e).within(Range::of_type(DType::Int32))
    }
}
