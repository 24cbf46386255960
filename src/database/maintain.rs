//! Maintains databases: verify, merge, prune.

use super::error::{Action, DatabaseError, LineProblem, Reason};
use super::lock::{self, Lock, Mode};
use super::record::TuningRecord;
use super::scan::{self, Entry};
use super::workload::{WorkloadEntry, WorkloadId};
use super::{Database, RECORD_FILE, split};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// The result of [`Database::verify`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Number of valid workloads.
    pub workloads: u64,
    /// Number of valid records.
    pub records: u64,
    /// All unusable lines, in order of file and line.
    pub problems: Vec<LineProblem>,
}

impl Database {
    /// Reads every line completely. `check_workload` and `check_record` may reject lines that are valid JSON but wrong
    /// otherwise: a program that does not parse, a hash that does not match it, an invalid trace.
    pub fn verify(
        &mut self,
        mut check_workload: impl FnMut(&WorkloadEntry) -> Result<(), String>,
        mut check_record: impl FnMut(&WorkloadEntry, &TuningRecord) -> Result<(), String>,
    ) -> Result<VerifyReport, DatabaseError> {
        self.refresh()?;
        let mut report = VerifyReport { problems: self.problems(), ..VerifyReport::default() };
        for (id, entry) in self.workloads() {
            match check_workload(entry) {
                Ok(()) => report.workloads += 1,
                Err(message) => report.problems.push(LineProblem {
                    path: self.workload_path(),
                    line: u64::from(id.0) + 1,
                    reason: Reason::Malformed(message),
                }),
            }
        }
        for entry in &self.records.records.entries {
            let record = self.read_record(entry)?;
            let workload = self.workload(entry.workload).expect("entries are kept for usable workloads only");
            match record.and_then(|r| check_record(workload, &r).map_err(Reason::Malformed)) {
                Ok(()) => report.records += 1,
                Err(reason) => {
                    report.problems.push(LineProblem { path: self.record_path(), line: entry.line, reason });
                }
            }
        }
        let workload_path = self.workload_path();
        report.problems.sort_by_key(|p| (p.path != workload_path, p.line));
        Ok(report)
    }
}

/// The result of [`merge`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MergeReport {
    /// Number of new workloads.
    pub workloads: u64,
    /// Number of copied records.
    pub records: u64,
    /// Number of records that were there already, byte for byte.
    pub duplicates: u64,
    /// Damaged lines of the source, which were not copied.
    pub problems: Vec<LineProblem>,
}

/// Copies the contents of `from` into `into`, which is created if needed. Records are copied literally except for their
/// workload number; merging twice adds nothing. `equal` decides whether two workloads with the same hash are the same
/// function.
pub fn merge(
    from: &Path,
    into: &Path,
    mut equal: impl FnMut(&WorkloadEntry, &WorkloadEntry) -> bool,
) -> Result<MergeReport, DatabaseError> {
    let source = Database::open(from)?;
    let mut target = Database::create(into)?;
    let mut report = MergeReport { problems: source.problems(), ..MergeReport::default() };
    let before = target.workloads().count();
    let mut ids: HashMap<WorkloadId, WorkloadId> = HashMap::new();
    for (id, entry) in source.workloads() {
        ids.insert(id, target.commit_workload(entry, |other| equal(entry, other))?);
    }
    report.workloads = (target.workloads().count() - before) as u64;

    let mut known: HashSet<blake3::Hash> = HashSet::new();
    for entry in &target.records.records.entries {
        if let Some(line) = target.read_text(entry)? {
            known.extend(fingerprint(entry.workload, &line));
        }
    }
    let mut lines = Vec::new();
    for entry in &source.records.records.entries {
        let id = ids[&entry.workload];
        let Some(line) = source.read_text(entry)? else { continue };
        let Some(print) = fingerprint(id, &line) else { continue };
        if !known.insert(print) {
            report.duplicates += 1;
            continue;
        }
        match renumbered(id, &line) {
            Some(text) => lines.push(text),
            None => report.problems.push(LineProblem {
                path: source.record_path(),
                line: entry.line,
                reason: Reason::Malformed("not UTF-8".into()),
            }),
        }
    }
    report.records = lines.len() as u64;
    let path = target.record_path();
    let guard = target.lock.hold(Mode::Exclusive)?;
    lock::append(&path, lines.iter().map(String::as_str))?;
    drop(guard);
    target.sync()?;
    Ok(report)
}

