//! Tests of the driver, with a mock that neither lowers, compiles nor reads the clock.

use super::backend::{Backend, Compiled, MeasureSession, SessionError};
use super::config::{Config, SpaceChoice, StrategyChoice};
use super::events::{Event, Observer, Silent};
use super::summary::{Summary, TaskSummary};
use super::{Interrupt, TuneError, tune, untuned};
use crate::database::{Database, Failure, FailureKind, Filter, Role, Timestamp};
use crate::ir::hash::program_hash;
use crate::ir::{Func, Module};
use crate::machine::Isa;
use crate::machine::cascade_lake;
use crate::measure::timing::Bench;
use crate::measure::{
    Advice, Measurement, Outcome, Peak, Pinned, RunFailure, Runner, Settled, Summary as Stats, Ticket, Timer, Verdict,
};
use crate::schedule::Schedule;
use crate::schedule_function::ScheduleFunction;
use crate::script::{ParseOptions, parse};
use crate::space::sample::{ScheduleSource, SourceError};
use crate::stop::StopFlag;
use crate::workload::Setting;
use crate::workload::Workload;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod evolution;
mod finals;

const MATMUL: &str = include_str!("../../workloads/matmul.tir");

/// The space of five programs.
const FIVE: &str = r#"
def stochastic_schedule_mm(sch):
    block_C = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block_C)
    j_factors = sch.sample_perfect_tile(loop=j, n=2)
    j_0, j_1 = sch.split(loop=j, factors=j_factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_C, k)
    return sch
"#;

const MANY: &str = r#"
def many(sch):
    c = sch.get_block("C", "main")
    i, j, k = sch.get_loops(c)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, 64))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 64))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, 64))
    sch.reorder(i0, j0, k0, i1, k1, j1)
"#;

pub(super) struct Source(ScheduleFunction);

impl ScheduleSource for Source {
    fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError> {
        self.0.apply(sch).map_err(|e| match e.refused {
            Some(refused) => SourceError::Schedule(*refused),
            None => SourceError::Function(e.diagnostic.message),
        })
    }
}

fn space(text: &str) -> SpaceChoice {
    let function = ScheduleFunction::parse(text, "space.py").unwrap_or_else(|e| panic!("{e}"));
    SpaceChoice::Function { name: "space.py".into(), function: Arc::new(Source(function)) }
}

fn module(text: &str) -> Module {
    parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module
}

fn config(space: SpaceChoice, trials: u64) -> Config {
    Config {
        trials,
        max_time: None,
        patience: None,
        space,
        intrinsics: None,
        strategy: StrategyChoice::Random,
        seed_from: Vec::new(),
        seed: 0,
        jobs: 2,
        machine: cascade_lake(),
        setting: Setting { target: cascade_lake(), threads: 1, isa: Isa::Avx512, strict_fp: false, check: true },
        calls: Default::default(),
    }
}

/// The result of a program.
type Fate = dyn Fn(u64) -> Result<f64, Failure> + Send + Sync;

/// A back end that makes times up. Its clock counts the calls.
#[derive(Clone)]
struct Mock {
    fate: Arc<Fate>,
    /// Programs that were measured, in order.
    measured: Arc<Mutex<Vec<u64>>>,
    compiled: Arc<AtomicU64>,
    millis: Arc<AtomicU64>,
    /// The number of requests after which verdicts come.
    patience: u64,
    interrupt_after: Option<(u64, Interrupt)>,
    /// The result of a program in finals, if it differs.
    in_final: Option<Arc<InFinal>>,
    /// The reason why no result can be checked, which is known when the first verdict is due.
    broken: Option<String>,
    /// The spread between the windows of the peak.
    peak_spread: f64,
    /// The factor by which the first measurement of the program as written is disturbed.
    disturbance: f64,
    /// Programs that were measured once more.
    again: Arc<Mutex<Vec<u64>>>,
}

type InFinal = dyn Fn(u64) -> Outcome + Send + Sync;

struct MockSession {
    mock: Mock,
    waiting: Vec<(Ticket, u64)>,
    asked: u64,
    ceiling: Option<Duration>,
}

impl Mock {
    fn new(fate: impl Fn(u64) -> Result<f64, Failure> + Send + Sync + 'static) -> Mock {
        Mock {
            fate: Arc::new(fate),
            measured: Arc::default(),
            compiled: Arc::default(),
            millis: Arc::default(),
            patience: 0,
            interrupt_after: None,
            in_final: None,
            broken: None,
            peak_spread: 0.0,
            disturbance: 1.0,
            again: Arc::default(),
        }
    }

