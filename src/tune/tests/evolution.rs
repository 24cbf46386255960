//! Runs of the default strategy: its feedback, and runs that resume others.

use super::*;

const EVOLUTIONARY: StrategyChoice = StrategyChoice::Evolutionary { seeds: true, cost_model: true };

fn evolutionary(text: &str, trials: u64) -> Config {
    Config { strategy: EVOLUTIONARY, ..config(space(text), trials) }
}

#[test]
fn small_spaces_are_exhausted_too() {
    for cost_model in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let strategy = StrategyChoice::Evolutionary { seeds: true, cost_model };
        let run = Config { strategy, ..config(space(FIVE), 64) };
        let summary = run_in(dir.path(), MATMUL, &run, &Mock::plain());
        let s = one(&summary);
        assert_eq!((s.trials, s.stop_reason, s.distinct_programs), (5, "space exhausted", Some(5)));
        assert_eq!((s.strategy.as_str(), s.pruned), ("evolutionary", 0));
    }
}

#[test]
fn it_goes_on_where_a_run_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::plain();
    run_in(dir.path(), MATMUL, &evolutionary(MANY, 24), &mock);
    let before = mock.measured();
    assert_eq!(before.len(), 25);
    let more = Mock::plain();
    let summary = run_in(dir.path(), MATMUL, &evolutionary(MANY, 60), &more);
    assert_eq!((one(&summary).trials, one(&summary).resumed), (60, 24));
    assert!(more.measured()[1..].iter().all(|p| !before.contains(p)), "nothing is measured twice");
    // Records of other strategies are as good.
    let random = Mock::plain();
    run_in(dir.path(), MATMUL, &config(space(MANY), 64), &random);
    assert_eq!(random.measured().len(), 5);
}

#[test]
fn its_candidates_do_not_depend_on_threads() {
    let measured = |jobs: usize| {
        let dir = tempfile::tempdir().unwrap();
        let mock = Mock::plain();
        run_in(dir.path(), MATMUL, &Config { jobs, ..evolutionary(MANY, 40) }, &mock);
        mock.measured()
    };
    let one = measured(1);
    assert_eq!(one.len(), 41);
    assert_eq!(measured(3), one);
}

#[test]
fn failures_are_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let fate = |program: u64| match program % 3 {
        _ if program == as_written() => Ok(1e-3),
        0 => Err(failure(FailureKind::Timeout, "run", "")),
        1 => Err(failure(FailureKind::Runtime, "run", "integer division by zero")),
        _ => Ok(secs(program)),
    };
    let summary = run_in(dir.path(), MATMUL, &evolutionary(MANY, 60), &Mock::new(fate));
    assert_eq!(one(&summary).trials, 60);
    let more = Mock::new(fate);
    run_in(dir.path(), MATMUL, &evolutionary(MANY, 64), &more);
    assert_eq!(more.measured().len(), 5);
}

#[test]
fn late_verdicts_reach_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock { patience: 3, ..Mock::plain() };
    let summary = run_in(dir.path(), MATMUL, &evolutionary(MANY, 48), &mock);
    assert_eq!(one(&summary).trials, 48);
    assert!(one(&summary).errors.values().sum::<u64>() > 0, "every third result is wrong");
}
