//! Checks that extents fit the types of loops.
//!
//! Constants of the IR wrap around like machine integers, so that an overflowing product of factors would silently
//! change the program: 65536 times 65536 iterations of `int32` are 0.

use super::super::error::ErrorKind;
use crate::ir::DType;

/// The product of extents, as the extent of a loop of type `dtype`.
///
/// # Errors
///
/// If the type cannot represent the product.
pub(crate) fn product(dtype: DType, extents: impl IntoIterator<Item = i64>) -> Result<i64, ErrorKind> {
    let product = extents.into_iter().fold(1i128, |p, e| p.saturating_mul(e.into()));
    let limit = dtype.max_value().unwrap_or(i64::MAX);
    match i64::try_from(product) {
        Ok(n) if n <= limit => Ok(n),
        Ok(n) => Err(ErrorKind::ExtentOverflow { extent: n.to_string(), dtype }),
        Err(_) => Err(overflow(dtype)),
    }
}

/// The error for an extent that no type can represent.
pub(crate) fn overflow(dtype: DType) -> ErrorKind {
    ErrorKind::ExtentOverflow { extent: "more than 2**63 - 1".to_string(), dtype }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_the_limit() {
        let fits = |dtype, extents: &[i64]| product(dtype, extents.iter().copied()).ok();
        assert_eq!(fits(DType::Int32, &[]), Some(1));
        assert_eq!(fits(DType::Int32, &[65536, 32767]), Some(65536 * 32767));
        assert_eq!(fits(DType::Int32, &[65536, 32768]), None);
        assert_eq!(fits(DType::Int64, &[65536, 32768]), Some(1 << 31));
        assert_eq!(fits(DType::Int64, &[1 << 32, 1 << 31]), None);
        assert_eq!(fits(DType::Int64, &[i64::MAX; 5]), None);
    }
}
