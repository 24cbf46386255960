//! Data-driven tests: every file below `tests/filetests` is a test case with a name of its own: `opt::dot_bytes` is
//! `tests/filetests/opt/dot_bytes.lir`.
//!
//! The first line gives the kind: `# test: KIND [options]`. Options are `bind n=4` for `--bind`, `dialect
//! classic|current` for the output, and those of [`schedules`].
//!
//! Files ending in `.lir` hold a kernel of the loop IR; see [`passes`] and [`regions`]. Search spaces are in
//! [`spaces`].
//!
//! * Expected errors are on the offending line: `#~ error[code]`; `#~^ error[code]` means the line above, `#~v
//!   error[code]` the line below, and `#~file error[code]` an error without a place. All errors of a text must be
//!   listed; a warning is `#~ warning[code]`.
//! * Expected output follows a line `# expect:`, each line of it prefixed with `#|`. A case of a kind that has only
//!   errors may omit it.
//!
//! `cargo test --test filetests NAME` runs the cases whose names contain `NAME`; with `TVMR_BLESS=1` it rewrites the
//! expected output: read the diff. The harness is libtest-mimic: a `#[test]` in this file would never run.

#[path = "filetests/passes.rs"]
mod passes;
#[cfg(all(target_arch = "x86_64", unix))]
#[path = "filetests/regions.rs"]
mod regions;
#[path = "filetests/results.rs"]
mod results;
#[path = "filetests/schedules.rs"]
mod schedules;
#[path = "filetests/spaces.rs"]
mod spaces;

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tvmr::diagnostic::Diagnostics;
use tvmr::graph::GraphModule;
use tvmr::graph::pass::{Context, run_until};
use tvmr::script::{Dialect, ParseOptions, Parsed, parse, print_func, print_graph_module, print_module};
use tvmr::te_function::{Definition, WorkloadChoice, define};

/// A parsed test case.
struct Case {
    path: PathBuf,
    options: Options,
    /// The program text, including annotations, which are comments.
    input: String,
    /// `(line, code)` of the expected errors; line 0 for those without a place.
    rejections: Vec<(usize, String)>,
    /// Expected output, if the file has any.
    expected: Option<String>,
}

#[derive(Default)]
struct Options {
    bind: BTreeMap<String, i64>,
    dialect: Dialect,
    program: Option<String>,
    seed: u64,
    pass: Option<String>,
    isa: Option<tvmr::machine::Isa>,
    args: Option<String>,
    no_dots: bool,
    threads: i64,
}

/// The outcome of a case: its output, and its errors.
#[derive(Default)]
struct Outcome {
    output: String,
    rejections: Vec<(usize, String)>,
}

/// Runs a case.
type Run = fn(&Case) -> Outcome;

