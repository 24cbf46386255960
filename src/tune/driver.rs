//! The loop: which function gets the next round, and when to end.
//!
//! ```text
//! open the tasks ──► while there is something to do: choose a task ──► round: propose, compile, measure, record
//!                                                                   └─► finish each task: settle, final, benchmark
//! ```

use super::backend::{Backend, SessionError};
use super::budget::Budget;
use super::config::{Config, SpaceChoice, StopReason, StrategyChoice};
use super::events::{Event, Observer};
use super::finals::PEAK;
use super::interrupt::Interrupt;
use super::share;
use super::summary::{Summary, TaskSummary};
use super::task::Task;
use crate::database::{Database, DatabaseError, Outcome, Role};
use crate::ir::Module;
use crate::machine::Core;
use crate::measure::{Peak, Timer};
use crate::search::{self, Options, Proposer, Strategy, isolated};
use crate::space::{Rules, Space, generate};
use crate::stop::StopFlag;
use crate::workload::Setting;
use crate::workload::Workload;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// A run that could not be carried out. What was measured until then is in the database.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TuneError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The machine does not have what measuring takes.
    #[error("cannot measure: {0}")]
    Machine(String),
}

/// Candidates that are compiled together and then measured one after the other. Large enough that all cores have
/// something to compile, small enough that little is lost when a run is ended.
pub(super) const ROUND: usize = 16;

/// Tunes functions of a module.
///
/// # Errors
/// The machine failed; see [`TuneError`]. Candidates that fail are no error.
pub fn tune<B: Backend>(
    module: &Module,
    functions: &[usize],
    config: &Config,
    db: &mut Database,
    backend: &B,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<Summary, TuneError> {
    let budget = Budget::new(backend.now(), config.max_time);
    let n_records = db.n_records();
    let stop = StopFlag::new();
    interrupt.also_stop(Arc::new(stop.clone()));
    let alarms = Alarms { search: backend.alarm(&stop), all: backend.alarm(interrupt.flag()) };
    let tasks = Vec::new();
    let mut driver = Driver {
        backend,
        config,
        db,
        observer,
        interrupt,
        budget,
        stop,
        alarms,
        ending: None,
        tasks,
        n_trials: 0,
        n_records,
    };
    driver.set_alarms();
    driver.open(module, functions)?;
    interrupt.note_searching();
    driver.run()?;
    driver.finish()?;
    driver.summary()
}

/// What functions of a module the database has nothing valid for in this setting, by name.
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

pub(super) struct Driver<'a, B: Backend> {
    pub backend: &'a B,
    pub config: &'a Config,
    pub db: &'a mut Database,
    pub observer: &'a mut dyn Observer,
    pub interrupt: &'a Interrupt,
    pub budget: Budget,
    /// Raised when the search is to end: by the alarm, or with the interrupt.
    pub stop: StopFlag,
    alarms: Alarms,
    /// Since when the run is on its way out.
    pub ending: Option<Duration>,
    pub tasks: Vec<Task<B>>,
    /// Trials of this run.
    pub n_trials: u64,
    /// Records of the database that are taken note of.
    pub n_records: usize,
}

/// What watches the time, where work is long.
struct Alarms {
    /// Ends the search in time for the finals.
    search: Option<Box<dyn Timer>>,
    /// Ends everything.
    all: Option<Box<dyn Timer>>,
}

