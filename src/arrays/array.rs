//! Arrays in memory.

use crate::ir::interp::TensorRef;
use crate::ir::scalar::bits::bits_of;
use crate::ir::{Const, DType};

/// An array of elements of one type, as kernels take it: row-major, little-endian, without gaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    dtype: DType,
    shape: Vec<i64>,
    data: Vec<u8>,
}

/// Bytes that do not make an array of the stated type and shape.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoArray {
    /// There are more or fewer bytes than the shape needs.
    #[error("{dtype} of shape {shape:?} has another size than {found} bytes")]
    Size {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<i64>,
        /// The number of bytes.
        found: usize,
    },
    /// A byte of a `bool` array is neither 0 nor 1.
    #[error("a `bool` is neither 0 nor 1, but {0}")]
    Bool(u8),
}

impl Array {
    /// An array of these bytes.
    ///
    /// # Errors
    /// If the number of bytes is not that of the shape, or the bytes are no elements of the type.
    pub fn new(dtype: DType, shape: &[i64], data: Vec<u8>) -> Result<Array, NoArray> {
        if bytes_of(dtype.bytes(), shape) != u64::try_from(data.len()).ok() {
            return Err(NoArray::Size { dtype, shape: shape.to_vec(), found: data.len() });
        }
        if dtype == DType::Bool
            && let Some(&other) = data.iter().find(|&&b| b > 1)
        {
            return Err(NoArray::Bool(other));
        }
        Ok(Array { dtype, shape: shape.to_vec(), data })
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// If the shape has more or fewer elements.
    pub fn with_shape(self, shape: &[i64]) -> Result<Array, NoArray> {
        Array::new(self.dtype, shape, self.data)
    }

    /// The array of rank 0 whose element a text is: a number in decimal, or `true` or `false` for `bool`. Floats are rounded to
    /// the type. `None` if the text is no number of the type.
    pub fn number(dtype: DType, text: &str) -> Option<Array> {
        let value = if dtype.is_float() {
            Const::Float(text.parse().ok()?)
        } else if dtype == DType::Bool {
            Const::Int(match text {
                "true" | "1" => 1,
                "false" | "0" => 0,
                _ => return None,
            })
        } else {
            let value: i128 = text.parse().ok()?;
            let bits = dtype.bits().min(64);
            let (low, high) = if dtype.is_int() { (-(1 << (bits - 1)), 1 << (bits - 1)) } else { (0, 1i128 << bits) };
            if !(low..high).contains(&value) {
                return None;
            }
            Const::Int(value as i64)
        };
        let bytes = bits_of(dtype, value).to_le_bytes();
        Array::new(dtype, &[], bytes[..dtype.bytes()].to_vec()).ok()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extent of each dimension; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The bytes of the elements.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The bytes of the elements.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.bytes()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The array as the interpreter sees it, which reads single elements.
    pub fn view(&self) -> TensorRef<'_> {
        TensorRef { dtype: self.dtype, shape: &self.shape, data: &self.data }
    }
}

/// An array of one dimension.
impl From<&[f32]> for Array {
    fn from(elements: &[f32]) -> Array {
        let data = elements.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array { dtype: DType::Float32, shape: vec![elements.len() as i64], data }
    }
}

/// An array of one dimension.
impl From<&[i64]> for Array {
    fn from(elements: &[i64]) -> Array {
        let data = elements.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array { dtype: DType::Int64, shape: vec![elements.len() as i64], data }
    }
}

/// The bytes of elements of this size in this shape; `None` for a negative extent, or beyond 64 bits.
pub(super) fn bytes_of(size: usize, shape: &[i64]) -> Option<u64> {
    if shape.iter().any(|&n| n < 0) {
        return None;
    }
    // An empty array may have extents whose product would be too large.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(size as u64, |bytes, &n| bytes.checked_mul(n as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_make_the_array() {
        let array = Array::new(DType::Float32, &[2, 3], vec![0; 24]).expect("an array");
        assert_eq!((array.len(), array.view().n_elements()), (6, 6));
        assert!(Array::new(DType::Float32, &[], vec![0; 4]).is_ok_and(|a| a.len() == 1));
        assert!(Array::new(DType::Float32, &[0, i64::MAX, i64::MAX], Vec::new()).is_ok_and(|a| a.is_empty()));
        for shape in [&[2, 2][..], &[-2, -3], &[i64::MAX, i64::MAX, 8], &[]] {
            let error = Array::new(DType::Float32, shape, vec![0; 24]).expect_err("not of this shape");
            assert_eq!(error, NoArray::Size { dtype: DType::Float32, shape: shape.to_vec(), found: 24 });
        }
        assert_eq!(Array::new(DType::Bool, &[2], vec![1, 2]), Err(NoArray::Bool(2)));
    }
}
