//! Schedules of tensor expressions (`te.create_schedule`): what they say of each stage, and what instructions that is.
//!
//! A schedule of tensor expressions is lazy. Each stage has *axes*; `split`, `fuse` and `reorder` replace them, `compute_at` says in
//! which loop of another stage a stage is computed. Nothing happens until the schedule is complete, so the order of calls on different
//! stages does not matter. An instruction of a [`Schedule`](crate::schedule::Schedule), in contrast, changes the program at once, and
//! finds it as earlier ones left it. So calls are recorded here, and [`translate()`] carries them out in an order that works.
//!
//! The model depends on no text: whoever reads schedules of this kind records calls, and whoever writes them reads stages.
//!
//! | file | content |
//! | --- | --- |
//! | [`axis`] | axes |
//! | [`stage`] | stages, and how they depend on each other |
//! | [`relation`] | `split`, `fuse`, `reorder` |
//! | `handover` | the outer axes of a stage as those of its reader |
//! | `nest` | instructions on loops that were changed, as calls that come first |
//! | [`attach`] | `compute_at`, `compute_inline`, `compute_root` |
//! | [`cached`] | stages that calls make: `cache_read`, `cache_write`, `rfactor` |
//! | [`note`] | how loops run, pragmas, storage |
//! | [`of_func()`] | the stages of a prim_func |
//! | [`translate()`] | the instructions |
//! | [`of_trace()`] | back from instructions |
//! | [`mod@print`] | as a text |

pub mod attach;
pub mod axis;
pub mod cached;
mod handover;
mod nest;
pub mod note;
mod of_func;
mod of_trace;
mod print;
pub mod relation;
pub mod stage;
#[cfg(test)]
mod tests;
mod translate;

pub use attach::Attach;
pub use axis::{Axis, AxisId, Size};
pub use cached::Cache;
pub use note::{LoopUse, Note};
pub use of_func::of_func;
pub use of_trace::{Inexpressible, of_trace};
pub use relation::Relation;
pub use stage::{Definition, Stage, StageId, Stages};
pub use translate::translate;

use crate::diagnostic::Span;
use crate::schedule::error::ScheduleError;

/// Why a call is not possible.
#[derive(Clone, PartialEq, Debug)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What to do; may be empty.
    pub help: String,
}

impl Mistake {
    /// A mistake without a proposal.
    pub fn new(message: impl Into<String>) -> Mistake {
        Mistake { message: message.into(), help: String::new() }
    }

    /// The mistake with a proposal.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Mistake {
        Mistake { help: help.into(), ..self }
    }
}

/// What stopped a translation.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal {
    /// The place of the call in the text.
    pub at: Span,
    /// Why it is not possible.
    pub cause: RefusalCause,
}

/// Why a call cannot be carried out.
#[derive(Clone, PartialEq, Debug)]
pub enum RefusalCause {
    /// The call does not fit the others.
    Mistake(Mistake),
    /// An instruction was refused.
    Schedule(Box<ScheduleError>),
}
