//! Compiled kernels as executables.

use super::arguments::Arguments;
use super::executable::{Executable, RunFailure};
use super::timer::Stop;
use crate::codegen::{CompiledKernel, RunContext, RuntimeFailure, StopFlag};
use std::sync::{Arc, Mutex};

/// A compiled kernel with what it runs in. All kernels of a search share one context: its threads, its scratch memory,
/// and the flag that stops them.
pub struct Loaded {
    kernel: CompiledKernel,
    context: Arc<Mutex<RunContext>>,
    threads: u32,
}

impl Loaded {
    /// A kernel that runs in this context, which has so many threads. (Asking the context would wait for what runs.)
    pub fn new(kernel: CompiledKernel, context: Arc<Mutex<RunContext>>, threads: u32) -> Loaded {
        Loaded { kernel, context, threads }
    }

    /// The kernel.
    pub fn kernel(&self) -> &CompiledKernel {
        &self.kernel
    }

    fn failure(&self, failure: RuntimeFailure) -> RunFailure {
        match failure {
            RuntimeFailure::Stopped => RunFailure::Stopped,
            RuntimeFailure::OutOfBounds { buffer } => {
                RunFailure::Failed(match self.kernel.params().get(buffer.index()) {
                    Some(param) => format!("access out of bounds of `{}`", param.name),
                    None => "access out of bounds of an intermediate buffer".to_owned(),
                })
            }
            RuntimeFailure::Division | RuntimeFailure::Assertion => RunFailure::Failed(failure.to_string()),
        }
    }
}

impl Executable for Loaded {
    fn run(&self, args: &mut Arguments) -> Result<(), RunFailure> {
        self.run_many(args, 1)
    }

    fn run_many(&self, args: &mut Arguments, calls: u64) -> Result<(), RunFailure> {
        let fits = |(param, spec): (&crate::loopir::Buffer, &super::ParamSpec)| {
            param.dtype == spec.dtype && usize::try_from(param.len).is_ok_and(|n| n <= spec.len())
        };
        let params = self.kernel.params();
        assert!(
            params.len() == args.specs().len() && params.iter().zip(args.specs()).all(fits),
            "a kernel runs on the arguments of its function"
        );
        // The context has no state between calls; a panic in one cannot have left it half changed.
        let mut context = self.context.lock().unwrap_or_else(|e| e.into_inner());
        let pointers = args.pointers();
        for _ in 0..calls {
            // SAFETY: there is one pointer for each parameter, to at least as many elements of its type, aligned to 64
            // bytes; the arguments are borrowed exclusively and their buffers do not overlap. Lowering and the code
            // generator keep the invariants of the loop IR.
            unsafe { self.kernel.call(pointers, &mut context) }.map_err(|failure| self.failure(failure))?;
        }
        Ok(())
    }

    fn threads(&self) -> u32 {
        self.threads
    }
}

impl Stop for StopFlag {
    fn raise(&self) {
        StopFlag::raise(self);
    }

    fn clear(&self) {
        StopFlag::clear(self);
    }
}
