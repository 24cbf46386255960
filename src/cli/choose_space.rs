//! The search space that a command line names: rules, or a file with a schedule function.

use super::console::Console;
use super::exit::Failure;
use super::load;
use crate::ir::Module;
use crate::schedule::Schedule;
use crate::schedule::error::ErrorKind;
use crate::schedule::function::ScheduleFunction;
use crate::schedule::intrin::Intrinsics;
use crate::script::Dialect;
use crate::space::sample::{ScheduleSource, SourceError};
use crate::tune::config::SpaceChoice;
use std::path::Path;
use std::sync::Arc;

/// The space called `name`.
pub fn choose(
    name: &str,
    tuned: &[Module],
    intrinsics: Option<&Arc<Intrinsics>>,
    dialect: Dialect,
    console: Console,
) -> Result<SpaceChoice, Failure> {
    match name {
        "auto" => return Ok(SpaceChoice::Auto),
        "tvm" => return Ok(SpaceChoice::Tvm),
        _ => {}
    }
    let path = Path::new(name);
    if !path.exists() && path.extension().is_none() {
        let help = "name `auto`, `tvm`, or a file with a schedule function".to_string();
        return Err(Failure::Usage(format!("there is no space `{name}`"), help));
    }
    let function = ScheduleFunction::parse(&load::text(path)?, name)?;
    if let [only] = tuned {
        let schedule = Schedule::new(only, 0).with_intrinsics(intrinsics.cloned());
        try_out(&function, schedule, dialect, console)?;
    }
    let name = path.file_name().map_or_else(|| name.to_owned(), |n| n.to_string_lossy().into_owned());
    Ok(SpaceChoice::Function { name, function: Arc::new(UserSpace(function)) })
}

/// Applies a function once, so that a mistake that no decision can mend is shown where it is and not counted a
/// thousand times.
fn try_out(
    function: &ScheduleFunction,
    mut schedule: Schedule,
    dialect: Dialect,
    console: Console,
) -> Result<(), Failure> {
    let Err(mut error) = function.apply(&mut schedule) else { return Ok(()) };
    if let Some(refused) = &error.refused {
        if !is_hopeless(&refused.kind) {
            // Other decisions may do.
            tracing::debug!("{}", function.render_error(&error, &schedule, dialect, false));
            return Ok(());
        }
        if matches!(refused.kind, ErrorKind::UnknownFunction { .. }) {
            let note = "whatever its name in the file, a function is called `main` while it is tuned";
            error.diagnostic.notes.push(note.to_string());
        }
    }
    Err(Failure::Shown(function.render_error(&error, &schedule, dialect, console.color)))
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
