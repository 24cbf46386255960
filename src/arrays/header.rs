//! The header of the npy format: a Python dictionary in a frame of fixed bytes.
//!
//! ```text
//! \x93NUMPY  1 0  length  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }␣␣␣…\n
//! ```
//!
//! The dictionary is read by the Python parser of `script`, which limits nesting. (The crates for npy bring a parser of
//! their own for it, with three dozen dependencies.)

use super::array::bytes_of;
use super::error::ArrayErrorKind;
use crate::diagnostic::Span;
use crate::ir::DType;
use crate::script::python::{self, Expr, ExprKind};
use std::io::{self, Read};

/// The first bytes of an npy file.
pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The longest header that is read, in bytes, as in NumPy.
const MAX_HEADER: usize = 10_000;
/// The most dimensions of an array, as in NumPy.
const MAX_DIMS: usize = 64;
/// The data begins at a multiple of this many bytes.
const ALIGN: usize = 64;

/// The element type that a file states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// An element type with a name.
    Type(DType),
    /// Elements of this many bytes without a type: npy stores `bfloat16` and most floats of 8 bits so.
    Untyped(usize),
}

impl Stored {
    /// Whether elements of this type may be stored so.
    pub fn may_be(self, dtype: DType) -> bool {
        match (self, dtype) {
            (Stored::Type(stored), _) => stored == dtype,
            (Stored::Untyped(n), DType::BFloat16 | DType::Float8(_)) => n == dtype.bytes(),
            (Stored::Untyped(_), _) => false,
        }
    }

    /// The size of an element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Stored::Type(dtype) => dtype.bytes(),
            Stored::Untyped(n) => n,
        }
    }
}

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stored::Type(dtype) => write!(f, "{dtype}"),
            Stored::Untyped(n) => write!(f, "V{n}"),
        }
    }
}

/// The content of the header of an npy file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NpyHeader {
    pub stored: Stored,
    /// The bytes of elements are in big-endian order.
    pub big_endian: bool,
    /// The elements are in column-major order.
    pub column_major: bool,
    pub shape: Vec<i64>,
    /// The bytes before the elements.
    pub len: u64,
    /// The bytes of the elements.
    pub data_len: u64,
}

impl NpyHeader {
    /// Reads a header; the reader is then at the first element.
    pub(super) fn read(reader: &mut dyn Read) -> Result<NpyHeader, ArrayErrorKind> {
        let mut frame = [0; 8];
        exact(reader, &mut frame)?;
        if frame[..6] != *MAGIC {
            return Err(damaged("it does not begin with the bytes of npy"));
        }
        let (n, before) = match (frame[6], frame[7]) {
            (1, 0) => {
                let mut n = [0; 2];
                exact(reader, &mut n)?;
                (usize::from(u16::from_le_bytes(n)), 10)
            }
            (2 | 3, 0) => {
                let mut n = [0; 4];
                exact(reader, &mut n)?;
                (u32::from_le_bytes(n) as usize, 12)
            }
            (major, minor) => {
                return Err(ArrayErrorKind::Unsupported(format!("it has version {major}.{minor} of npy")));
            }
        };
        if n > MAX_HEADER {
            return Err(damaged(&format!("its header has {n} bytes, more than {MAX_HEADER}")));
        }
        let mut text = vec![0; n];
        exact(reader, &mut text)?;
        let text = str::from_utf8(&text).map_err(|_| damaged("its header is not UTF-8"))?;
        let header = NpyHeader::parse(text)?;
        Ok(NpyHeader { len: (before + n) as u64, ..header })
    }

    /// Reads the dictionary.
    fn parse(text: &str) -> Result<NpyHeader, ArrayErrorKind> {
        let no_dictionary = || damaged("its header is not a Python dictionary");
        let text = text.trim_end();
        let parsed = python::parse_expression(text, Span::new(0, text.len())).map_err(|_| no_dictionary())?;
        let ExprKind::Dict(items) = parsed.kind else { return Err(no_dictionary()) };
        let (mut descr, mut order, mut shape) = (None, None, None);
        for (key, value) in items {
            let slot = match key.map(|k| k.kind) {
                Some(ExprKind::Str(key)) => match &*key {
                    "descr" => &mut descr,
                    "fortran_order" => &mut order,
                    "shape" => &mut shape,
                    _ => return Err(damaged(&format!("its header has an unknown key `{key}`"))),
                },
                _ => return Err(damaged("a key of its header is no text")),
            };
            if slot.replace(value).is_some() {
                return Err(damaged("a key of its header occurs twice"));
            }
        }
        let missing = |key: &str| damaged(&format!("its header has no `{key}`"));
        let (stored, big_endian) = element_type(&descr.ok_or_else(|| missing("descr"))?)?;
        let ExprKind::Bool(column_major) = order.ok_or_else(|| missing("fortran_order"))?.kind else {
            return Err(damaged("`fortran_order` is neither True nor False"));
        };
        let shape = extents(&shape.ok_or_else(|| missing("shape"))?)?;
        let Some(data_len) = bytes_of(stored.bytes(), &shape) else {
            return Err(damaged("its shape needs more than 2^64 bytes"));
        };
        Ok(NpyHeader { stored, big_endian, column_major, shape, len: 0, data_len })
    }

