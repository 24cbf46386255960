//! Compiled functions, to call from Python.

use super::errors;
use super::signature::{Signature, access, detached, result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::sync::Arc;
use tvmr::callable::{ArrayRef, CallError, Callable};
use tvmr::loopir::Access;
use tvmr::measure::ParamSpec;

/// A compiled function. Call it with an array for each parameter; outputs are written in place. If all outputs are left out,
/// new NumPy arrays are returned for them.
#[pyclass(frozen, module = "tvmr")]
pub(crate) struct Kernel {
    callable: Arc<Callable>,
    signature: Signature,
}

impl Kernel {
    /// A kernel of a compiled function.
    pub(crate) fn new(callable: Arc<Callable>) -> Kernel {
        Kernel { signature: Signature::new(callable.name(), callable.params()), callable }
    }
}

#[pymethods]
impl Kernel {
    #[pyo3(signature = (*arrays))]
    fn __call__<'py>(&self, py: Python<'py>, arrays: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Signature { params, outputs, .. } = &self.signature;
        let callable = &*self.callable;
        let n_inputs = params.len() - outputs.len();
        if arrays.len() != n_inputs || outputs.is_empty() {
            if arrays.len() != params.len() {
                let error = callable.call(&vec![ArrayRef::of::<u8>(&[], &[0]); arrays.len()]).err();
                let error = error.unwrap_or_else(|| CallError::Argument("wrong number of arrays".into()));
                return Err(errors::of_call(py, &error));
            }
            let borrowed = self.signature.borrow_all(arrays.iter(), params.iter().enumerate())?;
            detached(py, &borrowed, |arrays| callable.call(arrays))?;
            return Ok(None);
        }
        let new = self.signature.new_outputs(py)?;
        let (mut given, mut made) = (arrays.iter(), new.iter().cloned());
        let all = params.iter().map(|p| if p.access == Access::Out { made.next() } else { given.next() });
        let all: SmallVec<[Bound<'py, PyAny>; 8]> = all.flatten().collect();
        let borrowed = self.signature.borrow_all(all.into_iter(), params.iter().enumerate())?;
        detached(py, &borrowed, |arrays| callable.call(arrays))?;
        result(py, &new).map(Some)
    }

    /// Prepares the constant parameters, whose arrays are given in order. Later calls compute with what the arrays hold now.
    #[pyo3(signature = (*arrays))]
    fn prepare(&self, py: Python<'_>, arrays: &Bound<'_, PyTuple>) -> PyResult<()> {
        let callable = &*self.callable;
        let n = arrays.len();
        let params = callable.constants().iter().map(|&i| &self.signature.params[i]).enumerate();
        let borrowed = self.signature.borrow_all(arrays.iter(), params)?;
        detached(py, &borrowed, |arrays| {
            let mut lent: SmallVec<[ArrayRef<'_>; 8]> = arrays.iter().cloned().collect();
            // Arrays beyond the constants are counted, and refused.
            lent.resize(n, ArrayRef::of::<u8>(&[], &[0]));
            callable.prepare(&lent)
        })
    }

    /// The name of the function.
    #[getter]
    fn name(&self) -> &str {
        self.callable.name()
    }

    /// The parameters in order: names, types, shapes, and `in`, `out` or `inout`.
    #[getter]
    fn params(&self) -> Vec<(String, &'static str, Vec<i64>, &'static str)> {
        let one = |p: &ParamSpec| (p.name.clone(), p.dtype.name(), p.shape.clone(), access(p));
        self.callable.params().iter().map(one).collect()
    }

    /// The names of the constant parameters that `prepare` takes; empty if nothing is prepared.
    #[getter]
    fn constants(&self) -> Vec<&str> {
        self.callable.constants().iter().map(|&i| &self.callable.params()[i].name[..]).collect()
    }

    fn __repr__(&self) -> String {
        self.signature.show("Kernel")
    }
}
