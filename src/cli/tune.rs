//! `tvmr tune`: searches for the fastest schedules.

use super::Done;
use super::args::{Format, Global, Input, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::progress::Progress;
use super::{choose_space, records, setting, signals, time_limit};
use crate::database::Database;
use crate::diagnostic::{Diagnostics, Severity};
use crate::ir::Module;
use crate::measure::{RealTimer, Timer};
use crate::stop::StopFlag;
use crate::tune::backend::Seconds;
use crate::tune::config::{Config, StrategyChoice};
use crate::tune::native::{Native, reference_dir};
use crate::tune::summary::{Summary, TaskSummary};
use crate::tune::{self, FailureCount, Interrupt, SketchCount, TuneError};
use crate::workload::Workload;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Search for the fastest schedule of each function, and keep what was measured
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::TUNE)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Only tune this function
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Number of distinct programs to try, over all functions; trials in the database count
    #[arg(long, help_heading = "Budget", value_name = "N", default_value = "64")]
    #[arg(value_parser = super::args::positive, allow_negative_numbers = true)]
    trials: u64,
    /// Stop after this many seconds
    #[arg(long, help_heading = "Budget", value_name = "S", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    max_seconds: Option<f64>,
    /// Stop when four rounds together improve the best time by less than this share, such as 0.01
    #[arg(long, help_heading = "Budget", value_name = "P", value_parser = share)]
    #[arg(allow_negative_numbers = true)]
    patience: Option<f64>,
    /// Search space: `auto`, `tvm`, or a file with a schedule function
    #[arg(long, help_heading = "Search", value_name = "SPACE", default_value = "auto")]
    space: String,
    /// Search strategy
    #[arg(long, help_heading = "Search", value_enum, default_value = "evolutionary", value_name = "STRATEGY")]
    strategy: StrategyArg,
    /// Seed of the search
    #[arg(long, help_heading = "Search", value_name = "N", default_value_t = 0, value_parser = super::args::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,
    /// Database of schedules to try first (or to replay), taking the fastest of each in turn; may be repeated
    #[arg(long, help_heading = "Search", value_name = "DIR")]
    seed_from: Vec<PathBuf>,
    /// Evolutionary search: do not start with the candidates that the space recommends
    #[arg(long, help_heading = "Search")]
    no_seeds: bool,
    /// Evolutionary search: do not rank candidates by estimate and cost model
    #[arg(long, help_heading = "Search")]
    no_cost_model: bool,
    #[command(flatten)]
    intrin: Intrin,
    #[command(flatten)]
    work_dir: WorkDir,
    /// Measure nothing: fail unless every function has a record for this target
    #[arg(long, help_heading = "Database")]
    frozen: bool,
    #[command(flatten)]
    machine: Machine,
    /// Threads for proposing and compiling, which do not affect results; all cores if left out
    #[arg(long, help_heading = "Machine", value_name = "N", value_parser = super::args::positive)]
    #[arg(allow_negative_numbers = true)]
    jobs: Option<u64>,
    /// Do not compare results with the reference; wrong results then go unnoticed
    #[arg(long, help_heading = "Machine")]
    no_check: bool,
}

