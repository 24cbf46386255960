//! Where a command's result goes: to standard output, or to a file that is written whole or not at all.

use super::Done;
use super::console::Console;
use super::exit::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a result to the file of `--output`; to standard output for none, and for `-`.
pub(super) fn write(output: Option<&Path>, text: &str, console: Console) -> Done {
    match output {
        Some(path) if path.as_os_str() != "-" => write_file(path, text),
        _ => console.result(text),
    }
}

/// Writes a file whole or not at all: a full disk must not leave half a program behind. Where there is a file already, it
/// keeps its permissions, and a symbolic link stays one.
pub(super) fn write_file(path: &Path, text: &str) -> Done {
    let fail = |e: io::Error| Failure::Machine(format!("cannot write `{}`: {e}", path.display()), String::new());
    let real = match fs::metadata(path) {
        // What is no regular file (a pipe, /dev/stdout) cannot be replaced, only written to.
        Ok(there) if !there.is_file() => return fs::write(path, text).map_err(fail),
        Ok(_) => fs::canonicalize(path).map_err(fail)?,
        // A link to nothing makes what it names.
        Err(_) if path.is_symlink() => return fs::write(path, text).map_err(fail),
        Err(_) => path.to_owned(),
    };
    let mut temporary = real.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    write_beside(&real, &temporary, text).and_then(|()| fs::rename(&temporary, &real)).map_err(|e| {
        // The error itself is what matters; a left-over that cannot be removed changes nothing.
        let _ = fs::remove_file(&temporary);
        fail(e)
    })
}

/// Writes the new file with the permissions of the old one, which it has before the first byte.
fn write_beside(old: &Path, new: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(new)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())
}
