//! Small models, made of messages: what graphs they become, and what is refused.

use super::proto::*;
use super::{Given, Imported, Model, Unsupported, import};
use crate::graph::{Callee, Constant, Function};
use prost::Message;
use prost::bytes::Bytes;
use std::path::Path;

pub(super) fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let all = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    NodeProto { op_type: op.into(), input: all(inputs), output: all(outputs), ..NodeProto::default() }
}

pub(super) fn with_int(mut node: NodeProto, name: &str, i: i64) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.into(), i, r#type: 2, ..AttributeProto::default() });
    node
}

pub(super) fn input(name: &str, dims: &[&str]) -> ValueInfoProto {
    let dim = |d: &&str| match d.parse() {
        Ok(n) => DimensionProto { dim_value: Some(n), dim_param: None },
        Err(_) => DimensionProto { dim_value: None, dim_param: Some((*d).to_owned()) },
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

pub(super) fn ints(name: &str, dims: &[i64], all: &[i64]) -> TensorProto {
    let (dims, int64_data) = (dims.to_vec(), all.to_vec());
    TensorProto { name: name.into(), dims, data_type: 7, int64_data, ..TensorProto::default() }
}

fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let raw_data = Bytes::from(vec![0; 4 * dims.iter().product::<i64>() as usize]);
    TensorProto { name: name.into(), dims: dims.to_vec(), data_type: 1, raw_data, ..TensorProto::default() }
}

fn bytes(version: i64, graph: GraphProto) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version }];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), functions: Vec::new() }.encode_to_vec()
}

/// The graph of a model with the output `y`.
fn imported(
    version: i64,
    inputs: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
    node: Vec<NodeProto>,
) -> Result<Function, Vec<String>> {
    let read = read(version, inputs, initializer, node, &Given::default());
    read.map(|i| i.function).map_err(|e| e.found.into_iter().map(|d| d.message).collect())
}

/// A model with the output `y`, with what is known of its inputs.
fn read(
    version: i64,
    inputs: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
    node: Vec<NodeProto>,
    given: &Given,
) -> Result<Imported, Unsupported> {
    let graph = GraphProto { node, initializer, input: inputs, output: vec![input("y", &[])], ..GraphProto::default() };
    let model = Model::from_bytes(bytes(version, graph), Path::new("model.onnx"));
    let model = model.map_err(|d| Unsupported { found: vec![d], needed: Vec::new() })?;
    import(&model, given)
}

/// The operators of a graph, and the types of its results.
fn described(function: &Function) -> (Vec<&'static str>, String) {
    let op = |&c| match function.call(c).callee {
        Callee::Op(op) => Some(op.name),
        _ => None,
    };
    let types = function.output.values().into_iter().map(|v| function.ty(v).describe(&function.arena));
    (function.order.iter().filter_map(op).collect(), types.collect::<Vec<_>>().join(", "))
}

#[test]
fn a_chain_of_shapes_is_folded() {
    let nodes = vec![
        node("Shape", &["x"], &["s"]),
        node("Gather", &["s", "zero"], &["n"]),
        node("Unsqueeze", &["n", "zeros"], &["n1"]),
        with_int(node("Concat", &["n1", "rest"], &["shape"]), "axis", 0),
        node("Relu", &["x"], &["r"]),
        node("Reshape", &["r", "shape"], &["y"]),
    ];
    let known = vec![ints("zero", &[], &[0]), ints("zeros", &[1], &[0]), ints("rest", &[1], &[-1])];
    let graph = imported(13, vec![input("x", &["batch", "3", "8"])], known, nodes).expect("a graph");
    assert_eq!(described(&graph), (vec!["nn.relu", "reshape"], "float32 [batch, 24]".to_owned()));
}

#[test]
fn an_output_has_its_name_whatever_it_is_made_of() {
    let nodes = vec![with_int(node("Gemm", &["x", "w", "b"], &["y"]), "transB", 1)];
    let known = vec![floats("w", &[5, 3]), floats("b", &[5])];
    let graph = imported(13, vec![input("x", &["2", "3"])], known, nodes).expect("a graph");
    let named = graph.values.iter().filter(|v| v.name.as_str() == "y").count();
    let output = graph.output.values()[0];
    assert_eq!((graph.value(output).name.as_str(), named), ("y", 1));
}

