//! Ending work early: the flag that long work looks at.
//!
//! Whoever wants an end raises the flag: a signal, a deadline. Work that may take long is handed a clone and looks at it
//! every few milliseconds at least; what it leaves behind then is of no use, and it says so by an error. Looking is one
//! load, and there is no clock here: deadlines are watched by those who may know the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Raised to make work end early. Clones are the same flag, so that another thread can hold one; a flag of its own, which
/// nobody else has, is never raised.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicU32>);

impl StopFlag {
    /// A flag that is not raised.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Makes what looks at this flag end; kernels return within about 100 µs.
    pub fn raise(&self) {
        self.0.store(1, Relaxed);
    }

    /// Lets work go on again.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Is it raised?
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// What compiled code polls.
    pub(crate) fn as_ptr(&self) -> *const AtomicU32 {
        Arc::as_ptr(&self.0)
    }
}
