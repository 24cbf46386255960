//! Tests of the database as a whole.

use super::*;
use crate::ir::Func;
use crate::machine::cascade_lake;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::process::Command;

const GOLDEN_RECORDS: &str = include_str!("testdata/records_v1.jsonl");
const GOLDEN_WORKLOADS: &str = include_str!("testdata/workloads_v1.jsonl");
const CONV2D_TRACE: &str = include_str!("testdata/conv2d_trace.json");
const HASH: u64 = 4_242_424_242_424_242_424;

fn entry(hash: u64, tir: &str) -> WorkloadEntry {
    WorkloadEntry::new(hash, tir, "main", Timestamp(1_772_366_400))
}

/// A valid trial of this program that takes `us` microseconds on a Cascade Lake with one thread.
fn record(workload: WorkloadId, program: u64, us: f64) -> TuningRecord {
    TuningRecord {
        workload,
        trace: serde_json::from_str(CONV2D_TRACE).unwrap(),
        outcome: Outcome::Measured(Times {
            run_secs: vec![us * 1e-6],
            batch_secs: (0..20).map(|i| us * 1e-6 * (1.0 + f64::from(i) / 317.0)).collect(),
            calls: 12,
        }),
        target: cascade_lake().tvm_json(1),
        args_info: vec![
            ArgInfo { kind: "TENSOR".into(), dtype: "float32".into(), shape: vec![1, 64, 56, 56] },
            ArgInfo { kind: "TENSOR".into(), dtype: "float32".into(), shape: vec![64, 64, 3, 3] },
        ],
        context: Context {
            workload_hash: None,
            program: Some(program),
            isa: "avx512".into(),
            threads: 1,
            checked: true,
            tvmr: "0.1.0".into(),
            space: "auto".into(),
            strategy: "evolutionary".into(),
            seed: 7,
            trial: program,
            compile_secs: Some(0.000_71),
            time: Timestamp(1_772_366_400 + program),
            ..Context::default()
        },
    }
}

fn failed(workload: WorkloadId, program: u64, kind: FailureKind) -> TuningRecord {
    let failure =
        Failure { kind, stage: "run".into(), primitive: Some("vectorize".into()), message: "it \"broke\"\n[".into() };
    TuningRecord { outcome: Outcome::Failed(failure), ..record(workload, program, 1.0) }
}

fn with_threads(mut r: TuningRecord, threads: u32) -> TuningRecord {
    r.target["num-cores"] = threads.into();
    r.context.threads = threads;
    r
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A database with one workload.
fn with_workload(dir: &Path) -> (Database, WorkloadId) {
    let mut db = Database::create(dir).unwrap();
    let id = db.commit_workload(&entry(HASH, "f"), |e| e.tir == "f").unwrap();
    (db, id)
}

fn programs(found: &[TuningRecord]) -> Vec<u64> {
    found.iter().filter_map(|r| r.context.program).collect()
}

/// The programs of the top `k`; fails if a line is damaged.
fn top(db: &Database, id: WorkloadId, k: usize, filter: &Filter) -> Vec<u64> {
    let (found, problems) = db.top_k(id, k, filter).unwrap();
    assert_eq!(problems, []);
    programs(&found)
}

#[test]
fn golden_lines_read_and_write_back_unchanged() {
    for line in GOLDEN_RECORDS.lines() {
        let record = TuningRecord::from_line(line.as_bytes()).unwrap();
        let json: Value = serde_json::from_str(line).unwrap();
        if json.as_array().unwrap().len() == 3 {
            assert_eq!(record.to_line().trim_end(), line);
        }
    }
    for line in GOLDEN_WORKLOADS.lines() {
        assert_eq!(WorkloadEntry::from_line(line.as_bytes()).unwrap().to_line().trim_end(), line);
    }
}

#[test]
fn no_prefix_of_a_line_is_a_line() {
    for line in GOLDEN_RECORDS.lines() {
        for n in 0..line.len() {
            assert!(TuningRecord::from_line(&line.as_bytes()[..n]).is_err(), "{}", &line[..n]);
        }
    }
}

#[test]
fn golden_database_answers() {
    let dir = temp();
    fs::write(dir.path().join(WORKLOAD_FILE), GOLDEN_WORKLOADS).unwrap();
    fs::write(dir.path().join(RECORD_FILE), GOLDEN_RECORDS).unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.problems(), []);
    let id = db.find_workload(HASH, |_| true).unwrap();
    let (found, _) = db.top_k(id, 10, &Filter { threads: Threads::Exactly(1), ..Filter::any() }).unwrap();
    let summary: Vec<(Role, f64)> = found.iter().map(|r| (r.context.role, r.secs().unwrap())).collect();
    assert_eq!(summary, [(Role::Rerun, 2.55e-5), (Role::Baseline, 0.00041)]);
    // The line written by TVM has no context, but counts.
    let (found, _) = db.top_k(id, 10, &Filter { threads: Threads::Exactly(2), ..Filter::any() }).unwrap();
    assert_eq!(found.iter().map(|r| r.secs().unwrap()).collect::<Vec<_>>(), [(3.5e-5 + 3.7e-5) / 2.0]);
    let counts = db.counts(id, &Filter { isa: Some("avx512".into()), ..Filter::any() });
    assert_eq!((counts.trials, counts.valid), (3, 1));
    assert_eq!(counts.errors.into_iter().collect::<Vec<_>>(), [("compile".into(), 1), ("wrong_result".into(), 1)]);
}

