//! Judges the distances of results from the reference, by samples of correct results.
//!
//! An interval ([`Intervals`](super::Intervals)) bounds a single element in the worst case. Where intervals are wide
//! (after many roundings to half precision, or after several steps in a row), a wrong program can stay within all of
//! them; but correct programs rarely reach the ends, and never everywhere. So the elements outside their tolerance are
//! judged together: their distances are compared with those of runs with random rounding ([`Spread`]). In addition, the
//! elements that deviate most are recomputed with larger random roundings ([`ElementRanges`]): a value that those do
//! not reach is wrong.

use hashbrown::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Maximum ratio of a correct program's distances to those of random rounding. Correct programs stay below 2, wrong
/// ones are mostly at 10 and more (`tune::equivalence::judging`).
const LIMIT: f64 = 8.0;
/// Minimum number of elements whose distances are compared as one.
const FEW: usize = 16;
/// Factor for the share of elements on the other side of a step, compared to the samples: a program with roundings
/// twice as large has correspondingly more of them, and the samples are only samples.
const MORE: f64 = 4.0;

/// Distances of samples from the reference. A distance within the tolerance counts as 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// The distances, largest first.
    distances: Vec<f64>,
}

impl Spread {
    /// The spread of these distances, in any order; `None` if there are none.
    pub fn new(mut distances: Vec<f64>) -> Option<Spread> {
        distances.sort_unstable_by(|a, b| b.total_cmp(a));
        (!distances.is_empty()).then_some(Spread { distances })
    }

    /// Whether a distance is similar to those of the samples.
    pub(super) fn reaches(&self, distance: f64) -> bool {
        distance <= LIMIT * self.distances[0]
    }

    /// Whether these distances, largest first, of `n` elements (missing ones are 0) are larger than those of the
    /// samples.
    pub(super) fn exceeded(&self, found: &[f64], n: usize) -> bool {
        self.ratio(found, n) > LIMIT
    }

    /// The largest ratio of the distances to those of the samples, over several quantiles.
    fn ratio(&self, found: &[f64], n: usize) -> f64 {
        let sizes = std::iter::successors(Some(FEW), |k| Some(k * 2)).take_while(|&k| k < n / 2);
        sizes
            .chain([n.div_ceil(2)])
            .filter(|&k| k <= found.len())
            .map(|k| self.ratio_of(found[k - 1], k, n))
            .fold(0.0, f64::max)
    }

    /// The ratio for the `k`-th largest distance of `n`.
    fn ratio_of(&self, distance: f64, k: usize, n: usize) -> f64 {
        // The expected number for which `k` are seen once in a million times (the root of a Poisson number varies by
        // 1/2).
        let expected = ((k as f64).sqrt() - 2.2).max(0.0).powi(2) / MORE;
        let at = (expected / n as f64 * self.distances.len() as f64) as usize;
        let sampled = self.distances[at.min(self.distances.len() - 1)];
        match (distance, sampled) {
            (0.0, _) => 0.0,
            (_, 0.0) => f64::INFINITY,
            // An infinite result or NaN that samples have as well.
            (_, s) if s == f64::INFINITY => 1.0,
            (d, s) => d / s,
        }
    }
}

/// The possible values of an element.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
    /// The finite samples.
    samples: Vec<f64>,
    /// An interval that is accepted as a whole.
    between: (f64, f64),
    /// Accepted distance from a sample.
    near: f64,
    /// Infinities and NaN among the samples.
    others: Vec<f64>,
}

/// A sample stands for this share of the width of all samples.
const RESOLUTION: f64 = 1.0 / 8.0;
/// Accepted distance beyond ordinary samples, in units of their width. This matters where each rounding gives an
/// unrelated result, so that larger roundings reach no further.
const BEYOND: f64 = 2.0;

impl Range {
    /// Accepts values near samples, with ordinary or larger roundings, and values between `first` and `last`, such as
    /// sums that are rounded at each step and at none.
    pub fn new(first: f64, last: f64, ordinary: &[f64], larger: &[f64]) -> Range {
        let ordinary: Vec<f64> = ordinary.iter().copied().chain([first, last]).collect();
        let near = BEYOND * width(&ordinary);
        let (samples, others): (Vec<f64>, Vec<f64>) =
            ordinary.into_iter().chain(larger.iter().copied()).partition(|v| v.is_finite());
        let near = near.max(RESOLUTION * width(&samples));
        Range { samples, between: (first.min(last), first.max(last)), near, others }
    }

    /// Whether a value is in the range, or within `near` of it.
    pub(super) fn holds(&self, value: f64, near: f64) -> bool {
        let near = near.max(self.near);
        self.between.0 <= value && value <= self.between.1
            || self.samples.iter().any(|v| (v - value).abs() <= near)
            || self.others.iter().any(|&v| v == value || v.is_nan() && value.is_nan())
    }
}

/// Distance of the minimum and maximum of the finite values.
fn width(values: &[f64]) -> f64 {
    let finite = values.iter().copied().filter(|v| v.is_finite());
    let (least, greatest) = finite.fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
    (greatest - least).max(0.0)
}

type Ranges = dyn FnMut(&[(usize, usize)]) -> Vec<Option<Range>> + Send;

/// The ranges of single elements, computed on demand.
pub struct ElementRanges(Mutex<Known>);

