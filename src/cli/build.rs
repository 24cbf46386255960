//! `tvmr build`: writes tuned native code, for programs that know nothing of tvmr.
//!
//! ```text
//! $ tvmr build matmul.tir -o build/matmul --emit shared,header,python
//! build/libmatmul.so
//! build/matmul.h
//! build/matmul.py
//! ```

use super::args::{Format, Global, GraphFiles, Intrin, Machine, WorkDir};
use super::build_batch;
use super::build_choices::{self, Sizes, Versions, sizes};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Content, Program};
use super::model_inputs::ModelInputs;
use super::versions::{Wanted, setting_of};
use super::{Done, records, setting};
use crate::export::{self, Body, File, Version};
use crate::graph;
use crate::ir::Symbol;
use crate::ir::equal::Equality;
use crate::onnx;
use crate::request::building::{self, Request};
use crate::request::graph_building::{GraphVersion, KnownValues};
use crate::te_function::WorkloadChoice;
use crate::workload::Workload;
use clap::builder::PossibleValue;
use serde_json::json;
use std::path::PathBuf;

/// Build native code of a program: an object file, libraries, headers and wrappers
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::BUILD)]
pub(super) struct Args {
    /// Program in TVMScript, an ONNX model, or Python with tensor expressions; `-` reads standard input
    file: PathBuf,
    /// Arguments of a workload of tensor expressions, such as `1024,1024,float32`
    #[arg(long, value_name = "VALUES", allow_hyphen_values = true)]
    args: Option<String>,
    /// Values of symbolic extents, such as `n=1024`, `n=1,m=8` or `n=1..8,16,32`: each gets a version; may be repeated
    #[arg(long, value_name = "NAME=VALUES", value_parser = sizes)]
    bind: Vec<Sizes>,
    /// Symbol that is the number of samples in a batch, the leading extent of all inputs and results of a graph: the function takes
    /// any number, and runs its versions on parts of the batch
    #[arg(long, value_name = "NAME", help_heading = "Graphs")]
    batch_loop: Option<String>,
    /// Directory and name of the files, such as `build/matmul`
    #[arg(short, long, value_name = "DIR/NAME")]
    output: PathBuf,
    /// Files to write
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_values_t = [File::Object, File::Header])]
    emit: Vec<File>,
    /// First part of all symbols, instead of NAME; also behind `__tvm_ffi_`
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Export no symbols of TVM-FFI
    #[arg(long)]
    no_tvm_ffi: bool,
    /// Build only this function
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Build the program as written
    #[arg(long, conflicts_with_all = ["trace", "frozen"])]
    as_written: bool,
    /// Apply this trace (Python or JSON) or schedule function, instead of the best known schedule
    #[arg(long, value_name = "FILE", conflicts_with = "frozen")]
    #[arg(help_heading = "Schedules")]
    trace: Option<PathBuf>,
    /// Seed for decisions that the trace leaves open
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::args::seed)]
    #[arg(allow_negative_numbers = true, help_heading = "Schedules")]
    seed: u64,
    /// Write the weights of models into this file, instead of the object; callers map it and pass it once
    #[arg(long, value_name = "FILE", help_heading = "Graphs")]
    external_weights: Option<PathBuf>,
    #[command(flatten)]
    graph: GraphFiles,
    #[command(flatten)]
    intrin: Intrin,
    #[command(flatten)]
    machine: Machine,
    /// Also use records of other CPUs
    #[arg(long)]
    #[arg(help_heading = "Machine")]
    any_target: bool,
    #[command(flatten)]
    work_dir: WorkDir,
    /// Fail unless every function has a record for this target
    #[arg(long)]
    #[arg(help_heading = "Database")]
    frozen: bool,
    /// Form of the list of files
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// The values of `--emit`.
impl clap::ValueEnum for File {
    fn value_variants<'a>() -> &'a [File] {
        &File::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            File::Object => "`NAME.o`: a relocatable object",
            File::Static => "`libNAME.a`: a static library",
            File::Shared => "`libNAME.so`: a shared library; needs a linker",
            File::Header => "`NAME.h`: declarations for C99 and C++11",
            File::Python => "`NAME.py`: functions over NumPy arrays; writes `shared` too",
            File::Rust => "`NAME.rs`: declarations and safe functions for Rust",
            File::Manifest => "`NAME.json`: a description of all functions",
        };
        Some(PossibleValue::new(self.keyword()).help(help))
    }
}

