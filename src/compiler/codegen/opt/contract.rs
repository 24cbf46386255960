//! Contracts multiplications and additions to fused multiply-adds.
//!
//! ```text
//! c = c + a * b
//! // becomes
//! c = fma(a, b, c)
//! ```
//!
//! Likewise differences, if an operand is a constant: `x - y * 2.0` is `fma(y, -2.0, x)`.
//!
//! This is one operation with one rounding instead of two. It is not done if floats must be computed as written.

use super::machine::Machine;
use crate::ir::{BinOp, Const, DType, Intrinsic};
use crate::loopir::rewrite::{ExprMap, map_expr, map_operands};
use crate::loopir::{Arena, Expr, ExprId, Kernel};

/// Contracts all sums of products of `float32` and `float64`.
pub(super) fn contract(kernel: &mut Kernel, machine: &Machine) {
    if !machine.contracts {
        return;
    }
    let mut memo = ExprMap::default();
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let new = map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut memo, &mut sum));
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
}

fn sum(arena: &mut Arena, e: ExprId) -> Option<ExprId> {
    if !matches!(arena.dtype(e), DType::Float32 | DType::Float64) {
        return None;
    }
    let (x, y, other) = match arena.expr(e) {
        Expr::Binary(BinOp::Add, a, b) => match (product(arena, a), product(arena, b)) {
            (_, Some((x, y))) => (x, y, a),
            (Some((x, y)), None) => (x, y, b),
            (None, None) => return None,
        },
        // A constant is negated instead of a product.
        Expr::Binary(BinOp::Sub, a, b) => match (product(arena, a), product(arena, b)) {
            (_, Some((x, y))) if negated(arena, y).is_some() => (x, negated(arena, y)?, a),
            (_, Some((x, y))) => (negated(arena, x)?, y, a),
            (Some((x, y)), None) => (x, y, negated(arena, b)?),
            (None, None) => return None,
        },
        _ => return None,
    };
    Some(arena.call(Intrinsic::Fma, &[x, y, other]))
}

/// The opposite of a constant; `None` for other values.
fn negated(arena: &mut Arena, e: ExprId) -> Option<ExprId> {
    let Some(Const::Float(value)) = arena.as_const(e) else { return None };
    let (dtype, lanes) = (arena.dtype(e), arena.lanes(e));
    let opposite = arena.float(-value, dtype);
    Some(arena.broadcast(opposite, lanes))
}

/// The factors of a product, if `e` is one.
fn product(arena: &Arena, e: ExprId) -> Option<(ExprId, ExprId)> {
    match arena.expr(e) {
        Expr::Binary(BinOp::Mul, x, y) => Some((x, y)),
        _ => None,
    }
}
