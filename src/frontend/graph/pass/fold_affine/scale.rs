//! A scale of output channels becomes part of the weight before it.
//!
//! ```text
//! R.multiply(R.nn.conv2d(x, w), s)               →    R.nn.conv2d(x, R.multiply(w, R.reshape(s, …)))
//! R.divide(R.matmul(x, w), s)                    →    R.matmul(x, R.divide(w, s))
//! R.multiply(R.add(R.nn.conv2d(x, w), b), s)     →    R.add(R.nn.conv2d(x, R.multiply(w, …)), R.multiply(b, s))
//! ```
//!
//! The scale is a scalar, or has one element for each output channel: for a product of matrices, each column of the right one. Nothing
//! else reads what lies between; [`constants`] says which biases are scaled. Relax's pass `FoldBatchnormToConv2D` and Relay's
//! `FoldScaleAxis` do the same.

use super::constants;
use super::linear::Linear;
use super::step::Step;
use crate::graph::function::{CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;

pub(super) fn into_weight(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let scale = Step::of(rw, c).filter(|step| step.kind.is_scale())?;
    Linear::of(rw, scale.data)?.scaled(rw, scale.kind, scale.constant)
}

pub(super) fn behind_bias(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let scale = Step::of(rw, c).filter(|step| step.kind.is_scale())?;
    let bias = Step::before(rw, scale.data).filter(|step| !step.kind.is_scale())?;
    let scaled = Linear::of(rw, bias.data)?.scaled(rw, scale.kind, scale.constant)?;
    let shift = constants::combined(rw, scale.kind, bias.constant, scale.constant)?;
    rw.add_binary(bias.kind.name(), scaled, shift)
}
