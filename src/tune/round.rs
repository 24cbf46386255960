//! A round: candidates are proposed, compiled together, then measured one after the other and recorded.
//!
//! Nothing is compiled while something is timed: see docs/tuning.md, which has the measurements.

use super::backend::{Backend, Compiled, Lab, failure_of};
use super::config::StopReason;
use super::driver::{Driver, TuneError};
use super::events::{Event, Trial};
use super::task::Measured;
use crate::check::params;
use crate::database::{self, Failure, FailureKind, Role, Times, TuningRecord};
use crate::measure::{Measurement, Runner, Ticket, Verdict};
use crate::schedule::{Schedule, Trace};
use crate::search::{Candidate, Lesson, in_order};
use std::collections::BTreeSet;
use std::time::Duration;

/// Results wait no longer than this before they are written.
const COMMIT_AFTER: Duration = Duration::from_millis(100);
/// How long an interrupted run still waits for the reference, so that results are not lost for want of a verdict.
const GRACE: Duration = Duration::from_millis(300);

/// What was measured.
struct What<'a> {
    program: u64,
    trace: &'a Trace,
    sketch: Option<usize>,
}

impl<B: Backend> Driver<'_, B> {
    /// Up to `want` trials of a task.
    pub(super) fn round(&mut self, index: usize, want: usize) -> Result<(), TuneError> {
        let jobs = self.config.jobs;
        let Some(mut proposer) = self.tasks[index].proposer.take() else { return Ok(()) };
        self.tasks[index].lessons.drain(..).for_each(|(program, lesson)| proposer.learn(program, lesson));
        proposer.set_progress(self.trials() as f64 / self.config.trials.max(1) as f64);
        let (round, secs) = self.timed(|_| proposer.round(want, jobs));
        let task = &mut self.tasks[index];
        task.proposer = Some(proposer);
        task.breakdown.search += secs;
        if self.stop.is_raised() {
            // Nothing was wrong with what was not made any more.
            return Ok(());
        }
        task.rejected += round.rejections.len() as u64;
        for rejection in &round.rejections {
            tracing::debug!("{}: refused by `{}`: {}", task.workload.name, rejection.by, rejection.message);
            task.fates.note_rejection(rejection);
        }
        if !round.candidates.is_empty() {
            self.open_lab(index)?;
            self.try_all(index, &round.candidates)?;
        }
        self.tasks[index].end_round(self.config.patience);
        Ok(())
    }

    fn try_all(&mut self, index: usize, candidates: &[Candidate]) -> Result<(), TuneError> {
        if self.tasks[index].stop.is_some() {
            return Ok(());
        }
        let (backend, jobs) = (self.backend, self.config.jobs);
        let written = self.tasks[index].workload.func().clone();
        let stop = &self.stop;
        let compile = |i: usize| {
            if stop.is_raised() {
                return None;
            }
            let func = candidates[i].schedule.func(0);
            let passed = params::passed_as_written(&written, func);
            Some(passed.and_then(|()| backend.compile(candidates[i].program, func)))
        };
        let start = backend.now();
        let compiled = in_order(candidates.len(), jobs, compile);
        let secs = backend.now().saturating_sub(start).as_secs_f64();
        self.tasks[index].breakdown.compile += secs;
        let _pinned = backend.pin();
        let mut committed = backend.now();
        // By other processes, since the round was proposed.
        let mut tried = BTreeSet::new();
        for (candidate, compiled) in candidates.iter().zip(compiled) {
            // What was not compiled any more was not tried.
            let Some(compiled) = compiled else { break };
            if self.end().is_some() || self.tasks[index].stop.is_some() {
                break;
            }
            if tried.contains(&candidate.program) {
                continue;
            }
            self.try_one(index, candidate, compiled);
            if backend.now().saturating_sub(committed) > COMMIT_AFTER {
                self.settle(index, false)?;
                self.commit(index)?;
                if self.catch_up() {
                    tried = self.db.programs(self.tasks[index].id, &self.config.setting.filter());
                }
                committed = backend.now();
            }
        }
        self.settle(index, false)?;
        self.commit(index)
    }

    fn try_one(&mut self, index: usize, candidate: &Candidate, compiled: Result<Compiled<B::Code>, Failure>) {
        let (compile_secs, result) = match compiled {
            Ok(Compiled { code, secs }) => {
                let Some(result) = self.measure(index, &code) else { return };
                (Some(secs), result)
            }
            Err(failure) => (None, Err(failure)),
        };
        self.n_trials += 1;
        let lesson = lesson(&result, self.tasks[index].best);
        self.tasks[index].lessons.push((candidate.program, lesson));
        let trace = candidate.schedule.trace();
        self.tasks[index].fates.note_trial(candidate.sketch);
        let what = What { program: candidate.program, trace, sketch: candidate.sketch };
        let is_best = self.note(index, what, result.clone(), Role::Trial, compile_secs);
        self.tasks[index].trials += 1;
        self.tell(index, trace, &result, is_best);
    }

    /// Measures something; `None` if the run was ended meanwhile, or no result can be right.
    fn measure(&mut self, index: usize, code: &B::Code) -> Option<Result<Measurement, Failure>> {
        let best = self.tasks[index].best;
        let start = self.backend.now();
        let left = self.budget.left(start);
        let lab = self.tasks[index].lab.as_mut()?;
        lab.set_ceiling(left);
        let before = lab.checking_time();
        let outcome = lab.measure(code);
        let checking = lab.checking_time().saturating_sub(before).as_secs_f64();
        let broken = lab.broken();
        let secs = self.backend.now().saturating_sub(start).as_secs_f64();
        let is_over = self.is_over();
        let task = &mut self.tasks[index];
        task.breakdown.check += checking;
        task.breakdown.measure += (secs - checking).max(0.0);
        if let Some(why) = broken {
            task.problem = Some(why);
            task.stop(StopReason::NotMeasurable);
            return None;
        }
        let result = failure_of(outcome, best);
        // What was stopped together with the run has not failed.
        let was_cut = matches!(&result, Err(f) if f.kind == FailureKind::Timeout) && is_over;
        if self.interrupt.flag().is_raised() && result.is_err() || was_cut {
            return None;
        }
        task.measured += 1;
        Some(result)
    }

    /// Makes a record of a result. Is it the best so far?
    fn note(
        &mut self,
        index: usize,
        What { program, trace, sketch }: What<'_>,
        result: Result<Measurement, Failure>,
        role: Role,
        compile_secs: Option<f64>,
    ) -> bool {
        let time = self.backend.time();
        let task = &mut self.tasks[index];
        let mut ticket = None;
        let mut is_best = false;
        let outcome = match result {
            Ok(m) => {
                if let Verdict::Waiting(t) = m.verdict {
                    ticket = Some(t);
                }
                is_best = task.note_time(m.secs);
                database::Outcome::Measured(Times { run_secs: vec![m.secs], batch_secs: m.batch_secs, calls: m.calls })
            }
            Err(failure) => {
                if role == Role::Trial {
                    task.fates.note_failure(sketch, &failure);
                }
                database::Outcome::Failed(failure)
            }
        };
        task.own.insert(program);
        let trial = if role == Role::Trial { self.n_trials } else { 0 };
        let measured = Measured { program, trace, outcome, role, trial, compile_secs };
        let record = task.record(measured, self.config, time);
        match ticket {
            Some(ticket) => task.waiting.push((ticket, record, sketch)),
            None => task.unwritten.push(record),
        }
        is_best
    }

    fn tell(&mut self, index: usize, trace: &Trace, result: &Result<Measurement, Failure>, is_best: bool) {
        let elapsed = self.elapsed();
        let task = &self.tasks[index];
        let result = result.as_ref().map(|m| m.secs);
        let (best, flops, number) = (task.best, task.work.flops, self.n_trials);
        let trial = Trial { task: index, number, result, is_best, best, flops, trace, elapsed };
        self.observer.event(&Event::Trial(trial));
    }

    /// Measures the program as written.
    pub(super) fn measure_baseline(&mut self, index: usize) -> Result<(), TuneError> {
        let (as_written, workload) = (self.tasks[index].as_written, self.tasks[index].workload.clone());
        let (compiled, secs) = self.timed(|d| d.backend.compile(as_written, workload.func()));
        self.tasks[index].breakdown.compile += secs;
        let (compile_secs, result) = match compiled {
            Ok(Compiled { code, secs }) => {
                let _pinned = self.backend.pin();
                let Some(result) = self.measure(index, &code) else { return Ok(()) };
                (Some(secs), result)
            }
            // Nothing was wrong with what was not compiled any more.
            Err(_) if self.interrupt.flag().is_raised() => return Ok(()),
            Err(failure) => (None, Err(failure)),
        };
        self.tasks[index].has_baseline = true;
        self.tasks[index].baseline = result.as_ref().ok().map(|m| m.secs);
        let what = What { program: as_written, trace: &Trace::default(), sketch: None };
        self.note(index, what, result.clone(), Role::Baseline, compile_secs);
        let result = result.as_ref().map(|m| m.secs);
        self.observer.event(&Event::Baseline { task: index, result });
        self.commit(index)
    }

    /// Runs the best program of earlier runs, for new ones to be compared with. It is no trial, and not recorded: the
    /// final does that. `known` was run already.
    pub(super) fn measure_yardstick(&mut self, index: usize, known: Option<u64>) -> Result<(), TuneError> {
        let (best, _) = self.db.best(self.tasks[index].id, &self.config.setting.filter())?;
        let Some(record) = best.filter(|r| known.is_none() || r.context.program != known) else {
            return Ok(());
        };
        let Some((_, built)) = self.rebuild(index, &record) else { return Ok(()) };
        let _pinned = self.backend.pin();
        let measured = self.tasks[index].measured;
        if let Some(Ok(m)) = self.measure(index, &built.code) {
            // Times of this run are on its scale.
            let task = &mut self.tasks[index];
            (task.best, task.yardstick) = (Some(m.secs), Some(m.secs));
            task.drift = record.secs().map_or(1.0, |before| m.secs / before);
        }
        // It is nothing new.
        self.tasks[index].measured = measured;
        Ok(())
    }

    /// The compiled program of a record, with its schedule.
    pub(super) fn rebuild(&mut self, index: usize, record: &TuningRecord) -> Option<(Schedule, Compiled<B::Code>)> {
        let workload = &self.tasks[index].workload;
        let start = self.backend.now();
        let replay = || super::best::replay(workload, record).map_err(|e| e.to_string());
        let schedule = crate::search::isolated(replay).and_then(|r| r);
        let built = match &schedule {
            Ok(schedule) => {
                let program = record.context.program.unwrap_or_default();
                self.backend.compile(program, schedule.func(0)).map_err(|f| f.message)
            }
            Err(why) => Err(why.clone()),
        };
        let secs = self.backend.now().saturating_sub(start).as_secs_f64();
        self.tasks[index].breakdown.compile += secs;
        match (schedule, built) {
            (Ok(schedule), Ok(built)) => Some((schedule, built)),
            (_, Err(_)) if self.interrupt.flag().is_raised() => None,
            (_, Err(why)) | (Err(why), _) => {
                let text = format!("{}: a record is skipped: {why}", self.tasks[index].workload.name);
                self.observer.event(&Event::Warning(&text));
                None
            }
        }
    }

    /// Takes in the verdicts that have come; all of them, if `wait` says so.
    pub(super) fn settle(&mut self, index: usize, wait: bool) -> Result<(), TuneError> {
        let start = self.backend.now();
        // All functions together wait no longer than one would.
        let since = self.ending.unwrap_or(start);
        while !self.tasks[index].waiting.is_empty() {
            let Some(lab) = self.tasks[index].lab.as_mut() else { break };
            let settled = lab.settle(false);
            if let Some(why) = lab.broken() {
                // Nothing is known of what waited.
                self.forget_waiting(index);
                // A reference that was stopped together with the run says nothing.
                if !self.interrupt.is_raised() {
                    self.tasks[index].problem = Some(why);
                    self.tasks[index].stop = Some(StopReason::NotMeasurable);
                }
                break;
            }
            for s in settled {
                self.settle_one(index, s.ticket, s.result.map_err(|outcome| failure_of(outcome, None)));
            }
            let waited = self.backend.now().saturating_sub(since);
            if !wait || self.interrupt.is_raised() && waited > GRACE {
                break;
            }
            if self.is_over() && waited > GRACE && !self.tasks[index].waiting.is_empty() {
                self.forget_waiting(index);
                let problem = "the time was up before there was a reference to compare its results with";
                self.tasks[index].problem = Some(problem.to_owned());
                break;
            }
            if !self.tasks[index].waiting.is_empty() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let secs = self.backend.now().saturating_sub(start).as_secs_f64();
        self.tasks[index].breakdown.check += secs;
        Ok(())
    }

    fn settle_one(&mut self, index: usize, ticket: Ticket, result: Result<(), Result<Measurement, Failure>>) {
        let task = &mut self.tasks[index];
        let Some(at) = task.waiting.iter().position(|(t, ..)| *t == ticket) else { return };
        let (_, mut record, sketch) = task.waiting.remove(at);
        if let Err(Err(failure)) = result {
            match record.context.role {
                Role::Trial => task.fates.note_failure(sketch, &failure),
                Role::Baseline => {
                    task.baseline = None;
                    self.observer.event(&Event::Baseline { task: index, result: Err(&failure) });
                }
                Role::Rerun => {}
            }
            record.outcome = database::Outcome::Failed(failure);
            task.lessons.extend(record.context.program.map(|program| (program, Lesson::Failed)));
            task.unwritten.push(record);
            task.find_best();
            return;
        }
        task.unwritten.push(record);
    }

    /// Takes back the results that nobody will look at: they count as not tried.
    fn forget_waiting(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        for (_, record, sketch) in std::mem::take(&mut task.waiting) {
            match record.context.role {
                Role::Trial => {
                    self.n_trials -= 1;
                    task.trials -= 1;
                    task.fates.forget_trial(sketch);
                }
                Role::Baseline => task.baseline = None,
                Role::Rerun => {}
            }
        }
        task.find_best();
    }

    /// Writes what there is to write.
    pub(super) fn commit(&mut self, index: usize) -> Result<(), TuneError> {
        if self.tasks[index].unwritten.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.tasks[index].unwritten);
        let (committed, secs) = self.timed(|d| d.db.commit(&records));
        self.n_records += records.len();
        self.tasks[index].breakdown.database += secs;
        Ok(committed?)
    }
}

/// How much slower than the best a candidate counts as that was stopped; the limit is at least that.
const STOPPED: f64 = 10.0;

/// What a search should learn from a result. Seconds come from a comparison with the best of that moment; if something
/// else disturbed that one, they are less than the candidate ever took.
fn lesson(result: &Result<Measurement, Failure>, best: Option<f64>) -> Lesson {
    match result {
        Ok(m) => {
            let fastest = m.batch_secs.iter().copied().fold(f64::INFINITY, f64::min);
            Lesson::Took(if fastest.is_finite() { m.secs.max(fastest) } else { m.secs })
        }
        Err(f) if f.kind == FailureKind::Timeout => best.map_or(Lesson::Failed, |secs| Lesson::TooSlow(STOPPED * secs)),
        Err(_) => Lesson::Failed,
    }
}
