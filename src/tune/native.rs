//! The back end of real runs: compiles for this machine, and measures in this process.

#![expect(clippy::disallowed_methods, reason = "the clock behind the `Backend` trait")]

use super::backend::{Backend, Compiled, InProcessSession, PeakSetting, SessionError};
use super::function_rates::estimated_roofline;
use super::interrupt::Interrupt;
use crate::check::params;
use crate::check::reference::{self, Job};
use crate::codegen::{self, CodegenOptions, RunContext, Workers};
use crate::database::{Failure, FailureKind, Timestamp};
use crate::ir::{BufferId, DType, Func};
use crate::lower;
use crate::machine::{Isa, Target};
use crate::measure::{
    Arguments, ArgumentsError, Candidate, InProcess, LoadWatch, Loaded, PeakLoop, PeakWork, Pinned, RealTimer,
    Reference, ReferenceCache, ReferenceError, ReferenceJob, ReferenceKey, RunnerOptions, Timer, pin_here, pin_to,
    placement,
};
use crate::perf::flops::{self, Arithmetic, Work};
use crate::search::isolated;
use crate::stop::StopFlag;
use crate::workload::Setting;
use crate::workload::Workload;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The seed of the arguments. It is not the seed of the search, so that one reference serves every search.
const DATA_SEED: u64 = 0;
/// The time limit of a call while no time is known, for each 10^9 operations and bytes, and at least. Slower programs are
/// not worth waiting for.
const FIRST_LIMIT: Duration = Duration::from_secs(5);
/// A reference that takes longer than this is kept on disk.
const WORTH_KEEPING: Duration = Duration::from_millis(100);

/// Compiles for this machine, and measures on it.
pub struct Native {
    setting: Setting,
    options: CodegenOptions,
    runner: RunnerOptions,
    context: Arc<Mutex<RunContext>>,
    stop: StopFlag,
    /// The directory of references.
    references: Option<PathBuf>,
    interrupt: Interrupt,
    /// The clock of the run; its deadline is never armed.
    clock: RealTimer,
    /// Whether threads are pinned while they measure.
    pins: bool,
    /// The core that measures; parallel loops use the others, too. `None` where it is the current one, or none.
    core: Option<usize>,
    /// The cores that threads are pinned to; empty if they are not.
    cores: Arc<[usize]>,
    load: LoadWatch,
    native: Target,
}

/// The directory of references in a work directory.
pub fn reference_dir(work_dir: &Path) -> PathBuf {
    work_dir.join("reference")
}

impl Native {
    /// A back end for a setting. References are looked up in the directory `references`, and kept there if they took long.
    ///
    /// The system decides on which cores threads run, as it does for the rest of the caller's process;
    /// [`Native::pinned`] measures with less noise.
    ///
    /// # Errors
    /// The system refuses threads.
    pub fn new(setting: &Setting, references: Option<PathBuf>, interrupt: &Interrupt) -> std::io::Result<Native> {
        Native::with(setting, references, interrupt, false)
    }

    /// A back end that pins threads to cores: the calling thread while it measures, whose affinity is restored
    /// afterwards, and its own threads for parallel loops.
    ///
    /// # Errors
    /// The system refuses threads.
    pub fn pinned(setting: &Setting, references: Option<PathBuf>, interrupt: &Interrupt) -> std::io::Result<Native> {
        Native::with(setting, references, interrupt, true)
    }

    fn with(
        setting: &Setting,
        references: Option<PathBuf>,
        interrupt: &Interrupt,
        pins: bool,
    ) -> std::io::Result<Native> {
        let threads = setting.threads.max(1) as usize;
        let all = if pins { crate::measure::cores() } else { Vec::new() };
        let (pinning, core) = placement(&all, threads);
        let context = RunContext::new(Arc::new(Workers::new(threads, &pinning)?));
        let stop = context.stop_flag().clone();
        interrupt.also_stop(Arc::new(stop.clone()));
        let clock = RealTimer::new(Arc::new(StopFlag::new()))?;
        Ok(Native {
            options: setting.codegen(),
            runner: RunnerOptions::default(),
            setting: setting.clone(),
            context: Arc::new(Mutex::new(context)),
            stop,
            references,
            interrupt: interrupt.clone(),
            clock,
            pins,
            core,
            cores: all.into(),
            load: LoadWatch::new(),
            native: Target::native().target,
        })
    }

