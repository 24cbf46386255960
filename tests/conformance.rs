//! Conformance: compares schedules applied to programs with what Apache TVM did.
//!
//! Reads every `*.jsonl` of the directory named by `TVMR_CONFORMANCE` (default: tests/conformance), one case per line:
//! a program, a schedule for it, and the resulting program or the error. For each file and each primitive, a line of
//! output says how many cases agree:
//!
//! * `verdicts`: accepted or refused;
//! * `programs`: the program after it, compared as trees (variables up to renaming, constants folded, block names);
//! * `classes`: the class of the error, where TVM meant to refuse;
//! * `simplified`: the programs again, with expressions simplified first;
//! * `traces`: the trace that the schedule recorded, as Python text and as JSON, and both read and written again.
//!
//! Cases that show a defect of TVM are counted separately, and so are those whose index maps TVM printed in no readable
//! form. The agreement must never decrease: the numbers in tests/conformance/floors.json only rise. `TVMR_BLESS=1`
//! raises them; `TVMR_CONFORMANCE_SHOW=N` lists N differing cases of each kind, `TVMR_CONFORMANCE_ONLY=PRIMITIVE`
//! checks the cases of one primitive, `TVMR_CONFORMANCE_CASE=ID` shows one case.

#![expect(clippy::print_stdout, reason = "shows figures with `--nocapture`")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tvmr::arith::Analyzer;
use tvmr::ir::equal::Equality;
use tvmr::ir::verify::Checks;
use tvmr::ir::visit::walk_rewrite;
use tvmr::ir::{Arena, DType, ExprId, Module, Rewriter};
use tvmr::schedule::{Schedule, Trace, primitive};
use tvmr::schedule_function::ScheduleFunction;
use tvmr::script::{self, Dialect, ParseOptions};

/// The measures, in the order of the output.
const MEASURES: [&str; 5] = ["verdicts", "programs", "classes", "simplified", "traces"];
const VERDICT: usize = 0;
const PROGRAM: usize = 1;
const CLASS: usize = 2;
const SIMPLIFIED: usize = 3;
const TRACE: usize = 4;

/// Number of cases that count for a measure, and number of those that agree.
#[derive(Clone, Copy, Default)]
struct Score {
    agree: usize,
    of: usize,
}

#[derive(Clone, Default)]
struct Tally {
    scores: [Score; MEASURES.len()],
    panics: usize,
    unreadable: usize,
    defects: Defects,
}

/// Outcomes of the cases that show a defect of TVM.
#[derive(Clone, Copy, Default)]
struct Defects {
    refused: usize,
    equal: usize,
    other: usize,
}

/// The outcome of one case.
#[derive(Default)]
struct Judgement {
    /// For each measure, whether the case agrees; `None` if it does not count.
    agrees: [Option<bool>; MEASURES.len()],
    panicked: bool,
    unreadable: bool,
    defect: Option<fn(&mut Defects)>,
    /// The differences, with the measure.
    notes: Vec<(usize, String)>,
}

impl Judgement {
    fn set(&mut self, measure: usize, result: Result<(), String>) {
        self.agrees[measure] = Some(result.is_ok());
        self.notes.extend(result.err().map(|why| (measure, why)));
    }

    /// A case in which nothing agrees.
    fn nothing(case: &Value, why: String) -> Judgement {
        let mut j = Judgement::default();
        if is_defect(case) {
            j.defect = Some(|d| d.other += 1);
            return j;
        }
        j.set(VERDICT, Err(why));
        if case["ok"] == json!(true) {
            for measure in [PROGRAM, SIMPLIFIED, TRACE] {
                j.set(measure, Err(String::new()));
            }
        } else if text(case, "error_kind") == "schedule" {
            j.set(CLASS, Err(String::new()));
        }
        j
    }
}

impl Tally {
    fn add(&mut self, j: &Judgement) {
        for (score, agrees) in self.scores.iter_mut().zip(j.agrees) {
            score.of += agrees.is_some() as usize;
            score.agree += (agrees == Some(true)) as usize;
        }
        self.panics += j.panicked as usize;
        self.unreadable += j.unreadable as usize;
        if let Some(count) = j.defect {
            count(&mut self.defects);
        }
    }

    fn join(&mut self, other: &Tally) {
        for (score, more) in self.scores.iter_mut().zip(other.scores) {
            score.agree += more.agree;
            score.of += more.of;
        }
        self.panics += other.panics;
        self.unreadable += other.unreadable;
        self.defects.refused += other.defects.refused;
        self.defects.equal += other.defects.equal;
        self.defects.other += other.defects.other;
    }

