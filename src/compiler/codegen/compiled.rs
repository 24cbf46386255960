//! From a kernel to a function that can be called.

#![expect(clippy::disallowed_methods, reason = "stages are timed")]

use super::clif::{self, FunctionText};
use super::isa;
use super::opt;
use super::options::{CodegenError, CodegenOptions};
use super::runtime::frame::{Frame, KernelFn, Status};
use super::runtime::{RunContext, RuntimeFailure, functions, workers};
use super::scratch::ScratchLayout;
use super::wide;
use crate::loopir::{Buffer, For, Kernel, LoopKind, Stmt};
use crate::machine::Isa;
use cranelift_jit::{JITBuilder, JITModule};
use std::time::{Duration, Instant};

/// How long the stages of a compilation took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompileTimes {
    /// Loop optimisation.
    pub optimize: Duration,
    /// Building the back end's IR.
    pub build: Duration,
    /// The back end.
    pub emit: Duration,
    /// Making the code executable.
    pub link: Duration,
}

impl CompileTimes {
    /// All stages together.
    pub fn total(&self) -> Duration {
        self.optimize + self.build + self.emit + self.link
    }
}

/// Machine code of a kernel, in memory of its own that is freed with it.
pub struct CompiledKernel {
    /// There until dropped.
    module: Option<JITModule>,
    entry: KernelFn,
    params: Vec<Buffer>,
    assertions: Vec<String>,
    scratch: ScratchLayout,
    regions: usize,
    is_parallel: bool,
    times: CompileTimes,
}

// SAFETY: the module is only kept to be freed, and its code is never written again.
unsafe impl Sync for CompiledKernel {}

/// Compiles a kernel.
///
/// # Errors
/// The machine is not supported, or the back end refuses the kernel.
pub fn compile(kernel: &Kernel, options: &CodegenOptions) -> Result<CompiledKernel, CodegenError> {
    let started = Instant::now();
    let mut optimized = opt::optimize(kernel.clone(), options);
    let optimize = started.elapsed();
    let (mut compiled, _) = assemble(&mut optimized, options, false)?;
    // Passes may read elements as another type of their size.
    compiled.params = kernel.params().to_vec();
    compiled.times.optimize = optimize;
    tracing::trace!("{:?}", compiled.times);
    Ok(compiled)
}

/// Compiles a kernel as it is, with scalar code for one thread: what optimised kernels are compared with shares none of the
/// passes that made them. Only long loops are cut, so that it can be stopped.
///
/// # Errors
/// As [`compile`].
pub fn compile_plain(kernel: &Kernel) -> Result<CompiledKernel, CodegenError> {
    let options =
        CodegenOptions { isa: Isa::Portable, strict_fp: true, dot_products: false, threads: 1, any_cpu: false };
    let mut kernel = kernel.clone();
    opt::strip_mine(&mut kernel, options.isa);
    Ok(assemble(&mut kernel, &options, false)?.0)
}

/// How code for this process is emitted.
const FOR_THIS_PROCESS: clif::Emission<'_> = clif::Emission { name: "tvmr_kernel", can_stop: true, want_text: false };

/// Emits a kernel as it is.
pub(super) fn assemble(
    kernel: &mut Kernel,
    options: &CodegenOptions,
    want_text: bool,
) -> Result<(CompiledKernel, FunctionText), CodegenError> {
    tracing::trace!("optimised loops:\n{}", crate::loopir::print::print(kernel));
    let regions = wide::plan(kernel, options);
    tracing::trace!("{regions}");
    let mut is_parallel = false;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        is_parallel |= matches!(stmt, Stmt::For(For { kind: LoopKind::Parallel, .. }));
    });
    let n_regions = regions.len();
    let mut builder = JITBuilder::with_isa(isa::here(options.any_cpu)?, cranelift_module::default_libcall_names());
    builder.symbol_lookup_fn(Box::new(functions::address_of));
    let mut module = JITModule::new(builder);
    let scratch = ScratchLayout::new(kernel, &regions);
    let result = clif::emit(&mut module, kernel, regions, options, &scratch, FOR_THIS_PROCESS.with_text(want_text))
        .and_then(|emitted| {
            let started = Instant::now();
            module.finalize_definitions()?;
            Ok((emitted, started.elapsed()))
        });
    let (emitted, link) = match result {
        Ok(done) => done,
        Err(error) => {
            // SAFETY: no function of the module has been handed out.
            unsafe { module.free_memory() };
            return Err(error);
        }
    };
    let entry = module.get_finalized_function(emitted.entry);
    // SAFETY: the function was emitted with this signature.
    let entry = unsafe { std::mem::transmute::<*const u8, KernelFn>(entry) };
    let times = CompileTimes { optimize: Duration::ZERO, build: emitted.build, emit: emitted.compile, link };
    let compiled = CompiledKernel {
        module: Some(module),
        entry,
        params: kernel.params().to_vec(),
        assertions: kernel.assertions.clone(),
        scratch,
        regions: n_regions,
        is_parallel,
        times,
    };
    Ok((compiled, emitted.text.unwrap_or_default()))
}

impl CompiledKernel {
    /// The parameters, in order.
    pub fn params(&self) -> &[Buffer] {
        &self.params
    }

    /// The message of an assertion.
    pub fn assertion(&self, index: u32) -> Option<&str> {
        self.assertions.get(index as usize).map(String::as_str)
    }

    /// How many inner nests the wide-vector back end compiled.
    pub fn regions(&self) -> usize {
        self.regions
    }

    /// Whether some loop may run on several threads.
    pub fn is_parallel(&self) -> bool {
        self.is_parallel
    }

    /// How long compilation took.
    pub fn times(&self) -> CompileTimes {
        self.times
    }

    /// Runs the kernel.
    ///
    /// # Errors
    /// The kernel stopped by itself, or the context's stop flag was raised; what it stored until then stays.
    ///
    /// # Safety
    /// `args` holds one pointer for each parameter, to as many elements as it has, aligned to the elements. Nothing else
    /// writes them meanwhile, and what the kernel writes is neither read by anything else nor overlaps another argument.
    /// The kernel keeps the invariants of the loop IR.
    pub unsafe fn call(&self, args: &[*mut u8], context: &mut RunContext) -> Result<(), RuntimeFailure> {
        assert_eq!(args.len(), self.params.len(), "one argument for each parameter");
        debug_assert!(
            args.iter().zip(&self.params).all(|(&a, p)| (a as usize).is_multiple_of(p.dtype.bytes())),
            "arguments are aligned to their elements"
        );
        let workers = context.workers().threads();
        let scratch = context.scratch(self.scratch.total(workers));
        let frame = Frame {
            params: args.as_ptr(),
            shared: scratch,
            private: scratch.wrapping_add(self.scratch.total(0)),
            stop: context.stop_flag().as_ptr(),
            fork: workers::fork,
            workers: context.workers(),
        };
        // SAFETY: the code was generated for a frame like this; the rest is the caller's promise.
        let status = unsafe { (self.entry)(&raw const frame) };
        Status::from_code(status).result()
    }
}

impl Drop for CompiledKernel {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: calls borrow the kernel, so none is running.
            unsafe { module.free_memory() };
        }
    }
}