    /// The setting in which it compiles and measures.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// This machine.
    pub fn machine(&self) -> &Target {
        &self.native
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Timer {
        &self.clock
    }

    /// The load of the machine by other processes.
    pub fn load(&self) -> &LoadWatch {
        &self.load
    }

    /// The loop that measures the peak for a workload: in its data type, with the widest vectors of this machine, whatever
    /// instruction set code is generated for.
    pub(super) fn peak_setting(&self, workload: &Workload) -> Option<PeakSetting> {
        self.peak_setting_of(self.native.best_isa(), workload)
    }

    /// As [`Native::peak_setting`], with the vectors of the instruction set that code is generated for; `None` if they are
    /// the widest.
    pub(super) fn narrow_peak_setting(&self, workload: &Workload) -> Option<PeakSetting> {
        let isa = self.setting.isa;
        (isa.vector_bits() < self.native.best_isa().vector_bits()).then(|| self.peak_setting_of(isa, workload))?
    }

    fn peak_setting_of(&self, isa: Isa, workload: &Workload) -> Option<PeakSetting> {
        let func = workload.func();
        let types: Vec<DType> = func
            .params
            .iter()
            .filter_map(|p| Some(func.arena.buffer(p.buffer?).dtype))
            .filter(|t| t.is_float())
            .collect();
        let peak_loop = match (types.is_empty(), types.contains(&DType::Float64)) {
            (true, _) => {
                let dots = flops::multiplies_bytes(func).then(|| PeakLoop::new(isa, PeakWork::Dots)).flatten();
                let integers = || {
                    let Arithmetic { bits, multiplies } = flops::integer_arithmetic(func)?;
                    PeakLoop::new(isa, PeakWork::Integers { bits, multiplies })
                };
                dots.or_else(integers)?
            }
            (_, true) => PeakLoop::new(isa, PeakWork::Float64)?,
            // Half precision is computed in float32.
            (_, false) => PeakLoop::new(isa, PeakWork::Float32)?,
        };
        Some(self.setting_of(peak_loop))
    }

    fn setting_of(&self, peak_loop: PeakLoop) -> PeakSetting {
        // More threads than cores are no faster.
        let threads = self.setting.threads.min(self.native.cores.max(1));
        PeakSetting { peak_loop, threads, cores: self.cores.clone() }
    }

    /// Additions and maxima of floats per second, in the data type of a function and with the widest vectors; `None` if this machine has
    /// no loop for them.
    pub(super) fn rate_of_sums(&self, func: &Func) -> Option<f64> {
        let is_double = |b: BufferId| func.arena.buffer(b).dtype == DType::Float64;
        let has_doubles = func.params.iter().filter_map(|p| p.buffer).any(is_double);
        let work = if has_doubles { PeakWork::Sums64 } else { PeakWork::Sums32 };
        Some(self.setting_of(PeakLoop::new(self.native.best_isa(), work)?).measure().flops())
    }

    fn reference(&self, job: Job) -> ReferenceJob {
        if let Some(reference) = job.kept() {
            return ReferenceJob::ready(reference);
        }
        let started = std::time::Instant::now();
        ReferenceJob::spawn(move || -> Result<Reference, ReferenceError> {
            job.compute(|| started.elapsed() > WORTH_KEEPING)
        })
    }
}

impl Backend for Native {
    type Code = Candidate;
    type MeasureSession = InProcessSession<RealTimer>;

    fn compile(&self, program: u64, func: &Func) -> Result<Compiled<Candidate>, Failure> {
        let start = self.now();
        let compile = |func: &Func| {
            let (func, options) = (func.clone(), self.options);
            let compiled = abandonable(self.interrupt.flag(), move || {
                let kernel = staged("lower", || lower::lower(&func).map_err(|e| e.to_string()))?;
                staged("codegen", || codegen::compile(&kernel, &options).map_err(|e| e.to_string()))
            });
            compiled.unwrap_or_else(|| {
                let message = "stopped before it was compiled".to_owned();
                Err(Failure { kind: FailureKind::Compile, stage: "codegen".to_owned(), primitive: None, message })
            })
        };
        let threads = self.setting.threads.max(1);
        let code = Arc::new(Loaded::of(func, self.context.clone(), threads, compile)?);
        let secs = self.now().saturating_sub(start).as_secs_f64();
        Ok(Compiled { code: Candidate { program, code }, secs })
    }