/// The kinds, by directory name.
const KINDS: &[(&str, Run)] = &[
    ("parse", reject),
    ("verify-errors", reject),
    ("lint", lint),
    ("print", print),
    ("graph", graph),
    ("te", te),
    ("schedule", schedules::schedule),
    ("space", spaces::space),
    ("space-function", schedules::space_function),
    ("trace", schedules::trace),
    ("opt", passes::opt),
    ("regions", regions),
];

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("every_file_is_a_case", every_file_is_a_case)];
    for &(kind, run) in KINDS {
        if kind == "regions" && !HAS_REGIONS {
            continue;
        }
        let cases = cases(kind);
        let n = cases.len();
        trials.push(Trial::test(format!("{kind}::has_cases"), move || {
            if n == 0 { Err(format!("no cases of kind {kind}").into()) } else { Ok(()) }
        }));
        trials.extend(cases.into_iter().map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Trial::test(format!("{kind}::{name}"), move || check(kind, run, &path))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Regions exist for these machines only.
const HAS_REGIONS: bool = cfg!(all(target_arch = "x86_64", unix));

/// Each directory is one of a kind, and the files in it are cases with names of their own.
fn every_file_is_a_case() -> Result<(), Failed> {
    for entry in std::fs::read_dir(root())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if !path.is_dir() {
            continue;
        }
        let Some((kind, _)) = KINDS.iter().find(|k| Path::new(k.0) == Path::new(name)) else {
            return Err(format!("no kind {}", name.display()).into());
        };
        let cases = cases(kind);
        for entry in std::fs::read_dir(&path)? {
            let file = entry?.path();
            // Programs that several cases share are in a directory.
            if !file.is_dir() && !cases.contains(&file) {
                return Err(format!("{} is no case: its name must end in `.tir` or `.lir`", file.display()).into());
            }
        }
        if let Some(pair) = cases.windows(2).find(|pair| pair[0].file_stem() == pair[1].file_stem()) {
            return Err(format!("{} and {} have one name", pair[0].display(), pair[1].display()).into());
        }
    }
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests")
}

/// Only on machines with regions.
#[cfg(all(target_arch = "x86_64", unix))]
use regions::regions;
#[cfg(not(all(target_arch = "x86_64", unix)))]
fn regions(case: &Case) -> Outcome {
    unreachable!("{}: nothing runs the cases of regions here", case.path.display())
}

// ---- kinds -------------------------------------------------------------------------------------------------

/// Invalid texts: the output is the rendered diagnostics.
fn reject(case: &Case) -> Outcome {
    match read(case) {
        Ok(parsed) if parsed.warnings.is_empty() => Outcome { output: "accepted\n".into(), rejections: Vec::new() },
        Ok(parsed) => {
            let name = case.path.file_name().unwrap_or_default().to_string_lossy();
            let source = tvmr::diagnostic::Source { name: &name, text: &case.input };
            rejected(Diagnostics::new(source, parsed.warnings))
        }
        Err(errors) => rejected(errors),
    }
}

/// Well-formed but wrong or suspicious programs: the output is the rendered diagnostics.
fn lint(case: &Case) -> Outcome {
    match read(case) {
        Ok(parsed) => {
            let name = case.path.file_name().unwrap_or_default().to_string_lossy();
            let source = tvmr::diagnostic::Source { name: &name, text: &case.input };
            let found = tvmr::lint::lint(&parsed);
            let n = found.len();
            let outcome = rejected(Diagnostics::new(source, found));
            if n == 0 { Outcome { output: "nothing\n".into(), ..outcome } } else { outcome }
        }
        Err(errors) => rejected(errors),
    }
}

/// Programs as printed; the output must be a fixed point.
fn print(case: &Case) -> Outcome {
    let parsed = match read(case) {
        Ok(parsed) => parsed,
        Err(errors) => return rejected(errors),
    };
    let output = print_module(&parsed.module, case.options.dialect);
    let again = parse(&output, "<printed>", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{output}"));
    assert_eq!(print_module(&again.module, case.options.dialect), output, "{}", case.path.display());
    Outcome { output, rejections: Vec::new() }
}

/// Texts of tensor expressions: the prim_func, and its DAG. `args 4,float32` gives the workload arguments.
fn te(case: &Case) -> Outcome {
    let name = case.path.file_name().unwrap_or_default().to_string_lossy();
    let choice = WorkloadChoice { func: None, args: case.options.args.as_deref() };
    let Definition { func, warnings, .. } = match define(&case.input, &name, choice) {
        Ok(definition) => definition,
        Err(errors) => return rejected(errors),
    };
    let program = print_func(&func, case.options.dialect);
    let again = parse(&program, "<printed>", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let dag = tvmr::te::dag(&again.module.funcs[0]).unwrap_or_else(|why| format!("no DAG: {why}\n"));
    let source = tvmr::diagnostic::Source { name: &name, text: &case.input };
    let warned = if warnings.is_empty() { Outcome::default() } else { rejected(Diagnostics::new(source, warnings)) };
    Outcome { output: format!("{program}\n{dag}{}", warned.output), rejections: warned.rejections }
}

/// Graphs as printed, after the passes up to `pass NAME` if the case names one; the output must be a fixed point. Passes that change
/// how results are rounded are also checked by the results.
fn graph(case: &Case) -> Outcome {
    let parsed = match read(case) {
        Ok(parsed) => parsed,
        Err(errors) => return rejected(errors),
    };
    let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
    if let Some(name) = &case.options.pass {
        match run_until(&mut module, &Context::default(), name) {
            Ok(is_pass) => assert!(is_pass, "there is no pass {name}"),
            Err(found) => {
                let file = case.path.file_name().unwrap_or_default().to_string_lossy();
                let source = tvmr::diagnostic::Source { name: &file, text: &case.input };
                return rejected(Diagnostics::new(source, found));
            }
        }
    }
    let output = print_graph_module(&module, case.options.dialect);
    let again = parse(&output, "<printed>", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{output}"));
    let again = GraphModule { module: again.module, functions: again.graphs };
    assert_eq!(print_graph_module(&again, case.options.dialect), output, "{}", case.path.display());
    results::compare(case);
    Outcome { output, rejections: Vec::new() }
}

fn read(case: &Case) -> Result<Parsed, Diagnostics> {
    let name = case.path.file_name().unwrap_or_default().to_string_lossy();
    parse(&case.input, &name, &ParseOptions { bind: case.options.bind.clone(), ..Default::default() })
}

fn rejected(errors: Diagnostics) -> Outcome {
    let line = |d: &tvmr::diagnostic::Diagnostic| {
        d.labels.first().map_or(0, |l| errors.source().line_column(l.span.start as usize).0)
    };
    let rejections = errors.items.iter().map(|d| (line(d), d.code.to_string())).collect();
    Outcome { output: format!("{}\n", errors.render(false)), rejections }
}

// ---- the runner --------------------------------------------------------------------------------------------

/// The files of a kind, in order.
fn cases(kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(kind)).into_iter().flatten().flatten();
    let is_case = |p: &PathBuf| p.extension().is_some_and(|e| e == "tir" || e == "lir");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).filter(is_case).collect();
    paths.sort();
    paths
}

/// Compares the outcome of a case with its expectations.
fn check(kind: &str, run: Run, path: &Path) -> Result<(), Failed> {
    let bless = std::env::var_os("TVMR_BLESS").is_some_and(|v| v == "1");
    let text = std::fs::read_to_string(path)?;
    let case = case(path, kind, &text);
    let outcome = run(&case);
    let name = path.display();
    let (mut expected, mut found) = (case.rejections.clone(), outcome.rejections.clone());
    expected.sort();
    found.sort();
    if expected != found {
        return Err(format!("{name}: expected {expected:?}, found {found:?}\n{}", outcome.output).into());
    }
    match &case.expected {
        Some(expected) if *expected != outcome.output && bless => {
            Ok(std::fs::write(path, blessed(&text, &outcome.output))?)
        }
        Some(expected) if *expected != outcome.output => {
            Err(format!("{name}:\n{}", difference(expected, &outcome.output)).into())
        }
        None if expected.is_empty() => Err(format!("{name}: expects neither rejections nor output").into()),
        _ => Ok(()),
    }
}

fn case(path: &Path, kind: &str, text: &str) -> Case {
    let head = text.lines().next().unwrap_or_default();
    let head = head.strip_prefix("# test: ").unwrap_or_else(|| panic!("{}: no `# test:` line", path.display()));
    let mut words = head.split_whitespace();
    assert_eq!(words.next(), Some(kind), "{}", path.display());
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match (word, value.split_once('=')) {
            ("bind", Some((name, n))) => {
                options.bind.insert(name.into(), n.parse().expect("an integer"));
            }
            ("isa", _) => options.isa = Some(value.parse().expect("an instruction set")),
            ("dots", _) => options.no_dots = value == "off",
            ("args", _) => options.args = Some(value.to_string()),
            ("pass", _) => options.pass = Some(value.to_string()),
            ("program", _) => options.program = Some(value.to_string()),
            ("threads", _) => options.threads = value.parse().expect("a number"),
            ("seed", _) => options.seed = value.parse().expect("a number"),
            ("dialect", _) => options.dialect = value.parse().expect("a dialect"),
            _ => panic!("{}: unknown option `{word}`", path.display()),
        }
    }
    let (input, expected) = match text.split_once("\n# expect:\n") {
        Some((input, output)) => {
            let lines = output.lines().map(|l| l.strip_prefix("#| ").or(l.strip_prefix("#|")).unwrap_or(l));
            (format!("{input}\n"), Some(lines.map(|l| format!("{l}\n")).collect()))
        }
        None => (text.to_string(), None),
    };
    let rejections = rejections(&input);
    Case { path: path.to_path_buf(), options, input, rejections, expected }
}

/// The codes after `#~`, with the lines that they refer to.
fn rejections(input: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (i, line) in input.lines().enumerate() {
        for note in line.split("#~").skip(1) {
            let (at, rest) = match note.split_once("error[").or_else(|| note.split_once("warning[")) {
                Some(("^ ", rest)) => (i, rest),
                Some(("v ", rest)) => (i + 2, rest),
                Some(("file ", rest)) => (0, rest),
                Some((" ", rest)) => (i + 1, rest),
                _ => panic!("odd annotation `{note}`"),
            };
            let code = rest.split(']').next().unwrap_or_default();
            all.push((at, code.to_string()));
        }
    }
    all
}

fn blessed(text: &str, output: &str) -> String {
    let input = text.split("\n# expect:\n").next().unwrap_or_default();
    let lines = output.lines().map(|l| if l.is_empty() { "#|\n".to_string() } else { format!("#| {l}\n") });
    format!("{input}\n# expect:\n{}", lines.collect::<String>())
}

/// The first differing lines.
fn difference(expected: &str, found: &str) -> String {
    let (mut e, mut f) = (expected.lines(), found.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (e.next(), f.next()) {
            (Some(x), Some(y)) if x == y => {}
            (x, y) => {
                let (x, y) = (x.unwrap_or("(end)"), y.unwrap_or("(end)"));
                return format!("line {line} of the output\n  expected: {x}\n  found:    {y}\nall of it:\n{found}");
            }
        }
    }
}
