//! The driver of tuning runs: trials, budgets, resumption.
//!
//! It is the only module that uses search, code generation, measurement and the database together. It reports
//! [`events`] and a [`summary`], which `cli` presents.
//!
//! # Invariants
//! * A trial is one distinct program sent to the compiler. Its result is recorded, and it is never tried again in the same
//!   [`Setting`](crate::workload::Setting).
//! * All results are in the database before a run ends, however it ends.
//! * Equal seeds, inputs and measurements give equal candidates for any number of threads.
//! * A candidate never ends a run: its failure, or a panic while it is compiled, is recorded.
//!
//! | file | content |
//! | --- | --- |
//! | [`config`], [`budget`] | the configuration and time limits of a run |
//! | [`driver`] | the loop over rounds; start here |
//! | [`run`] | machine, database and limits, which all tasks of a run share |
//! | [`task`], [`settled`] | a function that is tuned, and one that has come to its end with its summary |
//! | [`times`], [`records`], [`failures`] | parts of a task: its times, its unwritten records, its counts of failures |
//! | [`share`] | chooses the function that gets the next round |
//! | [`begin`] | the space and the strategy of a task |
//! | [`warm_start`] | results of earlier runs, from which the search learns |
//! | [`transfer`] | schedules of other settings and other databases |
//! | [`round`] | propose, compile, measure, record |
//! | [`measuring`], [`verdicts`] | measuring programs and recording their results; checking results |
//! | [`finals`] | the comparison of the fastest programs, and the winner |
//! | [`backend`], [`native`] | compiling and measuring: the trait, and this machine |
//! | [`interrupt`] | ending a run by a signal |
//! | [`best`], [`mod@bench`] | the best recorded schedule, and benchmarks, for other commands |
//! | [`function_rates`] | rates of functions of scalars, for rooflines |
//! | [`kernel_bounds`] | lower bounds of the times of a model's kernels |

pub mod backend;
mod begin;
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
pub mod kernel_bounds;
mod measuring;
pub mod native;
mod records;
mod round;
mod run;
mod settled;
mod share;
pub mod summary;
mod task;
mod times;
mod transfer;
mod verdicts;
mod warm_start;

pub use begin::make_space;
pub use driver::{TuneError, tune, untuned};
pub use failures::{FailureCount, SketchCount};
pub use interrupt::Interrupt;

#[cfg(test)]
mod tests;
