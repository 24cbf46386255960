//! Database queries: the best candidates, the failed ones, programs measured before, totals.

use super::record::{Role, TuningRecord};
use super::scan::{Entry, Setting};
use super::timestamp::Timestamp;
use super::{Database, DatabaseError, LineProblem, WorkloadId};
use crate::ir::expr::FxBuild;
use crate::machine::{CpuKey, Target};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Selects the records that a query uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// The CPU to match; `None` for any.
    pub cpu: Option<CpuKey>,
    /// The number of threads to match.
    pub threads: Threads,
    /// The instruction set to match; `None` for any.
    pub isa: Option<String>,
    /// Whether floating point must be strict; `None` for either.
    pub strict_fp: Option<bool>,
}

/// A condition on the number of threads of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Threads {
    /// Any number.
    #[default]
    Any,
    /// Exactly this number.
    Exactly(u32),
    /// At most this number.
    AtMost(u32),
}

impl Filter {
    /// All records.
    pub fn any() -> Filter {
        Filter::default()
    }

    /// The records usable on a machine: same CPU and features, and the given number of threads, or else at most its
    /// number of cores.
    pub fn on(target: &Target, threads: Option<u32>) -> Filter {
        let threads = threads.map_or(Threads::AtMost(target.cores), Threads::Exactly);
        Filter { cpu: Some(target.cpu_key()), threads, ..Filter::default() }
    }

    fn admits(&self, setting: &Setting) -> bool {
        let threads = match self.threads {
            Threads::Any => true,
            Threads::Exactly(n) => setting.threads == n,
            Threads::AtMost(n) => setting.threads <= n,
        };
        threads
            && self.cpu.as_ref().is_none_or(|cpu| setting.cpu.as_ref() == Some(cpu))
            && self.isa.as_ref().is_none_or(|isa| setting.isa == *isa)
            && self.strict_fp.is_none_or(|strict| setting.strict_fp == strict)
    }
}

/// For each setting, whether its records are admitted.
struct Admitted(Vec<bool>);

/// Totals over the records of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of distinct programs tried, which count against the trial budget. Records without a program hash count
    /// one each.
    pub trials: u64,
    /// Number of trials with a valid time.
    pub valid: u64,
    /// Number of failed trials, by kind of failure.
    pub errors: BTreeMap<String, u64>,
}

/// Totals over a database.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Number of usable workloads.
    pub workloads: u64,
    /// Number of usable records.
    pub records: u64,
    /// Number of unusable lines.
    pub damaged: u64,
    /// Size of both tables in bytes.
    pub bytes: u64,
    /// Totals by workload and setting, in order of workload and first record.
    pub settings: Vec<SettingStats>,
}

/// Totals over the records of a workload in one setting.
#[derive(Clone, PartialEq, Debug)]
pub struct SettingStats {
    /// The workload.
    pub workload: WorkloadId,
    /// The CPU; `None` if the target is not a CPU.
    pub cpu: Option<CpuKey>,
    /// The number of threads.
    pub threads: u32,
    /// The instruction set.
    pub isa: String,
    /// Whether floating point was strict.
    pub strict_fp: bool,
    /// Trials, valid ones and failures.
    pub counts: Counts,
    /// The best time in seconds.
    pub best_secs: Option<f64>,
    /// The time of the latest record.
    pub last: Timestamp,
}

impl Database {
    /// The settings that a filter admits.
    fn admitted(&self, filter: &Filter) -> Admitted {
        Admitted(self.records.records.settings.iter().map(|s| filter.admits(s)).collect())
    }

    /// Admits a single setting.
    fn only(&self, setting: u32) -> Admitted {
        Admitted((0..).map(|i| i == setting).take(self.records.records.settings.iter().count()).collect())
    }

