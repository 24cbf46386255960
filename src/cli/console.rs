//! Output of commands: results to standard output, everything else to standard error.

use super::exit::Failure;
use crate::diagnostic::Diagnostics;
use crate::request::Notices;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether a result has been written to standard output.
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

/// The two output streams, with the user's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Console {
    /// Whether to print errors and results only.
    pub quiet: bool,
    /// Whether to use colours on standard error.
    pub color: bool,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Console {
    /// The console for these settings.
    pub(super) fn new(quiet: bool, color: Color) -> Console {
        let terminal = io::stderr().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Console {
            quiet,
            color: match color {
                Color::Auto => terminal && !no_color && !dumb,
                Color::Always => true,
                Color::Never => false,
            },
        }
    }

    /// Writes a result.
    ///
    /// # Errors
    /// If standard output cannot be written. A closed pipe is `Failure::ClosedPipe`, which is no error to the user.
    pub(super) fn result(&self, text: &str) -> Result<(), Failure> {
        HAS_RESULT.store(true, Relaxed);
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Machine(format!("cannot write to standard output: {e}"), String::new()),
        })
    }

    /// Whether the command has written a result.
    pub(super) fn has_result() -> bool {
        HAS_RESULT.load(Relaxed)
    }

    /// Prints a note, unless `--quiet` was given.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            self.line("", text);
        }
    }

    /// Prints a warning, even with `--quiet`.
    pub(super) fn warn(&self, text: &str) {
        self.line(&self.paint("1;33", "warning: "), text);
    }

    /// Prints the failure of a command.
    pub(super) fn failure(&self, failure: &Failure) {
        let label = self.paint("1;31", "error: ");
        match failure {
            Failure::Negative(what) => self.line(&label, what),
            Failure::Usage(what, help) | Failure::Machine(what, help) => {
                self.line(&label, what);
                if !help.is_empty() {
                    self.line(&self.paint("1;36", "  help: "), help);
                }
            }
            Failure::Input(diagnostics) => self.diagnostics(diagnostics),
            Failure::Shown(text, _) => self.line("", text.trim_end()),
            Failure::Interrupted(_, what) => self.line("", what),
            Failure::Told(_) | Failure::ClosedPipe => {}
        }
    }

    /// Prints the diagnostics of a text.
    pub(super) fn diagnostics(&self, diagnostics: &Diagnostics) {
        self.line("", diagnostics.render(self.color).trim_end());
    }

    /// `text` in a style, if colours are on.
    pub(super) fn paint(&self, style: &str, text: &str) -> String {
        if self.color { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn line(&self, label: &str, text: &str) {
        // There is no way to report that standard error is gone.
        let _ = writeln!(io::stderr().lock(), "{label}{text}");
    }
}

impl Notices for Console {
    fn note(&self, text: &str) {
        Console::note(self, text);
    }

    fn warn(&self, text: &str) {
        Console::warn(self, text);
    }

    fn diagnostics(&self, found: &Diagnostics) {
        Console::diagnostics(self, found);
    }

    fn color(&self) -> bool {
        self.color
    }
}
