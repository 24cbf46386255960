//! What operators, attributes and methods do to tensors, axes and scalar expressions.

use super::define;
use super::expr::{as_expr, cast_to, condition, dtype_of, integer, matched, to_expr};
use super::function::Function;
use super::knob;
use super::limits::{Sizes, limited};
use super::scalar;
use super::scheduling::{self, Scheduling};
use super::stage_methods;
use super::topi;
use super::value::{Own, Value, expr, tensor};
use super::vocabulary::Code;
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::call::Arguments;
use crate::interpreter::{self, Failure, Library, type_error};
use crate::ir::{BinOp, CmpOp, DType, ExprId, Intrinsic, VarId};
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::render::of_error;
use crate::script::python::{BinaryOp, CompareOp};
use crate::te::{Te, Tensor};
use std::rc::Rc;

/// Definitions fail by the text's own mistakes only; schedules also because instructions are refused.
pub(super) type Cause = ScheduleError;

/// A running text with tensor expressions.
pub(super) type Run<'a> = interpreter::Run<'a, Tensors>;

/// A value, or what stopped the run.
pub(super) type Result<T> = std::result::Result<T, Failure<Cause>>;

/// The most tensors that one text may define.
pub(super) const MAX_TENSORS: usize = 2_000;

/// The tensors that a text has defined so far.
pub(super) struct Tensors {
    /// The stages.
    pub te: Te,
    /// Tensors so far, for the limit.
    pub n_tensors: usize,
    /// Tensors whose layout is free, by the attribute of a stage.
    pub layout_free: Vec<Tensor>,
    /// Variables that the text made (`te.var`).
    pub symbols: Vec<VarId>,
    /// Suspicious constructs.
    pub warnings: Vec<Diagnostic>,
    /// Sizes of expressions.
    pub sizes: Sizes,
    /// Schedules of the stages.
    pub scheduling: Scheduling,
}

impl Tensors {
    /// Without tensors.
    pub(super) fn new() -> Tensors {
        let mut te = Te::new();
        te.set_index_type(DType::Int32);
        te.simplify_elements();
        Tensors {
            te,
            n_tensors: 0,
            layout_free: Vec::new(),
            symbols: Vec::new(),
            warnings: Vec::new(),
            sizes: Sizes::default(),
            scheduling: Scheduling::default(),
        }
    }
}

/// Counts tensors, which are limited.
pub(super) fn count_tensors(run: &mut Run<'_>, n: usize, span: Span) -> Result<()> {
    run.library.n_tensors += n;
    if run.library.n_tensors > MAX_TENSORS {
        let message = format!("gave up after {MAX_TENSORS} tensors");
        return Err(Diagnostic::error_at("limit", span, message).into());
    }
    Ok(())
}

/// The element of a tensor, or the tensor with fewer indices than it has dimensions.
fn element(run: &mut Run<'_>, t: Tensor, before: &[ExprId], at: &Value, span: Span) -> Result<Value> {
    let items = match at {
        Value::Sequence(s) => s.items.clone(),
        one => vec![one.clone()],
    };
    let mut indices = before.to_vec();
    for item in &items {
        indices.push(integer(run, item, span)?);
    }
    let te = &mut run.library.te;
    let rank = te.shape(t).len();
    if indices.len() > rank {
        let name = te.buffer_name(t);
        let dimensions = if rank == 1 { "dimension" } else { "dimensions" };
        let message = format!("`{name}` has {rank} {dimensions}, found {} indices", indices.len());
        return Err(Diagnostic::error_at("index-count", span, message).into());
    }
    if indices.len() < rank {
        return Ok(Value::Own(Own::Slice(t, indices.into())));
    }
    let e = te.at(t, &indices);
    limited(run, expr(e), span)
}

impl Library for Tensors {
    type Code = Code;
    type Value = Own;
    type Cause = Cause;

    fn stopped(&self, span: Span) -> Option<Failure<Cause>> {
        let sampler = self.scheduling.sampler.as_ref()?;
        sampler.stop().is_raised().then(|| {
            let error = ScheduleError::from(ErrorKind::Stopped);
            let diagnostic = Box::new(of_error(&error).label(span, ""));
            Failure { diagnostic, refused: Some(Box::new(error)) }
        })
    }

