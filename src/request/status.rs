//! A line about the progress of a run.

use crate::tune::backend::Seconds;
use crate::tune::events::{Event, Trial};
use std::time::Duration;

/// Follows the events of a run, and says in a line how far it is.
#[derive(Clone, Debug, Default)]
pub struct Status {
    names: Vec<String>,
    peaks: Vec<Option<f64>>,
    done: u64,
    wanted: u64,
    failed: u64,
    max_time: Option<Duration>,
}

impl Status {
    /// The status of a run that has this time limit.
    pub fn new(max_time: Option<Duration>) -> Status {
        Status { max_time, ..Status::default() }
    }

    /// Trials in the database.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Trials requested.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// The name of a task's function.
    pub fn name(&self, task: usize) -> &str {
        self.names.get(task).map_or("", |name| name)
    }

    /// Takes note of an event, and returns the line that it changes.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<String> {
        match event {
            Event::Opened { names, done, wanted, peak_flops } => {
                self.names = names.to_vec();
                self.peaks = peak_flops.to_vec();
                (self.done, self.wanted) = (*done, *wanted);
                None
            }
            Event::Baseline { result: Ok(secs), .. } => Some(format!("as written {}", Seconds(*secs))),
            Event::Trial(trial) => Some(self.trial(trial)),
            Event::Finals { .. } => Some("comparing the leaders once more".to_owned()),
            Event::Baseline { result: Err(_), .. } | Event::Standings(_) | Event::Note(_) | Event::Warning(_) => None,
        }
    }

    /// The speed of a task's function that takes so long, such as `18.2 µs, 230.3 GFLOP/s, 99 % of peak`.
    pub fn speed(&self, task: usize, secs: f64, flops: f64) -> String {
        let mut text = Seconds(secs).to_string();
        if flops > 0.0 {
            text += &format!(", {:.1} GFLOP/s", flops / secs / 1e9);
            if let Some(peak) = self.peaks.get(task).copied().flatten() {
                text += &format!(", {:.0} % of peak", 100.0 * flops / secs / peak);
            }
        }
        text
    }

    fn trial(&mut self, trial: &Trial<'_>) -> String {
        self.done += 1;
        self.failed += u64::from(trial.result.is_err());
        let mut text = match trial.best {
            Some(best) => format!("best {}", self.speed(trial.task, best, trial.flops)),
            None => "nothing valid yet".to_owned(),
        };
        if self.names.len() > 1 {
            text = format!("{}: {text}", self.name(trial.task));
        }
        if self.failed > 0 {
            text += &format!(", {} failed", self.failed);
        }
        let open = self.wanted.saturating_sub(self.done);
        let left = time_left(trial.elapsed, trial.number, open, self.max_time);
        if let Some(left) = left.filter(|l| l.as_millis() > 500) {
            text += &format!(", {:.0} s left", left.as_secs_f64().ceil());
        }
        text
    }
}

/// Estimated remaining time of a run that made `made` trials in `elapsed` and has `open` trials left.
fn time_left(elapsed: Duration, made: u64, open: u64, max_time: Option<Duration>) -> Option<Duration> {
    let left = Duration::try_from_secs_f64(elapsed.as_secs_f64() / made as f64 * open as f64).ok()?;
    Some(max_time.map_or(left, |max| left.min(max.saturating_sub(elapsed))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace_and_the_limit() {
        let secs = Duration::from_secs;
        assert_eq!(time_left(secs(10), 20, 40, None), Some(secs(20)));
        assert_eq!(time_left(secs(10), 20, 40, Some(secs(15))), Some(secs(5)));
        assert_eq!(time_left(secs(10), 20, 40, Some(secs(5))), Some(secs(0)));
        assert_eq!(time_left(secs(10), 0, 40, None), None);
    }
}
