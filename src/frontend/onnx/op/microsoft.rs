//! Operators that ONNX Runtime writes into optimised models (`com.microsoft`).

use super::elementwise::hard_sigmoid;
use super::nn::{convolution, gemm, spatial};
use super::*;
use crate::ir::DType;

/// An operator of `com.microsoft`.
pub(super) const fn fused(
    name: &'static str,
    rule: for<'m> fn(&mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>>,
) -> Operator {
    Operator { domain: "com.microsoft", name, versions: (1, 1), rule: Rule::Many(rule) }
}

/// An operator of `com.microsoft` with one result.
pub(super) const fn plain(name: &'static str, rule: fn(&mut Node<'_, '_>) -> Result<ValueId>) -> Operator {
    Operator { domain: "com.microsoft", name, versions: (1, 1), rule: Rule::One(rule) }
}

pub(super) static OPERATORS: &[Operator] = &[
    plain("BiasGelu", |n| {
        let (x, bias) = (n.value(0)?, n.value(1)?);
        let x = n.binary("add", x, bias)?;
        n.unary("nn.gelu", x)
    }),
    fused("EmbedLayerNormalization", embed),
    plain("FastGelu", |n| {
        let mut x = n.value(0)?;
        if let Some(bias) = n.opt_value(1)? {
            x = n.binary("add", x, bias)?;
        }
        n.unary("nn.gelu_tanh", x)
    }),
    plain("FusedConv", |n| {
        let (x, w) = (n.value(0)?, n.value(1)?);
        let spatial = spatial(n, x)?;
        let mut y = convolution(n, x, w, spatial)?;
        if let Some(bias) = n.opt_value(2)? {
            let shape = vec![-1; 1].into_iter().chain(vec![1; spatial]).collect::<Vec<_>>();
            let bias = n.reshape_to(bias, &shape)?;
            y = n.binary("add", y, bias)?;
        }
        if let Some(other) = n.opt_value(3)? {
            y = n.binary("add", y, other)?;
        }
        let numbers: Vec<f64> = n.floats("activation_params").unwrap_or_default().iter().map(|&v| v.into()).collect();
        activated(n, y, |i, default| numbers.get(i).copied().unwrap_or(default))
    }),
    plain("FusedGemm", |n| {
        let (alpha, beta) = (n.opt_float("activation_alpha"), n.opt_float("activation_beta"));
        n.ignore("activation_gamma");
        let y = gemm(n)?;
        activated(n, y, |i, default| [alpha, beta].get(i).copied().flatten().unwrap_or(default))
    }),
    plain("FusedMatMul", |n| {
        let (mut a, mut b, alpha) = (n.value(0)?, n.value(1)?, n.float("alpha", 1.0));
        if n.flag("transBatchA", false) || n.flag("transBatchB", false) {
            return n.fail("`FusedMatMul` with transposed batches is not supported");
        }
        if n.flag("transA", false) {
            a = n.swapped(a)?;
        }
        if n.flag("transB", false) {
            b = n.swapped(b)?;
        }
        let y = n.matmul(a, b)?;
        if alpha == 1.0 { Ok(y) } else { n.with_number("multiply", y, alpha) }
    }),
    plain("Gelu", |n| {
        let x = n.value(0)?;
        n.unary("nn.gelu", x)
    }),
    plain("MatMulNBits", matmul_bits),
    plain("QuickGelu", |n| {
        let (x, alpha) = (n.value(0)?, n.float("alpha", 1.702));
        let s = n.with_number("multiply", x, alpha)?;
        let s = n.unary("sigmoid", s)?;
        n.binary("multiply", x, s)
    }),
    Operator {
        domain: "",
        name: "SimplifiedLayerNormalization",
        versions: (7, OPSETS.1),
        rule: Rule::One(|n| {
            n.ignore("axis");
            n.ignore("stash_type");
            let (x, scale, epsilon) = (n.value(0)?, n.value(1)?, n.float("epsilon", 1e-5));
            root_mean_square(n, x, scale, epsilon)
        }),
    },
    fused("SkipLayerNormalization", |n| {
        let (sum, scale, epsilon) = (skipped(n, 4)?, n.value(2)?, n.float("epsilon", 1e-12));
        let shift = n.opt_value(3)?;
        let [y, mean, inverse] = normalised(n, sum, scale, shift, epsilon)?;
        Ok([y, mean, inverse, sum].map(Operand::Value).to_vec())
    }),
    fused("SkipSimplifiedLayerNormalization", |n| {
        let (sum, scale, epsilon) = (skipped(n, 3)?, n.value(2)?, n.float("epsilon", 1e-12));
        let y = root_mean_square(n, sum, scale, epsilon)?;
        if n.wants(1) || n.wants(2) {
            return n.fail("the means of `SkipSimplifiedLayerNormalization` are not supported");
        }
        Ok([y, sum, sum, sum].map(Operand::Value).to_vec())
    }),
];

