//! The parts of a run that all its tasks share: back end, database, limits and observer.

use super::backend::Backend;
use super::budget::Budget;
use super::config::Config;
use super::driver::TuneError;
use super::events::{Event, Observer};
use super::interrupt::Interrupt;
use super::task::Task;
use crate::database::Database;
use crate::measure::Timer;
use crate::stop::StopFlag;
use std::sync::Arc;
use std::time::Duration;

/// A run. Its methods work on one task each; they are in several files of this folder.
pub(super) struct Run<'a, B: Backend> {
    pub backend: &'a B,
    pub config: &'a Config,
    pub db: &'a mut Database,
    pub observer: &'a mut dyn Observer,
    pub interrupt: &'a Interrupt,
    pub budget: Budget,
    /// Raised when the search is to end: by the alarm, or with the interrupt.
    pub stop: StopFlag,
    alarms: Alarms,
    /// The time at which the run began to end; `None` while it searches.
    pub ending: Option<Duration>,
    /// The number of tasks.
    pub n_tasks: usize,
    /// Trials of this run, over all tasks.
    pub n_trials: u64,
    /// Records of the database that the run has taken note of.
    pub n_records: usize,
}

/// Timers that raise flags, since long work does not look at the clock.
struct Alarms {
    /// Ends the search in time for the finals.
    search: Option<Box<dyn Timer>>,
    /// Ends everything.
    all: Option<Box<dyn Timer>>,
}

impl<'a, B: Backend> Run<'a, B> {
    /// A run that begins now.
    pub(super) fn new(
        config: &'a Config,
        db: &'a mut Database,
        backend: &'a B,
        observer: &'a mut dyn Observer,
        interrupt: &'a Interrupt,
    ) -> Run<'a, B> {
        let budget = Budget::new(backend.now(), config.max_time);
        let n_records = db.n_records();
        let stop = StopFlag::new();
        interrupt.also_stop(Arc::new(stop.clone()));
        let alarms = Alarms { search: backend.alarm(&stop), all: backend.alarm(interrupt.flag()) };
        let run = Run {
            backend,
            config,
            db,
            observer,
            interrupt,
            budget,
            stop,
            alarms,
            ending: None,
            n_tasks: 0,
            n_trials: 0,
            n_records,
        };
        run.set_alarms();
        run
    }

    /// Keeps time for the finals of all tasks.
    pub(super) fn reserve_finals(&mut self, n_tasks: usize) {
        self.n_tasks = n_tasks;
        self.budget.reserve_finals(n_tasks);
        self.set_alarms();
    }

    /// Sets the alarms to the ends of the budget.
    fn set_alarms(&self) {
        let now = self.backend.now();
        if let (Some(alarm), Some(limit)) = (&self.alarms.search, self.budget.left_to_search(now)) {
            alarm.arm(limit);
        }
        if let (Some(alarm), Some(limit)) = (&self.alarms.all, self.budget.left_at_most(now)) {
            alarm.arm(limit);
        }
    }

    /// Runs `work` and returns the seconds that it took, too.
    pub(super) fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, f64) {
        let start = self.backend.now();
        let result = work(self);
        (result, self.secs_since(start))
    }

    /// Seconds that have passed since `start`.
    pub(super) fn secs_since(&self, start: Duration) -> f64 {
        self.backend.now().saturating_sub(start).as_secs_f64()
    }

    /// The time since the run began.
    pub(super) fn elapsed(&self) -> Duration {
        self.budget.elapsed(self.backend.now())
    }

    /// Is the whole time up, that of the finals included?
    pub(super) fn is_over(&self) -> bool {
        self.budget.left(self.backend.now()).is_some_and(|left| left.is_zero())
    }

    /// Warns the user.
    pub(super) fn warn(&mut self, text: &str) {
        self.observer.event(&Event::Warning(text));
    }

    /// Writes the records of a task that are ready.
    pub(super) fn commit(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        let records = task.records.take_unwritten();
        if records.is_empty() {
            return Ok(());
        }
        let (committed, secs) = self.timed(|run| run.db.commit(&records));
        self.n_records += records.len();
        task.tally.spent.database += secs;
        Ok(committed?)
    }
}
