//! A round: candidates are proposed, compiled together, then measured one after the other and recorded.
//!
//! Nothing is compiled while something is timed: see docs/tuning.md, which has the measurements.

use super::backend::{Backend, Compiled};
use super::driver::{Driver, TuneError};
use super::events::{Event, Trial};
use super::measuring::Program;
use super::run::Run;
use super::task::Task;
use crate::check::params;
use crate::database::{Failure, FailureKind, Role};
use crate::measure::Measurement;
use crate::search::{Candidate, Feedback, in_order};
use std::collections::BTreeSet;
use std::time::Duration;

/// Results wait no longer than this before they are written.
const COMMIT_AFTER: Duration = Duration::from_millis(100);

/// The result of compiling a candidate; `None` if the run was stopped before.
type Built<C> = Option<Result<Compiled<C>, Failure>>;

impl<B: Backend> Driver<'_, B> {
    /// Makes up to `want` trials of a task.
    pub(super) fn round(&mut self, index: usize, want: usize) -> Result<(), TuneError> {
        let progress = self.trials() as f64 / self.run.config.trials.max(1) as f64;
        let (run, task) = (&mut self.run, &mut self.tasks[index]);
        let Some(search) = &mut task.search else { return Ok(()) };
        let proposer = search.taught();
        proposer.set_progress(progress);
        let (round, secs) = run.timed(|run| proposer.round(want, run.config.jobs));
        task.tally.spent.search += secs;
        if run.stop.is_raised() {
            // The round is incomplete; candidates are missing that the space did not refuse.
            return Ok(());
        }
        for rejection in &round.rejections {
            tracing::debug!("{}: refused by `{}`: {}", task.subject.workload.name, rejection.by, rejection.message);
            task.tally.note_rejection(rejection);
        }
        if !round.candidates.is_empty() {
            run.open_session(task)?;
            self.try_all(index, &round.candidates)?;
        }
        self.tasks[index].end_round(self.run.config.patience);
        Ok(())
    }

    fn try_all(&mut self, index: usize, candidates: &[Candidate]) -> Result<(), TuneError> {
        if !self.tasks[index].is_open() {
            return Ok(());
        }
        let compiled = self.run.compile_all(&mut self.tasks[index], candidates);
        let backend = self.run.backend;
        let _pinned = backend.pin();
        let mut committed = backend.now();
        // Programs that other processes have tried since the round was proposed.
        let mut tried = BTreeSet::new();
        for (candidate, compiled) in candidates.iter().zip(compiled) {
            // A candidate that was not compiled was not tried.
            let Some(compiled) = compiled else { break };
            if self.end().is_some() || !self.tasks[index].is_open() {
                break;
            }
            if tried.contains(&candidate.program) {
                continue;
            }
            self.run.try_one(&mut self.tasks[index], candidate, compiled);
            if backend.now().saturating_sub(committed) > COMMIT_AFTER {
                self.run.record_results(&mut self.tasks[index])?;
                if self.catch_up() {
                    let id = self.tasks[index].subject.id;
                    tried = self.run.db.programs(id, &self.run.config.setting.filter());
                }
                committed = backend.now();
            }
        }
        self.run.record_results(&mut self.tasks[index])
    }
}

impl<B: Backend> Run<'_, B> {
    /// Compiles candidates on several threads.
    fn compile_all(&mut self, task: &mut Task<B>, candidates: &[Candidate]) -> Vec<Built<B::Code>> {
        let (backend, stop) = (self.backend, &self.stop);
        let written = task.subject.workload.func();
        let compile = |i: usize| {
            if stop.is_raised() {
                return None;
            }
            let func = candidates[i].schedule.func(0);
            let passed = params::passed_as_written(written, func);
            Some(passed.and_then(|()| backend.compile(candidates[i].program, func)))
        };
        let start = backend.now();
        let compiled = in_order(candidates.len(), self.config.jobs, compile);
        task.tally.spent.compile += self.secs_since(start);
        compiled
    }

    /// Measures a candidate, unless it did not compile, and reports the trial.
    fn try_one(&mut self, task: &mut Task<B>, candidate: &Candidate, compiled: Result<Compiled<B::Code>, Failure>) {
        let (compile_secs, result) = match compiled {
            Ok(Compiled { code, secs }) => {
                let Some(result) = self.measure(task, &code) else { return };
                (Some(secs), result)
            }
            Err(failure) => (None, Err(failure)),
        };
        self.n_trials += 1;
        task.add_feedback(candidate.program, feedback(&result, task.times.best()));
        task.tally.note_trial(candidate.sketch);
        let trace = candidate.schedule.trace();
        let program = Program { hash: candidate.program, trace, sketch: candidate.sketch };
        let is_best = self.note(task, program, result.clone(), Role::Trial, compile_secs);
        let trial = Trial {
            task: task.subject.index,
            number: self.n_trials,
            result: result.as_ref().map(|m| m.secs),
            is_best,
            best: task.times.best(),
            flops: task.subject.work.flops,
            trace,
            elapsed: self.elapsed(),
        };
        self.observer.event(&Event::Trial(trial));
    }

    /// Writes the results that have got their verdict.
    fn record_results(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        self.take_verdicts(task, false);
        self.commit(task)
    }
}

/// A candidate that was stopped counts as slower than the best by this factor; the limit of its run is at least that.
const STOPPED: f64 = 10.0;

/// The feedback that a result gives a search. Its seconds come from a comparison with the best program of that moment. If
/// that one was disturbed, they may be less than the candidate ever took.
fn feedback(result: &Result<Measurement, Failure>, best: Option<f64>) -> Feedback {
    match result {
        Ok(m) => {
            let fastest = m.batch_secs.iter().copied().fold(f64::INFINITY, f64::min);
            Feedback::Took(if fastest.is_finite() { m.secs.max(fastest) } else { m.secs })
        }
        Err(f) if f.kind == FailureKind::Timeout => {
            best.map_or(Feedback::Failed, |secs| Feedback::TooSlow(STOPPED * secs))
        }
        Err(_) => Feedback::Failed,
    }
}
