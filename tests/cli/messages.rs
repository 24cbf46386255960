//! Messages: diagnostics as JSON, reasons for missing records, refused candidates, and suggested next steps.

use super::{FIVE, MATMUL, dir, fails, run, succeeds, text};
use serde_json::Value;
use std::fs;

/// A spatial iteration that should be a reduction, with the init in another block.
const SLIPS: &str = r#"@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8,))):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi] = B[vi] + A[vi, vk]
"#;
const BROKEN: &str = r#"@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi, 0] = T.float32(0)
            B[vi, vk] = B[vi, vk] + A[vi, vk]
"#;

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

#[test]
fn warnings_are_told_and_change_no_exit_code() {
    let dir = dir();
    let file = dir.path().join("slips.tir");
    fs::write(&file, SLIPS).expect("a file");
    let r = succeeds(&["check", text(&file)]);
    assert!(r.err.contains("warning[shared-store]") && r.err.contains("\"SR\""), "{}", r.err);
    assert!(r.err.contains("1 function well formed, 1 warning"), "{}", r.err);
    let db = dir.path().join("db");
    let r = succeeds(&["tune", text(&file), "--trials", "2", "--no-check", "--work-dir", text(&db)]);
    assert!(r.err.contains("warning[shared-store]"), "{}", r.err);
}

#[test]
fn broken_reductions_are_refused_before_anything_is_tuned() {
    let dir = dir();
    let file = dir.path().join("broken.tir");
    fs::write(&file, BROKEN).expect("a file");
    let db = dir.path().join("db");
    fails(&["check", text(&file)], 2, "error[reduction-store]");
    fails(&["tune", text(&file), "--work-dir", text(&db)], 2, "error[reduction-store]");
    assert!(!db.exists());
    // They are still valid programs.
    succeeds(&["fmt", text(&file)]);
}

#[test]
fn check_tells_scripts_all_of_it() {
    let dir = dir();
    let write = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("a file");
        text(&path).to_owned()
    };
    let (slips, broken) = (write("slips.tir", SLIPS), write("broken.tir", BROKEN));
    let none = dir.path().join("none.tir");
    let r = run(&["check", &slips, &broken, text(&none), MATMUL, "--format", "json"]);
    let document = json(&r.out);
    assert_eq!((r.code, &document["exit_code"]), (2, &Value::from(2)));
    let counts: Vec<(u64, u64)> = document["files"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|f| (f["errors"].as_u64().unwrap_or(99), f["warnings"].as_u64().unwrap_or(99)))
        .collect();
    assert_eq!(counts, [(0, 1), (1, 0), (1, 0), (0, 0)]);
    let diagnostics = document["diagnostics"].as_array().expect("a list");
    let first = &diagnostics[0];
    assert_eq!((&first["code"], &first["severity"]), (&"shared-store".into(), &"warning".into()));
    assert_eq!((&first["file"], &first["line"], &first["column"]), (&slips.as_str().into(), &6.into(), &13.into()));
    assert_eq!(first["end"]["line"], 6);
    assert!(first["help"].as_str().is_some_and(|h| h.contains("SR")));
    assert_eq!((&diagnostics[1]["code"], &diagnostics[2]["code"]), (&"reduction-store".into(), &"usage".into()));
    assert_eq!(diagnostics[2]["line"], Value::Null);
    // Without errors there is a document as well.
    let r = succeeds(&["check", MATMUL, "--format", "json"]);
    assert_eq!(json(&r.out)["diagnostics"], Value::Array(Vec::new()));
}

#[test]
fn bad_input_is_a_json_document_on_every_command() {
    let dir = dir();
    let file = dir.path().join("wrong.tir");
    fs::write(&file, "@T.prim_func\ndef main(A: T.Buffer((8,))):\n    A[0] = Bb[0]\n").expect("a file");
    let (file, none) = (text(&file).to_owned(), dir.path().join("none"));
    let none = text(&none);
    let cases: &[(&[&str], &str)] = &[
        (&["tune", &file, "--format", "json"], "undefined-name"),
        (&["bench", &file, "--format", "json"], "undefined-name"),
        (&["space", &file, "--format", "json"], "undefined-name"),
        (&["print-trace", &file, "--format", "json"], "undefined-name"),
        (&["check", &file, "--format", "json"], "undefined-name"),
        (&["tune", MATMUL, "--func", "g", "--format", "json"], "usage"),
        (&["tune", "none.tir", "--format=json"], "usage"),
        (&["db", "list", "--work-dir", none, "--format", "json"], "usage"),
        (&["db", "top", "--work-dir", none, "--format", "json"], "usage"),
        (&["tune", MATMUL, "--trials", "many", "--format", "json"], "usage"),
    ];
    for (args, code) in cases {
        let r = run(args);
        let document = json(&r.out);
        assert_eq!((r.code, &document["exit_code"]), (2, &Value::from(2)), "{args:?}: {}", r.err);
        assert_eq!(document["diagnostics"][0]["code"], *code, "{args:?}: {}", r.out);
        assert!(args[0] == "check" || !r.err.is_empty(), "people are told as well");
    }
    // A result is the only document.
    let db = dir.path().join("db");
    let r = run(&["tune", MATMUL, "--frozen", "--work-dir", text(&db), "--format", "json"]);
    assert_eq!((r.code, &json(&r.out)["stop_reason"]), (1, &"frozen".into()));
}

