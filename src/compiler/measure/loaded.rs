//! Compiled kernels as executables.

use super::arguments::{Arguments, ParamSpec, Poison};
use super::executable::{Executable, RunFailure};
use super::timer::Stop;
use crate::codegen::{CompiledKernel, RunContext, RuntimeFailure};
use crate::ir::preparation::separate;
use crate::ir::{DType, Func};
use crate::loopir::Access;
use crate::stop::StopFlag;
use std::sync::{Arc, Mutex, PoisonError};

/// A compiled kernel with its run context. All kernels of a search share one context: its threads, its scratch memory,
/// and its stop flag.
pub struct Loaded {
    kernel: CompiledKernel,
    preparation: Option<Preparation>,
    context: Arc<Mutex<RunContext>>,
    threads: u32,
}

/// The preparation of a kernel: another kernel with the same parameters, which fills the last of them, in memory that
/// belongs to this executable and stays unchanged between calls.
struct Preparation {
    kernel: CompiledKernel,
    specs: Vec<ParamSpec>,
    /// The prepared buffers, once the preparation has run.
    prepared: Mutex<Option<Arguments>>,
}

impl Loaded {
    /// A kernel that runs in this context, which has `threads` threads. (The context is locked during runs, so it
    /// cannot be asked.)
    pub fn new(kernel: CompiledKernel, context: Arc<Mutex<RunContext>>, threads: u32) -> Loaded {
        Loaded { kernel, preparation: None, context, threads }
    }

    /// The executable of a function: its kernel, and that of its preparation if it has one, which `compile` makes.
    ///
    /// # Errors
    /// As `compile`.
    pub fn of<E>(
        func: &Func,
        context: Arc<Mutex<RunContext>>,
        threads: u32,
        compile: impl Fn(&Func) -> Result<CompiledKernel, E>,
    ) -> Result<Loaded, E> {
        Ok(match separate(func) {
            None => Loaded::new(compile(func)?, context, threads),
            Some(parts) => Loaded::new(compile(&parts.call)?, context, threads)
                .with_preparation(compile(&parts.preparation)?, parts.n_prepared),
        })
    }

    /// Adds a preparation. Both kernels have `n_prepared` parameters more than the function.
    pub fn with_preparation(mut self, kernel: CompiledKernel, n_prepared: usize) -> Loaded {
        let params = kernel.params();
        let own = &params[params.len().saturating_sub(n_prepared)..];
        let spec = |p: &crate::loopir::Buffer| ParamSpec::new(p.name.as_str(), p.dtype, &[p.len], Access::Out);
        let specs = own.iter().map(spec).collect();
        self.preparation = Some(Preparation { kernel, specs, prepared: Mutex::new(None) });
        self
    }

    /// Runs the preparation in new, poisoned memory; a failure leaves nothing prepared.
    fn carry_out(
        &self,
        preparation: &Preparation,
        prepared: &mut Option<Arguments>,
        args: &mut Arguments,
    ) -> Result<(), RunFailure> {
        let mut own = match prepared.take() {
            Some(mut own) => {
                own.reset(Poison::Ones);
                own
            }
            None => {
                let kept = |layout| self.context.lock().unwrap_or_else(PoisonError::into_inner).take_kept(layout);
                // New arguments are poisoned.
                let new = Arguments::in_block_of(&preparation.specs, args.seed(), &StopFlag::new(), kept);
                new.map_err(|e| RunFailure::Failed(e.to_string()))?
            }
        };
        let pointers: Vec<*mut u8> = args.pointers().iter().chain(own.pointers()).copied().collect();
        self.call(&preparation.kernel, args, &pointers, 1)?;
        own.inspect().map_err(|damage| RunFailure::Failed(damage.to_string()))?;
        *prepared = Some(own);
        Ok(())
    }

    /// Calls a kernel on the arguments, followed by the prepared buffers.
    fn call(
        &self,
        kernel: &CompiledKernel,
        args: &mut Arguments,
        pointers: &[*mut u8],
        calls: u64,
    ) -> Result<(), RunFailure> {
        // Kernels have no floats of 8 bits, but bytes in their place.
        let held_as = |dtype| if let DType::Float8(_) = dtype { DType::UInt8 } else { dtype };
        let fits = |(param, spec): (&crate::loopir::Buffer, &ParamSpec)| {
            param.dtype == held_as(spec.dtype) && usize::try_from(param.len).is_ok_and(|n| n <= spec.len())
        };
        let own = self.preparation.as_ref().map_or(&[][..], |p| &p.specs);
        let n = args.specs().len() + own.len();
        assert!(
            (kernel.params().len(), pointers.len()) == (n, n)
                && kernel.params().iter().zip(args.specs().iter().chain(own)).all(fits),
            "a kernel runs on the arguments of its function"
        );
        // The context has no state between calls, so a panic cannot have left it inconsistent.
        let mut context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..calls {
            // SAFETY: there is one pointer per parameter, to at least as many elements of its type, aligned to
            // them. The arguments are borrowed exclusively, the prepared buffers belong to this executable and are
            // only written under its lock, and no buffers overlap. Lowering and the code generator keep the invariants
            // of the loop IR.
            unsafe { kernel.call(pointers, &mut context) }.map_err(|failure| self.failure(failure))?;
        }
        Ok(())
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
            RuntimeFailure::Assertion { index } => {
                let message = self.kernel.assertion(index).map(|m| format!("{failure}: {m}"));
                RunFailure::Failed(message.unwrap_or_else(|| failure.to_string()))
            }
            RuntimeFailure::Division => RunFailure::Failed(failure.to_string()),
        }
    }
}

