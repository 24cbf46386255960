//! Computes once what can be: scales and shifts by weights become part of the weights before them.
//!
//! A convolution, or the product with a matrix of weights, is linear: a scale of its output channels may as well scale the weight. What
//! follows from weights and constants alone is computed once for all calls ([`constness`](crate::graph::constness)), so the new
//! operators on weights cost nothing in a call. Each rule is a file, whose head says what becomes what.
//!
//! Results change within float rounding. Only `float32` and `float64` are folded: scaled weights of fewer digits would lose some, or
//! overflow.

mod batch_norm;
mod combine;
mod constants;
mod linear;
mod scale;
mod step;

use super::rewrite::{Rewriter, Rule, rewrite};
use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::ValueId;
use crate::ir::DType;

pub(super) const PASS: Pass = Pass {
    name: "fold_affine",
    doc: "Makes scales and shifts by weights part of the weights before them, and computes batch normalisation once.",
    is_optional: true,
    run,
};

const RULES: &[Rule] =
    &[batch_norm::to_scale_and_shift, scale::into_weight, scale::behind_bias, combine::factors, combine::biases];

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    module.functions.iter_mut().for_each(|function| rewrite(function, RULES));
    Ok(())
}

/// Whether a tensor has floats of enough digits.
fn is_precise(rw: &Rewriter<'_>, v: ValueId) -> bool {
    matches!(rw.dtype(v), Some(DType::Float32 | DType::Float64))
}
