//! The files of a library: objects, libraries and texts in a directory.

use super::interface::Library;
use super::{ExportError, ExternalWeights, Kind, LinkError, archive, header, link, manifest, object, python, rust};
use crate::files::Replacement;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, process};

/// A file that a library can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// `NAME.o`: a relocatable object.
    Object,
    /// `libNAME.a`: a static library.
    Static,
    /// `libNAME.so`: a shared library; needs a linker.
    Shared,
    /// `NAME.h`: declarations for C99 and C++11.
    Header,
    /// `NAME.py`: functions over NumPy arrays, which load the shared library.
    Python,
    /// `NAME.rs`: declarations and safe functions for Rust.
    Rust,
    /// `NAME.json`: a description of all functions.
    Manifest,
}

impl File {
    /// All of them.
    pub const ALL: [File; 7] =
        [File::Object, File::Static, File::Shared, File::Header, File::Python, File::Rust, File::Manifest];

    /// The word for it in commands, such as `obj`.
    pub fn keyword(self) -> &'static str {
        match self {
            File::Object => "obj",
            File::Static => "static",
            File::Shared => "shared",
            File::Header => "header",
            File::Python => "python",
            File::Rust => "rust",
            File::Manifest => "manifest",
        }
    }

    /// Its name for a library called `name`.
    pub fn name(self, name: &str) -> String {
        match self {
            File::Object => format!("{name}.o"),
            File::Static => format!("lib{name}.a"),
            File::Shared => format!("lib{name}.so"),
            File::Header => format!("{name}.h"),
            File::Python => format!("{name}.py"),
            File::Rust => format!("{name}.rs"),
            File::Manifest => format!("{name}.json"),
        }
    }
}

impl FromStr for File {
    type Err = String;

    /// Reads a [`File::keyword`].
    fn from_str(text: &str) -> Result<File, String> {
        File::ALL.into_iter().find(|f| f.keyword() == text).ok_or_else(|| {
            let known: Vec<&str> = File::ALL.iter().map(|f| f.keyword()).collect();
            format!("there is no kind of file `{text}`; there are `{}`", known.join("`, `"))
        })
    }
}

/// Why files of a library were not written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Their contents cannot be made.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The shared library cannot be linked.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The static library cannot be made.
    #[error("cannot make an archive: {0}")]
    Archive(io::Error),
    /// The directory cannot be made.
    #[error("cannot make the directory `{}`: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// Writes files of a library into a directory, which is made if it is missing. Returns their paths in the order of `wanted`. The
/// module for Python needs the shared library, which is written with it; so are external weights, to a path of their own.
///
/// All contents are made before the first file is written, and each file is written completely or not at all.
///
/// # Errors
/// See [`FilesError`].
pub fn write_files(library: &Library, directory: &Path, wanted: &[File]) -> Result<Vec<PathBuf>, FilesError> {
    let mut kinds: Vec<File> = Vec::new();
    let implied = wanted.contains(&File::Python).then_some(File::Shared);
    for &kind in wanted.iter().chain(&implied) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let needs_object = kinds.iter().any(|k| matches!(k, File::Object | File::Static));
    let linkable = if needs_object { object(library, Kind::Linked)? } else { Vec::new() };
    let content = |kind| -> Result<Vec<u8>, FilesError> {
        Ok(match kind {
            File::Object => linkable.clone(),
            File::Static => archive(&format!("{}.o", library.name), &linkable).map_err(FilesError::Archive)?,
            File::Shared => object(library, Kind::Shared)?,
            File::Header => header(library)?.into_bytes(),
            File::Python => python(library)?.into_bytes(),
            File::Rust => rust(library)?.into_bytes(),
            File::Manifest => manifest(library)?.into_bytes(),
        })
    };
    let contents = kinds.iter().map(|&kind| Ok((kind, content(kind)?))).collect::<Result<Vec<_>, FilesError>>()?;
    if !directory.as_os_str().is_empty() {
        let failed = |error| FilesError::Directory { path: directory.to_owned(), error };
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut written = Vec::new();
    if let Some(weights) = &library.external_weights {
        write_weights(weights)?;
    }
    for (kind, bytes) in contents {
        let path = directory.join(kind.name(&library.name));
        match kind {
            File::Shared => write_shared(library, &bytes, &path)?,
            _ => write_file(&path, &bytes)?,
        }
        written.push(path);
    }
    written.extend(library.external_weights.iter().map(|weights| weights.path().to_owned()));
    Ok(written)
}

/// Writes the file of weights, whose directory is made if it is missing.
fn write_weights(weights: &ExternalWeights) -> Result<(), FilesError> {
    let path = weights.path();
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        let failed = |error| FilesError::Directory { path: directory.to_owned(), error };
        fs::create_dir_all(directory).map_err(failed)?;
    }
    replace(path, |writer| weights.write(writer))
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), FilesError> {
    replace(path, |writer| writer.write_all(content))
}

fn replace(path: &Path, content: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<(), FilesError> {
    let failed = |error| FilesError::Write { path: path.to_owned(), error };
    let mut file = Replacement::default();
    file.write(path, content).map_err(failed)?;
    file.commit().map_err(|(_, error)| failed(error))
}

/// Links a shared library beside its final place, and moves it there.
fn write_shared(library: &Library, object: &[u8], path: &Path) -> Result<(), FilesError> {
    let beside = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{extension}", process::id()));
        PathBuf::from(name)
    };
    let (source, linked) = (beside("o"), beside("so"));
    let done = write_file(&source, object).and_then(|()| {
        link(library, &source, &linked)?;
        fs::rename(&linked, path).map_err(|error| FilesError::Write { path: path.to_owned(), error })
    });
    // The original error is reported; temporary files that cannot be removed are harmless.
    let _ = fs::remove_file(&source);
    let _ = fs::remove_file(&linked);
    done
}
