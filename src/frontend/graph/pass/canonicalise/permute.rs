//! Two permutations of dimensions in a row become one.
//!
//! ```text
//! R.permute_dims(R.permute_dims(x, axes=[0, 2, 3, 1]), axes=[0, 2, 1, 3])    →    R.permute_dims(x, axes=[0, 3, 2, 1])
//! R.permute_dims(R.permute_dims(x, axes=[0, 2, 3, 1]), axes=[0, 3, 1, 2])    →    x
//! ```

use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::infer::Args;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::AttrValue;

pub(in crate::graph::pass) fn compose(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let outer = rw.args(c).filter(|args| args.op.name == "permute_dims")?;
    let between = outer.value("x")?;
    let inner = rw.defined_by(between, "permute_dims")?;
    let x = inner.value("x")?;
    let rank = rw.shape(x)?.len();
    let (inner, outer) = (axes(&inner, rank)?, axes(&outer, rank)?);
    let both: Vec<usize> = outer.iter().map(|&axis| inner[axis]).collect();
    if both.iter().copied().eq(0..rank) {
        return Some(x);
    }
    let both = both.iter().map(|&axis| AttrValue::Int(axis as i64)).collect();
    rw.add_op("permute_dims", vec![("x", Arg::Value(x)), ("axes", Arg::Attr(AttrValue::List(both)))])
}

/// The dimension of the operand that each dimension of the result is; reversed if the call does not say.
pub(in crate::graph::pass) fn axes(args: &Args<'_>, rank: usize) -> Option<Vec<usize>> {
    let axes = match args.opt_ints("axes") {
        Some(axes) => args.axes(&axes, rank).ok()?,
        None => (0..rank).rev().collect(),
    };
    (axes.len() == rank).then_some(axes)
}