/// The fenced blocks of docs/database.md that are marked with `json` and this word.
fn documented(kind: &str) -> String {
    let docs = include_str!("../../docs/database.md");
    let fence = format!("```json {kind}\n");
    docs.split(&fence).skip(1).filter_map(|block| block.split("```").next()).collect()
}

#[test]
fn documented_lines_are_read() {
    let workloads = documented("workload");
    for line in workloads.lines() {
        assert_eq!(WorkloadEntry::from_line(line.as_bytes()).unwrap().to_line().trim_end(), line);
    }
    let records = documented("record");
    for line in records.lines() {
        let record = TuningRecord::from_line(line.as_bytes()).unwrap();
        let (written, documented): (Value, Value) =
            (serde_json::from_str(&record.to_line()).unwrap(), serde_json::from_str(line).unwrap());
        assert_eq!(written, documented);
    }
    assert_eq!((workloads.lines().count(), records.lines().count()), (1, 2));
    let target: Value = serde_json::from_str(&documented("target")).unwrap();
    assert_eq!(crate::machine::Target::from_json(&target).map(|t| t.to_json()), Ok(target));
}

#[test]
fn documented_fields_are_those_written() {
    let docs = include_str!("../../docs/database.md");
    for line in [record(WorkloadId(0), 1, 1.0), failed(WorkloadId(0), 1, FailureKind::Crash)].map(|r| r.to_line()) {
        let json: Value = serde_json::from_str(&line).unwrap();
        for field in json[2].as_object().unwrap().keys() {
            assert!(docs.contains(&format!("`{field}`")), "docs/database.md does not describe `{field}`");
        }
    }
}

#[test]
fn second_element_has_the_shape_tvm_reads() {
    let line = record(WorkloadId(3), 9, 25.0).to_line();
    let json: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json[0], 3);
    let second = json[1].as_array().unwrap();
    assert_eq!(second.len(), 4);
    assert_eq!(second[0].as_array().map(Vec::len), Some(2), "instructions and decisions");
    assert_eq!(second[1], json!([25.0 * 1e-6]));
    let keys: BTreeSet<&str> = second[2].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["kind", "keys", "mcpu", "mattr", "mtriple", "num-cores"]));
    assert_eq!(second[3][0], json!(["TENSOR", "float32", [1, 64, 56, 56]]));
    let failed: Value = serde_json::from_str(&failed(WorkloadId(0), 1, FailureKind::Crash).to_line()).unwrap();
    assert_eq!(failed[1][1], Value::Null);
    assert_eq!(failed[2]["error"]["kind"], "crash");
}

#[test]
fn arguments_of_a_function() {
    let mut func = Func::new("main");
    func.add_param("A", crate::ir::DType::Float32, &[128, 64]);
    func.add_param("B", crate::ir::DType::Int8, &[]);
    let expected = json!([["TENSOR", "float32", [128, 64]], ["TENSOR", "int8", []]]);
    assert_eq!(serde_json::to_value(ArgInfo::of(&func)).unwrap(), expected);
}

