//! Events that a run reports to its interface.

use crate::database::Failure;
use crate::schedule::Trace;
use std::time::Duration;

/// An event. The run does not depend on what the interface does with it.
#[derive(Debug)]
pub enum Event<'a> {
    /// The tasks were opened.
    Opened {
        /// The names of the functions, by task.
        names: &'a [String],
        /// Trials in the database.
        done: u64,
        /// Trials requested.
        wanted: u64,
        /// The peak of this machine for each function, in operations per second.
        peak_flops: &'a [Option<f64>],
    },
    /// The program as written was measured.
    Baseline {
        /// The position of the task.
        task: usize,
        /// Its seconds, or its failure.
        result: Result<f64, &'a Failure>,
    },
    /// A candidate was tried.
    Trial(Trial<'a>),
    /// The states of all tasks, after each round and at the end.
    Standings(&'a [TaskState<'a>]),
    /// A final begins: the fastest programs are compared side by side.
    Finals {
        /// The position of the task.
        task: usize,
        /// The number of finalists.
        finalists: usize,
    },
    /// A note for the user.
    Note(&'a str),
    /// A warning for the user.
    Warning(&'a str),
}

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskState<'a> {
    /// The name of the function.
    pub name: &'a str,
    /// Number of functions of the module that are this program.
    pub weight: u64,
    /// Operations of the function.
    pub flops: f64,
    /// The peak of this machine, in operations per second.
    pub peak_flops: Option<f64>,
    /// The best seconds so far.
    pub best: Option<f64>,
    /// The lower bound of the seconds, if it is known.
    pub bound: Option<f64>,
    /// Trials in the database.
    pub trials: u64,
    /// Has the task ended?
    pub is_done: bool,
}

/// A candidate that was tried.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The position of the task.
    pub task: usize,
    /// Its number within the run, over all functions, from 1.
    pub number: u64,
    /// Its seconds, or its failure.
    pub result: Result<f64, &'a Failure>,
    /// Is it the fastest program of its function so far?
    pub is_best: bool,
    /// The best seconds of its function so far.
    pub best: Option<f64>,
    /// Operations of the function.
    pub flops: f64,
    /// The trace of its schedule.
    pub trace: &'a Trace,
    /// The time since the run began.
    pub elapsed: Duration,
}

/// Receives the events of a run.
pub trait Observer {
    /// Receives an event.
    fn event(&mut self, event: &Event<'_>);
}

/// Ignores all events.
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}
