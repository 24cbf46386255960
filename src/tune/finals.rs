//! The end of a task: its leaders are compared side by side, and the winner is benchmarked.
//!
//! Candidates were ranked by races against the best of their time, of which there were many: some of them lucky. So the
//! leaders, of this run and of earlier ones, run again interleaved, and the winner is the one that wins there. What is
//! reported is its benchmark, which `tvmr bench` repeats; the other finalists keep their ratio to it. The records are
//! written with the winner last, which is how later look-ups know it.

use super::backend::{Backend, Compiled, MeasureSession, failure_of};
use super::config::StopReason;
use super::driver::{Driver, TuneError};
use super::events::Event;
use super::task::Measured;
use crate::database::{self, Failure, FailureKind, Role, Times, TuningRecord};
use crate::measure::{Measurement, Outcome, Peak, Runner, Verdict};
use crate::schedule::{Schedule, Trace};
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

/// Where a winner's record keeps the machine's peak.
pub(super) const PEAK: &str = "peak";

/// Finalists at most.
const FINALISTS: usize = 6;
/// A candidate this much slower than the best in its race is no finalist.
const CLOSE: f64 = 1.10;
/// Finalists this close are not told apart, and the program as written is the simplest one.
const TIE: f64 = 1.005;

struct Finalist<C> {
    record: TuningRecord,
    schedule: Schedule,
    built: Compiled<C>,
}

/// A winner so many times as fast as the program as written is believed when that was measured twice.
const DOUBTFUL: f64 = 4.0;
/// Seconds of a program that is not measured again.
const AGAIN_AT_MOST: f64 = 0.25;
/// Finals that are held at most: one more only where all finalists failed.
const FINALS: usize = 4;
/// Calls of each finalist that the shortest final and its benchmark make, about.
const CALLS: f64 = 5.0;

