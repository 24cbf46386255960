//! Products with the inverse of a root of a mean, as normalisations have them.

use super::product::{Product, plus_scalar};
use crate::graph::function::ValueId;
use crate::graph::infer::Args;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType};

/// A product `factors / sqrt(mean + epsilon)`.
pub(super) struct OverRoot {
    pub(super) factors: Vec<ValueId>,
    /// The call that computes the mean is its only reader.
    pub(super) mean: ValueId,
    pub(super) epsilon: f64,
}

impl OverRoot {
    /// The product that a value is; `None` if it is another one.
    pub(super) fn of(rw: &Rewriter<'_>, v: ValueId) -> Option<OverRoot> {
        let mut product = Product::of(rw, v);
        if product.coefficient != 1.0 {
            return None;
        }
        let under = match product.divisors[..] {
            [divisor] => root(rw, divisor)?,
            [] => {
                let inverse = |&factor: &ValueId| inverse_root(rw, factor);
                let at = product.factors.iter().position(|factor| inverse(factor).is_some())?;
                inverse(&product.factors.remove(at))?
            }
            _ => return None,
        };
        let (mean, epsilon) = plus_scalar(rw, under)?;
        let epsilon = shortest(epsilon, rw.dtype(under)?);
        (rw.has_uses(mean, 1) && epsilon >= 0.0).then_some(OverRoot { factors: product.factors, mean, epsilon })
    }
}

/// The operand of `sqrt(…)` or `power(…, 0.5)`.
fn root(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    rw.operand_of(v, "sqrt").or_else(|| power(rw, v, 0.5))
}

/// The operand of `rsqrt(…)` or `power(…, -0.5)`.
fn inverse_root(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    rw.operand_of(v, "rsqrt").or_else(|| power(rw, v, -0.5))
}

fn power(rw: &Rewriter<'_>, v: ValueId, exponent: f64) -> Option<ValueId> {
    let (x, n) = rw.operands_of(v, "power")?;
    (rw.scalar(n) == Some(exponent)).then_some(x)
}

/// The number of the fewest digits that rounds to a number of the type.
fn shortest(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::Float32 => (value as f32).to_string().parse().unwrap_or(value),
        _ => value,
    }
}

/// The value whose square a value is, and how often the square reads it.
pub(super) fn squared(rw: &Rewriter<'_>, v: ValueId) -> Option<(ValueId, usize)> {
    if let Some(x) = rw.operand_of(v, "square") {
        return Some((x, 1));
    }
    if let Some((a, b)) = rw.operands_of(v, "multiply") {
        return (a == b).then_some((a, 2));
    }
    let (x, n) = rw.operands_of(v, "power")?;
    (rw.scalar(n) == Some(2.0)).then_some((x, 1))
}

/// The operand and the number of the last dimensions over which a reduction goes, if it keeps them.
pub(super) fn over_last(rw: &Rewriter<'_>, args: &Args<'_>) -> Option<(ValueId, usize)> {
    let x = args.value("x")?;
    let rank = rw.shape(x)?.len();
    let mut axes = args.axes(&args.opt_ints("axis")?, rank).ok()?;
    axes.sort_unstable();
    let is_last = !axes.is_empty() && axes.iter().copied().eq(rank - axes.len()..rank);
    (args.flag("keepdims") && is_last).then_some((x, axes.len()))
}

/// Whether a tensor has the last `n` extents of another one, and its type.
pub(super) fn has_last_extents(rw: &Rewriter<'_>, v: ValueId, n: usize, of: ValueId) -> bool {
    let (Some(shape), Some(whole)) = (rw.shape(v), rw.shape(of)) else { return false };
    rw.dtype(v) == rw.dtype(of) && shape.len() == n && whole.ends_with(&shape)
}

/// The last `n` axes as an attribute.
pub(super) fn last_axes(n: usize) -> AttrValue {
    AttrValue::List((1..=n as i64).rev().map(|axis| AttrValue::Int(-axis)).collect())
}
