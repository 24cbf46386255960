//! End-to-end tests of the command line: exit codes, output streams, damaged and missing files, interruption.

#![expect(clippy::disallowed_methods, reason = "measures time")]

#[path = "cli/apply.rs"]
mod apply;
#[path = "cli/build.rs"]
mod build;
#[path = "cli/build_shapes.rs"]
mod build_shapes;
#[path = "cli/emit.rs"]
mod emit;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/graph.rs"]
mod graph;
#[path = "cli/library.rs"]
mod library;
#[path = "cli/logs.rs"]
mod logs;
#[path = "cli/maintenance.rs"]
mod maintenance;
#[path = "cli/messages.rs"]
mod messages;
#[path = "cli/modules.rs"]
mod modules;
#[path = "cli/onnx.rs"]
mod onnx;
#[path = "cli/run.rs"]
mod run_on_arrays;
#[cfg(unix)]
#[path = "cli/stopping.rs"]
mod stopping;
#[path = "cli/te.rs"]
mod te;
#[path = "cli/weights.rs"]
mod weights;

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MATMUL: &str = "workloads/matmul.tir";
const FIVE: &str = "workloads/schedules/matmul_five.py";
const TILES: &str = "workloads/schedules/matmul_tiles.py";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn tvmr(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tvmr"));
    command.args(args).current_dir(root()).env_remove("RUST_LOG").env_remove("NO_COLOR");
    // Signals that the tests' own caller ignores, such as `nohup` does, would be ignored there too.
    let heed_signals = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            // SAFETY: it is safe between fork and exec, and sets no handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes the system call above.
    unsafe { command.pre_exec(heed_signals) };
    command
}

/// The result of a command.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn run(args: &[&str]) -> Ran {
    ran(tvmr(args).output().unwrap_or_else(|e| panic!("{args:?}: {e}")))
}

#[track_caller]
fn succeeds(args: &[&str]) -> Ran {
    let r = run(args);
    assert_eq!(r.code, 0, "{args:?}\n{}{}", r.out, r.err);
    r
}

