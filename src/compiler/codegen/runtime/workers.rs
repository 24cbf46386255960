//! A small pool of threads for the parallel loops of kernels.
//!
//! Forking must take about a microsecond, so waiting workers spin for a while before they sleep, and a loop never waits
//! for a worker that has not noticed it: the caller takes chunks like any worker, closes the loop when none are left,
//! and waits only for workers that joined ([`Chunks`]).
//!
//! The state word holds the loop's number (high half), whether workers may still join, and how many have joined:
//!
//! ```text
//! | number of the loop (32) | open (1) | joined (31) |
//! ```
//!
//! A worker that the system wakes on the core of the caller, which works on, moves to another one: else they would share the
//! core until the system balances its load, some milliseconds later.
//!
//! The description of the loop is written only while the word is closed and nobody has joined, and is read only by
//! workers that joined.

#![expect(clippy::disallowed_methods, reason = "workers wait awake for a limited time")]

use super::chunks::Chunks;
use super::frame::{BodyFn, Frame};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that an idle worker spins before it sleeps. The parallel loops of a kernel, and the runs of a measurement,
/// follow each other faster than this; a longer spin would waste a core.
const SPIN: Duration = Duration::from_micros(50);

/// Number of spins between two looks at the clock.
const SPINS_PER_LOOK: u32 = 64;

const OPEN: u64 = 1 << 31;
const JOINED: u64 = OPEN - 1;
const NUMBER: u64 = 1 << 32;

/// The cores that workers run on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Pinning {
    /// Not pinned: the system decides.
    #[default]
    None,
    /// Worker `i` on core `i` of the list, wrapping around. Worker 0 is the caller of the kernel, and is not pinned.
    Cores(Vec<usize>),
}

/// A pool of threads. One kernel at a time uses it; meanwhile, parallel loops of other kernels run serially in their
/// callers.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The process that has the threads; a forked one has not.
    process: u32,
}

/// A parallel loop.
#[derive(Clone, Copy)]
struct Loop {
    frame: *const Frame,
    body: BodyFn,
    env: *const u8,
    chunks: *const Chunks,
}

/// Aligns a frequently written value to cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    state: Apart<AtomicU64>,
    /// The first non-zero status that a chunk returned.
    status: AtomicU32,
    /// The current loop; see the module's documentation for who may access it when.
    current: UnsafeCell<Option<Loop>>,
    /// Whether a loop is running.
    busy: AtomicBool,
    sleepers: AtomicU32,
    /// The core of the caller when it last woke workers.
    caller_core: AtomicUsize,
    quit: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `current` is written by the owner of `busy` while the state word is closed with nobody joined, and read by
