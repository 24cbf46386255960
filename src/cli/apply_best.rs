//! `tvmr apply-best`: prints the module with each function replaced by its best known version.

use super::Done;
use super::args::{DialectArg, Global, Input, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::{output, records};
use crate::graph::GraphModule;
use crate::workload::Workload;
use std::path::PathBuf;

/// Print a program with each function replaced by its best known version
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::APPLY_BEST)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    intrin: Intrin,
    #[command(flatten)]
    work_dir: WorkDir,
    #[command(flatten)]
    machine: Machine,
    /// Only replace this function
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Also use records of other CPUs
    #[arg(long)]
    #[arg(help_heading = "Machine")]
    any_target: bool,
    /// Write to a file instead of standard output (`-`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Dialect to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
    /// Fail unless every function has a record for this target
    #[arg(long)]
    #[arg(help_heading = "Database")]
    frozen: bool,
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let program = Program::read_lowered(&args.input, args.func.as_deref(), console)?;
    let intrinsics = load::intrinsics(&args.intrin)?;
    let target = load::target(&args.machine)?;
    let chosen = program.tasks(args.func.as_deref())?;
    let db = records::open(&args.work_dir.work_dir, console)?;
    let filter = records::filter(&target, &args.machine, global, args.any_target);
    let mut module: GraphModule = program.graph_module();
    let mut missing = Vec::new();
    for index in chosen {
        let workload = Workload::of(program.module(), index).with_intrinsics(intrinsics.clone());
        let best = records::best(&workload, db.as_ref(), &filter, 1, console)?;
        let Some(best) = best else {
            let why = records::why_none(&workload, db.as_ref(), &args.work_dir.work_dir, &filter);
            missing.push((workload.name, why));
            continue;
        };
        records::say_origin(&workload, &best, &args.machine, console);
        module.module.funcs[index] = workload.renamed(best.schedule.func(0).clone());
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|(n, _)| format!("`{n}`")).collect();
        // The reason is mostly the same for all functions.
        let why = &missing[0].1;
        let message = format!("no record for {} on this target: {why}", names.join(", "));
        if args.frozen {
            return Err(Failure::Negative(message));
        }
        console.warn(&format!("{message}; printed as written"));
    }
    let text = program.with(module).print(program.dialect(args.dialect));
    output::write(args.output.as_deref(), &text, console)
}
