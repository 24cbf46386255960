//! Convolutions of one, two and three dimensions, and their transposes.
//!
//! A layout is a text with a letter for each dimension: `N`, `C` and `O`, `I` for channels, `D`, `H`, `W` for space.

use super::*;
use crate::te::Reducer;

macro_rules! convolution {
    ($name:literal, $data:literal, $kernel:literal, $strides:expr, $padding:expr) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                required("weight", Kind::Tensor),
                optional("strides", Kind::Ints, Default::Ints($strides)),
                optional("padding", Kind::Ints, Default::Ints($padding)),
                optional("dilation", Kind::Ints, Default::Ints($strides)),
                optional("groups", Kind::Int, Default::Int(1)),
                optional("data_layout", Kind::Str, Default::Str($data)),
                optional("kernel_layout", Kind::Str, Default::Str($kernel)),
                optional("out_layout", Kind::OptStr, Default::None),
                optional("out_dtype", Kind::OptDType, Default::None),
            ],
            infer,
            lower: Lowering::Stages(lower),
            doc: "The convolution of data with a kernel, perhaps in groups of channels.",
        }
    };
}

macro_rules! transposed {
    ($name:literal, $data:literal, $kernel:literal, $strides:expr, $padding:expr) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                required("weight", Kind::Tensor),
                optional("strides", Kind::Ints, Default::Ints($strides)),
                optional("padding", Kind::Ints, Default::Ints($padding)),
                optional("output_padding", Kind::Ints, Default::Ints($padding)),
                optional("dilation", Kind::Ints, Default::Ints($strides)),
                optional("groups", Kind::Int, Default::Int(1)),
                optional("data_layout", Kind::Str, Default::Str($data)),
                optional("kernel_layout", Kind::Str, Default::Str($kernel)),
                optional("out_layout", Kind::OptStr, Default::None),
                optional("out_dtype", Kind::OptDType, Default::None),
            ],
            infer: infer_transposed,
            lower: Lowering::Stages(lower_transposed),
            doc: "The transpose of a convolution: each element of the data adds the kernel to the result.",
        }
    };
}

pub(super) const OPERATORS: &[Operator] = &[
    convolution!("nn.conv1d", "NCW", "OIW", &[1], &[0]),
    convolution!("nn.conv2d", "NCHW", "OIHW", &[1, 1], &[0, 0]),
    convolution!("nn.conv3d", "NCDHW", "OIDHW", &[1, 1, 1], &[0, 0, 0]),
    transposed!("nn.conv1d_transpose", "NCW", "IOW", &[1], &[0]),
    transposed!("nn.conv2d_transpose", "NCHW", "IOHW", &[1, 1], &[0, 0]),
    transposed!("nn.conv3d_transpose", "NCDHW", "IODHW", &[1, 1, 1], &[0, 0, 0]),
];

/// The positions of the dimensions in data, kernel and result.
struct Layout {
    /// `N`, `C`, then space, in the data.
    data: Vec<usize>,
    /// `O`, `I`, then space, in the kernel.
    kernel: Vec<usize>,
    /// `N`, `C`, then space, in the result.
    out: Vec<usize>,
}

impl Layout {
    fn of(args: &crate::graph::infer::Args<'_>) -> Result<Layout, OpError> {
        let (data, kernel) = (args.text("data_layout"), args.text("kernel_layout"));
        let out = args.opt_text("out_layout").filter(|t| !t.is_empty()).unwrap_or(data);
        let find = |layout: &str, letters: &str| -> Result<Vec<usize>, OpError> {
            let found: Option<Vec<usize>> = letters.chars().map(|c| layout.find(c)).collect();
            match found.filter(|_| layout.len() == letters.len()) {
                Some(found) => Ok(found),
                None => args.fail(format!("the layout `{layout}` is not supported: expected the letters `{letters}`")),
            }
        };
        let space = &"DHW"[5 - data.len().clamp(3, 5)..];
        Ok(Layout {
            data: find(data, &format!("NC{space}"))?,
            kernel: find(kernel, &format!("OI{space}"))?,
            out: find(out, &format!("NC{space}"))?,
        })
    }

    fn n_space(&self) -> usize {
        self.data.len() - 2
    }
}

/// The items in the order of a layout.
fn placed(items: &[ExprId], at: &[usize]) -> Vec<ExprId> {
    let mut placed = items.to_vec();
    for (&item, &at) in items.iter().zip(at) {
        placed[at] = item;
    }
    placed
}

/// Checks ranks, types and groups; gives the layout and both tensors.
fn operands(cx: &Infer<'_>) -> Result<(Layout, Known, Known, DType), OpError> {
    let layout = Layout::of(cx)?;
    let (data, weight) = (cx.tensor("data")?, cx.tensor("weight")?);
    cx.expect_rank("data", &data, layout.data.len())?;
    cx.expect_rank("weight", &weight, layout.kernel.len())?;
    let dtype = cx.opt_dtype("out_dtype");
    if dtype.is_none() {
        expect_same_type(cx, ("data", data.dtype), ("weight", weight.dtype))?;
    }
    if cx.int("groups") < 1 {
        return cx.fail(format!("`groups` must be positive, found {}", cx.int("groups")));
    }
    let dtype = dtype.unwrap_or(data.dtype);
    Ok((layout, data, weight, dtype))
}

