//! Search: proposes the candidates to try.
//!
//! A [`Proposer`] turns a [`Space`](crate::space::Space) into distinct programs. Candidates are numbered; candidate `i`
//! is a pure function of workload, space, seed and target, whatever the number of threads that make it. A program that
//! was seen before, in this run or in the database, is not proposed again. The search never measures: results are
//! reported to it.

mod archive;
mod choose;
mod evolution;
pub mod features;
mod individual;
mod isolate;
pub(crate) mod model;
mod parallel;
mod proposer;
pub mod survey;

pub use evolution::{Feedback, Options};
pub use isolate::isolated;
pub use parallel::in_order;
pub use proposer::{Candidate, Proposer, Round, Strategy};
