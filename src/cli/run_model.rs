//! `tvmr run` on a graph.

use super::args::Global;
use super::console::Console;
use super::exit::Failure;
use super::load::Program;
use super::model_check::Arrays;
use super::model_kernels::ModelKernels;
use super::model_random::with_random;
use super::run::Args;
use super::run_files::{Given, Wanted as Destination};
use super::run_report::{Checked, Report};
use super::{Done, setting};
use crate::arrays::{self, Array};
use crate::graph;
use crate::measure::{RealTimer, Summary, Tolerance};
use crate::model::{Model, ModelError};
use crate::request::{models, program};
use crate::run::compare;
use std::path::PathBuf;
use std::sync::Arc;

/// Tolerance of `--expect` without `--rtol` and `--atol`: many layers may add their rounding.
const TOLERANCE: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-4 };

pub(super) fn run(args: &Args, global: &Global, program: &Program, graph: &graph::Function, console: Console) -> Done {
    args.versions.wanted().check_for_graph(graph.name.as_str())?;
    let setting = setting::here(&args.versions.machine, global, true, console)?;
    let cx = args.input.graph.context()?;
    let lowered = program.lowered(&cx)?;
    let name = graph.name.as_str();
    let failed = |e| failure(program, name, e);
    let kernels = args.versions.wanted().of_model(global, &lowered, name, console)?;
    kernels.tell(name, console);
    let mut model = kernels.compile(&lowered, name, &cx, &setting).map_err(failed)?;

    // All files are looked at before the model runs.
    let params = model.params();
    let n_inputs = model.program().inputs.len();
    let given = Given::new(name, &params, &[]);
    let mut many = args.files.all_inputs.clone();
    if model.program().n_inputs < n_inputs || args.input.graph.weights.is_some() {
        many.extend(program::weights(&args.input.file, args.input.graph.weights.as_deref()));
    }
    let inputs = given.inputs(&args.files.inputs, &many, args.files.random, console)?;
    let destination = Destination::new(&given, &args.files.output)?;
    let expected = given.expected(&args.files.expect)?;
    let from: Vec<Option<PathBuf>> = inputs.iter().map(|i| i.as_ref().map(|i| i.path.clone())).collect();
    let mut values = with_random(&model, graph, &kernels, inputs, args.versions.seed)?;

    let weights = values.split_off(model.inputs().len());
    model.load_weights(&weights).map_err(failed)?;
    drop(weights);
    let mut call = model.bind(&values).map_err(failed)?;
    let times = match args.repeat {
        None => {
            call.run().map_err(failed)?;
            None
        }
        Some(n) => {
            let timer = RealTimer::new(Arc::new(model.stop_flag().clone()));
            let timer = timer.map_err(|e| Failure::Machine(format!("cannot start threads: {e}"), String::new()))?;
            Summary::of(&call.repeat(n, &timer).map_err(failed)?)
        }
    };
    let outputs: Vec<(usize, Array)> = (n_inputs..).zip(call.outputs().map_err(failed)?).collect();

    let written = destination.files(&outputs);
    arrays::write_all(&written).map_err(super::run_files::failure)?;
    let found = |i: usize| outputs.iter().find(|(output, _)| *output == i).map(|(_, array)| array);
    let tolerance = match (args.rtol, args.atol) {
        (None, None) => TOLERANCE,
        (rtol, atol) => Tolerance { absolute: atol.unwrap_or(0.0), relative: rtol.unwrap_or(0.0) },
    };
    let mut checked = Vec::new();
    for expected in &expected {
        let Some(array) = found(expected.param) else { continue };
        let comparison = compare(array, &expected.array, tolerance);
        checked.push(Checked { param: expected.param, path: expected.path.clone(), comparison });
    }
    let report = Report {
        workload: &program.name,
        func: name,
        params: &params,
        setting: &setting,
        from,
        outputs: &outputs,
        written: &written,
        checked: &checked,
        times,
    };
    super::run::present(&report, args.format, console)
}

/// The arrays of a model's inputs and weights from files of many arrays, random for those that no file has; and whether a weight is
/// random. The model loads the weights.
pub(super) fn load_arrays(
    program: &Program,
    model: &mut Model,
    kernels: &ModelKernels,
    files: &[PathBuf],
    seed: u64,
    console: Console,
) -> Result<(Arrays, bool), Failure> {
    let params = model.params();
    let given = Given::new(model.name(), &params, &[]).inputs(&[], files, true, console)?;
    let n_inputs = model.inputs().len();
    let has_random_weights = given.iter().skip(n_inputs).take(model.weights().len()).any(Option::is_none);
    if has_random_weights {
        console.note("weights without a file are random");
    }
    let graph = program.graph(Some(model.name()))?;
    let graph = graph.ok_or_else(|| failure(program, model.name(), ModelError::NoFunction(model.name().to_owned())))?;
    let mut inputs = with_random(model, graph, kernels, given, seed)?;
    let weights = inputs.split_off(n_inputs);
    let loaded = model.load_weights(&weights);
    loaded.map_err(|e| failure(program, model.name(), e))?;
    Ok((Arrays { inputs, weights }, has_random_weights))
}

/// A failure of a model.
pub(super) fn failure(program: &Program, name: &str, error: ModelError) -> Failure {
    models::failed(program, name, error).into()
}