    fn line(&self) -> String {
        let mut line = String::new();
        for (name, score) in MEASURES.iter().zip(self.scores) {
            let _ = write!(line, "{}{name} {}/{}", if line.is_empty() { "" } else { ", " }, score.agree, score.of);
        }
        let Defects { refused, equal, other } = self.defects;
        if refused + equal + other > 0 {
            let _ = write!(line, "; defects of TVM: {refused} refused, {equal} copied, {other} done otherwise");
        }
        if self.unreadable > 0 {
            let _ = write!(line, "; unreadable {}", self.unreadable);
        }
        if self.panics > 0 {
            let _ = write!(line, "; PANICS {}", self.panics);
        }
        line
    }
}

/// Parsed programs by their text, since many cases share them.
#[derive(Default)]
struct Programs {
    parsed: Mutex<HashMap<String, Result<Arc<Module>, String>>>,
}

impl Programs {
    fn get(&self, text: &str) -> Result<Arc<Module>, String> {
        if let Some(found) = self.parsed.lock().expect("no holder panics").get(text) {
            return found.clone();
        }
        let parsed = parse(text).map(Arc::new);
        self.parsed.lock().expect("no holder panics").insert(text.to_string(), parsed.clone());
        parsed
    }
}

fn parse(text: &str) -> Result<Module, String> {
    // Some schedules deliberately leave wrong signatures or bounds (`disable_predication`,
    // `unsafe_hide_buffer_access`).
    let options = ParseOptions { checks: Some(Checks::FORM), ..ParseOptions::default() };
    script::parse(text, "case.tir", &options).map(|p| p.module).map_err(|d| d.to_string())
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_default()
}

/// The schedule of a case: its Python text, or its JSON if TVM failed to print it.
enum Steps {
    Function(ScheduleFunction),
    Trace(Trace),
}

/// Why a schedule failed, with the class of the error.
struct Stop {
    class: &'static str,
    message: String,
}

impl Steps {
    fn of(case: &Value) -> Result<Steps, String> {
        let python = text(case, "trace_py");
        if python.contains("def apply_trace") {
            ScheduleFunction::parse(python, "trace.py").map(Steps::Function).map_err(|d| d.to_string())
        } else {
            Trace::from_json(&case["trace_json"]).map(Steps::Trace).map_err(|e| e.to_string())
        }
    }

    fn apply(&self, schedule: &mut Schedule) -> Result<(), Stop> {
        match self {
            Steps::Function(f) => f
                .apply(schedule)
                .map_err(|e| Stop { class: e.refused.as_ref().map_or("", |r| r.kind.class()), message: e.to_string() }),
            Steps::Trace(t) => {
                t.replay(schedule).map_err(|e| Stop { class: e.error.kind.class(), message: e.error.to_string() })
            }
        }
    }
}

/// Whether TVM produced a wrong program in this case.
fn is_defect(case: &Value) -> bool {
    let numeric = text(case, "numeric");
    let bad = ["mismatch", "crash", "uncompilable"].iter().any(|b| numeric.starts_with(b));
    case["ok"] == json!(true) && (text(case, "reparse") == "fails" || bad)
}

/// Whether a layout is given only as TVM's object graph: if TVM's printer fails, nothing else is left.
fn lacks_its_index_maps(case: &Value) -> bool {
    let has_map = |inst: &Value| {
        ["TransformLayout", "TransformBlockLayout", "ReindexCacheRead", "ReindexCacheWrite"]
            .iter()
            .any(|k| inst[0] == *k)
    };
    let lost = !text(case, "trace_py").contains("def apply_trace");
    lost && case["trace_json"][0].as_array().is_some_and(|insts| insts.iter().any(has_map))
}

fn run(case: &Value, programs: &Programs) -> Result<(Result<(), Stop>, Schedule), String> {
    let input = programs.get(text(case, "input"))?;
    let steps = Steps::of(case)?;
    let mut schedule = Schedule::new(&input, 0);
    let result = steps.apply(&mut schedule);
    Ok((result, schedule))
}

