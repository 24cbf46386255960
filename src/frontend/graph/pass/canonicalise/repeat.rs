//! Elements that are repeated by a broadcast along a new dimension, which joins the one before it, are repeated by one operator.
//!
//! ```text
//! a = R.expand_dims(x, 2)                       x: [1, 8, 128, 64]
//! b = R.broadcast_to(a, (1, 8, 4, 128, 64))     →    R.repeat(x, repeats=4, axis=1)
//! R.reshape(b, (1, 32, 128, 64))
//! ```
//!
//! Models have it where several heads of queries share one of keys and values. Without the change of the shape, what reads the elements
//! can read those that are repeated (see `fuse`).

use super::reshape::reshaped;
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::AttrValue;

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let result = rw.function.call(c).result;
    let wide = reshaped(rw, result)?;
    let x = rw.only_use_of(wide, "broadcast_to")?.value("x")?;
    let (of_x, of_wide, of_result) = (rw.shape(x)?, rw.shape(wide)?, rw.shape(result)?);
    if of_x.len() != of_wide.len() || of_result.len() + 1 != of_x.len() {
        return None;
    }
    let arena = &rw.function.arena;
    let mut differing = (0..of_x.len()).filter(|&d| of_x[d] != of_wide[d]);
    let (new, None) = (differing.next().filter(|&d| d > 0)?, differing.next()) else { return None };
    let repeats = arena.as_int(of_wide[new]).filter(|_| arena.is_int(of_x[new], 1))?;
    let mut narrow = of_x;
    narrow.remove(new);
    // The new dimension joins the one before it, and not the one behind it.
    let is_joined = (0..narrow.len()).all(|d| of_result[d] == narrow[d] || d == new - 1);
    if !is_joined || arena.is_int(narrow[new - 1], 1) {
        return None;
    }
    let x = rw.reshaped(x, narrow)?;
    let args = vec![
        ("data", Arg::Value(x)),
        ("repeats", Arg::Attr(AttrValue::Int(repeats))),
        ("axis", Arg::Attr(AttrValue::Int(new as i64 - 1))),
    ];
    rw.add_op("repeat", args)
}
