//! The cost model: how long a candidate will take.
//!
//! It starts from the analytical estimate and learns by which factor that is wrong, as a function of the features: the
//! target is `ln(measured) - trust * ln(estimate)`. What the estimate knows need not be learnt again, so few records help,
//! also those of other programs on the same machine. The trust is 1 at first; where measurements do not follow the
//! estimate, it falls.

mod quality;
mod trees;

pub(crate) use quality::{ranked_right, recall};
pub(crate) use trees::{Example, Trees};

use super::features::Features;

/// Learns from measurements, and foretells.
#[derive(Default)]
pub(crate) struct CostModel {
    lessons: Vec<Lesson>,
    trees: Option<Trees>,
    /// Lessons when the trees were made.
    learnt: usize,
    /// How far the estimate is trusted; none: fully.
    trust: Option<f64>,
    /// The residuals that were seen: nothing beyond is believed.
    range: (f64, f64),
    n_others: usize,
}

struct Lesson {
    features: Features,
    /// Logarithms of the estimate and of the seconds.
    estimate: f64,
    secs: f64,
    /// 0 is this workload; others are counted from 1.
    workload: usize,
    /// The hash of the scheduled program, of this workload.
    program: Option<u64>,
}

impl Lesson {
    fn new(features: Features, secs: f64, workload: usize, program: Option<u64>) -> Lesson {
        Lesson { estimate: estimate(&features), features, secs: secs.ln(), workload, program }
    }

    fn is_own(&self) -> bool {
        self.workload == 0
    }
}

/// Measurements before anything is learnt: with fewer, the estimate is the better guide.
const LEAST_LESSONS: usize = 12;
/// While there are no more lessons, the trees are made anew whenever there is one.
const FEW: usize = 200;
/// What a measurement of another program counts, compared to one of this.
const OTHERS: f64 = 0.3;
/// Measurements that would follow the estimate, with the variance of their logarithms, which trust starts from.
const FAITH: (f64, f64) = (8.0, 0.5);

impl CostModel {
    /// Takes in a measurement of this program.
    pub(crate) fn learn(&mut self, program: u64, features: Features, secs: f64) {
        self.lessons.push(Lesson::new(features, secs, 0, Some(program)));
    }

    /// Takes back what a program taught that turned out to be wrong.
    pub(crate) fn forget(&mut self, program: u64) {
        let before = self.lessons.len();
        self.lessons.retain(|l| l.program != Some(program));
        if self.lessons.len() < before {
            // The trees have learnt it, and are due.
            self.learnt = 0;
        }
    }

    /// Takes in measurements of another program. Only how they differ among themselves is believed.
    pub(crate) fn learn_from_other(&mut self, measured: Vec<(Features, f64)>) {
        self.n_others += 1;
        self.lessons
            .extend(measured.into_iter().map(|(features, secs)| Lesson::new(features, secs, self.n_others, None)));
    }

    /// Makes the trees anew, if enough is new. Says how well they would have ranked what they are about to learn.
    pub(crate) fn retrain(&mut self, seed: u64) {
        let n = self.lessons.len();
        let is_due = if n <= FEW { n > self.learnt } else { n >= self.learnt + self.learnt / 10 };
        if n < LEAST_LESSONS || !is_due {
            return;
        }
        self.report();
        let trust = self.measured_trust();
        let residual = |l: &Lesson| l.secs - trust * l.estimate;
        let mean = |workload: usize| {
            let of = || self.lessons.iter().filter(|l| l.workload == workload);
            of().map(residual).sum::<f64>() / (of().count() as f64).max(1.0)
        };
        let means: Vec<f64> = (0..=self.n_others).map(mean).collect();
        let own = || self.lessons.iter().filter(|l| l.is_own());
        let best = own().map(|l| l.secs).fold(f64::INFINITY, f64::min);
        let mut examples: Vec<Example<'_>> = Vec::with_capacity(n);
        for l in &self.lessons {
            // What is near the best has to be told apart; of the rest it is enough that it is slow.
            let weight = if l.is_own() { 0.1 + ((best - l.secs) / 2.0).exp() } else { OTHERS };
            let target = residual(l) - means[l.workload] + means[0];
            examples.push(Example { values: &l.features.values, target, weight });
        }
        let targets = || examples.iter().map(|e| e.target);
        self.range = (targets().fold(f64::INFINITY, f64::min), targets().fold(f64::NEG_INFINITY, f64::max));
        self.trees = Some(Trees::fit(&examples, seed));
        self.trust = Some(trust);
        self.learnt = n;
    }

