//! What options and arrays say of the inputs of an ONNX model before it is translated: shapes, sizes, and elements.

use super::args::GraphFiles;
use super::exit::Failure;
use super::load::Content;
use super::run_files::{Named, Which, failure, opened};
use super::{run_sizes, shapes};
use crate::arrays::Array;
use crate::diagnostic::nearest;
use crate::graph::{Constant, Function, ValueId};
use crate::ir::DType;
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Const {
    name: String,
    value: String,
}

/// Parses `NAME=FILE` or `NAME=1,2`.
pub(super) fn constant(text: &str) -> Result<Const, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.is_empty() => {
            Ok(Const { name: name.trim().to_owned(), value: value.to_owned() })
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
        match (content, self.constants) {
            (Content::Text(_), [_, ..]) => {
                let help = "in the text of a graph, `R.const` is a constant".to_owned();
                let message = format!("`--const` is for inputs of ONNX models, and `{}` is a text", path.display());
                Err(Failure::Usage(message, help))
            }
            _ => Ok(()),
        }
    }
}

impl Inputs for ModelInputs<'_> {
    type Error = Failure;

    fn shapes(&self) -> &[shapes::Shape] {
        self.shapes
    }

    fn constants(&self, signature: &Function) -> Result<BTreeMap<String, Constant>, Failure> {
        let mut all = BTreeMap::new();
        for Const { name, value } in self.constants {
            let Some(param) = find(signature, name) else { return Err(unknown(signature, name)) };
            if all.insert(name.clone(), elements(signature, param, value)?).is_some() {
                return Err(Failure::Usage(format!("`--const` gives `{name}` twice"), String::new()));
            }
        }
        Ok(all)
    }

    fn sizes(&self, signature: &Function) -> Result<Vec<(String, i64)>, Failure> {
        run_sizes::infer("main", &run_sizes::of_graph(signature), self.single, self.many)
    }

    fn elements(&self, signature: &Function, name: &str) -> Result<Option<Constant>, Failure> {
        let Some(param) = find(signature, name) else { return Ok(None) };
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
            return elements(signature, param, &named.path.to_string_lossy()).map(Some);
        }
        for path in self.many {
            let file = opened(path)?;
            if let Some(i) = file.position_for(name) {
                let (dtype, _) = declared(signature, param)?;
                let array = file.read(i, Some(dtype)).map_err(failure)?;
                return checked(signature, param, array).map(Some);
            }
        }
        let others = signature.params.iter().enumerate().filter(|&(i, &p)| !is_named(i, p));
        let rank = others.map(|(_, &p)| p).position(|p| p == param);
        let file = rank.and_then(|rank| self.single.iter().filter(|n| n.which == Which::Any).nth(rank));
        file.map(|named| elements(signature, param, &named.path.to_string_lossy())).transpose()
    }
}

fn find(signature: &Function, name: &str) -> Option<ValueId> {
    signature.params.iter().copied().find(|&p| signature.value(p).name == name)
}

fn unknown(signature: &Function, name: &str) -> Failure {
    let names: Vec<&str> = signature.params.iter().map(|&p| signature.value(p).name.as_str()).collect();
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => format!("there is `{near}`"),
        None => format!("there are `{}`", names.join("`, `")),
    };
    Failure::Usage(format!("the model has no input `{name}`"), help)
}

/// The type and the extents of an input; `None` for an extent that is a symbol.
fn declared(signature: &Function, param: ValueId) -> Result<(DType, Vec<Option<i64>>), Failure> {
    let tensor = signature.ty(param).as_tensor();
    let found = tensor.and_then(|t| {
        let shape = t.shape.as_ref()?.iter().map(|&e| signature.arena.as_int(e)).collect();
        Some((t.dtype?, shape))
    });
    found.ok_or_else(|| {
        Failure::Usage(format!("the type of `{}` is not known", signature.value(param).name), String::new())
    })
}

/// The elements of an input: numbers, or those of a file.
fn elements(signature: &Function, param: ValueId, value: &str) -> Result<Constant, Failure> {
    let (dtype, shape) = declared(signature, param)?;
    let name = signature.value(param).name;
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    if let Some(numbers) = words.iter().map(|word| Array::number(dtype, word)).collect::<Option<Vec<Array>>>() {
        let data = numbers.iter().flat_map(|n| n.data().to_vec()).collect();
        let shape = if shape.is_empty() { Vec::new() } else { vec![numbers.len() as i64] };
        let array =
            Array::new(dtype, &shape, data).map_err(|_| misfit(signature, param, dtype, &[words.len() as i64]))?;
        return checked(signature, param, array);
    }
    let file = opened(Path::new(value))?;
    let i = match (file.position_for(name.as_str()), file.names().len()) {
        (Some(i), _) => i,
        (None, 1) => 0,
        (None, n) => {
            let message = format!("`{value}` has {n} arrays, and none is called `{name}`");
            return Err(Failure::Usage(message, String::new()));
        }
    };
    let header = file.header(i).map_err(failure)?;
    if !header.stored.may_be(dtype) {
        let message = format!("`{name}` is {dtype}, and `{value}` has {}", header.stored);
        return Err(Failure::Usage(message, String::new()));
    }
    checked(signature, param, file.read(i, Some(dtype)).map_err(failure)?)
}

/// The array as the elements of an input of the same type and shape.
fn checked(signature: &Function, param: ValueId, array: Array) -> Result<Constant, Failure> {
    let (dtype, declared) = declared(signature, param)?;
    let (found, shape) = (array.dtype(), array.shape().to_vec());
    let fits = declared.len() == shape.len() && declared.iter().zip(&shape).all(|(d, n)| d.is_none_or(|d| d == *n));
    match Constant::new(dtype, &shape, array.into_data()) {
        Some(constant) if fits && dtype == found => Ok(constant),
        _ => Err(misfit(signature, param, found, &shape)),
    }
}

fn misfit(signature: &Function, param: ValueId, dtype: DType, shape: &[i64]) -> Failure {
    let (name, ty) = (signature.value(param).name, signature.ty(param).describe(&signature.arena));
    Failure::Usage(format!("`{name}` is {ty}, and its elements are {dtype} {shape:?}"), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_names() {
        let of = |name: &str, value: &str| Ok(Const { name: name.to_owned(), value: value.to_owned() });
        assert_eq!(constant("axes=0,1"), of("axes", "0,1"));
        assert_eq!(constant("shape=a=b.npy"), of("shape", "a=b.npy"));
        assert!(constant("axes").is_err() && constant("=1").is_err() && constant("a=").is_err());
    }
}
