//! What this machine can do at most: multiply-adds per second, and bytes per second from each level of memory.
//!
//! A kernel's share of the peak is the median over pairs of the kernel and the peak loop, run alternately: the clock drifts
//! more than kernels differ ([`share_of_peak`]). The loops are a few instructions each, written with intrinsics, so that
//! what runs can be seen in the disassembly of [`kernels`].

mod kernels;

use super::arguments::{Arguments, ParamSpec};
use super::executable::{Executable, RunFailure};
use super::stats::median;
use super::timer::Timer;
use super::timing::{batch, calibrate};
use crate::ir::DType;
use crate::loopir::Access;
use crate::target::{Isa, Target};
use std::hint::black_box;
use std::time::Duration;

/// A loop of nothing but independent multiply-adds, of `int8` dot products of four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeakLoop {
    isa: Isa,
    dtype: DType,
    threads: u32,
    /// Rounds of the loop in a call.
    rounds: u64,
}

/// Pairs of kernel and peak loop.
const PAIRS: usize = 21;
/// Rounds of a call: some tens of microseconds.
const ROUNDS: u64 = 10_000;
/// Pairs at least, however long the kernel takes.
const LEAST_PAIRS: usize = 5;
/// No further pair starts after this time.
const PAIRS_TIME: Duration = Duration::from_millis(250);
/// No pair may take longer than this.
const LIMIT: Duration = Duration::from_secs(60);

impl PeakLoop {
    /// The loop for an instruction set and `float32`, `float64` or `int8`, which stands for bytes of any sign added up in
    /// `int32`; `None` for other types, or where the machine at hand does not have the instructions.
    pub fn new(isa: Isa, dtype: DType, threads: u32) -> Option<PeakLoop> {
        let available = match dtype {
            DType::Float32 | DType::Float64 => kernels::has(isa),
            DType::Int8 => kernels::has_dots(isa),
            _ => false,
        };
        available.then_some(PeakLoop { isa, dtype, threads, rounds: ROUNDS })
    }

    /// Operations of a call, two for each multiply-add, as if all threads ran one: waking threads up takes longer than the
    /// loop on some machines, so that it is run on one, and the others are taken to be as fast.
    pub fn flops(&self) -> f64 {
        let lanes = f64::from(self.isa.vector_bits()) / f64::from(self.dtype.bits());
        self.rounds as f64 * kernels::ACCUMULATORS as f64 * lanes * 2.0 * f64::from(self.threads)
    }

    fn run_here(&self) {
        match self.dtype {
            DType::Float64 => black_box(kernels::fma_f64(self.isa, black_box(self.rounds))),
            DType::Int8 => black_box(f64::from(kernels::dots(self.isa, black_box(self.rounds)))),
            _ => black_box(f64::from(kernels::fma_f32(self.isa, black_box(self.rounds)))),
        };
    }

    /// Operations per second: the median of many calls.
    pub fn flops_per_second(&self, timer: &dyn Timer) -> f64 {
        let rates: Vec<f64> = (0..PAIRS)
            .map(|_| {
                let start = timer.now();
                self.run_here();
                self.flops() / (timer.now() - start).as_secs_f64().max(1e-9)
            })
            .collect();
        median(&rates)
    }
}

impl Executable for PeakLoop {
    fn run(&self, _args: &mut Arguments) -> Result<(), RunFailure> {
        self.run_here();
        Ok(())
    }

    fn threads(&self) -> u32 {
        1
    }
}

/// The share of the peak that a kernel of so many floating-point operations reaches.
///
/// # Errors
/// The kernel failed.
pub fn share_of_peak(
    exe: &dyn Executable,
    flops: f64,
    peak: &PeakLoop,
    args: &mut Arguments,
    timer: &dyn Timer,
) -> Result<f64, RunFailure> {
    let calls = calibrate(exe, args, timer, LIMIT)?;
    let mut shares = Vec::new();
    let start = timer.now();
    for pair in 0..PAIRS {
        if pair >= LEAST_PAIRS && timer.now() - start >= PAIRS_TIME {
            break;
        }
        let (kernel, top) = if pair % 2 == 0 {
            let kernel = batch(exe, args, timer, calls, LIMIT)?;
            (kernel, batch(peak, args, timer, 1, LIMIT)?)
        } else {
            let top = batch(peak, args, timer, 1, LIMIT)?;
            (batch(exe, args, timer, calls, LIMIT)?, top)
        };
        shares.push((flops / kernel) / (peak.flops() / top));
    }
    Ok(median(&shares))
}

/// A level of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the level it names")]
pub enum Level {
    L1,
    L2,
    L3,
    Memory,
}

impl Level {
    /// From the nearest to the farthest.
    pub const ALL: [Level; 4] = [Level::L1, Level::L2, Level::L3, Level::Memory];

