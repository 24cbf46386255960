//! Reads arguments of a trace from Python expressions: literals, random variables and arithmetic on them, index maps.
//! No program is needed; a text that needs one is a schedule function.

use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::{BinOp, DType, Symbol};
use crate::schedule::arg::{Arg, Lambda, LambdaExpr, Rv, RvExpr};
use crate::script::python::{BinaryOp, Call, Expr, ExprKind, LogicalOp, UnaryOp};
use std::sync::Arc;

/// The random variables by name.
pub(super) trait RvNames {
    /// The variable called `name`.
    fn rv(&self, name: &str) -> Option<Rv>;
    /// All names, for suggestions.
    fn all(&self) -> Vec<&str>;
}

type Result<T> = std::result::Result<T, Diagnostic>;

fn fail(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error_at(code, span, message)
}

fn unsupported(span: Span) -> Diagnostic {
    fail("unsupported", span, "a trace holds plain values, random variables, arithmetic on them and index maps")
}

fn undefined(name: &str, span: Span, names: &dyn RvNames) -> Diagnostic {
    let near = nearest(name, names.all()).map(|n| format!("did you mean `{n}`?"));
    fail("undefined-name", span, format!("random variable `{name}` is not defined")).maybe_help(near)
}

/// The argument of an expression.
pub(super) fn arg(e: &Expr<'_>, names: &dyn RvNames) -> Result<Arg> {
    Ok(match &e.kind {
        ExprKind::None => Arg::None,
        ExprKind::Bool(v) => Arg::Bool(*v),
        ExprKind::Int(_) => Arg::Int(int(e)?),
        ExprKind::Float(v) => Arg::Float(*v),
        ExprKind::Str(s) => Arg::Str(Symbol::new(s)),
        ExprKind::Name(name) => Arg::Rv(names.rv(name).ok_or_else(|| undefined(name, e.span, names))?),
        ExprKind::List(items) | ExprKind::Tuple(items) => {
            Arg::List(items.iter().map(|i| arg(i, names)).collect::<Result<_>>()?)
        }
        ExprKind::Dict(items) => Arg::Dict(items.iter().map(|(k, v)| entry(k, v, names)).collect::<Result<_>>()?),
        ExprKind::Lambda(l) if l.rest.is_none() => {
            let params: Vec<&str> = l.params.iter().map(|p| p.name).collect();
            Arg::Lambda(Arc::new(lambda(&params, &l.body, names)?))
        }
        ExprKind::Unary(UnaryOp::Neg, a) if matches!(a.kind, ExprKind::Int(Some(v)) if v == 1 << 63) => {
            Arg::Int(i64::MIN)
        }
        ExprKind::Unary(UnaryOp::Neg, a) => match arg(a, names)? {
            Arg::Int(v) => Arg::Int(v.checked_neg().ok_or_else(|| too_large(e.span))?),
            Arg::Float(v) => Arg::Float(-v),
            Arg::Rv(_) | Arg::Expr(_) => Arg::Expr(Arc::new(rv_expr(e, names)?)),
            _ => return Err(unsupported(e.span)),
        },
        ExprKind::Binary(..) => match rv_expr(e, names)? {
            RvExpr::Int(v) => Arg::Int(v),
            other => Arg::Expr(Arc::new(other)),
        },
        ExprKind::Call(call) if let Some(map) = index_map(call) => arg(map, names)?,
        ExprKind::Call(call) => match constant(call)? {
            Some((dtype, value)) => Arg::Typed(dtype, Box::new(arg(value, names)?)),
            None if is_float(call) => Arg::Float(non_finite(call).ok_or_else(|| unsupported(e.span))?),
            None => match rv_expr(e, names)? {
                RvExpr::Int(v) => Arg::Int(v),
                other => Arg::Expr(Arc::new(other)),
            },
        },
        _ => return Err(unsupported(e.span)),
    })
}

fn int(e: &Expr<'_>) -> Result<i64> {
    match &e.kind {
        ExprKind::Int(Some(v)) => i64::try_from(*v).map_err(|_| too_large(e.span)),
        _ => Err(too_large(e.span)),
    }
}

fn too_large(span: Span) -> Diagnostic {
    fail("literal", span, "the integer does not fit 64 bits")
}

fn entry(key: &Option<Expr<'_>>, value: &Expr<'_>, names: &dyn RvNames) -> Result<(Symbol, Arg)> {
    let Some(Expr { kind: ExprKind::Str(key), .. }) = key else {
        return Err(fail("type", value.span, "expected a text as the key"));
    };
    // TVM prints texts in dictionaries without quotes.
    let value = match &value.kind {
        ExprKind::Name(name) if names.rv(name).is_none() => Arg::Str(Symbol::new(name)),
        _ => arg(value, names)?,
    };
    Ok((Symbol::new(key), value))
}

