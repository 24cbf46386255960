//! Ending early: time limits and signals take effect at any time, with inputs that keep a run busy.

use super::{MATMUL, Ran, TILES, dir, ran, run, succeeds, text, tvmr};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tolerance beyond the half second after a signal and the second after a time limit. On an idle machine none is
/// needed. But tests run concurrently on all cores, in a build that checks every step, and a process of some hundred
/// megabytes may wait several hundred milliseconds for CPU time until it has ended.
const BUSY: Duration = Duration::from_millis(1500);

/// Many blocks that read one buffer and write another.
fn many_blocks(n: usize) -> String {
    let mut text = "@T.prim_func\ndef main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):\n".to_string();
    for i in 0..n {
        let column = i % 8;
        let _ = write!(
            text,
            "    for i in range(8):\n        with T.block(\"b{i}\"):\n            vi = T.axis.spatial(8, i)\n            B[vi, {column}] = A[vi, {column}] + {i}.0\n"
        );
    }
    text
}

/// Many functions, no two of which are equal.
fn many_functions(n: usize) -> String {
    let mut text = "@tvm.script.ir_module\nclass Module:\n".to_string();
    for i in 0..n {
        let _ = write!(
            text,
            "    @T.prim_func\n    def f{i}(A: T.Buffer((8,)), B: T.Buffer((8,))):\n        for i in range(8):\n            with T.block(\"B\"):\n                vi = T.axis.spatial(8, i)\n                B[vi] = A[vi] + {i}.0\n"
        );
    }
    text
}

/// A block with many statements: fast for everything that handles one at a time, slow for the compiler.
fn many_statements(n: usize) -> String {
    let mut text = format!(
        "@T.prim_func\ndef main(A: T.Buffer((16, {n})), B: T.Buffer((16, {n}))):\n    for i in range(16):\n        with T.block(\"B\"):\n            vi = T.axis.spatial(16, i)\n"
    );
    for i in 0..n {
        let _ = writeln!(text, "            B[vi, {i}] = A[vi, {i}] + {i}.0");
    }
    text
}

