//! The pool of threads of a shared library, off until `NAME_set_num_threads` asks for it.
//!
//! Waiting workers spin for a while before they sleep, so that a loop begins within a microsecond. The caller takes the parts
//! of workers that have not come, and waits only for those that have joined. A worker that the system wakes on the core of the
//! caller, which works on, moves to another one: else they would share the core until the system balances its load, some
//! milliseconds later. The state word holds:
//!
//! ```text
//! | number of the loop (32) | open (1) | joined (31) |
//! ```
//!
//! After `fork` a child has none of the threads: it makes a pool of its own at its first parallel loop.

use crate::abi::{Library, WorkerFn};
use crate::fork::set_hook;
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

unsafe extern "C" {
    fn aligned_alloc(align: usize, size: usize) -> *mut u8;
    fn getpid() -> i32;
    fn sched_getaffinity(thread: i32, size: usize, cores: *mut u64) -> i32;
    fn sched_getcpu() -> i32;
    fn sched_setaffinity(thread: i32, size: usize, cores: *const u64) -> i32;
    fn sched_yield() -> i32;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const u8,
        start: unsafe extern "C" fn(*mut u8) -> *mut u8,
        argument: *mut u8,
    ) -> i32;
    fn pthread_detach(thread: usize) -> i32;
    fn syscall(number: i64, ...) -> i64;
}

const FUTEX: i64 = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
const FUTEX_WAIT_PRIVATE: i32 = 128;
const FUTEX_WAKE_PRIVATE: i32 = 129;

/// Looks at the state word before a worker sleeps: some 50 microseconds.
const SPINS: u32 = 2_000;

/// More threads than this are not started.
const MOST_THREADS: i32 = 1024;

const OPEN: u64 = 1 << 31;
const JOINED: u64 = OPEN - 1;
const NUMBER: u64 = 1 << 32;

/// Fields that are written often have cache lines of their own.
#[repr(align(128))]
struct Apart<T>(T);

/// A pool. It is never freed: its threads wait until the process ends.
struct Pool {
    state: Apart<AtomicU64>,
    /// Number of the next worker that has not begun.
    next: Apart<AtomicI32>,
    /// The loop: valid while the word is open or somebody has joined.
    body: AtomicUsize,
    env: AtomicPtr<u8>,
    n_workers: AtomicI32,
    /// Whether a worker failed.
    failed: AtomicBool,
    /// Whether a loop is running.
    busy: AtomicBool,
    sleepers: AtomicU32,
    /// The core of the caller when it last woke workers.
    caller_core: AtomicI32,
    /// Changes with every loop; sleeping workers wait for that.
    bell: AtomicU32,
    /// Threads that were started.
    n_threads: AtomicI32,
    /// The process that started them.
    process: AtomicI32,
}

/// `NAME_set_num_threads`: 0 or 1 is serial. Returns 0, or an error number if there is no memory.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn tvmr_support_set_num_threads(library: &Library, n: i32) -> i32 {
    if n <= 1 {
        set_hook(library, None, null_mut(), 1);
        return 0;
    }
    let mut pool = library.pool.load(Acquire);
    if pool.is_null() {
        // SAFETY: size and alignment are those of the type.
        let new = unsafe { aligned_alloc(align_of::<Pool>(), size_of::<Pool>()) };
        if new.is_null() {
            return crate::abi::Code::Memory as i32;
        }
        // SAFETY: the block is that large. Zero is a valid value of every field.
        unsafe { new.write_bytes(0, size_of::<Pool>()) };
        // Where two threads came at once, the block of one is lost.
        pool = match library.pool.compare_exchange(null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(other) => other,
        };
    }
    set_hook(library, Some(parallel_for), pool, n.min(MOST_THREADS));
    0
}

/// The hook: workers are the caller and the threads of the pool.
unsafe extern "C" fn parallel_for(ctx: *mut u8, n_workers: i32, body: WorkerFn, env: *mut u8) -> i32 {
    // SAFETY: the context of this hook is a pool, which is never freed.
    let pool = unsafe { &*ctx.cast::<Pool>() };
    if pool.busy.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        // SAFETY: as promised by the caller.
        return (0..n_workers).fold(0, |sum, worker| sum | unsafe { body(env, worker) });
    }
    pool.start_threads(n_workers.wrapping_sub(1));
    pool.body.store(body as usize, Relaxed);
    pool.env.store(env, Relaxed);
    pool.n_workers.store(n_workers, Relaxed);
    pool.failed.store(false, Relaxed);
    pool.next.0.store(0, Relaxed);
    let number = pool.state.0.load(Relaxed) & !(OPEN | JOINED);
    pool.state.0.store(number.wrapping_add(NUMBER) | OPEN, SeqCst);
    if pool.sleepers.load(SeqCst) > 0 {
        // SAFETY: has no preconditions.
        pool.caller_core.store(unsafe { sched_getcpu() }, Relaxed);
        pool.bell.fetch_add(1, SeqCst);
        // SAFETY: wakes whoever waits for this word.
        unsafe { syscall(FUTEX, &raw const pool.bell, FUTEX_WAKE_PRIVATE, i32::MAX, null::<u8>(), null::<u8>(), 0) };
    }
    // SAFETY: the loop is described above and lives until this returns.
    unsafe { pool.work() };
    pool.state.0.fetch_and(!OPEN, AcqRel);
    let mut spins = 0u32;
    while pool.state.0.load(Acquire) & JOINED != 0 {
        spins = spins.wrapping_add(1);
        if spins & 0x3fff == 0 {
            // SAFETY: has no preconditions.
            unsafe { sched_yield() };
        }
        core::hint::spin_loop();
    }
    let failed = pool.failed.load(Acquire);
    pool.busy.store(false, Release);
    i32::from(failed)
}