    /// The measurements of a workload in some settings.
    fn matching<'a>(&'a self, workload: WorkloadId, admitted: &Admitted) -> impl Iterator<Item = &'a Entry> {
        let entries = self.records.records.entries.iter();
        entries.filter(move |e| !e.is_untried && e.workload == workload && admitted.0[e.setting as usize])
    }

    /// The last entry of each program and setting, in order of lines: a later measurement replaces an earlier one, even
    /// if it is slower or a failure.
    fn latest(&self, workload: WorkloadId, admitted: &Admitted) -> Vec<&Entry> {
        let mut place: HashMap<(u64, u32), usize, FxBuild> = HashMap::default();
        let mut kept: Vec<Option<&Entry>> = Vec::new();
        for e in self.matching(workload, admitted) {
            if let Some(program) = e.program
                && let Some(earlier) = place.insert((program, e.setting), kept.len())
            {
                kept[earlier] = None;
            }
            kept.push(Some(e));
        }
        kept.into_iter().flatten().collect()
    }

    /// The `k` fastest candidates, including the baseline, fastest first; ties are in order of lines. Records that turn
    /// out to be damaged are omitted and reported.
    pub fn top_k(
        &self,
        workload: WorkloadId,
        k: usize,
        filter: &Filter,
    ) -> Result<(Vec<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        self.top_k_of(workload, k, filter, |_| true)
    }

    /// Like [`Database::top_k`], among the programs that `admits` accepts.
    pub fn top_k_of(
        &self,
        workload: WorkloadId,
        k: usize,
        filter: &Filter,
        admits: impl Fn(Option<u64>) -> bool,
    ) -> Result<(Vec<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        let ranked = self.ranked(workload, &self.admitted(filter)).into_iter();
        self.read_entries(ranked.filter(|e| admits(e.program)), k)
    }

    /// The fastest candidate.
    pub fn best(
        &self,
        workload: WorkloadId,
        filter: &Filter,
    ) -> Result<(Option<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        let (mut found, problems) = self.top_k(workload, 1, filter)?;
        Ok((found.pop(), problems))
    }

    /// The candidates with a valid time, fastest first.
    ///
    /// A final is a run of lines with role `rerun`, the last of which is its winner. Candidates measured before the
    /// latest final could have taken part in it; since times from different moments are not comparable, their lines
    /// rank after its winner. Winners of other finals are exempt: a later final includes them, unless it did not know
    /// them, and then only their times count.
    fn ranked(&self, workload: WorkloadId, admitted: &Admitted) -> Vec<&Entry> {
        let mut latest: HashMap<u32, (u64, f64), FxBuild> = HashMap::default();
        let mut winners: HashSet<u64, FxBuild> = HashSet::default();
        let mut open: HashMap<u32, u64, FxBuild> = HashMap::default();
        for e in self.matching(workload, admitted) {
            match (e.role, &e.outcome) {
                (Role::Rerun, Ok(secs)) => {
                    latest.insert(e.setting, (e.line, *secs));
                    open.insert(e.setting, e.line);
                }
                (Role::Rerun, Err(_)) => {}
                (Role::Trial | Role::Baseline, _) => winners.extend(open.remove(&e.setting)),
            }
        }
        winners.extend(open.into_values());
        let mut ranked: Vec<(f64, bool, &Entry)> = self
            .latest(workload, admitted)
            .into_iter()
            .filter_map(|e| {
                let secs = e.outcome.ok()?;
                Some(match latest.get(&e.setting) {
                    Some(&(line, winner)) if e.line < line && !winners.contains(&e.line) => (secs.max(winner), true, e),
                    _ => (secs, false, e),
                })
            })
            .collect();
        // Stable, so that ties stay in order of lines.
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().map(|(_, _, e)| e).collect()
    }

    /// The last record of a program in the settings that a filter admits.
    pub fn record_of(
        &self,
        workload: WorkloadId,
        program: u64,
        filter: &Filter,
    ) -> Result<Option<TuningRecord>, DatabaseError> {
        let admitted = self.admitted(filter);
        let last = self.matching(workload, &admitted).filter(|e| e.program == Some(program)).last();
        // A line that turns out to be damaged is ignored.
        Ok(last.map(|e| self.read_record(e)).transpose()?.and_then(Result::ok))
    }

    /// All records, in order of lines, for a resumed search to learn from.
    pub fn records(
        &self,
        workload: WorkloadId,
        filter: &Filter,
    ) -> Result<(Vec<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        self.read_entries(self.matching(workload, &self.admitted(filter)), usize::MAX)
    }

    /// The candidates without a time, with their failures, in order of lines.
    pub fn failed(
        &self,
        workload: WorkloadId,
        filter: &Filter,
    ) -> Result<(Vec<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        let latest = self.latest(workload, &self.admitted(filter));
        self.read_entries(latest.into_iter().filter(|e| e.outcome.is_err()), usize::MAX)
    }

    /// The schedules to try, which were not measured, in order of lines: the most promising ones first.
    pub fn untried(&self, workload: WorkloadId) -> Result<(Vec<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        let entries = self.records.records.entries.iter();
        self.read_entries(entries.filter(|e| e.is_untried && e.workload == workload), usize::MAX)
    }

    /// Number of the schedules to try.
    pub fn n_untried(&self, workload: WorkloadId) -> u64 {
        let entries = self.records.records.entries.iter();
        entries.filter(|e| e.is_untried && e.workload == workload).count() as u64
    }

    fn read_entries<'a>(
        &self,
        entries: impl Iterator<Item = &'a Entry>,
        limit: usize,
    ) -> Result<(Vec<TuningRecord>, Vec<LineProblem>), DatabaseError> {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for entry in entries {
            if found.len() == limit {
                break;
            }
            match self.read_record(entry)? {
                Ok(record) => found.push(record),
                Err(reason) => problems.push(LineProblem { path: self.record_path(), line: entry.line, reason }),
            }
        }
        Ok((found, problems))
    }

    /// Hashes of the programs that were measured or failed, and need not be tried again.
    pub fn programs(&self, workload: WorkloadId, filter: &Filter) -> BTreeSet<u64> {
        self.matching(workload, &self.admitted(filter)).filter_map(|e| e.program).collect()
    }

    /// Totals of a workload.
    pub fn counts(&self, workload: WorkloadId, filter: &Filter) -> Counts {
        self.counts_of(workload, &self.admitted(filter))
    }

    fn counts_of(&self, workload: WorkloadId, admitted: &Admitted) -> Counts {
        let tried: HashSet<(u64, u32), FxBuild> = self
            .matching(workload, admitted)
            .filter(|e| e.role == Role::Trial)
            .filter_map(|e| Some((e.program?, e.setting)))
            .collect();
        let mut counts = Counts::default();
        // A program tried in several settings counts as one trial in each admitted setting.
        for e in self.latest(workload, admitted) {
            let is_trial = match e.program {
                Some(program) => tried.contains(&(program, e.setting)),
                None => e.role == Role::Trial,
            };
            if is_trial {
                counts.add(e, &self.records.records);
            }
        }
        counts
    }

    /// Line numbers of the records to keep; see [`super::prune`].
    pub(super) fn worth_keeping(&self, best: usize, failed: bool) -> HashSet<u64> {
        let entries = &self.records.records.entries;
        // What was not tried is neither slow nor a failure.
        let mut keep: HashSet<u64> = entries.iter().filter(|e| e.is_untried).map(|e| e.line).collect();
        let groups: BTreeSet<(WorkloadId, u32)> = entries.iter().map(|e| (e.workload, e.setting)).collect();
        for (workload, setting) in groups {
            let only = self.only(setting);
            keep.extend(self.ranked(workload, &only).iter().take(best).map(|e| e.line));
            if failed {
                let latest = self.latest(workload, &only);
                keep.extend(latest.iter().filter(|e| e.outcome.is_err()).map(|e| e.line));
            }
        }
        keep
    }

    /// Totals of the whole database.
    pub fn stats(&self) -> Stats {
        let records = &self.records.records;
        let mut stats = Stats {
            workloads: self.workloads().count() as u64,
            records: records.entries.len() as u64,
            damaged: (self.workloads.problems.len() + records.problems.len() + self.records.dangling.len()) as u64,
            bytes: [self.workloads.position, self.records.position].iter().map(|p| p.offset + p.tail).sum(),
            settings: Vec::new(),
        };
        let mut groups: BTreeMap<(WorkloadId, u32), Timestamp> = BTreeMap::new();
        for e in records.entries.iter().filter(|e| !e.is_untried) {
            let last = groups.entry((e.workload, e.setting)).or_default();
            *last = e.time.max(*last);
        }
        for ((workload, id), last) in groups {
            let Setting { cpu, threads, isa, strict_fp } = records.settings.get(id).clone();
            let only = self.only(id);
            let counts = self.counts_of(workload, &only);
            let best_secs = self.ranked(workload, &only).first().and_then(|e| e.outcome.ok());
            stats.settings.push(SettingStats { workload, cpu, threads, isa, strict_fp, counts, best_secs, last });
        }
        stats
    }
}

impl Counts {
    fn add(&mut self, e: &Entry, records: &super::scan::Records) {
        self.trials += 1;
        match e.outcome {
            Ok(_) => self.valid += 1,
            Err(kind) => *self.errors.entry(records.failures.get(kind).clone()).or_default() += 1,
        }
    }
}
