//! Why a schedule function stopped.

use crate::diagnostic::{Diagnostic, Span};
use crate::schedule::error::ScheduleError;

/// A schedule function that could not be carried out: what is wrong, where in its text, and which functions called
/// each other there. Rendering, which shows the program as well, is left to
/// [`ScheduleFunction::render_error`](super::ScheduleFunction::render_error).
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionError {
    /// What is wrong, pointing into the text of the schedule function.
    pub diagnostic: Box<Diagnostic>,
    /// The refused instruction, if it is one.
    pub refused: Option<Box<ScheduleError>>,
}

impl std::fmt::Display for FunctionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for FunctionError {}

impl From<Diagnostic> for FunctionError {
    fn from(diagnostic: Diagnostic) -> Self {
        FunctionError { diagnostic: Box::new(diagnostic), refused: None }
    }
}

/// An error of a value's type.
pub(super) fn type_error(span: Span, message: impl Into<String>) -> FunctionError {
    Diagnostic::error_at("type", span, message).into()
}

/// An instruction that the schedule refused.
pub(super) fn refused(span: Span, error: ScheduleError) -> FunctionError {
    let help = error.kind.help();
    let diagnostic = Diagnostic::error_at(error.kind.class(), span, error.to_string())
        .maybe_help((!help.is_empty()).then_some(help));
    FunctionError { diagnostic: Box::new(diagnostic), refused: Some(Box::new(error)) }
}
