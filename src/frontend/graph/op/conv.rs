//! Convolutions.

use super::layout::{Layout, paddings, positive, spatial_letters};
use super::pad::{of_type, padded};
use super::*;
use crate::graph::infer::Args;
use crate::ir::Arena;
use crate::te::Reducer;

/// A convolution of some dimensions, with its default layouts.
macro_rules! convolution {
    ($name:literal, $ones:expr, $zeros:expr, $data:literal, $kernel:literal, $doc:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                required("weight", Kind::Tensor),
                optional("strides", Kind::Ints, Default::Ints(&$ones)),
                optional("padding", Kind::Ints, Default::Ints(&$zeros)),
                optional("dilation", Kind::Ints, Default::Ints(&$ones)),
                optional("groups", Kind::Int, Default::Int(1)),
                optional("data_layout", Kind::Str, Default::Str($data)),
                optional("kernel_layout", Kind::Str, Default::Str($kernel)),
                optional("out_layout", Kind::OptStr, Default::None),
                optional("out_dtype", Kind::OptDType, Default::None),
            ],
            infer: result,
            lower: Lowering::Stages(stages),
            doc: $doc,
        }
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    convolution!("nn.conv1d", [1], [0, 0], "NCW", "OIW", "Sums of products of a kernel with windows of rows."),
    convolution!(
        "nn.conv2d",
        [1, 1],
        [0, 0, 0, 0],
        "NCHW",
        "OIHW",
        "Sums of products of a kernel with windows of images."
    ),
    convolution!(
        "nn.conv3d",
        [1, 1, 1],
        [0, 0, 0, 0, 0, 0],
        "NCDHW",
        "OIDHW",
        "Sums of products of a kernel with windows of volumes."
    ),
];

/// The attributes of a convolution.
pub(super) struct Conv {
    pub data: Layout,
    pub kernel: Layout,
    pub out: Layout,
    pub strides: Vec<i64>,
    pub before: Vec<i64>,
    pub after: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
}

impl Conv {
    /// Those of a call.
    pub(super) fn of(args: &Args<'_>) -> Result<Conv, OpError> {
        let spatial = spatial_letters(args);
        let data = Layout::plain(args, "data_layout", "NC", spatial)?;
        let kernel = Layout::plain(args, "kernel_layout", "OI", spatial)?;
        let is_stated = args.opt_text("out_layout").is_some_and(|t| !t.is_empty());
        let out = Layout::plain(args, if is_stated { "out_layout" } else { "data_layout" }, "NC", spatial)?;
        let n = spatial.len();
        let (before, after) = paddings(args, n)?;
        let (strides, dilation) = (positive(args, "strides", n)?, positive(args, "dilation", n)?);
        let groups = args.int("groups");
        if groups < 1 {
            return args.fail(format!("`groups` must be positive, found {groups}"));
        }
        Ok(Conv { data, kernel, out, strides, before, after, dilation, groups })
    }

    /// The number of spatial dimensions.
    pub(super) fn n(&self) -> usize {
        self.strides.len()
    }

    /// The tensors of a call, which have the dimensions of their layouts, and the type of the result.
    pub(super) fn operands(&self, cx: &mut Infer<'_>) -> Result<(Known, Known, DType), OpError> {
        let (data, weight) = (cx.tensor("data")?, cx.tensor("weight")?);
        cx.expect_rank("data", &data, self.data.rank())?;
        cx.expect_rank("weight", &weight, self.kernel.rank())?;
        let dtype = cx.opt_dtype("out_dtype");
        if dtype.is_none() {
            expect_same_type(cx, ("data", data.dtype), ("weight", weight.dtype))?;
        }
        let dtype = dtype.unwrap_or(data.dtype);
        Ok((data, weight, dtype))
    }

    /// Checks that the number of channels of a tensor is a multiple of the groups.
    pub(super) fn expect_groups(&self, cx: &Infer<'_>, what: &str, tensor: &Known, dim: usize) -> Result<(), OpError> {
        match cx.known_extent(tensor.shape[dim]) {
            Some(n) if n % self.groups != 0 => {
                let (shape, groups) = (cx.extents(&tensor.shape), self.groups);
                cx.fail(format!("the {n} channels of `{what}` {shape} are no multiple of {groups} groups"))
            }
            _ => Ok(()),
        }
    }

    /// The extents of the dilated kernel.
    pub(super) fn dilated(&self, arena: &mut Arena, weight: &[ExprId]) -> Vec<ExprId> {
        let extents = self.kernel.spatial_of(weight);
        extents.iter().zip(&self.dilation).map(|(&k, &d)| dilated_extent(arena, k, d)).collect()
    }
}