// ---- properties --------------------------------------------------------------------------------------------

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300f64..1e300).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(Value::from("\\\"[]{},:\u{7f}\u{2028}\n\u{0}")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((".{0,6}", inner), 0..3)
                .prop_map(|m| m.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn any_trace() -> impl Strategy<Value = Value> {
    let list = || proptest::collection::vec(any_json(), 0..4);
    let instruction = ("[A-Z][a-z]{1,8}", list(), list(), list()).prop_map(|(k, i, a, o)| json!([k, i, a, o]));
    let decision = (0u32..50, any_json()).prop_map(|(i, d)| json!([i, d]));
    (proptest::collection::vec(instruction, 0..6), proptest::collection::vec(decision, 0..4))
        .prop_map(|(i, d)| json!([i, d]))
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let time = || 1e-9f64..1e3;
    let measured = (proptest::collection::vec(time(), 1..5), proptest::collection::vec(time(), 0..9), any::<u64>())
        .prop_map(|(run_secs, batch_secs, calls)| Outcome::Measured(Times { run_secs, batch_secs, calls }));
    let kind =
        prop_oneof![Just(FailureKind::Compile), Just(FailureKind::Timeout), "[a-z]{1,9}x".prop_map(FailureKind::Other)];
    let failed = (kind, ".{0,9}", proptest::option::of(".{0,9}"), ".{0,40}")
        .prop_map(|(kind, stage, primitive, message)| Outcome::Failed(Failure { kind, stage, primitive, message }));
    prop_oneof![measured, failed]
}

fn any_context() -> impl Strategy<Value = Context> {
    let role = prop_oneof![Just(Role::Trial), Just(Role::Baseline), Just(Role::Rerun)];
    let hash = || proptest::option::of(any::<u64>());
    let texts = (".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}");
    let numbers = (any::<u32>(), any::<u64>(), any::<u64>(), proptest::option::of(0f64..9.0), 0u64..253_402_300_799);
    let other = proptest::collection::vec(("later_[a-z]{1,5}", any_json()), 0..3);
    (role, hash(), hash(), texts, numbers, any::<(bool, bool)>(), other).prop_map(
        |(role, workload_hash, program, texts, numbers, (strict_fp, checked), other)| Context {
            workload_hash,
            program,
            role,
            isa: texts.0,
            strict_fp,
            threads: numbers.0,
            checked,
            tvmr: texts.1,
            space: texts.2,
            strategy: texts.3,
            seed: numbers.1,
            trial: numbers.2,
            compile_secs: numbers.3,
            time: Timestamp(numbers.4),
            other: other.into_iter().collect(),
        },
    )
}

proptest! {
    #[test]
    fn records_read_back(trace in any_trace(), outcome in any_outcome(), context in any_context(), target in any_json(), workload in any::<u32>()) {
        let args_info = vec![ArgInfo { kind: "TENSOR".into(), dtype: "int8".into(), shape: vec![3, -1] }];
        let record = TuningRecord { workload: WorkloadId(workload), trace, outcome, target, args_info, context };
        let line = record.to_line();
        prop_assert_eq!(line.bytes().filter(|&b| b == b'\n').count(), 1);
        prop_assert_eq!(TuningRecord::from_line(line.trim_end_matches('\n').as_bytes()), Ok(record));
    }

    #[test]
    fn workloads_read_back(hash in any::<u64>(), tir in ".{0,80}", name in ".{0,9}", time in 0u64..253_402_300_799) {
        let entry = WorkloadEntry::new(hash, tir, name, Timestamp(time));
        prop_assert_eq!(WorkloadEntry::from_line(entry.to_line().trim_end_matches('\n').as_bytes()), Ok(entry));
    }

    #[test]
    fn any_bytes_are_only_ever_problems(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(&b"[]{},:\"\\\n 0"[..])], 0..200)) {
        let dir = temp();
        fs::write(dir.path().join(WORKLOAD_FILE), &bytes).unwrap();
        fs::write(dir.path().join(RECORD_FILE), &bytes).unwrap();
        let mut db = Database::create(dir.path()).unwrap();
        let id = db.commit_workload(&entry(HASH, "f"), |e| e.tir == "f").unwrap();
        db.commit(&[record(id, 1, 5.0)]).unwrap();
        prop_assert_eq!(top(&db, id, 3, &Filter::any()), [1]);
        prop_assert!(fs::read(dir.path().join(RECORD_FILE)).unwrap().starts_with(&bytes));
        let again = Database::open(dir.path()).unwrap();
        prop_assert_eq!(again.problems(), db.problems());
        prop_assert_eq!(top(&again, id, 3, &Filter::any()), [1]);
    }
}

// ---- writing and reading -----------------------------------------------------------------------------------

#[test]
fn a_workload_is_stored_once_and_equal_hashes_are_told_apart() {
    let dir = temp();
    let (mut db, first) = with_workload(dir.path());
    assert_eq!(db.commit_workload(&entry(HASH, "f"), |e| e.tir == "f").unwrap(), first);
    let second = db.commit_workload(&entry(HASH, "g"), |e| e.tir == "g").unwrap();
    assert_eq!((first, second), (WorkloadId(0), WorkloadId(1)));
    // Another process finds both workloads.
    let mut other = Database::create(dir.path()).unwrap();
    assert_eq!(other.commit_workload(&entry(HASH, "g"), |e| e.tir == "g").unwrap(), second);
    assert_eq!(other.find_workload(HASH, |e| e.tir == "h"), None);
    assert_eq!(other.find_workload(1, |_| true), None);
}

