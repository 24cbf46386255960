//! Test cases of schedules: `schedule` and `space-function` are schedule functions or schedules of tensor expressions, `trace` is
//! JSON.
//!
//! The head names a program of `schedule/programs` with `program NAME`; otherwise the text before the line `#
//! schedule:` (or `# trace:`) is the program. `seed N` is the seed of sampled decisions. The output of an accepted
//! function is the program and its trace with decisions; of a `space-function`, only the trace, sampled as in a search.
//! Every trace must parse in both forms, and give the same program again.

use super::{Case, Outcome, root};
use tvmr::diagnostic::{Diagnostics, Source};
use tvmr::ir::Module;
use tvmr::request::schedule::ScheduleText;
use tvmr::schedule::error::ErrorKind;
use tvmr::schedule::{Schedule, Trace};
use tvmr::schedule_function::ScheduleFunction;
use tvmr::script::{ParseOptions, parse, print_module};
use tvmr::te_function::WorkloadChoice;

pub(crate) fn schedule(case: &Case) -> Outcome {
    apply(case, true)
}

pub(crate) fn space_function(case: &Case) -> Outcome {
    apply(case, false)
}

fn name(case: &Case) -> String {
    case.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The program, and the text after it with its line numbers in the file.
fn parts(case: &Case, separator: &str) -> (String, String) {
    let lines: Vec<&str> = case.input.lines().collect();
    let at = lines.iter().position(|l| *l == separator).unwrap_or_else(|| panic!("{}: no `{separator}`", name(case)));
    let program = match &case.options.program {
        Some(program) => {
            let path = root().join("schedule/programs").join(format!("{program}.tir"));
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        }
        None => lines[..at].join("\n"),
    };
    let text = lines.iter().enumerate().map(|(i, l)| if i <= at { "\n".to_string() } else { format!("{l}\n") });
    (program, text.collect())
}

fn module(text: &str) -> Module {
    parse(text, "program.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module
}

fn refused(errors: Diagnostics) -> Outcome {
    super::rejected(errors)
}

fn apply(case: &Case, show_program: bool) -> Outcome {
    let (program, text) = parts(case, "# schedule:");
    let dialect = case.options.dialect;
    let function = match ScheduleText::parse(&text, &name(case), WorkloadChoice::default()) {
        Ok(function) => function,
        Err(errors) => return refused(errors),
    };
    let module = module(&program);
    let mut schedule = Schedule::new(&module, case.options.seed);
    let applied = if show_program { function.apply_as_recorded(&mut schedule) } else { function.apply(&mut schedule) };
    if let Err(error) = applied {
        let output = function.render_error(&error, &schedule, dialect, false);
        if let Some(refused) = &error.refused {
            check_place(&refused.kind, &output);
        }
        let place = error.diagnostic.labels.first().map_or(0, |l| l.span.start as usize);
        let line = Source { name: "", text: &text }.line_column(place).0;
        return Outcome { output: format!("{output}\n"), rejections: vec![(line, error.diagnostic.code.to_string())] };
    }
    let program = print_module(&schedule.module(), dialect);
    let trace = schedule.trace().to_python(dialect);
    check_replay(&module, &schedule, &program, dialect);
    let output = if show_program { format!("{program}\n{trace}\n") } else { format!("{trace}\n") };
    Outcome { output, rejections: Vec::new() }
}

/// A refused instruction must be shown in the program, unless it names something that does not exist, or no loop or
/// block.
fn check_place(kind: &ErrorKind, output: &str) {
    let shown = output.contains(tvmr::schedule::render::PROGRAM);
    assert!(
        shown || ["ValueError", "BlockNotFoundError"].contains(&kind.class()),
        "no place in the program:\n{output}"
    );
}

/// Checks that the trace parses in both forms and gives the program again, as a trace and as a schedule function.
fn check_replay(module: &Module, done: &Schedule, program: &str, dialect: tvmr::script::Dialect) {
    let trace = done.trace();
    let json = trace.to_json();
    let python = trace.to_python(dialect);
    let from_json = Trace::from_json(&json).unwrap_or_else(|e| panic!("{e}\n{json}"));
    let from_python = Trace::from_python(&python, "trace.py").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(from_json.to_json(), json);
    assert_eq!(from_python.to_json(), json);
    let function = ScheduleFunction::parse(&python, "trace.py").unwrap_or_else(|e| panic!("{e}"));
    let replays: [&dyn Fn(&mut Schedule); 4] = [
        &|s| from_json.replay(s).unwrap_or_else(|e| panic!("{e}")),
        &|s| from_python.replay(s).unwrap_or_else(|e| panic!("{e}")),
        &|s| trace.simplified().replay(s).unwrap_or_else(|e| panic!("{e}")),
        &|s| function.apply(s).unwrap_or_else(|e| panic!("{e}")),
    ];
    for replay in replays {
        // With another seed, nothing may be drawn again.
        let mut schedule = Schedule::new(module, 12345);
        replay(&mut schedule);
        assert_eq!(print_module(&schedule.module(), dialect), program);
    }
}

pub(crate) fn trace(case: &Case) -> Outcome {
    let (program, text) = parts(case, "# trace:");
    let dialect = case.options.dialect;
    let trace = match Trace::from_json_text(text.trim()) {
        Ok(trace) => trace,
        Err(error) => {
            let d = error.diagnostic();
            let (name, code) = (name(case), d.code.to_string());
            let output = d.render(Source { name: &name, text: &text }, false);
            return Outcome { output: format!("{output}\n"), rejections: vec![(0, code)] };
        }
    };
    let module = module(&program);
    let mut schedule = Schedule::new(&module, case.options.seed);
    if let Err(error) = trace.replay(&mut schedule) {
        let output = trace.render_error(&error, &name(case), &schedule, dialect, false);
        check_place(&error.error.kind, &output);
        return Outcome { output: format!("{output}\n"), rejections: vec![(0, error.error.kind.class().to_string())] };
    }
    let program = print_module(&schedule.module(), dialect);
    check_replay(&module, &schedule, &program, dialect);
    let output = format!("{program}\n{}\n", schedule.trace().to_python(dialect));
    Outcome { output, rejections: Vec::new() }
}