    fn open(&self, workload: &Workload) -> Result<Self::MeasureSession, SessionError> {
        let func = workload.func();
        let stop = self.interrupt.flag();
        let (own, until) = (workload.clone(), stop.clone());
        let plain =
            abandonable(stop, move || staged("lower", || reference::plain(&own, until).map_err(|e| e.to_string())));
        let plain = plain.ok_or(SessionError::Stopped)?.map_err(|failure| SessionError::Program(failure.message))?;
        let specs = params::specs(func, &plain.kernel).map_err(SessionError::Program)?;
        let args = Arguments::until(&specs, DATA_SEED, stop).map_err(|e| match e {
            ArgumentsError::Memory(_) => SessionError::Machine(e.to_string()),
            ArgumentsError::Stopped => SessionError::Stopped,
        })?;
        let reference = self.setting.check.then(|| {
            let key = ReferenceKey { workload: workload.hash, seed: DATA_SEED };
            let cache = self.references.as_ref().map(|dir| (ReferenceCache::new(dir), key));
            let context = RunContext::serial();
            self.interrupt.also_stop(Arc::new(context.stop_flag().clone()));
            let context = Arc::new(Mutex::new(context));
            let stop = stop.clone();
            self.reference(Job { func: func.clone(), plain, specs, seed: DATA_SEED, cache, context, stop })
        });
        let timer = RealTimer::new(Arc::new(self.stop.clone())).map_err(|e| SessionError::Machine(e.to_string()))?;
        // A kernel that reads uninitialised scratch memory gives a wrong result.
        self.context.lock().unwrap_or_else(PoisonError::into_inner).poison_scratch(0xff);
        let Work { flops, bytes } = flops::work(func);
        let first_limit = FIRST_LIMIT.mul_f64(((flops + bytes as f64) / 1e9).clamp(1.0, 1e6));
        let options = RunnerOptions { first_limit, ..self.runner };
        Ok(InProcessSession {
            runner: InProcess::new(args, timer, reference, options),
            peak: self.peak_setting(workload),
            load: self.load.clone(),
        })
    }

    fn pin(&self) -> Option<Pinned> {
        self.pins.then(|| self.core.map_or_else(pin_here, pin_to))
    }

    fn peak_flops(&self, workload: &Workload) -> Option<f64> {
        let _pinned = self.pin();
        Some(self.peak_setting(workload)?.measure().flops())
    }

    fn bound(&self, workload: &Workload, peak: Option<f64>) -> Option<f64> {
        let _pinned = self.pin();
        let func = workload.func();
        let bytes = flops::work(func).bytes;
        let roofline = isolated(|| estimated_roofline(self, func, bytes, peak)).ok()?;
        Some(roofline.bound_us * 1e-6).filter(|b| b.is_finite() && *b > 0.0)
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn alarm(&self, stop: &StopFlag) -> Option<Box<dyn Timer>> {
        // Without a thread for the timer, the clock is only read between candidates.
        RealTimer::new(Arc::new(stop.clone())).ok().map(|timer| Box::new(timer) as Box<dyn Timer>)
    }

    fn time(&self) -> Timestamp {
        wall_time()
    }
}

/// The time of day. A clock before 1970 counts as zero.
pub fn wall_time() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// Does work on a thread of its own, and abandons the thread once `stop` is raised, since compilation cannot be stopped. The
/// thread ends with the process. Returns `None` if the work was abandoned.
fn abandonable<T: Send + 'static>(stop: &StopFlag, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    /// The interval at which the flag is polled. The result of the work is received at once.
    const LOOK: Duration = Duration::from_millis(5);
    /// The stack size of the main thread: programs may be nested deeply.
    const STACK: usize = 8 << 20;
    if stop.is_raised() {
        return None;
    }
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let on_thread = work.clone();
    let run = move || {
        if let Some(work) = take(&on_thread) {
            // If the work was abandoned, nobody receives the result.
            let _ = send.send(work());
        }
    };
    if std::thread::Builder::new().name("tvmr-compile".into()).stack_size(STACK).spawn(run).is_err() {
        // If the system refuses a thread, this one does the work.
        return take(&work).map(|work| work());
    }
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) if stop.is_raised() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            // The work panicked outside of its stages, which catch panics; there is no result.
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Runs a stage of compilation; a panic in it is a failure.
fn staged<T>(stage: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, Failure> {
    isolated(work).and_then(|r| r).map_err(|message| Failure {
        kind: FailureKind::Compile,
        stage: stage.to_owned(),
        primitive: None,
        message,
    })
}
