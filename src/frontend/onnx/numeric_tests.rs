//! Small models whose inputs are constants: the elements of their results.

use super::proto::*;
use super::tests::{input, ints, node, with_int};
use super::{Given, Model, import};
use crate::graph::known;
use prost::Message;
use prost::bytes::Bytes;
use std::path::Path;

const LATEST: i64 = 28;

/// A tensor of floats.
fn f(name: &str, dims: &[i64], all: &[f32]) -> TensorProto {
    let (dims, float_data) = (dims.to_vec(), all.to_vec());
    TensorProto { name: name.into(), dims, data_type: 1, float_data, ..TensorProto::default() }
}

fn with(mut node: NodeProto, name: &str, attribute: AttributeProto) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.into(), ..attribute });
    node
}

fn text(s: &str) -> AttributeProto {
    AttributeProto { s: Bytes::from(s.as_bytes().to_vec()), r#type: 3, ..AttributeProto::default() }
}

fn float(f: f32) -> AttributeProto {
    AttributeProto { f, r#type: 1, ..AttributeProto::default() }
}

fn graph(g: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(g), r#type: 5, ..AttributeProto::default() }
}

fn many(ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.to_vec(), r#type: 7, ..AttributeProto::default() }
}

/// A subgraph.
fn body(inputs: &[&str], nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    let all = |names: &[&str]| names.iter().map(|n| input(n, &[])).collect();
    GraphProto { node: nodes, input: all(inputs), output: all(outputs), ..GraphProto::default() }
}

/// The elements of the outputs.
fn results(nodes: Vec<NodeProto>, tensors: Vec<TensorProto>, outputs: &[&str]) -> Result<Vec<Vec<f64>>, String> {
    with_functions(Vec::new(), nodes, tensors, outputs)
}

fn with_functions(
    functions: Vec<FunctionProto>,
    nodes: Vec<NodeProto>,
    tensors: Vec<TensorProto>,
    outputs: &[&str],
) -> Result<Vec<Vec<f64>>, String> {
    let mut opset_import = vec![OperatorSetIdProto { domain: String::new(), version: LATEST }];
    for domain in ["ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.ml", "com.microsoft"] {
        opset_import.push(OperatorSetIdProto { domain: domain.to_owned(), version: 1 });
    }
    let output = outputs.iter().map(|o| input(o, &[])).collect();
    let graph = Some(GraphProto { node: nodes, initializer: tensors, output, ..GraphProto::default() });
    let model = ModelProto { ir_version: 10, opset_import, graph, functions }.encode_to_vec();
    let model = Model::from_bytes(model, Path::new("model.onnx")).map_err(|d| d.message)?;
    let imported = import(&model, &Given::default());
    let mut function =
        imported.map_err(|e| e.found.into_iter().map(|d| d.message).collect::<Vec<_>>().join("; "))?.function;
    for (i, name) in model.weights().map(str::to_owned).collect::<Vec<_>>().into_iter().enumerate() {
        let param = function.params.iter().copied().find(|&p| function.value(p).name == name.as_str());
        function.known_weights.extend(param.map(|p| (p, model.weight(i).expect("elements"))));
    }
    let of = |v| {
        let c = known::elements(&function, &function.arena, v).ok_or("is not known")?;
        Ok((0..c.len()).map(|i| c.float(i).expect("a number")).collect())
    };
    function.output.values().into_iter().map(of).collect()
}

/// Compares the elements of the output `y`.
fn check(nodes: Vec<NodeProto>, tensors: Vec<TensorProto>, expected: &[f64]) {
    let found = results(nodes, tensors, &["y"]).expect("a result").swap_remove(0);
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}, expected {expected:?}");
}

#[test]
fn branches_are_chosen() {
    let branch = |v: &str| graph(body(&[], vec![node("Neg", &[v], &["r"])], &["r"]));
    let choose = |condition: NodeProto| {
        let choice = with(node("If", &["c"], &["y"]), "then_branch", branch("a"));
        vec![condition, with(choice, "else_branch", branch("b"))]
    };
    let tensors =
        || vec![f("a", &[2], &[1.0, 2.0]), f("b", &[2], &[3.0, 4.0]), ints("n", &[], &[3]), ints("k", &[], &[2])];
    check(choose(node("Greater", &["n", "k"], &["c"])), tensors(), &[-1.0, -2.0]);
    check(choose(node("Less", &["n", "k"], &["c"])), tensors(), &[-3.0, -4.0]);
}

#[test]
fn loops_are_unrolled() {
    // x doubles while it is below 10; each step shows it.
    let steps = vec![
        node("Add", &["x_in", "x_in"], &["x_out"]),
        node("Less", &["x_out", "ten"], &["goes_on"]),
        node("Identity", &["x_out"], &["shown"]),
    ];
    let body = body(&["i", "c_in", "x_in"], steps, &["goes_on", "x_out", "shown"]);
    let whole = with(node("Loop", &["", "", "x"], &["end", "y"]), "body", graph(body));
    let tensors = vec![f("x", &[], &[1.5]), f("ten", &[], &[10.0])];
    check(vec![whole], tensors, &[3.0, 6.0, 12.0]);
}

#[test]
fn scans_go_along_axes_in_both_directions() {
    let steps = vec![node("Add", &["sum_in", "x_t"], &["sum"]), node("Identity", &["sum"], &["shown"])];
    let body = body(&["sum_in", "x_t"], steps, &["sum", "shown"]);
    let scan = with_int(node("Scan", &["zero", "x"], &["end", "y"]), "num_scan_inputs", 1);
    let scan = with(scan, "body", graph(body));
    let scan = with(scan, "scan_input_axes", many(&[1]));
    let scan = with(scan, "scan_input_directions", many(&[1]));
    let tensors = vec![f("zero", &[2], &[0.0, 0.0]), f("x", &[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0])];
    check(vec![scan], tensors, &[3.0, 30.0, 5.0, 50.0, 6.0, 60.0]);
}

#[test]
fn attention_sees_no_later_keys() {
    // Without products of queries and keys, weights are equal: means of the values so far.
    let attention = with_int(node("Attention", &["q", "k", "v"], &["y"]), "is_causal", 1);
    let (zero, v) = (f("q", &[1, 1, 3, 2], &[0.0; 6]), f("v", &[1, 1, 3, 1], &[3.0, 5.0, 10.0]));
    check(vec![attention.clone()], vec![zero.clone(), f("k", &[1, 1, 3, 2], &[1.0; 6]), v.clone()], &[3.0, 4.0, 6.0]);
    // A query without a key has a result of 0, not NaN.
    let masked = node("Attention", &["q", "k", "v", "m"], &["y"]);
    let m = f("m", &[3, 3], &[f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    check(vec![masked], vec![zero, f("k", &[1, 1, 3, 2], &[1.0; 6]), v, m], &[0.0, 6.0, 6.0]);
}

#[test]
fn losses_skip_what_is_ignored() {
    let loss = with_int(node("NegativeLogLikelihoodLoss", &["x", "t", "w"], &["y"]), "ignore_index", -1);
    let tensors = vec![
        f("x", &[3, 2], &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]),
        ints("t", &[3], &[0, -1, 1]),
        f("w", &[2], &[1.0, 3.0]),
    ];
    check(vec![loss], tensors, &[(1.0 + 3.0 * 6.0) / 4.0]);
}

#[test]
fn an_lstm_steps_through_its_sequence() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (w, r, b) = ([0.5, -0.25, 0.75, 1.0], [0.1, 0.2, -0.3, 0.4], [0.05, 0.1, -0.1, 0.2]);
    let xs = [1.0, -2.0, 0.5];
    let (mut h, mut c) = (0.0, 0.0);
    let mut expected = Vec::new();
    for x in xs {
        let [i, o, f, g] = [0, 1, 2, 3].map(|k| w[k] * x + r[k] * h + b[k]);
        c = sigmoid(f) * c + sigmoid(i) * g.tanh();
        h = sigmoid(o) * c.tanh();
        expected.push(h);
    }
    let single = |all: &[f64]| all.iter().map(|&v| v as f32).collect::<Vec<_>>();
    let tensors = || {
        vec![
            f("x", &[3, 1, 1], &single(&xs)),
            f("w", &[1, 4, 1], &single(&w)),
            f("r", &[1, 4, 1], &single(&r)),
            f("b", &[1, 8], &[&single(&b)[..], &[0.0; 4]].concat()),
            ints("n", &[1], &[2]),
        ]
    };
    let lstm = |arguments: &[&str]| with_int(node("LSTM", arguments, &["y"]), "hidden_size", 1);
    check(vec![lstm(&["x", "w", "r", "b"])], tensors(), &expected);
    // Results behind the end of a sequence are 0.
    check(vec![lstm(&["x", "w", "r", "b", "n"])], tensors(), &[expected[0], expected[1], 0.0]);
}

#[test]
fn quotients_that_are_halves_are_rounded_to_even() {
    let zero = TensorProto { name: "z".into(), data_type: 2, int32_data: vec![128], ..TensorProto::default() };
    let tensors = vec![f("x", &[5], &[-0.25, 0.25, 0.75, 1e9, -1e9]), f("s", &[], &[0.5]), zero];
    check(vec![node("QuantizeLinear", &["x", "s", "z"], &["y"])], tensors, &[128.0, 128.0, 130.0, 255.0, 0.0]);
}

#[test]
fn integers_have_scales_along_an_axis() {
    let bytes = |name: &str, dims: &[i64], all: &[i32]| TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: 3,
        int32_data: all.to_vec(),
        ..TensorProto::default()
    };
    let tensors = vec![bytes("x", &[2, 2], &[1, 2, 3, -4]), f("s", &[2], &[0.5, 2.0]), bytes("z", &[2], &[1, -1])];
    let node = with_int(node("DequantizeLinear", &["x", "s", "z"], &["y"]), "axis", 0);
    check(vec![node], tensors, &[0.0, 0.5, 8.0, -6.0]);
}

