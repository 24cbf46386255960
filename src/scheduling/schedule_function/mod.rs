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
//! A Python parser parses the text. The supported part of the language is: variables, unpacking, lists, tuples,
//! dictionaries, integers and floats, `for` over lists and ranges, `if`, comprehensions, f-strings, assertions, lambdas as
//! index maps, functions that call each other, and a few built-in functions. Everything else is refused with a diagnostic.
//! The methods of the schedule are the kinds of [`primitive::ALL`](crate::schedule::primitive::ALL); each call goes through
//! [`Schedule::execute`].
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
//! # Stages
//! | file | content |
//! | --- | --- |
//! | [`python`] | parses the text |
//! | [`scope`], [`compile`], [`compile_expr`] | resolve names and calls; find all mistakes that need no program |
//! | [`code`] | the result of compiling |
//! | [`run`], [`eval`], [`invoke`] | execute statements, expressions and calls |
//! | [`value`], [`lists`], [`lambda`], [`builtin`] | values, changes of lists, index maps, built-in functions |
//! | [`decisions`] | recorded decisions |
//! | [`failure`] | errors |
//!
//! The text is untrusted, so steps, instructions, nesting and the length of lists and texts are limited.

mod builtin;
mod code;
mod compile;
mod compile_expr;
mod decisions;
mod eval;
mod failure;
mod invoke;
mod lambda;
mod lists;
mod run;
mod scope;
#[cfg(test)]
mod tests;
mod value;

pub use failure::FunctionError;

use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::schedule::{Schedule, render};
use crate::script::{Dialect, python};
use code::Function;
use decisions::Decisions;
use run::Run;
use std::sync::Arc;
use value::Value;

/// A schedule function, ready to be applied any number of times.
#[derive(Debug)]
pub struct ScheduleFunction {
    functions: Vec<Function>,
    main: usize,
    module: Function,
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
        let program = python::parse_module(text)
            .and_then(|stmts| compile::program(text, &stmts, name))
            .map_err(|items| Diagnostics::new(source, items))?;
        Ok(ScheduleFunction {
            functions: program.functions,
            main: program.main,
            module: program.module,
            file_name: file_name.into(),
            text: text.into(),
        })
    }

    /// The name of the function; `schedule` for bare statements.
    pub fn name(&self) -> &str {
        &self.functions[self.main].name
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
        let mut run = Run::new(schedule, &self.functions, &self.module, decisions);
        run.body()?;
        run.globals = std::mem::take(&mut run.locals);
        let main = &self.functions[self.main];
        let mut locals: Vec<Option<Value>> = vec![None; main.locals.len()];
        for (i, (_, default)) in main.params.iter().enumerate() {
            locals[i] = match (i, default) {
                (0, _) => Some(Value::Schedule),
                (_, Some(default)) => Some(run.eval(default)?),
                (_, None) => None,
            };
        }
        run.function = main;
        run.locals = locals;
        let result = run.body()?;
        let is_schedule = |v: &Value| matches!(v, Value::Schedule | Value::None);
        let fine = match &result {
            Value::Sequence(s) => s.items.iter().all(is_schedule),
            other => is_schedule(other),
        };
        if !fine {
            let found = result.describe(run.schedule);
            let message = format!("expected `{}` to return the schedule or nothing, found {found}", main.name);
            return Err(Diagnostic::error_at("return", main.span, message).into());
        }
        run.decisions.as_ref().map_or(Ok(()), Decisions::check_all_taken)
    }
}
