//! Tests of measuring in this process: faults are caught, and the fastest wins.

use super::super::check::Tolerance;
use super::super::fakes::{Fake, N, args, double, element, micros, store};
use super::super::reference::Reference;
use super::super::timer::{MockTimer, RealTimer, Stop};
use super::*;
use crate::ir::DType;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;

fn tolerances() -> Vec<Tolerance> {
    vec![Tolerance::of(DType::Float32, 1); 2]
}

fn reference() -> Reference {
    let right = |args: &mut Arguments| {
        double(args, 0..N);
        Ok(())
    };
    Reference::compute(&args(), &tolerances(), right, None).unwrap()
}

fn runner(timer: &MockTimer) -> InProcess<MockTimer> {
    let job = ReferenceJob::ready(reference());
    InProcess::new(args(), timer.clone(), Some(job), RunnerOptions::default())
}

fn candidate(program: u64, exe: Fake) -> Candidate {
    Candidate { program, code: Arc::new(exe) }
}

/// A correct kernel that takes `us` microseconds.
fn kernel(timer: &MockTimer, program: u64, us: u64) -> Candidate {
    candidate(program, Fake::timed(timer, move |_| micros(us)))
}

fn measured(outcome: Outcome) -> Measurement {
    match outcome {
        Outcome::Measured(m) => m,
        other => panic!("expected a measurement, found {other:?}"),
    }
}

// ---- faults ------------------------------------------------------------------------------------------------

/// Measures a faulty kernel after a good one, which must stay the incumbent.
fn check_fault(threads: u32, body: impl Fn(u64, &mut Arguments) + Send + Sync + 'static) -> Outcome {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 50)));
    let clock = timer.clone();
    let mut exe = Fake::new(move |call, args| {
        // It is faster than the good one, so it would win.
        clock.advance(micros(1));
        body(call, args);
        Ok(())
    });
    exe.threads = threads;
    let outcome = runner.measure(&candidate(2, exe));
    assert_eq!(runner.incumbent().unwrap().0.program, 1);
    outcome
}

fn wrong(outcome: Outcome) -> Mismatch {
    match outcome {
        Outcome::WrongResult(mismatch) => *mismatch,
        other => panic!("expected a wrong result, found {other:?}"),
    }
}

#[test]
fn a_kernel_that_does_nothing_is_caught() {
    let mismatch = wrong(check_fault(1, |_, _| {}));
    assert_eq!((mismatch.param.as_str(), mismatch.count), ("B", N as u64));
}

#[test]
fn a_kernel_that_skips_a_tail_is_caught() {
    let mismatch = wrong(check_fault(1, |_, args| double(args, 0..N - 1)));
    assert_eq!((mismatch.count, mismatch.first[0].index.as_slice()), (1, &[N as i64 - 1][..]));
}

#[test]
fn a_kernel_that_leaves_stale_output_is_caught() {
    // It is right where it writes; the rest was written by the good kernel before it.
    let mismatch = wrong(check_fault(1, |_, args| {
        for i in (0..N).step_by(2) {
            double(args, i..i + 1);
        }
    }));
    assert_eq!(mismatch.count, N as u64 / 2);
    // Reads its output before writing it: an accumulation without initialisation.
    let mismatch = wrong(check_fault(1, |_, args| {
        for i in 0..N {
            let value = element(args, 1, i) + 2.0 * element(args, 0, i);
            store(args, 1, i, value);
        }
    }));
    assert_eq!(mismatch.count, N as u64);
}

#[test]
fn only_what_may_be_the_best_is_checked_several_times() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 10_000)));
    let n_calls = |runner: &mut InProcess<MockTimer>, us: u64| {
        let calls = Arc::new(AtomicU32::new(0));
        let (counter, clock) = (calls.clone(), timer.clone());
        let mut exe = Fake::new(move |_, args| {
            counter.fetch_add(1, SeqCst);
            clock.advance(micros(us));
            double(args, 0..N);
            Ok(())
        });
        exe.threads = 2;
        measured(runner.measure(&candidate(us, exe)));
        calls.load(SeqCst)
    };
    assert_eq!(n_calls(&mut runner, 30_000), 1);
    let checks = RunnerOptions::default().parallel_checks as u32;
    assert!(n_calls(&mut runner, 5_000) > 1 + checks);
}

