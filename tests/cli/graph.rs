//! Tests of commands on programs with graph functions.

use super::{dir, fails, run, succeeds, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
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
    Array::from(values).with_shape(shape).expect("an array")
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
    runs_in_c(
        dir.path(),
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
    );
}

/// Compiles a C program with `built/net.o` in `dir`; it must end with status 0.
#[track_caller]
fn runs_in_c(dir: &Path, text_of_program: &str) {
    let (source, program, built) = (dir.join("main.c"), dir.join("main"), dir.join("built"));
    fs::write(&source, text_of_program).expect("a source");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", text(&built), text(&source)])
        .args([text(&built.join("net.o")), "-o", text(&program)])
        .output()
        .expect("a compiler, which Rust needs to link");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    assert_eq!(Command::new(&program).status().expect("it starts").code(), Some(0));
}

#[test]
fn results_in_the_place_of_arguments_run_and_are_built() {
    let dir = dir();
    let model = dir.path().join("model.tir");
    fs::write(
        &model,
        r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def double(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = A[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        a = R.add(x, x)
        b = R.call_tir_inplace(cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        c = R.call_tir_inplace(cls.double, (x,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        d = R.add(b, c)
        return d
"#,
    )
    .expect("a model");
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let save = |name: &str, values: &[f32]| {
        arrays::write(&dir.path().join(name), &[("x", &floats(&[4], values))]).expect("a file");
    };
    save("x.npy", &[1.0, 2.0, 3.0, 4.0]);
    save("d.npy", &[6.0, 12.0, 18.0, 24.0]);
    succeeds(&["run", text(&model), "--input", &path("x.npy"), "--expect", &path("d.npy")]);
    succeeds(&["build", text(&model), "--as-written", "-o", &path("built/net"), "--emit", "obj,header"]);
    runs_in_c(
        dir.path(),
        "#include \"net.h\"\n\
         int main(void) {\n\
             float x[4] = {1, 2, 3, 4};\n\
             float d[4];\n\
             return net_main(x, d) != 0 || d[0] != 6 || d[3] != 24 || x[0] != 1 || x[3] != 4;\n\
         }\n",
    );
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
fn shapes_of_inputs_give_extents_their_values() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, x, out) = (path("model.tir"), path("x.npy"), path("out.npy"));
    succeeds(&["run", &model, "--shape", "x=1,2", "--input", &x, "--expect", &out]);
    succeeds(&["bench", &model, "--shape", "x=1,2", "--shape", "w=3,2"]);
    succeeds(&["build", &model, "--shape", "x=1,2", "--as-written", "-o", &path("net")]);
    succeeds(&["check", &model, "--shape", "x=1,2"]);
    let lowered = succeeds(&["emit", &model, "--shape", "x=1,2", "--stage", "after:lower_operators"]).out;
    assert!(lowered.contains("x: R.Tensor((1, 2), "), "{lowered}");
    let refused = |shapes: &[&str], why: &str| {
        let shapes: Vec<&str> = shapes.iter().flat_map(|s| ["--shape", s]).collect();
        fails(&[&["bench", &model], &shapes[..]].concat(), 2, why);
    };
    refused(&["x=1,2,3"], "`x` of `main` is float32 [1, n], and `--shape` gives [1, 2, 3]");
    refused(&["x=4,2"], "`x` of `main` is float32 [1, n] with `n` = 2, and `--shape` gives [4, 2]");
    refused(&["x=1,2", "w=3,5"], "`w` of `main` is float32 [3, n] with `n` = 2, and `--shape` gives [3, 5]");
    refused(&["x=1,2", "x=1,2"], "`--shape` gives `x` twice");
    refused(&["y=1,2"], "has an input `y`");
    refused(&["x=1,n"], "found `n`");
    fails(&["bench", &model, "--bind", "n=2", "--shape", "x=1,3"], 2, "is float32 [1, 2], and `--shape` gives [1, 3]");
    fails(&["bench", "workloads/axpy_inplace.tir", "--shape", "A=1"], 2, "`--shape` is for graphs");
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
    assert_eq!((&summary["model"]["func"], &summary["model"]["agrees"]), (&Value::from("main"), &Value::from(true)));
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
fn a_model_is_timed_as_a_whole_and_by_kernels() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, db) = (path("model.tir"), path("db"));
    let told = succeeds(&["bench", &model, "--profile"]).out;
    let parts = [
        "main: ",
        "of the roofline: ",
        "sum of its kernels: ",
        "live at once",
        "weights: 36 B",
        "results agree",
        "fused_matmul_add_relu",
    ];
    for part in parts.into_iter().chain(["as written"]) {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
    let json = |arguments: &[&str]| -> (Value, String) {
        let done = succeeds(&[&["bench", &model, "--format", "json"], arguments].concat());
        (serde_json::from_str(&done.out).expect("JSON"), done.err)
    };
    // Nothing is recorded: it runs as written.
    let (report, err) = json(&["--best", "--work-dir", &db]);
    assert!(err.contains(" distinct prim_funcs of `main` have a record; as written: `"), "{err}");
    assert_eq!((&report["tuned"], &report["random_weights"]), (&Value::from(0), &Value::from(false)));
    let kernels = report["kernels"].as_array().expect("a list");
    let sum: f64 = kernels.iter().filter_map(|k| k["us"].as_f64()).sum();
    assert!((sum - report["kernels_us"].as_f64().expect("a number")).abs() < 1e-6 * sum, "{report}");
    let shares: f64 = kernels.iter().filter_map(|k| k["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{report}");
    let bounds: f64 = kernels.iter().map(|k| k["bound_us"].as_f64().expect("a bound")).sum();
    let bound = report["bound_us"].as_f64().expect("a bound");
    assert!(bound > 0.0 && (bounds - bound).abs() < 1e-6 * bound, "{report}");
    assert_eq!(report["bound_fraction"].as_f64(), report["us"].as_f64().map(|us| bound / us), "{report}");
    assert_eq!(report["checked"], true);
    assert!(report["max_relative_difference"].as_f64().is_some_and(|d| d < 1e-4), "{report}");
    let (unchecked, _) = json(&["--no-check"]);
    assert_eq!((&unchecked["checked"], &unchecked["max_relative_difference"]), (&Value::from(false), &Value::Null));
    assert!(report["min_us"].as_f64() <= report["us"].as_f64() && report["memory_bytes"].is_u64(), "{report}");

    succeeds(&["tune", &model, "--bind", "n=2", "--trials", "2", "--work-dir", &db, "--quiet"]);
    let (report, err) = json(&["--best", "--work-dir", &db]);
    let (tuned, distinct) = (&report["tuned"], &report["distinct"]);
    assert!(*tuned != 0 && err.contains(&format!("{tuned} of {distinct} distinct prim_funcs")), "{err}");
    assert!(report["kernels"].as_array().is_some_and(|k| k.iter().any(|k| k["tuned"] == true)), "{report}");

    // A function is timed as ever.
    let one = kernels[0]["func"].as_str().expect("a name").to_owned();
    let (report, _) = json(&["--bind", "n=2", "--func", &one]);
    assert_eq!(report["checked"], true);
}

#[test]
fn a_model_is_timed_without_weights() {
    let dir = workplace();
    let model = text(&dir.path().join("model.tir")).to_owned();
    fs::remove_file(dir.path().join("model.safetensors")).expect("a file");
    let json = succeeds(&["bench", &model, "--bind", "n=2", "--format", "json"]);
    let report: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(report["random_weights"], true);
    fails(&["bench", &model], 2, "--bind");
    fails(&["bench", &model, "--bind", "n=2", "--trace", "t.py"], 2, "a trace is for one prim_func");
    fails(&["bench", &model, "--bind", "n=2", "--func", "relu0", "--profile"], 2, "`--profile` is for a model");
}

#[test]
fn the_default_number_of_trials_grows_with_a_model() {
    let dir = workplace();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let two = dir.path().join("two.tir");
    fs::write(&two, TWO).expect("a model");
    let tune = |more: &[&str]| {
        run(&[&["tune", text(&two), "--work-dir", &path("db"), "--max-seconds", "0.2"], more].concat()).err
    };
    let err = tune(&[]);
    assert!(err.contains("96 trials: 32 for each of 3 distinct functions"), "{err}");
    let err = tune(&["--trials", "1"]);
    assert!(!err.contains("for each of"), "{err}");
}

#[test]
fn random_indices_are_in_bounds() {
    let dir = dir();
    let model = dir.path().join("take.tir");
    fs::write(
        &model,
        r#"
@R.function
def main(i: R.Tensor((64,), "int64"), w: R.Tensor((3, 8), "float32")):
    with R.dataflow():
        a = R.take(w, i, axis=0)
        R.output(a)
    return a
"#,
    )
    .expect("a model");
    succeeds(&["bench", text(&model)]);
    succeeds(&["run", text(&model), "--random"]);
    let indices = Array::new(DType::Int64, &[64], [7i64; 64].iter().flat_map(|v| v.to_le_bytes()).collect());
    arrays::write(&dir.path().join("i.npz"), &[("i", &indices.expect("an array"))]).expect("a file");
    fails(&["bench", text(&model), "--inputs", text(&dir.path().join("i.npz"))], 1, "access out of bounds of `w`");
}

/// Indices among the weights are only read by the preparation.
#[test]
fn random_indices_among_the_weights_are_in_bounds() {
    let dir = dir();
    let model = dir.path().join("positions.tir");
    fs::write(
        &model,
        r#"
@R.function
def main(x: R.Tensor((64, 8), "float32"), table: R.Tensor((3, 8), "float32"), position: R.Tensor((64,), "int64")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        a = R.take(table, position, axis=0)
        b = R.add(x, a)
        R.output(b)
    return b
"#,
    )
    .expect("a model");
    succeeds(&["bench", text(&model)]);
    succeeds(&["run", text(&model), "--random"]);
}

/// Three kernels that differ, one called twice.
const TWO: &str = r#"
@R.function
def main(x: R.Tensor((4, 8), "float32")):
    with R.dataflow():
        a = R.nn.softmax(x, axis=1)
        b = R.nn.softmax(a, axis=1)
        c = R.sum(b, axis=[0])
        d = R.cumsum(c, axis=0)
        R.output(d)
    return d
"#;

#[test]
fn stages_of_graphs_print() {
    let dir = workplace();
    let model = text(&dir.path().join("model.tir")).to_owned();
    let graph = succeeds(&["emit", &model, "--stage", "graph"]).out;
    assert!(graph.contains("R.matmul(x, "), "{graph}");
    let lowered = succeeds(&["emit", &model, "--bind", "n=2", "--stage", "after:lower_operators"]).out;
    assert!(lowered.contains("def matmul") && !lowered.contains("R.matmul"), "{lowered}");
    // The graph beside them prints in the current dialect alone, whatever the words of the text.
    assert!(lowered.contains("T.sblock(") && !lowered.contains("T.block("), "{lowered}");
    let classic = succeeds(&["emit", &model, "--bind", "n=2", "--stage", "after:fuse", "--dialect", "classic"]).out;
    assert!(classic.contains("T.block(") && !classic.contains("T.sblock("), "{classic}");
    let formatted = succeeds(&["fmt", &model]).out;
    assert!(formatted.contains("@R.function"), "{formatted}");
}

#[test]
fn optional_passes_are_left_out_on_demand() {
    let dir = workplace();
    let model = text(&dir.path().join("model.tir")).to_owned();
    let stage = |more: &[&str]| {
        succeeds(&[&["emit", &model, "--bind", "n=2", "--stage", "after:layout_free"], more].concat()).out
    };
    let (all, without) = (stage(&[]), stage(&["--skip-pass", "fuse"]));
    assert!(all.contains("def fused_") && !without.contains("def fused_"), "{without}");
    fails(&["emit", &model, "--stage", "graph", "--skip-pass", "lower_operators"], 2, "possible values: ");
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

#[test]
fn shapes_may_follow_from_weights_in_a_file() {
    let dir = dir();
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (model, x) = (path("model.tir"), path("x.npz"));
    let parameters = r#"x: R.Tensor((4,), "float32"), keep: R.Tensor((4,), "int64")"#;
    let graph = |n_inputs: usize| {
        let call = r#"R.take(x, R.squeeze(R.nonzero(R.greater(keep, R.const(1, "int64"))), axis=[0]))"#;
        let body = format!("    with R.dataflow():\n        y = {call}\n        R.output(y)\n    return y\n");
        format!("@R.function\ndef main({parameters}):\n    R.func_attr({{\"num_input\": {n_inputs}}})\n{body}")
    };
    let save = |name: &str, array: (&str, &Array)| arrays::write(&dir.path().join(name), &[array]).expect("a file");
    fs::write(&model, graph(1)).expect("a model");
    save("x.npz", ("x", &floats(&[4], &[1.0, 2.0, 3.0, 4.0])));
    let expected = "the shape of the result depends on its elements";
    fails(&["run", &model, "--inputs", &x], 2, expected);
    save("model.npz", ("keep", &Array::from(&[2_i64, 0, 1, 3][..])));
    save("two.npy", ("y", &floats(&[2], &[1.0, 4.0])));
    succeeds(&["run", &model, "--inputs", &x, "--expect", &path("two.npy")]);
    // Another file by its name.
    save("other.npz", ("keep", &Array::from(&[0_i64, 5, 5, 5][..])));
    save("three.npy", ("y", &floats(&[3], &[2.0, 3.0, 4.0])));
    let other = path("other.npz");
    succeeds(&["run", &model, "--inputs", &x, "--weights", &other, "--expect", &path("three.npy")]);
    // What callers pass is no weight.
    fs::write(&model, graph(2)).expect("a model");
    fails(&["check", &model], 2, expected);
}
