//! What the methods of the schedule, and operators on its values, do.

use super::FunctionError;
use super::code::Code;
use super::decisions::Decisions;
use super::lambda;
use super::value::{Own, Value, as_rv_expr, rv_binary};
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::call::Arguments;
use crate::interpreter::operators::not_defined;
use crate::interpreter::{self, Library, type_error};
use crate::ir::BinOp;
use crate::schedule::Schedule;
use crate::schedule::arg::RvValue;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::render::of_error;
use crate::script::python::{BinaryOp, CompareOp};
use std::sync::Arc;

/// Instructions of a function at most.
pub(super) const MAX_INSTRUCTIONS: usize = 20_000;

/// A running schedule function.
pub(super) type Run<'a, 's> = interpreter::Run<'a, Scheduling<'s>>;

/// A value of a schedule function, or what stopped it.
pub(super) type Result<T> = std::result::Result<T, FunctionError>;

/// The schedule on which a function works.
pub(super) struct Scheduling<'s> {
    /// The schedule.
    pub schedule: &'s mut Schedule,
    /// Instructions left.
    pub instructions: usize,
    /// Recorded decisions, for sampling instructions without their own.
    pub decisions: Option<Decisions>,
}

impl<'s> Scheduling<'s> {
    /// Before the first instruction.
    pub(super) fn new(schedule: &'s mut Schedule, decisions: Option<Decisions>) -> Scheduling<'s> {
        Scheduling { schedule, instructions: MAX_INSTRUCTIONS, decisions }
    }

    fn is_symbolic(value: &Value) -> bool {
        matches!(value, Value::Own(Own::Rv(_) | Own::Expr(_)))
    }

    /// Arithmetic on integers; with sampled numbers, the result is symbolic.
    fn arithmetic(&self, op: BinOp, a: &Value, b: &Value, span: Span) -> Result<Value> {
        let (Some(x), Some(y)) = (as_rv_expr(a, self.schedule), as_rv_expr(b, self.schedule)) else {
            let (x, y) = (a.describe(self), b.describe(self));
            return Err(type_error(span, format!("expected integers, found {x} and {y}")));
        };
        let symbolic = Self::is_symbolic(a) || Self::is_symbolic(b);
        let expr = rv_binary(op, x, y)
            .ok_or_else(|| Diagnostic::error_at("limit", span, "arithmetic on sampled numbers is nested too deep"))?;
        match (expr.eval(&|rv| self.schedule.int_value(rv)), symbolic) {
            (None, _) => Err(not_defined("the result", span)),
            (Some(v), false) => Ok(Value::Int(v)),
            (Some(_), true) => Ok(Value::Own(Own::Expr(Arc::new(expr)))),
        }
    }
}

impl Library for Scheduling<'_> {
    type Code = Code;
    type Value = Own;
    type Cause = ScheduleError;

    fn stopped(&self, span: Span) -> Option<FunctionError> {
        self.schedule.stop().is_raised().then(|| refused(span, ErrorKind::Stopped.into()))
    }

