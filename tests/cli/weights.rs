//! Tests of `build --external-weights`: the file is mapped from C, and results are those of the object that has its weights inside.

use super::{dir, fails, succeeds, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use tvmr::arrays::{self, Array};

/// A layer whose weight is transposed once, and a constant of the graph.
const MODEL: &str = r#"
@R.function
def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((16, 8), "float32"), b: R.Tensor((16,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        a = R.add(R.matmul(x, R.permute_dims(w)), b)
        out = R.nn.relu(a)
        R.output(out)
    return out
"#;

const EXTERNAL: &str = "tests/data/deploy/weights.c";

/// Element `i` of the weights, in the order in which `w` is written.
fn weight(i: usize) -> f32 {
    ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0
}

/// A directory with the model and its weights.
fn workplace() -> tempfile::TempDir {
    let dir = dir();
    fs::write(dir.path().join("net.tir"), MODEL).expect("a model");
    let w: Vec<f32> = (0..128).map(weight).collect();
    let w = Array::from(&w[..]).with_shape(&[16, 8]).expect("a matrix");
    let b = Array::from(&[0.25f32; 16][..]);
    arrays::write(&dir.path().join("net.safetensors"), &[("w", &w), ("b", &b)]).unwrap_or_else(|e| panic!("{e}"));
    dir
}

/// How often the transposed weight is in a file.
fn prepared_weights(path: &Path) -> usize {
    let content = fs::read(path).expect("a file");
    let bytes: Vec<u8> = (0..128).flat_map(|i| weight(i % 16 * 8 + i / 16).to_le_bytes()).collect();
    content.windows(bytes.len()).filter(|w| *w == bytes).count()
}

#[test]
fn weights_in_a_file_are_mapped_once() {
    let dir = workplace();
    let path = |name: &str| dir.path().join(name);
    let (model, weights) = (path("net.tir"), path("built/outside.weights"));
    let build = |name: &str, more: &[&str]| {
        let out = path(&format!("built/{name}"));
        let args = ["build", text(&model), "--as-written", "--bind", "n=1,3", "-o", text(&out)];
        succeeds(&[&args[..], more].concat()).out
    };
    build("inside", &[]);
    let written =
        build("outside", &["--external-weights", text(&weights), "--emit", "obj,header,manifest,rust,python"]);
    assert!(written.ends_with("/built/outside.weights\n"), "{written}");
    // Both versions of the function read one copy.
    let copies = ["inside.o", "outside.o", "outside.weights"].map(|n| prepared_weights(&path(&format!("built/{n}"))));
    assert_eq!(copies, [1, 0, 1]);
    let manifest = fs::read(path("built/outside.json")).expect("a file");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(manifest["weights"]["file"], "outside.weights");
    assert_eq!(manifest["weights"]["bytes"], fs::metadata(&weights).expect("a file").len());

    let program = path("main");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", text(&path("built")), EXTERNAL])
        .args([text(&path("built/inside.o")), text(&path("built/outside.o")), "-o", text(&program)])
        .output()
        .expect("a compiler, which Rust needs to link");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiled = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-D", "warnings", "--out-dir"])
        .args([text(dir.path()), text(&path("built/outside.rs"))])
        .output()
        .expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).arg(&weights).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[test]
fn files_of_weights_that_are_none_are_refused() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, out) = (path("net.tir"), path("net"));
    let refused = |file: &str, why: &str| {
        let args = ["build", &model, "--as-written", "--bind", "n=1", "-o", &out, "--external-weights", file];
        fails(&args, 2, why);
    };
    refused(&path(""), "names no file");
    refused(&path("net.o"), "is a file of the library itself");
    let args = ["build", super::MATMUL, "--as-written", "-o", &out, "--external-weights", &path("w")];
    fails(&args, 2, "no function has weights for `--external-weights`");
}