    fn plain() -> Mock {
        Mock::new(|program| Ok(secs(program)))
    }

    fn measured(&self) -> Vec<u64> {
        self.measured.lock().unwrap().clone()
    }
}

/// A time that looks random.
fn secs(program: u64) -> f64 {
    1e-6 * (10 + program.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1000) as f64
}

fn failure(kind: FailureKind, stage: &str, message: &str) -> Failure {
    Failure { kind, stage: stage.into(), primitive: None, message: message.into() }
}

impl Backend for Mock {
    type Code = u64;
    type MeasureSession = MockSession;

    fn compile(&self, program: u64, func: &Func) -> Result<Compiled<u64>, Failure> {
        assert_eq!(program_hash(func), program, "records are of the program that they name");
        self.compiled.fetch_add(1, SeqCst);
        match (self.fate)(program) {
            Err(f) if f.kind == FailureKind::Compile => Err(f),
            _ => Ok(Compiled { code: program, secs: 1e-3 }),
        }
    }

    fn open(&self, _: &Workload) -> Result<MockSession, SessionError> {
        Ok(MockSession { mock: self.clone(), waiting: Vec::new(), asked: 0, ceiling: None })
    }

    fn pin(&self) -> Option<Pinned> {
        None
    }

    fn peak_flops(&self, _: &Workload) -> Option<f64> {
        Some(100e9)
    }

    fn bound(&self, _: &Workload, _: Option<f64>) -> Option<f64> {
        Some(1e-6)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(SeqCst))
    }

    fn alarm(&self, _: &StopFlag) -> Option<Box<dyn Timer>> {
        None
    }

    fn time(&self) -> Timestamp {
        Timestamp(1_772_366_400)
    }
}

impl MockSession {
    fn outcome(&self, program: u64) -> Outcome {
        match (self.mock.fate)(program) {
            Ok(secs) => Outcome::Measured(Measurement::right(secs)),
            Err(f) => match f.kind {
                FailureKind::Timeout => Outcome::TimedOut { limit: Duration::from_millis(20) },
                FailureKind::Crash => Outcome::Crashed { message: f.message },
                _ => Outcome::RuntimeError { message: f.message },
            },
        }
    }
}

impl Runner<u64> for MockSession {
    fn measure(&mut self, &program: &u64) -> Outcome {
        self.mock.millis.fetch_add(10, SeqCst);
        let n = {
            let mut measured = self.mock.measured.lock().unwrap();
            measured.push(program);
            measured.len() as u64
        };
        if let Some((after, interrupt)) = &self.mock.interrupt_after
            && n == *after
        {
            interrupt.raise(2);
        }
        let mut outcome = self.outcome(program);
        if self.mock.patience > 0 {
            let ticket = Ticket(n);
            if let Outcome::Measured(m) = &mut outcome {
                m.verdict = Verdict::Waiting(ticket);
            }
            self.waiting.push((ticket, program));
        }
        outcome
    }

    fn settle(&mut self, _wait: bool) -> Vec<Settled> {
        self.asked += 1;
        if self.asked < self.mock.patience {
            return Vec::new();
        }
        // Every third result that waited is wrong.
        let settled = |(ticket, program): (Ticket, u64)| {
            let wrong = || Outcome::RuntimeError { message: "it changed the input `A`".into() };
            Settled { ticket, result: if program.is_multiple_of(3) { Err(wrong()) } else { Ok(()) } }
        };
        std::mem::take(&mut self.waiting).into_iter().map(settled).collect()
    }

    fn finals(&mut self, programs: &[u64]) -> Vec<Outcome> {
        assert_eq!(self.ceiling, None, "finalists have the time that they take");
        let outcome = |p| self.mock.in_final.as_ref().map_or_else(|| self.outcome(p), |outcome| outcome(p));
        programs.iter().map(|&p| outcome(p)).collect()
    }
}

impl MeasureSession<u64> for MockSession {
    fn bench(&mut self, program: &u64) -> Result<Bench, RunFailure> {
        self.mock.millis.fetch_add(100, SeqCst);
        let secs = (self.mock.fate)(*program).map_err(|f| RunFailure::Failed(f.message))? * 1.25;
        let summary = Stats::of(&[secs; 3]).unwrap();
        Ok(Bench { batch_secs: vec![secs; 3], calls: 7, summary })
    }

