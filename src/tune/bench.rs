//! `tvmr bench`: checks and times one program.

use super::backend::{Backend, Compiled, MeasureSession, SessionError, failure_of};
use super::function_rates::measured_roofline;
use super::native::Native;
use crate::check::params;
use crate::database::{Failure, FailureKind};
use crate::ir::Func;
use crate::measure::{RunFailure, Verdict};
use crate::perf::flops::{self, Work};
use crate::perf::roofline::Roofline;
use crate::workload::Workload;
use serde::Serialize;

/// The report of a benchmark. Field names are interface (docs/tuning.md).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BenchReport {
    /// The function.
    pub func: String,
    /// The median time of a call, in microseconds.
    pub us: f64,
    /// The least time of a call, in microseconds.
    pub min_us: f64,
    /// 10^9 operations per second.
    pub gflops: Option<f64>,
    /// 10^9 bytes per second; each parameter counts once.
    pub gbs: f64,
    /// The peak of this machine, in 10^9 operations per second.
    pub peak_gflops: Option<f64>,
    /// `gflops` over `peak_gflops`.
    pub peak_fraction: Option<f64>,
    /// The peak of the instruction set that the code is for, in 10^9 operations per second, if it has narrower vectors than
    /// this machine.
    pub isa_peak_gflops: Option<f64>,
    /// `gflops` over `isa_peak_gflops`.
    pub isa_peak_fraction: Option<f64>,
    /// The roofline bound over the median time.
    pub roofline_fraction: Option<f64>,
    /// The roofline.
    #[serde(flatten)]
    pub roofline: Roofline,
    /// Microseconds of lowering and compiling.
    pub compile_us: f64,
    /// Were constant parameters prepared once, before the calls?
    pub prepared: bool,
    /// Microseconds of the preparation.
    pub prepare_us: Option<f64>,
    /// Was the result compared with the reference?
    pub checked: bool,
    /// The instruction set.
    pub isa: String,
    /// The number of threads.
    pub threads: u32,
    /// Cores that other processes used meanwhile, if they were enough to disturb measurements.
    pub busy_cores: Option<f64>,
}

/// The reason why a program was not benchmarked.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum BenchError {
    /// The program does not compile, gives a wrong result, or fails.
    #[error("{}: {}", .0.stage, .0.message)]
    Program(Failure),
    /// The machine lacks memory or threads.
    #[error("{0}")]
    Machine(String),
}

/// Checks and times a scheduled version of a workload.
///
/// # Errors
/// See [`BenchError`].
pub fn bench(native: &Native, workload: &Workload, func: &Func, program: u64) -> Result<BenchReport, BenchError> {
    params::passed_as_written(workload.func(), func).map_err(BenchError::Program)?;
    let Compiled { code, secs: compile_secs } = native.compile(program, func).map_err(BenchError::Program)?;
    let mut session = native.open(workload).map_err(|e| match e {
        SessionError::Program(message) => BenchError::Program(failure(FailureKind::Compile, "reference", message)),
        SessionError::Machine(why) => BenchError::Machine(why),
        SessionError::Stopped => BenchError::Machine("stopped".to_owned()),
    })?;
    let _pinned = native.pin();
    let verdict = session.runner().check_only(&code).map_err(|outcome| {
        let broken = session.broken().map(|why| failure(FailureKind::Runtime, "reference", why));
        BenchError::Program(broken.unwrap_or_else(|| match failure_of(outcome, None) {
            Err(failure) => failure,
            Ok(_) => failure(FailureKind::Other("unknown".into()), "check", "no verdict".into()),
        }))
    })?;
    let bench = session.bench(&code).map_err(|e| BenchError::Program(failed_run(&e)))?;
    let preparation = session.runner().preparation(&code).map_err(|e| BenchError::Program(failed_run(&e)))?;
    let Work { flops, bytes } = flops::work(workload.func());
    let secs = bench.summary.median;
    let peak = if flops > 0.0 { session.peak().map(|p| p.flops()) } else { None };
    let isa_peak = peak.and_then(|_| native.narrow_peak_setting(workload)).map(|s| s.measure().flops());
    let threads = native.setting().threads;
    let roofline = measured_roofline(native, workload.func(), bytes, peak);
    Ok(BenchReport {
        func: workload.name.as_str().to_owned(),
        us: secs * 1e6,
        min_us: bench.summary.min * 1e6,
        gflops: (flops > 0.0).then_some(flops / secs / 1e9),
        gbs: bytes as f64 / secs / 1e9,
        peak_gflops: peak.map(|p| p / 1e9),
        peak_fraction: peak.map(|peak| flops / secs / peak),
        isa_peak_gflops: isa_peak.map(|p| p / 1e9),
        isa_peak_fraction: isa_peak.map(|peak| flops / secs / peak),
        roofline_fraction: Some(roofline.bound_us / 1e6 / secs).filter(|f| f.is_finite() && *f > 0.0),
        roofline,
        compile_us: compile_secs * 1e6,
        prepared: preparation.is_some(),
        prepare_us: preparation.map(|secs| secs * 1e6),
        checked: verdict == Verdict::Right,
        isa: native.setting().isa.name().to_owned(),
        threads,
        busy_cores: native.load().disturbance(),
    })
}

fn failure(kind: FailureKind, stage: &str, message: String) -> Failure {
    Failure { kind, stage: stage.to_owned(), primitive: None, message }
}

/// A failed run as a failure of a record.
pub(super) fn failed_run(run: &RunFailure) -> Failure {
    match run {
        RunFailure::Stopped => failure(FailureKind::Timeout, "run", "it took longer than a minute".to_owned()),
        RunFailure::Failed(message) => failure(FailureKind::Runtime, "run", message.clone()),
    }
}
