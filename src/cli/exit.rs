//! Exit codes of commands.

use crate::diagnostic::Diagnostics;
use crate::request::Error;

/// Why a command failed. The exit codes are interface: 0 success; 1 nothing valid was found, or a check failed; 2 bad
/// usage or bad input; 3 the system failed; 129, 130 and 143 ended by a signal.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing valid was found, or a check failed.
    Negative(String),
    /// The arguments contradict each other. The second text is the help.
    Usage(String, String),
    /// A file has errors.
    Input(Box<Diagnostics>),
    /// A schedule does not apply: the rendered error, since it shows a program that no longer exists when it is
    /// printed; and the diagnostics of the schedule's own text.
    Shown(String, Box<Diagnostics>),
    /// The system failed: disk, lock, permission. The second text is the help.
    Machine(String, String),
    /// Some of several files failed, each reported already; holds the highest exit code.
    Told(u8),
    /// A signal of this number ended the command; the text says what is kept and how to go on.
    Interrupted(i32, String),
    /// The reader of standard output has closed the pipe.
    ClosedPipe,
}

impl Failure {
    /// The process's exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Failure::Negative(_) => 1,
            Failure::Usage(..) | Failure::Input(_) | Failure::Shown(..) => 2,
            Failure::Machine(..) => 3,
            Failure::Interrupted(signal, _) => 128u8.saturating_add(u8::try_from(*signal).unwrap_or(0)),
            Failure::Told(code) => *code,
            Failure::ClosedPipe => 0,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Negative(what) => Failure::Negative(what),
            Error::Usage(what, help) => Failure::Usage(what, help),
            Error::Input(found) => Failure::Input(found),
            Error::Shown(text, found) => Failure::Shown(text, found),
            Error::Machine(what, help) => Failure::Machine(what, help),
            Error::Interrupted(signal, what) => Failure::Interrupted(signal, what),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Failure::Input(Box::new(diagnostics))
    }
}
