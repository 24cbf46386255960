//! Measurement: is a kernel right, and how long does it take?
//!
//! A candidate gets [`Arguments`] (seeded, aligned, guarded), runs once on poisoned outputs, is compared with a
//! [`Reference`] ([`check`]), and is then timed: a first look, then alternated pairs against the best so far ([`race`]),
//! and for finalists a longer interleaved run. What is reported comes from [`timing::bench`], which later commands call
//! too. A failing candidate is data ([`Outcome`]), never an `Err`.
//!
//! # Invariants
//! * Nothing is timed that is not also checked, unless the caller says so; a result whose reference is still being
//!   computed waits for its verdict ([`Verdict::Waiting`]).
//! * Clock and deadline are behind [`Timer`], kernels behind [`Executable`], measuring behind [`Runner`]: each has a mock,
//!   so that searches are tested without a clock.
//! * Inputs are a function of parameters and seed alone.
//!
//! Before it: code generation. After it: the database. Start reading at [`Runner`] and [`InProcess`].

mod arguments;
mod check;
mod executable;
mod fill;
mod intervals;
mod load;
mod loaded;
mod noise;
mod peaks;
mod pin;
mod race;
mod reference;
mod runner;
mod spread;
mod stats;
mod timer;
pub(crate) mod timing;

pub use arguments::{Arguments, ArgumentsError, Damage, ParamSpec, Poison};
pub use check::{Difference, Mismatch, Tolerance, compare, distance};
pub use executable::{Executable, RunFailure};
pub use intervals::{Intervals, IntervalsJob};
pub use load::LoadWatch;
pub use loaded::Loaded;
pub use noise::{Advice, Monitor};
pub use peaks::{Bandwidth, Level, Peak, PeakLoop, PeakWork, traffic};
pub use pin::{Pinned, cores, pin_here, pin_to};
pub use race::{Finalist, Race, RaceFailure, RaceOptions, Standing, finals, race};
pub use reference::{Reference, ReferenceCache, ReferenceError, ReferenceJob, ReferenceKey, SpotCheck, spots};
pub use runner::{
    Candidate, InProcess, Measurement, MockRunner, Outcome, Runner, RunnerOptions, Settled, Stage, Ticket, Verdict,
};
pub use spread::{ElementRanges, Range, Spread};
pub use stats::Summary;
pub use timer::{MockTimer, RealTimer, Stop, Timer};

#[cfg(test)]
mod fakes;
