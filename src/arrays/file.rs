//! Files of arrays, opened to be read array by array.

use super::array::Array;
use super::bytes::Bytes;
use super::error::{ArrayError, ArrayErrorKind};
use super::header::{MAGIC, NpyHeader, Stored};
use super::npy;
use super::npz::Npz;
use super::tensors::Tensors;
use crate::ir::DType;
use crate::onnx;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// An open file of arrays. What it holds is known without the elements, so that types and shapes can be checked first.
#[derive(Debug)]
pub struct ArrayFile {
    path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Npy(NpyHeader, Bytes),
    Npz(Npz),
    Tensors(Tensors),
    Onnx(onnx::Model),
}

/// The element type and the shape of an array in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The element type that the file states.
    pub stored: Stored,
    /// The extent of each dimension.
    pub shape: Vec<i64>,
}

impl ArrayFile {
    /// Opens a file. Its first bytes say the format; an ONNX model, whose arrays are its weights, is known by its extension.
    ///
    /// # Errors
    /// If it cannot be read, or is none of the formats.
    pub fn open(path: &Path) -> Result<ArrayFile, ArrayError> {
        let failed = |e| ArrayError::of(path, ArrayErrorKind::Read(e));
        // Before it is opened: opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(ArrayError::of(path, ArrayErrorKind::NotAFile));
        }
        if onnx::is_model(path) {
            let model = onnx::Model::open(path).map_err(failed)?;
            let model = model.map_err(|e| ArrayError::of(path, ArrayErrorKind::Damaged(e.message)))?;
            return Ok(ArrayFile { path: path.to_owned(), content: Content::Onnx(model) });
        }
        ArrayFile::of(path, Bytes::of(File::open(path).map_err(failed)?).map_err(failed)?)
    }

    /// Opens a file that is in memory; `path` is what messages call it.
    ///
    /// # Errors
    /// If it is none of the formats.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<ArrayFile, ArrayError> {
        ArrayFile::of(path, Bytes::Memory(bytes))
    }

    fn of(path: &Path, bytes: Bytes) -> Result<ArrayFile, ArrayError> {
        let failed = |kind| ArrayError::of(path, kind);
        let len = bytes.len();
        let mut head = Vec::new();
        bytes.range(0..len.min(16)).read_to_end(&mut head).map_err(|e| failed(e.into()))?;
        let content = if head.starts_with(MAGIC) {
            let header = NpyHeader::read(&mut bytes.range(0..len)).map_err(failed)?;
            let (stated, found) = (header.data_len, len.saturating_sub(header.len));
            if stated != found {
                return Err(failed(ArrayErrorKind::Size { stated, found }));
            }
            Content::Npy(header, bytes)
        } else if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            let failed = |(array, kind)| ArrayError { path: path.to_owned(), array, kind };
            Content::Npz(Npz::open(bytes).map_err(failed)?)
        } else if Tensors::may_begin(&head, len) {
            Content::Tensors(Tensors::open(bytes).map_err(failed)?)
        } else {
            return Err(failed(ArrayErrorKind::UnknownContent));
        };
        Ok(ArrayFile { path: path.to_owned(), content })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the arrays, in the order of the file. A `.npy` file holds one array without a name, here the empty text.
    pub fn names(&self) -> Vec<&str> {
        match &self.content {
            Content::Npy(..) => vec![""],
            Content::Npz(npz) => npz.names().collect(),
            Content::Tensors(tensors) => tensors.names().collect(),
            Content::Onnx(model) => model.weights().collect(),
        }
    }

    /// Whether it is a `.npy` file, whose array has no name.
    pub fn is_single(&self) -> bool {
        matches!(self.content, Content::Npy(..))
    }

    /// The element type and the shape of the array at this position of [`ArrayFile::names`].
    ///
    /// # Errors
    /// If what the file says of it is damaged or not supported.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn header(&self, i: usize) -> Result<Header, ArrayError> {
        let header = match &self.content {
            Content::Npy(header, _) => Ok((header.stored, header.shape.clone())),
            Content::Npz(npz) => npz.header(i).map(|h| (h.stored, h.shape)),
            Content::Tensors(tensors) => tensors.header(i),
            Content::Onnx(model) => match model.weight_header(i) {
                Ok((dtype, shape)) => Ok((Stored::Type(dtype), shape)),
                Err(why) => Err(ArrayErrorKind::Unsupported(why)),
            },
        };
        header.map(|(stored, shape)| Header { stored, shape }).map_err(|kind| self.failed(i, kind))
    }

    /// Reads the array at this position of [`ArrayFile::names`], whose elements must be of the type `wanted`, if one is given.
    /// Elements without a stated type (`bfloat16` in npy) can only be read so.
    ///
    /// # Errors
    /// If it is damaged, not supported, or of another type.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn read(&self, i: usize, wanted: Option<DType>) -> Result<Array, ArrayError> {
        let array = match &self.content {
            Content::Npy(header, bytes) => {
                npy::read_elements(&mut bytes.range(header.len..bytes.len()), header, wanted)
            }
            Content::Npz(npz) => npz.read(i, wanted),
            Content::Tensors(tensors) => tensors.read(i, wanted),
            Content::Onnx(model) => weight(model, i, wanted),
        };
        array.map_err(|kind| self.failed(i, kind))
    }

    fn failed(&self, i: usize, kind: ArrayErrorKind) -> ArrayError {
        let array = Some(self.names()[i]).filter(|_| !self.is_single()).map(str::to_owned);
        ArrayError { path: self.path.clone(), array, kind }
    }
}

/// A weight of a model.
fn weight(model: &onnx::Model, i: usize, wanted: Option<DType>) -> Result<Array, ArrayErrorKind> {
    let constant = model.weight(i).map_err(ArrayErrorKind::Damaged)?;
    let dtype = constant.dtype();
    if let Some(expected) = wanted.filter(|&wanted| wanted != dtype) {
        return Err(ArrayErrorKind::OtherType { expected, found: dtype.to_string() });
    }
    let array = Array::new(dtype, constant.shape(), constant.data().to_vec());
    array.map_err(|e| ArrayErrorKind::Damaged(e.to_string()))
}

/// Reads all arrays of a file, with their names; that of a `.npy` file has an empty one.
///
/// # Errors
/// If the file or one of its arrays cannot be read.
pub fn read(path: &Path) -> Result<Vec<(String, Array)>, ArrayError> {
    let file = ArrayFile::open(path)?;
    let one = |(i, name): (usize, &str)| Ok((name.to_owned(), file.read(i, None)?));
    file.names().into_iter().enumerate().map(one).collect()
}
