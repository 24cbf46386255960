//! Writes a command's result to standard output, or to a file that is written completely or not at all.

use super::Done;
use super::console::Console;
use super::exit::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a result to the file of `--output`, or to standard output if there is none or it is `-`.
pub(super) fn write(output: Option<&Path>, text: &str, console: Console) -> Done {
    match output {
        Some(path) if path.as_os_str() != "-" => write_file(path, text),
        _ => console.result(text),
    }
}

/// Writes a file completely or not at all, so that a full disk leaves no truncated program. An existing file keeps its
/// permissions, and a symbolic link stays one.
pub(super) fn write_file(path: &Path, text: &str) -> Done {
    let fail = |e: io::Error| Failure::Machine(format!("cannot write `{}`: {e}", path.display()), String::new());
    let real = match fs::metadata(path) {
        // A special file (a pipe, /dev/stdout) cannot be replaced, only written to.
        Ok(there) if !there.is_file() => return fs::write(path, text).map_err(fail),
        Ok(_) => fs::canonicalize(path).map_err(fail)?,
        // Writing through a dangling link creates its destination.
        Err(_) if path.is_symlink() => return fs::write(path, text).map_err(fail),
        Err(_) => path.to_owned(),
    };
    let mut temporary = real.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    write_beside(&real, &temporary, text).and_then(|()| fs::rename(&temporary, &real)).map_err(|e| {
        // The original error is reported; a temporary file that cannot be removed is harmless.
        let _ = fs::remove_file(&temporary);
        fail(e)
    })
}

/// Writes the new file with the permissions of the old one, set before the first byte.
fn write_beside(old: &Path, new: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(new)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())
}
