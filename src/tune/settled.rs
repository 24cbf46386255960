//! A task that has come to its end, and its summary.

use super::config::{Config, StopReason};
use super::events::TaskState;
use super::finals::PEAK;
use super::summary::TaskSummary;
use super::task::{Subject, Tally};
use super::times::Times;
use crate::database::{Database, DatabaseError, Outcome};
use crate::measure::Peak;
use serde::Deserialize;

/// A task that has come to its end.
pub(super) struct Settled {
    pub subject: Subject,
    pub tally: Tally,
    pub times: Times,
    pub reason: StopReason,
    /// The reason why it could not be measured, or has no space.
    pub problem: Option<String>,
    /// The number of distinct programs that the search met.
    pub distinct: Option<u64>,
    /// Programs that the search passed over because they cannot be fast enough.
    pub pruned: u64,
    /// The factor that brings the recorded time of the program as written to the scale of this run.
    pub baseline_scale: f64,
}

impl Settled {
    /// The facts that an interface shows.
    pub(super) fn state(&self) -> TaskState<'_> {
        self.subject.state(&self.times, &self.tally, true)
    }

    /// The summary of the task, by the records in the database.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn summary(&self, db: &Database, config: &Config) -> Result<TaskSummary, DatabaseError> {
        let Settled { subject, tally, .. } = self;
        let setting = &config.setting;
        let filter = setting.filter();
        let counts = db.counts(subject.id, &filter);
        let best = db.best(subject.id, &filter)?.0;
        let as_written = db.record_of(subject.id, subject.as_written, &filter)?;
        let as_written_failed = match as_written.as_ref().map(|r| &r.outcome) {
            Some(Outcome::Failed(failure)) => Some(failure.message.clone()),
            Some(Outcome::Measured(_) | Outcome::Untried) | None => None,
        };
        let baseline = as_written.and_then(|r| r.secs()).map(|secs| secs * self.baseline_scale);
        let best_secs = best.as_ref().and_then(|r| r.secs());
        let gflops = best_secs.filter(|_| subject.work.flops > 0.0).map(|s| subject.work.flops / s / 1e9);
        // A peak that was recorded on a disturbed machine, or without its spread, is worse than none.
        let stored = best.as_ref().and_then(|r| r.context.other.get(PEAK));
        let stored = stored.and_then(|peak| Peak::deserialize(peak).ok());
        let peak = stored.filter(|peak| gflops.is_none_or(|g| peak.is_trusted(g)));
        let elapsed = tally.spent.total();
        let made = counts.trials.saturating_sub(tally.resumed);
        Ok(TaskSummary {
            workload: String::new(),
            func: subject.workload.name.as_str().to_owned(),
            same_as: subject.names[1..].iter().map(|n| n.as_str().to_owned()).collect(),
            hash: subject.workload.hash.to_string(),
            trials: counts.trials,
            valid: counts.valid,
            errors: counts.errors,
            rejected: tally.rejected,
            pruned: self.pruned,
            resumed: tally.resumed,
            stop_reason: self.reason.name(),
            distinct_programs: self.distinct.filter(|_| self.reason == StopReason::SpaceExhausted),
            weight: subject.weight(),
            baseline_us: baseline.map(|s| s * 1e6),
            best_us: best_secs.map(|s| s * 1e6),
            weighted_us: best_secs.map(|s| s * 1e6 * subject.weight() as f64),
            speedup: baseline.zip(best_secs).map(|(a, b)| a / b),
            baseline_is_best: best.as_ref().is_some_and(|r| r.context.program == Some(subject.as_written)),
            gflops,
            peak_gflops: peak.map(|p| p.gflops),
            peak_fraction: peak.zip(gflops).map(|(peak, g)| g / peak.gflops),
            as_written_failed,
            bound_us: subject.bound.map(|s| s * 1e6),
            bound_fraction: subject.bound.zip(best_secs).map(|(bound, best)| bound / best),
            elapsed_s: elapsed,
            trials_per_s: if made > 0 { made as f64 / elapsed.max(1e-9) } else { 0.0 },
            breakdown_s: tally.spent,
            failures: tally.fates.reasons(),
            sketches: tally.fates.sketches(),
            problem: self.problem.clone(),
            work_dir: db.dir().display().to_string(),
            seed: config.seed,
            space: config.space.name().to_owned(),
            strategy: config.strategy.name().to_owned(),
            threads: setting.threads,
            isa: setting.isa.name().to_owned(),
            strict_fp: setting.strict_fp,
            checked: setting.check,
            target: setting.target.tvm_json(setting.threads),
        })
    }
}
