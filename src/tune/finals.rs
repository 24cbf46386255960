//! The final of a task: its fastest programs are compared side by side, and the winner is benchmarked.
//!
//! During the search, each candidate raced against the best program of that moment. Among many races, some are won by
//! chance. So the fastest programs of this and earlier runs run again, interleaved, and the fastest of these runs wins. The
//! winner's benchmark, which `tvmr bench` repeats, is reported; the other finalists keep their ratio to it. The winner's
//! record is written last, so that later look-ups recognise it.

use super::backend::{Backend, Compiled, MeasureSession, failure_of};
use super::driver::TuneError;
use super::events::Event;
use super::run::Run;
use super::task::{Measured, Task};
use crate::database::{self, Failure, FailureKind, Role, Times, TuningRecord};
use crate::measure::{Measurement, Outcome, Peak, Runner, Verdict};
use crate::schedule::{Schedule, Trace};
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

/// The field in which a winner's record keeps the machine's peak.
pub(super) const PEAK: &str = "peak";

/// The number of finalists at most.
const FINALISTS: usize = 6;
/// A candidate that is slower than the best one by this factor is no finalist.
const CLOSE: f64 = 1.10;
/// Finalists within this factor are a tie. The program as written, as the simplest one, wins ties.
const TIE: f64 = 1.005;

/// A program that takes part in a final.
struct Finalist<C> {
    record: TuningRecord,
    schedule: Schedule,
    built: Compiled<C>,
}

/// If the winner is faster than the program as written by this factor, the latter is measured a second time.
const DOUBTFUL: f64 = 4.0;
/// A program as written that takes more seconds than this is not measured again.
const AGAIN_AT_MOST: f64 = 0.25;
/// The number of finals at most; a further one is only held if all finalists failed.
const FINALS: usize = 4;
/// The approximate number of calls of each finalist in the shortest final and its benchmark.
const CALLS: f64 = 5.0;

