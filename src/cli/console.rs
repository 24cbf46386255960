//! What a command writes: results to standard output, everything else to standard error.

use super::exit::Failure;
use crate::diagnostic::Diagnostics;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Was something written to standard output, of which there is one?
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

/// The two streams, with what the user wants on them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Console {
    /// Errors only.
    pub quiet: bool,
    /// Colours on standard error.
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
    /// The console for these wishes.
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
    /// If standard output cannot be written; a closed pipe ends the command without ado.
    pub(super) fn result(&self, text: &str) -> Result<(), Failure> {
        HAS_RESULT.store(true, Relaxed);
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Machine(format!("cannot write to standard output: {e}"), String::new()),
        })
    }

    /// Has the command written a result?
    pub(super) fn has_result() -> bool {
        HAS_RESULT.load(Relaxed)
    }

    /// A remark, unless the user wants quiet.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            self.line("", text);
        }
    }

    /// A warning; quiet does not silence it.
    pub(super) fn warn(&self, text: &str) {
        self.line(&self.paint("1;33", "warning: "), text);
    }

    /// How the command failed.
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

    /// Shows mistakes in a text.
    pub(super) fn diagnostics(&self, diagnostics: &Diagnostics) {
        self.line("", diagnostics.render(self.color).trim_end());
    }

    /// `text` in a style, where colours are on.
    pub(super) fn paint(&self, style: &str, text: &str) -> String {
        if self.color { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn line(&self, label: &str, text: &str) {
        // Nothing can be done about a standard error that is gone.
        let _ = writeln!(io::stderr().lock(), "{label}{text}");
    }
}
