//! Classifies a function's accesses to its parameters.

use super::blocks::Draft;
use super::place::{Use, Uses};
use super::view::{are_independent, is_dense, split};
use crate::loopir::{Access, BufferId, Range, Storage};
use smallvec::SmallVec;

/// Determines which parameters are read, written, or both.
///
/// A parameter is [`Access::Out`] if its first access in text order is an unconditional store that writes all of it, as
/// reductions with an init and copies do. Otherwise its initial contents may matter: it is [`Access::InOut`].
pub(super) fn classify(draft: &mut Draft, uses: &Uses) {
    let params: Vec<BufferId> = draft.kernel.buffers().filter(|(_, b)| b.is_param()).map(|(id, _)| id).collect();
    for b in params {
        let of: Vec<&Use> = uses.of[b.index()].iter().map(|&u| &uses.all[u]).collect();
        let access = match of.first() {
            _ if !of.iter().any(|u| u.is_store) => Access::In,
            Some(first) if first.is_store && fills(draft, first) => Access::Out,
            _ => Access::InOut,
        };
        draft.kernel.buffer_mut(b).storage = Storage::Param(access);
    }
}

/// Whether the store, over all its loops, writes every element of its buffer.
fn fills(draft: &mut Draft, store: &Use) -> bool {
    if !store.conditions.is_empty() || store.in_else {
        return false;
    }
    let token = &draft.tokens[store.token];
    let extents = &draft.shapes[token.buffer.index()].extents;
    // With strides or an offset, there is memory between the elements that keeps its contents.
    if extents.iter().product::<i64>() != draft.kernel.buffer(token.buffer).len {
        return false;
    }
    let mut digits = SmallVec::<[_; 4]>::new();
    for (&index, &extent) in token.dims.iter().zip(extents) {
        let Some(parts) = split(&draft.kernel.arena, &mut draft.ranges, index, &mut |_| false) else { return false };
        if !(Range { lo: 0, hi: extent - 1 }).within(parts.inner) {
            return false;
        }
        match is_dense(&draft.kernel.arena, &draft.ranges, &parts.terms) {
            Some(own) => digits.extend(own),
            None => return false,
        }
    }
    are_independent(&draft.ranges, &digits)
}