/// The dimensions and the padding of a convolution or a transposed convolution, for passes.
pub(in crate::graph) struct Geometry {
    /// The dimension of channels in the result.
    pub result_channels: usize,
    /// The dimension of output channels in the weight. In that of a transposed convolution, they are counted within a group.
    pub weight_channels: usize,
    /// The spatial dimensions of the data.
    pub spatial: Vec<usize>,
    /// The padding before each spatial dimension.
    pub before: Vec<i64>,
    /// The padding after each spatial dimension.
    pub after: Vec<i64>,
    /// The number of groups of channels.
    pub groups: i64,
}

impl Geometry {
    /// That of a call; `None` for other operators, and for layouts with blocks.
    pub(in crate::graph) fn of(args: &Args<'_>) -> Option<Geometry> {
        if !args.op.name.starts_with("nn.conv") {
            return None;
        }
        let conv = Conv::of(args).ok()?;
        Some(Geometry {
            result_channels: conv.out.at('C'),
            weight_channels: conv.kernel.at('O'),
            spatial: conv.data.spatial,
            before: conv.before,
            after: conv.after,
            groups: conv.groups,
        })
    }
}

/// The extent of `k` taps at a distance.
pub(super) fn dilated_extent(arena: &mut Arena, k: ExprId, dilation: i64) -> ExprId {
    let steps = arena.add_const(k, -1);
    let steps = arena.mul_const(steps, dilation);
    arena.add_const(steps, 1)
}

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let conv = Conv::of(cx)?;
    let (data, weight, dtype) = conv.operands(cx)?;
    let (c, i, o) = (conv.data.at('C'), conv.kernel.at('I'), conv.kernel.at('O'));
    let expected = cx.arena.mul_const(weight.shape[i], conv.groups);
    if cx.differ(data.shape[c], expected) {
        let (of_data, of_weight) = (cx.extents(&data.shape), cx.extents(&weight.shape));
        return cx.fail(format!(
            "the channels of `data` {of_data} are not those of `weight` {of_weight} times {} groups",
            conv.groups
        ));
    }
    conv.expect_groups(cx, "data", &data, c)?;
    conv.expect_groups(cx, "weight", &weight, o)?;
    let kernel = conv.dilated(cx.arena, &weight.shape);
    let mut spatial = conv.data.spatial_of(&data.shape);
    for (d, extent) in spatial.iter_mut().enumerate() {
        let whole = cx.arena.add_const(*extent, conv.before[d] + conv.after[d]);
        *extent = windows(cx, whole, kernel[d], conv.strides[d]);
        if cx.known_extent(*extent).is_some_and(|n| n < 1) {
            let (of_data, of_weight) = (cx.extents(&data.shape), cx.extents(&weight.shape));
            return cx.fail(format!("`weight` {of_weight} is larger than the padded `data` {of_data}"));
        }
    }
    let items = data.shape[conv.data.at('N')];
    let shape = conv.out.placed(('N', items), ('C', weight.shape[o]), &spatial);
    Ok(Type::tensor(dtype, shape))
}

/// The number of windows of an extent.
pub(super) fn windows(cx: &mut Infer<'_>, whole: ExprId, window: ExprId, stride: i64) -> ExprId {
    let rest = cx.arena.sub(whole, window);
    let stride = cx.extent(stride);
    let steps = cx.arena.floor_div(rest, stride);
    let n = cx.arena.add_const(steps, 1);
    cx.simplified(n)
}

