//! Tests of `build` with several shapes of an input: a version for each, one copy of the weights, and the symbols as parameters; and of
//! functions that take any number of samples.

use super::{dir, fails, succeeds, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tvmr::arrays::{self, Array};

const MODEL: &str = r#"
@R.function
def main(x: R.Tensor(("n", "m", 8), "float32"), y: R.Tensor((16,), "float32"), w: R.Tensor((8, 16), "float32")):
    R.func_attr({"num_input": 2})
    with R.dataflow():
        out = R.add(R.matmul(x, w), y)
        R.output(out)
    return out
"#;

/// Element `i` of the weights.
fn weight(i: usize) -> f32 {
    ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0
}

fn workplace() -> (tempfile::TempDir, String) {
    let dir = dir();
    let model = dir.path().join("net.tir");
    fs::write(&model, MODEL).expect("a model");
    let w: Vec<f32> = (0..128).map(weight).collect();
    let w = Array::from(&w[..]).with_shape(&[8, 16]).expect("a matrix");
    arrays::write(&dir.path().join("net.safetensors"), &[("w", &w)]).unwrap_or_else(|e| panic!("{e}"));
    let model = text(&model).to_owned();
    (dir, model)
}

/// How often the weights are in a file.
fn copies(path: &Path) -> usize {
    let content = fs::read(path).expect("a file");
    let bytes: Vec<u8> = (0..128).flat_map(|i| weight(i).to_le_bytes()).collect();
    content.windows(bytes.len()).filter(|w| *w == bytes).count()
}

/// Compiles a C program with an object, and runs it.
fn run_c(dir: &Path, program: &str, object: &Path) {
    let (source, binary): (PathBuf, PathBuf) = (dir.join("main.c"), dir.join("main"));
    fs::write(&source, program).expect("a program");
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", text(dir)];
    let compiled =
        Command::new("cc").args(flags).arg(&source).arg(object).args(["-o", text(&binary)]).output().expect("cc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&binary).output().expect("it starts");
    assert!(ran.status.success(), "{:?} {}", ran.status, String::from_utf8_lossy(&ran.stdout));
}

const CALLS: &str = r#"
#include "net.h"

static float x[512], y[16], out[1024];

/* Calls the version of a size, and compares with sums in double precision. */
static int check(int64_t n, int64_t m) {
    int i, k, wrong = 0;
    if (net_main(x, y, out, n, m) != NET_OK) {
        return 1;
    }
    for (i = 0; i < n * m * 16; i++) {
        double sum = y[i % 16];
        for (k = 0; k < 8; k++) {
            int at = k * 16 + i % 16;
            sum += (double)x[i / 16 * 8 + k] * (((at * 37 + 11) % 101) / 50.0 - 1.0);
        }
        wrong += !(sum - out[i] < 1e-5 && out[i] - sum < 1e-5);
    }
    return wrong;
}

int main(void) {
    int i;
    for (i = 0; i < 512; i++) {
        x[i] = (float)(i % 13) - 6;
    }
    for (i = 0; i < 16; i++) {
        y[i] = (float)i;
    }
    return check(1, 3) || check(2, 5) || net_main(x, y, out, 1, 5) != NET_ERROR_SIZE
        || net_main(x, y, out, -1, 3) != NET_ERROR_SIZE;
}
"#;

#[test]
fn every_shape_of_an_input_gets_a_version() {
    let (dir, model) = workplace();
    let out = dir.path().join("net");
    let args = ["build", &model, "--as-written", "-o", text(&out), "--emit", "obj,header,manifest"];
    succeeds(&[&args[..], &["--shape", "x=1,3,8", "--shape", "y=16", "--shape", "x=2,5,8"]].concat());
    assert_eq!(copies(&out.with_extension("o")), 1);
    let manifest = fs::read_to_string(out.with_extension("json")).expect("written");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    let versions = manifest["functions"][0]["versions"].as_array().expect("a list");
    let sizes: Vec<String> = versions.iter().map(|v| v["sizes"].to_string()).collect();
    assert_eq!(sizes, ["[1,3]", "[2,5]"]);
    run_c(dir.path(), CALLS, &out.with_extension("o"));
}

#[test]
fn shapes_and_values_of_symbols_go_together() {
    let (dir, model) = workplace();
    let out = dir.path().join("net");
    let args = ["build", &model, "--as-written", "-o", text(&out)];
    // `n` is the same in all versions, so it is no parameter.
    succeeds(&[&args[..], &["--shape", "x=4,3,8", "--shape", "x=4,5,8"]].concat());
    let header = fs::read_to_string(out.with_extension("h")).expect("written");
    assert!(header.contains("Sizes: m=3; m=5;") && header.contains("int64_t m);"), "{header}");
    let refused = |more: &[&str], why: &str| fails(&[&args[..], more].concat(), 2, why);
    refused(&["--shape", "x=1,3,8", "--shape", "x=1,3,8"], "the same shapes twice: `x` [1, 3, 8]");
    refused(&["--shape", "x=1,3,8", "--shape", "x=1,3,9"], "no symbol tells the shapes `x` [1, 3, 9] from others");
    refused(&["--shape", "x=1,3,8", "--shape", "x=1,5"], "and `--shape` gives [1, 5]");
    refused(&["--shape", "z=1,3,8", "--shape", "z=1,3"], "has an input `z`");
    let twice = ["--shape", "x=1,3,8", "--shape", "x=2,3,8"];
    fails(&[&["bench", &model], &twice[..]].concat(), 2, "only `tvmr build` takes several shapes of an input");
}

#[test]
fn each_version_has_its_own_records() {
    let (dir, model) = workplace();
    let (db, out) = (dir.path().join("db"), dir.path().join("net"));
    let tune = |shape: &str| {
        succeeds(&["tune", &model, "--shape", shape, "--trials", "2", "--work-dir", text(&db), "--quiet"]);
    };
    let build = ["build", &model, "--work-dir", text(&db), "--frozen", "-o", text(&out)];
    let build = [&build[..], &["--shape", "x=1,3,8", "--shape", "x=2,5,8"]].concat();
    tune("x=1,3,8");
    fails(&build, 1, "no record for");
    tune("x=2,5,8");
    succeeds(&build);
    run_c(dir.path(), CALLS, &out.with_extension("o"));
}

const BATCHES: &str = r#"
#include "net.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 19, M = 3, CANARY = 77 };

static float x[MOST * M * 8], one[MOST * M * 16], out[MOST * M * 16 + 16];

/* What TVM-FFI passes. */
typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

typedef struct {
    int32_t type_index, padding;
    void *payload;
} Any;

int __tvm_ffi_main(void *self, const Any *args, int32_t n, Any *result);

/* Calls through TVM-FFI with so many samples in the input and in the result. */
static int packed(int64_t n, int64_t n_out) {
    int64_t shapes[2][3] = {{0, M, 8}, {0, M, 16}};
    Tensor in = {x, 1, 0, 3, 2, 32, 1, shapes[0], NULL, 0}, result = {out, 1, 0, 3, 2, 32, 1, shapes[1], NULL, 0};
    Any args[2] = {{7, 0, NULL}, {7, 0, NULL}}, returned;
    shapes[0][0] = n;
    shapes[1][0] = n_out;
    args[0].payload = &in;
    args[1].payload = &result;
    return __tvm_ffi_main(NULL, args, 2, &returned);
}

/* Computes `n` samples, and compares with those that were computed one by one. Without a workspace, a call takes memory itself; `x`
   stands for a packed call. */
static int check(int64_t n, void *workspace) {
    int64_t i, end = n * M * 16;
    int code;
    for (i = 0; i < MOST * M * 16 + 16; i++) {
        out[i] = CANARY;
    }
    code = workspace == x       ? packed(n, n)
           : workspace          ? net_main_ws(x, out, n, workspace)
                                : net_main(x, out, n);
    for (i = 0; i < end; i++) {
        if (!(out[i] - one[i] < 1e-5f && one[i] - out[i] < 1e-5f)) {
            return 1;
        }
    }
    for (i = end; i < MOST * M * 16 + 16; i++) {
        if (out[i] != CANARY) {
            return 2;
        }
    }
    return code;
}

int main(void) {
    int64_t i, n;
    for (i = 0; i < MOST * M * 8; i++) {
        x[i] = (float)(i % 13) - 6;
    }
    for (i = 0; i < MOST; i++) {
        if (net_main(x + i * M * 8, one + i * M * 16, 1) != NET_OK) {
            return 1;
        }
    }
    for (n = 0; n <= MOST; n++) {
        char *memory = malloc(net_main_workspace_bytes(n) + 128);
        void *workspace = memory + (64 - (size_t)memory % 64);
        if (check(n, NULL) || check(n, workspace) || check(n, x) || !packed(n, n + 1)) {
            return 2;
        }
        free(memory);
    }
    return net_main(x, out, -1) != NET_ERROR_SIZE || net_main(NULL, out, 3) != NET_ERROR_NULL
        || net_main(NULL, NULL, 0) != NET_OK || net_main_workspace_bytes(-1) != 0;
}
"#;

/// A model of one input.
fn batches() -> (tempfile::TempDir, String) {
    let (dir, model) = workplace();
    let text = MODEL.replace(r#"y: R.Tensor((16,), "float32"), "#, "").replace("\"num_input\": 2", "\"num_input\": 1");
    fs::write(&model, text.replace("R.add(R.matmul(x, w), y)", "R.nn.softmax(R.matmul(x, w))")).expect("a model");
    (dir, model)
}

#[test]
fn a_batch_of_any_size_is_computed_in_parts() {
    let (dir, model) = batches();
    let out = dir.path().join("net");
    let args = ["build", &model, "--as-written", "-o", text(&out), "--emit", "obj,header,rust,manifest"];
    succeeds(&[&args[..], &["--bind", "m=3", "--bind", "n=1,8", "--batch-loop", "n"]].concat());
    assert_eq!(copies(&out.with_extension("o")), 1);
    let header = fs::read_to_string(out.with_extension("h")).expect("written");
    assert!(header.contains("x: float32[n, 3, 8], read") && header.contains("computed in parts of 8, 1"), "{header}");
    let manifest = fs::read_to_string(out.with_extension("json")).expect("written");
    assert!(manifest.contains("\"batch\": \"n\""), "{manifest}");
    run_c(dir.path(), BATCHES, &out.with_extension("o"));
    // A single version computes all samples one by one.
    succeeds(&[&args[..], &["--shape", "x=1,3,8", "--batch-loop", "n"]].concat());
    run_c(dir.path(), BATCHES, &out.with_extension("o"));
}

#[test]
fn batches_go_with_other_sizes() {
    let (dir, model) = batches();
    let out = dir.path().join("net");
    let args = ["build", &model, "--as-written", "-o", text(&out), "--emit", "static,header,rust", "--batch-loop", "n"];
    succeeds(&[&args[..], &["--bind", "m=3,5", "--bind", "n=1,4"]].concat());
    let program = dir.path().join("main.rs");
    let calls = r#"
mod net; fn main() {
    for m in [3usize, 5] {
        let x: Vec<f32> = (0..9 * m * 8).map(|i| (i % 13) as f32 - 6.0).collect();
        let (mut one, mut all) = (vec![0.0; 9 * m * 16], vec![0.0; 9 * m * 16]);
        for (x, y) in x.chunks(m * 8).zip(one.chunks_mut(m * 16)) {
            assert_eq!(net::main(x, y, m as i64, 1), Ok(()));
        }
        assert_eq!(net::main(&x, &mut all, m as i64, 9), Ok(()));
        assert!(one.iter().zip(&all).all(|(a, b)| (a - b).abs() < 1e-5));
        assert_eq!(net::main(&x, &mut all, m as i64, 8), Err(net::Error::Length));
        assert_eq!(net::main(&[], &mut [], m as i64, 0), Ok(()));
    }
    assert_eq!(net::main(&[], &mut [], 3, -1), Err(net::Error::Size));
    assert_eq!(net::main(&[], &mut [], 4, 0), Err(net::Error::Size));
}
"#;
    fs::write(&program, calls).expect("a program");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let binary = dir.path().join("calls");
    let compiled = Command::new(rustc)
        .args(["--edition", "2024", "-D", "warnings", "-o", text(&binary), text(&program), "-L", text(dir.path())])
        .args(["-l", "static=net"])
        .output()
        .expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&binary).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn batches_that_are_none_are_refused() {
    let (dir, model) = batches();
    let out = dir.path().join("net");
    let refused = |model: &str, more: &[&str], why: &str| {
        fails(&[&["build", model, "--as-written", "-o", text(&out)], more].concat(), 2, why);
    };
    let m = ["--bind", "m=3", "--batch-loop", "n"];
    let with = |more: &[&'static str]| [&m[..], more].concat();
    refused(&model, &with(&[]), "not every version has a value of `n`");
    refused(&model, &with(&["--bind", "n=2,8"]), "needs versions for `n` = 1");
    refused(&model, &with(&["--bind", "n=0,1"]), "a version is for 0 samples");
    refused(&model, &["--bind", "m=1,3", "--bind", "n=1", "--batch-loop", "m"], "`x` is an input of type");
    let text = fs::read_to_string(&model)
        .expect("the model")
        .replace("nn.softmax(R.matmul(x, w))", "cumsum(R.matmul(x, w), axis=0)");
    fs::write(&model, text).expect("a model");
    refused(&model, &with(&["--bind", "n=1,8"]), "samples may depend on each other: `cumsum`");
    refused(super::MATMUL, &["--batch-loop", "n"], "not every version has a value of `n`");
}
