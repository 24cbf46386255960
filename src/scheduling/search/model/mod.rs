//! The cost model: predicts the time of a candidate.
//!
//! It starts from the analytical estimate and learns the estimate's error as a function of the features: the target is
//! `ln(measured) - trust * ln(estimate)`. What the estimate knows need not be learnt, so few records help, even records
//! of other programs on the same machine. The trust starts at 1, and falls if measurements do not follow the estimate.

mod quality;
mod trees;

pub(crate) use quality::{ranked_right, recall};
pub(crate) use trees::{Example, Trees};

use super::features::Features;

/// Learns from measurements, and predicts times.
#[derive(Default)]
pub(crate) struct CostModel {
    feedback: Vec<Feedback>,
    trees: Option<Trees>,
    /// Number of measurements when the trees were trained.
    learnt: usize,
    /// Trust in the estimate; `None` for full trust.
    trust: Option<f64>,
    /// Range of the residuals in the training data; predictions are clamped to it.
    range: (f64, f64),
    n_others: usize,
}

struct Feedback {
    features: Features,
    /// Logarithms of the estimate and of the measured seconds.
    estimate: f64,
    secs: f64,
    /// 0 is this workload; others are numbered from 1.
    workload: usize,
    /// Hash of the scheduled program; `None` for other workloads.
    program: Option<u64>,
}

impl Feedback {
    fn new(features: Features, secs: f64, workload: usize, program: Option<u64>) -> Feedback {
        Feedback { estimate: estimate(&features), features, secs: secs.ln(), workload, program }
    }

    fn is_own(&self) -> bool {
        self.workload == 0
    }
}

/// Minimum number of measurements for training: with fewer, the estimate is the better guide.
const LEAST_LESSONS: usize = 12;
/// Up to this number of measurements, the trees are retrained after each new one.
const FEW: usize = 200;
/// Weight of a measurement of another program, relative to one of this program.
const OTHERS: f64 = 0.3;
/// Prior for the trust: the number of imagined measurements that follow the estimate, and the variance of their
/// logarithms.
const FAITH: (f64, f64) = (8.0, 0.5);

impl CostModel {
    /// Adds a measurement of this program.
    pub(crate) fn learn(&mut self, program: u64, features: Features, secs: f64) {
        self.feedback.push(Feedback::new(features, secs, 0, Some(program)));
    }

    /// Removes the measurements of a program whose result turned out to be wrong.
    pub(crate) fn forget(&mut self, program: u64) {
        let before = self.feedback.len();
        self.feedback.retain(|l| l.program != Some(program));
        if self.feedback.len() < before {
            // Force retraining, since the trees have learnt it.
            self.learnt = 0;
        }
    }

    /// Adds measurements of another program. Only their differences from each other are used.
    pub(crate) fn learn_from_other(&mut self, measured: Vec<(Features, f64)>) {
        self.n_others += 1;
        self.feedback
            .extend(measured.into_iter().map(|(features, secs)| Feedback::new(features, secs, self.n_others, None)));
    }

    /// Retrains the trees if there are enough new measurements, and logs how well the old ones would have ranked those.
    pub(crate) fn retrain(&mut self, seed: u64) {
        let n = self.feedback.len();
        let is_due = if n <= FEW { n > self.learnt } else { n >= self.learnt + self.learnt / 10 };
        if n < LEAST_LESSONS || !is_due {
            return;
        }
        self.report();
        let trust = self.measured_trust();
        let residual = |l: &Feedback| l.secs - trust * l.estimate;
        let mean = |workload: usize| {
            let of = || self.feedback.iter().filter(|l| l.workload == workload);
            of().map(residual).sum::<f64>() / (of().count() as f64).max(1.0)
        };
        let means: Vec<f64> = (0..=self.n_others).map(mean).collect();
        let own = || self.feedback.iter().filter(|l| l.is_own());
        let best = own().map(|l| l.secs).fold(f64::INFINITY, f64::min);
        let mut examples: Vec<Example<'_>> = Vec::with_capacity(n);
        for l in &self.feedback {
            // Candidates near the best must be told apart; for others it is enough to know that they are slow.
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

    /// The regression slope of measured over estimated logarithms, between 0 and 1.
    fn measured_trust(&self) -> f64 {
        let own = || self.feedback.iter().filter(|l| l.is_own());
        let n = (own().count() as f64).max(1.0);
        let (x, y) = own().fold((0.0, 0.0), |(x, y), l| (x + l.estimate / n, y + l.secs / n));
        let faith = FAITH.0 * FAITH.1;
        let (both, one) = own().fold((faith, faith), |(both, one), l| {
            (both + (l.estimate - x) * (l.secs - y), one + (l.estimate - x).powi(2))
        });
        (both / one).clamp(0.0, 1.0)
    }

    /// The logarithm of the predicted seconds.
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

    /// The smallest ratio of measured time to lower bound for this program; `None` if there are too few measurements to
    /// rely on it.
    pub(crate) fn least_ratio(&self) -> Option<f64> {
        const ENOUGH: usize = 16;
        let ratios = self.feedback.iter().filter(|l| l.is_own() && l.features.least > 0.0);
        let ratios: Vec<f64> = ratios.map(|l| l.secs.exp() / l.features.least).collect();
        (ratios.len() >= ENOUGH).then(|| ratios.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// Logs how well the measurements since the last training were ranked.
    fn report(&self) {
        if self.trees.is_none() || !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let new = || self.feedback[self.learnt..].iter().filter(|l| l.is_own());
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
        // With this feature at 1, the estimate is a quarter of the time.
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
