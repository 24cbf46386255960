//! `tvmr db`: maintains databases.

mod import;
mod merge;
mod prune;

use super::Done;
use super::args::{Format, Global, Intrin, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::{load, records};
use crate::database::{Filter, WorkloadEntry};
use crate::script::{self, ParseOptions};
use crate::tune::best;
use crate::workload::Workload;
use serde_json::json;
use std::fmt::Write;

/// Maintain the database
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::DB)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// List the workloads, with the number of trials and the best time of each
    List(List),
    /// Show the fastest records of each workload
    Top(Top),
    /// Check every line, and replay every trace
    Verify(Verify),
    Merge(merge::Args),
    Import(import::Args),
    Prune(prune::Args),
}

#[derive(clap::Args, Debug)]
struct List {
    #[command(flatten)]
    work_dir: WorkDir,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(clap::Args, Debug)]
struct Top {
    /// Number or hash of the workload, as shown by `db list`; all workloads if left out
    workload: Option<String>,
    /// Number of records to show
    #[arg(short, value_name = "K", default_value = "10", value_parser = super::args::positive)]
    #[arg(allow_negative_numbers = true)]
    k: u64,
    #[command(flatten)]
    work_dir: WorkDir,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(clap::Args, Debug)]
struct Verify {
    #[command(flatten)]
    work_dir: WorkDir,
    #[command(flatten)]
    intrin: Intrin,
    /// Check the lines only; replay no trace
    #[arg(long)]
    lines_only: bool,
}

pub(super) fn run(args: &Args, _global: &Global, console: Console) -> Done {
    match &args.command {
        Command::List(a) => list(a, console),
        Command::Top(a) => top(a, console),
        Command::Verify(a) => verify(a, console),
        Command::Merge(a) => merge::run(a, console),
        Command::Import(a) => import::run(a, console),
        Command::Prune(a) => prune::run(a, console),
    }
}

/// The columns of `db list`.
const HEAD: [&str; 10] = ["#", "hash", "name", "threads", "isa", "floats", "trials", "errors", "best", "target"];
/// Which columns hold text.
const IS_TEXT: [bool; 10] = [false, true, true, false, true, true, false, false, false, true];

fn list(args: &List, console: Console) -> Done {
    let db = records::require(&args.work_dir.work_dir)?;
    records::tell_problems(&db, &console);
    let stats = db.stats();
    let mut rows = Vec::new();
    let mut lines: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    for (id, entry) in db.workloads() {
        let hash = entry.hash.to_string();
        for s in stats.settings.iter().filter(|s| s.workload == id) {
            let errors: u64 = s.counts.errors.values().sum();
            let best = s.best_secs.map_or("-".to_string(), |b| format!("{:.2} µs", b * 1e6));
            let cpu = s.cpu.as_ref().map_or("unknown", |c| c.mcpu());
            lines.push(vec![
                id.to_string(),
                hash.clone(),
                entry.name.clone(),
                s.threads.to_string(),
                s.isa.clone(),
                records::fp_mode(s.strict_fp).to_string(),
                s.counts.trials.to_string(),
                errors.to_string(),
                best,
                cpu.to_string(),
            ]);
            rows.push(json!({
                "workload": id.0, "hash": hash, "name": entry.name, "threads": s.threads,
                "trials": s.counts.trials, "valid": s.counts.valid, "errors": s.counts.errors, "isa": s.isa,
                "strict_fp": s.strict_fp, "best_us": s.best_secs.map(|b| b * 1e6), "mcpu": cpu,
                "last": s.last.to_string(), "untried": db.n_untried(id),
            }));
        }
        let untried = db.n_untried(id);
        if !stats.settings.iter().any(|s| s.workload == id) {
            let mut line = vec![id.to_string(), hash.clone(), entry.name.clone()];
            line.resize(HEAD.len(), "-".to_string());
            lines.push(line);
            rows.push(json!({"workload": id.0, "hash": hash, "name": entry.name, "trials": 0, "untried": untried}));
        }
        if untried > 0 {
            console.note(&format!(
                "{id}, {}: {} of logs, which `tune` tries first",
                entry.name,
                counted(untried, "schedule")
            ));
        }
    }
    let text = super::table::aligned(&lines, &IS_TEXT);
    match args.format {
        Format::Human => console.result(&text),
        Format::Json => console.result(&format!(
            "{:#}\n",
            json!({
                "workloads": rows, "records": stats.records, "damaged": stats.damaged, "bytes": stats.bytes,
            })
        )),
    }
}

