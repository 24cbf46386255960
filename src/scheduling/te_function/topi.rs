//! Calls of `topi`, TVM's operator inventory, which [`crate::topi`] computes.

use super::arguments::Bound;
use super::library::{Cause, Result, Run, count_tensors};
use super::value::{Own, Value, tensor};
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::Failure;
use crate::interpreter::call::Arguments;
use crate::interpreter::type_error;
use crate::ir::Symbol;
use crate::script::python::BinaryOp;
use crate::topi::{self, Argument, Operator, TopiError};

/// The most items of a list that an operator is given.
const MAX_ITEMS: usize = 200;

/// The function called `name` after `topi.`.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    // Python's modules export most functions twice: `topi.nn.relu` is also `topi.relu` in old texts, `topi.math.exp` is `topi.exp`.
    let bare = name.rsplit('.').next().unwrap_or(name);
    let in_module = ["math", "broadcast", "reduction", "transform", "tensor", "generic"];
    let alias = |path: &str| name.split_once('.').is_some_and(|(module, _)| module == path);
    topi::find(name).or_else(|| match in_module.iter().any(|m| alias(m)) {
        true => topi::find(bare),
        false => topi::all().find(|o| o.name.strip_prefix("nn.") == Some(name)),
    })
}

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    topi::all().map(|o| o.name)
}

/// Calls a function.
pub(super) fn call(run: &mut Run<'_>, operator: &'static Operator, args: &Arguments<Own>, span: Span) -> Result<Value> {
    let bound = Bound::of(format!("topi.{}", operator.name), operator.params, args, span)?;
    let mut converted = Vec::new();
    for (name, value, at) in bound.all() {
        converted.push((name, argument(run, &value, at)?));
    }
    apply(run, operator, converted, |name| bound.get(name).1, span)
}

/// Calls a function by its name, with arguments by position.
pub(super) fn call_named(run: &mut Run<'_>, name: &str, values: Vec<Value>, span: Span) -> Result<Value> {
    match topi::find(name) {
        Some(operator) => call(run, operator, &Arguments::positional(values, span), span),
        None => Err(type_error(span, format!("`topi.{name}` is not known here"))),
    }
}

/// An operator on tensors, which is a function of `topi`.
pub(super) fn operator(run: &mut Run<'_>, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Result<Option<Value>> {
    let name = match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "subtract",
        BinaryOp::Mul => "multiply",
        BinaryOp::Div => "divide",
        BinaryOp::FloorDiv => "floor_divide",
        BinaryOp::Mod => "mod",
        _ => return Ok(None),
    };
    call_named(run, name, vec![a.clone(), b.clone()], span).map(Some)
}

fn apply(
    run: &mut Run<'_>,
    operator: &'static Operator,
    args: Vec<(&'static str, Argument)>,
    place: impl Fn(&str) -> Span,
    span: Span,
) -> Result<Value> {
    let topi::Applied { tensors, layout_free } =
        operator.apply(&mut run.library.te, args).map_err(|TopiError { argument, message, help }| {
            let at = argument.map_or(span, place);
            let d = Diagnostic::error_at("topi", at, format!("`topi.{}`: {message}", operator.name));
            Failure::<Cause>::from(d.maybe_help(help))
        })?;
    count_tensors(run, tensors.len(), span)?;
    run.library.layout_free.extend(layout_free);
    match tensors[..] {
        [one] => Ok(tensor(one)),
        _ => run.list(tensors.into_iter().map(tensor).collect(), false, span),
    }
}

/// A value as an argument.
fn argument(run: &mut Run<'_>, value: &Value, span: Span) -> Result<Argument> {
    Ok(match value {
        Value::None => Argument::None,
        Value::Bool(v) => Argument::Bool(*v),
        Value::Int(v) => Argument::Int(*v),
        Value::Float(v) => Argument::Float(*v),
        Value::Str(s) => Argument::Str(Symbol::new(s)),
        Value::Sequence(_) | Value::Range(..) => {
            let items = run.iterate(value.clone(), span)?;
            if items.len() > MAX_ITEMS {
                let message = format!("a list of more than {MAX_ITEMS} items is too long for an operator");
                return Err(Diagnostic::error_at("limit", span, message).into());
            }
            let items = items.iter().map(|v| argument(run, v, span)).collect::<Result<_>>()?;
            Argument::List(items)
        }
        Value::Own(Own::Expr(e)) => Argument::Expr(*e),
        Value::Own(Own::Axis(a)) => Argument::Expr(run.library.te.var_expr(a.var)),
        Value::Own(Own::Tensor(t)) => Argument::Tensor(*t),
        other => {
            let found = other.describe(&run.library);
            return Err(type_error(span, format!("an operator takes tensors and constants, found {found}")));
        }
    })
}