impl Executable for Loaded {
    fn run(&self, args: &mut Arguments) -> Result<(), RunFailure> {
        self.run_many(args, 1)
    }

    fn run_many(&self, args: &mut Arguments, calls: u64) -> Result<(), RunFailure> {
        let mut pointers = args.pointers().to_vec();
        let Some(preparation) = &self.preparation else { return self.call(&self.kernel, args, &pointers, calls) };
        // Held during the calls, so that the prepared buffers do not move.
        let mut prepared = preparation.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if prepared.is_none() {
            self.carry_out(preparation, &mut prepared, args)?;
        }
        pointers.extend(prepared.iter_mut().flat_map(Arguments::pointers).copied());
        self.call(&self.kernel, args, &pointers, calls)
    }

    fn prepare(&self, args: &mut Arguments) -> Result<bool, RunFailure> {
        let Some(preparation) = &self.preparation else { return Ok(false) };
        let mut prepared = preparation.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        self.carry_out(preparation, &mut prepared, args)?;
        Ok(true)
    }

    fn is_prepared(&self) -> bool {
        let lock = |p: &Preparation| p.prepared.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        self.preparation.as_ref().is_none_or(lock)
    }

    fn forget_preparation(&self) {
        let Some(preparation) = &self.preparation else { return };
        let prepared = preparation.prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(prepared) = prepared {
            self.context.lock().unwrap_or_else(PoisonError::into_inner).keep(prepared.into_block());
        }
    }

    fn threads(&self) -> u32 {
        if self.kernel.is_parallel() { self.threads } else { 1 }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.forget_preparation();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::{CodegenOptions, compile};
    use crate::lower::lower;
    use crate::machine::Isa;
    use tvmr_frontend::script::{ParseOptions, parse};

    const PROGRAM: &str = "@T.prim_func
def main(W: T.Buffer((64,), \"float32\"), Y: T.Buffer((64,), \"float32\")):
    T.func_attr({\"layout_free_buffers\": [0]})
    P = T.alloc_buffer((64,), \"float32\")
    for i in range(64):
        with T.block(\"P\"):
            v = T.axis.spatial(64, i)
            T.block_attr({\"meta_schedule.layout_rewrite_preproc\": True})
            P[v] = W[63 - v]
    for i in range(64):
        with T.block(\"Y\"):
            v = T.axis.spatial(64, i)
            Y[v] = P[v] + T.float32(1)
";

    fn loaded() -> Loaded {
        let parsed = parse(PROGRAM, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let parts = separate(&parsed.module.funcs[0]).expect("a preparation");
        let options =
            CodegenOptions { isa: Isa::Portable, strict_fp: true, dot_products: false, threads: 1, any_cpu: false };
        let kernel = |f: &Func| compile(&lower(f).expect("it lowers"), &options).expect("it compiles");
        let context = Arc::new(Mutex::new(RunContext::serial()));
        Loaded::new(kernel(&parts.call), context, 1).with_preparation(kernel(&parts.preparation), parts.n_prepared)
    }

    fn floats(args: &Arguments, i: usize) -> Vec<f32> {
        args.bytes(i).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    #[test]
    fn what_is_prepared_stays_until_it_is_prepared_again() {
        let spec = |name: &str, access| ParamSpec::new(name, DType::Float32, &[64], access);
        let mut args = Arguments::new(&[spec("W", Access::In), spec("Y", Access::Out)], 0).expect("memory");
        let code = loaded();
        let expected = |weights: &[f32]| weights.iter().rev().map(|w| w + 1.0).collect::<Vec<f32>>();
        // The first call runs the preparation.
        code.run(&mut args).expect("it runs");
        let first = floats(&args, 0);
        assert_eq!(floats(&args, 1), expected(&first));
        let second: Vec<f32> = (0..64u8).map(f32::from).collect();
        args.set(0, &second.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>());
        code.run_many(&mut args, 3).expect("it runs");
        assert_eq!(floats(&args, 1), expected(&first), "later calls do not prepare");
        assert_eq!(code.prepare(&mut args), Ok(true));
        code.run(&mut args).expect("it runs");
        assert_eq!(floats(&args, 1), expected(&second));
    }

    #[test]
    fn what_is_forgotten_is_prepared_again_in_memory_that_was_kept() {
        let spec = |name: &str, access| ParamSpec::new(name, DType::Float32, &[64], access);
        let mut args = Arguments::new(&[spec("W", Access::In), spec("Y", Access::Out)], 0).expect("memory");
        let code = loaded();
        assert!(!code.is_prepared());
        code.run(&mut args).expect("it runs");
        let right = floats(&args, 1);
        let place = |code: &Loaded| {
            let prepared = code.preparation.as_ref().expect("a preparation").prepared.lock().expect("no panic");
            prepared.as_ref().map(|own| own.addresses().to_vec())
        };
        let before = place(&code);
        assert!(before.is_some() && code.is_prepared());
        code.forget_preparation();
        assert!(!code.is_prepared());
        code.run(&mut args).expect("it runs");
        assert_eq!((floats(&args, 1), place(&code)), (right, before));
    }
}
