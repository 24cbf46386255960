//! The best known version of a function, from the database.

use crate::database::{Database, DatabaseError, Filter, LineProblem, TuningRecord};
use crate::schedule::trace::ReplayError;
use crate::schedule::{Schedule, Trace};
use crate::workload::Workload;

/// A record with the schedule that it stands for.
pub struct Best {
    /// The record.
    pub record: TuningRecord,
    /// The schedule; its trace is empty where the program as written is the fastest.
    pub schedule: Schedule,
}

/// Why a record cannot be used.
#[derive(Clone, PartialEq, Debug)]
pub enum Unusable {
    /// Its trace cannot be read.
    Trace(String),
    /// Its trace does not apply to the function any more.
    Replay(ReplayError),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unusable::Trace(why) => write!(f, "its trace cannot be read: {why}"),
            Unusable::Replay(why) => write!(f, "its trace does not apply: {why}"),
        }
    }
}

/// What a look-up brought.
#[derive(Default)]
pub struct Found {
    /// The record that was asked for.
    pub best: Option<Best>,
    /// Better records that cannot be used.
    pub unusable: Vec<Unusable>,
    /// Lines of the database that turned out to be damaged.
    pub problems: Vec<LineProblem>,
}

/// The `rank`-th fastest usable record of a workload, 1 being the fastest.
///
/// # Errors
/// If the database cannot be read.
pub fn find(workload: &Workload, db: &Database, filter: &Filter, rank: usize) -> Result<Found, DatabaseError> {
    let mut found = Found::default();
    let Some(id) = workload.find(db) else { return Ok(found) };
    let mut left = rank.max(1);
    let mut skip = 0;
    loop {
        // Most look-ups are for the very best; more are read only as records prove unusable.
        let want = skip + left;
        let (records, problems) = db.top_k(id, want, filter)?;
        found.problems = problems;
        let exhausted = records.len() < want;
        for record in records.into_iter().skip(skip) {
            match replay(workload, &record) {
                Ok(schedule) if left == 1 => {
                    found.best = Some(Best { record, schedule });
                    return Ok(found);
                }
                Ok(_) => left -= 1,
                Err(why) => found.unusable.push(why),
            }
            skip += 1;
        }
        if exhausted {
            return Ok(found);
        }
    }
}

/// The schedule that a record stands for.
///
/// # Errors
/// If its trace cannot be read or does not apply.
pub fn replay(workload: &Workload, record: &TuningRecord) -> Result<Schedule, Unusable> {
    let trace = Trace::from_json(&record.trace).map_err(|e| Unusable::Trace(e.to_string()))?;
    let mut schedule = workload.schedule(0);
    trace.replay(&mut schedule).map_err(Unusable::Replay)?;
    Ok(schedule)
}
