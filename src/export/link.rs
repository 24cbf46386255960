//! Shared libraries, by whatever linker the machine has.

use super::interface::Library;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why no shared library was made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The machine has no linker.
    #[error("no linker was found: tried {tried}")]
    Missing {
        /// The commands that were tried.
        tried: String,
    },
    /// The linker failed.
    #[error("`{command}` failed: {message}")]
    Failed {
        /// The command.
        command: String,
        /// Its message.
        message: String,
    },
}

/// Links the object of a library, made for [`Kind::Shared`](super::Kind::Shared), into a shared library. The linker is `$CC`, or the
/// first of `cc`, `gcc`, `clang`, `ld.lld`, `lld` and `ld` that there is.
///
/// # Errors
/// There is no linker, or it fails.
pub fn link(library: &Library, object: &Path, output: &Path) -> Result<(), LinkError> {
    let mut tried = Vec::new();
    let chosen = std::env::var_os("CC").filter(|cc| !cc.is_empty());
    let compilers = chosen.into_iter().chain(["cc", "gcc", "clang"].map(OsString::from));
    let linkers = ["ld.lld", "ld"].map(OsString::from);
    let all = compilers.map(|c| (c, true)).chain(linkers.into_iter().map(|l| (l, false)));
    for (command, is_compiler) in all {
        let shown = command.to_string_lossy().into_owned();
        // `$CC` may have arguments, such as `ccache gcc`.
        let mut words = shown.split_whitespace();
        let Some(program) = words.next() else { continue };
        let mut call = Command::new(program);
        call.args(words).arg("-shared").arg("-o").arg(output).arg(object);
        let options = ["-z", "nodelete", "-z", "noexecstack", "-z", "now", "-z", "relro", "--build-id=none"];
        let soname = format!("lib{}.so", library.name);
        for option in options.iter().copied().chain(["-soname", &soname]) {
            if is_compiler {
                call.arg(format!("-Wl,{option}"));
            } else {
                call.arg(option);
            }
        }
        if is_compiler {
            call.arg("-nostartfiles");
        }
        match call.stdin(Stdio::null()).output() {
            Err(_) => tried.push(format!("`{shown}`")),
            Ok(done) if done.status.success() => return Ok(()),
            Ok(done) => {
                let message = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                return Err(LinkError::Failed { command: shown, message });
            }
        }
    }
    Err(LinkError::Missing { tried: tried.join(", ") })
}
