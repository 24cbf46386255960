//! Arrays of the caller, as calls take them.

use crate::ir::DType;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// Extents or strides; few arrays have more dimensions.
pub(super) type Dims = SmallVec<[i64; 6]>;

/// An array in memory of the caller: nothing is copied.
#[derive(Clone, Debug)]
pub struct ArrayRef<'a> {
    pub(super) data: *mut u8,
    pub(super) dtype: DType,
    pub(super) shape: Dims,
    /// In elements; `None` if the elements are contiguous in row-major order.
    pub(super) strides: Option<Dims>,
    pub(super) is_writable: bool,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> ArrayRef<'a> {
    /// An array to read.
    pub fn of<T: Element>(elements: &'a [T], shape: &[i64]) -> ArrayRef<'a> {
        assert_eq!(len(shape), Some(elements.len()), "the shape is that of the elements");
        let data = elements.as_ptr().cast_mut().cast();
        ArrayRef { data, dtype: T::DTYPE, shape: shape.into(), strides: None, is_writable: false, lent: PhantomData }
    }

    /// An array to write.
    pub fn of_mut<T: Element>(elements: &'a mut [T], shape: &[i64]) -> ArrayRef<'a> {
        assert_eq!(len(shape), Some(elements.len()), "the shape is that of the elements");
        let data = elements.as_mut_ptr().cast();
        ArrayRef { data, dtype: T::DTYPE, shape: shape.into(), strides: None, is_writable: true, lent: PhantomData }
    }

    /// An array behind a pointer to its first element. Strides are in elements; without them, the elements are contiguous in
    /// row-major order. A pointer that is null or not aligned makes a call fail.
    ///
    /// # Safety
    /// For `'a`, elements of this type can be read where shape and strides say, and also written if `is_writable`. Nothing
    /// else writes them meanwhile, nor reads what a call writes.
    pub unsafe fn from_raw(
        data: *mut u8,
        dtype: DType,
        shape: &[i64],
        strides: Option<&[i64]>,
        is_writable: bool,
    ) -> ArrayRef<'a> {
        let strides = strides.map(Dims::from_slice);
        ArrayRef { data, dtype, shape: shape.into(), strides, is_writable, lent: PhantomData }
    }

    /// The addresses from its first byte to the end of its last, if it has elements. Strides may be negative.
    pub(super) fn bytes(&self) -> Option<std::ops::Range<i128>> {
        if self.shape.contains(&0) {
            return None;
        }
        let size = self.dtype.bytes() as i128;
        let start = self.data.addr() as i128;
        let Some(strides) = &self.strides else {
            let n = self.shape.iter().fold(size, |n, &extent| n.saturating_mul(extent.into()));
            return Some(start..start.saturating_add(n));
        };
        let (mut low, mut high) = (start, start + size);
        for (&extent, &stride) in self.shape.iter().zip(strides) {
            let reach = i128::from(extent - 1) * i128::from(stride) * size;
            low += reach.min(0);
            high += reach.max(0);
        }
        Some(low..high)
    }
}

/// The number of elements of a shape.
fn len(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(usize::try_from(extent).ok()?))
}

/// A Rust type that is an element type of arrays.
pub trait Element: sealed::Sealed {
    /// The element type.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($t:ty => $dtype:ident),* $(,)?) => {
        $(impl sealed::Sealed for $t {}
          impl Element for $t {
              const DTYPE: DType = DType::$dtype;
          })*
    };
}

elements! {
    half::f16 => Float16, half::bf16 => BFloat16, f32 => Float32, f64 => Float64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64, bool => Bool,
}
