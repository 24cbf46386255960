//! Contracts multiplications and additions to fused multiply-adds.
//!
//! ```text
//! c = c + a * b
//! // becomes
//! c = fma(a, b, c)
//! ```
//!
//! This is one operation with one rounding instead of two. It is not done if floats must be computed as written.

use super::machine::Machine;
use crate::ir::{BinOp, DType, Intrinsic};
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
    let Expr::Binary(BinOp::Add, a, b) = arena.expr(e) else { return None };
    if !matches!(arena.dtype(e), DType::Float32 | DType::Float64) {
        return None;
    }
    let (x, y, other) = match (product(arena, a), product(arena, b)) {
        (_, Some((x, y))) => (x, y, a),
        (Some((x, y)), None) => (x, y, b),
        (None, None) => return None,
    };
    Some(arena.call(Intrinsic::Fma, &[x, y, other]))
}

/// The factors of a product, if `e` is one.
fn product(arena: &Arena, e: ExprId) -> Option<(ExprId, ExprId)> {
    match arena.expr(e) {
        Expr::Binary(BinOp::Mul, x, y) => Some((x, y)),
        _ => None,
    }
}