#[test]
fn a_kernel_with_a_data_race_is_caught() {
    // Two threads add to one element without a lock. Separate atomic reads and writes simulate lost updates; most runs
    // lose none.
    let mismatch = wrong(check_fault(2, |call, args| {
        let (sum, both) = (AtomicU32::new(0), std::sync::Barrier::new(2));
        let add = |value: f32| {
            let before = f32::from_bits(sum.load(SeqCst));
            // In every third run, neither thread writes before both have read.
            if call % 3 == 2 {
                both.wait();
            }
            sum.store((before + value).to_bits(), SeqCst);
        };
        double(args, 0..N);
        let half = element(args, 0, 0);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| add(half));
            if call % 3 != 2 {
                first.join().expect("adding does not panic");
            }
            add(half);
        });
        store(args, 1, 0, f32::from_bits(sum.load(SeqCst)));
    }));
    assert_eq!((mismatch.count, mismatch.first[0].index.as_slice()), (1, &[0][..]));
}

#[test]
fn a_race_that_shows_only_when_warm_is_caught() {
    let mismatch = wrong(check_fault(2, |call, args| double(args, 0..if call > 20 { N - 1 } else { N })));
    assert_eq!(mismatch.count, 1);
}

#[test]
fn a_kernel_that_writes_elsewhere_is_caught() {
    let outcome = check_fault(1, |_, args| {
        double(args, 0..N);
        store(args, 0, 3, 7.0);
    });
    assert_eq!(outcome, Outcome::RuntimeError { message: "it changed the input `A`".into() });
    let outcome = check_fault(1, |_, args| {
        double(args, 0..N);
        // SAFETY: the buffer is followed by its guard, which belongs to the block.
        unsafe { args.pointers()[1].add(4 * N).write(0) };
    });
    assert_eq!(outcome, Outcome::RuntimeError { message: "it wrote out of bounds, next to `B`".into() });
}

#[test]
fn a_failing_kernel_says_why() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    let fails = candidate(1, Fake::new(|_, _| Err(RunFailure::Failed("integer division by zero".into()))));
    assert_eq!(runner.measure(&fails), Outcome::RuntimeError { message: "integer division by zero".into() });
    assert!(runner.incumbent().is_none());
}

#[test]
fn without_checks_anything_goes_and_is_marked() {
    let timer = MockTimer::new();
    let mut runner = InProcess::new(args(), timer.clone(), None, RunnerOptions::default());
    let clock = timer.clone();
    let nothing = Fake::new(move |_, _| {
        clock.advance(micros(1));
        Ok(())
    });
    assert_eq!(measured(runner.measure(&candidate(1, nothing))).verdict, Verdict::Unchecked);
}

// ---- deadlines ---------------------------------------------------------------------------------------------

#[test]
fn the_limit_follows_the_best() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 50)));
    let start = timer.now();
    let outcome = runner.measure(&kernel(&timer, 2, 30_000));
    assert_eq!(outcome, Outcome::TimedOut { limit: LEAST_LIMIT });
    // A timeout is retried once, since a pause of the system could be the cause.
    assert_eq!(timer.now() - start, 2 * LEAST_LIMIT);
    // With a best time of 5 ms the limit is 50 ms.
    let mut runner = self::runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 5000)));
    let slow = measured(runner.measure(&kernel(&timer, 2, 30_000)));
    assert_eq!((slow.stage, slow.standing), (Stage::FirstLook, Some(Standing::Slower)));
    assert_eq!(runner.measure(&kernel(&timer, 3, 51_000)), Outcome::TimedOut { limit: micros(50_000) });
}

#[test]
fn a_pause_of_the_system_is_no_fault() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 50)));
    let paused = candidate(2, Fake::timed(&timer, |call| micros(if call == 0 { 30_000 } else { 40 })));
    assert_eq!(measured(runner.measure(&paused)).standing, Some(Standing::Faster));
}

