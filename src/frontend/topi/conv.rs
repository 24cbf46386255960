//! Convolutions and pooling.

use super::call::{Argument, Call, TopiError, flag, int, ints, text};
use super::{Operator, by};
use crate::graph::apply::Given;
use crate::graph::op::{of_type, padded};
use crate::ir::{AttrValue, ExprId};
use crate::te::{Reducer, Tensor};

pub(super) static OPERATORS: &[Operator] = &[
    by(
        "nn.conv1d",
        "data, kernel, strides=1, padding='VALID', dilation=1, groups=1, data_layout='NCW', kernel_layout='', out_dtype=None",
        |call| of_any_layout(call, &PLAIN_1D),
    ),
    by("nn.conv1d_ncw", "data, kernel, strides=1, padding='VALID', dilation=1, out_dtype=None", |call| {
        convolution(call, &Form { layout: "NCW", ..PLAIN_1D })
    }),
    by("nn.conv1d_nwc", "data, kernel, strides=1, padding='VALID', dilation=1, out_dtype=None", |call| {
        convolution(call, &Form { layout: "NWC", ..PLAIN_1D })
    }),
    by(
        "nn.conv2d",
        "input, filter, strides, padding, dilation, data_layout='NCHW', kernel_layout='', out_dtype=None",
        |call| of_any_layout(call, &Form { names: ["input", "filter", "strides"], ..PLAIN }),
    ),
    by("nn.conv2d_nchw", INPUT_FILTER, |call| convolution(call, &Form { layout: "NCHW", ..PLAIN })),
    by("nn.conv2d_hwcn", INPUT_FILTER, |call| convolution(call, &Form { layout: "HWCN", kernel: "HWIO", ..PLAIN })),
    by(
        "nn.conv2d_nhwc",
        "Input, Filter, stride, padding, dilation, out_dtype='float32', auto_scheduler_rewritten_layout='', meta_schedule_original_shape=None",
        |call| convolution(call, &Form { layout: "NHWC", free: true, ..PLAIN }),
    ),
    by("nn.conv3d_ncdhw", INPUT_FILTER_GROUPS, |call| convolution(call, &Form { dims: 3, layout: "NCDHW", ..PLAIN })),
    by(
        "nn.conv3d_ndhwc",
        "Input, Filter, stride, padding, dilation, groups, out_dtype='float32', auto_scheduler_rewritten_layout='', meta_schedule_origin_shape=None",
        |call| convolution(call, &Form { dims: 3, layout: "NDHWC", ..PLAIN }),
    ),
    by("nn.group_conv2d_nchw", INPUT_FILTER_GROUPS, |call| convolution(call, &Form { layout: "NCHW", ..PLAIN })),
    by("nn.group_conv2d_nhwc", INPUT_FILTER_GROUPS, |call| convolution(call, &Form { layout: "NHWC", ..PLAIN })),
    by("nn.depthwise_conv2d_nchw", INPUT_FILTER, |call| depthwise(call, false)),
    by(
        "nn.depthwise_conv2d_nhwc",
        "Input, Filter, stride, padding, dilation, kernel_layout='HWOI', out_dtype=None",
        |call| depthwise(call, true),
    ),
    by(
        "nn.pool1d",
        "data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout='NCW', count_include_pad=True",
        |call| pool(call, 1),
    ),
    by(
        "nn.pool2d",
        "data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout='NCHW', count_include_pad=True",
        |call| pool(call, 2),
    ),
    by(
        "nn.pool3d",
        "data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout='NCDHW', count_include_pad=True",
        |call| pool(call, 3),
    ),
    by("nn.global_pool", "data, pool_type, layout='NCHW'", |call| adaptive(call, Some(vec![1, 1]))),
    by("nn.adaptive_pool", "data, output_size, pool_type, layout='NCHW'", |call| {
        let size = call.ints("output_size")?;
        adaptive(call, Some(size))
    }),
];

const INPUT_FILTER: &str = "Input, Filter, stride, padding, dilation, out_dtype=None";

