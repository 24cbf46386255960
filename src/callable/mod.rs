//! Compiled functions that run on arrays of the caller.
//!
//! A [`Callable`] is what a program that embeds tvmr calls: it checks the arrays that it is given against the function's
//! parameters, prepares constant parameters once, and may be called from several threads at once. [`crate::measure`], which
//! comes before, runs kernels on arguments of its own instead; [`crate::tune`], which comes after, finds the schedules.
//!
//! ```
//! use tvmr::callable::{ArrayRef, Callable};
//! use tvmr::script::{ParseOptions, parse};
//! use tvmr::workload::{Setting, Workload};
//!
//! let text = "
//! @T.prim_func
//! def double(A: T.Buffer((128,), \"float32\"), B: T.Buffer((128,), \"float32\")):
//!     for i in range(128):
//!         with T.block(\"B\"):
//!             vi = T.axis.spatial(128, i)
//!             B[vi] = A[vi] * T.float32(2)
//! ";
//! let module = parse(text, "double.tir", &ParseOptions::default()).map_err(|e| e.render(false))?.module;
//! let workload = Workload::of(&module, 0);
//! let double = Callable::compile(&workload, workload.func(), &Setting::native(), None)?;
//! let (a, mut b) = ([1.5f32; 128], [0.0f32; 128]);
//! double.call(&[ArrayRef::of(&a, &[128]), ArrayRef::of_mut(&mut b, &[128])])?;
//! assert_eq!(b, [3.0; 128]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! * Nothing is copied or converted. An array that does not fit its parameter is an error that says what was expected.
//! * An array that is written overlaps no other argument; arrays that are only read may.
//! * Threads belong to a [`Workers`] pool that the caller may share among functions. They are not pinned. In a forked
//!   process, which has no such threads, parallel loops run serially.

mod arguments;
mod array;
#[cfg(test)]
mod tests;

pub(crate) use arguments::check as check_arrays;
pub use array::{ArrayRef, Element};

use crate::check::params;
use crate::codegen::{self, CompiledKernel, RunContext, RuntimeFailure, Workers};
use crate::ir::Func;
use crate::ir::preparation::{layout_free, separate};
use crate::loopir::Access;
use crate::lower;
use crate::measure::{Arguments, Executable, ParamSpec, RunFailure};
use crate::search::isolated;
use crate::workload::{Setting, Workload};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A compiled function that can be called on arrays.
pub struct Callable {
    name: String,
    kernel: CompiledKernel,
    preparation: Option<Preparation>,
    params: Vec<ParamSpec>,
    workers: Arc<Workers>,
    /// Contexts of finished calls, for later ones.
    idle: Mutex<Vec<RunContext>>,
}

/// The preparation of constant parameters, and its result.
struct Preparation {
    kernel: CompiledKernel,
    /// The parameters that it reads, by position.
    constants: Vec<usize>,
    specs: Vec<ParamSpec>,
    prepared: RwLock<Option<Arguments>>,
}

/// The reason why a function was not compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallableError {
    /// It cannot be compiled, or not called on arrays.
    #[error("{0}")]
    Program(String),
    /// The system refuses threads.
    #[error("cannot start threads: {0}")]
    Machine(String),
}

/// The reason why a call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// An array does not fit, or there are too many or too few.
    #[error("{0}")]
    Argument(String),
    /// The function failed, such as by an integer division by zero. Its stores until then remain.
    #[error("`{name}` failed: {why}")]
    Failed {
        /// The function.
        name: String,
        /// The reason.
        why: String,
    },
}

/// Pointers of a call.
pub(crate) type Pointers = SmallVec<[*mut u8; 8]>;

impl Callable {
    /// Compiles a scheduled version of a workload. Parallel loops run on `workers`, or on a new pool with the setting's number
    /// of threads.
    ///
    /// # Errors
    /// See [`CallableError`].
    pub fn compile(
        workload: &Workload,
        func: &Func,
        setting: &Setting,
        workers: Option<Arc<Workers>>,
    ) -> Result<Callable, CallableError> {
        let workers = match workers {
            Some(workers) => workers,
            None => {
                let threads = setting.threads.max(1) as usize;
                let pool = Workers::new(threads, &codegen::Pinning::None);
                Arc::new(pool.map_err(|e| CallableError::Machine(e.to_string()))?)
            }
        };
        // A panic in a pass is an error with its message.
        let compiled = isolated(|| Compiled::of(workload, func, setting)).and_then(|r| r);
        let Compiled { kernel, preparation, params } = compiled.map_err(CallableError::Program)?;
        let name = workload.name.as_str().to_owned();
        Ok(Callable { name, kernel, preparation, params, workers, idle: Mutex::new(Vec::new()) })
    }

