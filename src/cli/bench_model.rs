//! `tvmr bench` on a graph.
//!
//! A whole call is timed, and in another call each kernel for itself; the two take turns, so that both meet the same disturbances.

use super::args::{Format, Global};
use super::bench::{Args, Bytes};
use super::console::Console;
use super::exit::Failure;
use super::load::Program;
use super::model_kernels::ModelKernels;
use super::run_model::{failure, load_arrays};
use super::table::aligned;
use super::{Done, model_check, run_sizes, setting};
use crate::ir::Symbol;
use crate::measure::{RealTimer, Summary, Timer, reading_secs};
use crate::model::{Agreement, Model, ModelError};
use crate::perf::flops;
use crate::request::program;
use crate::stop::StopFlag;
use crate::tune::Interrupt;
use crate::tune::backend::Seconds;
use crate::tune::kernel_bounds::KernelBounds;
use crate::tune::native::Native;
use crate::workload::Setting;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Kernels that are listed without `--profile`.
const SHOWN: usize = 10;

/// Calls are timed until this many seconds are over, in bounds.
const ENOUGH_SECS: f64 = 1.0;
const FEWEST_CALLS: usize = 5;
const MOST_CALLS: usize = 1000;

/// The report on a model. Field names are interface (docs/models.md).
#[derive(Serialize, Debug)]
struct Report {
    workload: String,
    func: String,
    us: f64,
    min_us: f64,
    calls: usize,
    kernels_us: f64,
    bound_us: Option<f64>,
    bound_fraction: Option<f64>,
    gflops: Option<f64>,
    memory_bytes: usize,
    memory_live_bytes: usize,
    memory_unshared_bytes: usize,
    weights_bytes: usize,
    compile_us: f64,
    random_weights: bool,
    checked: bool,
    max_relative_difference: Option<f64>,
    tuned: usize,
    distinct: usize,
    isa: String,
    threads: u32,
    strict_fp: bool,
    kernels: Vec<Kernel>,
}

/// A prim_func, or a function of a shared library, with all its calls in one call of the model.
#[derive(Serialize, Debug)]
struct Kernel {
    func: String,
    calls: usize,
    us: f64,
    share: f64,
    bound_us: Option<f64>,
    gflops: Option<f64>,
    tuned: bool,
    library: bool,
}

pub(super) fn run(args: &Args, global: &Global, program: Program, name: &str, console: Console) -> Done {
    args.versions.wanted().check_for_graph(name)?;
    let weights = program::weights(&args.input.file, args.input.graph.weights.as_deref());
    let files: Vec<_> = args.inputs.iter().cloned().chain(weights.clone()).collect();
    let program = with_sizes(program, name, &files)?;
    let setting = setting::here(&args.versions.machine, global, !args.no_check, console)?;
    let cx = args.input.graph.context()?;
    let lowered = program.lowered(&cx)?;
    let kernels = args.versions.wanted().of_model(global, &lowered, name, console)?;
    kernels.tell(name, console);
    let failed = |e| failure(&program, name, e);
    let machine = |e: std::io::Error| Failure::Machine(format!("cannot start threads: {e}"), String::new());
    let clock = RealTimer::new(Arc::new(StopFlag::new())).map_err(machine)?;
    let mut model = kernels.compile(&lowered, name, &cx, &setting).map_err(failed)?;
    let compile_secs = clock.now().as_secs_f64();

    let (arrays, random_weights) = load_arrays(&program, &mut model, &kernels, &files, args.versions.seed, console)?;
    let native = Native::new(&setting, None, &Interrupt::new()).map_err(machine)?;
    let mut bounds = KernelBounds::new(&native, kernels.recurring());
    bounds.measure_peaks();
    let times = Times::measure(&model, &arrays.inputs, &clock).map_err(|e| {
        if matches!(e, ModelError::Failed { .. }) && args.inputs.is_empty() {
            console.note("random inputs may be the reason: `--inputs FILE` gives others");
        }
        failed(e)
    })?;
    bounds.measure_peaks();
    let Some(report) = report(&program, &model, &times, &bounds.secs(), &kernels, &setting) else {
        return Err(Failure::Machine("no call was timed".to_owned(), String::new()));
    };
    let agreement = match args.no_check {
        true => None,
        false => Some(model_check::compare(&program, &cx, &model, &setting, &arrays, StopFlag::new())?),
    };
    if let Some(agreement) = &agreement {
        model_check::judge(name, agreement)?;
    }
    let report = Report {
        compile_us: compile_secs * 1e6,
        random_weights,
        checked: agreement.is_some(),
        max_relative_difference: agreement.as_ref().map(Agreement::relative),
        ..report
    };
    match args.format {
        Format::Human => {
            let results = agreement.map_or("results NOT compared".to_owned(), |a| a.to_string());
            console.result(&human(&report, &results, args.profile))
        }
        Format::Json => console.result(&format!("{:#}\n", json!(report))),
    }
}

