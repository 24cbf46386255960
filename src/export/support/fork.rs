//! Parallel loops: the hook of a library, and the chunks that its workers take.

use crate::abi::{BodyFn, Frame, Library, ParallelFor, Team};
use crate::chunks::Chunks;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, fence};

/// Status of a kernel whose hook failed; the code generator uses 0 to 2 and numbers from 256 on.
pub(crate) const HOOK_FAILED: u32 = 3;

/// A loop that is running.
struct Loop {
    frame: *const Frame,
    body: BodyFn,
    env: *const u8,
    n_workers: i32,
    chunks: Chunks,
    /// First status that is not 0.
    status: AtomicU32,
}

/// Called by compiled code to run a parallel loop.
pub(crate) unsafe extern "C" fn fork(
    frame: *const Frame,
    body: BodyFn,
    env: *const u8,
    extent: i64,
    grain: i64,
) -> u32 {
    // SAFETY: compiled code passes on the frame that `call` made, with the team of the call.
    let team = unsafe { &*(*frame).workers };
    let grain = grain.max(1);
    let Some(parallel_for) = team.parallel_for.filter(|_| team.n_workers > 1 && extent > grain) else {
        // SAFETY: worker 0 is the caller's own.
        return if extent > 0 { unsafe { body(frame, env, 0, extent, 0) } } else { 0 };
    };
    let n_workers = team.n_workers;
    let chunks = Chunks::new(extent, grain, i64::from(n_workers));
    let current = Loop { frame, body, env, n_workers, chunks, status: AtomicU32::new(0) };
    let env = (&raw const current).cast_mut().cast();
    // SAFETY: the hook calls `work` with this loop, which lives until the hook returns.
    let result = unsafe { parallel_for(team.ctx, n_workers, work, env) };
    match current.status.load(Acquire) {
        0 if result != 0 || !current.chunks.are_taken() => HOOK_FAILED,
        status => status,
    }
}

/// One worker: takes chunks until none are left.
unsafe extern "C" fn work(env: *mut u8, worker: i32) -> i32 {
    // SAFETY: hooks pass on what `fork` gave them.
    let current = unsafe { &*env.cast::<Loop>() };
    if worker < 0 || worker >= current.n_workers {
        current.status.store(HOOK_FAILED, Release);
        return 1;
    }
    while let Some((begin, end)) = current.chunks.take(i64::from(worker)) {
        // SAFETY: compiled code made body and environment for this frame, and the worker's number has scratch.
        let status = unsafe { (current.body)(current.frame, current.env, begin, end, i64::from(worker)) };
        if status != 0 {
            let _ = current.status.compare_exchange(0, status, AcqRel, Relaxed);
            current.chunks.stop();
            return 1;
        }
    }
    0
}

/// Sets the hook of a library.
pub(crate) fn set_hook(library: &Library, parallel_for: Option<ParallelFor>, ctx: *mut u8, n_workers: i32) {
    // Writers wait for each other; readers read again.
    loop {
        let sequence = library.sequence.load(Relaxed);
        if sequence & 1 == 0
            && library.sequence.compare_exchange(sequence, sequence.wrapping_add(1), Acquire, Relaxed).is_ok()
        {
            break;
        }
        core::hint::spin_loop();
    }
    fence(Release);
    let address = parallel_for.map_or(core::ptr::null_mut(), |f| f as *mut u8);
    library.parallel_for.store(address, Relaxed);
    library.ctx.store(ctx, Relaxed);
    library.n_workers.store(if parallel_for.is_some() { n_workers.max(1) } else { 1 }, Relaxed);
    library.sequence.fetch_add(1, Release);
}

/// The hook of a library as it is now.
pub(crate) fn team(library: &Library) -> Team {
    loop {
        let before = library.sequence.load(Acquire);
        let address = library.parallel_for.load(Relaxed);
        let ctx = library.ctx.load(Relaxed);
        let n_workers = library.n_workers.load(Relaxed).max(1);
        fence(Acquire);
        if before & 1 == 0 && library.sequence.load(Relaxed) == before {
            // SAFETY: the word is null or was stored from a function of this type.
            let parallel_for = unsafe { core::mem::transmute::<*mut u8, Option<ParallelFor>>(address) };
            return Team { parallel_for, ctx, n_workers };
        }
        core::hint::spin_loop();
    }
}

/// `NAME_set_parallel_for`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_set_parallel_for(
    library: &Library,
    parallel_for: Option<ParallelFor>,
    ctx: *mut u8,
    n_workers: i32,
) {
    set_hook(library, parallel_for, ctx, n_workers);
}
