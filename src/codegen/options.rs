//! Options and errors of code generation.

use crate::machine::Isa;

/// How to generate code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodegenOptions {
    /// The vector instructions to use.
    pub isa: Isa,
    /// Compute floats exactly as the program is written: no contraction to fused multiply-add, no reassociation,
    /// subnormal numbers kept, half-precision operations rounded one by one.
    pub strict_fp: bool,
    /// Use the instruction for dot products of bytes, where the machine has it; otherwise they are made of
    /// multiplications, with the same results.
    pub dot_products: bool,
    /// Threads that parallel loops are written for; with 1 they are serial.
    pub threads: u32,
}

impl Default for CodegenOptions {
    /// Cranelift alone, fast floats, one thread.
    fn default() -> CodegenOptions {
        CodegenOptions { isa: Isa::Portable, strict_fp: false, dot_products: true, threads: 1 }
    }
}

/// A kernel that cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodegenError {
    /// The machine this runs on is not one that code can be generated for.
    #[error("no code can be generated for this machine: {0}")]
    Machine(String),
    /// Cranelift refuses the kernel: a limit of its own, such as the size of a function.
    #[error("the back end failed: {0}")]
    Backend(String),
}

impl From<cranelift_module::ModuleError> for CodegenError {
    fn from(error: cranelift_module::ModuleError) -> CodegenError {
        CodegenError::Backend(error.to_string())
    }
}
