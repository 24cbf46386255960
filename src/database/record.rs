//! Tuning records: one line of `database_tuning_record.json` as a value.
//!
//! The line is `[workload, [trace, run_secs, target, args_info], extra]`. Its second element is what TVM's
//! `TuningRecord.from_json` reads; everything TVM has no field for is in `extra`. docs/database.md describes each field.

use super::decimal::Decimal;
use super::split::{self, split};
use super::timestamp::Timestamp;
use super::{RECORD_FORMAT, Reason, WorkloadId};
use crate::ir::Func;
use crate::machine::{CpuKey, NotACpuTarget, threads_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// One candidate and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TuningRecord {
    /// The function it is a schedule of.
    pub workload: WorkloadId,
    /// The trace in TVM's JSON form, postprocessing included.
    pub trace: Value,
    /// Its times, or why it has none.
    pub outcome: Outcome,
    /// The target in TVM's JSON form; `num-cores` is the number of threads.
    pub target: Value,
    /// The arguments of the function.
    pub args_info: Vec<ArgInfo>,
    /// Under which circumstances it was measured.
    pub context: Context,
}

/// What became of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It gave the right result, or was not checked ([`Context::checked`]).
    Measured(Times),
    /// It gave none.
    Failed(Failure),
}

/// How long a candidate took.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times {
    /// Seconds of a call as they rank candidates: their mean counts, as in TVM. All positive and finite, at least one.
    pub run_secs: Vec<f64>,
    /// Seconds per call of every batch that was timed, in order.
    pub batch_secs: Vec<f64>,
    /// Calls in a batch.
    pub calls: u64,
}

/// Why a candidate has no time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, of which reports make a histogram.
    pub kind: FailureKind,
    /// The stage that failed: `lower`, `codegen`, `check`, `run`, …
    pub stage: String,
    /// The schedule primitive or pass, where one is to blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primitive: Option<String>,
    /// One line for people.
    pub message: String,
}

/// Kinds of failure. Kinds that a later version adds are kept by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum FailureKind {
    /// It could not be lowered or compiled, or an access could not be proved in bounds.
    Compile,
    /// Its output differs from the reference.
    WrongResult,
    /// It ran into the deadline.
    Timeout,
    /// It reported an error while running, such as a division by zero.
    Runtime,
    /// It took its process down.
    Crash,
    /// A kind this version does not know.
    Other(String),
}

impl FailureKind {
    /// The name in records.
    pub fn name(&self) -> &str {
        match self {
            FailureKind::Compile => "compile",
            FailureKind::WrongResult => "wrong_result",
            FailureKind::Timeout => "timeout",
            FailureKind::Runtime => "runtime",
            FailureKind::Crash => "crash",
            FailureKind::Other(name) => name,
        }
    }
}

impl From<String> for FailureKind {
    fn from(name: String) -> Self {
        use FailureKind::*;
        let known = [Compile, WrongResult, Timeout, Runtime, Crash];
        known.into_iter().find(|k| k.name() == name).unwrap_or(Other(name))
    }
}

impl From<FailureKind> for String {
    fn from(kind: FailureKind) -> Self {
        kind.name().to_owned()
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a record is a measurement of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A candidate of the search, counted as a trial.
    #[default]
    Trial,
    /// The program as written.
    Baseline,
    /// A candidate measured again, as finalists are; supersedes earlier records of the program, counts as no new trial.
    Rerun,
}

/// Under which circumstances a candidate was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Context {
    /// The hash of the workload: the index alone would not notice a workload table that was edited.
    pub workload_hash: Option<u64>,
    /// The hash of the program after postprocessing.
    pub program: Option<u64>,
    /// What is measured.
    pub role: Role,
    /// The instruction set that was generated.
    pub isa: String,
    /// Were contraction and reassociation of floating-point operations off?
    pub strict_fp: bool,
    /// The number of threads.
    pub threads: u32,
    /// Was the result compared with the reference?
    pub checked: bool,
    /// The version of tvmr.
    pub tvmr: String,
    /// The name of the search space.
    pub space: String,
    /// The name of the search strategy.
    pub strategy: String,
    /// The seed of the search.
    pub seed: u64,
    /// The number of the trial within its run, from 1; 0 where there is none.
    pub trial: u64,
    /// Seconds from trace to callable code.
    pub compile_secs: Option<f64>,
    /// When it was measured.
    pub time: Timestamp,
    /// Fields of later versions, kept as they are.
    pub other: Map<String, Value>,
}

/// An argument of a function as TVM's records write it: `["TENSOR", "float32", [128, 128]]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "(String, String, Vec<i64>)", from = "(String, String, Vec<i64>)")]
pub struct ArgInfo {
    /// TVM knows `TENSOR` alone.
    pub kind: String,
    /// The type of the elements.
    pub dtype: String,
    /// The extents.
    pub shape: Vec<i64>,
}