#[test]
fn what_others_write_is_seen_after_a_refresh() {
    let dir = temp();
    let (mut a, id) = with_workload(dir.path());
    let mut b = Database::open(dir.path()).unwrap();
    a.commit(&[record(id, 1, 5.0)]).unwrap();
    assert!(top(&b, id, 9, &Filter::any()).is_empty());
    b.refresh().unwrap();
    assert_eq!(top(&b, id, 9, &Filter::any()), [1]);
    // A commit refreshes the workloads as well.
    let new = a.commit_workload(&entry(2, "g"), |_| true).unwrap();
    a.commit(&[record(new, 7, 5.0)]).unwrap();
    b.commit(&[record(id, 2, 4.0)]).unwrap();
    assert_eq!(top(&b, id, 9, &Filter::any()), [2, 1]);
    assert_eq!(top(&b, new, 9, &Filter::any()), [7]);
    assert_eq!(b.problems(), []);
}

#[test]
fn a_record_of_an_unknown_workload_is_refused() {
    let dir = temp();
    let (mut db, _) = with_workload(dir.path());
    let error = db.commit(&[record(WorkloadId(5), 1, 5.0)]).unwrap_err();
    assert_eq!(error.kind, DatabaseErrorKind::UnknownWorkload(5));
}

#[test]
fn queries_follow_cpu_threads_and_mode() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    let mut other_cpu = record(id, 1, 1.0);
    other_cpu.target["mcpu"] = "znver4".into();
    let mut other_features = record(id, 2, 2.0);
    other_features.target["mattr"] = json!(["+avx2"]);
    let mut strict = record(id, 5, 5.0);
    strict.context.strict_fp = true;
    let mut narrow = record(id, 6, 6.0);
    narrow.context.isa = "avx2".into();
    let many = with_threads(record(id, 3, 3.0), 64);
    let two = with_threads(record(id, 4, 4.0), 2);
    db.commit(&[narrow, other_cpu, other_features, many, two, strict, record(id, 7, 7.0)]).unwrap();
    let here = cascade_lake();
    assert_eq!(top(&db, id, 9, &Filter::any()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(top(&db, id, 9, &Filter::on(&here, None)), [4, 5, 6, 7]);
    assert_eq!(top(&db, id, 9, &Filter::on(&here, Some(1))), [5, 6, 7]);
    assert_eq!(top(&db, id, 9, &Filter::on(&here, Some(64))), [3]);
    assert_eq!(top(&db, id, 9, &Filter { strict_fp: Some(false), ..Filter::on(&here, Some(1)) }), [6, 7]);
    assert_eq!(top(&db, id, 9, &Filter { isa: Some("avx2".into()), ..Filter::on(&here, Some(1)) }), [6]);
    assert_eq!(top(&db, id, 2, &Filter::any()), [1, 2]);
    assert_eq!(db.best(id, &Filter::any()).unwrap().0.unwrap().context.program, Some(1));
    assert_eq!(db.programs(id, &Filter::on(&here, Some(1))), BTreeSet::from([5, 6, 7]));
}

#[test]
fn a_later_measurement_supersedes() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    let rerun = |mut r: TuningRecord| {
        r.context.role = Role::Rerun;
        r
    };
    db.commit(&[record(id, 1, 1.0), record(id, 2, 2.0), record(id, 3, 3.0)]).unwrap();
    db.commit(&[rerun(record(id, 1, 2.5)), rerun(failed(id, 2, FailureKind::WrongResult))]).unwrap();
    assert_eq!(top(&db, id, 9, &Filter::any()), [1, 3]);
    let counts = db.counts(id, &Filter::any());
    assert_eq!((counts.trials, counts.valid, counts.errors["wrong_result"]), (3, 2, 1));
    assert_eq!(programs(&db.failed(id, &Filter::any()).unwrap().0), [2]);
    assert_eq!(programs(&db.records(id, &Filter::any()).unwrap().0), [1, 2, 3, 1, 2]);
}

