//! The time budget of a run.

use std::time::Duration;

/// Start and end of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    start: Duration,
    max_time: Option<Duration>,
    /// The time after which no further candidate is measured.
    end: Option<Duration>,
}

/// The time kept for a final and its benchmark.
const FINAL: Duration = Duration::from_millis(800);
/// A final may begin this long after the end: the last trial may have ended with the time.
const LATE: Duration = Duration::from_millis(100);
/// The time kept for the final of each further function; most finals have few finalists.
const FURTHER_FINAL: Duration = Duration::from_millis(350);

impl Budget {
    /// The budget of a run that begins at `now` and may take `max_time`. The last part, at most a fifth, is kept for the
    /// final.
    pub(super) fn new(now: Duration, max_time: Option<Duration>) -> Budget {
        let mut budget = Budget { start: now, max_time, end: None };
        budget.reserve_finals(1);
        budget
    }

    /// Keeps time for the finals of several functions.
    pub(super) fn reserve_finals(&mut self, functions: usize) {
        let further = u32::try_from(functions.saturating_sub(1)).unwrap_or(u32::MAX);
        let finals = FINAL.saturating_add(FURTHER_FINAL.saturating_mul(further));
        self.end = self.max_time.and_then(|t| self.start.checked_add(t.saturating_sub(finals.min(t / 5))));
    }

    /// The time left, finals included; `None` without a limit.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        Some(self.max_time?.saturating_sub(self.elapsed(now)))
    }

    /// The time left for the search; `None` without a limit.
    pub(super) fn left_to_search(&self, now: Duration) -> Option<Duration> {
        Some(self.end?.saturating_sub(now))
    }

    /// The time left until everything must be over: the whole time and one short final; `None` without a limit.
    pub(super) fn left_at_most(&self, now: Duration) -> Option<Duration> {
        let end = self.start.checked_add(self.max_time?)?.checked_add(FINAL)?;
        Some(end.saturating_sub(now))
    }

    /// Is there time for finals of this length? Finals of the usual length may begin until the time is up: without one, the
    /// best program would not be known.
    pub(super) fn has_time_for(&self, finals: Duration, now: Duration) -> bool {
        let Some(left) = self.left(now) else { return true };
        if left.is_zero() {
            let over = self.max_time.map_or(Duration::ZERO, |t| self.elapsed(now).saturating_sub(t));
            return finals <= FINAL && over <= LATE;
        }
        finals <= left.max(FINAL)
    }

    /// Is the time of the search up?
    pub(super) fn is_up(&self, now: Duration) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// The time since the start.
    pub(super) fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.start)
    }
}

/// The rounds that `--patience` compares.
pub(super) const PATIENT_ROUNDS: usize = 4;

/// Did the last rounds together improve the best time by less than the share `patience`?
pub(super) fn is_stuck(bests: &[Option<f64>], patience: f64) -> bool {
    let Some(before) = bests.len().checked_sub(PATIENT_ROUNDS + 1) else { return false };
    match (bests[before], bests[bests.len() - 1]) {
        (Some(before), Some(now)) => now > before * (1.0 - patience),
        (None, Some(_)) => false,
        (_, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_has_its_share() {
        let secs = Duration::from_secs_f64;
        let budget = Budget::new(secs(1.0), Some(secs(10.0)));
        assert!(!budget.is_up(secs(10.1)) && budget.is_up(secs(10.2)));
        assert!(Budget::new(secs(1.0), Some(secs(1.0))).is_up(secs(1.8)));
        assert!(!Budget::new(secs(1.0), None).is_up(secs(1e9)));
        assert!(!Budget::new(secs(1.0), Some(Duration::MAX)).is_up(secs(1e9)));
        assert_eq!(budget.elapsed(secs(3.0)), secs(2.0));
        assert_eq!((budget.left(secs(3.0)), budget.left(secs(30.0))), (Some(secs(8.0)), Some(secs(0.0))));
        assert!(budget.has_time_for(secs(2.0), secs(3.0)) && !budget.has_time_for(secs(9.0), secs(3.0)));
        assert!(
            budget.has_time_for(secs(0.5), secs(11.05))
                && !budget.has_time_for(secs(0.5), secs(11.2))
                && Budget::new(secs(1.0), None).has_time_for(secs(1e6), secs(3.0))
        );
        // Each of several functions has a final.
        let mut several = budget;
        several.reserve_finals(3);
        assert!(!several.is_up(secs(9.4)) && several.is_up(secs(9.6)));
    }

    #[test]
    fn patience_ends() {
        let bests = |b: &[f64]| b.iter().map(|&b| Some(b)).collect::<Vec<_>>();
        assert!(!is_stuck(&bests(&[1.0, 1.0, 1.0, 1.0]), 0.01));
        assert!(is_stuck(&bests(&[1.0, 1.0, 1.0, 1.0, 0.995]), 0.01));
        assert!(!is_stuck(&bests(&[1.0, 1.0, 1.0, 1.0, 0.98]), 0.01));
        assert!(is_stuck(&[None; 5], 0.01));
    }
}