impl<B: Backend> Run<'_, B> {
    /// Finds the best program of a task, among all in the database, and records it.
    pub(super) fn finals(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        if task.session.is_none() {
            return Ok(());
        }
        // Programs that other processes have found take part.
        self.db.refresh()?;
        let mut excluded = HashSet::new();
        for _ in 0..FINALS {
            let mut leaders = self.leaders(task, &excluded)?;
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
                    let (schedule, built) = self.rebuild(task, &record)?;
                    Some(Finalist { record, schedule, built })
                })
                .collect();
            if !rebuilt.is_empty() && self.hold_final(task, &rebuilt)? {
                break;
            }
        }
        Ok(())
    }

    /// The fastest programs of a task that are not excluded and whose times are close to the best. Times of earlier runs are
    /// brought to the scale of this run.
    fn leaders(&self, task: &Task<B>, excluded: &HashSet<u64>) -> Result<Vec<TuningRecord>, TuneError> {
        let filter = self.config.setting.filter();
        let top = |is_own: bool| {
            let admits = |p: u64| task.records.is_own(p) == is_own && !excluded.contains(&p);
            self.db.top_k_of(task.subject.id, FINALISTS, &filter, |p| p.is_some_and(admits))
        };
        let ((own, _), (earlier, _)) = (top(true)?, top(false)?);
        let scaled = |r: &TuningRecord| r.secs().map_or(f64::INFINITY, |s| s * task.scale_of(r.context.program));
        // The winner of the last final always takes part, since its recorded time may be out of date.
        let champion = earlier.first().and_then(|r| r.context.program);
        let mut all: Vec<(f64, TuningRecord)> = own.into_iter().chain(earlier).map(|r| (scaled(&r), r)).collect();
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

    /// Holds a final, and records its results. Returns false if all finalists failed, so that another final is needed.
    fn hold_final(&mut self, task: &mut Task<B>, finalists: &[Finalist<B::Code>]) -> Result<bool, TuneError> {
        self.observer.event(&Event::Finals { task: task.subject.index, finalists: finalists.len() });
        let _pinned = self.backend.pin();
        let start = self.backend.now();
        if let Some(session) = task.session.as_mut() {
            // There is time for the final; the ceiling of the last trial does not apply to it.
            session.set_ceiling(None);
        }
        let (mut standing, mut failed) = compare(task, finalists);
        // If the winner fails in its benchmark, the next finalist wins.
        let mut winner = None;
        while winner.is_none() && !standing.is_empty() && !self.interrupt.is_raised() {
            let (i, m) = standing.remove(first_of(task, finalists, &standing));
            match self.benchmark(task, &finalists[i].built.code) {
                Ok(bench) => winner = Some((i, m, bench)),
                Err(failure) => failed.push((i, failure)),
            }
        }
        task.tally.spent.measure += self.secs_since(start);
        if self.interrupt.is_raised() && winner.is_none() {
            // A program that was stopped together with the run has not failed.
            return Ok(true);
        }
        if let Some(why) = task.session.as_ref().and_then(MeasureSession::broken) {
            task.fail(why);
            return Ok(true);
        }
        // A finalist that was stopped now ran before. It leaves this final without a record.
        failed.retain(|(_, failure)| failure.kind != FailureKind::Timeout);
        let mut records: Vec<TuningRecord> =
            failed.into_iter().map(|(i, f)| self.rerun(task, &finalists[i], database::Outcome::Failed(f))).collect();
        let is_decided = winner.is_some();
        if let Some((i, m, (times, peak))) = winner {
            let scale = times.secs() / m.secs;
            for (other, o) in standing {
                // A loser must not be recorded as faster, even if the clock rate changed before the benchmark.
                let run_secs = vec![(o.secs * scale).max(times.secs())];
                let times = Times { run_secs, batch_secs: o.batch_secs, calls: o.calls };
                records.push(self.rerun(task, &finalists[other], database::Outcome::Measured(times)));
            }
            task.times.set_winner(times.secs());
            if finalists[i].record.context.program == Some(task.subject.as_written) {
                task.times.set_baseline(Some(times.secs()));
            }
            let mut record = self.rerun(task, &finalists[i], database::Outcome::Measured(times));
            if let Some(peak) = peak {
                record.context.other.insert(PEAK.to_owned(), json!(peak));
            }
            records.push(record);
        }
        task.records.write(records);
        self.commit(task)?;
        if is_decided {
            self.doubt_baseline(task)?;
        }
        Ok(is_decided)
    }

    /// Measures the program as written again if the winner is so much faster that a disturbance is as likely: it was the
    /// first program to be measured, when the machine was still busy with the beginning of the run.
    fn doubt_baseline(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        let (Some(baseline), Some(best)) = (task.times.baseline(), task.times.best()) else { return Ok(()) };
        let as_written = task.subject.as_written;
        let is_new = task.records.is_own(as_written);
        if !is_new || baseline < best * DOUBTFUL || baseline > AGAIN_AT_MOST {
            return Ok(());
        }
        let compiled = self.backend.compile(as_written, task.subject.workload.func());
        let Ok(Compiled { code, secs: compile_secs }) = compiled else { return Ok(()) };
        let limit = Duration::from_secs_f64(baseline * 2.0).max(Duration::from_millis(20));
        let Some(secs) = task.session.as_mut().and_then(|session| session.least_secs(&code, limit)) else {
            return Ok(());
        };
        if secs >= baseline {
            return Ok(());
        }
        tracing::debug!("the program as written took {secs:.3e} s instead of {baseline:.3e} s when measured again");
        task.times.set_baseline(Some(secs));
        let measured = Measured {
            program: as_written,
            trace: &Trace::default(),
            outcome: database::Outcome::Measured(Times::of(secs)),
            role: Role::Baseline,
            trial: 0,
            compile_secs: Some(compile_secs),
        };
        task.records.write([task.subject.record(measured, self.config, self.backend.time())]);
        self.commit(task)
    }

    /// Benchmarks the winner, and right after it the peak of the machine.
    fn benchmark(&mut self, task: &mut Task<B>, code: &B::Code) -> Result<(Times, Option<Peak>), Failure> {
        let flops = task.subject.work.flops;
        let Some(session) = task.session.as_mut() else { return Ok((Times::of(f64::MAX), None)) };
        let bench = session.bench(code).map_err(|failure| super::bench::failed_run(&failure))?;
        let secs = bench.summary.median;
        let peak = if flops > 0.0 { session.peak() } else { None };
        let advice = session.advice();
        if let Some(advice) = advice {
            self.warn(&advice.to_string());
        }
        Ok((Times { run_secs: vec![secs], batch_secs: sampled(&bench.batch_secs), calls: bench.calls }, peak))
    }

    /// The record of a finalist.
    fn rerun(&self, task: &Task<B>, finalist: &Finalist<B::Code>, outcome: database::Outcome) -> TuningRecord {
        let old = &finalist.record.context;
        let measured = Measured {
            program: old.program.unwrap_or_default(),
            trace: finalist.schedule.trace(),
            outcome,
            role: Role::Rerun,
            trial: old.trial,
            compile_secs: Some(finalist.built.secs),
        };
        let mut record = task.subject.record(measured, self.config, self.backend.time());
        // The record keeps how the program was found.
        record.context.space.clone_from(&old.space);
        record.context.strategy.clone_from(&old.strategy);
        record.context.seed = old.seed;
        record
    }
}

/// Runs the finalists interleaved. Returns those that have a time, and those that failed.
#[expect(clippy::type_complexity, reason = "two lists that are taken apart at once")]
fn compare<B: Backend>(
    task: &mut Task<B>,
    finalists: &[Finalist<B::Code>],
) -> (Vec<(usize, Measurement)>, Vec<(usize, Failure)>) {
    let codes: Vec<B::Code> = finalists.iter().map(|f| f.built.code.clone()).collect();
    let Some(session) = task.session.as_mut() else { return Default::default() };
    let outcomes = session.finals(&codes);
    // Here the reference is awaited: no unchecked result is reported.
    let settled = session.settle(true);
    let verdict = |m: &Measurement| match m.verdict {
        Verdict::Waiting(ticket) => settled.iter().find(|s| s.ticket == ticket).and_then(|s| s.result.clone().err()),
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

/// The position of the winner: the program as written if it ties with the fastest, else the fastest.
fn first_of<B: Backend>(task: &Task<B>, finalists: &[Finalist<B::Code>], standing: &[(usize, Measurement)]) -> usize {
    let fastest = (0..standing.len()).min_by(|&a, &b| standing[a].1.secs.total_cmp(&standing[b].1.secs));
    let fastest = fastest.unwrap_or(0);
    let as_written = Some(task.subject.as_written);
    let simple = standing.iter().position(|(i, m)| {
        finalists[*i].record.context.program == as_written && m.secs <= standing[fastest].1.secs * TIE
    });
    simple.unwrap_or(fastest)
}

/// Batch times that a record keeps of a benchmark at most.
const KEPT: usize = 50;

/// A selection of batch times, spread over the benchmark.
fn sampled(batch_secs: &[f64]) -> Vec<f64> {
    let step = batch_secs.len().div_ceil(KEPT).max(1);
    batch_secs.iter().copied().step_by(step).collect()
}
