//! Checks that a description and its implementation agree, by interpreting both on random data.

use super::TensorIntrin;
use crate::ir::interp::{Arg, Options, RunError, Tensor, Value, run};
use crate::ir::{DType, Func};

/// The kind of disagreement.
pub(super) enum Disagreement {
    /// The description cannot be run.
    DescriptionFails(RunError),
    /// The implementation cannot be run.
    ImplementationFails(RunError),
    /// An element differs.
    Results {
        /// The parameter.
        param: String,
        /// Indices of the element.
        index: Vec<i64>,
        /// The value of the description.
        expected: f64,
        /// The value of the implementation.
        found: f64,
    },
}

/// Number of random data sets.
const RUNS: u64 = 4;
/// Maximum number of stores of a run: an intrinsic is a few instructions, not a program.
const MAX_STEPS: u64 = 10_000_000;

/// Runs both on the same data.
pub(super) fn agree(intrin: &TensorIntrin) -> Result<(), Disagreement> {
    let options = Options { max_steps: MAX_STEPS, ..Options::default() };
    for seed in 0..RUNS {
        let mut expected = arguments(&intrin.description, seed);
        let mut found = expected.clone();
        run(&intrin.description, &mut expected, options).map_err(Disagreement::DescriptionFails)?;
        run(&intrin.implementation, &mut found, options).map_err(Disagreement::ImplementationFails)?;
        let tensors = expected.iter().zip(&found).filter_map(|(e, f)| Some((e.tensor()?, f.tensor()?)));
        for (i, (e, f)) in tensors.enumerate() {
            compare(&intrin.description, i, e, f)?;
        }
    }
    Ok(())
}

fn compare(func: &Func, param: usize, expected: &Tensor, found: &Tensor) -> Result<(), Disagreement> {
    let tolerance = tolerance(expected.dtype);
    for i in 0..expected.n_elements() {
        let (x, y) = (expected.get(i).as_f64(), found.get(i).as_f64());
        let close = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * x.abs().max(1.0);
        if !close {
            let name = func.params[param].buffer.map_or("", |b| func.arena.buffer(b).name.as_str());
            let index = indices(&expected.shape, i);
            return Err(Disagreement::Results { param: name.to_string(), index, expected: x, found: y });
        }
    }
    Ok(())
}

/// The tolerance for another order of a few hundred operations on numbers around 1, with a margin.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::Float64 => 1e-10,
        DType::Float32 => 1e-4,
        DType::Float16 | DType::BFloat16 => 1e-1,
        DType::Float8(_) => 1.0,
        _ => 0.0,
    }
}

fn indices(shape: &[i64], mut element: usize) -> Vec<i64> {
    let mut indices = vec![0; shape.len()];
    for (index, &extent) in indices.iter_mut().zip(shape).rev() {
        let extent = extent.max(1) as usize;
        *index = (element % extent) as i64;
        element /= extent;
    }
    indices
}

/// Random contents of the parameters, which are buffers of constant shape.
fn arguments(func: &Func, seed: u64) -> Vec<Arg> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 40
    };
    let buffers = func.params.iter().filter_map(|p| p.buffer).map(|b| func.arena.buffer(b));
    buffers
        .map(|buffer| {
            let shape: Vec<i64> =
                func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e).unwrap_or(0)).collect();
            let dtype = buffer.dtype;
            let values = std::iter::repeat_with(|| match dtype {
                _ if dtype.is_float() => Value::Float(next() as f64 / f64::from(1u32 << 23) - 1.0),
                DType::Bool => Value::Int((next() % 2) as i64),
                _ if dtype.is_int() => Value::Int((next() % 255) as i64 - 127),
                _ => Value::Int((next() % 256) as i64),
            });
            Arg::Tensor(Tensor::from_values(dtype, &shape, values))
        })
        .collect()
}
