//! Layers of neural networks.

use super::broadcast::{Side, operation};
use super::call::{Argument, Call, TopiError, float, int, ints};
use super::elementwise::each;
use super::reduction::sum;
use super::transform::{expect_equal, reshaped, with_ones};
use super::{Operator, by};
use crate::graph::apply::Given;
use crate::graph::op::{of_type, padded};
use crate::ir::{AttrValue, BinOp, CmpOp, DType, ExprId, Intrinsic};
use crate::te::{Reducer, Te, Tensor};

pub(super) static OPERATORS: &[Operator] = &[
    by(
        "nn.batch_matmul",
        "tensor_a, tensor_b, oshape=None, out_dtype=None, transpose_a=False, transpose_b=True, auto_scheduler_rewritten_layout='', meta_schedule_original_shape=None",
        batch_matmul,
    ),
    by(
        "nn.batch_norm",
        "data, gamma, beta, moving_mean, moving_var, axis=None, epsilon=None, center=None, scale=None, training=None, momentum=None",
        batch_norm,
    ),
    by("nn.bias_add", "data, bias, axis=1", |call| {
        let (data, bias, axis) = (call.tensor("data")?, call.tensor("bias")?, call.int("axis")?);
        let rank = call.rank(data) as i64;
        let at = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&at) || call.rank(bias) != 1 {
            return Err(TopiError::new(format!("`bias` is a vector along axis {axis} of `data`")));
        }
        let behind = (rank - at - 1) as usize;
        let bias = if behind == 0 { bias } else { with_ones(call.te, bias, 1, behind) };
        operation(call, "add", Side::Tensor(data), Side::Tensor(bias))
    }),
    by(
        "nn.dense",
        "data, weight, bias=None, out_dtype=None, auto_scheduler_rewritten_layout='', meta_schedule_original_shape=None",
        |call| matmul(call, "data", "weight", false, true),
    ),
    by(
        "nn.matmul",
        "tensor_a, tensor_b, bias=None, out_dtype=None, transpose_a=False, transpose_b=False, auto_scheduler_rewritten_layout='', meta_schedule_original_shape=None",
        |call| {
            let (a, b) = (call.flag("transpose_a")?, call.flag("transpose_b")?);
            matmul(call, "tensor_a", "tensor_b", a, b)
        },
    ),
    by("nn.flatten", "data", flatten),
    by("nn.instance_norm", "data, gamma, beta, channel_axis, axis, epsilon=1e-05", |call| {
        let (channel, axes) = (call.int("channel_axis")?, call.ints("axis")?);
        let given = vec![("channel_axis", int(channel)), ("axes", ints(&axes))];
        normalised(call, "nn.instance_norm", given)
    }),
    by("nn.group_norm", "data, gamma, beta, num_groups, channel_axis, axes, epsilon=1e-05", |call| {
        let (groups, channel, axes) = (call.int("num_groups")?, call.int("channel_axis")?, call.ints("axes")?);
        let given = vec![("num_groups", int(groups)), ("channel_axis", int(channel)), ("axes", ints(&axes))];
        normalised(call, "nn.group_norm", given)
    }),
    by("nn.layer_norm", "data, gamma, beta, axis, epsilon=1e-05", |call| {
        let axes = call.ints("axis")?;
        normalised(call, "nn.layer_norm", vec![("axes", ints(&axes))])
    }),
    by("nn.leaky_relu", "x, alpha", |call| {
        let (x, alpha) = (call.tensor("x")?, call.float("alpha")?);
        call.operator("nn.leakyrelu", vec![("data", Given::Tensor(x)), ("alpha", float(alpha))])
    }),
    by("nn.log_softmax", "x, axis=-1", |call| {
        let (x, axis) = (call.tensor("x")?, call.int("axis")?);
        let result = call.operator("nn.log_softmax", vec![("data", Given::Tensor(x)), ("axis", int(axis))])?;
        let axis = if axis < 0 { axis + call.rank(x) as i64 } else { axis };
        call.te.annotate(result[0], "axis", AttrValue::Int(axis));
        Ok(result)
    }),
    by("nn.pad", "data, pad_before, pad_after=None, pad_value=0.0, name='PadInput', attrs=None", |call| {
        let (data, before, name) = (call.tensor("data")?, call.ints("pad_before")?, call.text("name")?);
        let after = call.opt_ints("pad_after")?.unwrap_or_else(|| before.clone());
        let n = call.rank(data);
        if before.len() != n || after.len() != n {
            return Err(TopiError::new(format!("`data` has {n} dimensions, and the padding is of {}", before.len())));
        }
        if before.iter().chain(&after).any(|w| !(0..=1 << 20).contains(w)) {
            return call.wrong("pad_before", "widths from 0 to 1048576");
        }
        let value = call.float("pad_value")?;
        let value = of_type(call.te, value, call.type_of(data));
        Ok(vec![padded(call.te, name.as_str(), data, &before, &after, value)])
    }),
    by("nn.prelu", "x, slope, axis=1", |call| {
        let (x, slope, axis) = (call.tensor("x")?, call.tensor("slope")?, call.int("axis")?);
        let given = vec![("data", Given::Tensor(x)), ("alpha", Given::Tensor(slope)), ("axis", int(axis))];
        call.operator("nn.prelu", given)
    }),
    by("nn.relu", "x", |call| {
        let x = call.tensor("x")?;
        call.operator("nn.relu", vec![("data", Given::Tensor(x))])
    }),
    by("nn.rms_norm", "data, weight, axis, epsilon=1e-05", rms_norm),
    by("nn.scale_shift_nchw", "Input, Scale, Shift", |call| scale_shift(call, 1)),
    by("nn.scale_shift_nhwc", "Input, Scale, Shift", |call| scale_shift(call, 3)),
    by("nn.softmax", "x, axis=-1", |call| {
        let (x, axis) = (call.tensor("x")?, call.int("axis")?);
        call.operator("nn.softmax", vec![("data", Given::Tensor(x)), ("axis", int(axis))])
    }),
    by("nn.softplus", "x, beta=1.0, threshold=20.0", |call| {
        let x = call.tensor("x")?;
        let (beta, threshold) = (call.float("beta")?, call.float("threshold")?);
        let dtype = call.type_of(x);
        if !dtype.is_float() {
            return call.wrong("x", "floats");
        }
        Ok(vec![each(call, x, "compute", |te, x| {
            let (beta, threshold, one) = (te.float(beta, dtype), te.float(threshold, dtype), te.float(1.0, dtype));
            let scaled = te.mul(beta, x);
            let is_linear = te.compare(CmpOp::Gt, scaled, threshold);
            let exp = te.call(Intrinsic::Exp, &[scaled]);
            let sum = te.add(one, exp);
            let log = te.call(Intrinsic::Log, &[sum]);
            let inverse = te.binary(BinOp::Div, one, beta);
            let soft = te.mul(inverse, log);
            te.select(is_linear, x, soft)
        })])
    }),
];

