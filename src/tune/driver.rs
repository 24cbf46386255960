//! The loop: which function gets the next round, and when to end.
//!
//! ```text
//! open the tasks ──► while there is something to do: choose a task ──► round: propose, compile, measure, record
//!                                                                   └─► settle each task: verdicts, final, benchmark
//! ```

use super::backend::Backend;
use super::config::{Config, StopReason};
use super::events::{Event, Observer};
use super::interrupt::Interrupt;
use super::run::Run;
use super::settled::Settled;
use super::share;
use super::summary::{Summary, TaskSummary};
use super::task::Task;
use crate::database::{Database, DatabaseError};
use crate::ir::Module;
use crate::workload::Workload;

/// The reason why a run failed. All measurements until then are in the database.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TuneError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The machine lacks memory or threads that measuring takes.
    #[error("cannot measure: {0}")]
    Machine(String),
}

/// Candidates that are compiled together and then measured one after the other. The number is large enough that all cores
/// have something to compile, and small enough that little is lost when a run is ended.
pub(super) const ROUND: usize = 16;

/// Tunes functions of a module.
///
/// # Errors
/// The machine or the database failed; see [`TuneError`]. Candidates that fail are no error.
pub fn tune<B: Backend>(
    module: &Module,
    functions: &[usize],
    config: &Config,
    db: &mut Database,
    backend: &B,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<Summary, TuneError> {
    let run = Run::new(config, db, backend, observer, interrupt);
    let mut driver = Driver { run, tasks: Vec::new() };
    driver.open(module, functions)?;
    interrupt.note_searching();
    driver.search()?;
    let settled = driver.settle()?;
    driver.summary(&settled)
}

/// The names of the functions of a module for which the database has no valid record in this setting.
///
/// # Errors
/// The database cannot be read.
pub fn untuned(
    module: &Module,
    functions: &[usize],
    config: &Config,
    db: Option<&Database>,
) -> Result<Vec<String>, DatabaseError> {
    let mut missing = Vec::new();
    for &index in functions {
        let workload = Workload::of(module, index);
        let found = match db.and_then(|db| Some((db, workload.find(db)?))) {
            Some((db, id)) => db.best(id, &config.setting.filter())?.0.is_some(),
            None => false,
        };
        if !found {
            missing.push(workload.name.as_str().to_owned());
        }
    }
    Ok(missing)
}

/// A run with its tasks.
pub(super) struct Driver<'a, B: Backend> {
    pub run: Run<'a, B>,
    pub tasks: Vec<Task<B>>,
}

