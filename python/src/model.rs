//! Compiled models, to call from Python.

use super::errors;
use super::signature::{Signature, detached, result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::sync::Arc;
use tvmr::measure::ParamSpec;
use tvmr::model::CallableModel;

/// A compiled model. Call it with an array for each input, in order or by name; new NumPy arrays are returned for the outputs, unless
/// arrays to write are passed behind the inputs or as `out`.
#[pyclass(frozen, module = "tvmr")]
pub(crate) struct Model {
    model: Arc<CallableModel>,
    signature: Signature,
}

/// The arguments of a call: one for each parameter, as far as they are given.
struct Given<'a, 'py> {
    signature: &'a Signature,
    py: Python<'py>,
    slots: Vec<Option<Bound<'py, PyAny>>>,
}

impl<'py> Given<'_, 'py> {
    fn refuse(&self, why: &str) -> PyErr {
        errors::argument(self.py, format!("`{}` {why}", self.signature.name))
    }

    /// The names of some parameters, as text.
    fn names(&self, range: std::ops::Range<usize>) -> String {
        let names: Vec<String> = self.signature.params[range].iter().map(|p| format!("`{}`", p.name)).collect();
        names.join(", ")
    }

    fn positional(&mut self, arrays: &Bound<'py, PyTuple>) -> PyResult<()> {
        if arrays.len() > self.slots.len() {
            let (n, all) = (self.slots.len(), self.names(0..self.slots.len()));
            return Err(self.refuse(&format!("takes at most {n} arrays ({all}); found {}", arrays.len())));
        }
        for (slot, array) in self.slots.iter_mut().zip(arrays.iter()) {
            *slot = Some(array);
        }
        Ok(())
    }

    fn named(&mut self, named: &Bound<'py, PyDict>) -> PyResult<()> {
        for (name, array) in named.iter() {
            let name: String = name.extract()?;
            let Some(i) = self.signature.params.iter().position(|p| p.name == name) else {
                return Err(
                    self.refuse(&format!("has no parameter `{name}`; it has {}", self.names(0..self.slots.len())))
                );
            };
            if self.slots[i].replace(array).is_some() {
                return Err(self.refuse(&format!("is given `{name}` twice")));
            }
        }
        Ok(())
    }

    /// Takes the arrays of `out`: one, or a list or tuple with one for each output.
    fn out(&mut self, out: &Bound<'py, PyAny>) -> PyResult<()> {
        let outputs = &self.signature.outputs;
        let all: Vec<Bound<'py, PyAny>> = match out.is_instance_of::<PyTuple>() || out.is_instance_of::<PyList>() {
            true => out.try_iter()?.collect::<PyResult<_>>()?,
            false => vec![out.clone()],
        };
        if all.len() != outputs.len() {
            let (n, found) = (outputs.len(), all.len());
            return Err(self.refuse(&format!("has {n} output{}, and `out` has {found}", if n == 1 { "" } else { "s" })));
        }
        for (&i, array) in outputs.iter().zip(all) {
            if self.slots[i].replace(array).is_some() {
                return Err(self.refuse(&format!("is given `{}` twice", self.signature.params[i].name)));
            }
        }
        Ok(())
    }

    /// Refuses missing inputs, and outputs of which some are given. Returns whether outputs are given.
    fn check(&self) -> PyResult<bool> {
        let n_inputs = self.slots.len() - self.signature.outputs.len();
        let missing: Vec<String> = (0..n_inputs)
            .filter(|&i| self.slots[i].is_none())
            .map(|i| format!("`{}`", self.signature.params[i].name))
            .collect();
        if !missing.is_empty() {
            let (n, inputs, outputs) = (n_inputs, self.names(0..n_inputs), self.names(n_inputs..self.slots.len()));
            let s = if n == 1 { "" } else { "s" };
            return Err(self.refuse(&format!(
                "takes {n} array{s} ({inputs}), and optionally the outputs ({outputs}); without {}",
                missing.join(", ")
            )));
        }
        let n_given = self.slots[n_inputs..].iter().flatten().count();
        if n_given != 0 && n_given != self.signature.outputs.len() {
            let outputs = self.names(n_inputs..self.slots.len());
            return Err(self.refuse(&format!("is given {n_given} of its outputs ({outputs}); pass all or none")));
        }
        Ok(n_given != 0)
    }
}

impl Model {
    pub(crate) fn new(model: CallableModel) -> Model {
        let signature = Signature::new(model.model().name(), model.params());
        Model { model: Arc::new(model), signature }
    }

    /// Descriptions of parameters.
    fn tensors<'py>(&self, py: Python<'py>, params: &[ParamSpec]) -> PyResult<Bound<'py, PyTuple>> {
        static TENSOR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = TENSOR.import(py, "tvmr._model", "Tensor")?;
        let one = |p: &ParamSpec| class.call1((&p.name, p.dtype.name(), PyTuple::new(py, &p.shape)?));
        PyTuple::new(py, params.iter().map(one).collect::<PyResult<Vec<_>>>()?)
    }

    fn n_inputs(&self) -> usize {
        self.signature.params.len() - self.signature.outputs.len()
    }
}

#[pymethods]
impl Model {
    #[pyo3(signature = (*arrays, out=None, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyTuple>,
        out: Option<Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let signature = &self.signature;
        let mut given = Given { signature, py, slots: vec![None; signature.params.len()] };
        given.positional(arrays)?;
        if let Some(named) = named {
            given.named(named)?;
        }
        if let Some(out) = &out {
            given.out(out)?;
        }
        let is_in_place = given.check()?;
        let new = if is_in_place { Vec::new() } else { signature.new_outputs(py)? };
        let all = given.slots.into_iter().flatten().chain(new.iter().cloned());
        let borrowed = signature.borrow_all(all, signature.params.iter().enumerate())?;
        let model = &*self.model;
        detached(py, &borrowed, |arrays| model.call(arrays))?;
        if is_in_place { Ok(out) } else { result(py, &new).map(Some) }
    }

    /// The name of the graph.
    #[getter]
    fn name(&self) -> &str {
        &self.signature.name
    }

    /// The inputs: names, types and shapes.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.tensors(py, &self.signature.params[..self.n_inputs()])
    }

    /// The outputs: names, types and shapes.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.tensors(py, &self.signature.params[self.n_inputs()..])
    }

    fn __repr__(&self) -> String {
        self.signature.show("Model")
    }
}
