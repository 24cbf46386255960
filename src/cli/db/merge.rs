//! `tvmr db merge`: merges several databases into one.

use super::super::Done;
use super::super::args::WorkDir;
use super::super::console::Console;
use super::super::exit::Failure;
use super::super::records;
use super::{counted, read};
use crate::database::merge;
use std::path::PathBuf;

/// Copy the records of other databases into this one, which is created if needed
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Directories of the databases to copy from
    #[arg(required = true, value_name = "DIR")]
    from: Vec<PathBuf>,
    #[command(flatten)]
    work_dir: WorkDir,
}

pub(super) fn run(args: &Args, console: Console) -> Done {
    let into = &args.work_dir.work_dir;
    // All sources are opened before anything is copied.
    for from in &args.from {
        records::require(from)?;
        if let (Ok(a), Ok(b)) = (from.canonicalize(), into.canonicalize())
            && a == b
        {
            let help = "name another directory, or `--work-dir`".to_string();
            return Err(Failure::Usage(format!("`{}` cannot be merged into itself", from.display()), help));
        }
    }
    for from in &args.from {
        let report = merge(from, into, |a, b| read(a).is_ok_and(|workload| workload.is(b))).map_err(records::failed)?;
        for problem in &report.problems {
            console.warn(&format!("{problem}; the line is left out"));
        }
        console.result(&format!(
            "{}: copied {} and {}; {} there already\n",
            from.display(),
            counted(report.workloads, "workload"),
            counted(report.records, "record"),
            counted(report.duplicates, "record"),
        ))?;
    }
    Ok(())
}