    fn peak(&mut self) -> Option<Peak> {
        Some(Peak { gflops: 1e6, threads: 1, windows: 16, spread: self.mock.peak_spread })
    }

    fn least_secs(&mut self, program: &u64, _: Duration) -> Option<f64> {
        self.mock.again.lock().unwrap().push(*program);
        (self.mock.fate)(*program).ok().map(|secs| secs / self.mock.disturbance)
    }

    fn set_ceiling(&mut self, ceiling: Option<Duration>) {
        self.ceiling = ceiling;
    }

    fn broken(&self) -> Option<String> {
        self.mock.broken.clone().filter(|_| self.asked >= self.mock.patience)
    }

    fn advice(&self) -> Option<Advice> {
        None
    }

    fn checking_time(&self) -> Duration {
        Duration::ZERO
    }
}

fn run_in(dir: &Path, text: &str, config: &Config, mock: &Mock) -> Summary {
    try_run(dir, text, config, mock).unwrap_or_else(|e| panic!("{e}"))
}

fn try_run(dir: &Path, text: &str, config: &Config, mock: &Mock) -> Result<Summary, TuneError> {
    let module = module(text);
    let functions: Vec<usize> = (0..module.funcs.len()).collect();
    let mut db = Database::create(dir)?;
    let interrupt = mock.interrupt_after.clone().map_or_else(Interrupt::new, |(_, i)| i);
    tune(&module, &functions, config, &mut db, mock, &mut Silent, &interrupt)
}

fn one(summary: &Summary) -> &TaskSummary {
    match &summary.tasks[..] {
        [one] => one,
        _ => panic!("expected one task"),
    }
}

fn as_written() -> u64 {
    program_hash(Workload::of(&module(MATMUL), 0).func())
}

#[test]
fn a_small_space_is_exhausted() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::plain();
    let summary = run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock);
    let s = one(&summary);
    assert_eq!((s.trials, s.valid, s.stop_reason, s.distinct_programs), (5, 5, "space exhausted", Some(5)));
    // The program as written and each candidate, once.
    assert_eq!(mock.measured().len(), 6);
    assert_eq!(mock.measured()[0], as_written());
    let best = mock.measured().iter().map(|&p| secs(p)).fold(f64::MAX, f64::min);
    assert!((s.best_us.unwrap() - best * 1.25e6).abs() < 1e-6, "what is reported is the benchmark");
    assert_eq!((s.peak_gflops, s.peak_fraction), (Some(1e6), s.gflops.map(|g| g / 1e6)));

    // Again: nothing is compiled, measured or timed.
    let again = Mock::plain();
    let summary = run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &again);
    let s = one(&summary);
    assert_eq!((s.trials, s.resumed, s.stop_reason, s.distinct_programs), (5, 5, "space exhausted", Some(5)));
    assert_eq!((again.measured().len(), again.compiled.load(SeqCst)), (0, 0));
    assert_eq!((s.peak_gflops, s.peak_fraction), (Some(1e6), s.gflops.map(|g| g / 1e6)));
}

#[test]
fn a_peak_of_a_disturbed_machine_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock { peak_spread: 0.3, ..Mock::plain() };
    let summary = run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock);
    assert_eq!((one(&summary).peak_gflops, one(&summary).peak_fraction), (None, None));
    // The record keeps the peak with its spread.
    let stored: Vec<_> =
        finals::records(dir.path()).iter().filter_map(|r| r.context.other.get("peak").cloned()).collect();
    assert_eq!(stored.len(), 1);
    assert_eq!(
        (&stored[0]["spread"], &stored[0]["windows"], &stored[0]["threads"]),
        (&0.3.into(), &16.into(), &1.into())
    );
}

#[test]
fn a_baseline_that_was_held_up_is_measured_again() {
    let slow = |program| if program == as_written() { Ok(0.1) } else { Ok(1e-4) };
    for (disturbance, baseline_us) in [(1.0, 1e5), (500.0, 200.0)] {
        let dir = tempfile::tempdir().unwrap();
        let mock = Mock { disturbance, ..Mock::new(slow) };
        let summary = run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock);
        assert_eq!(*mock.again.lock().unwrap(), [as_written()]);
        let found = one(&summary).baseline_us.unwrap();
        assert!((found - baseline_us).abs() < 1e-6 * baseline_us, "{found}");
    }
    // A speedup like others is believed at once.
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::new(|program| if program == as_written() { Ok(3e-4) } else { Ok(1e-4) });
    run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock);
    assert!(mock.again.lock().unwrap().is_empty());
}

