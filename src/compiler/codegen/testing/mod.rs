//! Shared parts of the code generation tests: guarded memory, comparison of both ways to run a kernel, random kernels.

pub mod memory;
pub mod programs;
#[cfg(test)]
pub(crate) mod random;

use super::{CodegenOptions, CompiledKernel, RunContext, RuntimeFailure};
use crate::ir::{Const, DType};
use crate::loopir::eval::{self, Memory, Stopped};
use crate::loopir::{Failure, Kernel};
use crate::machine::{Isa, Target};
use memory::{Flush, GuardedBuffer};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A generator of random numbers for a seed.
pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// The vector instruction sets of this machine.
pub fn wide_sets() -> Vec<CodegenOptions> {
    let machine = Target::native().target;
    let sets = [Isa::Avx2, Isa::Avx512Ymm, Isa::Avx512].into_iter().filter(|isa| isa.is_available(&machine));
    sets.map(|isa| CodegenOptions { isa, ..CodegenOptions::default() }).collect()
}

/// A random number in `0..n`.
pub(crate) fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    (rng.next_u64() % n as u64) as usize
}

/// A random value: floats in [-1, 1), small integers, bytes over their whole range.
pub(crate) fn random_value(rng: &mut ChaCha8Rng, dtype: DType) -> Const {
    let bits = rng.next_u64();
    if dtype.is_float() {
        Const::Float(dtype.round((bits >> 40) as f64 / (1u64 << 23) as f64 - 1.0))
    } else {
        Const::Int(match dtype {
            DType::Bool => (bits & 1) as i64,
            DType::Int8 | DType::UInt8 => dtype.wrap((bits >> 8) as i64),
            _ if dtype.is_int() => (bits % 23) as i64 - 11,
            _ => (bits % 23) as i64,
        })
    }
}

/// Random contents for the parameters of a kernel.
pub fn random_params(kernel: &Kernel, seed: u64) -> Vec<Memory> {
    let mut rng = rng(seed);
    let mut fill = |b: &crate::loopir::Buffer| (0..b.len).map(|_| Some(random_value(&mut rng, b.dtype))).collect();
    kernel.params().iter().map(&mut fill).collect()
}

/// Runs machine code on the given parameter contents, in guarded memory.
pub fn run_compiled(
    compiled: &CompiledKernel,
    params: &[Memory],
    flush: Flush,
    context: &mut RunContext,
) -> Result<Vec<Memory>, RuntimeFailure> {
    context.poison_scratch(0xff);
    let types: Vec<DType> = compiled.params().iter().map(|p| p.dtype).collect();
    // SAFETY: the buffers are as long as the parameters and distinct; a wrong access hits a guard.
    in_guarded_memory(&types, params, flush, |args| unsafe { compiled.call(args, context) })
}

/// Makes a call on the given contents of parameters, in guarded memory, and gives the contents after it.
pub fn in_guarded_memory<E>(
    types: &[DType],
    params: &[Memory],
    flush: Flush,
    call: impl FnOnce(&[*mut u8]) -> Result<(), E>,
) -> Result<Vec<Memory>, E> {
    let buffers = types.iter().zip(params).map(|(&t, contents)| GuardedBuffer::with_contents(t, contents, flush));
    let mut buffers: Vec<GuardedBuffer> = buffers.collect();
    let args: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr()).collect();
    call(&args)?;
    Ok(buffers.iter().map(|b| b.contents()).collect())
}

/// Required precision of floats.
#[derive(Clone, Copy, Debug)]
pub enum Closeness {
    /// Equal; NaN matches NaN.
    Exact,
    /// Within this many ulps of the type, relative to the larger of the value and 1.
    Ulps(f64),
}

/// Panics if contents differ.
pub(crate) fn assert_close(kernel: &Kernel, expected: &[Memory], found: &[Memory], closeness: Closeness, what: &str) {
    for ((p, expected), found) in kernel.params().iter().zip(expected).zip(found) {
        for (i, (e, f)) in expected.iter().zip(found).enumerate() {
            let close = match (e, f, closeness) {
                (Some(Const::Float(e)), Some(Const::Float(f)), _) if e.is_nan() || f.is_nan() => {
                    e.is_nan() && f.is_nan()
                }
                (Some(Const::Float(e)), Some(Const::Float(f)), Closeness::Ulps(n)) => {
                    let unit = match p.dtype {
                        DType::Float64 => f64::EPSILON,
                        DType::Float32 => f32::EPSILON as f64,
                        DType::Float16 => 1.0 / 1024.0,
                        _ => 1.0 / 128.0,
                    };
                    e == f || (e - f).abs() <= n * unit * e.abs().max(1.0)
                }
                _ => e == f,
            };
            assert!(
                close,
                "{what}: element {i} of `{}` is {f:?}, expected {e:?}\n{}",
                p.name,
                crate::loopir::print::print(kernel)
            );
        }
    }
}

/// Runs the evaluator and machine code on the same random contents and compares the results.
#[cfg(test)]
pub(crate) fn check(kernel: &Kernel, options: &CodegenOptions, seed: u64, closeness: Closeness) {
    let params = random_params(kernel, seed);
    Evaluated::new(kernel, params, seed).check(options, closeness);
}

/// A kernel, and its results for some parameter contents.
pub struct Evaluated<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    seed: u64,
    /// The contents of its parameters before it runs.
    pub params: Vec<Memory>,
    expected: Vec<Memory>,
    outcome: Result<(), Stopped>,
}

impl<'a> Evaluated<'a> {
    /// Runs the evaluator.
    pub fn new(kernel: &'a Kernel, params: Vec<Memory>, seed: u64) -> Evaluated<'a> {
        let mut expected = params.clone();
        let outcome = eval::run(kernel, &mut expected);
        Evaluated { kernel, seed, params, expected, outcome }
    }

    /// Compares machine code with the results, and returns its number of regions.
    #[cfg(test)]
    pub(crate) fn check(&self, options: &CodegenOptions, closeness: Closeness) -> usize {
        let kernel = self.kernel;
        let compiled = super::compile(kernel, options).unwrap_or_else(|e| panic!("{e}"));
        for flush in [Flush::Start, Flush::End] {
            let found = run_compiled(&compiled, &self.params, flush, &mut RunContext::serial());
            let what = format!("{options:?}, {flush:?}");
            self.compare(found, failure, closeness, &what);
        }
        compiled.regions()
    }

    /// Compares what another way to run the kernel gave; `as_error` is its error for a failure of the program.
    pub fn compare<E: PartialEq + std::fmt::Debug>(
        &self,
        found: Result<Vec<Memory>, E>,
        as_error: impl Fn(Failure) -> E,
        closeness: Closeness,
        what: &str,
    ) {
        let what = &format!("seed {}, {what}", self.seed);
        match (&self.outcome, found) {
            (Ok(()), Ok(found)) => assert_close(self.kernel, &self.expected, &found, closeness, what),
            (Err(Stopped::Failure(f)), Err(e)) => assert_eq!(e, as_error(*f), "{what}"),
            (outcome, found) => panic!(
                "{what}: expected {outcome:?}, found {:?}\n{}",
                found.map(|_| ()),
                crate::loopir::print::print(self.kernel)
            ),
        }
    }
}

#[cfg(test)]
fn failure(f: Failure) -> RuntimeFailure {
    match f {
        Failure::OutOfBounds { buffer } => RuntimeFailure::OutOfBounds { buffer },
        Failure::Division => RuntimeFailure::Division,
        Failure::Assertion { index } => RuntimeFailure::Assertion { index },
    }
}
