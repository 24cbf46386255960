//! Compiles kernels into modules that are written to files.
//!
//! The code is that of [`super::compile`], but for two things: it is position-independent, and it never looks at a stop flag.

use super::clif::{self, Emission};
use super::facts::buffers_in;
pub use super::isa::Cpu;
use super::scratch::ScratchLayout;
use super::{CodegenError, CodegenOptions, isa, opt, wide};
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
    /// Whether it may have instructions for dot products of bytes.
    pub has_dots: bool,
    /// The functions that Cranelift did not compile, which need unwind information.
    pub encoded: Vec<EncodedFunction>,
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

/// Whether a kernel has dot products of bytes.
fn has_dot_products(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| found |= matches!(kernel.arena.expr(e), Expr::Dot4(..)));
        });
    });
    found
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
    let multiplies_bytes = has_dot_products(&kernel);
    let regions = wide::plan(&mut kernel, options);
    let scratch = ScratchLayout::new(&kernel, &regions);
    let mut has_parallel = false;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        has_parallel |= matches!(stmt, Stmt::For(For { kind: LoopKind::Parallel, .. }));
    });
    let has_dots = options.dot_products && isa::has_dot_products(options.isa) && multiplies_bytes;
    let emission = Emission { name, can_stop: false, want_text: false };
    let emitted = clif::emit(module, &kernel, regions, options, &scratch, emission)?;
    let encoded = emitted.encoded.iter().map(|e| EncodedFunction { id: e.id, len: e.len, head: e.head }).collect();
    Ok(ObjectKernel {
        entry: emitted.entry,
        shared_bytes: scratch.shared_bytes,
        private_bytes: scratch.private_bytes,
        is_parallel: has_parallel && options.threads > 1,
        has_dots,
        encoded,
    })
}
