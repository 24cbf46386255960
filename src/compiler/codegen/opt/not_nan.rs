//! Simplifies conditions that exclude NaN.
//!
//! ```text
//! abs(x) == inf && !isnan(x)                           becomes  abs(x) == inf
//! (abs(x) != inf || isnan(x)) && !isnan(x)             becomes  abs(x) < inf
//! ```
//!
//! Tests for infinite and finite numbers are written so. One comparison takes a third of the time of three conditions, where elements
//! come from a near cache.

use crate::ir::{BinOp, CmpOp, Const, Intrinsic};
use crate::loopir::{Arena, Expr, ExprId};

/// The conjunction of two conditions, if one of them says that a value is not NaN, and both together are one comparison.
pub(super) fn conjunction(arena: &mut Arena, a: ExprId, b: ExprId) -> Option<ExprId> {
    let (condition, x) = match (number(arena, a), number(arena, b)) {
        (_, Some(x)) => (a, x),
        (Some(x), None) => (b, x),
        (None, None) => return None,
    };
    if is_false_for_nan(arena, condition, x) {
        return Some(condition);
    }
    // Where the value is no NaN, a disjunction with that condition is the rest of it.
    let rest = match arena.expr(condition) {
        Expr::Binary(BinOp::Or, a, b) if nan(arena, b) == Some(x) => a,
        Expr::Binary(BinOp::Or, a, b) if nan(arena, a) == Some(x) => b,
        _ => condition,
    };
    match arena.expr(rest) {
        Expr::Compare(CmpOp::Ne, magnitude, limit)
            if magnitude_of(arena, magnitude) == Some(x) && is_infinity(arena, limit) =>
        {
            Some(arena.compare(CmpOp::Lt, magnitude, limit))
        }
        _ => None,
    }
}

/// The value of which a condition says that it is NaN.
fn nan(arena: &Arena, e: ExprId) -> Option<ExprId> {
    match arena.expr(e) {
        Expr::Call(Intrinsic::IsNan, list) => arena.list(list).first().copied(),
        _ => None,
    }
}

/// The value of which a condition says that it is not NaN.
fn number(arena: &Arena, e: ExprId) -> Option<ExprId> {
    match arena.expr(e) {
        Expr::Not(a) => nan(arena, a),
        _ => None,
    }
}

fn magnitude_of(arena: &Arena, e: ExprId) -> Option<ExprId> {
    match arena.expr(e) {
        Expr::Call(Intrinsic::Abs, list) => arena.list(list).first().copied(),
        _ => None,
    }
}

/// Whether a condition does not hold if a value is NaN.
fn is_false_for_nan(arena: &Arena, e: ExprId, x: ExprId) -> bool {
    let is_nan = |e| e == x || magnitude_of(arena, e) == Some(x);
    match arena.expr(e) {
        Expr::Compare(CmpOp::Ne, ..) => false,
        Expr::Compare(_, a, b) => arena.dtype(a).is_float() && (is_nan(a) || is_nan(b)),
        _ => false,
    }
}

fn is_infinity(arena: &Arena, e: ExprId) -> bool {
    matches!(arena.expr(e), Expr::Float(_)) && arena.as_const(e) == Some(Const::Float(f64::INFINITY))
}
