//! Verdicts on results: right or wrong, which is known once the reference is computed.

use super::backend::{Backend, MeasureSession, failure_of};
use super::events::Event;
use super::run::Run;
use super::task::Task;
use crate::database::{self, Failure, Role};
use crate::measure::{Measurement, Runner, Ticket};
use crate::search::Feedback;
use std::time::Duration;

/// The time that an interrupted run still waits for the reference, so that its results get a verdict.
const GRACE: Duration = Duration::from_millis(300);

impl<B: Backend> Run<'_, B> {
    /// Takes in the verdicts that have come; all of them, if `wait` is set.
    pub(super) fn take_verdicts(&mut self, task: &mut Task<B>, wait: bool) {
        let start = self.backend.now();
        // All functions together wait no longer than one would.
        let since = self.ending.unwrap_or(start);
        while task.records.is_waiting() {
            let Some(session) = task.session.as_mut() else { break };
            let settled = session.settle(false);
            if let Some(why) = session.broken() {
                self.forget_waiting(task);
                // A reference that was stopped together with the run has not failed.
                if !self.interrupt.is_raised() {
                    task.fail(why);
                }
                break;
            }
            for s in settled {
                self.take_verdict(task, s.ticket, s.result.map_err(|outcome| failure_of(outcome, None)));
            }
            let waited = self.backend.now().saturating_sub(since);
            if !wait || self.interrupt.is_raised() && waited > GRACE {
                break;
            }
            if self.is_over() && waited > GRACE && task.records.is_waiting() {
                self.forget_waiting(task);
                let problem = "the time was up before there was a reference to compare its results with";
                task.note_problem(problem.to_owned());
                break;
            }
            if task.records.is_waiting() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        task.tally.spent.check += self.secs_since(start);
    }

    fn take_verdict(&mut self, task: &mut Task<B>, ticket: Ticket, result: Result<(), Result<Measurement, Failure>>) {
        let Some(mut waiting) = task.records.take(ticket) else { return };
        if let Err(Err(failure)) = result {
            let context = &waiting.record.context;
            match context.role {
                Role::Trial => task.tally.fates.note_failure(waiting.sketch, &failure),
                Role::Baseline => {
                    task.times.set_baseline(None);
                    self.observer.event(&Event::Baseline { task: task.subject.index, result: Err(&failure) });
                }
                Role::Rerun => {}
            }
            if let Some(program) = context.program {
                task.add_feedback(program, Feedback::Failed);
            }
            waiting.record.outcome = database::Outcome::Failed(failure);
            task.records.write([waiting.record]);
            // Records are written when they are known to be right. Until the first wrong result none was, so all times of
            // this run are still there.
            task.times.find_best(task.records.times());
            return;
        }
        task.records.write([waiting.record]);
    }

    /// Withdraws the results that wait for a verdict that will not come: they count as not tried.
    fn forget_waiting(&mut self, task: &mut Task<B>) {
        for waiting in task.records.take_waiting() {
            match waiting.record.context.role {
                Role::Trial => {
                    self.n_trials -= 1;
                    task.tally.forget_trial(waiting.sketch);
                }
                Role::Baseline => task.times.set_baseline(None),
                Role::Rerun => {}
            }
        }
        task.times.find_best(task.records.times());
    }
}
