//! The search space that a command line names: rules, or a file with a schedule function.

use super::console::Console;
use super::exit::Failure;
use super::load;
use crate::diagnostic::Diagnostics;
use crate::ir::Module;
use crate::schedule::Schedule;
use crate::schedule::error::ErrorKind;
use crate::schedule::function::ScheduleFunction;
use crate::schedule::intrin::Intrinsics;
use crate::script::Dialect;
use crate::space::sample::{ScheduleSource, SourceError};
use crate::stop::StopFlag;
use crate::tune::config::SpaceChoice;
use std::path::Path;
use std::sync::Arc;

/// The space called `name`, and how its function is refused with the first decisions, if it is. What takes long ends when `stop` is raised.
pub fn choose(
    name: &str,
    tuned: &[Module],
    intrinsics: Option<&Arc<Intrinsics>>,
    dialect: Dialect,
    console: Console,
    stop: &StopFlag,
) -> Result<(SpaceChoice, Option<String>), Failure> {
    match name {
        "auto" => return Ok((SpaceChoice::Auto, None)),
        "tvm" => return Ok((SpaceChoice::Tvm, None)),
        _ => {}
    }
    let path = Path::new(name);
    if !path.exists() && path.extension().is_none() {
        let help = "name `auto`, `tvm`, or a file with a schedule function".to_string();
        return Err(Failure::Usage(format!("there is no space `{name}`"), help));
    }
    let function = ScheduleFunction::parse(&load::text(path)?, name)?;
    let mut refusal = None;
    if let [only] = tuned {
        let schedule = Schedule::new(only, 0).with_intrinsics(intrinsics.cloned()).until(stop.clone());
        refusal = try_out(&function, schedule, dialect, console)?;
    }
    let name = path.file_name().map_or_else(|| name.to_owned(), |n| n.to_string_lossy().into_owned());
    Ok((SpaceChoice::Function { name, function: Arc::new(UserSpace(function)) }, refusal))
}

/// Applies a function once, so that a mistake that no decision can mend is shown where it is and not counted a
/// thousand times. Gives a refusal that other decisions may mend, for the case that none does.
fn try_out(
    function: &ScheduleFunction,
    mut schedule: Schedule,
    dialect: Dialect,
    console: Console,
) -> Result<Option<String>, Failure> {
    let Err(mut error) = function.apply(&mut schedule) else { return Ok(None) };
    if schedule.stop().is_raised() {
        // Whether it can be carried out is not known, and the command says that the time was up.
        return Ok(None);
    }
    if let Some(refused) = &error.refused {
        if !is_hopeless(&refused.kind) {
            // Other decisions may do.
            return Ok(Some(function.render_error(&error, &schedule, dialect, console.color)));
        }
        if matches!(refused.kind, ErrorKind::UnknownFunction { .. }) {
            let note = "whatever its name in the file, a function is called `main` while it is tuned";
            error.diagnostic.notes.push(note.to_string());
        }
    }
    let found = Diagnostics::new(function.source(), vec![(*error.diagnostic).clone()]);
    Err(Failure::Shown(function.render_error(&error, &schedule, dialect, console.color), Box::new(found)))
}

/// Does what is named not exist at all?
fn is_hopeless(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownFunction { .. }
            | ErrorKind::BlockNotFound { .. }
            | ErrorKind::MultipleBlocksFound { .. }
            | ErrorKind::UnknownIntrin { .. }
    )
}

/// A schedule function as a source of candidates.
struct UserSpace(ScheduleFunction);

impl ScheduleSource for UserSpace {
    fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError> {
        self.0.apply(sch).map_err(|e| match e.refused {
            Some(refused) => SourceError::Schedule(*refused),
            None => SourceError::Function(e.diagnostic.message),
        })
    }
}
