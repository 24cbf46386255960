//! Reads programs, schedules and machine descriptions, and reports errors for people.

use super::Done;
use super::args::{Input, Intrin, Machine};
use super::console::Console;
use super::exit::Failure;
use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::ir::Module;
use crate::machine::Target;
use crate::schedule::Trace;
use crate::schedule::intrin::Intrinsics;
use crate::schedule_function::ScheduleFunction;
use crate::script::{self, Dialect, ParseOptions, Parsed};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The text of a file, or of standard input for `-`.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        return match io::stdin().lock().read_to_string(&mut text) {
            Ok(_) => Ok(text),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                Err(Failure::Usage("standard input is not UTF-8".to_string(), String::new()))
            }
            Err(e) => Err(Failure::Machine(format!("cannot read standard input: {e}"), String::new())),
        };
    }
    if path.is_dir() {
        let help = "name a file in it".to_string();
        return Err(Failure::Usage(format!("`{}` is a directory", path.display()), help));
    }
    match script::read_file(path) {
        Ok(text) => Ok(text?),
        Err(e) => Err(cannot_read(path, &e)),
    }
}

fn cannot_read(path: &Path, e: &io::Error) -> Failure {
    let message = format!("cannot read `{}`: {e}", path.display());
    match e.kind() {
        io::ErrorKind::NotFound => Failure::Usage(message, neighbour(path).unwrap_or_default()),
        io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory => Failure::Usage(message, String::new()),
        _ => Failure::Machine(message, String::new()),
    }
}

/// The file in the same directory whose name is most similar to one that does not exist.
fn neighbour(path: &Path) -> Option<String> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Some(format!("there is no directory `{}`", directory.display()));
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    let wanted = path.file_name()?.to_str()?;
    let near = crate::diagnostic::nearest(wanted, names.iter().map(String::as_str))?;
    Some(format!("there is `{}`", directory.join(near).display()))
}

/// A parsed and verified program.
pub(super) struct Program {
    /// The file name as given.
    pub name: String,
    /// The source text.
    pub text: String,
    /// The parsed module.
    pub parsed: Parsed,
}

impl Program {
    /// Reads the program of a command.
    pub(super) fn read(input: &Input, console: Console) -> Result<Program, Failure> {
        Program::parse(&input.file, &input.bind, text(&input.file)?, console)
    }

    /// Reads the text of a program.
    pub(super) fn parse(
        file: &Path,
        bind: &[(String, i64)],
        source: String,
        console: Console,
    ) -> Result<Program, Failure> {
        let program = Program::parse_untold(file, bind, source)?;
        if !program.parsed.warnings.is_empty() {
            console.diagnostics(&Diagnostics::new(program.source(), program.parsed.warnings.clone()));
        }
        Ok(program)
    }

    /// Reads the text of a program; the caller reports its warnings.
    pub(super) fn parse_untold(file: &Path, bind: &[(String, i64)], text: String) -> Result<Program, Failure> {
        let name = file.to_string_lossy().into_owned();
        let options = ParseOptions { bind: bindings(bind)?, ..ParseOptions::default() };
        let parsed = script::parse(&text, &name, &options)?;
        Ok(Program { name, text, parsed })
    }

    /// The text with its file name, for diagnostics.
    pub(super) fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text }
    }

    /// Lints of the well-formed program.
    pub(super) fn lints(&self) -> Vec<Diagnostic> {
        crate::lint::lint(&self.parsed)
    }

    /// Positions of the functions that run by themselves: all, except those that others call and that lack symbolic
    /// values.
    fn kernels(&self) -> Vec<usize> {
        let funcs = &self.module().funcs;
        let called: Vec<crate::ir::Symbol> = funcs.iter().flat_map(crate::ir::inline::calls).collect();
        let is_part = |f: &crate::ir::Func| called.contains(&f.name) && super::setting::symbolic(f).is_some();
        let kernels: Vec<usize> = (0..funcs.len()).filter(|&i| !is_part(&funcs[i])).collect();
        if kernels.is_empty() { (0..funcs.len()).collect() } else { kernels }
    }

    /// The parsed module.
    pub(super) fn module(&self) -> &Module {
        &self.parsed.module
    }

    /// The dialect to print in.
    pub(super) fn dialect(&self, wanted: Option<super::args::DialectArg>) -> Dialect {
        wanted.map_or(self.parsed.dialect, Dialect::from)
    }

    /// Positions of the functions that a command works on.
    pub(super) fn functions(&self, name: Option<&str>) -> Result<Vec<usize>, Failure> {
        let funcs = &self.module().funcs;
        match name {
            None => Ok(self.kernels()),
            Some(name) => match funcs.iter().position(|f| f.name == name) {
                Some(i) => Ok(vec![i]),
                None => {
                    let names: Vec<&str> = funcs.iter().map(|f| f.name.as_str()).collect();
                    let near = crate::diagnostic::nearest(name, names.iter().copied());
                    let help = match near {
                        Some(near) => format!("there is `{near}`"),
                        None => format!("its functions are `{}`", names.join("`, `")),
                    };
                    Err(Failure::Usage(format!("`{}` has no function `{name}`", self.name), help))
                }
            },
        }
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

/// The values of `--bind` by name.
fn bindings(given: &[(String, i64)]) -> Result<BTreeMap<String, i64>, Failure> {
    let mut bind = BTreeMap::new();
    for (name, value) in given {
        if let Some(other) = bind.insert(name.clone(), *value) {
            let message = format!("`--bind` gives `{name}` twice: {other} and {value}");
            return Err(Failure::Usage(message, "give each name one value".to_string()));
        }
    }
    Ok(bind)
}

/// A schedule to apply: a trace, or a function that makes one.
pub(super) enum ScheduleText {
    /// A trace in JSON.
    Trace(Trace),
    /// A trace or function in Python.
    Function(ScheduleFunction),
}

/// Reads a trace or schedule function; the first character tells JSON from Python.
pub(super) fn schedule(path: &Path) -> Result<ScheduleText, Failure> {
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
    Ok(ScheduleText::Function(ScheduleFunction::parse(&source, &name)?))
}

/// The built-in intrinsics and those of the given files; `None` if no file is given.
pub(super) fn intrinsics(files: &Intrin) -> Result<Option<Arc<Intrinsics>>, Failure> {
    if files.intrin.is_empty() {
        return Ok(None);
    }
    let mut table = Intrinsics::clone(&Intrinsics::built_in());
    for path in &files.intrin {
        if path.as_os_str() == "-" {
            let help = "name a file, which later commands can read again".to_string();
            return Err(Failure::Usage("intrinsics cannot come from standard input".to_string(), help));
        }
        table.register_text(&text(path)?, &path.to_string_lossy())?;
    }
    Ok(Some(Arc::new(table)))
}

/// The machine of a command, with the number of threads of a kernel.
pub(super) fn target(machine: &Machine) -> Result<Target, Failure> {
    if machine.target == "native" {
        return Ok(Target::native().target);
    }
    Target::read(Path::new(&machine.target)).map_err(|e| {
        let help = e.help();
        Failure::Usage(e.to_string(), help)
    })
}