fn judge(case: &Value, programs: &Programs) -> Judgement {
    let mut j = Judgement { unreadable: lacks_its_index_maps(case), ..Judgement::default() };
    if j.unreadable {
        return j;
    }
    let expected_ok = case["ok"] == json!(true);
    let (result, schedule) = match run(case, programs) {
        Ok(outcome) => outcome,
        Err(why) => return Judgement::nothing(case, why),
    };
    let same_program = || match &result {
        Ok(()) => same_program(&schedule.module(), text(case, "output"), programs),
        Err(_) => Err(String::new()),
    };
    if is_defect(case) {
        j.defect = Some(match &result {
            Err(_) => |d| d.refused += 1,
            Ok(()) if text(case, "reparse") != "fails" && same_program().is_ok() => |d| d.equal += 1,
            Ok(()) => |d| d.other += 1,
        });
        return j;
    }
    let done = schedule.trace().insts.len() as u64;
    let verdict = match &result {
        Ok(()) if expected_ok => Ok(()),
        Ok(()) => Err(format!("accepted, expected {}: {}", text(case, "error_class"), text(case, "error_message"))),
        Err(stop) if expected_ok => Err(format!("refused at {done}, {}: {}", stop.class, stop.message)),
        Err(_) => Ok(()),
    };
    let same_instruction = result.is_err() && case["fail_index"].as_u64() == Some(done);
    j.set(VERDICT, verdict);
    if expected_ok {
        let program = same_program();
        let simplified = match &result {
            Ok(()) if program.is_err() => same_simplified(&schedule.module(), text(case, "output"), programs),
            _ => program.clone(),
        };
        j.set(PROGRAM, program);
        j.set(SIMPLIFIED, simplified);
        j.set(TRACE, result.map_err(|_| String::new()).and_then(|()| same_trace(schedule.trace(), case)));
    } else if text(case, "error_kind") == "schedule" {
        let class = result.err().map_or("", |stop| stop.class);
        let expected = text(case, "error_class");
        let agrees = same_instruction && class == expected;
        let at = &case["fail_index"];
        let differs = || format!("class {class} at instruction {done}, expected {expected} at {at}");
        j.set(CLASS, if agrees { Ok(()) } else { Err(differs()) });
    }
    j
}

const EQUALITY: Equality = Equality { block_names: true, fold: true };

/// Whether the program is the expected one. Details that TVM's text does not show are ignored, so the program may be
/// printed and parsed first.
fn same_program(ours: &Module, expected: &str, programs: &Programs) -> Result<(), String> {
    let expected = programs.get(expected)?;
    let Err(difference) = EQUALITY.modules(ours, &expected) else { return Ok(()) };
    let printed = script::print_module(ours, Dialect::Current);
    let again = parse(&printed).map_err(|e| format!("our own text does not read: {e}"))?;
    EQUALITY.modules(&again, &expected).map_err(|_| difference.to_string())
}

/// Whether the program is the expected one after simplification.
fn same_simplified(ours: &Module, expected: &str, programs: &Programs) -> Result<(), String> {
    let expected = programs.get(expected)?;
    EQUALITY.modules(&simplified(ours), &simplified(&expected)).map_err(|d| d.to_string())
}

/// The module with every index and condition simplified, given the domains of loops and iteration variables.
fn simplified(module: &Module) -> Module {
    let mut module = module.clone();
    for func in &mut module.funcs {
        let mut analyzer = Analyzer::new();
        for s in func.subtree(func.root.stmt()) {
            if let Some(l) = func.as_loop(s) {
                let l = func.loop_(l).clone();
                analyzer.bind(&mut func.arena, l.var, l.min, l.extent);
            }
            if let Some(b) = func.as_block(s) {
                for iter in func.block(b).iters.clone() {
                    analyzer.bind(&mut func.arena, iter.var, iter.min, iter.extent);
                }
            }
        }
        let root = func.root.stmt();
        func.rewrite_subtree(root, &mut Simplifier { analyzer });
    }
    module
}

struct Simplifier {
    analyzer: Analyzer,
}

impl Rewriter for Simplifier {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        let dtype = arena.dtype(e);
        if dtype.is_int() || dtype == DType::Bool {
            self.analyzer.simplify(arena, e)
        } else {
            walk_rewrite(self, arena, e)
        }
    }
}

