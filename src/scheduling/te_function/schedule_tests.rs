//! Tests of schedules and templates: they are carried out, and the results are those of the program as written.

use super::{TeSchedule, WorkloadChoice, define};
use crate::ir::interp::{Arg, Options, Tensor, Value, run};
use crate::ir::{Func, Module, verify};
use crate::schedule::Schedule;

const SCHEDULES: &str = include_str!("../../../tests/te_schedules/schedules.py");

/// The functions of a text that schedule a program.
fn names(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    let mut current = "";
    for line in text.lines() {
        if let Some((name, _)) = line.strip_prefix("def ").and_then(|l| l.split_once('(')) {
            current = name;
        } else if line.starts_with("    return s, [") {
            all.push(current);
        }
    }
    all
}

pub(super) fn module(func: Func) -> Module {
    Module { name: None, attributes: Default::default(), funcs: vec![func] }
}

/// The results of a function on small integers, of which sums are exact.
pub(super) fn results(func: &Func) -> Vec<f64> {
    let mut args: Vec<Arg> = (func.params.iter().enumerate())
        .map(|(p, param)| {
            let buffer = func.arena.buffer(param.buffer.expect("parameters are tensors"));
            let shape: Vec<i64> =
                func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e).expect("constant")).collect();
            let n: i64 = shape.iter().product();
            let values = (0..n).map(|i| Value::Float(((i * 7 + p as i64 * 3) % 11 - 5) as f64));
            Arg::Tensor(Tensor::from_values(buffer.dtype, &shape, values))
        })
        .collect();
    run(func, &mut args, Options::default()).unwrap_or_else(|e| panic!("{}", e.message(func)));
    args.iter().filter_map(Arg::tensor).flat_map(Tensor::to_f64s).collect()
}

fn scheduled(text: &str, name: &str, args: Option<&str>, seed: u64) -> (Func, Schedule) {
    let wanted = WorkloadChoice { func: Some(name), args };
    let func = define(text, "t.py", wanted).unwrap_or_else(|e| panic!("{name}: {e}")).func;
    let function = TeSchedule::parse(text, "t.py", wanted).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut schedule = Schedule::new(&module(func.clone()), seed);
    if let Err(e) = function.apply(&mut schedule) {
        panic!("{name}: {}", function.render_error(&e, &schedule, crate::script::Dialect::Current, false));
    }
    (func, schedule)
}

fn check(text: &str, name: &str, args: Option<&str>, seed: u64) -> Schedule {
    let (func, schedule) = scheduled(text, name, args, seed);
    let after = schedule.func(0);
    let errors = verify::verify(after, verify::Checks::ALL);
    assert!(errors.is_empty(), "{name}: {errors:?}");
    let (expected, found) = (results(&func), results(after));
    assert_eq!(expected.len(), found.len());
    for (i, (x, y)) in expected.iter().zip(&found).enumerate() {
        let near = (x - y).abs() <= 1e-5 * x.abs().max(1.0);
        assert!(near, "{name}: element {i} is {y} instead of {x}");
    }
    schedule
}

#[test]
fn schedules_keep_the_results() {
    let names = names(SCHEDULES);
    assert!(names.len() >= 40, "{} schedules", names.len());
    let mut failed = Vec::new();
    for name in names {
        if std::panic::catch_unwind(|| check(SCHEDULES, name, None, 0)).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

const TEMPLATES: &str = include_str!("../../../tests/te_schedules/templates.py");

#[test]
fn templates_keep_the_results() {
    for (name, args) in [
        ("matmul", "8,8,16,float32"),
        ("conv2d_nchw", "1,2,6,8,4,3"),
        ("depthwise_conv2d", "4,6,8,3"),
        ("dense", "8,12,16"),
        ("batch_matmul", "2,4,6,8"),
        ("gemv", "6,32"),
        ("reduction", "6,32"),
        ("softmax", "6,16"),
        ("transpose", "12,20"),
        ("vector_add", "512"),
    ] {
        for seed in 0..3 {
            check(TEMPLATES, name, Some(args), seed);
        }
    }
}

#[test]
fn knobs_are_sampled() {
    // As AutoTVM counts it, the space of the tutorial's matmul has 10 * 10 candidates.
    let (_, schedule) = scheduled(TEMPLATES, "matmul", Some("512,512,512,float32"), 7);
    let trace = schedule.trace().clone();
    let samples: Vec<&str> = trace.insts.iter().filter(|i| i.kind.samples).map(|i| i.kind.name).collect();
    assert_eq!(samples, ["SamplePerfectTile", "SamplePerfectTile"]);
    let text = trace.to_python(crate::script::Dialect::Current);
    // Sizes are sampled numbers, so that a trace replays with other decisions.
    assert!(text.contains("factors=[None, v5]"), "{text}");
}

#[test]
fn definitions_do_not_depend_on_knobs() {
    let text = "
def padded(n):
    cfg = autotvm.get_config()
    cfg.define_knob(\"to\", [4, 8, 16])
    A = te.placeholder((n,), name=\"A\")
    B = te.compute((n // cfg[\"to\"].val * cfg[\"to\"].val,), lambda i: A[i], name=\"B\")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    return s, [A, B]
";
    let wanted = WorkloadChoice { func: None, args: Some("12") };
    let func = define(text, "t.py", wanted).unwrap_or_else(|e| panic!("{e}")).func;
    let function = TeSchedule::parse(text, "t.py", wanted).unwrap_or_else(|e| panic!("{e}"));
    let messages: Vec<String> = (0..10)
        .filter_map(|seed| function.apply(&mut Schedule::new(&module(func.clone()), seed)).err())
        .map(|e| e.diagnostic.message.clone())
        .collect();
    assert!(messages.iter().any(|m| m == "the axis `i` of `B` has 8 iterations, and its loop 12"), "{messages:?}");
}
