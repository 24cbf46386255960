//! The candidates of a template's knobs, in the order and number in which AutoTVM lists them (`tvm/autotvm/task/space.py`).

/// The most candidates that one knob may have.
pub(super) const MAX_CANDIDATES: usize = 20_000;

/// Which sizes the inner parts of a split axis may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SplitPolicy {
    /// Divisors of the extent.
    Factors,
    /// Powers of two.
    Power2,
    /// Both.
    Verbose,
}

/// The numbers of iterations of the inner parts, outermost first, of an axis of this extent that becomes `n` parts. Without tails
/// their product divides the extent; with tails it may also just be smaller. `None` if there are too many.
pub(super) fn splits(
    extent: i64,
    n: usize,
    policy: SplitPolicy,
    max_factor: i64,
    no_tail: bool,
) -> Option<Vec<Vec<i64>>> {
    let divisors = (1..).take_while(|d| d * d <= extent).filter(|d| extent % d == 0);
    let mut divisors: Vec<i64> = divisors.flat_map(|d| [d, extent / d]).collect();
    let mut powers: Vec<i64> = (0..62).map(|i| 1i64 << i).take_while(|&p| p <= extent).collect();
    let mut factors = match policy {
        SplitPolicy::Factors => divisors,
        SplitPolicy::Power2 => powers,
        SplitPolicy::Verbose => {
            divisors.append(&mut powers);
            divisors
        }
    };
    factors.sort_unstable();
    factors.dedup();
    factors.retain(|&f| f <= max_factor);
    let mut all = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(stack) = open.pop() {
        if open.len() + all.len() > MAX_CANDIDATES {
            return None;
        }
        let product: i64 = stack.iter().product();
        if stack.len() + 1 >= n {
            if extent % product == 0 || !no_tail && product < extent {
                all.push(stack.into_iter().rev().collect());
            }
            continue;
        }
        // The first factor is taken first, and later factors only make the product larger.
        let more = factors.iter().rev().filter(|&&f| f <= extent / product);
        open.extend(more.map(|&f| [&stack[..], &[f]].concat()));
    }
    Some(all)
}

