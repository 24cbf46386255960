//! `tvmr apply`: applies a trace or schedule function to a program.

use super::Done;
use super::args::{DialectArg, Global, Input, Intrin, Machine, Threads};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::scheduled::Request;
use super::steps::{Steps, Walk};
use super::{output, setting};
use crate::script::print_module;
use std::path::PathBuf;

/// Apply a trace or schedule function to a program, and print the result
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::APPLY)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Trace (Python or JSON) or schedule function; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    #[command(flatten)]
    intrin: Intrin,
    /// Print the program after every instruction that changes it
    #[arg(long)]
    steps: bool,
    /// Run the program before and after on random data, and fail if the results differ; with --steps, after each step
    #[arg(long)]
    check: bool,
    /// Seed for decisions that the trace leaves open
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::args::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,
    /// Function to look up blocks in where the schedule names none
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Write to a file instead of standard output (`-`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Dialect to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    if args.input.file.as_os_str() == "-" && args.trace.as_os_str() == "-" {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    let program = Program::read_lowered(&args.input, args.func.as_deref(), console)?;
    let dialect = program.dialect(args.dialect);
    let request = Request {
        program: &program,
        trace: &args.trace,
        func: args.func.as_deref(),
        seed: args.seed,
        intrinsics: load::intrinsics(&args.intrin)?,
        dialect,
    };
    let attempt = request.attempt(console)?;
    // All threads: results do not depend on their number, and a race shows on several only.
    let all = Machine { threads: Some(Threads::All), target: "native".to_string() };
    let check = if args.check { Some(setting::here(&all, global, true, console)?) } else { None };
    if args.steps {
        let Steps { text, failure } = Walk::new(&attempt, dialect, check.as_ref(), console).every_step();
        let written = output::write(args.output.as_deref(), &text, console);
        // The first failure is reported; a reader that closed the pipe early does not turn it into a success.
        return failure.or(attempt.failure).map_or(written, Err);
    }
    if let Some(failure) = attempt.failure {
        return Err(failure);
    }
    if check.is_some() {
        Walk::new(&attempt, dialect, check.as_ref(), console).only_the_last()?;
    }
    let text = print_module(&attempt.start.program(&attempt.schedule), dialect);
    output::write(args.output.as_deref(), &text, console)
}
