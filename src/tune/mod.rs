//! The driver: trials, budgets, resumption.
//!
//! It is the only module that sees search, code generation, measurement and the database together; `cli` presents what
//! it reports ([`events`], [`summary`]).
//!
//! # Invariants
//! * A trial is one distinct program sent to the compiler. Whatever becomes of it is recorded; it is never tried again in
//!   the same [`config::Setting`].
//! * What was measured is in the database before a run ends, however it ends.
//! * Equal seed, inputs and measurements give equal candidates, whatever the number of threads.
//! * A candidate never ends a run: failures, and panics of ours, are recorded with it.
//!
//! | file | is about |
//! | --- | --- |
//! | [`workload`] | a function in the form the database keeps |
//! | [`config`], [`budget`] | what a run is asked to do, and how long |
//! | [`driver`] | the loop over rounds; start here |
//! | [`share`] | which function gets the next round |
//! | [`round`] | propose, compile, measure, record |
//! | [`recall`] | what the search knows from earlier runs |
//! | [`elsewhere`] | what other settings and other databases know |
//! | [`finals`] | the winner of all |
//! | [`backend`], [`native`] | compiling and measuring, behind a trait with a mock |
//! | [`reference`], [`params`] | right results, and arguments |
//! | [`best`], [`bench`] | what later commands need |
//! | [`equivalence`], [`relayout`] | does a scheduled program give the results of the one as written? |
//! | [`flops`], [`needed`], [`roofline`] | how much work a program is, and how long that takes at least |

pub mod backend;
pub mod bench;
pub mod best;
mod budget;
pub mod config;
mod driver;
mod elsewhere;
pub(crate) mod equivalence;
pub mod events;
mod failures;
mod finals;
pub(crate) mod flops;
mod interrupt;
pub mod native;
pub(crate) mod needed;
mod params;
mod recall;
mod reference;
pub(crate) mod relayout;
pub(crate) mod roofline;
mod round;
mod sampling;
mod share;
pub mod summary;
mod task;
pub mod workload;

pub use driver::{TuneError, make_space, tune, untuned};
pub use failures::{FailureCount, SketchCount};
pub use interrupt::Interrupt;

#[cfg(test)]
mod tests;
