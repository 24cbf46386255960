//! What earlier runs measured, for the search to begin with.

use super::backend::Backend;
use super::driver::{Driver, TuneError};
use crate::database::{Role, TuningRecord};
use crate::schedule::Trace;
use crate::search::Proposer;
use std::collections::BTreeMap;

/// Measurements of this program that are looked at: each takes a fraction of a millisecond.
const OWN: usize = 200;

impl<B: Backend> Driver<'_, B> {
    /// Tells a proposer what the database has of its task.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn recall(&mut self, index: usize, proposer: &mut Proposer) -> Result<(), TuneError> {
        if !proposer.learns() {
            return Ok(());
        }
        let filter = self.config.setting.filter();
        let (records, _) = self.db.records(self.tasks[index].id, &filter)?;
        // A later measurement of a program overrules an earlier one.
        let mut latest: BTreeMap<u64, &TuningRecord> = BTreeMap::new();
        for record in records.iter().filter(|r| r.context.role != Role::Baseline) {
            if let Some(program) = record.context.program {
                latest.insert(program, record);
            }
        }
        let mut known: Vec<(f64, u64, &TuningRecord)> =
            latest.into_iter().filter_map(|(program, r)| Some((r.secs()?, program, r))).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (secs, program, record) in sampled(known) {
            // A trace that cannot be read teaches nothing; commands that need it say so.
            if let Ok(trace) = Trace::from_json(&record.trace) {
                let is_of_space = record.context.space == self.config.space.name();
                proposer.remember(program, &trace, secs, is_of_space);
            }
        }
        Ok(())
    }
}

/// All of a few; of many the fastest half of those that are looked at, and some of all others.
fn sampled<T>(mut all: Vec<T>) -> Vec<T> {
    if all.len() <= OWN {
        return all;
    }
    let rest = all.split_off(OWN / 2);
    let step = rest.len().div_ceil(OWN / 2);
    all.extend(rest.into_iter().step_by(step));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_the_fastest_are_kept() {
        assert_eq!(sampled((0..7).collect::<Vec<_>>()).len(), 7);
        let few = sampled((0..1000).collect::<Vec<_>>());
        assert!(few.len() <= OWN && few[..100] == (0..100).collect::<Vec<_>>() && few.last() > Some(&900));
    }
}