#[test]
fn the_budget_is_a_total_and_nothing_is_measured_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::plain();
    let first = run_in(dir.path(), MATMUL, &config(space(MANY), 20), &mock);
    assert_eq!((one(&first).trials, one(&first).stop_reason), (20, "trials reached"));
    assert_eq!(mock.measured().len(), 21);
    let same = Mock::plain();
    let again = run_in(dir.path(), MATMUL, &config(space(MANY), 20), &same);
    assert_eq!((one(&again).trials, one(&again).resumed, same.compiled.load(SeqCst)), (20, 20, 0));
    let more = Mock::plain();
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 50), &more);
    assert_eq!((one(&summary).trials, one(&summary).resumed), (50, 20));
    // The best recorded program is the yardstick; the other thirty are new.
    let (before, after) = (mock.measured(), more.measured());
    assert_eq!(after.len(), 31);
    assert!(after[1..].iter().all(|p| !before.contains(p)));
    // A single run would have had the same candidates.
    let whole = tempfile::tempdir().unwrap();
    let at_once = Mock::plain();
    run_in(whole.path(), MATMUL, &config(space(MANY), 50), &at_once);
    assert_eq!(at_once.measured(), [&before[..], &after[1..]].concat());
}

#[test]
fn threads_for_searching_change_nothing() {
    let measured = |jobs: usize| {
        let dir = tempfile::tempdir().unwrap();
        let mock = Mock::plain();
        run_in(dir.path(), MATMUL, &Config { jobs, ..config(space(MANY), 40) }, &mock);
        mock.measured()
    };
    let one = measured(1);
    assert_eq!(one.len(), 41);
    assert_eq!(measured(2), one);
    assert_eq!(measured(5), one);
}

#[test]
fn failures_are_counted_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let fate = |program: u64| match program % 4 {
        _ if program == as_written() => Ok(1e-3),
        0 => Err(failure(FailureKind::Compile, "lower", &format!("the loop of extent {program} is odd"))),
        1 => Err(failure(FailureKind::Timeout, "run", "")),
        2 => Err(failure(FailureKind::Runtime, "run", "integer division by zero")),
        _ => Ok(secs(program)),
    };
    let mock = Mock::new(fate);
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 60), &mock);
    let s = one(&summary);
    assert_eq!(s.trials, 60);
    assert_eq!(s.valid + s.errors.values().sum::<u64>(), 60);
    assert_eq!(s.errors.keys().map(String::as_str).collect::<Vec<_>>(), ["compile", "runtime", "timeout"]);
    // Messages that differ in numbers only are one reason.
    assert_eq!(s.failures.len(), 3);
    assert_eq!(s.failures.iter().map(|f| f.count).sum::<u64>(), 60 - s.valid);
    let db = Database::open(dir.path()).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    let (failed, _) = db.failed(id, &Filter::any()).unwrap();
    assert_eq!(failed.len() as u64, 60 - s.valid);
    assert!(failed.iter().all(|r| !r.failure().unwrap().message.is_empty() && r.context.role == Role::Trial));
    // A resumed run tries none of them again.
    let more = Mock::new(fate);
    run_in(dir.path(), MATMUL, &config(space(MANY), 61), &more);
    assert_eq!(more.measured().len() + (more.compiled.load(SeqCst) == 2) as usize, 2);
}

#[test]
fn the_program_as_written_may_win() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::new(|program| Ok(if program == as_written() { 1e-7 } else { secs(program) }));
    let summary = run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock);
    let s = one(&summary);
    assert!(s.baseline_is_best);
    assert_eq!((s.trials, s.speedup), (5, Some(1.0)));
    let db = Database::open(dir.path()).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    let best = db.best(id, &Filter::any()).unwrap().0.unwrap();
    assert_eq!(best.trace, serde_json::json!([[], []]));
}

