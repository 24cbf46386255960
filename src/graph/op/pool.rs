//! Pooling, padding, and the shuffling of pixels.

use super::conv::{padded, windows};
use super::*;
use crate::te::{Reducer, least};

macro_rules! pooling {
    ($name:literal, $layout:literal, $ones:expr, $zeros:expr, $include:literal, $lower:expr, $doc:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                optional("pool_size", Kind::Ints, Default::Ints($ones)),
                optional("strides", Kind::Ints, Default::Ints($ones)),
                optional("padding", Kind::Ints, Default::Ints($zeros)),
                optional("dilation", Kind::Ints, Default::Ints($ones)),
                optional("ceil_mode", Kind::Bool, Default::Bool(false)),
                optional("count_include_pad", Kind::Bool, Default::Bool($include)),
                optional("layout", Kind::Str, Default::Str($layout)),
                optional("out_layout", Kind::OptStr, Default::None),
            ],
            infer,
            lower: Lowering::Stages($lower),
            doc: $doc,
        }
    };
}

macro_rules! adaptive {
    ($name:literal, $layout:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                optional("output_size", Kind::OptInts, Default::None),
                optional("layout", Kind::Str, Default::Str($layout)),
                optional("out_layout", Kind::OptStr, Default::None),
            ],
            infer: infer_adaptive,
            lower: Lowering::Stages(adaptive),
            doc: "The mean of as many windows as the result has elements, which cover the data evenly.",
        }
    };
}

pub(super) const OPERATORS: &[Operator] = &[
    pooling!("nn.avg_pool1d", "NCW", &[1], &[0], true, average, "The mean of the elements of each window."),
    pooling!("nn.avg_pool2d", "NCHW", &[1, 1], &[0, 0], false, average, "The mean of the elements of each window."),
    pooling!(
        "nn.avg_pool3d",
        "NCDHW",
        &[1, 1, 1],
        &[0, 0, 0],
        true,
        average,
        "The mean of the elements of each window."
    ),
    pooling!("nn.max_pool1d", "NCW", &[1], &[0], false, maximum, "The largest element of each window."),
    pooling!("nn.max_pool2d", "NCHW", &[1, 1], &[0, 0], false, maximum, "The largest element of each window."),
    pooling!("nn.max_pool3d", "NCDHW", &[1, 1, 1], &[0, 0, 0], false, maximum, "The largest element of each window."),
    adaptive!("nn.adaptive_avg_pool1d", "NCW"),
    adaptive!("nn.adaptive_avg_pool2d", "NCHW"),
    adaptive!("nn.adaptive_avg_pool3d", "NCDHW"),
    Operator {
        name: "nn.pad",
        params: &[
            required("data", Kind::Tensor),
            required("pad_width", Kind::Ints),
            optional("pad_mode", Kind::OptStr, Default::Str("constant")),
            optional("pad_value", Kind::OptFloat, Default::Float(0.0)),
        ],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let widths = cx.ints("pad_width");
            if widths.len() != 2 * data.rank() {
                let (n, shape) = (widths.len(), cx.extents(&data.shape));
                return cx.fail(format!("`pad_width` has {n} integers, expected two for each dimension of {shape}"));
            }
            if !matches!(cx.text("pad_mode"), "constant" | "reflect" | "replicate" | "circular") {
                return cx.fail(format!("the mode `{}` is not known", cx.text("pad_mode")));
            }
            let mut shape = Vec::with_capacity(data.rank());
            for (d, &extent) in data.shape.iter().enumerate() {
                let padded = cx.arena.add_const(extent, widths[2 * d] + widths[2 * d + 1]);
                shape.push(cx.simplified(padded));
            }
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(pad),
        doc: "The data with elements around it: constants, or elements mirrored, repeated or taken from the other side.",
    },
    Operator {
        name: "nn.pixel_shuffle",
        params: &[required("data", Kind::Tensor), required("upscale_factor", Kind::Int)],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let r = cx.int("upscale_factor");
            if data.rank() < 3 || r < 1 {
                let shape = cx.extents(&data.shape);
                return cx.fail(format!(
                    "expected channels, height and width, found {shape}, and a positive factor, found {r}"
                ));
            }
            let c = data.rank() - 3;
            let square = cx.extent(r * r);
            let mut shape = data.shape.clone();
            shape[c] = cx.arena.floor_div(shape[c], square);
            shape[c + 1] = cx.arena.mul_const(shape[c + 1], r);
            shape[c + 2] = cx.arena.mul_const(shape[c + 2], r);
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let (data, r) = (cx.input("data")?, cx.int("upscale_factor"));
            let shape = cx.out_shape(0)?;
            let c = shape.len() - 3;
            Ok(vec![cx.te.compute("pixel_shuffle", &shape, |te, i| {
                let r_extent = te.extent(r);
                let (row, column) = (te.floor_mod(i[c + 1], r_extent), te.floor_mod(i[c + 2], r_extent));
                let channel = te.mul_const(i[c], r * r);
                let row = te.mul_const(row, r);
                let channel = te.add(channel, row);
                let channel = te.add(channel, column);
                let mut at = i[..c].to_vec();
                at.extend([channel, te.floor_div(i[c + 1], r_extent), te.floor_div(i[c + 2], r_extent)]);
                te.at(data, &at)
            })])
        }),
        doc: "Channels moved into blocks of pixels.",
    },
];