    /// The name of the function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters, in order.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// The positions of parameters that are only written: a caller may pass new arrays for them.
    pub fn outputs(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.params.len()).filter(|&i| self.params[i].access == Access::Out)
    }

    /// The positions of constant parameters, which [`Callable::prepare`] takes; empty if nothing is prepared.
    pub fn constants(&self) -> &[usize] {
        self.preparation.as_ref().map_or(&[], |p| &p.constants)
    }

    /// Runs the function on an array for each parameter. The first call also prepares the constant parameters.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn call(&self, arrays: &[ArrayRef<'_>]) -> Result<(), CallError> {
        self.call_on(arguments::check(&self.name, &self.params, arrays)?)
    }

    /// Runs the function on pointers for its parameters, which were checked or are those of its arguments.
    fn call_on(&self, mut pointers: Pointers) -> Result<(), CallError> {
        let Some(preparation) = &self.preparation else { return self.run(&self.kernel, &pointers) };
        loop {
            let prepared = preparation.prepared.read().unwrap_or_else(PoisonError::into_inner);
            // The lock is held during the call, so that nothing prepares again meanwhile.
            if let Some(own) = &*prepared {
                pointers.extend_from_slice(own.addresses());
                return self.run(&self.kernel, &pointers);
            }
            drop(prepared);
            let mut prepared = preparation.prepared.write().unwrap_or_else(PoisonError::into_inner);
            if prepared.is_none() {
                self.carry_out(preparation, &mut prepared, &pointers)?;
            }
        }
    }

    /// Prepares constant parameters, given in the order of [`Callable::constants`]. Later calls compute with what these arrays
    /// hold now, whatever they are given for them.
    ///
    /// # Errors
    /// See [`CallError`]. After a failure nothing is prepared.
    pub fn prepare(&self, arrays: &[ArrayRef<'_>]) -> Result<(), CallError> {
        let constants: Vec<ParamSpec> = self.constants().iter().map(|&i| self.params[i].clone()).collect();
        let given = arguments::check(&self.name, &constants, arrays)?;
        let Some(preparation) = &self.preparation else { return Ok(()) };
        // The preparation accesses no other parameters.
        let mut pointers: Pointers = SmallVec::from_elem(UNUSED, self.params.len());
        for (&i, &pointer) in preparation.constants.iter().zip(&given) {
            pointers[i] = pointer;
        }
        let mut prepared = preparation.prepared.write().unwrap_or_else(PoisonError::into_inner);
        self.carry_out(preparation, &mut prepared, &pointers)
    }

    fn carry_out(
        &self,
        preparation: &Preparation,
        prepared: &mut Option<Arguments>,
        given: &[*mut u8],
    ) -> Result<(), CallError> {
        let failed = |why: String| CallError::Failed { name: self.name.clone(), why };
        let mut own = match prepared.take() {
            Some(own) => own,
            None => Arguments::new(&preparation.specs, 0).map_err(|e| failed(e.to_string()))?,
        };
        let pointers: Pointers = given.iter().chain(own.pointers()).copied().collect();
        self.run(&preparation.kernel, &pointers)?;
        *prepared = Some(own);
        Ok(())
    }

    /// Runs a kernel of the function. The pointers passed [`arguments::check`] or are those of its arguments; those of prepared
    /// buffers follow.
    fn run(&self, kernel: &CompiledKernel, pointers: &[*mut u8]) -> Result<(), CallError> {
        let mut context = self.context();
        // SAFETY: there is a pointer for each parameter: those of arrays, which were checked (length, alignment to elements,
        // overlaps) and which their creator lent for the call, or of arguments made for these parameters and borrowed
        // exclusively; then those of the prepared buffers, which are written under the lock only. A preparation is given no other parameters than those that it reads.
        let result = unsafe { kernel.call(pointers, &mut context) };
        if let Ok(mut idle) = self.idle.try_lock() {
            idle.push(context);
        }
        result.map_err(|failure| CallError::Failed { name: self.name.clone(), why: self.reason(kernel, failure) })
    }

    /// A context that no other call uses.
    fn context(&self) -> RunContext {
        // The lock is never waited for: in a forked process, its owner may not exist.
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        match idle {
            Some(context) if context.workers().are_here() => context,
            _ if self.workers.are_here() => RunContext::new(self.workers.clone()),
            _ => RunContext::serial(),
        }
    }

    /// The pointers of arguments that measurement has made for these parameters.
    fn pointers_of(&self, args: &mut Arguments) -> Pointers {
        assert_eq!(args.specs(), self.params, "a function runs on the arguments of its parameters");
        args.pointers().iter().copied().collect()
    }

    fn reason(&self, kernel: &CompiledKernel, failure: RuntimeFailure) -> String {
        match failure {
            RuntimeFailure::OutOfBounds { buffer } => match kernel.params().get(buffer.index()) {
                Some(param) => format!("access out of bounds of `{}`", param.name),
                None => "access out of bounds of an intermediate buffer".to_owned(),
            },
            RuntimeFailure::Assertion { index } => {
                kernel.assertion(index).map_or_else(|| failure.to_string(), |text| format!("{failure}: {text}"))
            }
            RuntimeFailure::Division | RuntimeFailure::Stopped => failure.to_string(),
        }
    }
}