struct Known {
    compute: Box<Ranges>,
    known: HashMap<(usize, usize), Option<Range>>,
}

impl fmt::Debug for ElementRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ElementRanges").finish()
    }
}

impl ElementRanges {
    /// Ranges computed by `compute` for elements, each given by parameter and position; `None` where that is not
    /// possible.
    pub fn new(compute: impl FnMut(&[(usize, usize)]) -> Vec<Option<Range>> + Send + 'static) -> ElementRanges {
        ElementRanges(Mutex::new(Known { compute: Box::new(compute), known: HashMap::default() }))
    }

    /// The ranges of elements, in the same order.
    pub(super) fn of(&self, param: usize, elements: &[usize]) -> Vec<Option<Range>> {
        let mut this = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { compute, known } = &mut *this;
        let keys: Vec<(usize, usize)> = elements.iter().map(|&e| (param, e)).collect();
        let unknown: Vec<(usize, usize)> = keys.iter().copied().filter(|k| !known.contains_key(k)).collect();
        if !unknown.is_empty() {
            let found = compute(&unknown);
            known.extend(unknown.into_iter().zip(found.into_iter().chain(std::iter::repeat(None))));
        }
        keys.iter().map(|k| known.get(k).cloned().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances as of errors that are uniform up to `size`, a share of which is outside the tolerance.
    fn distances(n: usize, share: f64, size: f64) -> Vec<f64> {
        let outside = (n as f64 * share) as usize;
        (0..outside).map(|i| size * (1.0 - i as f64 / n as f64)).collect()
    }

    #[test]
    fn results_are_compared_together() {
        let spread = Spread::new(distances(2000, 1.0, 1.0)).expect("samples");
        assert!(!spread.exceeded(&distances(500, 1.0, 3.0), 500));
        assert!(spread.exceeded(&distances(500, 1.0, 30.0), 500));
        // Few distant elements are judged by their intervals.
        assert!(!spread.exceeded(&[1e9; 8], 500));
        assert!(spread.exceeded(&[1e9; 16], 500));
        // A small group of elements is compared as one.
        assert!(spread.exceeded(&[90.0; 5], 9) && !spread.exceeded(&[7.0; 9], 9));
        assert!(spread.reaches(7.9) && !spread.reaches(8.1));
    }

    #[test]
    fn steps_are_taken_about_as_often() {
        // One sample in a hundred is a step away.
        let mut samples = vec![1.0; 20];
        samples.resize(2000, 0.0);
        let spread = Spread::new(samples).expect("samples");
        assert!(!spread.exceeded(&[1.0; 20], 1000));
        assert!(spread.exceeded(&[1.0; 200], 1000));
        let none = Spread::new(vec![0.0; 2000]).expect("samples");
        assert!(!none.exceeded(&[1.0; 15], 1000) && none.exceeded(&[1.0; 16], 1000) && !none.reaches(1e-9));
        assert_eq!(Spread::new(Vec::new()), None);
    }

    #[test]
    fn what_may_be_infinite_or_nan_is_no_fault() {
        let spread = Spread::new(vec![f64::INFINITY; 4]).expect("samples");
        assert!(!spread.exceeded(&[f64::INFINITY; 64], 64) && spread.reaches(f64::INFINITY));
        let range = Range::new(1.0, 1.0, &[1.0, f64::NAN], &[2.0]);
        assert!(range.holds(f64::NAN, 0.0) && range.holds(2.1, 0.0) && !range.holds(2.6, 0.0) && range.holds(2.6, 0.7));
        let range = Range::new(1.0, 1.0, &[1.0], &[f64::INFINITY]);
        assert!(range.holds(f64::INFINITY, 0.0) && !range.holds(f64::NAN, 0.0) && !range.holds(0.5, 0.0));
    }

    #[test]
    fn a_range_may_have_gaps() {
        // A remainder that wraps around: 12, 0 and 1 are right, 8 is not.
        let range = Range::new(12.0, 12.0, &[12.0], &[0.0, 1.0]);
        assert!(range.holds(0.0, 0.0) && range.holds(11.0, 0.0) && !range.holds(8.0, 0.0));
        // A sum that stagnates if it is rounded, and one that does not.
        let range = Range::new(64.0, 150.0, &[], &[149.0, 151.0]);
        assert!(range.holds(100.0, 0.0) && !range.holds(-200.0, 0.0));
        // A result that each rounding changes completely.
        let range = Range::new(0.0, 0.0, &[3.0, -2.0, 1.0], &[-3.0, 2.0]);
        assert!(range.holds(9.0, 0.0) && !range.holds(40.0, 0.0));
    }

    #[test]
    fn ranges_are_computed_once() {
        let one = |v| Range::new(v, v, &[], &[]);
        let mut asked = 0;
        let ranges = ElementRanges::new(move |keys| {
            asked += keys.len();
            assert!(asked <= 3, "each is asked for once");
            keys.iter().map(|&(_, e)| (e != 1).then(|| one(e as f64))).collect()
        });
        assert_eq!(ranges.of(0, &[0, 1]), [Some(one(0.0)), None]);
        assert_eq!(ranges.of(0, &[1, 2, 0]), [None, Some(one(2.0)), Some(one(0.0))]);
    }
}
