//! Numbers as small integers, and back.

use super::*;
use crate::graph::lower::Operand;

const PARAMS: &[Param] = &[
    required("data", Kind::Tensor),
    required("scale", Kind::Tensor),
    required("zero_point", Kind::Tensor),
    optional("axis", Kind::Int, Default::Int(-1)),
    optional("out_dtype", Kind::DType, Default::Str("int8")),
];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "dequantize",
        params: &[
            required("data", Kind::Tensor),
            required("scale", Kind::Tensor),
            required("zero_point", Kind::Tensor),
            optional("axis", Kind::Int, Default::Int(-1)),
            optional("out_dtype", Kind::DType, Default::Str("float32")),
        ],
        infer,
        lower: Lowering::Stages(|cx| {
            let quantization = Quantization::of(cx)?;
            let (data, shape, dtype) = (cx.operand("data")?, cx.out_shape(0)?, cx.out_dtype(0)?);
            Ok(vec![cx.te.compute("dequantized", &shape, |te, i| {
                let x = te.element(data, i);
                let steps = if te.dtype(x).is_float() { DType::Float32 } else { DType::Int32 };
                let (scale, zero) = quantization.at(te, i);
                let (x, zero) = (te.cast(steps, x), te.cast(steps, zero));
                let distance = te.sub(x, zero);
                let (distance, scale) = (te.cast(DType::Float32, distance), te.cast(DType::Float32, scale));
                let value = te.mul(distance, scale);
                if dtype == DType::Float32 { value } else { saturated(te, value, dtype) }
            })])
        }),
        doc: "scale * (x - zero_point), for each channel along an axis.",
    },
    Operator {
        name: "quantize",
        params: PARAMS,
        infer: |cx| {
            let data = cx.tensor("data")?;
            expect_float(cx, "data", data.dtype)?;
            infer(cx)
        },
        lower: Lowering::Stages(|cx| {
            let quantization = Quantization::of(cx)?;
            let (data, shape, dtype) = (cx.operand("data")?, cx.out_shape(0)?, cx.out_dtype(0)?);
            Ok(vec![cx.te.compute("quantized", &shape, |te, i| {
                let x = te.element(data, i);
                let (scale, zero) = quantization.at(te, i);
                // In the wider of the two types.
                let wide = if te.dtype(scale).bits() > te.dtype(x).bits() { te.dtype(scale) } else { te.dtype(x) };
                let (x, scale, zero) = (te.cast(wide, x), te.cast(wide, scale), te.cast(wide, zero));
                let mut steps = exact_quotient(te, x, scale);
                if dtype.is_integer() {
                    steps = te.call(Intrinsic::Round, &[steps]);
                }
                let value = te.add(steps, zero);
                saturated(te, value, dtype)
            })])
        }),
        doc: "round(x / scale) + zero_point, within the range of the type, for each channel along an axis.",
    },
];

fn infer(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let data = cx.tensor("data")?;
    let Some(dtype) = cx.opt_dtype("out_dtype") else { return cx.fail("`out_dtype` is no type of elements") };
    for name in ["scale", "zero_point"] {
        let tensor = cx.tensor(name)?;
        let is_single = tensor.shape.iter().all(|&e| cx.arena.is_int(e, 1));
        if !is_single {
            let axis = cx.axis(cx.int("axis"), data.rank())?;
            cx.expect_rank(name, &tensor, 1)?;
            cx.expect_equal(("data", &data, axis), (name, &tensor, 0))?;
        }
    }
    let scale = cx.tensor("scale")?;
    expect_float(cx, "scale", scale.dtype)?;
    Ok(Type::tensor(dtype, data.shape))
}

/// Scale and zero point.
struct Quantization {
    scale: Operand,
    zero: Operand,
    axis: usize,
}

impl Quantization {
    fn of(cx: &mut Lower<'_>) -> Result<Quantization, OpError> {
        let (scale, zero) = (cx.operand("scale")?, cx.operand("zero_point")?);
        let rank = cx.out_shape(0)?.len();
        // A single number counts for all elements, whatever the axis is.
        let axis = cx.axis(cx.int("axis"), rank).unwrap_or(0);
        Ok(Quantization { scale, zero, axis })
    }