#[test]
fn bounds_from_the_end_of_symbolic_extents_are_bounds() {
    let known = vec![ints("from", &[1], &[0]), ints("to", &[1], &[i64::MAX]), ints("axes", &[1], &[0])];
    let nodes = vec![node("Slice", &["x", "from", "to", "axes"], &["y"])];
    let graph = imported(13, vec![input("x", &["n", "3"])], known, nodes).expect("a graph");
    assert_eq!(described(&graph).1, "float32 [n, 3]");
}

#[test]
fn extents_without_a_name_are_symbols_of_their_own() {
    let graph = imported(13, vec![input("x", &["?", "?"])], vec![], vec![node("Relu", &["x"], &["y"])]);
    assert_eq!(described(&graph.expect("a graph")).1, "float32 [x_0, x_1]");
}

#[test]
fn recurrent_networks_and_attention_take_batches_of_any_size() {
    let x = vec![input("x", &["n", "2", "3"])];
    let x_of = |layout: Vec<NodeProto>, weights| imported(25, x.clone(), weights, layout).map(|g| described(&g).1);
    let lstm = with_int(node("LSTM", &["x", "w", "r"], &["y"]), "layout", 1);
    let weights = vec![floats("w", &[1, 16, 3]), floats("r", &[1, 16, 4])];
    assert_eq!(x_of(vec![lstm], weights), Ok("float32 [n, 2, 1, 4]".to_owned()));
    let heads = |n: NodeProto| with_int(with_int(n, "q_num_heads", 3), "kv_num_heads", 3);
    let attention = heads(with_int(node("Attention", &["x", "x", "x"], &["y"]), "is_causal", 1));
    assert_eq!(x_of(vec![attention], vec![]), Ok("float32 [n, 2, 3]".to_owned()));
}

#[test]
fn symbols_are_numbers_where_values_are_given() {
    let inputs = || vec![input("x", &["batch size", "c"]), input("z", &["c", "5"])];
    let nodes = || vec![node("MatMul", &["x", "z"], &["y"])];
    let values = |read: &Imported| read.symbols.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
    let mut given = Given { shapes: vec![("x".to_owned(), vec![4, 3])], ..Given::default() };
    let found = read(13, inputs(), vec![], nodes(), &given).unwrap_or_else(|e| panic!("{:?}", e.found));
    assert_eq!(described(&found.function).1, "float32 [4, 5]");
    assert_eq!(values(&found), "batch_size=4 c=3");
    given.symbols.insert("batch_size".to_owned(), 2);
    given.shapes.clear();
    let found = read(13, inputs(), vec![], nodes(), &given).unwrap_or_else(|e| panic!("{:?}", e.found));
    assert_eq!(described(&found.function).1, "float32 [2, 5]");
    assert_eq!(values(&found), "batch_size=2");
}

#[test]
fn inputs_that_must_be_known_are_asked_for() {
    let mut shape = input("shape", &["2"]);
    let tensor = shape.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
    tensor.expect("a tensor").elem_type = 7;
    let inputs = || vec![input("x", &["2", "6"]), shape.clone()];
    let nodes = || vec![node("Identity", &["shape"], &["s"]), node("Reshape", &["x", "s"], &["y"])];
    let refused = read(13, inputs(), vec![], nodes(), &Given::default()).err().expect("refused");
    assert_eq!(refused.needed, ["shape"]);
    let text = "argument 1 of `Reshape`, `s`, must be known before the model runs, and depends on `shape` (node 1)";
    assert_eq!(refused.found[0].message, text);
    let elements = [("shape".to_owned(), Constant::integers(&[4, -1]))].into();
    let given = Given { elements, ..Given::default() };
    let found = read(13, inputs(), vec![], nodes(), &given).unwrap_or_else(|e| panic!("{:?}", e.found)).function;
    assert_eq!((described(&found).1, found.params.len(), found.n_inputs()), ("float32 [4, 3]".to_owned(), 2, 2));
    let given = Given { constants: given.elements, ..Given::default() };
    let found = read(13, inputs(), vec![], nodes(), &given).unwrap_or_else(|e| panic!("{:?}", e.found)).function;
    assert_eq!((described(&found).1, found.params.len(), found.n_inputs()), ("float32 [4, 3]".to_owned(), 1, 1));
}

