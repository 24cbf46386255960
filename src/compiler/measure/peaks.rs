//! Peak performance of this machine: operations per second, and bandwidth from each level of memory.
//!
//! The peak of operations is measured directly ([`direct`]): as many threads as the kernel has run the same loop at the
//! same time. The loops are a few instructions each, written with intrinsics, so that the disassembly of [`kernels`]
//! shows what runs.

#![expect(clippy::disallowed_methods, reason = "measures the peak")]

mod direct;
mod kernels;

pub use direct::Peak;

use super::arguments::{Arguments, ParamSpec};
use super::stats::median;
use super::timer::Timer;
use crate::ir::DType;
use crate::loopir::Access;
use crate::machine::{Isa, Target};
use std::hint::black_box;

/// A loop of independent operations only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeakLoop {
    isa: Isa,
    work: PeakWork,
}

/// The operations of a peak loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeakWork {
    /// Multiply-adds of `float32`.
    Float32,
    /// Multiply-adds of `float64`.
    Float64,
    /// Alternating additions and maxima of `float32`.
    Sums32,
    /// Alternating additions and maxima of `float64`.
    Sums64,
    /// Dot products of four bytes each, of any sign, accumulated in `int32`.
    Dots,
    /// Integer operations: alternating products and sums, or if there are no products, operations as fast as sums.
    Integers {
        /// Width of the integers: 8, 16, 32 or 64.
        bits: u32,
        /// Whether half of the operations are products.
        multiplies: bool,
    },
}

/// Number of samples for the median of other measurements.
const SAMPLES: usize = 21;

impl PeakLoop {
    /// The loop for an instruction set; `None` if this machine does not support it.
    pub fn new(isa: Isa, work: PeakWork) -> Option<PeakLoop> {
        let is_available = match work {
            PeakWork::Float32 | PeakWork::Float64 | PeakWork::Sums32 | PeakWork::Sums64 => kernels::has(isa),
            PeakWork::Dots => kernels::has_dots(isa),
            PeakWork::Integers { .. } => kernels::has_integers(isa),
        };
        is_available.then_some(PeakLoop { isa, work })
    }

    /// Number of operations of `rounds` rounds on one thread.
    fn operations(&self, rounds: u64) -> f64 {
        let bits = match self.work {
            PeakWork::Float32 | PeakWork::Sums32 => 32,
            PeakWork::Float64 | PeakWork::Sums64 => 64,
            PeakWork::Dots => 8,
            // Products of bytes, and of 64 bits, consist of other instructions.
            PeakWork::Integers { bits, multiplies: false }
            | PeakWork::Integers { bits: bits @ 16, multiplies: true } => bits,
            PeakWork::Integers { multiplies: true, .. } => 32,
        };
        let lanes = f64::from(self.isa.vector_bits()) / f64::from(bits);
        rounds as f64 * kernels::ACCUMULATORS as f64 * lanes * 2.0
    }

    fn run(&self, rounds: u64) {
        let rounds = black_box(rounds);
        match self.work {
            PeakWork::Float64 => _ = black_box(kernels::fma_f64(self.isa, rounds)),
            PeakWork::Float32 => _ = black_box(kernels::fma_f32(self.isa, rounds)),
            PeakWork::Sums32 => _ = black_box(kernels::sums_f32(self.isa, rounds)),
            PeakWork::Sums64 => _ = black_box(kernels::sums_f64(self.isa, rounds)),
            PeakWork::Dots => _ = black_box(kernels::dots(self.isa, rounds)),
            PeakWork::Integers { bits, multiplies } => {
                _ = black_box(kernels::integers(self.isa, bits, multiplies, rounds));
            }
        }
    }
}

/// A level of the memory hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the level it names")]
pub enum Level {
    L1,
    L2,
    L3,
    Memory,
}

impl Level {
    /// All levels, nearest first.
    pub const ALL: [Level; 4] = [Level::L1, Level::L2, Level::L3, Level::Memory];

    /// The nearest level that `bytes` fit.
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

    /// Number of bytes to read repeatedly to measure the level; `None` if the machine does not have it.
    fn sample(self, target: &Target) -> Option<u64> {
        let l3 = target.l3.map(|c| c.bytes);
        Some(match self {
            Level::L1 => target.l1d.bytes / 2,
            Level::L2 => target.l2.bytes / 2,
            // Four times the previous level, so that it contributes little, and not much of the cache, which others use
            // too.
            Level::L3 => (target.l2.bytes * 4).min(l3? / 2),
            // Several times the last level, which others may have filled; some virtual machines report the cache of the
            // whole host.
            Level::Memory => (l3.unwrap_or(target.l2.bytes) * 4).clamp(32 << 20, 256 << 20),
        })
    }
}

/// Read bandwidth of one core from each level, in bytes per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bandwidth {
    /// First-level cache.
    pub l1: f64,
    /// Second-level cache.
    pub l2: f64,
    /// Third-level cache; 0 if there is none.
    pub l3: f64,
    /// Main memory.
    pub memory: f64,
}

impl Bandwidth {
    /// Measures all levels: takes some tens of milliseconds, mostly for memory.
    pub fn measure(target: &Target, timer: &dyn Timer) -> Bandwidth {
        let of = |level: Level| level.sample(target).map_or(0.0, |bytes| read_bandwidth(bytes as usize, timer));
        Bandwidth { l1: of(Level::L1), l2: of(Level::L2), l3: of(Level::L3), memory: of(Level::Memory) }
    }

