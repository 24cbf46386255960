//! Gradient-boosted regression trees: small, and exactly reproducible.
//!
//! A search has tens to hundreds of rows and retrains after every few of them. Crates made for large tables spend their
//! time on thread pools, and adapt to the free memory, on which candidates must not depend. Squared loss, weighted
//! rows, values in at most [`BINS`] bins; each tree sees a part of the rows and of the columns, drawn from a seeded
//! stream.

use crate::space::mutator::unit;
use crate::space::sample::stream;

/// A sequence of trees, each of which corrects the previous ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trees {
    base: f64,
    trees: Vec<Vec<Node>>,
}

/// A row of the training data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example<'a> {
    /// The features; all examples have the same number.
    pub values: &'a [f64],
    /// The value to predict.
    pub target: f64,
    /// Weight of the row.
    pub weight: f64,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Leaf(f64),
    /// Values up to the threshold go to the first child, others to the second.
    Split {
        feature: u32,
        threshold: f64,
        children: [u32; 2],
    },
}

/// Number of trees. With so few rows, more trees only cost time.
const TREES: usize = 120;
const DEPTH: usize = 4;
/// Learning rate.
const RATE: f64 = 0.12;
/// Regularisation: the weight of imagined zero rows in each leaf.
const CAUTION: f64 = 1.0;
/// Maximum number of bins per feature.
const BINS: usize = 32;
/// Minimum number of rows in a leaf.
const LEAF_ROWS: usize = 2;
const ROW_SHARE: f64 = 0.8;
const COLUMN_SHARE: f64 = 0.7;

