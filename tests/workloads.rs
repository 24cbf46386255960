//! Runs every workload through the built binary: tunes it, checks it against the reference, prints it, and runs it
//! again.
//!
//! Large ones are excluded: their references take seconds and find no further errors.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Workloads that take long.
const LARGE: &[&str] = &["matmul_1024", "matmul_add", "matmul_u8s8", "ewise_large", "conv2d_nchw", "conv2d_nhwc"];

fn workloads() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("the directory of the workloads").flatten().map(|e| e.path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "tir"));
    all.retain(|p| !LARGE.iter().any(|l| p.file_stem().is_some_and(|s| s == *l)));
    all.sort();
    all
}

fn tvmr(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tvmr")).args(args).output().expect("it starts")
}

fn succeed(args: &[&str]) -> String {
    let output = tvmr(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "tvmr {args:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_workload_tunes_without_a_wrong_result() {
    let files = workloads();
    assert!(files.len() > 30, "{}", files.len());
    // It is the longest test by far, and the last: it uses all cores.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    tunes_without_a_wrong_result(file);
                }
            });
        }
    });
}

fn tunes_without_a_wrong_result(file: &Path) {
    let dir = tempfile::tempdir().expect("a directory");
    let (work, best) = (dir.path().join("db"), dir.path().join("best.tir"));
    let (file, work, best) = (file.to_string_lossy(), work.to_string_lossy(), best.to_string_lossy());
    let mut tune = vec!["tune", &file, "--trials", "6", "--work-dir", &work, "--format", "json", "--quiet"];
    let mut apply = vec!["apply-best", &file, "--work-dir", &work, "-o", &best, "--quiet"];
    if file.contains("symbolic") {
        for symbol in ["n=64", "m=96", "k=128"] {
            tune.extend(["--bind", symbol]);
            apply.extend(["--bind", symbol]);
        }
    }
    let report: serde_json::Value = serde_json::from_str(&succeed(&tune)).expect("a document");
    let tasks = match report.get("tasks") {
        Some(tasks) => tasks.as_array().cloned().unwrap_or_default(),
        None => vec![report],
    };
    for task in tasks {
        let errors = task["errors"].as_object().cloned().unwrap_or_default();
        // A slow candidate may time out on a busy machine; no other failure is allowed.
        let bad: Vec<&String> = errors.iter().filter(|(k, n)| *k != "timeout" && **n != 0).map(|(k, _)| k).collect();
        assert!(bad.is_empty(), "{file}: {errors:?}: {}", task["failures"]);
    }
    succeed(&apply);
    succeed(&["check", &best]);
    succeed(&["bench", &best, "--quiet"]);
}
