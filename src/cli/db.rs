//! `tvmr db`: looking after databases.

use super::Done;
use super::args::{Format, Global, Intrin, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::{load, records};
use crate::database::{Database, Filter};
use crate::script::{self, ParseOptions};
use crate::tune::workload::Workload;
use serde_json::json;
use std::fmt::Write;

/// Look after the database
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// List the workloads, with how often and how well each was tuned
    List(List),
    /// Show the fastest records of a workload
    Top(Top),
    /// Check every line, and replay every trace
    Verify(Verify),
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
    /// Number or hash of the workload, as `db list` shows it; all workloads if left out
    workload: Option<String>,
    /// How many records
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
    /// Check the lines only, and replay nothing
    #[arg(long)]
    lines_only: bool,
}

pub fn run(args: &Args, _global: &Global, console: Console) -> Done {
    match &args.command {
        Command::List(a) => list(a, console),
        Command::Top(a) => top(a, console),
        Command::Verify(a) => verify(a, console),
    }
}

fn list(args: &List, console: Console) -> Done {
    let Some(db) = records::open(&args.work_dir.work_dir, console)? else {
        return nothing(&args.work_dir, args.format, console);
    };
    let stats = db.stats();
    let mut rows = Vec::new();
    let mut text = format!(
        "{:>4}  {:<20}  {:<16}  {:>7}  {:>6}  {:>7}  {:>12}  {}\n",
        "#", "hash", "name", "threads", "trials", "errors", "best", "target"
    );
    for (id, entry) in db.workloads() {
        for s in stats.settings.iter().filter(|s| s.workload == id) {
            let errors: u64 = s.counts.errors.values().sum();
            let best = s.best_secs.map_or("-".to_string(), |b| format!("{:.2} µs", b * 1e6));
            let cpu = s.cpu.as_ref().map_or("unknown", |c| c.mcpu());
            // A reader of the table may be gone; writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:>4}  {:<20}  {:<16}  {:>7}  {:>6}  {:>7}  {:>12}  {}",
                id, entry.hash, entry.name, s.threads, s.counts.trials, errors, best, cpu
            );
            rows.push(json!({
                "workload": id.0, "hash": entry.hash.to_string(), "name": entry.name, "threads": s.threads,
                "trials": s.counts.trials, "valid": s.counts.valid, "errors": s.counts.errors, "isa": s.isa,
                "strict_fp": s.strict_fp, "best_us": s.best_secs.map(|b| b * 1e6), "mcpu": cpu,
                "last": s.last.to_string(),
            }));
        }
        if !stats.settings.iter().any(|s| s.workload == id) {
            let _ = writeln!(text, "{:>4}  {:<20}  {:<16}  {:>7}  {:>6}", id, entry.hash, entry.name, "-", 0);
            rows.push(json!({"workload": id.0, "hash": entry.hash.to_string(), "name": entry.name, "trials": 0}));
        }
    }
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

fn nothing(dir: &WorkDir, format: Format, console: Console) -> Done {
    console.note(&format!("there is no database in `{}`", dir.work_dir.display()));
    match format {
        Format::Human => Ok(()),
        Format::Json => console.result("{\"workloads\": [], \"records\": 0, \"damaged\": 0, \"bytes\": 0}\n"),
    }
}

fn top(args: &Top, console: Console) -> Done {
    let Some(db) = records::open(&args.work_dir.work_dir, console)? else {
        return nothing(&args.work_dir, args.format, console);
    };
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
                "{:>4}  {us:>12.2} µs  {:>2} threads  {:<10}  {:<12}  {:>3} instructions  {}",
                rank + 1,
                c.threads,
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
    let db = match Database::open(dir) {
        Ok(db) => db,
        Err(e) if e.is_missing() => {
            console.note(&format!("there is no database in `{}`", dir.display()));
            return Ok(());
        }
        Err(e) => return Err(records::failed(e)),
    };
    let mut problems: Vec<String> = db.problems().iter().map(ToString::to_string).collect();
    let mut records_seen = 0;
    for (id, entry) in db.workloads() {
        let parsed = match script::parse(&entry.tir, "database", &ParseOptions::default()) {
            Ok(parsed) if parsed.module.funcs.len() == 1 => parsed,
            Ok(_) => {
                problems.push(format!("workload {id}: expected one function"));
                continue;
            }
            Err(e) => {
                problems.push(format!("workload {id}: its text is wrong: {}", e.items[0].message));
                continue;
            }
        };
        let workload = Workload::of(&parsed.module, 0).with_intrinsics(intrinsics.clone());
        if workload.hash != entry.hash {
            problems.push(format!("workload {id}: its hash is {}, the line says {}", workload.hash, entry.hash));
        }
        if args.lines_only {
            continue;
        }
        let (all, damaged) = db.records(id, &Filter::any()).map_err(records::failed)?;
        problems.extend(damaged.iter().map(ToString::to_string));
        for record in all {
            records_seen += 1;
            if let Err(why) = crate::tune::best::replay(&workload, &record) {
                problems.push(format!("workload {id}, program {:?}: {why}", record.context.program.unwrap_or(0)));
            }
        }
    }
    let stats = db.stats();
    for problem in &problems {
        console.result(&format!("{problem}\n"))?;
    }
    console.note(&format!(
        "{} workloads, {} records ({records_seen} replayed), {} problems",
        stats.workloads,
        stats.records,
        problems.len()
    ));
    match problems.len() {
        0 => Ok(()),
        n => Err(Failure::Negative(format!("`{}` has {n} problem{}", dir.display(), if n == 1 { "" } else { "s" }))),
    }
}