    fn describe(&self, value: &Own) -> &'static str {
        match value {
            Own::Rv(rv) => match self.schedule.value(*rv) {
                Ok(RvValue::Block(..)) => "a block",
                Ok(RvValue::Loop(..) | RvValue::AtRoot | RvValue::Inlined) => "a loop",
                Ok(RvValue::Int(_)) | Err(_) => "a sampled number",
            },
            Own::Expr(_) => "a sampled number",
            Own::Lambda(_) => "a function",
            Own::Typed(..) => "a typed constant",
            Own::Schedule => "the schedule",
            Own::View(_) => "a view of a loop or block",
        }
    }

    /// The present value of a sampled number.
    fn int(&self, value: &Own) -> Option<i64> {
        match value {
            Own::Rv(rv) => self.schedule.int_value(*rv),
            Own::Expr(e) => e.eval(&|rv| self.schedule.int_value(rv)),
            Own::Lambda(_) | Own::Typed(..) | Own::Schedule | Own::View(_) => None,
        }
    }

    fn truth(run: &mut Run<'_, '_>, value: &Own, _: Span) -> Result<bool> {
        Ok(run.library.int(value) != Some(0))
    }

    fn equal(run: &mut Run<'_, '_>, a: &Value, b: &Value, span: Span) -> Result<bool> {
        let schedule = &run.library.schedule;
        Ok(match (a, b) {
            (Value::Own(Own::Schedule), Value::Own(Own::Schedule)) => true,
            (Value::Own(Own::Rv(x)), Value::Own(Own::Rv(y))) => schedule.value(*x).ok() == schedule.value(*y).ok(),
            (Value::Own(Own::Typed(t, x)), Value::Own(Own::Typed(u, y))) => t == u && run.equal(x, y, span)?,
            _ => false,
        })
    }

    fn binary(run: &mut Run<'_, '_>, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Result<Option<Value>> {
        let library = &run.library;
        if a.int(library).is_none() || b.int(library).is_none() {
            return Ok(None);
        }
        if op == BinaryOp::Div {
            let d = Diagnostic::error_at("type", span, "a sampled number cannot be divided with `/`");
            return Err(d.help("divide integers with `//`").into());
        }
        let Some(op) = op.arithmetic() else {
            let (x, y) = (a.describe(library), b.describe(library));
            return Err(type_error(span, format!("`{}` is not possible between {x} and {y}", op.token())));
        };
        library.arithmetic(op, a, b, span).map(Some)
    }

    fn compare(_: &mut Run<'_, '_>, _: CompareOp, _: &Value, _: &Value, _: Span) -> Result<Option<Value>> {
        Ok(None)
    }

    fn extremum(run: &mut Run<'_, '_>, op: BinOp, a: &Value, b: &Value, span: Span) -> Result<Option<Value>> {
        match a.int(&run.library).and(b.int(&run.library)) {
            Some(_) => run.library.arithmetic(op, a, b, span).map(Some),
            None => Ok(None),
        }
    }

    fn invert(_: &mut Run<'_, '_>, _: &Own, _: Span) -> Result<Option<Value>> {
        Ok(None)
    }

    fn negate(_: &mut Run<'_, '_>, _: &Own, _: Span) -> Result<Option<Value>> {
        Ok(None)
    }

    fn index(_: &mut Run<'_, '_>, _: &Own, _: &Value, _: Span) -> Result<Option<Value>> {
        Ok(None)
    }

    fn attribute(run: &mut Run<'_, '_>, of: &Value, name: &str, span: Span) -> Result<Value> {
        let Value::Own(Own::View(rv)) = of else {
            let found = of.describe(&run.library);
            return Err(type_error(span, format!("{found} has no attribute `{name}`")));
        };
        let schedule = &run.library.schedule;
        let known = match schedule.value(*rv) {
            Ok(RvValue::Loop(func, l)) => {
                let f = schedule.func(func);
                let l = f.loop_(l);
                let constant = |e| f.arena.as_int(e).map(Value::Int);
                match name {
                    "extent" => constant(l.extent),
                    "min" => constant(l.min),
                    _ => return Err(unknown_attribute(name, "loop", "`extent` and `min`", span)),
                }
            }
            Ok(RvValue::Block(func, b)) => match name {
                "name_hint" | "name" => Some(Value::Str(schedule.func(func).block(b).name.as_str().into())),
                _ => return Err(unknown_attribute(name, "block", "`name_hint`", span)),
            },
            _ => None,
        };
        known.ok_or_else(|| type_error(span, format!("`{name}` is not constant")))
    }

    fn call(_: &mut Run<'_, '_>, _: &Own, _: &Arguments<Own>, _: Span) -> Result<Option<Value>> {
        Ok(None)
    }

    fn eval<'a>(run: &mut interpreter::Run<'a, Self>, code: &'a Code, span: Span) -> Result<Value> {
        Ok(match code {
            Code::Lambda(l) => Value::Own(Own::Lambda(Arc::new(lambda::evaluate(run, l)?))),
            Code::Typed(dtype, value) => match run.eval(value)? {
                v @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) => Value::Own(Own::Typed(*dtype, Box::new(v))),
                other => {
                    let found = other.describe(&run.library);
                    return Err(type_error(value.span, format!("expected a constant number, found {found}")));
                }
            },
            Code::Arithmetic(op, parts) => {
                let [a, b] = &**parts;
                let (x, y) = (run.eval(a)?, run.eval(b)?);
                run.library.arithmetic(*op, &x, &y, span)?
            }
            Code::IfThenElse(_) | Code::AxisSeparator => {
                return Err(type_error(span, "only an index map can use this"));
            }
            Code::Method(m) => run.method(m)?,
            Code::Special(which, parts) => run.special(*which, parts, span)?,
        })
    }
}

/// The error of an instruction that the schedule refused.
pub(super) fn refused(span: Span, error: ScheduleError) -> FunctionError {
    let diagnostic = of_error(&error).label(span, "");
    FunctionError { diagnostic: Box::new(diagnostic), refused: Some(Box::new(error)) }
}

fn unknown_attribute(name: &str, what: &str, known: &str, span: Span) -> FunctionError {
    type_error(span, format!("a {what} shows {known} here, not `{name}`"))
}
