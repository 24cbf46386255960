//! Racing: determines which of two kernels is faster.
//!
//! The clock of a CPU drifts by more than kernels differ, so times from different moments are not comparable. Batches
//! of candidate and incumbent alternate, and the median of the ratios of adjacent batches decides. Twenty pairs
//! separate kernels that differ by 1 %; a candidate that is clearly slower is dropped after a few. Each batch of a long
//! kernel forms a pair with the one before it and with the one after it.

use super::arguments::Arguments;
use super::executable::{Executable, RunFailure};
use super::stats::{least, median};
use super::timer::Timer;
use super::timing::{batch, calls_for};
use std::time::Duration;

/// Options of a race.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RaceOptions {
    /// Number of pairs before a candidate may be dropped.
    pub first_pairs: usize,
    /// Maximum number of pairs.
    pub pairs: usize,
    /// A candidate with a median ratio above this after the first pairs is dropped.
    pub drop_ratio: f64,
    /// A candidate with a median ratio below this after a few more pairs has won.
    pub win_ratio: f64,
    /// Time after which no further pair starts, once the first pairs have run.
    pub time: Duration,
    /// Time limit of a batch.
    pub limit: Duration,
}

impl Default for RaceOptions {
    fn default() -> Self {
        RaceOptions {
            first_pairs: 3,
            pairs: 20,
            drop_ratio: 1.10,
            win_ratio: 0.85,
            time: Duration::from_millis(15),
            limit: Duration::from_secs(60),
        }
    }
}

/// Number of pairs after which a smaller difference decides, in either direction.
const HALF_WAY: usize = 10;
/// Ratio that decides half way: a candidate slower by this is slower at the end as well, with few exceptions per
/// thousand.
const HALF_WAY_RATIO: f64 = 1.04;

/// Seconds of a batch from which disturbances are relatively small, so that fewer pairs decide.
const LONG: f64 = 2e-3;
/// Ratio at which a single pair of long batches decides, if the earlier estimate agrees.
const LONG_RATIO: f64 = 1.03;
/// Ratio at which a single pair of long batches decides alone.
const ONCE_RATIO: f64 = 1.06;
/// Ratio at which two pairs of long batches decide.
const TWICE_RATIO: f64 = 1.01;

/// Result of a candidate against the incumbent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Faster.
    Faster,
    /// The difference is not significant.
    Tie,
    /// Slower.
    Slower,
}

/// The result of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct Race {
    /// Seconds per call of the candidate's batches.
    pub candidate_secs: Vec<f64>,
    /// Seconds per call of the incumbent's batches.
    pub incumbent_secs: Vec<f64>,
    /// Calls in a batch of the candidate.
    pub calls: u64,
    /// Median of the pairwise ratios of candidate over incumbent.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio.
    pub interval: (f64, f64),
    /// The conclusion.
    pub standing: Standing,
}