    /// The header of an array in row-major, little-endian order. `None` if npy has no such elements.
    pub(super) fn bytes(dtype: DType, shape: &[i64]) -> Option<Vec<u8>> {
        let descr = descr(dtype)?;
        let mut tuple: Vec<String> = shape.iter().map(i64::to_string).collect();
        if let [one] = &mut tuple[..] {
            one.push(',');
        }
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", tuple.join(", "));
        let end = (10 + text.len() + 1).next_multiple_of(ALIGN);
        let n = u16::try_from(end - 10).ok()?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend(n.to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(end - 1, b' ');
        bytes.push(b'\n');
        Some(bytes)
    }
}

/// The element type that a `descr` states, and whether its bytes are in big-endian order.
fn element_type(descr: &Expr<'_>) -> Result<(Stored, bool), ArrayErrorKind> {
    let text = match &descr.kind {
        ExprKind::Str(text) => text,
        ExprKind::List(_) => return Err(ArrayErrorKind::ElementType("record (a structured array)".to_owned())),
        _ => return Err(damaged("`descr` is no text")),
    };
    let unsupported = |what: &str| Err(ArrayErrorKind::ElementType(format!("`{text}`{what}")));
    let mut characters = text.chars();
    let order = characters.next();
    let code = characters.as_str();
    let dtype = match code {
        "b1" => DType::Bool,
        "i1" => DType::Int8,
        "i2" => DType::Int16,
        "i4" => DType::Int32,
        "i8" => DType::Int64,
        "u1" => DType::UInt8,
        "u2" => DType::UInt16,
        "u4" => DType::UInt32,
        "u8" => DType::UInt64,
        "f2" => DType::Float16,
        "f4" => DType::Float32,
        "f8" => DType::Float64,
        // `ml_dtypes` stores `float8_e5m2` as `f1`.
        "V1" | "f1" => return Ok((Stored::Untyped(1), false)),
        "V2" if order != Some('>') => return Ok((Stored::Untyped(2), false)),
        _ if code.starts_with('O') => return unsupported(" (Python objects, which are pickled)"),
        _ if code.starts_with(['U', 'S']) => return unsupported(" (text)"),
        _ if code.starts_with('c') => return unsupported(" (complex numbers)"),
        _ => return unsupported(""),
    };
    match order {
        Some('<' | '=' | '|') => Ok((Stored::Type(dtype), false)),
        Some('>') => Ok((Stored::Type(dtype), true)),
        _ => unsupported(""),
    }
}

/// The `descr` of a type; `None` if npy has none for it.
pub(super) fn descr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Float16 => "<f2",
        DType::BFloat16 => "<V2",
        DType::Float32 => "<f4",
        DType::Float64 => "<f8",
        DType::Int8 => "|i1",
        DType::Int16 => "<i2",
        DType::Int32 => "<i4",
        DType::Int64 => "<i8",
        DType::UInt8 => "|u1",
        DType::UInt16 => "<u2",
        DType::UInt32 => "<u4",
        DType::UInt64 => "<u8",
        DType::Bool => "|b1",
        DType::Float8(_) => "|V1",
        DType::Narrow(_) | DType::Handle | DType::Str => return None,
    })
}

fn extents(shape: &Expr<'_>) -> Result<Vec<i64>, ArrayErrorKind> {
    let ExprKind::Tuple(items) = &shape.kind else { return Err(damaged("`shape` is no tuple")) };
    if items.len() > MAX_DIMS {
        return Err(damaged(&format!("it has {} dimensions, more than {MAX_DIMS}", items.len())));
    }
    let extent = |e: &Expr<'_>| match e.kind {
        ExprKind::Int(Some(n)) => i64::try_from(n).map_err(|_| damaged("an extent is too large")),
        ExprKind::Int(None) => Err(damaged("an extent is too large")),
        ExprKind::Unary(..) => Err(damaged("an extent is negative")),
        _ => Err(damaged("an extent is no number")),
    };
    items.iter().map(extent).collect()
}

fn damaged(what: &str) -> ArrayErrorKind {
    ArrayErrorKind::Damaged(what.to_owned())
}

fn exact(reader: &mut dyn Read, bytes: &mut [u8]) -> Result<(), ArrayErrorKind> {
    reader.read_exact(bytes).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends within its header"),
        _ => e.into(),
    })
}
