//! Whether a finished run found what was asked for.

use super::Error;
use super::program::Program;
use super::tuning::Plan;
use crate::tune::config::StopReason;
use crate::tune::summary::{Summary, TaskSummary};
use crate::tune::{FailureCount, Interrupt, SketchCount};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

/// A run that did not find what was asked for.
#[derive(Debug)]
pub struct Unsuccessful {
    /// The first refusal of a user's schedule function, which shows what is wrong, and where.
    pub first_refusal: Option<String>,
    /// The reason.
    pub error: Error,
}

impl Plan {
    /// Judges a finished run into the database in `dir`.
    ///
    /// # Errors
    /// It was interrupted, or a function has no valid schedule.
    pub fn verdict(
        &self,
        program: &Program,
        summary: &Summary,
        dir: &Path,
        interrupt: &Interrupt,
    ) -> Result<(), Unsuccessful> {
        let fail = |error| Err(Unsuccessful { first_refusal: None, error });
        if let Some(signal) = interrupt.signal() {
            return fail(Error::Interrupted(
                signal,
                format!(
                    "interrupted after {} of {} trials; all of them are kept in `{}`, and the same command resumes from there",
                    summary.total.trials,
                    self.config.trials,
                    dir.display()
                ),
            ));
        }
        // The time of a module may be up before the turn of each function: those that it leaves out run as written.
        let some_have_one = summary.tasks.iter().any(|t| t.valid > 0);
        let judged = summary.tasks.iter().filter(|t| !(some_have_one && is_unjudged(t)));
        let without: Vec<(&TaskSummary, String)> = judged.filter_map(|t| Some((t, no_schedule(t)?))).collect();
        if !without.is_empty() {
            let names: HashSet<&str> =
                without.iter().flat_map(|(t, _)| [&t.func].into_iter().chain(&t.same_as)).map(|n| &n[..]).collect();
            let refusals = self.refusals.iter();
            let mut refusals =
                refusals.map(|(i, text)| (program.module().funcs[self.functions[*i]].name.as_str(), text));
            // If every candidate of a function was refused, the first refusal shows what is wrong, and where.
            let first_refusal = refusals.find(|(name, _)| names.contains(name)).map(|(name, refusal)| {
                let of = if summary.tasks.len() > 1 { format!(", of `{name}`") } else { String::new() };
                format!("the first refusal{of}:\n{}", refusal.trim_end())
            });
            let texts: Vec<&str> = without.iter().map(|(_, text)| &text[..]).collect();
            return Err(Unsuccessful { first_refusal, error: Error::Negative(texts.join("\n       ")) });
        }
        if summary.tasks.iter().all(|t| t.best_us.is_none()) {
            return fail(Error::Negative(format!("nothing was measured: {}", summary.total.stop_reason)));
        }
        Ok(())
    }
}

/// Whether the time was up before any result of a function could be judged.
fn is_unjudged(task: &TaskSummary) -> bool {
    let nothing_failed = task.failures.is_empty() && task.as_written_failed.is_none();
    task.trials == 0 && task.stop_reason == StopReason::TimeIsUp.name() && nothing_failed
}

/// Why a function has no valid schedule; `None` if it has one.
fn no_schedule(task: &TaskSummary) -> Option<String> {
    // If the rules found nothing to try, the program as written is a valid result. A schedule function that fails is
    // the user's mistake.
    let unfit = task.failures.iter().all(|f| f.stage == "postproc");
    let as_written_alone = task.trials == 0 && task.best_us.is_some() && task.problem.is_none() && unfit;
    if task.valid > 0 || as_written_alone {
        return None;
    }
    let reason = || task.failures.first().map_or("see the warnings above".to_owned(), most_often);
    let why = match &task.problem {
        Some(problem) => problem.clone(),
        None if task.trials > 0 => format!("all {} candidates failed; {}", task.trials, reason()),
        None if task.rejected > 0 => format!("the space refused all {} candidates; {}", task.rejected, reason()),
        // The space holds only the program as written, or time was up.
        None => format!("the program as written: {}", task.as_written_failed.as_ref()?),
    };
    let mut text = format!("no valid schedule for `{}`: {why}", task.func);
    if let [_, _, ..] = task.sketches[..] {
        for sketch in &task.sketches {
            let _ = write!(text, "\n         {}", of_sketch(sketch));
        }
    }
    Some(text)
}

fn most_often(reason: &FailureCount) -> String {
    format!("most often `{}` said: {}", reason.by, reason.message)
}

/// One line with the outcome of a sketch's candidates.
fn of_sketch(count: &SketchCount) -> String {
    let name = count.sketch.map_or("replayed traces".to_owned(), |n| format!("sketch {n}"));
    let reason = count.reason.as_ref().map_or(String::new(), |r| format!("; {}", most_often(r)));
    format!("{name}: {} tried, {} failed, {} refused{reason}", count.tried, count.failed, count.refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_valid_schedule_every_sketch_says_why() {
        let reason = |by: &str, message: &str| FailureCount {
            stage: "schedule".into(),
            by: by.into(),
            message: message.into(),
            count: 1,
        };
        let sketch = |n, tried, refused, reason| SketchCount { sketch: Some(n), tried, failed: tried, refused, reason };
        let task = TaskSummary {
            func: "f".into(),
            rejected: 20,
            failures: vec![reason("fuse", "the loops are apart")],
            sketches: vec![
                sketch(1, 0, 20, Some(reason("fuse", "the loops are apart"))),
                sketch(2, 3, 0, Some(reason("timeout", "stopped after 20 ms"))),
            ],
            trials: 3,
            ..TaskSummary::default()
        };
        let text = no_schedule(&task).expect("nothing is valid");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "no valid schedule for `f`: all 3 candidates failed; most often `fuse` said: the loops are apart",
                "sketch 1: 0 tried, 0 failed, 20 refused; most often `fuse` said: the loops are apart",
                "sketch 2: 3 tried, 3 failed, 0 refused; most often `timeout` said: stopped after 20 ms",
            ]
        );
    }

    #[test]
    fn time_that_is_up_early_is_no_failure() {
        let task = |trials, stop_reason: StopReason| TaskSummary {
            trials,
            stop_reason: stop_reason.name(),
            problem: Some("the time was up".into()),
            ..TaskSummary::default()
        };
        assert!(is_unjudged(&task(0, StopReason::TimeIsUp)));
        assert!(!is_unjudged(&task(3, StopReason::TimeIsUp)));
        assert!(!is_unjudged(&task(0, StopReason::NotMeasurable)));
        assert!(!is_unjudged(&TaskSummary {
            as_written_failed: Some("stopped".into()),
            ..task(0, StopReason::TimeIsUp)
        }));
    }
}
