//! Evaluates both sides of conditions that change from iteration to iteration, if all the elements they read exist anyway.
//!
//! ```text
//! for j in 128: Y[i * 128 + j] = if_then_else(j == i, D[i], X[i * 128 + j])
//! // becomes
//! for j in 128: Y[i * 128 + j] = select(j == i, D[i], X[i * 128 + j])
//! ```
//!
//! The sides of `and` and `or` become operands of `bitwise_and` and `bitwise_or` likewise. Vectors evaluate both sides in any case. Conditions on indices that hold for whole rows stay, and so does what is expensive, or a load that region code makes in part.
//!
//! Loads of elements that may not exist take the condition along, where all else of a side can be computed anyway:
//!
//! ```text
//! for j in 14: Y[j] = if_then_else(0.0 <= G[j], X[I[j]] * W[j], 0.0)
//! // becomes
//! for j in 14: Y[j] = select(0.0 <= G[j], if_then_else(0.0 <= G[j], X[I[j]], 0.0) * W[j], 0.0)
//! ```

use super::machine::Machine;
use super::walk::map_body;
use crate::codegen::facts::can_fail;
use crate::ir::{BinOp, CmpOp, Intrinsic};
use crate::loopir::rewrite::{
    ExprMap, Seen, for_each_expr, for_each_operand, map_expr, map_operands, mentions_var, reads_memory,
};
use crate::loopir::{
    Access, Affine, Arena, Body, Expr, ExprId, For, Kernel, Range, Ranges, Stmt, StmtId, Storage, Ty, VarId,
};

/// Replaces such conditions in all innermost loops; returns whether there was one.
pub(super) fn speculate(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    // The buffers whose elements all have values.
    let known = kernel.buffers().map(|(_, b)| match b.storage {
        Storage::Param(Access::In | Access::InOut) => b.len,
        Storage::Param(Access::Out) | Storage::Scratch(_) => 0,
    });
    let loads_narrow_parts = machine.vectors.has_narrow_masks();
    let mut pass = Pass { loads_narrow_parts, certain: Vec::new(), ranges: Ranges::default(), lens: known.collect() };
    let old = kernel.body;
    kernel.body = pass.body(kernel, old);
    kernel.body != old
}

struct Pass {
    /// Whether vectors of less than 32 bits are loaded in part.
    loads_narrow_parts: bool,
    /// Loads that the current statement makes in any case.
    certain: Vec<ExprId>,
    ranges: Ranges,
    /// Number of elements of each buffer that are known to have values.
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
                let is_innermost = |s: &StmtId| matches!(kernel.stmts.get(*s), Stmt::Store { .. });
                let body = if kernel.stmts.list(l.body).iter().all(is_innermost) {
                    map_body(kernel, l.body, &mut |kernel, store| self.store(kernel, store, l.var))
                } else {
                    self.body(kernel, l.body)
                };
                Stmt::For(For { body, ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (self.body(kernel, then), self.body(kernel, otherwise));
                Stmt::If { condition, then, otherwise }
            }
            Stmt::While { .. } | Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => old,
        }
    }

    fn store(&mut self, kernel: &mut Kernel, old: Stmt, var: VarId) -> Stmt {
        let mut memo = ExprMap::default();
        self.certain.clear();
        let (certain, mut seen) = (&mut self.certain, Seen::default());
        for_each_operand(old, |e| note_certain(&kernel.arena, e, &mut seen, certain));
        map_operands(old, |e| {
            map_expr(&mut kernel.arena, e, &mut memo, &mut |arena, e| match arena.expr(e) {
                Expr::IfThenElse(c, t, o)
                    if arena.lanes(c) == 1
                        && arena.lanes(e) == 1
                        && mentions_var(arena, e, &mut |v| v == var)
                        && !(self.loads_narrow_parts && is_narrow_window(arena, e, var)) =>
                {
                    let fails = arena.not(c);
                    let (yes, no) = (self.guarded(arena, t, c, var)?, self.guarded(arena, o, fails, var)?);
                    let pays =
                        (yes, no) != (t, o) || mentions_var(arena, c, &mut |v| v == var) || compares_values(arena, c);
                    pays.then(|| arena.select(c, yes, no))
                }
                Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b)
                    if arena.lanes(e) == 1
                        && reads_memory(arena, b)
                        && mentions_var(arena, e, &mut |v| v == var)
                        && self.is_safe(arena, b) =>
                {
                    let both = if op == BinOp::And { Intrinsic::BitAnd } else { Intrinsic::BitOr };
                    Some(arena.call(both, &[a, b]))
                }
                _ => None,
            })
        })
    }

    /// A side as it can be evaluated whether or not `condition` holds: elements at scattered places, which may not exist, are loaded only if
    /// it does. `None` if it has other parts that depend on it, or is nothing but such an element.
    fn guarded(&mut self, arena: &mut Arena, side: ExprId, condition: ExprId, var: VarId) -> Option<ExprId> {
        if self.is_safe(arena, side) {
            return Some(side);
        }
        let (mut loads, mut computes, mut fits) = (Vec::new(), false, true);
        for_each_expr(arena, side, &mut |e| {
            fits &= !can_fail(arena, e) && arena.lanes(e) == 1;
            match arena.expr(e) {
                Expr::Load(_, index) if !self.is_safe(arena, e) => {
                    fits &= Affine::of(arena, index).stride(arena, var).is_none() && self.is_safe(arena, index);
                    loads.push(e);
                }
                Expr::Call(f, _) => fits &= is_cheap(f),
                Expr::Local(_) => fits = false,
                Expr::Binary(..) => computes = true,
                _ => {}
            }
        });
        if !fits || !computes || loads.len() > MOST as usize {
            return None;
        }
        let guarded = map_expr(arena, side, &mut ExprMap::default(), &mut |arena, e| match arena.expr(e) {
            Expr::Load(..) if loads.contains(&e) => {
                let zero = arena.constant(0, arena.ty(e));
                Some(arena.if_then_else(condition, e, zero))
            }
            // A load that another condition guards.
            Expr::IfThenElse(own, t, o) => match arena.expr(t) {
                Expr::IfThenElse(c, load, _) if c == condition && loads.contains(&load) => {
                    let both = arena.call(Intrinsic::BitAnd, &[condition, own]);
                    Some(arena.if_then_else(both, load, o))
                }
                _ => None,
            },
            _ => None,
        });
        Some(guarded)
    }

    /// Whether an expression is cheap, cannot fail, and reads only elements that exist.
    fn is_safe(&mut self, arena: &Arena, e: ExprId) -> bool {
        let (mut cost, mut is_safe) = (0, true);
        for_each_expr(arena, e, &mut |e| {
            is_safe &= !can_fail(arena, e);
            match arena.expr(e) {
                Expr::Load(buffer, index) => {
                    cost += i32::from(!self.certain.contains(&e));
                    let elements = Range { lo: 0, hi: self.lens[buffer.index()] - 1 };
                    let mut exists = || arena.lanes(index) == 1 && self.ranges.of(arena, index).within(elements);
                    is_safe &= self.certain.contains(&e) || exists();
                }
                Expr::Call(f, _) if !is_cheap(f) => cost += MOST,
                Expr::Local(_) => is_safe = false,
                _ => {}
            }
        });
        is_safe && cost <= MOST
    }
}

