//! Tests of schedules of tensor expressions and of templates, given to commands.

use super::{dir, fails, succeeds, text};
use std::fs;

const TEMPLATES: &str = "tests/te_schedules/templates.py";
const SCHEDULES: &str = "tests/te_schedules/schedules.py";

#[test]
fn schedules_of_the_programs_own_text() {
    let args = [SCHEDULES, "--func", "matmul_add", "--trace", SCHEDULES];
    let ran = succeeds(&[&["apply", "--steps", "--check"], &args[..]].concat());
    assert!(ran.out.contains("sch.compute_at(block="), "{}", ran.out);
    assert!(ran.err.contains("checked: same results"), "{}", ran.err);
    // Without a schedule, the program is as written.
    assert!(!succeeds(&["emit", SCHEDULES, "--func", "matmul_add", "--stage", "tir"]).out.contains("T.parallel"));
}

#[test]
fn schedules_of_the_tensors_of_another_text() {
    let dir = dir();
    let schedule = dir.path().join("schedule.py");
    let body = "def schedule(matmul, out):\n    s = te.create_schedule(out.op)\n    s[matmul].compute_at(s[out], out.op.axis[0])\n    return s\n";
    fs::write(&schedule, body).expect("a file");
    let program = ["workloads/matmul_add.py", "--func", "matmul_add", "--args", "8,8,8,float32"];
    let apply = [&["apply", "--trace", text(&schedule)], &program[..]].concat();
    assert!(succeeds(&apply).out.contains("for ax0, ax1, ax2 in T.grid(1, 8, 8)"));
    fs::write(&schedule, body.replace("matmul", "matmu")).expect("a file");
    fails(&apply, 2, "did you mean `matmul`?");
}

#[test]
fn templates_are_tuned_in_their_own_space() {
    let dir = dir();
    let template = [TEMPLATES, "--func", "matmul", "--args", "16,8,16,float32"];
    // 16 has five divisors.
    let space = succeeds(&[&["space"], &template[..]].concat());
    assert!(space.err.contains("matmul: 1 sketch, 25 combinations of decisions"), "{}", space.err);
    assert!(space.out.contains("sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16)  # 5 choices"));
    // Knobs that change which instructions follow leave the number exact.
    let softmax = ["space", TEMPLATES, "--func", "softmax", "--args", "8,8"];
    assert!(succeeds(&softmax).err.contains("softmax: 1 sketch, 8 combinations of decisions"));

    let tune =
        [&["tune", "--trials", "2", "--isa", "portable", "--work-dir", text(dir.path())], &template[..]].concat();
    succeeds(&tune);
    let records = fs::read_to_string(dir.path().join("database_tuning_record.json")).expect("the table");
    assert!(records.contains("SamplePerfectTile"), "{records}");
}