/// The index into a dimension of a batch, which is 0 if its extent is 1.
fn batch_index(te: &mut Te, extent: ExprId, index: ExprId) -> ExprId {
    if te.is_int(extent, 1) { te.extent(0) } else { index }
}

fn matmul(
    call: &mut Call<'_>,
    first: &'static str,
    second: &'static str,
    of_a: bool,
    of_b: bool,
) -> Result<Vec<Tensor>, TopiError> {
    let (a, b, bias) = (call.tensor(first)?, call.tensor(second)?, call.opt_tensor("bias")?);
    let dtype = match call.opt_dtype("out_dtype")? {
        Some(dtype) => dtype,
        None => call.type_of(a),
    };
    let (sa, sb) = (call.te.shape(a).to_vec(), call.te.shape(b).to_vec());
    if sa.len() < 2 || sb.len() < 2 {
        return Err(TopiError::new("expected matrices, or batches of them"));
    }
    let (na, nb) = (sa.len() - 2, sb.len() - 2);
    let (rows, k) = if of_a { (sa[na + 1], sa[na]) } else { (sa[na], sa[na + 1]) };
    let (columns, other) = if of_b { (sb[nb], sb[nb + 1]) } else { (sb[nb + 1], sb[nb]) };
    expect_equal(call, k, other)?;
    let n = na.max(nb);
    let mut shape = Vec::with_capacity(n + 2);
    for d in 0..n {
        let own = |s: &[ExprId], rank: usize| (d + rank).checked_sub(n).map(|d| s[d]);
        let (x, y) = (own(&sa, na), own(&sb, nb));
        shape.push(match (x, y) {
            (Some(x), Some(y)) if call.te.is_int(x, 1) => y,
            (Some(x), Some(y)) if !call.te.is_int(y, 1) => {
                expect_equal(call, x, y)?;
                x
            }
            (Some(x), _) => x,
            (None, Some(y)) => y,
            (None, None) => continue,
        });
    }
    shape.extend([rows, columns]);
    let name = match (of_a, of_b) {
        (true, true) => "T_matmul_TT",
        (true, false) => "T_matmul_TN",
        (false, true) => "T_matmul_NT",
        (false, false) => "T_matmul_NN",
    };
    call.layout_free.push(b);
    let product = call.te.reduce(name, &shape, &[k], Reducer::Sum, |te, i, k| {
        let (row, column) = (i[n], i[n + 1]);
        let at = |te: &mut Te, own: &[ExprId], rank: usize, last: [ExprId; 2]| {
            let mut all: Vec<ExprId> = (0..rank).map(|d| batch_index(te, own[d], i[n - rank + d])).collect();
            all.extend(last);
            all
        };
        let at_a = at(te, &sa, na, if of_a { [k[0], row] } else { [row, k[0]] });
        let at_b = at(te, &sb, nb, if of_b { [column, k[0]] } else { [k[0], column] });
        let (x, y) = (te.at(a, &at_a), te.at(b, &at_b));
        let (x, y) = (te.converted(dtype, x), te.converted(dtype, y));
        te.mul(x, y)
    });
    let Some(bias) = bias else { return Ok(vec![product]) };
    let bias = each(call, bias, "compute", |te, x| te.converted(dtype, x));
    operation(call, "add", Side::Tensor(product), Side::Tensor(bias))
}