const INPUT_FILTER_GROUPS: &str = "Input, Filter, stride, padding, dilation, groups, out_dtype=None";

/// A form of convolution.
struct Form<'a> {
    dims: usize,
    /// The parameters for data, kernel and strides.
    names: [&'static str; 3],
    layout: &'a str,
    /// Empty for the kernel's layout that belongs to the data's.
    kernel: &'a str,
    /// Whether the layout of the kernel may be changed.
    free: bool,
}

const PLAIN: Form<'static> =
    Form { dims: 2, names: ["Input", "Filter", "stride"], layout: "NCHW", kernel: "", free: false };

const PLAIN_1D: Form<'static> = Form { dims: 1, names: ["data", "kernel", "strides"], layout: "NCW", ..PLAIN };

/// A convolution whose layouts are arguments.
fn of_any_layout(call: &mut Call<'_>, form: &Form<'_>) -> Result<Vec<Tensor>, TopiError> {
    let (layout, kernel) = (call.text("data_layout")?, call.text("kernel_layout")?);
    convolution(call, &Form { layout: layout.as_str(), kernel: kernel.as_str(), ..*form })
}

/// The padding before and after each spatial dimension. `"SAME"` keeps extents for strides of 1.
fn padding(call: &Call<'_>, kernel: &[i64]) -> Result<(Vec<i64>, Vec<i64>), TopiError> {
    let n = kernel.len();
    let halves = |whole: Vec<i64>| {
        let before: Vec<i64> = whole.iter().map(|p| (p + 1) / 2).collect();
        let after = whole.iter().zip(&before).map(|(p, b)| p - b).collect();
        (before, after)
    };
    if let Argument::Str(name) = call.get("padding") {
        return match name.as_str() {
            "VALID" => Ok((vec![0; n], vec![0; n])),
            "SAME" => Ok(halves(kernel.iter().map(|k| k - 1).collect())),
            _ => call.wrong("padding", "`\"VALID\"`, `\"SAME\"` or integers"),
        };
    }
    let all = call.ints("padding")?;
    if all.iter().any(|p| !(0..=1 << 20).contains(p)) {
        return call.wrong("padding", "integers from 0 on");
    }
    match &all[..] {
        [one] => Ok((vec![*one; n], vec![*one; n])),
        all if all.len() == n => Ok((all.to_vec(), all.to_vec())),
        all if all.len() == 2 * n => Ok((all[..n].to_vec(), all[n..].to_vec())),
        _ => call.wrong("padding", &format!("1, {n} or {} integers", 2 * n)),
    }
}

/// As many integers as there are spatial dimensions.
fn spatial(call: &Call<'_>, name: &'static str, n: usize) -> Result<Vec<i64>, TopiError> {
    let all = call.ints(name)?;
    if all.iter().any(|v| !(1..=1 << 20).contains(v)) {
        return call.wrong(name, "positive integers");
    }
    match all[..] {
        [one] => Ok(vec![one; n]),
        _ if all.len() == n => Ok(all),
        _ => call.wrong(name, &format!("1 or {n} integers")),
    }
}

/// The constant extents of a tensor.
fn constant_shape(call: &Call<'_>, name: &'static str, t: Tensor) -> Result<Vec<i64>, TopiError> {
    match call.te.shape(t).iter().map(|&e| call.te.as_int(e)).collect() {
        Some(all) => Ok(all),
        None => call.wrong(name, "constant extents"),
    }
}

