//! Hard sigmoids, and with them hard swishes, get one form, without a division.
//!
//! ```text
//! clip(x + 3, 0, 6) / 6        →    clip(x * 0.16666667 + 0.5, 0, 1)
//! x * clip(x + 3, 0, 6) / 6    →    x * clip(x * 0.16666667 + 0.5, 0, 1)
//! ```
//!
//! Howard et al., "Searching for MobileNetV3", 2019.

use super::product::{Product, is_close, plus_scalar};
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::pass::rewrite::{Rewriter, epsilon};

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let result = rw.function.call(c).result;
    let dtype = rw.dtype(result)?;
    let whole = Product::of(rw, result);
    if !whole.divisors.is_empty() || !is_close(whole.coefficient, 1.0 / 6.0, epsilon(dtype)?) {
        return None;
    }
    let (x, gated) = match whole.factors[..] {
        [clipped] => (clipped_sum(rw, clipped)?, None),
        [a, b] => match clipped_sum(rw, b) {
            Some(x) => (x, Some(a)),
            None => (clipped_sum(rw, a)?, Some(b)),
        },
        _ => return None,
    };
    let [sixth, half, zero, one] = [1.0 / 6.0, 0.5, 0.0, 1.0].map(|value| rw.add_scalar(value, dtype));
    let angle = rw.add_binary("multiply", x, sixth?)?;
    let angle = rw.add_binary("add", angle, half?)?;
    let above = rw.add_binary("maximum", angle, zero?)?;
    let sigmoid = rw.add_binary("minimum", above, one?)?;
    match gated {
        Some(gated) => rw.add_binary("multiply", gated, sigmoid),
        None => Some(sigmoid),
    }
}

/// The value `x` of `clip(x + 3, 0, 6)`.
fn clipped_sum(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    let (x, low, high) = clipped(rw, v)?;
    let (x, shift) = plus_scalar(rw, x)?;
    ((low, high, shift) == (0.0, 6.0, 3.0)).then_some(x)
}

/// A value in bounds, as one call or two, with its bounds.
fn clipped(rw: &Rewriter<'_>, v: ValueId) -> Option<(ValueId, f64, f64)> {
    if let Some(args) = rw.only_use_of(v, "clip") {
        let bound = |name| {
            let Arg::Prim(e) = *args.get(name) else { return None };
            let arena = &rw.function.arena;
            arena.as_float(e).or_else(|| arena.as_int(e).map(|n| n as f64))
        };
        return Some((args.value("x")?, bound("min")?, bound("max")?));
    }
    let bounded = |v, by| {
        let (a, b) = rw.operands_of(v, by)?;
        rw.scalar(b).map(|bound| (a, bound)).or_else(|| Some((b, rw.scalar(a)?)))
    };
    match bounded(v, "minimum") {
        Some((inner, high)) => bounded(inner, "maximum").map(|(x, low)| (x, low, high)),
        None => {
            let (inner, low) = bounded(v, "maximum")?;
            bounded(inner, "minimum").map(|(x, high)| (x, low, high))
        }
    }
}
