//! Summaries of repeated measurements.

/// Order statistics of times or ratios.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The minimum.
    pub min: f64,
    /// The median: the middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// Distance of the first and ninth deciles, relative to the median.
    pub spread: f64,
    /// Number of values.
    pub n: usize,
}

impl Summary {
    /// The summary of values, none of which is NaN; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, n) = (sorted.first()?, sorted.len());
        let median = median_of_sorted(&sorted);
        let decile = |share: f64| sorted[((n - 1) as f64 * share).round() as usize];
        let spread = (decile(0.9) - decile(0.1)) / median;
        Some(Summary { min, median, mean: sorted.iter().sum::<f64>() / n as f64, spread, n })
    }
}

/// The minimum; infinity if there are no values.
pub(super) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The median of values, none of which is NaN.
///
/// # Panics
/// If there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    assert!(n > 0, "a median is one of something");
    // Exact if the two middle values agree.
    if n % 2 == 1 { sorted[n / 2] } else { f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics() {
        assert_eq!(Summary::of(&[]), None);
        let one = Summary::of(&[3.0]).unwrap();
        assert_eq!((one.min, one.median, one.mean, one.spread, one.n), (3.0, 3.0, 3.0, 0.0, 1));
        let values: Vec<f64> = (1..=11).rev().map(f64::from).collect();
        let s = Summary::of(&values).unwrap();
        assert_eq!((s.min, s.median, s.mean), (1.0, 6.0, 6.0));
        assert_eq!(s.spread, (10.0 - 2.0) / 6.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
