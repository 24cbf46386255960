//! Writes files of arrays.

use super::array::Array;
use super::error::{ArrayError, ArrayErrorKind};
use super::{header, npy, npz, tensors};
use crate::files::Replacement;
use crate::ir::DType;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A format of files of arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One array, as `numpy.save` writes it.
    Npy,
    /// Arrays with names, as `numpy.savez` writes them.
    Npz,
    /// Arrays with names, as `safetensors` writes them.
    Safetensors,
}

impl Format {
    /// The format that the extension of a path says.
    ///
    /// # Errors
    /// If it says none.
    pub fn of(path: &Path) -> Result<Format, ArrayError> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("npy") => Ok(Format::Npy),
            Some("npz") => Ok(Format::Npz),
            Some("safetensors") => Ok(Format::Safetensors),
            _ => Err(ArrayError::of(path, ArrayErrorKind::UnknownExtension)),
        }
    }

    /// Whether it has elements of this type.
    pub fn holds(self, dtype: DType) -> bool {
        match self {
            Format::Npy | Format::Npz => header::descr(dtype).is_some(),
            Format::Safetensors => tensors::stored_as(dtype).is_some(),
        }
    }
}

/// The content of a file to write: where, and which arrays under which names.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// Where to write it; the extension says the format.
    pub path: PathBuf,
    /// The arrays. The name is not used in a `.npy` file, which holds one array.
    pub arrays: Vec<(&'a str, &'a Array)>,
}

impl Output<'_> {
    /// Checks that the format can hold the arrays.
    ///
    /// # Errors
    /// If it cannot.
    fn check(&self) -> Result<Format, ArrayError> {
        let format = Format::of(&self.path)?;
        let failed = |array: Option<&str>, kind| {
            let array = array.map(str::to_owned);
            Err(ArrayError { path: self.path.clone(), array, kind })
        };
        if format == Format::Npy && self.arrays.len() != 1 {
            return failed(None, ArrayErrorKind::Single(self.arrays.len()));
        }
        for (i, (name, array)) in self.arrays.iter().enumerate() {
            if !format.holds(array.dtype()) {
                return failed(Some(name), ArrayErrorKind::NoSuchType(array.dtype()));
            }
            if self.arrays[..i].iter().any(|(other, _)| other == name) {
                return failed(Some(name), ArrayErrorKind::Duplicate);
            }
        }
        Ok(format)
    }

    fn content(&self, format: Format, writer: &mut dyn Write) -> io::Result<()> {
        let arrays = self.arrays.iter().copied();
        match format {
            Format::Npy => self.arrays.iter().try_for_each(|(_, array)| npy::write(writer, array)),
            Format::Npz => npz::write(writer, arrays),
            Format::Safetensors => tensors::write(writer, arrays),
        }
    }
}

/// Writes arrays to a file, completely or not at all: a file that was there stays if anything fails.
///
/// # Errors
/// If the format cannot hold the arrays, or the file cannot be written.
pub fn write(path: &Path, arrays: &[(&str, &Array)]) -> Result<(), ArrayError> {
    write_all(&[Output { path: path.to_owned(), arrays: arrays.to_vec() }])
}

/// Writes several files. None is replaced before all are written.
///
/// # Errors
/// As [`write()`].
pub fn write_all(outputs: &[Output<'_>]) -> Result<(), ArrayError> {
    let formats = outputs.iter().map(Output::check).collect::<Result<Vec<_>, _>>()?;
    let mut files = Replacement::default();
    for (output, format) in outputs.iter().zip(formats) {
        let written = files.write(&output.path, |writer| output.content(format, writer));
        written.map_err(|e| ArrayError::of(&output.path, ArrayErrorKind::Write(e)))?;
    }
    files.commit().map_err(|(path, e)| ArrayError::of(&path, ArrayErrorKind::Write(e)))
}