/// The result of the activation that an attribute names. `number` gives its numbers, or those that it has by default.
fn activated(n: &mut Node<'_, '_>, y: ValueId, number: impl Fn(usize, f64) -> f64) -> Result<ValueId> {
    match n.text("activation", "").as_str() {
        "" => Ok(y),
        "Relu" => n.unary("nn.relu", y),
        "Sigmoid" => n.unary("sigmoid", y),
        "Tanh" => n.unary("tanh", y),
        "LeakyRelu" => n.call("nn.leakyrelu", vec![("data", Arg::Value(y)), ("alpha", float(number(0, 0.01)))]),
        "Clip" => {
            let y = n.with_number("maximum", y, number(0, f64::from(f32::MIN)))?;
            n.with_number("minimum", y, number(1, f64::from(f32::MAX)))
        }
        "HardSigmoid" => hard_sigmoid(n, y, number(0, 0.2), number(1, 0.5)),
        other => n.fail(format!("`{}` has the activation `{other}`", n.op_type())),
    }
}

/// The sum of the first two arguments, and of a bias.
fn skipped(n: &mut Node<'_, '_>, bias: usize) -> Result<ValueId> {
    let (x, skip) = (n.value(0)?, n.value(1)?);
    let sum = n.binary("add", x, skip)?;
    match n.opt_value(bias)? {
        Some(bias) => n.binary("add", sum, bias),
        None => Ok(sum),
    }
}

fn root_mean_square(n: &mut Node<'_, '_>, x: ValueId, scale: ValueId, epsilon: f64) -> Result<ValueId> {
    let args =
        [("data", Arg::Value(x)), ("weight", Arg::Value(scale)), ("axes", ints(&[-1])), ("epsilon", float(epsilon))];
    n.call("nn.rms_norm", args.to_vec())
}

/// Layer normalisation along the last axis, the means, and the inverse deviations.
fn normalised(
    n: &mut Node<'_, '_>,
    x: ValueId,
    scale: ValueId,
    shift: Option<ValueId>,
    epsilon: f64,
) -> Result<[ValueId; 3]> {
    let mean = n.reduce("mean", x, &[-1], true)?;
    let apart = n.binary("subtract", x, mean)?;
    let square = n.binary("multiply", apart, apart)?;
    let variance = n.reduce("mean", square, &[-1], true)?;
    let variance = n.with_number("add", variance, epsilon)?;
    let inverse = n.unary("rsqrt", variance)?;
    let shift = match shift {
        Some(shift) => shift,
        None => n.zeros_like(scale)?,
    };
    let args = [
        ("data", Arg::Value(x)),
        ("gamma", Arg::Value(scale)),
        ("beta", Arg::Value(shift)),
        ("axes", ints(&[-1])),
        ("epsilon", float(epsilon)),
    ];
    Ok([n.call("nn.layer_norm", args.to_vec())?, mean, inverse])
}