/// Search strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum StrategyArg {
    /// Mutate the decisions of good candidates, ranked by a cost model
    Evolutionary,
    /// Draw decisions at random
    Random,
    /// Replay schedules recorded for other targets, or those of `--seed-from`, fastest first
    Replay,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 1e9 => Ok(s),
        _ => Err("expected a number of seconds greater than 0".to_string()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err("expected a share between 0 and 1, such as 0.01".to_string()),
    }
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let machine = |e: std::io::Error| Failure::Machine(format!("cannot start threads: {e}"), String::new());
    let max_time = args.max_seconds.map(Duration::from_secs_f64);
    // The limit covers the whole command, not the search alone.
    let time_is_up = StopFlag::new();
    let clock = RealTimer::new(Arc::new(time_is_up.clone())).map_err(machine)?;
    let interrupt = Interrupt::new();
    if let Some(limit) = max_time {
        clock.arm(limit);
        time_limit::watch(limit, &interrupt, args.format == Format::Json, console);
    }
    let program = Program::read(&args.input, console)?;
    let lints = Diagnostics::new(program.source(), program.lints());
    if lints.items.iter().any(|d| d.severity == Severity::Error) {
        return Err(Failure::from(lints));
    }
    if !lints.items.is_empty() {
        console.diagnostics(&lints);
    }
    let functions = program.functions(args.func.as_deref())?;
    for &index in &functions {
        setting::check_concrete(&program.module().funcs[index])?;
    }
    let tuned: Vec<Module> = functions.iter().map(|&i| Workload::of(program.module(), i).module).collect();
    let intrinsics = load::intrinsics(&args.intrin)?;
    let (space, refusals) =
        choose_space::choose(&args.space, &tuned, intrinsics.as_ref(), program.parsed.dialect, console, &time_is_up)?;
    let described = load::target(&args.machine)?;
    let setting = setting::here(&args.machine, global, !args.no_check, console)?;
    let cores = setting.target.cores as usize;
    let config = Config {
        trials: args.trials,
        max_time: max_time.map(|limit| limit.saturating_sub(clock.now())),
        patience: args.patience,
        space,
        intrinsics,
        strategy: match args.strategy {
            StrategyArg::Evolutionary => {
                StrategyChoice::Evolutionary { seeds: !args.no_seeds, cost_model: !args.no_cost_model }
            }
            StrategyArg::Random => StrategyChoice::Random,
            StrategyArg::Replay => StrategyChoice::Replay,
        },
        seed_from: seed_from(&args.seed_from, console)?,
        seed: args.seed,
        jobs: args.jobs.map_or(cores, |n| n as usize),
        machine: described,
        setting,
    };
    if args.frozen {
        return frozen(args, &program, &functions, &config, console);
    }
    if args.no_check {
        console.warn("results are NOT compared with the reference: a wrong program may come out as the best");
    }
    let dir = &args.work_dir.work_dir;
    let mut db = Database::create(dir).map_err(records::failed)?;
    records::tell_problems(&db, console);
    if db.is_unlocked() {
        console.warn(&format!("`{}` cannot be locked: let only one process tune into it", dir.display()));
    }
    signals::watch(&interrupt, console);
    let native = Native::pinned(&config.setting, Some(reference_dir(dir)), &interrupt).map_err(machine)?;
    let mut progress = Progress::new(console, global.verbose > 0, config.max_time, program.parsed.dialect);
    let result = tune::tune(program.module(), &functions, &config, &mut db, &native, &mut progress, &interrupt);
    progress.clear();
    let summary = result.map_err(|e| match e {
        TuneError::Database(e) => records::failed(e),
        TuneError::Machine(_) => Failure::Machine(e.to_string(), String::new()),
    })?;
    let refusals = refusals.into_iter().map(|(i, text)| (program.module().funcs[functions[i]].name.as_str(), text));
    report(args, &program, &refusals.collect::<Vec<_>>(), summary, &interrupt, console)
}

/// Opens the databases of `--seed-from`.
fn seed_from(dirs: &[PathBuf], console: Console) -> Result<Vec<Arc<Database>>, Failure> {
    let open = |dir: &PathBuf| {
        if dir.exists() && !dir.is_dir() {
            let help = "name a directory that `tvmr tune` has written, which was its `--work-dir`".to_string();
            return Err(Failure::Usage(format!("`{}` is not a directory", dir.display()), help));
        }
        let db = records::require(dir)?;
        records::tell_problems(&db, console);
        Ok(Arc::new(db))
    };
    dirs.iter().map(open).collect()
}