impl ArgInfo {
    /// The buffers a function takes, in order. Scalars and buffers with symbolic extents are left out, as TVM has no
    /// form for them.
    pub fn of(func: &Func) -> Vec<ArgInfo> {
        func.params
            .iter()
            .filter_map(|p| {
                let buffer = func.arena.buffer(p.buffer?);
                let shape: Option<Vec<i64>> =
                    func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e)).collect();
                Some(ArgInfo { kind: "TENSOR".into(), dtype: buffer.dtype.name().into(), shape: shape? })
            })
            .collect()
    }
}

impl From<(String, String, Vec<i64>)> for ArgInfo {
    fn from((kind, dtype, shape): (String, String, Vec<i64>)) -> Self {
        ArgInfo { kind, dtype, shape }
    }
}

impl From<ArgInfo> for (String, String, Vec<i64>) {
    fn from(a: ArgInfo) -> Self {
        (a.kind, a.dtype, a.shape)
    }
}

/// TVM's stand-in for a time that was not measured.
const TVM_UNDEFINED_SECS: f64 = 1e10;

/// The mean of run times, if they are ones: at least one, all positive, finite and measured.
pub(super) fn mean_secs(run_secs: &[f64]) -> Option<f64> {
    let valid = |t: &f64| t.is_finite() && *t > 0.0 && *t < TVM_UNDEFINED_SECS;
    (!run_secs.is_empty() && run_secs.iter().all(valid)).then(|| run_secs.iter().sum::<f64>() / run_secs.len() as f64)
}

impl Times {
    /// Times of one number.
    pub fn of(secs: f64) -> Times {
        Times { run_secs: vec![secs], batch_secs: Vec::new(), calls: 1 }
    }

    /// The seconds that rank the candidate.
    pub fn secs(&self) -> f64 {
        mean_secs(&self.run_secs).expect("run times are positive and finite, at least one")
    }
}

impl TuningRecord {
    /// The seconds that rank the candidate, if it has any.
    pub fn secs(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Measured(times) => Some(times.secs()),
            Outcome::Failed(_) => None,
        }
    }

    /// Why the candidate has no time, if so.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// The CPU it was measured on.
    pub fn cpu(&self) -> Result<CpuKey, NotACpuTarget> {
        CpuKey::of_json(&self.target)
    }

    /// The line, with its line break.
    pub(super) fn to_line(&self) -> String {
        let (run_secs, extra) = (self.run_secs_json(), self.extra_json());
        let second = (&self.trace, run_secs, &self.target, &self.args_info);
        let mut line = serde_json::to_string(&(self.workload.0, second, extra))
            .expect("values with text keys and finite numbers have a JSON form");
        line.push('\n');
        line
    }

    fn run_secs_json(&self) -> Value {
        match &self.outcome {
            Outcome::Measured(times) => {
                assert!(mean_secs(&times.run_secs).is_some(), "run times are positive and finite: {times:?}");
                times.run_secs.clone().into()
            }
            Outcome::Failed(_) => Value::Null,
        }
    }

    fn extra_json(&self) -> ExtraJson {
        let c = self.context.clone();
        let (status, error, batch_secs, calls) = match &self.outcome {
            Outcome::Measured(t) => (Status::Ok, None, t.batch_secs.clone(), t.calls),
            Outcome::Failed(f) => (Status::Error, Some(f.clone()), Vec::new(), 0),
        };
        ExtraJson {
            format: RECORD_FORMAT,
            workload: c.workload_hash.map(Decimal),
            program: c.program.map(Decimal),
            role: c.role,
            status,
            error,
            batch_secs,
            calls,
            isa: c.isa,
            fp: if c.strict_fp { FpMode::Strict } else { FpMode::Fast },
            threads: Some(c.threads),
            checked: c.checked,
            tvmr: c.tvmr,
            space: c.space,
            strategy: c.strategy,
            seed: c.seed,
            trial: c.trial,
            compile_secs: c.compile_secs,
            time: c.time,
            other: c.other,
        }
    }

    /// The record of a line that [`super::split`] can split. A line of TVM's own, without `extra`, gives a record with
    /// an empty context.
    pub(super) fn from_line(line: &[u8]) -> Result<TuningRecord, Reason> {
        let malformed = |e: serde_json::Error| Reason::Malformed(e.to_string());
        let parts = split(line).map_err(split::malformed)?;
        if let Some(extra) = &parts.extra {
            // A later format may look otherwise, so its version is told before its shape is.
            #[derive(Deserialize)]
            struct Version {
                format: u64,
            }
            let Version { format } = serde_json::from_slice(&line[extra.clone()]).map_err(malformed)?;
            if format > u64::from(RECORD_FORMAT) {
                return Err(Reason::Version(format));
            }
        }
        let workload: u32 = serde_json::from_slice(&line[parts.workload]).map_err(malformed)?;
        let trace: Value = serde_json::from_slice(&line[parts.trace]).map_err(malformed)?;
        check_trace(&trace)?;
        let run_secs: Option<Vec<f64>> = serde_json::from_slice(&line[parts.run_secs]).map_err(malformed)?;
        let target: Value = serde_json::from_slice(&line[parts.target]).map_err(malformed)?;
        let args_info: Option<Vec<ArgInfo>> = serde_json::from_slice(&line[parts.args_info]).map_err(malformed)?;
        let extra: Option<ExtraJson> = match parts.extra {
            Some(range) => Some(serde_json::from_slice(&line[range]).map_err(malformed)?),
            None => None,
        };
        let (outcome, context) = interpret(run_secs, extra, &target)?;
        let args_info = args_info.unwrap_or_default();
        Ok(TuningRecord { workload: WorkloadId(workload), trace, outcome, target, args_info, context })
    }
}

