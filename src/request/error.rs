//! Why a request failed.

use crate::arrays::{ArrayError, ArrayErrorKind};
use crate::diagnostic::Diagnostics;
use std::fmt;

/// Why a request failed. It displays the text that the command line prints.
#[derive(Debug)]
pub enum Error {
    /// Nothing valid was found, or a check failed.
    Negative(String),
    /// The options contradict each other or cannot be met. The second text is the help.
    Usage(String, String),
    /// A text has errors.
    Input(Box<Diagnostics>),
    /// A schedule does not apply: the rendered error, since it shows a program that no longer exists when it is
    /// printed; and the diagnostics of the schedule's own text.
    Shown(String, Box<Diagnostics>),
    /// The system failed: disk, lock, permission. The second text is the help.
    Machine(String, String),
    /// A signal of this number ended the request; the text says what is kept and how to go on.
    Interrupted(i32, String),
}

impl Error {
    /// What is wrong with a file of arrays; where another name is near, the help says it.
    pub(crate) fn of_array(error: ArrayError) -> Error {
        use std::io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
        let message = error.to_string();
        match error.kind {
            ArrayErrorKind::Read(e) if matches!(e.kind(), NotFound | InvalidInput | NotADirectory) => {
                Error::Usage(message, super::program::neighbour(&error.path).unwrap_or_default())
            }
            ArrayErrorKind::Read(_) | ArrayErrorKind::Write(_) | ArrayErrorKind::Memory(_) => {
                Error::Machine(message, String::new())
            }
            _ => Error::Usage(message, String::new()),
        }
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        Error::Input(Box::new(diagnostics))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Negative(what) | Error::Interrupted(_, what) => f.write_str(what),
            Error::Usage(what, help) | Error::Machine(what, help) => {
                f.write_str(what)?;
                if help.is_empty() { Ok(()) } else { write!(f, "\n  help: {help}") }
            }
            Error::Input(found) => f.write_str(found.render(false).trim_end()),
            Error::Shown(text, _) => f.write_str(text.trim_end()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_follows_the_message() {
        let error = Error::Usage("there is no space `x`".into(), "name `auto`".into());
        assert_eq!(error.to_string(), "there is no space `x`\n  help: name `auto`");
        assert_eq!(Error::Machine("the disk is full".into(), String::new()).to_string(), "the disk is full");
    }
}
