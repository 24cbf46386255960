//! `tvmr print-trace`: prints the best known schedule of a function.

use super::Done;
use super::args::{DialectArg, Global, Input, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::records;
use crate::schedule::Trace;
use crate::schedule::trace::TraceForm;
use crate::te_schedule::{Inexpressible, of_trace};
use crate::workload::Workload;

/// Print the schedule of the best, or K-th best, known version of a function
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::PRINT_TRACE)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    intrin: Intrin,
    #[command(flatten)]
    work_dir: WorkDir,
    #[command(flatten)]
    machine: Machine,
    /// Function to print; needed if the program has several
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Print the K-th best instead of the best
    #[arg(long, value_name = "K", default_value = "1", value_parser = super::args::positive)]
    #[arg(allow_negative_numbers = true)]
    rank: u64,
    /// Also use records of other CPUs
    #[arg(long)]
    #[arg(help_heading = "Machine")]
    any_target: bool,
    /// Output format of the trace
    #[arg(long, value_enum, default_value = "python", value_name = "FORMAT")]
    format: TraceFormat,
    /// Dialect to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
}

/// Output format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum TraceFormat {
    /// A schedule function, which is a valid `--space` file
    Python,
    /// JSON, as in TVM's tuning records
    Json,
    /// Calls of a schedule of tensor expressions, as the auto-scheduler printed them
    Te,
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let program = Program::read_lowered(&args.input, args.func.as_deref(), console)?;
    let target = load::target(&args.machine)?;
    let index = match program.functions(args.func.as_deref())?[..] {
        [one] => one,
        _ => {
            let names: Vec<&str> = program.module().funcs.iter().map(|f| f.name.as_str()).collect();
            let help = format!("choose one of `{}` with `--func`", names.join("`, `"));
            return Err(Failure::Usage("the program has several functions".to_string(), help));
        }
    };
    let workload = Workload::of(program.module(), index).with_intrinsics(load::intrinsics(&args.intrin)?);
    let db = records::open(&args.work_dir.work_dir, console)?;
    let filter = records::filter(&target, &args.machine, global, args.any_target);
    let Some(best) = records::best(&workload, db.as_ref(), &filter, args.rank as usize, console)? else {
        let which = if args.rank == 1 { "no record".to_string() } else { format!("no record of rank {}", args.rank) };
        let why = match args.rank {
            1 => format!(": {}", records::why_none(&workload, db.as_ref(), &args.work_dir.work_dir, &filter)),
            _ => String::new(),
        };
        return Err(Failure::Negative(format!("{which} for `{}` on this target{why}", workload.name)));
    };
    records::say_origin(&workload, &best, &args.machine, console);
    let trace = best.schedule.trace();
    let text = match args.format {
        TraceFormat::Python => {
            let beyond = trace.unsupported_by_tvm(TraceForm::Python);
            let mark = |i: usize| beyond.iter().any(|(at, _)| *at == i).then(|| "not in TVM".to_string());
            let text = trace.to_python_with(program.dialect(args.dialect), mark);
            // The instructions are the last lines, one each; line numbers start at 1.
            let head = text.lines().count().saturating_sub(trace.insts.len());
            tell_beyond("line", beyond.iter().map(|(i, why)| (head + i + 1, why.as_str())), console);
            text + "\n"
        }
        TraceFormat::Json => {
            let beyond = trace.unsupported_by_tvm(TraceForm::Json);
            tell_beyond("instruction", beyond.iter().map(|(i, why)| (*i, why.as_str())), console);
            format!("{}\n", trace.to_json())
        }
        TraceFormat::Te => as_te(&workload, trace)?,
    };
    console.result(&text)
}

/// The trace as a schedule of tensor expressions.
fn as_te(workload: &Workload, trace: &Trace) -> Result<String, Failure> {
    let name = workload.name;
    let stages = of_trace(trace, workload.schedule(0), 0).map_err(|listed| {
        let one = |i: &Inexpressible| match i.why.as_str() {
            "" => format!("`{}` ({})", i.name, i.index),
            why => format!("`{}` ({}): {why}", i.name, i.index),
        };
        let all: Vec<String> = listed.iter().map(one).collect();
        let which = if all.len() == 1 { "instruction" } else { "instructions" };
        Failure::Negative(format!(
            "the schedule of `{name}` has no form as tensor expressions, because of the {which} {}",
            all.join(", ")
        ))
    })?;
    stages.to_python().map_err(|why| Failure::Negative(format!("the schedule of `{name}`: {}", why.message)))
}

/// Reports the instructions of a trace that TVM 0.27 does not support.
fn tell_beyond<'a>(what: &str, beyond: impl Iterator<Item = (usize, &'a str)>, console: Console) {
    for (at, why) in beyond {
        console.note(&format!("{what} {at} does not replay in TVM 0.27: {why}"));
    }
}
