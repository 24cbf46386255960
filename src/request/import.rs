//! Schedules of the logs of AutoTVM and the auto-scheduler, as schedules to try.

use super::Error;
use super::databases::failed;
use super::program::Program;
use crate::database::{ArgInfo, Context, Database, Outcome, Timestamp, TuningRecord, WorkloadId};
use crate::schedule::Schedule;
use crate::search::isolated;
use crate::te_function::{self, TeSchedule, WorkloadChoice};
use crate::tvm_log::{self, Line, Task, Untranslated, state};
use crate::workload::Workload;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

/// The file with the workloads of a log, and what to import of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its text: TVMScript, or tensor expressions.
    pub text: &'a str,
    /// Values of symbolic extents and scalars.
    pub bind: &'a [(String, i64)],
    /// The function, if it is to be this one, and its arguments; without them, each line says them.
    pub choice: WorkloadChoice<'a>,
}

/// What came of the lines of a log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Imported {
    /// The workloads that got schedules.
    pub workloads: Vec<Gain>,
    /// Why other lines gave none, in the order of the first ones.
    pub left_out: Vec<LeftOut>,
}

/// The schedules that a workload got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gain {
    /// The workload, with its arguments.
    pub name: String,
    /// Schedules that the database did not have.
    pub new: u64,
    /// Schedules that it had, or that the log has twice.
    pub known: u64,
}

/// Lines that gave no schedule for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The reason.
    pub reason: String,
    /// Number of the lines.
    pub lines: u64,
    /// Number of the first one, from 1.
    pub first: u64,
    /// What it is in that line.
    pub detail: String,
}

/// Reads the lines of a log, and adds their schedules to a database, those first that were fastest where they were measured.
///
/// # Errors
/// The program that was asked for cannot be read, or the database cannot be written. Lines that give no schedule are no error.
pub fn import(log: &str, wanted: Wanted<'_>, db: &mut Database, now: Timestamp) -> Result<Imported, Error> {
    let mut workloads = Workloads::new(wanted)?;
    let mut left_out: Vec<LeftOut> = Vec::new();
    let mut found: BTreeMap<usize, Vec<Found>> = BTreeMap::new();
    for (number, text) in (1u64..).zip(log.lines()) {
        let scheduled = match tvm_log::read(text) {
            Ok(None) => continue,
            Ok(Some(line)) => workloads.scheduled(&line),
            Err(why) => Err(why),
        };
        match scheduled {
            Ok((workload, scheduled)) => {
                found.entry(workload).or_default().push(Found { number, ..scheduled });
            }
            Err(Untranslated { reason, detail }) => match left_out.iter_mut().find(|l| l.reason == reason) {
                Some(known) => known.lines += 1,
                None => left_out.push(LeftOut { reason, lines: 1, first: number, detail }),
            },
        }
    }
    let mut imported = Imported { workloads: Vec::new(), left_out };
    for (index, mut all) in found {
        // Stable, so that equal times stay in the order of the lines.
        all.sort_by(|a, b| a.secs.total_cmp(&b.secs));
        let known = &workloads.known[index];
        let id = known.workload.commit(db, now).map_err(failed)?;
        let (mut before, _) = db.untried(id).map_err(failed)?;
        let mut seen: HashSet<String> = before.drain(..).map(|r| r.trace.to_string()).collect();
        let n = all.len() as u64;
        all.retain(|f| seen.insert(f.trace.to_string()));
        let gain = Gain { name: known.name.clone(), new: all.len() as u64, known: n - all.len() as u64 };
        let records: Vec<TuningRecord> = all.into_iter().map(|f| f.record(id, &known.workload)).collect();
        db.commit(&records).map_err(failed)?;
        imported.workloads.push(gain);
    }
    db.sync().map_err(failed)?;
    Ok(imported)
}

/// A schedule of a line.
struct Found {
    /// The number of the line.
    number: u64,
    /// The mean of its times.
    secs: f64,
    trace: Value,
    /// Which tuner found it.
    space: &'static str,
    target: String,
    timestamp: f64,
}