/// All orders of `range`, before and after which the other positions below `n` stay; `None` if there are too many.
pub(super) fn orders(n: usize, range: std::ops::Range<usize>) -> Option<Vec<Vec<usize>>> {
    let mut all = vec![(0..range.start.min(n)).collect::<Vec<usize>>()];
    let middle: Vec<usize> = range.clone().filter(|&i| i < n).collect();
    for _ in &middle {
        let longer = |order: &Vec<usize>| -> Vec<Vec<usize>> {
            let free = middle.iter().filter(|i| !order.contains(i));
            free.map(|&i| [&order[..], &[i]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
        if all.len() > MAX_CANDIDATES {
            return None;
        }
    }
    all.iter_mut().for_each(|order| order.extend(range.end..n));
    Some(all)
}

/// The chains as one, in which the next item is always one of the longest rest.
pub(super) fn merged(chains: &[Vec<usize>]) -> Vec<usize> {
    let mut taken = vec![0; chains.len()];
    let total: usize = chains.iter().map(Vec::len).sum();
    let mut all = Vec::with_capacity(total);
    while all.len() < total {
        // The first of the longest.
        let longest = (0..chains.len()).rev().max_by_key(|&i| chains[i].len() - taken[i]).unwrap_or(0);
        all.push(chains[longest][taken[longest]]);
        taken[longest] += 1;
    }
    all
}

/// The interleaved orders of axes: the outer parts of the spatial ones, then their innermost parts and the reduced ones.
pub(super) fn interleaved(spatial: &[Vec<usize>], reduced: &[Vec<usize>]) -> Vec<usize> {
    let outer: Vec<Vec<usize>> = spatial.iter().map(|c| c[..c.len().saturating_sub(1)].to_vec()).collect();
    let mut inner: Vec<Vec<usize>> = spatial.iter().map(|c| c.last().copied().into_iter().collect()).collect();
    inner.extend(reduced.iter().cloned());
    [merged(&outer), merged(&inner)].concat()
}

/// How the loops of `n` axes run, each in one of these ways; at most one is vectorised. `None` if there are too many.
pub(super) fn annotations(n: usize, ways: &[String]) -> Option<Vec<Vec<String>>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for _ in 0..n {
        let longer = |a: &Vec<String>| -> Vec<Vec<String>> {
            let has_vec = a.iter().any(|w| w == "vec");
            let ways = ways.iter().filter(|w| !(has_vec && *w == "vec"));
            ways.map(|w| [&a[..], std::slice::from_ref(w)].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
        if all.len() > MAX_CANDIDATES {
            return None;
        }
    }
    Some(all)
}

/// The ways to choose `k` of `n` positions, in order; `None` if there are too many.
pub(super) fn combinations(n: usize, k: usize) -> Option<Vec<Vec<usize>>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..k {
        let longer = |c: &Vec<usize>| -> Vec<Vec<usize>> {
            let first = c.last().map_or(0, |l| l + 1);
            (first..n).map(|i| [&c[..], &[i]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
        if all.len() > MAX_CANDIDATES {
            return None;
        }
    }
    Some(all)
}

/// The thread axes of a GPU for `n` axes, outermost first; excess axes are fused into the next.
pub(super) fn gpu_threads(n: usize, with_virtual: bool) -> Option<Vec<String>> {
    let names: &[&str] = match (with_virtual, n) {
        (false, 6..) => &["blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x"],
        (false, 4..) => &["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"],
        (false, 2..) => &["blockIdx.x", "threadIdx.x"],
        (true, 9..) => &[
            "blockIdx.z",
            "blockIdx.y",
            "blockIdx.x",
            "vthread",
            "vthread",
            "vthread",
            "threadIdx.z",
            "threadIdx.y",
            "threadIdx.x",
        ],
        (true, 6..) => &["blockIdx.y", "blockIdx.x", "vthread", "vthread", "threadIdx.y", "threadIdx.x"],
        (true, 3..) => &["blockIdx.x", "vthread", "threadIdx.x"],
        _ => return None,
    };
    let fused = std::iter::repeat_n("fuse", n - names.len());
    Some(fused.chain(names.iter().copied()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_splits(extent: i64, n: usize, policy: SplitPolicy) -> usize {
        splits(extent, n, policy, i64::MAX, policy == SplitPolicy::Factors).map_or(0, |all| all.len())
    }

    #[test]
    fn splits_are_as_many_as_autotvm_lists() {
        // The matmul of the tutorial: 512 has 10 divisors, so two knobs span 100.
        assert_eq!(n_splits(512, 2, SplitPolicy::Factors), 10);
        // Ordered factorizations of 64 into three factors: C(6 + 2, 2).
        assert_eq!(n_splits(64, 3, SplitPolicy::Factors), 28);
        assert_eq!(n_splits(12, 2, SplitPolicy::Factors), 6);
        // 1, 2, 4, 8 of 12; with the divisors 3, 6, 12.
        assert_eq!(n_splits(12, 2, SplitPolicy::Power2), 4);
        assert_eq!(n_splits(12, 2, SplitPolicy::Verbose), 7);
        // Pairs of powers of two whose product is below 12: (1 2 4 8), (1 2 4), (1 2), (1).
        assert_eq!(n_splits(12, 3, SplitPolicy::Power2), 10);
        assert_eq!(splits(64, 2, SplitPolicy::Factors, 8, true).map(|all| all.len()), Some(4));
        assert_eq!(splits(7, 1, SplitPolicy::Factors, 8, true), Some(vec![vec![]]));
        assert_eq!(splits(6, 3, SplitPolicy::Factors, 9, true).map(|all| all[1].clone()), Some(vec![2, 1]));
        assert_eq!(splits(1 << 40, 12, SplitPolicy::Factors, i64::MAX, true), None);
    }

    #[test]
    fn orders_and_annotations() {
        assert_eq!(orders(3, 0..3).map(|all| all.len()), Some(6));
        assert_eq!(orders(4, 1..3), Some(vec![vec![0, 1, 2, 3], vec![0, 2, 1, 3]]));
        assert_eq!(orders(12, 0..12), None);
        assert_eq!(interleaved(&[vec![0, 1, 2], vec![3, 4, 5]], &[vec![6, 7]]), [0, 3, 1, 4, 6, 2, 5, 7]);
        let ways = ["none".to_owned(), "unroll".to_owned(), "vec".to_owned()];
        // 27 less those with two or three vectors.
        assert_eq!(annotations(3, &ways).map(|all| all.len()), Some(20));
        assert_eq!(combinations(4, 2).map(|all| all.len()), Some(6));
        assert_eq!(gpu_threads(3, false).map(|t| t.join(" ")), Some("fuse blockIdx.x threadIdx.x".to_owned()));
    }
}
