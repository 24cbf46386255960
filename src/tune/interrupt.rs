//! Stopping a run from outside.

use crate::measure::Stop;
use crate::stop::StopFlag;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Says that a run is to end, and why. Clones are the same flag; raising it may happen on any thread.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    /// The signal; 0 while there is none.
    signal: AtomicI32,
    running: Mutex<Vec<Arc<dyn Stop>>>,
    /// Raised with it.
    flag: StopFlag,
    /// Has the run noticed?
    is_ending: AtomicBool,
    /// Has the search begun?
    is_searching: AtomicBool,
    /// Is the search over?
    is_finishing: AtomicBool,
}

impl Interrupt {
    /// A flag that is not raised.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Ends the run, as a signal of this number does. Kernels that run return soon.
    pub fn raise(&self, signal: i32) {
        self.0.signal.store(signal, SeqCst);
        self.0.flag.raise();
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|stop| stop.raise());
    }

    /// The signal that ended the run.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.signal.load(SeqCst)).filter(|&s| s != 0)
    }

    /// Is the run to end?
    pub fn is_raised(&self) -> bool {
        self.signal().is_some()
    }

    /// The flag that is raised when the run is to end: what may take long looks at it.
    pub fn flag(&self) -> &StopFlag {
        &self.0.flag
    }

    /// Says that the run is on its way out: what is left is to write what there is.
    pub fn note_ending(&self) {
        self.0.is_ending.store(true, SeqCst);
    }

    /// Is the run on its way out?
    pub fn is_ending(&self) -> bool {
        self.0.is_ending.load(SeqCst)
    }

    /// Says that the search begins: everything that it takes is read and in the database.
    pub fn note_searching(&self) {
        self.0.is_searching.store(true, SeqCst);
    }

    /// Has the search begun?
    pub fn is_searching(&self) -> bool {
        self.0.is_searching.load(SeqCst)
    }

    /// Says that the search is over: finals and the summary are left, which end in time by themselves.
    pub fn note_finishing(&self) {
        self.0.is_finishing.store(true, SeqCst);
    }

    /// Is the search over?
    pub fn is_finishing(&self) -> bool {
        self.0.is_finishing.load(SeqCst)
    }

    /// Raises this flag too when the run is to end.
    pub fn also_stop(&self, stop: Arc<dyn Stop>) {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_raised() {
            stop.raise();
        }
        running.push(stop);
    }
}
