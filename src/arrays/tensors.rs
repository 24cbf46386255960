//! The safetensors format: a JSON header that names the arrays, then their elements.

use super::array::Array;
use super::bytes::Bytes;
use super::error::ArrayErrorKind;
use super::header::Stored;
use super::npy;
use crate::ir::{DType, Float8};
use safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};

/// The bytes of the header's length.
const LENGTH: u64 = 8;
/// The longest header that is read, in bytes, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

/// An open safetensors file.
#[derive(Debug)]
pub(super) struct Tensors {
    bytes: Bytes,
    /// The place of the first element.
    start: u64,
    tensors: Vec<(String, TensorInfo)>,
}

impl Tensors {
    /// Whether a file of this length that begins with these bytes may be one.
    pub(super) fn may_begin(head: &[u8], len: u64) -> bool {
        match head.split_first_chunk::<8>() {
            Some((length, rest)) => {
                let header = u64::from_le_bytes(*length);
                header >= 2 && header <= len.saturating_sub(LENGTH) && rest.first() == Some(&b'{')
            }
            None => false,
        }
    }

    /// Reads the header.
    pub(super) fn open(bytes: Bytes) -> Result<Tensors, ArrayErrorKind> {
        let len = bytes.len();
        let mut length = [0; LENGTH as usize];
        bytes.range(0..LENGTH.min(len)).read_exact(&mut length)?;
        let header_len = u64::from_le_bytes(length);
        if header_len > len.saturating_sub(LENGTH) {
            return Err(damaged(&format!("it states a header of {header_len} bytes, and has {len} in all")));
        }
        if header_len > MAX_HEADER {
            return Err(damaged(&format!("its header has {header_len} bytes, more than {MAX_HEADER}")));
        }
        let start = LENGTH + header_len;
        let header = npy::read_bytes(&mut bytes.range(LENGTH..start), header_len)?;
        let invalid = |e: serde_json::Error| damaged(&format!("its header is invalid: {e}"));
        let Names(names) = serde_json::from_slice(&header).map_err(invalid)?;
        // Sizes and places of the arrays are compared here.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(invalid)?;
        let (stated, found) = (metadata.data_len() as u64, len - start);
        if stated != found {
            return Err(ArrayErrorKind::Size { stated, found });
        }
        let info = |name: String| metadata.info(&name).cloned().map(|info| (name, info));
        let mut tensors: Vec<(String, TensorInfo)> = metadata.offset_keys().into_iter().filter_map(info).collect();
        // Empty arrays share a place.
        tensors.sort_by(|(a, x), (b, y)| (x.data_offsets, a).cmp(&(y.data_offsets, b)));
        if tensors.len() != names {
            return Err(damaged("its header names an array twice"));
        }
        Ok(Tensors { bytes, start, tensors })
    }

    /// The names of the arrays, in the order of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|(name, _)| name.as_str())
    }

    /// The element type and the shape of an array.
    pub(super) fn header(&self, i: usize) -> Result<(Stored, Vec<i64>), ArrayErrorKind> {
        let info = &self.tensors[i].1;
        let dtype = dtype_of(info.dtype).ok_or_else(|| ArrayErrorKind::ElementType(format!("`{:?}`", info.dtype)))?;
        let extent = |&n: &usize| i64::try_from(n).map_err(|_| damaged("an extent is too large"));
        Ok((Stored::Type(dtype), info.shape.iter().map(extent).collect::<Result<_, _>>()?))
    }

    /// Reads an array.
    pub(super) fn read(&self, i: usize, wanted: Option<DType>) -> Result<Array, ArrayErrorKind> {
        let (stored, shape) = self.header(i)?;
        let dtype = npy::dtype_of(stored, wanted)?;
        let (from, to) = self.tensors[i].1.data_offsets;
        let (from, to) = (from as u64, to as u64);
        let range = self.start + from..self.start + to;
        npy::made(dtype, &shape, npy::read_bytes(&mut self.bytes.range(range), to - from)?)
    }
}

/// The number of arrays that a header names, repeated names counted each time.
struct Names(usize);

impl<'de> serde::Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        struct Counter;
        impl<'de> Visitor<'de> for Counter {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of arrays")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = 0;
                while let Some((key, IgnoredAny)) = map.next_entry::<Cow<'_, str>, _>()? {
                    names += usize::from(key != "__metadata__");
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Counter)
    }
}

/// An array as the crate writes it.
struct Written<'a>(&'a Array, Dtype, Vec<usize>);

impl View for Written<'_> {
    fn dtype(&self) -> Dtype {
        self.1
    }

    fn shape(&self) -> &[usize] {
        &self.2
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.data())
    }

    fn data_len(&self) -> usize {
        self.0.data().len()
    }
}

/// Writes arrays.
pub(super) fn write<'a>(writer: &mut dyn Write, arrays: impl Iterator<Item = (&'a str, &'a Array)>) -> io::Result<()> {
    let view = |(name, array): (&'a str, &'a Array)| {
        let dtype = stored_as(array.dtype())
            .ok_or_else(|| io::Error::other(format!("safetensors has no elements of type {}", array.dtype())))?;
        let shape = array.shape().iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
        Ok((name, Written(array, dtype, shape)))
    };
    let views = arrays.map(view).collect::<io::Result<Vec<_>>>()?;
    let bytes = safetensors::serialize(views, None).map_err(|e| io::Error::other(e.to_string()))?;
    writer.write_all(&bytes)
}

/// The types of both, paired.
const TYPES: [(Dtype, DType); 18] = [
    (Dtype::BOOL, DType::Bool),
    (Dtype::U8, DType::UInt8),
    (Dtype::I8, DType::Int8),
    (Dtype::F8_E5M2, DType::Float8(Float8::E5M2)),
    (Dtype::F8_E4M3, DType::Float8(Float8::E4M3FN)),
    (Dtype::F8_E8M0, DType::Float8(Float8::E8M0FNU)),
    (Dtype::F8_E4M3FNUZ, DType::Float8(Float8::E4M3FNUZ)),
    (Dtype::F8_E5M2FNUZ, DType::Float8(Float8::E5M2FNUZ)),
    (Dtype::I16, DType::Int16),
    (Dtype::U16, DType::UInt16),
    (Dtype::F16, DType::Float16),
    (Dtype::BF16, DType::BFloat16),
    (Dtype::I32, DType::Int32),
    (Dtype::U32, DType::UInt32),
    (Dtype::F32, DType::Float32),
    (Dtype::F64, DType::Float64),
    (Dtype::I64, DType::Int64),
    (Dtype::U64, DType::UInt64),
];

/// The type that the format calls so; `None` if no parameter has it.
fn dtype_of(stored: Dtype) -> Option<DType> {
    TYPES.iter().find(|(s, _)| *s == stored).map(|(_, dtype)| *dtype)
}

/// How the format calls a type; `None` if it has none.
pub(super) fn stored_as(dtype: DType) -> Option<Dtype> {
    TYPES.iter().find(|(_, d)| *d == dtype).map(|(stored, _)| *stored)
}

fn damaged(what: &str) -> ArrayErrorKind {
    ArrayErrorKind::Damaged(what.to_owned())
}
