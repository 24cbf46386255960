//! The records of finals.

use super::*;
use crate::database::{Role, TuningRecord};

pub(super) fn records(dir: &Path) -> Vec<TuningRecord> {
    let db = Database::open(dir).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    db.records(id, &config(space(MANY), 0).setting.filter()).unwrap().0
}

fn reruns(dir: &Path) -> usize {
    records(dir).iter().filter(|r| r.context.role == Role::Rerun).count()
}

/// The winners of all finals, by program.
fn best(dir: &Path) -> TuningRecord {
    let db = Database::open(dir).unwrap();
    let id = Workload::of(&module(MATMUL), 0).find(&db).unwrap();
    db.best(id, &config(space(MANY), 0).setting.filter()).unwrap().0.unwrap()
}

fn held_up(_: u64) -> Outcome {
    Outcome::TimedOut { limit: Duration::from_millis(20) }
}

#[test]
fn an_interrupt_in_the_final_leaves_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    let raised = interrupt.clone();
    let stop = move |p| {
        raised.raise(2);
        held_up(p)
    };
    let mock = Mock { interrupt_after: Some((u64::MAX, interrupt)), in_final: Some(Arc::new(stop)), ..Mock::plain() };
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 20), &mock);
    let s = one(&summary);
    assert_eq!((s.trials, s.valid, s.stop_reason, reruns(dir.path())), (20, 20, "interrupted", 0));
}

#[test]
fn who_is_held_up_in_the_final_is_none_the_worse_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock { in_final: Some(Arc::new(held_up)), ..Mock::plain() };
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 20), &mock);
    assert_eq!((one(&summary).valid, reruns(dir.path())), (20, 0));
}

#[test]
fn where_all_leaders_prove_wrong_the_next_ones_have_a_final() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), MATMUL, &config(space(MANY), 20), &Mock::plain());
    let leader = best(dir.path()).context.program.unwrap();
    // The fastest by far, and wrong.
    let fate = move |p| Ok(if p == leader { 1e-9 } else { secs(p) });
    let wrong = move |p| match p == leader {
        true => Outcome::RuntimeError { message: "it changed the input `A`".into() },
        false => Outcome::Measured(Measurement::right(secs(p))),
    };
    let other = tempfile::tempdir().unwrap();
    let mock = Mock { in_final: Some(Arc::new(wrong)), ..Mock::new(fate) };
    let summary = run_in(other.path(), MATMUL, &config(space(MANY), 20), &mock);
    assert_eq!(one(&summary).valid, 19);
    let winner = best(other.path());
    assert_eq!(winner.context.role, Role::Rerun);
    assert_ne!(winner.context.program, Some(leader));
}

#[test]
fn earlier_times_are_put_on_the_scale_of_this_run() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), MATMUL, &config(space(MANY), 20), &Mock::plain());
    // Everything takes three times as long now, and nothing new is faster than the best one was.
    let slower = |p| Ok(3.0 * secs(p));
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 22), &Mock::new(slower));
    let fastest =
        records(dir.path()).iter().filter_map(|r| r.context.program).min_by(|&a, &b| secs(a).total_cmp(&secs(b)));
    let (s, winner) = (one(&summary), best(dir.path()));
    assert_eq!(winner.context.program, fastest);
    assert!(winner.secs().unwrap() > 2.9 * secs(fastest.unwrap()));
    // The program as written takes longer too, as much as the best one took longer than its benchmark.
    let speedup = 3.0 / 1.25 * secs(as_written()) / winner.secs().unwrap();
    assert!((s.speedup.unwrap() / speedup - 1.0).abs() < 1e-6 || s.baseline_is_best, "{:?}", s.speedup);
}

#[test]
fn a_reference_that_fails_late_makes_no_failures() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), MATMUL, &config(space(MANY), 10), &Mock::plain());
    let before = records(dir.path()).len();
    let mock = Mock { patience: 3, broken: Some("division by zero".into()), ..Mock::plain() };
    let summary = run_in(dir.path(), MATMUL, &config(space(MANY), 40), &mock);
    let s = one(&summary);
    assert_eq!((s.trials, s.valid, s.stop_reason), (10, 10, "not measurable"));
    assert_eq!(records(dir.path()).len(), before);
}
