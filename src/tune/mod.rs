//! The driver: trials, budgets, resumption.
//!
//! It is the only module that sees search, code generation, measurement and the database together; `cli` presents what
//! it reports ([`events`], [`summary`]).
//!
//! # Invariants
//! * A trial is one distinct program sent to the compiler. Whatever becomes of it is recorded; it is never tried again in
//!   the same [`Setting`](crate::workload::Setting).
//! * What was measured is in the database before a run ends, however it ends.
//! * Equal seed, inputs and measurements give equal candidates, whatever the number of threads.
//! * A candidate never ends a run: failures, and panics of ours, are recorded with it.
//!
//! | file | is about |
//! | --- | --- |
//! | [`config`], [`budget`] | what a run is asked to do, and how long |
//! | [`driver`] | the loop over rounds; start here |
//! | [`share`] | which function gets the next round |
//! | [`round`] | propose, compile, measure, record |
//! | [`warm_start`] | what the search knows from earlier runs |
//! | [`transfer`] | what other settings and other databases know |
//! | [`finals`] | the winner of all |
//! | [`backend`], [`native`] | compiling and measuring, behind a trait with a mock |
//! | [`best`], [`mod@bench`] | what later commands need |
//! | [`function_rates`] | rates of functions of scalars, for rooflines |

pub mod backend;
pub mod bench;
pub mod best;
mod budget;
pub mod config;
mod driver;
pub mod events;
mod failures;
mod finals;
mod function_rates;
mod interrupt;
pub mod native;
mod round;
mod share;
pub mod summary;
mod task;
mod transfer;
mod warm_start;

pub use driver::{TuneError, make_space, tune, untuned};
pub use failures::{FailureCount, SketchCount};
pub use interrupt::Interrupt;

#[cfg(test)]
mod tests;
