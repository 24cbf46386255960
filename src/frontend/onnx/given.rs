//! What is known of the inputs of a model before it is translated.

use crate::diagnostic::Diagnostic;
use crate::graph::{Constant, Function};
use std::collections::BTreeMap;

/// What is known of the inputs: by the names that inputs and symbols have in the graph.
#[derive(Clone, Default, Debug)]
pub struct Given {
    /// Values of symbolic dimensions.
    pub symbols: BTreeMap<String, i64>,
    /// Shapes of inputs, which give their symbolic dimensions values. Those that do not fit are left to the caller.
    pub shapes: Vec<(String, Vec<i64>)>,
    /// Elements of inputs, which are no parameters of the graph.
    pub constants: BTreeMap<String, Constant>,
    /// Elements of inputs that are parameters, which nothing reads: the caller passes these elements.
    pub elements: BTreeMap<String, Constant>,
}

impl Given {
    /// The elements of an input, if they are known.
    pub(super) fn known(&self, name: &str) -> Option<&Constant> {
        self.constants.get(name).or_else(|| self.elements.get(name))
    }
}

/// A model as a graph.
pub struct Imported {
    /// The graph, a function `main`.
    pub function: Function,
    /// The symbols of the model that were given values.
    pub symbols: BTreeMap<String, i64>,
}

/// Why a model is no graph.
#[derive(Debug)]
pub struct Unsupported {
    /// All that is not supported.
    pub found: Vec<Diagnostic>,
    /// Inputs whose elements must be known: with them in [`Given`], less may be refused.
    pub needed: Vec<String>,
}
