//! `tvmr tune`: searches for the fastest schedules.

use super::Done;
use super::args::{Format, Global, Input, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::Program;
use super::progress::Progress;
use super::run_model::{failure, load_arrays};
use super::versions::Wanted;
use super::{model_check, records, setting, signals, time_limit};
use crate::foreign;
use crate::model::{Agreement, Reference};
use crate::request::program;
use crate::request::tuning::{Plan, Request, TimeLimit};
use crate::stop::StopFlag;
use crate::tune::backend::Seconds;
use crate::tune::config::StrategyChoice;
use crate::tune::summary::{Summary, TaskSummary};
use crate::tune::{self, Interrupt};
use crate::workload::Workload;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The share of the time that the check of a whole model may take from the search.
const CHECK: f64 = 0.25;

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
    /// Number of distinct programs to try, over all functions; trials in the database count. If left out, 32 for each distinct
    /// function, at least 64 and at most 4096
    #[arg(long, help_heading = "Budget", value_name = "N")]
    #[arg(value_parser = super::args::positive, allow_negative_numbers = true)]
    trials: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, help_heading = "Budget", value_name = "S", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    max_seconds: Option<f64>,
    /// Stop when four rounds together improve the best time by less than this share, such as 0.01
    #[arg(long, help_heading = "Budget", value_name = "P", value_parser = share)]
    #[arg(allow_negative_numbers = true)]
    patience: Option<f64>,
    /// Search space: `auto`, `tvm`, or a file with a schedule; if left out, that of a template, else `auto`
    #[arg(long, help_heading = "Search", value_name = "SPACE")]
    space: Option<String>,
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
    let max_time = args.max_seconds.map(Duration::from_secs_f64);
    // The limit covers the whole command, not the search alone.
    let limit = TimeLimit::start(max_time)?;
    let interrupt = Interrupt::new();
    if let Some(limit) = max_time {
        time_limit::watch(limit, &interrupt, args.format == Format::Json, console);
    }
    let read = Program::read(&args.input, args.func.as_deref(), console)?;
    // A graph is kept as it was read, for the check at the end.
    let (graphs, program) = match read.graphs() {
        [] => (None, read),
        _ => {
            let cx = args.input.graph.context()?;
            let lowered = read.lowered(&cx)?;
            // The check at the end needs them.
            let unusable = lowered.graphs().iter().find_map(|graph| foreign::check(&cx.libraries, graph).err());
            if let Some(why) = unusable {
                return Err(Failure::Usage(why.to_string(), String::new()));
            }
            (Some(read), lowered)
        }
    };
    let mut plan = args.request(global).plan(&program, &limit, &console)?;
    if args.frozen {
        return frozen(args, &program, &plan, console);
    }
    if args.no_check {
        console.warn("results are NOT compared with the reference: a wrong program may come out as the best");
    }
    // Only a limit needs to know.
    let check_time = match plan.config.max_time.filter(|_| graphs.is_some() && args.checks_model()) {
        Some(_) => Reference::expected_duration(program.module(), &plan.config.calls),
        None => Duration::ZERO,
    };
    plan.config.max_time = plan.config.max_time.map(|all| search_time(all, check_time));
    let dir = &args.work_dir.work_dir;
    let mut db = plan.database(dir, &console)?;
    signals::watch(&interrupt, console);
    let mut progress = Progress::new(console, global.verbose > 0, plan.config.max_time, program.parsed.dialect);
    // The process is the command's own, so that its threads may keep to cores.
    let summary = plan.tune(&program, dir, &mut db, true, &mut progress, &interrupt);
    progress.clear();
    drop(db);
    let summary = summary?;
    let model = match graphs.and_then(|read| Some((model_to_check(args, &read, &interrupt)?, read))) {
        Some((name, read)) => {
            // A signal ends the check as the limit does.
            interrupt.also_stop(Arc::new(limit.flag().clone()));
            let checked = match limit.left().is_none_or(|left| left >= check_time / 2) {
                true => check_model(args, global, (&read, &program), &name, &plan, limit.flag(), console)?,
                false => None,
            };
            if checked.is_none() {
                let why = if interrupt.is_raised() { "the run was interrupted" } else { "the time is up" };
                console.note(&format!("`{name}` was not checked as a whole: {why}; `tvmr bench --best` does it"));
            }
            checked
        }
        None => None,
    };
    report(args, &program, &plan, &summary, model.as_ref(), &interrupt, console)
}

impl Args {
    /// Whether a graph is to be checked as a whole.
    fn checks_model(&self) -> bool {
        !self.no_check && self.func.is_none()
    }

    /// The run that the options ask for.
    fn request(&self, global: &Global) -> Request {
        Request {
            func: self.func.clone(),
            trials: self.trials,
            patience: self.patience,
            space: self.space.clone(),
            strategy: match self.strategy {
                StrategyArg::Evolutionary => {
                    StrategyChoice::Evolutionary { seeds: !self.no_seeds, cost_model: !self.no_cost_model }
                }
                StrategyArg::Random => StrategyChoice::Random,
                StrategyArg::Replay => StrategyChoice::Replay,
            },
            seed: self.seed,
            seed_from: self.seed_from.clone(),
            intrin: self.intrin.intrin.clone(),
            target: self.machine.target.clone(),
            wanted: setting::wanted(&self.machine, global, !self.no_check),
            jobs: self.jobs.map(|n| n as usize),
        }
    }
}

