//! `tvmr run`: runs a function on arrays from files.

use super::args::{Format, Global, Input};
use super::console::Console;
use super::exit::Failure;
use super::load::Program;
use super::run_files::{Given, Named, Wanted as Destination, named};
use super::run_report::{Checked, Report};
use super::versions::{Version, VersionArgs};
use super::{Done, run_model, run_sizes, setting};
use crate::arrays::{self, Array};
use crate::measure::{Summary, Tolerance};
use crate::request::program;
use crate::run::{Function, RunError, Unset, compare};
use std::path::PathBuf;

/// Run a function on arrays from files
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::RUN)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) versions: VersionArgs,
    #[command(flatten)]
    pub(super) files: Files,
    /// Tolerance of `--expect` relative to expected values; what reordering may change if neither is given
    #[arg(long, value_name = "R", requires = "expect", value_parser = tolerance, help_heading = "Arrays")]
    pub(super) rtol: Option<f64>,
    /// Absolute tolerance of `--expect`
    #[arg(long, value_name = "A", requires = "expect", value_parser = tolerance, help_heading = "Arrays")]
    pub(super) atol: Option<f64>,
    /// Run this many times, and print the median time
    #[arg(long, value_name = "N", value_parser = super::args::positive)]
    pub(super) repeat: Option<u64>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) format: Format,
}