impl Args {
    /// The versions to build, unless they come from records.
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            best: false,
            trace: self.trace.as_deref(),
            func: self.func.as_deref(),
            seed: self.seed,
            intrin: &self.intrin,
            machine: &self.machine,
            work_dir: &self.work_dir,
        }
    }
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let stdin = |p: &PathBuf| p.as_os_str() == "-";
    if stdin(&args.file) && args.trace.as_ref().is_some_and(stdin) {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    let plan = Request {
        output: args.output.clone(),
        prefix: args.prefix.clone(),
        has_tvm_ffi: !args.no_tvm_ffi,
        emit: args.emit.clone(),
        external_weights: args.external_weights.clone(),
    };
    let plan = plan.plan()?;
    let library = plan.library(functions(args, global, console)?)?;
    let files = plan.write(&library)?;
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    match args.format {
        Format::Human => console.result(&names.iter().map(|n| format!("{n}\n")).collect::<String>()),
        Format::Json => {
            let functions: Vec<_> =
                library.functions.iter().map(|f| json!({"name": f.name, "symbol": library.symbol(f)})).collect();
            console.result(&format!("{:#}\n", json!({"files": names, "functions": functions})))
        }
    }
}

/// The functions of a program, in a version for each choice of sizes.
fn functions(args: &Args, global: &Global, console: Console) -> Result<Vec<export::Function>, Failure> {
    let content = load::content(&args.file)?;
    let inputs = ModelInputs::of(&args.graph);
    inputs.check(&args.file, &content)?;
    let workload = WorkloadChoice { func: args.func.as_deref(), args: args.args.as_deref() };
    let weights = args.graph.weights.as_deref();
    let mut functions: Vec<export::Function> = Vec::new();
    let mut missing: Vec<(String, String)> = Vec::new();
    let bind: Vec<(String, Vec<i64>)> = args.bind.iter().flat_map(|sizes| sizes.0.iter().cloned()).collect();
    let choices = build_choices::choices(&bind, &args.graph.shape)?;
    let mut known = KnownValues::new(&args.file, weights);
    let name = args.file.to_string_lossy();
    let batch = args.batch_loop.as_deref();
    let Versions { size_names, sizes, told } = build_choices::versions(&name, &choices, batch, || match &content {
        Content::Model(model) => Ok(vec![onnx::signature(model, &onnx::Given::default())]),
        Content::Text(text) => Ok(Program::from_text(&name, &[], text.clone(), workload, weights)?.parsed.graphs),
    })?;
    if let Some(batch) = batch {
        let inputs = ModelInputs { shapes: &[], ..inputs };
        let read =
            |bind: &[(String, i64)]| Program::from_content(&name, bind, content.clone(), workload, weights, &inputs);
        build_batch::check(batch, &told, args.func.as_deref(), &args.graph.context()?, read)?;
    }
    let batch = batch.and_then(|batch| size_names.iter().position(|name| name == batch));
    for (i, (choice, sizes)) in choices.iter().zip(sizes).enumerate() {
        let inputs = ModelInputs { shapes: &choice.shapes, ..inputs };
        let program = if i == 0 {
            Program::parse(&args.file, &choice.bind, content.clone(), workload, weights, &inputs, console)?
        } else {
            Program::from_content(&name, &choice.bind, content.clone(), workload, weights, &inputs)?
        };
        let program = super::shapes::shaped(program, &choice.shapes)?;
        let built = match program.graph(args.func.as_deref())? {
            Some(graph) => vec![graph_version(args, global, &program, graph, &mut known, console, &mut missing)?],
            None => {
                let chosen = program.functions(args.func.as_deref())?;
                for &index in &chosen {
                    setting::check_concrete(&program.module().funcs[index])?;
                }
                versions(args, global, &program, &chosen, console, &mut missing)?
            }
        };
        for (name, mut version) in built {
            version.sizes.clone_from(&sizes);
            match functions.iter_mut().find(|f| f.name == name) {
                Some(function) => function.versions.push(version),
                None => functions.push(export::Function {
                    name,
                    size_names: size_names.clone(),
                    batch,
                    versions: vec![version],
                }),
            }
        }
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|(n, _)| format!("`{n}`")).collect();
        let message = format!("no record for {} on this target: {}", names.join(", "), missing[0].1);
        if args.frozen {
            return Err(Failure::Negative(message));
        }
        console.warn(&format!("{message}; built as written"));
    }
    if let Some(symbol) = &args.batch_loop {
        functions.iter().try_for_each(|function| build_batch::check_versions(symbol, function))?;
    }
    Ok(functions.into_iter().map(without_idle_sizes).collect())
}

