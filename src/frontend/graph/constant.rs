//! Tensors with known elements.

use crate::ir::DType;
use std::fmt;
use std::sync::Arc;

/// A tensor with known elements, in row-major order and little-endian bytes. Copies share the elements.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Constant {
    dtype: DType,
    shape: Vec<i64>,
    data: Arc<Vec<u8>>,
}

impl fmt::Debug for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

impl Constant {
    /// A tensor of these bytes; `None` if there are not as many as the shape says.
    pub fn new(dtype: DType, shape: &[i64], data: Vec<u8>) -> Option<Constant> {
        let n = shape.iter().try_fold(dtype.bytes(), |n, &extent| n.checked_mul(usize::try_from(extent).ok()?))?;
        (n == data.len()).then(|| Constant { dtype, shape: shape.to_vec(), data: Arc::new(data) })
    }

    /// A tensor of these bytes.
    ///
    /// # Panics
    /// If there are not as many as the shape says.
    pub(crate) fn of_bytes(dtype: DType, shape: &[i64], data: Vec<u8>) -> Constant {
        Constant::new(dtype, shape, data).unwrap_or_else(|| unreachable!("the bytes of {dtype} {shape:?} are given"))
    }

    /// The elements by another shape.
    ///
    /// # Panics
    /// If it has another number of elements.
    pub(crate) fn reshaped(&self, shape: &[i64]) -> Constant {
        assert_eq!(shape.iter().product::<i64>(), self.len() as i64, "a shape has as many elements as before");
        Constant { shape: shape.to_vec(), ..self.clone() }
    }

    /// A tensor without dimensions; `None` if the type has no such numbers.
    pub fn scalar(value: f64, dtype: DType) -> Option<Constant> {
        let data = match dtype {
            DType::Float16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
            DType::BFloat16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
            DType::Float32 => (value as f32).to_le_bytes().to_vec(),
            DType::Float64 => value.to_le_bytes().to_vec(),
            _ => return Constant::integer(value as i64, dtype),
        };
        Constant::new(dtype, &[], data)
    }

    /// An integer or boolean without dimensions; `None` if the type has no such numbers.
    pub fn integer(value: i64, dtype: DType) -> Option<Constant> {
        let size = match dtype {
            DType::Bool => 1,
            t if t.is_integer() && t.bits() >= 8 => t.bytes(),
            _ => return None,
        };
        Constant::new(dtype, &[], value.to_le_bytes()[..size].to_vec())
    }

    /// Integers, as a tensor of one dimension.
    pub fn integers(values: &[i64]) -> Constant {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Constant { dtype: DType::Int64, shape: vec![values.len() as i64], data: Arc::new(data) }
    }

    /// The same tensor with the elements of another one that has equal bytes, which both share from then on.
    pub(super) fn sharing(self, other: &Constant) -> Constant {
        debug_assert_eq!(self.data, other.data, "only equal elements are shared");
        Constant { data: other.data.clone(), ..self }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The elements as bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.bytes()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// An element as an integer; `None` for types that are no integers.
    pub fn int(&self, element: usize) -> Option<i64> {
        let size = self.dtype.bytes();
        let bytes = self.data.get(element * size..(element + 1) * size)?;
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(bytes);
        let value = i64::from_le_bytes(wide);
        match self.dtype {
            DType::Bool | DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 | DType::Int64 => Some(value),
            DType::Int8 => Some(i64::from(value as i8)),
            DType::Int16 => Some(i64::from(value as i16)),
            DType::Int32 => Some(i64::from(value as i32)),
            _ => None,
        }
    }

    /// An element as a float, also of an integer; `None` for types without a number.
    pub fn float(&self, element: usize) -> Option<f64> {
        let size = self.dtype.bytes();
        let bytes = self.data.get(element * size..(element + 1) * size)?;
        match self.dtype {
            DType::Float16 => Some(half::f16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
            DType::BFloat16 => Some(half::bf16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
            DType::Float32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
            DType::Float64 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
            DType::UInt64 => self.int(element).map(|v| v as u64 as f64),
            _ => self.int(element).map(|v| v as f64),
        }
    }
}
