//! Changes of the shape in a row become one.
//!
//! ```text
//! R.reshape(R.flatten(x), (4, 6))    →    R.reshape(x, (4, 6))
//! R.squeeze(R.expand_dims(x, 0))     →    x
//! ```

use crate::graph::function::{CallId, Callee, ValueId};
use crate::graph::operator::Lowering;
use crate::graph::pass::rewrite::Rewriter;

pub(super) fn compose(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let x = reshaped(rw, reshaped(rw, rw.function.call(c).result)?)?;
    let shape = rw.shape(rw.function.call(c).result)?;
    rw.reshaped(x, shape)
}

/// The tensor whose elements a value has by another shape.
pub(super) fn reshaped(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    let call = rw.function.definition(v)?;
    match call.callee {
        Callee::Op(op) if matches!(op.lower, Lowering::Reshape) => call.args.first()?.values().first().copied(),
        _ => None,
    }
}
