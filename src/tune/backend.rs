//! The driver's interface to code generation and measurement. Tests implement it without either.

use crate::database::{Failure, FailureKind, Timestamp};
use crate::ir::Func;
use crate::measure::timing::Bench;
use crate::measure::{
    Advice, Arguments, Candidate, InProcess, LoadWatch, Outcome, Peak, PeakLoop, Pinned, RunFailure, Runner, Timer,
};
use crate::stop::StopFlag;
use crate::workload::Workload;
use std::sync::Arc;
use std::time::Duration;

/// Compiles programs and opens sessions that measure them.
pub trait Backend: Sync {
    /// A compiled program.
    type Code: Clone + Send;
    /// A session that measures programs of one workload.
    type MeasureSession: MeasureSession<Self::Code>;

    /// Compiles a program; called on several threads at once. `program` is its hash.
    ///
    /// # Errors
    /// The program cannot be compiled. A panic in a pass is a failure, too.
    fn compile(&self, program: u64, func: &Func) -> Result<Compiled<Self::Code>, Failure>;

    /// Opens a session: allocates the arguments of a workload, and starts to compute its reference.
    ///
    /// # Errors
    /// See [`SessionError`].
    fn open(&self, workload: &Workload) -> Result<Self::MeasureSession, SessionError>;

    /// Pins the calling thread to a core while it measures, if the back end pins threads.
    fn pin(&self) -> Option<Pinned>;

    /// The peak of this machine in operations per second, for the data type of the workload.
    fn peak_flops(&self, workload: &Workload) -> Option<f64>;

    /// A lower bound of the seconds of the workload on this machine, whose peak is `peak` operations per second; `None` if
    /// unknown. A quick estimate suffices: it tells which of several functions can still gain.
    fn bound(&self, workload: &Workload, peak: Option<f64>) -> Option<f64>;

    /// The time since some fixed point.
    fn now(&self) -> Duration;

    /// A timer that, once armed, raises the flag when its time has passed; `None` if there is none.
    fn alarm(&self, stop: &StopFlag) -> Option<Box<dyn Timer>>;

    /// The time of day.
    fn time(&self) -> Timestamp;
}

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Compiled<C> {
    /// The code.
    pub code: C,
    /// Seconds of lowering and compiling.
    pub secs: f64,
}

/// A session that measures programs of one workload.
pub trait MeasureSession<C>: Runner<C> {
    /// Benchmarks a program as `tvmr bench` does.
    ///
    /// # Errors
    /// The program failed.
    fn bench(&mut self, code: &C) -> Result<Bench, RunFailure>;

    /// Measures the peak of this machine for the data type of the workload; `None` if there is no peak to compare with.
    fn peak(&mut self) -> Option<Peak>;

    /// The least seconds of a few runs of a program; `None` if a run fails or takes longer than `limit`.
    fn least_secs(&mut self, code: &C, limit: Duration) -> Option<f64>;

    /// Limits the time of every further call.
    fn set_ceiling(&mut self, ceiling: Option<Duration>);

    /// The reason why no result can be checked, such as a failed reference.
    fn broken(&self) -> Option<String>;

    /// Advice about the machine, if there is any.
    fn advice(&self) -> Option<Advice>;

    /// The time spent on checking results.
    fn checking_time(&self) -> Duration;
}

/// The reason why a session cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionError {
    /// The program as written cannot be compiled.
    #[error("{0}")]
    Program(String),
    /// The machine lacks memory or threads.
    #[error("{0}")]
    Machine(String),
    /// The run was stopped before.
    #[error("stopped")]
    Stopped,
}

/// A session in this process, with the loop that measures the peak.
pub struct InProcessSession<T> {
    pub(super) runner: InProcess<T>,
    pub(super) peak: Option<PeakSetting>,
    pub(super) load: LoadWatch,
}

/// The loop that measures the peak, and its threads.
#[derive(Clone, Debug)]
pub struct PeakSetting {
    /// The loop.
    pub peak_loop: PeakLoop,
    /// As many threads as kernels have, but at most one for each core.
    pub threads: u32,
    /// The cores that the threads are pinned to; empty if they are not.
    pub cores: Arc<[usize]>,
}

impl PeakSetting {
    /// Measures the peak.
    pub fn measure(&self) -> Peak {
        Peak::measure(&self.peak_loop, self.threads, &self.cores)
    }
}

