//! Tests of `emit`: a program at each stage of code generation.

use super::{MATMUL, TILES, dir, fails, succeeds, text};

#[test]
fn every_stage_has_text() {
    let dir = dir();
    let emit = |args: &[&str]| succeeds(&[&["emit", MATMUL, "--trace", TILES, "--isa", "portable"], args].concat()).out;

    assert!(emit(&["--stage", "tir"]).contains("T.vectorized"));
    let lowered = emit(&["--stage", "loopir"]);
    assert!(lowered.starts_with("kernel @main(") && lowered.contains("for "), "{lowered}");
    let first = emit(&["--stage", "after:simplify"]);
    let last = emit(&["--stage", "after:strip_mine"]);
    assert!(first.starts_with("kernel @main(") && first != last, "{first}");
    assert!(emit(&["--stage", "clif"]).contains("function u0:"));
    assert!(emit(&["--stage", "asm"]).contains("the rest, by Cranelift"));

    let passes = emit(&["--stage", "passes"]);
    let names: Vec<&str> = passes.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
    assert!(names.first() == Some(&"simplify") && names.contains(&"vectorize"), "{passes}");
    assert!(passes.lines().filter(|l| l.ends_with("changed")).count() > 2, "{passes}");

    let out = dir.path().join("kernel.lir");
    assert_eq!(emit(&["--stage", "loopir", "-o", text(&out)]), "");
    assert_eq!(std::fs::read_to_string(&out).expect("written"), lowered);
}

#[test]
fn passes_and_text_as_json() {
    let ran = succeeds(&["emit", MATMUL, "--stage", "passes", "--format", "json"]).out;
    let json: serde_json::Value = serde_json::from_str(&ran).expect("JSON");
    let passes = json["kernels"][0]["passes"].as_array().expect("a list");
    assert!(passes.iter().all(|p| p["us"].is_number() && p["changed"].is_boolean()), "{json}");
    let ran = succeeds(&["emit", MATMUL, "--stage", "loopir", "--format", "json"]).out;
    let json: serde_json::Value = serde_json::from_str(&ran).expect("JSON");
    assert!(json["kernels"][0]["text"].as_str().is_some_and(|t| t.starts_with("kernel @main(")), "{json}");
}

#[test]
fn what_is_no_stage_is_refused() {
    fails(&["emit", MATMUL, "--stage", "after:vectorise"], 2, "did you mean `vectorize`?");
    fails(&["emit", MATMUL, "--stage", "ptx"], 2, "`after:PASS`");
    let none = dir();
    let work_dir = none.path().join("none");
    fails(&["emit", MATMUL, "--stage", "asm", "--best", "--work-dir", text(&work_dir)], 1, "no record for `main`");
}

#[test]
fn tensor_expressions_are_programs() {
    let file = "workloads/matmul_add.py";
    let args = ["--func", "matmul_add", "--args", "32,16,8,float32"];
    let emit = |stage: &str| succeeds(&[&["emit", file, "--stage", stage], &args[..]].concat()).out;
    assert_eq!(
        emit("dag"),
        "A = PLACEHOLDER [32, 16]\nB = PLACEHOLDER [16, 8]\nC = PLACEHOLDER [32, 8]\n\
         matmul(i, j) += (A[i, k]*B[k, j])\nout(i, j) = (matmul[i, j] + C[i, j])\n"
    );
    assert!(emit("tir").contains("T.func_attr({\"layout_free_buffers\": [1], \"tirx.noalias\": True})"));
    succeeds(&[&["bench", file, "--isa", "portable"], &args[..]].concat());
    fails(&["bench", file], 2, "such as `--args 1024,1024,1024,float32`");
    fails(&["emit", file, "--stage", "tir", "--func", "matmul_ad"], 2, "did you mean `matmul_add`?");
    fails(&["emit", MATMUL, "--stage", "tir", "--args", "4"], 2, "`--args` is for workloads of tensor expressions");
    fails(&["fmt", file], 2, "`fmt` formats TVMScript");
}
