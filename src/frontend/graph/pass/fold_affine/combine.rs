//! Two scales, or two biases, by weights become one.
//!
//! ```text
//! R.divide(R.multiply(x, a), b)                →    R.multiply(x, R.divide(a, b))
//! R.add(R.subtract(R.matmul(x, w), a), b)      →    R.add(R.matmul(x, w), R.subtract(b, a))
//! ```
//!
//! Biases are only combined behind a convolution or a product of matrices, and two scalars stay: a large number may be added and taken
//! away to round to integers. [`constants`] says which weights are combined.

use super::constants;
use super::linear::Linear;
use super::step::{Kind, Step};
use crate::graph::function::{CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;

pub(super) fn factors(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let outer = Step::of(rw, c).filter(|step| step.kind.is_scale())?;
    let inner = Step::before(rw, outer.data).filter(|step| step.kind.is_scale())?;
    combined(rw, inner, outer, Kind::Multiply, Kind::Divide)
}

pub(super) fn biases(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let outer = Step::of(rw, c).filter(|step| !step.kind.is_scale())?;
    let inner = Step::before(rw, outer.data).filter(|step| !step.kind.is_scale())?;
    Linear::of(rw, inner.data)?;
    if rw.scalar(inner.constant).is_some() && rw.scalar(outer.constant).is_some() {
        return None;
    }
    combined(rw, inner, outer, Kind::Add, Kind::Subtract)
}

/// One step for two. `inverse` undoes `kind`.
fn combined(rw: &mut Rewriter<'_>, inner: Step, outer: Step, kind: Kind, inverse: Kind) -> Option<ValueId> {
    let (a, b) = (inner.constant, outer.constant);
    let (of_constants, first, second, step) = match (inner.kind.is_inverse(), outer.kind.is_inverse()) {
        (false, false) => (kind, a, b, kind),
        (false, true) => (inverse, a, b, kind),
        (true, false) => (inverse, b, a, kind),
        (true, true) => (kind, a, b, inverse),
    };
    let constant = constants::combined(rw, of_constants, first, second)?;
    rw.add_binary(step.name(), inner.data, constant)
}