    /// The bandwidth of a level, or of the next one if the machine does not have it.
    pub fn of(&self, level: Level) -> f64 {
        match level {
            Level::L1 => self.l1,
            Level::L2 => self.l2,
            Level::L3 if self.l3 > 0.0 => self.l3,
            Level::L3 | Level::Memory => self.memory,
        }
    }
}

/// Minimum seconds for one core to read and write these numbers of bytes repeatedly: as many bytes as are both read and written are
/// copied, further ones are only read or only written. A line that is written moves to a near cache and back, so that filling takes as
/// long as copying the same number of bytes (measured in the L2 cache of Emerald Rapids: 46 and 92 GB/s, the latter of bytes read and
/// written).
pub fn traffic(read: u64, written: u64, target: &Target, timer: &dyn Timer) -> f64 {
    let bytes = read.saturating_add(written);
    // A part is representative of data that no cache holds.
    let sample = bytes.clamp(LEAST_BYTES, Level::Memory.sample(target).unwrap_or(bytes).max(LEAST_BYTES)) as usize;
    let both = read.min(written);
    let secs = |bytes: u64, rate: &dyn Fn() -> f64| if bytes == 0 { 0.0 } else { bytes as f64 / rate() };
    secs(both.saturating_mul(2), &|| copy_bandwidth(sample, timer))
        + secs(read - both, &|| read_bandwidth(sample, timer))
        + secs(written - both, &|| write_bandwidth(sample, timer))
}

/// Minimum bytes for a sample: smaller ones measure loop overhead.
const LEAST_BYTES: u64 = 4096;

/// Bandwidth in bytes per second of reading `bytes` repeatedly; 0 if they cannot be allocated.
fn read_bandwidth(bytes: usize, timer: &dyn Timer) -> f64 {
    let Some(mut data) = sample(bytes) else { return 0.0 };
    let data = data.bytes_mut(0);
    rate(data.len(), timer, || {
        black_box(kernels::read(black_box(data)));
    })
}

/// Bandwidth in bytes per second, read and written, of copying half of `bytes` to the other half; 0 if they cannot be allocated. The
/// faster of the library's way and of plain vectors: the former's string instructions move half as much on some CPUs (L3 cache of Zen 5: 60
/// and 110 GB/s).
fn copy_bandwidth(bytes: usize, timer: &dyn Timer) -> f64 {
    let Some(mut data) = sample(bytes) else { return 0.0 };
    let data = data.bytes_mut(0);
    let n = data.len();
    let (from, to) = data.split_at_mut(n / 2);
    let by_library = rate(n, timer, || black_box(&mut *to).copy_from_slice(black_box(from)));
    by_library.max(rate(n, timer, || kernels::copy(black_box(from), black_box(&mut *to))))
}

/// Bandwidth in bytes per second of writing `bytes` repeatedly, by itself or as the result of a copy; 0 if they cannot be allocated.
fn write_bandwidth(bytes: usize, timer: &dyn Timer) -> f64 {
    let Some(mut data) = sample(bytes) else { return 0.0 };
    let data = data.bytes_mut(0);
    let by_library = rate(data.len(), timer, || black_box(&mut *data).fill(black_box(1)));
    let by_vectors = rate(data.len(), timer, || kernels::fill(black_box(&mut *data)));
    by_library.max(by_vectors).max(copy_bandwidth(bytes, timer) / 2.0)
}

/// Memory allocated like a function's arguments, so that the bandwidth includes the benefit of large pages.
fn sample(bytes: usize) -> Option<Arguments> {
    let len = i64::try_from(bytes.next_multiple_of(1024)).ok()?;
    let spec = ParamSpec::new("sample", DType::UInt8, &[len], Access::Out);
    let mut data = Arguments::new(&[spec], 0).ok()?;
    // Pages that were never written all map to the zero page.
    data.bytes_mut(0).fill(1);
    Some(data)
}

/// Bytes per second of passes over `bytes` bytes: the median of several batches.
fn rate(bytes: usize, timer: &dyn Timer, mut pass: impl FnMut()) -> f64 {
    // At least one pass, and long compared to the clock's resolution.
    let passes = (1_000_000 / bytes).max(1);
    let samples = if bytes > 8 << 20 { 4 } else { SAMPLES };
    let mut rates = Vec::new();
    // The first sample warms up the caches.
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
    use super::*;
    use crate::machine::cascade_lake;
    use std::time::{Duration, Instant};

    /// Nothing is stopped here, so there is no flag.
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
    fn working_sets_have_levels() {
        let target = cascade_lake();
        for (bytes, level) in
            [(1 << 10, Level::L1), (100 << 10, Level::L2), (4 << 20, Level::L3), (200 << 20, Level::Memory)]
        {
            assert_eq!(Level::of(bytes, &target), level);
        }
        let no_l3 = Target { l3: None, ..cascade_lake() };
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
        assert!(secs(0, 1 << 24) > secs(0, 1 << 14));
        assert!(secs(1 << 23, 1 << 23) > secs(1 << 13, 1 << 13));
        assert_eq!(secs(0, 0), 0.0);
    }

    #[test]
    fn a_level_that_is_missing_is_the_next_one() {
        let bandwidth = Bandwidth { l1: 400e9, l2: 100e9, l3: 30e9, memory: 10e9 };
        assert_eq!(bandwidth.of(Level::L3), 30e9);
        assert_eq!(Bandwidth { l3: 0.0, ..bandwidth }.of(Level::L3), 10e9);
    }
}
