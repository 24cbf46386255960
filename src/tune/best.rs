//! Finds the best recorded schedule of a function.

use crate::database::{Database, DatabaseError, Filter, LineProblem, TuningRecord};
use crate::schedule::trace::ReplayError;
use crate::schedule::{Schedule, Trace};
use crate::workload::Workload;

/// A record with its schedule.
pub struct Best {
    /// The record.
    pub record: TuningRecord,
    /// The schedule; its trace is empty if the program as written is the fastest.
    pub schedule: Schedule,
}

/// The reason why a record cannot be used.
#[derive(Clone, PartialEq, Debug)]
pub enum Unusable {
    /// Its trace cannot be read.
    Trace(String),
    /// Its trace no longer applies to the function.
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

/// The result of a look-up.
#[derive(Default)]
pub struct Found {
    /// The requested record.
    pub best: Option<Best>,
    /// Better records that cannot be used.
    pub unusable: Vec<Unusable>,
    /// Damaged lines of the database.
    pub problems: Vec<LineProblem>,
}

/// Finds the `rank`-th fastest usable record of a workload; rank 1 is the fastest.
///
/// # Errors
/// If the database cannot be read.
pub fn find(workload: &Workload, db: &Database, filter: &Filter, rank: usize) -> Result<Found, DatabaseError> {
    let mut found = Found::default();
    let Some(id) = workload.find(db) else { return Ok(found) };
    let mut left = rank.max(1);
    let mut skip = 0;
    loop {
        // Most look-ups want the first record; more are only read if records are unusable.
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

/// Replays the trace of a record.
///
/// # Errors
/// If its trace cannot be read or does not apply.
pub fn replay(workload: &Workload, record: &TuningRecord) -> Result<Schedule, Unusable> {
    let trace = Trace::from_json(&record.trace).map_err(|e| Unusable::Trace(e.to_string()))?;
    let mut schedule = workload.schedule(0);
    trace.replay(&mut schedule).map_err(Unusable::Replay)?;
    Ok(schedule)
}
