//! The stop flag, which ends long work early.
//!
//! A signal or a deadline raises the flag. Long work receives a clone, checks it at least every few milliseconds, and
//! then fails with an error; its partial results must not be used. A check is a single load, and this module reads no
//! clock: deadlines are enforced by the modules that may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A flag that asks work to end early. Clones share one flag, so that another thread can raise it; a flag without
/// clones is never raised.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicU32>);

impl StopFlag {
    /// A new flag, not raised.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Raises the flag; kernels return within about 100 µs.
    pub fn raise(&self) {
        self.0.store(1, Relaxed);
    }

    /// Clears the flag.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// The address that compiled code polls.
    pub fn as_ptr(&self) -> *const AtomicU32 {
        Arc::as_ptr(&self.0)
    }
}
