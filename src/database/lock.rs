//! The advisory lock of a database directory, and appending under it.
//!
//! All writers, and readers if they can, lock an empty file of the directory, `database.lock`, which is never replaced.
//! So the tables themselves can be replaced (by `prune`) while others wait. The operating system releases the lock of a
//! process that dies.

use super::error::{Action, DatabaseError, DatabaseErrorKind};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time to wait for other processes, whose work under the lock takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// The lock file of a directory.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: Option<File>,
    /// Whether the file system does not support locks.
    unsupported: bool,
    patience: Duration,
}

/// A held lock, released when dropped.
pub(super) struct Guard<'a>(Option<&'a File>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            // Closing the file releases the lock even if this fails.
            let _ = file.unlock();
        }
    }
}

impl Lock {
    pub(super) fn new(dir: &Path) -> Lock {
        Lock { path: dir.join("database.lock"), file: None, unsupported: false, patience: PATIENCE }
    }

    /// Waits for the lock. A reader without access to the lock file reads without it: there is no lock file before the
    /// first write, and a directory that is not writable usually has no writer at all.
    pub(super) fn hold(&mut self, mode: Mode) -> Result<Guard<'_>, DatabaseError> {
        if self.file.is_none() {
            let opened = match mode {
                Mode::Shared => File::open(&self.path),
                // Never truncated, since the file is shared.
                Mode::Exclusive => {
                    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)
                }
            };
            match (opened, mode) {
                (Ok(file), _) => self.file = Some(file),
                (Err(_), Mode::Shared) => return Ok(Guard(None)),
                (Err(e), Mode::Exclusive) => return Err(DatabaseError::io(&self.path, Action::Create, &e)),
            }
        }
        self.wait(mode)?;
        Ok(Guard(self.file.as_ref().filter(|_| !self.unsupported)))
    }

    fn wait(&mut self, mode: Mode) -> Result<(), DatabaseError> {
        let Some(file) = &self.file else { return Ok(()) };
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
        loop {
            let tried = match mode {
                Mode::Shared => file.try_lock_shared(),
                Mode::Exclusive => file.try_lock(),
            };
            match tried {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if waited >= self.patience => {
                    let kind = DatabaseErrorKind::Busy(waited.as_secs());
                    return Err(DatabaseError::new(&self.path, Action::Lock, kind));
                }
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    waited += pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) if is_unsupported(&e) => {
                    // Some network file systems have no locks. One write call per line must suffice there.
                    self.unsupported = true;
                    return Ok(());
                }
                Err(TryLockError::Error(e)) => return Err(DatabaseError::io(&self.path, Action::Lock, &e)),
            }
        }
    }

    /// Whether the file system refused to lock.
    pub(super) fn is_unsupported(&self) -> bool {
        self.unsupported
    }
}

fn is_unsupported(e: &std::io::Error) -> bool {
    #[cfg(unix)]
    if e.raw_os_error() == Some(libc::ENOLCK) {
        return true;
    }
    e.kind() == ErrorKind::Unsupported
}

/// Appends lines to a table, one write call each, under the exclusive lock.
///
/// If the file does not end in a newline, a writer was killed: the partial line stays, and the first new line starts
/// after an inserted newline. If a write fails in the middle, its part is removed if possible.
pub(super) fn append<'a>(path: &Path, lines: impl IntoIterator<Item = &'a str>) -> Result<(), DatabaseError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    let (mut file, is_new) = match options.open(path) {
        Ok(file) => (file, false),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            (options.create(true).open(path).map_err(|e| DatabaseError::io(path, Action::Create, &e))?, true)
        }
        Err(e) => return Err(DatabaseError::io(path, Action::Write, &e)),
    };
    let fail = |e: std::io::Error| DatabaseError::io(path, Action::Write, &e);
    let mut torn = !is_new && ends_torn(&mut file).map_err(fail)?;
    for line in lines {
        debug_assert!(line.ends_with('\n') && line.lines().count() == 1, "a record is one line");
        let before = file.metadata().map_err(fail)?.len();
        let written =
            if torn { file.write_all(format!("\n{line}").as_bytes()) } else { file.write_all(line.as_bytes()) };
        if let Err(e) = written {
            // The lines before this one are complete, so the table is valid even if this fails.
            let _ = file.set_len(before);
            return Err(fail(e));
        }
        torn = false;
    }
    Ok(())
}

fn ends_torn(file: &mut File) -> std::io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_and_dies_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Lock::new(dir.path());
        let mut second = Lock { patience: Duration::from_millis(5), ..Lock::new(dir.path()) };
        let guard = first.hold(Mode::Exclusive).unwrap();
        for mode in [Mode::Exclusive, Mode::Shared] {
            let error = second.hold(mode).err().expect("the first holds it");
            assert_eq!((error.action, error.kind), (Action::Lock, DatabaseErrorKind::Busy(0)));
        }
        drop(guard);
        assert!(second.hold(Mode::Exclusive).is_ok());
        let shared = first.hold(Mode::Shared).unwrap();
        assert!(second.hold(Mode::Shared).is_ok());
        drop(shared);
    }

    #[test]
    fn readers_do_without_a_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Lock::new(dir.path()).hold(Mode::Shared).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_torn_line_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        append(&path, ["a\n", "b\n"]).unwrap();
        std::fs::write(&path, "a\nb\ntor").unwrap();
        append(&path, ["c\n", "d\n"]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\ntor\nc\nd\n");
    }
}
