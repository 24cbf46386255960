//! Reads programs, schedules and machine descriptions from files and standard input, and reports their warnings.

use super::Done;
use super::args::{DialectArg, Input, Intrin, Machine};
use super::console::Console;
use super::exit::Failure;
use super::model_inputs::ModelInputs;
use super::run_files::Named;
use super::shapes::shaped;
use crate::diagnostic::{Diagnostics, Source};
use crate::machine::Target;
use crate::request::schedule::ScheduleText as PythonSchedule;
use crate::request::{program, setting};
use crate::schedule::Trace;
use crate::schedule::intrin::Intrinsics;
use crate::script::Dialect;
use crate::te_function::WorkloadChoice;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use crate::request::program::{Content, Program};

/// The content of the program's file, or of standard input for `-`.
pub(super) fn content(path: &Path) -> Result<Content, Failure> {
    if path.as_os_str() == "-" { Ok(Content::Text(text(path)?)) } else { Ok(program::content(path)?) }
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    if path.as_os_str() != "-" {
        return Ok(program::text(path)?);
    }
    let mut text = String::new();
    match io::stdin().lock().read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            Err(Failure::Usage("standard input is not UTF-8".to_string(), String::new()))
        }
        Err(e) => Err(Failure::Machine(format!("cannot read standard input: {e}"), String::new())),
    }
}

/// How commands read programs.
impl Program {
    /// Reads the program of a command.
    pub(super) fn read(input: &Input, func: Option<&str>, console: Console) -> Result<Program, Failure> {
        Program::read_for(input, func, (&[], &[]), console)
    }

    /// Reads the program of a command that has arrays for its inputs: for one each, and for those with the names in files.
    pub(super) fn read_for(
        input: &Input,
        func: Option<&str>,
        (single, many): (&[Named], &[PathBuf]),
        console: Console,
    ) -> Result<Program, Failure> {
        let wanted = WorkloadChoice { func, args: input.args.as_deref() };
        let inputs = ModelInputs { single, many, ..ModelInputs::of(&input.graph) };
        let weights = input.graph.weights.as_deref();
        let content = content(&input.file)?;
        inputs.check(&input.file, &content)?;
        let program = Program::parse(&input.file, &input.bind, content, wanted, weights, &inputs, console)?;
        Ok(shaped(program, &input.graph.shape)?)
    }

    /// Reads the program of a command that works on prim_funcs: graphs are calls of prim_funcs then.
    pub(super) fn read_lowered(input: &Input, func: Option<&str>, console: Console) -> Result<Program, Failure> {
        Program::read(input, func, console)?.of_prim_funcs(input)
    }

    /// The program with its graphs as calls of prim_funcs.
    pub(super) fn of_prim_funcs(self, input: &Input) -> Result<Program, Failure> {
        match self.graphs() {
            [] => Ok(self),
            _ => Ok(self.lowered(&input.graph.context()?)?),
        }
    }

    /// Reads the content of a program's file, and reports its warnings.
    pub(super) fn parse(
        file: &Path,
        bind: &[(String, i64)],
        content: Content,
        wanted: WorkloadChoice<'_>,
        weights: Option<&Path>,
        inputs: &ModelInputs<'_>,
        console: Console,
    ) -> Result<Program, Failure> {
        let program = Program::from_content(&file.to_string_lossy(), bind, content, wanted, weights, inputs)?;
        if !program.parsed.warnings.is_empty() {
            console.diagnostics(&Diagnostics::new(program.source(), program.parsed.warnings.clone()));
        }
        Ok(program)
    }

    /// The dialect to print in.
    pub(super) fn dialect(&self, wanted: Option<DialectArg>) -> Dialect {
        wanted.map_or(self.parsed.dialect, Dialect::from)
    }
}

/// Runs `one` on each of several files; an error in one file does not stop the others.
pub(super) fn each(files: &[PathBuf], console: Console, mut one: impl FnMut(&Path) -> Done) -> Done {
    let mut worst = 0;
    for file in files {
        match one(file) {
            Ok(()) => {}
            Err(only) if files.len() == 1 => return Err(only),
            Err(Failure::ClosedPipe) => return Err(Failure::ClosedPipe),
            Err(failure) => {
                console.failure(&failure);
                worst = worst.max(failure.code());
            }
        }
    }
    if worst == 0 { Ok(()) } else { Err(Failure::Told(worst)) }
}

/// A schedule to apply: a trace, or a function that makes one.
pub(super) enum ScheduleText {
    /// A trace in JSON.
    Trace(Trace),
    /// A trace, a function or a schedule of tensor expressions, in Python.
    Python(Box<PythonSchedule>),
}

/// Reads a trace or schedule function for a program; the first character tells JSON from Python.
pub(super) fn schedule(path: &Path, program: &Program) -> Result<ScheduleText, Failure> {
    let source = text(path)?;
    let name = path.to_string_lossy();
    if matches!(source.trim(), "" | "{}") {
        let help = "a trace is a list in JSON, or Python that calls methods of `sch`".to_string();
        return Err(Failure::Usage(format!("`{name}` is not a trace"), help));
    }
    if source.trim_start().starts_with('[') {
        return Trace::from_json_text(&source).map(ScheduleText::Trace).map_err(|e| {
            let shown = Source { name: &name, text: &source };
            Failure::from(Diagnostics::new(shown, vec![e.diagnostic()]))
        });
    }
    Ok(ScheduleText::Python(Box::new(PythonSchedule::for_program(&source, &name, Some(program))?)))
}

/// The built-in intrinsics and those of the given files; `None` if no file is given.
pub(super) fn intrinsics(files: &Intrin) -> Result<Option<Arc<Intrinsics>>, Failure> {
    Ok(program::intrinsics(&files.intrin)?)
}

/// The machine of a command.
pub(super) fn target(machine: &Machine) -> Result<Target, Failure> {
    Ok(setting::target(&machine.target)?)
}
