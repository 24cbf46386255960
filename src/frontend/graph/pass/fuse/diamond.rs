//! Values that several calls read whose results meet in one call.
//!
//! ```text
//! x = R.call_tir(cls.conv2d, …)
//! a = R.call_tir(cls.clip, (x,), …)
//! b = R.call_tir(cls.multiply, (x, a), …)    x and a are read by nothing else
//! ```
//!
//! All calls from the value to the one where they meet (the value's immediate post-dominator) join it, if they compute each element from
//! the elements of the same indices.

use super::{Bytes, MAX_CALLS, fusible, reads_in_place, rearranges};
use crate::graph::function::{CallId, Function, ValueId};
use crate::ir::Module;
use std::collections::{BTreeMap, HashMap, HashSet};

pub(super) struct Diamonds<'a> {
    function: &'a Function,
    module: &'a Module,
    /// The calls that read each value, by their places in the order.
    readers: HashMap<ValueId, BTreeMap<usize, CallId>>,
    outputs: HashSet<ValueId>,
}

impl<'a> Diamonds<'a> {
    pub(super) fn of(function: &'a Function, module: &'a Module) -> Diamonds<'a> {
        let mut readers: HashMap<ValueId, BTreeMap<usize, CallId>> = HashMap::new();
        for (place, &c) in function.order.iter().enumerate() {
            function.call(c).inputs().for_each(|v| {
                readers.entry(v).or_default().insert(place, c);
            });
        }
        Diamonds { function, module, readers, outputs: function.output.values().into_iter().collect() }
    }

    /// The calls behind a value that two or more calls read, up to the one where they meet, in order; `None` if they do not meet, or not
    /// within [`MAX_CALLS`].
    pub(super) fn behind(&self, v: ValueId, narrow: &Bytes<'_>) -> Option<Vec<CallId>> {
        let mut inside = HashSet::from([v]);
        let mut calls = Vec::new();
        let mut pending = self.readers_of(v)?;
        if pending.len() < 2 {
            return None;
        }
        while let Some((_, c)) = pending.pop_first() {
            let result = self.function.call(c).result;
            calls.push(c);
            if calls.len() > MAX_CALLS || !self.is_elementwise(c, &inside) || narrow.are_read_later(c) {
                return None;
            }
            if pending.is_empty() {
                return Some(calls);
            }
            inside.insert(result);
            pending.extend(self.readers_of(result)?);
        }
        None
    }

    /// Who reads a value, unless it is returned.
    fn readers_of(&self, v: ValueId) -> Option<BTreeMap<usize, CallId>> {
        self.readers.get(&v).filter(|_| !self.outputs.contains(&v)).cloned()
    }

    /// Whether a call reads each of these values at the indices that it writes.
    fn is_elementwise(&self, c: CallId, values: &HashSet<ValueId>) -> bool {
        let Some(func) = fusible(self.function, self.module, c) else { return false };
        let Some(block) = rearranges(func) else { return false };
        let mut inputs = self.function.call(c).inputs().enumerate().filter(|(_, v)| values.contains(v));
        inputs.all(|(i, _)| reads_in_place(func, block, i))
    }
}
