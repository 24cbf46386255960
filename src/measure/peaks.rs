//! What this machine can do at most: operations per second, and bytes per second from each level of memory.
//!
//! The peak of operations is measured directly ([`direct`]): as many threads as the kernel has run the same loop at the
//! same time. The loops are a few instructions each, written with intrinsics, so that what runs can be seen in the
//! disassembly of [`kernels`].

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

/// A loop of nothing but independent operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeakLoop {
    isa: Isa,
    work: PeakWork,
}

/// What a peak loop computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeakWork {
    /// Multiply-adds of `float32`.
    Float32,
    /// Multiply-adds of `float64`.
    Float64,
    /// Dot products of four bytes each, of any sign, added up in `int32`.
    Dots,
    /// Integers of so many bits: products and sums by turns, or where there are no products what is as quick as a sum.
    Integers {
        /// 8, 16, 32 or 64.
        bits: u32,
        /// Are there products?
        multiplies: bool,
    },
}

/// Other samples that a median is taken of.
const SAMPLES: usize = 21;

impl PeakLoop {
    /// The loop for an instruction set; `None` where the machine at hand does not have the instructions.
    pub fn new(isa: Isa, work: PeakWork) -> Option<PeakLoop> {
        let is_available = match work {
            PeakWork::Float32 | PeakWork::Float64 => kernels::has(isa),
            PeakWork::Dots => kernels::has_dots(isa),
            PeakWork::Integers { .. } => kernels::has_integers(isa),
        };
        is_available.then_some(PeakLoop { isa, work })
    }

    /// Operations of so many rounds on one thread.
    fn operations(&self, rounds: u64) -> f64 {
        let bits = match self.work {
            PeakWork::Float32 => 32,
            PeakWork::Float64 => 64,
            PeakWork::Dots => 8,
            // Products of bytes, and of 64 bits, are made of others.
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
            PeakWork::Dots => _ = black_box(kernels::dots(self.isa, rounds)),
            PeakWork::Integers { bits, multiplies } => {
                _ = black_box(kernels::integers(self.isa, bits, multiplies, rounds));
            }
        }
    }
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
    let samples = if bytes > 8 << 20 { 4 } else { SAMPLES };
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
    use super::*;
    use crate::machine::tests::cascadelake;
    use std::time::{Duration, Instant};

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
    fn a_level_that_is_missing_is_the_next_one() {
        let bandwidth = Bandwidth { l1: 400e9, l2: 100e9, l3: 30e9, memory: 10e9 };
        assert_eq!(bandwidth.of(Level::L3), 30e9);
        assert_eq!(Bandwidth { l3: 0.0, ..bandwidth }.of(Level::L3), 10e9);
    }
}
