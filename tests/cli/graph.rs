//! Tests of commands on programs with graph functions.

use super::{dir, fails, succeeds, text};
use serde_json::Value;
use std::fs;
use std::process::Command;
use tvmr::arrays::{self, Array};
use tvmr::ir::DType;

/// Two layers: one calls prim_funcs with symbols by name, the other has operators. The last two parameters are weights.
const MODEL: &str = r#"
@tvm.script.ir_module
class Model:
    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @R.function
    def main(x: R.Tensor((1, "n"), "float32"), w: R.Tensor((3, "n"), "float32"), b: R.Tensor((3,), "float32")):
        n = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.add(R.matmul(x, R.permute_dims(w)), b)
            r = R.call_dps_packed("relu0", (a,), R.Tensor((1, 3), dtype="float32"))
            out = R.multiply(r, R.const(2.0, "float32"))
            R.output(out)
        return out
"#;

fn floats(shape: &[i64], values: &[f32]) -> Array {
    let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::new(DType::Float32, shape, data).expect("an array")
}

/// A directory with the model, its weights beside it, an input and what it gives.
fn workplace() -> tempfile::TempDir {
    let dir = dir();
    let save = |name: &str, arrays: &[(&str, &Array)]| {
        arrays::write(&dir.path().join(name), arrays).unwrap_or_else(|e| panic!("{e}"));
    };
    fs::write(dir.path().join("model.tir"), MODEL).expect("a model");
    let (w, b) = (floats(&[3, 2], &[1.0, 1.0, -1.0, -1.0, 0.5, 0.25]), floats(&[3], &[0.5, 0.0, 1.0]));
    save("model.safetensors", &[("w", &w), ("b", &b)]);
    save("x.npy", &[("x", &floats(&[1, 2], &[1.0, 2.0]))]);
    save("out.npy", &[("out", &floats(&[1, 3], &[7.0, 0.0, 4.0]))]);
    dir
}

#[test]
fn a_model_runs_with_the_weights_beside_it() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, x, out) = (path("model.tir"), path("x.npy"), path("out.npy"));
    let json = succeeds(&["run", &model, "--bind", "n=2", "--input", &x, "--expect", &out, "--format", "json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["expected"][0]["equal"], true);
    assert_eq!(json["func"], "main");
    assert!(json["inputs"][1]["file"].as_str().is_some_and(|f| f.ends_with("model.safetensors")));
}

#[test]
fn shapes_of_arrays_give_extents_their_values() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, x, out) = (path("model.tir"), path("x.npy"), path("out.npy"));
    succeeds(&["run", &model, "--input", &x, "--expect", &out]);
    let other = dir.path().join("other.npy");
    arrays::write(&other, &[("x", &floats(&[1, 3], &[1.0; 3]))]).expect("a file");
    fails(&["run", &model, "--input", text(&other)], 2, "`n` of `main` is 2 by dimension 1 of `w` in");
}

#[test]
fn a_model_is_built_with_its_weights() {
    let dir = workplace();
    let model = text(&dir.path().join("model.tir")).to_owned();
    let output = dir.path().join("built/net");
    succeeds(&["build", &model, "--bind", "n=2", "--as-written", "-o", text(&output), "--emit", "obj,header,manifest"]);
    let manifest: Value =
        serde_json::from_slice(&fs::read(dir.path().join("built/net.json")).expect("a file")).expect("JSON");
    let params = manifest["functions"][0]["versions"][0]["params"].as_array().expect("a list");
    let names: Vec<&str> = params.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["x", "out"]);
    // The object has `w` transposed, and not as it was.
    let object = fs::read(dir.path().join("built/net.o")).expect("a file");
    let has = |values: [f32; 6]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        object.windows(bytes.len()).any(|w| w == bytes)
    };
    assert!(has([1.0, -1.0, 0.5, 1.0, -1.0, 0.25]) && !has([1.0, 1.0, -1.0, -1.0, 0.5, 0.25]));
    let source = dir.path().join("main.c");
    let program = dir.path().join("main");
    fs::write(
        &source,
        "#include \"net.h\"\n\
         int main(void) {\n\
             static const float x[2] = {1, 2};\n\
             float out[3];\n\
             static _Alignas(64) char workspace[4096];\n\
             if (net_main_workspace_bytes() > sizeof workspace || net_main_ws(x, out, workspace) != 0) return 1;\n\
             if (out[0] != 7 || out[1] != 0 || out[2] != 4) return 2;\n\
             out[0] = 0;\n\
             return net_main(x, out) != 0 || out[0] != 7;\n\
         }\n",
    )
    .expect("a source");
    let built = dir.path().join("built");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", text(&built), text(&source)])
        .args([text(&built.join("net.o")), "-o", text(&program)])
        .output()
        .expect("a compiler, which Rust needs to link");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    assert_eq!(Command::new(&program).status().expect("it starts").code(), Some(0));
}