// those who joined (acquire on the state word); the pointers in it are valid until the owner, who waits for all who
// joined, returns from `run`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Workers {
    /// A pool of `threads` threads, including the caller of the kernel.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(threads: usize, pinning: &Pinning) -> std::io::Result<Workers> {
        let shared = Arc::new(Shared {
            state: Apart(AtomicU64::new(0)),
            status: AtomicU32::new(0),
            current: UnsafeCell::new(None),
            busy: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            caller_core: AtomicUsize::new(usize::MAX),
            quit: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        });
        let mut pool = Workers { shared: shared.clone(), threads: Vec::new(), process: std::process::id() };
        for worker in 1..threads.max(1) {
            let shared = shared.clone();
            let core = match pinning {
                Pinning::None => None,
                Pinning::Cores(cores) if cores.is_empty() => None,
                Pinning::Cores(cores) => Some(cores[worker % cores.len()]),
            };
            pool.threads.push(std::thread::Builder::new().name(format!("tvmr-worker-{worker}")).spawn(move || {
                if let Some(core) = core {
                    pin_to(core);
                }
                shared.serve(worker as i64);
            })?);
        }
        Ok(pool)
    }

    /// A pool of the caller alone: parallel loops run serially.
    pub fn serial() -> Workers {
        Workers::new(1, &Pinning::None).expect("no thread is started")
    }

    /// Number of threads, including the caller.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Whether this process has the threads: a process that was forked from theirs has none of them, and must not use the
    /// pool.
    pub fn are_here(&self) -> bool {
        self.threads.is_empty() || self.process == std::process::id()
    }

    /// Runs `body` over `0..extent` and returns the first non-zero status.
    ///
    /// # Safety
    /// `body` may be called with `frame` and `env` from any thread until this returns.
    unsafe fn run(&self, frame: *const Frame, body: BodyFn, env: *const u8, extent: i64, grain: i64) -> u32 {
        let shared = &*self.shared;
        let grain = grain.max(1);
        let alone = self.threads.is_empty() || extent <= grain;
        if alone || shared.busy.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            // SAFETY: as promised by the caller; worker 0 is the caller's own.
            return if extent > 0 { unsafe { body(frame, env, 0, extent, 0) } } else { 0 };
        }
        let chunks = Chunks::new(extent, grain, self.threads() as i64);
        let current = Loop { frame, body, env, chunks: &raw const chunks };
        // SAFETY: this thread holds `busy`, and the last owner closed the word and waited until nobody was joined.
        unsafe { *shared.current.get() = Some(current) };
        shared.status.store(0, Relaxed);
        let number = shared.state.0.load(Relaxed) & !(OPEN | JOINED);
        shared.state.0.store(number.wrapping_add(NUMBER) | OPEN, SeqCst);
        if shared.sleepers.load(SeqCst) > 0 {
            shared.caller_core.store(current_core().unwrap_or(usize::MAX), Relaxed);
            let _guard = shared.lock.lock().unwrap_or_else(|e| e.into_inner());
            shared.wake.notify_all();
        }
        shared.work(&current, 0);
        shared.state.0.fetch_and(!OPEN, AcqRel);
        let mut spins = 0u32;
        while shared.state.0.load(Acquire) & JOINED != 0 {
            spins += 1;
            // A worker that was descheduled in its chunk needs the core more than this loop does.
            if spins.is_multiple_of(1 << 14) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let status = shared.status.load(Acquire);
        shared.busy.store(false, Release);
        status
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if !self.are_here() {
            // There is nobody to wake or to wait for.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.shared.quit.store(true, SeqCst);
        {
            let _guard = self.shared.lock.lock().unwrap_or_else(|e| e.into_inner());
            self.shared.wake.notify_all();
        }
        for thread in self.threads.drain(..) {
            // Workers run no code that panics; if one did, there is nothing to clean up.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Takes chunks until none are left.
    fn work(&self, current: &Loop, worker: i64) {
        // SAFETY: the caller of `run` has the chunks, and waits for this worker.
        let chunks = unsafe { &*current.chunks };
        while let Some((begin, end)) = chunks.take(worker) {
            // SAFETY: promised by the caller of `run`, who has not returned: it waits for this worker.
            let status = unsafe { (current.body)(current.frame, current.env, begin, end, worker) };
            if status != 0 {
                // The first failure counts; the rest of the loop need not run.
                let _ = self.status.compare_exchange(0, status, AcqRel, Relaxed);
                chunks.stop();
            }
        }
    }

    /// The main loop of a worker thread.
    fn serve(&self, worker: i64) {
        let mut last = 0;
        while !self.quit.load(Relaxed) {
            let Some(state) = self.wait_for_work(last) else { continue };
            if self.state.0.compare_exchange(state, state + 1, AcqRel, Relaxed).is_err() {
                continue;
            }
            last = state & !(OPEN | JOINED);
            // SAFETY: this worker joined, so the owner does not touch the cell before it leaves.
            let current = unsafe { *self.current.get() };
            self.work(&current.expect("an open loop is described"), worker);
            self.state.0.fetch_sub(1, AcqRel);
        }
    }

    /// Waits until the state word is open with a number other than `last`, and returns it; `None` after sleeping.
    fn wait_for_work(&self, last: u64) -> Option<u64> {
        let is_new = |state: u64| state & OPEN != 0 && state & !(OPEN | JOINED) != last;
        let started = Instant::now();
        loop {
            for _ in 0..SPINS_PER_LOOK {
                let state = self.state.0.load(Acquire);
                if is_new(state) {
                    return Some(state);
                }
                std::hint::spin_loop();
            }
            if started.elapsed() > SPIN {
                break;
            }
        }
        let guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.sleepers.fetch_add(1, SeqCst);
        // Whoever opens a loop after this check sees the sleeper, and waits for the lock to wake it.
        if !is_new(self.state.0.load(SeqCst)) && !self.quit.load(SeqCst) {
            drop(self.wake.wait(guard).unwrap_or_else(|e| e.into_inner()));
        }
        self.sleepers.fetch_sub(1, SeqCst);
        leave(self.caller_core.load(Relaxed));
        None
    }
}

/// Called by compiled code to run a parallel loop.
///
/// # Safety
/// `frame` and `env` are valid for `body`, which may run on any thread.
pub(crate) unsafe extern "C" fn fork(
    frame: *const Frame,
    body: BodyFn,
    env: *const u8,
    extent: i64,
    grain: i64,
) -> u32 {
    // SAFETY: compiled code passes on the frame it was given, whose `workers` outlives the call.
    unsafe { (*(*frame).workers).run(frame, body, env, extent, grain) }
}

/// The core that the calling thread runs on.
#[cfg(target_os = "linux")]
fn current_core() -> Option<usize> {
    // SAFETY: has no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Moves the calling thread to another core, if it is on this one and may run elsewhere. It may return later.
#[cfg(target_os = "linux")]
fn leave(core: usize) {
    const SIZE: usize = size_of::<libc::cpu_set_t>();
    if current_core() != Some(core) || core >= 8 * SIZE {
        return;
    }
    // SAFETY: the sets are plain bits, each call gets their size, and `core` is one of the bits.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, SIZE, &mut allowed) != 0 {
            return;
        }
        let mut others = allowed;
        libc::CPU_CLR(core, &mut others);
        if libc::CPU_COUNT(&others) > 0 {
            libc::sched_setaffinity(0, SIZE, &others);
            libc::sched_setaffinity(0, SIZE, &allowed);
        }
    }
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
fn current_core() -> Option<usize> {
    None
}

/// Does nothing: pinning is not supported on this system.
#[cfg(not(target_os = "linux"))]
fn leave(_core: usize) {}

/// Pins the calling thread to a core; a failure is ignored, since this only improves performance.
#[cfg(target_os = "linux")]
pub(crate) fn pin_to(core: usize) {
    // SAFETY: `set` is a plain bit set, and the call gets its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Does nothing: pinning is not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn pin_to(_core: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seen {
        hits: Vec<AtomicU32>,
        fail_at: i64,
    }

    unsafe extern "C" fn mark(_: *const Frame, env: *const u8, begin: i64, end: i64, _: i64) -> u32 {
        // SAFETY: the tests pass a `Seen`.
        let seen = unsafe { &*env.cast::<Seen>() };
        for i in begin..end {
            seen.hits[i as usize].fetch_add(1, Relaxed);
        }
        if (begin..end).contains(&seen.fail_at) { 9 } else { 0 }
    }

    fn check(pool: &Workers, extent: i64, grain: i64, fail_at: i64) -> (u32, u32) {
        let seen = Seen { hits: (0..extent).map(|_| AtomicU32::new(0)).collect(), fail_at };
        // SAFETY: `mark` reads nothing but `seen`.
        let status = unsafe { pool.run(std::ptr::null(), mark, (&raw const seen).cast(), extent, grain) };
        assert!(seen.hits.iter().all(|h| h.load(Relaxed) <= 1), "an iteration ran twice");
        (status, seen.hits.iter().map(|h| h.load(Relaxed)).sum())
    }

    #[test]
    fn every_iteration_runs_once() {
        let pool = Workers::new(3, &Pinning::Cores(vec![0])).expect("threads start");
        for round in 0..2000 {
            let extent = round % 97;
            assert_eq!(check(&pool, extent, 1 + round % 5, -1), (0, extent as u32));
            if round % 500 == 0 {
                // Let the workers fall asleep.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(check(&Workers::serial(), 10, 1, -1), (0, 10));
    }

    #[test]
    fn a_failure_ends_the_loop() {
        let pool = Workers::new(2, &Pinning::None).expect("threads start");
        let (status, hits) = check(&pool, 100_000, 1, 0);
        assert_eq!(status, 9);
        assert!(hits <= 100_000);
    }

    #[test]
    fn two_callers_share_a_pool() {
        let pool = Workers::new(2, &Pinning::None).expect("threads start");
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| (0..300).for_each(|_| assert_eq!(check(&pool, 64, 1, -1), (0, 64))));
            }
        });
    }
}