#[test]
fn the_first_look_stops_by_itself() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 1500)));
    let start = timer.now();
    let slow = measured(runner.measure(&kernel(&timer, 2, 4500)));
    assert_eq!(slow.secs, 0.0045);
    // The checked run, and a second one that was stopped at one and a half times the best time.
    assert_eq!(timer.now() - start, micros(4500 + 2250));
}

#[test]
fn long_runs_are_not_repeated_for_nothing() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    let elapsed = |runner: &mut InProcess<MockTimer>, program, us| {
        let start = timer.now();
        let m = measured(runner.measure(&kernel(&timer, program, us)));
        (m.standing, timer.now() - start)
    };
    // The first candidate takes ten seconds, so it runs once.
    assert_eq!(elapsed(&mut runner, 1, 10_000_000), (None, micros(10_000_000)));
    // A much faster one is not raced against it.
    assert_eq!(elapsed(&mut runner, 2, 200_000), (Some(Standing::Faster), micros(400_000)));
    // A clearly slower one is rejected at the first look.
    assert_eq!(elapsed(&mut runner, 3, 300_000), (Some(Standing::Slower), micros(300_000)));
    // A similar one is raced, with as few pairs as possible.
    let (standing, took) = elapsed(&mut runner, 4, 180_000);
    assert_eq!(standing, Some(Standing::Faster));
    assert!(took < micros(2_000_000), "{took:?}");
}

struct Flag(AtomicBool);

impl Stop for Flag {
    fn raise(&self) {
        self.0.store(true, SeqCst);
    }

    fn clear(&self) {
        self.0.store(false, SeqCst);
    }
}

#[test]
fn a_kernel_that_hangs_is_stopped() {
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let timer = RealTimer::new(flag.clone()).unwrap();
    let options = RunnerOptions { limit: Some(micros(3000)), ..RunnerOptions::default() };
    let mut runner = InProcess::new(args(), timer, Some(ReferenceJob::ready(reference())), options);
    let watched = flag.clone();
    let hangs = Fake::new(move |_, _| {
        while !watched.0.load(SeqCst) {
            std::hint::spin_loop();
        }
        Err(RunFailure::Stopped)
    });
    assert_eq!(runner.measure(&candidate(1, hangs)), Outcome::TimedOut { limit: micros(3000) });
    assert!(!flag.0.load(SeqCst), "the next kernel may run");
}

// ---- the fastest wins --------------------------------------------------------------------------------------

#[test]
fn the_incumbent_is_the_fastest() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    let times = [400, 100, 103, 90, 500, 90, 70];
    let outcomes: Vec<Measurement> =
        times.iter().enumerate().map(|(i, &us)| measured(runner.measure(&kernel(&timer, i as u64, us)))).collect();
    let standings: Vec<Option<Standing>> = outcomes.iter().map(|m| m.standing).collect();
    use Standing::{Faster, Slower, Tie};
    let expected = [None, Some(Faster), Some(Slower), Some(Faster), Some(Slower), Some(Tie), Some(Faster)];
    assert_eq!(standings, expected);
    for (m, us) in outcomes.iter().zip(times) {
        assert!((m.secs * 1e6 - us as f64).abs() < 0.5, "{us}: {m:?}");
        assert_eq!(m.verdict, Verdict::Right);
    }
    assert_eq!(runner.incumbent().map(|(c, _)| c.program), Some(6));
    assert_eq!(outcomes[4].stage, Stage::FirstLook);
}

#[test]
fn finals_compare_side_by_side() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    let kernels = [kernel(&timer, 1, 60), kernel(&timer, 2, 50), kernel(&timer, 3, 55)];
    for k in &kernels {
        runner.measure(k);
    }
    let broken = candidate(4, Fake::new(|_, _| Ok(())));
    let outcomes = runner.finals(&[kernels.to_vec(), vec![broken]].concat());
    for (outcome, us) in outcomes.iter().zip([60.0, 50.0, 55.0]) {
        let m = measured(outcome.clone());
        assert_eq!((m.stage, m.batch_secs.len()), (Stage::Final, 50));
        assert!((m.secs * 1e6 - us).abs() < 0.1);
    }
    assert!(matches!(outcomes[3], Outcome::WrongResult(_)));
    assert!(runner.finals(&[]).is_empty());
    let bench = runner.bench(&kernels[1]).unwrap();
    assert!((bench.summary.median * 1e6 - 50.0).abs() < 1e-6);
}

