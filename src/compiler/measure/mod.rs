//! Measurement: checks a kernel's results and times it.
//!
//! A candidate gets [`Arguments`] (seeded, aligned, guarded), runs once on poisoned outputs, is compared with a
//! [`Reference`] ([`check`]), and is then timed: a first look, then alternating pairs against the incumbent ([`mod@race`]),
//! and for finalists a longer interleaved run. Reported times come from [`timing::bench`], which later commands use
//! too. A failing candidate is data ([`Outcome`]), never an `Err`.
//!
//! # Invariants
//! * Nothing is timed without being checked, unless the caller says so; a result whose reference is still being
//!   computed waits for its verdict ([`Verdict::Waiting`]).
//! * Clock and deadline are behind [`Timer`], kernels behind [`Executable`], measurement behind [`Runner`]: each has a
//!   mock, so that searches are tested without a clock.
//! * Inputs depend on the parameters and the seed only.
//!
//! The stage before it is code generation, the one after it the database. Start reading at [`Runner`] and
//! [`InProcess`].

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
pub mod timing;

pub use arguments::{Arguments, ArgumentsError, Damage, ParamSpec, Poison};
pub use check::{Difference, Mismatch, Tolerance, compare, distance};
pub use executable::{Executable, RunFailure};
pub use intervals::{Intervals, IntervalsJob};
pub use load::LoadWatch;
pub use loaded::Loaded;
pub use noise::{Advice, Monitor};
pub use peaks::{Bandwidth, Level, Peak, PeakLoop, PeakWork, traffic};
pub use pin::{Pinned, cores, pin_here, pin_to, placement};
pub use race::{Finalist, Race, RaceFailure, RaceOptions, Standing, finals, race};
pub use reference::{Reference, ReferenceCache, ReferenceError, ReferenceJob, ReferenceKey, SpotCheck, spots};
pub use runner::{
    Candidate, InProcess, Measurement, MockRunner, Outcome, Runner, RunnerOptions, Settled, Stage, Ticket, Verdict,
};
pub use spread::{ElementRanges, Range, Spread};
pub use stats::Summary;
pub use timer::{MockTimer, RealTimer, Stop, Timer, reading_secs};
pub use timing::repeat;

#[cfg(test)]
mod fakes;
