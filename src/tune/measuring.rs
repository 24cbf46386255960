//! Measuring the programs of a task, and recording the results.

use super::backend::{Backend, Compiled, MeasureSession, SessionError, failure_of};
use super::driver::TuneError;
use super::events::Event;
use super::run::Run;
use super::task::{Measured, Task};
use crate::database::{self, Failure, FailureKind, Role, Times, TuningRecord};
use crate::measure::{Measurement, Runner, Verdict};
use crate::schedule::{Schedule, Trace};
use crate::search::isolated;

/// A program that was measured.
pub(super) struct Program<'a> {
    pub hash: u64,
    pub trace: &'a Trace,
    /// The sketch of the candidate.
    pub sketch: Option<usize>,
}

impl<B: Backend> Run<'_, B> {
    /// Opens the session of a task, and measures in it the programs that the others are compared with: the program as
    /// written, unless it has a record, and the best one of earlier runs.
    pub(super) fn open_session(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        if task.session.is_some() || !task.is_open() {
            return Ok(());
        }
        let (session, secs) = self.timed(|run| run.backend.open(&task.subject.workload));
        task.tally.spent.check += secs;
        match session {
            Ok(session) => task.session = Some(session),
            // The run says why it ended.
            Err(SessionError::Stopped) => return Ok(()),
            Err(SessionError::Machine(why)) if self.n_tasks == 1 => return Err(TuneError::Machine(why)),
            // The other functions may be smaller.
            Err(SessionError::Machine(why) | SessionError::Program(why)) => {
                task.fail(why);
                return Ok(());
            }
        }
        if !task.times.has_baseline() {
            self.measure_baseline(task)?;
            // The program as written may itself be the best one of earlier runs.
            return self.measure_yardstick(task, Some(task.subject.as_written));
        }
        self.measure_yardstick(task, None)
    }

    /// Measures a program; `None` if the run was ended meanwhile, or no result can be right.
    pub(super) fn measure(&mut self, task: &mut Task<B>, code: &B::Code) -> Option<Result<Measurement, Failure>> {
        let start = self.backend.now();
        let session = task.session.as_mut()?;
        session.set_ceiling(self.budget.left(start));
        let before = session.checking_time();
        let outcome = session.measure(code);
        let checking = session.checking_time().saturating_sub(before).as_secs_f64();
        let broken = session.broken();
        let secs = self.secs_since(start);
        let is_over = self.is_over();
        task.tally.spent.check += checking;
        task.tally.spent.measure += (secs - checking).max(0.0);
        if let Some(why) = broken {
            task.fail(why);
            return None;
        }
        let result = failure_of(outcome, task.times.best());
        // A program that was stopped together with the run has not failed.
        let was_cut = matches!(&result, Err(f) if f.kind == FailureKind::Timeout) && is_over;
        if self.interrupt.flag().is_raised() && result.is_err() || was_cut {
            return None;
        }
        task.tally.measured += 1;
        Some(result)
    }

    /// Makes a record of a result. Is it the best so far?
    pub(super) fn note(
        &mut self,
        task: &mut Task<B>,
        Program { hash, trace, sketch }: Program<'_>,
        result: Result<Measurement, Failure>,
        role: Role,
        compile_secs: Option<f64>,
    ) -> bool {
        let time = self.backend.time();
        let mut ticket = None;
        let mut is_best = false;
        let outcome = match result {
            Ok(m) => {
                if let Verdict::Waiting(t) = m.verdict {
                    ticket = Some(t);
                }
                is_best = task.times.note(m.secs);
                database::Outcome::Measured(Times { run_secs: vec![m.secs], batch_secs: m.batch_secs, calls: m.calls })
            }
            Err(failure) => {
                if role == Role::Trial {
                    task.tally.fates.note_failure(sketch, &failure);
                }
                database::Outcome::Failed(failure)
            }
        };
        let trial = if role == Role::Trial { self.n_trials } else { 0 };
        let measured = Measured { program: hash, trace, outcome, role, trial, compile_secs };
        task.records.add(task.subject.record(measured, self.config, time), ticket, sketch);
        is_best
    }

    /// Measures the program as written.
    fn measure_baseline(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        let as_written = task.subject.as_written;
        let (compiled, secs) = self.timed(|run| run.backend.compile(as_written, task.subject.workload.func()));
        task.tally.spent.compile += secs;
        let (compile_secs, result) = match compiled {
            Ok(Compiled { code, secs }) => {
                let _pinned = self.backend.pin();
                let Some(result) = self.measure(task, &code) else { return Ok(()) };
                (Some(secs), result)
            }
            // The compiler was stopped together with the run.
            Err(_) if self.interrupt.flag().is_raised() => return Ok(()),
            Err(failure) => (None, Err(failure)),
        };
        task.times.set_baseline(result.as_ref().ok().map(|m| m.secs));
        let program = Program { hash: as_written, trace: &Trace::default(), sketch: None };
        self.note(task, program, result.clone(), Role::Baseline, compile_secs);
        let result = result.as_ref().map(|m| m.secs);
        self.observer.event(&Event::Baseline { task: task.subject.index, result });
        self.commit(task)
    }

    /// Measures the best program of earlier runs, for new ones to be compared with, unless it is `known`. This is no
    /// trial, and not recorded: the final does that.
    fn measure_yardstick(&mut self, task: &mut Task<B>, known: Option<u64>) -> Result<(), TuneError> {
        let (best, _) = self.db.best(task.subject.id, &self.config.setting.filter())?;
        let Some(record) = best.filter(|r| known.is_none() || r.context.program != known) else {
            return Ok(());
        };
        let Some((_, built)) = self.rebuild(task, &record) else { return Ok(()) };
        let _pinned = self.backend.pin();
        let measured = task.tally.measured;
        if let Some(Ok(m)) = self.measure(task, &built.code) {
            task.times.set_yardstick(m.secs, record.secs());
        }
        // The program is not new.
        task.tally.measured = measured;
        Ok(())
    }

    /// Compiles the program of a record, and returns it with its schedule.
    pub(super) fn rebuild(
        &mut self,
        task: &mut Task<B>,
        record: &TuningRecord,
    ) -> Option<(Schedule, Compiled<B::Code>)> {
        let workload = &task.subject.workload;
        let start = self.backend.now();
        let replay = || super::best::replay(workload, record).map_err(|e| e.to_string());
        let schedule = isolated(replay).and_then(|r| r);
        let built = schedule.and_then(|schedule| {
            let program = record.context.program.unwrap_or_default();
            let built = self.backend.compile(program, schedule.func(0)).map_err(|f| f.message)?;
            Ok((schedule, built))
        });
        task.tally.spent.compile += self.secs_since(start);
        match built {
            Ok(built) => Some(built),
            Err(_) if self.interrupt.flag().is_raised() => None,
            Err(why) => {
                self.warn(&format!("{}: a record is skipped: {why}", task.subject.workload.name));
                None
            }
        }
    }
}
