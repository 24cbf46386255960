//! Tests of lines and of what they do to programs.

use super::*;
use crate::schedule::Schedule;
use crate::te_function::{self, Preset, TeSchedule, WorkloadChoice};
use crate::te_schedule::of_trace;
use state::replay;

const MATMUL_ADD: &str = "
from tvm import te

def matmul_add(N, L, M):
    A = te.placeholder((N, L), name=\"A\")
    B = te.placeholder((L, M), name=\"B\")
    C = te.placeholder((N, M), name=\"C\")
    k = te.reduce_axis((0, L), name=\"k\")
    matmul = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name=\"matmul\")
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name=\"out\")
    return [A, B, C, out]
";

/// The stages are `A`, `B`, `matmul`, `C`, `out`.
const STEPS: &str = r#"[["SP",2,0,16,[2,1,4],1],["SP",2,4,16,[1,1,8],1],["SP",2,8,8,[4],1],["RE",2,[0,4,1,5,8,2,6,9,3,7]],["FSP",4,0,0,2],["FSP",4,3,1,2],["RE",4,[0,3,1,4,2,5]],["CA",2,4,3],["FU",4,[0,1,2]],["AN",4,0,3],["PR",2,0,"auto_unroll_max_step$64"],["AN",2,9,2],["AN",4,3,2]]"#;

fn ansor(steps: &str) -> String {
    let task = r#"["[\"matmul_add\", 16, 8, 16]", "llvm -keys=cpu", [4, 64, 64, 0, 0, 0, 0, 0], "", 1]"#;
    format!(r#"{{"i": [{task}, [[], {steps}]], "r": [[0.0002, 0.0004], 0, 1.5, 1630000000], "v": "v0.6"}}"#)
}

fn steps(text: &str) -> Vec<step::Step> {
    match read(&ansor(text)) {
        Ok(Some(Line::Ansor(line))) => line.steps,
        other => panic!("{other:?}"),
    }
}

fn program() -> Schedule {
    let wanted = WorkloadChoice { func: None, args: Some("16,8,16") };
    let defined = te_function::define(MATMUL_ADD, "matmul_add.py", wanted).unwrap_or_else(|e| panic!("{e}"));
    Schedule::new(&crate::ir::Module { funcs: vec![defined.func], ..Default::default() }, 0)
}

/// What the error of these steps says.
fn refusal(text: &str) -> String {
    let mut schedule = program();
    match replay(&steps(text), &mut schedule, 0) {
        Ok(()) => panic!("{text} is accepted"),
        Err(why) => format!("{}: {}", why.reason, why.detail),
    }
}

#[test]
fn a_line_has_its_task_steps_and_outcome() {
    let Ok(Some(Line::Ansor(line))) = read(&ansor(STEPS)) else { panic!("it is a line of the auto-scheduler") };
    assert_eq!((line.task.name.as_str(), line.task.args.len(), line.steps.len()), ("matmul_add", 3, 13));
    assert_eq!(line.outcome.secs().map(|s| (s * 1e6).round()), Some(300.0));
    assert_eq!(line.target, "llvm -keys=cpu");
    let text = r#"{"input": ["llvm", "tutorial/matmul", [["TENSOR", [8, 8], "float32"], 8], {}], "config": {"index": 1, "code_hash": null, "entity": [["tile_y", "sp", [-1, 8]], ["order", "re", [1, 0]], ["ann", "an", ["unroll", "vec"]], ["knob", "ot", null]]}, "result": [[1000000000.0], 4, 10, 1630000000.5], "version": 0.2, "tvm_version": "0.8.0"}"#;
    let Ok(Some(Line::AutoTvm(line))) = read(text) else { panic!("it is a line of AutoTVM") };
    assert_eq!((line.task.name.as_str(), line.entities.len(), line.outcome.secs()), ("tutorial/matmul", 4, None));
    assert_eq!(line.entities[0], ("tile_y".to_owned(), Preset::Split(vec![-1, 8])));
    assert_eq!(read("# a comment"), Ok(None));
    assert_eq!(read("  \r"), Ok(None));
}

#[test]
fn steps_make_a_schedule_of_a_program() {
    let mut schedule = program();
    replay(&steps(STEPS), &mut schedule, 0).unwrap_or_else(|why| panic!("{why:?}"));
    let shown = schedule.trace().to_python(crate::script::Dialect::Current);
    for instruction in ["compute_at", "parallel", "vectorize", "reorder", "decompose_reduction"] {
        assert!(shown.contains(instruction), "{instruction} is missing:\n{shown}");
    }
}

/// A schedule that is printed and read back is the same.
#[test]
fn schedules_are_printed_as_tensor_expressions() {
    let texts = [
        STEPS,
        r#"[["CHW",2,"local"],["SP",2,1,16,[4],1],["SP",2,3,8,[2],1],["RE",2,[0,1,3,4,2]],["AN",2,4,2],["CHR",1,"local",[2]],["SP",6,0,16,[4],0],["AN",6,0,3]]"#,
        r#"[["SP",2,2,8,[4],1],["RF",2,3,2],["AN",2,2,2],["AN",3,0,3],["AN",5,0,3]]"#,
        r#"[["SP",4,1,16,[2,4],0],["FU",4,[1,2]],["SA",2,0,8,4]]"#,
    ];
    let mut shown = Vec::new();
    for text in texts {
        let mut schedule = program();
        replay(&steps(text), &mut schedule, 0).unwrap_or_else(|why| panic!("{text}: {why:?}"));
        let stages = of_trace(schedule.trace(), program(), 0).unwrap_or_else(|why| panic!("{text}: {why:?}"));
        let python = stages.to_python().unwrap_or_else(|why| panic!("{text}: {why:?}"));
        let read =
            TeSchedule::parse(&python, "printed.py", WorkloadChoice::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut again = program();
        read.apply(&mut again).unwrap_or_else(|e| panic!("{python}\n{}", e.diagnostic.message));
        // A split into many parts is printed as splits into two, which print as they are.
        let stages = of_trace(again.trace(), program(), 0).unwrap_or_else(|why| panic!("{text}: {why:?}"));
        assert_eq!(stages.to_python().as_ref(), Ok(&python));
        shown.push(python);
    }
    let expected = "from tvm import te


def schedule(A, B, C, matmul, out):
    s = te.create_schedule([out.op])
    out_i, out_j = tuple(out.op.axis)
    out_i_o, out_i_i = s[out].split(out_i, factor=4)
    out_i_o_o, out_i_o_i = s[out].split(out_i_o, factor=2)
";
    assert!(shown[0].starts_with(expected), "{}", shown[0]);
    for line in [
        "s[matmul].compute_at(s[out], ",
        "s[matmul].pragma(matmul_i_o_o_o, \"auto_unroll_max_step\", 64)",
        "matmul_local = s.cache_write(matmul, \"local\")",
        "B_local = s.cache_read(B, \"local\", [matmul_local])",
        "matmul_rf = s.rfactor(matmul, matmul_k_i, 2)",
        "matmul_i_2, matmul_j_2, matmul_k_inner_v = tuple(s[matmul].op.axis) + tuple(s[matmul].op.reduce_axis)",
        "out_j_o, out_j_i = s[out].split(out_j, nparts=2)",
        "s[matmul].storage_align(",
    ] {
        assert!(shown.iter().any(|s| s.contains(line)), "{line}\n{}", shown.join("\n"));
    }
}

#[test]
fn what_tensor_expressions_cannot_say_is_listed() {
    let mut schedule = program();
    let block = schedule.get_block("out", "matmul_add").unwrap_or_else(|e| panic!("{e}"));
    let loops = schedule.get_loops(block).unwrap_or_else(|e| panic!("{e}"));
    schedule.run("Blockize", vec![loops[1].into(), true.into()]).unwrap_or_else(|e| panic!("{e}"));
    let listed = of_trace(schedule.trace(), program(), 0).expect_err("a block is made");
    assert_eq!(listed.iter().map(|i| (i.index, i.name)).collect::<Vec<_>>(), [(2, "blockize")]);
}

#[test]
fn stages_are_inserted_where_the_auto_scheduler_counts_them() {
    // The copy is computed in stage 2; `matmul` is stage 3 then, and `out` is stage 5.
    let cached = r#"[["CHW",2,"local"],["SP",2,2,8,[4],1],["CA",2,3,1],["AN",5,0,3],["CHR",1,"local",[3]],["CI",4]]"#;
    let mut schedule = program();
    let why = replay(&steps(cached), &mut schedule, 0).expect_err("`B` is read by stage 2");
    assert!(why.detail.starts_with("step 4: `matmul` does not read `B`"), "{why:?}");
    let read = cached.replace("[3]]", "[2]]").replace(r#",["CI",4]"#, "");
    replay(&steps(&read), &mut program(), 0).unwrap_or_else(|why| panic!("{why:?}"));
    // Partial results of the reduction come before it.
    let partial = r#"[["SP",2,2,8,[4],1],["RF",2,3,2],["AN",2,2,2],["AN",3,0,3],["AN",5,0,3]]"#;
    replay(&steps(partial), &mut program(), 0).unwrap_or_else(|why| panic!("{why:?}"));
}

#[test]
fn what_does_not_fit_is_named() {
    let cases = [
        (r#"[["SP",2,0,32,[4],1]]"#, "it is for another shape: step 0: splits an axis of 32 iterations"),
        (r#"[["SP",7,0,16,[4],1]]"#, "a step does not fit the program: step 0: names stage 7 of 5"),
        (r#"[["AN",2,9,2]]"#, "step 0: names axis 9 of `matmul`, which has 3"),
        (r#"[["AN",4,0,5]]"#, "it is for GPUs: step 0: binds a loop to `blockIdx.x`"),
        (r#"[["FSP",4,0,0,1]]"#, "step 0: splits like step 0, which is no earlier split"),
        (r#"[["RE",4,[0,0]]]"#, "step 0: the axis `i` is given twice"),
        (r#"[["RE",4,[1]]]"#, "step 0: orders 1 axes, and `out` has 2"),
        (r#"[["CI",2]]"#, "step 0: `matmul` is a reduction, which cannot be inlined"),
        (r#"[["PR",2,0,"tensor_core"]]"#, "it has a pragma that is not known: step 0: the pragma is `tensor_core`"),
        (r#"[["SP",2,0,16,[0],1]]"#, "step 0: cannot split into parts of 0 iterations"),
    ];
    for (steps, expected) in cases {
        let found = refusal(steps);
        assert!(found.contains(expected), "{steps}: {found}");
    }
}

const TEMPLATE: &str = "
from tvm import te, autotvm

@autotvm.template(\"matmul\")
def matmul(N, L, M):
    A = te.placeholder((N, L), name=\"A\")
    B = te.placeholder((L, M), name=\"B\")
    k = te.reduce_axis((0, L), name=\"k\")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name=\"C\")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg = autotvm.get_config()
    cfg.define_split(\"tile_y\", y, num_outputs=2)
    cfg.define_split(\"tile_x\", x, policy=\"power2\", num_outputs=2)
    cfg.define_knob(\"lanes\", [False, True])
    yo, yi = cfg[\"tile_y\"].apply(s, C, y)
    xo, xi = cfg[\"tile_x\"].apply(s, C, x)
    cfg.define_reorder(\"order\", [yo, xo, yi, xi], \"all\")
    cfg.define_annotate(\"ann\", [yi, xi], policy=\"try_unroll_vec\")
    s[C].reorder(yo, xo, s[C].op.reduce_axis[0], yi, xi)
    cfg[\"ann\"].apply(s, C, [yi, xi])
    return s, [A, B, C]
";

#[test]
fn candidates_of_a_line_become_decisions_of_the_template() {
    let with = |entities: &str| {
        let text = format!(
            r#"{{"input": ["llvm", "matmul", [16, 8, 16], {{}}], "config": {{"entity": {entities}}}, "result": [[1.0], 0, 1, 2], "version": 0.2}}"#
        );
        let Ok(Some(Line::AutoTvm(line))) = read(&text) else { panic!("{text}") };
        let wanted = WorkloadChoice { func: None, args: Some("16,8,16") };
        let defined = te_function::define(TEMPLATE, "matmul.py", wanted).unwrap_or_else(|e| panic!("{e}"));
        let template = TeSchedule::parse(TEMPLATE, "matmul.py", wanted).unwrap_or_else(|e| panic!("{e}"));
        let mut schedule = Schedule::new(&crate::ir::Module { funcs: vec![defined.func], ..Default::default() }, 0);
        let done = template.apply_with(&line.entities, &mut schedule).map_err(|e| e.diagnostic.message.clone());
        done.map(|()| schedule.trace().decisions().map(|(_, d)| format!("{d:?}")).collect::<Vec<_>>().join(" "))
    };
    let all = r#"[["tile_y","sp",[-1,8]],["tile_x","sp",[-1,4]],["lanes","ot",true],["order","re",[1,0,2,3]],["ann","an",["unroll","vec"]]]"#;
    let decided = with(all).unwrap_or_else(|why| panic!("{why}"));
    assert!(decided.starts_with("Ints([2, 8]) Int(2) Int(1) Int(6) Int("), "{decided}");
    for (from, to, expected) in [
        ("[-1,8]", "[-1,3]", "the knob `tile_y` has no such candidate"),
        ("[-1,4]", "[-1,5]", "the knob `tile_x` has no such candidate"),
        ("true", "7", "the knob `lanes` has no such candidate"),
        ("lanes", "other", "there is no candidate for the knob `lanes`"),
        ("\"vec\"", "\"blockIdx.x\"", "the knob `ann` has no such candidate"),
    ] {
        assert_eq!(with(&all.replace(from, to)), Err(expected.to_owned()));
    }
}

/// Every damaged line is an error or another line, and never a panic.
#[test]
fn damaged_lines_are_refused() {
    let tvm = r#"{"input": ["llvm", "t", [1], {}], "config": {"entity": [["y", "sp", [-1, 8]]]}, "result": [[1.0], 0, 1, 2], "version": 0.2}"#;
    let mut refused = 0;
    for line in [ansor(STEPS), tvm.to_owned()] {
        for cut in (0..line.len()).filter(|&i| line.is_char_boundary(i)) {
            refused += usize::from(cut > 0 && read(&line[..cut]).is_err());
            // A number, bracket or letter too few, or another one.
            refused += usize::from(read(&format!("{}{}", &line[..cut], &line[cut + 1..])).is_err());
            for other in ["-", "9", "[", "]", "\"", "null", "1e400"] {
                let damaged = format!("{}{other}{}", &line[..cut], &line[cut + 1..]);
                match read(&damaged) {
                    Ok(Some(Line::Ansor(line))) => {
                        // What still is a line is carried out, or refused, if that takes no time.
                        if cut % 16 == 0 {
                            let _ = replay(&line.steps, &mut program(), 0);
                        }
                    }
                    Ok(_) => {}
                    Err(why) => {
                        refused += 1;
                        assert!(!why.reason.is_empty());
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
    for (text, expected) in [
        ("[]", "expected the line to be an object, found a list"),
        ("{}", "expected the fields `i` and `r`"),
        (
            r#"{"i": [["[\"a\"]", "llvm"], [[], [["XX", 0]]]], "r": [[], 0, 0, 0], "v": "v0.6"}"#,
            "step 0: there is no step `XX`",
        ),
        (
            r#"{"i": [["[\"a\"]", "llvm"], [[], [["SP", -1]]]], "r": [], "v": "v0.6"}"#,
            "expected a position for the stage, found -1",
        ),
        (r#"{"i": ["llvm"], "r": [], "v": 0.1}"#, "its version is 0.1"),
    ] {
        let why = read(text).expect_err("it is damaged");
        assert!(why.detail.contains(expected), "{text}: {why:?}");
    }
}
