//! `tvmr db import`: reads the schedules of other tuners' logs.

use super::super::Done;
use super::super::args::WorkDir;
use super::super::console::Console;
use super::super::exit::Failure;
use super::super::{load, records};
use super::counted;
use crate::database::Database;
use crate::request::import::{self, Wanted};
use crate::te_function::WorkloadChoice;
use std::path::PathBuf;

/// Add the schedules of a log of AutoTVM or the auto-scheduler, for `tune` to try first
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Log to read; `-` reads standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Program that was tuned: tensor expressions, with the template if AutoTVM tuned it, or TVMScript
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// Function of the program; the one that a line names if left out
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Arguments of the workload, such as `1024,1024,float32`; those that a line gives if left out
    #[arg(long, value_name = "VALUES", allow_hyphen_values = true)]
    args: Option<String>,
    /// Values of symbolic extents and scalars, such as `n=1024` or `n=1024,m=8`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = super::super::args::binding)]
    bind: Vec<(String, i64)>,
    #[command(flatten)]
    work_dir: WorkDir,
}

pub(super) fn run(args: &Args, console: Console) -> Done {
    let text = load::text(&args.workload)?;
    let log = load::text(&args.log)?;
    let name = args.workload.to_string_lossy();
    let choice = WorkloadChoice { func: args.func.as_deref(), args: args.args.as_deref() };
    let wanted = Wanted { name: &name, text: &text, bind: &args.bind, choice };
    let mut db = Database::create(&args.work_dir.work_dir).map_err(records::failed)?;
    let imported = import::import(&log, wanted, &mut db, crate::tune::native::wall_time())?;
    let mut n = 0;
    for w in &imported.workloads {
        n += w.new + w.known;
        let schedules = counted(w.new, "schedule");
        console.result(&format!("{}: {schedules} to try; {} there already\n", w.name, w.known))?;
    }
    for l in &imported.left_out {
        let detail = if l.detail.is_empty() { String::new() } else { format!(": {}", l.detail) };
        let which = if l.lines == 1 { "in line" } else { "the first in line" };
        console.warn(&format!("left out {}, {which} {}: {}{detail}", counted(l.lines, "line"), l.first, l.reason));
    }
    match n {
        0 => Err(Failure::Negative(format!("no line of `{}` gives a schedule of `{name}`", args.log.display()))),
        _ => Ok(()),
    }
}
