//! `tvmr emit`: prints a program at a stage of code generation.
//!
//! ```text
//! $ tvmr emit matmul.tir --best --stage passes
//! main: 28 passes, 212 us; 9 changed the kernel
//!   simplify                    14.1 us  changed
//!   …
//! ```
//!
//! `tests/filetests/opt` can read the text of `loopir` and `after:PASS`.

use super::Done;
use super::args::{DialectArg, Format, Global, Input};
use super::console::Console;
use super::exit::Failure;
use super::load::Program;
use super::versions::{Version, VersionArgs};
use super::{output, setting};
use crate::codegen::inspect::{self, PassRun};
use crate::codegen::{CodegenOptions, opt};
use crate::diagnostic::nearest;
use crate::graph::pass::{self, PIPELINE};
use crate::ir::Func;
use crate::ir::preparation::separate;
use crate::loopir::{self, Kernel};
use crate::lower;
use crate::request::program;
use crate::te;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Print a program at a stage of the code generator
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::EMIT)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Stage: `graph`, `dag` (one line for each tensor), `tir`, `loopir`, `after:PASS` (of graphs or kernels), `passes` (their times, and which changed anything), `clif` or `asm`
    #[arg(long, value_name = "STAGE", value_parser = stage)]
    stage: Stage,
    #[command(flatten)]
    versions: VersionArgs,
    /// Write to a file instead of standard output (`-`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Dialect of `--stage tir`; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// A stage of code generation.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// The graphs, perhaps after one of their passes.
    Graph(Option<String>),
    /// The stages of a program as written, one line for each tensor.
    Dag,
    /// The scheduled program.
    Tir,
    /// The loop IR after lowering.
    LoopIr,
    /// The loop IR after a pass.
    After(String),
    /// The list of passes with their times.
    Passes,
    /// Cranelift's IR, which calls the regions.
    Clif,
    /// Machine instructions: regions, each with its loops, and the code of Cranelift.
    Asm,
}

