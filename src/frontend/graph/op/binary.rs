//! Operators on the elements of two or three tensors, which are broadcast to one shape.

use super::*;

const X1_X2: &[Param] = &[required("x1", Kind::Tensor), required("x2", Kind::Tensor)];

/// Numbers to a number.
const fn number(
    name: &'static str,
    stage: &'static str,
    doc: &'static str,
    f: fn(&mut Te, &[ExprId]) -> ExprId,
) -> Operator {
    Operator { name, params: X1_X2, infer: same_type, lower: Lowering::Elementwise(stage, f), doc }
}

/// Numbers to a truth value.
const fn comparison(
    name: &'static str,
    stage: &'static str,
    doc: &'static str,
    f: fn(&mut Te, &[ExprId]) -> ExprId,
) -> Operator {
    Operator { name, params: X1_X2, infer: to_bool, lower: Lowering::Elementwise(stage, f), doc }
}

pub(super) static OPERATORS: &[Operator] =
    &[
        number("add", "T_add", "The sum.", |te, x| match te.dtype(x[0]) {
            DType::Bool => te.or(x[0], x[1]),
            _ => te.add(x[0], x[1]),
        }),
        number("atan2", "T_atan2", "The angle of the point (x2, x1).", |te, x| te.call(Intrinsic::Atan2, x)),
        number("bitwise_and", "T_bitwise_and", "The bits that are set in both.", |te, x| {
            bits(te, x, Intrinsic::BitAnd, |te, a, b| te.and(a, b))
        }),
        number("bitwise_or", "T_bitwise_or", "The bits that are set in one of them.", |te, x| {
            bits(te, x, Intrinsic::BitOr, |te, a, b| te.or(a, b))
        }),
        number("bitwise_xor", "T_bitwise_xor", "The bits that are set in just one of them.", |te, x| {
            bits(te, x, Intrinsic::BitXor, |te, a, b| te.compare(CmpOp::Ne, a, b))
        }),
        number("divide", "T_divide", "The quotient; of integers, rounded towards zero.", |te, x| {
            te.binary(BinOp::Div, x[0], x[1])
        }),
        comparison("equal", "T_equal", "Whether both are equal.", |te, x| te.compare(CmpOp::Eq, x[0], x[1])),
        number("floor_divide", "T_floor_divide", "The quotient, rounded towards minus infinity.", |te, x| {
            match te.dtype(x[0]).is_float() {
                true => {
                    let quotient = te.binary(BinOp::Div, x[0], x[1]);
                    te.call(Intrinsic::Floor, &[quotient])
                }
                false => te.floor_div(x[0], x[1]),
            }
        }),
        number("floor_mod", "T_floor_mod", "The remainder of the division rounded towards minus infinity.", |te, x| {
            match te.dtype(x[0]).is_float() {
                true => {
                    let quotient = te.binary(BinOp::Div, x[0], x[1]);
                    let whole = te.call(Intrinsic::Floor, &[quotient]);
                    let multiple = te.mul(whole, x[1]);
                    te.sub(x[0], multiple)
                }
                false => te.floor_mod(x[0], x[1]),
            }
        }),
        comparison("greater", "T_greater", "Whether the first is larger.", |te, x| te.compare(CmpOp::Gt, x[0], x[1])),
        comparison("greater_equal", "T_greater_equal", "Whether the first is not smaller.", |te, x| {
            te.compare(CmpOp::Ge, x[0], x[1])
        }),
        number("left_shift", "T_left_shift", "The bits of the first shifted to the left.", |te, x| {
            te.call(Intrinsic::ShiftLeft, x)
        }),
        comparison("less", "T_less", "Whether the first is smaller.", |te, x| te.compare(CmpOp::Lt, x[0], x[1])),
        comparison("less_equal", "T_less_equal", "Whether the first is not larger.", |te, x| {
            te.compare(CmpOp::Le, x[0], x[1])
        }),
        number("log_add_exp", "T_log_add_exp", "The logarithm of exp(x1) + exp(x2).", |te, x| {
            let (larger, smaller) = (te.max(x[0], x[1]), te.min(x[0], x[1]));
            let difference = te.sub(smaller, larger);
            let (exp, one) = (te.call(Intrinsic::Exp, &[difference]), like(te, x[0], 1.0));
            let sum = te.add(one, exp);
            let log = te.call(Intrinsic::Log, &[sum]);
            te.add(larger, log)
        }),
        comparison("logical_and", "T_logical_and", "Whether both are true.", |te, x| {
            let (a, b) = (truth(te, x[0]), truth(te, x[1]));
            te.and(a, b)
        }),
        comparison("logical_or", "T_logical_or", "Whether one of them is true.", |te, x| {
            let (a, b) = (truth(te, x[0]), truth(te, x[1]));
            te.or(a, b)
        }),
        comparison("logical_xor", "T_logical_xor", "Whether just one of them is true.", |te, x| {
            let (a, b) = (truth(te, x[0]), truth(te, x[1]));
            te.compare(CmpOp::Ne, a, b)
        }),
        number("maximum", "T_maximum", "The larger element.", |te, x| te.max(x[0], x[1])),
        number("minimum", "T_minimum", "The smaller element.", |te, x| te.min(x[0], x[1])),
        number("mod", "T_mod", "The remainder, with the sign of the first.", |te, x| match te.dtype(x[0]).is_float() {
            true => te.call(Intrinsic::Fmod, x),
            false => te.binary(BinOp::Mod, x[0], x[1]),
        }),
        number("multiply", "T_multiply", "The product.", |te, x| match te.dtype(x[0]) {
            DType::Bool => te.and(x[0], x[1]),
            _ => te.mul(x[0], x[1]),
        }),
        comparison("not_equal", "T_not_equal", "Whether they differ.", |te, x| te.compare(CmpOp::Ne, x[0], x[1])),
        number("power", "T_power", "The first to the power of the second.", |te, x| {
            let dtype = te.dtype(x[0]);
            match dtype.is_float() {
                true => te.call(Intrinsic::Pow, x),
                false => {
                    let (a, b) = (te.cast(DType::Float64, x[0]), te.cast(DType::Float64, x[1]));
                    let power = te.call(Intrinsic::Pow, &[a, b]);
                    te.cast(dtype, power)
                }
            }
        }),
        number("right_shift", "T_right_shift", "The bits of the first shifted to the right.", |te, x| {
            te.call(Intrinsic::ShiftRight, x)
        }),
        number("subtract", "T_subtract", "The difference.", |te, x| te.sub(x[0], x[1])),
        Operator {
            name: "ewise_fma",
            params: &[required("x1", Kind::Tensor), required("x2", Kind::Tensor), required("x3", Kind::Tensor)],
            infer: |cx| {
                let (a, b, c) = (cx.tensor("x1")?, cx.tensor("x2")?, cx.tensor("x3")?);
                expect_same_type(cx, ("x1", a.dtype), ("x2", b.dtype))?;
                expect_same_type(cx, ("x1", a.dtype), ("x3", c.dtype))?;
                let shape = cx.broadcast(&a.shape, &b.shape)?;
                Ok(Type::tensor(a.dtype, cx.broadcast(&shape, &c.shape)?))
            },
            lower: Lowering::Elementwise("T_fma", |te, x| {
                let product = te.mul(x[0], x[1]);
                te.add(product, x[2])
            }),
            doc: "x1 * x2 + x3.",
        },
        Operator {
            name: "where",
            params: &[required("condition", Kind::Tensor), required("x1", Kind::Tensor), required("x2", Kind::Tensor)],
            infer: |cx| {
                let (c, a, b) = (cx.tensor("condition")?, cx.tensor("x1")?, cx.tensor("x2")?);
                if c.dtype != DType::Bool {
                    return cx.fail(format!("`condition` must have truth values, found {}", c.dtype));
                }
                expect_same_type(cx, ("x1", a.dtype), ("x2", b.dtype))?;
                let shape = cx.broadcast(&a.shape, &b.shape)?;
                Ok(Type::tensor(a.dtype, cx.broadcast(&c.shape, &shape)?))
            },
            lower: Lowering::Elementwise("T_where", |te, x| {
                let condition = truth(te, x[0]);
                te.select(condition, x[1], x[2])
            }),
            doc: "The element of x1 where the condition holds, else that of x2.",
        },
    ];

fn operands(cx: &mut Infer<'_>) -> Result<Known, OpError> {
    let (a, b) = (cx.tensor("x1")?, cx.tensor("x2")?);
    expect_same_type(cx, ("x1", a.dtype), ("x2", b.dtype))?;
    Ok(Known { dtype: a.dtype, shape: cx.broadcast(&a.shape, &b.shape)? })
}

fn same_type(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    Ok(operands(cx)?.into())
}

fn to_bool(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    Ok(Type::tensor(DType::Bool, operands(cx)?.shape))
}

/// Whether an element is true.
pub(super) fn truth(te: &mut Te, x: ExprId) -> ExprId {
    match te.dtype(x) {
        DType::Bool => x,
        _ => {
            let zero = like(te, x, 0.0);
            te.compare(CmpOp::Ne, x, zero)
        }
    }
}

fn bits(te: &mut Te, x: &[ExprId], of: Intrinsic, logical: fn(&mut Te, ExprId, ExprId) -> ExprId) -> ExprId {
    match te.dtype(x[0]) {
        DType::Bool => logical(te, x[0], x[1]),
        _ => te.call(of, x),
    }
}
