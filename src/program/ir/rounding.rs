//! Maximum rounding errors of correct implementations of an operation, in halves of an ulp. An operation without a
//! constant here is rounded once: the error is one half of an ulp.

/// A division, which may be computed as a product with the rounded reciprocal.
pub const DIVISION: f64 = 3.0;

/// A function of `float32` or `float64`, which is approximated (docs/architecture.md: 4 ulp). Functions of half
/// precision are computed in `float32` and rounded.
pub const FUNCTION: f64 = 8.0;

/// Whether the divisor is a power of two, so that a product with its reciprocal is the exact quotient.
pub fn has_exact_reciprocal(divisor: f64) -> bool {
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
