//! `tvmr check`: verifies a file.

use super::Done;
use super::args::{Global, Input};
use super::console::Console;
use super::load::Program;

/// Check that a program is well formed, and show all its mistakes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

pub fn run(args: &Args, _global: &Global, console: Console) -> Done {
    let program = Program::read(&args.input, console)?;
    let n = program.module().funcs.len();
    console.note(&format!("{}: {n} function{} well formed", program.name, if n == 1 { "" } else { "s" }));
    Ok(())
}
