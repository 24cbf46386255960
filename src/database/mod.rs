//! The tuning database: measurements in a directory of two append-only tables of JSON lines.
//!
//! `database_workload.json` holds the functions, `database_tuning_record.json` the candidates; docs/database.md
//! describes both field by field. The rules:
//! * Lines are only appended, one write call each, under an advisory lock: any number of processes may tune into one
//!   directory. Only `prune` replaces a table, and the remaining lines stay the same, byte for byte.
//! * A damaged line is reported ([`Database::problems`]) and skipped. It keeps its line number, so that numbers of
//!   other lines never change their meaning, and it never causes an error.
//! * A workload is stored once: callers give its structural hash and, on a hit, decide whether the functions are equal.
//! * Queries read no more of a record than they need; traces are read only when records are returned.
//!
//! The module reads no clock (callers pass times) and prints nothing. Start reading at [`Database`].

mod decimal;
mod error;
mod lock;
mod maintain;
mod query;
mod record;
mod scan;
mod split;
mod timestamp;
mod workload;

pub use error::{Action, DatabaseError, DatabaseErrorKind, LineProblem, Reason};
pub use maintain::{MergeReport, PruneReport, Retention, VerifyReport, merge, prune};
pub use query::{Counts, Filter, SettingStats, Stats, Threads};
pub use record::{ArgInfo, Context, Failure, FailureKind, Outcome, Role, Times, TuningRecord};
pub use timestamp::Timestamp;
pub use workload::{WorkloadEntry, WorkloadId};

use lock::{Lock, Mode};
use scan::{Entry, Position, Records};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The record format version that is written, and the latest that is read.
pub const RECORD_FORMAT: u32 = 1;
/// File name of the workload table.
pub const WORKLOAD_FILE: &str = "database_workload.json";
/// File name of the record table.
pub const RECORD_FILE: &str = "database_tuning_record.json";

/// An open database. It sees the contents of the tables when it was opened or last refreshed, and its own writes;
/// committing refreshes it.
#[derive(Debug)]
pub struct Database {
    dir: PathBuf,
    lock: Lock,
    workloads: WorkloadTable,
    records: RecordTable,
}

#[derive(Default, Debug)]
struct WorkloadTable {
    file: Option<File>,
    position: Position,
    /// Entries by line number; `None` for unusable lines.
    entries: Vec<Option<WorkloadEntry>>,
    by_hash: HashMap<u64, Vec<WorkloadId>>,
    problems: Vec<(u64, Reason)>,
}

#[derive(Default, Debug)]
struct RecordTable {
    /// The file that the positions refer to, kept open so that a replaced table can still be read.
    file: Option<File>,
    position: Position,
    records: Records,
    /// Records whose workload is missing.
    dangling: Vec<(u64, Reason)>,
}

impl Database {
    /// Opens a database for reading. The directory must exist; its tables need not.
    pub fn open(dir: &Path) -> Result<Database, DatabaseError> {
        let mut db = Database::unread(dir);
        check_directory(dir)?;
        db.refresh()?;
        Ok(db)
    }

    /// Opens a database for writing: creates the directory and checks that it is writable, so that a search fails
    /// before its first measurement and not after.
    pub fn create(dir: &Path) -> Result<Database, DatabaseError> {
        let mut db = Database::unread(dir);
        fs::create_dir_all(dir).map_err(|e| DatabaseError::io(dir, Action::Create, &e))?;
        check_directory(dir)?;
        {
            let _guard = db.lock.hold(Mode::Exclusive)?;
            for name in [WORKLOAD_FILE, RECORD_FILE] {
                lock::append(&dir.join(name), [])?;
            }
        }
        db.refresh()?;
        Ok(db)
    }

    fn unread(dir: &Path) -> Database {
        let (workloads, records) = Default::default();
        Database { dir: dir.to_owned(), lock: Lock::new(dir), workloads, records }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn workload_path(&self) -> PathBuf {
        self.dir.join(WORKLOAD_FILE)
    }

    fn record_path(&self) -> PathBuf {
        self.dir.join(RECORD_FILE)
    }

    /// Whether the file system does not support locks, so that only one process should tune into the directory.
    pub fn is_unlocked(&self) -> bool {
        self.lock.is_unsupported()
    }

    /// Number of usable records read so far, over all workloads.
    pub fn n_records(&self) -> usize {
        self.records.records.entries.len()
    }

    /// Reads what other processes have written since the database was opened or last refreshed.
    pub fn refresh(&mut self) -> Result<(), DatabaseError> {
        let guard = self.lock.hold(Mode::Shared)?;
        refresh(&self.dir, &mut self.workloads, &mut self.records)?;
        drop(guard);
        Ok(())
    }

    /// Reads the tables without taking the lock, which the caller holds or cannot have.
    fn read_tables(&mut self) -> Result<(), DatabaseError> {
        refresh(&self.dir, &mut self.workloads, &mut self.records)
    }

    /// The unusable lines with their reasons, in order of file and line.
    pub fn problems(&self) -> Vec<LineProblem> {
        let in_file = |path: PathBuf| {
            move |(line, reason): &(u64, Reason)| LineProblem {
                path: path.clone(),
                line: *line,
                reason: reason.clone(),
            }
        };
        let mut records: Vec<LineProblem> =
            self.records.records.problems.iter().map(in_file(self.record_path())).collect();
        records.extend(self.records.dangling.iter().map(in_file(self.record_path())));
        records.sort();
        let mut all: Vec<LineProblem> = self.workloads.problems.iter().map(in_file(self.workload_path())).collect();
        all.extend(records);
        all
    }

    // ---- workloads -----------------------------------------------------------------------------------------

    /// The workloads, in order.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &WorkloadEntry)> {
        self.workloads.entries.iter().enumerate().filter_map(|(i, e)| Some((WorkloadId(i as u32), e.as_ref()?)))
    }