/// Reports which functions have a record, and measures nothing.
fn frozen(args: &Args, program: &Program, functions: &[usize], config: &Config, console: Console) -> Done {
    let db = records::open(&args.work_dir.work_dir, console)?;
    let missing = tune::untuned(program.module(), functions, config, db.as_ref()).map_err(records::failed)?;
    if missing.is_empty() {
        console.note("every function has a record for this target");
    }
    if args.format == Format::Json {
        console.result(&format!("{:#}\n", json!({"stop_reason": "frozen", "missing": missing})))?;
    }
    match missing.is_empty() {
        true => Ok(()),
        false => {
            // The reason is mostly the same for all functions.
            let is_missing = |&&i: &&usize| program.module().funcs[i].name == missing[0].as_str();
            let why = functions.iter().find(is_missing).map(|&i| {
                let workload = Workload::of(program.module(), i);
                records::why_none(&workload, db.as_ref(), &args.work_dir.work_dir, &config.setting.filter())
            });
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            Err(Failure::Negative(format!("no record for `{}` on this target{why}", missing.join("`, `"))))
        }
    }
}

fn report(
    args: &Args,
    program: &Program,
    refusals: &[(&str, String)],
    mut summary: Summary,
    interrupt: &Interrupt,
    console: Console,
) -> Done {
    for task in summary.tasks.iter_mut().chain([&mut summary.total]) {
        task.workload.clone_from(&program.name);
    }
    for task in &summary.tasks {
        tell(task, console);
    }
    match args.format {
        Format::Human => {
            let tasks: String = summary.tasks.iter().map(|t| human(t, &summary)).collect();
            console.result(&(tasks + &all_together(&summary)))?;
            let is_done = interrupt.signal().is_none() && summary.tasks.iter().any(|t| t.valid > 0);
            if let (true, Some(next)) = (is_done, next_step(args)) {
                console.note(&next);
            }
        }
        Format::Json => console.result(&format!("{:#}\n", document(&summary)))?,
    }
    if args.no_check {
        console.warn("results were NOT compared with the reference");
    }
    if let Some(signal) = interrupt.signal() {
        let done = summary.total.trials;
        let message = format!(
            "interrupted after {done} of {} trials; all of them are kept in `{}`, and the same command resumes from there",
            args.trials,
            args.work_dir.work_dir.display()
        );
        return Err(Failure::Interrupted(signal, message));
    }
    let failed: Vec<String> = summary.tasks.iter().filter_map(no_schedule).collect();
    if !failed.is_empty() {
        // If every candidate of a function was refused, the first refusal shows what is wrong, and where.
        let without = summary.tasks.iter().filter(|t| no_schedule(t).is_some());
        let names: HashSet<&str> =
            without.flat_map(|t| [&t.func].into_iter().chain(&t.same_as)).map(|n| &n[..]).collect();
        if let Some((name, refusal)) = refusals.iter().find(|(name, _)| names.contains(name)) {
            let of = if summary.tasks.len() > 1 { format!(", of `{name}`") } else { String::new() };
            console.note(&format!("the first refusal{of}:\n{}", refusal.trim_end()));
        }
        return Err(Failure::Negative(failed.join("\n       ")));
    }
    if summary.tasks.iter().all(|t| t.best_us.is_none()) {
        return Err(Failure::Negative(format!("nothing was measured: {}", summary.total.stop_reason)));
    }
    Ok(())
}

/// Suggests the next command; none if the program came from standard input.
fn next_step(args: &Args) -> Option<String> {
    if args.input.file.as_os_str() == "-" {
        return None;
    }
    let mut rest = shell_word(&args.input.file.to_string_lossy());
    for (name, value) in &args.input.bind {
        let _ = write!(rest, " --bind {name}={value}");
    }
    if args.work_dir.work_dir.as_os_str() != "tvmr_db" {
        let _ = write!(rest, " --work-dir {}", shell_word(&args.work_dir.work_dir.to_string_lossy()));
    }
    for file in &args.intrin.intrin {
        let _ = write!(rest, " --intrin {}", shell_word(&file.to_string_lossy()));
    }
    Some(format!(
        "next: `tvmr apply-best {rest}` prints the program with its best schedule,\n      `tvmr bench {rest} --best` checks and times it again"
    ))
}

