//! Index maps of lambdas. [`crate::arith::index_map`] has what can be done with them.

use super::super::arg::{Lambda, LambdaExpr};
use super::super::error::ErrorKind;
use super::extent;
use super::tree::MAX_DEPTH;
use crate::arith::Analyzer;
use crate::arith::bound::POS_INF;
use crate::arith::index_map::widest;
use crate::ir::visit::for_each_subexpr;
use crate::ir::{Arena, DType, ExprId, VarId};
use smallvec::SmallVec;

pub(crate) use crate::arith::index_map::{IndexMap, Indices, Inverse, simplify_indices};

/// The map of a lambda, with parameters of these types.
///
/// # Errors
///
/// If the number of parameters differs, or a result is not an integer.
pub(crate) fn of_lambda(a: &mut Arena, lambda: &Lambda, types: &[DType]) -> Result<IndexMap, ErrorKind> {
    if lambda.params.len() != types.len() {
        return Err(ErrorKind::LambdaParams { found: lambda.params.len(), expected: types.len() });
    }
    if lambda.results.len() > MAX_DEPTH {
        return Err(ErrorKind::NestTooDeep { depth: lambda.results.len() });
    }
    let params: SmallVec<[VarId; 4]> =
        lambda.params.iter().zip(types).map(|(&name, &dtype)| a.new_var(name, dtype)).collect();
    let values: Indices = params.iter().map(|&v| a.var_expr(v)).collect();
    let index_type = widest(types);
    let mut results = Indices::new();
    let mut separators = Vec::new();
    for result in &lambda.results {
        if *result == LambdaExpr::AxisSeparator {
            separators.push(results.len() as u32);
            continue;
        }
        let e = lambda_expr(a, result, &values, index_type)?;
        if !a.dtype(e).is_integer() || a.dtype(e) == DType::Bool {
            return Err(ErrorKind::Argument { message: "an index map gives integers".to_string() });
        }
        results.push(e);
    }
    Ok(IndexMap { params, results, separators })
}

/// # Errors
///
/// If a new index of a buffer with this shape, or an intermediate result, would overflow the type of the indices.
pub(crate) fn check_fits(map: &IndexMap, a: &mut Arena, shape: &[ExprId]) -> Result<(), ErrorKind> {
    let mut analyzer = Analyzer::new();
    for r in map.domain(a, shape) {
        analyzer.bind(a, r.var, r.min, r.extent);
    }
    let is_constant = shape.iter().all(|&e| a.as_int(e).is_some());
    for &result in &map.results {
        let mut parts = Vec::new();
        for_each_subexpr(a, result, &mut |e| parts.push(e));
        for e in parts {
            let dtype = a.dtype(e);
            if !dtype.is_index() {
                continue;
            }
            let last = analyzer.const_int_bound(a, e).max;
            if last == POS_INF && is_constant {
                return Err(extent::overflow(dtype));
            }
            if last != POS_INF {
                extent::product(dtype, [last.saturating_add(1)])?;
            }
        }
    }
    Ok(())
}

/// An expression of a lambda, with its parameters replaced by `params`. Plain integers take the type of the other
/// operand, initially `int_type`.
///
/// # Errors
///
/// If the types do not fit, or a constant has an unknown type.
pub(crate) fn lambda_expr(
    a: &mut Arena,
    e: &LambdaExpr,
    params: &[ExprId],
    int_type: DType,
) -> Result<ExprId, ErrorKind> {
    let wrong = |message: &str| ErrorKind::Argument { message: message.to_string() };
    Ok(match e {
        LambdaExpr::Param(i) => params[*i],
        LambdaExpr::Rv(_) => return Err(wrong("an index map cannot use a loop or block")),
        LambdaExpr::Int(v) if int_type.is_index() && int_type.wrap(*v) != *v => {
            return Err(wrong(&format!("{v} does not fit `{int_type}`, the type of the indices")));
        }
        LambdaExpr::Int(v) => a.int(*v, int_type),
        LambdaExpr::Float(v) => a.float(*v, DType::Float32),
        LambdaExpr::Typed(dtype, inner) => {
            let dtype: DType = dtype
                .as_str()
                .parse()
                .map_err(|e: crate::ir::dtype::UnknownDType| ErrorKind::Argument { message: e.to_string() })?;
            match **inner {
                LambdaExpr::Float(v) if dtype.is_float() => a.float(v, dtype),
                LambdaExpr::Int(v) if dtype.is_float() => a.float(v as f64, dtype),
                LambdaExpr::Int(v) => a.int(v, dtype),
                _ => {
                    let inner = lambda_expr(a, inner, params, int_type)?;
                    a.cast(dtype, inner)
                }
            }
        }
        LambdaExpr::Binary(op, x, y) => {
            let (x, y) = same_type(a, x, y, params, int_type)?;
            if matches!(op, crate::ir::BinOp::And | crate::ir::BinOp::Or) != (a.dtype(x) == DType::Bool) {
                return Err(wrong("`and` and `or` take conditions, arithmetic takes numbers"));
            }
            if matches!(op, crate::ir::BinOp::FloorDiv | crate::ir::BinOp::FloorMod) && a.is_int(y, 0) {
                return Err(wrong("the index map divides by zero"));
            }
            a.binary(*op, x, y)
        }
        LambdaExpr::Compare(op, x, y) => {
            let (x, y) = same_type(a, x, y, params, int_type)?;
            a.compare(*op, x, y)
        }
        LambdaExpr::Not(x) => {
            let x = lambda_expr(a, x, params, int_type)?;
            if a.dtype(x) != DType::Bool {
                return Err(wrong("`not` takes a condition"));
            }
            a.not(x)
        }
        LambdaExpr::IfThenElse(parts) => {
            let c = lambda_expr(a, &parts[0], params, int_type)?;
            if a.dtype(c) != DType::Bool {
                return Err(wrong("`if_then_else` takes a condition"));
            }
            let (x, y) = same_type(a, &parts[1], &parts[2], params, int_type)?;
            a.if_then_else(c, x, y)
        }
        LambdaExpr::AxisSeparator => return Err(wrong("`AXIS_SEPARATOR` stands between results")),
    })
}

fn same_type(
    a: &mut Arena,
    x: &LambdaExpr,
    y: &LambdaExpr,
    params: &[ExprId],
    int_type: DType,
) -> Result<(ExprId, ExprId), ErrorKind> {
    let (x, y) = (lambda_expr(a, x, params, int_type)?, lambda_expr(a, y, params, int_type)?);
    let (p, q) = (a.dtype(x), a.dtype(y));
    if p == q {
        return Ok((x, y));
    }
    if p.is_int() && q.is_int() {
        let wide = if p.bits() >= q.bits() { p } else { q };
        return Ok((a.cast(wide, x), a.cast(wide, y)));
    }
    Err(ErrorKind::Argument { message: format!("an operator of the function has operands of types `{p}` and `{q}`") })
}
