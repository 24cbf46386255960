//! The command line: one file per command, which holds its arguments and its presentation.
//!
//! Results go to standard output, everything else to standard error. Exit codes and the field names of JSON output are
//! interface; they are listed in [`exit::Failure`] and in docs/tuning.md.

mod apply;
mod apply_best;
mod args;
mod bench;
mod bench_model;
mod build;
mod build_batch;
mod build_choices;
mod check;
mod console;
mod db;
mod emit;
mod exit;
mod fmt;
mod help;
mod import;
mod json;
mod load;
mod model_check;
mod model_inputs;
mod model_kernels;
mod model_random;
mod ops;
mod output;
mod print_trace;
mod progress;
mod records;
mod run;
mod run_files;
mod run_model;
mod run_report;
mod run_sizes;
mod scheduled;
mod setting;
mod shapes;
mod signals;
mod space;
mod steps;
mod table;
mod task_table;
mod time_limit;
mod tune;
mod versions;

use clap::{Parser, Subcommand};
use console::Console;
use exit::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

/// Finds the fastest schedule for a tensor program, and checks the results of every candidate
#[derive(Parser, Debug)]
#[command(name = "tvmr", version, about, max_term_width = 110, arg_required_else_help = true)]
#[command(help_template = help::TEMPLATE, after_help = help::TVMR)]
struct Cli {
    #[command(flatten)]
    global: args::Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Tune(Box<tune::Args>),
    ApplyBest(apply_best::Args),
    PrintTrace(print_trace::Args),
    Apply(apply::Args),
    Bench(bench::Args),
    Space(space::Args),
    Run(Box<run::Args>),
    Emit(emit::Args),
    Build(Box<build::Args>),
    Ops(ops::Args),
    Import(import::Args),
    Check(check::Args),
    Fmt(fmt::Args),
    Db(db::Args),
}

/// Runs the command line of this process, and returns its exit code.
pub fn main() -> ExitCode {
    ExitCode::from(run(&std::env::args_os().collect::<Vec<_>>()))
}

/// Runs a command line, whose first word is the name of the command, and returns its exit code.
///
/// The process must be the command's own: signals are handled, threads are pinned to cores, and a second signal or a time
/// limit ends the process.
pub fn run(args: &[OsString]) -> u8 {
    let wants_json = json::is_wanted(args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are results; a closed pipe is not an error.
            let code = if e.use_stderr() { 2 } else { 0 };
            let _ = e.print();
            if e.use_stderr() && wants_json {
                let message = e.render().to_string();
                let message = message.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
                let _ = Console::new(true, console::Color::Never).result(&format!("{:#}\n", json::of_usage(message)));
            }
            return code;
        }
    };
    signals::survive_file_size_limit();
    let console = Console::new(cli.global.quiet, cli.global.color);
    cli.global.start_logging(console.color);
    let done = match &cli.command {
        Command::Tune(a) => tune::run(a, &cli.global, console),
        Command::Bench(a) => bench::run(a, &cli.global, console),
        Command::ApplyBest(a) => apply_best::run(a, &cli.global, console),
        Command::PrintTrace(a) => print_trace::run(a, &cli.global, console),
        Command::Apply(a) => apply::run(a, &cli.global, console),
        Command::Space(a) => space::run(a, &cli.global, console),
        Command::Run(a) => run::run(a, &cli.global, console),
        Command::Emit(a) => emit::run(a, &cli.global, console),
        Command::Build(a) => build::run(a, &cli.global, console),
        Command::Ops(a) => ops::run(a, &cli.global, console),
        Command::Import(a) => import::run(a, &cli.global, console),
        Command::Check(a) => check::run(a, &cli.global, console),
        Command::Fmt(a) => fmt::run(a, &cli.global, console),
        Command::Db(a) => db::run(a, &cli.global, console),
    };
    match done {
        Ok(()) => 0,
        Err(failure) => {
            console.failure(&failure);
            if wants_json && !Console::has_result() {
                // JSON output states the failure as well; if it cannot be written, the exit code remains.
                let _ = console.result(&format!("{:#}\n", json::document(&failure)));
            }
            failure.code()
        }
    }
}

/// Result of a command.
type Done = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_listed_told_and_tested_and_its_examples_parse() {
        let definition = Cli::command();
        let check = |name: &str, help: Option<String>| {
            let help = help.unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter(|l| l.starts_with("  tvmr ")).collect();
            assert!(!examples.is_empty() && help.contains("Exit codes:"), "`{name}` has examples and exit codes");
            for example in examples {
                // A remark may follow after two spaces.
                let line = example.trim().split("  ").next().unwrap_or_default();
                Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{line}: {e}"));
            }
        };
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let inner =
            std::fs::read_dir(dir.join("cli")).expect("the tests of commands").map(|e| e.expect("an entry").path());
        let tests: String = inner
            .chain([dir.join("cli.rs")])
            .map(|path| std::fs::read_to_string(path).expect("a readable source"))
            .collect();
        check("tvmr", definition.get_after_help().map(ToString::to_string));
        for command in definition.get_subcommands() {
            let line = format!("\n  {} ", command.get_name());
            assert!(help::TEMPLATE.contains(&line), "`{}` is not in the list of commands", command.get_name());
            check(command.get_name(), command.get_after_help().map(ToString::to_string));
            let name = command.get_name();
            let is_told = |text: &str| text.contains(&format!("tvmr {name}")) || text.contains(&format!("`{name}`"));
            let pages = [include_str!("../../docs/tuning.md"), include_str!("../../docs/database.md")];
            assert!(pages.into_iter().any(is_told), "neither docs/tuning.md nor docs/database.md tells of `{name}`");
            assert!(tests.contains(&format!("\"{name}\"")), "no test in tests/cli runs `{name}`");
        }
    }
}
