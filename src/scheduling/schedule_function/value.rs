//! The values of schedule functions beside Python's.

use crate::interpreter::value::{MAX_DEPTH, range_items};
use crate::interpreter::{self, OwnValue};
use crate::ir::{BinOp, Symbol};
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Lambda, Rv, RvExpr};
use std::sync::Arc;

/// A value of a schedule function.
pub(super) type Value = interpreter::Value<Own>;

/// A value that only schedule functions have.
#[derive(Clone, Debug)]
pub(super) enum Own {
    /// A block, a loop, or a sampled number.
    Rv(Rv),
    /// Arithmetic on sampled numbers.
    Expr(Arc<RvExpr>),
    /// A function of indices.
    Lambda(Arc<Lambda>),
    /// A constant of a stated type.
    Typed(Symbol, Box<Value>),
    /// The schedule.
    Schedule,
    /// The view of a block or loop that `sch.get` returns.
    View(Rv),
}

impl OwnValue for Own {
    fn depth(&self) -> usize {
        match self {
            Own::Expr(e) => rv_depth(e),
            Own::Rv(_) | Own::Lambda(_) | Own::Typed(..) | Own::Schedule | Own::View(_) => 0,
        }
    }
}

/// The random variable or arithmetic as an expression, and an integer as a constant.
pub(super) fn as_rv_expr(value: &Value, schedule: &Schedule) -> Option<RvExpr> {
    match value {
        Value::Own(Own::Rv(rv)) => schedule.int_value(*rv).map(|_| RvExpr::Rv(*rv)),
        Value::Own(Own::Expr(e)) => Some((**e).clone()),
        Value::Int(v) => Some(RvExpr::Int(*v)),
        Value::Bool(v) => Some(RvExpr::Int(*v as i64)),
        _ => None,
    }
}

/// Converts a value to an argument of its natural type; `None` if no instruction takes such a value.
pub(super) fn to_arg(value: &Value) -> Option<Arg> {
    Some(match value {
        Value::None => Arg::None,
        Value::Bool(v) => Arg::Bool(*v),
        Value::Int(v) => Arg::Int(*v),
        Value::Float(v) => Arg::Float(*v),
        Value::Str(s) => Arg::Str(Symbol::new(s)),
        Value::Sequence(s) => Arg::List(s.items.iter().map(to_arg).collect::<Option<_>>()?),
        Value::Range(a, b, step) => Arg::List(range_items(*a, *b, *step).map(Arg::Int).collect()),
        Value::Dict(items) => {
            Arg::Dict(items.iter().map(|(k, v)| Some((Symbol::new(k), to_arg(v)?))).collect::<Option<_>>()?)
        }
        Value::Own(Own::Rv(rv)) => Arg::Rv(*rv),
        Value::Own(Own::Expr(e)) => Arg::Expr(e.clone()),
        Value::Own(Own::Lambda(l)) => Arg::Lambda(l.clone()),
        Value::Own(Own::Typed(dtype, value)) => Arg::Typed(*dtype, Box::new(to_arg(value)?)),
        Value::Own(Own::Schedule | Own::View(_)) | Value::Function(_) => return None,
    })
}

/// The expression `a op b` on random variables, not simplified; `None` if the nesting would be too deep.
pub(super) fn rv_binary(op: BinOp, a: RvExpr, b: RvExpr) -> Option<RvExpr> {
    let depth = 1 + rv_depth(&a).max(rv_depth(&b));
    (depth <= MAX_DEPTH).then(|| RvExpr::Binary(op, Box::new(a), Box::new(b)))
}

fn rv_depth(e: &RvExpr) -> usize {
    match e {
        RvExpr::Rv(_) | RvExpr::Int(_) => 1,
        RvExpr::Binary(_, a, b) => 1 + rv_depth(a).max(rv_depth(b)),
    }
}