#[test]
fn a_final_that_knew_nothing_of_a_winner_does_not_overrule_it() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    let rerun = |program, us| {
        let mut r = record(id, program, us);
        r.context.role = Role::Rerun;
        r
    };
    db.commit(&[record(id, 1, 1.0), record(id, 2, 1.5), rerun(2, 2.4), rerun(1, 2.0)]).unwrap();
    // Another process, or another database.
    db.commit(&[record(id, 3, 1.9), record(id, 4, 1.8), rerun(3, 3.0), rerun(4, 2.7)]).unwrap();
    assert_eq!(top(&db, id, 9, &Filter::any()), [1, 4, 2, 3]);
    // This final knows the earlier winner.
    db.commit(&[record(id, 5, 1.0), rerun(1, 2.8), rerun(4, 2.6)]).unwrap();
    assert_eq!(top(&db, id, 9, &Filter::any()), [4, 2, 5, 1, 3]);
}

#[test]
fn the_baseline_ranks_but_is_no_trial() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    let mut baseline = record(id, 1, 1.0);
    baseline.context.role = Role::Baseline;
    db.commit(&[baseline, record(id, 2, 2.0), failed(id, 3, FailureKind::Timeout)]).unwrap();
    assert_eq!(top(&db, id, 9, &Filter::any()), [1, 2]);
    let counts = db.counts(id, &Filter::any());
    assert_eq!((counts.trials, counts.valid), (2, 1));
    let stats = db.stats();
    assert_eq!((stats.workloads, stats.records, stats.damaged), (1, 3, 0));
    let [only] = stats.settings.as_slice() else { panic!("one setting: {stats:?}") };
    assert_eq!((only.threads, only.isa.as_str(), only.best_secs), (1, "avx512", Some(1e-6)));
    assert_eq!(only.last, Timestamp(1_772_366_403));
}

// ---- damage ------------------------------------------------------------------------------------------------

#[test]
fn killed_at_any_byte_of_the_last_line() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    // A short record, since the database is opened for each of its bytes.
    let short = |program, us| TuningRecord { trace: json!([[["A", [], ["]\""], []]], []]), ..record(id, program, us) };
    db.commit(&[short(1, 1.0), short(2, 2.0)]).unwrap();
    let path = dir.path().join(RECORD_FILE);
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    for cut in second..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lost = cut + 1 < whole.len();
        let reader = Database::open(dir.path()).unwrap();
        let torn = (cut > second && lost).then(|| Reason::Torn((cut - second) as u64));
        assert_eq!(reader.problems().into_iter().map(|p| (p.line, p.reason)).next(), torn.map(|t| (2, t)), "{cut}");
        let expected: &[u64] = if lost { &[1] } else { &[1, 2] };
        assert_eq!(top(&reader, id, 9, &Filter::any()), expected);
        // The next writer keeps the partial line, and inserts a newline only if needed.
        let mut writer = Database::create(dir.path()).unwrap();
        writer.commit(&[short(3, 3.0)]).unwrap();
        let text = fs::read(&path).unwrap();
        assert!(text.starts_with(&whole[..cut]));
        assert_eq!(top(&writer, id, 9, &Filter::any()), [expected, &[3]].concat());
        let reread = Database::open(dir.path()).unwrap();
        assert_eq!(top(&reread, id, 9, &Filter::any()), [expected, &[3]].concat());
        assert_eq!(reread.problems().len(), usize::from(cut > second && lost));
        assert_eq!(reread.problems(), writer.problems());
    }
}

#[test]
fn a_torn_workload_line_keeps_its_number() {
    let dir = temp();
    let (mut db, first) = with_workload(dir.path());
    let second = db.commit_workload(&entry(2, "g"), |_| true).unwrap();
    db.commit(&[record(first, 1, 1.0), record(second, 2, 2.0)]).unwrap();
    let path = dir.path().join(WORKLOAD_FILE);
    let whole = fs::read(&path).unwrap();
    let start = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    for cut in start + 1..whole.len() - 1 {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut db = Database::create(dir.path()).unwrap();
        let reasons: Vec<Reason> = db.problems().into_iter().map(|p| p.reason).collect();
        assert_eq!(reasons, [Reason::Torn((cut - start) as u64), Reason::DanglingWorkload(1)]);
        let third = db.commit_workload(&entry(3, "h"), |_| true).unwrap();
        assert_eq!(third, WorkloadId(2));
        // The workload is added again under another number; its record finds it by its hash.
        assert_eq!(db.commit_workload(&entry(2, "g"), |_| true).unwrap(), WorkloadId(3));
        let reread = Database::open(dir.path()).unwrap();
        assert_eq!(top(&reread, WorkloadId(3), 9, &Filter::any()), [2]);
        assert_eq!(top(&reread, first, 9, &Filter::any()), [1]);
    }
}

