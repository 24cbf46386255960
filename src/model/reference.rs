//! A graph as it was read, run plainly: what a model is compared with.
//!
//! Each operator runs by itself, as written, and all floats inside of it are `float64`. Small graphs are interpreted; of others,
//! each prim_func is compiled on the plain path that references of single prim_funcs take, which shares no optimisation with
//! models.

use super::agreement::{Agreement, coarsest, quantises};
use super::executable::{self, Model, ModelError};
use super::interpreted::{Interpreted, stores};
use super::preparation::Preparation;
use super::step_kernels::{StepKernel, StepKernels};
use crate::arrays::Array;
use crate::check::reference::plain;
use crate::codegen;
use crate::graph::pass::{Context, GraphModule, PIPELINE};
use crate::graph::program::{Kernels, Program, Step, position};
use crate::ir::{Module, Symbol};
use crate::search::isolated;
use crate::stop::StopFlag;
use crate::workload::{Setting, Workload};
use std::collections::BTreeMap;
use std::time::Duration;

/// The passes that a graph does not need to run: they change how values are computed, not which.
const OPTIMIZATIONS: &[&str] = &[
    "common_calls",
    "quantise",
    "canonicalise",
    "fold_affine",
    "common_constants",
    "own_floats",
    "winograd",
    "fuse",
    "layout_free",
];

/// Graphs whose runs make at most this many stores are interpreted: about a second.
const MOST_INTERPRETED: f64 = 1e6;

/// What a store takes in a compiled run. Measured for networks of convolutions and of products of matrices.
const SECS_PER_STORE: f64 = 1e-9;

/// A graph as it was read, which models of it are compared with.
pub struct Reference {
    model: Model,
    /// The relative difference that rounding may cause.
    tolerance: f64,
    /// Whether floats are rounded to bytes.
    quantises: bool,
}

impl Reference {
    /// The reference of a graph of the module as it was read. The flag ends its run with an error.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn new(
        mut module: GraphModule,
        name: &str,
        cx: &Context,
        setting: &Setting,
        stop: StopFlag,
    ) -> Result<Reference, ModelError> {
        let quantises = module.functions.iter().any(quantises);
        let needed = PIPELINE.iter().filter(|pass| !OPTIMIZATIONS.contains(&pass.name));
        needed.into_iter().try_for_each(|pass| (pass.run)(&mut module, cx)).map_err(ModelError::Graph)?;
        let function = module.functions.iter().find(|f| f.name == name);
        let tolerance = function.map_or(0.0, coarsest);
        let program = executable::program(&module, name)?;
        let is_small = work(&module.module, &program) <= MOST_INTERPRETED;
        let make = |workload: &Workload| match is_small {
            true => Ok(StepKernel::Interpreted(Box::new(Interpreted::new(workload.func())?))),
            false => plain_kernel(workload),
        };
        let kernels = |steps: &[Step]| StepKernels::new(&cx.libraries, steps, &workloads(&module.module, steps)?, make);
        let preparation = Preparation::new(kernels(&program.preparation)?);
        let kernels = kernels(&program.steps)?;
        Ok(Reference { model: Model::new(name, program, preparation, kernels, setting, stop)?, tolerance, quantises })
    }

    /// How long a comparison will take, about, given how often the graph calls each function of the module.
    pub fn expected_duration(module: &Module, calls: &BTreeMap<Symbol, u64>) -> Duration {
        let of_function = |(&name, &n): (&Symbol, &u64)| match position(module, name) {
            Ok(index) => n as f64 * stores(Workload::of(module, index).func()),
            Err(_) => 0.0,
        };
        Duration::from_secs_f64(calls.iter().map(of_function).sum::<f64>() * SECS_PER_STORE)
    }

    /// Compares a model with the reference on these weights and inputs. The model has loaded the same weights.
    ///
    /// # Errors
    /// One of them fails.
    pub fn compare(&mut self, model: &Model, weights: &[Array], inputs: &[Array]) -> Result<Agreement, ModelError> {
        if !self.model.weights().is_empty() {
            self.model.load_weights(weights)?;
        }
        let expected = self.model.run(inputs)?;
        let found = model.run(inputs)?;
        Ok(Agreement::of(model.outputs(), &found, &expected, self.tolerance, self.quantises))
    }
}

/// The prim_funcs of steps as written, in the order of [`Kernels::of`].
fn workloads(module: &Module, steps: &[Step]) -> Result<Vec<Workload>, ModelError> {
    let positions = Kernels::of(steps).positions(module).map_err(|d| ModelError::Graph(vec![d]))?;
    Ok(positions.into_iter().map(|i| Workload::of(module, i)).collect())
}

/// The stores of all steps.
fn work(module: &Module, program: &Program) -> f64 {
    let of_step = |step: &Step| {
        let index = step.routine.prim_func().and_then(|name| position(module, name).ok());
        index.map_or(0.0, |index| stores(Workload::of(module, index).func()))
    };
    program.preparation.iter().chain(&program.steps).map(of_step).sum()
}

fn plain_kernel(workload: &Workload) -> Result<StepKernel, String> {
    let compiled = isolated(|| {
        let plain = plain(workload, StopFlag::new()).map_err(|e| e.to_string())?;
        codegen::compile_plain(&plain.kernel).map_err(|e| e.to_string())
    });
    Ok(StepKernel::Compiled(Box::new(compiled.and_then(|r| r)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new pass has to be put here, or among [`OPTIMIZATIONS`], whose effect the comparison then checks.
    #[test]
    fn passes_are_needed_or_optimizations() {
        const NEEDED: &[&str] = &[
            "inline",
            "library",
            "known_results",
            "dead_code",
            "lower_operators",
            "specialize_calls",
            "used_functions",
        ];
        for pass in PIPELINE {
            assert!(NEEDED.contains(&pass.name) != OPTIMIZATIONS.contains(&pass.name), "`{}`", pass.name);
        }
    }
}
