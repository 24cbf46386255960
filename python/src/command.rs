//! The command line, for the console script.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command `tvmr` with these arguments, and returns its exit code.
///
/// The process must be the command's own: signals are handled, threads are pinned, and a second signal or a time limit ends
/// the process.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| tvmr::cli::run(&args))
}