/// The program with the values of symbols that the shapes of arrays tell.
fn with_sizes(program: Program, name: &str, files: &[std::path::PathBuf]) -> Result<Program, Failure> {
    let Some(graph) = program.graph(Some(name))? else { return Ok(program) };
    let told = run_sizes::infer(name, &run_sizes::of_graph(graph), &[], files)?;
    if told.is_empty() {
        return Ok(program);
    }
    let bind = [&program.bind[..], &told].concat();
    Ok(program.bound(&bind)?)
}

/// Seconds of whole calls, and of each step in others.
struct Times {
    calls: Vec<f64>,
    /// One list for each step.
    steps: Vec<Vec<f64>>,
}

impl Times {
    fn measure(model: &Model, values: &[crate::arrays::Array], clock: &dyn Timer) -> Result<Times, ModelError> {
        let mut call = model.bind(values)?;
        // The first call meets cold caches and pages that are not there yet.
        call.run()?;
        let mut times = Times { calls: Vec::new(), steps: vec![Vec::new(); model.program().steps.len()] };
        let reading = reading_secs(clock);
        let rows = call.rows(clock, reading)?;
        let start = clock.now().as_secs_f64();
        let is_enough = |n: usize| n >= MOST_CALLS || clock.now().as_secs_f64() - start >= ENOUGH_SECS;
        while times.calls.len() < FEWEST_CALLS || !is_enough(times.calls.len()) {
            times.calls.extend(call.repeat(1, clock)?);
            for (all, secs) in times.steps.iter_mut().zip(call.time_steps(&rows, clock, reading)?) {
                all.push(secs);
            }
        }
        Ok(times)
    }
}

/// `None` if nothing was timed.
fn report(
    program: &Program,
    model: &Model,
    times: &Times,
    bounds: &BTreeMap<Symbol, f64>,
    kernels: &ModelKernels,
    setting: &Setting,
) -> Option<Report> {
    let whole = Summary::of(&times.calls)?;
    // A prim_func and a function of a library may have one name.
    let mut by_func: BTreeMap<(Symbol, bool), (usize, f64)> = BTreeMap::new();
    for (step, secs) in model.program().steps.iter().zip(&times.steps) {
        let (calls, sum) = by_func.entry((step.routine.name(), step.routine.prim_func().is_none())).or_default();
        *calls += 1;
        *sum += Summary::of(secs).map_or(0.0, |s| s.median);
    }
    let total: f64 = by_func.values().map(|(_, secs)| secs).sum();
    let mut all_flops = 0.0;
    let mut rows = Vec::with_capacity(by_func.len());
    for (&(func, is_foreign), &(calls, secs)) in &by_func {
        let written = kernels.written(func).filter(|_| !is_foreign);
        let flops = written.map_or(0.0, |f| flops::work(f).flops) * calls as f64;
        all_flops += flops;
        rows.push(Kernel {
            func: func.to_string(),
            calls,
            us: secs * 1e6,
            bound_us: bounds.get(&func).filter(|_| !is_foreign).map(|secs| secs * calls as f64 * 1e6),
            share: if total > 0.0 { secs / total } else { 0.0 },
            gflops: rate(flops, secs),
            tuned: !is_foreign && kernels.is_tuned(func),
            library: is_foreign,
        });
    }
    let bound_us: Option<f64> = rows.iter().map(|k| k.bound_us).sum();
    rows.sort_by(|a, b| b.us.total_cmp(&a.us).then_with(|| a.func.cmp(&b.func)));
    Some(Report {
        workload: program.name.clone(),
        func: model.name().to_owned(),
        us: whole.median * 1e6,
        min_us: whole.min * 1e6,
        calls: whole.n,
        kernels_us: total * 1e6,
        bound_us,
        bound_fraction: bound_us.map(|us| us / (whole.median * 1e6)),
        gflops: rate(all_flops, whole.median),
        memory_bytes: model.program().plan.bytes,
        memory_live_bytes: model.program().plan.live,
        memory_unshared_bytes: model.program().plan.unshared,
        weights_bytes: model.fixed_bytes(),
        compile_us: 0.0,
        random_weights: false,
        checked: false,
        max_relative_difference: None,
        tuned: kernels.n_tuned,
        distinct: kernels.n_distinct,
        isa: setting.isa.name().to_owned(),
        threads: setting.threads,
        strict_fp: setting.strict_fp,
        kernels: rows,
    })
}

