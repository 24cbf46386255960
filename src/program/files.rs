//! Files that are written completely or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Several files that are replaced together.
///
/// Each is written beside its destination; [`Replacement::commit`] then renames them. If anything fails before, dropping the
/// replacement removes what it wrote, and the destinations stay as they were.
#[derive(Default)]
pub struct Replacement {
    /// Temporary files with their destinations.
    written: Vec<(PathBuf, PathBuf)>,
}

impl Replacement {
    /// Writes the new content of a file. An existing file will keep its permissions, and a symbolic link stays one.
    ///
    /// # Errors
    /// If the file cannot be written, or `content` fails.
    pub fn write(&mut self, path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let real = match fs::metadata(path) {
            // A special file (a pipe, /dev/stdout) cannot be replaced, only written to.
            Ok(there) if !there.is_file() => return in_place(path, content),
            Ok(_) => fs::canonicalize(path)?,
            // Writing through a dangling link creates its destination.
            Err(_) if path.is_symlink() => return in_place(path, content),
            Err(_) => path.to_owned(),
        };
        let mut temporary = real.as_os_str().to_owned();
        temporary.push(format!(".{}-{}.tmp", std::process::id(), self.written.len()));
        let temporary = PathBuf::from(temporary);
        self.written.push((temporary.clone(), real.clone()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        if let Ok(old) = fs::metadata(&real) {
            // Before the first byte, so that nobody reads what is not for them.
            file.set_permissions(old.permissions())?;
        }
        filled(file, content)
    }

    /// Puts all files in their places.
    ///
    /// # Errors
    /// The first file that cannot be renamed, with the reason. Those before it are in place.
    pub fn commit(mut self) -> Result<(), (PathBuf, io::Error)> {
        for (temporary, real) in std::mem::take(&mut self.written) {
            if let Err(e) = fs::rename(&temporary, &real) {
                // The rest is removed when `self` is dropped; this one is no longer in the list.
                let _ = fs::remove_file(&temporary);
                return Err((real, e));
            }
        }
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        for (temporary, _) in &self.written {
            // The error that led here is reported; a temporary file that cannot be removed is harmless.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn in_place(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    filled(OpenOptions::new().write(true).create(true).truncate(true).open(path)?, content)
}

fn filled(file: fs::File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    content(&mut file)?;
    file.flush()
}