/// Checks that the command fails with this code and message on standard error, and prints nothing to standard output.
#[track_caller]
fn fails(args: &[&str], code: i32, expected: &str) -> Ran {
    let r = run(args);
    assert_eq!(r.code, code, "{args:?}\n{}{}", r.out, r.err);
    assert!(r.err.contains(expected), "{args:?}: expected `{expected}` in\n{}", r.err);
    assert_eq!(r.out, "", "{args:?}");
    assert!(!r.err.contains("panicked"), "{}", r.err);
    r
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A database with measurements of the five programs of the small space, and the summary of that run.
fn tuned() -> (TempDir, PathBuf, Value) {
    let dir = dir();
    let db = dir.path().join("db");
    let r = succeeds(&["tune", MATMUL, "--space", FIVE, "--work-dir", text(&db), "--format", "json"]);
    let json = serde_json::from_str(&r.out).unwrap_or_else(|e| panic!("{e}: {}", r.out));
    (dir, db, json)
}

// ---- tune ------------------------------------------------------------------------------------------------------

#[test]
fn five_programs_are_measured_once() {
    let (_dir, db, json) = tuned();
    let fields = [
        "workload",
        "func",
        "hash",
        "trials",
        "valid",
        "errors",
        "rejected",
        "pruned",
        "resumed",
        "stop_reason",
        "distinct_programs",
        "weight",
        "baseline_us",
        "best_us",
        "weighted_us",
        "speedup",
        "baseline_is_best",
        "gflops",
        "peak_gflops",
        "peak_fraction",
        "bound_us",
        "bound_fraction",
        "elapsed_s",
        "trials_per_s",
        "breakdown_s",
        "failures",
        "sketches",
        "work_dir",
        "seed",
        "space",
        "strategy",
        "threads",
        "isa",
        "strict_fp",
        "checked",
        "target",
    ];
    let found: Vec<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(found, fields);
    let parts: Vec<&str> = json["breakdown_s"].as_object().expect("parts").keys().map(String::as_str).collect();
    assert_eq!(parts, ["space", "search", "compile", "measure", "check", "database"]);
    let counts = (&json["trials"], &json["valid"], &json["distinct_programs"]);
    assert_eq!(counts, (&5.into(), &5.into(), &5.into()), "{json:#}");
    assert_eq!((&json["stop_reason"], &json["checked"]), (&"space exhausted".into(), &true.into()));
    let number = |field: &str| json[field].as_f64().unwrap_or_else(|| panic!("{field}: {}", json[field]));
    assert!((number("gflops") - 2.0 * 128f64.powi(3) / number("best_us") / 1e3).abs() < 1e-6 * number("gflops"));
    assert!((number("speedup") - number("baseline_us") / number("best_us")).abs() < 1e-9 * number("speedup"));

    // The same command again, and with a larger total, measures nothing.
    let before = fs::read(db.join("database_tuning_record.json")).expect("the table");
    for trials in ["64", "5"] {
        let args = ["tune", MATMUL, "--space", FIVE, "--work-dir", text(&db), "--trials", trials];
        let r = succeeds(&args);
        assert!(r.out.contains("5 trials: 5 valid"), "{}", r.out);
        assert!(r.err.contains("all 5 trials were in the database already"), "{}", r.err);
    }
    assert!(run(&["tune", MATMUL, "--space", FIVE, "--work-dir", text(&db)]).err.contains("5 of 5 distinct programs"));
    assert_eq!(fs::read(db.join("database_tuning_record.json")).expect("the table"), before);
}

#[test]
fn the_budget_is_a_total_and_streams_are_apart() {
    let dir = dir();
    let db = dir.path().join("db");
    let tune = |trials: &str, more: &[&str]| {
        let args = ["tune", MATMUL, "--space", TILES, "--work-dir", text(&db), "--trials", trials];
        succeeds(&[&args[..], more].concat())
    };
    let quiet = tune("6", &["--quiet"]);
    // Other tests run at the same time, and warnings are not silenced.
    assert!(quiet.err.lines().all(|l| l.starts_with("warning: the machine is ")), "{}", quiet.err);
    assert!(quiet.out.starts_with("main: ") && quiet.out.contains("6 trials"), "{}", quiet.out);
    let verbose = tune("8", &["-v", "--jobs", "1"]);
    assert!(verbose.err.contains("6 of 8 trials are in the database"), "{}", verbose.err);
    let attempts = verbose.err.matches("sch.decompose_reduction").count();
    assert_eq!(attempts, 2, "every attempt is told with its trace:\n{}", verbose.err);
    // Output to a file has no bar and no colours.
    assert!(!verbose.err.contains('\x1b') && !verbose.out.contains('\x1b'));
    let limited = succeeds(&[
        "tune",
        MATMUL,
        "--space",
        "tvm",
        "--work-dir",
        text(&db),
        "--trials",
        "100000",
        "--max-seconds",
        "1.5",
    ]);
    assert!(limited.err.contains("time is up"), "{}", limited.err);
}

#[test]
fn several_functions_are_listed_with_totals() {
    let dir = dir();
    let file = dir.path().join("two.tir");
    let function = |name: &str, n: u32| {
        format!(
            "    @T.prim_func\n    def {name}(A: T.Buffer(({n},), \"float32\"), B: T.Buffer(({n},), \"float32\")):\n        \
             for i in range({n}):\n            with T.block(\"B\"):\n                vi = T.axis.spatial({n}, i)\n                \
             B[vi] = A[vi] * T.float32(2)\n"
        )
    };
    let functions = function("f", 64) + &function("g", 96) + &function("again", 64);
    fs::write(&file, format!("@I.ir_module\nclass Module:\n{functions}")).expect("a file");
    let space = dir.path().join("tiles.py");
    fs::write(&space, "def tiles(sch):\n    i, = sch.get_loops(sch.get_block(\"B\", \"main\"))\n    sch.split(i, sch.sample_perfect_tile(i, 2, 64))\n").expect("a file");
    let db = dir.path().join("db");
    let r = succeeds(&["tune", text(&file), "--space", text(&space), "--work-dir", text(&db), "--format", "json"]);
    let json: Value = serde_json::from_str(&r.out).expect("JSON");
    let names: Vec<&str> = json["tasks"].as_array().expect("tasks").iter().filter_map(|t| t["func"].as_str()).collect();
    assert_eq!(names, ["f", "g"]);
    let sum: u64 = json["tasks"].as_array().expect("tasks").iter().filter_map(|t| t["trials"].as_u64()).sum();
    assert_eq!(json["trials"].as_u64(), Some(sum));
    assert_eq!(json["stop_reason"], "space exhausted");
    // A function that occurs twice counts twice, and is measured once.
    let of = |i: usize, field: &str| json["tasks"][i][field].as_f64().unwrap_or_else(|| panic!("{field}: {json:#}"));
    assert_eq!((&json["tasks"][0]["same_as"][0], of(0, "weight"), of(1, "weight")), (&"again".into(), 2.0, 1.0));
    let weighted = of(0, "weighted_us") + of(1, "weighted_us");
    assert!((weighted - 2.0 * of(0, "best_us") - of(1, "best_us")).abs() < 1e-9, "{json:#}");
    assert!((weighted - json["weighted_us"].as_f64().expect("a number")).abs() < 1e-9, "{json:#}");
    assert!(of(0, "bound_us") > 0.0 && of(1, "bound_fraction") > 0.0);
    // The table and its totals.
    let head = "ID  name  FLOP  weight  GFLOP/s  of peak  of bound  latency µs  weighted µs  trials  done";
    assert!(r.err.contains(head) && r.err.contains(" trials, weighted latency "), "{}", r.err);
    assert!(!r.err.contains('\x1b'), "{}", r.err);
    let best = succeeds(&["apply-best", text(&file), "--work-dir", text(&db), "--frozen"]);
    assert!(best.out.contains("def f(") && best.out.contains("def g("), "{}", best.out);
    fails(&["print-trace", text(&file), "--work-dir", text(&db)], 2, "the program has several functions");
    succeeds(&["bench", text(&file), "--best", "--func", "g", "--work-dir", text(&db)]);
}

#[test]
fn a_search_can_begin_with_another_database() {
    let (dir, db, _) = tuned();
    let other = dir.path().join("other");
    let args =
        ["tune", MATMUL, "--space", TILES, "--trials", "6", "--work-dir", text(&other), "--seed-from", text(&db)];
    let r = succeeds(&args);
    assert!(r.err.contains("` has 5 schedules of `main`") || r.err.contains("` has 4 schedules"), "{}", r.err);
    let table = fs::read_to_string(other.join("database_tuning_record.json")).expect("the table");
    // The records of the other space have no tiles of `i`.
    let of_five = table.lines().filter(|l| l.matches("SamplePerfectTile").count() == 1).count();
    assert!(of_five >= 4, "{table}");
    // Replay from another database, without search.
    let third = dir.path().join("third");
    let args = ["tune", MATMUL, "--strategy", "replay", "--seed-from", text(&db), "--work-dir", text(&third)];
    assert!(succeeds(&args).err.contains("space exhausted"));
    let r = succeeds(&[
        "tune",
        "workloads/relu.tir",
        "--trials",
        "1",
        "--seed-from",
        text(&db),
        "--work-dir",
        text(&other),
    ]);
    assert!(r.err.contains("has no schedule of `main`"), "{}", r.err);
    let none = dir.path().join("none");
    let args = ["tune", MATMUL, "--seed-from", text(&none), "--work-dir", text(&other)];
    let r = fails(&args, 2, "there is no database in `");
    assert!(r.err.contains("--work-dir"), "{}", r.err);
}

#[test]
fn no_valid_schedule_says_why() {
    let dir = dir();
    let space = dir.path().join("refused.py");
    fs::write(&space, "def f(sch):\n    i, j, k = sch.get_loops(sch.get_block(\"C\"))\n    sch.fuse(i, k)\n")
        .expect("a file");
    let db = dir.path().join("db");
    let args = ["tune", MATMUL, "--space", text(&space), "--work-dir", text(&db), "--trials", "4"];
    let r = run(&args);
    assert_eq!(r.code, 1, "{}", r.err);
    assert!(r.err.contains("no valid schedule for `main`: the space refused all "), "{}", r.err);
    assert!(r.err.contains("schedule, fuse: "), "{}", r.err);
}

#[test]
fn unchecked_results_are_loud() {
    let dir = dir();
    let db = dir.path().join("db");
    let args = ["tune", MATMUL, "--space", FIVE, "--trials", "1", "--no-check", "--quiet", "--work-dir", text(&db)];
    let r = succeeds(&args);
    assert_eq!(r.err.matches("compared with the reference").count(), 2, "{}", r.err);
    assert!(r.out.contains("results were NOT checked"), "{}", r.out);
    let best = succeeds(&["apply-best", MATMUL, "--work-dir", text(&db)]);
    assert!(best.err.contains("not checked"), "{}", best.err);
}

#[test]
fn frozen_never_measures() {
    let (dir, db, _) = tuned();
    let none = dir.path().join("none");
    fails(&["tune", MATMUL, "--frozen", "--work-dir", text(&none)], 1, "no record for `main` on this target");
    assert!(!none.exists());
    fails(&["apply-best", MATMUL, "--frozen", "--work-dir", text(&none)], 1, "no record for `main`");
    succeeds(&["tune", MATMUL, "--frozen", "--work-dir", text(&db)]);
    fails(&["tune", MATMUL, "--frozen", "--strict-fp", "--work-dir", text(&db)], 1, "no record for `main`");
    let r = succeeds(&["tune", MATMUL, "--frozen", "--work-dir", text(&db), "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&r.out).expect("JSON")["stop_reason"], "frozen");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let dir = dir();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let db = dir.path().join(signal);
        let args = ["tune", MATMUL, "--space", TILES, "--work-dir", text(&db), "--trials", "100000"];
        let child = tvmr(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let table = db.join("database_tuning_record.json");
        let start = Instant::now();
        while fs::read_to_string(&table).map_or(0, |t| t.lines().count()) < 5 {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing is recorded");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("kill").success());
        let r = ran(child.wait_with_output().expect("an end"));
        assert_eq!(r.code, code, "{}", r.err);
        assert!(r.err.contains("interrupted after ") && r.err.contains("resumes from there"), "{}", r.err);
        assert!(r.out.contains(" trials: "), "{}", r.out);
        let after: usize = fs::read_to_string(&table).expect("the table").lines().count();
        assert!(after > 5);
        succeeds(&["db", "verify", "--work-dir", text(&db)]);
        let more = (after + 3).to_string();
        let r = succeeds(&["tune", MATMUL, "--space", TILES, "--work-dir", text(&db), "--trials", &more]);
        assert!(r.err.contains("going on"), "{}", r.err);
    }
}

#[test]
fn candidates_do_not_depend_on_jobs() {
    let dir = dir();
    let programs = |jobs: &str| {
        let db = dir.path().join(jobs);
        succeeds(&[
            "tune",
            MATMUL,
            "--space",
            TILES,
            "--work-dir",
            text(&db),
            "--trials",
            "12",
            "--seed",
            "7",
            "--jobs",
            jobs,
        ]);
        let table = fs::read_to_string(db.join("database_tuning_record.json")).expect("the table");
        let extra = |line: &str| serde_json::from_str::<Value>(line).expect("a record")[2].take();
        let mut trials: Vec<Value> = table.lines().map(extra).filter(|e| e["role"] == "trial").collect();
        // A result that waited for its verdict is recorded later than its successors.
        trials.sort_by_key(|e| e["trial"].as_u64());
        trials.iter().map(|e| e["program"].as_str().expect("a hash").to_owned()).collect::<Vec<_>>()
    };
    let one = programs("1");
    assert_eq!(one.len(), 12);
    assert_eq!(programs("3"), one);
}

const BLOCK: &str = "workloads/transformer_block.tir";

#[test]
fn a_short_time_is_kept_to_with_several_functions() {
    let dir = dir();
    let db = dir.path().join("db");
    let start = Instant::now();
    // More trials than any machine measures in a second; in much less, a busy one may have no valid trial.
    let limits = ["--max-seconds", "1", "--trials", "1000000"];
    let r = succeeds(&[&["tune", BLOCK, "--work-dir", text(&db), "--format", "json"], &limits[..]].concat());
    // The finals of four functions add to the time.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let json: Value = serde_json::from_str(&r.out).expect("JSON");
    assert_eq!(json["stop_reason"], "time is up", "{json:#}");
    // Too few trials for all functions are not an error.
    let r = succeeds(&["tune", BLOCK, "--trials", "1", "--work-dir", text(&dir.path().join("one"))]);
    assert!(r.out.contains("not measured") && r.out.contains("  1 trial: 1 valid"), "{}", r.out);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_of_several_functions_ends_well() {
    let dir = dir();
    let db = dir.path().join("db");
    let args = ["tune", BLOCK, "--work-dir", text(&db), "--trials", "100000", "--format", "json"];
    let child = tvmr(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let table = db.join("database_tuning_record.json");
    let start = Instant::now();
    while fs::read_to_string(&table).map_or(0, |t| t.lines().count()) < 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is recorded");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().expect("kill").success());
    let r = ran(child.wait_with_output().expect("an end"));
    assert_eq!(r.code, 130, "{}", r.err);
    let json: Value = serde_json::from_str(&r.out).expect("JSON, although it was interrupted");
    let trials = |t: &Value| t["trials"].as_u64().expect("a number");
    let sum: u64 = json["tasks"].as_array().expect("tasks").iter().map(trials).sum();
    assert_eq!((trials(&json), &json["stop_reason"]), (sum, &"interrupted".into()));
    succeeds(&["db", "verify", "--work-dir", text(&db)]);
}

#[test]
fn two_tuners_share_a_database() {
    let dir = dir();
    let db = dir.path().join("db");
    let start = |seed: &str| {
        let args = ["tune", MATMUL, "--space", TILES, "--trials", "60", "--work-dir", text(&db), "--seed", seed];
        tvmr(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
    };
    for child in [start("1"), start("2")] {
        let r = ran(child.wait_with_output().expect("an end"));
        assert_eq!(r.code, 0, "{}", r.err);
    }
    succeeds(&["db", "verify", "--work-dir", text(&db)]);
    let list = succeeds(&["db", "list", "--work-dir", text(&db), "--format", "json"]);
    let list: Value = serde_json::from_str(&list.out).expect("JSON");
    // Each process sees the other's records after its own rounds, so the last ones may exceed the total.
    let trials = list["workloads"][0]["trials"].as_u64().expect("a number");
    assert!((60..60 + 32).contains(&trials), "{list:#}");
}

// ---- space -----------------------------------------------------------------------------------------------------

#[test]
fn a_space_is_printed_as_what_may_be_decided() {
    // Seven splits of 128 in two, with inner factors up to 16.
    let r = succeeds(&["space", MATMUL, "--space", FIVE]);
    assert!(
        r.out.starts_with("# main: sketch 1 of 1: 5 combinations of decisions; 0 of 64 samples refused\n"),
        "{}",
        r.out
    );
    let tile = r.out.lines().find(|l| l.contains("sample_perfect_tile")).expect("an instruction that samples");
    assert!(tile.ends_with("  # 5 choices") && !tile.contains("decision"), "{tile}");
    assert!(r.err.contains("main: 1 sketch, 5 combinations of decisions, 0 seeds"), "{}", r.err);

    // The output is itself a valid space.
    let dir = dir();
    let file = dir.path().join("space.py");
    fs::write(&file, &r.out).expect("a file");
    assert_eq!(succeeds(&["space", MATMUL, "--space", text(&file)]).out, r.out);

    let r = succeeds(&["space", MATMUL, "--space", "tvm", "--format", "json", "--samples", "16"]);
    let json: Value = serde_json::from_str(&r.out).expect("JSON");
    let sketches = json["sketches"].as_array().expect("sketches");
    assert!(!sketches.is_empty() && json["n_seeds"].is_u64(), "{json:#}");
    for sketch in sketches {
        let sampling = sketch["trace"].as_str().expect("a trace").matches("sch.sample_").count();
        assert_eq!(sketch["choices"].as_array().expect("choices").len(), sampling, "{sketch:#}");
        assert!(sketch["combinations"].as_f64() >= Some(1.0) && sketch["samples"] == 16, "{sketch:#}");
    }
    let again = succeeds(&["space", MATMUL, "--space", "tvm", "--format", "json", "--samples", "16"]);
    assert_eq!(again.out, r.out);

    fails(&["space", MATMUL, "--space", "atuo"], 2, "there is no space `atuo`");
    fails(&["space", MATMUL, "--func", "mian"], 2, "there is `main`");
    fails(&["space", "workloads/symbolic_matmul.tir"], 2, "--bind");
}

// ---- what was tuned --------------------------------------------------------------------------------------------

#[test]
fn what_was_tuned_is_printed_applied_and_timed_again() {
    let dir = dir();
    let db = dir.path().join("db");
    let db = text(&db);
    // Any register tile is faster than the program as written.
    let r = succeeds(&["tune", MATMUL, "--trials", "16", "--work-dir", db, "--format", "json"]);
    let json: Value = serde_json::from_str(&r.out).expect("JSON");
    let best = succeeds(&["apply-best", MATMUL, "--work-dir", db]);
    assert!(!best.out.contains("T.grid(128, 128, 128)") && best.err.contains("µs"), "{}{}", best.out, best.err);
    let trace = succeeds(&["print-trace", MATMUL, "--work-dir", db]);
    assert!(trace.out.contains("sch.split("), "{}", trace.out);
    // The trace gives the same program as text, as JSON, and as a space.
    let file = dir.path().join("trace.py");
    fs::write(&file, &trace.out).expect("a file");
    assert_eq!(succeeds(&["apply", MATMUL, "--trace", text(&file)]).out, best.out);
    let as_json = succeeds(&["print-trace", MATMUL, "--work-dir", db, "--format", "json"]);
    let json_file = dir.path().join("trace.json");
    fs::write(&json_file, &as_json.out).expect("a file");
    assert_eq!(succeeds(&["apply", MATMUL, "--trace", text(&json_file)]).out, best.out);
    let other = text(dir.path()).to_owned() + "/other";
    let r = succeeds(&["tune", MATMUL, "--space", text(&file), "--work-dir", &other]);
    assert!(r.err.contains("1 of 1 distinct programs"), "{}", r.err);

    let bench = succeeds(&["bench", MATMUL, "--best", "--work-dir", db, "--format", "json"]);
    let bench: Value = serde_json::from_str(&bench.out).expect("JSON");
    let fields: Vec<&str> = bench.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "func",
        "us",
        "min_us",
        "gflops",
        "gbs",
        "peak_gflops",
        "peak_fraction",
        "isa_peak_gflops",
        "isa_peak_fraction",
        "roofline_fraction",
        "bound_us",
        "bound_by",
        "operations_us",
        "functions",
        "bytes",
        "level",
        "level_gbs",
        "traffic_us",
        "compile_us",
        "prepared",
        "prepare_us",
        "checked",
        "isa",
        "threads",
        "busy_cores",
    ];
    assert_eq!(fields, expected);
    assert_eq!((&bench["checked"], &bench["threads"], &bench["isa"]), (&true.into(), &1.into(), &json["isa"]));
    let narrow = succeeds(&["bench", MATMUL, "--isa", "portable", "--format", "json"]);
    let narrow: Value = serde_json::from_str(&narrow.out).expect("JSON");
    let peak = |field: &str| narrow[field].as_f64();
    if let Some(own) = peak("isa_peak_gflops") {
        assert!(own < 0.8 * peak("peak_gflops").expect("a peak"), "{narrow:#}");
        assert!(peak("isa_peak_fraction") > peak("peak_fraction"), "{narrow:#}");
    } else {
        assert_eq!(json["isa"], "portable", "only the widest vectors have no peak of their own");
    }
    let human = succeeds(&["bench", MATMUL, "--trace", text(&file)]);
    assert!(human.out.contains("GFLOP/s") && human.out.contains("result checked"), "{}", human.out);

    fails(&["print-trace", MATMUL, "--work-dir", db, "--rank", "99"], 1, "no record of rank 99");
    fails(&["print-trace", MATMUL, "--work-dir", db, "--threads", "7"], 1, "no record for `main`");
    let out = dir.path().join("best.tir");
    assert_eq!(succeeds(&["apply-best", MATMUL, "--work-dir", db, "-o", text(&out)]).out, "");
    assert_eq!(fs::read_to_string(&out).expect("the output"), best.out);
    fails(&["apply-best", MATMUL, "--work-dir", db, "-o", "/nowhere/best.tir"], 3, "cannot write `/nowhere/best.tir`");
}

#[test]
fn constant_parameters_are_prepared_outside_of_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = dir.path().join("trace.py");
    let copy = "def f(sch):
    dense = sch.get_block(\"dense\", \"main\")
    copy = sch.cache_read(dense, 1, \"global\")
    sch.annotate(copy, \"meta_schedule.layout_rewrite_preproc\", True)
    sch.transform_layout(dense, (\"read\", 1), lambda n, k: (n // 32, k, n % 32))
";
    std::fs::write(&trace, copy).expect("it can be written");
    let bench = |trace: &[&str]| {
        let args = [&["bench", "workloads/linear_weight.tir", "--format", "json"], trace].concat();
        let bench: Value = serde_json::from_str(&succeeds(&args).out).expect("JSON");
        assert_eq!(bench["checked"], true);
        (bench["prepared"].clone(), bench["prepare_us"].as_f64())
    };
    assert_eq!(bench(&[]), (false.into(), None));
    let (prepared, us) = bench(&["--trace", text(&trace)]);
    assert_eq!(prepared, true);
    assert!(us.is_some_and(|us| us > 0.0), "{us:?}");
}

#[test]
fn what_tvm_does_not_take_of_a_trace_is_marked() {
    let dir = dir();
    let (db, space) = (dir.path().join("db"), dir.path().join("ours.py"));
    let program = "workloads/matmul_relu.tir";
    fs::write(
        &space,
        "def ours(sch):
    y = sch.get_block(\"Y\", \"main\")
    i, j, k = sch.get_loops(y)
    j0, j1 = sch.split(j, [None, 64])
    sch.reorder(i, j0, k, j1)
    sch.annotate(y, \"note\", [[1], 2])
    sch.transform_layout(y, (\"write\", 0), lambda a, b: (a, b))
",
    )
    .expect("a file");
    let with = |args: &[&str]| succeeds(&[args, &[program, "--work-dir", text(&db)]].concat());
    with(&["tune", "--space", text(&space)]);
    let rank = (1..=2).map(|r| r.to_string()).find(|rank| with(&["print-trace", "--rank", rank]).out.contains("split"));
    let rank = rank.expect("the schedule is the first or, behind the program as written, the second");
    let python = with(&["print-trace", "--rank", &rank]);
    let marked: Vec<usize> =
        python.out.lines().enumerate().filter(|(_, l)| l.ends_with("  # not in TVM")).map(|(i, _)| i + 1).collect();
    let [line] = marked[..] else { panic!("{}", python.out) };
    assert!(python.out.lines().nth(line - 1).is_some_and(|l| l.contains("annotate")), "{}", python.out);
    assert!(python.err.contains(&format!("line {line} does not replay in TVM 0.27")), "{}", python.err);
    // In JSON it is marked as well; the index map has TVM's form.
    let json = with(&["print-trace", "--rank", &rank, "--format", "json"]);
    assert_eq!(json.err.matches("does not replay in TVM 0.27").count(), 1, "{}", json.err);
    // A comment has no effect.
    let file = dir.path().join("trace.py");
    fs::write(&file, &python.out).expect("a file");
    succeeds(&["apply", program, "--trace", text(&file)]);
}

#[test]
fn the_database_is_shown_and_verified() {
    let (_dir, db, json) = tuned();
    let list = succeeds(&["db", "list", "--work-dir", text(&db), "--format", "json"]);
    let list: Value = serde_json::from_str(&list.out).expect("JSON");
    assert_eq!((&list["workloads"][0]["hash"], &list["workloads"][0]["trials"]), (&json["hash"], &5.into()));
    assert!(succeeds(&["db", "list", "--work-dir", text(&db)]).out.contains("main"));
    let top = succeeds(&["db", "top", "0", "-k", "3", "--work-dir", text(&db), "--format", "json"]);
    let top: Value = serde_json::from_str(&top.out).expect("JSON");
    assert_eq!(top.as_array().map(Vec::len), Some(3));
    let us = |v: &Value| v.as_f64().expect("a number");
    assert!((us(&top[0]["us"]) - us(&json["best_us"])).abs() < 1e-6, "the best is what was reported");
    fails(&["db", "top", "17", "--work-dir", text(&db)], 2, "the database has no workload `17`");
    succeeds(&["db", "verify", "--work-dir", text(&db)]);

    // A damaged line is reported and skipped, and causes no error.
    let path = db.join("database_tuning_record.json");
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("the table");
    file.write_all(b"[0, [\"torn").expect("a torn line");
    drop(file);
    let best = succeeds(&["apply-best", MATMUL, "--work-dir", text(&db)]);
    assert!(best.err.contains("the line is skipped"), "{}", best.err);
    let r = run(&["db", "verify", "--work-dir", text(&db)]);
    assert_eq!(r.code, 1);
    assert!(r.out.contains("torn") && r.err.contains("1 problem"), "{}{}", r.out, r.err);
    let r = succeeds(&["tune", MATMUL, "--space", TILES, "--work-dir", text(&db), "--trials", "7"]);
    assert!(r.out.contains("7 trials"), "{}", r.out);
}

#[test]
fn the_program_as_written_may_be_the_best() {
    let dir = dir();
    let db = dir.path().join("db");
    let space = dir.path().join("slow.py");
    // A schedule function that changes nothing.
    fs::write(&space, "def slow(sch):\n    i, = sch.get_loops(sch.get_block(\"relu\"))\n").expect("a file");
    let program = dir.path().join("copy.tir");
    fs::write(
        &program,
        "@T.prim_func\ndef copy(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")):\n    for i in range(64):\n        \
         with T.block(\"relu\"):\n            vi = T.axis.spatial(64, i)\n            B[vi] = A[vi]\n",
    )
    .expect("a file");
    let r = succeeds(&["tune", text(&program), "--space", text(&space), "--work-dir", text(&db)]);
    assert!(r.out.contains("the program as written is the fastest"), "{}", r.out);
    let best = succeeds(&["apply-best", text(&program), "--work-dir", text(&db)]);
    assert!(best.err.contains("the program as written is the fastest known"), "{}", best.err);
    assert!(best.out.contains("def copy("));
}

// ---- the other commands ----------------------------------------------------------------------------------------

#[test]
fn check_and_fmt() {
    let r = succeeds(&["check", MATMUL]);
    assert_eq!(r.out, "");
    assert!(r.err.contains("1 function well formed"), "{}", r.err);
    assert_eq!(succeeds(&["check", MATMUL, "--quiet"]).err, "");
    let r = succeeds(&["fmt", MATMUL]);
    assert!(r.out.contains("for i, j, k in T.grid(128, 128, 128)"), "{}", r.out);
    fails(&["fmt", MATMUL, "--check"], 1, "is not in canonical form");
    let r = succeeds(&["fmt", MATMUL, "--dialect", "current"]);
    assert!(r.out.contains("T.sblock"), "{}", r.out);
}

#[test]
fn help_and_version_are_results() {
    for args in [&["--help"][..], &["tune", "--help"], &["bench", "--help"], &["--version"]] {
        let r = succeeds(args);
        assert!(!r.out.is_empty() && r.err.is_empty(), "{args:?}");
    }
}

#[test]
fn wrong_arguments_are_told() {
    let none = "/nowhere/db";
    let cases: &[(&[&str], &str)] = &[
        (&["tun", MATMUL], "unrecognized subcommand 'tun'"),
        (&["tune"], "required arguments were not provided"),
        (&["tune", MATMUL, "--trials", "0"], "expected a whole number from 1"),
        (&["tune", MATMUL, "--trials", "many"], "expected a whole number from 1"),
        (&["tune", MATMUL, "--threads", "0"], "expected a number from 1 to 1024, or `all`"),
        (&["tune", MATMUL, "--jobs=-1"], "expected a whole number from 1"),
        (&["tune", MATMUL, "--max-seconds=-3"], "expected a number of seconds greater than 0"),
        (&["tune", MATMUL, "--max-seconds", "nan"], "expected a number of seconds greater than 0"),
        (&["tune", MATMUL, "--patience", "1.5"], "expected a share between 0 and 1"),
        (&["tune", MATMUL, "--strategy", "guess"], "possible values: evolutionary, random, replay"),
        (&["tune", MATMUL, "--isa", "sse9"], "expected one of `portable`"),
        (&["tune", MATMUL, "--space", "atuo"], "there is no space `atuo`"),
        (&["tune", MATMUL, "--trails", "3"], "a similar argument exists: '--trials'"),
        (&["tune", MATMUL, "--seed-from", "Cargo.toml", "--work-dir", none], "`Cargo.toml` is not a directory"),
        (&["space", MATMUL, "--samples", "0"], "expected a whole number from 1 to 100000"),
        (&["tune", MATMUL, "--space", "workloads/schedules/matmul_fiv.py"], "matmul_five.py"),
        (&["tune", MATMUL, "--func", "mian"], "there is `main`"),
        (&["tune", MATMUL, "--bind", "n"], "expected `name=value`"),
        (&["tune", MATMUL, "--bind", "n=x"], "expected an integer, found `x`"),
        (&["tune", MATMUL, "--target", "/nowhere/machine.json"], "/nowhere/machine.json"),
        (&["tune", "workloads/matmull.tir"], "matmul.tir"),
        (&["tune", "workloads"], "`workloads` is a directory"),
        (&["tune", "workloads/symbolic_matmul.tir", "--work-dir", none], "give them values with `--bind`"),
        (&["bench", MATMUL, "--best", "--trace", FIVE], "cannot be used with"),
        (&["bench", MATMUL, "--trace", "nothing.py"], "cannot read `nothing.py`"),
        (&["bench", "-", "--trace", "-"], "cannot both come from standard input"),
        (&["print-trace", MATMUL, "--rank", "0"], "expected a whole number from 1"),
        (&["apply", MATMUL], "--trace <FILE>"),
        (&["check", "Cargo.toml"], "error"),
        (&["db", "list", "--format", "xml"], "possible values: human, json"),
    ];
    for (args, expected) in cases {
        fails(args, 2, expected);
    }
}

#[test]
fn wrong_files_are_told() {
    let dir = dir();
    let write = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("a file");
        text(&path).to_owned()
    };
    let db = text(dir.path()).to_owned() + "/db";
    let program = write("broken.tir", b"@T.prim_func\ndef f(A: T.Buffer((4,), \"float32\")):\n    B[0] = 1\n");
    fails(&["tune", &program, "--work-dir", &db], 2, "undefined");
    fails(&["check", &write("binary.tir", &[0xff, 0xfe, 0, 1])], 2, "UTF-8");
    fails(&["check", &write("empty.tir", b"")], 2, "error");
    let space = write("broken.py", b"def f(sch):\n    sch.splitt(1)\n");
    fails(&["tune", MATMUL, "--space", &space, "--work-dir", &db], 2, "split");
    let space = write("wrong.py", b"def f(sch):\n    sch.get_block(\"D\", \"main\")\n");
    fails(&["tune", MATMUL, "--space", &space, "--work-dir", &db], 2, "has no block `D`");
    let trace = write("trace.json", b"[[], [");
    fails(&["apply", MATMUL, "--trace", &trace], 2, "error");
    let target = write("target.json", b"{\"format\": 1}");
    fails(&["tune", MATMUL, "--target", &target, "--work-dir", &db], 2, "error");
    // The work directory is a file, or cannot be created.
    let file = write("file", b"");
    fails(&["tune", MATMUL, "--work-dir", &file], 3, "it is not a directory");
    fails(&["tune", MATMUL, "--work-dir", "/proc/nowhere/db"], 3, "error");
    fails(&["db", "list", "--work-dir", &file], 3, "it is not a directory");
    assert!(!Path::new(&db).exists(), "nothing is made before the input is known to be right");
}

#[test]
fn missing_databases_are_told() {
    let dir = dir();
    let none = text(dir.path()).to_owned() + "/none";
    let r = succeeds(&["apply-best", MATMUL, "--work-dir", &none]);
    assert!(
        r.err.contains("no record for `main` on this target: there is no database in `")
            && r.err.contains("; printed as written"),
        "{}",
        r.err
    );
    fails(&["print-trace", MATMUL, "--work-dir", &none], 1, "no record for `main`");
    fails(&["bench", MATMUL, "--best", "--work-dir", &none], 1, "no record for `main`");
    assert!(!Path::new(&none).exists(), "reading makes no database");
}

#[test]
fn a_closed_pipe_is_no_error() {
    for args in [&["fmt", MATMUL][..], &["--help"], &["apply", MATMUL, "--trace", FIVE], &["space", MATMUL]] {
        let mut child = tvmr(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        // The reader closes the pipe before anything is written.
        drop(child.stdout.take());
        let r = ran(child.wait_with_output().expect("an end"));
        assert_eq!(r.code, 0, "{args:?}: {}", r.err);
        assert!(!r.err.contains("panicked") && !r.err.contains("pipe"), "{args:?}: {}", r.err);
    }
}

#[test]
fn standard_input_is_a_file() {
    let mut child =
        tvmr(&["fmt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the command starts");
    let program = fs::read(root().join(MATMUL)).expect("the workload");
    child.stdin.take().expect("a pipe").write_all(&program).expect("the program is read");
    let r = ran(child.wait_with_output().expect("an end"));
    assert_eq!(r.out, succeeds(&["fmt", MATMUL]).out);
}

#[test]
fn colours_are_for_terminals() {
    let wrong = ["check", "Cargo.toml"];
    assert!(!run(&wrong).err.contains('\x1b'));
    let r = run(&["check", "Cargo.toml", "--color", "always"]);
    assert!(r.err.contains('\x1b'), "{}", r.err);
}
