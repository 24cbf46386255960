//! The interpreter of schedule functions. A schedule function is a search space of a user, or a trace, as Python text.
//!
//! ```text
//! def stochastic_schedule_mm(sch):
//!     block_C = sch.get_block("C", "main")
//!     i, j, k = sch.get_loops(block=block_C)
//!     j_factors = sch.sample_perfect_tile(loop=j, n=2)
//!     j_0, j_1 = sch.split(loop=j, factors=j_factors)
//!     sch.reorder(i, j_0, k, j_1)
//!     sch.decompose_reduction(block_C, k)
//!     return sch
//! ```
//!
//! [`interpreter`](crate::interpreter) reads Python. Here are what schedule functions have beside it: the methods of the schedule are
//! the kinds of [`primitive::ALL`](crate::schedule::primitive::ALL), and each call goes through [`Schedule::execute`]; lambdas are
//! index maps.
//!
//! The module comes after `schedule`, which does not know it. Traces that need no program are read by
//! [`Trace::from_python`](crate::schedule::Trace::from_python); both bind arguments by `schedule::bind`.
//!
//! # Sampled numbers
//! Arithmetic on sampled numbers is symbolic, so that a trace can be replayed with other decisions. If a plain number is
//! needed (in a comparison, an `if`, an index, the bound of a `range`, an f-string, `sch.get`), the present value is used;
//! the trace then holds the instructions of the path that was taken.
//!
//! # Recorded decisions
//! If the text has a comment line `# decisions:`, the commands `bench` and `apply` use its decisions. Searches draw their
//! own.
//!
//! # Files
//! | file | content |
//! | --- | --- |
//! | [`code`], [`vocabulary`] | methods of the schedule and index maps, compiled |
//! | [`library`], [`invoke`] | what they do |
//! | [`value`], [`lambda`] | values, index maps |
//! | [`decisions`] | recorded decisions |
//!
//! The text is untrusted, so instructions are limited, too.

mod code;
mod decisions;
mod invoke;
mod lambda;
mod library;
#[cfg(test)]
mod tests;
mod value;
mod vocabulary;

use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span, nearest};
use crate::interpreter::Failure;
use crate::interpreter::code::Function;
use crate::interpreter::compile::{Program, Text};
use crate::schedule::error::ScheduleError;
use crate::schedule::{Schedule, render};
use crate::script::Dialect;
use crate::script::python::{self, Ident, StmtKind};
use code::Code;
use decisions::Decisions;
use library::Scheduling;
use std::sync::Arc;
use value::{Own, Value};

/// The error that stopped a schedule function, with its place in the text and the calls that led there.
/// [`ScheduleFunction::render_error`] shows the program as well.
pub type FunctionError = Failure<ScheduleError>;

/// A schedule function, ready to be applied any number of times.
#[derive(Debug)]
pub struct ScheduleFunction {
    program: Program<Code>,
    main: usize,
    file_name: Arc<str>,
    text: Arc<str>,
}

impl ScheduleFunction {
    /// Reads the last function of a text, or its statements if it has none. `file_name` is only shown in messages.
    ///
    /// # Errors
    /// The text has mistakes; all that can be found without a program are reported.
    pub fn parse(text: &str, file_name: &str) -> Result<ScheduleFunction, Diagnostics> {
        Self::read(text, file_name, None)
    }

    /// Reads the function called `name` of a text.
    ///
    /// # Errors
    /// As for [`ScheduleFunction::parse`]; also, there is no such function.
    pub fn parse_named(text: &str, file_name: &str, name: &str) -> Result<ScheduleFunction, Diagnostics> {
        Self::read(text, file_name, Some(name))
    }

    fn read(text: &str, file_name: &str, name: Option<&str>) -> Result<ScheduleFunction, Diagnostics> {
        let source = Source { name: file_name, text };
        let (program, main) = python::parse_module(text)
            .and_then(|stmts| compiled(text, &stmts, name))
            .map_err(|items| Diagnostics::new(source, items))?;
        Ok(ScheduleFunction { program, main, file_name: file_name.into(), text: text.into() })
    }

    /// The name of the function; `schedule` for bare statements.
    pub fn name(&self) -> &str {
        &self.main().name
    }