fn convolution(call: &mut Call<'_>, form: &Form<'_>) -> Result<Vec<Tensor>, TopiError> {
    let [data_name, weight_name, strides_name] = form.names;
    let (data, weight) = (call.tensor(data_name)?, call.tensor(weight_name)?);
    let n = form.dims;
    if call.rank(data) != n + 2 || call.rank(weight) != n + 2 {
        return Err(TopiError::new(format!("expected tensors of {} dimensions", n + 2)));
    }
    let (strides, dilation) = (spatial(call, strides_name, n)?, spatial(call, "dilation", n)?);
    // If channels come before pixels, the kernel's do, too.
    let letters: String = form.layout.chars().filter(|c| !"NC".contains(*c)).collect();
    let first_pixel = form.layout.find(|c| !"NC".contains(c));
    let kernel_layout = match form.kernel {
        "" if form.layout.find('C') < first_pixel => format!("OI{letters}"),
        "" => format!("{letters}IO"),
        given => given.to_owned(),
    };
    let extents = constant_shape(call, weight_name, weight)?;
    let mut taps = Vec::with_capacity(n);
    for (letter, d) in letters.chars().zip(&dilation) {
        match kernel_layout.find(letter).and_then(|at| extents.get(at)) {
            Some(k) => taps.push((k - 1) * d + 1),
            None => return Err(TopiError::new(format!("the layout `{kernel_layout}` of the kernel lacks `{letter}`"))),
        }
    }
    let (before, after) = padding(call, &taps)?;
    let groups = match call.get("groups") {
        Argument::None => 1,
        _ => call.int("groups")?,
    };
    let dtype = match call.opt_dtype("out_dtype")? {
        Some(dtype) => dtype,
        None => call.type_of(data),
    };
    let widths: Vec<i64> = before.into_iter().chain(after).collect();
    let operator = ["nn.conv1d", "nn.conv2d", "nn.conv3d"][n - 1];
    let given = vec![
        ("data", Given::Tensor(data)),
        ("weight", Given::Tensor(weight)),
        ("strides", ints(&strides)),
        ("padding", ints(&widths)),
        ("dilation", ints(&dilation)),
        ("groups", int(groups)),
        ("data_layout", text(form.layout)),
        ("kernel_layout", text(&kernel_layout)),
        ("out_dtype", text(dtype.name())),
    ];
    if form.free {
        call.layout_free.push(weight);
    }
    call.operator(operator, given)
}