/// Whether the recorded trace is what TVM printed and stored, and both texts parse. The comparison of JSON ignores
/// index maps, for which TVM has object graphs, and requested compute locations that are invalid: we record the
/// location used instead.
fn same_trace(ours: &Trace, case: &Value) -> Result<(), String> {
    let json = ours.to_json();
    let without_locations = |trace: &Value| {
        let mut trace = trace.clone();
        let insts = trace[0].clone();
        for decision in trace[1].as_array_mut().into_iter().flatten() {
            let inst = decision[0].as_u64().map_or(&Value::Null, |i| &insts[i as usize]);
            if inst[0] == "SampleComputeLocation" {
                decision[1] = Value::Null;
            }
        }
        trace
    };
    same_json(&without_locations(&json), &without_locations(&case["trace_json"]), "trace")?;
    let back = Trace::from_json(&json).map_err(|e| format!("our JSON does not read: {e}"))?;
    if back.to_json() != json {
        return Err("our JSON reads back as another trace".to_string());
    }
    let python = ours.to_python(Dialect::Current);
    let back = Trace::from_python(&python, "trace.py").map_err(|e| format!("our Python does not read: {e}"))?;
    if back.to_python(Dialect::Current) != python || back.to_json() != json {
        return Err("our Python reads back as another trace".to_string());
    }
    let theirs = text(case, "trace_py");
    if !theirs.contains("def apply_trace") {
        return Ok(());
    }
    let (ours, theirs): (Vec<&str>, Vec<&str>) = (python.lines().collect(), theirs.lines().collect());
    if ours.len() != theirs.len() {
        return Err(format!("{} lines of Python, expected {}", ours.len(), theirs.len()));
    }
    match ours.iter().zip(&theirs).find(|(a, b)| without_maps(a) != without_maps(b)) {
        Some((a, b)) => Err(format!("Python `{a}`, expected `{b}`")),
        None => Ok(()),
    }
}

/// A statement up to its index map, which TVM may have folded differently, to a dictionary, in which TVM loses the
/// quotes, or to a location.
fn without_maps(line: &str) -> &str {
    let location = line.contains("sample_compute_location").then(|| line.find("decision=")).flatten();
    let end = [line.find("lambda"), line.find("={"), location].into_iter().flatten().min();
    &line[..end.unwrap_or(line.len())]
}

fn same_json(ours: &Value, theirs: &Value, place: &str) -> Result<(), String> {
    match (ours, theirs) {
        (Value::String(_), Value::String(graph)) if graph.starts_with('{') => Ok(()),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().try_for_each(|(i, (a, b))| same_json(a, b, &format!("{place}[{i}]")))
        }
        (a, b) if a == b => Ok(()),
        (a, b) => Err(format!("JSON {place} is {a}, expected {b}")),
    }
}

/// The primitive of a case: its field, or the method of its last instruction.
fn primitive_of(case: &Value) -> String {
    if let Some(name) = case["primitive"].as_str() {
        return name.to_string();
    }
    let last = case["trace_json"][0].as_array().and_then(|insts| insts.last());
    let kind = last.and_then(|inst| inst[0].as_str()).unwrap_or("nothing");
    match primitive::by_name(kind) {
        Some(kind) => kind.method.to_string(),
        None => kind.to_string(),
    }
}

/// The cases to check and to show.
struct Selection {
    show: usize,
    case: Option<String>,
    only: Option<String>,
}

impl Selection {
    fn of_environment() -> Selection {
        let var = |name: &str| std::env::var(name).ok();
        Selection {
            show: var("TVMR_CONFORMANCE_SHOW").and_then(|n| n.parse().ok()).unwrap_or(0),
            case: var("TVMR_CONFORMANCE_CASE"),
            only: var("TVMR_CONFORMANCE_ONLY"),
        }
    }

    /// Whether only some cases are checked.
    fn partial(&self) -> bool {
        self.case.is_some() || self.only.is_some()
    }

    fn include(&self, id: &str, primitive: &str) -> bool {
        self.case.as_ref().is_none_or(|c| c == id) && self.only.as_ref().is_none_or(|p| p == primitive)
    }
}