/// Races a candidate against the incumbent, each given with its estimated seconds per call. If a call is long enough to
/// be a batch, `ran` is the time of the candidate's run just before.
///
/// # Errors
/// If one of them failed or exceeded the limit.
pub fn race(
    candidate: (&dyn Executable, f64),
    incumbent: (&dyn Executable, f64),
    ran: Option<f64>,
    args: &mut Arguments,
    timer: &dyn Timer,
    options: &RaceOptions,
) -> Result<Race, RaceFailure> {
    let (c_calls, i_calls) = (calls_of(candidate.1), calls_of(incumbent.1));
    let (mut c_secs, mut i_secs, mut ratios) = (Vec::from_iter(ran), Vec::new(), Vec::new());
    let start = timer.now();
    while ratios.len() < options.pairs.max(1) {
        let run_candidate = |args: &mut Arguments| {
            batch(candidate.0, args, timer, c_calls, options.limit).map_err(RaceFailure::Candidate)
        };
        let run_incumbent = |args: &mut Arguments| {
            batch(incumbent.0, args, timer, i_calls, options.limit).map_err(RaceFailure::Incumbent)
        };
        // Alternate who goes first, so that a drift favours neither.
        let is_even = ratios.len() % 2 == 0;
        let reuses = ran.is_some();
        if is_even && !reuses {
            c_secs.push(run_candidate(args)?);
        }
        if is_even || !reuses {
            i_secs.push(run_incumbent(args)?);
        }
        if !is_even {
            c_secs.push(run_candidate(args)?);
        }
        let (Some(&c), Some(&i)) = (c_secs.last(), i_secs.last()) else { break };
        ratios.push(c / i);
        let (n, ratio) = (ratios.len(), median(&ratios));
        if n < options.first_pairs {
            // The earlier estimate and one pair must agree, or two pairs.
            let known = candidate.1 / incumbent.1;
            let is_slower = match n {
                1 if reuses => ratio >= ONCE_RATIO,
                1 => ratio.min(known) >= LONG_RATIO,
                _ => ratios.iter().all(|&r| r >= TWICE_RATIO),
            };
            if i >= LONG && is_slower {
                break;
            }
            continue;
        }
        // Two of three batches may be delayed; a candidate whose best batch beats the incumbent's is not dropped.
        let is_slower = ratio >= options.drop_ratio && least(&c_secs) >= least(&i_secs);
        let is_decided = is_slower
            || n >= options.first_pairs + 2 && ratio <= options.win_ratio
            || n >= HALF_WAY && !(1.0 / HALF_WAY_RATIO..=HALF_WAY_RATIO).contains(&ratio);
        if is_decided || timer.now() - start >= options.time {
            break;
        }
    }
    let (ratio, interval) = (median(&ratios), median_interval(&ratios));
    let standing = match interval {
        (_, high) if high < 1.0 => Standing::Faster,
        (low, _) if low > 1.0 => Standing::Slower,
        // Few pairs give a wide interval, but a wide margin is sufficient.
        _ if ratio >= options.drop_ratio => Standing::Slower,
        _ if ratio <= options.win_ratio => Standing::Faster,
        _ => Standing::Tie,
    };
    Ok(Race { candidate_secs: c_secs, incumbent_secs: i_secs, calls: c_calls, ratio, interval, standing })
}

/// Which kernel of a race failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RaceFailure {
    /// The candidate.
    Candidate(RunFailure),
    /// The incumbent, which ran before: the machine is disturbed, or the kernel is not deterministic.
    Incumbent(RunFailure),
}

fn calls_of(secs: f64) -> u64 {
    calls_for(Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX))
}

/// A 95 % confidence interval of the median, from order statistics: with `n` values, about `sqrt(n)` places to either
/// side of the middle. With fewer than six values, their full range.
fn median_interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The number of values below the median is binomial with deviation sqrt(n) / 2; 1.96 of them cover 95 %.
    let below = if n < 6 { 0 } else { ((n as f64 - 1.96 * (n as f64).sqrt()) / 2.0).floor().max(0.0) as usize };
    (sorted[below], sorted[n - 1 - below])
}

/// The times of a finalist.
#[derive(Clone, PartialEq, Debug)]
pub struct Finalist {
    /// Seconds per call of each round's batch.
    pub batch_secs: Vec<f64>,
    /// Calls in a batch.
    pub calls: u64,
    /// Median ratio to the first finalist, over the rounds.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio.
    pub interval: (f64, f64),
}

