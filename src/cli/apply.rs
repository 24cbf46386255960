//! `tvmr apply`: a program after a given trace or schedule function.

use super::Done;
use super::args::{DialectArg, Global, Input, Intrin};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::scheduled::Request;
use crate::script::print_module;
use std::path::PathBuf;

/// Apply a trace or schedule function to a program, and print the result
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Trace (Python or JSON) or schedule function; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    #[command(flatten)]
    intrin: Intrin,
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
    let dialect = program.dialect(args.dialect);
    let request = Request {
        program: &program,
        trace: &args.trace,
        func: args.func.as_deref(),
        seed: args.seed,
        intrinsics: load::intrinsics(&args.intrin)?,
        dialect,
    };
    let text = print_module(&request.scheduled(console)?, dialect);
    match &args.output {
        Some(path) => super::apply_best::write_file(path, &text),
        None => console.result(&text),
    }
}
