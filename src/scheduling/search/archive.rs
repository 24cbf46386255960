//! The archive of tried candidates: the elite, and the number of tries of each sketch.

use super::individual::Parent;

/// A candidate with a valid time.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Hash of its program.
    pub program: u64,
    /// Its sketch and decisions.
    pub genes: Parent,
    /// Seconds per call.
    pub secs: f64,
}

/// All candidates with a valid time, fastest first.
#[derive(Default)]
pub(super) struct Archive {
    entries: Vec<Measured>,
    /// For each sketch, the number of candidates tried, whatever their outcome.
    tried: Vec<u64>,
}

impl Archive {
    /// Counts a try of a sketch.
    pub(super) fn note_try(&mut self, sketch: usize) {
        if self.tried.len() <= sketch {
            self.tried.resize(sketch + 1, 0);
        }
        self.tried[sketch] += 1;
    }

    /// Number of candidates of a sketch that were tried.
    pub(super) fn tried(&self, sketch: usize) -> u64 {
        self.tried.get(sketch).copied().unwrap_or(0)
    }

    /// Inserts a candidate after all that are as fast.
    pub(super) fn add(&mut self, one: Measured) {
        let at = self.entries.partition_point(|e| e.secs <= one.secs);
        self.entries.insert(at, one);
    }

    /// Removes a candidate whose result turned out to be wrong.
    pub(super) fn remove(&mut self, program: u64) {
        self.entries.retain(|e| e.program != program);
    }

    /// The `n` fastest candidates.
    pub(super) fn elite(&self, n: usize) -> &[Measured] {
        &self.entries[..n.min(self.entries.len())]
    }

    /// The shortest time in seconds.
    pub(super) fn best(&self) -> Option<f64> {
        self.entries.first().map(|e| e.secs)
    }
}
