//! The npy format: one array without a name. The same bytes are an entry of an npz file.

use super::array::{Array, NoArray};
use super::error::ArrayErrorKind;
use super::header::{NpyHeader, Stored};
use super::order::{row_major, swap_bytes};
use crate::ir::DType;
use std::io::{self, Read, Write};

/// Reads the elements behind a header, whose size the caller has compared with the file.
pub(super) fn read_elements(
    reader: &mut dyn Read,
    header: &NpyHeader,
    wanted: Option<DType>,
) -> Result<Array, ArrayErrorKind> {
    let dtype = dtype_of(header.stored, wanted)?;
    let mut data = read_bytes(reader, header.data_len)?;
    let size = dtype.bytes();
    if header.big_endian {
        swap_bytes(&mut data, size);
    }
    if header.column_major {
        data = row_major(&data, size, &header.shape);
    }
    made(dtype, &header.shape, data)
}

/// The element type to read: the stated one, which must be what the caller wants.
pub(super) fn dtype_of(stored: Stored, wanted: Option<DType>) -> Result<DType, ArrayErrorKind> {
    match (stored, wanted) {
        (_, Some(expected)) if stored.may_be(expected) => Ok(expected),
        (_, Some(expected)) => Err(ArrayErrorKind::OtherType { expected, found: stored.to_string() }),
        (Stored::Type(dtype), None) => Ok(dtype),
        (Stored::Untyped(n), None) => Err(ArrayErrorKind::Untyped(n)),
    }
}

/// Reads `n` bytes, and checks that no more follow. Memory is used as bytes arrive.
pub(super) fn read_bytes(reader: &mut dyn Read, n: u64) -> Result<Vec<u8>, ArrayErrorKind> {
    let mut data = Vec::new();
    let capacity = usize::try_from(n).map_err(|_| ArrayErrorKind::Memory(n))?;
    data.try_reserve_exact(capacity).map_err(|_| ArrayErrorKind::Memory(n))?;
    reader.take(n.saturating_add(1)).read_to_end(&mut data)?;
    match data.len() as u64 {
        found if found == n => Ok(data),
        found => Err(ArrayErrorKind::Size { stated: n, found }),
    }
}

/// The array that a file holds.
pub(super) fn made(dtype: DType, shape: &[i64], data: Vec<u8>) -> Result<Array, ArrayErrorKind> {
    let found = data.len() as u64;
    Array::new(dtype, shape, data).map_err(|e| match e {
        NoArray::Size { .. } => {
            ArrayErrorKind::Size { stated: super::array::bytes_of(dtype.bytes(), shape).unwrap_or(u64::MAX), found }
        }
        NoArray::Bool(_) => ArrayErrorKind::Damaged(e.to_string()),
    })
}

/// Writes an array.
pub(super) fn write(writer: &mut dyn Write, array: &Array) -> io::Result<()> {
    let Some(header) = NpyHeader::bytes(array.dtype(), array.shape()) else {
        return Err(io::Error::other(format!("npy has no elements of type {}", array.dtype())));
    };
    writer.write_all(&header)?;
    writer.write_all(array.data())
}
