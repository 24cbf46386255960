//! Operators on quantised tensors that ONNX Runtime's quantisation writes (`com.microsoft`).

use super::microsoft::plain;
use super::pool::pool;
use super::quantize::{centred, centred_product, dequantize, dynamic, quantize, requantized, rounded};
use super::*;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    plain("DequantizeLinear", dequantize),
    plain("DynamicQuantizeMatMul", |n| {
        let (x, b, scale_b) = (n.value(0)?, n.value(1)?, n.value(2)?);
        let [x, scale_x, zero] = dynamic(n, x)?;
        let (x, zero) = (n.cast(x, DType::Int32)?, n.cast(zero, DType::Int32)?);
        let (x, b) = (n.binary("subtract", x, zero)?, centred(n, b, 3, None)?);
        let sum = n.matmul(x, b)?;
        scaled(n, sum, (scale_x, scale_b), 4)
    }),
    plain("MatMulIntegerToFloat", |n| {
        let (a, b, scale_a, scale_b) = (n.value(0)?, n.value(1)?, n.value(2)?, n.value(3)?);
        let sum = centred_product(n, (a, 4), (b, 5))?;
        scaled(n, sum, (scale_a, scale_b), 6)
    }),
    plain("QGemm", |n| {
        let (mut a, mut b) = (n.value(0)?, n.value(3)?);
        if n.flag("transA", false) {
            a = n.permute(a, &[1, 0])?;
        }
        if n.flag("transB", false) {
            b = n.permute(b, &[1, 0])?;
        }
        (a, b) = (centred(n, a, 2, None)?, centred(n, b, 5, None)?);
        let mut sum = n.matmul(a, b)?;
        if let Some(bias) = n.opt_value(6)? {
            sum = n.binary("add", sum, bias)?;
        }
        let (a, b, alpha) = (n.value(1)?, n.value(4)?, n.float("alpha", 1.0));
        let b = if alpha == 1.0 { b } else { n.with_number("multiply", b, alpha)? };
        match n.opt_value(7)? {
            Some(y) => requantized(n, sum, [a, b, y], 8),
            None => {
                let (sum, scale) = (n.cast(sum, DType::Float32)?, n.binary("multiply", a, b)?);
                n.binary("multiply", sum, scale)
            }
        }
    }),
    plain("QLinearAdd", |n| {
        let (a, b) = (float_of(n, 0)?, float_of(n, 3)?);
        let sum = n.binary("add", a, b)?;
        quantized(n, sum, 6)
    }),
    plain("QLinearAveragePool", |n| {
        let x = float_of(n, 0)?;
        if n.flag("channels_last", false) {
            return n.fail("`QLinearAveragePool` with `channels_last` is not supported");
        }
        let include = n.flag("count_include_pad", false);
        let mean = pool(n, x, "avg", Some(include))?;
        quantized(n, mean, 3)
    }),
    plain("QLinearConcat", |n| {
        let axis = n.int("axis", 0);
        let all = (2..n.n_inputs()).step_by(3).map(|i| float_of(n, i)).collect::<Result<Vec<_>>>()?;
        let args = vec![("tensors", Arg::Values(all)), ("axis", int(axis))];
        let whole = n.call("concat", args)?;
        quantized(n, whole, 0)
    }),
    plain("QLinearGlobalAveragePool", |n| {
        let x = float_of(n, 0)?;
        if n.flag("channels_last", false) {
            return n.fail("`QLinearGlobalAveragePool` with `channels_last` is not supported");
        }
        let axes: Vec<i64> = (2..n.rank(x)? as i64).collect();
        let mean = n.reduce("mean", x, &axes, true)?;
        quantized(n, mean, 3)
    }),
    plain("QLinearLeakyRelu", |n| {
        let (x, alpha) = (float_of(n, 0)?, n.float("alpha", 0.01));
        let y = n.call("nn.leakyrelu", vec![("data", Arg::Value(x)), ("alpha", float(alpha))])?;
        quantized(n, y, 3)
    }),
    plain("QLinearMul", |n| {
        let (a, b) = (float_of(n, 0)?, float_of(n, 3)?);
        let product = n.binary("multiply", a, b)?;
        quantized(n, product, 6)
    }),
    plain("QLinearSigmoid", |n| {
        let x = float_of(n, 0)?;
        let y = n.unary("sigmoid", x)?;
        quantized(n, y, 3)
    }),
    plain("QLinearSoftmax", |n| {
        let (x, axis, opset) = (float_of(n, 0)?, n.int("axis", -1), n.int("opset", 13));
        if opset < 13 {
            return n.fail(format!("`QLinearSoftmax` as of opset {opset} is not supported, but from 13 on"));
        }
        let y = n.call("nn.softmax", vec![("data", Arg::Value(x)), ("axis", int(axis))])?;
        quantized(n, y, 3)
    }),
    plain("QuantizeLinear", quantize),
];

/// The floats that argument `i` stands for, with the scale and the zero point behind it.
fn float_of(n: &mut Node<'_, '_>, i: usize) -> Result<ValueId> {
    let (x, scale, zero) = (n.value(i)?, n.value(i + 1)?, n.value(i + 2)?);
    let args = [("data", x), ("scale", scale), ("zero_point", zero)].map(|(name, v)| (name, Arg::Value(v)));
    n.call("dequantize", args.into_iter().chain([("out_dtype", text("float32"))]).collect())
}

/// Floats as integers by the scale at argument `i` and the zero point behind it.
fn quantized(n: &mut Node<'_, '_>, x: ValueId, i: usize) -> Result<ValueId> {
    let (scale, zero) = (n.value(i)?, n.value(i + 1)?);
    rounded(n, x, scale, zero)
}

/// Sums of products as floats, by the scales of both factors; a bias that may be absent is added.
fn scaled(n: &mut Node<'_, '_>, sum: ValueId, (a, b): (ValueId, ValueId), bias: usize) -> Result<ValueId> {
    let scale = n.binary("multiply", a, b)?;
    let sum = n.cast(sum, DType::Float32)?;
    let y = n.binary("multiply", sum, scale)?;
    match n.opt_value(bias)? {
        Some(bias) => n.binary("add", y, bias),
        None => Ok(y),
    }
}
