//! Reads the database for commands: opening, filtering, reporting problems.

use super::args::{Global, Machine};
use super::console::Console;
use super::exit::Failure;
use crate::database::{Database, Filter};
use crate::machine::Target;
use crate::tune::best::Best;
use crate::workload::Workload;
use std::path::Path;

pub(super) use crate::request::databases::{failed, require, tell_problems};
pub(super) use crate::request::records::{fp_mode, why_none};

/// Opens a database for reading; `None` if there is none. Damaged lines are reported and skipped.
pub(super) fn open(dir: &Path, console: Console) -> Result<Option<Database>, Failure> {
    Ok(crate::request::databases::open(dir, &console)?)
}

/// The filter for the records that a command uses.
pub(super) fn filter(target: &Target, machine: &Machine, global: &Global, any_target: bool) -> Filter {
    let threads = machine.threads.map(|t| t.on(target.cores as usize) as u32);
    let mut filter = Filter::on(target, threads);
    if any_target {
        filter.cpu = None;
        if threads.is_none() {
            filter.threads = crate::database::Threads::Any;
        }
    }
    filter.isa = global.isa.map(|isa| isa.name().to_string());
    filter.strict_fp = global.strict_fp.then_some(true);
    filter
}

/// The `rank`-th best usable record of a workload; better ones that are not usable are reported.
pub(super) fn best(
    workload: &Workload,
    db: Option<&Database>,
    filter: &Filter,
    rank: usize,
    console: Console,
) -> Result<Option<Best>, Failure> {
    Ok(crate::request::records::best(workload, db, filter, rank, &console)?)
}

/// Reports on standard error which record is used, unless the command line determines it.
pub(super) fn say_origin(workload: &Workload, best: &Best, machine: &Machine, console: Console) {
    let record = &best.record;
    let us = record.secs().map_or(0.0, |s| s * 1e6);
    let threads = record.context.threads;
    let with = if machine.threads.is_none() {
        format!(", measured with {threads} thread{}", if threads == 1 { "" } else { "s" })
    } else {
        String::new()
    };
    if best.schedule.trace().insts.is_empty() {
        console.note(&format!("{}: the program as written is the fastest known, {us:.2} µs{with}", workload.name));
    } else {
        console.note(&format!("{}: {us:.2} µs{with}", workload.name));
    }
    if !record.context.checked {
        console.warn(&format!("{}: the record's result was not checked", workload.name));
    }
}