/// Checks a file: returns the number of cases, the total, and the total of each primitive.
fn judge_file(path: &Path, selection: &Selection) -> (usize, Tally, BTreeMap<String, Tally>) {
    let content = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines: Vec<&str> = content.lines().filter(|l| !l.trim().is_empty()).collect();
    let programs = Programs::default();
    let next = AtomicUsize::new(0);
    let judged: Mutex<Vec<(usize, String, String, Judgement)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some((i, line)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            lines.get(i).map(|l| (i, *l))
        } {
            let case: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("line {}: {e}", i + 1));
            let (id, primitive) = (text(&case, "id").to_string(), primitive_of(&case));
            if !selection.include(&id, &primitive) {
                continue;
            }
            if selection.case.is_some() {
                show_case(&case);
            }
            let j = catch_unwind(AssertUnwindSafe(|| judge(&case, &programs)))
                .unwrap_or_else(|_| Judgement { panicked: true, ..Judgement::nothing(&case, "panicked".to_string()) });
            judged.lock().expect("no holder panics").push((i, id, primitive, j));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut judged = judged.into_inner().expect("no holder panics");
    judged.sort_by_key(|(i, ..)| *i);
    let mut total = Tally::default();
    let mut by_primitive: BTreeMap<String, Tally> = BTreeMap::new();
    let mut shown = [0; MEASURES.len()];
    for (_, id, primitive, j) in &judged {
        total.add(j);
        by_primitive.entry(primitive.clone()).or_default().add(j);
        for (measure, why) in j.notes.iter().filter(|(_, why)| !why.is_empty()) {
            if shown[*measure] < selection.show {
                shown[*measure] += 1;
                // The first line of several diagnostics is sufficient.
                println!("  {} {id} ({primitive}): {}", MEASURES[*measure], why.lines().next().unwrap_or_default());
            }
        }
    }
    (lines.len(), total, by_primitive)
}

/// Prints the input, schedule, expected output and actual output of a case.
fn show_case(case: &Value) {
    println!("{}\n\n{}\n\nexpected:\n{}", text(case, "input"), text(case, "trace_py"), text(case, "output"));
    println!("{}", text(case, "error_message"));
    let (Ok(input), Ok(steps)) = (parse(text(case, "input")), Steps::of(case)) else { return };
    let mut schedule = Schedule::new(&input, 0);
    if let Err(stop) = steps.apply(&mut schedule) {
        println!("\nrefused: {} {}", stop.class, stop.message);
    }
    println!("\nours:\n{}", script::print_module(&schedule.module(), Dialect::Current));
}

fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

#[test]
fn schedules_agree_with_tvm() {
    let dir = std::env::var_os("TVMR_CONFORMANCE").map_or_else(data_dir, PathBuf::from);
    let selection = Selection::of_environment();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no *.jsonl in {}", dir.display());

    let floors_path = data_dir().join("floors.json");
    let mut floors: Value = match std::fs::read_to_string(&floors_path) {
        Ok(content) => serde_json::from_str(&content).expect("floors.json is JSON"),
        Err(_) => json!({}),
    };
    let mut by_primitive: BTreeMap<String, Tally> = BTreeMap::new();
    let mut fallen = Vec::new();
    let (mut panics, mut judged) = (0, 0);
    for path in &files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (cases, tally, primitives) = judge_file(path, &selection);
        println!("conformance: {name}: {}", tally.line());
        judged += cases;
        panics += tally.panics;
        for (primitive, more) in primitives {
            by_primitive.entry(primitive).or_default().join(&more);
        }
        // A file of the same name may hold other cases; the floors apply to this number of cases.
        let key = format!("{name}, {cases} cases");
        for (measure, score) in MEASURES.iter().zip(tally.scores) {
            let floor = floors[&key][*measure].as_u64();
            // Cases of the repository without a floor would pass whatever their result.
            let is_own = path.parent() == Some(&data_dir());
            if is_own && floor.is_none() && std::env::var_os("TVMR_BLESS").is_none() {
                fallen.push(format!("{name}: no floor of `{measure}` for {cases} cases; `TVMR_BLESS=1` records it"));
            }
            let floor = floor.unwrap_or(0) as usize;
            if score.agree < floor {
                fallen.push(format!("{name}: {measure} {} of {}, were {floor}", score.agree, score.of));
            }
            floors[&key][*measure] = json!(score.agree.max(floor));
        }
    }
    for (primitive, tally) in &by_primitive {
        println!("conformance: primitive {primitive}: {}", tally.line());
    }
    assert!(judged > 0, "no case was judged");
    assert_eq!(panics, 0, "cases panicked");
    if selection.partial() {
        return;
    }
    if std::env::var_os("TVMR_BLESS").is_some() {
        let content = serde_json::to_string_pretty(&floors).expect("floors are plain JSON");
        std::fs::write(&floors_path, content + "\n").expect("floors.json can be written");
    }
    assert!(fallen.is_empty(), "fewer cases agree than before:\n{}", fallen.join("\n"));
}
