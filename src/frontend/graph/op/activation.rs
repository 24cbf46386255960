//! Activation functions.

use super::unary::in_float32;
use super::*;

const DATA: &[Param] = &[required("data", Kind::Tensor)];

const fn simple(name: &'static str, doc: &'static str, f: fn(&mut Te, &[ExprId]) -> ExprId) -> Operator {
    Operator { name, params: DATA, infer: same_as_float, lower: Lowering::Elementwise("compute", f), doc }
}

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "nn.dropout",
        params: &[required("data", Kind::Tensor), optional("rate", Kind::Float, Default::Float(0.5))],
        infer: |cx| {
            let data: Type = cx.tensor("data")?.into();
            Ok(Type::Tuple(vec![data.clone(), data]))
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let shape = cx.out_shape(0)?;
            let dtype = cx.out_dtype(0)?;
            let same = cx.te.compute("T_identity", &shape, |te, i| te.at(data, i));
            let ones = cx.te.compute("T_full_like", &shape, |te, _| te.constant(1, dtype));
            Ok(vec![same, ones])
        }),
        doc: "The data as it is, and a mask of ones: dropout belongs to training.",
    },
    simple("nn.gelu", "x * (1 + erf(x / sqrt(2))) / 2.", |te, x| {
        let (root, half) = (like(te, x[0], std::f64::consts::FRAC_1_SQRT_2), like(te, x[0], 0.5));
        let scaled = te.mul(x[0], root);
        let erf = in_float32(te, scaled, |te, x| te.call(Intrinsic::Erf, &[x]));
        let part = te.mul(erf, half);
        let sum = te.add(half, part);
        te.mul(x[0], sum)
    }),
    simple("nn.gelu_tanh", "GELU by its approximation with the hyperbolic tangent.", |te, x| {
        let (half, one) = (like(te, x[0], 0.5), like(te, x[0], 1.0));
        let (c, d) = (like(te, x[0], (2.0 / std::f64::consts::PI).sqrt()), like(te, x[0], 0.044_715));
        let linear = te.mul(c, x[0]);
        let cubic = te.mul(d, x[0]);
        let cubic = te.mul(cubic, x[0]);
        let cubic = te.add(one, cubic);
        let inner = te.mul(linear, cubic);
        let tanh = te.call(Intrinsic::Tanh, &[inner]);
        let sum = te.add(one, tanh);
        let left = te.mul(half, x[0]);
        te.mul(left, sum)
    }),
    Operator {
        name: "nn.leakyrelu",
        params: &[required("data", Kind::Tensor), optional("alpha", Kind::Float, Default::Float(0.01))],
        infer: same_as_float,
        lower: Lowering::Stages(|cx| {
            let alpha = cx.float("alpha");
            pointwise(cx, "compute", |te, x| {
                let (zero, alpha) = (like(te, x, 0.0), like(te, x, alpha));
                let (positive, scaled) = (te.compare(CmpOp::Gt, x, zero), te.mul(x, alpha));
                te.select(positive, x, scaled)
            })
        }),
        doc: "The element where it is positive, else alpha times the element.",
    },
    Operator {
        name: "nn.prelu",
        params: &[
            required("data", Kind::Tensor),
            required("alpha", Kind::Tensor),
            optional("axis", Kind::Int, Default::Int(1)),
        ],
        infer: |cx| {
            let (data, alpha) = (cx.tensor("data")?, cx.tensor("alpha")?);
            let axis = cx.axis(cx.int("axis"), data.rank())?;
            cx.expect_rank("alpha", &alpha, 1)?;
            cx.expect_equal(("data", &data, axis), ("alpha", &alpha, 0))?;
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, alpha) = (cx.input("data")?, cx.input("alpha")?);
            let shape = cx.out_shape(0)?;
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            Ok(vec![cx.te.compute("compute", &shape, |te, i| {
                let (x, alpha) = (te.at(data, i), te.at(alpha, &[i[axis]]));
                let zero = like(te, x, 0.0);
                let (positive, scaled) = (te.compare(CmpOp::Gt, x, zero), te.mul(x, alpha));
                te.select(positive, x, scaled)
            })])
        }),
        doc: "The element where it is positive, else its channel's alpha times the element.",
    },
    Operator {
        name: "nn.relu",
        params: DATA,
        infer: same_as_operand,
        lower: Lowering::Elementwise("compute", |te, x| {
            let zero = like(te, x[0], 0.0);
            te.max(x[0], zero)
        }),
        doc: "The larger of the element and 0.",
    },
    simple("nn.selu", "scale * (max(x, 0) + min(0, alpha * (exp(x) - 1))).", |te, x| {
        let (zero, one) = (like(te, x[0], 0.0), like(te, x[0], 1.0));
        let (alpha, scale) = (like(te, x[0], 1.673_263_242_354_377_2), like(te, x[0], 1.050_700_987_355_480_5));
        let exp = te.call(Intrinsic::Exp, x);
        let above = te.sub(exp, one);
        let negative = te.mul(alpha, above);
        let (positive, negative) = (te.max(x[0], zero), te.min(zero, negative));
        let sum = te.add(positive, negative);
        te.mul(scale, sum)
    }),
    simple("nn.silu", "x * sigmoid(x).", |te, x| {
        let sigmoid = te.call(Intrinsic::Sigmoid, x);
        te.mul(x[0], sigmoid)
    }),
    Operator {
        name: "nn.softplus",
        params: &[
            required("data", Kind::Tensor),
            optional("beta", Kind::Float, Default::Float(1.0)),
            optional("threshold", Kind::Float, Default::Float(20.0)),
        ],
        infer: same_as_float,
        lower: Lowering::Stages(|cx| {
            let (beta, threshold) = (cx.float("beta"), cx.float("threshold"));
            pointwise(cx, "compute", |te, x| {
                let (beta, threshold, one) = (like(te, x, beta), like(te, x, threshold), like(te, x, 1.0));
                let scaled = te.mul(beta, x);
                let is_linear = te.compare(CmpOp::Gt, scaled, threshold);
                let exp = te.call(Intrinsic::Exp, &[scaled]);
                let sum = te.add(one, exp);
                let log = te.call(Intrinsic::Log, &[sum]);
                let soft = te.binary(BinOp::Div, log, beta);
                te.select(is_linear, x, soft)
            })
        }),
        doc: "log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.",
    },
];

/// A function of single elements with attributes.
pub(super) fn pointwise(
    cx: &mut Lower<'_>,
    stage: &str,
    f: impl FnOnce(&mut Te, ExprId) -> ExprId,
) -> Result<Vec<Tensor>, OpError> {
    let name = cx.op.params[0].name;
    let x = cx.operand(name)?;
    let shape = cx.out_shape(0)?;
    Ok(vec![cx.te.compute(stage, &shape, |te, i| {
        let x = te.element(x, i);
        f(te, x)
    })])
}
