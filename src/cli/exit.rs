//! How a command ends.

use crate::diagnostic::Diagnostics;

/// Why a command did not succeed. The exit codes are interface (DESIGN §8): 0 done; 1 nothing valid was found, a
/// check or a gate failed; 2 bad usage or bad input; 3 the machine failed us; 129, 130 and 143 ended by a signal.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing valid was found, or a check failed.
    Negative(String),
    /// The arguments make no sense together. The second text says what would.
    Usage(String, String),
    /// A file is wrong: what and where.
    Input(Box<Diagnostics>),
    /// A schedule does not apply: an error that has been put into words already, since it shows a program that is
    /// gone by the time it is read; and what it says of the schedule's own text.
    Shown(String, Box<Diagnostics>),
    /// The machine failed us: disk, lock, permission.
    Machine(String, String),
    /// Some of several files failed, which has been told for each; the worst of their exit codes.
    Told(u8),
    /// A signal of this number ended it; what is kept, and how to go on.
    Interrupted(i32, String),
    /// The reader of our output has gone; nobody is left to tell.
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

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Failure::Input(Box::new(diagnostics))
    }
}