#[test]
fn a_program_that_fails_as_written_is_tried_once() {
    let dir = tempfile::tempdir().unwrap();
    let fate = |program: u64| match program == as_written() {
        true => Err(failure(FailureKind::Timeout, "run", "")),
        false => Ok(secs(program)),
    };
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 4), &Mock::new(fate));
    assert_eq!((one(&summary).baseline_us, one(&summary).speedup, one(&summary).valid), (None, None, 4));
    let more = Mock::new(fate);
    run_in(dir.path(), MATMUL, &config(space(MANY), 8), &more);
    assert!(!more.measured().contains(&as_written()));
}

#[test]
fn an_equal_time_does_not_beat_the_program_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::new(|program| Ok(if program == as_written() { 1.001e-5 } else { 1e-5 }));
    assert!(one(&run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock)).baseline_is_best);
}

#[test]
fn when_nothing_is_right_the_reasons_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::new(|_| Err(failure(FailureKind::Compile, "codegen", "too many registers")));
    let summary = run_in(dir.path(), MATMUL, &config(space(FIVE), 64), &mock);
    let s = one(&summary);
    assert_eq!((s.trials, s.valid, s.best_us, s.baseline_us), (5, 0, None, None));
    assert_eq!((s.failures[0].stage.as_str(), s.failures[0].count), ("codegen", 5));
    // A space that refuses everything says why.
    let refused = "def f(sch):\n    i, j, k = sch.get_loops(sch.get_block(\"C\", \"main\"))\n    sch.fuse(i, k)\n";
    let dir = tempfile::tempdir().unwrap();
    let summary = run_in(dir.path(), MATMUL, &config(space(refused), 64), &Mock::plain());
    let s = one(&summary);
    assert_eq!((s.trials, s.distinct_programs, s.stop_reason), (0, Some(0), "space exhausted"));
    assert!(s.rejected >= 256);
    assert_eq!((s.failures[0].stage.as_str(), s.failures[0].by.as_str()), ("schedule", "fuse"));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut mock = Mock::plain();
    mock.interrupt_after = Some((10, Interrupt::new()));
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 40), &mock);
    assert_eq!((one(&summary).trials, one(&summary).stop_reason), (9, "interrupted"));
    let db = Database::open(dir.path()).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    assert_eq!(db.counts(id, &Filter::any()).trials, 9);
    let more = Mock::plain();
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 40), &more);
    assert_eq!((one(&summary).trials, one(&summary).stop_reason), (40, "trials reached"));
    assert!(more.measured()[1..].iter().all(|p| !mock.measured().contains(p)));
}

#[test]
fn what_nobody_looked_at_before_an_interrupt_counts_as_not_tried() {
    let dir = tempfile::tempdir().unwrap();
    let mut mock = Mock::plain();
    mock.interrupt_after = Some((10, Interrupt::new()));
    mock.patience = 2;
    // The reference is stopped together with the run.
    mock.broken = Some("stopped".into());
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 40), &mock);
    let s = one(&summary);
    assert_eq!((s.trials, s.errors.len(), s.stop_reason), (0, 0, "interrupted"));
    let db = Database::open(dir.path()).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    assert_eq!(db.counts(id, &Filter::any()).trials, 0);
}

#[test]
fn time_and_patience_end_a_run() {
    let dir = tempfile::tempdir().unwrap();
    // A tenth of a second, of which a fifth is the final's, at ten milliseconds each.
    let timed = Config { max_time: Some(Duration::from_millis(100)), ..config(space(MANY), 500) };
    let summary = run_in(dir.path(), MATMUL, &timed, &Mock::plain());
    assert_eq!((one(&summary).trials, one(&summary).stop_reason), (7, "time is up"));
    let dir = tempfile::tempdir().unwrap();
    let patient = Config { patience: Some(0.01), ..config(space(MANY), 500) };
    let mock = Mock::new(|program| Ok(if program == as_written() { 1e-3 } else { 1e-4 }));
    let summary = run_in(dir.path(), MATMUL, &patient, &mock);
    assert_eq!((one(&summary).trials, one(&summary).stop_reason), (80, "no improvement"));
}

#[test]
fn results_wait_for_their_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let mut mock = Mock::plain();
    mock.patience = 5;
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 40), &mock);
    let s = one(&summary);
    let wrong = mock.measured()[1..].iter().filter(|p| p.is_multiple_of(3)).count() as u64;
    assert!(wrong > 5);
    assert_eq!((s.trials, s.valid, s.errors.get("runtime").copied()), (40, 40 - wrong, Some(wrong)));
    let right = mock.measured().iter().filter(|p| !p.is_multiple_of(3)).map(|&p| secs(p)).fold(f64::MAX, f64::min);
    assert!((s.best_us.unwrap() - right * 1.25e6).abs() < 1e-6);
}