#[test]
fn a_transform_and_its_inverse_are_the_signal() {
    let tensors = vec![f("x", &[1, 5, 1], &[1.0, 4.0, -2.0, 3.0, 0.5]), ints("n", &[], &[5])];
    let there = with_int(node("DFT", &["x", "n"], &["spectrum"]), "onesided", 1);
    let back = with_int(with_int(node("DFT", &["spectrum", "n"], &["y"]), "onesided", 1), "inverse", 1);
    check(vec![there.clone(), back], tensors.clone(), &[1.0, 4.0, -2.0, 3.0, 0.5]);
    let spectrum = results(vec![there], tensors, &["spectrum"]).expect("a result").swap_remove(0);
    assert!(spectrum.len() == 6 && (spectrum[0] - 6.5).abs() < 1e-6 && spectrum[1].abs() < 1e-6, "{spectrum:?}");
}

#[test]
fn sizes_that_are_no_multiple_are_sampled_by_the_scale() {
    let resize = with(node("Resize", &["x", "", "s"], &["y"]), "mode", text("linear"));
    let resize = with(resize, "coordinate_transformation_mode", text("asymmetric"));
    // Positions are 0 and 1 / 0.6, which a ratio of sizes would have at 2.
    check(vec![resize], vec![f("x", &[4], &[0.0, 1.0, 2.0, 3.0]), f("s", &[1], &[0.6])], &[0.0, 1.0 / 0.6]);
}