/// A function without sizes that none of its parameters depend on: its versions are all the same.
fn without_idle_sizes(function: export::Function) -> export::Function {
    let same = |v: &Version| match (&function.versions[0].body, &v.body) {
        (Body::Func(a), Body::Func(b)) => Equality::default().funcs(a, b).is_ok(),
        _ => false,
    };
    if function.versions.len() > 1 && function.versions.iter().all(same) {
        let mut version = function.versions[0].clone();
        version.sizes.clear();
        return export::Function { size_names: Vec::new(), batch: None, versions: vec![version], ..function };
    }
    function
}

/// A graph with fixed extents: calls of its kernels, with their schedules. Names without a record are added to `missing`.
fn graph_version(
    args: &Args,
    global: &Global,
    program: &Program,
    graph: &graph::Function,
    known: &mut KnownValues,
    console: Console,
    missing: &mut Vec<(String, String)>,
) -> Result<(String, Version), Failure> {
    let name = graph.name.to_string();
    args.wanted().check_for_graph(&name)?;
    let cx = args.graph.context()?;
    let lowered = program.lowered(&cx)?;
    let graph = GraphVersion::of(&lowered, &name)?;
    let versions: Vec<(Symbol, Version)> = graph
        .prim_funcs
        .iter()
        .map(|&i| lowered.module().funcs[i].name)
        .zip(versions(args, global, &lowered, &graph.prim_funcs, console, missing)?.into_iter().map(|(_, v)| v))
        .collect();
    let best = |func: Symbol| match versions.iter().find(|(name, _)| *name == func).map(|(_, version)| &version.body) {
        Some(Body::Func(best)) => Some((**best).clone()),
        Some(Body::Graph(_)) | None => None,
    };
    let setting = setting::here(&args.machine, global, true, console)?;
    let version = graph.build(best, known, &cx.libraries, &setting, global.isa.is_some())?;
    Ok((name, version))
}

/// The functions of a program with fixed extents, with their schedules. Names without a record are added to `missing`.
fn versions(
    args: &Args,
    global: &Global,
    program: &Program,
    chosen: &[usize],
    console: Console,
    missing: &mut Vec<(String, String)>,
) -> Result<Vec<(String, Version)>, Failure> {
    let setting = setting::here(&args.machine, global, true, console)?;
    // Code for this CPU alone.
    let only = global.isa.is_some();
    if args.as_written || args.trace.is_some() {
        let all = args.wanted().versions(global, program, chosen, &setting, console)?;
        return Ok(all
            .into_iter()
            .map(|v| (v.workload.name.to_string(), building::version(&v.workload, v.func, &v.setting, only, None)))
            .collect());
    }
    let intrinsics = load::intrinsics(&args.intrin)?;
    let target = load::target(&args.machine)?;
    let db = records::open(&args.work_dir.work_dir, console)?;
    let filter = records::filter(&target, &args.machine, global, args.any_target);
    let mut all = Vec::new();
    for &index in chosen {
        let workload = Workload::of(program.module(), index).with_intrinsics(intrinsics.clone());
        let name = workload.name.to_string();
        let Some(best) = records::best(&workload, db.as_ref(), &filter, 1, console)? else {
            if missing.iter().all(|(n, _)| *n != name) {
                let why = records::why_none(&workload, db.as_ref(), &args.work_dir.work_dir, &filter);
                missing.push((name.clone(), why));
            }
            let func = workload.func().clone();
            all.push((name, building::version(&workload, func, &setting, only, None)));
            continue;
        };
        records::say_origin(&workload, &best, &args.machine, console);
        let setting = setting_of(&best, &setting, global);
        let func = best.schedule.func(0).clone();
        all.push((name, building::version(&workload, func, &setting, only, best.record.secs())));
    }
    Ok(all)
}
