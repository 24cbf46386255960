//! Tensors: arrays of typed elements in little-endian, row-major bytes.

use super::Value;
use crate::ir::dtype::DType;
use crate::ir::scalar::bits::{bits_of, value_of};

/// An array that owns its bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Type of the elements.
    pub dtype: DType,
    /// Extent of each dimension.
    pub shape: Vec<i64>,
    /// The elements.
    pub data: Vec<u8>,
}

/// An array that borrows its bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TensorRef<'a> {
    /// Type of the elements.
    pub dtype: DType,
    /// Extent of each dimension.
    pub shape: &'a [i64],
    /// The elements.
    pub data: &'a [u8],
}

impl Tensor {
    /// An array of zeros.
    pub fn zeros(dtype: DType, shape: &[i64]) -> Tensor {
        let n = n_elements(shape);
        Tensor { dtype, shape: shape.to_vec(), data: vec![0; n * dtype.bytes()] }
    }

    /// An array of these values, in row-major order, each rounded or wrapped to the type.
    ///
    /// # Panics
    ///
    /// If there are fewer values than elements.
    pub fn from_values(dtype: DType, shape: &[i64], mut values: impl Iterator<Item = Value>) -> Tensor {
        let mut t = Tensor::zeros(dtype, shape);
        for i in 0..t.n_elements() {
            t.set(i, values.next().expect("a value for every element"));
        }
        t
    }

    /// A borrowed view of the array.
    pub fn view(&self) -> TensorRef<'_> {
        TensorRef { dtype: self.dtype, shape: &self.shape, data: &self.data }
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.data.len() / self.dtype.bytes()
    }

    /// The element at a position in row-major order.
    pub fn get(&self, i: usize) -> Value {
        self.view().get(i)
    }

    /// Sets the element at a position in row-major order, rounded or wrapped to the type.
    pub fn set(&mut self, i: usize, value: Value) {
        let n = self.dtype.bytes();
        self.data[i * n..(i + 1) * n].copy_from_slice(&bits_of(self.dtype, value).to_le_bytes()[..n]);
    }

    /// All elements as floats.
    pub fn to_f64s(&self) -> Vec<f64> {
        (0..self.n_elements()).map(|i| self.get(i).as_f64()).collect()
    }
}

impl TensorRef<'_> {
    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.data.len() / self.dtype.bytes()
    }

    /// The element at a position in row-major order.
    pub fn get(&self, i: usize) -> Value {
        let n = self.dtype.bytes();
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(&self.data[i * n..(i + 1) * n]);
        value_of(self.dtype, u64::from_le_bytes(bytes))
    }
}

/// The number of elements of a shape.
fn n_elements(shape: &[i64]) -> usize {
    shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_read_back() {
        for dtype in DType::ELEMENTS {
            let value = if dtype.is_float() { Value::Float(-1.5) } else { Value::Int(dtype.wrap(-2)) };
            let mut t = Tensor::zeros(dtype, &[2, 3]);
            t.set(4, value);
            assert_eq!(t.get(4), value, "{dtype}");
            assert_eq!(t.get(3).as_f64(), 0.0, "{dtype}");
        }
    }
}