/// A function also runs on arguments that measurement owns.
impl Executable for Callable {
    fn run(&self, args: &mut Arguments) -> Result<(), RunFailure> {
        let pointers = self.pointers_of(args);
        self.call_on(pointers).map_err(failed_run)
    }

    fn prepare(&self, args: &mut Arguments) -> Result<bool, RunFailure> {
        let pointers = self.pointers_of(args);
        let Some(preparation) = &self.preparation else { return Ok(false) };
        let mut prepared = preparation.prepared.write().unwrap_or_else(PoisonError::into_inner);
        self.carry_out(preparation, &mut prepared, &pointers).map_err(failed_run)?;
        Ok(true)
    }

    fn threads(&self) -> u32 {
        u32::try_from(self.workers.threads()).unwrap_or(u32::MAX)
    }
}

/// A failed call as a failed run, which does not repeat the function's name.
fn failed_run(error: CallError) -> RunFailure {
    match error {
        CallError::Failed { why, .. } | CallError::Argument(why) => RunFailure::Failed(why),
    }
}

/// A pointer that is never followed, aligned for every type.
const UNUSED: *mut u8 = std::ptr::without_provenance_mut(64);

/// The machine code of a function, and its parameters.
struct Compiled {
    kernel: CompiledKernel,
    preparation: Option<Preparation>,
    params: Vec<ParamSpec>,
}

impl Compiled {
    fn of(workload: &Workload, func: &Func, setting: &Setting) -> Result<Compiled, String> {
        params::passed_as_written(workload.func(), func).map_err(|failure| failure.message)?;
        let lower = |func: &Func| lower::lower(func).map_err(|e| e.to_string());
        // Which parameters are only written does not depend on the schedule.
        let params = params::specs(workload.func(), &lower(workload.func())?)?;
        let options = setting.codegen();
        let compile = |func: &Func| codegen::compile(&lower(func)?, &options).map_err(|e| e.to_string());
        let Some(parts) = separate(func) else {
            return Ok(Compiled { kernel: compile(func)?, preparation: None, params });
        };
        let kernel = compile(&parts.preparation)?;
        let own = &kernel.params()[params.len()..];
        let spec = |p: &crate::loopir::Buffer| ParamSpec::new(p.name.as_str(), p.dtype, &[p.len], Access::Out);
        let specs = own.iter().map(spec).collect();
        let listed = layout_free(func);
        let is_constant = |&i: &usize| func.params[i].buffer.is_some_and(|b| listed.contains(&b));
        let constants = (0..func.params.len()).filter(is_constant).collect();
        let preparation = Preparation { kernel, constants, specs, prepared: RwLock::new(None) };
        Ok(Compiled { kernel: compile(&parts.call)?, preparation: Some(preparation), params })
    }
}
