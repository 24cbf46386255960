//! Clock and deadline, real and mock.
//!
//! A kernel that is told to stop returns by itself: it polls a flag. The real timer has a thread that raises the flag
//! when a deadline passes. Arming costs a fraction of a microsecond, since the thread is woken only if its next look
//! would be too late.

#![expect(clippy::disallowed_methods, reason = "the timer of kernels")]

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A clock with a deadline.
pub trait Timer {
    /// Time since some fixed point.
    fn now(&self) -> Duration;

    /// Sets a deadline: raises the stop flag `limit` from now.
    fn arm(&self, limit: Duration);

    /// Cancels the deadline and clears the flag. Returns whether it was raised.
    fn disarm(&self) -> bool;
}

/// Readings of the clock from which [`reading_secs`] takes the median: well below a millisecond.
const READINGS: usize = 1001;

/// The seconds that one reading of the clock adds to what is timed between two readings: the median of pairs with nothing between.
pub fn reading_secs(timer: &dyn Timer) -> f64 {
    let mut pairs: Vec<Duration> = Vec::with_capacity(READINGS);
    for _ in 0..READINGS {
        let start = timer.now();
        pairs.push(timer.now().saturating_sub(start));
    }
    pairs.sort_unstable();
    pairs[READINGS / 2].as_secs_f64()
}

/// The flag that stops what is measured.
pub trait Stop: Send + Sync {
    /// Makes running kernels return soon.
    fn raise(&self);

    /// Lets kernels run again.
    fn clear(&self);
}

/// The system's monotonic clock, with a watcher thread.
pub struct RealTimer {
    origin: Instant,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

struct Shared {
    stop: Arc<dyn Stop>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    deadline: Option<Instant>,
    /// Time of the watcher's next look; `None` while it waits to be woken.
    looks_at: Option<Instant>,
    is_raised: bool,
    quit: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state consists of plain values, which are consistent even if a holder panicked.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.quit {
            let now = Instant::now();
            match state.deadline {
                Some(deadline) if deadline <= now => {
                    self.stop.raise();
                    state.is_raised = true;
                    state.deadline = None;
                }
                Some(deadline) => {
                    state.looks_at = Some(deadline);
                    let waited = self.changed.wait_timeout(state, deadline - now);
                    state = waited.map_or_else(|e| e.into_inner().0, |(state, _)| state);
                }
                None => {
                    state.looks_at = None;
                    state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
                }
            }
        }
    }
}

impl RealTimer {
    /// A timer that raises this stop flag.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(stop: Arc<dyn Stop>) -> std::io::Result<RealTimer> {
        let shared = Arc::new(Shared { stop, state: Mutex::default(), changed: Condvar::new() });
        let watched = shared.clone();
        let watcher = std::thread::Builder::new().name("tvmr-deadline".into()).spawn(move || watched.watch())?;
        Ok(RealTimer { origin: Instant::now(), shared, watcher: Some(watcher) })
    }
}

impl Timer for RealTimer {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn arm(&self, limit: Duration) {
        // A deadline beyond the clock's range never passes.
        let Some(deadline) = Instant::now().checked_add(limit) else { return };
        let mut state = self.shared.lock();
        state.deadline = Some(deadline);
        if state.looks_at.is_none_or(|at| at > deadline) {
            self.shared.changed.notify_one();
        }
    }

    fn disarm(&self) -> bool {
        let mut state = self.shared.lock();
        state.deadline = None;
        let was_raised = std::mem::take(&mut state.is_raised);
        if was_raised {
            self.shared.stop.clear();
        }
        was_raised
    }
}

impl Drop for RealTimer {
    fn drop(&mut self) {
        self.shared.lock().quit = true;
        self.shared.changed.notify_one();
        if let Some(watcher) = self.watcher.take() {
            // The watcher does not panic, and there is no work left for it.
            let _ = watcher.join();
        }
    }
}

/// A clock that advances only on request, for tests. Clones share one clock.
#[derive(Clone, Debug, Default)]
pub struct MockTimer(Arc<Mutex<MockState>>);

#[derive(Debug, Default)]
struct MockState {
    now: Duration,
    deadline: Option<Duration>,
    is_raised: bool,
}

impl MockTimer {
    /// A clock at zero.
    pub fn new() -> MockTimer {
        MockTimer::default()
    }

    fn state(&self) -> MutexGuard<'_, MockState> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Advances the clock, as a kernel that runs this long would, but only up to the deadline. Returns whether the
    /// kernel was stopped.
    pub fn advance(&self, by: Duration) -> bool {
        let mut state = self.state();
        let end = state.now + by;
        match state.deadline {
            Some(deadline) if deadline < end => {
                state.now = state.now.max(deadline);
                state.is_raised = true;
                true
            }
            _ => {
                state.now = end;
                false
            }
        }
    }
}

impl Timer for MockTimer {
    fn now(&self) -> Duration {
        self.state().now
    }

    fn arm(&self, limit: Duration) {
        let mut state = self.state();
        state.deadline = state.now.checked_add(limit);
    }

    fn disarm(&self) -> bool {
        let mut state = self.state();
        state.deadline = None;
        std::mem::take(&mut state.is_raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Stop for Flag {
        fn raise(&self) {
            self.0.store(true, SeqCst);
        }

        fn clear(&self) {
            self.0.store(false, SeqCst);
        }
    }

    fn timer() -> (Arc<Flag>, RealTimer) {
        let flag = Arc::new(Flag::default());
        (flag.clone(), RealTimer::new(flag).unwrap())
    }

    #[test]
    fn a_deadline_raises_the_flag() {
        let (flag, timer) = timer();
        for _ in 0..3 {
            timer.arm(Duration::from_millis(2));
            let start = timer.now();
            while !flag.0.load(SeqCst) {
                assert!(timer.now() - start < Duration::from_secs(20), "the watcher sleeps");
                std::thread::yield_now();
            }
            assert!(timer.now() - start >= Duration::from_millis(1));
            assert!(timer.disarm());
            assert!(!flag.0.load(SeqCst) && !timer.disarm());
        }
    }

    #[test]
    fn a_deadline_that_is_lifted_does_nothing() {
        let (flag, timer) = timer();
        // Later, earlier and repeated deadlines.
        for limit in [50_000, 1, 2, 50_000, 3] {
            timer.arm(Duration::from_millis(limit));
            if limit > 1000 {
                assert!(!timer.disarm());
            }
        }
        assert!(!timer.disarm() || !flag.0.load(SeqCst));
        std::thread::sleep(Duration::from_millis(8));
        assert!(!flag.0.load(SeqCst));
        timer.arm(Duration::MAX);
        assert!(!timer.disarm());
    }

    #[test]
    fn mock_time_passes_when_told() {
        let timer = MockTimer::new();
        assert!(!timer.advance(Duration::from_secs(3)));
        timer.arm(Duration::from_secs(1));
        assert!(!timer.advance(Duration::from_millis(999)));
        assert!(timer.advance(Duration::from_secs(5)));
        assert_eq!(timer.now(), Duration::from_secs(4));
        assert!(timer.disarm() && !timer.disarm());
        assert!(!timer.advance(Duration::from_secs(9)));
    }
}