/// Adds the loads that an expression makes whatever its conditions are.
fn note_certain(arena: &Arena, e: ExprId, seen: &mut Seen, certain: &mut Vec<ExprId>) {
    if !seen.insert(e) {
        return;
    }
    match arena.expr(e) {
        Expr::IfThenElse(c, ..) => note_certain(arena, c, seen, certain),
        Expr::Binary(BinOp::And | BinOp::Or, a, _) => note_certain(arena, a, seen, certain),
        _ => {
            if matches!(arena.expr(e), Expr::Load(..)) {
                certain.push(e);
            }
            arena.for_each_child(e, |c| note_certain(arena, c, seen, certain));
        }
    }
}

/// Whether a condition depends on more than indices, so that nothing is known about it when code is generated, and no loop is split at it.
fn compares_values(arena: &Arena, condition: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, condition, &mut |e| {
        found |= matches!(arena.expr(e), Expr::Compare(_, a, _) if arena.dtype(a).is_float());
    });
    found
}

/// Whether an expression is a contiguous load of less than 32 bits between two bounds, and a number outside of them. Region code loads it in
/// part, in lanes as wide as the elements, which has no selections.
fn is_narrow_window(arena: &Arena, e: ExprId, var: VarId) -> bool {
    let Expr::IfThenElse(c, t, o) = arena.expr(e) else { return false };
    let Expr::Load(_, index) = arena.expr(t) else { return false };
    let is_contiguous = Affine::of(arena, index).stride(arena, var) == Some(1);
    arena.dtype(e).bytes() < 4 && is_contiguous && arena.as_const(o).is_some() && are_bounds(arena, c, var)
}

fn are_bounds(arena: &Arena, c: ExprId, var: VarId) -> bool {
    match arena.expr(c) {
        Expr::Binary(BinOp::And, a, b) => are_bounds(arena, a, var) && are_bounds(arena, b, var),
        Expr::Compare(CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge, a, b) if arena.ty(a) == Ty::INDEX => {
            let difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
            difference.stride(arena, var).is_some_and(|s| s.abs() <= 1)
        }
        _ => false,
    }
}

/// Whether a function is an instruction or two.
fn is_cheap(f: Intrinsic) -> bool {
    matches!(
        f,
        Intrinsic::Floor
            | Intrinsic::Ceil
            | Intrinsic::Trunc
            | Intrinsic::Round
            | Intrinsic::NearbyInt
            | Intrinsic::Abs
            | Intrinsic::BitAnd
            | Intrinsic::BitOr
            | Intrinsic::IsNan
    )
}

/// Maximum number of elements that a side reads.
const MOST: i32 = 4;
