//! The `tvmr` command.

fn main() -> std::process::ExitCode {
    tvmr::cli::main()
}