    /// A workload.
    pub fn workload(&self, id: WorkloadId) -> Option<&WorkloadEntry> {
        self.workloads.get(id)
    }

    /// The workload with this hash for which `equal` is true.
    pub fn find_workload(&self, hash: u64, mut equal: impl FnMut(&WorkloadEntry) -> bool) -> Option<WorkloadId> {
        let ids = self.workloads.by_hash.get(&hash)?;
        ids.iter().copied().find(|&id| self.workloads.get(id).is_some_and(&mut equal))
    }

    /// Returns the workload, adding it if it is new. `equal` decides whether an entry with the same hash is the same
    /// function.
    pub fn commit_workload(
        &mut self,
        entry: &WorkloadEntry,
        mut equal: impl FnMut(&WorkloadEntry) -> bool,
    ) -> Result<WorkloadId, DatabaseError> {
        if let Some(id) = self.find_workload(entry.hash, &mut equal) {
            return Ok(id);
        }
        let path = self.workload_path();
        let guard = self.lock.hold(Mode::Exclusive)?;
        // Another process may have added it meanwhile.
        self.workloads.refresh(&path)?;
        let known = |table: &WorkloadTable, equal: &mut dyn FnMut(&WorkloadEntry) -> bool| {
            let ids = table.by_hash.get(&entry.hash)?;
            ids.iter().copied().find(|&id| table.get(id).is_some_and(&mut *equal))
        };
        if let Some(id) = known(&self.workloads, &mut equal) {
            return Ok(id);
        }
        lock::append(&path, [entry.to_line().as_str()])?;
        self.workloads.refresh(&path)?;
        drop(guard);
        let id = self.workloads.by_hash.get(&entry.hash).and_then(|ids| ids.last());
        Ok(*id.expect("a line that was just written reads back"))
    }

    // ---- records -------------------------------------------------------------------------------------------

    /// Appends records. If the disk fills up, earlier ones are kept.
    pub fn commit(&mut self, records: &[TuningRecord]) -> Result<(), DatabaseError> {
        let path = self.record_path();
        if let Some(r) = records.iter().find(|r| self.workloads.get(r.workload).is_none()) {
            let kind = DatabaseErrorKind::UnknownWorkload(r.workload.0);
            return Err(DatabaseError::new(&path, Action::Write, kind));
        }
        let lines: Vec<String> = records
            .iter()
            .map(|r| {
                if r.context.workload_hash.is_some() {
                    return r.to_line();
                }
                let mut r = r.clone();
                r.context.workload_hash = self.workloads.get(r.workload).map(|w| w.hash);
                r.to_line()
            })
            .collect();
        let guard = self.lock.hold(Mode::Exclusive)?;
        let written = lock::append(&path, lines.iter().map(String::as_str));
        let read = refresh(&self.dir, &mut self.workloads, &mut self.records);
        drop(guard);
        written.and(read)
    }

    /// Flushes written data to the disk, against power failure: once, at the end of a run. A killed process loses
    /// nothing in any case.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        for path in [self.workload_path(), self.record_path()] {
            match File::open(&path).and_then(|f| f.sync_data()) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(DatabaseError::io(&path, Action::Write, &e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the complete record of an entry.
    fn read_record(&self, entry: &Entry) -> Result<Result<TuningRecord, Reason>, DatabaseError> {
        Ok(self
            .records
            .read_line(entry)
            .map_err(|e| DatabaseError::io(&self.record_path(), Action::Read, &e))?
            .and_then(|line| {
                let mut record = TuningRecord::from_line(&line)?;
                record.workload = entry.workload;
                Ok(record)
            }))
    }
}

/// Reads the new lines of both tables, workloads first, since a record is written after its workload.
fn refresh(dir: &Path, workloads: &mut WorkloadTable, records: &mut RecordTable) -> Result<(), DatabaseError> {
    workloads.refresh(&dir.join(WORKLOAD_FILE))?;
    records.refresh(&dir.join(RECORD_FILE), workloads)
}

fn check_directory(dir: &Path) -> Result<(), DatabaseError> {
    match fs::metadata(dir) {
        Ok(m) if m.is_dir() => Ok(()),
        Ok(_) => Err(DatabaseError::new(dir, Action::Read, DatabaseErrorKind::NotADirectory)),
        Err(e) => Err(DatabaseError::io(dir, Action::Read, &e)),
    }
}

/// Opens the table, unless it is open already; `None` if there is none. The second part tells whether it is a different
/// file than before, or was truncated.
fn reopen(path: &Path, open: Option<&File>, read_to: u64) -> Result<(Option<File>, bool), DatabaseError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok((None, true)),
        Err(e) => return Err(DatabaseError::io(path, Action::Read, &e)),
    };
    let fail = |e: std::io::Error| DatabaseError::io(path, Action::Read, &e);
    let now = file.metadata().map_err(fail)?;
    if now.is_dir() {
        return Err(DatabaseError::new(path, Action::Read, DatabaseErrorKind::Other("it is a directory".into())));
    }
    let same = match open {
        Some(old) => is_same_file(&old.metadata().map_err(fail)?, &now) && now.len() >= read_to,
        None => false,
    };
    Ok((Some(file), !same))
}

