//! Names inside a function.

use super::value::Value;
use crate::diagnostic::Span;

/// The visible names, innermost last. Python's blocks of `for`, `with` and `if` are frames, as in TVM's parser: a name
/// may shadow one of an outer frame, but must not be defined twice in one.
#[derive(Default)]
pub(super) struct Scope<'a> {
    names: Vec<(&'a str, Value, Span)>,
    frames: Vec<usize>,
}

impl<'a> Scope<'a> {
    pub(super) fn push_frame(&mut self) {
        self.frames.push(self.names.len());
    }

    pub(super) fn pop_frame(&mut self) {
        let start = self.frames.pop().unwrap_or(0);
        self.names.truncate(start);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.names.iter().rev().find(|n| n.0 == name).map(|n| &n.1)
    }

    /// The definition of the name in the innermost frame.
    pub(super) fn in_frame(&self, name: &str) -> Option<(&Value, Span)> {
        let start = self.frames.last().copied().unwrap_or(0);
        self.names[start..].iter().rev().find(|n| n.0 == name).map(|n| (&n.1, n.2))
    }

    pub(super) fn define(&mut self, name: &'a str, value: Value, span: Span) {
        self.names.push((name, value, span));
    }

    /// Defines a name outside all frames.
    pub(super) fn define_outside(&mut self, name: &'a str, value: Value, span: Span) {
        self.names.insert(0, (name, value, span));
        self.frames.iter_mut().for_each(|start| *start += 1);
    }

    /// All visible names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.names.iter().map(|n| n.0)
    }
}
