//! `tvmr apply`: a program after a given trace or schedule function.

use super::Done;
use super::args::{DialectArg, Global, Input};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program, ScheduleText};
use crate::diagnostic::Diagnostics;
use crate::ir::Module;
use crate::schedule::Schedule;
use crate::schedule::error::ErrorKind;
use crate::schedule::function::FunctionError;
use crate::schedule::trace::ReplayError;
use crate::script::print_module;
use crate::tune::workload::Workload;
use std::path::{Path, PathBuf};

/// Apply a trace or schedule function to a program, and print the result
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Trace (Python or JSON) or schedule function; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Seed for decisions that the trace leaves open
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Function that look-ups without a function name are about
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Spelling to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
}

pub fn run(args: &Args, _global: &Global, console: Console) -> Done {
    if args.input.file.as_os_str() == "-" && args.trace.as_os_str() == "-" {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    let program = Program::read(&args.input, console)?;
    let module = scheduled(&program, &args.trace, args.func.as_deref(), args.seed)?;
    let text = print_module(&module, program.dialect(args.dialect));
    match &args.output {
        Some(path) => super::apply_best::write_file(path, &text),
        None => console.result(&text),
    }
}

/// A program after the trace or function of a file. Where that speaks of a function `main` that there is not, the one
/// function that the command is about is meant: so are functions called in the database.
pub fn scheduled(program: &Program, trace: &Path, func: Option<&str>, seed: u64) -> Result<Module, Failure> {
    let text = load::schedule(trace)?;
    let mut schedule = Schedule::new(program.module(), seed);
    let chosen = program.functions(func)?;
    if func.is_some() {
        schedule.work_on(chosen[0]);
    }
    let failed = match apply(&text, &mut schedule) {
        Ok(()) => return Ok(schedule.module()),
        Err(failed) => failed,
    };
    let (true, [only]) = (failed.is_unknown_function(), &chosen[..]) else { return Err(failed.failure(&text, trace)) };
    let workload = Workload::of(program.module(), *only);
    let mut schedule = Schedule::new(&workload.module, seed);
    if apply(&text, &mut schedule).is_err() {
        return Err(failed.failure(&text, trace));
    }
    let mut module = program.module().clone();
    module.funcs[*only] = workload.renamed(schedule.func(0).clone());
    Ok(module)
}

/// Why a trace or function does not apply.
enum Refused {
    Trace(ReplayError),
    Function(FunctionError),
}

fn apply(text: &ScheduleText, schedule: &mut Schedule) -> Result<(), Refused> {
    match text {
        ScheduleText::Trace(t) => t.replay(schedule).map_err(Refused::Trace),
        ScheduleText::Function(f) => f.apply(schedule).map_err(Refused::Function),
    }
}

impl Refused {
    fn is_unknown_function(&self) -> bool {
        let error = match self {
            Refused::Trace(e) => Some(&e.error),
            Refused::Function(e) => e.refused.as_deref(),
        };
        error.is_some_and(|e| matches!(e.kind, ErrorKind::UnknownFunction { .. }))
    }

    fn failure(self, text: &ScheduleText, path: &Path) -> Failure {
        match (self, text) {
            (Refused::Function(e), ScheduleText::Function(f)) => {
                Failure::from(Diagnostics::new(f.source(), vec![*e.diagnostic]))
            }
            (Refused::Function(e), ScheduleText::Trace(_)) => Failure::Usage(e.to_string(), String::new()),
            (Refused::Trace(e), _) => {
                let help = e.error.kind.help();
                Failure::Usage(format!("`{}` does not apply: {e}", path.display()), help)
            }
        }
    }
}
