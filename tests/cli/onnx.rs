//! ONNX models as programs: `run`, `check`, `fmt`, and `import`.

use super::{dir, fails, succeeds, text};
use std::fs;
use tvmr::arrays::{self, Array};

/// A field of a message: its number, and bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 1 << 14, "a length of two bytes");
    let length = [content.len() as u8 | 0x80, (content.len() >> 7) as u8];
    [&[number << 3 | 2], &length[..], content].concat()
}

/// A field with a small number.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn value(name: &str, dims: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&n| field(1, &number(1, n))).collect();
    let ty = field(1, &[number(1, 1), field(2, &dims)].concat());
    [field(1, name.as_bytes()), field(2, &ty)].concat()
}

fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
    [inputs, field(2, output.as_bytes()), field(4, op.as_bytes())].concat()
}

/// The weights: 4 rows of 8.
fn weights() -> Vec<f32> {
    (0..32).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// y = activation(x · w)
fn model(activation: &str) -> Vec<u8> {
    model_of(activation, &value("x", &[2, 4]), &value("y", &[2, 8]))
}

/// The model with other descriptions of its input and output.
fn model_of(activation: &str, x: &[u8], y: &[u8]) -> Vec<u8> {
    let elements: Vec<u8> = weights().iter().flat_map(|v| v.to_le_bytes()).collect();
    let w = [number(1, 4), number(1, 8), number(2, 1), field(8, b"layer/w"), field(9, &elements)].concat();
    let graph = [
        field(1, &node("MatMul", &["x", "layer/w"], "a")),
        field(1, &node(activation, &["a"], "y")),
        field(5, &w),
        field(11, x),
        field(12, y),
    ];
    [number(1, 8), field(7, &graph.concat()), field(8, &number(2, 13))].concat()
}

#[test]
fn a_model_runs_and_so_does_its_text() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("net.onnx"), model("Relu")).expect("a model");
    let x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0 - 1.0).collect();
    let w = weights();
    let y: Vec<f32> =
        (0..16).map(|i| (0..4).map(|k| x[i / 8 * 4 + k] * w[k * 8 + i % 8]).sum::<f32>().max(0.0)).collect();
    let array = |all: &[f32], columns| Array::from(all).with_shape(&[2, columns]).expect("a matrix");
    arrays::write(&path("x.npz"), &[("x", &array(&x, 4))]).unwrap_or_else(|e| panic!("{e}"));
    arrays::write(&path("y.npy"), &[("y", &array(&y, 8))]).unwrap_or_else(|e| panic!("{e}"));
    succeeds(&["import", text(&path("net.onnx")), "-o", text(&path("text.tir"))]);
    assert!(path("text.safetensors").exists());
    for program in ["net.onnx", "text.tir"] {
        let (program, x, out) = (path(program), path("x.npz"), path("out.npz"));
        succeeds(&["run", text(&program), "--inputs", text(&x), "--output", text(&out)]);
        let found = arrays::read(&out).unwrap_or_else(|e| panic!("{e}"));
        let floats =
            |bytes: &[u8]| -> Vec<f32> { bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect() };
        let found = floats(found[0].1.data());
        assert!(found.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?}, expected {y:?}");
    }
}

#[test]
fn each_value_of_a_symbol_is_a_version_that_shares_the_weights() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    // The first dimension of `x` is called `rows`.
    let dims = [field(1, &field(2, b"rows")), field(1, &number(1, 4))].concat();
    let x = [field(1, b"x"), field(2, &field(1, &[number(1, 1), field(2, &dims)].concat()))].concat();
    fs::write(path("net.onnx"), model_of("Relu", &x, &field(1, b"y"))).expect("a model");
    let bytes: Vec<u8> = weights().iter().flat_map(|v| v.to_le_bytes()).collect();
    let build = ["build", text(&path("net.onnx")), "--as-written", "-o", text(&path("net"))].map(str::to_owned);
    for more in [&["--bind", "rows=2,3"][..], &["--shape", "x=2,4", "--shape", "x=3,4"]] {
        let args: Vec<&str> = build.iter().map(String::as_str).chain(more.iter().copied()).collect();
        succeeds(&args);
        let header = fs::read_to_string(path("net.h")).expect("written");
        assert!(header.contains("Sizes: rows=2; rows=3;") && header.contains("int64_t rows);"), "{header}");
        let object = fs::read(path("net.o")).expect("written");
        assert_eq!(object.windows(bytes.len()).filter(|w| *w == bytes).count(), 1, "{more:?}");
    }
}

#[test]
fn inputs_that_must_be_known_are_constants() {
    let shape = [field(1, b"shape"), field(2, &field(1, &[number(1, 7), field(2, &field(1, &number(1, 2)))].concat()))];
    let graph = [
        field(1, &node("Reshape", &["x", "shape"], "y")),
        field(11, &value("x", &[2, 6])),
        field(11, &shape.concat()),
        field(12, &value("y", &[3, 4])),
    ];
    let model = [number(1, 8), field(7, &graph.concat()), field(8, &number(2, 13))].concat();
    let dir = dir();
    let (net, out) = (dir.path().join("net.onnx"), dir.path().join("net.tir"));
    fs::write(&net, model).expect("a model");
    let import = ["import", text(&net), "-o", text(&out)];
    fails(&import, 2, "give its elements: `--const shape=FILE`");
    fails(
        &[&import[..], &["--const", "shape=3,4,5"]].concat(),
        2,
        "`shape` is int64 [2], and its elements are int64 [3]",
    );
    fails(&[&import[..], &["--const", "shade=3,4"]].concat(), 2, "there is `shape`");
    succeeds(&[&import[..], &["--const", "shape=3,4"]].concat());
    let graph = fs::read_to_string(&out).expect("the text");
    assert!(graph.contains("R.Tensor((3, 4)") && !graph.contains("shape: R.Tensor"), "{graph}");
}

#[test]
fn a_model_that_is_not_supported_is_bad_input() {
    let dir = dir();
    let path = dir.path().join("net.onnx");
    fs::write(&path, model("Det")).expect("a model");
    fails(&["check", text(&path)], 2, "the operator `Det` is not supported (node 1)");
    fails(&["fmt", text(&path)], 2, "`tvmr import` writes it as text");
    fs::write(&path, "no model").expect("a file");
    fails(&["check", text(&path)], 2, "is no ONNX model");
}