impl Found {
    fn record(self, id: WorkloadId, workload: &Workload) -> TuningRecord {
        let log = json!({"line": self.number, "secs": self.secs, "target": self.target});
        TuningRecord {
            workload: id,
            trace: self.trace,
            outcome: Outcome::Untried,
            // Nothing was measured on any target; TVM reads this, too.
            target: Value::Null,
            args_info: ArgInfo::of(workload.func()),
            context: Context {
                workload_hash: Some(workload.hash),
                tvmr: env!("CARGO_PKG_VERSION").to_owned(),
                space: self.space.to_owned(),
                strategy: "log".to_owned(),
                time: Timestamp(self.timestamp.max(0.0) as u64),
                other: Map::from_iter([("log".to_owned(), log)]),
                ..Context::default()
            },
        }
    }
}

/// A workload of a log.
struct Known {
    /// The workload with its arguments, for messages.
    name: String,
    workload: Workload,
    /// Its template, if it is one.
    template: Option<TeSchedule>,
}

/// The workloads that lines name, each defined once.
struct Workloads<'a> {
    wanted: Wanted<'a>,
    /// Whether the command says which workload is meant, or the file has only one.
    is_fixed: bool,
    known: Vec<Known>,
    /// The positions of the workloads of tasks, or why there is none.
    of_tasks: BTreeMap<(String, String), Result<usize, Untranslated>>,
}

