//! `tvmr check`: verifies files.

use super::Done;
use super::args::{Global, Inputs};
use super::console::Console;
use super::load::{self, Program};

/// Check that programs are well formed, and show all their mistakes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    inputs: Inputs,
}

pub fn run(args: &Args, _global: &Global, console: Console) -> Done {
    load::each(&args.inputs.files, console, |file| {
        let program = Program::parse(file, &args.inputs.bind, load::text(file)?, console)?;
        let n = program.module().funcs.len();
        console.note(&format!("{}: {n} function{} well formed", program.name, if n == 1 { "" } else { "s" }));
        Ok(())
    })
}
