//! Builds the kernels with the command `tvmr`, as a static library and a Rust module.

use std::process::Command;
use std::{env, path::Path};

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let tvmr = env::var("TVMR").unwrap_or_else(|_| "tvmr".to_owned());
    let done = Command::new(&tvmr)
        .args(["build", "../matmul.tir", "--emit", "static,rust", "--no-tvm-ffi", "-o"])
        .arg(Path::new(&out).join("kernels"))
        .status();
    assert!(done.is_ok_and(|s| s.success()), "`{tvmr} build` failed; is it on the path?");
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=kernels");
    println!("cargo::rerun-if-changed=../matmul.tir");
    println!("cargo::rerun-if-env-changed=TVMR");
}
