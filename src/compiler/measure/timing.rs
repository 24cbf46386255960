//! Times a kernel: batches, and the benchmark that tuning and later commands report.

use super::arguments::Arguments;
use super::executable::{Executable, RunFailure};
use super::stats::Summary;
use super::timer::Timer;
use std::time::Duration;

/// Minimum duration of a batch: a thousand times the cost of reading the clock.
pub(crate) const MIN_BATCH: Duration = Duration::from_micros(25);
/// Maximum number of calls in a batch.
const MAX_CALLS: u64 = 1 << 24;

/// Number of calls in a batch, given the duration of one.
pub(crate) fn calls_for(call: Duration) -> u64 {
    let (batch, call) = (MIN_BATCH.as_nanos() as u64, call.as_nanos().max(1) as u64);
    batch.div_ceil(call).clamp(1, MAX_CALLS)
}

/// Runs a batch under a deadline; returns the seconds per call.
///
/// # Errors
/// If the kernel failed, or the deadline passed.
pub(crate) fn batch(
    exe: &dyn Executable,
    args: &mut Arguments,
    timer: &dyn Timer,
    calls: u64,
    limit: Duration,
) -> Result<f64, RunFailure> {
    // Outside the measured time. Otherwise values would grow in a kernel that adds to its output.
    args.restore();
    timer.arm(limit);
    let start = timer.now();
    let result = exe.run_many(args, calls);
    let elapsed = timer.now() - start;
    // A kernel that ends just as the flag is raised was in time.
    timer.disarm();
    result?;
    // Avoids a time of 0 if the clock did not advance.
    Ok(elapsed.as_secs_f64().max(1e-10) / calls as f64)
}

/// Times single calls, each on the values that the arguments had at first; returns the seconds of each.
///
/// # Errors
/// If the kernel failed.
pub fn repeat(
    exe: &dyn Executable,
    args: &mut Arguments,
    timer: &dyn Timer,
    calls: u64,
) -> Result<Vec<f64>, RunFailure> {
    (0..calls).map(|_| batch(exe, args, timer, 1, Duration::MAX)).collect()
}

/// Runs the preparation of constant parameters; returns its seconds, or `None` if there is none.
///
/// # Errors
/// As [`batch`].
pub(crate) fn prepare(
    exe: &dyn Executable,
    args: &mut Arguments,
    timer: &dyn Timer,
    limit: Duration,
) -> Result<Option<f64>, RunFailure> {
    timer.arm(limit);
    let start = timer.now();
    let result = exe.prepare(args);
    let elapsed = timer.now() - start;
    timer.disarm();
    Ok(result?.then_some(elapsed.as_secs_f64()))
}

/// Calibrates the number of calls in a batch for an untimed kernel: from one call, then from a few.
///
/// # Errors
/// As [`batch`].
pub(crate) fn calibrate(
    exe: &dyn Executable,
    args: &mut Arguments,
    timer: &dyn Timer,
    limit: Duration,
) -> Result<u64, RunFailure> {
    let mut calls = 1;
    for _ in 0..8 {
        let secs = batch(exe, args, timer, calls, limit)?;
        let wanted = calls_for(Duration::from_secs_f64(secs));
        // Cold caches make the first calls slow; a batch that is nearly long enough will do.
        if wanted <= calls + calls / 4 {
            break;
        }
        calls = wanted;
    }
    Ok(calls)
}

/// Duration of a benchmark.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BenchOptions {
    /// Warm-up time, in which clocks and caches settle.
    pub warm_up: Duration,
    /// Time over which batches are spread. The clock of a CPU drifts over tens of milliseconds, so a short benchmark
    /// measures a single state of it.
    pub total: Duration,
    /// Minimum number of batches, however long they take.
    pub min_batches: usize,
    /// Maximum number of batches.
    pub max_batches: usize,
    /// Time limit of a batch.
    pub limit: Duration,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions {
            warm_up: Duration::from_millis(20),
            total: Duration::from_millis(200),
            min_batches: 7,
            max_batches: 2000,
            limit: Duration::from_secs(60),
        }
    }
}

