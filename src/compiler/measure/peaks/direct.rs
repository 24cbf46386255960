//! Measures the peak of several cores, with as many threads as run a kernel.
//!
//! The threads are pinned to different cores and stay awake: between windows they spin until all have arrived, then
//! each runs the loop for some tenths of a millisecond. A window lasts from the first start to the last end, so a delay
//! of any thread lowers its rate and never raises it. The highest rate of all windows is the peak; nothing is
//! extrapolated to threads that did not run. On a busy machine most windows are disturbed, so more of them run until
//! several agree or the time is up.

use super::super::pin::pin_to;
use super::PeakLoop;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A measured peak, with the data to judge it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Peak {
    /// 10^9 operations per second: the highest rate of all windows.
    pub gflops: f64,
    /// Number of threads that ran at the same time.
    pub threads: u32,
    /// Number of windows.
    pub windows: u32,
    /// Distance of the third highest rate from the highest, relative to the highest.
    pub spread: f64,
}

/// Rounds of the loop per window: some tenths of a millisecond.
const ROUNDS: u64 = 100_000;
/// Number of windows between two evaluations.
const BATCH: usize = 8;
/// Minimum number of windows.
const LEAST_WINDOWS: usize = 16;
/// Number of highest rates that must agree, and their maximum relative distance.
const AGREEING: usize = 3;
const AGREEMENT: f64 = 0.01;
/// Maximum spread of a trusted peak; beyond it, the measurement was disturbed too much.
const TRUSTED: f64 = 0.05;
/// Time after which no further windows start.
const TIME: Duration = Duration::from_millis(200);

impl Peak {
    /// Runs the loop on `threads` threads, each pinned to one of `cores` if there are enough.
    pub fn measure(peak_loop: &PeakLoop, threads: u32, cores: &[usize]) -> Peak {
        let threads = threads.max(1) as usize;
        let cores = if cores.len() >= threads { cores } else { &[] };
        let operations = peak_loop.operations(ROUNDS) * threads as f64;
        // The first windows wake up the cores and their vector units.
        let mut rates: Vec<f64> = Vec::new();
        let start = Instant::now();
        loop {
            rates.extend(windows(peak_loop, threads, cores).into_iter().map(|secs| operations / secs));
            rates.sort_by(|a, b| b.total_cmp(a));
            let peak = Peak::of(&rates, threads);
            let is_settled = rates.len() >= LEAST_WINDOWS && peak.spread <= AGREEMENT;
            if is_settled || start.elapsed() > TIME {
                return peak;
            }
        }
    }

    fn of(sorted: &[f64], threads: usize) -> Peak {
        let third = sorted[(AGREEING - 1).min(sorted.len() - 1)];
        Peak {
            gflops: sorted[0] / 1e9,
            threads: threads as u32,
            windows: sorted.len() as u32,
            spread: 1.0 - third / sorted[0],
        }
    }

    /// The peak in operations per second.
    pub fn flops(&self) -> f64 {
        self.gflops * 1e9
    }

    /// Whether the peak is plausible: several windows agree, and no kernel was measured above it.
    pub fn is_trusted(&self, gflops: f64) -> bool {
        self.spread <= TRUSTED && self.windows as usize >= LEAST_WINDOWS && gflops <= self.gflops * (1.0 + TRUSTED)
    }
}

/// The durations of a batch of windows in seconds, each from the first start to the last end.
fn windows(peak_loop: &PeakLoop, threads: usize, cores: &[usize]) -> Vec<f64> {
    let arrived = AtomicU64::new(0);
    let epoch = Instant::now();
    let work = |core: Option<&usize>| -> Vec<(Duration, Duration)> {
        let _pinned = core.map(|&core| pin_to(core));
        let window = |i: usize| {
            arrived.fetch_add(1, Ordering::AcqRel);
            let all = ((i + 1) * threads) as u64;
            while arrived.load(Ordering::Acquire) < all {
                std::hint::spin_loop();
            }
            let start = epoch.elapsed();
            peak_loop.run(ROUNDS);
            (start, epoch.elapsed())
        };
        (0..BATCH).map(window).collect()
    };
    let all: Vec<Vec<(Duration, Duration)>> = std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..threads)
            .map_while(|i| std::thread::Builder::new().spawn_scoped(scope, move || work(cores.get(i))).ok())
            .collect();
        if others.len() + 1 < threads {
            // Threads that do run must not wait for those that the system refused.
            arrived.fetch_add((BATCH * threads) as u64, Ordering::AcqRel);
        }
        let own = work(if threads > 1 { cores.first() } else { None });
        let mut all = vec![own];
        all.extend(others.into_iter().filter_map(|t| t.join().ok()));
        all
    });
    if all.len() < threads {
        return vec![f64::INFINITY];
    }
    let span = |i: usize| {
        let start = all.iter().map(|t| t[i].0).min().unwrap_or_default();
        let end = all.iter().map(|t| t[i].1).max().unwrap_or_default();
        (end - start).as_secs_f64().max(1e-9)
    };
    (0..BATCH).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::super::PeakWork;
    use super::*;
    use crate::machine::Isa;

    fn portable() -> PeakLoop {
        PeakLoop::new(Isa::Portable, PeakWork::Float32).expect("every machine that is supported multiplies and adds")
    }

    #[test]
    fn windows_count_what_ran_at_once() {
        for threads in [1, 2] {
            let peak = Peak::measure(&portable(), threads, &super::super::super::cores());
            assert!(peak.gflops > 0.5 && peak.windows as usize >= LEAST_WINDOWS, "{peak:?}");
            assert_eq!(peak.threads, threads);
        }
    }

    /// Two threads on one core are not twice as fast.
    #[test]
    #[cfg(target_os = "linux")]
    fn threads_that_share_a_core_are_no_faster() {
        let cores = super::super::super::cores();
        let &core = cores.first().expect("linux names the cores of a thread");
        let one = Peak::measure(&portable(), 1, &[core]);
        let two = Peak::measure(&portable(), 2, &[core, core]);
        assert!(two.gflops < 1.5 * one.gflops, "{one:?}, {two:?}");
    }

    #[test]
    fn what_is_suspicious_is_not_trusted() {
        let peak = Peak { gflops: 100.0, threads: 2, windows: 40, spread: 0.01 };
        assert!(peak.is_trusted(99.0));
        assert!(!peak.is_trusted(150.0), "a kernel is faster");
        assert!(!Peak { spread: 0.3, ..peak }.is_trusted(50.0), "one window alone");
        assert!(!Peak { windows: 3, ..peak }.is_trusted(50.0));
        let of = Peak::of(&[10e9, 9e9, 8e9, 1e9], 1);
        assert!((of.spread - 0.2).abs() < 1e-12 && of.gflops == 10.0);
    }
}
