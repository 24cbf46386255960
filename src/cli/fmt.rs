//! `tvmr fmt`: reprints a file.

use super::Done;
use super::args::{DialectArg, Global, Input};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use crate::script::print_module;

/// Reprint a program in its usual form
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Spelling to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
    /// Replace the file instead of printing to standard output
    #[arg(short, long, conflicts_with = "check")]
    write: bool,
    /// Print nothing; fail if the file is not in its usual form
    #[arg(long)]
    check: bool,
}

pub fn run(args: &Args, _global: &Global, console: Console) -> Done {
    let source = load::text(&args.input.file)?;
    let program = Program::parse(&args.input, source, console)?;
    let source = &program.source;
    let header = leading_comments(source);
    let formatted = format!("{header}{}", print_module(program.module(), program.dialect(args.dialect)));
    if args.check {
        return match *source == formatted {
            true => Ok(()),
            false => Err(Failure::Negative(format!("`{}` is not in its usual form", program.name))),
        };
    }
    let lost = source[header.len()..].lines().filter(|l| l.trim_start().starts_with('#') && !kept(l)).count();
    if lost > 0 {
        console.warn(&format!("{lost} comment lines inside the program are not kept"));
    }
    if !args.write || args.input.file.as_os_str() == "-" {
        return console.result(&formatted);
    }
    if *source != formatted {
        super::output::write_file(&args.input.file, &formatted)?;
        console.note(&format!("{}: reformatted", program.name));
    }
    Ok(())
}

/// The comment lines that a file begins with, but for those that printing makes itself.
fn leading_comments(source: &str) -> String {
    let lines = source.split_inclusive('\n').take_while(|l| l.trim_start().starts_with('#'));
    lines.filter(|l| !kept(l)).collect()
}

/// Does printing write this comment by itself?
fn kept(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("# from tvm") || line.starts_with("# import tvm") || line.starts_with("# with T.")
}
