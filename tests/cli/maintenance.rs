//! Maintaining databases: missing ones, damaged lines, `db merge` and `db prune`.

use super::{FIVE, MATMUL, dir, fails, run, succeeds, text, tuned};
use serde_json::Value;
use std::fs;

#[test]
fn a_database_must_be_there() {
    let dir = dir();
    let (empty, none) = (text(dir.path()), dir.path().join("none"));
    for work_dir in [empty, text(&none)] {
        let commands: [&[&str]; 4] =
            [&["db", "list"], &["db", "top"], &["db", "verify"], &["db", "prune", "--best", "1"]];
        for command in commands {
            fails(&[command, &["--work-dir", work_dir]].concat(), 2, "there is no database in `");
        }
        let r = run(&["db", "list", "--format", "json", "--work-dir", work_dir]);
        assert!(r.code == 2 && r.out.contains("there is no database in `"), "{}{}", r.out, r.err);
        fails(&["db", "merge", work_dir, "--work-dir", text(&none)], 2, "there is no database in `");
        fails(&["tune", MATMUL, "--seed-from", work_dir, "--work-dir", text(&none)], 2, "there is no database in `");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0, "nothing is made");
}

#[test]
fn problems_are_told_by_line() {
    let (_dir, db, _) = tuned();
    let path = db.join("database_tuning_record.json");
    let table = fs::read_to_string(&path).expect("the table");
    let second = table.match_indices('\n').next().map_or(0, |(at, _)| at);
    let (first, rest) = table.split_at(second);
    fs::write(&path, first.to_owned() + &rest.replacen("GetLoops", "GetLops", 1)).expect("the table");
    let r = run(&["db", "verify", "--work-dir", text(&db)]);
    let line = 1 + table[..second + rest.find("GetLoops").expect("an instruction")].matches('\n').count();
    assert_eq!(r.code, 1);
    assert!(r.out.contains(&format!("database_tuning_record.json:{line}: its trace")), "{}", r.out);
    assert!(r.err.contains("1 workload, ") && r.err.contains("has 1 problem\n"), "{}", r.err);
    succeeds(&["db", "verify", "--lines-only", "--work-dir", text(&db)]);
}

#[test]
fn databases_are_merged_and_pruned() {
    let (dir, first, json) = tuned();
    let (second, all) = (dir.path().join("second"), dir.path().join("all"));
    succeeds(&["tune", "workloads/relu.tir", "--trials", "2", "--work-dir", text(&second)]);
    let list = || {
        let r = succeeds(&["db", "list", "--work-dir", text(&all), "--format", "json"]);
        serde_json::from_str::<Value>(&r.out).expect("JSON")
    };
    let merge = ["db", "merge", text(&first), text(&second), "--work-dir", text(&all)];
    let r = succeeds(&merge);
    assert_eq!(r.out.matches("copied 1 workload and ").count(), 2, "{}", r.out);
    let before = list();
    assert_eq!(before["workloads"].as_array().map(Vec::len), Some(2));
    // Merging again adds nothing.
    assert_eq!(succeeds(&merge).out.matches("copied 0 workloads and 0 records").count(), 2);
    assert_eq!(list(), before);
    succeeds(&["db", "verify", "--work-dir", text(&all)]);
    fails(&["db", "merge", text(&all), "--work-dir", text(&all)], 2, "cannot be merged into itself");
    // The best record is found by its program, without a search.
    succeeds(&["tune", MATMUL, "--space", FIVE, "--frozen", "--work-dir", text(&all)]);

    let r = succeeds(&["db", "prune", "--best", "1", "--work-dir", text(&all)]);
    let removed = before["records"].as_u64().expect("a number") - 2;
    assert!(r.out.contains(&format!("removed {removed} records, kept 2\n")), "{}", r.out);
    let after = list();
    assert_eq!((&after["records"], &after["workloads"][0]["best_us"]), (&2.into(), &json["best_us"]));
    succeeds(&["db", "verify", "--work-dir", text(&all)]);
    fails(&["db", "prune", "--work-dir", text(&all)], 2, "--best");
    fails(&["db", "prune", "--best", "0", "--work-dir", text(&all)], 2, "expected a whole number from 1");
}

#[test]
fn the_documented_lines_are_a_database() {
    let page = fs::read_to_string(super::root().join("docs/database.md")).expect("the page");
    let dir = dir();
    for (kind, table) in [("workload", "database_workload.json"), ("record", "database_tuning_record.json")] {
        let fence = format!("```json {kind}\n");
        let (_, lines) = page.split_once(&fence).expect("an example");
        let (lines, _) = lines.split_once("```").expect("its end");
        fs::write(dir.path().join(table), lines).expect("a table");
    }
    let r = succeeds(&["db", "verify", "--work-dir", text(dir.path())]);
    assert!(r.err.contains("1 workload, 2 records (2 replayed), 0 problems"), "{}", r.err);
}