impl<'a> Workloads<'a> {
    fn new(wanted: Wanted<'a>) -> Result<Workloads<'a>, Error> {
        let is_fixed = wanted.choice.args.is_some() || !te_function::is_te_text(wanted.text);
        let mut all = Workloads { wanted, is_fixed, known: Vec::new(), of_tasks: BTreeMap::new() };
        if is_fixed {
            let known = known(wanted, wanted.choice)?;
            all.known.push(known);
        }
        Ok(all)
    }

    /// The schedule of a line, with the position of its workload.
    fn scheduled(&mut self, line: &Line) -> Result<(usize, Found), Untranslated> {
        let (task, target, outcome, space) = match line {
            Line::Ansor(l) => (&l.task, &l.target, &l.outcome, "ansor"),
            Line::AutoTvm(l) => (&l.task, &l.target, &l.outcome, "autotvm"),
        };
        let Some(secs) = outcome.secs() else {
            let detail = format!("its error is {}", outcome.error);
            return Err(Untranslated::new("it failed where it was measured", detail));
        };
        let index = self.workload(task)?;
        let known = &self.known[index];
        let mut schedule = known.workload.schedule(0);
        // A bug that a line finds is its own.
        let done = isolated(|| carry_out(line, known, &mut schedule));
        done.map_err(|why| Untranslated::new("it found a bug", why)).and_then(|r| r)?;
        if schedule.trace().insts.is_empty() {
            return Err(Untranslated::new("it leaves the program as it is", ""));
        }
        let trace = schedule.trace().to_json();
        let target = target.clone();
        Ok((index, Found { number: 0, secs, trace, space, target, timestamp: outcome.timestamp }))
    }

    /// The position of the workload of a task.
    fn workload(&mut self, task: &Task) -> Result<usize, Untranslated> {
        let args = arguments(task)?;
        if self.is_fixed {
            return match self.is_wanted(task, &args) {
                true => Ok(0),
                false => Err(Untranslated::new("it is for another task", format!("`{}({args})`", task.name))),
            };
        }
        let key = (task.name.clone(), args);
        if let Some(known) = self.of_tasks.get(&key) {
            return known.clone();
        }
        let defined = self.define(task, &key.1);
        self.of_tasks.insert(key, defined.clone());
        defined
    }

    /// Defines the workload of a task with the arguments that the line gives.
    fn define(&mut self, task: &Task, args: &str) -> Result<usize, Untranslated> {
        let named = te_function::function_of_task(self.wanted.text, &task.name);
        if !self.may_be(task, named.as_deref()) {
            return Err(Untranslated::new("it is for another task", format!("`{}({args})`", task.name)));
        }
        let func = self.wanted.choice.func.or(named.as_deref());
        let given = (!args.is_empty()).then_some(args);
        match known(self.wanted, WorkloadChoice { func, args: given }) {
            Ok(known) => {
                self.known.push(known);
                Ok(self.known.len() - 1)
            }
            Err(why) => {
                let first = why.to_string();
                let detail = format!("`{}({args})`: {}", task.name, first.lines().next().unwrap_or_default());
                Err(Untranslated::new("the file does not define its task", detail))
            }
        }
    }

    /// Whether a task may be the workload that the command asked for.
    fn is_wanted(&self, task: &Task, args: &str) -> bool {
        let named = te_function::function_of_task(self.wanted.text, &task.name);
        let without_blanks = |text: &str| text.replace([' ', '"', '\''], "");
        let has_args = |a| named.is_none() || without_blanks(a) == without_blanks(args);
        self.may_be(task, named.as_deref()) && self.wanted.choice.args.is_none_or(has_args)
    }

    /// Whether a task, which a function of the text has the name of or none, may be the function that the command asked for. Names that
    /// the text does not know may mean any function, if the command names it, or if they are hashes.
    fn may_be(&self, task: &Task, named: Option<&str>) -> bool {
        let is_hash = task.name.len() >= 16 && task.name.chars().all(|c| c.is_ascii_hexdigit());
        match (self.wanted.choice.func, named) {
            (Some(wanted), Some(named)) => wanted == named,
            (None, None) => is_hash || !te_function::is_te_text(self.wanted.text),
            (Some(_), None) | (None, Some(_)) => true,
        }
    }
}

/// Reads a workload.
fn known(wanted: Wanted<'_>, choice: WorkloadChoice<'_>) -> Result<Known, Error> {
    let program = Program::from_text(wanted.name, wanted.bind, wanted.text.to_owned(), choice, None)?;
    let func = if program.origin.is_some() { None } else { choice.func };
    let [index] = program.functions(func)?[..] else {
        let names: Vec<&str> = program.module().funcs.iter().map(|f| f.name.as_str()).collect();
        let help = format!("choose one of `{}` with `--func`", names.join("`, `"));
        return Err(Error::Usage("the program has several functions".to_string(), help));
    };
    let workload = Workload::of(program.module(), index);
    super::program::check_concrete(workload.func())?;
    let template = match &program.origin {
        Some(origin) if origin.is_template => Some(TeSchedule::parse(wanted.text, wanted.name, origin.wanted())?),
        _ => None,
    };
    let name = match choice.args {
        Some(args) => format!("{}({args})", workload.name),
        None => workload.name.to_string(),
    };
    Ok(Known { name, workload, template })
}

/// Makes the schedule of a line.
fn carry_out(line: &Line, known: &Known, schedule: &mut Schedule) -> Result<(), Untranslated> {
    match line {
        Line::Ansor(line) => state::replay(&line.steps, schedule, 0),
        Line::AutoTvm(line) => {
            let Some(template) = &known.template else {
                let detail = format!("`{}` has no knobs", known.name);
                return Err(Untranslated::new("its candidates need the template", detail));
            };
            template
                .apply_with(&line.entities, schedule)
                .map_err(|e| Untranslated::new("it does not fit the template", e.diagnostic.message.clone()))
        }
    }
}

/// The arguments of a task as a command line gives them: `1024,1024,"float32"`.
fn arguments(task: &Task) -> Result<String, Untranslated> {
    let all: Option<Vec<String>> = task.args.iter().map(shown).collect();
    all.map(|all| all.join(","))
        .ok_or_else(|| Untranslated::new("an argument of its task is a tensor", format!("the task is `{}`", task.name)))
}

/// An argument; `None` if it is a tensor (`["TENSOR", [8, 8], "float32"]`) or no value of Python.
fn shown(arg: &Value) -> Option<String> {
    Some(match arg {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => json!(s).to_string(),
        Value::Array(all) if all.first().and_then(Value::as_str) == Some("TENSOR") => return None,
        Value::Array(all) => format!("[{}]", all.iter().map(shown).collect::<Option<Vec<_>>>()?.join(",")),
        Value::Object(_) => return None,
    })
}