/// Puts `damage` between two good lines, and checks the reason and that the good lines are still found.
fn check_damage(damage: &str, expected: &str) {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    db.commit(&[record(id, 1, 1.0)]).unwrap();
    let path = dir.path().join(RECORD_FILE);
    let mut text = fs::read(&path).unwrap();
    text.extend(damage.as_bytes());
    text.push(b'\n');
    fs::write(&path, &text).unwrap();
    db.commit(&[record(id, 2, 2.0)]).unwrap();
    for db in [&db, &Database::open(dir.path()).unwrap()] {
        assert_eq!(top(db, id, 9, &Filter::any()), [1, 2]);
        let problems = db.problems();
        let [problem] = problems.as_slice() else { panic!("{damage}: {problems:?}") };
        assert_eq!(problem.to_string(), format!("{}:2: {expected}", path.display()), "{damage}");
    }
}

#[test]
fn damaged_lines_of_many_kinds() {
    let good = |extra: &str| format!("[0,[[[],[]],[1e-6],{{\"kind\":\"llvm\"}},[]],{extra}]");
    check_damage("garbage", "expected `[` at byte 0");
    check_damage("[0", "expected `,` at byte 2");
    check_damage("[0,[[[],[]],[1e-6],{},[]]", "expected `]` at the end at byte 25");
    check_damage("[0,[[[],[]],[1e-6],{}]]", "expected `,` at byte 21");
    check_damage("\u{0}\u{0}\u{0}", "expected `[` at byte 0");
    check_damage("[\"x\",[[[],[]],[1e-6],{},[]]]", "invalid type: string \"x\", expected u64 at line 1 column 3");
    check_damage("[-1,[[[],[]],[1e-6],{},[]]]", "invalid value: integer `-1`, expected u64 at line 1 column 2");
    check_damage("[0,[[[],[]],7,{},[]]]", "invalid type: integer `7`, expected a sequence at line 1 column 1");
    check_damage(&good("7"), "invalid type: integer `7`, expected struct ExtraScan at line 1 column 1");
    check_damage(&good("{}"), "missing field `format` at line 1 column 2");
    check_damage(&good("{\"format\":1}"), "missing field `status` at line 1 column 12");
    check_damage(
        &good("{\"format\":2,\"status\":\"fine\"}"),
        "expected record format 1, found 2: a later version of tvmr wrote it",
    );
    check_damage(&good("{\"format\":1,\"status\":\"error\"}"), "status is `error` but there is no `error`");
    check_damage(
        "[0,[[[],[]],null,{},[]],{\"format\":1,\"status\":\"ok\"}]",
        "status is `ok` but there is no run time",
    );
    check_damage("[7,[[[],[]],[1e-6],{},[]]]", "there is no usable workload 7");
    check_damage("[4294967296,[[[],[]],[1e-6],{},[]]]", "there is no usable workload 4294967296");
    check_damage(
        &good("{\"format\":1,\"status\":\"ok\",\"workload\":\"99\"}"),
        &format!("expected workload 0 to have hash 99, found {HASH}"),
    );
}

#[test]
fn damage_inside_a_trace_shows_when_it_is_read() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    db.commit(&[record(id, 1, 1.0), record(id, 2, 2.0)]).unwrap();
    let path = dir.path().join(RECORD_FILE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"GetSBlock\",", "\"GetSBlock\";", 1)).unwrap();
    let mut db = Database::open(dir.path()).unwrap();
    assert_eq!(db.problems(), []);
    let (found, problems) = db.top_k(id, 1, &Filter::any()).unwrap();
    assert_eq!(programs(&found), [2]);
    assert_eq!(problems.iter().map(|p| p.line).collect::<Vec<_>>(), [1]);
    let report = db.verify(|_| Ok(()), |_, _| Ok(())).unwrap();
    assert_eq!((report.workloads, report.records), (1, 1));
    assert_eq!(report.problems, problems);
}

#[test]
fn verify_asks_about_meaning_too() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    db.commit(&[record(id, 1, 1.0), failed(id, 2, FailureKind::Crash)]).unwrap();
    let report = db
        .verify(
            |_| Err("the text does not parse".into()),
            |_, r| match r.failure() {
                Some(_) => Err("no".into()),
                None => Ok(()),
            },
        )
        .unwrap();
    assert_eq!((report.workloads, report.records), (0, 1));
    let reasons: Vec<String> = report.problems.iter().map(|p| p.reason.to_string()).collect();
    assert_eq!(reasons, ["the text does not parse", "no"]);
}

// ---- several writers ---------------------------------------------------------------------------------------

const WRITERS: u64 = 4;
const LINES: u64 = 60;

