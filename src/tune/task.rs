//! The tasks of a run: a function each, in the state that it has reached.
//!
//! ```text
//! Task, opened ───begin───► Task, searching ───settle───► Settled
//! results of earlier runs   space and proposer            reason of its end, facts for the summary
//! ```
//!
//! A [`Task`] is opened while it has no [`Search`]. The session that measures it is opened when the first program is to
//! be measured, which may be before the search (the program as written) or never (nothing is left to try). A [`Settled`]
//! task has neither: no program is measured and no record is written any more.

use super::backend::Backend;
use super::budget;
use super::config::{Config, StopReason};
use super::events::TaskState;
use super::failures::Fates;
use super::records::Records;
use super::settled::Settled;
use super::share::Standing;
use super::summary::Breakdown;
use super::times::Times;
use crate::database::{ArgInfo, Context, Database, DatabaseError, Outcome, Role, Timestamp, TuningRecord, WorkloadId};
use crate::ir::Symbol;
use crate::ir::hash::program_hash;
use crate::perf::flops::{self, Work};
use crate::schedule::Trace;
use crate::search::{Feedback, Proposer};
use crate::space::Rejection;
use crate::workload::Setting;
use crate::workload::Workload;
use serde_json::{Map, Value};

/// The function that a task tunes.
pub(super) struct Subject {
    /// The position of the task in the run, by which events name it.
    pub index: usize,
    pub workload: Workload,
    /// The names of the functions of the module that are this program; the first one is that of the workload.
    pub names: Vec<Symbol>,
    /// How often they are called in all.
    pub calls: u64,
    pub id: WorkloadId,
    /// Hash of the program as written.
    pub as_written: u64,
    pub work: Work,
    /// The peak of this machine in operations per second.
    pub peak: Option<f64>,
    /// The least seconds that the function can take. It is only known where several functions share the trials.
    pub bound: Option<f64>,
}

/// The work that a run has done on a task.
#[derive(Default)]
pub(super) struct Tally {
    /// Trials in the database when the run began.
    pub resumed: u64,
    /// All trials, those of earlier runs and other processes included.
    pub trials: u64,
    /// Programs measured in this run, the program as written included.
    pub measured: u64,
    /// Candidates that the space refused.
    pub rejected: u64,
    /// The reasons of failures and refusals.
    pub fates: Fates,
    /// Seconds spent.
    pub spent: Breakdown,
}

impl Tally {
    /// Counts a candidate that was sent to the compiler.
    pub(super) fn note_trial(&mut self, sketch: Option<usize>) {
        self.trials += 1;
        self.fates.note_trial(sketch);
    }

    /// Takes back a trial.
    pub(super) fn forget_trial(&mut self, sketch: Option<usize>) {
        self.trials -= 1;
        self.fates.forget_trial(sketch);
    }

    /// Counts a candidate that the space refused.
    pub(super) fn note_rejection(&mut self, rejection: &Rejection) {
        self.rejected += 1;
        self.fates.note_rejection(rejection);
    }
}

/// The search of a task.
pub(super) struct Search {
    proposer: Proposer,
    /// Results that the proposer has not learnt from yet, by program.
    feedback: Vec<(u64, Feedback)>,
}

impl Search {
    /// A search that proposes candidates with `proposer`.
    pub(super) fn new(proposer: Proposer) -> Search {
        Search { proposer, feedback: Vec::new() }
    }

    /// Adds a result for the proposer to learn from before the next round.
    pub(super) fn add_feedback(&mut self, program: u64, feedback: Feedback) {
        self.feedback.push((program, feedback));
    }

    /// The proposer, once it has learnt from all results.
    pub(super) fn taught(&mut self) -> &mut Proposer {
        self.feedback.drain(..).for_each(|(program, feedback)| self.proposer.learn(program, feedback));
        &mut self.proposer
    }

    /// Excludes programs that have a record.
    pub(super) fn skip(&mut self, programs: impl IntoIterator<Item = u64>) {
        programs.into_iter().for_each(|program| self.proposer.skip(program));
    }
}

/// A function that is being tuned.
pub(super) struct Task<B: Backend> {
    pub subject: Subject,
    pub times: Times,
    pub tally: Tally,
    /// `None` while the task is only opened.
    pub search: Option<Search>,
    /// The session that measures its programs, once it is opened.
    pub session: Option<B::MeasureSession>,
    pub records: Records,
    stop: Option<StopReason>,
    problem: Option<String>,
}