#[test]
fn why_there_is_no_record() {
    let dir = dir();
    let (db, none) = (dir.path().join("db"), dir.path().join("none"));
    let args = ["tune", MATMUL, "--space", FIVE, "--trials", "4", "--work-dir", text(&db)];
    let r = succeeds(&args);
    let next = format!("`tvmr apply-best {MATMUL} --work-dir {}`", text(&db));
    assert!(r.err.contains(&next) && r.err.contains("--best`"), "{}", r.err);
    assert!(!succeeds(&[&args[..], &["--quiet"]].concat()).err.contains("next:"));
    assert!(!succeeds(&[&args[..], &["--format", "json"]].concat()).err.contains("next:"));
    let r = succeeds(&args);
    assert!(r.err.contains("continue with `--trials 68`"), "{}", r.err);

    let no_database = format!("there is no database in `{}`", text(&none));
    fails(&["bench", MATMUL, "--best", "--work-dir", text(&none)], 1, &no_database);
    fails(&["print-trace", MATMUL, "--work-dir", text(&none)], 1, &no_database);
    fails(&["bench", "workloads/gemv.tir", "--best", "--work-dir", text(&db)], 1, "has no record of this program");
    let r = run(&["bench", MATMUL, "--best", "--threads", "7", "--strict-fp", "--work-dir", text(&db)]);
    assert!(r.err.contains("there are records for ") && r.err.contains(", 1 thread, "), "{}", r.err);
    assert!(r.err.contains("fast floats; wanted: ") && r.err.contains("7 threads, strict floats"), "{}", r.err);
}

#[test]
fn a_space_that_refuses_everything_shows_where() {
    let dir = dir();
    let space = dir.path().join("bad.py");
    let body = "def f(sch):\n    i, j, k = sch.get_loops(sch.get_block(\"C\", \"main\"))\n    sch.sample_perfect_tile(j, n=2)\n    sch.split(j, factors=[3, 5])\n";
    fs::write(&space, body).expect("a file");
    let db = dir.path().join("db");
    let r = run(&["tune", MATMUL, "--space", text(&space), "--trials", "4", "--work-dir", text(&db)]);
    assert_eq!(r.code, 1, "{}", r.err);
    assert!(r.err.contains("the first refusal:") && r.err.contains("bad.py:4:9"), "{}", r.err);
    assert!(r.err.contains("factors cover 15 of the 128 iterations") && !r.err.contains("next:"), "{}", r.err);
}

#[test]
fn a_space_that_refuses_one_of_several_functions_shows_where() {
    let dir = dir();
    let (program, space) = (dir.path().join("two.tir"), dir.path().join("bad.py"));
    let function = |name: &str, n: i64| {
        format!(
            "    @T.prim_func\n    def {name}(A: T.Buffer(({n},)), B: T.Buffer(({n},))):\n        for i in range({n}):\n            with T.block(\"B\"):\n                vi = T.axis.spatial({n}, i)\n                B[vi] = A[vi] + 1.0\n"
        )
    };
    let module = |second: i64| {
        format!("@tvm.script.ir_module\nclass Module:\n{}{}", function("first", 15), function("second", second))
    };
    let body = "def f(sch):\n    i, = sch.get_loops(sch.get_block(\"B\"))\n    sch.sample_perfect_tile(i, n=2)\n    sch.split(i, factors=[3, 5])\n";
    fs::write(&space, body).expect("a file");
    let run = |second: i64, db: &str| {
        fs::write(&program, module(second)).expect("a file");
        let db = dir.path().join(db);
        run(&["tune", text(&program), "--space", text(&space), "--trials", "8", "--work-dir", text(&db)])
    };
    let one = run(128, "one");
    assert_eq!(one.code, 1, "{}", one.err);
    assert!(one.err.contains("the first refusal, of `second`:") && one.err.contains("bad.py:4:9"), "{}", one.err);
    assert!(one.err.contains("factors cover 15 of the 128 iterations"), "{}", one.err);
    let none = run(16, "none");
    assert_eq!(none.code, 1, "{}", none.err);
    assert!(none.err.contains("the first refusal, of `second`:"), "{}", none.err);

    // If no decision can succeed in any function, the command fails before measuring anything.
    fs::write(&space, "def f(sch):\n    sch.get_block(\"C\")\n").expect("a file");
    fs::write(&program, module(128)).expect("a file");
    let db = dir.path().join("hopeless");
    let args = ["tune", text(&program), "--space", text(&space), "--trials", "8", "--work-dir", text(&db)];
    let r = fails(&args, 2, "bad.py:2:9");
    assert!(r.err.contains("its blocks are"), "{}", r.err);
}

#[test]
fn the_list_of_a_database_is_aligned() {
    let dir = dir();
    let db = dir.path().join("db");
    for more in [&["--strict-fp"][..], &["--isa", "portable"]] {
        let args = ["tune", MATMUL, "--space", FIVE, "--trials", "1", "--quiet", "--work-dir", text(&db)];
        succeeds(&[&args[..], more].concat());
    }
    let r = succeeds(&["db", "list", "--work-dir", text(&db)]);
    let lines: Vec<&str> = r.out.lines().collect();
    let column = lines[0].find("isa").expect("a column");
    assert!(lines.iter().all(|l| l.as_bytes()[column - 1] == b' '), "{}", r.out);
    assert!(lines.iter().any(|l| l[column..].starts_with("portable  fast")), "{}", r.out);
    assert!(lines.iter().any(|l| l.contains("  strict  ")), "{}", r.out);
}