#[test]
fn a_final_settles_what_came_before() {
    let dir = tempfile::tempdir().unwrap();
    // In the final everything is a quarter slower; those that were not in it must not come out first for that.
    run_in(dir.path(), MATMUL, &config(space(MANY), 60), &Mock::new(|p| Ok(1e-5 * (1.0 + secs(p) * 10.0))));
    let db = Database::open(dir.path()).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    let (top, _) = db.top_k(id, 3, &Filter::any()).unwrap();
    assert_eq!(top[0].context.role, Role::Rerun);
    assert!(top[0].secs().unwrap() >= 1.25e-5);
    let counts = db.counts(id, &Filter::any());
    assert_eq!((counts.trials, counts.valid), (60, 60));
}

#[test]
fn replay_measures_what_other_settings_found() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::plain();
    run_in(dir.path(), MATMUL, &config(space(MANY), 12), &mock);
    let mut other = Config { strategy: StrategyChoice::Replay, ..config(space(MANY), 64) };
    other.setting.threads = 2;
    let replayed = Mock::plain();
    let summary = run_in(dir.path(), MATMUL, &other, &replayed);
    let s = one(&summary);
    assert_eq!((s.trials, s.stop_reason), (12, "space exhausted"));
    let mut expected = mock.measured()[1..].to_vec();
    expected.sort_by(|a, b| secs(*a).total_cmp(&secs(*b)));
    assert_eq!(replayed.measured()[1], expected[0], "the fastest is tried first");
    let mut found = replayed.measured()[1..].to_vec();
    found.sort_by(|a, b| secs(*a).total_cmp(&secs(*b)));
    assert_eq!(found, expected);
}

#[test]
fn a_search_begins_with_what_another_database_knows() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mock = Mock::plain();
    run_in(there.path(), MATMUL, &config(space(MANY), 20), &mock);
    let mut known = mock.measured()[1..].to_vec();
    known.sort_by(|a, b| secs(*a).total_cmp(&secs(*b)));
    let other = Arc::new(Database::open(there.path()).unwrap());
    // Another seed would have found others.
    let seeded =
        |trials, strategy| Config { seed: 9, seed_from: vec![other.clone()], strategy, ..config(space(MANY), trials) };
    let first = Mock::plain();
    let run = |config: &Config, mock: &Mock| {
        let mut db = Database::create(here.path()).unwrap();
        let mut heard = Notes::default();
        let summary = tune(&module(MATMUL), &[0], config, &mut db, mock, &mut heard, &Interrupt::new()).unwrap();
        (summary, heard.0)
    };
    let (summary, notes) = run(&seeded(20, StrategyChoice::Random), &first);
    let measured = first.measured();
    assert_eq!(measured[1..1 + 2], known[..2], "the fastest come first");
    // The first round tries them, later rounds others.
    assert_eq!(measured[1..1 + 16].iter().filter(|p| known.contains(p)).count(), 16);
    assert!(measured[1 + 16..].iter().any(|p| !known.contains(p)));
    assert_eq!((summary.total.trials, notes.len()), (20, 1));
    assert!(notes[0].contains("has 20 schedules of `main`"), "{notes:?}");

    // The other schedules can be replayed; nothing is measured twice.
    let rest = Mock::plain();
    let (summary, _) = run(&seeded(64, StrategyChoice::Replay), &rest);
    assert_eq!(one(&summary).stop_reason, "space exhausted");
    assert!(rest.measured().iter().skip(1).all(|p| !measured.contains(p)));
    let all: Vec<u64> = [measured, rest.measured()].concat();
    assert!(known.iter().all(|p| all.contains(p)));

    // It has no schedule of another program, and says so.
    let mut db = Database::create(here.path()).unwrap();
    let mut heard = Notes::default();
    let config = Config { seed_from: vec![other.clone()], ..config(space("def f(sch):\n    pass\n"), 4) };
    tune(&module(TWO), &[0], &config, &mut db, &Mock::plain(), &mut heard, &Interrupt::new()).unwrap();
    assert!(heard.0.iter().any(|n| n.contains("has no schedule of `first`")), "{:?}", heard.0);
}

/// Collects notes only.
#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Note(text) = event {
            self.0.push((*text).to_owned());
        }
    }
}

