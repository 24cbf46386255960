//! Tests of printed schedules: instructions, the text that says them, and the program after the text is read back.

use super::schedule_tests::{module, results};
use super::{TeSchedule, WorkloadChoice, define};
use crate::ir::Func;
use crate::schedule::Schedule;
use crate::schedule_function::ScheduleFunction;
use crate::te_schedule::of_trace;

const WORKLOADS: &str = "
from tvm import te

def product(n, m, l):
    A = te.placeholder((n, l), name=\"A\")
    B = te.placeholder((l, m), name=\"B\")
    k = te.reduce_axis((0, l), name=\"k\")
    free = {\"layout_free_placeholders\": [B]}
    return A, B, te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name=\"C\", attrs=free)

def one(n, m, l):
    A, B, C = product(n, m, l)
    return [A, B, te.compute((n, m), lambda i, j: C[i, j] + 1.0, name=\"D\")]

def chain(n, m, l):
    A, B, C = product(n, m, l)
    b = te.placeholder((m,), name=\"b\")
    D = te.compute((n, m), lambda i, j: C[i, j] + b[j], name=\"D\")
    return [A, B, b, te.compute((n, m), lambda i, j: te.max(D[i, j], 0.0), name=\"E\")]

def transposed(n, m, l):
    A, B, C = product(n, m, l)
    return [A, B, te.compute((m, n), lambda j, i: C[i, j] * 2.0, name=\"D\")]

def spread(n, m, l):
    A, B, C = product(n, m, l)
    return [A, B, te.compute((2, n, m), lambda h, i, j: C[i, j] + A[i, h], name=\"D\")]

def summed(n, m, l):
    A, B, C = product(n, m, l)
    r = te.reduce_axis((0, m), name=\"r\")
    return [A, B, te.compute((n,), lambda i: te.sum(C[i, r], axis=r), name=\"D\")]

def part(n, m, l):
    A, B, C = product(n, m, l)
    return [A, B, te.compute((n, m - 2), lambda i, j: C[i, j] * 2.0, name=\"D\")]

def twice(n, m, l):
    A, B, C = product(n, m, l)
    D = te.compute((n, m), lambda i, j: C[i, j] + 1.0, name=\"D\")
    return [A, B, D, te.compute((n, m), lambda i, j: C[i, j] * 2.0, name=\"E\")]
";

fn program(name: &str) -> Func {
    let wanted = WorkloadChoice { func: Some(name), args: Some("10,12,8") };
    define(WORKLOADS, "workloads.py", wanted).unwrap_or_else(|e| panic!("{name}: {e}")).func
}

/// What a schedule's instructions are as tensor expressions, or why not.
fn printed(name: &str, instructions: &str) -> Result<String, String> {
    let base = Schedule::new(&module(program(name)), 0);
    let mut schedule = base.clone();
    let instructions = &instructions.replace("main", name);
    let text =
        format!("def f(sch):\n{}", instructions.lines().map(|l| format!("    {}\n", l.trim())).collect::<String>());
    let function = ScheduleFunction::parse(&text, "f.py").unwrap_or_else(|e| panic!("{e}"));
    function.apply(&mut schedule).unwrap_or_else(|e| panic!("{instructions}: {}", e.diagnostic.message));
    let stages =
        of_trace(schedule.trace(), base, 0).map_err(|listed| format!("{}: {}", listed[0].name, listed[0].why))?;
    stages.to_python().map_err(|m| m.message)
}

/// The text that a schedule is printed as, without its head. Read back, it gives the results of the program as written.
fn check(name: &str, instructions: &str) -> String {
    let python = printed(name, instructions).unwrap_or_else(|why| panic!("{instructions}: {why}"));
    let read = TeSchedule::parse(&python, "printed.py", WorkloadChoice::default()).unwrap_or_else(|e| panic!("{e}"));
    let func = program(name);
    let mut again = Schedule::new(&module(func.clone()), 0);
    read.apply(&mut again).unwrap_or_else(|e| panic!("{python}\n{}", e.diagnostic.message));
    assert_eq!(results(&func), results(again.func(0)), "{python}");
    python.lines().skip(5).map(|l| l.trim_start().to_owned() + "\n").collect()
}

const TILES: &str = "C = sch.get_block(\"C\", \"main\")
D = sch.get_block(\"D\", \"main\")
i, j, k = sch.get_loops(C)
i0, i1 = sch.split(i, [None, 4])
j0, j1 = sch.split(j, [None, 6])
sch.reorder(i0, j0, k, i1, j1)
";

#[test]
fn a_moved_consumer_has_the_outer_loops() {
    // Ten rows are two tiles of four and a rest. What is said of the outer loops later is said of the consumer's.
    let text = check("one", &format!("{TILES}sch.reverse_compute_at(D, j0)\nt = sch.fuse(i0, j0)\nsch.parallel(t)"));
    assert_eq!(
        text,
        "D_i, D_j = tuple(D.op.axis)
D_i_o, D_i_i = s[D].split(D_i, factor=4)
D_j_o, D_j_i = s[D].split(D_j, factor=6)
s[D].reorder(D_j_o, D_i_i)
D_i_o_j_o_fused = s[D].fuse(D_i_o, D_j_o)
C_i, C_j, C_k = tuple(C.op.axis) + tuple(C.op.reduce_axis)
s[C].reorder(C_k, C_i, C_j)
s[C].compute_at(s[D], D_i_o_j_o_fused)
s[D].parallel(D_i_o_j_o_fused)
return s
"
    );
    // What was said before moves, too; so do stages that are computed there.
    let before = "sch.parallel(i0)\nsch.unroll(i1)\nr = sch.cache_read(C, 0, \"local\")\nsch.compute_at(r, i0)\n";
    let text = check("one", &format!("{TILES}{before}sch.reverse_compute_at(D, j0)"));
    for line in ["s[D].parallel(D_i_o)", "s[C].unroll(C_i)", "s[A_local].compute_at(s[D], D_i_o)"] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let text = check("transposed", &format!("{TILES}sch.reverse_compute_at(D, j0)"));
    assert!(text.contains("D_j_o, D_j_i = s[D].split(D_j, factor=6)"), "{text}");
    assert!(text.contains("s[D].reorder(D_i_o, D_j_o, D_j_i)"), "{text}");
    // The consumer's other axes are inside, reduced ones too.
    let text = check("spread", &format!("{TILES}sch.reverse_compute_at(D, j0)"));
    assert!(text.contains("s[D].reorder(D_i_o, D_j_o, D_h, D_i_i)"), "{text}");
    let text = check("summed", &format!("{TILES}sch.reverse_compute_at(D, i0)"));
    assert!(text.contains("s[C].compute_at(s[D], D_i_o)"), "{text}");
}

#[test]
fn an_axis_may_be_cut_between_any_of_its_parts() {
    let parts = "C = sch.get_block(\"C\", \"main\")
D = sch.get_block(\"D\", \"main\")
i, j, k = sch.get_loops(C)
i0, i1 = sch.split(i, [None, 2])
i00, i01 = sch.split(i0, [2, None])
j0, j1, j2 = sch.split(j, [2, 3, 2])
sch.reorder(i00, j0, i01, j1, k, i1, j2)
";
    // Five pairs of rows are three and two.
    let text = check("one", &format!("{parts}sch.reverse_compute_at(D, j0)"));
    for line in [
        "D_i_o, D_i_i = s[D].split(D_i, factor=6)",
        "D_j_o, D_j_i = s[D].split(D_j, factor=6)",
        "C_i_o, C_i_i = s[C].split(C_i, factor=2)",
        "C_j_o, C_j_i = s[C].split(C_j, factor=2)",
        "s[C].compute_at(s[D], D_j_o)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    check("one", &format!("{parts}sch.reverse_compute_at(D, i01)"));
    check("one", &format!("{parts}sch.reverse_compute_at(D, j1)"));
    check("transposed", &format!("{parts}sch.reverse_compute_at(D, i00)"));
    let fused = format!("{TILES}t = sch.fuse(i0, j0)\nt0, t1 = sch.split(t, [3, None])\n");
    check("one", &format!("{fused}sch.reverse_compute_at(D, t1)"));
    let why = printed("one", &format!("{fused}sch.reverse_compute_at(D, t0, True)"));
    assert_eq!(
        why,
        Err("reverse_compute_at: the loop separates parts of the fused axis `i.outer.j.outer.fused`".into())
    );
}

#[test]
fn consumers_of_consumers_move_on() {
    let text = check(
        "chain",
        &format!(
            "{TILES}E = sch.get_block(\"E\", \"main\")\nsch.reverse_compute_at(D, j0)\nsch.reverse_compute_at(E, i0)"
        ),
    );
    for line in ["s[C].compute_at(s[D], D_j_o)", "s[D].compute_at(s[E], E_i_o)"] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    check(
        "chain",
        &format!(
            "{TILES}E = sch.get_block(\"E\", \"main\")\nsch.reverse_compute_at(D, j0)\nsch.reverse_compute_at(E, j0)"
        ),
    );
}

#[test]
fn layouts_are_remarks() {
    let copy = "b = sch.cache_read(C, 1, \"global\")\n";
    let layout = "sch.transform_layout(b, (\"write\", 0), lambda i, j: (j // 6, i, j % 6))\n";
    let mark = "sch.annotate(b, \"meta_schedule.layout_rewrite_preproc\", True)\n";
    // A copy that is prepared once is no stage; one of each call is.
    let text = check("one", &format!("{TILES}{copy}{mark}{layout}sch.reverse_compute_at(D, j0)"));
    let remark = "# The layout of B is not part of this schedule: lambda i, j: (j // 6, i, j % 6,)";
    assert!(text.contains(remark) && !text.contains("cache_read"), "{text}");
    let text = check("one", &format!("{TILES}{copy}sch.compute_at(b, j0)\n{layout}"));
    assert!(text.contains(&remark.replace("of B", "of B_global")) && text.contains("s.cache_read(B,"), "{text}");
    let why = printed(
        "one",
        "C = sch.get_block(\"C\", \"main\")\nsch.transform_layout(C, (\"read\", 0), lambda i, j: (j, i))",
    );
    let expected = "transform_layout: `A` is a parameter, whose layout is that of the arguments";
    assert_eq!(why, Err(expected.to_owned()));
}

#[test]
fn calls_that_come_first_may_be_late_instructions() {
    let text = check(
        "one",
        &format!("{TILES}c = sch.cache_write(C, 0, \"local\")\nsch.reverse_compute_at(c, j0)\nsch.parallel(i0)"),
    );
    for line in ["C_local = s.cache_write(C, \"local\")", "s[C_local].compute_at(s[C], C_j_o)", "s[C].parallel(C_i_o)"]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let partial = "C = sch.get_block(\"C\", \"main\")
i, j, k = sch.get_loops(C)
j0, j1 = sch.split(j, [None, 5])
k0, k1 = sch.split(k, [None, 4])
sch.reorder(k0, i, j0, j1, k1)
r = sch.rfactor(k1, 2)
";
    let text = check("one", partial);
    assert_eq!(text.matches("split(").count(), 3, "{text}");
    let text = check("one", &format!("{partial}sch.compute_at(r, j0)"));
    assert!(text.contains("s[C_rf].compute_at(s[C], "), "{text}");
}

#[test]
fn consumers_that_cannot_have_the_loops_are_named() {
    let moved = |name: &str| printed(name, &format!("{TILES}sch.reverse_compute_at(D, i0)"));
    let expected = "reverse_compute_at: `E` reads `C`, too, outside of the loop".to_owned();
    assert_eq!(moved("twice"), Err(expected));
    let expected = "reverse_compute_at: `D` does not read each element of `C` at its own index in the dimension of `j`";
    let narrower = printed("part", &format!("{TILES}sch.reverse_compute_at(D, j0)"));
    assert_eq!(narrower, Err(expected.to_owned()));
    let inner = "C = sch.get_block(\"C\", \"main\")
D = sch.get_block(\"D\", \"main\")
i, j, k = sch.get_loops(C)
i0, i1 = sch.split(i, [None, 5])
sch.reorder(i1, i0, j, k)
sch.reverse_compute_at(D, i1)";
    let expected = "reverse_compute_at: inner parts of the axis `i` are outside of the loop";
    assert_eq!(printed("one", inner), Err(expected.to_owned()));
}
