//! Single elements of arrays.

use super::array::Array;
use crate::ir::DType;
use crate::ir::interp::Value;
use std::fmt;

/// The value of an element, exact for every type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Element {
    /// An integer, or 0 or 1 for a `bool`.
    Int(i128),
    /// A float of at most 32 bits.
    Float32(f32),
    /// A float of 64 bits.
    Float64(f64),
}

impl Element {
    /// The nearest float of 64 bits.
    pub fn as_f64(self) -> f64 {
        match self {
            Element::Int(v) => v as f64,
            Element::Float32(v) => v.into(),
            Element::Float64(v) => v,
        }
    }

    /// Whether it is a NaN.
    pub fn is_nan(self) -> bool {
        self.as_f64().is_nan()
    }
}

/// The shortest text that reads back as the same value of the element's type.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Int(v) => write!(f, "{v}"),
            Element::Float32(v) => write!(f, "{v:?}"),
            Element::Float64(v) => write!(f, "{v:?}"),
        }
    }
}

impl Array {
    /// The element at a position in row-major order.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn element(&self, i: usize) -> Element {
        match (self.dtype(), self.view().get(i)) {
            // Carried as the signed integer of the same bits.
            (DType::UInt64, Value::Int(v)) => Element::Int((v as u64).into()),
            (_, Value::Int(v)) => Element::Int(v.into()),
            (DType::Float64, Value::Float(v)) => Element::Float64(v),
            // Rounds nothing: all other floats are numbers of 32 bits.
            (_, Value::Float(v)) => Element::Float32(v as f32),
        }
    }

    /// The indices of the element at a position in row-major order.
    pub fn indices(&self, mut i: usize) -> Vec<i64> {
        let mut indices = vec![0; self.shape().len()];
        for (index, &extent) in indices.iter_mut().zip(self.shape()).rev() {
            let extent = usize::try_from(extent).unwrap_or(1).max(1);
            *index = (i % extent) as i64;
            i /= extent;
        }
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_exact_and_print_shortly() {
        let of = |dtype, bytes: &[u8]| Array::new(dtype, &[], bytes.to_vec()).expect("an array").element(0);
        assert_eq!(of(DType::UInt64, &[0xff; 8]), Element::Int(u64::MAX.into()));
        assert_eq!(of(DType::Int64, &[0xff; 8]), Element::Int(-1));
        assert_eq!(of(DType::Bool, &[1]), Element::Int(1));
        assert_eq!(of(DType::Float32, &0.1f32.to_le_bytes()).to_string(), "0.1");
        assert_eq!(of(DType::Float64, &1e300f64.to_le_bytes()).to_string(), "1e300");
        assert_eq!(of(DType::BFloat16, &[0x80, 0x3f]).to_string(), "1.0");
        assert!(of(DType::Float16, &[0, 0x7e]).is_nan());
        let array = Array::new(DType::Int8, &[2, 3], vec![0; 6]).expect("an array");
        assert_eq!(array.indices(5), [1, 2]);
    }
}
