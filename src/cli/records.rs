//! Reads the database for commands: opening, filtering, reporting problems.

use super::args::{Global, Machine};
use super::console::Console;
use super::exit::Failure;
use crate::database::{Database, Filter};
use crate::machine::Target;
use crate::tune::best::{self, Best};
use crate::workload::Workload;
use std::path::Path;

pub(super) use crate::request::databases::{failed, require, tell_problems};

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
    let Some(db) = db else { return Ok(None) };
    let found = best::find(workload, db, filter, rank).map_err(failed)?;
    for problem in &found.problems {
        console.warn(&format!("{problem}; the record is skipped"));
    }
    for why in &found.unusable {
        console.warn(&format!("a record of `{}` is skipped: {why}", workload.name));
    }
    Ok(found.best)
}

/// Display name of a floating-point mode.
pub(super) fn fp_mode(strict: bool) -> &'static str {
    if strict { "strict" } else { "fast" }
}

/// Why no record of a function is usable: there is no database, no record of the program, or only records of other
/// settings.
pub(super) fn why_none(workload: &Workload, db: Option<&Database>, dir: &Path, filter: &Filter) -> String {
    let tune = "run `tvmr tune` first";
    let Some(db) = db else { return format!("there is no database in `{}`; {tune}", dir.display()) };
    let Some(id) = workload.find(db) else {
        return format!("the database in `{}` has no record of this program; {tune}", dir.display());
    };
    let stats = db.stats();
    let known = stats.settings.iter().filter(|s| s.workload == id && s.counts.valid > 0);
    let known: Vec<String> =
        known.map(|s| setting(s.cpu.as_ref().map(|c| c.mcpu()), s.threads, &s.isa, s.strict_fp)).collect();
    if known.is_empty() {
        return format!("the database in `{}` has no valid result for this program", dir.display());
    }
    let wanted = wanted(filter);
    format!("there are records for {}; wanted: {wanted}", known.join(", and for "))
}

/// `znver5, 1 thread, avx512, fast floats`
fn setting(mcpu: Option<&str>, threads: u32, isa: &str, strict_fp: bool) -> String {
    let s = if threads == 1 { "" } else { "s" };
    format!("{}, {threads} thread{s}, {isa}, {} floats", mcpu.unwrap_or("an unknown CPU"), fp_mode(strict_fp))
}

/// The settings that a filter asks for.
fn wanted(filter: &Filter) -> String {
    let mut parts = vec![filter.cpu.as_ref().map_or("any CPU".to_string(), |c| c.mcpu().to_string())];
    let count = |n: u32| format!("{n} thread{}", if n == 1 { "" } else { "s" });
    match filter.threads {
        crate::database::Threads::Any => {}
        crate::database::Threads::Exactly(n) => parts.push(count(n)),
        crate::database::Threads::AtMost(n) => parts.push(format!("at most {}", count(n))),
    }
    parts.extend(filter.isa.clone());
    parts.extend(filter.strict_fp.map(|strict| format!("{} floats", fp_mode(strict))));
    parts.join(", ")
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