impl Pool {
    /// Starts threads until there are `wanted`; called by the owner of `busy`.
    fn start_threads(&self, wanted: i32) {
        // SAFETY: has no preconditions.
        let process = unsafe { getpid() };
        if self.process.load(Relaxed) != process {
            // A child of `fork`: the threads, and whatever they were doing, are gone.
            self.process.store(process, Relaxed);
            self.n_threads.store(0, Relaxed);
            self.sleepers.store(0, Relaxed);
            self.state.0.store(0, Relaxed);
        }
        while self.n_threads.load(Relaxed) < wanted {
            let mut thread = 0usize;
            let pool = (&raw const *self).cast_mut().cast();
            // SAFETY: the pool is never freed.
            if unsafe { pthread_create(&raw mut thread, null(), serve, pool) } != 0 {
                // The caller does the work of those that are missing.
                return;
            }
            // SAFETY: the thread was just made, and nobody joins it.
            unsafe { pthread_detach(thread) };
            self.n_threads.fetch_add(1, Relaxed);
        }
    }

    /// Runs workers that nobody has begun.
    unsafe fn work(&self) {
        let n_workers = self.n_workers.load(Relaxed);
        // SAFETY: the word is a function of this type, stored by `parallel_for`.
        let body = unsafe { core::mem::transmute::<usize, WorkerFn>(self.body.load(Relaxed)) };
        let env = self.env.load(Relaxed);
        loop {
            let worker = self.next.0.fetch_add(1, AcqRel);
            if worker >= n_workers {
                return;
            }
            // SAFETY: each number is taken once.
            if unsafe { body(env, worker) } != 0 {
                self.failed.store(true, Release);
            }
        }
    }
}

/// The main loop of a thread.
unsafe extern "C" fn serve(pool: *mut u8) -> *mut u8 {
    // SAFETY: the pool is never freed.
    let pool = unsafe { &*pool.cast::<Pool>() };
    let mut last = 0;
    let mut spins = 0u32;
    loop {
        let state = pool.state.0.load(Acquire);
        let is_new = |state: u64| state & OPEN != 0 && state & !(OPEN | JOINED) != last;
        if is_new(state) {
            if pool.state.0.compare_exchange(state, state.wrapping_add(1), AcqRel, Relaxed).is_ok() {
                last = state & !(OPEN | JOINED);
                // SAFETY: this thread has joined, so the loop lives until it leaves.
                unsafe { pool.work() };
                pool.state.0.fetch_sub(1, AcqRel);
            }
            spins = 0;
            continue;
        }
        spins = spins.wrapping_add(1);
        if spins < SPINS {
            core::hint::spin_loop();
            continue;
        }
        let bell = pool.bell.load(SeqCst);
        pool.sleepers.fetch_add(1, SeqCst);
        if !is_new(pool.state.0.load(SeqCst)) {
            // SAFETY: waits while the word has this value.
            unsafe { syscall(FUTEX, &raw const pool.bell, FUTEX_WAIT_PRIVATE, bell, null::<u8>(), null::<u8>(), 0) };
        }
        pool.sleepers.fetch_sub(1, SeqCst);
        leave(pool.caller_core.load(Relaxed));
        spins = 0;
    }
}

/// Moves this thread to another core, if it is on this one and may run elsewhere. It may return later.
fn leave(core: i32) {
    // SAFETY: has no preconditions.
    if unsafe { sched_getcpu() } != core {
        return;
    }
    let mut cores = [0u64; MOST_THREADS as usize / 64];
    let size = size_of_val(&cores);
    // SAFETY: the mask has that many bytes.
    if unsafe { sched_getaffinity(0, size, cores.as_mut_ptr()) } < 0 {
        return;
    }
    let allowed = cores;
    let Some(word) = usize::try_from(core / 64).ok().and_then(|word| cores.get_mut(word)) else { return };
    *word &= !(1 << (core % 64));
    if cores.iter().all(|&word| word == 0) {
        return;
    }
    // SAFETY: both masks have that many bytes.
    unsafe {
        sched_setaffinity(0, size, cores.as_ptr());
        sched_setaffinity(0, size, allowed.as_ptr());
    }
}
