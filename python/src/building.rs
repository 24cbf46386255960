//! Libraries of native code from what was tuned.

use super::errors;
use super::tuning::{Found, FoundModel};
use super::waiting::{self, Teller};
use pyo3::prelude::*;
use std::path::PathBuf;
use tvmr::export::{File, Function};
use tvmr::request::building::Request;
use tvmr::tune::Interrupt;

/// Builds a library of functions, or of a model instead, and returns the paths of its files.
#[pyfunction]
#[pyo3(signature = (*, found, model, output, emit, prefix, tvm_ffi, only_this_cpu, external_weights))]
#[expect(clippy::too_many_arguments, reason = "an argument for each option")]
pub(crate) fn build(
    py: Python<'_>,
    found: Vec<Bound<'_, Found>>,
    model: Option<Bound<'_, FoundModel>>,
    output: PathBuf,
    emit: Vec<String>,
    prefix: Option<String>,
    tvm_ffi: bool,
    only_this_cpu: bool,
    external_weights: Option<PathBuf>,
) -> PyResult<Vec<PathBuf>> {
    let emit: Result<Vec<File>, String> = emit.iter().map(|word| word.parse()).collect();
    let emit = emit.map_err(|why| errors::input(py, why))?;
    let request = Request { output, prefix, has_tvm_ffi: tvm_ffi, emit, external_weights };
    let model = model.map(|model| model.get().clone());
    let functions: Vec<Function> = found.iter().map(|f| f.get().exported(only_this_cpu)).collect();
    let work = move |_: &Teller<(), _>| {
        let plan = request.plan()?;
        let functions = match &model {
            Some(model) => vec![model.exported(only_this_cpu)?],
            None => functions,
        };
        plan.write(&plan.library(functions)?)
    };
    let written = waiting::wait(py, &Interrupt::new(), |()| Ok(()), work)?;
    written.map_err(|e| errors::of_request(py, &e))
}
