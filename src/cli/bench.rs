//! `tvmr bench`: checks and times a program.

use super::args::{Format, Global, Input};
use super::console::Console;
use super::exit::Failure;
use super::load::Program;
use super::versions::{Version, VersionArgs};
use super::{Done, bench_model, setting};
use crate::ir::hash::program_hash;
use crate::measure::Advice;
use crate::perf::roofline::{FunctionRate, Roofline};
use crate::tune::Interrupt;
use crate::tune::backend::Seconds;
use crate::tune::bench::{self, BenchError, BenchReport};
use crate::tune::native::{Native, reference_dir};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

/// Check and time a program: as written, with its best known schedule, or with a given one
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::BENCH)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) versions: VersionArgs,
    /// Models: values of inputs by their names in a `.npz` or `.safetensors` file, random without; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Graphs")]
    pub(super) inputs: Vec<PathBuf>,
    /// Models: list all kernels, not only those that take the most time
    #[arg(long, help_heading = "Graphs")]
    pub(super) profile: bool,
    /// Do not compare results with the reference, or those of a whole model with its graph as read
    #[arg(long)]
    pub(super) no_check: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) format: Format,
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let stdin = |p: &PathBuf| p.as_os_str() == "-";
    if stdin(&args.input.file) && args.versions.trace.as_ref().is_some_and(stdin) {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    let func = args.versions.func.as_deref();
    let program = Program::read_for(&args.input, func, (&[], &args.inputs), console)?;
    if let Some(graph) = program.graph(args.versions.func.as_deref())? {
        let name = graph.name.to_string();
        return bench_model::run(args, global, program, &name, console);
    }
    if !args.inputs.is_empty() || args.profile {
        let option = if args.profile { "--profile" } else { "--inputs" };
        let help = "prim_funcs are timed on random values".to_owned();
        return Err(Failure::Usage(format!("`{option}` is for a model, and this is none"), help));
    }
    let program = program.of_prim_funcs(&args.input)?;
    let functions = program.tasks(args.versions.func.as_deref())?;
    for &index in &functions {
        setting::check_concrete(&program.module().funcs[index])?;
    }
    let setting = setting::here(&args.versions.machine, global, !args.no_check, console)?;
    if args.no_check {
        console.warn("results are NOT compared with the reference");
    }
    let versions = args.versions.wanted().versions(global, &program, &functions, &setting, console)?;
    let interrupt = Interrupt::new();
    let mut reports = Vec::new();
    for Version { workload, func, setting } in &versions {
        // References are kept only in a work directory that exists.
        let dir = &args.versions.work_dir.work_dir;
        let references = dir.is_dir().then(|| reference_dir(dir));
        let machine = |e: std::io::Error| Failure::Machine(format!("cannot start threads: {e}"), String::new());
        let native = Native::pinned(setting, references, &interrupt).map_err(machine)?;
        let result = bench::bench(&native, workload, func, program_hash(func));
        if let Some(cores) = native.load().disturbance() {
            console.warn(&Advice::Busy { cores }.to_string());
        }
        reports.push(result.map_err(|e| match e {
            BenchError::Program(_) => Failure::Negative(format!("`{}` failed: {e}", workload.name)),
            BenchError::Machine(why) => Failure::Machine(why, String::new()),
        })?);
    }
    match (args.format, &reports[..]) {
        (Format::Human, all) => console.result(&all.iter().map(human).collect::<String>()),
        (Format::Json, [one]) => console.result(&format!("{:#}\n", json!(one))),
        (Format::Json, all) => console.result(&format!("{:#}\n", json!({"tasks": all}))),
    }
}

fn human(r: &BenchReport) -> String {
    let mut text = format!("{}: {} (at least {})", r.func, Seconds(r.us * 1e-6), Seconds(r.min_us * 1e-6));
    // Writing to a string cannot fail.
    if let Some(gflops) = r.gflops {
        let _ = write!(text, ", {gflops:.1} GFLOP/s");
    }
    let _ = writeln!(text, ", {:.1} GB/s", r.gbs);
    if let (Some(fraction), Some(peak)) = (r.peak_fraction, r.peak_gflops) {
        let _ = write!(text, "  {fraction:.2} of this machine's peak of {peak:.1} GFLOP/s");
        if let (Some(fraction), Some(peak)) = (r.isa_peak_fraction, r.isa_peak_gflops) {
            let _ = write!(text, ", {fraction:.2} of the {peak:.1} that {} allows", r.isa);
        }
        text.push('\n');
    }
    if let Some(roofline) = r.roofline_fraction {
        let _ = writeln!(text, "  {roofline:.2} of the roofline: {}", bounds(&r.roofline));
    }
    if let Some(us) = r.prepare_us {
        let once = Seconds(us * 1e-6);
        let _ = writeln!(text, "  preparation of layout-free parameters: {once}, once and not included in the call");
    }
    let checked = if r.checked { "result checked" } else { "result NOT checked" };
    let s = if r.threads == 1 { "" } else { "s" };
    let compiled = Seconds(r.compile_us * 1e-6);
    let _ = writeln!(text, "  compiled in {compiled} for {}, {} thread{s}; {checked}", r.isa, r.threads);
    text
}

/// The binding roofline bound (memory or compute), and the other one.
fn bounds(r: &Roofline) -> String {
    let us = |us: f64| Seconds(us * 1e-6);
    let traffic = format!("{} from {} at {:.1} GB/s", Bytes(r.bytes), r.level, r.level_gbs);
    let Some(operations_us) = r.operations_us else { return format!("{} for {traffic}", us(r.traffic_us)) };
    let calls = |f: &FunctionRate| format!("{} at {:.2} G/s", f.name, f.gcalls);
    let functions: Vec<String> = r.functions.iter().map(calls).collect();
    let functions = if functions.is_empty() { String::new() } else { format!(" ({})", functions.join(", ")) };
    let operations = format!("operations{functions}");
    if operations_us > r.traffic_us {
        format!("{} for {operations}; {} for {traffic}", us(operations_us), us(r.traffic_us))
    } else {
        format!("{} for {traffic}; {} for {operations}", us(r.traffic_us), us(operations_us))
    }
}

/// A number of bytes, displayed in a suitable unit.
pub(super) struct Bytes(pub(super) u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            b if b < 1 << 10 => write!(f, "{b} B"),
            b if b < 1 << 20 => write!(f, "{:.1} KiB", b as f64 / 1024.0),
            b => write!(f, "{:.1} MiB", b as f64 / 1024.0 / 1024.0),
        }
    }
}