/// The positions of the spatial dimensions.
fn space(args: &crate::graph::infer::Args<'_>) -> Result<Vec<usize>, OpError> {
    let layout = args.text("layout");
    let found: Vec<usize> = "DHW".chars().filter_map(|c| layout.find(c)).collect();
    let is_plain = layout.chars().all(|c| "NCDHW".contains(c)) && found.len() + 2 == layout.len();
    let same = args.opt_text("out_layout").is_none_or(|out| out.is_empty() || out == layout);
    match is_plain && same {
        true => Ok(found),
        false => args.fail(format!("the layout `{layout}` is not supported, or differs from that of the result")),
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let data = cx.tensor("data")?;
    let space = space(cx)?;
    cx.expect_rank("data", &data, space.len() + 2)?;
    let n = space.len();
    let (size, strides, dilation) =
        (cx.spatial("pool_size", n)?, cx.spatial("strides", n)?, cx.spatial("dilation", n)?);
    let (before, after) = cx.padding("padding", n)?;
    let up = cx.flag("ceil_mode");
    let mut shape = data.shape.clone();
    for (d, &axis) in space.iter().enumerate() {
        let size = cx.extent(size[d]);
        shape[axis] = windows(cx, shape[axis], size, (before[d] + after[d], strides[d], dilation[d], up))?;
    }
    Ok(Type::tensor(data.dtype, shape))
}

/// The windows of a pooling.
struct Windows {
    space: Vec<usize>,
    size: Vec<i64>,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    before: Vec<i64>,
    /// With room for windows that begin in the data and end behind it.
    after: Vec<i64>,
}

impl Windows {
    fn of(cx: &Lower<'_>) -> Result<Windows, OpError> {
        let space = space(cx)?;
        let n = space.len();
        let (before, mut after) = cx.padding("padding", n)?;
        let strides = cx.spatial("strides", n)?;
        if cx.flag("ceil_mode") {
            after.iter_mut().zip(&strides).for_each(|(after, stride)| *after += stride - 1);
        }
        let (size, dilation) = (cx.spatial("pool_size", n)?, cx.spatial("dilation", n)?);
        Ok(Windows { space, size, strides, dilation, before, after })
    }

    /// The padded data.
    fn padded(&self, te: &mut Te, data: Tensor, value: f64) -> Tensor {
        let rank = te.shape(data).len();
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        for (d, &axis) in self.space.iter().enumerate() {
            (before[axis], after[axis]) = (self.before[d], self.after[d]);
        }
        padded(te, data, &before, &after, value)
    }

    /// The element of a window of the padded data.
    fn at(&self, te: &mut Te, i: &[ExprId], k: &[ExprId]) -> Vec<ExprId> {
        let mut at = i.to_vec();
        for (d, &axis) in self.space.iter().enumerate() {
            let start = te.mul_const(i[axis], self.strides[d]);
            let offset = te.mul_const(k[d], self.dilation[d]);
            at[axis] = te.add(start, offset);
        }
        at
    }
}

fn maximum(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let windows = Windows::of(cx)?;
    let data = cx.input("data")?;
    let shape = cx.out_shape(0)?;
    let te = &mut cx.te;
    let dtype = te.element_type(data);
    let lowest = least(te, dtype);
    let lowest = te.as_const(lowest).map_or(0.0, |c| c.as_f64());
    let data = windows.padded(te, data, lowest);
    let domain = te.extents(&windows.size);
    Ok(vec![te.reduce("pool_max", &shape, &domain, Reducer::Max, |te, i, k| {
        let at = windows.at(te, i, k);
        te.at(data, &at)
    })])
}

fn average(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let windows = Windows::of(cx)?;
    let data = cx.input("data")?;
    let (shape, dtype, include) = (cx.out_shape(0)?, cx.out_dtype(0)?, cx.flag("count_include_pad"));
    let te = &mut cx.te;
    let from = te.shape(data).to_vec();
    let data = windows.padded(te, data, 0.0);
    let domain = te.extents(&windows.size);
    let wide = accumulator(dtype);
    let sum = te.reduce("pool_sum", &shape, &domain, Reducer::Sum, |te, i, k| {
        let at = windows.at(te, i, k);
        let x = te.at(data, &at);
        te.cast(wide, x)
    });
    let all: i64 = windows.size.iter().product();
    let is_padded = windows.before.iter().chain(&windows.after).any(|&p| p != 0);
    Ok(vec![te.compute("pool_avg", &shape, |te, i| {
        let mut n = te.extent(if include || !is_padded { all } else { 1 });
        if is_padded && !include {
            // The elements of the window that lie in the data.
            for (d, &axis) in windows.space.iter().enumerate() {
                let start = te.mul_const(i[axis], windows.strides[d]);
                let start = te.add_const(start, -windows.before[d]);
                let last = te.add_const(start, (windows.size[d] - 1) * windows.dilation[d]);
                let end = te.add_const(from[axis], -1);
                let last = te.min(last, end);
                let (dilation, zero) = (te.extent(windows.dilation[d]), te.extent(0));
                // The number of steps from the start to the first place that is not negative.
                let behind = te.sub(zero, start);
                let behind = te.add_const(behind, windows.dilation[d] - 1);
                let skipped = te.floor_div(behind, dilation);
                let skipped = te.max(skipped, zero);
                let skipped = te.mul(skipped, dilation);
                let first = te.add(start, skipped);
                let reach = te.sub(last, first);
                let steps = te.floor_div(reach, dilation);
                let steps = te.add_const(steps, 1);
                n = te.mul(n, steps);
            }
            let one = te.extent(1);
            n = te.max(n, one);
        }
        let (sum, n) = (te.at(sum, i), te.cast(wide, n));
        let mean = te.binary(BinOp::Div, sum, n);
        te.cast(dtype, mean)
    })])
}

fn infer_adaptive(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let data = cx.tensor("data")?;
    let space = space(cx)?;
    cx.expect_rank("data", &data, space.len() + 2)?;
    let mut shape = data.shape.clone();
    if cx.opt_ints("output_size").is_some() {
        let size = cx.spatial("output_size", space.len())?;
        for (d, &axis) in space.iter().enumerate() {
            shape[axis] = cx.extent(size[d]);
        }
    }
    Ok(Type::tensor(data.dtype, shape))
}

fn adaptive(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let space = space(cx)?;
    let data = cx.input("data")?;
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let from = cx.constant_shape(data)?;
    let te = &mut cx.te;
    let to: Vec<i64> = space.iter().map(|&axis| te.as_int(shape[axis]).unwrap_or(1)).collect();
    let is_even = space.iter().zip(&to).all(|(&axis, &n)| n > 0 && from[axis] % n == 0);
    // Windows that do not divide the data have up to two elements more.
    let size: Vec<i64> = (space.iter().zip(&to))
        .map(|(&axis, &n)| if is_even { from[axis] / n } else { (from[axis] + n - 1) / n.max(1) + 1 })
        .collect();
    let domain = te.extents(&size);
    let wide = accumulator(dtype);
    let bounds = |te: &mut Te, i: &[ExprId], d: usize| {
        let (extent, n) = (from[space[d]], te.extent(to[d]));
        let start = te.mul_const(i[space[d]], extent);
        let end = te.add_const(start, extent + to[d] - 1);
        (te.floor_div(start, n), te.floor_div(end, n))
    };
    let sum = te.reduce("adaptive_pool_sum", &shape, &domain, Reducer::Sum, |te, i, k| {
        let mut at = i.to_vec();
        let mut inside = te.bool(true);
        for d in 0..space.len() {
            if is_even {
                let start = te.mul_const(i[space[d]], size[d]);
                at[space[d]] = te.add(start, k[d]);
                continue;
            }
            let (start, end) = bounds(te, i, d);
            at[space[d]] = te.add(start, k[d]);
            let is_before = te.lt(at[space[d]], end);
            inside = te.and(inside, is_before);
        }
        let x = te.at(data, &at);
        let (x, zero) = (te.cast(wide, x), te.constant(0, wide));
        if is_even { x } else { te.if_then_else(inside, x, zero) }
    });
    Ok(vec![te.compute("adaptive_pool_avg", &shape, |te, i| {
        let mut n = te.extent(1);
        for (d, &size) in size.iter().enumerate() {
            let window = match is_even {
                true => te.extent(size),
                false => {
                    let (start, end) = bounds(te, i, d);
                    te.sub(end, start)
                }
            };
            n = te.mul(n, window);
        }
        let (sum, n) = (te.at(sum, i), te.cast(wide, n));
        let mean = te.binary(BinOp::Div, sum, n);
        te.cast(dtype, mean)
    })])
}

fn pad(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let data = cx.input("data")?;
    let widths = cx.ints("pad_width");
    let before: Vec<i64> = widths.iter().step_by(2).copied().collect();
    let after: Vec<i64> = widths.iter().skip(1).step_by(2).copied().collect();
    let (mode, value) = (cx.text("pad_mode"), cx.opt_float("pad_value").unwrap_or(0.0));
    let shape = cx.out_shape(0)?;
    let te = &mut cx.te;
    if mode == "constant" {
        let out = padded(te, data, &before, &after, value);
        if out != data {
            return Ok(vec![out]);
        }
        return Ok(vec![te.compute("PadInput", &shape, |te, i| te.at(data, i))]);
    }
    let from = te.shape(data).to_vec();
    Ok(vec![te.compute("PadInput", &shape, |te, i| {
        let mut at = Vec::with_capacity(i.len());
        for (d, &index) in i.iter().enumerate() {
            if before[d] == 0 && after[d] == 0 {
                at.push(index);
                continue;
            }
            let index = te.add_const(index, -before[d]);
            let (zero, last) = (te.extent(0), te.add_const(from[d], -1));
            at.push(match mode {
                "reflect" => {
                    // Mirrored at the first and the last element.
                    let is_before = te.lt(index, zero);
                    let mirrored = te.sub(zero, index);
                    let index = te.select(is_before, mirrored, index);
                    let is_behind = te.lt(last, index);
                    let twice = te.mul_const(last, 2);
                    let mirrored = te.sub(twice, index);
                    te.select(is_behind, mirrored, index)
                }
                "replicate" => {
                    let index = te.max(index, zero);
                    te.min(index, last)
                }
                _ => te.floor_mod(index, from[d]),
            });
        }
        te.at(data, &at)
    })])
}