#[test]
fn filters_against_aliasing_are_as_wide_as_results_are_apart() {
    let resize = with(node("Resize", &["x", "", "", "n"], &["y"]), "mode", text("linear"));
    let resize = with_int(resize, "antialias", 1);
    let tensors = vec![f("x", &[4], &[0.0, 0.0, 8.0, 0.0]), ints("n", &[1], &[2])];
    check(vec![resize], tensors, &[1.0, 3.0]);
}

#[test]
fn columns_are_added_to_the_image() {
    let tensors =
        vec![f("x", &[1, 2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), ints("i", &[1], &[4]), ints("b", &[1], &[2])];
    check(vec![node("Col2Im", &["x", "i", "b"], &["y"])], tensors, &[1.0, 12.0, 23.0, 30.0]);
}

#[test]
fn largest_elements_go_back_to_where_they_were() {
    let pool = with(node("MaxPool", &["x"], &["most", "at"]), "kernel_shape", many(&[2]));
    let pool = with(pool, "strides", many(&[2]));
    let back = with(node("MaxUnpool", &["most", "at"], &["y"]), "kernel_shape", many(&[2]));
    let back = with(back, "strides", many(&[2]));
    let tensors = vec![f("x", &[1, 2, 4], &[1.0, 5.0, 4.0, 3.0, -2.0, -1.0, -3.0, -4.0])];
    check(vec![pool, back], tensors, &[0.0, 5.0, 4.0, 0.0, 0.0, -1.0, -3.0, 0.0]);
}

#[test]
fn boxes_that_better_ones_overlap_are_left_out() {
    let tensors = vec![
        f("b", &[1, 3, 4], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 5.0, 1.0, 6.0]),
        f("s", &[1, 1, 3], &[0.7, 0.9, 0.2]),
        ints("n", &[1], &[3]),
        f("o", &[1], &[0.5]),
    ];
    check(vec![node("NonMaxSuppression", &["b", "s", "n", "o"], &["y"])], tensors, &[0.0, 0.0, 1.0, 0.0, 0.0, 2.0]);
}

