//! What options and arrays say of the inputs of an ONNX model before it is translated: shapes, sizes, and elements.

use super::args::GraphFiles;
use super::exit::Failure;
use super::load::Content;
use super::run_files::{Named, Which, opened};
use super::{run_sizes, shapes};
use crate::graph::{Constant, Function, ValueId};
use crate::request::elements;
use crate::request::program::Inputs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is known of the inputs of a model.
#[derive(Clone, Copy)]
pub(super) struct ModelInputs<'a> {
    /// `--shape`
    pub shapes: &'a [shapes::Shape],
    /// `--const`
    pub constants: &'a [Const],
    /// Arrays for one input each.
    pub single: &'a [Named],
    /// Files with arrays for inputs by their names.
    pub many: &'a [PathBuf],
}

/// `--const NAME=FILE`, or numbers in place of the file.
pub(super) type Const = (String, String);

/// Parses `NAME=FILE` or `NAME=1,2`.
pub(super) fn constant(text: &str) -> Result<Const, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected a name and a file or numbers, such as `axes=0,1`".to_owned()),
    }
}

impl<'a> ModelInputs<'a> {
    /// What the options say.
    pub(super) fn of(graph: &'a GraphFiles) -> ModelInputs<'a> {
        ModelInputs::new(&graph.shape, &graph.constants)
    }

    /// What shapes and constants say.
    pub(super) fn new(shapes: &'a [shapes::Shape], constants: &'a [Const]) -> ModelInputs<'a> {
        ModelInputs { shapes, constants, single: &[], many: &[] }
    }

    /// Refuses constants for what is no model.
    pub(super) fn check(&self, path: &Path, content: &Content) -> Result<(), Failure> {
        Ok(elements::check(&path.to_string_lossy(), content, self.constants)?)
    }
}

impl Inputs for ModelInputs<'_> {
    type Error = Failure;

    fn shapes(&self) -> &[shapes::Shape] {
        self.shapes
    }

    fn constants(&self, signature: &Function) -> Result<BTreeMap<String, Constant>, Failure> {
        Ok(elements::constants(signature, self.constants)?)
    }

    fn sizes(&self, signature: &Function) -> Result<Vec<(String, i64)>, Failure> {
        run_sizes::infer("main", &run_sizes::of_graph(signature), self.single, self.many)
    }

    fn elements(&self, signature: &Function, name: &str) -> Result<Option<Constant>, Failure> {
        let Some(param) = elements::find(signature, name) else { return Ok(None) };
        let position = signature.params.iter().position(|&p| p == param);
        // Files without a name are for the inputs without one, in order.
        let is_named = |i: usize, p: ValueId| {
            self.single.iter().any(|n| match &n.which {
                Which::Any => false,
                Which::Name(name) => signature.value(p).name == name.as_str(),
                Which::Position(at) => *at == i,
            })
        };
        let named = self.single.iter().find(|n| match &n.which {
            Which::Any => false,
            Which::Name(n) => n == name,
            Which::Position(i) => Some(*i) == position,
        });
        if let Some(named) = named {
            return Ok(Some(elements::of(signature, param, &named.path.to_string_lossy())?));
        }
        for path in self.many {
            let file = opened(path)?;
            if let Some(i) = file.position_for(name) {
                return Ok(Some(elements::in_file(signature, param, &file, i)?));
            }
        }
        let others = signature.params.iter().enumerate().filter(|&(i, &p)| !is_named(i, p));
        let rank = others.map(|(_, &p)| p).position(|p| p == param);
        let file = rank.and_then(|rank| self.single.iter().filter(|n| n.which == Which::Any).nth(rank));
        Ok(file.map(|named| elements::of(signature, param, &named.path.to_string_lossy())).transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_names() {
        let of = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(constant("axes=0,1"), of("axes", "0,1"));
        assert_eq!(constant("shape=a=b.npy"), of("shape", "a=b.npy"));
        assert!(constant("axes").is_err() && constant("=1").is_err() && constant("a=").is_err());
    }
}
