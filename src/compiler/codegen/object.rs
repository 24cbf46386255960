//! Compiles kernels into modules that are written to files.
//!
//! The code is that of [`super::compile`], but for two things: it is position-independent, and it never looks at a stop flag.

use super::clif::{self, Emission};
use super::facts::buffers_in;
pub use super::isa::Cpu;
use super::scratch::ScratchLayout;
use super::{CodegenError, CodegenOptions, isa, opt, wide};
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Expr, For, Kernel, LoopKind, Stmt};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_module::{FuncId, Module};

/// A kernel in a module.
pub struct ObjectKernel {
    /// Its function, which takes a frame.
    pub entry: FuncId,
    /// Bytes of scratch memory that all workers share.
    pub shared_bytes: usize,
    /// Bytes of scratch memory of each worker.
    pub private_bytes: usize,
    /// Whether it forks to workers.
    pub is_parallel: bool,
    /// The extensions of the vector instruction set that it may use.
    pub extensions: Extensions,
    /// The functions that Cranelift did not compile, which need unwind information.
    pub encoded: Vec<EncodedFunction>,
}

/// Extensions of a vector instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extensions {
    /// Dot products of bytes.
    pub dots: bool,
    /// Conversion to bfloat16.
    pub bf16: bool,
    /// Minima and maxima of float16.
    pub float16: bool,
}

impl Extensions {
    /// The extensions that a kernel may use, if the machine has them.
    fn of(kernel: &Kernel, options: &CodegenOptions) -> Extensions {
        let (mut has_dots, mut has_bf16, mut has_extremes) = (false, false, false);
        kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
            for_each_operand(stmt, |e| {
                for_each_expr(&kernel.arena, e, &mut |e| {
                    has_dots |= matches!(kernel.arena.expr(e), Expr::Dot4(..));
                    has_bf16 |= kernel.arena.dtype(e) == DType::BFloat16;
                    let is_extreme =
                        matches!(kernel.arena.expr(e), Expr::Binary(BinOp::Min | BinOp::Max, ..) | Expr::Reduce(..));
                    has_extremes |= is_extreme && kernel.arena.dtype(e) == DType::Float16;
                });
            });
        });
        Extensions {
            dots: has_dots && options.dot_products && isa::has_dot_products(options.isa),
            bf16: has_bf16 && isa::has_bf16_conversion(options.isa),
            float16: has_extremes && isa::has_float16_arithmetic(options.isa),
        }
    }

    /// The extensions that either of two kernels may use.
    pub fn or(self, other: Extensions) -> Extensions {
        Extensions {
            dots: self.dots || other.dots,
            bf16: self.bf16 || other.bf16,
            float16: self.float16 || other.float16,
        }
    }
}

/// A function that was given as bytes.
pub struct EncodedFunction {
    /// The function.
    pub id: FuncId,
    /// Number of its bytes.
    pub len: usize,
    /// The first bytes, among which are those that save registers.
    pub head: [u8; 16],
}

/// Cranelift's description of the machine that objects are for.
pub fn isa_for(cpu: Cpu) -> Result<OwnedTargetIsa, CodegenError> {
    isa::for_objects(cpu)
}

/// For each parameter of a kernel, whether it is accessed.
pub fn accessed_params(kernel: &Kernel) -> Vec<bool> {
    let mut uses = vec![false; kernel.params().len()];
    for buffer in buffers_in(kernel, kernel.body) {
        if let Some(used) = uses.get_mut(buffer.index()) {
            *used = true;
        }
    }
    uses
}

/// Compiles a kernel into a module, as local functions whose names begin with `name`.
///
/// # Errors
/// As [`super::compile`].
pub fn compile_into(
    module: &mut dyn Module,
    name: &str,
    kernel: &Kernel,
    options: &CodegenOptions,
) -> Result<ObjectKernel, CodegenError> {
    let mut kernel = opt::optimize(kernel.clone(), options);
    let extensions = Extensions::of(&kernel, options);
    let regions = wide::plan(&mut kernel, options);
    let scratch = ScratchLayout::new(&kernel, &regions);
    let mut has_parallel = false;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        has_parallel |= matches!(stmt, Stmt::For(For { kind: LoopKind::Parallel, .. }));
    });
    let emission = Emission { name, can_stop: false, want_text: false };
    let emitted = clif::emit(module, &kernel, regions, options, &scratch, emission)?;
    let encoded = emitted.encoded.iter().map(|e| EncodedFunction { id: e.id, len: e.len, head: e.head }).collect();
    Ok(ObjectKernel {
        entry: emitted.entry,
        shared_bytes: scratch.shared_bytes,
        private_bytes: scratch.private_bytes,
        is_parallel: has_parallel && options.threads > 1,
        extensions,
        encoded,
    })
}
