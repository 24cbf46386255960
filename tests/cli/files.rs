//! Files: what `fmt` keeps, where results go, and values of symbols.

use super::{FIVE, MATMUL, dir, fails, run, succeeds, text};
use std::fs;

const COMMENTED: &str = r#"# kept
"""What the module is about"""
from tvm.script import tir as T

M = 64

@T.prim_func
def main(A: T.Buffer((M,), "float32")):
    """What the function is about"""
    # about the loop
    for i in range(M):
        with T.block("A"):
            vi = T.axis.spatial(M, i)
            A[vi] = T.float32(1)  # about the store
"#;

const SCALAR: &str = r#"@T.prim_func
def main(a: T.handle, s: T.int32):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "int32")
    for i, j in T.grid(n, m):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = s
"#;

#[test]
fn nothing_is_lost_in_place() {
    let dir = dir();
    let file = dir.path().join("a.tir");
    fs::write(&file, COMMENTED).expect("a file");
    let file = text(&file);
    let lost = "2 comments (lines 10, 14), 2 docstrings (lines 2, 9) and 1 statement outside functions (line 5)";
    let r = succeeds(&["fmt", file]);
    assert!(r.err.contains(&format!("not kept: {lost}")), "{}", r.err);
    // A statement stays a statement.
    assert!(r.out.starts_with("# kept\nfrom tvm.script import tir as T\n\n@T.prim_func\n"), "{}", r.out);
    fails(&["fmt", "--write", file], 2, lost);
    assert_eq!(fs::read_to_string(file).expect("the file"), COMMENTED);
    succeeds(&["fmt", "--write", "--force", file]);
    assert_eq!(fs::read_to_string(file).expect("the file"), r.out);
    // In canonical form, there is nothing to lose.
    let again = succeeds(&["fmt", "--write", file]);
    assert_eq!(again.err, "");
    succeeds(&["fmt", "--check", file]);
}

#[test]
fn several_files_are_checked_and_reprinted() {
    let dir = dir();
    let write = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("a file");
        text(&path).to_owned()
    };
    let (a, b) = (write("a.tir", SCALAR), write("b.tir", SCALAR));
    let wrong = write("wrong.tir", "x = 1\n");
    assert!(succeeds(&["check", &a, &b]).err.matches("well formed").count() == 2);
    // An invalid file does not stop the others.
    let r = fails(&["check", &wrong, &a, "nowhere.tir", &b], 2, "cannot read `nowhere.tir`");
    assert!(r.err.matches("well formed").count() == 2 && r.err.contains("no-function"), "{}", r.err);
    fails(&["fmt", &a, &b], 2, "several programs cannot be printed");
    fails(&["fmt", "--check", &a, &b], 1, "b.tir` is not in canonical form");
    fails(&["fmt", "--write", &a, &wrong, &b], 2, "no-function");
    succeeds(&["fmt", "--check", &a, &b]);
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = dir();
    let (real, link) = (dir.path().join("real.tir"), dir.path().join("link.tir"));
    let mode = || fs::metadata(&real).expect("the file").permissions().mode() & 0o777;
    fs::write(&real, SCALAR).expect("a file");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).expect("permissions");
    symlink("real.tir", &link).expect("a link");
    let trace = ["--trace", FIVE, "-o", text(&link)];
    for args in [&["fmt", "--write", text(&link)][..], &[&["apply", MATMUL], &trace[..]].concat()] {
        succeeds(args);
        assert!(link.is_symlink(), "{args:?}");
        assert_eq!(mode(), 0o600, "{args:?}");
    }
    assert!(fs::read_to_string(&real).expect("the file").contains("T.grid"));
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 2, "nothing is left over");
}

#[test]
fn a_dash_is_standard_output() {
    let dir = dir();
    let trace = super::root().join(FIVE);
    let program = super::root().join(MATMUL);
    let args = ["apply", text(&program), "--trace", text(&trace), "-o", "-"];
    let output = super::tvmr(&args).current_dir(dir.path()).output().expect("the command runs");
    let r = super::ran(output);
    assert_eq!((r.code, r.out), (0, succeeds(&args[..4]).out));
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0);
}

#[test]
fn symbols_are_named() {
    let dir = dir();
    let file = dir.path().join("a.tir");
    fs::write(&file, SCALAR).expect("a file");
    let file = text(&file);
    let db = dir.path().join("db");
    let tune = |bind: &[&str], code: i32, expected: &str| {
        let bind: Vec<&str> = bind.iter().flat_map(|b| ["--bind", b]).collect();
        fails(&[&["tune", file, "--work-dir", text(&db)], &bind[..]].concat(), code, expected)
    };
    // Nothing depends on the size of `s`, which is passed.
    tune(&[], 2, "no values for `n`, `m` of `main`");
    let r = tune(&["n=8", "s=0"], 2, "no value for `m` of `main`");
    assert!(r.err.contains("`--bind m=1024`"), "{}", r.err);
    tune(&["z=4"], 2, "there are `m`, `n`, `s`");
    tune(&["n=4", "n=5"], 2, "gives `n` twice: 4 and 5");
    tune(&["n=-1"], 2, "expected an extent of at least 0, found -1");
    // A scalar may have any value.
    for value in ["s=0", "s=-3"] {
        succeeds(&["check", file, "--bind", value]);
    }
    assert!(succeeds(&["fmt", file, "--bind", "s=-3"]).out.contains("= -3"));
}

#[test]
fn what_is_no_schedule_is_told() {
    let dir = dir();
    let db = dir.path().join("db");
    let write = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("a file");
        text(&path).to_owned()
    };
    let constant = write("x.py", "x = 1\n");
    fails(&["tune", MATMUL, "--space", &constant, "--work-dir", text(&db)], 2, "no schedule function");
    for (name, content) in [("empty.py", ""), ("empty.json", "{}")] {
        fails(&["apply", MATMUL, "--trace", &write(name, content)], 2, "is not a trace");
    }
    fails(&["apply", MATMUL, "--trace", &constant], 2, "no schedule function");
    let numbers = ["--trials", "--seed", "--max-seconds", "--patience", "--threads", "--jobs"];
    for option in numbers {
        let r = run(&["tune", MATMUL, option, "-1"]);
        assert!(r.code == 2 && r.err.contains("expected ") && !r.err.contains("tip:"), "{option}: {}", r.err);
    }
    let r = fails(&["tune", MATMUL, "--isa", "bogus"], 2, "expected one of `portable`");
    assert_eq!(r.err.matches("bogus").count(), 1, "{}", r.err);
}
