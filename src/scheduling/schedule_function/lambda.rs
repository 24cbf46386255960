//! Converts lambdas to functions of indices ([`arg::Lambda`](Lambda)). Variables of the schedule function are replaced by
//! their values. Sampled numbers stay symbolic, so that a replay with other decisions gives another map.

use super::code::{self, Code, Expr};
use super::library::{Result, Run};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::code::ExprKind;
use crate::interpreter::operators::not_defined;
use crate::interpreter::type_error;
use crate::ir::{BinOp, CmpOp};
use crate::schedule::arg::{Lambda, LambdaExpr, RvExpr};
use crate::script::python::CompareOp;

/// Converts a lambda to a function of indices.
pub(super) fn evaluate<'a>(run: &mut Run<'a, '_>, l: &'a code::Lambda) -> Result<Lambda> {
    let mut results = Vec::with_capacity(l.results.len());
    for (i, e) in l.results.iter().enumerate() {
        let first = expr(run, e)?;
        results.push(first.clone());
        let Some(ends) = &l.ends else { continue };
        results.push(match ends.get(i) {
            Some(Some(end)) => expr(run, end)?,
            // A single index is a range of length one.
            _ => LambdaExpr::Binary(BinOp::Add, Box::new(first), Box::new(LambdaExpr::Int(1))),
        });
    }
    Ok(Lambda { params: l.params.clone(), results, scalar: l.scalar, ranges: l.ends.is_some() })
}

fn expr<'a>(run: &mut Run<'a, '_>, e: &'a Expr) -> Result<LambdaExpr> {
    run.step(1, e.span)?;
    let boxed = |run: &mut Run<'a, '_>, e: &'a Expr| expr(run, e).map(Box::new);
    Ok(match &e.kind {
        ExprKind::Param(i) => LambdaExpr::Param(*i),
        ExprKind::Own(Code::AxisSeparator) => LambdaExpr::AxisSeparator,
        ExprKind::Neg(a) => match expr(run, a)? {
            LambdaExpr::Int(v) => LambdaExpr::Int(v.checked_neg().ok_or_else(|| overflow(e.span))?),
            LambdaExpr::Float(v) => LambdaExpr::Float(-v),
            // TVM writes a negated index so, too.
            other => LambdaExpr::Binary(BinOp::Mul, Box::new(other), Box::new(LambdaExpr::Int(-1))),
        },
        ExprKind::Not(a) => LambdaExpr::Not(boxed(run, a)?),
        ExprKind::Binary(op, a, b) => {
            let Some(ir_op) = op.arithmetic() else {
                let message = format!("`{}` is not possible in an index map", op.token());
                let d = Diagnostic::error_at("type", e.span, message);
                return Err(d.help("`+`, `-`, `*`, `//` and `%` are").into());
            };
            let (x, y) = (expr(run, a)?, expr(run, b)?);
            folded(ir_op, x, y, e.span)?
        }
        ExprKind::Own(Code::Arithmetic(op, parts)) => {
            let [a, b] = &**parts;
            let (x, y) = (expr(run, a)?, expr(run, b)?);
            folded(*op, x, y, e.span)?
        }
        ExprKind::And(parts) | ExprKind::Or(parts) => {
            let op = if matches!(e.kind, ExprKind::And(_)) { BinOp::And } else { BinOp::Or };
            let mut all = None;
            for part in parts {
                let next = expr(run, part)?;
                all = Some(match all {
                    None => next,
                    Some(before) => LambdaExpr::Binary(op, Box::new(before), Box::new(next)),
                });
            }
            all.unwrap_or(LambdaExpr::Int(1))
        }
        ExprKind::Compare(first, rest) => {
            let mut left = expr(run, first)?;
            let mut all = None;
            for (op, right) in rest {
                let right_value = expr(run, right)?;
                let next = LambdaExpr::Compare(comparison(*op, e.span)?, Box::new(left), Box::new(right_value.clone()));
                all = Some(match all {
                    None => next,
                    Some(before) => LambdaExpr::Binary(BinOp::And, Box::new(before), Box::new(next)),
                });
                left = right_value;
            }
            all.unwrap_or(LambdaExpr::Int(1))
        }
        ExprKind::Conditional(parts) | ExprKind::Own(Code::IfThenElse(parts)) => {
            let [c, a, b] = &**parts;
            LambdaExpr::IfThenElse(Box::new([expr(run, c)?, expr(run, a)?, expr(run, b)?]))
        }
        ExprKind::Own(Code::Typed(dtype, value)) => LambdaExpr::Typed(*dtype, boxed(run, value)?),
        // The compiler makes sure that other expressions do not use the parameters, so they are values.
        _ => {
            let value = run.eval(e)?;
            constant(run, value, e.span)?
        }
    })
}

/// Constants fold, as they do in TVM's constructors.
fn folded(op: BinOp, a: LambdaExpr, b: LambdaExpr, span: Span) -> Result<LambdaExpr> {
    if let (LambdaExpr::Int(x), LambdaExpr::Int(y)) = (&a, &b) {
        let whole = RvExpr::Binary(op, Box::new(RvExpr::Int(*x)), Box::new(RvExpr::Int(*y)));
        return whole.eval(&|_| None).map(LambdaExpr::Int).ok_or_else(|| overflow(span));
    }
    Ok(LambdaExpr::Binary(op, Box::new(a), Box::new(b)))
}

fn overflow(span: Span) -> super::FunctionError {
    not_defined("the result", span)
}

fn comparison(op: CompareOp, span: Span) -> Result<CmpOp> {
    op.of_values().ok_or_else(|| type_error(span, format!("`{}` is not possible in an index map", op.token())))
}

fn constant(run: &Run<'_, '_>, value: Value, span: Span) -> Result<LambdaExpr> {
    Ok(match value {
        Value::Int(v) => LambdaExpr::Int(v),
        Value::Bool(v) => LambdaExpr::Int(v as i64),
        Value::Float(v) => LambdaExpr::Float(v),
        Value::Own(Own::Typed(dtype, inner)) => LambdaExpr::Typed(dtype, Box::new(constant(run, *inner, span)?)),
        Value::Own(Own::Rv(rv)) if run.library.schedule.int_value(rv).is_some() => LambdaExpr::Rv(rv),
        Value::Own(Own::Expr(e)) => of_rv_expr(&e),
        other => {
            let found = other.describe(&run.library);
            return Err(type_error(span, format!("expected a number in an index map, found {found}")));
        }
    })
}

fn of_rv_expr(e: &RvExpr) -> LambdaExpr {
    match e {
        RvExpr::Rv(rv) => LambdaExpr::Rv(*rv),
        RvExpr::Int(v) => LambdaExpr::Int(*v),
        RvExpr::Binary(op, a, b) => LambdaExpr::Binary(*op, Box::new(of_rv_expr(a)), Box::new(of_rv_expr(b))),
    }
}