const LARGE: &str = "@T.prim_func
def main(A: T.Buffer((67108864,)), B: T.Buffer((67108864,))):
    for i in range(67108864):
        with T.block(\"B\"):
            vi = T.axis.spatial(67108864, i)
            B[vi] = A[vi] * T.float32(2)
";

/// A single candidate takes forever: every copy examines all earlier copies.
const LONG: &str = "def f(sch):
    for n in range(3000):
        sch.cache_read(sch.get_block(\"C\", \"main\"), 0, \"local\")
";

/// A loop that only counts.
const COUNTING: &str = "def f(sch):
    for n in range(400000):
        m = n + 1
    sch.get_loops(sch.get_block(\"C\", \"main\"))
";

/// Inputs that keep a run busy before, during and after its search.
fn hostile(dir: &Path) -> Vec<Vec<String>> {
    let file = |name: &str, content: &str| {
        let path = dir.join(name);
        fs::write(&path, content).expect("a file");
        text(&path).to_owned()
    };
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    vec![
        words(&[&file("blocks.tir", &many_blocks(800))]),
        words(&[&file("functions.tir", &many_functions(2000))]),
        words(&[&file("statements.tir", &many_statements(4000))]),
        // Reading, checking and storing it takes longer than the time limit.
        words(&[&file("lines.tir", &many_blocks(20_000))]),
        words(&[&file("large.tir", LARGE)]),
        words(&[MATMUL, "--space", &file("long.py", LONG)]),
        words(&[MATMUL, "--space", &file("counting.py", COUNTING)]),
        words(&[MATMUL, "--threads", "2"]),
    ]
}

#[test]
fn a_time_limit_holds_everywhere() {
    let dir = dir();
    for (i, input) in hostile(dir.path()).into_iter().enumerate() {
        let db = dir.path().join(format!("db{i}"));
        let mut args = vec!["tune", "--max-seconds", "1", "--trials", "100000", "--quiet", "--work-dir", text(&db)];
        args.extend(input.iter().map(String::as_str));
        let start = Instant::now();
        let r = run(&args);
        let took = start.elapsed();
        assert!(r.code == 0 || r.code == 1, "{input:?}: {}", r.err);
        assert!(took < Duration::from_secs(2) + BUSY, "{input:?} took {took:?}");
    }
}

/// Starts a run, sends it a signal after a while, and returns how it ended and the time that took.
fn signalled(args: &[&str], signal: &str, after: Duration) -> (Ran, Option<i32>, Duration) {
    signalled_when(args, signal, || std::thread::sleep(after))
}

/// Starts a run, sends it a signal when `moment` returns, and returns how it ended and the time that took.
fn signalled_when(args: &[&str], signal: &str, moment: impl FnOnce()) -> (Ran, Option<i32>, Duration) {
    use std::os::unix::process::ExitStatusExt;
    let child = tvmr(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    moment();
    let pid = child.id().to_string();
    let sent = Instant::now();
    // The process may have ended by itself.
    let _ = Command::new("kill").args(["-s", signal, &pid]).stderr(Stdio::null()).status();
    let output = child.wait_with_output().expect("an end");
    let took = sent.elapsed();
    let by = output.status.signal();
    (ran(output), by, took)
}

#[test]
fn the_first_signal_ends_a_run_at_any_moment() {
    let dir = dir();
    for (i, input) in hostile(dir.path()).into_iter().enumerate() {
        for moment in 0..4u64 {
            let db = dir.path().join(format!("db{i}-{moment}"));
            let mut args = vec!["tune", "--trials", "100000", "--work-dir", text(&db)];
            args.extend(input.iter().map(String::as_str));
            // Different delays for all cases, up to a second.
            let after = Duration::from_millis(40 + (moment * 389 + i as u64 * 97) % 1000);
            let (r, by, took) = signalled(&args, "INT", after);
            assert!(r.code == 130 || by == Some(2), "{input:?} after {after:?}: {} {by:?} {}", r.code, r.err);
            assert!(took < Duration::from_millis(500) + BUSY, "{input:?} after {after:?} took {took:?}");
        }
    }
}

#[test]
fn every_signal_has_its_exit_code_and_keeps_the_records() {
    let dir = dir();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let db = dir.path().join(signal);
        // A space too large to finish before the signal.
        let args = ["tune", MATMUL, "--space", TILES, "--trials", "1000000", "--work-dir", text(&db)];
        let records = db.join("database_tuning_record.json");
        let start = Instant::now();
        let (r, by, took) = signalled_when(&args, signal, || {
            while fs::metadata(&records).map_or(0, |m| m.len()) == 0 && start.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!((r.code, by), (code, None), "{signal}: {}", r.err);
        assert!(took < Duration::from_millis(500) + BUSY, "{signal}: {took:?}");
        assert!(r.err.contains("interrupted"), "{signal}: {}", r.err);
        succeeds(&["db", "verify", "--work-dir", text(&db)]);
        let listed = succeeds(&["db", "list", "--format", "json", "--work-dir", text(&db)]);
        let listed: serde_json::Value = serde_json::from_str(&listed.out).expect("JSON");
        let trials = listed["workloads"][0]["trials"].as_u64();
        assert!(trials.is_some_and(|n| n > 0), "{signal}: {listed}");
    }
}

#[test]
fn a_time_limit_that_is_up_before_anything_is_measured_is_told_as_json() {
    let dir = dir();
    let path = dir.path().join("lines.tir");
    fs::write(&path, many_blocks(20_000)).expect("a file");
    let db = dir.path().join("db");
    let args = ["tune", text(&path), "--max-seconds", "0.1", "--format", "json", "--work-dir", text(&db)];
    let start = Instant::now();
    let r = run(&args);
    let took = start.elapsed();
    assert_eq!(r.code, 1, "{}", r.err);
    assert!(took < Duration::from_millis(1100) + BUSY, "{took:?}");
    let said: serde_json::Value = serde_json::from_str(&r.out).expect("JSON");
    assert_eq!(said["exit_code"], 1, "{said}");
    assert!(r.err.contains("time"), "{}", r.err);
}

/// The duration of a command: the shorter of two tries, since other processes only make it longer.
fn least_time(args: &[&str], code: i32) -> Duration {
    let once = || {
        let start = Instant::now();
        let r = run(args);
        assert_eq!(r.code, code, "{args:?}: {}", r.err.chars().take(500).collect::<String>());
        start.elapsed()
    };
    once().min(once())
}

#[test]
fn comments_and_mistakes_cost_time_in_proportion() {
    let dir = dir();
    let head = "@T.prim_func\ndef main(A: T.Buffer((16,))):\n    for i in range(16):\n        with T.block(\"B\"):\n            vi = T.axis.spatial(16, i)\n";
    let write = |name: &str, n: usize, line: &str| {
        let path = dir.path().join(format!("{name}{n}.tir"));
        let lines = format!("            {line}\n").repeat(n);
        fs::write(&path, format!("{head}{lines}            A[vi] = 1.0\n")).expect("a file");
        path
    };
    // Eight times the input may take 24 times as long on a busy machine; a quadratic step takes 64 times.
    let (few, many, allowed) = (4000, 32_000, 8 * 3);
    let fmt = |n| least_time(&["fmt", text(&write("comments", n, "A[vi] = 2.0  # a comment"))], 0);
    let check = |n| least_time(&["check", text(&write("mistakes", n, "A[vi] = unknown[vi]"))], 2);
    let json = |n| least_time(&["check", "--format", "json", text(&write("mistakes", n, "A[vi] = unknown[vi]"))], 2);
    for (name, short, long) in
        [("fmt", fmt(few), fmt(many)), ("check", check(few), check(many)), ("json", json(few), json(many))]
    {
        assert!(long < short * allowed, "{name}: {few} lines {short:?}, {many} lines {long:?}");
    }
}

#[test]
fn commands_that_keep_nothing_end_at_once() {
    let dir = dir();
    let long = dir.path().join("long.py");
    fs::write(&long, LONG).expect("a file");
    for args in [&["apply", MATMUL, "--trace", text(&long)][..], &["space", MATMUL, "--space", text(&long)]] {
        let (r, by, took) = signalled(args, "TERM", Duration::from_millis(300));
        assert_eq!((r.code, by), (-1, Some(15)), "{args:?}: {}", r.err);
        assert!(took < Duration::from_millis(500) + BUSY, "{args:?} took {took:?}");
    }
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let dir = dir();
    let db = dir.path().join("db");
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let args = ["tune", MATMUL, "--space", TILES, "--trials", "24", "--work-dir", text(&db)];
    let command = tvmr(&args);
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(command.get_program()).args(args).current_dir(super::root());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
    std::thread::sleep(Duration::from_millis(150));
    let _ = Command::new("kill").args(["-s", "HUP", &child.id().to_string()]).stderr(Stdio::null()).status();
    let r = ran(child.wait_with_output().expect("an end"));
    assert_eq!(r.code, 0, "{}", r.err);
}

#[test]
fn a_limit_of_file_sizes_is_like_a_full_disk() {
    let dir = dir();
    let db = dir.path().join("db");
    let args = ["tune", MATMUL, "--space", TILES, "--trials", "64", "--work-dir", text(&db)];
    let command = tvmr(&args);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]).arg(command.get_program()).args(args);
    let r = ran(shell.current_dir(super::root()).output().expect("a shell"));
    assert_eq!(r.code, 3, "{}", r.err);
    assert!(r.err.contains("cannot write") || r.err.contains("File too large"), "{}", r.err);
    // Records written before are complete.
    succeeds(&["db", "verify", "--work-dir", text(&db)]);
}