#[test]
fn momentum_moves_several_tensors() {
    let mut step = node("Momentum", &["r", "t", "a", "b", "ga", "gb", "va", "vb"], &["x", "y", "v", "w"]);
    step.domain = "ai.onnx.preview.training".into();
    let numbers = [("alpha", 0.5), ("beta", 2.0), ("norm_coefficient", 0.0)];
    let step = numbers.into_iter().fold(step, |step, (name, v)| with(step, name, float(v)));
    let step = with(step, "mode", text("standard"));
    let one = |name: &str, v: f32| f(name, &[1], &[v]);
    let tensors = vec![
        f("r", &[], &[0.1]),
        ints("t", &[], &[1]),
        one("a", 1.0),
        one("b", 2.0),
        one("ga", 3.0),
        one("gb", 4.0),
        one("va", 5.0),
        one("vb", 6.0),
    ];
    // v = 0.5 * 6 + 2 * 4
    check(vec![step], tensors, &[2.0 - 0.1 * 11.0]);
}

#[test]
fn functions_of_the_model_have_attributes_of_their_calls() {
    let mut elu = node("Elu", &["a"], &["e"]);
    elu.attribute.push(AttributeProto { name: "alpha".into(), ref_attr_name: "slope".into(), ..float(0.0) });
    // Names of the function are its own.
    let function = FunctionProto {
        name: "Twice".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["x".into()],
        node: vec![elu, node("Add", &["e", "e"], &["x"])],
        ..FunctionProto::default()
    };
    let mut call = with(node("Twice", &["x"], &["y"]), "slope", float(3.0));
    call.domain = "own".into();
    let tensors = vec![f("x", &[2], &[1.0, -1.0])];
    let found = with_functions(vec![function], vec![call], tensors, &["y", "x"]).expect("results");
    let expected = 6.0 * ((-1.0_f64).exp() - 1.0);
    assert!(found[0][0] == 2.0 && (found[0][1] - expected).abs() < 1e-5 && found[1] == [1.0, -1.0], "{found:?}");
}