/// Measures the leaders of a search again, interleaved, the first being the incumbent: 50 rounds, or as many (at least
/// `first_pairs`) as fit the time. A finalist that fails drops out; its place holds the failure.
///
/// # Panics
/// If there are no finalists.
pub fn finals(
    finalists: &[(&dyn Executable, f64)],
    args: &mut Arguments,
    timer: &dyn Timer,
    rounds: usize,
    options: &RaceOptions,
) -> Vec<Result<Finalist, RunFailure>> {
    assert!(!finalists.is_empty(), "a final has finalists");
    let calls: Vec<u64> = finalists.iter().map(|f| calls_of(f.1)).collect();
    let mut secs: Vec<Result<Vec<f64>, RunFailure>> = vec![Ok(Vec::new()); finalists.len()];
    let start = timer.now();
    for round in 0..rounds.max(1) {
        if round >= options.first_pairs && timer.now() - start >= options.time {
            break;
        }
        for place in 0..finalists.len() {
            // Rotate the order, so that each finalist starts equally often.
            let i = (place + round) % finalists.len();
            let Ok(times) = &mut secs[i] else { continue };
            let mut run = || batch(finalists[i].0, args, timer, calls[i], options.limit);
            // A pause of the system may exceed the limit of a short kernel; a kernel that is really slow exceeds it
            // again.
            let ran = run().or_else(|failure| if failure == RunFailure::Stopped { run() } else { Err(failure) });
            match ran {
                Ok(t) => times.push(t),
                Err(failure) => secs[i] = Err(failure),
            }
        }
    }
    // If the first finalist failed, the others are compared with the next one that did not.
    let base: Vec<f64> = secs.iter().find_map(|s| s.as_ref().ok()).cloned().unwrap_or_default();
    secs.into_iter()
        .zip(calls)
        .map(|(times, calls)| {
            let batch_secs = times?;
            let ratios: Vec<f64> = batch_secs.iter().zip(&base).map(|(t, b)| t / b).collect();
            let (ratio, interval) = (median(&ratios), median_interval(&ratios));
            Ok(Finalist { batch_secs, calls, ratio, interval })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fakes::{Fake, args, micros};
    use super::super::timer::MockTimer;
    use super::*;
    use crate::ir::mix::mixed;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// Simulates a drifting clock and a noisy kernel: a wave of 20 % over some 400 calls, and jitter of 2 %.
    struct Machine {
        calls: AtomicU64,
    }

    impl Machine {
        fn factor(&self, seed: u64) -> f64 {
            let n = self.calls.fetch_add(1, SeqCst);
            let x = mixed((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed);
            let jitter = (x >> 40) as f64 / (1u64 << 24) as f64;
            (1.1 + 0.1 * (n as f64 / 60.0).sin()) * (1.0 + 0.02 * jitter)
        }
    }

    fn kernel(timer: &MockTimer, machine: &Arc<Machine>, us: f64, seed: u64) -> Fake {
        let machine = machine.clone();
        Fake::timed(timer, move |_| Duration::from_secs_f64(us * 1e-6 * machine.factor(seed)))
    }

    fn check(candidate_us: f64, seed: u64) -> Race {
        let (timer, machine) = (MockTimer::new(), Arc::new(Machine { calls: AtomicU64::new(seed * 37) }));
        let candidate = kernel(&timer, &machine, candidate_us, seed);
        let incumbent = kernel(&timer, &machine, 50.0, seed + 1);
        let known = (candidate_us * 1e-6, 50e-6);
        race((&candidate, known.0), (&incumbent, known.1), None, &mut args(), &timer, &RaceOptions::default()).unwrap()
    }

    #[test]
    fn two_percent_are_told_apart_under_drift() {
        for seed in 0..40 {
            assert_eq!(check(51.0, seed).standing, Standing::Slower, "{seed}");
            assert_eq!(check(49.0, seed).standing, Standing::Faster, "{seed}");
            let race = check(49.0, seed);
            assert!((race.ratio - 0.98).abs() < 0.01, "{seed}: {}", race.ratio);
        }
    }

    #[test]
    fn equals_are_ties() {
        let ties = (0..40).filter(|&seed| check(50.0, seed).standing == Standing::Tie).count();
        assert!(ties >= 34, "{ties} of 40");
    }

    #[test]
    fn the_clearly_slower_are_dropped_early_and_the_clearly_faster_win_early() {
        for seed in 0..20 {
            let slow = check(60.0, seed);
            assert_eq!((slow.standing, slow.candidate_secs.len()), (Standing::Slower, 3), "{seed}");
            let fast = check(30.0, seed);
            assert_eq!((fast.standing, fast.candidate_secs.len()), (Standing::Faster, 5), "{seed}");
        }
    }

    #[test]
    fn who_is_held_up_twice_is_not_dropped() {
        let timer = MockTimer::new();
        let held_up = Fake::timed(&timer, |call| micros(if call == 1 || call == 2 { 700 } else { 145 }));
        let good = Fake::timed(&timer, |_| micros(164));
        let options = RaceOptions::default();
        let race = race((&held_up, 145e-6), (&good, 164e-6), None, &mut args(), &timer, &options).unwrap();
        assert!(race.standing != Standing::Slower && race.ratio < 0.9, "{race:?}");
    }

    #[test]
    fn long_kernels_are_not_run_twenty_times() {
        let timer = MockTimer::new();
        let exe = |ms: u64| Fake::timed(&timer, move |_| micros(1000 * ms));
        let race =
            race((&exe(99), 0.099), (&exe(100), 0.1), None, &mut args(), &timer, &RaceOptions::default()).unwrap();
        assert_eq!(race.candidate_secs.len(), 3);
        assert_eq!(race.standing, Standing::Faster);
    }

    #[test]
    fn long_batches_need_fewer_pairs_to_be_slower() {
        let timer = MockTimer::new();
        let exe = |us: u64| Fake::timed(&timer, move |_| micros(us));
        let race = |us: u64, known: f64| {
            let options = RaceOptions::default();
            race((&exe(us), known), (&exe(20_000), 0.02), None, &mut args(), &timer, &options).unwrap()
        };
        let outcome = |r: Race| (r.standing, r.candidate_secs.len());
        assert_eq!(outcome(race(24_000, 0.024)), (Standing::Slower, 1));
        // The first run was not slow.
        assert_eq!(outcome(race(24_000, 0.02)), (Standing::Slower, 2));
        assert_eq!(outcome(race(20_400, 0.0204)), (Standing::Slower, 2));
        assert_eq!(outcome(race(20_100, 0.0201)), (Standing::Slower, 3));
    }

    #[test]
    fn a_long_run_before_the_race_is_part_of_it() {
        let timer = MockTimer::new();
        let exe = |us: u64| Fake::timed(&timer, move |_| micros(us));
        let race = |us: u64, ran: f64| {
            let options = RaceOptions::default();
            let start = timer.now();
            let race = race((&exe(us), ran), (&exe(20_000), 0.02), Some(ran), &mut args(), &timer, &options).unwrap();
            // The time of the race itself.
            let ran = (timer.now() - start).as_secs_f64();
            (race.standing, (ran / 0.02).round(), (race.ratio * 1e3).round())
        };
        assert_eq!(race(22_000, 0.022), (Standing::Slower, 1.0, 1100.0));
        // Disturbed, but not slower.
        assert_eq!(race(20_000, 0.021), (Standing::Tie, 3.0, 1000.0));
        assert_eq!(race(20_400, 0.0204), (Standing::Slower, 2.0, 1020.0));
        assert_eq!(race(19_800, 0.0198), (Standing::Faster, 3.0, 990.0));
    }

    #[test]
    fn failures_name_who_failed() {
        let timer = MockTimer::new();
        let good = Fake::timed(&timer, |_| micros(10));
        let hung = Fake::timed(&timer, |_| micros(1_000_000));
        let options = RaceOptions { limit: micros(1000), ..RaceOptions::default() };
        let stopped = race((&hung, 1e-5), (&good, 1e-5), None, &mut args(), &timer, &options);
        assert_eq!(stopped, Err(RaceFailure::Candidate(RunFailure::Stopped)));
        let stopped = race((&good, 1e-5), (&hung, 1e-5), None, &mut args(), &timer, &options);
        assert_eq!(stopped, Err(RaceFailure::Incumbent(RunFailure::Stopped)));
    }

    #[test]
    fn finals_rank_under_drift() {
        let (timer, machine) = (MockTimer::new(), Arc::new(Machine { calls: AtomicU64::new(5) }));
        let times = [50.0, 49.0, 50.5, 49.5];
        let mut kernels: Vec<Fake> =
            times.iter().enumerate().map(|(i, &us)| kernel(&timer, &machine, us, i as u64)).collect();
        kernels.push(Fake::new(|_, _| Err(RunFailure::Failed("no".into()))));
        let finalists: Vec<(&dyn Executable, f64)> = kernels.iter().map(|k| (k as &dyn Executable, 50e-6)).collect();
        let options = RaceOptions { time: Duration::from_secs(1), ..RaceOptions::default() };
        let results = finals(&finalists, &mut args(), &timer, 50, &options);
        for (result, us) in results.iter().zip(times) {
            let finalist = result.as_ref().unwrap();
            assert_eq!(finalist.batch_secs.len(), 50);
            assert!((finalist.ratio - us / 50.0).abs() < 0.004, "{us}: {}", finalist.ratio);
        }
        assert_eq!(results[4], Err(RunFailure::Failed("no".into())));
    }

    #[test]
    fn intervals_narrow_with_the_number() {
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(median_interval(&values), (5.0, 14.0));
        assert_eq!(median_interval(&values[..5]), (0.0, 4.0));
        assert_eq!(median_interval(&values[..1]), (0.0, 0.0));
    }
}