impl<B: Backend> Task<B> {
    /// Opens the task of a workload: looks up its trials and times in the database.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn open(
        index: usize,
        workload: Workload,
        id: WorkloadId,
        db: &Database,
        setting: &Setting,
    ) -> Result<Task<B>, DatabaseError> {
        let filter = setting.filter();
        let as_written = program_hash(workload.func());
        let resumed = db.counts(id, &filter).trials;
        let baseline = db.record_of(id, as_written, &filter)?;
        let best = db.best(id, &filter)?.0.and_then(|r| r.secs());
        let subject = Subject {
            index,
            names: vec![workload.name],
            calls: 1,
            id,
            as_written,
            work: flops::work(workload.func()),
            peak: None,
            bound: None,
            workload,
        };
        Ok(Task {
            subject,
            times: Times::recorded(baseline.as_ref(), best),
            tally: Tally { resumed, trials: resumed, ..Tally::default() },
            search: None,
            session: None,
            records: Records::default(),
            stop: None,
            problem: None,
        })
    }

    /// Is it worth another round?
    pub(super) fn is_open(&self) -> bool {
        self.stop.is_none()
    }

    /// Can its programs be measured, as far as is known?
    pub(super) fn is_measurable(&self) -> bool {
        self.stop != Some(StopReason::NotMeasurable)
    }

    /// Ends it, unless it has ended.
    pub(super) fn stop(&mut self, reason: StopReason) {
        self.stop.get_or_insert(reason);
    }

    /// Ends it because its programs cannot be measured.
    pub(super) fn fail(&mut self, why: String) {
        self.problem = Some(why);
        self.stop = Some(StopReason::NotMeasurable);
    }

    /// Notes a problem that does not end it.
    pub(super) fn note_problem(&mut self, why: String) {
        self.problem = Some(why);
    }

    /// Is there a problem?
    pub(super) fn has_problem(&self) -> bool {
        self.problem.is_some()
    }

    /// Replaces the reason of its end: the run was interrupted before the task was settled.
    pub(super) fn interrupt(&mut self) {
        self.stop = Some(StopReason::Interrupted);
    }

    /// Ends a round, and the task if the space is exhausted or the last rounds gained less than `patience`.
    pub(super) fn end_round(&mut self, patience: Option<f64>) {
        self.times.end_round();
        if patience.is_some_and(|p| budget::is_stuck(self.times.history(), p)) {
            self.stop(StopReason::NoImprovement);
        }
        if self.search.as_ref().is_some_and(|s| s.proposer.is_exhausted()) {
            self.stop(StopReason::SpaceExhausted);
        }
    }

    /// The factor that brings a recorded time of a program to the scale of this run.
    pub(super) fn scale_of(&self, program: Option<u64>) -> f64 {
        if program.is_some_and(|p| self.records.is_own(p)) { 1.0 } else { self.times.drift() }
    }

    /// Adds feedback on a program, if anything is searched for.
    pub(super) fn add_feedback(&mut self, program: u64, feedback: Feedback) {
        if let Some(search) = &mut self.search {
            search.add_feedback(program, feedback);
        }
    }

    /// The facts by which rounds are shared out.
    pub(super) fn standing(&self) -> Standing {
        Standing {
            is_open: self.is_open(),
            weight: self.subject.weight() as f64,
            operations: self.subject.work.flops,
            bests: self.times.history().to_vec(),
            bound: self.subject.bound,
        }
    }

    /// The facts that an interface shows.
    pub(super) fn state(&self) -> TaskState<'_> {
        self.subject.state(&self.times, &self.tally, !self.is_open())
    }

    /// Closes the session, and keeps the facts for the summary.
    pub(super) fn settle(self) -> Settled {
        let baseline_scale = self.scale_of(Some(self.subject.as_written));
        let proposer = self.search.map(|search| search.proposer);
        Settled {
            baseline_scale,
            reason: self.stop.unwrap_or(StopReason::TrialsReached),
            problem: self.problem,
            distinct: proposer.as_ref().map(|p| p.n_distinct() as u64),
            pruned: proposer.as_ref().map_or(0, Proposer::n_pruned),
            subject: self.subject,
            tally: self.tally,
            times: self.times,
        }
    }
}

impl Subject {
    /// How often the module calls the function, or has it.
    pub(super) fn weight(&self) -> u64 {
        self.calls
    }

    /// The facts that an interface shows of a task.
    pub(super) fn state<'a>(&'a self, times: &Times, tally: &Tally, is_done: bool) -> TaskState<'a> {
        TaskState {
            name: self.workload.name.as_str(),
            weight: self.weight(),
            flops: self.work.flops,
            peak_flops: self.peak,
            best: times.best(),
            bound: self.bound,
            trials: tally.trials,
            is_done,
        }
    }

    /// Makes a record of a result.
    pub(super) fn record(&self, what: Measured<'_>, config: &Config, time: Timestamp) -> TuningRecord {
        let setting = &config.setting;
        TuningRecord {
            workload: self.id,
            trace: what.trace.to_json(),
            outcome: what.outcome,
            target: setting.target.tvm_json(setting.threads),
            args_info: ArgInfo::of(self.workload.func()),
            context: Context {
                workload_hash: Some(self.workload.hash),
                program: Some(what.program),
                role: what.role,
                isa: setting.isa.name().to_owned(),
                strict_fp: setting.strict_fp,
                threads: setting.threads,
                checked: setting.check,
                tvmr: env!("CARGO_PKG_VERSION").to_owned(),
                space: config.space.name().to_owned(),
                strategy: config.strategy.name().to_owned(),
                seed: config.seed,
                trial: what.trial,
                compile_secs: what.compile_secs,
                time,
                other: Map::<String, Value>::new(),
            },
        }
    }
}

/// A result, and the program that it is of.
pub(super) struct Measured<'a> {
    pub program: u64,
    pub trace: &'a Trace,
    pub outcome: Outcome,
    pub role: Role,
    /// The number of the trial in the run, from 1; 0 for a program that is not a trial.
    pub trial: u64,
    pub compile_secs: Option<f64>,
}