const TWO: &str = "@tvm.script.ir_module
class Module:
    @T.prim_func
    def first(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")):
        for i in range(64):
            with T.block(\"B\"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[vi] + T.float32(1)
    @T.prim_func
    def second(A: T.Buffer((128,), \"float32\"), B: T.Buffer((128,), \"float32\")):
        for i in range(128):
            with T.block(\"B\"):
                vi = T.axis.spatial(128, i)
                B[vi] = A[vi] + T.float32(1)
    @T.prim_func
    def third(X: T.Buffer((64,), \"float32\"), Y: T.Buffer((64,), \"float32\")):
        for j in range(64):
            with T.block(\"B\"):
                vj = T.axis.spatial(64, j)
                Y[vj] = X[vj] + T.float32(1)
";

#[test]
fn functions_share_the_trials() {
    let tiles = "def tiles(sch):
    i, = sch.get_loops(sch.get_block(\"B\", \"main\"))
    sch.split(i, sch.sample_perfect_tile(i, 3, 64))
";
    let dir = tempfile::tempdir().unwrap();
    let summary = run_in(dir.path(), TWO, &config(space(tiles), 30), &Mock::plain());
    // The third is the first by another name.
    let names: Vec<&str> = summary.tasks.iter().map(|t| t.func.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(summary.tasks[0].same_as, ["third"]);
    assert!(summary.tasks.iter().all(|t| t.trials >= 10), "{:?}", summary.tasks);
    assert_eq!((summary.total.trials, summary.total.stop_reason), (30, "trials reached"));
    // A program that the module has twice counts twice.
    assert_eq!(summary.tasks.iter().map(|t| t.weight).collect::<Vec<_>>(), [2, 1]);
    let best = |i: usize| summary.tasks[i].best_us.unwrap();
    assert_eq!(summary.tasks[0].weighted_us, Some(2.0 * best(0)));
    assert_eq!(summary.total.best_us, Some(2.0 * best(0) + best(1)));
    assert_eq!((summary.total.weight, summary.total.weighted_us), (3, summary.total.best_us));
    let bounds: Vec<_> = summary.tasks.iter().map(|t| t.bound_us).collect();
    assert_eq!(bounds, [Some(1.0), Some(1.0)]);
    assert_eq!(summary.total.bound_fraction, summary.total.best_us.map(|best| 3.0 / best));
}

#[test]
fn untuned_functions_are_named() {
    let module = module(TWO);
    let config = config(space(FIVE), 1);
    assert_eq!(untuned(&module, &[0, 1], &config, None).unwrap(), ["first", "second"]);
    let dir = tempfile::tempdir().unwrap();
    let mut db = Database::create(dir.path()).unwrap();
    tune(&module, &[0], &config, &mut db, &Mock::plain(), &mut Silent, &Interrupt::new()).unwrap();
    assert_eq!(untuned(&module, &[0, 1, 2], &config, Some(&db)).unwrap(), ["second"]);
}

#[derive(Default)]
struct Listener {
    trials: Vec<u64>,
    improvements: usize,
    baselines: usize,
    finals: usize,
    standings: Vec<Vec<u64>>,
}

impl Observer for Listener {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Trial(t) => {
                self.trials.push(t.number);
                self.improvements += usize::from(t.is_best);
                assert!(t.best.is_some_and(|best| t.result.is_ok_and(|secs| best <= secs)));
            }
            Event::Baseline { result, .. } => self.baselines += usize::from(result.is_ok()),
            Event::Finals { finalists, .. } => self.finals += finalists,
            Event::Opened { wanted, .. } => assert_eq!(*wanted, 20),
            Event::Standings(tasks) => self.standings.push(tasks.iter().map(|t| t.trials).collect()),
            Event::Note(text) | Event::Warning(text) => panic!("{text}"),
        }
    }
}

#[test]
fn a_run_tells_what_happens() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = Database::create(dir.path()).unwrap();
    let mut listener = Listener::default();
    let config = config(space(MANY), 20);
    tune(&module(MATMUL), &[0], &config, &mut db, &Mock::plain(), &mut listener, &Interrupt::new()).unwrap();
    assert_eq!(listener.trials, (1..=20).collect::<Vec<u64>>());
    assert_eq!(listener.baselines, 1);
    assert!(listener.improvements >= 1 && listener.finals >= 1);
    assert_eq!(listener.standings.last(), Some(&vec![20]));
}
