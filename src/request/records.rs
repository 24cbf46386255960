//! The records of a database that a request uses, and why there is none.

use super::{Error, Notices, databases};
use crate::database::{Database, Filter, Threads};
use crate::tune::best::{self, Best};
use crate::workload::Workload;
use std::path::Path;

/// The `rank`-th best usable record of a workload; better ones that are not usable are reported.
///
/// # Errors
/// The database cannot be read.
pub fn best(
    workload: &Workload,
    db: Option<&Database>,
    filter: &Filter,
    rank: usize,
    notices: &dyn Notices,
) -> Result<Option<Best>, Error> {
    let Some(db) = db else { return Ok(None) };
    let found = best::find(workload, db, filter, rank).map_err(databases::failed)?;
    for problem in &found.problems {
        notices.warn(&format!("{problem}; the record is skipped"));
    }
    for why in &found.unusable {
        notices.warn(&format!("a record of `{}` is skipped: {why}", workload.name));
    }
    Ok(found.best)
}

/// Display name of a floating-point mode.
pub fn fp_mode(strict: bool) -> &'static str {
    if strict { "strict" } else { "fast" }
}

/// Why no record of a function is usable: there is no database, no record of the program, or only records of other
/// settings.
pub fn why_none(workload: &Workload, db: Option<&Database>, dir: &Path, filter: &Filter) -> String {
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
        Threads::Any => {}
        Threads::Exactly(n) => parts.push(count(n)),
        Threads::AtMost(n) => parts.push(format!("at most {}", count(n))),
    }
    parts.extend(filter.isa.clone());
    parts.extend(filter.strict_fp.map(|strict| format!("{} floats", fp_mode(strict))));
    parts.join(", ")
}