    /// The text with its name, for rendering diagnostics.
    pub fn source(&self) -> Source<'_> {
        Source { name: &self.file_name, text: &self.text }
    }

    /// Runs the function on a schedule. Decisions that it does not give are drawn from the schedule's random stream.
    ///
    /// # Errors
    /// An instruction was refused, or there is another mistake. The instructions before stay carried out.
    pub fn apply(&self, schedule: &mut Schedule) -> Result<(), FunctionError> {
        self.run(schedule, None)
    }

    /// Runs the function on a schedule, with the decisions of the text's `# decisions:` line if it has one; see
    /// [`decisions`].
    ///
    /// # Errors
    /// As for [`ScheduleFunction::apply`]; also, the line is malformed, or a decision does not fit.
    pub fn apply_as_recorded(&self, schedule: &mut Schedule) -> Result<(), FunctionError> {
        self.run(schedule, Decisions::read(&self.text)?)
    }

    /// Renders an error of [`ScheduleFunction::apply`]: the lines of the schedule function and, where an instruction was
    /// refused, the loop or block in the program. The schedule must be as the error left it.
    pub fn render_error(&self, error: &FunctionError, schedule: &Schedule, dialect: Dialect, color: bool) -> String {
        match &error.refused {
            Some(refused) => render::refusal(&error.diagnostic, self.source(), refused, schedule, dialect, color),
            None => error.diagnostic.render(self.source(), color),
        }
    }

    fn run(&self, schedule: &mut Schedule, decisions: Option<Decisions>) -> Result<(), FunctionError> {
        let mut run =
            library::Run::new(Scheduling::new(schedule, decisions), &self.program.functions, &self.program.module);
        run.body()?;
        run.globals = std::mem::take(&mut run.locals);
        let main = self.main();
        let mut locals: Vec<Option<Value>> = vec![None; main.locals.len()];
        for (i, (_, default)) in main.params.iter().enumerate() {
            locals[i] = match (i, default) {
                (0, _) => Some(Value::Own(Own::Schedule)),
                (_, Some(default)) => Some(run.default_value(default)?),
                (_, None) => None,
            };
        }
        run.function = main;
        run.locals = locals;
        let result = run.body()?;
        let is_schedule = |v: &Value| matches!(v, Value::Own(Own::Schedule) | Value::None);
        let fine = match &result {
            Value::Sequence(s) => s.items.iter().all(is_schedule),
            other => is_schedule(other),
        };
        if !fine {
            let found = result.describe(&run.library);
            let message = format!("expected `{}` to return the schedule or nothing, found {found}", main.name);
            return Err(Diagnostic::error_at("return", main.span, message).into());
        }
        run.library.decisions.as_ref().map_or(Ok(()), Decisions::check_all_taken)
    }

    fn main(&self) -> &Function<Code> {
        &self.program.functions[self.main]
    }
}

/// Does the text contain the name `sch`?
fn mentions_schedule(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "sch")
}

/// Compiles the statements of a file. The schedule function is the one called `name`, else the last one; without any
/// function, the statements themselves.
fn compiled(
    text: &str,
    stmts: &[python::Stmt<'_>],
    name: Option<&str>,
) -> Result<(Program<Code>, usize), Vec<Diagnostic>> {
    let parts = Text::of(stmts);
    let mut errors = Vec::new();
    let finished =
        |program, main, errors: Vec<Diagnostic>| if errors.is_empty() { Ok((program, main)) } else { Err(errors) };
    let Some(last) = parts.definitions.len().checked_sub(1) else {
        if let Some(name) = name {
            return Err(vec![Diagnostic::error("unknown-function", format!("the text defines no function `{name}`"))]);
        }
        // Older traces are bare statements, in which the schedule is called `sch`.
        if !parts.rest.iter().any(|s| mentions_schedule(&text[s.span.range()])) {
            let d = Diagnostic::error("no-function", "the text defines no schedule function");
            return Err(vec![
                d.help("write `def schedule(sch): …`, or the statements of a trace, which begin with `sch.`"),
            ]);
        }
        let span = Span::new(0, text.lines().next().map_or(0, str::len));
        let program = parts.compile_statements("schedule", span, Ident { name: "sch", span }, &mut errors);
        return finished(program, 0, errors);
    };
    let is_constant = |s: &&python::Stmt<'_>| matches!(s.kind, StmtKind::Assign(..) | StmtKind::AnnAssign(..));
    for stmt in &parts.rest {
        let is_text = matches!(&stmt.kind, StmtKind::Expr(e) if matches!(e.kind, python::ExprKind::Str(_)));
        if !is_constant(&stmt) && !is_text && !matches!(stmt.kind, StmtKind::Pass) {
            let d = Diagnostic::error_at("unsupported", stmt.span, "only constants may stand outside of functions");
            errors.push(d.help("the schedule function is called for you"));
        }
    }
    let constants: Vec<python::Stmt<'_>> = parts.rest.iter().filter(is_constant).cloned().collect();
    for decorator in parts.definitions.iter().filter_map(|f| f.decorators.first()) {
        errors.push(Diagnostic::error_at("unsupported", decorator.span, "a schedule function has no decorators"));
    }
    let program = parts.compile(&constants, &mut errors);
    let main = match name {
        None => last,
        Some(name) => match parts.definitions.iter().rposition(|f| f.name.name == name) {
            Some(i) => i,
            None => {
                let known = parts.definitions.iter().map(|f| f.name.name);
                let d = Diagnostic::error("unknown-function", format!("the text defines no function `{name}`"));
                let near = nearest(name, known).map(|n| format!("did you mean `{n}`?"));
                errors.push(d.maybe_help(near));
                last
            }
        },
    };
    check_main(parts.definitions[main], &mut errors);
    finished(program, main, errors)
}

fn check_main(f: &python::Function<'_>, errors: &mut Vec<Diagnostic>) {
    let help = "a schedule function takes the schedule: `def schedule(sch):`";
    match f.params.split_first() {
        None => errors.push(
            Diagnostic::error_at("schedule-parameter", f.name.span, format!("`{}` has no parameter", f.name.name))
                .help(help),
        ),
        Some((_, more)) => {
            if let Some(p) = more.iter().find(|p| p.default.is_none()) {
                let message = format!("parameter `{}` would get no value", p.name.name);
                errors.push(Diagnostic::error_at("schedule-parameter", p.span, message).help(help));
            }
        }
    }
}