fn infer(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let (layout, data, weight, dtype) = operands(cx)?;
    let groups = cx.int("groups");
    let (channels, of_kernel) = (data.shape[layout.data[1]], weight.shape[layout.kernel[1]]);
    let expected = cx.arena.mul_const(of_kernel, groups);
    if cx.differ(channels, expected) {
        let (x, w) = (cx.extents(&data.shape), cx.extents(&weight.shape));
        return cx.fail(format!(
            "the channels of `data` {x} must be {groups} times those of `weight` {w} (groups times input channels)"
        ));
    }
    let features = weight.shape[layout.kernel[0]];
    if let Some(n) = cx.known_extent(features)
        && n % groups != 0
    {
        return cx.fail(format!("the {n} output channels are no multiple of {groups} groups"));
    }
    let n = layout.n_space();
    let (strides, dilation) = (cx.spatial("strides", n)?, cx.spatial("dilation", n)?);
    let (before, after) = cx.padding("padding", n)?;
    let mut shape = vec![data.shape[layout.data[0]], features];
    for d in 0..n {
        let (extent, k) = (data.shape[layout.data[d + 2]], weight.shape[layout.kernel[d + 2]]);
        shape.push(windows(cx, extent, k, (before[d] + after[d], strides[d], dilation[d], false))?);
    }
    Ok(Type::tensor(dtype, placed(&shape, &layout.out)))
}

/// The number of windows along a dimension: of a size, with padding in all, stride, dilation, and whether a part counts.
pub(super) fn windows(
    cx: &mut Infer<'_>,
    extent: ExprId,
    size: ExprId,
    (padding, stride, dilation, up): (i64, i64, i64, bool),
) -> Result<ExprId, OpError> {
    if stride < 1 || dilation < 1 {
        return cx.fail(format!("strides and dilation must be positive, found {stride} and {dilation}"));
    }
    let reach = cx.arena.add_const(size, -1);
    let reach = cx.arena.mul_const(reach, dilation);
    let room = cx.arena.add_const(extent, padding - 1 + if up { stride - 1 } else { 0 });
    let room = cx.arena.sub(room, reach);
    let stride = cx.extent(stride);
    let n = cx.arena.floor_div(room, stride);
    let n = cx.arena.add_const(n, 1);
    let n = cx.simplified(n);
    match cx.known_extent(n) {
        Some(n) if n < 0 => cx.fail("the window is larger than the padded data"),
        _ => Ok(n),
    }
}

/// A tensor with constants around it; the tensor itself where there is nothing to add.
pub(super) fn padded(te: &mut Te, data: Tensor, before: &[i64], after: &[i64], value: f64) -> Tensor {
    if before.iter().chain(after).all(|&p| p == 0) {
        return data;
    }
    let from = te.shape(data).to_vec();
    let shape: Vec<ExprId> = (0..from.len()).map(|d| te.add_const(from[d], before[d] + after[d])).collect();
    let dtype = te.element_type(data);
    te.compute("pad_temp", &shape, |te, i| {
        let mut at = i.to_vec();
        let mut inside = te.bool(true);
        for d in 0..from.len() {
            if before[d] != 0 {
                let first = te.extent(before[d]);
                let is_behind = te.compare(CmpOp::Le, first, i[d]);
                inside = te.and(inside, is_behind);
                at[d] = te.sub(i[d], first);
            }
            if after[d] != 0 {
                let end = te.add_const(from[d], before[d]);
                let is_before = te.lt(i[d], end);
                inside = te.and(inside, is_before);
            }
        }
        let x = te.at(data, &at);
        let value = match dtype.is_float() {
            true => te.float(value, dtype),
            false => te.int(value as i64, dtype),
        };
        te.if_then_else(inside, x, value)
    })
}