impl<B: Backend> Driver<'_, B> {
    /// Opens a task for each distinct program among the functions.
    fn open(&mut self, module: &Module, functions: &[usize]) -> Result<(), TuneError> {
        let Driver { run, tasks } = self;
        let config = run.config;
        for &index in functions {
            if run.stop.is_raised() {
                break;
            }
            let workload = Workload::of(module, index).with_intrinsics(config.intrinsics.clone());
            let time = run.backend.time();
            let (id, secs) = run.timed(|run| workload.commit(run.db, time));
            let id = id?;
            let calls = config.calls.get(&workload.name).copied().unwrap_or(1);
            if let Some(same) = tasks.iter_mut().find(|t| t.subject.id == id) {
                same.subject.names.push(workload.name);
                same.subject.calls += calls;
                continue;
            }
            let mut task = Task::open(tasks.len(), workload, id, run.db, &config.setting)?;
            task.tally.spent.database += secs;
            task.subject.calls = calls;
            tasks.push(task);
        }
        run.reserve_finals(tasks.len());
        let names: Vec<String> = tasks.iter().map(|t| t.subject.workload.name.as_str().to_owned()).collect();
        let (done, wanted) = (total_trials(tasks), config.trials);
        for task in tasks.iter_mut() {
            // If nothing is left to do, not even the machine is measured.
            if done < wanted && !run.stop.is_raised() {
                task.subject.peak = run.backend.peak_flops(&task.subject.workload);
            }
        }
        let peak_flops: Vec<Option<f64>> = tasks.iter().map(|t| t.subject.peak).collect();
        run.observer.event(&Event::Opened { names: &names, done, wanted, peak_flops: &peak_flops });
        Ok(())
    }

    /// Trials of all functions.
    pub(super) fn trials(&self) -> u64 {
        total_trials(&self.tasks)
    }

    /// The reason to end the whole run now, if there is one.
    pub(super) fn end(&self) -> Option<StopReason> {
        let run = &self.run;
        if run.interrupt.is_raised() {
            Some(StopReason::Interrupted)
        } else if self.trials() >= run.config.trials {
            Some(StopReason::TrialsReached)
        } else if run.stop.is_raised() || run.budget.is_up(run.backend.now()) {
            Some(StopReason::TimeIsUp)
        } else {
            None
        }
    }

    /// Makes rounds until there is a reason to end.
    fn search(&mut self) -> Result<(), TuneError> {
        loop {
            self.catch_up();
            if let Some(reason) = self.end() {
                self.tasks.iter_mut().for_each(|t| t.stop(reason));
                return Ok(());
            }
            let standings: Vec<_> = self.tasks.iter().map(Task::standing).collect();
            let Some(index) = share::next(&standings) else { return Ok(()) };
            if self.tasks[index].search.is_none() {
                self.run.begin(&mut self.tasks[index])?;
                continue;
            }
            let left = usize::try_from(self.run.config.trials - self.trials()).unwrap_or(usize::MAX);
            self.round(index, share::round_size(&standings, index, left, ROUND))?;
            let states: Vec<_> = self.tasks.iter().map(Task::state).collect();
            self.run.observer.event(&Event::Standings(&states));
        }
    }

    /// Takes note of the records that other processes have written since: they count, and their programs are not tried
    /// again. Were there any?
    pub(super) fn catch_up(&mut self) -> bool {
        let Driver { run, tasks } = self;
        if run.db.n_records() == run.n_records {
            return false;
        }
        tracing::debug!("{} records of other processes", run.db.n_records().saturating_sub(run.n_records));
        run.n_records = run.db.n_records();
        let filter = run.config.setting.filter();
        for task in tasks {
            task.tally.trials = run.db.counts(task.subject.id, &filter).trials + task.records.pending_trials();
            if let Some(search) = &mut task.search {
                search.skip(run.db.programs(task.subject.id, &filter));
            }
        }
        true
    }

    /// Waits for the verdicts of each task, holds its final, and closes its session.
    fn settle(&mut self) -> Result<Vec<Settled>, TuneError> {
        let run = &mut self.run;
        run.interrupt.note_finishing();
        run.ending = Some(run.backend.now());
        let mut settled = Vec::with_capacity(self.tasks.len());
        for mut task in self.tasks.drain(..) {
            if run.interrupt.is_raised() {
                run.interrupt.note_ending();
            }
            run.take_verdicts(&mut task, true);
            run.commit(&mut task)?;
            // A user who interrupts wants an end, not a final.
            if task.tally.measured > 0 && task.is_measurable() && !run.interrupt.is_raised() {
                run.finals(&mut task)?;
            }
            if run.interrupt.is_raised() {
                task.interrupt();
            }
            settled.push(task.settle());
        }
        run.interrupt.note_ending();
        let measured = settled.iter().any(|t| t.tally.measured > 0);
        let (synced, secs) = run.timed(|run| if measured { run.db.sync() } else { Ok(()) });
        if let Some(task) = settled.first_mut() {
            task.tally.spent.database += secs;
        }
        synced?;
        let states: Vec<_> = settled.iter().map(Settled::state).collect();
        run.observer.event(&Event::Standings(&states));
        Ok(settled)
    }

    fn summary(&self, settled: &[Settled]) -> Result<Summary, TuneError> {
        let run = &self.run;
        let elapsed = run.elapsed().as_secs_f64();
        let tasks: Vec<TaskSummary> =
            settled.iter().map(|t| t.summary(run.db, run.config)).collect::<Result<_, DatabaseError>>()?;
        Ok(Summary::new(tasks, elapsed, run.n_trials))
    }
}

/// Trials of all tasks.
fn total_trials<B: Backend>(tasks: &[Task<B>]) -> u64 {
    tasks.iter().map(|t| t.tally.trials).sum()
}
