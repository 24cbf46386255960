//! What runs the steps.

use super::ModelError;
use super::interpreted::Interpreted;
use crate::codegen::{self, CodegenOptions, CompiledKernel, RunContext, RuntimeFailure};
use crate::foreign;
use crate::graph::libraries::Libraries;
use crate::graph::program::{Kernels, Routine, Step};
use crate::ir::Func;
use crate::lower;
use crate::search::isolated;

/// What runs the steps.
pub(super) struct StepKernels {
    kernels: Vec<StepKernel>,
    /// The kernel of each step.
    of_step: Vec<usize>,
}

/// What runs a step.
pub(super) enum StepKernel {
    /// Machine code.
    Compiled(Box<CompiledKernel>),
    /// The interpreter.
    Interpreted(Box<Interpreted>),
    /// A function of a shared library.
    Foreign(Box<foreign::Function>),
}

impl StepKernel {
    /// The machine code of a function.
    fn compile(func: &Func, options: &CodegenOptions) -> Result<StepKernel, String> {
        let kernel = isolated(|| {
            let kernel = lower::lower(func).map_err(|e| e.to_string())?;
            codegen::compile(&kernel, options).map_err(|e| e.to_string())
        });
        Ok(StepKernel::Compiled(Box::new(kernel.and_then(|r| r)?)))
    }

    /// The number of its arguments.
    fn n_params(&self) -> usize {
        match self {
            StepKernel::Compiled(kernel) => kernel.params().len(),
            StepKernel::Interpreted(function) => function.n_params(),
            StepKernel::Foreign(function) => function.n_tensors(),
        }
    }
}

impl StepKernels {
    /// The kernels of steps: prim_funcs made by `make` of one of `versions`, which are in the order of [`Kernels::of`], others from the
    /// shared ones of the libraries.
    pub(super) fn new<V>(
        libraries: &Libraries,
        steps: &[Step],
        versions: &[V],
        make: impl Fn(&V) -> Result<StepKernel, String>,
    ) -> Result<StepKernels, ModelError> {
        let distinct = Kernels::of(steps);
        let mut kernels = Vec::with_capacity(distinct.routines.len());
        let mut versions = versions.iter();
        for routine in &distinct.routines {
            kernels.push(match routine {
                Routine::PrimFunc(name) => {
                    let missing = || "it has no version".to_owned();
                    let kernel = versions.next().ok_or_else(missing).and_then(&make);
                    kernel.map_err(|why| ModelError::Compile { func: *name, why })?
                }
                Routine::Foreign(call) => {
                    let function = foreign::Function::load(libraries, call);
                    StepKernel::Foreign(Box::new(function.map_err(|e| ModelError::Library(e.to_string()))?))
                }
            });
        }
        for (step, &kernel) in steps.iter().zip(&distinct.of_step) {
            let found = kernels[kernel].n_params();
            if found != step.args.len() {
                let why = format!("it takes {found} arrays, and the graph passes {}", step.args.len());
                return Err(ModelError::Compile { func: step.routine.name(), why });
            }
        }
        Ok(StepKernels { kernels, of_step: distinct.of_step })
    }

    /// Those of functions, compiled with these options.
    pub(super) fn compiled(
        libraries: &Libraries,
        steps: &[Step],
        funcs: &[Func],
        options: &CodegenOptions,
    ) -> Result<StepKernels, ModelError> {
        StepKernels::new(libraries, steps, funcs, |func| StepKernel::compile(func, options))
    }

    /// Runs the kernel of a step, the `i`-th of those that were compiled.
    ///
    /// # Safety
    /// There is a pointer for each argument of the step, to memory of the argument's size, which
    /// nothing else writes meanwhile. What the step writes overlaps nothing else that it is given.
    pub(super) unsafe fn call(
        &self,
        i: usize,
        step: &Step,
        arguments: &[*mut u8],
        context: &mut RunContext,
    ) -> Result<(), ModelError> {
        let result = match &self.kernels[self.of_step[i]] {
            StepKernel::Compiled(kernel) => {
                // SAFETY: the caller promises it.
                let result = unsafe { kernel.call(arguments, context) };
                result.map_err(|failure| reason(kernel, failure))
            }
            // SAFETY: the caller promises it.
            StepKernel::Interpreted(function) => unsafe { function.call(arguments) },
            // SAFETY: the caller promises it of the memory, and whoever named the library of its functions.
            StepKernel::Foreign(function) => unsafe { function.call(arguments) },
        };
        result.map_err(|why| ModelError::Failed { func: step.routine.name(), why })
    }
}

fn reason(kernel: &CompiledKernel, failure: RuntimeFailure) -> String {
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
