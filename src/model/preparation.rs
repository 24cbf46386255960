//! What is the same in every call of a graph, computed once.
//!
//! The steps of [`Program::preparation`] run as written: they run once, so tuning them would cost more than it saves.

use super::ModelError;
use super::executable::{self, start_workers};
use super::memory::{Fixed, Memory};
use super::step_kernels::{StepKernel, StepKernels};
use crate::codegen::{RunContext, Workers};
use crate::graph::program::{Place, Program, Tensor};
use crate::graph::{Constant, GraphModule};
use crate::ir::{Module, Symbol};
use crate::workload::{Setting, Workload};
use std::collections::HashSet;
use std::sync::Arc;

/// The compiled preparation of a graph.
pub(super) struct Preparation {
    kernels: StepKernels,
}

/// The memory of prepared tensors after the preparation.
pub(super) struct Prepared(Memory);

impl Prepared {
    /// The elements of a prepared tensor that calls read.
    pub(super) fn bytes(&self, program: &Program, tensor: usize) -> &[u8] {
        let start = program.prepared_plan.offsets[tensor];
        &self.0.bytes()[start..start + program.prepared[tensor].bytes()]
    }
}

impl Preparation {
    /// The preparation, each kernel as `make` makes it of the function's name and the function as written.
    pub(super) fn new(
        module: &Module,
        program: &Program,
        make: impl Fn(Symbol, &Workload) -> Result<StepKernel, String>,
    ) -> Result<Preparation, ModelError> {
        Ok(Preparation { kernels: StepKernels::new(module, &program.preparation, make)? })
    }

    /// The preparation with compiled kernels as written.
    pub(super) fn as_written(module: &Module, program: &Program, setting: &Setting) -> Result<Preparation, ModelError> {
        let options = setting.codegen();
        Preparation::new(module, program, |_, workload| StepKernel::compile(workload.func(), &options))
    }

    /// Runs the preparation on the elements of the weights, which have the sizes that the program states.
    pub(super) fn run(
        &self,
        program: &Program,
        weights: &[&[u8]],
        workers: &Arc<Workers>,
    ) -> Result<Prepared, ModelError> {
        let mut memory = Memory::new(program.prepared_plan.bytes)?;
        let mut read: Vec<(Place, &[u8])> = Vec::new();
        let mut known: HashSet<Place> = HashSet::new();
        for place in program.preparation.iter().flat_map(|s| &s.args[..s.n_reads]) {
            let data = match *place {
                Place::Input(i) => i.checked_sub(program.n_inputs).and_then(|weight| weights.get(weight).copied()),
                Place::Constant(i) => Some(program.constants[i].data()),
                Place::Prepared(_) | Place::Output(_) | Place::Temporary(_) => None,
            };
            if let Some(data) = data
                && known.insert(*place)
            {
                read.push((*place, data));
            }
        }
        let read = Fixed::copy(&read)?;
        let mut context = RunContext::new(workers.clone());
        let start = memory.bytes_mut().as_mut_ptr();
        for (i, step) in program.preparation.iter().enumerate() {
            let pointer = |&place: &Place| match place {
                Place::Prepared(tensor) => Some(start.wrapping_add(program.prepared_plan.offsets[tensor])),
                Place::Input(_) | Place::Constant(_) | Place::Output(_) | Place::Temporary(_) => read.pointer(place),
            };
            let arguments: Option<Vec<*mut u8>> = step.args.iter().map(pointer).collect();
            let missing = || ModelError::Argument(format!("a weight that `{}` reads has no elements", step.func));
            // SAFETY: there is a pointer for each argument, of the size that the types of the graph say, which passes checked
            // against the parameters. What a step writes is a prepared tensor: those that live at the same time do not overlap.
            unsafe { self.kernels.call(i, step, &arguments.ok_or_else(missing)?, &mut context)? };
        }
        Ok(Prepared(memory))
    }
}

/// Computes what is the same in every call of a lowered graph with these weights, which follow the inputs. The result has an element
/// for each of [`Program::prepared`]; `None` for those that only the preparation reads.
///
/// # Errors
/// See [`ModelError`].
pub fn prepare(
    module: &GraphModule,
    name: &str,
    setting: &Setting,
    weights: &[Constant],
) -> Result<Vec<Option<Constant>>, ModelError> {
    let program = executable::program(module, name)?;
    let expected = &program.inputs[program.n_inputs..];
    let fits = expected.iter().zip(weights).all(|(t, w)| t.dtype == w.dtype() && t.shape == w.shape());
    if !fits || expected.len() != weights.len() {
        return Err(ModelError::Argument(format!("the weights of `{name}` have other types or shapes")));
    }
    let workers = start_workers(setting)?;
    let weights: Vec<&[u8]> = weights.iter().map(Constant::data).collect();
    let results = Preparation::as_written(&module.module, &program, setting)?.run(&program, &weights, &workers)?;
    let kept = program.read_places();
    let constant = |(i, tensor): (usize, &Tensor)| {
        let is_kept = kept.contains(&Place::Prepared(i));
        is_kept.then(|| Constant::new(tensor.dtype, &tensor.shape, results.bytes(&program, i).to_vec()))?
    };
    Ok(program.prepared.iter().enumerate().map(constant).collect())
}