#[test]
fn weights_of_four_bits_have_scales_by_blocks() {
    let bytes = |name: &str, dims: &[i64], all: &[i32]| TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: 2,
        int32_data: all.to_vec(),
        ..TensorProto::default()
    };
    let mut product = node("MatMulNBits", &["a", "b", "s"], &["y"]);
    product.domain = "com.microsoft".into();
    let sizes = [("K", 4), ("N", 2), ("bits", 4), ("block_size", 2)];
    let product = sizes.into_iter().fold(product, |p, (name, v)| with_int(p, name, v));
    // Low halves come first, and 8 stands for 0.
    let tensors = vec![
        f("a", &[1, 4], &[1.0, 10.0, 100.0, 1000.0]),
        bytes("b", &[2, 2, 1], &[0xa9, 0x88, 0x78, 0x8c]),
        f("s", &[4], &[1.0, 2.0, 3.0, 0.5]),
    ];
    check(vec![product], tensors, &[21.0, -30.0 + 200.0]);
}

#[test]
fn skipped_layers_are_added_and_normalised() {
    let mut node = node("SkipLayerNormalization", &["a", "b", "g"], &["y", "", "", "sum"]);
    node.domain = "com.microsoft".into();
    let tensors = vec![f("a", &[1, 1, 2], &[1.0, 2.0]), f("b", &[1, 1, 2], &[1.0, 4.0]), f("g", &[2], &[1.0, 3.0])];
    let found = results(vec![node], tensors, &["y", "sum"]).expect("results");
    assert!(
        found[1] == [2.0, 6.0] && (found[0][0] + 1.0).abs() < 1e-5 && (found[0][1] - 3.0).abs() < 1e-5,
        "{found:?}"
    );
}

/// A node of `com.microsoft`.
fn fused(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: "com.microsoft".into(), ..node(op, inputs, outputs) }
}

/// Two heads share one of keys and values. The cache has room for three tokens, of which one is known.
fn grouped(lengths: &[i64]) -> Result<Vec<Vec<f64>>, String> {
    let node = fused("GroupQueryAttention", &["q", "k", "v", "pk", "pv", "n", "all"], &["y", "keys", "values"]);
    let node = with_int(with_int(node, "num_heads", 2), "kv_num_heads", 1);
    let tensors = vec![
        f("q", &[1, 1, 4], &[1.0; 4]),
        f("k", &[1, 1, 2], &[0.0; 2]),
        f("v", &[1, 1, 2], &[4.0, 8.0]),
        f("pk", &[1, 1, 3, 2], &[0.0; 6]),
        f("pv", &[1, 1, 3, 2], &[2.0, 4.0, 7.0, 7.0, 7.0, 7.0]),
        ints("n", &[lengths.len() as i64], lengths),
        ints("all", &[], &[2]),
    ];
    results(vec![node], tensors, &["y", "values"])
}

#[test]
fn heads_that_share_keys_attend_what_a_cache_holds() {
    let found = grouped(&[1]).expect("results");
    assert_eq!(found, [vec![3.0, 6.0, 3.0, 6.0], vec![2.0, 4.0, 4.0, 8.0, 0.0, 0.0]]);
    for (lengths, why) in
        [(&[1, 0][..], "a number of tokens that all of a batch have"), (&[4], "4 tokens in a cache of 3")]
    {
        assert!(grouped(lengths).is_err_and(|e| e.contains(why)), "{why}");
    }
}

#[test]
fn pairs_are_turned_by_the_angles_of_their_positions() {
    let node = fused("RotaryEmbedding", &["x", "at", "cos", "sin"], &["y"]);
    let tensors = |at: &[i64]| {
        let (cos, sin) = (f("cos", &[3, 1], &[1.0, 1.0, 0.0]), f("sin", &[3, 1], &[0.0, 0.0, 1.0]));
        vec![
            f("x", &[1, 2, 2], &[3.0, 5.0, 7.0, 9.0]),
            ints("at", &if at.len() == 1 { vec![1] } else { vec![1, 2] }, at),
            cos,
            sin,
        ]
    };
    // The first token is at position 1, or each has its own.
    check(vec![node.clone()], tensors(&[1]), &[3.0, 5.0, -9.0, 7.0]);
    check(vec![node], tensors(&[2, 0]), &[-5.0, 3.0, 7.0, 9.0]);
}