impl<B: Backend> Driver<'_, B> {
    /// Finds the best program of a task, among all that the database has, and records it.
    pub(super) fn finals(&mut self, index: usize) -> Result<(), TuneError> {
        if self.tasks[index].session.is_none() {
            return Ok(());
        }
        // What other processes have found runs too.
        self.db.refresh()?;
        let mut excluded = HashSet::new();
        for _ in 0..FINALS {
            let mut leaders = self.leaders(index, &excluded)?;
            excluded.extend(leaders.iter().filter_map(|r| r.context.program));
            let expected = |leaders: &[TuningRecord]| {
                let secs: f64 = leaders.iter().filter_map(TuningRecord::secs).sum();
                Duration::try_from_secs_f64(CALLS * secs).unwrap_or(Duration::MAX)
            };
            while !leaders.is_empty() && !self.budget.has_time_for(expected(&leaders), self.backend.now()) {
                leaders.pop();
            }
            if leaders.is_empty() {
                break;
            }
            let rebuilt: Vec<Finalist<B::Code>> = leaders
                .into_iter()
                .filter_map(|record| {
                    if self.interrupt.flag().is_raised() {
                        return None;
                    }
                    let (schedule, built) = self.rebuild(index, &record)?;
                    Some(Finalist { record, schedule, built })
                })
                .collect();
            if !rebuilt.is_empty() && self.hold_final(index, &rebuilt)? {
                break;
            }
        }
        Ok(())
    }

    /// The fastest programs of a task that are not excluded, and whose times are close. Earlier runs recorded theirs at other
    /// moments, so those are put on the scale of this run.
    fn leaders(&self, index: usize, excluded: &HashSet<u64>) -> Result<Vec<TuningRecord>, TuneError> {
        let (task, filter) = (&self.tasks[index], self.config.setting.filter());
        let top = |is_own: bool| {
            let admits = |p: u64| task.own.contains(&p) == is_own && !excluded.contains(&p);
            self.db.top_k_of(task.id, FINALISTS, &filter, |p| p.is_some_and(admits))
        };
        let ((own, _), (earlier, _)) = (top(true)?, top(false)?);
        let scaled = |r: &TuningRecord, scale: f64| r.secs().map_or(f64::INFINITY, |s| s * scale);
        // The winner of an earlier final is always in the next one: its record is of another moment, and goes by that.
        let champion = earlier.first().and_then(|r| r.context.program);
        let earlier = earlier.into_iter().map(|r| (scaled(&r, task.drift), r));
        let mut all: Vec<(f64, TuningRecord)> = own.into_iter().map(|r| (scaled(&r, 1.0), r)).chain(earlier).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(best) = all.first().map(|a| a.0) else { return Ok(Vec::new()) };
        let is_champion = |r: &TuningRecord| champion.is_some() && r.context.program == champion;
        let mut leaders: Vec<TuningRecord> = Vec::new();
        for (secs, record) in all {
            if is_champion(&record) || secs <= best * CLOSE && leaders.len() < FINALISTS {
                leaders.push(record);
            }
        }
        Ok(leaders)
    }

    /// Runs finalists, and records what came of them. Is there a winner, or no use in looking for one?
    fn hold_final(&mut self, index: usize, finalists: &[Finalist<B::Code>]) -> Result<bool, TuneError> {
        self.observer.event(&Event::Finals { task: index, finalists: finalists.len() });
        let _pinned = self.backend.pin();
        let start = self.backend.now();
        if let Some(session) = self.tasks[index].session.as_mut() {
            // Whether there is time for it has been asked; what was left for the last trial says nothing.
            session.set_ceiling(None);
        }
        let (mut standing, mut failed) = self.compare(index, finalists);
        // The winner is reported by its benchmark; should it fail there, the next one is.
        let mut winner = None;
        while winner.is_none() && !standing.is_empty() && !self.interrupt.is_raised() {
            let (i, m) = standing.remove(self.first_of(index, finalists, &standing));
            match self.benchmark(index, &finalists[i].built.code) {
                Ok(bench) => winner = Some((i, m, bench)),
                Err(failure) => failed.push((i, failure)),
            }
        }
        let secs = self.backend.now().saturating_sub(start).as_secs_f64();
        self.tasks[index].breakdown.measure += secs;
        if self.interrupt.is_raised() && winner.is_none() {
            // What was stopped together with the run has not failed.
            return Ok(true);
        }
        if let Some(why) = self.tasks[index].session.as_ref().and_then(MeasureSession::broken) {
            self.tasks[index].problem = Some(why);
            self.tasks[index].stop = Some(StopReason::NotMeasurable);
            return Ok(true);
        }
        // It ran before: what was held up now is out of this final, and none the worse for it.
        failed.retain(|(_, failure)| failure.kind != FailureKind::Timeout);
        let mut records: Vec<TuningRecord> =
            failed.into_iter().map(|(i, f)| self.rerun(index, &finalists[i], database::Outcome::Failed(f))).collect();
        let is_decided = winner.is_some();
        if let Some((i, m, (times, peak))) = winner {
            let scale = times.secs() / m.secs;
            for (other, o) in standing {
                // Whoever lost is not the faster one, whatever the clock did between final and benchmark.
                let run_secs = vec![(o.secs * scale).max(times.secs())];
                let times = Times { run_secs, batch_secs: o.batch_secs, calls: o.calls };
                records.push(self.rerun(index, &finalists[other], database::Outcome::Measured(times)));
            }
            let task = &mut self.tasks[index];
            task.best = Some(times.secs());
            if finalists[i].record.context.program == Some(task.as_written) {
                task.baseline = task.best;
            }
            let mut record = self.rerun(index, &finalists[i], database::Outcome::Measured(times));
            if let Some(peak) = peak {
                record.context.other.insert(PEAK.to_owned(), json!(peak));
            }
            records.push(record);
        }
        self.tasks[index].unwritten.extend(records);
        self.commit(index)?;
        if is_decided {
            self.doubt_baseline(index)?;
        }
        Ok(is_decided)
    }

    /// Measures the program as written again where the winner is so much faster that a disturbance is as likely: the first
    /// thing that a run measures has the machine busy with all that a run begins with.
    fn doubt_baseline(&mut self, index: usize) -> Result<(), TuneError> {
        let task = &self.tasks[index];
        let (Some(baseline), Some(best)) = (task.baseline, task.best) else { return Ok(()) };
        let is_new = task.own.contains(&task.as_written);
        if !is_new || baseline < best * DOUBTFUL || baseline > AGAIN_AT_MOST {
            return Ok(());
        }
        let (as_written, workload) = (task.as_written, task.workload.clone());
        let Ok(Compiled { code, secs: compile_secs }) = self.backend.compile(as_written, workload.func()) else {
            return Ok(());
        };
        let limit = Duration::from_secs_f64(baseline * 2.0).max(Duration::from_millis(20));
        let Some(secs) = self.tasks[index].session.as_mut().and_then(|session| session.least_secs(&code, limit)) else {
            return Ok(());
        };
        if secs >= baseline {
            return Ok(());
        }
        tracing::debug!("the program as written took {secs:.3e} s instead of {baseline:.3e} s when measured again");
        let task = &mut self.tasks[index];
        task.baseline = Some(secs);
        let measured = Measured {
            program: as_written,
            trace: &Trace::default(),
            outcome: database::Outcome::Measured(Times::of(secs)),
            role: Role::Baseline,
            trial: 0,
            compile_secs: Some(compile_secs),
        };
        let record = task.record(measured, self.config, self.backend.time());
        task.unwritten.push(record);
        self.commit(index)
    }

    /// Runs the finalists interleaved: those that have a time, and those that failed.
    #[expect(clippy::type_complexity, reason = "two lists that are taken apart at once")]
    fn compare(
        &mut self,
        index: usize,
        finalists: &[Finalist<B::Code>],
    ) -> (Vec<(usize, Measurement)>, Vec<(usize, Failure)>) {
        let codes: Vec<B::Code> = finalists.iter().map(|f| f.built.code.clone()).collect();
        let Some(session) = self.tasks[index].session.as_mut() else { return Default::default() };
        let outcomes = session.finals(&codes);
        // A reference that is late is waited for here: nothing is reported that nobody looked at.
        let settled = session.settle(true);
        let verdict = |m: &Measurement| match m.verdict {
            Verdict::Waiting(ticket) => {
                settled.iter().find(|s| s.ticket == ticket).and_then(|s| s.result.clone().err())
            }
            Verdict::Right | Verdict::Unchecked => None,
        };
        let (mut standing, mut failed) = (Vec::new(), Vec::new());
        for (i, outcome) in outcomes.into_iter().enumerate() {
            let late = match &outcome {
                Outcome::Measured(m) => verdict(m),
                _ => None,
            };
            match failure_of(late.unwrap_or(outcome), None) {
                Ok(m) => standing.push((i, m)),
                Err(failure) => failed.push((i, failure)),
            }
        }
        (standing, failed)
    }

    /// The place of the winner: the fastest, but the program as written where that is as fast.
    fn first_of(&self, index: usize, finalists: &[Finalist<B::Code>], standing: &[(usize, Measurement)]) -> usize {
        let fastest = (0..standing.len()).min_by(|&a, &b| standing[a].1.secs.total_cmp(&standing[b].1.secs));
        let fastest = fastest.unwrap_or(0);
        let as_written = Some(self.tasks[index].as_written);
        let simple = standing.iter().position(|(i, m)| {
            finalists[*i].record.context.program == as_written && m.secs <= standing[fastest].1.secs * TIE
        });
        simple.unwrap_or(fastest)
    }

    /// The winner's times, and the machine's peak, measured right behind it.
    fn benchmark(&mut self, index: usize, code: &B::Code) -> Result<(Times, Option<Peak>), Failure> {
        let task = &mut self.tasks[index];
        let flops = task.work.flops;
        let Some(session) = task.session.as_mut() else { return Ok((Times::of(f64::MAX), None)) };
        let bench = session.bench(code).map_err(|failure| super::bench::failed_run(&failure))?;
        let secs = bench.summary.median;
        let peak = if flops > 0.0 { session.peak() } else { None };
        let advice = session.advice();
        if let Some(advice) = advice {
            self.observer.event(&Event::Warning(&advice.to_string()));
        }
        Ok((Times { run_secs: vec![secs], batch_secs: sampled(&bench.batch_secs), calls: bench.calls }, peak))
    }

    fn rerun(&self, index: usize, finalist: &Finalist<B::Code>, outcome: database::Outcome) -> TuningRecord {
        let old = &finalist.record.context;
        let measured = Measured {
            program: old.program.unwrap_or_default(),
            trace: finalist.schedule.trace(),
            outcome,
            role: Role::Rerun,
            trial: old.trial,
            compile_secs: Some(finalist.built.secs),
        };
        let mut record = self.tasks[index].record(measured, self.config, self.backend.time());
        // How it was found has not changed.
        record.context.space.clone_from(&old.space);
        record.context.strategy.clone_from(&old.strategy);
        record.context.seed = old.seed;
        record
    }
}

/// Batches that a record keeps of a benchmark.
const KEPT: usize = 50;

/// Batch times spread over a benchmark: a record has no use for two thousand.
fn sampled(batch_secs: &[f64]) -> Vec<f64> {
    let step = batch_secs.len().div_ceil(KEPT).max(1);
    batch_secs.iter().copied().step_by(step).collect()
}
