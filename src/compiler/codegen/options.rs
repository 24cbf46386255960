//! Options and errors of code generation.

use crate::machine::Isa;

/// Options of code generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodegenOptions {
    /// The vector instruction set to use.
    pub isa: Isa,
    /// Whether to compute floats exactly as written: no contraction to fused multiply-add, no reassociation, subnormal
    /// numbers kept, each half-precision operation rounded.
    pub strict_fp: bool,
    /// Whether to use instructions for byte dot products where the machine has them; otherwise multiplications give the
    /// same results.
    pub dot_products: bool,
    /// Number of threads for parallel loops; with 1 they are serial.
    pub threads: u32,
    /// Whether code outside of regions must run on every CPU of the architecture, instead of using the features of this one.
    pub any_cpu: bool,
}

impl Default for CodegenOptions {
    /// Portable vectors, fast floats, one thread.
    fn default() -> CodegenOptions {
        CodegenOptions { isa: Isa::Portable, strict_fp: false, dot_products: true, threads: 1, any_cpu: false }
    }
}

/// Why a kernel cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodegenError {
    /// Code generation does not support this machine.
    #[error("no code can be generated for this machine: {0}")]
    Machine(String),
    /// Cranelift rejects the kernel because of a limit, such as the size of a function.
    #[error("the back end failed: {0}")]
    Backend(String),
}

impl From<cranelift_module::ModuleError> for CodegenError {
    fn from(error: cranelift_module::ModuleError) -> CodegenError {
        CodegenError::Backend(error.to_string())
    }
}
