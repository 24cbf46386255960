//! Writes a command's result to standard output, or to a file that is written completely or not at all.

use super::Done;
use super::console::Console;
use super::exit::Failure;
use crate::files::Replacement;
use std::io;
use std::path::Path;

/// Writes a result to the file of `--output`, or to standard output if there is none or it is `-`.
pub(super) fn write(output: Option<&Path>, text: &str, console: Console) -> Done {
    match output {
        Some(path) if path.as_os_str() != "-" => write_file(path, text.as_bytes()),
        _ => console.result(text),
    }
}

/// Writes a file completely or not at all, so that a full disk leaves no truncated program. An existing file keeps its
/// permissions, and a symbolic link stays one.
pub(super) fn write_file(path: &Path, content: &[u8]) -> Done {
    let fail = |e: io::Error| Failure::Machine(format!("cannot write `{}`: {e}", path.display()), String::new());
    let mut file = Replacement::default();
    file.write(path, |writer| writer.write_all(content)).map_err(fail)?;
    file.commit().map_err(|(_, e)| fail(e))
}