/// Whether the call is `float("inf")` or similar: a value without a literal.
fn is_float(call: &Call<'_>) -> bool {
    matches!(call.callee.kind, ExprKind::Name("float"))
}

/// The lambda of `tvm.tirx.IndexMap.from_func(lambda i: …, inverse_index_map=lambda i: …)`, whatever the path of
/// `IndexMap`. The inverse is ignored, because inverses are computed, and so is the type of the indices.
fn index_map<'x, 'a>(call: &'x Call<'a>) -> Option<&'x Expr<'a>> {
    let ExprKind::Attribute(of, name) = &call.callee.kind else { return None };
    let of = match &of.kind {
        ExprKind::Name(name) => name,
        ExprKind::Attribute(_, name) => name.name,
        _ => return None,
    };
    let named = || call.keywords.iter().find(|(k, _)| k.is_some_and(|k| k.name == "mapping_function")).map(|(_, e)| e);
    (of == "IndexMap" && name.name == "from_func").then(|| call.args.first().or_else(named)).flatten()
}

fn non_finite(call: &Call<'_>) -> Option<f64> {
    match &call.args[..] {
        [Expr { kind: ExprKind::Str(s), .. }] => s.parse().ok(),
        _ => None,
    }
}

/// The last name of `T.float32`, `tir.float32` and the like.
fn member<'a>(callee: &Expr<'a>) -> Option<&'a str> {
    match &callee.kind {
        ExprKind::Attribute(_, name) => Some(name.name),
        _ => None,
    }
}

/// Type and value of `T.float32(0)`.
fn constant<'x, 'a>(call: &'x Call<'a>) -> Result<Option<(Symbol, &'x Expr<'a>)>> {
    match (member(&call.callee), &call.args[..]) {
        (Some(name), [value]) if name.parse::<DType>().is_ok() => Ok(Some((Symbol::new(name), value))),
        (Some(name), _) if name.parse::<DType>().is_ok() => {
            Err(fail("argument-count", call.args_span, format!("expected one value for `T.{name}`")))
        }
        _ => Ok(None),
    }
}

fn operator(op: BinaryOp, span: Span) -> Result<BinOp> {
    op.arithmetic().ok_or_else(|| fail("unsupported", span, format!("`{}` is not possible in a trace", op.token())))
}

/// The operator for a call with two arguments.
fn called_operator(call: &Call<'_>) -> Option<BinOp> {
    let name = match &call.callee.kind {
        ExprKind::Name(name) => name,
        _ => member(&call.callee)?,
    };
    Some(match name {
        "min" => BinOp::Min,
        "max" => BinOp::Max,
        "truncdiv" | "Div" => BinOp::Div,
        "truncmod" | "Mod" => BinOp::Mod,
        "floordiv" => BinOp::FloorDiv,
        "floormod" => BinOp::FloorMod,
        _ => return None,
    })
}

fn rv_expr(e: &Expr<'_>, names: &dyn RvNames) -> Result<RvExpr> {
    let (op, a, b) = match &e.kind {
        ExprKind::Name(name) => {
            return names.rv(name).map(RvExpr::Rv).ok_or_else(|| undefined(name, e.span, names));
        }
        ExprKind::Int(_) => return int(e).map(RvExpr::Int),
        ExprKind::Unary(UnaryOp::Neg, a) => (BinOp::Sub, RvExpr::Int(0), rv_expr(a, names)?),
        ExprKind::Binary(op, a, b) => (operator(*op, e.span)?, rv_expr(a, names)?, rv_expr(b, names)?),
        ExprKind::Call(call) => match (called_operator(call), &call.args[..]) {
            (Some(op), [a, b]) => (op, rv_expr(a, names)?, rv_expr(b, names)?),
            _ => return Err(unsupported(e.span)),
        },
        _ => return Err(unsupported(e.span)),
    };
    let constant = matches!((&a, &b), (RvExpr::Int(_), RvExpr::Int(_)));
    let whole = RvExpr::Binary(op, Box::new(a), Box::new(b));
    if !constant {
        return Ok(whole);
    }
    whole.eval(&|_| None).map(RvExpr::Int).ok_or_else(|| fail("arithmetic", e.span, "the result is not defined"))
}