#[test]
fn a_tensor_is_quantised_for_a_product_with_bytes() {
    let b = TensorProto { data_type: 3, ..ints("b", &[2, 1], &[]) };
    let b = TensorProto { raw_data: Bytes::from_static(&[1, 2]), int64_data: Vec::new(), ..b };
    let tensors = vec![f("a", &[1, 2], &[0.0, 255.0]), b, f("s", &[1], &[0.5]), f("c", &[1], &[1.0])];
    check(vec![fused("DynamicQuantizeMatMul", &["a", "b", "s", "", "c"], &["y"])], tensors, &[256.0]);
}

#[test]
fn the_activation_of_a_fused_product_has_its_numbers() {
    let node = with(fused("FusedGemm", &["a", "b"], &["y"]), "activation", text("LeakyRelu"));
    let tensors = || vec![f("a", &[1, 1], &[1.0]), f("b", &[1, 1], &[-10.0])];
    check(vec![node.clone()], tensors(), &[-0.1]);
    check(vec![with(node, "activation_alpha", float(0.25))], tensors(), &[-2.5]);
}

#[test]
fn sequences_are_lists_while_the_model_is_read() {
    let nodes = vec![
        node("SplitToSequence", &["x", "n"], &["all"]),
        node("SequenceAt", &["all", "last"], &["end"]),
        node("SequenceErase", &["all", "zero"], &["rest"]),
        node("SequenceInsert", &["rest", "end", "zero"], &["more"]),
        node("ConcatFromSequence", &["more"], &["y"]),
    ];
    let numbers = [("n", 2), ("last", -1), ("zero", 0)].map(|(name, v)| ints(name, &[], &[v]));
    let tensors = [&[f("x", &[5], &[1.0, 2.0, 3.0, 4.0, 5.0])][..], &numbers].concat();
    check(nodes, tensors, &[5.0, 3.0, 4.0, 5.0]);
}

#[test]
fn a_weight_with_several_names_is_one_parameter() {
    let function = FunctionProto {
        name: "Times".into(),
        domain: "own".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["c".into()],
        node: vec![node("Mul", &["a", "b"], &["c"])],
        ..FunctionProto::default()
    };
    let mut call = node("Times", &["w", "w"], &["square"]);
    call.domain = "own".into();
    let all: Vec<f32> = (0..12_u8).map(f32::from).collect();
    let nodes = vec![call, node("Add", &["square", "w"], &["y"])];
    let found = with_functions(vec![function], nodes, vec![f("w", &[12], &all)], &["y"]).expect("results");
    assert_eq!(found[0][3], 12.0);
}

#[test]
fn loops_without_an_end_are_refused() {
    let whole = with(node("Loop", &["", "", "x"], &["y"]), "body", graph(body(&["i", "c", "v"], vec![], &["c", "v"])));
    let found = results(vec![whole], vec![f("x", &[], &[1.5])], &["y"]);
    assert!(found.is_err_and(|e| e.contains("or never end")));
    // A function that calls itself.
    let mut call = node("Again", &["x"], &["y"]);
    call.domain = "own".into();
    let function = FunctionProto {
        name: "Again".into(),
        domain: "own".into(),
        input: vec!["x".into()],
        output: vec!["y".into()],
        node: vec![call.clone()],
        ..FunctionProto::default()
    };
    let found = with_functions(vec![function], vec![call], vec![f("x", &[], &[1.5])], &["y"]);
    assert!(found.is_err_and(|e| e.contains("nested more than")));
}
