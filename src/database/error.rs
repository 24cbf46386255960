//! Errors of a database as a whole, and problems of single lines.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The system failed an operation on the database: a directory is missing or not accessible, the disk is full, a lock
/// is held. Damaged lines are not errors but [`LineProblem`]s.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} `{}`: {kind}", path.display())]
pub struct DatabaseError {
    /// The file or directory.
    pub path: PathBuf,
    /// The operation that failed.
    pub action: Action,
    /// The reason.
    pub kind: DatabaseErrorKind,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Creating the directory or a file in it.
    Create,
    /// Opening or reading.
    Read,
    /// Appending or replacing.
    Write,
    /// Waiting for the advisory lock.
    Lock,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Create => "create",
            Action::Read => "read",
            Action::Write => "write to",
            Action::Lock => "lock",
        })
    }
}

/// Why an operation on a file failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseErrorKind {
    /// There is no such directory or file.
    #[error("it does not exist")]
    Missing,
    /// The name belongs to something other than a directory.
    #[error("it is not a directory")]
    NotADirectory,
    /// The user lacks the permission.
    #[error("permission denied")]
    Permission,
    /// The file system is mounted read-only.
    #[error("the file system is read-only")]
    ReadOnly,
    /// No space is left, or a quota or file-size limit is reached.
    #[error("no space is left")]
    NoSpace,
    /// Another process held the lock for this many seconds.
    #[error("another process has held the lock for {0} s")]
    Busy(u64),
    /// The workload of a record is not in the table: the caller mixed up databases.
    #[error("there is no workload {0}")]
    UnknownWorkload(u32),
    /// Any other error of the operating system.
    #[error("{0}")]
    Other(String),
}

impl DatabaseError {
    pub(super) fn new(path: &Path, action: Action, kind: DatabaseErrorKind) -> Self {
        DatabaseError { path: path.to_owned(), action, kind }
    }

    pub(super) fn io(path: &Path, action: Action, e: &io::Error) -> Self {
        use io::ErrorKind as K;
        let kind = match e.kind() {
            // A missing file is unexpected only if it is not being created.
            K::NotFound if action != Action::Create => DatabaseErrorKind::Missing,
            K::NotADirectory | K::AlreadyExists => DatabaseErrorKind::NotADirectory,
            K::PermissionDenied => DatabaseErrorKind::Permission,
            K::ReadOnlyFilesystem => DatabaseErrorKind::ReadOnly,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => DatabaseErrorKind::NoSpace,
            _ => DatabaseErrorKind::Other(e.to_string()),
        };
        DatabaseError::new(path, action, kind)
    }

    /// Whether there is no database yet.
    pub fn is_missing(&self) -> bool {
        self.kind == DatabaseErrorKind::Missing
    }

    /// The action to take.
    pub fn help(&self) -> &'static str {
        match self.kind {
            DatabaseErrorKind::Missing => "run `tvmr tune` first, or name the directory with `--work-dir`",
            DatabaseErrorKind::NotADirectory => "name a directory with `--work-dir`",
            DatabaseErrorKind::Permission => "change the permissions, or name another directory with `--work-dir`",
            DatabaseErrorKind::ReadOnly => "name a directory on a writable file system with `--work-dir`",
            DatabaseErrorKind::NoSpace => "free some space; the lines written so far are kept, run again to go on",
            DatabaseErrorKind::Busy(_) => "end the process that holds the lock, then run again",
            DatabaseErrorKind::UnknownWorkload(_) => "commit the workload to this database first",
            DatabaseErrorKind::Other(_) => "check the file system, or name another directory with `--work-dir`",
        }
    }
}

/// An unusable line, and the reason. It is skipped, and stays in the file unchanged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineProblem {
    /// The file.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: u64,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

/// Why a line is unusable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// The last line of the file is incomplete: a writer was killed, or is still writing.
    #[error("the line is torn: it breaks off after {0} bytes")]
    Torn(u64),
    /// Longer than the limit for lines.
    #[error("the line has {0} bytes, more than any record")]
    TooLong(u64),
    /// Not JSON, or JSON of another shape.
    #[error("{0}")]
    Malformed(String),
    /// A record of a later format version.
    #[error("expected record format 1, found {0}: a later version of tvmr wrote it")]
    Version(u64),
    /// The record's workload is not in the table.
    #[error("there is no usable workload {0}")]
    DanglingWorkload(u64),
    /// The workload table has another hash for the record's workload.
    #[error("expected workload {index} to have hash {expected}, found {found}")]
    WorkloadHash {
        /// The index in the record.
        index: u64,
        /// The hash in the record.
        expected: String,
        /// The hash in the table.
        found: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_told_apart() {
        let check = |kind: io::ErrorKind, expected: DatabaseErrorKind| {
            let error = DatabaseError::io(Path::new("db"), Action::Write, &kind.into());
            assert_eq!(error.kind, expected);
            assert!(!error.help().is_empty());
        };
        check(io::ErrorKind::NotFound, DatabaseErrorKind::Missing);
        check(io::ErrorKind::PermissionDenied, DatabaseErrorKind::Permission);
        check(io::ErrorKind::ReadOnlyFilesystem, DatabaseErrorKind::ReadOnly);
        check(io::ErrorKind::StorageFull, DatabaseErrorKind::NoSpace);
        check(io::ErrorKind::QuotaExceeded, DatabaseErrorKind::NoSpace);
        check(io::ErrorKind::NotADirectory, DatabaseErrorKind::NotADirectory);
        let error = DatabaseError::io(Path::new("/proc/db"), Action::Create, &io::ErrorKind::NotFound.into());
        assert!(!error.is_missing() && !error.help().contains("tune"), "{error}: {}", error.help());
        let error = DatabaseError::io(Path::new("db"), Action::Write, &io::ErrorKind::StorageFull.into());
        assert_eq!(error.to_string(), "cannot write to `db`: no space is left");
    }
}
