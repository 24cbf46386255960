//! Pools of threads, which kernels and models of this process share.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use tvmr::codegen::{Pinning, Workers};

/// A pool with so many threads, which all kernels and models of this process share.
///
/// # Errors
/// The system refuses threads.
pub(crate) fn workers(threads: u32) -> std::io::Result<Arc<Workers>> {
    static POOLS: Mutex<Vec<(u32, Weak<Workers>)>> = Mutex::new(Vec::new());
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked process has no threads of the pools that it inherits.
    pools.retain(|(_, pool)| pool.upgrade().is_some_and(|pool| pool.are_here()));
    if let Some(pool) = pools.iter().find(|(n, _)| *n == threads).and_then(|(_, pool)| pool.upgrade()) {
        return Ok(pool);
    }
    let new = Arc::new(Workers::new(threads.max(1) as usize, &Pinning::None)?);
    pools.push((threads, Arc::downgrade(&new)));
    Ok(new)
}