impl<T: Timer> InProcessSession<T> {
    /// The runner.
    pub fn runner(&mut self) -> &mut InProcess<T> {
        &mut self.runner
    }

    /// The arguments.
    pub fn arguments(&mut self) -> &mut Arguments {
        self.runner.arguments()
    }
}

impl<T: Timer> Runner<Candidate> for InProcessSession<T> {
    fn measure(&mut self, candidate: &Candidate) -> Outcome {
        self.runner.measure(candidate)
    }

    fn settle(&mut self, wait: bool) -> Vec<crate::measure::Settled> {
        self.runner.settle(wait)
    }

    fn finals(&mut self, candidates: &[Candidate]) -> Vec<Outcome> {
        self.runner.finals(candidates)
    }
}

impl<T: Timer> MeasureSession<Candidate> for InProcessSession<T> {
    fn bench(&mut self, code: &Candidate) -> Result<Bench, RunFailure> {
        self.runner.bench(code)
    }

    fn peak(&mut self) -> Option<Peak> {
        self.peak.as_ref().map(PeakSetting::measure)
    }

    fn least_secs(&mut self, code: &Candidate, limit: Duration) -> Option<f64> {
        self.runner.least_secs(code, limit)
    }

    fn set_ceiling(&mut self, ceiling: Option<Duration>) {
        self.runner.set_ceiling(ceiling);
    }

    fn broken(&self) -> Option<String> {
        self.runner.reference_error().map(ToString::to_string)
    }

    fn advice(&self) -> Option<Advice> {
        // The cause, if known, says more than the symptom.
        self.load.disturbance().map(|cores| Advice::Busy { cores }).or_else(|| self.runner.advice())
    }

    fn checking_time(&self) -> Duration {
        self.runner.checking_time()
    }
}

/// Turns a failed outcome into a failure of a record.
///
/// # Errors
/// The outcome is not a measurement.
pub fn failure_of(outcome: Outcome, best_secs: Option<f64>) -> Result<crate::measure::Measurement, Failure> {
    let failure = |kind, stage: &str, message| Failure { kind, stage: stage.to_owned(), primitive: None, message };
    match outcome {
        Outcome::Measured(m) => Ok(m),
        Outcome::WrongResult(mismatch) => Err(failure(FailureKind::WrongResult, "check", mismatch.to_string())),
        Outcome::TimedOut { limit } => {
            let best = best_secs.map_or(String::new(), |secs| format!("; the best takes {}", Seconds(secs)));
            let message = format!("stopped after {}{best}", Seconds(limit.as_secs_f64()));
            Err(failure(FailureKind::Timeout, "run", message))
        }
        Outcome::RuntimeError { message } => Err(failure(FailureKind::Runtime, "run", message)),
        Outcome::Crashed { message } => Err(failure(FailureKind::Crash, "run", message)),
    }
}

/// Prints seconds in a suitable unit, with three or four digits.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (value, unit) = match self.0 {
            s if s >= 0.9995 => (s, "s"),
            s if s >= 0.9995e-3 => (s * 1e3, "ms"),
            s if s >= 0.9995e-6 => (s * 1e6, "µs"),
            s => (s * 1e9, "ns"),
        };
        let digits = if value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
        let text = format!("{value:.digits$}");
        // Zeros behind the point are left out.
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(f, "{text} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_a_unit() {
        let texts = [(0.02, "20 ms"), (1.0, "1 s"), (12.34567e-6, "12.3 µs"), (1.2345e-3, "1.23 ms"), (11e-9, "11 ns")];
        for (secs, text) in texts {
            assert_eq!(Seconds(secs).to_string(), text);
        }
        assert_eq!(Seconds(123.4e-6).to_string(), "123 µs");
        assert_eq!(Seconds(0.9999e-3).to_string(), "1 ms");
    }

    #[test]
    fn a_timeout_says_what_was_allowed() {
        let outcome = Outcome::TimedOut { limit: Duration::from_millis(20) };
        let failure = failure_of(outcome, Some(11e-9)).unwrap_err();
        assert_eq!(failure.message, "stopped after 20 ms; the best takes 11 ns");
        assert_eq!((failure.kind.name(), failure.stage.as_str()), ("timeout", "run"));
    }
}
