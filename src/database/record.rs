//! Tuning records: the lines of `database_tuning_record.json` as values.
//!
//! The line is `[workload, [trace, run_secs, target, args_info], extra]`. Its second element is what TVM's
//! `TuningRecord.from_json` reads; everything for which TVM has no field is in `extra`. docs/database.md describes each
//! field.

use super::decimal::Decimal;
use super::split::{self, split};
use super::timestamp::Timestamp;
use super::{RECORD_FORMAT, Reason, WorkloadId};
use crate::ir::Func;
use crate::machine::threads_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// A candidate and its outcome.
#[derive(Clone, PartialEq, Debug)]
pub struct TuningRecord {
    /// The function that it schedules.
    pub workload: WorkloadId,
    /// The trace in TVM's JSON form, postprocessing included.
    pub trace: Value,
    /// Its times, or its failure.
    pub outcome: Outcome,
    /// The target in TVM's JSON form; `num-cores` is the number of threads.
    pub target: Value,
    /// The arguments of the function.
    pub args_info: Vec<ArgInfo>,
    /// The setting of the measurement.
    pub context: Context,
}

/// The outcome of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Its result was right, or was not checked ([`Context::checked`]).
    Measured(Times),
    /// It has no valid time.
    Failed(Failure),
    /// It was not measured: a schedule to try.
    Untried,
}

/// The times of a candidate.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times {
    /// Seconds per call, for ranking by their mean, as in TVM. At least one; all positive and finite.
    pub run_secs: Vec<f64>,
    /// Seconds per call of each timed batch, in order.
    pub batch_secs: Vec<f64>,
    /// Number of calls in a batch.
    pub calls: u64,
}

/// Why a candidate has no time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the failure, for statistics.
    pub kind: FailureKind,
    /// Stage that failed: `lower`, `codegen`, `check`, `run`, …
    pub stage: String,
    /// The schedule primitive or pass at fault, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primitive: Option<String>,
    /// One-line message.
    pub message: String,
}

/// Kinds of failure. Unknown kinds of later versions are kept by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum FailureKind {
    /// It could not be lowered or compiled, or an access could not be proved in bounds.
    Compile,
    /// Its output differs from the reference.
    WrongResult,
    /// It exceeded its time limit.
    Timeout,
    /// It reported an error while running, such as a division by zero.
    Runtime,
    /// It ended its process.
    Crash,
    /// A kind that this version does not know.
    Other(String),
}

impl FailureKind {
    /// The name used in records.
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

/// The role of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A candidate of the search, counted as a trial.
    #[default]
    Trial,
    /// The program as written.
    Baseline,
    /// A repeated measurement, as of finalists; replaces earlier records of the program and is not counted as a trial.
    Rerun,
}

/// The setting in which a candidate was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Context {
    /// Hash of the workload, to detect an edited workload table.
    pub workload_hash: Option<u64>,
    /// Hash of the program after postprocessing.
    pub program: Option<u64>,
    /// The role of the measurement.
    pub role: Role,
    /// Instruction set of the generated code.
    pub isa: String,
    /// Whether contraction and reassociation of floating-point operations were off.
    pub strict_fp: bool,
    /// Number of threads.
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
    /// Number of the trial within its run, from 1; 0 if unknown.
    pub trial: u64,
    /// Seconds from trace to callable code.
    pub compile_secs: Option<f64>,
    /// Time of the measurement.
    pub time: Timestamp,
    /// Fields of later versions, kept unchanged.
    pub other: Map<String, Value>,
}

/// An argument of a function as in TVM's records: `["TENSOR", "float32", [128, 128]]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "(String, String, Vec<i64>)", from = "(String, String, Vec<i64>)")]
pub struct ArgInfo {
    /// Kind; TVM knows only `TENSOR`.
    pub kind: String,
    /// Element type.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<i64>,
}

impl ArgInfo {
    /// The buffer parameters of a function, in order. Scalars and buffers with symbolic extents are omitted, since TVM
    /// has no form for them.
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

/// TVM's placeholder for a time that was not measured.
const TVM_UNDEFINED_SECS: f64 = 1e10;

/// The mean of run times, if they are valid: at least one, all positive, finite and measured.
pub(super) fn mean_secs(run_secs: &[f64]) -> Option<f64> {
    let valid = |t: &f64| t.is_finite() && *t > 0.0 && *t < TVM_UNDEFINED_SECS;
    (!run_secs.is_empty() && run_secs.iter().all(valid)).then(|| run_secs.iter().sum::<f64>() / run_secs.len() as f64)
}

impl Times {
    /// Times that consist of a single number.
    pub fn of(secs: f64) -> Times {
        Times { run_secs: vec![secs], batch_secs: Vec::new(), calls: 1 }
    }

    /// The seconds that rank the candidate.
    pub fn secs(&self) -> f64 {
        mean_secs(&self.run_secs).expect("run times are positive and finite, at least one")
    }
}

impl TuningRecord {
    /// The seconds that rank the candidate, if it has a valid time.
    pub fn secs(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Measured(times) => Some(times.secs()),
            Outcome::Failed(_) | Outcome::Untried => None,
        }
    }

    /// The candidate's failure, if it has no valid time.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Measured(_) | Outcome::Untried => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// The line, including the newline.
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
            Outcome::Failed(_) | Outcome::Untried => Value::Null,
        }
    }

    fn extra_json(&self) -> ExtraJson {
        let c = self.context.clone();
        let (status, error, batch_secs, calls) = match &self.outcome {
            Outcome::Measured(t) => (Status::Ok, None, t.batch_secs.clone(), t.calls),
            Outcome::Failed(f) => (Status::Error, Some(f.clone()), Vec::new(), 0),
            Outcome::Untried => (Status::Untried, None, Vec::new(), 0),
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
            threads: (self.outcome != Outcome::Untried).then_some(c.threads),
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

    /// Parses a line that [`super::split`] can split. A line written by TVM, without `extra`, gives a record with an
    /// empty context.
    pub(super) fn from_line(line: &[u8]) -> Result<TuningRecord, Reason> {
        let malformed = |e: serde_json::Error| Reason::Malformed(e.to_string());
        let parts = split(line).map_err(split::malformed)?;
        if let Some(extra) = &parts.extra {
            // A later format may have another shape, so the version is checked first.
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

/// Checks that the trace is `[instructions, decisions]`, with four parts per instruction. The trace reader checks the
/// rest.
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
        (Status::Untried, ..) => Outcome::Untried,
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
    Untried,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FpMode {
    #[default]
    Fast,
    Strict,
}

/// The object `extra` of a line, with its fields in the order of writing.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