impl Trees {
    /// Trains on examples.
    pub(crate) fn fit(examples: &[Example<'_>], seed: u64) -> Trees {
        let all = examples.iter().map(|e| e.weight).sum::<f64>();
        if examples.is_empty() || all <= 0.0 {
            return Trees::default();
        }
        let scale = examples.len() as f64 / all;
        let weights: Vec<f64> = examples.iter().map(|e| e.weight * scale).collect();
        let base = examples.iter().zip(&weights).map(|(e, w)| e.target * w).sum::<f64>() / examples.len() as f64;
        let columns = Columns::new(examples);
        let mut errors: Vec<f64> = examples.iter().map(|e| e.target - base).collect();
        let mut rng = stream(seed, 0);
        let mut trees = Vec::with_capacity(TREES);
        for _ in 0..TREES {
            let rows: Vec<u32> = (0..examples.len() as u32).filter(|_| unit(&mut rng) < ROW_SHARE).collect();
            let features: Vec<u32> =
                columns.varying.iter().copied().filter(|_| unit(&mut rng) < COLUMN_SHARE).collect();
            if rows.is_empty() || features.is_empty() {
                continue;
            }
            let mut grower =
                Grower { columns: &columns, weights: &weights, errors: &errors, features, nodes: Vec::new() };
            grower.grow(rows, DEPTH);
            let tree = grower.nodes;
            for (error, e) in errors.iter_mut().zip(examples) {
                *error -= value(&tree, e.values);
            }
            trees.push(tree);
        }
        Trees { base, trees }
    }

    /// The prediction for a row.
    pub(crate) fn predict(&self, values: &[f64]) -> f64 {
        self.base + self.trees.iter().map(|t| value(t, values)).sum::<f64>()
    }
}

fn value(tree: &[Node], values: &[f64]) -> f64 {
    let mut at = 0;
    loop {
        match tree[at] {
            Node::Leaf(v) => return v,
            Node::Split { feature, threshold, children } => {
                at = children[usize::from(values[feature as usize] > threshold)] as usize;
            }
        }
    }
}

/// The features of all rows, binned.
struct Columns {
    /// For each feature, the increasing thresholds between bins.
    thresholds: Vec<Vec<f64>>,
    /// For each feature, the bin of each row.
    bins: Vec<Vec<u8>>,
    /// Features with more than one bin.
    varying: Vec<u32>,
}

impl Columns {
    fn new(examples: &[Example<'_>]) -> Columns {
        let n = examples.iter().map(|e| e.values.len()).min().unwrap_or(0);
        let thresholds: Vec<Vec<f64>> = (0..n).map(|f| thresholds(examples, f)).collect();
        let bin = |e: &Example<'_>, f: usize| thresholds[f].partition_point(|t| e.values[f] > *t) as u8;
        let bins = (0..n).map(|f| examples.iter().map(|e| bin(e, f)).collect()).collect();
        let varying = (0..n as u32).filter(|&f| !thresholds[f as usize].is_empty()).collect();
        Columns { thresholds, bins, varying }
    }
}

fn thresholds(examples: &[Example<'_>], feature: usize) -> Vec<f64> {
    let mut values: Vec<f64> = examples.iter().map(|e| e.values[feature]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let n = values.len();
    let cuts = (n - 1).min(BINS - 1);
    let at = |i: usize| (i + 1) * n / (cuts + 1);
    (0..cuts).map(|i| (values[at(i) - 1] + values[at(i)]) / 2.0).collect()
}

/// Sums over rows.
#[derive(Clone, Copy, Default)]
struct Sums {
    error: f64,
    weight: f64,
    rows: usize,
}

impl Sums {
    fn add(&mut self, error: f64, weight: f64) {
        self.error += error * weight;
        self.weight += weight;
        self.rows += 1;
    }

    fn plus(self, o: Sums) -> Sums {
        Sums { error: self.error + o.error, weight: self.weight + o.weight, rows: self.rows + o.rows }
    }

    fn minus(self, o: Sums) -> Sums {
        Sums { error: self.error - o.error, weight: self.weight - o.weight, rows: self.rows - o.rows }
    }

    /// Decrease of the squared error with the best constant for these rows.
    fn gain(self) -> f64 {
        self.error * self.error / (self.weight + CAUTION)
    }
}

struct Grower<'a> {
    columns: &'a Columns,
    weights: &'a [f64],
    errors: &'a [f64],
    features: Vec<u32>,
    nodes: Vec<Node>,
}

impl Grower<'_> {
    /// Adds a tree for these rows; returns its position.
    fn grow(&mut self, rows: Vec<u32>, depth: usize) -> u32 {
        let mut all = Sums::default();
        for &r in &rows {
            all.add(self.errors[r as usize], self.weights[r as usize]);
        }
        let at = self.nodes.len() as u32;
        self.nodes.push(Node::Leaf(RATE * all.error / (all.weight + CAUTION)));
        if depth == 0 || rows.len() < 2 * LEAF_ROWS {
            return at;
        }
        let Some((feature, bin)) = self.split(&rows, all) else { return at };
        let bins = &self.columns.bins[feature as usize];
        let (low, high): (Vec<u32>, Vec<u32>) = rows.iter().partition(|&&r| bins[r as usize] <= bin);
        let threshold = self.columns.thresholds[feature as usize][usize::from(bin)];
        let children = [self.grow(low, depth - 1), self.grow(high, depth - 1)];
        self.nodes[at as usize] = Node::Split { feature, threshold, children };
        at
    }

    /// The feature to split by, and the last bin of the first part.
    fn split(&self, rows: &[u32], all: Sums) -> Option<(u32, u8)> {
        let mut best = None;
        let mut best_gain = all.gain() + 1e-9;
        for &feature in &self.features {
            let bins = &self.columns.bins[feature as usize];
            let mut sums = [Sums::default(); BINS];
            for &r in rows {
                sums[usize::from(bins[r as usize])].add(self.errors[r as usize], self.weights[r as usize]);
            }
            let mut low = Sums::default();
            let cuts = self.columns.thresholds[feature as usize].len();
            for (bin, sum) in sums[..cuts].iter().enumerate() {
                low = low.plus(*sum);
                let high = all.minus(low);
                if low.rows < LEAF_ROWS || high.rows < LEAF_ROWS {
                    continue;
                }
                let gain = low.gain() + high.gain();
                if gain > best_gain {
                    (best, best_gain) = (Some((feature, bin as u8)), gain);
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::super::quality::ranked_right;
    use super::*;
    use rand_chacha::ChaCha8Rng;

    /// Rows whose target depends on a few of many features.
    fn rows(n: usize, rng: &mut ChaCha8Rng) -> Vec<(Vec<f64>, f64)> {
        let row = |rng: &mut ChaCha8Rng| {
            let x: Vec<f64> = (0..60).map(|_| (unit(rng) * 8.0).floor()).collect();
            let y = (x[0] - 4.0).abs() + 0.5 * x[1] * f64::from(u8::from(x[2] > 3.0)) + 0.3 * x[3].min(x[4]);
            (x, y)
        };
        (0..n).map(|_| row(rng)).collect()
    }

    #[test]
    fn synthetic_data_is_ranked() {
        let mut rng = stream(1, 0);
        let unseen = rows(200, &mut rng);
        let targets: Vec<f64> = unseen.iter().map(|r| r.1).collect();
        for (n, least) in [(64, 0.70), (256, 0.84), (1000, 0.92)] {
            let known = rows(n, &mut rng);
            let examples: Vec<Example<'_>> =
                known.iter().map(|(values, target)| Example { values, target: *target, weight: 1.0 }).collect();
            let trees = Trees::fit(&examples, 0);
            let predicted: Vec<f64> = unseen.iter().map(|r| trees.predict(&r.0)).collect();
            let right = ranked_right(&predicted, &targets).expect("pairs");
            assert!(right > least, "{n} rows: {right} of the pairs");
        }
    }

    #[test]
    fn equal_examples_make_equal_trees() {
        let known = rows(50, &mut stream(3, 0));
        let examples: Vec<Example<'_>> =
            known.iter().map(|(values, target)| Example { values, target: *target, weight: 0.5 }).collect();
        let (a, b) = (Trees::fit(&examples, 7), Trees::fit(&examples, 7));
        assert!(known.iter().all(|(x, _)| a.predict(x).to_bits() == b.predict(x).to_bits()));
    }

    #[test]
    fn little_to_learn_is_no_trouble() {
        assert_eq!(Trees::fit(&[], 0).predict(&[1.0]), 0.0);
        let one = Example { values: &[1.0, 2.0], target: 3.0, weight: 2.0 };
        assert_eq!(Trees::fit(&[one], 0).predict(&[5.0, 6.0]), 3.0);
        assert_eq!(Trees::fit(&[one; 9], 0).predict(&[5.0, 6.0]), 3.0);
    }
}
