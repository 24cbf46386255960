//! Runs work on several threads, with results in order.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The results of `work(0)`, `work(1)`, … `work(n - 1)`, in this order, computed by `jobs` threads.
pub fn in_order<T: Send>(n: usize, jobs: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let jobs = jobs.clamp(1, n.max(1));
    if jobs == 1 {
        return (0..n).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut mine = Vec::new();
        loop {
            let i = next.fetch_add(1, Relaxed);
            if i >= n {
                return mine;
            }
            mine.push((i, work(i)));
        }
    };
    let mut made: Vec<(usize, T)> = std::thread::scope(|scope| {
        // The caller is one of the threads, so work proceeds even if the system refuses others.
        let others: Vec<_> =
            (1..jobs).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, take).ok()).collect();
        let mut made = take();
        for other in others {
            match other.join() {
                Ok(mine) => made.extend(mine),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        made
    });
    made.sort_unstable_by_key(|&(i, _)| i);
    made.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        for jobs in [0, 1, 2, 7] {
            assert_eq!(in_order(5, jobs, |i| i * i), [0, 1, 4, 9, 16]);
        }
        assert!(in_order(0, 3, |i| i).is_empty());
    }
}