/// Quotes a word for a shell, if needed.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Why a function has no valid schedule; `None` if it has one.
fn no_schedule(task: &TaskSummary) -> Option<String> {
    // If the rules found nothing to try, the program as written is a valid result. A schedule function that fails is
    // the user's mistake.
    let unfit = task.failures.iter().all(|f| f.stage == "postproc");
    let as_written_alone = task.trials == 0 && task.best_us.is_some() && task.problem.is_none() && unfit;
    if task.valid > 0 || as_written_alone {
        return None;
    }
    let reason = || task.failures.first().map_or("see the warnings above".to_owned(), most_often);
    let why = match &task.problem {
        Some(problem) => problem.clone(),
        None if task.trials > 0 => format!("all {} candidates failed; {}", task.trials, reason()),
        None if task.rejected > 0 => format!("the space refused all {} candidates; {}", task.rejected, reason()),
        // The space holds only the program as written, or time was up.
        None => format!("the program as written: {}", task.as_written_failed.as_ref()?),
    };
    let mut text = format!("no valid schedule for `{}`: {why}", task.func);
    if let [_, _, ..] = task.sketches[..] {
        for sketch in &task.sketches {
            let _ = write!(text, "\n         {}", of_sketch(sketch));
        }
    }
    Some(text)
}

fn most_often(reason: &FailureCount) -> String {
    format!("most often `{}` said: {}", reason.by, reason.message)
}

/// One line with the outcome of a sketch's candidates.
fn of_sketch(count: &SketchCount) -> String {
    let name = count.sketch.map_or("replayed traces".to_owned(), |n| format!("sketch {n}"));
    let reason = count.reason.as_ref().map_or(String::new(), |r| format!("; {}", most_often(r)));
    format!("{name}: {} tried, {} failed, {} refused{reason}", count.tried, count.failed, count.refused)
}

/// Number of additional trials to recommend when all requested ones are in the database.
const MORE_TRIALS: u64 = 64;

/// Maximum number of reasons to list; the others are counted.
const SHOWN_REASONS: usize = 8;

/// Prints notes about a function: why its search ended, and which candidates failed.
fn tell(task: &TaskSummary, console: Console) {
    let distinct = task.distinct_programs.map_or(String::new(), |n| format!(": {n} of {n} distinct programs"));
    console.note(&format!("{}: {}{distinct}", task.func, task.stop_reason));
    if task.resumed == task.trials && task.resumed > 0 {
        let all =
            if task.trials == 1 { "the one trial was".to_owned() } else { format!("all {} trials were", task.trials) };
        let why = "`--trials` is a total, whatever the space";
        let more = task.trials.saturating_add(MORE_TRIALS);
        let go_on = format!("continue with `--trials {more}`, or start again in another `--work-dir`");
        console.note(&format!("{}: {all} in the database already: {why}; {go_on}", task.func));
    }
    if !task.failures.is_empty() {
        console.note(&format!("{}: candidates that failed or were refused, by reason:", task.func));
        for f in task.failures.iter().take(SHOWN_REASONS) {
            console.note(&format!("{:>8}  {}, {}: {}", f.count, f.stage, f.by, f.message));
        }
        let rest = task.failures.iter().skip(SHOWN_REASONS);
        let (kinds, count) = rest.fold((0, 0), |(kinds, count), f| (kinds + 1, count + f.count));
        if kinds > 0 {
            console.note(&format!("{count:>8}  for {kinds} other reasons"));
        }
    }
}