    /// The level that so many bytes fit.
    pub fn of(bytes: u64, target: &Target) -> Level {
        let l3 = target.l3.map_or(0, |c| c.bytes);
        match bytes {
            b if b <= target.l1d.bytes => Level::L1,
            b if b <= target.l2.bytes => Level::L2,
            b if b <= l3 => Level::L3,
            _ => Level::Memory,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::L1 => "L1",
            Level::L2 => "L2",
            Level::L3 => "L3",
            Level::Memory => "memory",
        }
    }

    /// Bytes to read over and over to measure the level; `None` for a level the machine does not have.
    fn sample(self, target: &Target) -> Option<u64> {
        let l3 = target.l3.map(|c| c.bytes);
        Some(match self {
            Level::L1 => target.l1d.bytes / 2,
            Level::L2 => target.l2.bytes / 2,
            // Four times the level before, so that little of it helps, and no more than a few megabytes: others use it.
            Level::L3 => (target.l2.bytes * 4).min(l3? / 2),
            // Several times the last level, which others may have filled; some virtual machines report the cache of a
            // whole host.
            Level::Memory => (l3.unwrap_or(target.l2.bytes) * 4).clamp(32 << 20, 256 << 20),
        })
    }
}

/// Bytes per second that one core reads from each level.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bandwidth {
    /// First-level cache.
    pub l1: f64,
    /// Second-level cache.
    pub l2: f64,
    /// Third-level cache; 0 where there is none.
    pub l3: f64,
    /// Main memory.
    pub memory: f64,
}

impl Bandwidth {
    /// Measures all levels: some tens of milliseconds, most of them for memory.
    pub fn measure(target: &Target, timer: &dyn Timer) -> Bandwidth {
        let of = |level: Level| level.sample(target).map_or(0.0, |bytes| read_bandwidth(bytes as usize, timer));
        Bandwidth { l1: of(Level::L1), l2: of(Level::L2), l3: of(Level::L3), memory: of(Level::Memory) }
    }

    /// Of a level; of the next farther one where there is no such.
    pub fn of(&self, level: Level) -> f64 {
        match level {
            Level::L1 => self.l1,
            Level::L2 => self.l2,
            Level::L3 if self.l3 > 0.0 => self.l3,
            Level::L3 | Level::Memory => self.memory,
        }
    }
}

/// What the machine can do at most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Peaks {
    /// `float32` operations per second, with that many threads.
    pub flops: f64,
    /// Bytes per second of one core.
    pub bandwidth: Bandwidth,
    /// The number of threads.
    pub threads: u32,
}

impl Peaks {
    /// Measures; `None` where the instruction set is not that of this machine.
    pub fn measure(target: &Target, isa: Isa, threads: u32, timer: &dyn Timer) -> Option<Peaks> {
        let flops = PeakLoop::new(isa, DType::Float32, threads)?.flops_per_second(timer);
        Some(Peaks { flops, bandwidth: Bandwidth::measure(target, timer), threads })
    }

    /// The least time in seconds of a function that does so many operations and touches so many bytes, by the roofline of
    /// the level they fit. Bandwidth of caches is taken to grow with the threads, that of memory is not.
    pub fn bound(&self, flops: f64, bytes: u64, target: &Target) -> f64 {
        let level = Level::of(bytes, target);
        let cores = if level == Level::Memory { 1.0 } else { f64::from(self.threads) };
        (flops / self.flops).max(bytes as f64 / (self.bandwidth.of(level) * cores))
    }
}

/// The least seconds in which one core reads and writes so many bytes over and over: as much as is written is copied, what
/// is read beyond that is read alone.
pub fn traffic(read: u64, written: u64, target: &Target, timer: &dyn Timer) -> f64 {
    let bytes = read.saturating_add(written);
    // Of what no cache holds, a part says as much.
    let sample = bytes.clamp(LEAST_BYTES, Level::Memory.sample(target).unwrap_or(bytes).max(LEAST_BYTES)) as usize;
    let copied = bytes.min(written.saturating_mul(2));
    let secs = |bytes: u64, rate: &dyn Fn() -> f64| if bytes == 0 { 0.0 } else { bytes as f64 / rate() };
    secs(copied, &|| copy_bandwidth(sample, timer)) + secs(bytes - copied, &|| read_bandwidth(sample, timer))
}

/// Fewer bytes would show the cost of starting a loop.
const LEAST_BYTES: u64 = 4096;

/// Bytes per second when so many are read over and over; 0 where there is no memory for them.
fn read_bandwidth(bytes: usize, timer: &dyn Timer) -> f64 {
    let Some(mut data) = sample(bytes) else { return 0.0 };
    let data = data.bytes_mut(0);
    rate(data.len(), timer, || {
        black_box(kernels::read(black_box(data)));
    })
}

/// Bytes per second, read and written, when half of so many are copied over and over; 0 where there is no memory for them.
fn copy_bandwidth(bytes: usize, timer: &dyn Timer) -> f64 {
    let Some(mut data) = sample(bytes) else { return 0.0 };
    let data = data.bytes_mut(0);
    let n = data.len();
    let (from, to) = data.split_at_mut(n / 2);
    rate(n, timer, || black_box(&mut *to).copy_from_slice(black_box(from)))
}