fn rate(flops: f64, secs: f64) -> Option<f64> {
    (flops > 0.0 && secs > 0.0).then(|| flops / secs / 1e9)
}

fn human(r: &Report, results: &str, profile: bool) -> String {
    let us = |us: f64| Seconds(us * 1e-6);
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let mut text =
        format!("{}: {} (at least {}), median of {} call{}", r.func, us(r.us), us(r.min_us), r.calls, s(r.calls));
    // Writing to a string cannot fail.
    if let Some(gflops) = r.gflops {
        let _ = write!(text, ", {gflops:.1} GFLOP/s");
    }
    if let (Some(fraction), Some(bound)) = (r.bound_fraction, r.bound_us) {
        let _ = write!(text, "\n  {fraction:.2} of the roofline: its kernels take at least {}", us(bound));
    }
    let n_calls: usize = r.kernels.iter().map(|k| k.calls).sum();
    let n_funcs = r.kernels.len();
    let _ = writeln!(
        text,
        "\n  sum of its kernels: {}, {n_calls} call{} of {n_funcs} function{}",
        us(r.kernels_us),
        s(n_calls),
        s(n_funcs)
    );
    let [memory, live, unshared, weights] =
        [r.memory_bytes, r.memory_live_bytes, r.memory_unshared_bytes, r.weights_bytes].map(|n| Bytes(n as u64));
    let _ = writeln!(
        text,
        "  memory of intermediate values: {memory} ({live} live at once, {unshared} if none shared a place); weights: {weights}"
    );
    let threads = r.threads as usize;
    let _ =
        writeln!(text, "  compiled in {} for {}, {threads} thread{}; {results}", us(r.compile_us), r.isa, s(threads));
    let shown = if profile { n_funcs } else { n_funcs.min(SHOWN) };
    let head = ["kernel", "calls", "time", "share", "of roofline", "GFLOP/s", "schedule"].map(str::to_owned).to_vec();
    let row = |k: &Kernel| {
        vec![
            k.func.clone(),
            k.calls.to_string(),
            us(k.us).to_string(),
            format!("{:.1} %", k.share * 100.0),
            k.bound_us.map_or(String::new(), |bound| format!("{:.2}", bound / k.us)),
            k.gflops.map_or(String::new(), |g| format!("{g:.1}")),
            match (k.library, k.tuned) {
                (true, _) => "of a library",
                (false, true) => "best",
                (false, false) => "as written",
            }
            .to_owned(),
        ]
    };
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(r.kernels.iter().take(shown).map(row)).collect();
    text.push('\n');
    text += &aligned(&lines, &[true, false, false, false, false, false, true]);
    let rest = &r.kernels[shown..];
    if !rest.is_empty() {
        let (time, share) = rest.iter().fold((0.0, 0.0), |(t, p), k| (t + k.us, p + k.share));
        let _ =
            writeln!(text, "and {} more: {}, {:.1} % (`--profile` lists them)", rest.len(), us(time), share * 100.0);
    }
    text
}