    fn describe(&self, value: &Own) -> &'static str {
        match value {
            Own::Expr(_) => "a scalar expression",
            Own::Axis(_) => "an axis",
            Own::Tensor(_) => "a tensor",
            Own::Slice(..) => "a tensor with too few indices",
            Own::Operation(_) => "an operation",
            Own::Reduction(..) => "a reduction",
            Own::Reducer(_) => "a reducer",
            Own::Function(_) => "a function",
            Own::Schedule(_) => "a schedule",
            Own::Stage(..) => "a stage",
            Own::StageOperation(..) => "an operation",
            Own::StageAxis(..) | Own::KnobAxis(_) => "an axis",
            Own::Thread(_) => "a thread axis",
            Own::Config => "a configuration",
            Own::Entity(_) => "a knob",
        }
    }

    /// The value of a constant integer.
    fn int(&self, value: &Own) -> Option<i64> {
        match value {
            Own::Expr(e) => self.te.as_int(*e),
            _ => None,
        }
    }

    fn truth(run: &mut Run<'_>, value: &Own, span: Span) -> Result<bool> {
        match value {
            Own::Expr(e) => match run.library.te.as_int(*e) {
                Some(v) => Ok(v != 0),
                None => {
                    let message =
                        "the condition is not known while tensors are defined: it depends on indices or elements";
                    let d = Diagnostic::error_at("type", span, message);
                    Err(d
                        .help("choose values with `tvm.tir.if_then_else(…)`, and combine conditions with `tvm.tir.all(…)`")
                        .into())
                }
            },
            _ => Ok(true),
        }
    }

    fn equal(_: &mut Run<'_>, a: &Value, b: &Value, _: Span) -> Result<bool> {
        Ok(match (a, b) {
            (Value::Own(Own::Tensor(x)), Value::Own(Own::Tensor(y))) => x == y,
            (Value::Own(Own::Operation(x)), Value::Own(Own::Operation(y))) => x == y,
            (Value::Own(Own::Axis(x)), Value::Own(Own::Axis(y))) => x == y,
            (Value::Own(Own::Expr(x)), Value::Own(Own::Expr(y))) => x == y,
            (Value::Own(Own::StageAxis(s, x)), Value::Own(Own::StageAxis(t, y))) => (s, x) == (t, y),
            (Value::Own(Own::KnobAxis(x)), Value::Own(Own::KnobAxis(y))) => x == y,
            (Value::Own(Own::StageOperation(s, x)), Value::Own(Own::StageOperation(t, y))) => (s, x) == (t, y),
            _ => false,
        })
    }

    fn binary(run: &mut Run<'_>, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Result<Option<Value>> {
        if let (Value::Own(Own::Tensor(_)), _) | (_, Value::Own(Own::Tensor(_))) = (a, b) {
            return topi::operator(run, op, a, b, span);
        }
        if let (Value::Own(_), Value::Str(_) | Value::Sequence(_) | Value::None | Value::Dict(_)) = (a, b) {
            return Ok(None);
        }
        let (x, y) = (to_expr(run, a, span)?, to_expr(run, b, span)?);
        if let Some(arithmetic) = op.arithmetic() {
            let e = scalar::arithmetic(run, arithmetic, x, y, op.token(), span)?;
            return limited(run, expr(e), span).map(Some);
        }
        let (x, y) = match op {
            BinaryOp::MatMul => return Ok(None),
            _ => matched(run, x, y, span)?,
        };
        let e = match op {
            BinaryOp::Div => {
                if !run.library.te.dtype(x).is_float() {
                    let d = Diagnostic::error_at("type", span, "`/` of integers is ambiguous");
                    return Err(d
                        .help("write `//` to round down, or `te.truncdiv(a, b)` to round towards zero")
                        .into());
                }
                scalar::arithmetic(run, BinOp::Div, x, y, "/", span)?
            }
            BinaryOp::Pow => scalar::intrinsic(run, Intrinsic::Pow, &[x, y], "**", span)?,
            _ => {
                let function = match op {
                    BinaryOp::Shl => Intrinsic::ShiftLeft,
                    BinaryOp::Shr => Intrinsic::ShiftRight,
                    BinaryOp::BitAnd => Intrinsic::BitAnd,
                    BinaryOp::BitOr => Intrinsic::BitOr,
                    _ => Intrinsic::BitXor,
                };
                scalar::bits(run, function, &[x, y], op.token(), span)?
            }
        };
        limited(run, expr(e), span).map(Some)
    }

    fn compare(run: &mut Run<'_>, op: CompareOp, a: &Value, b: &Value, span: Span) -> Result<Option<Value>> {
        let Some(op) = op.of_values() else { return Ok(None) };
        let (Some(x), Some(y)) = (as_expr(run, a), as_expr(run, b)) else { return Ok(None) };
        let (x, y) = matched(run, x, y, span)?;
        let e = run.library.te.compare(op, x, y);
        limited(run, expr(e), span).map(Some)
    }

    fn extremum(run: &mut Run<'_>, _: BinOp, a: &Value, b: &Value, span: Span) -> Result<Option<Value>> {
        if a.int(&run.library).is_some() && b.int(&run.library).is_some() {
            return Ok(None);
        }
        let d = Diagnostic::error_at("type", span, "Python's `min` and `max` compare numbers that are known");
        Err(d.help("write `te.min(a, b)` or `te.max(a, b)`").into())
    }

    fn invert(run: &mut Run<'_>, a: &Own, span: Span) -> Result<Option<Value>> {
        match as_expr(run, &Value::Own(a.clone())) {
            Some(e) => {
                let e = scalar::bits(run, Intrinsic::BitNot, &[e], "~", span)?;
                limited(run, expr(e), span).map(Some)
            }
            None => Ok(None),
        }
    }

    fn negate(run: &mut Run<'_>, a: &Own, span: Span) -> Result<Option<Value>> {
        if let Own::Tensor(t) = a {
            return topi::call_named(run, "negative", vec![tensor(*t)], span).map(Some);
        }
        // TVM's `-x` is `x * -1`.
        match as_expr(run, &Value::Own(a.clone())) {
            Some(e) => {
                let dtype = run.library.te.dtype(e);
                if matches!(dtype, DType::Str | DType::Handle) {
                    return Ok(None);
                }
                let minus_one = run.library.te.constant(-1, dtype);
                let e = run.library.te.mul(e, minus_one);
                limited(run, expr(e), span).map(Some)
            }
            None => Ok(None),
        }
    }

    fn index(run: &mut Run<'_>, of: &Own, at: &Value, span: Span) -> Result<Option<Value>> {
        match of {
            Own::Tensor(t) => element(run, *t, &[], at, span).map(Some),
            Own::Slice(t, before) => element(run, *t, before, at, span).map(Some),
            Own::Schedule(s) => scheduling::index(run, *s, at, span).map(Some),
            Own::Config => knob::index(run, at, span).map(Some),
            _ => Ok(None),
        }
    }

    fn attribute(run: &mut Run<'_>, of: &Value, name: &str, span: Span) -> Result<Value> {
        if let Some(value) = scheduling::attribute(run, of, name, span)? {
            return Ok(value);
        }
        match knob::attribute(run, of, name, span)? {
            Some(value) => Ok(value),
            None => define::attribute(run, of, name, span),
        }
    }

    fn call(run: &mut Run<'_>, callee: &Own, arguments: &Arguments<Own>, span: Span) -> Result<Option<Value>> {
        match callee {
            Own::Function(f) => call_function(run, *f, arguments, span).map(Some),
            Own::Reducer(r) => define::reduce_by(run, &Rc::clone(r), arguments, span).map(Some),
            // `A(i, j)` is `A[i, j]`.
            Own::Tensor(t) if arguments.keywords.is_empty() => {
                let indices = arguments.positional.iter().map(|(v, _)| v.clone()).collect();
                let at = run.list(indices, true, span)?;
                element(run, *t, &[], &at, span).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn eval<'a>(run: &mut interpreter::Run<'a, Self>, code: &'a Code, span: Span) -> Result<Value> {
        match code {
            Code::Function(f) => Ok(Value::Own(Own::Function(*f))),
            Code::Call(f, args) => {
                let args = run.arguments(args)?;
                call_function(run, *f, &args, span)
            }
            Code::Method(m) => {
                let receiver = run.eval(&m.receiver)?;
                let args = run.arguments(&m.args)?;
                method(run, &receiver, &m.name, m.name_span, &args, span)
            }
        }
    }
}

/// Calls a function of a module.
fn call_function(run: &mut Run<'_>, f: Function, args: &Arguments<Own>, span: Span) -> Result<Value> {
    let value = match f {
        Function::Define(f) => f.call(run, args, span),
        Function::Scalar(f) => {
            // Of tensors, `te.exp` and the like are those of `topi`.
            if let [(Value::Own(Own::Tensor(_)), _), ..] = args.positional[..]
                && let Some(operator) = topi::find(f.name)
            {
                return topi::call(run, operator, args, span);
            }
            f.call(run, args, span)
        }
        Function::Topi(f) => topi::call(run, f, args, span),
    }?;
    limited(run, value, span)
}

/// `receiver.name(…)`
fn method(
    run: &mut Run<'_>,
    receiver: &Value,
    name: &str,
    name_span: Span,
    args: &Arguments<Own>,
    span: Span,
) -> Result<Value> {
    if let Some(value) = stage_methods::call(run, receiver, name, name_span, args, span)? {
        return Ok(value);
    }
    if let Some(value) = knob::call(run, receiver, name, name_span, args, span)? {
        return Ok(value);
    }
    match (receiver, name, &args.positional[..]) {
        (Value::Own(Own::Tensor(t)), "astype", [dtype, ..]) => {
            topi::call_named(run, "cast", vec![tensor(*t), dtype.0.clone()], span)
        }
        (_, "astype", [(dtype, at), ..]) => {
            let value = to_expr(run, receiver, span)?;
            let dtype = dtype_of(run, dtype, *at)?;
            let e = cast_to(run, dtype, value, span)?;
            limited(run, expr(e), span)
        }
        (_, "equal", [(other, at)]) => {
            let (x, y) = (to_expr(run, receiver, span)?, to_expr(run, other, *at)?);
            let (x, y) = matched(run, x, y, span)?;
            Ok(expr(run.library.te.compare(CmpOp::Eq, x, y)))
        }
        (Value::Own(Own::Operation(t)), "output", [(at, _)]) => define::output(run, *t, at, span),
        (Value::Own(Own::StageOperation(schedule, stage)), "output", [_]) => {
            match run.library.scheduling.created[*schedule].tensor_of(*stage) {
                Some(t) => Ok(tensor(t)),
                None => Err(type_error(span, "the operation has no output here")),
            }
        }
        (Value::Dict(items), "get", [(Value::Str(key), _), more @ ..]) => {
            let found = items.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
            Ok(found.or(more.first().map(|(v, _)| v.clone())).unwrap_or(Value::None))
        }
        (Value::Str(text), "format" | "join" | "startswith" | "endswith", _) => {
            text_method(run, text, name, args, span)
        }
        _ => {
            // A function in a variable of another value: `obj.f(…)`.
            let found = receiver.describe(&run.library);
            Err(Diagnostic::error_at("unknown-method", name_span, format!("{found} has no method `{name}`")).into())
        }
    }
}

/// Methods of texts.
fn text_method(run: &mut Run<'_>, text: &str, name: &str, args: &Arguments<Own>, span: Span) -> Result<Value> {
    let mut texts = Vec::new();
    for (value, at) in &args.positional {
        let items = match (name, value) {
            ("join", Value::Sequence(_)) => run.iterate(value.clone(), *at)?,
            _ => vec![value.clone()],
        };
        for item in items {
            texts.push(run.text(&item, *at)?);
        }
    }
    match (name, &texts[..]) {
        ("startswith", [part]) => Ok(Value::Bool(text.starts_with(part))),
        ("endswith", [part]) => Ok(Value::Bool(text.ends_with(part))),
        ("join", _) => run.limited(texts.join(text), span),
        ("format", _) => {
            let mut result = text.to_owned();
            for (i, part) in texts.iter().enumerate() {
                result = result.replace(&format!("{{{i}}}"), part).replacen("{}", part, 1);
            }
            run.limited(result, span)
        }
        _ => Err(type_error(span, format!("`{name}` is not called like this"))),
    }
}

/// A condition that is known to hold, or known not to.
pub(super) fn known(run: &mut Run<'_>, value: &Value, span: Span) -> Result<Option<bool>> {
    let e = condition(run, value, span)?;
    Ok(run.library.te.as_int(e).map(|v| v != 0))
}