#[cfg(unix)]
fn is_same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    a.created().ok() == b.created().ok()
}

impl WorkloadTable {
    fn get(&self, id: WorkloadId) -> Option<&WorkloadEntry> {
        self.entries.get(id.0 as usize)?.as_ref()
    }

    fn refresh(&mut self, path: &Path) -> Result<(), DatabaseError> {
        let (file, is_other) = reopen(path, self.file.as_ref(), self.position.offset)?;
        if is_other {
            *self = WorkloadTable { file, ..WorkloadTable::default() };
        }
        // An incomplete last line is read again, since it may have grown.
        let complete = self.position.lines as usize;
        #[expect(clippy::iter_over_hash_type, reason = "each entry is changed by itself")]
        for ids in self.by_hash.values_mut() {
            ids.retain(|id| (id.0 as usize) < complete);
        }
        self.entries.truncate(complete);
        self.problems.retain(|&(line, _)| line as usize <= complete);
        let Some(file) = &self.file else { return Ok(()) };
        let position = scan::visit_lines(path, file, self.position, &mut |line, _, text| {
            let id = WorkloadId(line as u32 - 1);
            self.entries.resize(id.0 as usize, None);
            match text.and_then(WorkloadEntry::from_line) {
                Ok(entry) => {
                    self.by_hash.entry(entry.hash).or_default().push(id);
                    self.entries.push(Some(entry));
                }
                Err(reason) => {
                    self.entries.push(None);
                    self.problems.push((line, reason));
                }
            }
        })?;
        // Blank lines are numbered, too.
        self.entries.resize((position.lines + u64::from(position.tail > 0)) as usize, None);
        if let Some((line, reason)) = self.problems.last_mut()
            && position.tail > 0
            && *line == position.lines + 1
        {
            *reason = Reason::Torn(position.tail);
        }
        self.position = position;
        Ok(())
    }

    /// The workload of a record: by its number, unless the record's hash contradicts it.
    fn resolve(&self, entry: &Entry) -> Result<WorkloadId, Reason> {
        let index = u64::from(entry.workload.0);
        let numbered = self.get(entry.workload);
        match (numbered, entry.workload_hash) {
            (Some(_), None) => Ok(entry.workload),
            (Some(w), Some(hash)) if w.hash == hash => Ok(entry.workload),
            (_, Some(hash)) => match (self.by_hash.get(&hash).map(Vec::as_slice), numbered) {
                (Some([only]), _) => Ok(*only),
                (_, Some(w)) => {
                    Err(Reason::WorkloadHash { index, expected: hash.to_string(), found: w.hash.to_string() })
                }
                (_, None) => Err(Reason::DanglingWorkload(index)),
            },
            (None, None) => Err(Reason::DanglingWorkload(index)),
        }
    }
}

impl RecordTable {
    fn refresh(&mut self, path: &Path, workloads: &WorkloadTable) -> Result<(), DatabaseError> {
        let (file, is_other) = reopen(path, self.file.as_ref(), self.position.offset)?;
        if is_other {
            *self = RecordTable { file, ..RecordTable::default() };
        }
        let complete = self.position.lines;
        let records = &mut self.records;
        while records.entries.last().is_some_and(|e| e.line > complete) {
            records.entries.pop();
        }
        records.problems.retain(|&(line, _)| line <= complete);
        self.dangling.retain(|&(line, _)| line <= complete);
        if self.file.is_none() {
            return Ok(());
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let (mut new, position) = scan::read_records(path, self.position, threads)?;
        new.entries.retain_mut(|entry| match workloads.resolve(entry) {
            Ok(id) => {
                entry.workload = id;
                true
            }
            Err(reason) => {
                self.dangling.push((entry.line, reason));
                false
            }
        });
        records.append(new);
        self.position = position;
        Ok(())
    }

    fn read_line(&self, entry: &Entry) -> std::io::Result<Result<Vec<u8>, Reason>> {
        let file = self.file.as_ref().expect("a table with entries is open");
        let mut line = vec![0; entry.len as usize];
        match read_exact_at(file, &mut line, entry.offset) {
            Ok(()) => Ok(Ok(line)),
            // Another program truncated the file.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(Err(Reason::Torn(0))),
            Err(e) => Err(e),
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_exact_at(mut file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

#[cfg(test)]
mod tests;
