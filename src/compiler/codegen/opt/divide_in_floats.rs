//! Divides integers by integers that are not constant as floats, for which vectors have an instruction.
//!
//! ```text
//! for i in 64: C[i] = A[i] // B[i]
//! // becomes, if all are int32
//! for i in 64:
//!   check B[i] != 0 && bitwise_or(A[i] + -2147483648, B[i] + 1) != 0 else division
//!   C[i] = cast(int32, floor(cast(float64, A[i]) / cast(float64, B[i])))
//! ```
//!
//! The result is exact: a quotient `a / b` that is not a whole number differs from the next one by at least `1 / |b|`, which is `1 / |a|`
//! of it. For integers of 32 bits that is 2^-31, and the rounding of a `float64` 2^-53; integers of up to 16 bits are divided as
//! `float32`. What a division would stop the kernel for, a check does, and [`collect_checks`](super::collect_checks) moves it before the
//! loop. Divisions under a condition stay as they are.

use super::machine::Machine;
use super::walk::{map_stmt, replace_loops};
use crate::codegen::facts::can_fail;
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::ExprMap;
use crate::loopir::{Arena, Body, Expr, ExprId, Failure, For, Iterations, Kernel, Stmt, StmtId};

/// Rewrites the divisions of innermost loops with independent iterations. Returns whether there are any.
pub(super) fn divide_in_floats(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let old = kernel.body;
    kernel.body = body(kernel, old);
    kernel.body != old
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        let is_innermost = !kernel.stmts.list(l.body).iter().any(|&s| matches!(kernel.stmts.get(s), Stmt::For(_)));
        let inner = match is_innermost && l.iterations == Iterations::Independent {
            true => divided(kernel, l.body),
            false => body(kernel, l.body),
        };
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// The body of an innermost loop, with checks before the stores that divide.
fn divided(kernel: &mut Kernel, old: Body) -> Body {
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    for s in kernel.stmts.list(old).to_vec() {
        let mut divisions = Divisions::default();
        let new = map_stmt(kernel, s, &mut |kernel, old| match old {
            Stmt::Store { buffer, index, value } => {
                let value = divisions.rewritten(&mut kernel.arena, value);
                Stmt::Store { buffer, index, value }
            }
            other => other,
        });
        let check = |condition| kernel.stmts.push(Stmt::Check { condition, failure: Failure::Division });
        out.extend(divisions.checks.into_iter().map(check));
        out.push(new);
    }
    if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
}

/// The divisions of a value.
#[derive(Default)]
struct Divisions {
    memo: ExprMap,
    /// What must be true for the quotients to exist.
    checks: Vec<ExprId>,
}

impl Divisions {
    fn rewritten(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&done) = self.memo.get(&e) {
            return done;
        }
        let result = match arena.expr(e) {
            // Indices, and what may not be evaluated.
            Expr::Load(..) | Expr::IfThenElse(..) | Expr::Select(..) | Expr::Binary(BinOp::And | BinOp::Or, ..) => e,
            _ => {
                let rebuilt = arena.map_children(e, |arena, c| self.rewritten(arena, c));
                self.in_floats(arena, rebuilt).unwrap_or(rebuilt)
            }
        };
        self.memo.insert(e, result);
        result
    }

    /// A division as one of floats.
    fn in_floats(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let Expr::Binary(op, a, b) = arena.expr(e) else { return None };
        let dtype = arena.dtype(e);
        let float = float_for(dtype)?;
        if !can_fail(arena, e) || arena.as_int(b).is_some() || arena.lanes(e) != 1 {
            return None;
        }
        self.check(arena, a, b);
        let [x, y] = [a, b].map(|e| arena.cast(float, e));
        let quotient = arena.binary(BinOp::Div, x, y);
        let rounded = match op {
            BinOp::FloorDiv | BinOp::FloorMod => arena.call(Intrinsic::Floor, &[quotient]),
            // The conversion rounds towards zero.
            _ => quotient,
        };
        let quotient = arena.cast(dtype, rounded);
        Some(match op {
            BinOp::Mod | BinOp::FloorMod => {
                let whole = arena.mul(quotient, b);
                arena.sub(a, whole)
            }
            _ => quotient,
        })
    }

    /// Requires that the quotient of two integers exists in their type.
    fn check(&mut self, arena: &mut Arena, a: ExprId, b: ExprId) {
        let least = arena.dtype(b).min_value().unwrap_or(0);
        let [a, b] = [a, b].map(|e| arena.cast(DType::Int32, e));
        let zero = arena.int(0, DType::Int32);
        let mut condition = arena.compare(CmpOp::Ne, b, zero);
        if least < 0 {
            // Both are 0 for the smallest integer divided by -1. One comparison needs fewer mask registers than two.
            let (from_least, from_minus_one) = (arena.add_const(a, -least), arena.add_const(b, 1));
            let either = arena.call(Intrinsic::BitOr, &[from_least, from_minus_one]);
            let fits = arena.compare(CmpOp::Ne, either, zero);
            condition = arena.and(condition, fits);
        }
        if !self.checks.contains(&condition) {
            self.checks.push(condition);
        }
    }
}

/// The float type in which quotients of integers of this type are exact.
fn float_for(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Int32 => Some(DType::Float64),
        DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16 => Some(DType::Float32),
        _ => None,
    }
}

/// `a // d` of an `int32` by a constant larger than 1, as a product of `float64`. Half of one is added first, so that the distance to
/// the next whole number is at least `0.5 / d` everywhere, which exceeds all rounding errors.
pub(super) fn quotient_by_product(arena: &mut Arena, a: ExprId, d: i64) -> ExprId {
    let double = |arena: &mut Arena, v| arena.float(v, DType::Float64);
    let (half, factor) = (double(arena, 0.5), double(arena, 1.0 / d as f64));
    let x = arena.cast(DType::Float64, a);
    let x = arena.add(x, half);
    let quotient = arena.mul(x, factor);
    let whole = arena.call(Intrinsic::Floor, &[quotient]);
    arena.cast(DType::Int32, whole)
}
