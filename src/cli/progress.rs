//! Shows the progress of a run: a bar on a terminal, occasional lines elsewhere, every attempt with `-v`. If several
//! functions share the trials, a table of them is redrawn below the bar and printed at the end.

use super::console::Console;
use super::task_table;
use crate::request::Status;
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
    status: Status,
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
            status: Status::new(max_time),
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

    fn trial(&mut self, trial: &Trial<'_>, text: String) {
        let name = self.status.name(trial.task);
        match trial.result {
            Ok(secs) => tracing::info!(
                "trial {} of {name}: {}{}\n{}",
                trial.number,
                self.status.speed(trial.task, secs, trial.flops),
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
        if self.lines && trial.elapsed >= self.last_line + PAUSE {
            self.last_line = trial.elapsed;
            self.console.note(&format!("{} of {} trials: {text}", self.status.done(), self.status.wanted()));
        }
        self.bar.set_position(self.status.done());
        self.bar.set_message(text);
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        let text = self.status.follow(event);
        match event {
            Event::Opened { done, wanted, .. } => {
                self.bar.set_length(*wanted);
                self.bar.set_position(*done);
                if *done > 0 && done < wanted {
                    self.say(&format!("{done} of {wanted} trials are in the database; going on"));
                }
            }
            Event::Baseline { task, result: Ok(secs) } => {
                tracing::info!("{} as written: {}", self.status.name(*task), Seconds(*secs));
                self.bar.set_message(text.unwrap_or_default());
            }
            Event::Baseline { task, result: Err(failure) } => {
                let name = self.status.name(*task);
                let text = format!("`{name}` as written: {} ({}): {}", failure.kind, failure.stage, failure.message);
                self.warn(&text);
            }
            Event::Trial(trial) => self.trial(trial, text.unwrap_or_default()),
            Event::Finals { task, finalists } => {
                tracing::info!("final of {}: {finalists} programs", self.status.name(*task));
                self.bar.set_message(text.unwrap_or_default());
            }
            Event::Standings(tasks) => self.standings(tasks),
            Event::Note(text) => self.say(text),
            Event::Warning(text) => self.warn(text),
        }
    }
}
