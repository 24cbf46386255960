//! Which function gets the next round.
//!
//! Every function gets a first round. After that the next goes to the one where it promises most: the seconds that the
//! last rounds took off the best time, times the weight of the function. A function whose last rounds brought nothing
//! keeps a small hope that shrinks with each round, so that none is given up for one unlucky round.

/// How a function stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// Can it still be improved?
    pub is_open: bool,
    /// How often a model calls it.
    pub weight: f64,
    /// The best seconds after each round of this run, if any candidate was right by then.
    pub bests: Vec<Option<f64>>,
}

/// Rounds that are looked back at.
const WINDOW: usize = 2;
/// What a further round may bring where nothing is known, as a share of the best time; divided by the number of rounds.
const HOPE: f64 = 0.2;

/// The function that gets the next round; `None` when all are done.
pub fn next(tasks: &[Standing]) -> Option<usize> {
    let open = || tasks.iter().enumerate().filter(|(_, t)| t.is_open);
    if let Some((i, _)) = open().find(|(_, t)| t.bests.is_empty()) {
        return Some(i);
    }
    // Of equal gains the first, so that the choice depends on nothing but the measurements.
    open().rev_max_by(|(_, t)| gain(t)).map(|(i, _)| i)
}

fn gain(task: &Standing) -> f64 {
    let rounds = task.bests.len();
    let Some(best) = task.bests.last().copied().flatten() else {
        // Nothing was right so far: whatever is found first is a gain, less and less likely.
        return f64::MAX / rounds as f64;
    };
    let before = task.bests[rounds.saturating_sub(WINDOW + 1)].unwrap_or(best * 2.0);
    let taken_off = if rounds > 1 { (before - best) / WINDOW as f64 } else { 0.0 };
    task.weight * taken_off.max(best * HOPE / rounds as f64)
}

trait RevMaxBy: Iterator + Sized {
    /// The first of the greatest elements.
    fn rev_max_by(self, value: impl Fn(&Self::Item) -> f64) -> Option<Self::Item> {
        self.fold(None, |best: Option<(f64, Self::Item)>, item| {
            let v = value(&item);
            match best {
                Some((b, _)) if b >= v => best,
                _ => Some((v, item)),
            }
        })
        .map(|(_, item)| item)
    }
}

impl<I: Iterator> RevMaxBy for I {}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(bests: &[f64]) -> Standing {
        Standing { is_open: true, weight: 1.0, bests: bests.iter().map(|&b| Some(b)).collect() }
    }

    #[test]
    fn everybody_starts_then_gain_decides() {
        assert_eq!(next(&[task(&[1.0]), task(&[]), task(&[])]), Some(1));
        assert_eq!(next(&[task(&[1.0, 0.5]), task(&[1.0, 1.0])]), Some(0));
        // A small improvement of a long function is worth more than a large one of a short function.
        assert_eq!(next(&[task(&[1e-3, 0.5e-3]), task(&[1.0, 0.9])]), Some(1));
        let closed = Standing { is_open: false, ..task(&[]) };
        assert_eq!(next(&[closed.clone(), task(&[1.0])]), Some(1));
        assert_eq!(next(&[closed]), None);
    }

    #[test]
    fn no_function_starves() {
        let mut tasks = [task(&[1.0, 1.0]), task(&[1.0, 1.0])];
        let mut rounds = [0; 2];
        for _ in 0..20 {
            let i = next(&tasks).unwrap();
            rounds[i] += 1;
            tasks[i].bests.push(Some(1.0));
        }
        assert_eq!(rounds, [10, 10]);
    }
}