/// The files of inputs, outputs and expected arrays.
#[derive(clap::Args, Debug)]
pub(super) struct Files {
    /// Value of a parameter: `NAME=FILE`, `POSITION=FILE` (from 0), or `FILE` for the next input without one; scalars also take
    /// a number, such as `alpha=2.5`; may be repeated
    #[arg(long = "input", value_name = "[NAME=]FILE", value_parser = named, help_heading = "Arrays")]
    pub(super) inputs: Vec<Named>,
    /// Values of parameters by the names in a `.npz` or `.safetensors` file; may be repeated
    #[arg(long = "inputs", value_name = "FILE", help_heading = "Arrays")]
    pub(super) all_inputs: Vec<PathBuf>,
    /// Fill inputs without a value at random, as measurement does
    #[arg(long, help_heading = "Arrays")]
    pub(super) random: bool,
    /// Write outputs: all to a `.npz` or `.safetensors` file, or one as `NAME=FILE`; may be repeated
    #[arg(long, value_name = "[NAME=]FILE", value_parser = named, help_heading = "Arrays")]
    pub(super) output: Vec<Named>,
    /// Compare outputs with the arrays of a file, or one as `NAME=FILE`; exit code 1 if they differ; may be repeated
    #[arg(long, value_name = "[NAME=]FILE", value_parser = named, help_heading = "Arrays")]
    pub(super) expect: Vec<Named>,
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let stdin = |p: &PathBuf| p.as_os_str() == "-";
    if stdin(&args.input.file) && args.versions.trace.as_ref().is_some_and(stdin) {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    let arrays = (&args.files.inputs[..], &args.files.all_inputs[..]);
    let mut program = Program::read_for(&args.input, args.versions.func.as_deref(), arrays, console)?;
    if let Some(graph) = program.graph(args.versions.func.as_deref())? {
        let mut many = args.files.all_inputs.clone();
        many.extend(program::weights(&args.input.file, args.input.graph.weights.as_deref()));
        let name = graph.name.to_string();
        let told = run_sizes::infer(&name, &run_sizes::of_graph(graph), &args.files.inputs, &many)?;
        if !told.is_empty() {
            let bind = [&program.bind[..], &told].concat();
            program = program.bound(&bind)?;
        }
        if let Some(graph) = program.graph(Some(&name))? {
            return run_model::run(args, global, &program, graph, console);
        }
    }
    let index = chosen(&program, args.versions.func.as_deref())?;
    if program::symbolic(&program.module().funcs[index]).is_some() {
        let told = {
            let func = &program.module().funcs[index];
            run_sizes::infer(func.name.as_str(), &run_sizes::of_func(func), &args.files.inputs, &args.files.all_inputs)?
        };
        let bind = [&program.bind[..], &told].concat();
        program = program.bound(&bind)?;
    }
    setting::check_concrete(&program.module().funcs[index])?;
    let setting = setting::here(&args.versions.machine, global, true, console)?;
    let versions = args.versions.wanted().versions(global, &program, &[index], &setting, console)?;
    let [Version { workload, func, setting }] = &versions[..] else {
        return Err(Failure::Negative("the function has no version".to_owned()));
    };
    let name = workload.name.as_str();
    let failed = |e| failure(name, e);
    let function = Function::pinned(workload, func, setting).map_err(failed)?;

    // All files are looked at before the function runs.
    let given = Given::new(name, function.params(), &program.module().funcs[index].bound);
    let inputs = given.inputs(&args.files.inputs, &args.files.all_inputs, args.files.random, console)?;
    let destination = Destination::new(&given, &args.files.output)?;
    let expected = given.expected(&args.files.expect)?;
    let from = inputs.iter().map(|i| i.as_ref().map(|i| i.path.clone())).collect();

    let unset = if args.files.random { Unset::Random { seed: args.versions.seed } } else { Unset::Refused };
    let values = inputs.into_iter().map(|i| i.map(|i| i.array)).collect();
    let mut call = function.bind(values, unset).map_err(failed)?;
    let times = match args.repeat {
        None => {
            call.run().map_err(failed)?;
            None
        }
        Some(n) => Summary::of(&call.repeat(n).map_err(failed)?),
    };
    let outputs = call.outputs().map_err(failed)?;

    let written = destination.files(&outputs);
    arrays::write_all(&written).map_err(super::run_files::failure)?;
    let found = |i: usize| outputs.iter().find(|(output, _)| *output == i).map(|(_, array)| array);
    let mut checked = Vec::new();
    for expected in &expected {
        let Some(array) = found(expected.param) else { continue };
        let tolerance = within(args, &function, expected.param, &expected.array);
        let comparison = compare(array, &expected.array, tolerance);
        checked.push(Checked { param: expected.param, path: expected.path.clone(), comparison });
    }
    let report = Report {
        workload: &program.name,
        func: name,
        params: function.params(),
        setting,
        from,
        outputs: &outputs,
        written: &written,
        checked: &checked,
        times,
    };
    present(&report, args.format, console)
}

/// Prints a report; an output that differs from what was expected is a failure.
pub(super) fn present(report: &Report<'_>, format: Format, console: Console) -> Done {
    match format {
        Format::Human => console.result(&report.human())?,
        Format::Json => console.result(&format!("{:#}\n", report.json()))?,
    }
    match report.checked.iter().all(|c| c.comparison.is_equal()) {
        true => Ok(()),
        false => Err(Failure::Negative(report.differences())),
    }
}

/// The one function to run.
fn chosen(program: &Program, func: Option<&str>) -> Result<usize, Failure> {
    match &program.functions(func)?[..] {
        [one] => Ok(*one),
        several => {
            let names: Vec<&str> = several.iter().map(|&i| program.module().funcs[i].name.as_str()).collect();
            let message = format!("`{}` has {} functions: `{}`", program.name, names.len(), names.join("`, `"));
            let help = format!("choose one, such as `--func {}`", names.first().unwrap_or(&"main"));
            Err(Failure::Usage(message, help))
        }
    }
}

/// The tolerance of an output. If one of the two numbers is given, the other is 0.
fn within(args: &Args, function: &Function, param: usize, expected: &Array) -> Tolerance {
    match (args.rtol, args.atol) {
        (None, None) => function.tolerance(param, expected),
        (rtol, atol) => Tolerance { absolute: atol.unwrap_or(0.0), relative: rtol.unwrap_or(0.0) },
    }
}

fn failure(func: &str, error: RunError) -> Failure {
    let message = format!("`{func}`: {error}");
    match error {
        RunError::Missing(_)
        | RunError::Mismatch(..)
        | RunError::NotRead(_)
        | RunError::Unknown(_)
        | RunError::Shared(_) => Failure::Usage(message, String::new()),
        RunError::Compile(_) | RunError::Failed(_) => Failure::Negative(format!("`{func}` failed: {error}")),
        RunError::Machine(_) => Failure::Machine(message, String::new()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(t) if t >= 0.0 && t.is_finite() => Ok(t),
        _ => Err("expected a number that is not negative, such as 1e-5".to_string()),
    }
}
