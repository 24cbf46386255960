//! Functions of single elements.

use super::*;

const X: &[Param] = &[required("x", Kind::Tensor)];

/// A function of floats.
const fn float(name: &'static str, doc: &'static str, f: fn(&mut Te, &[ExprId]) -> ExprId) -> Operator {
    Operator { name, params: X, infer: same_as_float, lower: Lowering::Elementwise("compute", f), doc }
}

/// A function of numbers.
const fn number(name: &'static str, doc: &'static str, f: fn(&mut Te, &[ExprId]) -> ExprId) -> Operator {
    Operator { name, params: X, infer: same_as_operand, lower: Lowering::Elementwise("compute", f), doc }
}

/// A property of floats.
const fn property(name: &'static str, doc: &'static str, f: fn(&mut Te, &[ExprId]) -> ExprId) -> Operator {
    Operator { name, params: X, infer: to_bool, lower: Lowering::Elementwise("compute", f), doc }
}

pub(super) static OPERATORS: &[Operator] = &[
    number("abs", "The absolute value.", |te, x| te.call(Intrinsic::Abs, x)),
    float("acos", "The inverse cosine.", |te, x| te.call(Intrinsic::Acos, x)),
    float("acosh", "The inverse hyperbolic cosine.", |te, x| te.call(Intrinsic::Acosh, x)),
    float("asin", "The inverse sine.", |te, x| te.call(Intrinsic::Asin, x)),
    float("asinh", "The inverse hyperbolic sine.", |te, x| te.call(Intrinsic::Asinh, x)),
    Operator {
        name: "astype",
        params: &[required("x", Kind::Tensor), required("dtype", Kind::DType)],
        infer: |cx| {
            let x = cx.tensor("x")?;
            match cx.opt_dtype("dtype") {
                Some(dtype) => Ok(Type::tensor(dtype, x.shape)),
                None => cx.fail("`dtype` is no type of elements"),
            }
        },
        lower: Lowering::Stages(|cx| {
            let (x, dtype) = (cx.operand("x")?, cx.out_dtype(0)?);
            let shape = cx.out_shape(0)?;
            Ok(vec![cx.te.compute("compute", &shape, |te, i| {
                let x = te.element(x, i);
                te.cast(dtype, x)
            })])
        }),
        doc: "The elements converted to another type.",
    },
    float("atan", "The inverse tangent.", |te, x| te.call(Intrinsic::Atan, x)),
    float("atanh", "The inverse hyperbolic tangent.", |te, x| te.call(Intrinsic::Atanh, x)),
    Operator {
        name: "bitwise_not",
        params: X,
        infer: same_as_operand,
        lower: Lowering::Elementwise("compute", |te, x| match te.dtype(x[0]) {
            DType::Bool => te.not(x[0]),
            _ => te.call(Intrinsic::BitNot, x),
        }),
        doc: "The bits inverted.",
    },
    number("ceil", "The least integer that is not smaller.", |te, x| rounded(te, Intrinsic::Ceil, x[0])),
    Operator {
        name: "clip",
        params: &[required("x", Kind::Tensor), required("min", Kind::Prim), required("max", Kind::Prim)],
        infer: |cx| Ok(cx.tensor("x")?.into()),
        lower: Lowering::Stages(|cx| {
            let x = cx.operand("x")?;
            let bounds = (cx.prim("min"), cx.prim("max"));
            let shape = cx.out_shape(0)?;
            Ok(vec![cx.te.compute("compute", &shape, |te, i| {
                let x = te.element(x, i);
                let dtype = te.dtype(x);
                let mut value = x;
                if let Some(max) = bounds.1 {
                    let max = te.cast(dtype, max);
                    value = te.min(value, max);
                }
                if let Some(min) = bounds.0 {
                    let min = te.cast(dtype, min);
                    value = te.max(value, min);
                }
                value
            })])
        }),
        doc: "The nearest value between a minimum and a maximum.",
    },
    float("cos", "The cosine.", |te, x| te.call(Intrinsic::Cos, x)),
    float("cosh", "The hyperbolic cosine.", |te, x| te.call(Intrinsic::Cosh, x)),
    float("erf", "The error function.", |te, x| in_float32(te, x[0], |te, x| te.call(Intrinsic::Erf, &[x]))),
    float("exp", "e to the power of the element.", |te, x| te.call(Intrinsic::Exp, x)),
    number("floor", "The greatest integer that is not larger.", |te, x| rounded(te, Intrinsic::Floor, x[0])),
    property("isfinite", "Whether the element is neither infinite nor NaN.", |te, x| te.call(Intrinsic::IsFinite, x)),
    property("isinf", "Whether the element is infinite.", |te, x| te.call(Intrinsic::IsInf, x)),
    property("isnan", "Whether the element is NaN.", |te, x| te.call(Intrinsic::IsNan, x)),
    float("log", "The natural logarithm.", |te, x| te.call(Intrinsic::Log, x)),
    Operator {
        name: "logical_not",
        params: X,
        infer: |cx| {
            let x = cx.tensor("x")?;
            Ok(Type::tensor(DType::Bool, x.shape))
        },
        lower: Lowering::Elementwise("compute", |te, x| match te.dtype(x[0]) {
            DType::Bool => te.not(x[0]),
            _ => {
                let zero = like(te, x[0], 0.0);
                te.compare(CmpOp::Eq, x[0], zero)
            }
        }),
        doc: "Whether the element is false.",
    },
    number("negative", "The element with the opposite sign.", |te, x| {
        let minus_one = like(te, x[0], -1.0);
        te.mul(x[0], minus_one)
    }),
    number("round", "The nearest integer, halves to even.", |te, x| rounded(te, Intrinsic::Round, x[0])),
    float("rsqrt", "1 divided by the square root.", |te, x| te.call(Intrinsic::Rsqrt, x)),
    float("sigmoid", "1 / (1 + exp(-x)).", |te, x| te.call(Intrinsic::Sigmoid, x)),
    number("sign", "-1, 0 or 1, as the element is below, at or above 0.", |te, x| {
        let (zero, one, minus_one) = (like(te, x[0], 0.0), like(te, x[0], 1.0), like(te, x[0], -1.0));
        let (above, below) = (te.compare(CmpOp::Gt, x[0], zero), te.lt(x[0], zero));
        let not_above = te.select(below, minus_one, zero);
        te.select(above, one, not_above)
    }),
    float("sin", "The sine.", |te, x| te.call(Intrinsic::Sin, x)),
    float("sinh", "The hyperbolic sine.", |te, x| te.call(Intrinsic::Sinh, x)),
    float("sqrt", "The square root.", |te, x| te.call(Intrinsic::Sqrt, x)),
    number("square", "The element times itself.", |te, x| te.mul(x[0], x[0])),
    float("tan", "The tangent.", |te, x| te.call(Intrinsic::Tan, x)),
    float("tanh", "The hyperbolic tangent.", |te, x| te.call(Intrinsic::Tanh, x)),
    number("trunc", "The element rounded towards zero.", |te, x| rounded(te, Intrinsic::Trunc, x[0])),
];

fn to_bool(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let x = cx.tensor("x")?;
    expect_float(cx, "x", x.dtype)?;
    Ok(Type::tensor(DType::Bool, x.shape))
}

/// A rounding; integers stay.
fn rounded(te: &mut Te, how: Intrinsic, x: ExprId) -> ExprId {
    if te.dtype(x).is_float() { te.call(how, &[x]) } else { x }
}

/// A function computed in `float32` where the element is a half.
pub(super) fn in_float32(te: &mut Te, x: ExprId, f: impl FnOnce(&mut Te, ExprId) -> ExprId) -> ExprId {
    let dtype = te.dtype(x);
    let wide = te.cast(accumulator(dtype), x);
    let value = f(te, wide);
    te.cast(dtype, value)
}
