//! `db import`: logs of AutoTVM and the auto-scheduler become schedules to try.

use super::{dir, fails, succeeds, text};
use serde_json::Value;

const ANSOR: &str = "tests/te/logs/matmul_add.json";
const PROGRAM: &str = "workloads/matmul_add.py";
const AUTOTVM: &str = "tests/te/logs/matmul.json";
const TEMPLATE: &str = "tests/te_schedules/templates.py";

fn listed(db: &str) -> Value {
    let r = succeeds(&["db", "list", "--work-dir", db, "--format", "json"]);
    serde_json::from_str(&r.out).unwrap_or_else(|e| panic!("{e}: {}", r.out))
}

#[test]
fn schedules_of_the_auto_scheduler_are_tried() {
    let dir = dir();
    let db = dir.path().join("db");
    let db = text(&db);
    let import = ["db", "import", ANSOR, "--workload", PROGRAM, "--work-dir", db];
    let r = succeeds(&import);
    let expected = "matmul_add(16,8,16,\"float32\"): 3 schedules to try; 0 there already\n\
                    matmul_add(8,8,8,\"float32\"): 1 schedule to try; 0 there already\n";
    assert_eq!(r.out, expected, "{}", r.err);
    for left in [
        "left out 2 lines, the first in line 5: it is for GPUs: step 0: binds a loop to `blockIdx.x`",
        "left out 1 line, in line 7: it failed where it was measured: its error is 4",
        "left out 1 line, in line 8: not a line of a log: EOF while parsing",
        "left out 1 line, in line 9: it is for another task: `conv2d(1,64)`",
    ] {
        assert!(r.err.contains(left), "{left}:\n{}", r.err);
    }
    assert!(succeeds(&import).out.contains("0 schedules to try; 3 there already"));
    succeeds(&["db", "verify", "--work-dir", db]);
    assert_eq!(listed(db)["workloads"][0]["untried"], 3);
    assert_eq!(listed(db)["workloads"][0]["trials"], 0);
    // All of them run, with right results.
    let args = ["--func", "matmul_add", "--args", "16,8,16,float32"];
    let tune = [&["tune", PROGRAM, "--strategy", "replay", "--work-dir", db], &args[..]].concat();
    succeeds(&tune);
    let first = &listed(db)["workloads"][0];
    assert_eq!((first["trials"].as_u64(), first["valid"].as_u64()), (Some(3), Some(3)), "{first}");
    // Those that were tried are not tried again.
    succeeds(&tune);
    assert_eq!(listed(db)["workloads"][0]["trials"], 3);
    // The program as written may be as fast: without it, the best one is a schedule of the log.
    let table = dir.path().join("db/database_tuning_record.json");
    let lines = std::fs::read_to_string(&table).expect("the table");
    let trials: Vec<&str> = lines.lines().filter(|l| l.contains("\"role\":\"trial\"")).collect();
    assert!(trials.len() < lines.lines().count(), "the program as written is in the table");
    std::fs::write(&table, trials.join("\n") + "\n").expect("the table");
    // It is printed as tensor expressions, which are a schedule of the program.
    let printed = dir.path().join("printed.py");
    let print = ["print-trace", PROGRAM, "--format", "te", "--work-dir", db];
    let r = succeeds(&[&print[..], &args].concat());
    assert!(r.out.contains("s = te.create_schedule([out.op])") && r.out.contains(".parallel("), "{}", r.out);
    std::fs::write(&printed, &r.out).expect("the schedule");
    let apply = ["apply", PROGRAM, "--trace", text(&printed)];
    assert!(succeeds(&[&apply[..], &args].concat()).out.contains("T.parallel("));
    // Another database can begin with them, too.
    let other = dir.path().join("other");
    let other = text(&other);
    let tune = ["tune", PROGRAM, "--trials", "1", "--seed-from", db, "--work-dir", other];
    assert!(succeeds(&[&tune[..], &args].concat()).err.contains("schedules of `matmul_add`"));
}

#[test]
fn candidates_of_autotvm_are_tried() {
    let dir = dir();
    let db = dir.path().join("db");
    let db = text(&db);
    let r = succeeds(&["db", "import", AUTOTVM, "--workload", TEMPLATE, "--work-dir", db]);
    assert_eq!(r.out, "matmul(16,8,16,\"float32\"): 2 schedules to try; 0 there already\n", "{}", r.err);
    assert!(
        r.err.contains("in line 3: it does not fit the template: the knob `tile_y` has no such candidate"),
        "{}",
        r.err
    );
    let args = ["--func", "matmul", "--args", "16,8,16,float32"];
    succeeds(&[&["tune", TEMPLATE, "--strategy", "replay", "--work-dir", db], &args[..]].concat());
    let table = std::fs::read_to_string(dir.path().join("db/database_tuning_record.json")).expect("the table");
    let is_tried = |line: &&str| line.contains("\"status\":\"ok\"") && line.contains("[[2,[8,2]],[3,[1,16]]]");
    assert!(table.lines().any(|l| is_tried(&l)), "{table}");
}

#[test]
fn logs_of_other_programs_are_refused() {
    let dir = dir();
    let db = dir.path().join("db");
    let import = |args: &[&'static str]| -> Vec<String> {
        let db = text(&db).to_owned();
        [&["db", "import"], args].concat().into_iter().map(str::to_owned).chain(["--work-dir".to_owned(), db]).collect()
    };
    let cases: [(&[&'static str], i32, &str); 5] = [
        (
            &[ANSOR, "--workload", PROGRAM, "--args", "4,4,4,float32"],
            1,
            "it is for another task: `matmul_add(16,8,16,\"float32\")`",
        ),
        (&[AUTOTVM, "--workload", PROGRAM, "--func", "matmul_add"], 1, "its candidates need the template"),
        (
            &[ANSOR, "--workload", "workloads/relu.tir"],
            1,
            "no line of `tests/te/logs/matmul_add.json` gives a schedule",
        ),
        (&["none.json", "--workload", PROGRAM], 2, "cannot read `none.json`"),
        (&[ANSOR, "--workload", PROGRAM, "--args", "4"], 2, "takes 4 arguments"),
    ];
    for (args, code, expected) in cases {
        let args = import(args);
        fails(&args.iter().map(String::as_str).collect::<Vec<_>>(), code, expected);
    }
}
