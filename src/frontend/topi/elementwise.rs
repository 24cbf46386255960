//! Functions of single elements.

use super::call::{Argument, Call, TopiError};
use super::{Compute, Operator, by};
use crate::graph::op;
use crate::graph::operator::Lowering;
use crate::ir::{CmpOp, DType, ExprId, Intrinsic};
use crate::te::{Te, Tensor};

/// A function that graphs have by this name.
const fn same(name: &'static str) -> Operator {
    Operator { name, params: "x", compute: Compute::Elementwise(name) }
}

pub(super) static OPERATORS: &[Operator] = &[
    same("abs"),
    same("acos"),
    same("acosh"),
    same("asin"),
    same("asinh"),
    same("atan"),
    same("atanh"),
    same("bitwise_not"),
    same("ceil"),
    same("cos"),
    same("cosh"),
    same("erf"),
    same("exp"),
    same("floor"),
    same("log"),
    same("negative"),
    same("rsqrt"),
    same("sigmoid"),
    same("sin"),
    same("sinh"),
    same("sqrt"),
    same("tan"),
    same("tanh"),
    same("trunc"),
    by("isfinite", "x", |call| tested(call, |te, x| te.is_finite(x))),
    by("isinf", "x", |call| tested(call, |te, x| te.is_infinite(x))),
    by("isnan", "x", |call| tested(call, |te, x| te.is_nan(x))),
    by("logical_not", "x", |call| {
        let x = call.tensor("x")?;
        Ok(vec![each(call, x, "T_logical_not", |te, x| match te.dtype(x) {
            DType::Bool => te.not(x),
            dtype => {
                let zero = te.constant(0, dtype);
                te.compare(CmpOp::Eq, x, zero)
            }
        })])
    }),
    by("round", "x", |call| {
        let x = call.tensor("x")?;
        let is_float = call.type_of(x).is_float();
        Ok(vec![each(call, x, "compute", |te, x| if is_float { te.call(Intrinsic::NearbyInt, &[x]) } else { x })])
    }),
    by("sign", "x", |call| {
        let x = call.tensor("x")?;
        let dtype = call.type_of(x);
        Ok(vec![each(call, x, "T_sign", |te, x| {
            let (zero, one, minus_one) = (te.constant(0, dtype), te.constant(1, dtype), te.constant(-1, dtype));
            let (above, below) = (te.compare(CmpOp::Gt, x, zero), te.lt(x, zero));
            let not_above = te.select(below, minus_one, zero);
            te.select(above, one, not_above)
        })])
    }),
    by("identity", "x", |call| {
        let x = call.tensor("x")?;
        Ok(vec![each(call, x, "compute", |_, x| x)])
    }),
    by("log2", "x", |call| floats(call, Intrinsic::Log2)),
    by("log10", "x", |call| floats(call, Intrinsic::Log10)),
    by("cast", "x, dtype, span=None", |call| {
        let (x, dtype) = (call.tensor("x")?, call.dtype("dtype")?);
        Ok(vec![each(call, x, "compute", |te, x| te.converted(dtype, x))])
    }),
    by("clip", "x, a_min, a_max", |call| {
        let x = call.tensor("x")?;
        let dtype = call.type_of(x);
        let bound = |call: &mut Call<'_>, name: &'static str| -> Result<ExprId, TopiError> {
            let value = call.float(name)?;
            Ok(if dtype.is_float() { call.te.float(value, dtype) } else { call.te.int(value as i64, dtype) })
        };
        let (min, max) = (bound(call, "a_min")?, bound(call, "a_max")?);
        Ok(vec![each(call, x, "compute", |te, x| {
            let below = te.min(x, max);
            te.max(below, min)
        })])
    }),
    by("full", "shape, dtype, fill_value", |call| {
        let (shape, dtype) = (call.extents("shape")?, call.dtype("dtype")?);
        let value = filler(call, "fill_value", dtype)?;
        Ok(vec![call.te.compute("T_full", &shape, |_, _| value)])
    }),
    by("full_like", "x, fill_value", |call| {
        let x = call.tensor("x")?;
        let value = filler(call, "fill_value", call.type_of(x))?;
        Ok(vec![each(call, x, "T_full_like", |_, _| value)])
    }),
    by("elemwise_sum", "xs", |call| {
        let xs = call.tensors("xs")?;
        let Some(&first) = xs.first() else { return call.wrong("xs", "at least one tensor") };
        let (shape, dtype) = (call.te.shape(first).to_vec(), call.type_of(first));
        if xs.iter().any(|&x| call.te.shape(x) != shape || call.type_of(x) != dtype) {
            return Err(TopiError::new("the tensors must have one shape and one type"));
        }
        Ok(vec![call.te.compute("T_elemwise_sum", &shape, |te, i| {
            let mut sum = te.at(first, i);
            for &x in &xs[1..] {
                let x = te.at(x, i);
                sum = te.add(sum, x);
            }
            sum
        })])
    }),
];

fn filler(call: &mut Call<'_>, name: &'static str, dtype: DType) -> Result<ExprId, TopiError> {
    if let Argument::Expr(e) = *call.get(name) {
        return Ok(call.te.converted(dtype, e));
    }
    let value = call.float(name)?;
    Ok(if dtype.is_float() { call.te.float(value, dtype) } else { call.te.int(value as i64, dtype) })
}

/// A test of floats.
fn tested(call: &mut Call<'_>, f: fn(&mut Te, ExprId) -> ExprId) -> Result<Vec<Tensor>, TopiError> {
    let x = call.tensor("x")?;
    Ok(vec![each(call, x, "compute", f)])
}

fn floats(call: &mut Call<'_>, function: Intrinsic) -> Result<Vec<Tensor>, TopiError> {
    let x = call.tensor("x")?;
    expect_float(call, x)?;
    Ok(vec![each(call, x, "compute", |te, x| te.call(function, &[x]))])
}

fn expect_float(call: &Call<'_>, x: Tensor) -> Result<(), TopiError> {
    match call.type_of(x) {
        dtype if dtype.is_float() => Ok(()),
        dtype => {
            let message = format!("expected floats for `x`, found {dtype}");
            Err(TopiError { argument: Some("x"), message, help: Some("convert them by `topi.cast`".into()) })
        }
    }
}

/// A tensor of the shape of `x` whose elements are a function of those of `x`.
pub(super) fn each(call: &mut Call<'_>, x: Tensor, name: &str, f: impl FnOnce(&mut Te, ExprId) -> ExprId) -> Tensor {
    let shape = call.te.shape(x).to_vec();
    call.te.compute(name, &shape, |te, i| {
        let x = te.at(x, i);
        f(te, x)
    })
}

/// A function of graphs on the elements of `x`.
pub(super) fn compute(call: &mut Call<'_>, of: &'static str) -> Result<Vec<Tensor>, TopiError> {
    let x = call.tensor("x")?;
    match op::find(of).map(|o| o.lower) {
        Some(Lowering::Elementwise(..)) => call.operator(of, vec![("x", crate::graph::apply::Given::Tensor(x))]),
        _ => Err(TopiError::new(format!("`{of}` is no function of single elements"))),
    }
}
