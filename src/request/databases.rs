//! Databases that a user names: opening them, and what is wrong with them.

use super::{Error, Notices};
use crate::database::{Database, DatabaseError, RECORD_FILE, WORKLOAD_FILE};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a database for reading; `None` if there is none. Damaged lines are reported and skipped.
///
/// # Errors
/// The database cannot be read.
pub fn open(dir: &Path, notices: &dyn Notices) -> Result<Option<Database>, Error> {
    let db = find(dir)?;
    db.iter().for_each(|db| tell_problems(db, notices));
    Ok(db)
}

/// Opens a database that must exist; the caller reports its damaged lines.
///
/// # Errors
/// There is no database, or it cannot be read.
pub fn require(dir: &Path) -> Result<Database, Error> {
    find(dir)?.ok_or_else(|| {
        let help = "name a directory that `tvmr tune` has written, which was its `--work-dir`".to_string();
        Error::Usage(format!("there is no database in `{}`", dir.display()), help)
    })
}

/// Opens databases whose schedules are tried first.
///
/// # Errors
/// There is no database, or it cannot be read.
pub(super) fn seeds(dirs: &[PathBuf], notices: &dyn Notices) -> Result<Vec<Arc<Database>>, Error> {
    let open = |dir: &PathBuf| {
        if dir.exists() && !dir.is_dir() {
            let help = "name a directory that `tvmr tune` has written, which was its `--work-dir`".to_string();
            return Err(Error::Usage(format!("`{}` is not a directory", dir.display()), help));
        }
        let db = require(dir)?;
        tell_problems(&db, notices);
        Ok(Arc::new(db))
    };
    dirs.iter().map(open).collect()
}

/// Opens the directory if it holds at least one of the tables.
fn find(dir: &Path) -> Result<Option<Database>, Error> {
    match Database::open(dir) {
        Ok(db) => Ok([WORKLOAD_FILE, RECORD_FILE].iter().any(|table| dir.join(table).exists()).then_some(db)),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(failed(e)),
    }
}

/// Maximum number of damaged lines to list; the others are counted.
const SHOWN_PROBLEMS: usize = 5;

/// Reports the damaged lines of the database.
pub fn tell_problems(db: &Database, notices: &dyn Notices) {
    let problems = db.problems();
    for problem in problems.iter().take(SHOWN_PROBLEMS) {
        notices.warn(&format!("{problem}; the line is skipped"));
    }
    if problems.len() > SHOWN_PROBLEMS {
        notices.warn(&format!("{} more lines are skipped; see `tvmr db verify`", problems.len() - SHOWN_PROBLEMS));
    }
}

/// Turns a database error into the failure of a request.
pub fn failed(e: DatabaseError) -> Error {
    let help = e.help().to_string();
    Error::Machine(e.to_string(), help)
}