#[test]
fn a_model_is_not_built_with_weights_that_do_not_fit() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, output) = (path("model.tir"), path("net"));
    let build = |weights: &[(&str, &Array)], why: &str| {
        arrays::write(&dir.path().join("w.npz"), weights).expect("a file");
        fails(&["build", &model, "--bind", "n=2", "--weights", &path("w.npz"), "-o", &output], 2, why);
    };
    let w = floats(&[3, 2], &[0.0; 6]);
    build(&[("w", &w)], "has no array `b`");
    build(&[("w", &w), ("b", &floats(&[2], &[0.0; 2]))], "is float32 [2], and the graph expects float32 [3]");
    fs::remove_file(dir.path().join("model.safetensors")).expect("a file");
    fails(&["build", &model, "--bind", "n=2", "-o", &output], 2, "there are no values for `w`, `b`");
    fails(&["build", &model, "-o", &output], 2, "--bind");
}

/// How many of the test images a model classifies rightly, of 359, after `arguments`.
fn right_digits(model: &str, arguments: &[&str]) -> usize {
    let dir = dir();
    let (images, out) = ("workloads/models/digits_test.npz", dir.path().join("out.npz"));
    let file = format!("workloads/models/{model}.tir");
    succeeds(&[&["run", &file, "--inputs", images, "--output", text(&out)], arguments].concat());
    let digits = |path: &std::path::Path, name: &str| {
        let all = arrays::read(path).expect("a file");
        let (_, array) = all.into_iter().find(|(n, _)| n == name).expect("an array");
        array.data().to_vec()
    };
    let (found, expected) = (digits(&out, "digit"), digits(images.as_ref(), "labels"));
    assert_eq!(found.len(), 8 * 359);
    found.chunks(8).zip(expected.chunks(8)).filter(|(a, b)| a == b).count()
}

#[test]
fn models_of_digits_classify_them() {
    assert_eq!(right_digits("digits_mlp", &[]), 350);
    assert_eq!(right_digits("digits_cnn", &[]), 351);
}

#[test]
fn extents_without_a_value_are_told() {
    let dir = workplace();
    let model = text(&dir.path().join("model.tir")).to_owned();
    // The weights would tell it.
    fs::remove_file(dir.path().join("model.safetensors")).expect("a file");
    fails(&["run", &model, "--random"], 2, "--bind");
}

#[test]
fn prim_funcs_of_a_model_are_tuned_and_put_in_place() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, db, x, out) = (path("model.tir"), path("db"), path("x.npy"), path("out.npy"));
    let tune = ["tune", &model, "--bind", "n=2", "--trials", "2", "--work-dir", &db, "--quiet", "--format", "json"];
    let summary: Value = serde_json::from_str(&succeeds(&tune).out).expect("JSON");
    // The transposition of `w` runs once, so it is not worth trials.
    assert!(summary.to_string().contains("fused_matmul_add_relu"), "{summary}");
    assert!(!summary.to_string().contains("permute_dims"), "{summary}");
    let best = succeeds(&["apply-best", &model, "--bind", "n=2", "--work-dir", &db, "--frozen"]).out;
    assert!(
        best.contains("def permute_dims")
            && best.contains("def fused_matmul_add_relu")
            && best.contains("R.call_tir(cls."),
        "{best}"
    );
    let files = ["--input", &x, "--expect", &out];
    let best = ["run", &model, "--bind", "n=2", "--best", "--work-dir", &db];
    succeeds(&[&best[..], &files[..]].concat());
    let built = path("net");
    succeeds(&["build", &model, "--bind", "n=2", "--frozen", "--work-dir", &db, "-o", &built]);
}

#[test]
fn a_model_of_weights_alone_is_not_tuned() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let model = r#"
@R.function
def main(b: R.Tensor((3,), "float32")):
    R.func_attr({"num_input": 0})
    with R.dataflow():
        out = R.add(b, b)
        R.output(out)
    return out
"#;
    fs::write(dir.path().join("model.tir"), model).expect("a model");
    arrays::write(&dir.path().join("sum.npy"), &[("out", &floats(&[3], &[1.0, 0.0, 2.0]))]).expect("a file");
    succeeds(&["run", &path("model.tir"), "--best", "--work-dir", &path("db"), "--expect", &path("sum.npy")]);
    succeeds(&["build", &path("model.tir"), "--frozen", "--work-dir", &path("db"), "-o", &path("net")]);
    fails(&["tune", &path("model.tir"), "--work-dir", &path("db")], 2, "there is nothing to tune");
}

#[test]
fn stages_of_graphs_print() {
    let dir = workplace();
    let model = text(&dir.path().join("model.tir")).to_owned();
    let graph = succeeds(&["emit", &model, "--stage", "graph"]).out;
    assert!(graph.contains("R.matmul(x, "), "{graph}");
    let lowered = succeeds(&["emit", &model, "--bind", "n=2", "--stage", "after:lower_operators"]).out;
    assert!(lowered.contains("def matmul") && !lowered.contains("R.matmul"), "{lowered}");
    let formatted = succeeds(&["fmt", &model]).out;
    assert!(formatted.contains("@R.function"), "{formatted}");
}

#[test]
fn operators_are_listed() {
    let all = succeeds(&["ops"]).out;
    assert!(all.contains("R.nn.conv2d(data, weight, strides=[1, 1]"), "{all}");
    let json: Value = serde_json::from_str(&succeeds(&["ops", "pool", "--format", "json"]).out).expect("JSON");
    let names: Vec<&str> =
        json["operators"].as_array().expect("a list").iter().filter_map(|o| o["name"].as_str()).collect();
    assert!(names.contains(&"nn.max_pool2d") && names.iter().all(|n| n.contains("pool")), "{names:?}");
}
