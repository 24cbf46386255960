//! A function that is being tuned.

use super::backend::Backend;
use super::budget;
use super::config::{Config, StopReason};
use super::events::TaskState;
use super::failures::Fates;
use super::share::Standing;
use super::summary::Breakdown;
use crate::database::{ArgInfo, Context, Database, Outcome, Role, Timestamp, TuningRecord, WorkloadId};
use crate::ir::Symbol;
use crate::ir::hash::program_hash;
use crate::measure::Ticket;
use crate::perf::flops::{self, Work};
use crate::schedule::Trace;
use crate::search::{Feedback, Proposer};
use crate::workload::Setting;
use crate::workload::Workload;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A function, how far it has come, and where it is measured.
pub(super) struct Task<B: Backend> {
    pub workload: Workload,
    /// The functions of the module that are this one.
    pub names: Vec<Symbol>,
    pub id: WorkloadId,
    /// Hash of the program as written.
    pub as_written: u64,
    pub work: Work,
    /// Operations per second that this machine can do at most.
    pub peak: Option<f64>,
    /// The least seconds that it can take, where several functions share the trials.
    pub bound: Option<f64>,
    /// Trials that the database had at first.
    pub resumed: u64,
    /// Trials in all.
    pub trials: u64,
    /// Things measured in this run, the program as written included.
    pub measured: u64,
    pub rejected: u64,
    pub fates: Fates,
    /// What became of candidates, by program, for the proposer.
    pub feedback: Vec<(u64, Feedback)>,
    /// Was the program as written measured, whatever came of it?
    pub has_baseline: bool,
    pub baseline: Option<f64>,
    /// The best seconds so far, of candidates and the program as written.
    pub best: Option<f64>,
    /// The seconds of the best program of earlier runs, measured in this one.
    pub yardstick: Option<f64>,
    /// How much longer it took than when it was recorded: what else earlier runs recorded is believed to have changed alike.
    pub drift: f64,
    /// Programs that were measured in this run.
    pub own: HashSet<u64>,
    /// The same after each round of this run.
    pub bests: Vec<Option<f64>>,
    pub stop: Option<StopReason>,
    /// Why it cannot be measured, or why there is no space.
    pub problem: Option<String>,
    pub breakdown: Breakdown,
    pub proposer: Option<Proposer>,
    pub session: Option<B::MeasureSession>,
    /// Records whose verdict is still to come, with the sketches that they are of.
    pub waiting: Vec<(Ticket, TuningRecord, Option<usize>)>,
    /// Records that are not in the database yet.
    pub unwritten: Vec<TuningRecord>,
}

impl<B: Backend> Task<B> {
    /// The task of a workload, as the database knows it.
    pub(super) fn new(workload: Workload, id: WorkloadId, db: &Database, setting: &Setting) -> Task<B> {
        let as_written = program_hash(workload.func());
        let resumed = db.counts(id, &setting.filter()).trials;
        Task {
            names: vec![workload.name],
            id,
            as_written,
            work: flops::work(workload.func()),
            peak: None,
            bound: None,
            resumed,
            trials: resumed,
            measured: 0,
            rejected: 0,
            fates: Fates::default(),
            feedback: Vec::new(),
            has_baseline: false,
            baseline: None,
            best: None,
            yardstick: None,
            drift: 1.0,
            own: HashSet::new(),
            bests: Vec::new(),
            stop: None,
            problem: None,
            breakdown: Breakdown::default(),
            proposer: None,
            session: None,
            waiting: Vec::new(),
            unwritten: Vec::new(),
            workload,
        }
    }

    /// How it stands, for choosing what comes next.
    pub(super) fn standing(&self) -> Standing {
        Standing {
            is_open: self.stop.is_none(),
            weight: self.weight() as f64,
            bests: self.bests.clone(),
            bound: self.bound,
        }
    }

    /// How often the module has it.
    pub(super) fn weight(&self) -> u64 {
        self.names.len() as u64
    }

    /// How it stands, for people.
    pub(super) fn state(&self) -> TaskState<'_> {
        TaskState {
            name: self.workload.name.as_str(),
            weight: self.weight(),
            flops: self.work.flops,
            peak_flops: self.peak,
            best: self.best,
            bound: self.bound,
            trials: self.trials,
            is_done: self.stop.is_some(),
        }
    }

    /// Ends it, unless it has ended.
    pub(super) fn stop(&mut self, reason: StopReason) {
        self.stop.get_or_insert(reason);
    }

    /// Notes a time; is it the best so far?
    pub(super) fn note_time(&mut self, secs: f64) -> bool {
        let is_best = self.best.is_none_or(|best| secs < best);
        if is_best {
            self.best = Some(secs);
        }
        is_best
    }

    /// The best time again, after a result has turned out to be none.
    pub(super) fn find_best(&mut self) {
        // Results are only written when they are known to be right; until one was wrong, none were.
        let times = self.waiting.iter().map(|(_, r, _)| r).chain(&self.unwritten).filter_map(TuningRecord::secs);
        self.best = times.chain(self.yardstick).min_by(f64::total_cmp);
    }

    /// A round is over. Has it come to its end?
    pub(super) fn end_round(&mut self, patience: Option<f64>) {
        self.bests.push(self.best);
        if patience.is_some_and(|p| budget::is_stuck(&self.bests, p)) {
            self.stop(StopReason::NoImprovement);
        }
        if self.proposer.as_ref().is_some_and(Proposer::is_exhausted) {
            self.stop(StopReason::SpaceExhausted);
        }
    }

    /// A record of this workload.
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

/// What a record is made of.
pub(super) struct Measured<'a> {
    pub program: u64,
    pub trace: &'a Trace,
    pub outcome: Outcome,
    pub role: Role,
    pub trial: u64,
    pub compile_secs: Option<f64>,
}
