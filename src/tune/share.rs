//! Chooses the function that gets the next round.
//!
//! Every function gets a first round; the one with the most operations starts, so that the long ones have theirs if time
//! runs out. After that, each round goes to the function with the largest expected *gain*: the seconds that a round may
//! save, times the weight of the function. The expectation has two parts. The history is the gain of the last rounds. The
//! outlook is the *room*, the distance between the best time and the lower bound of the function on this machine, divided
//! by the number of rounds so far: later rounds find less. The room also limits the gain. TVM's gradient scheduler weighs
//! history and outlook in the same way, but has no bound, so a fast function seems to have all of its time still to gain.

/// The facts about a function that decide whether it gets a round.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Standing {
    /// Is it worth another round?
    pub is_open: bool,
    /// The number of functions of the module that are this program.
    pub weight: f64,
    /// The operations of a call.
    pub operations: f64,
    /// The best seconds after each round of this run; `None` as long as no candidate was right.
    pub bests: Vec<Option<f64>>,
    /// The lower bound of its seconds, if known.
    pub bound: Option<f64>,
}

/// Rounds that the history covers (TVM: 3).
const WINDOW: usize = 3;
/// The share of history in the expected gain; the rest is outlook (TVM: 0.2).
const HISTORY: f64 = 0.2;
/// The room where no bound is known, as a share of the best time.
const UNKNOWN_ROOM: f64 = 0.5;
/// A function is saturated once its bound is this share of its best time: others come first.
const SATURATED: f64 = 0.95;
/// Candidates of a round at least: smaller ones are not worth the costs of a round.
const LEAST_ROUND: usize = 4;
/// A bound this much above the best time is refuted: it was measured while the machine was busy.
const REFUTED: f64 = 1.1;

impl Standing {
    /// Is its best time so near to its bound that others come first?
    pub(super) fn is_saturated(&self) -> bool {
        self.best().is_some_and(|best| self.bound_below(best).is_some_and(|bound| bound >= best * SATURATED))
    }

    fn best(&self) -> Option<f64> {
        self.bests.last().copied().flatten()
    }

    /// The bound, unless the best time refutes it.
    fn bound_below(&self, best: f64) -> Option<f64> {
        self.bound.filter(|&bound| bound <= best * REFUTED)
    }

    /// The weighted seconds that a further round is expected to save; `None` while no candidate was right.
    fn gain(&self) -> Option<f64> {
        let rounds = self.bests.len();
        let best = self.best()?;
        let room = self.bound_below(best).map_or(best * UNKNOWN_ROOM, |bound| best - bound).max(0.0);
        let before = self.bests[rounds.saturating_sub(WINDOW + 1)].unwrap_or(best);
        let taken_off = (before - best).max(0.0) / WINDOW as f64;
        let promise = HISTORY * taken_off + (1.0 - HISTORY) * room / rounds as f64;
        Some(self.weight * promise.min(room))
    }
}

/// The function that gets the next round; `None` when all have ended.
pub(super) fn next(tasks: &[Standing]) -> Option<usize> {
    let open: Vec<usize> = (0..tasks.len()).filter(|&i| tasks[i].is_open).collect();
    let fresh = open.iter().copied().filter(|&i| tasks[i].bests.is_empty());
    if let Some(first) = first_of_greatest(fresh.map(|i| (i, tasks[i].weight * tasks[i].operations))) {
        return Some(first);
    }
    let unsaturated: Vec<usize> = open.iter().copied().filter(|&i| !tasks[i].is_saturated()).collect();
    let among = if unsaturated.is_empty() { open } else { unsaturated };
    // The gain of a function with no valid result yet cannot be estimated. It gets the average share of rounds, and no more,
    // since it may be hopeless.
    let (known, unknown): (Vec<usize>, Vec<usize>) = among.iter().partition(|&&i| tasks[i].gain().is_some());
    let rounds = |i: usize| tasks[i].bests.len();
    let neediest = unknown.into_iter().min_by_key(|&i| rounds(i));
    let served: usize = known.iter().map(|&i| rounds(i)).sum();
    match neediest {
        Some(i) if known.is_empty() || rounds(i) * known.len() <= served => Some(i),
        _ => first_of_greatest(known.into_iter().map(|i| (i, tasks[i].gain().unwrap_or(0.0)))),
    }
}

/// The number of candidates in the next round of function `index`; `full` is that of a whole round, `left` the trials left.
///
/// With several functions, rounds are smaller: half of the trials are left to choose with after the first rounds, and every
/// function gets a share even of few trials.
pub(super) fn round_size(tasks: &[Standing], index: usize, left: usize, full: usize) -> usize {
    let open = tasks.iter().filter(|t| t.is_open).count();
    if open < 2 {
        return full.min(left);
    }
    let size = (left / (2 * open)).clamp(LEAST_ROUND.min(full), full);
    let fresh = tasks.iter().filter(|t| t.is_open && t.bests.is_empty()).count();
    let fair = if tasks[index].bests.is_empty() { left.div_ceil(fresh.max(1)) } else { left };
    size.min(fair)
}