#[test]
fn an_incumbent_that_breaks_is_replaced() {
    let timer = MockTimer::new();
    let mut runner = runner(&timer);
    measured(runner.measure(&kernel(&timer, 1, 80)));
    let clock = timer.clone();
    let breaks = Fake::new(move |call, args| {
        clock.advance(micros(50));
        double(args, 0..N);
        if call > 15 { Err(RunFailure::Failed("worn out".into())) } else { Ok(()) }
    });
    measured(runner.measure(&candidate(2, breaks)));
    for i in 3..9 {
        let m = measured(runner.measure(&kernel(&timer, i, 60)));
        assert!((m.secs * 1e6 - 60.0).abs() < 1.0, "{m:?}");
    }
    assert_eq!(runner.incumbent().map(|(_, secs)| (secs * 1e6).round()), Some(60.0));
}

// ---- waiting for the reference -----------------------------------------------------------------------------

#[test]
fn results_wait_for_their_verdict() {
    let timer = MockTimer::new();
    let (go, wait) = mpsc::channel::<()>();
    let job = ReferenceJob::spawn(move || {
        wait.recv().expect("the test says when");
        Ok(reference())
    });
    let mut runner = InProcess::new(args(), timer.clone(), Some(job), RunnerOptions::default());
    let good = measured(runner.measure(&kernel(&timer, 1, 100)));
    let clock = timer.clone();
    let lazy = Fake::new(move |_, args| {
        clock.advance(micros(10));
        double(args, 1..N);
        Ok(())
    });
    let bad = measured(runner.measure(&candidate(2, lazy)));
    let (Verdict::Waiting(first), Verdict::Waiting(second)) = (good.verdict, bad.verdict) else {
        panic!("{good:?} {bad:?}")
    };
    // It leads for now, before its verdict.
    assert_eq!(runner.incumbent().map(|(c, _)| c.program), Some(2));
    assert_eq!(runner.settle(false), []);
    go.send(()).unwrap();
    let settled = runner.settle(true);
    assert_eq!(settled[0], Settled { ticket: first, result: Ok(()) });
    assert_eq!(settled[1].ticket, second);
    assert!(matches!(&settled[1].result, Err(Outcome::WrongResult(m)) if m.count == 1));
    assert_eq!(runner.incumbent().map(|(c, _)| c.program), Some(1));
    assert_eq!(measured(runner.measure(&kernel(&timer, 3, 50))).verdict, Verdict::Right);
    assert_eq!(runner.settle(true), []);
}

#[test]
fn a_reference_that_fails_makes_nothing_right() {
    let timer = MockTimer::new();
    let job = ReferenceJob::spawn(|| Err(ReferenceError::Run("division by zero".into())));
    job.wait();
    let mut runner = InProcess::new(args(), timer.clone(), Some(job), RunnerOptions::default());
    assert!(matches!(runner.measure(&kernel(&timer, 1, 50)), Outcome::RuntimeError { .. }));
    assert_eq!(runner.reference_error(), Some(&ReferenceError::Run("division by zero".into())));
}

#[test]
fn a_mock_needs_neither_clock_nor_code() {
    let mut runner = MockRunner(|n: &u64| match n {
        0 => Outcome::Crashed { message: "signal 11".into() },
        n => Outcome::Measured(Measurement::right(*n as f64)),
    });
    let outcomes: Vec<Outcome> = [0, 3].iter().map(|n| runner.measure(n)).collect();
    assert!(matches!(outcomes[0], Outcome::Crashed { .. }));
    assert_eq!(measured(outcomes[1].clone()).secs, 3.0);
    assert_eq!(runner.finals(&[3, 4]).len(), 2);
    assert!(Runner::<u64>::settle(&mut runner, true).is_empty());
}
