//! The parameters of what can be called: how arrays of Python are passed, and how new ones are made.

use super::arrays::{Borrowed, borrow, borrow_number};
use super::errors;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::fmt::Write;
use tvmr::callable::{ArrayRef, CallError};
use tvmr::loopir::Access;
use tvmr::measure::ParamSpec;

/// A name, and parameters in order.
pub(crate) struct Signature {
    pub name: String,
    pub params: Vec<ParamSpec>,
    /// The positions of parameters that are only written.
    pub outputs: Vec<usize>,
    /// Shapes and types of new outputs, for `numpy.empty`.
    new_outputs: PyOnceLock<Vec<(Py<PyAny>, Py<PyAny>)>>,
}

impl Signature {
    pub(crate) fn new(name: &str, params: &[ParamSpec]) -> Signature {
        let outputs = (0..params.len()).filter(|&i| params[i].access == Access::Out).collect();
        Signature { name: name.to_owned(), params: params.to_vec(), outputs, new_outputs: PyOnceLock::new() }
    }

    /// Borrows the arrays of objects for parameters.
    pub(crate) fn borrow_all<'py, 'a>(
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
        let text = format!("argument {i} of `{}`, `{}`: {}", self.name, param.name, error.value(py));
        let named = errors::argument(py, text);
        named.set_cause(py, error.cause(py));
        named
    }

    /// New arrays for all outputs.
    pub(crate) fn new_outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let empty = EMPTY.import(py, "numpy", "empty")?;
        let known = self.new_outputs.get_or_try_init(py, || {
            let types = py.import("tvmr._arrays")?;
            let one = |&i: &usize| {
                let param = &self.params[i];
                let dtype = types.call_method1("numpy_dtype", (param.dtype.name(),))?;
                Ok((PyTuple::new(py, &param.shape)?.into_any().unbind(), dtype.unbind()))
            };
            self.outputs.iter().map(one).collect::<PyResult<_>>()
        })?;
        known.iter().map(|(shape, dtype)| empty.call1((shape, dtype))).collect()
    }

    /// `<tvmr.KIND name(A: in float32[2], …)>`
    pub(crate) fn show(&self, kind: &str) -> String {
        let mut text = format!("<tvmr.{kind} {}(", self.name);
        for (i, p) in self.params.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ =
                write!(text, "{}{}: {} {}{:?}", if i == 0 { "" } else { ", " }, p.name, access(p), p.dtype, p.shape);
        }
        text + ")>"
    }
}

/// `in`, `out` or `inout`.
pub(crate) fn access(param: &ParamSpec) -> &'static str {
    match param.access {
        Access::In => "in",
        Access::Out => "out",
        Access::InOut => "inout",
    }
}

/// New outputs as the result of a call: the only one, or a tuple.
pub(crate) fn result<'py>(py: Python<'py>, new: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    Ok(match new {
        [only] => only.clone(),
        several => PyTuple::new(py, several)?.into_any(),
    })
}

/// Calls with borrowed arrays, with the interpreter released.
///
/// # Errors
/// The call fails.
pub(crate) fn detached(
    py: Python<'_>,
    borrowed: &[Borrowed<'_>],
    call: impl FnOnce(&[ArrayRef<'_>]) -> Result<(), CallError> + Send,
) -> PyResult<()> {
    let arrays: SmallVec<[ArrayRef<'_>; 8]> = borrowed.iter().map(|b| b.array.clone()).collect();
    let lent = Lent(&arrays);
    py.detach(move || call(lent.arrays())).map_err(|e| errors::of_call(py, &e))
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
