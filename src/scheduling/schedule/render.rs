//! Shows a refused instruction: its place in the schedule function or trace, and its loop or block in the printed
//! program at that time, with a caret below each.
//!
//! ```text
//! error[WrongFactorError]: `split`: factors cover 96 of the 128 iterations
//!   --> space.py:4:20
//!    |
//!  4 |     i0, i1 = sch.split(i, factors=[6, 16])
//!    |                  ^^^^^
//!    |
//!   ::: the program at this point:12:13
//!    |
//! 12 |         for i, j, k in T.grid(128, 128, 128):
//!    |             - this loop
//!    |
//!    = help: make the factors multiply to at least 128, or leave one as `None`
//! ```

use super::error::ScheduleError;
use super::trace::ReplayError;
use super::{Schedule, Trace};
use crate::diagnostic::{Diagnostic, Label, Source, Span};
use crate::ir::StmtId;
use crate::script::{self, Dialect};

/// The name of a program that is not in a file.
pub const PROGRAM: &str = "the program at this point";

/// A printed program with a marked place.
struct Shown {
    text: String,
    label: Option<Label>,
}

impl Shown {
    /// Prints the program of a schedule and marks the place of an error, if that still exists.
    fn new(schedule: &Schedule, error: &ScheduleError, dialect: Dialect) -> Shown {
        let printed = script::print_module_mapped(&schedule.module(), dialect);
        let label = error.at.and_then(|(func, stmt)| {
            let spans = printed.spans.get(func)?;
            match spans.stmt(stmt) {
                Some(place) => Some(Label { span: place.name, text: what(schedule, func, stmt).to_string() }),
                // An empty root block is not printed.
                None if schedule.func(func).root.stmt() == stmt => {
                    Some(Label { span: spans.name, text: "the root block of this function".to_string() })
                }
                None => None,
            }
        });
        Shown { text: printed.text, label }
    }

    fn render(&self, diagnostic: &Diagnostic, source: Source<'_>, color: bool) -> String {
        let program = Source { name: PROGRAM, text: &self.text };
        let also: Vec<(Source<'_>, &Label)> = self.label.iter().map(|l| (program, l)).collect();
        diagnostic.render_with(source, &also, color)
    }
}

fn what(schedule: &Schedule, func: usize, stmt: StmtId) -> &'static str {
    let func = schedule.func(func);
    if func.as_loop(stmt).is_some() {
        "this loop"
    } else if func.as_block(stmt).is_some() {
        "this block"
    } else {
        "here"
    }
}

/// The diagnostic of a refused instruction, without a place.
pub fn of_error(error: &ScheduleError) -> Diagnostic {
    let help = error.kind.help();
    Diagnostic::error(error.kind.class(), error.to_string()).maybe_help((!help.is_empty()).then_some(help))
}

/// Renders the diagnostic of a refused instruction, with the loop or block of the error. The schedule must be unchanged
/// since the error.
pub(crate) fn refusal(
    diagnostic: &Diagnostic,
    source: Source<'_>,
    error: &ScheduleError,
    schedule: &Schedule,
    dialect: Dialect,
    color: bool,
) -> String {
    Shown::new(schedule, error, dialect).render(diagnostic, source, color)
}

impl Trace {
    /// Renders an error of [`Trace::replay`], with the line of the trace in Python and the loop or block in the
    /// program. The schedule must be unchanged since the error.
    pub fn render_error(
        &self,
        error: &ReplayError,
        name: &str,
        schedule: &Schedule,
        dialect: Dialect,
        color: bool,
    ) -> String {
        let text = self.to_python(dialect);
        // The text has two lines before the first statement, and one line per statement.
        let start = text.match_indices('\n').nth(error.index + 1).map_or(0, |(i, _)| i + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        let diagnostic = of_error(&error.error).label(Span::new(start + indent, start + line.len()), "");
        refusal(&diagnostic, Source { name, text: &text }, &error.error, schedule, dialect, color)
    }
}
