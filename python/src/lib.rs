//! The native part of the Python package `tvmr`: tuning, and kernels over arrays of Python.
//!
//! It converts between Python's objects and the library's types, and waits for the library in a way that Python's users
//! expect: with the interpreter released, and open to Ctrl-C. What users see is in `tvmr/*.py`.

mod arrays;
mod building;
mod command;
mod compiling;
mod dlpack;
mod errors;
mod kernel;
mod model;
mod options;
mod pools;
mod records;
mod signature;
mod telling;
mod tuning;
mod waiting;

use pyo3::prelude::*;

/// The native part of the package `tvmr`.
#[pymodule]
fn _tvmr(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<kernel::Kernel>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<tuning::Found>()?;
    module.add_class::<tuning::FoundModel>()?;
    module.add_function(wrap_pyfunction!(compiling::compile, module)?)?;
    module.add_function(wrap_pyfunction!(tuning::tune, module)?)?;
    module.add_function(wrap_pyfunction!(building::build, module)?)?;
    module.add_function(wrap_pyfunction!(records::records, module)?)?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    Ok(())
}
