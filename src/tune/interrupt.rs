//! Interrupts a run from outside, by a signal.

use crate::measure::Stop;
use crate::stop::StopFlag;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// A flag that ends a run, with the signal that raised it. Clones are the same flag; any thread may raise it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    /// The signal; 0 for none.
    signal: AtomicI32,
    running: Mutex<Vec<Arc<dyn Stop>>>,
    /// Raised together with the signal.
    flag: StopFlag,
    /// Is the run about to end?
    is_ending: AtomicBool,
    /// Has the search begun?
    is_searching: AtomicBool,
    /// Is the search over?
    is_finishing: AtomicBool,
}

impl Interrupt {
    /// An interrupt that is not raised.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Ends the run like a signal of this number. Running kernels return soon.
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

    /// The flag that is raised when the run is to end. Long work polls it.
    pub fn flag(&self) -> &StopFlag {
        &self.0.flag
    }

    /// Notes that the run is about to end: it only writes its results.
    pub fn note_ending(&self) {
        self.0.is_ending.store(true, SeqCst);
    }

    /// Is the run about to end?
    pub fn is_ending(&self) -> bool {
        self.0.is_ending.load(SeqCst)
    }

    /// Notes that the search begins: its inputs are read, and its workloads are in the database.
    pub fn note_searching(&self) {
        self.0.is_searching.store(true, SeqCst);
    }

    /// Has the search begun?
    pub fn is_searching(&self) -> bool {
        self.0.is_searching.load(SeqCst)
    }

    /// Notes that the search is over: finals and the summary, which are left, end in time by themselves.
    pub fn note_finishing(&self) {
        self.0.is_finishing.store(true, SeqCst);
    }

    /// Is the search over?
    pub fn is_finishing(&self) -> bool {
        self.0.is_finishing.load(SeqCst)
    }

    /// Registers another flag that is raised when the run is to end.
    pub fn also_stop(&self, stop: Arc<dyn Stop>) {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_raised() {
            stop.raise();
        }
        running.push(stop);
    }
}
