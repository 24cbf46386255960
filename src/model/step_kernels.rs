//! The machine code of steps.

use super::ModelError;
use crate::codegen::{self, CompiledKernel, RunContext, RuntimeFailure};
use crate::graph::program::{Kernels, Step};
use crate::ir::{Func, Module};
use crate::lower;
use crate::search::isolated;
use crate::workload::Setting;

/// The machine code of steps.
pub(super) struct StepKernels {
    compiled: Vec<CompiledKernel>,
    /// The kernel of each step.
    of_step: Vec<usize>,
}

impl StepKernels {
    /// Compiles the kernels of steps, each in the version that `choose` gives for the function of the module.
    pub(super) fn compile(
        module: &Module,
        steps: &[Step],
        setting: &Setting,
        mut choose: impl FnMut(&Module, usize) -> Result<Func, String>,
    ) -> Result<StepKernels, ModelError> {
        let kernels = Kernels::of(steps);
        let positions = kernels.positions(module).map_err(|d| ModelError::Graph(vec![d]))?;
        let options = setting.codegen();
        let mut compiled = Vec::with_capacity(positions.len());
        for (&name, index) in kernels.funcs.iter().zip(positions) {
            let fail = |why: String| ModelError::Compile { func: name, why };
            let func = choose(module, index).map_err(fail)?;
            let kernel = isolated(|| {
                let kernel = lower::lower(&func).map_err(|e| e.to_string())?;
                codegen::compile(&kernel, &options).map_err(|e| e.to_string())
            });
            compiled.push(kernel.and_then(|r| r).map_err(fail)?);
        }
        for (step, &kernel) in steps.iter().zip(&kernels.of_step) {
            let found = compiled[kernel].params().len();
            if found != step.args.len() {
                let why = format!("it takes {found} arrays, and the graph passes {}", step.args.len());
                return Err(ModelError::Compile { func: step.func, why });
            }
        }
        Ok(StepKernels { compiled, of_step: kernels.of_step })
    }

    /// Runs the kernel of a step, the `i`-th of those that were compiled.
    ///
    /// # Safety
    /// As for [`CompiledKernel::call`]: there is a pointer for each argument of the step, to memory of the argument's size, which
    /// nothing else writes meanwhile. What the step writes overlaps nothing else that it is given.
    pub(super) unsafe fn call(
        &self,
        i: usize,
        step: &Step,
        arguments: &[*mut u8],
        context: &mut RunContext,
    ) -> Result<(), ModelError> {
        let kernel = &self.compiled[self.of_step[i]];
        // SAFETY: the caller promises it.
        let result = unsafe { kernel.call(arguments, context) };
        result.map_err(|failure| ModelError::Failed { func: step.func, why: reason(kernel, failure) })
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
