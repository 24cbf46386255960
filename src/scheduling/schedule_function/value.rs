//! The values of schedule functions.

use crate::ir::BinOp;
use crate::ir::Symbol;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Lambda, Rv, RvExpr, RvValue};
use std::rc::Rc;
use std::sync::Arc;

/// The deepest nesting of lists and dictionaries, and of arithmetic on random variables.
pub(super) const MAX_DEPTH: usize = 60;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// `None`
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(Arc<str>),
    /// A list or a tuple.
    Sequence(Rc<Sequence>),
    /// `range(start, stop, step)`
    Range(i64, i64, i64),
    /// A dictionary with text keys.
    Dict(Rc<Vec<(Arc<str>, Value)>>),
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

/// A list or a tuple.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// The items.
    pub items: Vec<Value>,
    /// Is it a tuple?
    pub tuple: bool,
    /// The depth of the nesting, with this level.
    pub depth: usize,
}

impl Value {
    /// A list or a tuple; `None` if the nesting would be too deep.
    pub(super) fn sequence(items: Vec<Value>, tuple: bool) -> Option<Value> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        (depth <= MAX_DEPTH).then(|| Value::Sequence(Rc::new(Sequence { items, tuple, depth })))
    }

    /// A list of random variables.
    pub(super) fn rvs(rvs: &[Rv]) -> Value {
        let items = rvs.iter().map(|&rv| Value::Rv(rv)).collect();
        Value::Sequence(Rc::new(Sequence { items, tuple: false, depth: 1 }))
    }

    /// The depth of the nesting.
    pub(super) fn depth(&self) -> usize {
        match self {
            Value::Sequence(s) => s.depth,
            Value::Dict(items) => 1 + items.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
            Value::Expr(e) => rv_depth(e),
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Str(_)
            | Value::Range(..)
            | Value::Rv(_)
            | Value::Lambda(_)
            | Value::Typed(..)
            | Value::Schedule
            | Value::View(_) => 0,
        }
    }

    /// The random variable or arithmetic as an expression, and an integer as a constant.
    pub(super) fn as_rv_expr(&self, schedule: &Schedule) -> Option<RvExpr> {
        match self {
            Value::Rv(rv) => schedule.int_value(*rv).map(|_| RvExpr::Rv(*rv)),
            Value::Expr(e) => Some((**e).clone()),
            Value::Int(v) => Some(RvExpr::Int(*v)),
            Value::Bool(v) => Some(RvExpr::Int(*v as i64)),
            Value::None
            | Value::Float(_)
            | Value::Str(_)
            | Value::Sequence(_)
            | Value::Range(..)
            | Value::Dict(_)
            | Value::Lambda(_)
            | Value::Typed(..)
            | Value::Schedule
            | Value::View(_) => None,
        }
    }

    /// The integer value; for a sampled number, its present value.
    pub(super) fn int(&self, schedule: &Schedule) -> Option<i64> {
        match self {
            Value::Int(v) => Some(*v),
            Value::Bool(v) => Some(*v as i64),
            Value::Rv(rv) => schedule.int_value(*rv),
            Value::Expr(e) => e.eval(&|rv| schedule.int_value(rv)),
            Value::None
            | Value::Float(_)
            | Value::Str(_)
            | Value::Sequence(_)
            | Value::Range(..)
            | Value::Dict(_)
            | Value::Lambda(_)
            | Value::Typed(..)
            | Value::Schedule
            | Value::View(_) => None,
        }
    }

    /// The numeric value; for a sampled number, its present value.
    pub(super) fn number(&self, schedule: &Schedule) -> Option<f64> {
        match self {
            Value::Float(v) => Some(*v),
            _ => self.int(schedule).map(|v| v as f64),
        }
    }

    /// Does the value count as true?
    pub(super) fn truth(&self, schedule: &Schedule) -> bool {
        match self {
            Value::None => false,
            Value::Float(v) => *v != 0.0,
            Value::Str(s) => !s.is_empty(),
            Value::Sequence(s) => !s.items.is_empty(),
            Value::Range(a, b, step) => range_len(*a, *b, *step) > 0,
            Value::Dict(items) => !items.is_empty(),
            Value::Bool(_) | Value::Int(_) | Value::Rv(_) | Value::Expr(_) => self.int(schedule) != Some(0),
            Value::Lambda(_) | Value::Typed(..) | Value::Schedule | Value::View(_) => true,
        }
    }

    /// A description of the value for messages, with an article.
    pub(super) fn describe(&self, schedule: &Schedule) -> &'static str {
        match self {
            Value::None => "`None`",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Str(_) => "a text",
            Value::Sequence(s) if s.tuple => "a tuple",
            Value::Sequence(_) => "a list",
            Value::Range(..) => "a range",
            Value::Dict(_) => "a dictionary",
            Value::Rv(rv) => match schedule.value(*rv) {
                Ok(RvValue::Block(..)) => "a block",
                Ok(RvValue::Loop(..) | RvValue::AtRoot | RvValue::Inlined) => "a loop",
                Ok(RvValue::Int(_)) | Err(_) => "a sampled number",
            },
            Value::Expr(_) => "a sampled number",
            Value::Lambda(_) => "a function",
            Value::Typed(..) => "a typed constant",
            Value::Schedule => "the schedule",
            Value::View(_) => "a view of a loop or block",
        }
    }

    /// Converts the value to an argument of its natural type; `None` if no instruction takes such a value.
    pub(super) fn to_arg(&self) -> Option<Arg> {
        Some(match self {
            Value::None => Arg::None,
            Value::Bool(v) => Arg::Bool(*v),
            Value::Int(v) => Arg::Int(*v),
            Value::Float(v) => Arg::Float(*v),
            Value::Str(s) => Arg::Str(Symbol::new(s)),
            Value::Sequence(s) => Arg::List(s.items.iter().map(Value::to_arg).collect::<Option<_>>()?),
            Value::Range(a, b, step) => Arg::List(range_items(*a, *b, *step).map(Arg::Int).collect()),
            Value::Dict(items) => {
                Arg::Dict(items.iter().map(|(k, v)| Some((Symbol::new(k), v.to_arg()?))).collect::<Option<_>>()?)
            }
            Value::Rv(rv) => Arg::Rv(*rv),
            Value::Expr(e) => Arg::Expr(e.clone()),
            Value::Lambda(l) => Arg::Lambda(l.clone()),
            Value::Typed(dtype, value) => Arg::Typed(*dtype, Box::new(value.to_arg()?)),
            Value::Schedule | Value::View(_) => return None,
        })
    }
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

/// The number of items of `range(start, stop, step)`; the step is not zero.
pub(super) fn range_len(start: i64, stop: i64, step: i64) -> usize {
    let distance = if step > 0 { stop as i128 - start as i128 } else { start as i128 - stop as i128 };
    let step = (step as i128).abs();
    usize::try_from((distance.max(0) + step - 1) / step).unwrap_or(usize::MAX)
}

/// The items of `range(start, stop, step)`.
pub(super) fn range_items(start: i64, stop: i64, step: i64) -> impl DoubleEndedIterator<Item = i64> {
    (0..range_len(start, stop, step) as i64).map(move |i| start + i * step)
}