/// A hash of a record without its workload number.
fn fingerprint(workload: WorkloadId, line: &[u8]) -> Option<blake3::Hash> {
    let parts = split::split(line).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&workload.0.to_le_bytes());
    hasher.update(&line[parts.workload.end..]);
    Some(hasher.finalize())
}

/// The line with another workload number, including the newline.
fn renumbered(workload: WorkloadId, line: &[u8]) -> Option<String> {
    let parts = split::split(line).ok()?;
    let rest = std::str::from_utf8(&line[parts.workload.end..]).ok()?;
    Some(format!("[{workload}{}\n", rest.trim_end()))
}

/// The records that [`prune`] keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Number of fastest programs to keep of each workload in each setting (CPU, threads, instruction set,
    /// floating-point mode).
    pub best: usize,
    /// Whether to keep failed candidates as well, so that a resumed search does not try them again.
    pub failed: bool,
}

/// The result of [`prune`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PruneReport {
    /// Number of records kept.
    pub kept: u64,
    /// Number of records removed.
    pub removed: u64,
    /// Damaged lines, which are kept unchanged.
    pub problems: Vec<LineProblem>,
}

/// Removes all records but the best. Damaged lines stay, byte for byte, and so does the workload table, since records
/// refer to its line numbers. The table is replaced atomically: readers see either the old or the new one.
pub fn prune(dir: &Path, retention: &Retention) -> Result<PruneReport, DatabaseError> {
    super::check_directory(dir)?;
    // Prevents writers from appending between reading and replacing.
    let mut lock = Lock::new(dir);
    let guard = lock.hold(Mode::Exclusive)?;
    let mut db = Database::unread(dir);
    db.read_tables()?;
    let path = db.record_path();
    let keep = db.worth_keeping(retention.best, retention.failed);
    let lines = db.records.records.entries.iter().map(|e| e.line);
    let removed: HashSet<u64> = lines.filter(|line| !keep.contains(line)).collect();
    let report = PruneReport {
        kept: keep.len() as u64,
        removed: removed.len() as u64,
        problems: db.problems().into_iter().filter(|p| p.path == path).collect(),
    };
    if !removed.is_empty() {
        replace(&path, &removed)?;
    }
    drop(guard);
    Ok(report)
}

impl Database {
    /// The text of a record; `None` if the file was truncated.
    fn read_text(&self, entry: &Entry) -> Result<Option<Vec<u8>>, DatabaseError> {
        let read = self.records.read_line(entry);
        read.map(Result::ok).map_err(|e| DatabaseError::io(&self.record_path(), Action::Read, &e))
    }
}

/// Writes the table without some lines to a new file, and renames it over the old one.
fn replace(path: &Path, removed: &HashSet<u64>) -> Result<(), DatabaseError> {
    let new_path = path.with_file_name(format!("{RECORD_FILE}.new"));
    let result = write_without(path, &new_path, removed)
        .and_then(|()| fs::rename(&new_path, path).map_err(|e| DatabaseError::io(path, Action::Write, &e)));
    if result.is_err() {
        // The temporary file holds nothing that the table lacks.
        let _ = fs::remove_file(&new_path);
    }
    result
}

fn write_without(path: &Path, new_path: &Path, removed: &HashSet<u64>) -> Result<(), DatabaseError> {
    let old = File::open(path).map_err(|e| DatabaseError::io(path, Action::Read, &e))?;
    let new = File::create(new_path).map_err(|e| DatabaseError::io(new_path, Action::Create, &e))?;
    let fail = |e: std::io::Error| DatabaseError::io(new_path, Action::Write, &e);
    let mut writer = BufWriter::new(new);
    let mut written = Ok(());
    scan::copy_lines(path, &old, &mut |line, bytes| {
        if written.is_ok() && !removed.contains(&line) {
            written = writer.write_all(bytes);
        }
    })?;
    written.map_err(fail)?;
    let new = writer.into_inner().map_err(|e| fail(e.into_error()))?;
    if let Ok(old) = old.metadata() {
        // Keeps the permissions of the table, if allowed.
        let _ = new.set_permissions(old.permissions());
    }
    new.sync_all().map_err(fail)
}
