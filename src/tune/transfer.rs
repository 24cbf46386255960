//! Transfer: schedules that were recorded in other settings of this database, or in other databases.
//!
//! Times of other settings say little about this one, but schedules say much. So their traces are proposed, the fastest
//! first, and measured again. A trace whose program was already measured in this setting is left out. Then come the schedules that
//! were read from logs of other tuners, and never measured.

use super::backend::Backend;
use super::driver::TuneError;
use super::events::Event;
use super::run::Run;
use super::task::Task;
use crate::database::{Database, DatabaseError, Filter, TuningRecord};
use crate::schedule::Trace;
use crate::workload::Workload;
use std::collections::HashSet;

/// Maximum number of traces of other databases at the start of a function's search: the number of candidates in a
/// round.
const FIRST: usize = super::driver::ROUND;

impl<B: Backend> Run<'_, B> {
    /// The traces to replay: those of the databases that the user named; otherwise those of other settings in this
    /// database.
    pub(super) fn traces_to_replay(&mut self, task: &Task<B>) -> Result<Vec<Trace>, TuneError> {
        if !self.config.seed_from.is_empty() {
            return self.traces_of_others(task, usize::MAX);
        }
        let (records, _) = self.db.top_k(task.subject.id, usize::MAX, &Filter::any())?;
        let known = self.db.programs(task.subject.id, &self.config.setting.filter());
        let new = records.iter().filter(|r| r.context.program.is_none_or(|p| !known.contains(&p)));
        let traces: Vec<_> = new.map(read).collect();
        let mut traces = self.readable(traces);
        traces.extend(self.untried_traces(task, usize::MAX)?);
        Ok(traces)
    }

    /// The traces that a search begins with.
    pub(super) fn traces_to_begin_with(&mut self, task: &Task<B>) -> Result<Vec<Trace>, TuneError> {
        let mut traces = self.untried_traces(task, FIRST)?;
        traces.extend(self.traces_of_others(task, FIRST)?);
        Ok(traces)
    }

    /// At most `limit` traces of the search's own database that were never measured. Those that have been tried since give programs
    /// that it knows, and are passed over.
    fn untried_traces(&mut self, task: &Task<B>, limit: usize) -> Result<Vec<Trace>, TuneError> {
        let (records, _) = self.db.untried(task.subject.id)?;
        let traces = records.iter().take(limit).map(read).collect();
        Ok(self.readable(traces))
    }

    /// At most `limit` traces that other databases have of a task: the fastest of each, then the second ones, and so on.
    fn traces_of_others(&mut self, task: &Task<B>, limit: usize) -> Result<Vec<Trace>, TuneError> {
        let mut lists = Vec::with_capacity(self.config.seed_from.len());
        for db in &self.config.seed_from {
            let workload = &task.subject.workload;
            let records = of_workload(db, workload)?;
            let (name, dir) = (workload.name, db.dir().display());
            self.observer.event(&Event::Note(&match records.len() {
                0 => format!("`{dir}` has no schedule of `{name}`"),
                1 => format!("`{dir}` has a schedule of `{name}`"),
                n => format!("`{dir}` has {n} schedules of `{name}`"),
            }));
            lists.push(records);
        }
        let known = self.db.programs(task.subject.id, &self.config.setting.filter());
        let mut seen = HashSet::new();
        let distinct = in_turn(lists).into_iter().filter(|r| r.context.program.is_none_or(|p| seen.insert(p)));
        // The limit comes before the filter, so that a resumed search does not go further down the list each time.
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

/// The records of all settings that have a time, fastest first, without those of the program as written; then those that were never
/// measured.
fn of_workload(db: &Database, workload: &Workload) -> Result<Vec<TuningRecord>, DatabaseError> {
    let Some(id) = workload.find(db) else { return Ok(Vec::new()) };
    let (mut records, _) = db.top_k(id, usize::MAX, &Filter::any())?;
    records.retain(|r| r.trace[0].as_array().is_none_or(|insts| !insts.is_empty()));
    records.extend(db.untried(id)?.0);
    Ok(records)
}

/// Interleaves lists: the first items of all, then the second ones, and so on. Times of different machines cannot be
/// compared.
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