/// Parses the name of a stage.
fn stage(text: &str) -> Result<Stage, String> {
    Ok(match text {
        "graph" => Stage::Graph(None),
        "dag" => Stage::Dag,
        "tir" => Stage::Tir,
        "loopir" => Stage::LoopIr,
        "passes" => Stage::Passes,
        "clif" => Stage::Clif,
        "asm" => Stage::Asm,
        _ => match text.strip_prefix("after:") {
            Some(pass) if PIPELINE.iter().any(|p| p.name == pass) => Stage::Graph(Some(pass.to_owned())),
            Some(pass) if opt::is_pass(pass) => Stage::After(pass.to_owned()),
            Some(pass) => {
                let names: Vec<&str> = PIPELINE.iter().map(|p| p.name).chain(opt::passes(None)).collect();
                return Err(match nearest(pass, names.iter().copied()) {
                    Some(near) => format!("there is no pass `{pass}`; did you mean `{near}`?"),
                    None => format!("there is no pass `{pass}`; the passes are {}", names.join(", ")),
                });
            }
            None => {
                return Err(
                    "expected `graph`, `dag`, `tir`, `loopir`, `after:PASS`, `passes`, `clif` or `asm`".to_owned()
                );
            }
        },
    })
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let stdin = |p: &PathBuf| p.as_os_str() == "-";
    if stdin(&args.input.file) && args.versions.trace.as_ref().is_some_and(stdin) {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    if let Stage::Graph(after) = &args.stage {
        return graph(args, after.as_deref(), console);
    }
    let program = Program::read_lowered(&args.input, args.versions.func.as_deref(), console)?;
    let functions = match args.versions.best {
        true => program.tasks(args.versions.func.as_deref())?,
        false => program.functions(args.versions.func.as_deref())?,
    };
    if args.stage == Stage::Dag {
        return dag(args, &program, &functions, console);
    }
    if args.stage != Stage::Tir {
        for &index in &functions {
            setting::check_concrete(&program.module().funcs[index])?;
        }
    }
    let setting = setting::here(&args.versions.machine, global, true, console)?;
    let versions = args.versions.wanted().versions(global, &program, &functions, &setting, console)?;
    let mut kernels = Vec::new();
    if args.stage == Stage::Tir {
        let mut module = program.graph_module();
        for (version, &index) in versions.into_iter().zip(&functions) {
            module.module.funcs[index] = version.workload.renamed(version.func);
        }
        let text = program.with(module).print(program.dialect(args.dialect));
        kernels.push(Emitted { title: String::new(), text, passes: Vec::new() });
    } else {
        for version in &versions {
            emit(version, &args.stage, &mut kernels)?;
        }
    }
    print(args, &kernels, console)
}

/// Prints the graphs of a program, as written or after one of their passes.
fn graph(args: &Args, after: Option<&str>, console: Console) -> Done {
    let program = Program::read(&args.input, args.versions.func.as_deref(), console)?;
    if program.graphs().is_empty() {
        let message = format!("`{}` has no graph functions", program.name);
        return Err(Failure::Usage(message, "`--stage tir` prints prim_funcs".to_owned()));
    }
    let mut module = program.graph_module();
    if let Some(name) = after {
        let cx = args.input.graph.context()?;
        pass::run_until(&mut module, &cx, name).map_err(|found| program::mistakes(&program, found))?;
    }
    let text = program.with(module).print(program.dialect(args.dialect));
    output::write(args.output.as_deref(), &text, console)
}

/// Prints the stages of functions.
fn dag(args: &Args, program: &Program, functions: &[usize], console: Console) -> Done {
    if args.versions.best || args.versions.trace.is_some() {
        let message = "`--stage dag` shows the program as written".to_owned();
        return Err(Failure::Usage(message, "`--stage tir` shows a scheduled one".to_owned()));
    }
    let mut kernels = Vec::new();
    for &index in functions {
        let func = &program.module().funcs[index];
        let text = te::dag(func).map_err(|why| {
            let message = format!("`{}` has no DAG of stages: {why}", func.name);
            Failure::Usage(message, "`--stage tir` prints any program".to_owned())
        })?;
        kernels.push(Emitted { title: func.name.to_string(), text, passes: Vec::new() });
    }
    print(args, &kernels, console)
}

fn print(args: &Args, kernels: &[Emitted], console: Console) -> Done {
    let text = match args.format {
        Format::Json => format!("{:#}\n", json!({"kernels": kernels.iter().map(Emitted::json).collect::<Vec<_>>()})),
        Format::Human => kernels.iter().map(|k| k.text.as_str()).collect::<Vec<_>>().join("\n"),
    };
    output::write(args.output.as_deref(), &text, console)
}

/// A kernel at a stage.
struct Emitted {
    /// The function, and the part of it; empty for a whole module.
    title: String,
    text: String,
    /// The passes that ran.
    passes: Vec<PassRun>,
}

impl Emitted {
    fn json(&self) -> Value {
        let pass = |p: &PassRun| json!({"name": p.name, "us": p.time.as_secs_f64() * 1e6, "changed": p.changed});
        if self.passes.is_empty() {
            json!({"kernel": self.title, "text": self.text})
        } else {
            json!({"kernel": self.title, "passes": self.passes.iter().map(pass).collect::<Vec<_>>()})
        }
    }
}

/// The kernels of a function at a stage: one, or a preparation and the call.
fn emit(version: &Version, stage: &Stage, kernels: &mut Vec<Emitted>) -> Done {
    let name = version.workload.func().name;
    match separate(&version.func) {
        None => kernels.push(kernel(version, &version.func, name.to_string(), stage)?),
        Some(parts) => {
            kernels.push(kernel(version, &parts.preparation, format!("{name}, preparation"), stage)?);
            kernels.push(kernel(version, &parts.call, format!("{name}, call"), stage)?);
        }
    }
    Ok(())
}

fn kernel(version: &Version, func: &Func, title: String, stage: &Stage) -> Result<Emitted, Failure> {
    let options = version.setting.codegen();
    let failed = |e: &dyn std::fmt::Display| Failure::Negative(format!("`{title}` cannot be compiled: {e}"));
    let kernel = lower::lower(func).map_err(|e| failed(&e))?;
    let mut passes = Vec::new();
    let text = match stage {
        Stage::Graph(_) | Stage::Dag | Stage::Tir | Stage::LoopIr => loopir::print::print(&kernel),
        Stage::After(pass) => {
            if !opt::passes(Some(&kernel)).any(|name| name == pass) {
                let why = "it has loops that are not counted, or jumps, which only `strip_mine` takes";
                return Err(Failure::Negative(format!("the pass `{pass}` does not run over `{title}`: {why}")));
            }
            loopir::print::print(&inspect::run_passes(kernel, &options, Some(pass)).0)
        }
        Stage::Passes => {
            passes = inspect::run_passes(kernel, &options, None).1;
            pass_table(&title, &passes)
        }
        Stage::Clif => inspect::listing(&kernel, &options).map_err(|e| failed(&e))?.clif,
        Stage::Asm => assembly(&title, &kernel, &options).map_err(|e| failed(&e))?,
    };
    Ok(Emitted { title, text, passes })
}

fn pass_table(title: &str, passes: &[PassRun]) -> String {
    let us = |p: &PassRun| p.time.as_secs_f64() * 1e6;
    let total: f64 = passes.iter().map(us).sum();
    let changed = passes.iter().filter(|p| p.changed).count();
    let n = passes.len();
    let mut text = format!("{title}: {n} passes, {total:.0} us; {changed} changed the kernel\n");
    let width = passes.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for p in passes {
        let change = if p.changed { "  changed" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:width$} {:9.1} us{change}", p.name, us(p));
    }
    text
}

fn assembly(title: &str, kernel: &Kernel, options: &CodegenOptions) -> Result<String, crate::codegen::CodegenError> {
    let listing = inspect::listing(kernel, options)?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (i, region) in listing.regions.iter().enumerate() {
        let _ = writeln!(text, "; {title}: region {i}, {} bytes", region.bytes.len());
        for line in region.loops.lines() {
            let _ = writeln!(text, "; {line}");
        }
        let _ = writeln!(text, "{}", region.assembly());
    }
    let _ = writeln!(text, "; {title}: the rest, by Cranelift");
    text.push_str(&listing.assembly);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_names() {
        assert_eq!(stage("loopir"), Ok(Stage::LoopIr));
        assert_eq!(stage("after:vectorize"), Ok(Stage::After("vectorize".to_owned())));
        assert_eq!(stage("after:vectorise"), Err("there is no pass `vectorise`; did you mean `vectorize`?".to_owned()));
        assert!(stage("after:").is_err_and(|e| e.contains("simplify, powers, specialize")));
        assert!(stage("llvm").is_err());
    }
}