/// Is it `[instructions, decisions]`, each instruction of four parts? More the trace reader says.
fn check_trace(trace: &Value) -> Result<(), Reason> {
    let fail = |expected: &str| Err(Reason::Malformed(format!("trace: expected {expected}")));
    let Some([instructions, decisions]) = trace.as_array().map(Vec::as_slice) else {
        return fail("[instructions, decisions]");
    };
    let (Some(instructions), Some(decisions)) = (instructions.as_array(), decisions.as_array()) else {
        return fail("two lists");
    };
    for i in instructions {
        let four = i.as_array().is_some_and(|p| p.len() == 4 && p[0].is_string() && p[1..].iter().all(Value::is_array));
        if !four {
            return fail("each instruction to be [kind, inputs, attrs, outputs]");
        }
    }
    if !decisions.iter().all(|d| d.as_array().is_some_and(|p| p.len() == 2 && p[0].is_u64())) {
        return fail("each decision to be [instruction, value]");
    }
    Ok(())
}

fn interpret(
    run_secs: Option<Vec<f64>>,
    extra: Option<ExtraJson>,
    target: &Value,
) -> Result<(Outcome, Context), Reason> {
    let Some(e) = extra else {
        let outcome = match run_secs.filter(|t| mean_secs(t).is_some()) {
            Some(run_secs) => Outcome::Measured(Times { run_secs, batch_secs: Vec::new(), calls: 1 }),
            None => Outcome::Failed(Failure {
                kind: FailureKind::Other("unknown".into()),
                stage: "run".into(),
                primitive: None,
                message: "the record has no run time".into(),
            }),
        };
        return Ok((outcome, Context { threads: threads_of(target), ..Context::default() }));
    };
    let outcome = match (e.status, run_secs, e.error) {
        (Status::Ok, Some(run_secs), _) if mean_secs(&run_secs).is_some() => {
            Outcome::Measured(Times { run_secs, batch_secs: e.batch_secs, calls: e.calls })
        }
        (Status::Ok, ..) => return Err(Reason::Malformed("status is `ok` but there is no run time".into())),
        (Status::Error, _, Some(failure)) => Outcome::Failed(failure),
        (Status::Error, _, None) => return Err(Reason::Malformed("status is `error` but there is no `error`".into())),
    };
    let context = Context {
        workload_hash: e.workload.map(|d| d.0),
        program: e.program.map(|d| d.0),
        role: e.role,
        isa: e.isa,
        strict_fp: e.fp == FpMode::Strict,
        threads: e.threads.unwrap_or_else(|| threads_of(target)),
        checked: e.checked,
        tvmr: e.tvmr,
        space: e.space,
        strategy: e.strategy,
        seed: e.seed,
        trial: e.trial,
        compile_secs: e.compile_secs,
        time: e.time,
        other: e.other,
    };
    Ok((outcome, context))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    Error,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FpMode {
    #[default]
    Fast,
    Strict,
}

/// The object `extra` as it stands in a line; the order of fields is that of writing.
#[derive(Serialize, Deserialize)]
struct ExtraJson {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Decimal>,
    #[serde(default)]
    role: Role,
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(default)]
    batch_secs: Vec<f64>,
    #[serde(default)]
    calls: u64,
    #[serde(default)]
    isa: String,
    #[serde(default)]
    fp: FpMode,
    threads: Option<u32>,
    #[serde(default)]
    checked: bool,
    #[serde(default)]
    tvmr: String,
    #[serde(default)]
    space: String,
    #[serde(default)]
    strategy: String,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    trial: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compile_secs: Option<f64>,
    #[serde(default)]
    time: Timestamp,
    #[serde(flatten)]
    other: Map<String, Value>,
}