/// The function of indices of a lambda.
fn lambda(params: &[&str], body: &Expr<'_>, names: &dyn RvNames) -> Result<Lambda> {
    let (results, scalar) = match &body.kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => (&items[..], false),
        _ => (std::slice::from_ref(body), true),
    };
    let pair = |e: &Expr<'_>| matches!(&e.kind, ExprKind::Tuple(items) | ExprKind::List(items) if items.len() == 2);
    let ranges = !scalar && results.iter().any(pair);
    let mut found = Vec::with_capacity(results.len());
    for e in results {
        match &e.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) if ranges && items.len() == 2 => {
                for end in items {
                    found.push(index(end, params, names)?);
                }
            }
            _ => {
                let e = index(e, params, names)?;
                found.push(e.clone());
                if ranges {
                    found.push(LambdaExpr::Binary(BinOp::Add, Box::new(e), Box::new(LambdaExpr::Int(1))));
                }
            }
        }
    }
    let params = params.iter().map(|p| Symbol::new(p)).collect();
    Ok(Lambda { params, results: found, scalar, ranges })
}

fn index(e: &Expr<'_>, params: &[&str], names: &dyn RvNames) -> Result<LambdaExpr> {
    let part = |e: &Expr<'_>| index(e, params, names).map(Box::new);
    let folded = |op: BinOp, a: Box<LambdaExpr>, b: Box<LambdaExpr>| match (&*a, &*b) {
        (LambdaExpr::Int(x), LambdaExpr::Int(y)) => {
            let whole = RvExpr::Binary(op, Box::new(RvExpr::Int(*x)), Box::new(RvExpr::Int(*y)));
            let value = whole.eval(&|_| None).map(LambdaExpr::Int);
            value.ok_or_else(|| fail("arithmetic", e.span, "the result is not defined"))
        }
        _ => Ok(LambdaExpr::Binary(op, a, b)),
    };
    Ok(match &e.kind {
        ExprKind::Name(name) => match params.iter().position(|p| p == name) {
            Some(i) => LambdaExpr::Param(i),
            None => LambdaExpr::Rv(names.rv(name).ok_or_else(|| undefined(name, e.span, names))?),
        },
        ExprKind::Int(_) => LambdaExpr::Int(int(e)?),
        ExprKind::Float(v) => LambdaExpr::Float(*v),
        ExprKind::Bool(v) => LambdaExpr::Int(*v as i64),
        ExprKind::Unary(UnaryOp::Neg, a) => match *part(a)? {
            LambdaExpr::Int(v) => LambdaExpr::Int(v.checked_neg().ok_or_else(|| too_large(e.span))?),
            LambdaExpr::Float(v) => LambdaExpr::Float(-v),
            other => LambdaExpr::Binary(BinOp::Mul, Box::new(other), Box::new(LambdaExpr::Int(-1))),
        },
        ExprKind::Unary(UnaryOp::Not, a) => LambdaExpr::Not(part(a)?),
        ExprKind::Binary(op, a, b) => folded(operator(*op, e.span)?, part(a)?, part(b)?)?,
        ExprKind::Logical(op, parts) => {
            let op = if *op == LogicalOp::And { BinOp::And } else { BinOp::Or };
            let mut parts = parts.iter().map(|p| index(p, params, names));
            let first = parts.next().unwrap_or(Ok(LambdaExpr::Int(1)))?;
            parts.try_fold(first, |all, p| Ok(LambdaExpr::Binary(op, Box::new(all), Box::new(p?))))?
        }
        ExprKind::Compare(first, rest) => match &rest[..] {
            [(op, second)] => {
                let op = op.of_values().ok_or_else(|| unsupported(e.span))?;
                LambdaExpr::Compare(op, part(first)?, part(second)?)
            }
            _ => return Err(unsupported(e.span)),
        },
        ExprKind::Conditional(c) => {
            LambdaExpr::IfThenElse(Box::new([*part(&c.test)?, *part(&c.then)?, *part(&c.otherwise)?]))
        }
        ExprKind::Attribute(_, name) if name.name == "AXIS_SEPARATOR" => LambdaExpr::AxisSeparator,
        ExprKind::Call(call) => match (member(&call.callee), &call.args[..]) {
            (Some("if_then_else" | "Select"), [c, a, b]) => {
                LambdaExpr::IfThenElse(Box::new([*part(c)?, *part(a)?, *part(b)?]))
            }
            (_, [a, b]) if called_operator(call).is_some() => {
                folded(called_operator(call).unwrap_or(BinOp::Min), part(a)?, part(b)?)?
            }
            // Casts are ignored: indices have the type required by the buffer.
            (Some("Cast"), [dtype, a]) if is_index_type(dtype) => *part(a)?,
            _ if is_float(call) => LambdaExpr::Float(non_finite(call).ok_or_else(|| unsupported(e.span))?),
            _ => match constant(call)? {
                Some((dtype, value)) => LambdaExpr::Typed(dtype, part(value)?),
                None => return Err(unsupported(e.span)),
            },
        },
        _ => return Err(unsupported(e.span)),
    })
}

fn is_index_type(e: &Expr<'_>) -> bool {
    matches!(&e.kind, ExprKind::Str(dtype) if dtype.parse::<DType>().is_ok_and(DType::is_index))
}
