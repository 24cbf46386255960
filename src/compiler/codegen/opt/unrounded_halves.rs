//! Leaves values in `float32` that a program rounds to 16 bits only to compute with them.
//!
//! ```text
//! for i in 64: Y[i] = cast(float16, (X[i] - m) * r) * G[i] + B[i]
//! // becomes, if Y, G and B are float16
//! for i in 64: Y[i] = cast(float16, (X[i] - m) * r * cast(float32, G[i]) + cast(float32, B[i]))
//! ```
//!
//! Region code computes with 16-bit floats in lanes of `float32`, so rounding a value takes an instruction there and one back,
//! and keeps a product from being contracted with a sum. The results have fewer roundings than the program as written. This is not
//! done if floats must be computed as written, nor to terms of a sum, whose loops other passes recognise by their form.

use super::machine::Machine;
use crate::codegen::facts::loads;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, map_expr, map_operands};
use crate::loopir::{Arena, Expr, ExprId, Kernel, Stmt};

/// Rewrites all statements of the kernel. Returns whether there are values to leave unrounded.
pub(super) fn unrounded_halves(kernel: &mut Kernel, machine: &Machine) -> bool {
    let has_halves = kernel.buffers().any(|(_, b)| b.dtype.is_half());
    if !machine.reassociates || !machine.vectors.has_regions() || !has_halves {
        return false;
    }
    let mut memo = ExprMap::default();
    let before = kernel.body;
    kernel.body = kernel.rebuild(before, &mut |kernel, _, id, stmt, out| {
        let is_sum = matches!(stmt, Stmt::Store { buffer, value, .. } if loads(&kernel.arena, value, buffer));
        let new = match is_sum {
            true => stmt,
            false => map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut memo, &mut unrounded)),
        };
        out.push(if new == kernel.stmts.get(id) { id } else { kernel.stmts.push(new) });
    });
    kernel.body != before
}

/// An operation on 16-bit floats, computed in `float32`; `None` unless an operand was rounded for it.
fn unrounded(arena: &mut Arena, e: ExprId) -> Option<ExprId> {
    let Expr::Binary(op, a, b) = arena.expr(e) else { return None };
    let dtype = arena.dtype(e);
    let is_simple = matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max);
    let digits = [a, b].map(|operand| digits_of(arena, operand));
    if !is_simple || !dtype.is_half() || digits == [None; 2] {
        return None;
    }
    let [a, b] =
        [(a, digits[0]), (b, digits[1])].map(|(e, digits)| digits.unwrap_or_else(|| arena.cast(DType::Float32, e)));
    let value = arena.binary(op, a, b);
    Some(arena.cast(dtype, value))
}

/// The value of `float32` that was rounded to a 16-bit float.
fn digits_of(arena: &Arena, e: ExprId) -> Option<ExprId> {
    match arena.expr(e) {
        Expr::Cast(a) if arena.dtype(e).is_half() && arena.dtype(a) == DType::Float32 => Some(a),
        _ => None,
    }
}
