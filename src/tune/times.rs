//! The times of a function that a run goes by, in seconds.

use crate::database::TuningRecord;

/// The times of one function.
pub(super) struct Times {
    baseline: Baseline,
    best: Option<f64>,
    yardstick: Option<Yardstick>,
    /// The best time after each round of this run.
    history: Vec<Option<f64>>,
}

/// The time of the program as written.
enum Baseline {
    Unmeasured,
    /// It was measured; it has no time if it failed.
    Measured(Option<f64>),
}

/// The best program of earlier runs, measured in this one.
struct Yardstick {
    secs: f64,
    /// The ratio of this time to the recorded one. Other recorded times are taken to have changed by the same factor.
    drift: f64,
}

impl Times {
    /// The times that the database has: the record of the program as written, and the best time.
    pub(super) fn recorded(baseline: Option<&TuningRecord>, best: Option<f64>) -> Times {
        let baseline = baseline.map_or(Baseline::Unmeasured, |r| Baseline::Measured(r.secs()));
        Times { baseline, best, yardstick: None, history: Vec::new() }
    }

    /// Was the program as written measured, whatever the result?
    pub(super) fn has_baseline(&self) -> bool {
        matches!(self.baseline, Baseline::Measured(_))
    }

    /// The time of the program as written.
    pub(super) fn baseline(&self) -> Option<f64> {
        match self.baseline {
            Baseline::Measured(secs) => secs,
            Baseline::Unmeasured => None,
        }
    }

    /// Sets the time of the program as written; `None` if it failed.
    pub(super) fn set_baseline(&mut self, secs: Option<f64>) {
        self.baseline = Baseline::Measured(secs);
    }

    /// The best time so far, of candidates and the program as written.
    pub(super) fn best(&self) -> Option<f64> {
        self.best
    }

    /// Notes a time; is it the best so far?
    pub(super) fn note(&mut self, secs: f64) -> bool {
        let is_best = self.best.is_none_or(|best| secs < best);
        if is_best {
            self.best = Some(secs);
        }
        is_best
    }

    /// Sets the best time to that of the winner of a final.
    pub(super) fn set_winner(&mut self, secs: f64) {
        self.best = Some(secs);
    }

    /// Finds the best time again, among these and the yardstick, after a result was withdrawn.
    pub(super) fn find_best(&mut self, secs: impl Iterator<Item = f64>) {
        self.best = secs.chain(self.yardstick.as_ref().map(|y| y.secs)).min_by(f64::total_cmp);
    }

    /// Sets the time of the best program of earlier runs, which was recorded with `recorded`. It is the best time of this
    /// run so far: times of other runs are on another scale.
    pub(super) fn set_yardstick(&mut self, secs: f64, recorded: Option<f64>) {
        self.best = Some(secs);
        self.yardstick = Some(Yardstick { secs, drift: recorded.map_or(1.0, |before| secs / before) });
    }

    /// The factor by which programs take longer now than when earlier runs recorded them.
    pub(super) fn drift(&self) -> f64 {
        self.yardstick.as_ref().map_or(1.0, |y| y.drift)
    }

    /// Notes that a round is over.
    pub(super) fn end_round(&mut self) {
        self.history.push(self.best);
    }

    /// The best time after each round of this run.
    pub(super) fn history(&self) -> &[Option<f64>] {
        &self.history
    }
}
