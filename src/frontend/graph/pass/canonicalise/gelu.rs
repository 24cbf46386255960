//! GELU by the error function becomes one operator.
//!
//! ```text
//! 0.5 * x * (1 + erf(x / sqrt(2)))             →    R.nn.gelu(x)
//! x * (0.5 + 0.5 * erf(x * 0.70710678))        →    R.nn.gelu(x)
//! ```
//!
//! Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

use super::product::{Product, is_close, plus_scalar};
use crate::graph::function::{CallId, ValueId};
use crate::graph::pass::rewrite::{Rewriter, epsilon};
use std::f64::consts::FRAC_1_SQRT_2;

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let result = rw.function.call(c).result;
    let epsilon = epsilon(rw.dtype(result)?)?;
    let whole = Product::of(rw, result);
    let [a, b] = whole.factors[..] else { return None };
    let is_gelu = |x, sum| {
        let angle = Product::read_once(rw, half_of_one_plus(rw, &whole, sum, "erf", epsilon)?)?;
        (angle.is(FRAC_1_SQRT_2, 1, epsilon) && angle.factors == [x]).then_some(x)
    };
    let x = is_gelu(a, b).or_else(|| is_gelu(b, a))?;
    rw.add_unary("nn.gelu", x)
}

/// The operand of a function `f` in a sum that is a factor of a product, if the product is that of the other factor and
/// `0.5 * (1 + f(…))`.
pub(super) fn half_of_one_plus(
    rw: &Rewriter<'_>,
    product: &Product,
    sum: ValueId,
    function: &str,
    epsilon: f64,
) -> Option<ValueId> {
    let (term, one) = plus_scalar(rw, sum)?;
    let term = Product::read_once(rw, term)?;
    let [value] = term.factors[..] else { return None };
    let is_half = is_close(product.coefficient * one, 0.5, epsilon) && product.divisors.is_empty();
    rw.operand_of(value, function).filter(|_| is_half && term.is(one, 1, epsilon))
}
