//! Values as scalar expressions. TVM's rules: a Python integer is an `int32`, or an `int64` if it needs one, and a Python float a
//! `float32`; operands are converted to a common type.

use super::library::{Result, Run};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::type_error;
use crate::ir::{DType, ExprId};
use std::sync::Arc;

/// A value as a scalar expression.
pub(super) fn to_expr(run: &mut Run<'_>, value: &Value, span: Span) -> Result<ExprId> {
    if let Some(e) = as_expr(run, value) {
        return Ok(e);
    }
    let found = value.describe(&run.library);
    let d = Diagnostic::error_at("type", span, format!("expected a scalar expression, found {found}"));
    Err(match value {
        Value::Own(Own::Tensor(t)) => {
            let te = &run.library.te;
            let indices = vec!["…"; te.shape(*t).len()].join(", ");
            d.help(format!("take an element: `{}[{indices}]`", te.buffer_name(*t)))
        }
        Value::Own(Own::Slice(t, given)) => {
            let te = &run.library.te;
            let (name, rank) = (te.buffer_name(*t), te.shape(*t).len());
            d.help(format!("`{name}` has {rank} dimensions, and {} indices are given", given.len()))
        }
        Value::Own(Own::Reduction(..)) => {
            d.help("a reduction is the whole value of an element; put what follows into a `te.compute` of its own")
        }
        _ => d,
    }
    .into())
}

/// A value as a scalar expression, if it is one.
pub(super) fn as_expr(run: &mut Run<'_>, value: &Value) -> Option<ExprId> {
    let te = &mut run.library.te;
    Some(match value {
        Value::Int(v) => te.int(*v, if i32::try_from(*v).is_ok() { DType::Int32 } else { DType::Int64 }),
        Value::Bool(v) => te.bool(*v),
        Value::Float(v) => {
            let wide = v.is_finite() && v.abs() > f32::MAX as f64;
            te.float(*v, if wide { DType::Float64 } else { DType::Float32 })
        }
        Value::Own(Own::Expr(e)) => *e,
        Value::Own(Own::Axis(a)) => te.var_expr(a.var),
        _ => return None,
    })
}

/// Both operands in their common type.
pub(super) fn matched(run: &mut Run<'_>, a: ExprId, b: ExprId, span: Span) -> Result<(ExprId, ExprId)> {
    let te = &mut run.library.te;
    let (ta, tb) = (te.dtype(a), te.dtype(b));
    for t in [ta, tb] {
        if matches!(t, DType::Str | DType::Handle) {
            return Err(type_error(span, format!("expected a number, found `{t}`")));
        }
    }
    let common = ta.common(tb);
    Ok((te.converted(common, a), te.converted(common, b)))
}

/// A condition.
pub(super) fn condition(run: &mut Run<'_>, value: &Value, span: Span) -> Result<ExprId> {
    let e = to_expr(run, value, span)?;
    let te = &mut run.library.te;
    match te.dtype(e) {
        DType::Bool => Ok(e),
        found => {
            if let Some(v) = te.as_int(e) {
                return Ok(te.bool(v != 0));
            }
            let d =
                Diagnostic::error_at("type", span, format!("expected a condition, found a value of type `{found}`"));
            Err(d.help("compare it, for example with `!= 0`").into())
        }
    }
}

/// An integer expression, such as an extent or an index.
pub(super) fn integer(run: &mut Run<'_>, value: &Value, span: Span) -> Result<ExprId> {
    // TVM takes floats that stand for integers, which `/` gives.
    if let Value::Float(v) = value
        && v.fract() == 0.0
        && v.abs() < 1e15
    {
        return to_expr(run, &Value::Int(*v as i64), span);
    }
    let e = to_expr(run, value, span)?;
    let dtype = run.library.te.dtype(e);
    if dtype.is_integer() || dtype == DType::Bool {
        return Ok(e);
    }
    let d = Diagnostic::error_at("type", span, format!("expected an integer, found a value of type `{dtype}`"));
    Err(d.help("convert it: `x.astype(\"int32\")`").into())
}

/// A list of integer expressions; a single one is a list of one.
pub(super) fn integers(run: &mut Run<'_>, value: &Value, span: Span) -> Result<Vec<ExprId>> {
    match value {
        Value::Sequence(s) => s.items.iter().map(|v| integer(run, v, span)).collect(),
        Value::Range(..) => {
            let items = run.iterate(value.clone(), span)?;
            items.iter().map(|v| integer(run, v, span)).collect()
        }
        one => Ok(vec![integer(run, one, span)?]),
    }
}

/// An element type by its name.
pub(super) fn dtype_of(run: &Run<'_>, value: &Value, span: Span) -> Result<DType> {
    match value {
        Value::Str(name) => match name.parse::<DType>() {
            Ok(dtype) if !matches!(dtype, DType::Str | DType::Handle) => Ok(dtype),
            _ => {
                let names = DType::ELEMENTS.iter().map(|t| t.name());
                let near = crate::diagnostic::nearest(name, names).map(|n| format!("did you mean `{n}`?"));
                Err(type_error::<super::library::Cause>(span, format!("`{name}` is no data type of elements"))).map_err(
                    |mut e| {
                        e.diagnostic.help = near;
                        e
                    },
                )
            }
        },
        Value::Own(Own::Function(f)) if f.name().rsplit('.').next().is_some_and(|n| n.parse::<DType>().is_ok()) => {
            let name: Arc<str> = f.name().rsplit('.').next().unwrap_or_default().into();
            dtype_of(run, &Value::Str(name), span)
        }
        other => {
            let found = other.describe(&run.library);
            Err(type_error(span, format!("expected the name of a data type, such as `\"float32\"`, found {found}")))
        }
    }
}

/// A conversion.
pub(super) fn cast_to(run: &mut Run<'_>, dtype: DType, value: ExprId, span: Span) -> Result<ExprId> {
    let found = run.library.te.dtype(value);
    if matches!(found, DType::Str | DType::Handle) {
        return Err(type_error(span, format!("expected a number, found `{found}`")));
    }
    Ok(run.library.te.converted(dtype, value))
}
