//! Machine code from kernels of the loop IR.
//!
//! [`compile`] is the pipeline: loop optimisation ([`opt`]), emission through Cranelift ([`clif`]), and a
//! [`CompiledKernel`] that can be called. It takes about a millisecond and is safe to run on many threads at once.
//! Compiled kernels run in a [`RunContext`], which has the threads for parallel loops, scratch memory and a stop flag.
//!
//! What comes before: lowering, which proves or guards every access. What comes after: measurement. Start reading at
//! [`compile`].

mod clif;
mod compiled;
mod cost;
mod disassemble;
pub(crate) mod facts;
pub mod inspect;
mod isa;
pub mod opt;
mod options;
pub(crate) mod runtime;
mod scratch;
mod wide;

pub use compiled::{CompileTimes, CompiledKernel, compile, compile_plain};
pub use disassemble::disassemble;
pub use options::{CodegenError, CodegenOptions};
pub use runtime::{Pinning, RunContext, RuntimeFailure, Workers};

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod soak;

#[cfg(test)]
mod tests;
