//! Shows the progress of a run: a bar on a terminal, occasional lines elsewhere, every attempt with `-v`. If several
//! functions share the trials, a table of them is redrawn below the bar and printed at the end.

use super::console::Console;
use super::task_table;
use crate::script::Dialect;
use crate::tune::backend::Seconds;
use crate::tune::events::{Event, Observer, TaskState, Trial};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Shows progress on standard error.
pub(super) struct Progress {
    console: Console,
    screen: MultiProgress,
    bar: ProgressBar,
    /// The table's lines below the bar, if there are several functions; each is cut at the terminal's width.
    table: Vec<ProgressBar>,
    /// The complete table as last printed.
    last_table: String,
    verbose: bool,
    /// Whether to print lines instead of a bar.
    lines: bool,
    last_line: Duration,
    names: Vec<String>,
    peaks: Vec<Option<f64>>,
    done: u64,
    wanted: u64,
    failed: u64,
    max_time: Option<Duration>,
    dialect: Dialect,
}

/// Maximum rows of the table, so that it fits a small terminal.
const TABLE_ROWS: usize = 16;
/// Minimum time between two lines.
const PAUSE: Duration = Duration::from_secs(2);

impl Progress {
    /// Shows a bar on a terminal and lines elsewhere. With `verbose`, each attempt is a line, which would break a bar.
    pub(super) fn new(console: Console, verbose: bool, max_time: Option<Duration>, dialect: Dialect) -> Progress {
        let terminal = std::io::stderr().is_terminal() && !verbose;
        let target =
            if terminal && !console.quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let screen = MultiProgress::with_draw_target(target);
        let bar = screen.add(ProgressBar::no_length());
        let template =
            if console.color { "{bar:24.cyan/dim} {pos}/{len} {wide_msg}" } else { "{bar:24} {pos}/{len} {wide_msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            console,
            screen,
            bar,
            table: Vec::new(),
            last_table: String::new(),
            verbose,
            lines: !terminal && !verbose,
            last_line: Duration::ZERO,
            names: Vec::new(),
            peaks: Vec::new(),
            done: 0,
            wanted: 0,
            failed: 0,
            max_time,
            dialect,
        }
    }

    /// Removes the bar, and prints the table for the last time.
    pub(super) fn clear(&self) {
        self.table.iter().for_each(ProgressBar::finish_and_clear);
        self.bar.finish_and_clear();
        // With `verbose`, the last round has printed the table already.
        if !self.last_table.is_empty() && !self.verbose {
            self.console.note(&self.last_table);
        }
    }

    fn say(&self, text: &str) {
        self.screen.suspend(|| self.console.note(text));
    }

    fn warn(&self, text: &str) {
        self.screen.suspend(|| self.console.warn(text));
    }

    fn standings(&mut self, tasks: &[TaskState<'_>]) {
        if tasks.len() < 2 {
            return;
        }
        self.last_table = task_table::render(tasks, usize::MAX);
        if self.verbose {
            self.say(&self.last_table);
        }
        for (i, text) in task_table::render(tasks, TABLE_ROWS).lines().enumerate() {
            if i == self.table.len() {
                let line = self.screen.add(ProgressBar::no_length());
                if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                    line.set_style(style);
                }
                self.table.push(line);
            }
            self.table[i].set_message(text.to_owned());
        }
    }

    fn speed(&self, task: usize, secs: f64, flops: f64) -> String {
        let mut text = Seconds(secs).to_string();
        if flops > 0.0 {
            text += &format!(", {:.1} GFLOP/s", flops / secs / 1e9);
            if let Some(peak) = self.peaks.get(task).copied().flatten() {
                text += &format!(", {:.0} % of peak", 100.0 * flops / secs / peak);
            }
        }
        text
    }

    fn trial(&mut self, trial: &Trial<'_>) {
        self.done += 1;
        self.failed += u64::from(trial.result.is_err());
        let name = &self.names[trial.task];
        match trial.result {
            Ok(secs) => tracing::info!(
                "trial {} of {name}: {}{}\n{}",
                trial.number,
                self.speed(trial.task, secs, trial.flops),
                if trial.is_best { ", the best so far" } else { "" },
                trial.trace.to_python(self.dialect)
            ),
            Err(f) => tracing::info!(
                "trial {} of {name}: {} ({}): {}\n{}",
                trial.number,
                f.kind,
                f.stage,
                f.message,
                trial.trace.to_python(self.dialect)
            ),
        }
        let mut text = match trial.best {
            Some(best) => format!("best {}", self.speed(trial.task, best, trial.flops)),
            None => "nothing valid yet".to_owned(),
        };
        if self.names.len() > 1 {
            text = format!("{name}: {text}");
        }
        if self.failed > 0 {
            text += &format!(", {} failed", self.failed);
        }
        let open = self.wanted.saturating_sub(self.done);
        let left = time_left(trial.elapsed, trial.number, open, self.max_time);
        if let Some(left) = left.filter(|l| l.as_millis() > 500) {
            text += &format!(", {:.0} s left", left.as_secs_f64().ceil());
        }
        if self.lines && trial.elapsed >= self.last_line + PAUSE {
            self.last_line = trial.elapsed;
            self.console.note(&format!("{} of {} trials: {text}", self.done, self.wanted));
        }
        self.bar.set_position(self.done);
        self.bar.set_message(text);
    }
}

/// Estimated remaining time of a run that made `made` trials in `elapsed` and has `open` trials left.
fn time_left(elapsed: Duration, made: u64, open: u64, max_time: Option<Duration>) -> Option<Duration> {
    let left = Duration::try_from_secs_f64(elapsed.as_secs_f64() / made as f64 * open as f64).ok()?;
    Some(max_time.map_or(left, |max| left.min(max.saturating_sub(elapsed))))
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Opened { names, done, wanted, peak_flops } => {
                self.names = names.to_vec();
                self.peaks = peak_flops.to_vec();
                (self.done, self.wanted) = (*done, *wanted);
                self.bar.set_length(*wanted);
                self.bar.set_position(*done);
                if *done > 0 && done < wanted {
                    self.say(&format!("{done} of {wanted} trials are in the database; going on"));
                }
            }
            Event::Baseline { task, result: Ok(secs) } => {
                tracing::info!("{} as written: {}", self.names[*task], Seconds(*secs));
                self.bar.set_message(format!("as written {}", Seconds(*secs)));
            }
            Event::Baseline { task, result: Err(failure) } => {
                let name = &self.names[*task];
                let text = format!("`{name}` as written: {} ({}): {}", failure.kind, failure.stage, failure.message);
                self.warn(&text);
            }
            Event::Trial(trial) => self.trial(trial),
            Event::Finals { task, finalists } => {
                tracing::info!("final of {}: {finalists} programs", self.names[*task]);
                self.bar.set_message("comparing the leaders once more");
            }
            Event::Standings(tasks) => self.standings(tasks),
            Event::Note(text) => self.say(text),
            Event::Warning(text) => self.warn(text),
        }
    }
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