impl<B: Backend> Driver<'_, B> {
    /// Lets the alarms go off when the budget says.
    fn set_alarms(&self) {
        let now = self.backend.now();
        if let (Some(alarm), Some(limit)) = (&self.alarms.search, self.budget.left_to_search(now)) {
            alarm.arm(limit);
        }
        if let (Some(alarm), Some(limit)) = (&self.alarms.all, self.budget.left_at_most(now)) {
            alarm.arm(limit);
        }
    }

    /// Runs something and gives the seconds it took.
    pub(super) fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, f64) {
        let start = self.backend.now();
        let result = work(self);
        (result, self.backend.now().saturating_sub(start).as_secs_f64())
    }

    fn open(&mut self, module: &Module, functions: &[usize]) -> Result<(), TuneError> {
        for &index in functions {
            if self.stop.is_raised() {
                break;
            }
            let workload = Workload::of(module, index).with_intrinsics(self.config.intrinsics.clone());
            let time = self.backend.time();
            let (id, secs) = self.timed(|d| workload.commit(d.db, time));
            let id = id?;
            if let Some(same) = self.tasks.iter_mut().find(|t| t.id == id) {
                same.names.push(workload.name);
                continue;
            }
            let mut task = Task::new(workload, id, self.db, &self.config.setting);
            task.breakdown.database += secs;
            let filter = self.config.setting.filter();
            let baseline = self.db.record_of(id, task.as_written, &filter)?;
            task.has_baseline = baseline.is_some();
            task.baseline = baseline.and_then(|r| r.secs());
            task.best = self.db.best(id, &filter)?.0.and_then(|r| r.secs());
            self.tasks.push(task);
        }
        self.budget.reserve_finals(self.tasks.len());
        self.set_alarms();
        let names: Vec<String> = self.tasks.iter().map(|t| t.workload.name.as_str().to_owned()).collect();
        let (done, wanted) = (self.trials(), self.config.trials);
        // What is done already is not measured again, not even the machine.
        let is_needed = || done < wanted && !self.stop.is_raised();
        let peaks = |t: &Task<B>| if is_needed() { self.backend.peak_flops(&t.workload) } else { None };
        let peak_flops: Vec<Option<f64>> = self.tasks.iter().map(peaks).collect();
        self.tasks.iter_mut().zip(&peak_flops).for_each(|(t, &peak)| t.peak = peak);
        self.observer.event(&Event::Opened { names: &names, done, wanted, peak_flops: &peak_flops });
        Ok(())
    }

    /// Trials of all functions.
    pub(super) fn trials(&self) -> u64 {
        self.tasks.iter().map(|t| t.trials).sum()
    }

    /// Why the run as a whole is to end now, if so.
    pub(super) fn end(&self) -> Option<StopReason> {
        if self.interrupt.is_raised() {
            Some(StopReason::Interrupted)
        } else if self.trials() >= self.config.trials {
            Some(StopReason::TrialsReached)
        } else if self.stop.is_raised() || self.budget.is_up(self.backend.now()) {
            Some(StopReason::TimeIsUp)
        } else {
            None
        }
    }

    fn run(&mut self) -> Result<(), TuneError> {
        loop {
            self.catch_up();
            if let Some(reason) = self.end() {
                self.tasks.iter_mut().for_each(|t| t.stop(reason));
                return Ok(());
            }
            let standings: Vec<_> = self.tasks.iter().map(Task::standing).collect();
            let Some(index) = share::next(&standings) else { return Ok(()) };
            if self.tasks[index].proposer.is_none() {
                self.find_bound(index);
                self.begin(index)?;
                continue;
            }
            let left = usize::try_from(self.config.trials - self.trials()).unwrap_or(usize::MAX);
            self.round(index, share::round_size(&standings, index, left, ROUND))?;
            self.tell_standings();
        }
    }

    /// Is all of the time up, that of the finals included?
    pub(super) fn is_over(&self) -> bool {
        self.budget.left(self.backend.now()).is_some_and(|left| left.is_zero())
    }

    /// Takes note of what other processes have written into the database since: it counts, and is not tried again. Was there
    /// anything?
    pub(super) fn catch_up(&mut self) -> bool {
        if self.db.n_records() == self.n_records {
            return false;
        }
        tracing::debug!("{} records of other processes", self.db.n_records().saturating_sub(self.n_records));
        self.n_records = self.db.n_records();
        let filter = self.config.setting.filter();
        for task in &mut self.tasks {
            let pending = task.waiting.iter().map(|(_, r, _)| r).chain(&task.unwritten);
            let pending = pending.filter(|r| r.context.role == Role::Trial).count() as u64;
            task.trials = self.db.counts(task.id, &filter).trials + pending;
            let Some(proposer) = &mut task.proposer else { continue };
            self.db.programs(task.id, &filter).into_iter().for_each(|program| proposer.skip(program));
        }
        true
    }

    /// Where several functions share the trials: how far can this one get?
    fn find_bound(&mut self, index: usize) {
        if self.tasks.len() < 2 {
            return;
        }
        let (bound, secs) = self.timed(|d| d.backend.bound(&d.tasks[index].workload, d.tasks[index].peak));
        self.tasks[index].bound = bound;
        self.tasks[index].breakdown.measure += secs;
    }

    fn tell_standings(&mut self) {
        let states: Vec<_> = self.tasks.iter().map(Task::state).collect();
        self.observer.event(&Event::Standings(&states));
    }

    /// Prepares a task: its space, and the program as written, unless that was measured before.
    fn begin(&mut self, index: usize) -> Result<(), TuneError> {
        // First, so that the reference is computed while the space is made.
        if !self.tasks[index].has_baseline {
            self.open_lab(index)?;
        }
        let (space, secs) = self.timed(|d| {
            let workload = &d.tasks[index].workload;
            // Of a panic in a rule, the space is empty and says why.
            let make = || make_space(workload, &d.config.space, &d.config.machine_of_space(), &d.stop);
            isolated(make).unwrap_or_else(Err)
        });
        let task = &mut self.tasks[index];
        task.breakdown.space += secs;
        if self.stop.is_raised() {
            // What there is of a space is not all of it, and nobody will draw from it.
            return Ok(());
        }
        let task = &mut self.tasks[index];
        let space = space.unwrap_or_else(|why| {
            task.problem = Some(format!("no schedule: {why}"));
            Space::new(Vec::new(), Vec::new())
        });
        let strategy = match self.config.strategy {
            StrategyChoice::Evolutionary { seeds, cost_model } => {
                let Setting { isa, strict_fp, threads, .. } = self.config.setting;
                let machine = search::features::CodeModel::new(&self.config.machine, isa, strict_fp, threads);
                Strategy::Evolutionary(Options { machine, seeds, cost_model })
            }
            StrategyChoice::Random => Strategy::Random,
            StrategyChoice::Replay => {
                let traces = self.traces_to_replay(index)?;
                if traces.is_empty() {
                    let name = self.tasks[index].workload.name;
                    let text = format!("{name}: there is nothing to replay; name another database with `--seed-from`");
                    self.observer.event(&Event::Warning(&text));
                }
                Strategy::Replay(traces)
            }
        };
        let first = match self.config.strategy {
            StrategyChoice::Replay => Vec::new(),
            StrategyChoice::Random | StrategyChoice::Evolutionary { .. } => self.traces_to_begin_with(index)?,
        };
        let task = &mut self.tasks[index];
        let base = task.workload.schedule(0).until(self.stop.clone());
        let mut proposer = Proposer::new(base, 0, space, strategy, self.config.seed);
        proposer.begin_with(first);
        proposer.skip(task.as_written);
        proposer.resume(task.trials);
        for program in self.db.programs(task.id, &self.config.setting.filter()) {
            proposer.skip(program);
        }
        if task.problem.is_some() {
            task.stop(StopReason::SpaceExhausted);
        }
        let (known, secs) = self.timed(|d| d.warm_start(index, &mut proposer));
        self.tasks[index].breakdown.search += secs;
        self.tasks[index].proposer = Some(proposer);
        known
    }

    /// Opens the place where a task is measured, and measures there what the others are compared with: the program as
    /// written, the first time, and the best one of earlier runs.
    pub(super) fn open_lab(&mut self, index: usize) -> Result<(), TuneError> {
        if self.tasks[index].session.is_some() || self.tasks[index].stop.is_some() {
            return Ok(());
        }
        let (session, secs) = self.timed(|d| d.backend.open(&d.tasks[index].workload));
        self.tasks[index].breakdown.check += secs;
        match session {
            Ok(session) => self.tasks[index].session = Some(session),
            // The run says why it ended.
            Err(SessionError::Stopped) => return Ok(()),
            Err(SessionError::Machine(why)) if self.tasks.len() == 1 => return Err(TuneError::Machine(why)),
            // The others may be smaller.
            Err(SessionError::Machine(why) | SessionError::Program(why)) => {
                self.tasks[index].problem = Some(why);
                self.tasks[index].stop(StopReason::NotMeasurable);
                return Ok(());
            }
        }
        if !self.tasks[index].has_baseline {
            self.measure_baseline(index)?;
            // It is a yardstick itself, unless there is a better one.
            return self.measure_yardstick(index, Some(self.tasks[index].as_written));
        }
        self.measure_yardstick(index, None)
    }

    fn finish(&mut self) -> Result<(), TuneError> {
        self.interrupt.note_finishing();
        self.ending = Some(self.backend.now());
        for index in 0..self.tasks.len() {
            if self.interrupt.is_raised() {
                self.interrupt.note_ending();
            }
            self.settle(index, true)?;
            self.commit(index)?;
            let task = &self.tasks[index];
            let can_be_measured = task.measured > 0 && task.stop != Some(StopReason::NotMeasurable);
            // Whoever interrupts wants an end, not a final.
            if can_be_measured && !self.interrupt.is_raised() {
                self.finals(index)?;
            }
            if self.interrupt.is_raised() {
                self.tasks[index].stop = Some(StopReason::Interrupted);
            }
            self.tasks[index].session = None;
        }
        self.interrupt.note_ending();
        let measured = self.tasks.iter().any(|t| t.measured > 0);
        let (synced, secs) = self.timed(|d| if measured { d.db.sync() } else { Ok(()) });
        if let Some(task) = self.tasks.first_mut() {
            task.breakdown.database += secs;
        }
        synced?;
        self.tell_standings();
        Ok(())
    }

    fn summary(&self) -> Result<Summary, TuneError> {
        let elapsed = self.budget.elapsed(self.backend.now()).as_secs_f64();
        let tasks: Vec<TaskSummary> =
            self.tasks.iter().map(|t| t.summary(self.db, self.config)).collect::<Result<_, DatabaseError>>()?;
        Ok(Summary::new(tasks, elapsed, self.n_trials))
    }

    /// Time on the clock since the run began.
    pub(super) fn elapsed(&self) -> Duration {
        self.budget.elapsed(self.backend.now())
    }
}

