//! `tvmr db prune`: keeps only the best records.

use super::super::Done;
use super::super::args::{WorkDir, positive};
use super::super::console::Console;
use super::super::records;
use super::counted;
use crate::database::{Retention, prune};

/// Remove all records but the fastest of each workload in each setting: CPU, threads, instruction set, floating point
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Number of programs to keep for each
    #[arg(long, value_name = "K", value_parser = positive)]
    #[arg(allow_negative_numbers = true)]
    best: u64,
    /// Keep failed candidates as well, so that a resumed search does not try them again
    #[arg(long)]
    keep_failed: bool,
    #[command(flatten)]
    work_dir: WorkDir,
}

pub(super) fn run(args: &Args, console: Console) -> Done {
    let dir = &args.work_dir.work_dir;
    records::require(dir)?;
    let retention = Retention { best: args.best as usize, failed: args.keep_failed };
    let report = prune(dir, &retention).map_err(records::failed)?;
    for problem in &report.problems {
        console.warn(&format!("{problem}; the line is kept as it is"));
    }
    console.result(&format!("{}: removed {}, kept {}\n", dir.display(), counted(report.removed, "record"), report.kept))
}