    /// The slope of measured over estimated, between 0 and 1.
    fn measured_trust(&self) -> f64 {
        let own = || self.lessons.iter().filter(|l| l.is_own());
        let n = (own().count() as f64).max(1.0);
        let (x, y) = own().fold((0.0, 0.0), |(x, y), l| (x + l.estimate / n, y + l.secs / n));
        let faith = FAITH.0 * FAITH.1;
        let (both, one) = own().fold((faith, faith), |(both, one), l| {
            (both + (l.estimate - x) * (l.secs - y), one + (l.estimate - x).powi(2))
        });
        (both / one).clamp(0.0, 1.0)
    }

    /// The logarithm of the seconds to be expected.
    pub(crate) fn predict(&self, features: &Features) -> f64 {
        let estimate = estimate(features);
        match &self.trees {
            Some(trees) => {
                let residual = trees.predict(&features.values).clamp(self.range.0, self.range.1);
                self.trust.unwrap_or(1.0) * estimate + residual
            }
            None => estimate,
        }
    }

    /// The least ratio of a measured time of this program to what was said to be needed at least; `None` while too few
    /// are known to rely on it.
    pub(crate) fn least_ratio(&self) -> Option<f64> {
        const ENOUGH: usize = 16;
        let ratios = self.lessons.iter().filter(|l| l.is_own() && l.features.least > 0.0);
        let ratios: Vec<f64> = ratios.map(|l| l.secs.exp() / l.features.least).collect();
        (ratios.len() >= ENOUGH).then(|| ratios.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// Tells the log how what came in since the last training had been ranked.
    fn report(&self) {
        if self.trees.is_none() || !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let new = || self.lessons[self.learnt..].iter().filter(|l| l.is_own());
        let predicted: Vec<f64> = new().map(|l| self.predict(&l.features)).collect();
        let measured: Vec<f64> = new().map(|l| l.secs).collect();
        let shown = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.2}"));
        tracing::info!(
            "cost model of {} measurements: of {} new ones it ranked {} of the pairs right and found {} of the 8 best",
            self.learnt,
            measured.len(),
            shown(ranked_right(&predicted, &measured)),
            shown(recall(&predicted, &measured, 8)),
        );
    }
}

fn estimate(features: &Features) -> f64 {
    features.estimate.max(f64::MIN_POSITIVE).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(x: f64, estimate: f64) -> Features {
        Features { values: vec![x], estimate, least: estimate / 2.0 }
    }

    #[test]
    fn it_starts_from_the_estimate() {
        let mut model = CostModel::default();
        assert_eq!(model.predict(&features(0.0, 1.0)), 0.0);
        // Where the feature is 1, the estimate is four times too low.
        for i in 0..20 {
            let (x, estimate) = (f64::from(i % 2), f64::from(1 + i % 7));
            model.learn(i as u64, features(x, estimate), estimate * if i % 2 == 1 { 4.0 } else { 1.0 });
        }
        model.retrain(0);
        let (slow, fast) = (model.predict(&features(1.0, 2.0)), model.predict(&features(0.0, 4.0)));
        assert!(slow > fast, "{slow} is to be more than {fast}");
        assert!((slow - 8f64.ln()).abs() < 0.2, "{slow}");
        assert!((model.least_ratio().expect("enough") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn an_estimate_that_says_nothing_is_not_trusted() {
        let mut model = CostModel::default();
        for i in 0..60 {
            let (x, estimate) = (f64::from(i % 2), f64::from(1 + (i * 7) % 11));
            model.learn(i as u64, features(x, estimate), if i % 2 == 1 { 3.0 } else { 1.0 });
        }
        model.retrain(0);
        assert!(model.trust.expect("it has learnt") < 0.3, "{:?}", model.trust);
        assert!(model.predict(&features(0.0, 10.0)) < model.predict(&features(1.0, 1.0)));
    }

    #[test]
    fn other_programs_count_by_their_differences() {
        let mut model = CostModel::default();
        let measured = |i: i32| (features(f64::from(i % 2), 1.0), if i % 2 == 1 { 3000.0 } else { 1000.0 });
        model.learn_from_other((0..40).map(measured).collect());
        model.retrain(0);
        let ratio = (model.predict(&features(1.0, 1.0)) - model.predict(&features(0.0, 1.0))).exp();
        assert!((2.0..3.3).contains(&ratio), "{ratio}");
        assert_eq!(model.least_ratio(), None);
    }
}