/// Commits as one of several writers: two workloads, one of which all share.
fn write_as(dir: &Path, writer: u64) {
    let mut db = Database::create(dir).unwrap();
    let common = db.commit_workload(&entry(HASH, "f"), |e| e.tir == "f").unwrap();
    let own = db.commit_workload(&entry(writer, "own"), |_| true).unwrap();
    for i in 0..LINES {
        let id = if i % 2 == 0 { common } else { own };
        db.commit(&[record(id, writer * 1000 + i, (i + 1) as f64)]).unwrap();
    }
}

fn check_written(dir: &Path) {
    let db = Database::open(dir).unwrap();
    assert_eq!(db.problems(), []);
    assert_eq!(db.workloads().count() as u64, WRITERS + 1, "the common workload is stored once");
    let common = db.find_workload(HASH, |_| true).unwrap();
    assert_eq!(db.counts(common, &Filter::any()).trials, WRITERS * LINES / 2);
    for writer in 0..WRITERS {
        let own = db.find_workload(writer, |_| true).unwrap();
        let expected: BTreeSet<u64> = (0..LINES).filter(|i| i % 2 == 1).map(|i| writer * 1000 + i).collect();
        assert_eq!(db.programs(own, &Filter::any()), expected);
    }
}

#[test]
fn threads_append_to_one_directory() {
    let dir = temp();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = dir.path();
            scope.spawn(move || write_as(path, writer));
        }
    });
    check_written(dir.path());
}

const WRITER_DIR: &str = "TVMR_TEST_DATABASE_WRITER";

/// The body of the processes that the next test starts.
#[test]
#[ignore = "a process of the test below"]
fn writer_process() {
    let text = std::env::var(WRITER_DIR).expect("started by the test below");
    let (writer, dir) = text.split_once(':').unwrap();
    write_as(Path::new(dir), writer.parse().unwrap());
}

#[test]
fn processes_append_to_one_directory() {
    let dir = temp();
    let children: Vec<_> = (0..WRITERS)
        .map(|writer| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "database::tests::writer_process"])
                .env(WRITER_DIR, format!("{writer}:{}", dir.path().display()))
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    check_written(dir.path());
}

// ---- looking after -----------------------------------------------------------------------------------------

#[test]
fn merging_renumbers_and_is_idempotent() {
    let (a, b) = (temp(), temp());
    let (mut into, f) = with_workload(a.path());
    into.commit(&[record(f, 1, 1.0)]).unwrap();
    let mut from = Database::create(b.path()).unwrap();
    let g = from.commit_workload(&entry(2, "g"), |_| true).unwrap();
    let f_there = from.commit_workload(&entry(HASH, "f"), |_| true).unwrap();
    from.commit(&[record(g, 5, 5.0), record(f_there, 1, 1.0), record(f_there, 6, 6.0)]).unwrap();
    fs::write(b.path().join(RECORD_FILE), [fs::read(b.path().join(RECORD_FILE)).unwrap(), b"[to".to_vec()].concat())
        .unwrap();
    let report = merge(b.path(), a.path(), |x, y| x.tir == y.tir).unwrap();
    assert_eq!((report.workloads, report.records, report.duplicates, report.problems.len()), (1, 2, 1, 1));
    let again = merge(b.path(), a.path(), |x, y| x.tir == y.tir).unwrap();
    assert_eq!((again.workloads, again.records, again.duplicates), (0, 0, 3));
    into.refresh().unwrap();
    assert_eq!(into.problems(), []);
    assert_eq!(top(&into, f, 9, &Filter::any()), [1, 6]);
    let g = into.find_workload(2, |_| true).unwrap();
    assert_eq!(top(&into, g, 9, &Filter::any()), [5]);
    // Into itself: nothing to do.
    let own = merge(a.path(), a.path(), |x, y| x.tir == y.tir).unwrap();
    assert_eq!((own.workloads, own.records), (0, 0));
}