/// The space of a workload on a machine.
///
/// # Errors
/// If a rule fails, or `stop` is raised; the text says how.
pub fn make_space(workload: &Workload, choice: &SpaceChoice, machine: &Core, stop: &StopFlag) -> Result<Space, String> {
    match choice {
        SpaceChoice::Function { function, .. } => Ok(Space::of_function(function.clone())),
        SpaceChoice::Auto => of_rules(workload, Rules::auto(*machine), stop),
        SpaceChoice::Tvm => of_rules(workload, Rules::tvm(usize::try_from(machine.threads).unwrap_or(1)), stop),
    }
}

fn of_rules(workload: &Workload, rules: Rules, stop: &StopFlag) -> Result<Space, String> {
    generate(&workload.module, 0, rules, stop).map_err(|e| e.to_string())
}

impl<B: Backend> Task<B> {
    /// What the run came to for this task, by the database.
    fn summary(&self, db: &Database, config: &Config) -> Result<TaskSummary, DatabaseError> {
        let setting = &config.setting;
        let filter = setting.filter();
        let counts = db.counts(self.id, &filter);
        let best = db.best(self.id, &filter)?.0;
        let as_written = db.record_of(self.id, self.as_written, &filter)?;
        let as_written_failed = match as_written.as_ref().map(|r| &r.outcome) {
            Some(Outcome::Failed(failure)) => Some(failure.message.clone()),
            Some(Outcome::Measured(_)) | None => None,
        };
        // On the scale of this run.
        let drift = if self.own.contains(&self.as_written) { 1.0 } else { self.drift };
        let baseline = as_written.and_then(|r| r.secs()).map(|secs| secs * drift);
        let best_secs = best.as_ref().and_then(|r| r.secs());
        let gflops = best_secs.filter(|_| self.work.flops > 0.0).map(|s| self.work.flops / s / 1e9);
        // A peak that was recorded on a disturbed machine, or with no word of how, is worse than none.
        let stored = best.as_ref().and_then(|r| r.context.other.get(PEAK));
        let stored = stored.and_then(|peak| Peak::deserialize(peak).ok());
        let peak = stored.filter(|peak| gflops.is_none_or(|g| peak.is_trusted(g)));
        let stop = self.stop.unwrap_or(StopReason::TrialsReached);
        let elapsed = self.breakdown.total();
        let made = counts.trials.saturating_sub(self.resumed);
        let distinct = || self.proposer.as_ref().map(|p| p.n_distinct() as u64);
        Ok(TaskSummary {
            workload: String::new(),
            func: self.workload.name.as_str().to_owned(),
            same_as: self.names[1..].iter().map(|n| n.as_str().to_owned()).collect(),
            hash: self.workload.hash.to_string(),
            trials: counts.trials,
            valid: counts.valid,
            errors: counts.errors,
            rejected: self.rejected,
            pruned: self.proposer.as_ref().map_or(0, Proposer::n_pruned),
            resumed: self.resumed,
            stop_reason: stop.name(),
            distinct_programs: if stop == StopReason::SpaceExhausted { distinct() } else { None },
            weight: self.weight(),
            baseline_us: baseline.map(|s| s * 1e6),
            best_us: best_secs.map(|s| s * 1e6),
            weighted_us: best_secs.map(|s| s * 1e6 * self.weight() as f64),
            speedup: baseline.zip(best_secs).map(|(a, b)| a / b),
            baseline_is_best: best.as_ref().is_some_and(|r| r.context.program == Some(self.as_written)),
            gflops,
            peak_gflops: peak.map(|p| p.gflops),
            peak_fraction: peak.zip(gflops).map(|(peak, g)| g / peak.gflops),
            as_written_failed,
            bound_us: self.bound.map(|s| s * 1e6),
            bound_fraction: self.bound.zip(best_secs).map(|(bound, best)| bound / best),
            elapsed_s: elapsed,
            trials_per_s: if made > 0 { made as f64 / elapsed.max(1e-9) } else { 0.0 },
            breakdown_s: self.breakdown,
            failures: self.fates.reasons(),
            sketches: self.fates.sketches(),
            problem: self.problem.clone(),
            work_dir: db.dir().display().to_string(),
            seed: config.seed,
            space: config.space.name().to_owned(),
            strategy: config.strategy.name().to_owned(),
            threads: setting.threads,
            isa: setting.isa.name().to_owned(),
            strict_fp: setting.strict_fp,
            checked: setting.check,
            target: setting.target.tvm_json(setting.threads),
        })
    }
}
