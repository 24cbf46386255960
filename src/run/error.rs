//! The error of a function that was not compiled, or not run.

use super::parameter::Parameter;
use crate::measure::{ArgumentsError, RunFailure};

/// The error of a function that was not compiled, or not run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It cannot be compiled, or takes something else than arrays.
    #[error("{0}")]
    Compile(String),
    /// Parameters that are read have no value.
    #[error("no value for {}", listed(.0))]
    Missing(Vec<Parameter>),
    /// A value is of another type or shape than its parameter.
    #[error("{0}, and the array given for it is {1}")]
    Mismatch(Parameter, String),
    /// The parameter is not read.
    #[error("`{}` is only written", .0.name)]
    NotRead(Parameter),
    /// There is no such parameter, or several have this name.
    #[error("no single parameter is called `{0}`")]
    Unknown(String),
    /// Elements that lie at the same place in memory differ.
    #[error("elements of `{0}` share memory, and the array given for it has different values there")]
    Shared(String),
    /// The program failed by itself.
    #[error("{0}")]
    Failed(String),
    /// The machine lacks memory or threads.
    #[error("{0}")]
    Machine(String),
}

impl From<RunFailure> for RunError {
    fn from(failure: RunFailure) -> RunError {
        RunError::Failed(failure.to_string())
    }
}

impl From<ArgumentsError> for RunError {
    fn from(error: ArgumentsError) -> RunError {
        RunError::Machine(error.to_string())
    }
}

/// `A: float32 [2, 3], B: …`
fn listed(parameters: &[Parameter]) -> String {
    parameters.iter().map(Parameter::to_string).collect::<Vec<_>>().join(", ")
}
