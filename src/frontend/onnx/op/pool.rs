//! Pooling.

use super::nn::{Kernel, Window, spatial};
use super::*;

pub(super) static OPERATORS: &[Operator] = &[
    one("AveragePool", 7, |n| {
        let include = n.flag("count_include_pad", false);
        pool(n, "avg", Some(include))
    }),
    one("GlobalAveragePool", 7, |n| global(n, "mean")),
    one("GlobalLpPool", 7, |n| {
        let (x, p) = (n.value(0)?, n.int("p", 2) as f64);
        let a = n.unary("abs", x)?;
        let a = n.with_number("power", a, p)?;
        let axes: Vec<i64> = (2..n.rank(x)? as i64).collect();
        let a = n.reduce("sum", a, &axes, true)?;
        n.with_number("power", a, 1.0 / p)
    }),
    one("GlobalMaxPool", 7, |n| global(n, "max")),
    one("LpPool", 7, |n| {
        let (x, p) = (n.value(0)?, n.int("p", 2) as f64);
        let spatial = spatial(n, x)?;
        let window = Window::of(n, x, Kernel::Attribute, spatial)?;
        if n.flag("ceil_mode", false) {
            return n.fail("`LpPool` with `ceil_mode` is not supported");
        }
        let a = n.unary("abs", x)?;
        let a = n.with_number("power", a, p)?;
        let mut args = arguments(a, &window);
        args.push(("count_include_pad", flag(true)));
        let mean = n.call(NAMES_AVG[spatial - 1], args)?;
        let sum = n.with_number("multiply", mean, window.kernel.iter().product::<i64>() as f64)?;
        n.with_number("power", sum, 1.0 / p)
    }),
    one("MaxPool", 7, |n| {
        n.ignore("storage_order");
        pool(n, "max", None)
    }),
];

const NAMES_AVG: [&str; 3] = ["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"];
const NAMES_MAX: [&str; 3] = ["nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"];

fn arguments<'a>(x: ValueId, window: &Window) -> Vec<(&'a str, Arg)> {
    vec![
        ("data", Arg::Value(x)),
        ("pool_size", ints(&window.kernel)),
        ("strides", ints(&window.strides)),
        ("padding", ints(&window.pads)),
        ("dilation", ints(&window.dilations)),
    ]
}

fn pool(n: &mut Node<'_, '_>, kind: &str, include: Option<bool>) -> Result<ValueId> {
    let x = n.value(0)?;
    let spatial = spatial(n, x)?;
    let window = Window::of(n, x, Kernel::Attribute, spatial)?;
    let mut ceil = n.flag("ceil_mode", false);
    if ceil {
        // ONNX has no window that begins behind the data and the padding before it. Where that leaves as many windows as there are
        // without `ceil_mode`, it is without; relax has the others likewise.
        let extents = n.known_shape(x)?[2..].to_vec();
        let mut same = true;
        for (d, extent) in extents.into_iter().enumerate() {
            let (before, behind) = (window.pads[d], window.pads[spatial + d]);
            let covered = extent + before + behind - (window.kernel[d] - 1) * window.dilations[d] - 1;
            let mut windows = (covered + window.strides[d] - 1).div_euclid(window.strides[d]) + 1;
            if (windows - 1) * window.strides[d] >= extent + before {
                windows -= 1;
            }
            same &= windows == covered.div_euclid(window.strides[d]) + 1;
        }
        ceil = !same;
    }
    let mut args = arguments(x, &window);
    args.push(("ceil_mode", flag(ceil)));
    if let Some(include) = include {
        args.push(("count_include_pad", flag(include)));
    }
    n.call(if kind == "avg" { NAMES_AVG[spatial - 1] } else { NAMES_MAX[spatial - 1] }, args)
}

fn global(n: &mut Node<'_, '_>, op: &str) -> Result<ValueId> {
    let x = n.value(0)?;
    let axes: Vec<i64> = (2..n.rank(x)? as i64).collect();
    n.reduce(op, x, &axes, true)
}