/// Bytes where a function's arguments would lie: what large pages bring is part of the bandwidth.
fn sample(bytes: usize) -> Option<Arguments> {
    let len = i64::try_from(bytes.next_multiple_of(1024)).ok()?;
    let spec = ParamSpec::new("sample", DType::UInt8, &[len], Access::Out);
    let mut data = Arguments::new(&[spec], 0).ok()?;
    // Pages that nothing was written to are all one.
    data.bytes_mut(0).fill(1);
    Some(data)
}

/// Bytes per second of a pass over so many: the median of several batches.
fn rate(bytes: usize, timer: &dyn Timer, mut pass: impl FnMut()) -> f64 {
    // Long against the clock, and at least a pass.
    let passes = (1_000_000 / bytes).max(1);
    let samples = if bytes > 8 << 20 { 4 } else { PAIRS };
    let mut rates = Vec::new();
    // The first brings the data to where it fits.
    for sample in 0..=samples {
        let start = timer.now();
        for _ in 0..passes {
            pass();
        }
        let secs = (timer.now() - start).as_secs_f64().max(1e-9);
        if sample > 0 {
            rates.push((passes * bytes) as f64 / secs);
        }
    }
    median(&rates)
}

#[cfg(test)]
mod tests {
    use super::super::fakes::{Fake, args};
    use super::super::timer::MockTimer;
    use super::*;
    use crate::target::tests::cascadelake;
    use std::time::Instant;

    /// Any flag will do: nothing is stopped.
    struct Wall(Instant);

    impl Timer for Wall {
        fn now(&self) -> Duration {
            self.0.elapsed()
        }

        fn arm(&self, _limit: Duration) {}

        fn disarm(&self) -> bool {
            false
        }
    }

    #[test]
    fn wider_vectors_do_more() {
        let timer = Wall(Instant::now());
        for isa in Isa::ALL {
            let Some(peak) = PeakLoop::new(isa, DType::Float32, 1) else { continue };
            let rate = peak.flops_per_second(&timer);
            assert!(rate > 1e9, "{isa}: {rate:.3e}");
        }
        assert_eq!(PeakLoop::new(Isa::Portable, DType::Int16, 1), None);
    }

    #[test]
    fn a_kernel_that_is_the_peak_loop_reaches_it() {
        let timer = Wall(Instant::now());
        let Some(peak) = PeakLoop::new(Isa::Portable, DType::Float32, 1) else { return };
        let share = share_of_peak(&peak, peak.flops(), &peak, &mut args(), &timer).unwrap();
        // Loosely, for tests run beside each other.
        assert!((0.7..1.4).contains(&share), "{share}");
    }

    #[test]
    fn shares_follow_from_ratios() {
        // A clock that a call advances by a microsecond per megaflop; the peak loop takes none of it.
        let timer = MockTimer::new();
        let exe = Fake::timed(&timer, |_| Duration::from_micros(50));
        let Some(peak) = PeakLoop::new(Isa::Portable, DType::Float32, 1) else { return };
        assert!(share_of_peak(&exe, 1e6, &peak, &mut args(), &timer).unwrap() < 1e-3);
    }

    #[test]
    fn working_sets_have_levels() {
        let target = cascadelake();
        for (bytes, level) in
            [(1 << 10, Level::L1), (100 << 10, Level::L2), (4 << 20, Level::L3), (200 << 20, Level::Memory)]
        {
            assert_eq!(Level::of(bytes, &target), level);
        }
        let no_l3 = Target { l3: None, ..cascadelake() };
        assert_eq!(Level::of(4 << 20, &no_l3), Level::Memory);
        assert_eq!(Level::L3.sample(&no_l3), None);
        for target in [&target, &no_l3] {
            let samples: Vec<u64> = Level::ALL.iter().filter_map(|l| l.sample(target)).collect();
            assert!(samples.is_sorted());
        }
    }

    #[test]
    fn traffic_grows_with_the_bytes() {
        let (timer, target) = (Wall(Instant::now()), Target::native().target);
        let secs = |read, written| traffic(read, written, &target, &timer);
        assert!(secs(1 << 24, 0) > secs(1 << 14, 0));
        assert!(secs(1 << 23, 1 << 23) > secs(1 << 13, 1 << 13));
        assert_eq!(secs(0, 0), 0.0);
    }

    #[test]
    fn the_roofline_is_the_higher_bound() {
        let bandwidth = Bandwidth { l1: 400e9, l2: 100e9, l3: 30e9, memory: 10e9 };
        let peaks = Peaks { flops: 100e9, bandwidth, threads: 2 };
        let target = cascadelake();
        assert_eq!(peaks.bound(1e9, 1 << 20, &target), 0.01);
        assert_eq!(peaks.bound(1.0, 1_000_000_000, &target), 0.1);
        assert_eq!(peaks.bound(1.0, 600_000, &target), 600_000.0 / 200e9);
        assert_eq!(Bandwidth { l3: 0.0, ..bandwidth }.of(Level::L3), 10e9);
    }
}
