//! Drops comparisons of places from searches for the largest or smallest element that visit the places in order.
//!
//! ```text
//! p = splat(-1, 16)
//! for k in 21 {
//!   let i = select(v > X[k * 64; 16] || v == X[k * 64; 16] && p < splat(k, 16), p, splat(k, 16))
//!   let x = select(v > X[k * 64; 16], v, X[k * 64; 16])
//!   p = i
//!   v = x
//! }
//! // becomes
//! p = splat(-1, 16)
//! for k in 21 {
//!   let i = select(v >= X[k * 64; 16], p, splat(k, 16))
//!   let x = max(v, X[k * 64; 16])
//!   p = i
//!   v = x
//! }
//! ```
//!
//! The register has the number before the loop or a place of an earlier element, so that it is always less than the place of this
//! one. Runs after `promote`, which makes the registers, and `forward`, which finds what they begin with. [`arg_reduce`](super::arg_reduce) does so for contiguous elements.

use super::arg_reduce::both;
use super::walk::replace_loops;
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::{Affine, Arena, Body, Expr, ExprId, For, Kernel, LocalId, Stmt, StmtId, Ty, VarId};

/// Simplifies the searches in all loops.
pub(super) fn ties(kernel: &mut Kernel) {
    kernel.body = body(kernel, kernel.body);
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        let inner = body(kernel, l.body);
        let l = For { body: inner, ..l };
        let inner = in_order(kernel, &l, out);
        let same = kernel.stmts.get(s) == Stmt::For(For { body: inner, ..l });
        out.push(if same { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// The body of a loop without comparisons of places. `before` are the statements before the loop.
fn in_order(kernel: &mut Kernel, l: &For, before: &[StmtId]) -> Body {
    let stmts = kernel.stmts.list(l.body).to_vec();
    let mut new = stmts.clone();
    for (i, &s) in stmts.iter().enumerate() {
        let Stmt::Let { var, value } = kernel.stmts.get(s) else { continue };
        let Some(tie) = Tie::of(&kernel.arena, value) else { continue };
        if !is_later(kernel, l, &stmts, i, &tie, before) {
            continue;
        }
        let arena = &mut kernel.arena;
        let stays = arena.compare(tie.stays, tie.old, tie.element);
        let value = arena.select(stays, tie.old_place, tie.place);
        new[i] = kernel.stmts.push(Stmt::Let { var, value });
        // Some instruction sets compare elements of 64 bits, and have no maximum of them.
        if arena.dtype(tie.old) == DType::Int64 {
            continue;
        }
        // The element that stays is the larger one, the new one if they are equal.
        let extreme = if tie.stays == CmpOp::Ge { BinOp::Max } else { BinOp::Min };
        for stmt in &mut new {
            if let Stmt::Let { var, value } = kernel.stmts.get(*stmt)
                && let Expr::Select(c, a, b) = kernel.arena.expr(value)
                && (c, a, b) == (tie.is_better, tie.old, tie.element)
            {
                let value = kernel.arena.binary(extreme, a, b);
                *stmt = kernel.stmts.push(Stmt::Let { var, value });
            }
        }
    }
    if new == stmts { l.body } else { kernel.stmts.body(&new) }
}

/// The place `(old > x or old == x and p < k ? p : k)`.
struct Tie {
    old: ExprId,
    element: ExprId,
    /// `old > x`, or `<`.
    is_better: ExprId,
    /// `>=`, or `<=`.
    stays: CmpOp,
    /// The place so far, in a register.
    old_place: ExprId,
    place: ExprId,
}

impl Tie {
    fn of(arena: &Arena, e: ExprId) -> Option<Tie> {
        let Expr::Select(condition, old_place, place) = arena.expr(e) else { return None };
        let (is_better, second) = both(arena, condition, BinOp::Or, Intrinsic::BitOr)?;
        let (equal, before) = both(arena, second, BinOp::And, Intrinsic::BitAnd)?;
        let Expr::Compare(better @ (CmpOp::Gt | CmpOp::Lt), old, element) = arena.expr(is_better) else { return None };
        let stays = if better == CmpOp::Gt { CmpOp::Ge } else { CmpOp::Le };
        let is_tie = arena.expr(equal) == Expr::Compare(CmpOp::Eq, old, element)
            && arena.expr(before) == Expr::Compare(CmpOp::Lt, old_place, place)
            && matches!(arena.expr(old_place), Expr::Local(_));
        is_tie.then_some(Tie { old, element, is_better, stays, old_place, place })
    }
}

/// Whether the register of places is less than the place of the `i`-th statement of the loop, wherever this one is evaluated.
fn is_later(kernel: &Kernel, l: &For, stmts: &[StmtId], i: usize, tie: &Tie, before: &[StmtId]) -> bool {
    let arena = &kernel.arena;
    let Expr::Local(register) = arena.expr(tie.old_place) else { return false };
    let counted = arena.as_int(l.extent).zip(Place::of(arena, tie.place, l.var));
    let Some((n, place)) = counted.filter(|(_, place)| place.step > 0) else { return false };
    let last = place.step.checked_mul(n.max(0)).and_then(|end| end.checked_add(place.first));
    if last.is_none_or(|last| last > i64::from(i32::MAX))
        || start(kernel, register, before).is_none_or(|s| s >= place.first)
    {
        return false;
    }
    let value_of = |e: ExprId| {
        let named = |&s: &StmtId| match kernel.stmts.get(s) {
            Stmt::Let { var, value } if arena.as_var(e) == Some(var) => Some(value),
            _ => None,
        };
        stmts.iter().find_map(named).unwrap_or(e)
    };
    stmts.iter().enumerate().all(|(at, &s)| match kernel.stmts.get(s) {
        Stmt::Set { local, value } if local == register => {
            let Expr::Select(_, old, new) = arena.expr(value_of(value)) else { return false };
            // In the iteration before, or in this one already.
            let bound = if at < i { place.first } else { place.first + place.step };
            let is_earlier = |p: Place| p.step == place.step && p.first < bound;
            old == tie.old_place && Place::of(arena, new, l.var).is_some_and(is_earlier)
        }
        _ => !sets(kernel, s, register),
    })
}

/// The number in a register before a loop, if it is constant.
fn start(kernel: &Kernel, register: LocalId, before: &[StmtId]) -> Option<i64> {
    let &s = before.iter().rev().find(|&&s| sets(kernel, s, register))?;
    match kernel.stmts.get(s) {
        Stmt::Set { value, .. } => match kernel.arena.as_const(value)? {
            Const::Int(start) => Some(start),
            Const::Float(_) => None,
        },
        _ => None,
    }
}

/// Whether a statement sets a register.
fn sets(kernel: &Kernel, s: StmtId, register: LocalId) -> bool {
    let is_set = |stmt| matches!(stmt, Stmt::Set { local, .. } if local == register);
    let stmt = kernel.stmts.get(s);
    let mut found = is_set(stmt);
    for body in stmt.bodies() {
        kernel.for_each_stmt(body, &mut |_, stmt| found |= is_set(stmt));
    }
    found
}

/// A place `first + step * k`.
#[derive(Clone, Copy)]
struct Place {
    first: i64,
    step: i64,
}

impl Place {
    fn of(arena: &Arena, e: ExprId, var: VarId) -> Option<Place> {
        match arena.expr(e) {
            Expr::Broadcast(a) => Place::of(arena, a, var),
            Expr::Cast(a) if arena.dtype(e).is_integer() && arena.dtype(e).bytes() >= 4 => Place::of(arena, a, var),
            _ if arena.ty(e) == Ty::INDEX => {
                let affine = Affine::of(arena, e);
                let step = affine.stride(arena, var)?;
                let is_alone = affine.terms.iter().all(|t| arena.as_var(t.0) == Some(var));
                is_alone.then_some(Place { first: affine.constant, step })
            }
            _ => None,
        }
    }
}
