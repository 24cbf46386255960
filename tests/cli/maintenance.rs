//! Looking after databases: those that are not there, damaged lines.

use super::{MATMUL, dir, fails, run, succeeds, text, tuned};
use std::fs;

#[test]
fn a_database_must_be_there() {
    let dir = dir();
    let (empty, none) = (text(dir.path()), dir.path().join("none"));
    for work_dir in [empty, text(&none)] {
        let commands: [&[&str]; 3] =
            [&["db", "list"], &["db", "top"], &["db", "verify"]];
        for command in commands {
            fails(&[command, &["--work-dir", work_dir]].concat(), 2, "there is no database in `");
        }
        fails(&["db", "list", "--format", "json", "--work-dir", work_dir], 2, "there is no database in `");
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

