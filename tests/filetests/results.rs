//! Graphs compute the same with a pass as without it: each case of a pass in [`PASSES`] runs both ways, on random numbers.

use super::{Case, read};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tvmr::arrays::Array;
use tvmr::graph::GraphModule;
use tvmr::graph::pass::{Context, PIPELINE};
use tvmr::graph::program::Tensor;
use tvmr::ir::DType;
use tvmr::model::Model;
use tvmr::workload::Setting;

/// Passes that replace operators by others, which round differently, and that change which kernels there are.
const PASSES: [&str; 5] = ["quantise", "canonicalise", "fold_affine", "own_floats", "fuse"];

/// Compares the results of the graph `main` without the passes and with them.
pub(super) fn compare(case: &Case) {
    if !case.options.pass.as_deref().is_some_and(|pass| PASSES.contains(&pass)) {
        return;
    }
    let name = case.path.display();
    let (without, with) = (outputs(case, &PASSES), outputs(case, &[]));
    assert_eq!(without.len(), with.len(), "{name}");
    for (i, (a, b)) in without.iter().zip(&with).enumerate() {
        assert_eq!((a.dtype(), a.shape()), (b.dtype(), b.shape()), "{name}: result {i}");
        let (a, b) = (elements(a), elements(b));
        let largest = a.iter().fold(1.0, |largest: f64, v| largest.max(v.abs()));
        let is_close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * largest;
        assert!(a.iter().zip(&b).all(is_close), "{name}: result {i} without the passes is\n{a:?}\nwith them\n{b:?}");
    }
}

/// The results of `main` by all passes but some, on numbers that depend on the parameters alone.
fn outputs(case: &Case, left_out: &[&str]) -> Vec<Array> {
    let name = case.path.display();
    let parsed = read(case).unwrap_or_else(|e| panic!("{}", e.render(false)));
    let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
    for pass in PIPELINE.iter().filter(|pass| !left_out.contains(&pass.name)) {
        (pass.run)(&mut module, &Context::default()).unwrap_or_else(|e| panic!("{name}: {}: {e:?}", pass.name));
    }
    let model = Model::of_lowered(&module, "main", &Setting::native());
    let mut model = model.unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let inputs: Vec<Array> = model.inputs().iter().map(|t| random(t, &mut rng)).collect();
    let weights: Vec<Array> = model.weights().iter().map(|t| random(t, &mut rng)).collect();
    model.load_weights(&weights).and_then(|()| model.run(&inputs)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Numbers from -1 to 1, and all bytes; from 0.5 to 2 for divisors and variances, whose names begin with `d` or `v`.
fn random(tensor: &Tensor, rng: &mut TestRng) -> Array {
    let (low, high) = if tensor.name.starts_with(['d', 'v']) { (0.5, 2.0) } else { (-1.0, 1.0) };
    let n: i64 = tensor.shape.iter().product();
    let mut data = Vec::new();
    for _ in 0..n {
        let value = low + (high - low) * f64::from(rng.next_u32()) / f64::from(u32::MAX);
        match tensor.dtype {
            DType::Float64 => data.extend(value.to_le_bytes()),
            DType::Float32 => data.extend((value as f32).to_le_bytes()),
            DType::Float16 => data.extend(half::f16::from_f64(value).to_le_bytes()),
            DType::Int32 => data.extend(((value * 100.0) as i32).to_le_bytes()),
            DType::Int8 | DType::UInt8 => data.push((value * 128.0).floor() as i64 as u8),
            other => panic!("no random numbers of {other}"),
        }
    }
    Array::new(tensor.dtype, &tensor.shape, data).expect("an array")
}

fn elements(array: &Array) -> Vec<f64> {
    let of = |bytes: &[u8]| match (array.dtype(), bytes) {
        (DType::Float64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        (DType::Float32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (DType::Float16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f64(),
        (DType::Int32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
        (DType::Int8, &[a]) => f64::from(a.cast_signed()),
        (DType::UInt8, &[a]) => f64::from(a),
        (other, _) => panic!("no numbers of {other}"),
    };
    array.data().chunks(array.dtype().bytes()).map(of).collect()
}
