//! Selects the search space that a user names: rules, or a file with a schedule function.

use super::program::Program;
use super::schedule::ScheduleText;
use super::{Error, program};
use crate::diagnostic::Diagnostics;
use crate::ir::Module;
use crate::schedule::Schedule;
use crate::schedule::error::ErrorKind;
use crate::schedule::intrin::Intrinsics;
use crate::script::Dialect;
use crate::stop::StopFlag;
use crate::tune::config::SpaceChoice;
use std::path::Path;
use std::sync::Arc;

/// Schedule functions that fail with the first decisions: the position of the tuned function, and the error message.
pub type Refusals = Vec<(usize, String)>;

/// Returns the space called `name`, or without a name that of a template, else `auto`, and how its schedule function fails with the first decisions; these errors show the program
/// in this dialect, with `color` in colours. Long work ends when `stop` is raised.
///
/// # Errors
/// There is no such space, or its function fails on every tuned function whatever the decisions are.
pub fn choose(
    name: Option<&str>,
    program: &Program,
    tuned: &[Module],
    intrinsics: Option<&Arc<Intrinsics>>,
    dialect: Dialect,
    color: bool,
    stop: &StopFlag,
) -> Result<(SpaceChoice, Refusals), Error> {
    let template = program.origin.as_ref().filter(|o| o.is_template);
    let name = match (name, template) {
        (Some("auto"), _) | (None, None) => return Ok((SpaceChoice::Auto, Refusals::new())),
        (Some("tvm"), _) => return Ok((SpaceChoice::Tvm, Refusals::new())),
        (Some(name), _) => name,
        (None, Some(_)) => &program.name,
    };
    let path = Path::new(name);
    if template.is_none() && !path.exists() && path.extension().is_none() {
        let help = "name `auto`, `tvm`, or a file with a schedule function".to_string();
        return Err(Error::Usage(format!("there is no space `{name}`"), help));
    }
    // The text of a template has been read, perhaps from standard input.
    let own = template.filter(|_| *name == program.name).map(|o| o.text.clone());
    let text = own.map_or_else(|| program::text(path), Ok)?;
    let function = ScheduleText::for_program(&text, name, Some(program))?;
    let mut refusals = Refusals::new();
    let mut hopeless = None;
    let mut can_be_tried = tuned.is_empty();
    for (i, module) in tuned.iter().enumerate() {
        let schedule = Schedule::new(module, 0).with_intrinsics(intrinsics.cloned()).until(stop.clone());
        match try_out(&function, schedule, dialect, color) {
            TriedOut::Fits => can_be_tried = true,
            TriedOut::Refused(text) => {
                can_be_tried = true;
                refusals.push((i, text));
            }
            TriedOut::Hopeless(text, found) => {
                refusals.push((i, text.clone()));
                hopeless.get_or_insert(Error::Shown(text, found));
            }
        }
    }
    match hopeless {
        Some(failure) if !can_be_tried => return Err(failure),
        // A look-up that fails in one function may be meant for another.
        Some(_) | None => {}
    }
    let name = path.file_name().map_or_else(|| name.to_owned(), |n| n.to_string_lossy().into_owned());
    Ok((SpaceChoice::Function { name, function: Arc::new(function) }, refusals))
}

/// Outcome of applying a schedule function with the first decisions.
enum TriedOut {
    /// It applies, or time was up before that was known.
    Fits,
    /// It fails with this message; other decisions may succeed.
    Refused(String),
    /// It fails whatever the decisions are: the message, and its place in the file.
    Hopeless(String, Box<Diagnostics>),
}

/// Applies a function once, so that an error that no decision can avoid is reported with its place, instead of failing
/// every candidate.
fn try_out(function: &ScheduleText, mut schedule: Schedule, dialect: Dialect, color: bool) -> TriedOut {
    let Err(mut error) = function.apply(&mut schedule) else { return TriedOut::Fits };
    if schedule.stop().is_raised() {
        // Whether it applies is unknown; the command reports that time was up.
        return TriedOut::Fits;
    }
    if let Some(refused) = &error.refused {
        if !is_hopeless(&refused.kind) {
            return TriedOut::Refused(function.render_error(&error, &schedule, dialect, color));
        }
        if matches!(refused.kind, ErrorKind::UnknownFunction { .. }) {
            let note = "whatever its name in the file, a function is called `main` while it is tuned";
            error.diagnostic.notes.push(note.to_string());
        }
    }
    let found = Diagnostics::new(function.source(), vec![(*error.diagnostic).clone()]);
    TriedOut::Hopeless(function.render_error(&error, &schedule, dialect, color), Box::new(found))
}

/// Whether the error names something that does not exist, which no decision can change.
fn is_hopeless(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownFunction { .. }
            | ErrorKind::BlockNotFound { .. }
            | ErrorKind::MultipleBlocksFound { .. }
            | ErrorKind::UnknownIntrin { .. }
    )
}