/// The part of the time that the search may take: all but what the check of the whole graph takes, if that is at most [`CHECK`].
fn search_time(all: Duration, check: Duration) -> Duration {
    if check <= all.mul_f64(CHECK) { all - check } else { all }
}

/// The graph to check as a whole; `None` if there is none, or results are not compared, or nothing more is to be done.
fn model_to_check(args: &Args, read: &Program, interrupt: &Interrupt) -> Option<String> {
    if !args.checks_model() || interrupt.signal().is_some() {
        return None;
    }
    // Of several graphs without a `main`, none stands for the program.
    Some(read.graph(None).ok()??.name.to_string())
}

/// Compares a graph with the best programs, of the second program, with the same graph as it was read; `None` if the flag is raised
/// before the end.
fn check_model(
    args: &Args,
    global: &Global,
    (read, lowered): (&Program, &Program),
    name: &str,
    plan: &Plan,
    stop: &StopFlag,
    console: Console,
) -> Result<Option<CheckedModel>, Failure> {
    if stop.is_raised() {
        return Ok(None);
    }
    let wanted = Wanted {
        best: true,
        trace: None,
        func: None,
        seed: args.seed,
        intrin: &args.intrin,
        machine: &args.machine,
        work_dir: &args.work_dir,
    };
    let setting = &plan.config.setting;
    let kernels = wanted.of_model(global, lowered, name, console)?;
    let cx = args.input.graph.context()?;
    let mut model = kernels.compile(lowered, name, &cx, setting).map_err(|e| failure(read, name, e))?;
    let files: Vec<PathBuf> =
        program::weights(&args.input.file, args.input.graph.weights.as_deref()).into_iter().collect();
    let (arrays, _) = load_arrays(read, &mut model, &kernels, &files, args.seed, console)?;
    match model_check::compare(read, &cx, &model, setting, &arrays, stop.clone()) {
        // Whatever the error says, it may be due to the end.
        Err(_) if stop.is_raised() => Ok(None),
        agreement => Ok(Some(CheckedModel { name: name.to_owned(), agreement: agreement? })),
    }
}

/// A model that was compared with its graph as it was read.
struct CheckedModel {
    name: String,
    agreement: Agreement,
}

/// Reports which functions have a record, and measures nothing.
fn frozen(args: &Args, program: &Program, plan: &Plan, console: Console) -> Done {
    let Plan { functions, config, .. } = plan;
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
    plan: &Plan,
    summary: &Summary,
    model: Option<&CheckedModel>,
    interrupt: &Interrupt,
    console: Console,
) -> Done {
    for task in &summary.tasks {
        tell(task, console);
    }
    match args.format {
        Format::Human => {
            let tasks: String = summary.tasks.iter().map(|t| human(t, summary)).collect();
            let whole = model.map_or(String::new(), |m| format!("{} as a whole: {}\n", m.name, m.agreement));
            console.result(&(tasks + &all_together(summary) + &whole))?;
            let is_done = interrupt.signal().is_none() && summary.tasks.iter().any(|t| t.valid > 0);
            if let (true, Some(next)) = (is_done, next_step(args)) {
                console.note(&next);
            }
        }
        Format::Json => console.result(&format!("{:#}\n", document(summary, model)))?,
    }
    if args.no_check {
        console.warn("results were NOT compared with the reference");
    }
    plan.verdict(program, summary, &args.work_dir.work_dir, interrupt).map_err(|unsuccessful| {
        if let Some(refusal) = &unsuccessful.first_refusal {
            console.note(refusal);
        }
        Failure::from(unsuccessful.error)
    })?;
    model.map_or(Ok(()), |m| model_check::judge(&m.name, &m.agreement))
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
    if let Some(values) = &args.input.args {
        let func = args.func.as_ref().map_or(String::new(), |name| format!(" --func {}", shell_word(name)));
        let _ = write!(rest, "{func} --args {}", shell_word(values));
    }
    for (name, extents) in &args.input.graph.shape {
        let extents: Vec<String> = extents.iter().map(i64::to_string).collect();
        let _ = write!(rest, " --shape {name}={}", extents.join(","));
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

/// The JSON document: the single function, or the totals with a list of functions; and the check of the whole model.
fn document(summary: &Summary, model: Option<&CheckedModel>) -> Value {
    let mut document = of_tasks(summary);
    if let Some(CheckedModel { name, agreement }) = model {
        document["model"] = json!({
            "func": name,
            "agrees": agreement.is_right(),
            "max_relative_difference": agreement.relative(),
            "tolerance": agreement.tolerance,
        });
    }
    document
}

fn of_tasks(summary: &Summary) -> Value {
    let value = |t: &TaskSummary| serde_json::to_value(t).unwrap_or_default();
    if let [only] = &summary.tasks[..] {
        return value(only);
    }
    let mut total = value(&summary.total);
    total["tasks"] = summary.tasks.iter().map(value).collect();
    total
}
