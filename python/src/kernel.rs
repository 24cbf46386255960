//! Compiled functions, to call from Python.

use super::arrays::{Borrowed, borrow, borrow_number};
use super::errors;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::fmt::Write;
use std::sync::Arc;
use tvmr::callable::{ArrayRef, CallError, Callable};
use tvmr::loopir::Access;
use tvmr::measure::ParamSpec;

/// A compiled function. Call it with an array for each parameter; outputs are written in place. If all outputs are left out,
/// new NumPy arrays are returned for them.
#[pyclass(frozen, module = "tvmr")]
pub(crate) struct Kernel {
    callable: Arc<Callable>,
    /// The positions of parameters that are only written.
    outputs: Vec<usize>,
    /// Shapes and types of new outputs, for `numpy.empty`.
    new_outputs: PyOnceLock<Vec<(Py<PyAny>, Py<PyAny>)>>,
}

impl Kernel {
    /// A kernel of a compiled function.
    pub(crate) fn new(callable: Arc<Callable>) -> Kernel {
        Kernel { outputs: callable.outputs().collect(), callable, new_outputs: PyOnceLock::new() }
    }

    /// Borrows the arrays of objects for parameters.
    fn borrow_all<'py, 'a>(
        &self,
        objects: impl Iterator<Item = Bound<'py, PyAny>>,
        params: impl Iterator<Item = (usize, &'a ParamSpec)>,
    ) -> PyResult<SmallVec<[Borrowed<'py>; 8]>> {
        let one = |(object, (i, param)): (Bound<'py, PyAny>, (usize, &ParamSpec))| {
            let of_number = match param.shape.is_empty() && param.access == Access::In {
                true => borrow_number(&object, param.dtype),
                false => Ok(None),
            };
            let borrowed = of_number.and_then(|b| b.map_or_else(|| borrow(&object, param.dtype), Ok));
            borrowed.map_err(|e| self.of_argument(object.py(), e, i, param))
        };
        objects.zip(params).map(one).collect()
    }

    /// Says which argument an error is about.
    fn of_argument(&self, py: Python<'_>, error: PyErr, i: usize, param: &ParamSpec) -> PyErr {
        if !error.get_type(py).is(errors::argument(py, String::new()).get_type(py)) {
            return error;
        }
        let text = format!("argument {i} of `{}`, `{}`: {}", self.callable.name(), param.name, error.value(py));
        let named = errors::argument(py, text);
        named.set_cause(py, error.cause(py));
        named
    }

    /// Calls the function on borrowed arrays, with the interpreter released.
    fn run(&self, py: Python<'_>, borrowed: &[Borrowed<'_>]) -> PyResult<()> {
        let arrays: SmallVec<[ArrayRef<'_>; 8]> = borrowed.iter().map(|b| b.array.clone()).collect();
        let (lent, callable) = (Lent(&arrays), &*self.callable);
        py.detach(move || callable.call(lent.arrays())).map_err(|e| errors::of_call(py, &e))
    }

    /// New arrays for all outputs.
    fn new_outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let empty = EMPTY.import(py, "numpy", "empty")?;
        let known = self.new_outputs.get_or_try_init(py, || {
            let types = py.import("tvmr._arrays")?;
            let one = |&i: &usize| {
                let param = &self.callable.params()[i];
                let dtype = types.call_method1("numpy_dtype", (param.dtype.name(),))?;
                Ok((PyTuple::new(py, &param.shape)?.into_any().unbind(), dtype.unbind()))
            };
            self.outputs.iter().map(one).collect::<PyResult<_>>()
        })?;
        known.iter().map(|(shape, dtype)| empty.call1((shape, dtype))).collect()
    }
}

/// Arrays that a call borrows while the interpreter is released.
struct Lent<'a>(&'a [ArrayRef<'a>]);

// SAFETY: the call runs on this thread; detaching asks for `Send` only to keep Python's objects out, and arrays refer to
// plain memory, whose owners are borrowed until the call is over.
unsafe impl Send for Lent<'_> {}

impl<'a> Lent<'a> {
    /// The arrays. (A closure would capture the field, not the whole.)
    fn arrays(self) -> &'a [ArrayRef<'a>] {
        self.0
    }
}

#[pymethods]
impl Kernel {
    #[pyo3(signature = (*arrays))]
    fn __call__<'py>(&self, py: Python<'py>, arrays: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let params = self.callable.params();
        let n_inputs = params.len() - self.outputs.len();
        if arrays.len() != n_inputs || self.outputs.is_empty() {
            if arrays.len() != params.len() {
                let error = self.callable.call(&vec![ArrayRef::of::<u8>(&[], &[0]); arrays.len()]).err();
                let error = error.unwrap_or_else(|| CallError::Argument("wrong number of arrays".into()));
                return Err(errors::of_call(py, &error));
            }
            let borrowed = self.borrow_all(arrays.iter(), params.iter().enumerate())?;
            self.run(py, &borrowed)?;
            return Ok(None);
        }
        let new = self.new_outputs(py)?;
        let (mut given, mut made) = (arrays.iter(), new.iter().cloned());
        let all = params.iter().map(|p| if p.access == Access::Out { made.next() } else { given.next() });
        let all: SmallVec<[Bound<'py, PyAny>; 8]> = all.flatten().collect();
        let borrowed = self.borrow_all(all.into_iter(), params.iter().enumerate())?;
        self.run(py, &borrowed)?;
        Ok(Some(match &new[..] {
            [only] => only.clone(),
            several => PyTuple::new(py, several)?.into_any(),
        }))
    }

    /// Prepares the constant parameters, whose arrays are given in order. Later calls compute with what the arrays hold now.
    #[pyo3(signature = (*arrays))]
    fn prepare(&self, py: Python<'_>, arrays: &Bound<'_, PyTuple>) -> PyResult<()> {
        let params = self.callable.constants().iter().map(|&i| &self.callable.params()[i]).enumerate();
        let borrowed = self.borrow_all(arrays.iter(), params)?;
        let mut lent: SmallVec<[ArrayRef<'_>; 8]> = borrowed.iter().map(|b| b.array.clone()).collect();
        // Arrays beyond the constants are counted, and refused.
        lent.resize(arrays.len(), ArrayRef::of::<u8>(&[], &[0]));
        let (lent, callable) = (Lent(&lent), &*self.callable);
        py.detach(move || callable.prepare(lent.arrays())).map_err(|e| errors::of_call(py, &e))
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
        let mut text = format!("<tvmr.Kernel {}(", self.callable.name());
        for (i, p) in self.callable.params().iter().enumerate() {
            // Writing to a string cannot fail.
            let _ =
                write!(text, "{}{}: {} {}{:?}", if i == 0 { "" } else { ", " }, p.name, access(p), p.dtype, p.shape);
        }
        text + ")>"
    }
}

fn access(param: &ParamSpec) -> &'static str {
    match param.access {
        Access::In => "in",
        Access::Out => "out",
        Access::InOut => "inout",
    }
}