fn batch_matmul(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let (a, b) = (call.tensor("tensor_a")?, call.tensor("tensor_b")?);
    let (of_a, of_b) = (call.flag("transpose_a")?, call.flag("transpose_b")?);
    let dtype = match call.opt_dtype("out_dtype")? {
        Some(dtype) => dtype,
        None => call.type_of(a),
    };
    let (sa, sb) = (call.te.shape(a).to_vec(), call.te.shape(b).to_vec());
    if sa.len() != 3 || sb.len() != 3 {
        return Err(TopiError::new("expected batches of matrices"));
    }
    let (rows, k) = if of_a { (sa[2], sa[1]) } else { (sa[1], sa[2]) };
    let (columns, other) = if of_b { (sb[1], sb[2]) } else { (sb[2], sb[1]) };
    expect_equal(call, k, other)?;
    let items = if call.te.is_int(sa[0], 1) { sb[0] } else { sa[0] };
    if !call.te.is_int(sb[0], 1) {
        expect_equal(call, items, sb[0])?;
    }
    let name = match (of_a, of_b) {
        (true, true) => "T_batch_matmul_TT",
        (true, false) => "T_batch_matmul_TN",
        (false, true) => "T_batch_matmul_NT",
        (false, false) => "T_batch_matmul_NN",
    };
    call.layout_free.push(b);
    Ok(vec![call.te.reduce(name, &[items, rows, columns], &[k], Reducer::Sum, |te, i, k| {
        let (item_a, item_b) = (batch_index(te, sa[0], i[0]), batch_index(te, sb[0], i[0]));
        let x = te.at(a, &if of_a { [item_a, k[0], i[1]] } else { [item_a, i[1], k[0]] });
        let y = te.at(b, &if of_b { [item_b, i[2], k[0]] } else { [item_b, k[0], i[2]] });
        let (x, y) = (te.converted(dtype, x), te.converted(dtype, y));
        te.mul(x, y)
    })])
}

/// Normalisation by given means and variances.
fn batch_norm(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    if call.flag("training")? {
        return call.wrong("training", "`False`: means and variances are given");
    }
    let data = call.tensor("data")?;
    let rank = call.rank(data) as i64;
    let axis = call.opt_int("axis")?.unwrap_or(1);
    let at = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&at) {
        return call.wrong("axis", "an axis of `data`");
    }
    let mut shape = vec![call.te.extent(1); rank as usize];
    shape[at as usize] = call.te.shape(data)[at as usize];
    let epsilon = if *call.get("epsilon") == Argument::None { 1e-5 } else { call.float("epsilon")? };
    let yes = |call: &Call<'_>, name: &'static str| -> Result<bool, TopiError> {
        if *call.get(name) == Argument::None { Ok(true) } else { call.flag(name) }
    };
    let (center, scale) = (yes(call, "center")?, yes(call, "scale")?);
    let along = |call: &mut Call<'_>, name: &'static str| -> Result<Side, TopiError> {
        let vector = call.tensor(name)?;
        Ok(Side::Tensor(reshaped(call.te, vector, &shape)))
    };
    let mean = along(call, "moving_mean")?;
    let mut out = operation(call, "subtract", Side::Tensor(data), mean)?[0];
    let variance = along(call, "moving_var")?;
    let epsilon = call.te.float(epsilon, DType::Float32);
    let variance = operation(call, "add", variance, Side::Number(epsilon))?[0];
    let deviation = each(call, variance, "compute", |te, x| te.call(Intrinsic::Sqrt, &[x]));
    out = operation(call, "divide", Side::Tensor(out), Side::Tensor(deviation))?[0];
    if scale {
        let gamma = along(call, "gamma")?;
        out = operation(call, "multiply", Side::Tensor(out), gamma)?[0];
    }
    if center {
        let beta = along(call, "beta")?;
        out = operation(call, "add", Side::Tensor(out), beta)?[0];
    }
    let (mean, variance) = (call.tensor("moving_mean")?, call.tensor("moving_var")?);
    let one = Side::Number(call.te.int32(1));
    let mean = operation(call, "multiply", Side::Tensor(mean), one)?[0];
    let variance = operation(call, "multiply", Side::Tensor(variance), one)?[0];
    Ok(vec![out, mean, variance])
}

