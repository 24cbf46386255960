//! Quality of predicted rankings.

/// The share of correctly ordered pairs among those that differ; `None` if all are equal.
pub(crate) fn ranked_right(predicted: &[f64], measured: &[f64]) -> Option<f64> {
    let (mut right, mut pairs) = (0.0, 0.0);
    for i in 0..measured.len() {
        for j in 0..i {
            if measured[i] == measured[j] {
                continue;
            }
            pairs += 1.0;
            right += match (predicted[i] < predicted[j]) == (measured[i] < measured[j]) {
                _ if predicted[i] == predicted[j] => 0.5,
                true => 1.0,
                false => 0.0,
            };
        }
    }
    (pairs > 0.0).then(|| right / pairs)
}

/// The share of the `k` fastest that are among the `k` best predictions.
pub(crate) fn recall(predicted: &[f64], measured: &[f64], k: usize) -> Option<f64> {
    if measured.len() <= k {
        return None;
    }
    let first = |values: &[f64]| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        order.truncate(k);
        order
    };
    let best = first(measured);
    Some(first(predicted).iter().filter(|i| best.contains(i)).count() as f64 / k as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_compared() {
        assert_eq!(ranked_right(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
        assert_eq!(ranked_right(&[3.0, 2.0, 1.0], &[10.0, 20.0, 30.0]), Some(0.0));
        assert_eq!(ranked_right(&[1.0, 1.0], &[10.0, 20.0]), Some(0.5));
        assert_eq!(ranked_right(&[1.0, 2.0], &[10.0, 10.0]), None);
        assert_eq!(recall(&[1.0, 2.0, 3.0, 4.0], &[1.0, 4.0, 2.0, 3.0], 2), Some(0.5));
        assert_eq!(recall(&[1.0], &[1.0], 2), None);
    }
}