fn human(task: &TaskSummary, summary: &Summary) -> String {
    let mut text = task.func.clone();
    if !task.same_as.is_empty() {
        let _ = write!(text, " (and {})", task.same_as.join(", "));
    }
    text += ": ";
    let us = |us: f64| Seconds(us * 1e-6);
    // Writing to a string cannot fail.
    match task.best_us {
        None if task.trials == 0 && task.problem.is_none() => text += "not measured",
        None => text += "nothing valid",
        Some(best) => {
            let _ = write!(text, "{}", us(best));
            if let Some(gflops) = task.gflops {
                let _ = write!(text, ", {gflops:.1} GFLOP/s");
            }
            if let (Some(fraction), Some(peak)) = (task.peak_fraction, task.peak_gflops) {
                let _ = write!(text, ", {fraction:.2} of this machine's peak of {peak:.1} GFLOP/s");
            }
        }
    }
    text.push('\n');
    match (task.baseline_us, task.speedup) {
        _ if task.baseline_is_best => text += "  the program as written is the fastest\n",
        (Some(baseline), Some(speedup)) => {
            let _ = writeln!(text, "  as written: {}, {speedup:.2} times as long", us(baseline));
        }
        (Some(baseline), None) => {
            let _ = writeln!(text, "  as written: {}", us(baseline));
        }
        (None, _) => {}
    }
    let errors: u64 = task.errors.values().sum();
    let trials = counted(task.trials, "trial", "trials");
    let _ = write!(text, "  {trials}: {} valid, {errors} failed", task.valid);
    if task.rejected > 0 {
        let more = counted(task.rejected, "more candidate was", "more candidates were");
        let _ = write!(text, "; {more} refused by the space");
    }
    if task.pruned > 0 {
        let _ = write!(text, "; {} skipped as hopelessly slow", task.pruned);
    }
    let elapsed = if summary.tasks.len() == 1 { summary.total.elapsed_s } else { task.elapsed_s };
    let _ = writeln!(text, "; {elapsed:.2} s");
    if !task.checked {
        text += "  results were NOT checked\n";
    }
    text
}

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The summary line over several functions; empty for one.
fn all_together(summary: &Summary) -> String {
    let total = &summary.total;
    if summary.tasks.len() == 1 {
        return String::new();
    }
    let us = |us: f64| Seconds(us * 1e-6);
    let mut text = format!("all {} functions: ", total.weight);
    match (total.best_us, total.baseline_us.zip(total.speedup)) {
        (Some(best), Some((baseline, speedup))) => {
            let _ = write!(text, "{}; as written: {}, {speedup:.2} times as long; ", us(best), us(baseline));
        }
        (Some(best), None) => {
            let _ = write!(text, "{}; ", us(best));
        }
        (None, _) => {}
    }
    let _ = writeln!(text, "{}, {:.2} s", counted(total.trials, "trial", "trials"), total.elapsed_s);
    text
}

/// The JSON document: the single function, or the totals with a list of functions.
fn document(summary: &Summary) -> Value {
    let value = |t: &TaskSummary| serde_json::to_value(t).unwrap_or_default();
    if let [only] = &summary.tasks[..] {
        return value(only);
    }
    let mut total = value(&summary.total);
    total["tasks"] = summary.tasks.iter().map(value).collect();
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_valid_schedule_every_sketch_says_why() {
        let reason = |by: &str, message: &str| FailureCount {
            stage: "schedule".into(),
            by: by.into(),
            message: message.into(),
            count: 1,
        };
        let sketch = |n, tried, refused, reason| SketchCount { sketch: Some(n), tried, failed: tried, refused, reason };
        let task = TaskSummary {
            func: "f".into(),
            rejected: 20,
            failures: vec![reason("fuse", "the loops are apart")],
            sketches: vec![
                sketch(1, 0, 20, Some(reason("fuse", "the loops are apart"))),
                sketch(2, 3, 0, Some(reason("timeout", "stopped after 20 ms"))),
            ],
            trials: 3,
            ..TaskSummary::default()
        };
        let text = no_schedule(&task).expect("nothing is valid");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "no valid schedule for `f`: all 3 candidates failed; most often `fuse` said: the loops are apart",
                "sketch 1: 0 tried, 0 failed, 20 refused; most often `fuse` said: the loops are apart",
                "sketch 2: 3 tried, 3 failed, 0 refused; most often `timeout` said: stopped after 20 ms",
            ]
        );
    }
}
