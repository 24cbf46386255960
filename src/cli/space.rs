//! `tvmr space`: prints the search space.
//!
//! ```text
//! # main: sketch 1 of 3: 146,692 combinations of decisions; 2 of 64 samples refused
//! # from tvm import s_tir
//! def apply_trace(sch: s_tir.Schedule) -> None:
//!   b0 = sch.get_sblock(name="C", func_name="main")
//!   …
//!   v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=64)  # 7 choices
//! ```
//!
//! Each sketch is a schedule function, and so a valid `--space` file.

use super::Done;
use super::args::{DialectArg, Format, Global, Input, Intrin, Machine};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::setting;
use crate::ir::Module;
use crate::machine::{Core, Target};
use crate::request::space::choose;
use crate::schedule::Trace;
use crate::script::Dialect;
use crate::search::isolated;
use crate::search::survey::{Size, Survey, survey};
use crate::space::{Sketch, Space};
use crate::stop::StopFlag;
use crate::tune::make_space;
use crate::workload::Workload;
use serde_json::{Value, json};
use std::fmt::Write;

/// Print the search space of each function: its sketches, and how many candidates they span
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::SPACE)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Search space: `auto`, `tvm`, or a file with a schedule; if left out, that of a template, else `auto`
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    #[command(flatten)]
    intrin: Intrin,
    #[command(flatten)]
    machine: Machine,
    /// Only this function
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Candidates to draw from each sketch; 64 if left out, fewer where there are more than 16 sketches
    #[arg(long, value_name = "N", value_parser = samples)]
    #[arg(allow_negative_numbers = true)]
    samples: Option<usize>,
    /// Seed of the samples
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::args::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,
    /// Print the candidates that a search tries first, with their decisions
    #[arg(long)]
    seeds: bool,
    /// Dialect to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// A function with its space and the surveys of its sketches.
struct Surveyed {
    name: String,
    same_as: Vec<String>,
    space: Space,
    sketches: Vec<Survey>,
}

/// Default number of samples of a sketch.
const SAMPLES: usize = 64;
/// At most this many samples over all sketches: a program of many blocks takes milliseconds to draw.
const ALL_SAMPLES: usize = 1024;
/// At least this many samples of each sketch.
const LEAST_SAMPLES: usize = 8;

fn samples(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n @ 1..=100_000) => Ok(n),
        _ => Err("expected a whole number from 1 to 100000".to_string()),
    }
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let program = Program::read_lowered(&args.input, args.func.as_deref(), console)?;
    let functions = program.functions(args.func.as_deref())?;
    for &index in &functions {
        // As in `tune`: a loop of unknown extent has no known tilings.
        setting::check_concrete(&program.module().funcs[index])?;
    }
    let dialect = program.dialect(args.dialect);
    let intrinsics = load::intrinsics(&args.intrin)?;
    let distinct = Workload::distinct(program.module(), &functions);
    let modules: Vec<Module> = distinct.iter().map(|(w, _)| w.module.clone()).collect();
    let (choice, _) = choose(
        args.space.as_deref(),
        &program,
        &modules,
        intrinsics.as_ref(),
        dialect,
        console.color,
        &StopFlag::new(),
    )?;
    let machine = load::target(&args.machine)?;
    let threads = args.machine.threads.map_or(1, |t| t.on(machine.cores as usize));
    let machine = Core::new(&machine, global.isa.unwrap_or(machine.best_isa()), threads);
    let jobs = Target::native().target.cores as usize;
    let mut tasks = Vec::with_capacity(distinct.len());
    let mut failed = Vec::new();
    for (workload, names) in distinct {
        let workload = workload.with_intrinsics(intrinsics.clone());
        let made = isolated(|| make_space(&workload, &choice, &machine, &StopFlag::new())).unwrap_or_else(Err);
        let space = match made {
            Ok(space) => space,
            Err(why) => {
                failed.push(format!("`{}` has no space: {why}", workload.name));
                continue;
            }
        };
        let base = workload.schedule(0);
        let n = space.sketches().len();
        let samples = args.samples.unwrap_or((ALL_SAMPLES / n.max(1)).clamp(LEAST_SAMPLES, SAMPLES));
        let sketches = (0..n).map(|i| survey(&space, i, &base, samples, args.seed, jobs));
        tasks.push(Surveyed {
            name: workload.name.as_str().to_owned(),
            same_as: names[1..].iter().map(|n| n.as_str().to_owned()).collect(),
            sketches: sketches.collect(),
            space,
        });
    }
    let space = args.space.as_deref().unwrap_or(choice.name());
    match args.format {
        Format::Human => {
            let text: Vec<String> = tasks.iter().map(|t| human(t, args.seeds, dialect)).collect();
            console.result(&text.join("\n"))?;
            tasks.iter().for_each(|t| console.note(&totals(t)));
        }
        Format::Json => {
            let list: Vec<Value> = tasks.iter().map(|t| document(t, args, space, &program.name, dialect)).collect();
            let value = match &list[..] {
                [only] if failed.is_empty() => only.clone(),
                _ => json!({"workload": program.name, "space": space, "tasks": list}),
            };
            console.result(&format!("{value:#}\n"))?;
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Negative(failed.join("\n       "))) }
}

