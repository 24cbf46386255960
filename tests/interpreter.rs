//! Compares the interpreter with NumPy on every workload (tests/data/workload_points.py wrote the expected values).

use std::path::Path;
use tvmr::ir::interp::{Arg, ArgRef, Options, Points, Precision, Tensor, Value, run};
use tvmr::ir::verify::{Checks, verify};
use tvmr::ir::{DType, Func};
use tvmr::script::{ParseOptions, parse};

fn workload(name: &str) -> Func {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads").join(format!("{name}.tir"));
    let text = std::fs::read_to_string(&path).expect("the workload is there");
    let mut parsed = parse(&text, name, &ParseOptions::default()).unwrap_or_else(|_| panic!("{name} does not parse"));
    parsed.module.funcs.remove(0)
}

fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn arguments(f: &Func) -> Vec<Arg> {
    let shape = |b| {
        let list = f.arena.list(f.arena.buffer(b).shape);
        list.iter().map(|&e| f.arena.as_int(e).expect("constant shapes")).collect::<Vec<i64>>()
    };
    let buffers = f.params.iter().map(|p| p.buffer.expect("buffers only"));
    buffers
        .enumerate()
        .map(|(number, b)| {
            let dtype = f.arena.buffer(b).dtype;
            let values = (0u64..).map(|i| {
                let h = splitmix(i + ((number as u64) << 32)) >> 40;
                match dtype {
                    DType::Int8 => Value::Int((h % 15) as i64 - 7),
                    _ => Value::Float(h as f64 / f64::from(1 << 23) - 1.0),
                }
            });
            Arg::Tensor(Tensor::from_values(dtype, &shape(b), values))
        })
        .collect()
}

/// Number of block instances, if no loop bound depends on another loop.
fn n_instances(f: &Func) -> i64 {
    let leaves = f.blocks().into_iter().filter(|&b| b != f.root);
    leaves
        .map(|b| {
            let loops = f.loops_above(b.stmt());
            loops.iter().map(|&l| f.arena.as_int(f.loop_(l).extent).expect("constant extents")).product::<i64>()
        })
        .sum()
}

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}

#[test]
fn workloads_are_what_numpy_computes() {
    let text = include_str!("data/workload_points.json");
    let cases: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).expect("valid JSON");
    assert_eq!(cases.len(), 28);
    for (name, case) in &cases {
        let f = workload(name);
        assert_eq!(verify(&f, Checks::ALL), [], "{name}");
        let points: Vec<(Vec<i64>, f64)> = serde_json::from_value(case["points"].clone()).expect("points");
        let shape: Vec<i64> = serde_json::from_value(case["shape"].clone()).expect("a shape");
        let output = f.params.last().and_then(|p| p.buffer).expect("a buffer");
        let mut args = arguments(&f);

        let views: Vec<ArgRef<'_>> = args.iter().map(Arg::view).collect();
        let wide = Options { precision: Precision::Wide, ..Options::default() };
        let mut on_demand = Points::new(&f, &views, wide).expect("workloads have the supported form");
        for (at, expected) in &points {
            let found = on_demand.eval(output, at).map_err(|e| e.message(&f)).expect("no fault");
            let found = found.expect("supported").as_f64();
            assert!(close(found, *expected, 1e-9), "{name}{at:?}: expected {expected}, found {found}");
        }
        if n_instances(&f) > 800_000 {
            continue;
        }
        run(&f, &mut args, Options::default()).map_err(|e| e.message(&f)).expect("no fault");
        let result = args.last().and_then(Arg::tensor).expect("a tensor");
        assert_eq!(result.shape, shape, "{name}");
        for (at, expected) in &points {
            let position = at.iter().zip(&shape).fold(0, |p, (i, n)| p * n + i);
            let found = result.get(position as usize).as_f64();
            assert!(close(found, *expected, 1e-4), "{name}{at:?}: expected {expected}, found {found}");
        }
    }
}