/// The item with the greatest number. The first of equal ones is taken, so that measurements alone decide.
fn first_of_greatest(gains: impl Iterator<Item = (usize, f64)>) -> Option<usize> {
    let greater = |best: Option<(usize, f64)>, item: (usize, f64)| match best {
        Some((_, gain)) if gain >= item.1 => best,
        _ => Some(item),
    };
    gains.fold(None, greater).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(bests: &[f64]) -> Standing {
        let bests = bests.iter().map(|&b| Some(b)).collect();
        Standing { is_open: true, weight: 1.0, operations: 1.0, bests, bound: None }
    }

    /// The rounds that each function gets if no time improves.
    fn shares(mut tasks: Vec<Standing>, rounds: usize) -> Vec<usize> {
        let mut shares = vec![0; tasks.len()];
        for _ in 0..rounds {
            let i = next(&tasks).expect("something is open");
            shares[i] += 1;
            let best = tasks[i].bests.last().copied().flatten();
            tasks[i].bests.push(best);
        }
        shares
    }

    #[test]
    fn everybody_starts_then_gain_decides() {
        assert_eq!(next(&[task(&[1.0]), task(&[]), task(&[])]), Some(1));
        assert_eq!(next(&[task(&[1.0, 0.5]), task(&[1.0, 1.0, 1.0, 1.0, 1.0])]), Some(0));
        // A small improvement of a long function is worth more than a large one of a short function.
        assert_eq!(next(&[task(&[1e-3, 0.5e-3]), task(&[1.0, 0.9])]), Some(1));
        // The longest starts first.
        let long = Standing { operations: 3.0, ..task(&[]) };
        assert_eq!(next(&[task(&[]), long.clone(), long]), Some(1));
        let closed = Standing { is_open: false, ..task(&[]) };
        assert_eq!(next(&[closed.clone(), task(&[1.0])]), Some(1));
        assert_eq!(next(&[closed]), None);
    }

    #[test]
    fn first_rounds_leave_half_to_choose_with() {
        let sizes = |functions: usize, trials: usize| {
            let (mut tasks, mut left, mut sizes) = (vec![task(&[]); functions], trials, Vec::new());
            for i in 0..functions {
                let size = round_size(&tasks, i, left, 16);
                tasks[i].bests.push(Some(1.0));
                left -= size;
                sizes.push(size);
            }
            sizes
        };
        assert_eq!(sizes(1, 64), [16]);
        assert_eq!(sizes(4, 64), [8, 7, 6, 5]);
        assert_eq!(sizes(4, 1000), [16; 4]);
        assert_eq!(sizes(4, 6), [2, 2, 1, 1]);
        assert_eq!(sizes(4, 3), [1, 1, 1, 0]);
        // Later rounds are not too small, except for the last one.
        let tasks = [task(&[1.0]), task(&[1.0])];
        assert_eq!([9, 5, 3].map(|left| round_size(&tasks, 0, left, 16)), [4, 4, 3]);
    }

    #[test]
    fn no_function_starves() {
        assert_eq!(shares(vec![task(&[1.0]), task(&[1.0])], 20), [10, 10]);
        let uneven = shares(vec![task(&[1.0]), task(&[0.1])], 40);
        assert!(uneven[0] > uneven[1] && uneven[1] >= 2, "{uneven:?}");
        // A function that always fails gets no more than its share.
        let hopeless = Standing { bests: vec![None], ..task(&[]) };
        let shares = shares(vec![task(&[1.0]), hopeless, task(&[1.0])], 30);
        assert!((8..=12).contains(&shares[1]), "{shares:?}");
    }

    #[test]
    fn room_decides_between_equal_times() {
        let near = Standing { bound: Some(0.9), ..task(&[1.0, 1.0]) };
        let far = Standing { bound: Some(0.2), ..task(&[1.0, 1.0]) };
        assert_eq!(next(&[near.clone(), far.clone()]), Some(1));
        // Unless the weight is larger.
        let often = Standing { weight: 20.0, ..near };
        assert_eq!(next(&[often, far]), Some(0));
    }

    #[test]
    fn at_its_bound_a_function_waits_for_the_others() {
        let done = Standing { bound: Some(0.96), weight: 1e6, ..task(&[1.0]) };
        let open = Standing { bound: Some(1e-9), ..task(&[1e-6]) };
        assert_eq!(shares(vec![done.clone(), open.clone()], 10), [0, 10]);
        assert_eq!(next(&[done.clone(), Standing { is_open: false, ..open }]), Some(0));
        // A bound that is far above the best time is refuted.
        assert!(!Standing { bound: Some(1.2), ..task(&[1.0]) }.is_saturated());
        // Every function gets a first round.
        assert_eq!(next(&[Standing { bests: vec![], ..done.clone() }, done]), Some(0));
    }
}
