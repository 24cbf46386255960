//! Watches how steady the machine is, and says what to do about it.
//!
//! Racing runs the incumbent again and again; its times say how noisy the machine is without a run more.

use super::stats::Summary;
use std::fmt;

/// Times of one kernel, the incumbent, over a search.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// Of the kernel that is watched, in order.
    secs: Vec<f64>,
}

/// Fewer times than this say nothing.
const ENOUGH: usize = 20;
/// The last times that count: the noise of now.
const RECENT: usize = 400;
/// Deciles further apart than this are noise worth telling. A quiet server stays below a tenth, its clock's drift
/// included.
const NOISY: f64 = 0.15;
/// The kernel has become slower or faster by this since the start.
const DRIFTED: f64 = 0.10;

/// What a noisy machine means for results, and what helps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Advice {
    /// Times scatter.
    Noisy {
        /// Distance of the first and ninth deciles, as a share of the median.
        spread: f64,
    },
    /// Other processes take so many cores.
    Busy {
        /// On average, since measuring began.
        cores: f64,
    },
    /// Times have moved.
    Drifting {
        /// Median of the latest times over that of the first.
        ratio: f64,
    },
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::Noisy { spread } => write!(
                f,
                "the machine is noisy: times of one kernel vary by {:.0} %; close other programs, or measure with fewer \
                 threads than there are cores",
                spread * 100.0
            ),
            Advice::Busy { cores } => write!(
                f,
                "the machine is busy: other processes take {cores:.1} cores; times vary, and the peak may be stated too low"
            ),
            Advice::Drifting { ratio } => write!(
                f,
                "the machine has become {:.0} % {} since tuning began; candidates were compared side by side, but their \
                 times in seconds are not comparable",
                (ratio - 1.0).abs() * 100.0,
                if *ratio > 1.0 { "slower" } else { "faster" }
            ),
        }
    }
}

impl Monitor {
    /// Notes batch times of the incumbent.
    pub fn note(&mut self, secs: &[f64]) {
        self.secs.extend_from_slice(secs);
    }

    /// Another kernel is the incumbent now.
    pub fn restart(&mut self) {
        self.secs.clear();
    }

    /// What there is to say, if anything.
    pub fn advice(&self) -> Option<Advice> {
        if self.secs.len() < ENOUGH {
            return None;
        }
        let recent = &self.secs[self.secs.len().saturating_sub(RECENT)..];
        let spread = Summary::of(recent)?.spread;
        if spread > NOISY {
            return Some(Advice::Noisy { spread });
        }
        let (first, last) = (&self.secs[..ENOUGH / 2], &self.secs[self.secs.len() - ENOUGH / 2..]);
        let ratio = Summary::of(last)?.median / Summary::of(first)?.median;
        ((ratio - 1.0).abs() > DRIFTED).then_some(Advice::Drifting { ratio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(secs: impl Iterator<Item = f64>) -> Option<Advice> {
        let mut monitor = Monitor::default();
        monitor.note(&secs.collect::<Vec<_>>());
        monitor.advice()
    }

    #[test]
    fn a_steady_machine_needs_no_advice() {
        assert_eq!(advice((0..19).map(|i| 1.0 + f64::from(i))), None);
        assert_eq!(advice((0..200).map(|i| 1.0 + 0.03 * f64::from(i % 3))), None);
    }

    #[test]
    fn scatter_and_drift_are_told() {
        let noisy = advice((0..200).map(|i| 1.0 + 0.1 * f64::from(i % 4))).unwrap();
        assert!(noisy.to_string().starts_with("the machine is noisy: times of one kernel vary by 26 %"), "{noisy}");
        let slower = advice((0..1000).map(|i| 1.0 + 0.0002 * f64::from(i))).unwrap();
        assert!(slower.to_string().starts_with("the machine has become 20 % slower"), "{slower}");
        let faster = advice((0..1000).map(|i| 1.0 - 0.0002 * f64::from(i))).unwrap();
        assert!(faster.to_string().contains("20 % faster"), "{faster}");
    }
}
