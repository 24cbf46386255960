//! Where values lie in memory.
//!
//! All intermediate values share one block of memory. Two of them may overlap if their lifetimes do not: from the step that
//! writes a value to the last step that reads it, both included. Placing is greedy: in each of a few orders, each value at the lowest
//! place where it meets none that was placed before and lives at the same time; the order that needs the least memory is taken.
//!
//! Values that share a block, such as the parts of a concatenation and its result, are placed as one, which lives as long as any of them.

use super::joined::Piece;
use std::collections::HashMap;

/// A value to be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its size.
    pub bytes: usize,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it; at least `first`.
    pub last: usize,
    /// Where it lies in a block of several values; `None` if its memory is its own.
    pub piece: Option<Piece>,
}

impl Request {
    /// The bytes that it takes.
    fn size(&self) -> usize {
        self.bytes.next_multiple_of(ALIGNMENT)
    }

    fn lives_with(&self, other: &Request) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The places of values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The offset of each value, in the order of the requests; multiples of [`ALIGNMENT`].
    pub offsets: Vec<usize>,
    /// The size of the memory.
    pub bytes: usize,
    /// The size that it would have if no values shared a place.
    pub unshared: usize,
    /// The largest sum of the values that live at the same time: no plan needs less.
    pub live: usize,
}

/// The alignment of values: that of the widest vectors, and a cache line.
pub const ALIGNMENT: usize = 64;

/// Places values in memory so that none overlaps another that lives at the same time, but for values of the same block.
pub fn plan(requests: &[Request]) -> Plan {
    let Blocks { requests, places } = Blocks::of(requests);
    let live = largest_live_set(&requests);
    let mut best = placed(&requests, |r| std::cmp::Reverse(r.size()));
    // Other orders are worth a try where the largest first leaves gaps: the largest share of space and time first, or as written.
    if best.1 > live {
        let others = [
            placed(&requests, |r| std::cmp::Reverse(r.size() * (r.last - r.first + 1))),
            placed(&requests, |r| std::cmp::Reverse(r.last - r.first)),
            placed(&requests, |r| r.first),
        ];
        best = others.into_iter().fold(best, |best, other| if other.1 < best.1 { other } else { best });
    }
    let (starts, bytes) = best;
    let offsets = places.into_iter().map(|(block, offset)| starts[block] + offset).collect();
    Plan { offsets, bytes, unshared: requests.iter().map(Request::size).sum(), live }
}

/// Requests in which the values of a block are one.
struct Blocks {
    requests: Vec<Request>,
    /// For each value, the request that it is part of, and its first byte there.
    places: Vec<(usize, usize)>,
}

impl Blocks {
    fn of(values: &[Request]) -> Blocks {
        let mut blocks = Blocks { requests: Vec::new(), places: Vec::new() };
        let mut known: HashMap<usize, usize> = HashMap::new();
        for value in values {
            let Some(Piece { block, offset }) = value.piece else {
                blocks.places.push((blocks.requests.len(), 0));
                blocks.requests.push(*value);
                continue;
            };
            let at = *known.entry(block).or_insert_with(|| {
                blocks.requests.push(Request { bytes: 0, piece: None, ..*value });
                blocks.requests.len() - 1
            });
            let whole = &mut blocks.requests[at];
            whole.bytes = whole.bytes.max(offset + value.bytes);
            whole.first = whole.first.min(value.first);
            whole.last = whole.last.max(value.last);
            blocks.places.push((at, offset));
        }
        blocks
    }
}

/// The offsets of values that are placed in the order of a key, and the size of the memory.
fn placed<K: Ord>(requests: &[Request], key: impl Fn(&Request) -> K) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&i| (key(&requests[i]), requests[i].first, i));
    let mut offsets = vec![0; requests.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut bytes = 0;
    for i in order {
        let mut taken: Vec<(usize, usize)> = (placed.iter())
            .filter(|&&p| requests[p].lives_with(&requests[i]))
            .map(|&p| (offsets[p], offsets[p] + requests[p].size()))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, end) in taken {
            if offset + requests[i].size() <= start {
                break;
            }
            offset = offset.max(end);
        }
        offsets[i] = offset;
        bytes = bytes.max(offset + requests[i].size());
        placed.push(i);
    }
    (offsets, bytes)
}

/// The largest sum of the values that live at the same time.
fn largest_live_set(requests: &[Request]) -> usize {
    let steps = requests.iter().map(|r| r.first);
    let live = |step| {
        let all = requests.iter().filter(|r| r.first <= step && step <= r.last);
        all.map(Request::size).sum()
    };
    steps.map(live).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        // A few of the values share three blocks.
        let piece = prop::option::weighted(0.3, (0usize..3, 0usize..10));
        let piece = piece.prop_map(|p| p.map(|(block, at)| Piece { block, offset: at * ALIGNMENT }));
        let request = (0usize..2000, 0usize..40, 0usize..12, piece);
        let request = request.prop_map(|(bytes, first, n, piece)| Request { bytes, first, last: first + n, piece });
        prop::collection::vec(request, 0..60)
    }

    proptest! {
        #[test]
        fn live_values_never_overlap(requests in requests()) {
            let plan = plan(&requests);
            for (i, a) in requests.iter().enumerate() {
                prop_assert!(plan.offsets[i].is_multiple_of(ALIGNMENT));
                prop_assert!(plan.offsets[i] + a.bytes <= plan.bytes);
                for (j, b) in requests.iter().enumerate().skip(i + 1) {
                    if let (Some(p), Some(q)) = (a.piece, b.piece)
                        && p.block == q.block
                    {
                        prop_assert_eq!(plan.offsets[i] + q.offset, plan.offsets[j] + p.offset);
                        continue;
                    }
                    let apart = plan.offsets[i] + a.bytes <= plan.offsets[j] || plan.offsets[j] + b.bytes <= plan.offsets[i];
                    prop_assert!(apart || !a.lives_with(b), "{i} and {j}");
                }
            }
            prop_assert!(plan.live <= plan.bytes && plan.bytes <= plan.unshared);
        }
    }

    #[test]
    fn a_chain_needs_two_values() {
        let chain: Vec<Request> =
            (0..10).map(|i| Request { bytes: 1000, first: i, last: i + 1, piece: None }).collect();
        let plan = plan(&chain);
        assert_eq!((plan.live, plan.bytes, plan.unshared), (2 * 1024, 2 * 1024, 10 * 1024));
    }
}
