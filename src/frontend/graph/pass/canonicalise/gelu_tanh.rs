//! GELU by the hyperbolic tangent becomes one operator.
//!
//! ```text
//! 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))    →    R.nn.gelu_tanh(x)
//! 0.5 * x * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))      →    R.nn.gelu_tanh(x)
//! ```
//!
//! Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

use super::gelu::half_of_one_plus;
use super::product::{Product, plus_scalar};
use crate::graph::function::{CallId, ValueId};
use crate::graph::pass::rewrite::{Rewriter, epsilon};
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// The factor of the cubic term.
const CUBIC: f64 = 0.044_715;
/// The root of 2 / pi.
const LINEAR: f64 = FRAC_2_SQRT_PI / SQRT_2;

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let result = rw.function.call(c).result;
    let epsilon = epsilon(rw.dtype(result)?)?;
    let whole = Product::of(rw, result);
    let [a, b] = whole.factors[..] else { return None };
    let is_gelu = |x, sum| {
        let angle = half_of_one_plus(rw, &whole, sum, "tanh", epsilon)?;
        is_angle(rw, angle, x, epsilon).then_some(x)
    };
    let x = is_gelu(a, b).or_else(|| is_gelu(b, a))?;
    rw.add_unary("nn.gelu_tanh", x)
}

/// Whether a value is `LINEAR * (x + CUBIC * x * x * x)`.
fn is_angle(rw: &Rewriter<'_>, v: ValueId, x: ValueId, epsilon: f64) -> bool {
    let Some(angle) = Product::read_once(rw, v).filter(|p| p.is(LINEAR, p.factors.len(), epsilon)) else {
        return false;
    };
    match angle.factors[..] {
        [sum] => is_sum(rw, sum, x, epsilon),
        [a, sum] | [sum, a] if a == x && sum != x => is_factored_sum(rw, sum, x, epsilon),
        _ => false,
    }
}

/// Whether a value is `x + CUBIC * x * x * x`.
fn is_sum(rw: &Rewriter<'_>, v: ValueId, x: ValueId, epsilon: f64) -> bool {
    let Some((a, b)) = rw.operands_of(v, "add") else { return false };
    let cubic = if a == x { b } else { a };
    (a == x || b == x) && is_power(rw, cubic, x, 3, epsilon)
}

/// Whether a value is `1 + CUBIC * x * x`.
fn is_factored_sum(rw: &Rewriter<'_>, v: ValueId, x: ValueId, epsilon: f64) -> bool {
    plus_scalar(rw, v).is_some_and(|(square, one)| one == 1.0 && is_power(rw, square, x, 2, epsilon))
}

/// Whether a value is `CUBIC` times a power of `x`.
fn is_power(rw: &Rewriter<'_>, v: ValueId, x: ValueId, n: usize, epsilon: f64) -> bool {
    let product = Product::read_once(rw, v);
    product.is_some_and(|p| p.is(CUBIC, n, epsilon) && p.factors.iter().all(|&factor| factor == x))
}
