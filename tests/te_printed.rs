//! Candidates of the search spaces as tensor expressions: they are printed, read back, and compute what the program computes.

use std::collections::BTreeMap;
use tvmr::ir::interp::{Arg, Options, Tensor, Value, run};
use tvmr::ir::{Func, Module};
use tvmr::machine::{Core, Target};
use tvmr::schedule::Schedule;
use tvmr::space::generate::{Rules, generate};
use tvmr::space::sample::stream;
use tvmr::te_function::{TeSchedule, WorkloadChoice, define};
use tvmr::te_schedule::of_trace;

/// Workloads of the kinds that the spaces treat differently, at sizes that tiles divide with a remainder.
const WORKLOADS: &str = "
from tvm import te, topi

def matmul(n, m, l):
    A = te.placeholder((n, l), name=\"A\")
    B = te.placeholder((l, m), name=\"B\")
    k = te.reduce_axis((0, l), name=\"k\")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name=\"C\")
    return [A, B, C]

def dense_bias_relu(n, m, l):
    A = te.placeholder((n, l), name=\"A\")
    W = te.placeholder((m, l), name=\"W\")
    b = te.placeholder((m,), name=\"b\")
    k = te.reduce_axis((0, l), name=\"k\")
    free = {\"layout_free_placeholders\": [W]}
    D = te.compute((n, m), lambda i, j: te.sum(A[i, k] * W[j, k], axis=k), name=\"D\", attrs=free)
    E = te.compute((n, m), lambda i, j: D[i, j] + b[j], name=\"E\")
    return [A, W, b, topi.nn.relu(E)]

def transposed(n, m, l):
    A = te.placeholder((n, l), name=\"A\")
    B = te.placeholder((l, m), name=\"B\")
    k = te.reduce_axis((0, l), name=\"k\")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name=\"C\")
    return [A, B, te.compute((m, n), lambda j, i: C[i, j] * 2.0, name=\"T\")]

def conv(c, h, o):
    X = te.placeholder((1, c, h, h), name=\"X\")
    W = te.placeholder((o, c, 3, 3), name=\"W\")
    b = te.placeholder((1, o, 1, 1), name=\"b\")
    return [X, W, b, topi.nn.relu(topi.add(topi.nn.conv2d_nchw(X, W, 1, 1, 1), b))]

def softmax(n, m):
    A = te.placeholder((n, m), name=\"A\")
    return [A, topi.nn.softmax(A)]

def rows(n, m):
    A = te.placeholder((n, m), name=\"A\")
    k = te.reduce_axis((0, m), name=\"k\")
    return [A, te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name=\"R\")]
";

const CASES: [(&str, &str); 8] = [
    ("matmul", "20,36,10"),
    ("dense_bias_relu", "20,36,8"),
    ("dense_bias_relu", "1,16,192"),
    ("transposed", "20,36,8"),
    ("conv", "4,9,20"),
    // Rows that fill a vector.
    ("conv", "4,20,20"),
    ("softmax", "6,20"),
    ("rows", "6,40"),
];

/// The results of a function on small integers, of which sums are exact.
fn results(func: &Func) -> Vec<f64> {
    let argument = |(p, param): (usize, &tvmr::ir::Param)| {
        let buffer = func.arena.buffer(param.buffer.expect("parameters are tensors"));
        let shape = func.arena.list(buffer.shape).iter();
        let shape: Vec<i64> = shape.map(|&e| func.arena.as_int(e).expect("extents are constant")).collect();
        let values = (0..shape.iter().product()).map(|i: i64| Value::Float(((i * 7 + p as i64 * 3) % 11 - 5) as f64));
        Arg::Tensor(Tensor::from_values(buffer.dtype, &shape, values))
    };
    let mut args: Vec<Arg> = func.params.iter().enumerate().map(argument).collect();
    run(func, &mut args, Options::default()).unwrap_or_else(|e| panic!("{}", e.message(func)));
    args.iter().filter_map(Arg::tensor).flat_map(Tensor::to_f64s).collect()
}

#[test]
fn candidates_are_printed_and_read_back() {
    let target = Target::native().target;
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut printed = 0;
    for (name, args) in CASES {
        let wanted = WorkloadChoice { func: Some(name), args: Some(args) };
        let func = define(WORKLOADS, "workloads.py", wanted).unwrap_or_else(|e| panic!("{name}: {e}")).func;
        let expected = results(&func);
        let module = Module { name: None, attributes: Default::default(), funcs: vec![func] };
        let base = Schedule::new(&module, 0);
        for rules in [Rules::auto(Core::new(&target, target.best_isa(), 4)), Rules::tvm(4)] {
            let space = generate(&module, 0, rules, &tvmr::stop::StopFlag::new()).expect("there is a space");
            for i in 0..2 {
                let Ok((candidate, _)) = space.sample(&base, stream(1, i)) else { continue };
                // Tensor expressions have no copy of windows side by side.
                let copies_windows = candidate.trace().insts.iter().any(|inst| inst.kind.name == "ReIndex");
                let stages = match of_trace(candidate.trace(), base.clone(), 0) {
                    Ok(stages) => {
                        assert!(!copies_windows, "{name}: there is no stage for `reindex`");
                        stages
                    }
                    Err(listed) if copies_windows => {
                        assert_eq!(listed[0].name, "reindex", "{name}");
                        continue;
                    }
                    Err(listed) => {
                        *refused.entry(format!("{name}: `{}`: {}", listed[0].name, listed[0].why)).or_default() += 1;
                        continue;
                    }
                };
                let python = stages.to_python().unwrap_or_else(|e| panic!("{name}: {e:?}"));
                let read = TeSchedule::parse(&python, "printed.py", WorkloadChoice::default());
                let mut again = base.clone();
                if let Err(e) = read.unwrap_or_else(|e| panic!("{e}\n{python}")).apply(&mut again) {
                    panic!("{name}: {}\n{python}", e.diagnostic.message);
                }
                let found = results(again.func(0));
                let near = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-5 * x.abs().max(1.0);
                assert!(expected.iter().zip(&found).all(near), "{name}: other results\n{python}");
                printed += 1;
            }
        }
    }
    assert!(printed >= 20, "{printed} candidates");
    assert!(refused.is_empty(), "{printed} are printed, not {refused:#?}");
}
