//! Warm start: the search begins with the measurements of earlier runs.

use super::backend::Backend;
use super::driver::TuneError;
use super::run::Run;
use crate::database::{Role, TuningRecord, WorkloadId};
use crate::schedule::{Schedule, Trace};
use crate::script::{ParseOptions, parse};
use crate::search::{Proposer, isolated};

/// Measurements of this program that are used at most: each takes a fraction of a millisecond.
const OWN: usize = 200;
/// Other programs that are used at most, the latest ones.
const OTHERS: usize = 4;
/// Measurements of each of them at most: all together should take less time than a few trials.
const OF_OTHER: usize = 24;

impl<B: Backend> Run<'_, B> {
    /// Tells a proposer the measurements that the database has of its workload, and of a few others.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn warm_start(&self, id: WorkloadId, proposer: &mut Proposer) -> Result<(), TuneError> {
        if !proposer.learns() {
            return Ok(());
        }
        for (secs, program, record) in sampled(self.measured(id, OWN)?, OWN) {
            if self.stop.is_raised() {
                return Ok(());
            }
            // A trace that cannot be read is skipped; commands that need it report the error.
            if let Ok(trace) = Trace::from_json(&record.trace) {
                let is_of_space = record.context.space == self.config.space.name();
                proposer.remember(program, &trace, secs, is_of_space);
            }
        }
        self.warm_start_from_others(id, proposer)
    }

    /// Tells a proposer the measurements of other programs in this setting.
    fn warm_start_from_others(&self, id: WorkloadId, proposer: &mut Proposer) -> Result<(), TuneError> {
        let mut others: Vec<(WorkloadId, &str)> = self.db.workloads().map(|(id, w)| (id, w.tir.as_str())).collect();
        others.reverse();
        let mut left = OTHERS;
        for (other, tir) in others {
            if left == 0 || self.stop.is_raised() {
                break;
            }
            let known = if other == id { Vec::new() } else { self.measured(other, OF_OTHER)? };
            // Few measurements teach the model nothing but the scale of the times.
            if known.len() < OF_OTHER / 2 {
                continue;
            }
            left -= 1;
            let Ok(parsed) = parse(tir, "database", &ParseOptions::default()) else { continue };
            let base = Schedule::new(&parsed.module, 0).with_intrinsics(self.config.intrinsics.clone());
            let replayed = |record: &TuningRecord| {
                let trace = Trace::from_json(&record.trace).ok()?;
                let mut schedule = base.clone();
                trace.replay(&mut schedule).ok()?;
                Some(schedule)
            };
            let known = sampled(known, OF_OTHER).into_iter();
            let schedules = known.filter_map(|(secs, _, r)| Some((isolated(|| replayed(&r)).ok()??, secs)));
            proposer.learn_from_other(&schedules.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// The programs of a workload that have a time in this setting, the fastest first and not many more than `most`.
    fn measured(&self, id: WorkloadId, most: usize) -> Result<Vec<(f64, u64, TuningRecord)>, TuneError> {
        // Reading all lines of a large table would take too long.
        let (records, _) = self.db.top_k(id, most * 4, &self.config.setting.filter())?;
        let known = records.into_iter().filter(|r| r.context.role != Role::Baseline);
        Ok(known.filter_map(|r| Some((r.secs()?, r.context.program?, r))).collect())
    }
}

/// Selects about `most` items of a list that begins with the fastest: half of them are the fastest ones, the others are
/// spread over the rest.
fn sampled<T>(mut all: Vec<T>, most: usize) -> Vec<T> {
    if all.len() <= most {
        return all;
    }
    let rest = all.split_off(most / 2);
    let step = rest.len().div_ceil(most / 2);
    all.extend(rest.into_iter().step_by(step));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_the_fastest_are_kept() {
        assert_eq!(sampled((0..7).collect::<Vec<_>>(), OWN).len(), 7);
        let few = sampled((0..1000).collect::<Vec<_>>(), OWN);
        assert!(few.len() <= OWN && few[..100] == (0..100).collect::<Vec<_>>() && few.last() > Some(&900));
    }
}