/// The data divided by the root of its mean square along axes, times a weight.
fn rms_norm(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let (data, weight, epsilon) = (call.tensor("data")?, call.tensor("weight")?, call.float("epsilon")?);
    let dtype = call.type_of(data);
    let rank = call.rank(data) as i64;
    let mut axes = Vec::new();
    for axis in call.ints("axis")? {
        let at = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&at) {
            return call.wrong("axis", "axes of `data`");
        }
        axes.push(at as usize);
    }
    if !dtype.is_float() || call.type_of(weight) != dtype || axes.is_empty() || call.rank(weight) != axes.len() {
        return Err(TopiError::new("`data` and `weight` must be floats of one type, and `weight` have the axes"));
    }
    let shape = call.te.shape(data).to_vec();
    let wide = DType::Float32;
    let data = each(call, data, "T_cast", |te, x| te.converted(wide, x));
    let square = operation(call, "multiply", Side::Tensor(data), Side::Tensor(data))?[0];
    let sum = sum(call.te, square, &axes, false);
    let te = &mut *call.te;
    let rest = te.shape(sum).to_vec();
    let mut count = te.float(1.0, wide);
    for &d in &axes {
        let extent = te.cast(wide, shape[d]);
        count = te.mul(count, extent);
    }
    let scale = te.compute("rsqrt", &rest, |te, i| {
        let sum = te.at(sum, i);
        let epsilon = te.float(epsilon, wide);
        let mean = te.binary(BinOp::Div, sum, count);
        let mean = te.add(mean, epsilon);
        te.call(Intrinsic::Rsqrt, &[mean])
    });
    let weight = each(call, weight, "T_cast", |te, x| te.converted(wide, x));
    let scaled = call.te.compute("T_rms_norm", &shape, |te, i| {
        let rest: Vec<ExprId> = (0..i.len()).filter(|d| !axes.contains(d)).map(|d| i[d]).collect();
        let along: Vec<ExprId> = axes.iter().map(|&d| i[d]).collect();
        let (scale, x, weight) = (te.at(scale, &rest), te.at(data, i), te.at(weight, &along));
        let scaled = te.mul(scale, x);
        te.mul(scaled, weight)
    });
    Ok(vec![each(call, scaled, "T_cast", |te, x| te.converted(dtype, x))])
}

/// A normalisation with gamma and beta.
fn normalised(
    call: &mut Call<'_>,
    operator: &'static str,
    more: Vec<(&'static str, Given)>,
) -> Result<Vec<Tensor>, TopiError> {
    let mut given = more;
    for name in ["data", "gamma", "beta"] {
        given.push((name, Given::Tensor(call.tensor(name)?)));
    }
    given.push(("epsilon", float(call.float("epsilon")?)));
    call.operator(operator, given)
}

/// All dimensions but the first become one.
fn flatten(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let data = call.tensor("data")?;
    let shape = call.te.shape(data).to_vec();
    let Some((&first, rest)) = shape.split_first() else { return call.wrong("data", "a tensor with dimensions") };
    let mut all = call.te.extent(1);
    for &extent in rest {
        all = call.te.mul(all, extent);
    }
    Ok(vec![call.te.compute("compute", &[first, all], |te, i| {
        let mut at = Vec::with_capacity(rest.len());
        let mut index = i[1];
        for &extent in rest.iter().rev() {
            at.push(te.floor_mod(index, extent));
            index = te.floor_div(index, extent);
        }
        at.push(i[0]);
        at.reverse();
        te.at(data, &at)
    })])
}

/// A factor and a summand for each channel.
fn scale_shift(call: &mut Call<'_>, channel: usize) -> Result<Vec<Tensor>, TopiError> {
    let (x, scale, shift) = (call.tensor("Input")?, call.tensor("Scale")?, call.tensor("Shift")?);
    if call.rank(x) != 4 || call.rank(scale) != 1 || call.rank(shift) != 1 {
        return Err(TopiError::new("expected a tensor of 4 dimensions and two vectors"));
    }
    if call.type_of(x) != call.type_of(scale) || call.type_of(x) != call.type_of(shift) {
        return Err(TopiError::new("the tensors must have one type"));
    }
    let shape = call.te.shape(x).to_vec();
    Ok(vec![call.te.compute("ScaleShift", &shape, |te, i| {
        let (x, a, b) = (te.at(x, i), te.at(scale, &[i[channel]]), te.at(shift, &[i[channel]]));
        let product = te.mul(x, a);
        te.add(product, b)
    })])
}