impl Surveyed {
    fn size(&self) -> Size {
        self.sketches.iter().fold(Size::Exactly(0), |sum, s| sum.plus(s.size))
    }
}

/// Why there is nothing to choose: for each block without choices, or about the whole space.
fn reasons(task: &Surveyed) -> Vec<(Option<&str>, String)> {
    let blocks = task.space.no_choices();
    if blocks.is_empty() && matches!(task.size(), Size::Exactly(1)) {
        let is_function = task.space.sketches().iter().any(|s| matches!(s, Sketch::Function(_)));
        let why = if is_function {
            "the schedule function samples nothing"
        } else {
            "there are no blocks, whose loops a schedule could change"
        };
        return vec![(None, why.to_owned())];
    }
    blocks.iter().map(|s| (Some(s.block.as_str()), s.reason.to_string())).collect()
}

fn human(task: &Surveyed, seeds: bool, dialect: Dialect) -> String {
    let mut parts = Vec::new();
    let n = task.sketches.len();
    for (i, sketch) in task.sketches.iter().enumerate() {
        let mut text = format!(
            "# {}: sketch {} of {n}: {}; {} of {} samples refused\n",
            task.name,
            i + 1,
            combinations(sketch.size),
            sketch.refused,
            sketch.samples
        );
        // Writing to a string cannot fail.
        if let Some((reason, _)) = sketch.reasons.first() {
            let message = reason.message.lines().next().unwrap_or_default();
            let _ = writeln!(text, "#   most often `{}` said: {message}", reason.by);
        }
        if i == 0 {
            for (block, reason) in reasons(task) {
                let _ = match block {
                    Some(block) => writeln!(text, "# reason: nothing to choose for `{block}`: {reason}"),
                    None => writeln!(text, "# reason: {reason}"),
                };
            }
        }
        if !sketch.is_uniform {
            text += "#   its instructions depend on its decisions: this is one sample\n";
        }
        text += &annotated(sketch, dialect);
        parts.push(text);
    }
    if seeds {
        for (i, seed) in task.space.seeds().iter().enumerate() {
            let head = format!("# {}: seed {}, of sketch {}\n", task.name, i + 1, seed.sketch + 1);
            parts.push(head + &seed.trace.to_python(dialect) + "\n");
        }
    }
    parts.join("\n")
}

/// The trace of a sketch without decisions, with the number of choices after each sampling instruction.
fn annotated(sketch: &Survey, dialect: Dialect) -> String {
    let choices = |i: usize| {
        Some(match sketch.choices.get(i).copied().flatten()? {
            (1, 1) => "1 choice".to_owned(),
            (low, high) if low == high => format!("{} choices", grouped(low)),
            (low, high) => format!("{} to {} choices", grouped(low), grouped(high)),
        })
    };
    undecided(&sketch.example).to_python_with(dialect, choices) + "\n"
}