/// The times of a benchmark.
#[derive(Clone, PartialEq, Debug)]
pub struct Bench {
    /// Seconds per call of every batch.
    pub batch_secs: Vec<f64>,
    /// Calls in a batch.
    pub calls: u64,
    /// Summary of the batches; its median is reported.
    pub summary: Summary,
}

/// Benchmarks a kernel, for the final report of tuning and for later commands.
///
/// # Errors
/// If the kernel failed, or a batch took longer than the limit.
pub fn bench(
    exe: &dyn Executable,
    args: &mut Arguments,
    timer: &dyn Timer,
    options: &BenchOptions,
) -> Result<Bench, RunFailure> {
    let start = timer.now();
    let mut calls = calibrate(exe, args, timer, options.limit)?;
    while timer.now() - start < options.warm_up {
        let secs = batch(exe, args, timer, calls, options.limit)?;
        calls = calls_for(Duration::from_secs_f64(secs)).max(calls);
    }
    // Few long batches give a poor median, and many short ones cost memory: batches are lengthened until the maximum
    // number of them fills the time.
    let start = timer.now();
    let first = batch(exe, args, timer, calls, options.limit)?;
    let per_batch = options.total.as_secs_f64() / options.max_batches.max(1) as f64;
    calls = calls.max((per_batch / first).ceil() as u64).clamp(1, MAX_CALLS);
    let mut batch_secs = Vec::new();
    while batch_secs.len() < options.min_batches
        || batch_secs.len() < options.max_batches && timer.now() - start < options.total
    {
        batch_secs.push(batch(exe, args, timer, calls, options.limit)?);
    }
    let summary = Summary::of(&batch_secs).expect("at least one batch was timed");
    Ok(Bench { batch_secs, calls, summary })
}

#[cfg(test)]
mod tests {
    use super::super::fakes::{Fake, args, micros};
    use super::super::timer::MockTimer;
    use super::*;

    #[test]
    fn batches_are_long_enough_for_the_clock() {
        assert_eq!(calls_for(Duration::from_nanos(1)), 25_000);
        assert_eq!(calls_for(Duration::ZERO), 25_000);
        assert_eq!(calls_for(micros(7)), 4);
        assert_eq!(calls_for(Duration::from_secs(1)), 1);
    }

    #[test]
    fn calibration_sees_through_a_slow_start() {
        let timer = MockTimer::new();
        // The first three calls take a hundred times as long.
        let exe = Fake::timed(&timer, |i| if i < 3 { micros(100) } else { micros(1) });
        let calls = calibrate(&exe, &mut args(), &timer, Duration::MAX).unwrap();
        assert!((20..=30).contains(&calls) || calls == 1, "{calls}");
        let bench = bench(&exe, &mut args(), &timer, &BenchOptions::default()).unwrap();
        assert_eq!(bench.summary.median, 1e-6);
        assert!(bench.calls >= 25);
    }

    #[test]
    fn a_benchmark_fills_its_time() {
        let timer = MockTimer::new();
        let options = BenchOptions::default();
        for (call, batches) in [(micros(1), 2000), (micros(100), 2000), (micros(1000), 200), (micros(500_000), 7)] {
            let exe = Fake::timed(&timer, move |_| call);
            let start = timer.now();
            let bench = bench(&exe, &mut args(), &timer, &options).unwrap();
            let elapsed = timer.now() - start;
            assert!(bench.batch_secs.len().abs_diff(batches) <= batches / 2, "{call:?}: {}", bench.batch_secs.len());
            assert!((bench.summary.median - call.as_secs_f64()).abs() < 1e-9);
            assert!(elapsed >= options.total, "{call:?}: {elapsed:?}");
            assert!(elapsed <= options.total * 2 || call > micros(10_000), "{call:?}: {elapsed:?}");
        }
    }

    #[test]
    fn a_deadline_ends_a_batch() {
        let timer = MockTimer::new();
        let exe = Fake::timed(&timer, |_| micros(30));
        assert_eq!(batch(&exe, &mut args(), &timer, 10, micros(100)), Err(RunFailure::Stopped));
        assert_eq!(timer.now(), micros(100));
        assert!(batch(&exe, &mut args(), &timer, 3, micros(100)).is_ok());
    }
}
