//! How far right implementations of an operation may be from the exact result, in halves of an ulp. An operation that is
//! not named here is rounded once: one half.

/// A division: it may be a product with the rounded reciprocal.
pub(crate) const DIVISION: f64 = 3.0;

/// A function of `float32` or `float64`, which is approximated (docs/architecture.md: 4 ulp). Those of half precision are
/// functions of `float32`, rounded.
pub(crate) const FUNCTION: f64 = 8.0;

/// Is the divisor a power of two, so that a product with its reciprocal is the quotient?
pub(crate) fn has_exact_reciprocal(divisor: f64) -> bool {
    divisor.is_normal() && divisor.to_bits() << 12 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_have_exact_reciprocals() {
        assert!([1.0, -0.25, 1024.0].into_iter().all(has_exact_reciprocal));
        assert!(![3.0, 0.0, 1.5, f64::INFINITY, f64::NAN].into_iter().any(has_exact_reciprocal));
    }
}
