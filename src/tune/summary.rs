//! The summary of a run. Field names are interface (docs/tuning.md).

use super::failures::{FailureCount, SketchCount};
use serde::Serialize;
use std::collections::BTreeMap;

/// Seconds that a run spent, by activity.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Breakdown {
    /// Making the space.
    pub space: f64,
    /// Proposing candidates.
    pub search: f64,
    /// Lowering and compiling.
    pub compile: f64,
    /// Timing, finals included.
    pub measure: f64,
    /// Checking: one run of each program compared with the reference, and waiting for the reference.
    pub check: f64,
    /// Reading and writing the database.
    pub database: f64,
}

impl Breakdown {
    /// The sum.
    pub fn total(&self) -> f64 {
        self.space + self.search + self.compile + self.measure + self.check + self.database
    }

    /// The sum of both, by activity.
    #[must_use]
    pub fn plus(self, o: Breakdown) -> Breakdown {
        Breakdown {
            space: self.space + o.space,
            search: self.search + o.search,
            compile: self.compile + o.compile,
            measure: self.measure + o.measure,
            check: self.check + o.check,
            database: self.database + o.database,
        }
    }
}

/// The summary of one function.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct TaskSummary {
    /// The file.
    pub workload: String,
    /// The function.
    pub func: String,
    /// Functions of the module that are the same program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<String>,
    /// The structural hash, in decimal.
    pub hash: String,
    /// Trials in the database for this setting: `valid` and `errors`.
    pub trials: u64,
    /// Trials that ran and gave the right result.
    pub valid: u64,
    /// The other trials, by kind of failure.
    pub errors: BTreeMap<String, u64>,
    /// Candidates of this run that the space refused.
    pub rejected: u64,
    /// Programs that the search passed over because they cannot be fast enough.
    pub pruned: u64,
    /// Trials of earlier runs.
    pub resumed: u64,
    /// The reason of its end.
    pub stop_reason: &'static str,
    /// The number of distinct programs of the space, if it is exhausted.
    pub distinct_programs: Option<u64>,
    /// How often the module has it.
    pub weight: u64,
    /// Microseconds of the program as written.
    pub baseline_us: Option<f64>,
    /// Microseconds of the best program.
    pub best_us: Option<f64>,
    /// `best_us` times the weight.
    pub weighted_us: Option<f64>,
    /// `baseline_us` over `best_us`.
    pub speedup: Option<f64>,
    /// Is the program as written the best one?
    pub baseline_is_best: bool,
    /// 10^9 operations per second of the best program.
    pub gflops: Option<f64>,
    /// The peak of this machine, in 10^9 operations per second.
    pub peak_gflops: Option<f64>,
    /// `gflops` over `peak_gflops`.
    pub peak_fraction: Option<f64>,
    /// The failure of the program as written, if it failed.
    #[serde(skip)]
    pub as_written_failed: Option<String>,
    /// The lower bound in microseconds, if several functions share the trials.
    pub bound_us: Option<f64>,
    /// `bound_us` over `best_us`.
    pub bound_fraction: Option<f64>,
    /// Seconds that the run took.
    pub elapsed_s: f64,
    /// Trials of this run per second.
    pub trials_per_s: f64,
    /// The seconds by activity.
    pub breakdown_s: Breakdown,
    /// The reasons of failures and refusals, with counts.
    pub failures: Vec<FailureCount>,
    /// The candidates of each sketch, with counts.
    pub sketches: Vec<SketchCount>,
    /// The reason why it could not be measured, or has no space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The database.
    pub work_dir: String,
    /// The seed.
    pub seed: u64,
    /// The space.
    pub space: String,
    /// The strategy.
    pub strategy: String,
    /// The number of threads.
    pub threads: u32,
    /// The instruction set.
    pub isa: String,
    /// Is floating-point arithmetic kept as written?
    pub strict_fp: bool,
    /// Were results compared with the reference?
    pub checked: bool,
    /// The machine, as records name it.
    pub target: serde_json::Value,
}

/// The summary of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The functions.
    pub tasks: Vec<TaskSummary>,
    /// The totals. Microseconds are sums, in which each function counts as often as the module has it.
    pub total: TaskSummary,
}

impl Summary {
    /// Adds up the totals of these functions.
    pub fn new(tasks: Vec<TaskSummary>, elapsed_s: f64, new_trials: u64) -> Summary {
        let mut total = tasks.first().cloned().unwrap_or_default();
        total.elapsed_s = elapsed_s;
        total.trials_per_s = if new_trials > 0 { new_trials as f64 / elapsed_s.max(1e-9) } else { 0.0 };
        if let [_] = &tasks[..] {
            return Summary { tasks: vec![total.clone()], total };
        }
        let sum = |f: fn(&TaskSummary) -> Option<f64>| {
            tasks.iter().map(|t| f(t).map(|us| us * t.weight as f64)).sum::<Option<f64>>()
        };
        let count = |f: fn(&TaskSummary) -> u64| tasks.iter().map(f).sum::<u64>();
        total.func = String::new();
        total.hash = String::new();
        total.same_as = Vec::new();
        total.trials = count(|t| t.trials);
        total.valid = count(|t| t.valid);
        total.rejected = count(|t| t.rejected);
        total.pruned = count(|t| t.pruned);
        total.resumed = count(|t| t.resumed);
        total.errors = BTreeMap::new();
        for (kind, n) in tasks.iter().flat_map(|t| &t.errors) {
            *total.errors.entry(kind.clone()).or_default() += n;
        }
        let has = |reason: &str| tasks.iter().any(|t| t.stop_reason == reason);
        let order = ["interrupted", "time is up", "trials reached", "no improvement", "space exhausted"];
        total.stop_reason = order.into_iter().find(|r| has(r)).unwrap_or(total.stop_reason);
        total.distinct_programs = None;
        total.baseline_us = sum(|t| t.baseline_us);
        total.best_us = sum(|t| t.best_us);
        total.weight = count(|t| t.weight);
        total.weighted_us = total.best_us;
        total.bound_us = sum(|t| t.bound_us);
        total.bound_fraction = total.bound_us.zip(total.best_us).map(|(bound, best)| bound / best);
        total.speedup = total.baseline_us.zip(total.best_us).map(|(a, b)| a / b);
        total.baseline_is_best = tasks.iter().all(|t| t.baseline_is_best);
        total.gflops = None;
        total.peak_gflops = None;
        total.peak_fraction = None;
        total.breakdown_s = tasks.iter().fold(Breakdown::default(), |sum, t| sum.plus(t.breakdown_s));
        total.failures = Vec::new();
        total.sketches = Vec::new();
        total.problem = None;
        Summary { tasks, total }
    }
}
