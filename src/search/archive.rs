//! What was measured: the elite, and how often each sketch was tried.

use super::individual::Parent;

/// A candidate that has a time.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Hash of its program.
    pub program: u64,
    /// Its decisions.
    pub genes: Parent,
    /// Seconds.
    pub secs: f64,
}

/// All candidates that have a time, the fastest first.
#[derive(Default)]
pub(super) struct Archive {
    entries: Vec<Measured>,
    /// For each sketch, candidates that were tried, whatever became of them.
    tried: Vec<u64>,
}

impl Archive {
    /// Notes that a candidate of a sketch is tried.
    pub(super) fn note_try(&mut self, sketch: usize) {
        if self.tried.len() <= sketch {
            self.tried.resize(sketch + 1, 0);
        }
        self.tried[sketch] += 1;
    }

    /// How many candidates of a sketch were tried.
    pub(super) fn tried(&self, sketch: usize) -> u64 {
        self.tried.get(sketch).copied().unwrap_or(0)
    }

    /// Adds a candidate behind all that are as fast.
    pub(super) fn add(&mut self, one: Measured) {
        let at = self.entries.partition_point(|e| e.secs <= one.secs);
        self.entries.insert(at, one);
    }

    /// Forgets a candidate that turned out to be wrong.
    pub(super) fn remove(&mut self, program: u64) {
        self.entries.retain(|e| e.program != program);
    }

    /// The fastest ones.
    pub(super) fn elite(&self, n: usize) -> &[Measured] {
        &self.entries[..n.min(self.entries.len())]
    }

    /// The best seconds.
    pub(super) fn best(&self) -> Option<f64> {
        self.entries.first().map(|e| e.secs)
    }
}