    /// The scale and the zero point of an element.
    fn at(&self, te: &mut Te, i: &[ExprId]) -> (ExprId, ExprId) {
        let mut of = |operand: Operand| match operand {
            Operand::Scalar(e) => e,
            Operand::Tensor(t) => {
                let shape = te.shape(t).to_vec();
                let zero = te.extent(0);
                let single = shape.iter().all(|&e| te.is_int(e, 1));
                let at = if single { vec![zero; shape.len()] } else { vec![i[self.axis]] };
                te.at(t, &at)
            }
        };
        (of(self.scale), of(self.zero))
    }
}

/// The largest quotient that is told from infinity: what is rounded to integers of fewer bits is less.
const LARGEST: f64 = (1u64 << 40) as f64;

/// The quotient as the type rounds it.
///
/// Kernels multiply by a reciprocal where the divisor is the same for many elements. The last bit of the product may differ from that of the
/// quotient, and halves are then rounded to another integer. So the remainder is divided too: the sum is the rounded quotient (P. Markstein,
/// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). Bounds keep infinity out of the remainder.
fn exact_quotient(te: &mut Te, a: ExprId, b: ExprId) -> ExprId {
    if te.as_float(b) == Some(1.0) {
        return a;
    }
    if te.dtype(a) != DType::Float32 {
        return te.binary(BinOp::Div, a, b);
    }
    let (one, most, least) = (like(te, a, 1.0), like(te, a, LARGEST), like(te, a, -LARGEST));
    let inverse = match te.as_float(b) {
        Some(b) => like(te, a, f64::from(1.0 / b as f32)),
        None => te.binary(BinOp::Div, one, b),
    };
    let product = te.mul(a, inverse);
    let product = te.min(product, most);
    let product = te.max(product, least);
    let minus_one = like(te, a, -1.0);
    let negative = te.mul(product, minus_one);
    let remainder = te.call(Intrinsic::Fma, &[negative, b, a]);
    te.call(Intrinsic::Fma, &[remainder, inverse, product])
}

/// The nearest value of a type.
fn saturated(te: &mut Te, value: ExprId, dtype: DType) -> ExprId {
    let bound = |bound: Result<i64, f64>| bound.map_or_else(|float| float, |int| int as f64);
    let (least, most) = (like(te, value, bound(dtype.min_value())), like(te, value, bound(dtype.max_value())));
    let not_above = te.min(value, most);
    let inside = te.max(not_above, least);
    te.cast(dtype, inside)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, type_of, varied};

    const PARAMS: &str = r#"x: R.Tensor(("n", 4), "float32"), s: R.Tensor((3,), "float32"), z: R.Tensor((1,), "int8"), q: R.Tensor((4,), "int8")"#;

    #[test]
    fn types_are_those_of_the_attribute() {
        let call = r#"R.quantize(x, R.const(0.5, "float32"), z, out_dtype="uint8")"#;
        assert_eq!(type_of(PARAMS, call), "uint8 [n, 4]");
        assert_eq!(type_of(PARAMS, r#"R.dequantize(q, R.const(0.5, "float32"), z)"#), "float32 [4]");
    }

    #[test]
    fn mistakes_name_both_shapes() {
        refused(PARAMS, "R.quantize(x, s, z)", &["`R.quantize`", "`data` [n, 4] is 4", "`scale` [3] is 3"]);
        refused(PARAMS, "R.quantize(q, s, z)", &["`data` must have floats, found int8"]);
        refused(PARAMS, r#"R.dequantize(q, q, z)"#, &["`scale` must have floats, found int8"]);
    }

    #[test]
    fn numbers_are_rounded_within_the_range_of_the_type() {
        let x: Vec<f32> = varied(&[3, 4]).iter().map(|v| v * 40.0).collect();
        let scale = [0.25, 0.5, 1.0, 2.0];
        let steps: Vec<f32> = (x.iter().enumerate())
            .map(|(i, v)| ((v / scale[i % 4]).round_ties_even() + 3.0).clamp(-128.0, 127.0))
            .collect();
        let quantized = r#"R.quantize(x, s, R.const(3, "int8"))"#;
        let inputs: [super::super::testing::Input<'_>; 2] = [("x", &[3, 4], &x), ("s", &[4], &scale)];
        check(&inputs, &format!(r#"R.astype({quantized}, "float32")"#), &steps);
        let back: Vec<f32> = steps.iter().enumerate().map(|(i, v)| (v - 3.0) * scale[i % 4]).collect();
        check(&inputs, &format!(r#"R.dequantize({quantized}, s, R.const(3, "int8"), axis=1)"#), &back);
    }
}
