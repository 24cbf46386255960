//! Arrays of typed elements in plain bytes, little-endian, row-major.

use super::value::Value;
use crate::ir::dtype::DType;

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

/// An array whose bytes are elsewhere.
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
    /// If there are fewer values than elements.
    pub fn from_values(dtype: DType, shape: &[i64], mut values: impl Iterator<Item = Value>) -> Tensor {
        let mut t = Tensor::zeros(dtype, shape);
        for i in 0..t.n_elements() {
            t.set(i, values.next().expect("a value for every element"));
        }
        t
    }

    /// The array without its ownership.
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
        let slot = &mut self.data[i * n..(i + 1) * n];
        let v = value.as_i64();
        match self.dtype {
            DType::Float16 => slot.copy_from_slice(&half::f16::from_f64(value.as_f64()).to_le_bytes()),
            DType::BFloat16 => slot.copy_from_slice(&half::bf16::from_f64(value.as_f64()).to_le_bytes()),
            DType::Float32 => slot.copy_from_slice(&(value.as_f64() as f32).to_le_bytes()),
            DType::Float64 => slot.copy_from_slice(&value.as_f64().to_le_bytes()),
            DType::Bool => slot[0] = u8::from(v != 0),
            DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::UInt8
            | DType::UInt16
            | DType::UInt32
            | DType::UInt64
            | DType::Handle
            | DType::Str => slot.copy_from_slice(&v.to_le_bytes()[..n]),
        }
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
        fn bytes<const N: usize>(data: &[u8], i: usize) -> [u8; N] {
            let mut b = [0; N];
            b.copy_from_slice(&data[i * N..(i + 1) * N]);
            b
        }
        let d = self.data;
        match self.dtype {
            DType::Float16 => Value::Float(half::f16::from_le_bytes(bytes(d, i)).to_f64()),
            DType::BFloat16 => Value::Float(half::bf16::from_le_bytes(bytes(d, i)).to_f64()),
            DType::Float32 => Value::Float(f32::from_le_bytes(bytes(d, i)).into()),
            DType::Float64 => Value::Float(f64::from_le_bytes(bytes(d, i))),
            DType::Int8 => Value::Int(i8::from_le_bytes(bytes(d, i)).into()),
            DType::Int16 => Value::Int(i16::from_le_bytes(bytes(d, i)).into()),
            DType::Int32 => Value::Int(i32::from_le_bytes(bytes(d, i)).into()),
            DType::UInt8 => Value::Int(d[i].into()),
            DType::UInt16 => Value::Int(u16::from_le_bytes(bytes(d, i)).into()),
            DType::UInt32 => Value::Int(u32::from_le_bytes(bytes(d, i)).into()),
            DType::Bool => Value::Int((d[i] != 0).into()),
            DType::Int64 | DType::UInt64 | DType::Handle | DType::Str => Value::Int(i64::from_le_bytes(bytes(d, i))),
        }
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
