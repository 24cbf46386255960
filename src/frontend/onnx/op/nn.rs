//! Convolutions and products.

use super::*;
use crate::ir::ExprId;

pub(super) static OPERATORS: &[Operator] = &[
    one("Conv", 7, |n| {
        let (x, w) = (n.value(0)?, n.value(1)?);
        let spatial = spatial(n, x)?;
        let y = convolution(n, x, w, spatial)?;
        with_bias(n, y, 2, spatial)
    }),
    one("ConvTranspose", 7, |n| {
        let (x, w) = (n.value(0)?, n.value(1)?);
        let spatial = spatial(n, x)?;
        let kernel = n.known_shape(w)?[2..].to_vec();
        let of = |n: &mut Node<'_, '_>, name: &str, default: i64| match n.ints(name) {
            Some(all) if all.len() == spatial => Ok(all),
            Some(all) => n.fail(format!("`{name}` has {} integers, expected {spatial}", all.len())),
            None => Ok(vec![default; spatial]),
        };
        n.ignore("kernel_shape");
        let (strides, dilations) = (of(n, "strides", 1)?, of(n, "dilations", 1)?);
        let mut extra = of(n, "output_padding", 0)?;
        let mut pads = n.ints("pads").unwrap_or_else(|| vec![0; 2 * spatial]);
        if pads.len() != 2 * spatial {
            return n.fail(format!("`pads` has {} integers, expected {}", pads.len(), 2 * spatial));
        }
        let auto = n.text("auto_pad", "NOTSET");
        let wanted = n.ints("output_shape");
        if wanted.is_some() || auto.starts_with("SAME") {
            let extents = n.known_shape(x)?[2..].to_vec();
            let wanted = match wanted {
                Some(all) => all[all.len().saturating_sub(spatial)..].to_vec(),
                None => (0..spatial).map(|d| extents[d] * strides[d]).collect(),
            };
            if wanted.len() != spatial {
                return n.fail(format!("`output_shape` has {} integers, expected {spatial}", wanted.len()));
            }
            for d in 0..spatial {
                let full = strides[d] * (extents[d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1;
                let total = full - wanted[d];
                if total < 0 {
                    // More than there is: zeros behind.
                    extra[d] -= total;
                }
                let total = total.max(0);
                // ONNX puts the odd element before, unless it says `SAME_UPPER`.
                let before = if auto == "SAME_UPPER" { total / 2 } else { total - total / 2 };
                (pads[d], pads[spatial + d]) = (before, total - before);
            }
        }
        if pads.iter().any(|&p| p < 0) {
            return n.fail("`ConvTranspose` with negative padding is not supported");
        }
        let groups = n.int("group", 1);
        // Rows behind are those of a result that is cut off less, as far as padding takes them away.
        for d in 0..spatial {
            if extra[d] >= strides[d].max(dilations[d]) {
                let shift = extra[d].min(pads[spatial + d]);
                (extra[d], pads[spatial + d]) = (extra[d] - shift, pads[spatial + d] - shift);
            }
        }
        let y = n.call(
            ["nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"][spatial - 1],
            vec![
                ("data", Arg::Value(x)),
                ("weight", Arg::Value(w)),
                ("strides", ints(&strides)),
                ("padding", ints(&pads)),
                ("output_padding", ints(&extra)),
                ("dilation", ints(&dilations)),
                ("groups", int(groups)),
            ],
        )?;
        with_bias(n, y, 2, spatial)
    }),
    one("Einsum", 12, |n| {
        let equation = n.text("equation", "").replace(' ', "");
        let operands = n.values()?;
        n.call("einsum", vec![("operands", Arg::Values(operands)), ("subscripts", text(&equation))])
    }),
    one("Gemm", 7, gemm),
    one("MatMul", 7, |n| {
        let (a, b) = (n.value(0)?, n.value(1)?);
        n.matmul(a, b)
    }),
];

/// A product of matrices and a sum by the attributes of the node.
pub(super) fn gemm(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let (mut a, mut b) = (n.value(0)?, n.value(1)?);
    if n.flag("transA", false) {
        a = n.permute(a, &[1, 0])?;
    }
    if n.flag("transB", false) {
        b = n.permute(b, &[1, 0])?;
    }
    let (alpha, beta) = (n.float("alpha", 1.0), n.float("beta", 1.0));
    let mut y = n.matmul(a, b)?;
    if alpha != 1.0 {
        y = n.with_number("multiply", y, alpha)?;
    }
    match n.opt_value(2)? {
        Some(mut c) => {
            if beta != 1.0 {
                c = n.with_number("multiply", c, beta)?;
            }
            n.binary("add", y, c)
        }
        None => Ok(y),
    }
}

/// A convolution by the attributes of the node.
pub(super) fn convolution(n: &mut Node<'_, '_>, x: ValueId, w: ValueId, spatial: usize) -> Result<ValueId> {
    let window = Window::of(n, x, Kernel::Of(w), spatial)?;
    let groups = n.int("group", 1);
    n.call(
        ["nn.conv1d", "nn.conv2d", "nn.conv3d"][spatial - 1],
        vec![
            ("data", Arg::Value(x)),
            ("weight", Arg::Value(w)),
            ("strides", ints(&window.strides)),
            ("padding", ints(&window.pads)),
            ("dilation", ints(&window.dilations)),
            ("groups", int(groups)),
        ],
    )
}

/// The number of spatial dimensions.
pub(super) fn spatial(n: &Node<'_, '_>, x: ValueId) -> Result<usize> {
    match n.rank(x)? {
        rank @ 3..=5 => Ok(rank - 2),
        rank => n.fail(format!("`{}` of {rank} dimensions is not supported", n.op_type())),
    }
}

/// Where the extents of windows are from.
pub(super) enum Kernel {
    /// The attribute `kernel_shape`.
    Attribute,
    /// The weight; the attribute repeats it.
    Of(ValueId),
}

/// The windows of a convolution or pooling.
pub(super) struct Window {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    /// All before, then all behind.
    pub pads: Vec<i64>,
}

impl Window {
    pub(super) fn of(n: &mut Node<'_, '_>, x: ValueId, kernel: Kernel, spatial: usize) -> Result<Window> {
        let stated = n.ints("kernel_shape");
        let kernel = match kernel {
            Kernel::Of(w) => n.known_shape(w)?.get(2..).unwrap_or_default().to_vec(),
            Kernel::Attribute => stated.unwrap_or_default(),
        };
        let mut of = |name: &str| n.ints(name).unwrap_or_else(|| vec![1; spatial]);
        let (strides, dilations) = (of("strides"), of("dilations"));
        let mut pads = n.ints("pads").unwrap_or_else(|| vec![0; 2 * spatial]);
        if [kernel.len(), strides.len(), dilations.len()] != [spatial; 3] || pads.len() != 2 * spatial {
            return n.fail(format!("the attributes of `{}` are not for {spatial} spatial dimensions", n.op_type()));
        }
        if kernel.iter().chain(&strides).chain(&dilations).any(|&v| !(1..1 << 31).contains(&v)) {
            return n.fail(format!("the windows of `{}` are not positive", n.op_type()));
        }
        match n.text("auto_pad", "NOTSET").as_str() {
            "NOTSET" | "" => {}
            "VALID" => pads = vec![0; 2 * spatial],
            auto @ ("SAME_UPPER" | "SAME_LOWER") => {
                let is_lower = auto == "SAME_LOWER";
                let extents = n.known_shape(x)?[2..].to_vec();
                for d in 0..spatial {
                    let windows = (extents[d] + strides[d] - 1) / strides[d];
                    let needed = (windows - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1;
                    let total = (needed - extents[d]).max(0);
                    let less = total / 2;
                    let before = if is_lower { total - less } else { less };
                    (pads[d], pads[spatial + d]) = (before, total - before);
                }
            }
            other => return n.fail(format!("`auto_pad` is `{other}`")),
        }
        if pads.iter().any(|&p| p < 0) {
            return n.fail(format!("`{}` with negative padding is not supported", n.op_type()));
        }
        Ok(Window { kernel, strides, dilations, pads })
    }
}

/// The sum with a number for each channel.
fn with_bias(n: &mut Node<'_, '_>, y: ValueId, argument: usize, spatial: usize) -> Result<ValueId> {
    let Some(bias) = n.opt_value(argument)? else { return Ok(y) };
    let channels = n.shape(bias)?;
    let one = n.index(1);
    let shape: Vec<ExprId> = channels.into_iter().chain(vec![one; spatial]).collect();
    let bias = n.reshape(bias, shape)?;
    n.binary("add", y, bias)
}
