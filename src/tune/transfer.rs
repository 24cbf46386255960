//! What is known of a workload elsewhere: in other settings of the database at hand, and in other databases.
//!
//! Times of elsewhere say little about this machine, schedules say much: so the traces are proposed here, the fastest of
//! elsewhere first, and measured anew. One that came to a program which was measured here before is not measured again.

use super::backend::Backend;
use super::driver::{Driver, TuneError};
use super::events::Event;
use crate::database::{Database, DatabaseError, Filter, TuningRecord};
use crate::schedule::Trace;
use crate::workload::Workload;
use std::collections::HashSet;

/// Traces of other databases that a search begins with, for each function. A first round has as many candidates.
const FIRST: usize = super::driver::ROUND;

impl<B: Backend> Driver<'_, B> {
    /// The traces that are to be replayed: those of the databases named, or else those of other settings of this one.
    pub(super) fn traces_to_replay(&mut self, index: usize) -> Result<Vec<Trace>, TuneError> {
        if !self.config.seed_from.is_empty() {
            return self.traces_of_others(index, usize::MAX);
        }
        let (records, _) = self.db.top_k(self.tasks[index].id, usize::MAX, &Filter::any())?;
        let known = self.db.programs(self.tasks[index].id, &self.config.setting.filter());
        let new = records.iter().filter(|r| r.context.program.is_none_or(|p| !known.contains(&p)));
        let traces: Vec<_> = new.map(read).collect();
        Ok(self.readable(traces))
    }

    /// The traces that a search begins with.
    pub(super) fn traces_to_begin_with(&mut self, index: usize) -> Result<Vec<Trace>, TuneError> {
        self.traces_of_others(index, FIRST)
    }

    /// The traces that other databases have of a task, the fastest of each in turn, and `limit` at most.
    fn traces_of_others(&mut self, index: usize, limit: usize) -> Result<Vec<Trace>, TuneError> {
        let mut lists = Vec::with_capacity(self.config.seed_from.len());
        for db in &self.config.seed_from {
            let workload = &self.tasks[index].workload;
            let records = of_workload(db, workload)?;
            let (name, dir) = (workload.name, db.dir().display());
            self.observer.event(&Event::Note(&match records.len() {
                0 => format!("`{dir}` has no schedule of `{name}`"),
                1 => format!("`{dir}` has a schedule of `{name}`"),
                n => format!("`{dir}` has {n} schedules of `{name}`"),
            }));
            lists.push(records);
        }
        let known = self.db.programs(self.tasks[index].id, &self.config.setting.filter());
        let mut seen = HashSet::new();
        let distinct = in_turn(lists).into_iter().filter(|r| r.context.program.is_none_or(|p| seen.insert(p)));
        // Those that were measured here are among the first, too: a resumed search does not go further down each time.
        let new = distinct.take(limit).filter(|r| r.context.program.is_none_or(|p| !known.contains(&p)));
        let traces = new.map(|r| read(&r)).collect();
        Ok(self.readable(traces))
    }

    fn readable(&mut self, traces: Vec<Result<Trace, String>>) -> Vec<Trace> {
        let mut good = Vec::with_capacity(traces.len());
        for trace in traces {
            match trace {
                Ok(trace) => good.push(trace),
                Err(why) => self.observer.event(&Event::Warning(&format!("a trace cannot be read: {why}"))),
            }
        }
        good
    }
}

fn read(record: &TuningRecord) -> Result<Trace, String> {
    Trace::from_json(&record.trace).map_err(|e| e.to_string())
}

/// The records that have a time, of whatever setting, the fastest first; the program as written is no schedule.
fn of_workload(db: &Database, workload: &Workload) -> Result<Vec<TuningRecord>, DatabaseError> {
    let Some(id) = workload.find(db) else { return Ok(Vec::new()) };
    let (mut records, _) = db.top_k(id, usize::MAX, &Filter::any())?;
    records.retain(|r| r.trace[0].as_array().is_none_or(|insts| !insts.is_empty()));
    Ok(records)
}

/// The first items of all lists, then the second ones, and so on: times of different machines cannot be compared.
fn in_turn<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_take_turns() {
        assert_eq!(in_turn(vec![vec![1, 2, 3], vec![], vec![10, 20]]), [1, 10, 2, 20, 3]);
        assert!(in_turn::<u8>(Vec::new()).is_empty());
    }
}
