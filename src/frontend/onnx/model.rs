//! An ONNX file that was read and checked.

use super::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use super::{names, tensor, types};
use crate::diagnostic::Diagnostic;
use crate::graph::Constant;
use crate::ir::DType;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Tensors of at most this many integers become constants of the graph, since they may be shapes; larger ones are weights.
const MOST_CONSTANT_INTEGERS: i64 = 64;

/// As [`MOST_CONSTANT_INTEGERS`] for floats, which may be scales.
const MOST_CONSTANT_FLOATS: i64 = 8;

/// The versions of ONNX's operators that are read, from the first to the last.
pub(super) const OPSETS: (i64, i64) = (7, 28);

/// An ONNX model: the messages of the file, and the names of its weights.
#[derive(Debug)]
pub struct Model {
    pub(super) graph: GraphProto,
    /// Functions of the model, with the versions of their operators.
    pub(super) functions: Vec<(FunctionProto, BTreeMap<String, i64>)>,
    pub(super) opsets: BTreeMap<String, i64>,
    pub(super) folder: PathBuf,
    /// Names in the graph of values that callers name: inputs and weights, by their names in the file.
    pub(super) names: BTreeMap<String, String>,
    /// The weights, by the order of the file.
    weights: Vec<Weight>,
}

/// A tensor that becomes a parameter of the graph.
#[derive(Debug)]
struct Weight {
    /// The name in the graph.
    name: String,
    at: Place,
}

/// Where a tensor is in the file.
#[derive(Clone, Copy, Debug)]
enum Place {
    Initializer(usize),
    /// Of a node `Constant`.
    Node(usize),
}

/// Whether a path is that of an ONNX model, by its extension.
pub fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx"))
}

impl Model {
    /// Reads the model of a file.
    ///
    /// # Errors
    /// The file cannot be read; or as [`Model::from_bytes`].
    pub fn open(path: &Path) -> std::io::Result<Result<Model, Diagnostic>> {
        Ok(Model::from_bytes(std::fs::read(path)?, path))
    }

    /// Reads a model. `path` is that of the file, beside which tensors may lie.
    ///
    /// # Errors
    /// The bytes are no model, or the model is of a version that is not read.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<Model, Diagnostic> {
        let refuse = |message: String| Diagnostic::error("onnx", message);
        let model = ModelProto::decode(Bytes::from(bytes)).map_err(|e| refuse(format!("is no ONNX model: {e}")))?;
        let Some(graph) = model.graph else {
            return Err(refuse("is no ONNX model: it has no graph".to_owned()));
        };
        let mut opsets = versions(model.opset_import);
        let (first, last) = OPSETS;
        let version = opsets.get("").copied().unwrap_or(first);
        if !(first..=last).contains(&version) {
            return Err(refuse(format!("uses version {version} of ONNX's operators; {first} to {last} are read"))
                .help("`onnx.version_converter` converts a model to another version"));
        }
        opsets.insert(String::new(), version);
        if !graph.sparse_initializer.is_empty() {
            return Err(refuse("has sparse tensors, which are not supported".to_owned()));
        }
        let mut functions = Vec::new();
        for mut function in model.functions {
            let mut known = versions(std::mem::take(&mut function.opset_import));
            // Sets that the function does not name are the model's.
            for (domain, version) in &opsets {
                known.entry(domain.clone()).or_insert(*version);
            }
            functions.push((function, known));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut model = Model { graph, functions, opsets, folder, names: BTreeMap::new(), weights: Vec::new() };
        model.choose_names();
        Ok(model)
    }

    /// Names inputs and weights.
    fn choose_names(&mut self) {
        let mut names = names::Names::default();
        let graph = &self.graph;
        let known: Vec<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
        for input in graph.input.iter().filter(|i| !known.contains(&i.name.as_str())) {
            self.names.insert(input.name.clone(), names.add(&input.name));
        }
        let read: BTreeSet<&str> = (graph.node.iter())
            .flat_map(|n| n.input.iter().map(String::as_str))
            .chain(graph.output.iter().map(|o| o.name.as_str()))
            .collect();
        let is_weight = |t: &TensorProto| is_large(t) && read.contains(t.name.as_str());
        for (i, tensor) in graph.initializer.iter().enumerate().filter(|(_, t)| is_weight(t)) {
            let name = names.add(&tensor.name);
            self.names.insert(tensor.name.clone(), name.clone());
            self.weights.push(Weight { name, at: Place::Initializer(i) });
        }
        for (i, node) in graph.node.iter().enumerate() {
            if let (Some(tensor), Some(output)) = (constant_of(node), node.output.first())
                && is_large(tensor)
            {
                let name = names.add(output);
                self.names.insert(output.clone(), name.clone());
                self.weights.push(Weight { name, at: Place::Node(i) });
            }
        }
    }

    /// The names of the weights, in the order of the file. They are those of the parameters of the graph.
    pub fn weights(&self) -> impl Iterator<Item = &str> {
        self.weights.iter().map(|w| w.name.as_str())
    }

    /// The element type and the shape of a weight.
    ///
    /// # Errors
    /// The type is not supported.
    ///
    /// # Panics
    /// If there is no weight at this position.
    pub fn weight_header(&self, i: usize) -> Result<(DType, Vec<i64>), String> {
        tensor::header(self.tensor(self.weights[i].at).ok_or("has no elements")?)
    }

    /// A weight.
    ///
    /// # Errors
    /// Its elements cannot be read.
    ///
    /// # Panics
    /// If there is no weight at this position.
    pub fn weight(&self, i: usize) -> Result<Constant, String> {
        tensor::constant(self.tensor(self.weights[i].at).ok_or("has no elements")?, &self.folder)
    }

    /// The name in the graph of the weight that a tensor of the file is.
    pub(super) fn weight_name(&self, tensor: &TensorProto) -> Option<&str> {
        // Names in subgraphs and functions may be those of other tensors.
        let is_it = |w: &&Weight| self.tensor(w.at).is_some_and(|other| std::ptr::eq(other, tensor));
        self.weights.iter().find(is_it).map(|w| w.name.as_str())
    }

    fn tensor(&self, at: Place) -> Option<&TensorProto> {
        match at {
            Place::Initializer(i) => self.graph.initializer.get(i),
            Place::Node(i) => self.graph.node.get(i).and_then(constant_of),
        }
    }
}

/// The versions of sets of operators.
fn versions(sets: Vec<OperatorSetIdProto>) -> BTreeMap<String, i64> {
    let domain = |set: &OperatorSetIdProto| if set.domain == "ai.onnx" { String::new() } else { set.domain.clone() };
    sets.iter().map(|set| (domain(set), set.version)).collect()
}

/// Whether a tensor is a weight rather than a constant.
pub(super) fn is_large(tensor: &TensorProto) -> bool {
    let n = tensor.dims.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent));
    let is_float = types::dtype(tensor.data_type).is_ok_and(DType::is_float);
    n.is_none_or(|n| n > if is_float { MOST_CONSTANT_FLOATS } else { MOST_CONSTANT_INTEGERS })
}

/// The tensor of a node `Constant`.
pub(super) fn constant_of(node: &NodeProto) -> Option<&TensorProto> {
    let is_value = |a: &&AttributeProto| a.name == "value";
    let is_constant = node.op_type == "Constant" && matches!(node.domain.as_str(), "" | "ai.onnx");
    node.attribute.iter().filter(|_| is_constant).find(is_value)?.t.as_ref()
}