fn lower(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let layout = Layout::of(cx)?;
    let (data, weight) = (cx.input("data")?, cx.input("weight")?);
    let n = layout.n_space();
    let (strides, dilation) = (cx.spatial("strides", n)?, cx.spatial("dilation", n)?);
    let (before, after) = cx.padding("padding", n)?;
    let groups = cx.int("groups");
    let (out, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let of_layout = |padding: &[i64]| {
        let mut all = vec![0; n + 2];
        for (d, &p) in padding.iter().enumerate() {
            all[layout.data[d + 2]] = p;
        }
        all
    };
    let name = format!("{}conv{n}d_{}", if groups > 1 { "group_" } else { "" }, cx.text("data_layout").to_lowercase());
    let te = &mut cx.te;
    let data = padded(te, data, &of_layout(&before), &of_layout(&after), 0.0);
    let kernel = te.shape(weight).to_vec();
    let domain: Vec<ExprId> = layout.kernel[1..].iter().map(|&d| kernel[d]).collect();
    let features = out[layout.out[1]];
    Ok(vec![te.reduce(&name, &out, &domain, Reducer::Sum, |te, i, k| {
        let (item, feature) = (i[layout.out[0]], i[layout.out[1]]);
        let channel = match groups {
            1 => k[0],
            _ => {
                let (per_group, channels) = (te.extent(groups), domain[0]);
                let per_group = te.floor_div(features, per_group);
                let group = te.floor_div(feature, per_group);
                let first = te.mul(group, channels);
                te.add(first, k[0])
            }
        };
        let mut at = vec![item, channel];
        for d in 0..n {
            let start = te.mul_const(i[layout.out[d + 2]], strides[d]);
            let offset = te.mul_const(k[d + 1], dilation[d]);
            at.push(te.add(start, offset));
        }
        let of_kernel: Vec<ExprId> = [feature].into_iter().chain(k.iter().copied()).collect();
        let x = te.at(data, &placed(&at, &layout.data));
        let w = te.at(weight, &placed(&of_kernel, &layout.kernel));
        let (x, w) = (te.cast(dtype, x), te.cast(dtype, w));
        te.mul(x, w)
    })])
}

fn infer_transposed(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let (layout, data, weight, dtype) = operands(cx)?;
    let groups = cx.int("groups");
    cx.expect_equal(("data", &data, layout.data[1]), ("weight", &weight, layout.kernel[1]))?;
    let n = layout.n_space();
    let (strides, dilation) = (cx.spatial("strides", n)?, cx.spatial("dilation", n)?);
    let output_padding = cx.spatial("output_padding", n)?;
    let (before, after) = cx.padding("padding", n)?;
    let features = cx.arena.mul_const(weight.shape[layout.kernel[0]], groups);
    let mut shape = vec![data.shape[layout.data[0]], features];
    for d in 0..n {
        if strides[d] < 1 || dilation[d] < 1 {
            return cx.fail("strides and dilation must be positive");
        }
        let (extent, k) = (data.shape[layout.data[d + 2]], weight.shape[layout.kernel[d + 2]]);
        let last = cx.arena.add_const(extent, -1);
        let start = cx.arena.mul_const(last, strides[d]);
        let reach = cx.arena.add_const(k, -1);
        let reach = cx.arena.mul_const(reach, dilation[d]);
        let sum = cx.arena.add(start, reach);
        let sum = cx.arena.add_const(sum, 1 + output_padding[d] - before[d] - after[d]);
        shape.push(cx.simplified(sum));
    }
    Ok(Type::tensor(dtype, placed(&shape, &layout.out)))
}

fn lower_transposed(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let layout = Layout::of(cx)?;
    let (data, weight) = (cx.input("data")?, cx.input("weight")?);
    let n = layout.n_space();
    let (strides, dilation) = (cx.spatial("strides", n)?, cx.spatial("dilation", n)?);
    let (before, _) = cx.padding("padding", n)?;
    let groups = cx.int("groups");
    let (out, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let te = &mut cx.te;
    let (from, kernel) = (te.shape(data).to_vec(), te.shape(weight).to_vec());
    let groups_extent = te.extent(groups);
    let per_group = te.floor_div(from[layout.data[1]], groups_extent);
    let mut domain = vec![per_group];
    domain.extend(layout.kernel[2..].iter().map(|&d| kernel[d]));
    let of_group = kernel[layout.kernel[0]];
    Ok(vec![te.reduce(&format!("conv{n}d_transpose"), &out, &domain, Reducer::Sum, |te, i, k| {
        let (item, feature) = (i[layout.out[0]], i[layout.out[1]]);
        let (channel, of_kernel) = match groups {
            1 => (k[0], feature),
            _ => {
                let group = te.floor_div(feature, of_group);
                let first = te.mul(group, per_group);
                (te.add(first, k[0]), te.floor_mod(feature, of_group))
            }
        };
        let mut at = vec![item, channel];
        let mut is_hit = te.bool(true);
        for d in 0..n {
            // The element of the data whose kernel reaches this place, if there is one.
            let reach = te.mul_const(k[d + 1], dilation[d]);
            let place = te.add_const(i[layout.out[d + 2]], before[d]);
            let place = te.sub(place, reach);
            let (stride, zero) = (te.extent(strides[d]), te.extent(0));
            let index = te.floor_div(place, stride);
            if strides[d] > 1 {
                let rest = te.floor_mod(place, stride);
                let is_start = te.compare(CmpOp::Eq, rest, zero);
                is_hit = te.and(is_hit, is_start);
            }
            let is_behind = te.compare(CmpOp::Le, zero, index);
            let is_before = te.lt(index, from[layout.data[d + 2]]);
            let is_inside = te.and(is_behind, is_before);
            is_hit = te.and(is_hit, is_inside);
            at.push(index);
        }
        let at_kernel: Vec<ExprId> = [of_kernel, channel].into_iter().chain(k[1..].iter().copied()).collect();
        let x = te.at(data, &placed(&at, &layout.data));
        let w = te.at(weight, &placed(&at_kernel, &layout.kernel));
        let (x, zero) = (te.cast(dtype, x), te.constant(0, dtype));
        let x = te.if_then_else(is_hit, x, zero);
        let w = te.cast(dtype, w);
        te.mul(x, w)
    })])
}
