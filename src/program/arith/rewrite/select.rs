//! Choices, calls, casts and lets: operands are simplified, those of a choice under its condition.

use super::{Mode, Simplifier};
use crate::ir::DType;
use crate::ir::expr::{Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp, Intrinsic};
use crate::ir::visit::Substitution;

/// `T.Select(c, t, o)`.
pub(super) fn select(s: &mut Simplifier, c: ExprId, t: ExprId, o: ExprId) -> ExprId {
    let (c, t, o) = sides(s, c, t, o);
    match s.arena.as_int(c) {
        Some(0) => o,
        Some(_) => t,
        None if t == o => t,
        None => s.arena.select(c, t, o),
    }
}

/// `T.if_then_else(c, t, o)`.
pub(super) fn if_then_else(s: &mut Simplifier, c: ExprId, t: ExprId, o: ExprId) -> ExprId {
    let (c, t, o) = sides(s, c, t, o);
    if s.arena.as_int(c).is_some() {
        return s.arena.if_then_else(c, t, o);
    }
    // Nested choices with one fallback are one choice.
    if let Expr::IfThenElse(inner, t2, o2) = s.arena.expr(t)
        && o2 == o
        && s.arena.as_const(o).is_some()
    {
        let both = s.arena.and(c, inner);
        return s.arena.if_then_else(both, t2, o);
    }
    s.arena.if_then_else(c, t, o)
}

fn sides(s: &mut Simplifier, c: ExprId, t: ExprId, o: ExprId) -> (ExprId, ExprId, ExprId) {
    let c = s.visit(c);
    let mut facts = vec![c];
    quotient_facts(s, c, &mut facts);
    let t = under(s, &facts, t);
    let opposite = s.arena.not(c);
    let opposite = s.analyzer.rewrite_simplify(s.arena, opposite);
    let o = under(s, &[opposite], o);
    (c, t, o)
}

/// Simplifies the expression under the assumption that the conditions hold.
fn under(s: &mut Simplifier, facts: &[ExprId], e: ExprId) -> ExprId {
    if s.arena.as_const(e).is_some() {
        return e;
    }
    match facts {
        [] => s.visit(e),
        [first, rest @ ..] => {
            let mode: Mode = s.mode;
            s.analyzer.with_constraint(s.arena, *first, |analyzer, arena| {
                under(&mut Simplifier::new(arena, analyzer, mode), rest, e)
            })
        }
    }
}

/// The conditions on `x` that a condition on `x // c` implies.
fn quotient_facts(s: &mut Simplifier, condition: ExprId, out: &mut Vec<ExprId>) {
    match s.arena.expr(condition) {
        Expr::Binary(BinOp::And, x, y) => {
            quotient_facts(s, x, out);
            quotient_facts(s, y, out);
        }
        Expr::Compare(op, x, y) => {
            let (op, quotient, k) = match (s.arena.as_int(x), s.arena.as_int(y)) {
                (None, Some(k)) => (op, x, k),
                (Some(k), None) => (op.swapped(), y, k),
                _ => return,
            };
            let Expr::Binary(BinOp::FloorDiv, x, divisor) = s.arena.expr(quotient) else { return };
            let dtype = s.arena.dtype(x);
            let (Some(c), true) = (s.arena.as_int(divisor), dtype.is_index()) else { return };
            let ends = (k.checked_mul(c), k.checked_add(1).and_then(|k| k.checked_mul(c)));
            let (Some(low), Some(high)) = ends else { return };
            if c <= 0 || !crate::arith::pattern::fits(low, dtype) || !crate::arith::pattern::fits(high, dtype) {
                return;
            }
            let (low, high) = (s.arena.int(low, dtype), s.arena.int(high, dtype));
            match op {
                CmpOp::Eq => out.extend([s.arena.compare(CmpOp::Ge, x, low), s.arena.lt(x, high)]),
                CmpOp::Lt => out.push(s.arena.lt(x, low)),
                CmpOp::Le => out.push(s.arena.lt(x, high)),
                CmpOp::Gt => out.push(s.arena.compare(CmpOp::Ge, x, high)),
                CmpOp::Ge => out.push(s.arena.compare(CmpOp::Ge, x, low)),
                CmpOp::Ne => {}
            }
        }
        _ => {}
    }
}

/// A call of an intrinsic.
pub(super) fn call(s: &mut Simplifier, e: ExprId) -> ExprId {
    let e = s.visit_operands(e);
    let Expr::Call(function, args) = s.arena.expr(e) else { return e };
    let args = s.arena.list(args);
    let (first, second) = (args[0], args.get(1).copied());
    let value = |e: Option<ExprId>| e.and_then(|e| s.arena.as_int(e));
    let dtype = s.arena.dtype(e);
    match function {
        Intrinsic::Likely => {
            if value(Some(first)).is_some() {
                return first;
            }
            s.literal(first).unwrap_or(e)
        }
        Intrinsic::ShiftLeft | Intrinsic::ShiftRight if dtype.is_index() => {
            let (Some(x), Some(y)) = (value(Some(first)), value(second)) else { return e };
            let (Ok(count), bits) = (u32::try_from(y), dtype.bits()) else { return e };
            if count >= bits {
                return e;
            }
            let shifted = if function == Intrinsic::ShiftLeft { x.wrapping_shl(count) } else { x >> count };
            s.arena.int(shifted, dtype)
        }
        Intrinsic::Clz if matches!(s.arena.dtype(first), DType::Int32 | DType::Int64) => {
            let Some(x) = value(Some(first)) else { return e };
            let bits = s.arena.dtype(first).bits();
            let zeros = if bits == 32 { (x as i32).leading_zeros() } else { x.leading_zeros() };
            s.arena.int(zeros as i64, dtype)
        }
        _ => e,
    }
}

/// `T.Let(body, where={v: value})`: trivial values take the variable's place.
pub(super) fn let_(s: &mut Simplifier, v: VarId, value: ExprId, body: ExprId) -> ExprId {
    let value = s.visit(value);
    if s.arena.as_const(value).is_some() || s.arena.as_var(value).is_some() {
        let body = Substitution::of_vars([(v, value)]).apply(s.arena, body);
        return s.visit(body);
    }
    let body = s.visit(body);
    s.arena.let_(v, value, body)
}