fn undecided(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    trace.insts.iter_mut().for_each(|inst| inst.decision = None);
    trace
}

fn totals(task: &Surveyed) -> String {
    let (n, seeds) = (task.sketches.len(), task.space.seeds().len());
    let same = match &task.same_as[..] {
        [] => String::new(),
        others => format!(" (and `{}`, the same program)", others.join("`, `")),
    };
    let refused: usize = task.sketches.iter().map(|s| s.refused).sum();
    let samples: usize = task.sketches.iter().map(|s| s.samples).sum();
    format!(
        "{}{same}: {n} sketch{}, {}, {seeds} seed{}; {refused} of {samples} samples refused",
        task.name,
        if n == 1 { "" } else { "es" },
        combinations(task.size()),
        if seeds == 1 { "" } else { "s" },
    )
}

fn combinations(size: Size) -> String {
    match size {
        Size::Exactly(1) => "1 combination of decisions".to_owned(),
        Size::Exactly(n) => format!("{} combinations of decisions", grouped(n)),
        // An estimate has two significant digits.
        Size::About(n) if (100.0..1e6).contains(&n) => {
            let unit = 10f64.powf(n.log10().floor() - 1.0);
            format!("about {} combinations of decisions", grouped(((n / unit).round() * unit) as u128))
        }
        Size::About(n) if n < 100.0 => format!("about {n:.0} combinations of decisions"),
        Size::About(n) => format!("about {n:.1e} combinations of decisions"),
    }
}

/// A number with a comma between groups of three digits.
fn grouped(n: u128) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn document(task: &Surveyed, args: &Args, space: &str, workload: &str, dialect: Dialect) -> Value {
    let sketches: Vec<Value> = task.sketches.iter().enumerate().map(|(i, s)| sketch_value(i, s, dialect)).collect();
    let seed = |s: &crate::space::Seed| json!({"sketch": s.sketch + 1, "trace": s.trace.to_python(dialect)});
    let mut value = json!({
        "workload": workload,
        "func": task.name,
        "space": space,
        "combinations": number(task.size()),
        "exact": matches!(task.size(), Size::Exactly(_)),
        "sketches": sketches,
        "reasons": reasons(task).iter().map(|(block, reason)| json!({"block": block, "reason": reason})).collect::<Vec<_>>(),
        "n_seeds": task.space.seeds().len(),
    });
    if args.seeds {
        value["seeds"] = task.space.seeds().iter().map(seed).collect();
    }
    if !task.same_as.is_empty() {
        value["same_as"] = json!(task.same_as);
    }
    value
}

fn sketch_value(i: usize, s: &Survey, dialect: Dialect) -> Value {
    let choices: Vec<Value> = s
        .choices
        .iter()
        .enumerate()
        .filter_map(|(at, range)| {
            let (low, high) = (*range)?;
            let (min, max) = (number(Size::Exactly(low)), number(Size::Exactly(high)));
            Some(json!({"instruction": at, "kind": s.example.insts[at].kind.name, "min": min, "max": max}))
        })
        .collect();
    json!({
        "sketch": i + 1,
        "combinations": number(s.size),
        "exact": matches!(s.size, Size::Exactly(_)),
        "samples": s.samples,
        "refused": s.refused,
        "reasons": s.reasons.iter().map(|(r, count)| {
            json!({"stage": r.stage.name(), "by": r.by, "message": r.message, "count": count})
        }).collect::<Vec<_>>(),
        "uniform": s.is_uniform,
        "choices": choices,
        "trace": undecided(&s.example).to_python(dialect),
    })
}

/// An integer if JSON readers can represent it exactly.
fn number(size: Size) -> Value {
    match size {
        Size::Exactly(n) => u64::try_from(n).map_or_else(|_| json!(n as f64), |n| json!(n)),
        Size::About(n) => json!(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!((grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)), {
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        });
        assert_eq!(combinations(Size::About(1234.5)), "about 1,200 combinations of decisions");
        assert_eq!(combinations(Size::About(2.5e9)), "about 2.5e9 combinations of decisions");
    }
}