fn top(args: &Top, console: Console) -> Done {
    let db = records::require(&args.work_dir.work_dir)?;
    records::tell_problems(&db, &console);
    let wanted: Vec<_> = db
        .workloads()
        .filter(|(id, e)| args.workload.as_ref().is_none_or(|w| *w == id.to_string() || *w == e.hash.to_string()))
        .map(|(id, e)| (id, e.name.clone()))
        .collect();
    if let (true, Some(name)) = (wanted.is_empty(), &args.workload) {
        let help = "`tvmr db list` shows their numbers and hashes".to_string();
        return Err(Failure::Usage(format!("the database has no workload `{name}`"), help));
    }
    let mut rows = Vec::new();
    let mut text = String::new();
    for (id, name) in wanted {
        let (best, problems) = db.top_k(id, args.k as usize, &Filter::any()).map_err(records::failed)?;
        for problem in problems {
            console.warn(&format!("{problem}; the record is skipped"));
        }
        let _ = writeln!(text, "workload {id}, {name}");
        for (rank, record) in best.iter().enumerate() {
            let (us, c) = (record.secs().map_or(f64::NAN, |s| s * 1e6), &record.context);
            let steps = record.trace[0].as_array().map_or(0, Vec::len);
            let _ = writeln!(
                text,
                "{:>4}  {us:>12.2} µs  {:>2} {:<7}  {:<10}  {:<12}  {:>3} instructions  {}",
                rank + 1,
                c.threads,
                if c.threads == 1 { "thread" } else { "threads" },
                c.isa,
                c.space,
                steps,
                c.time
            );
            rows.push(json!({
                "workload": id.0, "rank": rank + 1, "us": us, "threads": c.threads, "isa": c.isa, "space": c.space,
                "strategy": c.strategy, "seed": c.seed, "checked": c.checked, "time": c.time.to_string(),
                "instructions": steps,
            }));
        }
    }
    match args.format {
        Format::Human => console.result(&text),
        Format::Json => console.result(&format!("{:#}\n", json!(rows))),
    }
}

fn verify(args: &Verify, console: Console) -> Done {
    let intrinsics = load::intrinsics(&args.intrin)?;
    let dir = &args.work_dir.work_dir;
    let mut db = records::require(dir)?;
    // The workload of the last record; records of one workload are mostly adjacent.
    let mut current: Option<(String, Option<Workload>)> = None;
    let mut replayed = 0;
    let report = db.verify(
        |entry| {
            let workload = read(entry)?;
            match workload.hash == entry.hash {
                true => Ok(()),
                false => Err(format!("its hash is {}, the line says {}", workload.hash, entry.hash)),
            }
        },
        |entry, record| {
            if args.lines_only {
                return Ok(());
            }
            if current.as_ref().is_none_or(|(tir, _)| *tir != entry.tir) {
                let workload = read(entry).ok().map(|w| w.with_intrinsics(intrinsics.clone()));
                current = Some((entry.tir.clone(), workload));
            }
            // A damaged workload has been reported already.
            let Some((_, Some(workload))) = &current else { return Ok(()) };
            replayed += 1;
            best::replay(workload, record).map(drop).map_err(|why| why.to_string())
        },
    );
    let report = report.map_err(records::failed)?;
    for problem in &report.problems {
        console.result(&format!("{problem}\n"))?;
    }
    let stats = db.stats();
    let problems = counted(report.problems.len() as u64, "problem");
    console.note(&format!(
        "{}, {} ({replayed} replayed), {problems}",
        counted(stats.workloads, "workload"),
        counted(stats.records, "record"),
    ));
    match report.problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::Negative(format!("`{}` has {problems}", dir.display()))),
    }
}

/// Parses the function of a workload line.
fn read(entry: &WorkloadEntry) -> Result<Workload, String> {
    match script::parse(&entry.tir, "database", &ParseOptions::default()) {
        Ok(parsed) if parsed.module.funcs.len() == 1 => Ok(Workload::of(&parsed.module, 0)),
        Ok(_) => Err("expected one function".to_string()),
        Err(e) => Err(format!("its text is wrong: {}", e.items[0].message)),
    }
}

/// `1 record`, `2 records`
fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
