//! The error of a file of arrays that could not be read or written.

use crate::ir::DType;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The error of a file of arrays that could not be read or written.
#[derive(Debug)]
pub struct ArrayError {
    /// The file.
    pub path: PathBuf,
    /// The array in the file, if the file names its arrays.
    pub array: Option<String>,
    /// The kind of the error.
    pub kind: ArrayErrorKind,
}

/// The kinds of errors of files of arrays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayErrorKind {
    /// The system could not read the file.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The system could not write the file.
    #[error("cannot be written: {0}")]
    Write(io::Error),
    /// There is not enough memory for this many bytes.
    #[error("needs {0} bytes of memory, more than there is")]
    Memory(u64),
    /// The path is that of a directory or device.
    #[error("is not a regular file")]
    NotAFile,
    /// The content is none of the formats.
    #[error("is neither npy, npz nor safetensors")]
    UnknownContent,
    /// The extension does not say in which format to write.
    #[error("has no extension `.npy`, `.npz` or `.safetensors`, which would say the format")]
    UnknownExtension,
    /// The file contradicts its format or itself.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// The file states more or fewer bytes than it has.
    #[error("is damaged: it states {stated} bytes of elements, and has {found}")]
    Size {
        /// The bytes that shape and element type make.
        stated: u64,
        /// The bytes that there are.
        found: u64,
    },
    /// An element type that no parameter has.
    #[error("has elements of type {0}, which is not supported")]
    ElementType(String),
    /// The elements have no stated type.
    #[error("has elements of {0} bytes without a type (`V{0}`), as NumPy stores types that it does not know")]
    Untyped(usize),
    /// The elements are of another type than asked for.
    #[error("has elements of type {found}, not {expected}")]
    OtherType {
        /// The type that was asked for.
        expected: DType,
        /// The stated type.
        found: String,
    },
    /// Something of the format that is not read.
    #[error("is not read: {0}")]
    Unsupported(String),
    /// Several arrays with one name.
    #[error("occurs more than once")]
    Duplicate,
    /// A name that no array should have.
    #[error("is not read: its name {0}")]
    Name(&'static str),
    /// A format of one array cannot hold several.
    #[error("cannot hold {0} arrays: a `.npy` file has exactly one; write `.npz` or `.safetensors`")]
    Single(usize),
    /// The format lacks the element type.
    #[error("cannot hold elements of type {0}")]
    NoSuchType(DType),
}

impl ArrayError {
    /// An error of a whole file.
    pub(super) fn of(path: &Path, kind: ArrayErrorKind) -> ArrayError {
        ArrayError { path: path.to_owned(), array: None, kind }
    }
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.array {
            Some(name) => write!(f, "`{name}` in `{}` {}", self.path.display(), self.kind),
            None => write!(f, "`{}` {}", self.path.display(), self.kind),
        }
    }
}

impl std::error::Error for ArrayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ArrayErrorKind::Read(e) | ArrayErrorKind::Write(e) => Some(e),
            _ => None,
        }
    }
}

/// A failed read: of the system, or of a reader that found damage.
impl From<io::Error> for ArrayErrorKind {
    fn from(e: io::Error) -> ArrayErrorKind {
        match e.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => ArrayErrorKind::Damaged(e.to_string()),
            io::ErrorKind::UnexpectedEof => ArrayErrorKind::Damaged("it ends too early".to_owned()),
            _ => ArrayErrorKind::Read(e),
        }
    }
}