fn stages(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let conv = Conv::of(cx)?;
    let (data, weight) = (cx.input("data")?, cx.input("weight")?);
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let (of_data, of_weight) = (cx.shape_of(data), cx.shape_of(weight));
    let (n, c) = (conv.data.at('N'), conv.data.at('C'));
    let (item, feature) = (conv.out.at('N'), conv.out.at('C'));
    let te = &mut cx.te;
    let spread = |widths: &[i64]| {
        let mut all = vec![0; conv.data.rank()];
        conv.data.spatial.iter().zip(widths).for_each(|(&d, &width)| all[d] = width);
        all
    };
    let zero = of_type(te, 0.0, te.element_type(data));
    let data = padded(te, "pad_temp", data, &spread(&conv.before), &spread(&conv.after), zero);
    // The domain has the order of the data's dimensions.
    let channels = of_weight[conv.kernel.at('I')];
    let taps = conv.kernel.spatial_of(&of_weight);
    let mut domain = conv.data.placed(('N', channels), ('C', channels), &taps);
    domain.remove(n);
    let name = format!(
        "{}conv{}d_{}",
        if conv.groups > 1 { "group_" } else { "" },
        conv.n(),
        conv.data.name.to_ascii_lowercase()
    );
    let groups = te.extent(conv.groups);
    let (in_group, out_group) = (te.floor_div(of_data[c], groups), te.floor_div(shape[feature], groups));
    Ok(vec![te.reduce(&name, &shape, &domain, Reducer::Sum, |te, i, k| {
        let k = with_index(k, n, i[item]);
        let (channel, taps) = (k[c], conv.data.spatial_of(&k));
        let mut from = channel;
        if conv.groups > 1 {
            let group = te.floor_div(i[feature], out_group);
            let first = te.mul(group, in_group);
            from = te.add(first, channel);
        }
        let pixels: Vec<ExprId> = (0..conv.n())
            .map(|d| {
                let first = te.mul_const(i[conv.out.spatial[d]], conv.strides[d]);
                let tap = te.mul_const(taps[d], conv.dilation[d]);
                te.add(first, tap)
            })
            .collect();
        let x = te.at(data, &conv.data.placed(('N', i[item]), ('C', from), &pixels));
        let w = te.at(weight, &conv.kernel.placed(('O', i[feature]), ('I', channel), &taps));
        let (x, w) = (te.cast(dtype, x), te.cast(dtype, w));
        te.mul(x, w)
    })])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of, varied};

    #[test]
    fn shapes_follow_windows_and_may_be_symbols() {
        let params = r#"x: R.Tensor(("n", 4, 9, "w"), "float32"), k: R.Tensor((6, 2, 3, 3), "float32")"#;
        let call = "R.nn.conv2d(x, k, strides=(2, 1), padding=1, groups=2)";
        assert_eq!(type_of(params, call), "float32 [n, 6, 5, w]");
        let params = r#"x: R.Tensor((1, 9, 4), "float16"), k: R.Tensor((3, 4, 5), "float16")"#;
        let call = r#"R.nn.conv1d(x, k, dilation=2, data_layout="NWC", kernel_layout="WIO", out_dtype="float32")"#;
        assert_eq!(type_of(params, call), "float32 [1, 5, 5]");
    }

    #[test]
    fn mistakes_name_both_shapes() {
        let params = r#"x: R.Tensor((1, 3, 9, 9), "float32"), k: R.Tensor((6, 2, 3, 3), "float32")"#;
        refused(params, "R.nn.conv2d(x, k)", &["R.nn.conv2d", "[1, 3, 9, 9]", "[6, 2, 3, 3]", "1 groups"]);
        let params = r#"x: R.Tensor((1, 3, 2, 9), "float32"), k: R.Tensor((6, 3, 3, 3), "float32")"#;
        refused(params, "R.nn.conv2d(x, k)", &["[1, 3, 2, 9]", "[6, 3, 3, 3]", "larger"]);
        refused(params, "R.nn.conv2d(x, k, padding=(1, 1, 1))", &["`padding` has 3 integers"]);
        refused(params, r#"R.nn.conv2d(x, k, padding=1, data_layout="NCHW4c")"#, &["`data_layout`", "NCHW4c"]);
        refused(params, r#"R.nn.conv2d(x, k, padding=1, out_layout="HWC")"#, &["`out_layout`", "N, C, H, W"]);
    }

    #[test]
    fn windows_are_summed_with_padding_stride_and_dilation() {
        let (x, k) = (varied(&[1, 2, 5, 6]), varied(&[4, 1, 2, 3]));
        let mut expected = Vec::new();
        for o in 0..4 {
            for y in 0..3_i64 {
                for z in 0..4_i64 {
                    let mut sum = 0.0;
                    for r in 0..2_i64 {
                        for s in 0..3_i64 {
                            let (row, column) = (y * 2 + r - 1, z + s * 2 - 1);
                            if (0..5).contains(&row) && (0..6).contains(&column) {
                                let pixel = (o / 2) * 30 + row * 6 + column;
                                sum += x[pixel as usize] * k[(o * 6 + r * 3 + s) as usize];
                            }
                        }
                    }
                    expected.push(sum);
                }
            }
        }
        check(
            &[("x", &[1, 2, 5, 6], &x), ("k", &[4, 1, 2, 3], &k)],
            "R.nn.conv2d(x, k, strides=(2, 1), padding=1, dilation=(1, 2), groups=2)",
            &expected,
        );
    }

    #[test]
    fn channels_may_be_last() {
        let x = count(&[1, 2, 2]);
        check(
            &[("x", &[1, 2, 2], &x), ("k", &[1, 2, 1], &[1.0, 10.0])],
            r#"R.nn.conv1d(x, k, data_layout="NWC", kernel_layout="WIO")"#,
            &[10.0, 32.0],
        );
        check(
            &[("x", &[1, 2, 2], &x), ("k", &[2, 2, 1], &[1.0, 10.0, 2.0, 20.0])],
            r#"R.nn.conv1d(x, k, out_layout="NWC")"#,
            &[20.0, 40.0, 31.0, 62.0],
        );
    }
}
