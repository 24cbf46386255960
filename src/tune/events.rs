//! What a run tells while it goes on.

use crate::database::Failure;
use crate::schedule::Trace;
use std::time::Duration;

/// Something happened. An interface shows what it likes; the run does not depend on it.
#[derive(Debug)]
pub enum Event<'a> {
    /// The functions are known, and what the database has of them.
    Opened {
        /// Names of the functions, by task.
        names: &'a [String],
        /// Trials that the database has.
        done: u64,
        /// Trials that are wanted.
        wanted: u64,
        /// For each function, the operations per second that this machine can do at most.
        peak_flops: &'a [Option<f64>],
    },
    /// The program as written was measured.
    Baseline {
        /// Which function.
        task: usize,
        /// Seconds, or why there are none.
        result: Result<f64, &'a Failure>,
    },
    /// A candidate was tried.
    Trial(Trial<'a>),
    /// How the functions stand: after each round, and at the end.
    Standings(&'a [TaskState<'a>]),
    /// The leaders are compared once more.
    Finals {
        /// Which function.
        task: usize,
        /// How many there are.
        finalists: usize,
    },
    /// Something the user may like to know.
    Note(&'a str),
    /// Something the user should know.
    Warning(&'a str),
}

/// How a function stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskState<'a> {
    /// Its name.
    pub name: &'a str,
    /// How often the module has it.
    pub weight: u64,
    /// Its operations.
    pub flops: f64,
    /// Operations per second that this machine can do at most.
    pub peak_flops: Option<f64>,
    /// The best seconds so far.
    pub best: Option<f64>,
    /// The least seconds that it can take, if that was asked for.
    pub bound: Option<f64>,
    /// Trials in the database.
    pub trials: u64,
    /// Has it come to its end?
    pub is_done: bool,
}

/// A candidate that was tried.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Which function.
    pub task: usize,
    /// Its number within the run, over all functions, from 1.
    pub number: u64,
    /// Seconds, or why there are none.
    pub result: Result<f64, &'a Failure>,
    /// Is it the fastest so far, of its function?
    pub is_best: bool,
    /// The best seconds of its function so far.
    pub best: Option<f64>,
    /// Operations of the function.
    pub flops: f64,
    /// What was done.
    pub trace: &'a Trace,
    /// Since the run began.
    pub elapsed: Duration,
}

/// Who is told.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Tells nobody.
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}
