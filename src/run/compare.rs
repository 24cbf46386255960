//! Compares an output with the array that was expected.

use crate::arrays::{Array, Element};
use crate::measure::Tolerance;

/// Differences that are described one by one.
const DESCRIBED: usize = 4;

/// The result of a comparison, element by element.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The number of elements.
    pub total: usize,
    /// The number of elements that differ by more than the tolerance.
    pub different: usize,
    /// The first of them.
    pub first: Vec<Different>,
    /// The largest absolute difference of finite elements, within the tolerance or not.
    pub max_abs: f64,
    /// The largest difference relative to an expected value that is not 0.
    pub max_rel: f64,
    /// The tolerance.
    pub tolerance: Tolerance,
}

/// An element that differs.
#[derive(Clone, PartialEq, Debug)]
pub struct Different {
    /// Its indices.
    pub index: Vec<i64>,
    /// The expected value.
    pub expected: Element,
    /// The value found.
    pub found: Element,
}

impl Comparison {
    /// Whether all elements are within the tolerance.
    pub fn is_equal(&self) -> bool {
        self.different == 0
    }
}

/// Compares by NumPy's rule: `|found - expected| <= absolute + relative * |expected|`; NaN equals NaN, and an infinity only
/// itself.
///
/// # Panics
/// If the arrays have different types or shapes.
pub fn compare(found: &Array, expected: &Array, tolerance: Tolerance) -> Comparison {
    assert_eq!(
        (found.dtype(), found.shape()),
        (expected.dtype(), expected.shape()),
        "arrays are compared with their like"
    );
    let total = found.len();
    let mut all = Comparison { total, different: 0, first: Vec::new(), max_abs: 0.0, max_rel: 0.0, tolerance };
    if found.data() == expected.data() {
        return all;
    }
    for i in 0..total {
        let (f, e) = (found.element(i), expected.element(i));
        let distance = match (f, e) {
            // Exact, unlike the difference of floats.
            (Element::Int(f), Element::Int(e)) => (f - e).unsigned_abs() as f64,
            _ => (f.as_f64() - e.as_f64()).abs(),
        };
        if distance.is_finite() {
            all.max_abs = all.max_abs.max(distance);
            if e.as_f64() != 0.0 {
                all.max_rel = all.max_rel.max(distance / e.as_f64().abs());
            }
        }
        let is_equal = match (f, e) {
            (Element::Int(_), Element::Int(_)) => {
                distance <= tolerance.absolute + tolerance.relative * e.as_f64().abs()
            }
            _ => tolerance.admits(e.as_f64(), f.as_f64()),
        };
        if !is_equal {
            all.different += 1;
            if all.first.len() < DESCRIBED {
                all.first.push(Different { index: found.indices(i), expected: e, found: f });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_compared_as_numpy_does() {
        let floats = |v: &[f32]| Array::from(v);
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let tolerance = Tolerance { absolute: 0.5, relative: 0.25 };
        let found = floats(&[1.0, 3.0, nan, inf, 5.0, -0.0, 1.0, inf]);
        let expected = floats(&[1.5, 2.0, nan, inf, 3.0, 0.0, nan, -inf]);
        let all = compare(&found, &expected, tolerance);
        assert_eq!((all.total, all.different, all.is_equal()), (8, 3, false));
        assert_eq!(all.first.iter().map(|d| d.index[0]).collect::<Vec<_>>(), [4, 6, 7]);
        assert_eq!((all.max_abs, all.max_rel), (2.0, 2.0 / 3.0));
        assert_eq!((all.first[0].expected, all.first[0].found), (Element::Float32(3.0), Element::Float32(5.0)));
        assert!(compare(&found, &found, Tolerance::EXACT).is_equal());
    }

    #[test]
    fn integers_are_exact_unless_a_tolerance_is_given() {
        let of = |v: &[i64]| Array::from(v);
        // These are the same number as floats.
        let (a, b) = (of(&[1 << 53, i64::MIN]), of(&[(1 << 53) + 1, i64::MIN]));
        let all = compare(&a, &b, Tolerance::EXACT);
        assert_eq!((all.different, all.max_abs), (1, 1.0));
        assert!(compare(&a, &b, Tolerance { absolute: 1.0, relative: 0.0 }).is_equal());
        let all = compare(&of(&[i64::MAX]), &of(&[i64::MIN]), Tolerance::EXACT);
        assert_eq!((all.different, all.max_abs), (1, 2f64.powi(64)));
    }
}
