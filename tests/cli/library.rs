//! Tests of `--library` with a shared library, which tvmr has built.

use super::{dir, fails, succeeds, text};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;
use tvmr::arrays::{self, Array};
use tvmr::ir::DType;

const FUNCTIONS: &str = r#"
@T.prim_func
def env_scale(x: T.Buffer((2, 2), "float32"), w: T.Buffer((2,), "float16"), y: T.Buffer((2, 2), "float32")):
    for i, j in T.grid(2, 2):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.cast(w[vj], "float32")

@T.prim_func
def positive(x: T.Buffer((2, 2), "float32"), y: T.Buffer((2, 2), "bool"), n: T.Buffer((), "int64")):
    n[()] = T.int64(4)
    for i, j in T.grid(2, 2):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] > T.float32(0)
"#;

/// `env.double` is in a text, the others in a shared library.
const MODEL: &str = r#"
@R.function
def main(x: R.Tensor(("n", 2), "float32"), w: R.Tensor((2,), "float16")):
    n = T.int64()
    with R.dataflow():
        a = R.call_dps_packed("env.scale", (R.nn.relu(x), w), out_ty=R.Tensor((n, 2), "float32"))
        b = R.call_tir("env.double", (a,), out_ty=R.Tensor((n, 2), "float32"))
        c = R.call_dps_packed("positive", (b,), out_ty=[R.Tensor((n, 2), "bool"), R.Tensor((), "int64")])
        y = R.where(c[0], b, R.const(-1.0, "float32"))
        k = R.add(c[1], R.const(1, "int64"))
        R.output(y, k)
    return y, k
"#;

const TEXT: &str = r#"
@T.prim_func
def env_double(x: T.Buffer((2, 2), "float32"), y: T.Buffer((2, 2), "float32")):
    T.func_attr({"global_symbol": "env.double"})
    for i, j in T.grid(2, 2):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] + x[vi, vj]
"#;

/// A directory with the library, the text, the model, its inputs and what it gives.
fn place() -> TempDir {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    for (name, content) in [("functions.tir", FUNCTIONS), ("text.tir", TEXT), ("model.tir", MODEL)] {
        fs::write(path(name), content).expect("a file");
    }
    succeeds(&["build", text(&path("functions.tir")), "--as-written", "-o", text(&path("f")), "--emit", "shared"]);
    let array = |dtype, shape: &[i64], data: Vec<u8>| Array::new(dtype, shape, data).expect("an array");
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let x = array(DType::Float32, &[2, 2], floats(&[1.0, -2.0, 0.0, 3.0]));
    // 0.5 and 2 in float16.
    let w = array(DType::Float16, &[2], vec![0, 0x38, 0, 0x40]);
    let y = array(DType::Float32, &[2, 2], floats(&[1.0, -1.0, -1.0, 12.0]));
    let k = array(DType::Int64, &[], 5i64.to_le_bytes().to_vec());
    arrays::write(&path("in.npz"), &[("x", &x), ("w", &w)]).expect("a file");
    arrays::write(&path("out.npz"), &[("y", &y), ("k", &k)]).expect("a file");
    dir
}

#[test]
fn models_call_functions_of_shared_libraries() {
    let dir = place();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, library, words, inputs) = (path("model.tir"), path("libf.so"), path("text.tir"), path("in.npz"));
    let with = ["--library", &library, "--library", &words];
    succeeds(&[&["run", &model, "--inputs", &inputs, "--expect", &path("out.npz")], &with[..]].concat());

    let json = succeeds(&[&["bench", &model, "--inputs", &inputs, "--format", "json"], &with[..]].concat()).out;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["checked"], &json["max_relative_difference"]), (&true.into(), &0.0.into()));
    let kernels = json["kernels"].as_array().expect("a list");
    let is_library = |name: &str| kernels.iter().find(|k| k["func"] == name).map(|k| k["library"] == true);
    assert_eq!(
        (is_library("env.scale"), is_library("positive"), is_library("relu")),
        (Some(true), Some(true), Some(false))
    );

    let printed =
        succeeds(&[&["apply-best", &model, "--bind", "n=2", "--work-dir", &path("db")], &with[..]].concat()).out;
    assert!(
        printed.contains(r#"R.call_dps_packed("env.scale", ("#) && printed.contains("R.call_tir(cls.env_double, (")
    );
    let build = ["build", &model, "--bind", "n=2", "--as-written", "-o", &path("g")];
    let refused = "`main` calls `env.scale`, `positive` of a shared library, whose code cannot be put into an object";
    fails(&[&build[..], &with].concat(), 2, refused);
    // The library is for two rows.
    let wrong =
        fails(&[&["run", &model, "--shape", "x=3,2", "--random", "--library", &words], &with[..2]].concat(), 2, "");
    assert!(wrong.err.contains("`x` of `env_double` is float32 [2, 2]"), "{}", wrong.err);
}

#[test]
fn libraries_that_cannot_be_called_are_refused() {
    let dir = place();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let model = path("model.tir");
    fs::write(&model, MODEL.replace("env.double", "env.scale").replace("(a,)", "(a, w)")).expect("a model");
    let run = ["run", &model, "--bind", "n=3", "--random", "--library"];
    let raised =
        "`main` failed: `env.scale` failed: ValueError: Mismatched x.shape[0] on argument #0 when calling: `env_scale(";
    fails(&[&run[..], &[&path("libf.so")]].concat(), 1, raised);
    let looked = fails(&[&run[..], &[&path("text.tir")]].concat(), 2, "no function `env.scale` is known");
    assert!(looked.err.contains("text.tir`, the built-in functions"), "{}", looked.err);
    let damaged = path("damaged.so");
    fs::write(&damaged, b"\x7fELF and no more").expect("a file");
    fails(&[&run[..], &[&damaged]].concat(), 2, "damaged.so` is no shared library");
}
