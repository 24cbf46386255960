//! The package's exceptions, which are classes of `tvmr._errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tvmr::callable::{CallError, CallableError};
use tvmr::request::Error;

/// A class of `tvmr._errors`.
macro_rules! exception {
    ($function:ident, $class:literal) => {
        /// An exception of the class.
        pub(crate) fn $function(py: Python<'_>, text: String) -> PyErr {
            static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            match CLASS.import(py, "tvmr._errors", $class) {
                Ok(class) => PyErr::from_type(class.clone(), text),
                Err(error) => error,
            }
        }
    };
}

exception!(general, "Error");
exception!(input, "InputError");
exception!(nothing_valid, "NothingValid");
exception!(machine, "MachineError");
exception!(argument, "ArgumentError");
exception!(kernel, "KernelError");

/// The exception for a request that failed.
pub(crate) fn of_request(py: Python<'_>, error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Negative(_) => nothing_valid(py, text),
        Error::Usage(..) | Error::Input(_) | Error::Shown(..) => input(py, text),
        Error::Machine(..) => machine(py, text),
        Error::Interrupted(..) => pyo3::exceptions::PyKeyboardInterrupt::new_err(text),
    }
}

/// The exception for a model that was not compiled: a kernel that does not compile is no failure of a search.
pub(crate) fn of_model(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Negative(text) => general(py, text.clone()),
        Error::Usage(..) | Error::Input(_) | Error::Shown(..) | Error::Machine(..) | Error::Interrupted(..) => {
            of_request(py, error)
        }
    }
}

/// The exception for a function that was not compiled.
pub(crate) fn of_compiling(py: Python<'_>, error: &CallableError) -> PyErr {
    match error {
        CallableError::Program(_) => general(py, error.to_string()),
        CallableError::Machine(_) => machine(py, error.to_string()),
    }
}

/// The exception for a call that failed.
pub(crate) fn of_call(py: Python<'_>, error: &CallError) -> PyErr {
    match error {
        CallError::Argument(_) => argument(py, error.to_string()),
        CallError::Failed { .. } => kernel(py, error.to_string()),
    }
}