#[test]
fn pruning_keeps_the_best_and_the_damaged() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    db.commit(&[record(id, 1, 3.0), record(id, 2, 1.0)]).unwrap();
    let path = dir.path().join(RECORD_FILE);
    let mut text = fs::read(&path).unwrap();
    text.extend(b"dam\xffaged\n\n");
    fs::write(&path, text).unwrap();
    db.commit(&[record(id, 3, 2.0), failed(id, 4, FailureKind::Crash), with_threads(record(id, 5, 9.0), 2)]).unwrap();
    fs::write(&path, [fs::read(&path).unwrap(), b"torn".to_vec()].concat()).unwrap();

    let report = prune(dir.path(), &Retention { best: 1, failed: true }).unwrap();
    assert_eq!((report.kept, report.removed, report.problems.len()), (3, 2, 2));
    // A database that was open before still answers from the old table, then sees the change.
    assert_eq!(top(&db, id, 9, &Filter::any()), [2, 3, 1, 5]);
    db.refresh().unwrap();
    assert_eq!(top(&db, id, 9, &Filter::any()), [2, 5]);
    assert_eq!(db.programs(id, &Filter::any()), BTreeSet::from([2, 4, 5]));
    let text = fs::read(&path).unwrap();
    assert!(text.windows(9).any(|w| w == b"dam\xffaged\n") && text.ends_with(b"torn"));
    db.commit(&[record(id, 6, 0.5)]).unwrap();
    assert_eq!(top(&Database::open(dir.path()).unwrap(), id, 9, &Filter::any()), [6, 2, 5]);

    let report = prune(dir.path(), &Retention { best: 1, failed: false }).unwrap();
    assert_eq!((report.kept, report.removed), (2, 2));
    let nothing = prune(dir.path(), &Retention { best: 1, failed: false }).unwrap();
    assert_eq!((nothing.kept, nothing.removed), (2, 0));
}

// ---- the machine fails us ----------------------------------------------------------------------------------

#[test]
fn missing_and_wrong_directories() {
    let dir = temp();
    let missing = dir.path().join("a/b");
    let error = Database::open(&missing).unwrap_err();
    assert!(error.is_missing() && error.path == missing, "{error}");
    assert!(!missing.exists(), "reading makes nothing");
    Database::create(&missing).unwrap();
    assert_eq!(Database::open(&missing).unwrap().problems(), []);
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for error in [Database::open(&file).unwrap_err(), Database::create(&file).unwrap_err()] {
        assert_eq!(error.kind, DatabaseErrorKind::NotADirectory, "{error}");
    }
    fs::remove_file(missing.join(RECORD_FILE)).unwrap();
    fs::create_dir(missing.join(RECORD_FILE)).unwrap();
    assert!(Database::open(&missing).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    let path = dir.path().join(RECORD_FILE);
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let error = db.commit(&[record(id, 1, 1.0)]).unwrap_err();
    assert_eq!((error.action, error.kind.clone()), (Action::Write, DatabaseErrorKind::NoSpace), "{error}");
    fs::remove_file(&path).unwrap();
    db.commit(&[record(id, 1, 1.0)]).unwrap();
    assert_eq!(top(&db, id, 9, &Filter::any()), [1]);
}

#[cfg(unix)]
#[test]
fn a_directory_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    db.commit(&[record(id, 1, 1.0)]).unwrap();
    fs::remove_file(dir.path().join("database.lock")).unwrap();
    for name in [WORKLOAD_FILE, RECORD_FILE] {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let reader = Database::open(dir.path()).unwrap();
    assert_eq!(top(&reader, id, 9, &Filter::any()), [1]);
    // The superuser is not bound by permissions.
    if let Err(error) = Database::create(dir.path()) {
        assert_eq!(error.kind, DatabaseErrorKind::Permission, "{error}");
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_was_not_measured_is_kept_apart() {
    let dir = temp();
    let (mut db, id) = with_workload(dir.path());
    let to_try = |seed| {
        let context = Context { program: None, threads: 0, isa: String::new(), seed, ..record(id, 1, 1.0).context };
        TuningRecord { outcome: Outcome::Untried, target: Value::Null, context, ..record(id, 1, 1.0) }
    };
    db.commit(&[to_try(1), record(id, 5, 9.0), to_try(2), failed(id, 6, FailureKind::Crash)]).unwrap();
    let seeds = |db: &Database| db.untried(id).unwrap().0.iter().map(|r| r.context.seed).collect::<Vec<_>>();
    let reopened = Database::open(dir.path()).unwrap();
    assert_eq!(seeds(&reopened), [1, 2]);
    assert_eq!(reopened.untried(id).unwrap().0[0].outcome, Outcome::Untried);
    assert_eq!(top(&reopened, id, 9, &Filter::any()), [5]);
    assert_eq!(reopened.programs(id, &Filter::any()), BTreeSet::from([5, 6]));
    let stats = reopened.stats();
    assert_eq!((stats.records, stats.settings.len(), stats.settings[0].counts.trials), (4, 1, 2));
    // They are neither slow nor failures.
    let report = prune(dir.path(), &Retention { best: 1, failed: false }).unwrap();
    assert_eq!((report.kept, report.removed), (3, 1));
    assert_eq!(seeds(&Database::open(dir.path()).unwrap()), [1, 2]);
}
