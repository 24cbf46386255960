//! The chunks of a parallel loop, and who takes which.
//!
//! Each worker has a part of the loop, which it takes chunk by chunk from the front; then it helps the others with theirs. A slow or
//! late worker so delays the end by one chunk at most, and the next loop over the same data finds each part in the caches of the
//! core that had it before.
//!
//! Exported objects contain this file too: it allocates nothing and never panics.

use core::num::NonZeroU64;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Number of chunks that each worker should get, if the grain allows.
const CHUNKS_PER_WORKER: u64 = 4;

/// Maximum number of parts; where there are more workers, some share one.
const PARTS: usize = 32;

/// The next chunk of a part, in a cache line of its own.
#[repr(align(64))]
struct Next(AtomicU64);

/// A parallel loop that is running.
pub(crate) struct Chunks {
    extent: u64,
    /// Number of iterations of a chunk.
    size: NonZeroU64,
    n_parts: NonZeroU64,
    /// Each part has so many chunks, the first `n_longer` have one more.
    chunks_per_part: u64,
    n_longer: u64,
    next: [Next; PARTS],
}

/// A number that is at least 1.
fn at_least_one(n: i64) -> NonZeroU64 {
    u64::try_from(n).ok().and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN)
}

impl Chunks {
    /// The chunks of `0..extent` for so many workers, of at least `grain` iterations.
    pub(crate) fn new(extent: i64, grain: i64, workers: i64) -> Chunks {
        let (extent, workers) = (u64::try_from(extent).unwrap_or(0), at_least_one(workers));
        let share = extent / workers.saturating_mul(NonZeroU64::MIN.saturating_add(CHUNKS_PER_WORKER - 1));
        let size = at_least_one(grain).max(NonZeroU64::new(share).unwrap_or(NonZeroU64::MIN));
        let n_chunks = extent / size + u64::from(extent % size != 0);
        let n_parts = workers.min(NonZeroU64::MIN.saturating_add(PARTS as u64 - 1));
        let chunks = Chunks {
            extent,
            size,
            n_parts,
            chunks_per_part: n_chunks / n_parts,
            n_longer: n_chunks % n_parts,
            next: [const { Next(AtomicU64::new(0)) }; PARTS],
        };
        for (part, next) in (0..n_parts.get()).zip(&chunks.next) {
            next.0.store(chunks.first_chunk(part), Release);
        }
        chunks
    }

    /// The number of the first chunk of a part.
    fn first_chunk(&self, part: u64) -> u64 {
        part.wrapping_mul(self.chunks_per_part).wrapping_add(part.min(self.n_longer))
    }

    /// The first and the end of the iterations that a worker does next; `None` if all are taken.
    pub(crate) fn take(&self, worker: i64) -> Option<(i64, i64)> {
        let own = u64::try_from(worker).unwrap_or(0) % self.n_parts;
        (own..self.n_parts.get()).chain(0..own).find_map(|part| {
            let next = self.next.get(part as usize)?;
            let end = self.first_chunk(part.wrapping_add(1));
            if next.0.load(Acquire) >= end {
                return None;
            }
            let chunk = next.0.fetch_add(1, AcqRel);
            let first = chunk.wrapping_mul(self.size.get());
            (chunk < end).then(|| (first as i64, first.wrapping_add(self.size.get()).min(self.extent) as i64))
        })
    }

    /// Whether all chunks are taken.
    #[cfg(any(test, tvmr_support))]
    pub(crate) fn are_taken(&self) -> bool {
        (1..=self.n_parts.get()).zip(&self.next).all(|(after, next)| next.0.load(Acquire) >= self.first_chunk(after))
    }

    /// Takes all chunks that are left, so that the loop ends.
    pub(crate) fn stop(&self) {
        for (after, next) in (1..=self.n_parts.get()).zip(&self.next) {
            next.0.store(self.first_chunk(after), Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iteration_is_in_one_chunk_whoever_takes_it() {
        for workers in [1, 2, 3, 32, 33, 100] {
            for extent in [0, 1, 2, 7, 8, 9, 63, 1000] {
                for grain in [1, 3, 100] {
                    let chunks = Chunks::new(extent, grain, workers);
                    let mut hits = vec![0; extent as usize];
                    let mut worker = 0;
                    while let Some((begin, end)) = chunks.take(worker) {
                        (begin..end).for_each(|i| hits[i as usize] += 1);
                        worker = (worker + 5) % workers;
                    }
                    assert!(hits.iter().all(|&n| n == 1), "{workers} workers, {extent} iterations, grain {grain}");
                    assert!(chunks.are_taken());
                }
            }
        }
    }

    #[test]
    fn a_worker_begins_with_its_own_part() {
        let chunks = Chunks::new(800, 1, 2);
        assert_eq!(
            (chunks.take(1), chunks.take(0), chunks.take(1)),
            (Some((400, 500)), Some((0, 100)), Some((500, 600)))
        );
        chunks.stop();
        assert_eq!((chunks.take(0), chunks.are_taken()), (None, true));
    }
}