/// Rows of tables for words, positions and segments, added and normalised.
fn embed<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    let epsilon = n.float("epsilon", 1e-12);
    let (ids, words, positions) = (n.value(0)?, n.value(2)?, n.value(3)?);
    if n.flag("mask_index_type", false) || n.wants(1) && n.has(7) {
        return n.fail("the lengths of `EmbedLayerNormalization` are not supported");
    }
    if n.has(7) {
        n.operand(7)?;
    }
    let shape = n.shape(ids)?;
    let mut sum = n.take(words, ids)?;
    let rows = match n.opt_value(8)? {
        Some(at) => n.take(positions, at)?,
        None => {
            let Some(&length) = shape.last() else { return n.fail("`EmbedLayerNormalization` of a number") };
            let at = n.iota(length)?;
            n.take(positions, at)?
        }
    };
    sum = n.binary("add", sum, rows)?;
    if let (Some(at), Some(table)) = (n.opt_value(1)?, n.opt_value(4)?) {
        let rows = n.take(table, at)?;
        sum = n.binary("add", sum, rows)?;
    }
    let (scale, shift) = (n.value(5)?, n.value(6)?);
    let [y, ..] = normalised(n, sum, scale, Some(shift), epsilon)?;
    // Without a mask the lengths are 0.
    let lengths = n.full(shape.into_iter().take(1).collect(), 0.0, DType::Int32)?;
    Ok([y, lengths, sum].map(Operand::Value).to_vec())
}

/// The product with weights of 4 or 8 bits in blocks: `[columns, blocks, bytes]`, each block with its scale and zero point.
fn matmul_bits(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let (rows, columns) = (n.int("K", 0), n.int("N", 0));
    let (bits, block) = (n.int("bits", 4), n.int("block_size", 32));
    n.ignore("accuracy_level");
    let (a, b, scales) = (n.value(0)?, n.value(1)?, n.value(2)?);
    let dtype = n.dtype(a)?;
    if !matches!(bits, 4 | 8) {
        return n.fail(format!("`MatMulNBits` of {bits} bits is not supported, but of 4 and 8"));
    }
    if [rows, columns, block].iter().any(|v| !(1..1 << 31).contains(v)) {
        return n.fail("the sizes of `MatMulNBits` are not positive");
    }
    let blocks = (rows + block - 1) / block;
    let wide = blocks * block;
    let unpacked = |n: &mut Node<'_, '_>, v: ValueId, count: i64| {
        if bits == 8 {
            return n.reshape_to(v, &[columns, count]);
        }
        let (mask, shift) = (n.scalar(15.0, DType::UInt8)?, n.scalar(4.0, DType::UInt8)?);
        let (low, high) = (n.binary("bitwise_and", v, mask)?, n.binary("right_shift", v, shift)?);
        let both = n.call("stack", vec![("tensors", Arg::Values(vec![low, high])), ("axis", int(-1))])?;
        let all = n.reshape_to(both, &[columns, -1])?;
        n.part(all, 1, (0, count), 1)
    };
    let weights = unpacked(n, b, wide)?;
    let weights = n.cast(weights, dtype)?;
    let weights = n.reshape_to(weights, &[columns, blocks, block])?;
    let zero = match n.opt_value(3)? {
        Some(zero) if n.dtype(zero)? == DType::UInt8 => {
            let zero = n.reshape_to(zero, &[columns, -1])?;
            let zero = unpacked(n, zero, blocks)?;
            n.cast(zero, dtype)?
        }
        Some(zero) => n.reshape_to(zero, &[columns, blocks])?,
        None => {
            let shape = n.indices(&[1, 1]);
            n.full(shape, 2_f64.powi(bits as i32 - 1), dtype)?
        }
    };
    let (zero, scales) = (n.expand_dims(zero, &[2])?, n.reshape_to(scales, &[columns, blocks, 1])?);
    let weights = n.binary("subtract", weights, zero)?;
    let weights = n.binary("multiply", weights, scales)?;
    let mut weights = n.reshape_to(weights, &[columns, wide])?;
    if wide != rows {
        weights = n.part(weights, 1, (0, rows), 1)?;
    }
    let weights = n.permute(weights, &[1, 0])?;
    let y = n.matmul(a, weights)?;
    match n.opt_value(5)? {
        Some(bias) => n.binary("add", y, bias),
        None => Ok(y),
    }
}