/// A convolution of each channel by itself.
fn depthwise(call: &mut Call<'_>, channels_last: bool) -> Result<Vec<Tensor>, TopiError> {
    let (data, weight) = (call.tensor("Input")?, call.tensor("Filter")?);
    let (x, w) = (constant_shape(call, "Input", data)?, constant_shape(call, "Filter", weight)?);
    let (&[.., a, b, c], &[w0, w1, w2, w3]) = (&x[..], &w[..]) else {
        return Err(TopiError::new("expected tensors of 4 dimensions"));
    };
    if x.len() != 4 {
        return Err(TopiError::new("expected tensors of 4 dimensions"));
    }
    let hwio = channels_last && call.text("kernel_layout")?.as_str() == "HWIO";
    let (channels, height, width) = if channels_last { (c, a, b) } else { (a, b, c) };
    let (of_kernel, multiplier, kh, kw) = match (channels_last, hwio) {
        (false, _) => (w0, w1, w2, w3),
        (true, false) => (w2, w3, w0, w1),
        (true, true) => (w3, w2, w0, w1),
    };
    if of_kernel != channels {
        return Err(TopiError::new(format!("`Input` has {channels} channels, and `Filter` {of_kernel}")));
    }
    let (strides, dilation) = (spatial(call, "stride", 2)?, spatial(call, "dilation", 2)?);
    let taps = [(kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1];
    let (before, after) = padding(call, &taps)?;
    let dtype = match call.opt_dtype("out_dtype")? {
        Some(dtype) => dtype,
        None => call.type_of(data),
    };
    let out = |extent: i64, d: usize| (extent - taps[d] + before[d] + after[d]).div_euclid(strides[d]) + 1;
    let (out_h, out_w) = (out(height, 0), out(width, 1));
    if out_h < 1 || out_w < 1 {
        return Err(TopiError::new("`Filter` is larger than the padded `Input`"));
    }
    let spread = |p: &[i64]| if channels_last { vec![0, p[0], p[1], 0] } else { vec![0, 0, p[0], p[1]] };
    let te = &mut *call.te;
    let zero = of_type(te, 0.0, te.element_type(data));
    let input = padded(te, "PaddedInput", data, &spread(&before), &spread(&after), zero);
    let features = channels * multiplier;
    let items = te.shape(data)[0];
    let pixels = te.extents(&[out_h, out_w, features]);
    let shape = match channels_last {
        true => [items, pixels[0], pixels[1], pixels[2]],
        false => [items, pixels[2], pixels[0], pixels[1]],
    };
    let domain = te.extents(&[kh, kw]);
    Ok(vec![te.reduce("DepthwiseConv2d", &shape, &domain, Reducer::Sum, |te, i, k| {
        let (row, column, feature) = if channels_last { (i[1], i[2], i[3]) } else { (i[2], i[3], i[1]) };
        let at = |te: &mut crate::te::Te, index: ExprId, tap: ExprId, d: usize| {
            let first = te.mul_const(index, strides[d]);
            let tap = te.mul_const(tap, dilation[d]);
            te.add(first, tap)
        };
        let (y, x) = (at(te, row, k[0], 0), at(te, column, k[1], 1));
        let multiplier = te.extent(multiplier);
        let (channel, part) = (te.floor_div(feature, multiplier), te.floor_mod(feature, multiplier));
        let value = te.at(input, &if channels_last { [i[0], y, x, channel] } else { [i[0], channel, y, x] });
        let factor = match (channels_last, hwio) {
            (false, _) => [channel, part, k[0], k[1]],
            (true, false) => [k[0], k[1], channel, part],
            (true, true) => [k[0], k[1], part, channel],
        };
        let factor = te.at(weight, &factor);
        let (value, factor) = (te.cast(dtype, value), te.cast(dtype, factor));
        te.mul(value, factor)
    })])
}

fn pool(call: &mut Call<'_>, n: usize) -> Result<Vec<Tensor>, TopiError> {
    let (data, layout) = (call.tensor("data")?, call.text("layout")?);
    let size = spatial(call, "kernel", n)?;
    let (strides, dilation) = (spatial(call, "stride", n)?, spatial(call, "dilation", n)?);
    let (before, after) = padding(call, &size)?;
    let (ceil, include) = (call.flag("ceil_mode")?, call.flag("count_include_pad")?);
    let operator = match (call.text("pool_type")?.as_str(), n) {
        ("max", 1) => "nn.max_pool1d",
        ("max", 2) => "nn.max_pool2d",
        ("max", _) => "nn.max_pool3d",
        ("avg", 1) => "nn.avg_pool1d",
        ("avg", 2) => "nn.avg_pool2d",
        ("avg", _) => "nn.avg_pool3d",
        _ => return call.wrong("pool_type", "`\"max\"` or `\"avg\"`"),
    };
    let widths: Vec<i64> = before.into_iter().chain(after).collect();
    let given = vec![
        ("data", Given::Tensor(data)),
        ("pool_size", ints(&size)),
        ("strides", ints(&strides)),
        ("padding", ints(&widths)),
        ("dilation", ints(&dilation)),
        ("ceil_mode", flag(ceil)),
        ("count_include_pad", flag(include)),
        ("layout", text(layout.as_str())),
    ];
    call.operator(operator, given)
}

/// Averages of as many windows as asked for.
fn adaptive(call: &mut Call<'_>, size: Option<Vec<i64>>) -> Result<Vec<Tensor>, TopiError> {
    let (data, layout) = (call.tensor("data")?, call.text("layout")?);
    if call.text("pool_type")?.as_str() != "avg" {
        return call.wrong("pool_type", "`\"avg\"`; use `topi.max` over the pixels for the largest");
    }
    let size = size.map_or(Given::Attr(AttrValue::None), |s| ints(&s));
    let given = vec![("data", Given::Tensor(data)), ("output_size", size), ("layout", text(layout.as_str()))];
    call.operator("nn.adaptive_avg_pool2d", given)
}
