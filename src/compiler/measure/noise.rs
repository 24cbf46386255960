//! Monitors the noise of the machine, and gives advice.
//!
//! Racing measures the incumbent repeatedly; its times show the noise without additional runs.

use super::stats::Summary;
use std::fmt;

/// Times of the incumbent over a search.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// Times of the current incumbent, in order.
    secs: Vec<f64>,
}

/// Minimum number of times for a statement.
const ENOUGH: usize = 20;
/// Number of latest times that describe the current noise.
const RECENT: usize = 400;
/// Relative distance of the deciles that counts as noise. A quiet server stays below 0.1, including the drift of its
/// clock.
const NOISY: f64 = 0.15;
/// Relative change of the kernel's time since the start that counts as drift.
const DRIFTED: f64 = 0.10;

/// A kind of noise, with advice on what to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Advice {
    /// Times scatter.
    Noisy {
        /// Distance of the first and ninth deciles, relative to the median.
        spread: f64,
    },
    /// Other processes use the CPU.
    Busy {
        /// Average number of cores since measuring began.
        cores: f64,
    },
    /// Times have drifted.
    Drifting {
        /// Median of the latest times over the median of the first ones.
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
                "the machine is busy: other processes use {cores:.1} cores; times vary, and the reported peak may be too low"
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
    /// Adds batch times of the incumbent.
    pub fn note(&mut self, secs: &[f64]) {
        self.secs.extend_from_slice(secs);
    }

    /// Starts again for a new incumbent.
    pub fn restart(&mut self) {
        self.secs.clear();
    }

    /// The advice, if there is any.
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
