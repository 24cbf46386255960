//! Compiling from Python.

use super::errors;
use super::kernel::Kernel;
use super::model::Model;
use super::options::{self, SourceArgs};
use super::pools::workers;
use super::telling::{Message, Sender};
use super::waiting::{self, Teller};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use tvmr::callable::{Callable, CallableError};
use tvmr::model::{self, CallableModel};
use tvmr::request::models::{Compiled, Request};
use tvmr::request::{Error, Status};
use tvmr::tune::Interrupt;

/// A model that runs on the pool of this process.
///
/// # Errors
/// The system refuses threads.
pub(crate) fn callable(mut model: model::Model, threads: u32) -> Result<CallableModel, Error> {
    let workers = workers(threads).map_err(|e| Error::Machine(format!("cannot start threads: {e}"), String::new()))?;
    model.set_workers(workers);
    Ok(CallableModel::new(model))
}

/// What was compiled.
enum Made {
    Model(Box<CallableModel>),
    Kernel(Result<Arc<Callable>, CallableError>),
}

/// Compiles a program: a graph becomes a `Model`, a function a `Kernel`.
///
/// `hear` is called with notes and warnings, as `tune` calls it.
#[pyfunction]
#[pyo3(signature = (*, source, hear, threads, isa, strict_fp, work_dir, intrin))]
#[expect(clippy::too_many_arguments, reason = "an argument for each option")]
pub(crate) fn compile<'py>(
    py: Python<'py>,
    source: SourceArgs,
    hear: &Bound<'py, PyAny>,
    threads: Option<usize>,
    isa: Option<&str>,
    strict_fp: bool,
    work_dir: Option<PathBuf>,
    intrin: Vec<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    let wanted = options::wanted(py, threads, isa, strict_fp, false)?;
    let request = Request { source: source.read(py)?, wanted, work_dir, intrin };
    let work = move |teller: &Teller<Message, _>| {
        let sender = Sender { teller, status: Status::default() };
        Ok(match request.compile(&sender)? {
            Compiled::Model { model, setting } => Made::Model(Box::new(callable(*model, setting.threads)?)),
            Compiled::Function { workload, func, setting } => {
                let pool = workers(setting.threads).map_err(|e| CallableError::Machine(e.to_string()));
                let compiled = pool.and_then(|pool| Callable::compile(&workload, &func, &setting, Some(pool)));
                Made::Kernel(compiled.map(Arc::new))
            }
        })
    };
    let made = waiting::wait(py, &Interrupt::new(), |message: Message| message.pass_to(hear), work)?;
    match made.map_err(|e: Error| errors::of_model(py, &e))? {
        Made::Model(model) => Ok(Bound::new(py, Model::new(*model))?.into_any()),
        Made::Kernel(kernel) => {
            let kernel = kernel.map_err(|e| errors::of_compiling(py, &e))?;
            Ok(Bound::new(py, Kernel::new(kernel))?.into_any())
        }
    }
}
