//! Errors of a run.

use crate::diagnostic::{Diagnostic, Span};

/// The error that stopped a run, with its place in the text and the calls that led there.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure<C> {
    /// The mistake, with its places in the text.
    pub diagnostic: Box<Diagnostic>,
    /// The error of the library, if it refused an operation.
    pub refused: Option<Box<C>>,
}

impl<C> std::fmt::Display for Failure<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl<C: std::fmt::Debug> std::error::Error for Failure<C> {}

impl<C> From<Diagnostic> for Failure<C> {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure { diagnostic: Box::new(diagnostic), refused: None }
    }
}

/// The error of a value of the wrong type.
pub(crate) fn type_error<C>(span: Span, message: impl Into<String>) -> Failure<C> {
    Diagnostic::error_at("type", span, message).into()
}
