//! Numbers as small integers, and back.

use super::*;
use crate::graph::lower::Operand;
use crate::ir::Builtin;

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
                if wide == DType::Float32 && dtype.is_integer() && dtype.bits() <= 16 {
                    let (x, scale) = (te.cast(wide, x), te.cast(wide, scale));
                    return few_steps(te, x, scale, zero, dtype);
                }
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

/// To which floats are added so that their last bit counts ones: 1.5 * 2^23.
const ONES: f64 = 12_582_912.0;

/// round(x / scale) + zero as an integer of up to 16 bits.
///
/// The bounds of the type are those of `x` too, times the scale: that product is so near that its quotient rounds to the bound, and all
/// beyond are the bound. They are the same for many elements, and leave neither infinity nor a value outside the type. The quotient
/// plus 1.5 * 2^23 is rounded to an integer, halves to even, which is then the lower bits of the float.
fn few_steps(te: &mut Te, x: ExprId, scale: ExprId, zero: ExprId, dtype: DType) -> ExprId {
    let float_zero = te.cast(DType::Float32, zero);
    let mut bound = |bound: Result<i64, f64>| {
        let bound = bound.map_or_else(|float| float, |int| int as f64);
        let bound = match te.as_float(float_zero) {
            Some(zero) => like(te, x, bound - zero),
            None => {
                let bound = like(te, x, bound);
                te.sub(bound, float_zero)
            }
        };
        match (te.as_float(bound), te.as_float(scale)) {
            (Some(bound), Some(scale)) => like(te, x, f64::from(bound as f32 * scale as f32)),
            _ => te.mul(bound, scale),
        }
    };
    let (a, b) = (bound(dtype.min_value()), bound(dtype.max_value()));
    // A scale may be negative.
    let (least, most) = match (te.as_float(a), te.as_float(b)) {
        (Some(least), Some(most)) if least <= most => (a, b),
        (Some(_), Some(_)) => (b, a),
        _ => (te.min(a, b), te.max(a, b)),
    };
    let x = te.min(x, most);
    let x = te.max(x, least);
    let quotient = match te.as_float(scale) {
        Some(1.0) => x,
        known => {
            let inverse = match known {
                Some(scale) => like(te, x, f64::from(1.0 / scale as f32)),
                None => {
                    let one = like(te, x, 1.0);
                    te.binary(BinOp::Div, one, scale)
                }
            };
            let product = te.mul(x, inverse);
            corrected(te, x, scale, inverse, product)
        }
    };
    let ones = like(te, x, ONES);
    let rounded = te.add(quotient, ones);
    let bits = te.builtin(Builtin::Reinterpret, &[rounded], DType::Int32);
    let (zero, of_ones) = (te.cast(DType::Int32, zero), te.int(i64::from((ONES as f32).to_bits()), DType::Int32));
    let steps = te.sub(bits, of_ones);
    let value = te.add(steps, zero);
    te.cast(dtype, value)
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
    corrected(te, a, b, inverse, product)
}

/// The rounded quotient from the product with the reciprocal.
fn corrected(te: &mut Te, a: ExprId, b: ExprId, inverse: ExprId, product: ExprId) -> ExprId {
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

    #[test]
    fn halves_and_what_is_out_of_range_are_those_of_a_division() {
        for scale in [0.02f32, 0.1, 1.0, 3.0, 0.003_921_569, 1e-30, 1e30] {
            let mut x = vec![f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0, -0.0, 1e-40];
            for step in -300..300 {
                let half = (step as f32 + 0.5) * scale;
                x.extend([half, half.next_up(), half.next_down()]);
            }
            let shape = [x.len() as i64];
            for (dtype, zero, least, most) in [("uint8", 120.0, 0.0, 255.0), ("int8", -3.0, -128.0, 127.0)] {
                let steps: Vec<f32> =
                    x.iter().map(|v| ((v / scale).round_ties_even() + zero).clamp(least, most)).collect();
                let call = format!(
                    r#"R.astype(R.quantize(x, R.const({scale:e}, "float32"), R.const({zero}, "{dtype}"), out_dtype="{dtype}"), "float32")"#
                );
                check(&[("x", &shape, &x)], &call, &steps);
                let call = format!(
                    r#"R.astype(R.quantize(x, s, R.const({zero}, "{dtype}"), out_dtype="{dtype}"), "float32")"#
                );
                check(&[("x", &shape, &x), ("s", &[1], &[scale])], &call, &steps);
            }
        }
    }
}
