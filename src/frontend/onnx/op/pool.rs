//! Pooling.

use super::nn::{Kernel, Window, spatial};
use super::*;
use crate::ir::DType;

/// Lists of positions with more elements are refused.
const MOST_POSITIONS: i64 = 1 << 20;

pub(super) static OPERATORS: &[Operator] = &[
    one("AveragePool", 7, |n| {
        let include = n.flag("count_include_pad", false);
        let x = n.value(0)?;
        pool(n, x, "avg", Some(include))
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
    many("MaxPool", 7, |n| {
        let is_column_major = n.flag("storage_order", false);
        let x = n.value(0)?;
        let y = pool(n, x, "max", None)?;
        let mut results = vec![Operand::Value(y)];
        if n.wants(1) {
            results.push(Operand::Value(largest_positions(n, y, is_column_major)?));
        }
        Ok(results)
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

/// The pooling of a tensor by the attributes of the node.
pub(super) fn pool(n: &mut Node<'_, '_>, x: ValueId, kind: &str, include: Option<bool>) -> Result<ValueId> {
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

/// Where the largest elements of windows are: positions in the whole tensor, whose images may count column by column.
fn largest_positions(n: &mut Node<'_, '_>, y: ValueId, is_column_major: bool) -> Result<ValueId> {
    let x = n.value(0)?;
    let spatial = spatial(n, x)?;
    let window = Window::of(n, x, Kernel::Attribute, spatial)?;
    let (from, to, dtype) = (n.known_shape(x)?, n.known_shape(y)?, n.dtype(x)?);
    let (images, from, to) = (from[0] * from[1], &from[2..], &to[2..]);
    let (elements, windows) = (from.iter().product::<i64>(), to.iter().product::<i64>());
    let size: i64 = window.kernel.iter().product();
    if !dtype.is_float() || size.saturating_mul(windows) > MOST_POSITIONS {
        return n.fail(format!("the indices of `MaxPool` of {windows} windows of {dtype} are not supported"));
    }
    let coordinates = |mut p: i64, extents: &[i64]| {
        let mut at: Vec<i64> = extents.iter().rev().map(|e| (p % e, p /= e).0).collect();
        at.reverse();
        at
    };
    // Elements of windows by their positions; those outside are an element behind all others.
    let (mut positions, mut shown) = (Vec::new(), Vec::new());
    for w in 0..windows {
        let outer = coordinates(w, to);
        for k in 0..size {
            let inner = coordinates(k, &window.kernel);
            let at: Vec<i64> = (0..spatial)
                .map(|d| outer[d] * window.strides[d] + inner[d] * window.dilations[d] - window.pads[d])
                .collect();
            let is_inside = at.iter().zip(from).all(|(p, extent)| (0..*extent).contains(p));
            let place = |order: &mut dyn Iterator<Item = usize>| order.fold(0, |p, d| p * from[d] + at[d]);
            positions.push(if is_inside { place(&mut (0..spatial)) } else { elements } as f64);
            shown.push(if is_column_major { place(&mut (0..spatial).rev()) } else { place(&mut (0..spatial)) } as f64);
        }
    }
    let flat = n.reshape_to(x, &[images, elements])?;
    let last = n.indices(&[images, 1]);
    let last = n.full(last, f64::NEG_INFINITY, dtype)?;
    let all = n.concat(vec![flat, last], 1)?;
    let positions = n.numbers(&positions, &[windows, size], DType::Int64)?;
    let args = vec![("x", Arg::Value(all)), ("indices", Arg::Value(positions)), ("axis", int(1))];
    let cut = n.call("take", args)?;
    let best = n.call("argmax", vec![("x", Arg::Value(cut)), ("axis", int(2)), ("keepdims", flag(false))])?;
    let best = n.cast(best, DType::Int64)?;
    let firsts: Vec<f64> = (0..windows).map(|w| (w * size) as f64).collect();
    let firsts = n.numbers(&firsts, &[1, windows], DType::Int64)?;
    let best = n.binary("add", best, firsts)?;
    let shown = n.numbers(&shown, &[windows * size], DType::Int64)?;
    let found = n.take(shown, best)?;
    let before: Vec<f64> = (0..images).map(|i| (i * elements) as f64).collect();
    let before = n.numbers(&before, &[images, 1], DType::Int64)?;
    let found = n.binary("add", found, before)?;
    let shape = n.shape(y)?;
    n.reshape(found, shape)
}

fn global(n: &mut Node<'_, '_>, op: &str) -> Result<ValueId> {
    let x = n.value(0)?;
    let axes: Vec<i64> = (2..n.rank(x)? as i64).collect();
    n.reduce(op, x, &axes, true)
}