#[test]
fn weights_are_parameters_behind_the_inputs() {
    // Old files list initializers among the inputs.
    let inputs = vec![input("conv/w", &["8", "4"]), input("x:0", &["n", "8"])];
    let nodes = vec![node("MatMul", &["x:0", "conv/w"], &["y"])];
    let graph = imported(7, inputs, vec![floats("conv/w", &[8, 4]), floats("unused", &[99])], nodes).expect("a graph");
    let params: Vec<&str> = graph.params.iter().map(|&p| graph.value(p).name.as_str()).collect();
    assert_eq!((params, graph.n_inputs()), (vec!["x_0", "conv_w"], 1));
    assert_eq!(described(&graph).1, "float32 [n, 4]");
}

#[test]
fn an_operator_means_what_its_version_says() {
    for (version, operators) in [(11, vec!["reshape", "nn.softmax", "reshape"]), (13, vec!["nn.softmax"])] {
        let nodes = vec![node("Softmax", &["x"], &["y"])];
        let graph = imported(version, vec![input("x", &["2", "3", "4"])], vec![], nodes).expect("a graph");
        assert_eq!(described(&graph), (operators, "float32 [2, 3, 4]".to_owned()), "{version}");
    }
    let message = imported(6, vec![], vec![], vec![]).err().expect("refused");
    assert_eq!(message, ["uses version 6 of ONNX's operators; 7 to 28 are read"]);
}

#[test]
fn all_problems_are_told_at_once() {
    let named = |mut node: NodeProto, name: &str| {
        node.name = name.into();
        node
    };
    let nodes = vec![
        named(node("StringNormalizer", &["x"], &["a"]), "first"),
        node("StringNormalizer", &["x"], &["b"]),
        // Nothing is told of what follows.
        node("Add", &["a", "b"], &["c"]),
        with_int(node("Relu", &["x"], &["d"]), "slope", 1),
        node("Add", &["x", "none"], &["e"]),
        node("Add", &["x", "none"], &["y"]),
    ];
    let found = imported(13, vec![input("x", &["2", "3"])], vec![], nodes).err().expect("refused");
    assert_eq!(
        found,
        [
            "the operator `StringNormalizer` is not supported (node `first` and 1 other)",
            "the attribute `slope` of `Relu` is not supported (node 3)",
            "there is no value `none` (node 4 and 1 other)",
        ]
    );
}

#[test]
fn damaged_files_are_refused() {
    let nodes = vec![node("MatMul", &["x", "w"], &["y"])];
    let (inputs, outputs) = (vec![input("x", &["n", "8"])], vec![input("y", &[])]);
    let initializer = vec![floats("w", &[8, 4])];
    let graph = GraphProto { node: nodes, initializer, input: inputs, output: outputs, ..GraphProto::default() };
    let whole = bytes(13, graph);
    let mut refused = 0;
    for n in 0..whole.len() {
        let model = Model::from_bytes(whole[..n].to_vec(), Path::new("model.onnx"));
        refused += usize::from(model.is_err_and(|d| d.message.contains("no ONNX model")));
        let mut changed = whole.clone();
        changed[n] ^= 0x15;
        if let Ok(model) = Model::from_bytes(changed, Path::new("model.onnx")) {
            // Whatever it says, it is read or refused.
            _ = import(&model, &Given::default());
            (0..model.weights().count()).for_each(|i| _ = model.weight(i));
        }
    }
    assert!(refused > whole.len() / 2, "{refused} of {}", whole.len());
}
