use super::*;
use crate::ir::Module;
use crate::machine::Target;
use crate::schedule::Schedule;
use crate::schedule_function::ScheduleFunction;
use crate::script::{ParseOptions, parse};

const SUM: &str = r#"
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), D: T.Buffer((6,), "int32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = D[vi] + 1
"#;

fn module() -> Module {
    parse(SUM, "t.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module
}

/// The function after a schedule, with the layouts of its parameters.
fn scheduled(body: &str) -> (Func, Layouts) {
    let text = format!("def f(sch):\n    c, d = sch.get_block('C'), sch.get_block('D')\n    {body}\n");
    let function = ScheduleFunction::parse(&text, "t.py").unwrap_or_else(|e| panic!("{e}"));
    let mut whole = Schedule::new(&module(), 0);
    function.apply(&mut whole).unwrap_or_else(|e| panic!("{e}"));
    let mut schedule = Schedule::new(&module(), 0);
    let mut layouts = Layouts::new(schedule.func(0));
    let mut replay = crate::schedule::trace::Replay::default();
    for inst in &whole.trace().insts {
        replay.step(&mut schedule, inst, inst.decision.clone()).unwrap_or_else(|e| panic!("{e}"));
        layouts.follow(&schedule, 0);
    }
    (schedule.func(0).clone(), layouts)
}

fn checker() -> Checker {
    let target = Target::native().target;
    let setting = Setting { isa: target.best_isa(), threads: 2, strict_fp: false, check: true, target };
    Checker::new(&Workload::of(&module(), 0), &setting).unwrap_or_else(|e| panic!("{e:?}"))
}

/// The scheduled program agrees, both compiled and interpreted.
#[track_caller]
fn agrees(body: &str) {
    let (func, layouts) = scheduled(body);
    let checker = checker();
    let compiled = checker.check(&func, &layouts).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!((compiled.elements, compiled.interpreted), (12, false));
    let interpreted = checker.check_interpreted(&func, &layouts, "").unwrap_or_else(|e| panic!("{e:?}"));
    assert!(interpreted.interpreted && interpreted.max_error < 1e-5, "{interpreted}");
}

#[test]
fn right_schedules_agree() {
    agrees("sch.split(sch.get_loops(c)[1], [2, 4])");
    agrees("sch.parallel(sch.get_loops(c)[0])");
    agrees("sch.rfactor(sch.get_loops(c)[1], 0)");
}

#[test]
fn layouts_are_followed() {
    agrees("sch.transform_layout(c, ('read', 0), lambda i, k: (k // 4, i, k % 4))");
    // A parameter that is read and written is converted both ways, here twice.
    agrees(
        "sch.transform_layout(d, ('write', 0), lambda i: (i % 3, i // 3)); sch.transform_layout(d, ('write', 0), lambda i, j: (j, i))",
    );
    agrees("sch.transform_layout(c, ('write', 0), lambda i: (i // 4, i % 4), pad_value=T.float32(2))");
    agrees(
        "f = sch.sample_perfect_tile(sch.get_loops(c)[1], 2, 4, decision=[4, 2]); sch.transform_layout(c, ('read', 0), lambda i, k: (k // f[1], i, k % f[1]))",
    );
}

#[test]
fn a_program_that_is_only_interpreted_is_a_reference_too() {
    let (module, checker) = (module(), checker());
    let (specs, reference) = interpreted(&module.funcs[0]).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(specs, checker.specs);
    assert!(checker.reference.check_outputs(&specs, reference.outputs()).is_ok());
}

#[test]
fn another_result_is_told() {
    // The same program, except for one number.
    let other = SUM.replace("D[vi] + 1", "D[vi] + 2");
    let other = parse(&other, "t.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
    let layouts = Layouts::new(&other.funcs[0]);
    let checker = checker();
    for found in [checker.check(&other.funcs[0], &layouts), checker.check_interpreted(&other.funcs[0], &layouts, "")] {
        let Err(CheckError::Different(what)) = found else { panic!("{found:?}") };
        assert!(what.starts_with("`D` is wrong at [0]"), "{what}");
    }
}

#[test]
fn agreements_read_well() {
    let exact = Agreement { max_error: 0.0, elements: 3, interpreted: false };
    assert_eq!(exact.to_string(), "3 elements, max error 0");
    let near = Agreement { max_error: 1.25e-7, elements: 4, interpreted: true };
    assert_eq!(exact.and(near).to_string(), "7 elements, max error 1.2e-7; interpreted, since it does not compile");
}
