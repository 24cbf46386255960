//! Computes with the low halves of indices where these are all of them.
//!
//! ```text
//! select(splat(i, 64) <= ramp(j, 1, 64), x, y)
//! // becomes, if i and j have at most 32 bits
//! select(cast(int32, splat(i, 64)) <= cast(int32, ramp(j, 1, 64)), x, y)
//! ```
//!
//! Indices have 64 bits, twice as many as lanes of `float32`. Conditions of guarded loads of contiguous elements stay: they become
//! windows of lanes. Indices of elements at any places ([`Arena::gather`]) are within their buffer, so that their low halves say which
//! they are, whatever the sums and products were.

use super::machine::Machine;
use super::walk::map_body;
use crate::codegen::facts::is_index_sum;
use crate::ir::{BinOp, Const, DType};
use crate::loopir::rewrite::{ExprMap, map_operands};
use crate::loopir::{Arena, Body, Expr, ExprId, For, Kernel, Range, Ranges, Stmt};

/// Narrows the vectors of indices in all values.
pub(super) fn narrow_indices(kernel: &mut Kernel, machine: &Machine) {
    if !machine.vectors.has_regions() {
        return;
    }
    let lens = kernel.buffers().map(|(_, b)| b.len).collect();
    let mut pass = Pass { ranges: Ranges::default(), memo: ExprMap::default(), lens };
    kernel.body = pass.body(kernel, kernel.body);
}

struct Pass {
    ranges: Ranges,
    memo: ExprMap,
    /// Number of elements of each buffer.
    lens: Vec<i64>,
}

impl Pass {
    fn body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        map_body(kernel, body, &mut |kernel, stmt| self.stmt(kernel, stmt))
    }

    fn stmt(&mut self, kernel: &mut Kernel, old: Stmt) -> Stmt {
        match old {
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
        }
    }

    fn expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&known) = self.memo.get(&e) {
            return known;
        }
        let new = match arena.expr(e) {
            Expr::Load(buffer, index) if arena.lanes(index) > 1 && arena.dtype(index) == DType::Int64 => {
                if self.lens[buffer.index()] <= i64::from(i32::MAX) {
                    let (low, dtype) = (self.low_half(arena, index), arena.dtype(e));
                    arena.gather(buffer, low, dtype)
                } else {
                    e
                }
            }
            Expr::Load(..) => e,
            Expr::IfThenElse(c, t, o) if is_anywhere(arena, t) => {
                let (c, t, o) = (self.expr(arena, c), self.expr(arena, t), self.expr(arena, o));
                arena.if_then_else(c, t, o)
            }
            Expr::IfThenElse(c, t, o) => {
                let (t, o) = (self.expr(arena, t), self.expr(arena, o));
                arena.if_then_else(c, t, o)
            }
            Expr::Compare(op, a, b) if arena.dtype(a) == DType::Int64 && arena.lanes(a) > 1 => {
                match self.short_sides(arena, a, b) {
                    Some((a, b)) => arena.compare(op, a, b),
                    None => arena.map_children(e, |arena, child| self.expr(arena, child)),
                }
            }
            Expr::Cast(a)
                if arena.dtype(a) == DType::Int64
                    && arena.lanes(a) > 1
                    && arena.dtype(e).is_float()
                    && arena.dtype(e).bytes() <= 4 =>
            {
                match self.short(arena, a) {
                    Some(short) => {
                        let dtype = arena.dtype(e);
                        arena.cast(dtype, short)
                    }
                    None => arena.map_children(e, |arena, child| self.expr(arena, child)),
                }
            }
            _ => arena.map_children(e, |arena, child| self.expr(arena, child)),
        };
        self.memo.insert(e, new);
        new
    }

    /// Both sides of a comparison as `int32`. A constant in a sum moves to the other side if that is a constant, too: the sum may need a
    /// bit more. No such sum wraps around as `int64`: both of its terms have 32 bits.
    fn short_sides(&mut self, arena: &mut Arena, a: ExprId, b: ExprId) -> Option<(ExprId, ExprId)> {
        if let (Some(a), Some(b)) = (self.short(arena, a), self.short(arena, b)) {
            return Some((a, b));
        }
        Some((self.moved(arena, a, b)?, self.moved(arena, b, a)?))
    }

    /// A side of a comparison without its constant term, or as a constant without that of the other side.
    fn moved(&mut self, arena: &mut Arena, side: ExprId, other: ExprId) -> Option<ExprId> {
        let constant = |arena: &Arena, e| match arena.as_const(e) {
            Some(Const::Int(v)) => Some(v),
            _ => None,
        };
        let term = |arena: &Arena, e| match arena.expr(e) {
            Expr::Binary(BinOp::Add, x, c) => constant(arena, c).filter(|&c| i32::try_from(c).is_ok()).map(|c| (x, c)),
            _ => None,
        };
        match constant(arena, side) {
            Some(limit) => {
                let (_, c) = term(arena, other)?;
                let limit = limit.checked_sub(c).filter(|&v| i32::try_from(v).is_ok())?;
                Some(arena.constant(limit, arena.ty(side).with_dtype(DType::Int32)))
            }
            None => {
                constant(arena, other)?;
                let (x, _) = term(arena, side)?;
                self.short(arena, x)
            }
        }
    }

    /// A vector of `int64` as `int32`, if it has no more than 32 bits.
    fn short(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let fits = self.ranges.of(arena, e).within(Range::of_type(DType::Int32));
        fits.then(|| self.low_half(arena, e))
    }

    /// The low halves of a vector of `int64`.
    fn low_half(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if is_index_sum(arena, e) {
            return arena.cast(DType::Int32, e);
        }
        match arena.expr(e) {
            // The place of a row, as sampled rows have it.
            Expr::Broadcast(a) => {
                let (low, lanes) = (self.low_half(arena, a), arena.lanes(e));
                arena.broadcast(low, lanes)
            }
            Expr::Cast(a)
                if matches!(
                    arena.dtype(a),
                    DType::Int32 | DType::Int16 | DType::Int8 | DType::UInt16 | DType::UInt8 | DType::Bool
                ) =>
            {
                let a = self.expr(arena, a);
                arena.cast(DType::Int32, a)
            }
            Expr::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul), a, b) => {
                let (a, b) = (self.low_half(arena, a), self.low_half(arena, b));
                arena.binary(op, a, b)
            }
            Expr::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => match (self.short(arena, a), self.short(arena, b)) {
                (Some(a), Some(b)) => arena.binary(op, a, b),
                _ => self.converted(arena, e),
            },
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.expr(arena, c), self.low_half(arena, t), self.low_half(arena, o));
                arena.select(c, t, o)
            }
            _ => self.converted(arena, e),
        }
    }

    /// The low halves of a value of 64 bits.
    fn converted(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        let e = self.expr(arena, e);
        arena.cast(DType::Int32, e)
    }
}

/// Whether the expression loads elements at any indices.
fn is_anywhere(arena: &Arena, e: ExprId) -> bool {
    matches!(arena.expr(e), Expr::Load(_, index) if arena.lanes(index) > 1)
}
