//! How the loops of a stage run, and how its tensor is stored.

use super::Mistake;
use super::axis::AxisId;
use super::stage::{StageId, Stages};
use crate::diagnostic::Span;
use crate::ir::Symbol;
use crate::schedule::arg::Arg;

/// How the iterations of a loop run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopUse {
    /// On several threads.
    Parallel,
    /// As the lanes of vectors.
    Vectorize,
    /// Written one after the other.
    Unroll,
    /// On the threads of a GPU; on a CPU, one after the other.
    Bind(Symbol),
}

/// What is said of a stage beside its axes and its place.
#[derive(Clone, PartialEq, Debug)]
pub enum Note {
    /// How a loop runs.
    Loop(AxisId, LoopUse),
    /// A pragma of a loop: its key and value.
    Pragma(AxisId, String, Arg),
    /// The distance of neighbours in a dimension: its position, a factor and an offset.
    StorageAlign(usize, i64, i64),
    /// The memory of the tensor.
    Scope(String),
    /// The loops from this one inwards are an intrinsic.
    Tensorize(AxisId, String),
}

impl Note {
    /// The axis that it says something of; `None` if it speaks of the tensor.
    pub fn axis(&self) -> Option<AxisId> {
        match self {
            Note::Loop(axis, _) | Note::Pragma(axis, ..) | Note::Tensorize(axis, _) => Some(*axis),
            Note::StorageAlign(..) | Note::Scope(_) => None,
        }
    }

    /// The same of another axis.
    #[must_use]
    pub(super) fn of_axis(self, now: AxisId) -> Note {
        match self {
            Note::Loop(_, how) => Note::Loop(now, how),
            Note::Pragma(_, key, value) => Note::Pragma(now, key, value),
            Note::Tensorize(_, intrinsic) => Note::Tensorize(now, intrinsic),
            Note::StorageAlign(..) | Note::Scope(_) => self,
        }
    }
}

impl Stages {
    /// Says how a loop runs, or what pragma or intrinsic it has.
    ///
    /// # Errors
    /// The axis is not one of the stage's.
    pub fn note(&mut self, stage: StageId, note: Note, at: Span) -> Result<(), Mistake> {
        match &note {
            Note::Loop(axis, how) => {
                self.leaf(stage, *axis)?;
                let axis = self.axis(*axis);
                if axis.is_reduced() && matches!(how, LoopUse::Parallel | LoopUse::Vectorize) {
                    let verb = if *how == LoopUse::Parallel { "run in parallel" } else { "be vectorised" };
                    let message = format!("the axis `{}` is reduced, so it cannot {verb}", axis.name);
                    return Err(Mistake::new(message)
                        .help("make partial results first: `s.rfactor(C, axis)`, whose axis is free"));
                }
            }
            Note::Pragma(axis, ..) | Note::Tensorize(axis, _) => {
                self.leaf(stage, *axis)?;
            }
            Note::StorageAlign(..) | Note::Scope(_) => {}
        }
        self.stage_mut(stage).notes.push((note, at));
        Ok(())
    }
}
