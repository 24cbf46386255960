//! Shows how a run gets on: a bar on a terminal, lines now and then elsewhere, every attempt with `-v`.

use super::console::Console;
use crate::script::Dialect;
use crate::tune::backend::Seconds;
use crate::tune::events::{Event, Observer, Trial};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// An observer for people.
pub struct Progress {
    console: Console,
    bar: ProgressBar,
    /// Lines instead of a bar?
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

/// Lines are no more frequent than this.
const PAUSE: Duration = Duration::from_secs(2);

impl Progress {
    /// Shows on standard error, in the way that suits it. With `verbose` there are lines about every attempt, which a
    /// bar would break.
    pub fn new(console: Console, verbose: bool, max_time: Option<Duration>, dialect: Dialect) -> Progress {
        let terminal = std::io::stderr().is_terminal() && !verbose;
        let target =
            if terminal && !console.quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let template =
            if console.color { "{bar:24.cyan/dim} {pos}/{len} {wide_msg}" } else { "{bar:24} {pos}/{len} {wide_msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            console,
            bar,
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

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| self.console.note(text));
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

    fn time_left(&self, trial: &Trial<'_>) -> Option<Duration> {
        let left = trial.elapsed.as_secs_f64() / trial.number as f64 * self.wanted.saturating_sub(self.done) as f64;
        let left = Duration::try_from_secs_f64(left).ok()?;
        Some(self.max_time.map_or(left, |max| left.min(max.saturating_sub(trial.elapsed))))
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
        if let Some(left) = self.time_left(trial).filter(|l| l.as_millis() > 500) {
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
                self.bar.suspend(|| self.console.warn(&text));
            }
            Event::Trial(trial) => self.trial(trial),
            Event::Finals { task, finalists } => {
                tracing::info!("final of {}: {finalists} programs", self.names[*task]);
                self.bar.set_message("comparing the leaders once more");
            }
            Event::Warning(text) => self.bar.suspend(|| self.console.warn(text)),
        }
    }
}
