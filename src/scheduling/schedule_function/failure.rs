//! Errors of schedule functions.

use crate::diagnostic::{Diagnostic, Span};
use crate::schedule::error::ScheduleError;
use crate::schedule::render::of_error;

/// The error that stopped a schedule function, with its place in the text and the calls that led there.
/// [`ScheduleFunction::render_error`](super::ScheduleFunction::render_error) shows the program as well.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionError {
    /// The mistake, with its places in the text of the schedule function.
    pub diagnostic: Box<Diagnostic>,
    /// The error of the instruction, if one was refused.
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

/// The error of a value of the wrong type.
pub(super) fn type_error(span: Span, message: impl Into<String>) -> FunctionError {
    Diagnostic::error_at("type", span, message).into()
}

/// The error of an instruction that the schedule refused.
pub(super) fn refused(span: Span, error: ScheduleError) -> FunctionError {
    let diagnostic = of_error(&error).label(span, "");
    FunctionError { diagnostic: Box::new(diagnostic), refused: Some(Box::new(error)) }
}
