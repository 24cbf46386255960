//! Versions of graphs for libraries of native code.
//!
//! ```text
//! lowered Program ──GraphVersion::of──► prim_funcs to look up ──build──► Version with kernels, weights and prepared tensors
//! ```

use super::Error;
use super::models;
use super::program::{self, Program};
use super::weights::Weights;
use crate::export::{self, Body, Version, Versions};
use crate::graph;
use crate::graph::libraries::Libraries;
use crate::graph::program::Kernels;
use crate::graph::scheduled::Scheduled;
use crate::ir::{Func, Symbol};
use crate::model::Preparations;
use crate::workload::Setting;
use std::path::Path;
use std::sync::Arc;

/// The values that the versions of a graph share.
pub struct KnownValues {
    weights: Weights,
    preparations: Preparations,
}

impl KnownValues {
    /// Those of a program with the weights in the named file, or in that beside it.
    pub fn new(program: &Path, weights: Option<&Path>) -> KnownValues {
        KnownValues { weights: Weights::new(program, weights), preparations: Preparations::default() }
    }
}

/// A version of a graph that is to be built.
pub struct GraphVersion<'a> {
    lowered: &'a Program,
    name: String,
    steps: graph::program::Program,
    /// The positions of the prim_funcs that its steps call, in the module.
    pub prim_funcs: Vec<usize>,
}

impl GraphVersion<'_> {
    /// The version of the graph `name` of a lowered program with fixed extents.
    ///
    /// # Errors
    /// There is no such graph, it has mistakes, or calls functions of shared libraries.
    pub fn of<'a>(lowered: &'a Program, name: &str) -> Result<GraphVersion<'a>, Error> {
        let mistakes = |found| program::mistakes(lowered, vec![found]);
        let function =
            lowered.graph(Some(name))?.ok_or_else(|| Error::Machine(format!("`{name}` is gone"), String::new()))?;
        let steps = graph::program::Program::of(function).map_err(mistakes)?;
        let routines = Kernels::of(&steps.steps);
        check_foreign(name, &routines.foreign())?;
        let prim_funcs = routines.positions(lowered.module()).map_err(mistakes)?;
        Ok(GraphVersion { lowered, name: name.to_owned(), steps, prim_funcs })
    }

    /// Builds it with the schedules that `best` knows; others stay as written. It is code for the CPU of the setting `only`, or for every
    /// CPU of the architecture as well.
    ///
    /// # Errors
    /// Weights are missing, or the preparation of tensors fails.
    pub fn build(
        self,
        best: impl Fn(Symbol) -> Option<Func>,
        known: &mut KnownValues,
        libraries: &Libraries,
        setting: &Setting,
        only: bool,
    ) -> Result<Version, Error> {
        let weights = known.weights.of(&self.steps)?;
        let scheduled =
            Scheduled::new(self.steps, self.lowered.module(), |name, written| best(name).unwrap_or(written));
        let scheduled = scheduled.map_err(|found| program::mistakes(self.lowered, vec![found]))?;
        let prepared = known.preparations.results(&scheduled, libraries, setting, &weights);
        let prepared = prepared.map_err(|e| models::failed(self.lowered, &self.name, e))?;
        let body = Body::Graph(Arc::new(export::Graph::new(scheduled, &weights, &prepared)));
        let targets = Versions::of(setting.codegen(), only);
        Ok(Version { sizes: Vec::new(), body, accesses: Vec::new(), targets, measured: None })
    }
}

/// Refuses a graph whose calls need functions of shared libraries: an object has only what tvmr compiles.
fn check_foreign(graph: &str, names: &[Symbol]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    let message =
        format!("`{graph}` calls {} of a shared library, whose code cannot be put into an object", names.join(", "));
    let help = "define the functions as prim_funcs, in the module or in a file that `--library` names".to_owned();
    Err(Error::Usage(message, help))
}
