//! Scans the lines of a table for queries: many lines at once, and little of each.
//!
//! A file is read from a position to its end in pieces, by several threads; the result does not depend on their number.
//! A record becomes an [`Entry`] of a few dozen bytes, so that a hundred thousand records, about two hundred megabytes
//! of text, take a few megabytes; the line itself is read again when a query returns it.

use super::decimal::Decimal;
use super::error::{Action, DatabaseError, Reason};
use super::record::{FpMode, Role, Status, mean_secs};
use super::split::{self, Parts, split};
use super::timestamp::Timestamp;
use super::{RECORD_FORMAT, WorkloadId};
use crate::machine::{CpuKey, threads_of};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Maximum length of a line: a megabyte is a trace of some ten thousand instructions.
const MAX_LINE: u64 = 64 << 20;
/// Minimum size of a piece for a thread.
const PIECE: u64 = 4 << 20;
const BUFFER: usize = 256 << 10;

/// The part of a record that queries need.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    /// Offset of the line in the file.
    pub offset: u64,
    /// Line number, from 1.
    pub line: u64,
    /// Length of the line without its newline.
    pub len: u32,
    pub workload: WorkloadId,
    /// Hash of its workload, if the record has it.
    pub workload_hash: Option<u64>,
    pub program: Option<u64>,
    pub role: Role,
    /// Index of its [`Setting`].
    pub setting: u32,
    /// The ranking time, or the index of its kind of failure.
    pub outcome: Result<f64, u32>,
    /// Whether it is a schedule to try, which was not measured. Queries for measurements leave it out.
    pub is_untried: bool,
    pub time: Timestamp,
}

/// The setting of a measurement, as far as queries filter by it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Setting {
    /// The CPU; `None` if the target is not a CPU.
    pub cpu: Option<CpuKey>,
    pub threads: u32,
    pub isa: String,
    pub strict_fp: bool,
}

/// Numbers distinct values in the order of their first occurrence.
#[derive(Clone, Debug)]
pub(super) struct Interner<T> {
    values: Vec<T>,
    ids: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { values: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    fn intern(&mut self, value: T) -> u32 {
        if let Some(&id) = self.ids.get(&value) {
            return id;
        }
        let id = self.values.len() as u32;
        self.values.push(value.clone());
        self.ids.insert(value, id);
        id
    }

    pub(super) fn get(&self, id: u32) -> &T {
        &self.values[id as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }
}

/// The result of scanning some lines.
#[derive(Clone, Default, Debug)]
pub(super) struct Records {
    pub entries: Vec<Entry>,
    pub settings: Interner<Setting>,
    pub failures: Interner<String>,
    /// Damaged lines.
    pub problems: Vec<(u64, Reason)>,
}

impl Records {
    /// Appends the result for later lines.
    pub(super) fn append(&mut self, later: Records) {
        let settings: Vec<u32> = later.settings.iter().map(|s| self.settings.intern(s.clone())).collect();
        let failures: Vec<u32> = later.failures.iter().map(|s| self.failures.intern(s.clone())).collect();
        self.entries.extend(later.entries.into_iter().map(|mut e| {
            e.setting = settings[e.setting as usize];
            e.outcome = e.outcome.map_err(|kind| failures[kind as usize]);
            e
        }));
        self.problems.extend(later.problems);
    }
}

/// The position up to which a table was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Position {
    /// Offset after the last newline.
    pub offset: u64,
    /// Number of newlines before it.
    pub lines: u64,
    /// Number of bytes after the last newline: a torn line, or one that only lacks its newline.
    pub tail: u64,
}

/// Called with a line's number from 1, its offset, and its bytes without the newline or the reason why it is unusable.
pub(super) type LineVisitor<'a> = dyn FnMut(u64, u64, Result<&[u8], Reason>) + 'a;

/// Calls `visit` with each non-blank line that starts in `from..to`; returns the position after them. Line numbers
/// count from `lines_before`.
fn visit_piece(
    mut file: &File,
    from: u64,
    to: u64,
    lines_before: u64,
    visit: &mut LineVisitor<'_>,
) -> std::io::Result<Position> {
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let mut position = Position { offset: from, lines: lines_before, tail: 0 };
    let mut line = Vec::new();
    while position.offset < to {
        line.clear();
        let mut read = (&mut reader).take(MAX_LINE + 1).read_until(b'\n', &mut line)? as u64;
        let too_long = read > MAX_LINE && line.last() != Some(&b'\n');
        let mut ended = line.last() == Some(&b'\n');
        if too_long {
            line = Vec::new();
            let (rest, found) = skip_line(&mut reader)?;
            read += rest;
            ended = found;
        } else if ended {
            line.pop();
        }
        if read == 0 {
            break;
        }
        let number = position.lines + 1;
        if too_long {
            visit(number, position.offset, Err(Reason::TooLong(read)));
        } else if !line.iter().all(u8::is_ascii_whitespace) {
            visit(number, position.offset, Ok(&line));
        }
        if !ended {
            position.tail = read;
            break;
        }
        position.offset += read;
        position.lines += 1;
    }
    Ok(position)
}

/// Skips to the next line; returns the number of bytes skipped, and whether there was a newline.
fn skip_line(reader: &mut impl BufRead) -> std::io::Result<(u64, bool)> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((skipped, false));
        }
        let (n, found) = match buffer.iter().position(|&b| b == b'\n') {
            Some(i) => (i + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(n);
        skipped += n as u64;
        if found {
            return Ok((skipped, true));
        }
    }
}

/// Calls `visit` with each line after a position, in order.
pub(super) fn visit_lines(
    path: &Path,
    file: &File,
    from: Position,
    visit: &mut LineVisitor<'_>,
) -> Result<Position, DatabaseError> {
    let len = file.metadata().map_err(|e| DatabaseError::io(path, Action::Read, &e))?.len();
    visit_piece(file, from.offset, len, from.lines, visit).map_err(|e| DatabaseError::io(path, Action::Read, &e))
}

/// Calls `visit` with the bytes of the file including newlines, and the number of their line; a line may come in
/// several parts.
pub(super) fn copy_lines(path: &Path, file: &File, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), DatabaseError> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let mut line = 1;
    loop {
        let buffer = reader.fill_buf().map_err(|e| DatabaseError::io(path, Action::Read, &e))?;
        if buffer.is_empty() {
            return Ok(());
        }
        for part in buffer.split_inclusive(|&b| b == b'\n') {
            visit(line, part);
            line += u64::from(part.ends_with(b"\n"));
        }
        let n = buffer.len();
        reader.consume(n);
    }
}

/// Reads the record table after a position, with up to `threads` threads if there is much to read.
pub(super) fn read_records(path: &Path, from: Position, threads: usize) -> Result<(Records, Position), DatabaseError> {
    let fail = |e: std::io::Error| DatabaseError::io(path, Action::Read, &e);
    let len = File::open(path).and_then(|f| f.metadata()).map_err(fail)?.len();
    let bytes = len.saturating_sub(from.offset);
    let n = (bytes / PIECE).clamp(1, threads.max(1) as u64);
    // A thread reads the lines that start in its piece, so pieces begin at line starts.
    let mut starts = vec![from.offset];
    for i in 1..n {
        let wanted = (from.offset + bytes / n * i).max(starts[starts.len() - 1]);
        starts.push(next_line_start(path, wanted).map_err(fail)?.min(len));
    }
    starts.push(len);
    let piece = |i: usize| -> std::io::Result<(Records, Position)> {
        let mut scanner = Scanner::default();
        let file = File::open(path)?;
        let end = visit_piece(&file, starts[i], starts[i + 1], 0, &mut |line, offset, text| {
            scanner.visit(line, offset, text)
        })?;
        Ok((scanner.records, end))
    };
    let pieces: Vec<std::io::Result<(Records, Position)>> = if n == 1 {
        vec![piece(0)]
    } else {
        std::thread::scope(|scope| {
            let piece = &piece;
            let handles: Vec<_> = (0..n as usize).map(|i| scope.spawn(move || piece(i))).collect();
            handles.into_iter().map(|h| h.join().expect("reading lines does not panic")).collect()
        })
    };
    let mut all = Records::default();
    let mut position = from;
    for read in pieces {
        let (mut records, end) = read.map_err(fail)?;
        // Line numbers were counted from the start of the piece.
        records.entries.iter_mut().for_each(|e| e.line += position.lines);
        records.problems.iter_mut().for_each(|p| p.0 += position.lines);
        all.append(records);
        position = Position { offset: end.offset, lines: position.lines + end.lines, tail: end.tail };
    }
    // A broken line at the end of the file is torn. A complete line that only lacks its newline is valid.
    if let Some((line, reason)) = all.problems.last_mut()
        && position.tail > 0
        && *line == position.lines + 1
        && matches!(reason, Reason::Malformed(_))
    {
        *reason = Reason::Torn(position.tail);
    }
    Ok((all, position))
}

/// The start of the first line at or after a position.
fn next_line_start(path: &Path, at: u64) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let Some(before) = at.checked_sub(1) else { return Ok(0) };
    file.seek(SeekFrom::Start(before))?;
    let (skipped, _) = skip_line(&mut BufReader::new(file))?;
    Ok(before + skipped)
}

/// Scans records line by line.
#[derive(Default)]
struct Scanner {
    records: Records,
    /// The setting of the last line and the text that it was read from: most lines of a file share one setting.
    last: Option<(Vec<u8>, Setting, u32)>,
}

#[derive(Deserialize)]
struct ExtraScan<'a> {
    format: u64,
    workload: Option<Decimal>,
    program: Option<Decimal>,
    #[serde(default)]
    role: Role,
    status: Status,
    #[serde(borrow)]
    error: Option<ErrorScan<'a>>,
    #[serde(borrow, default)]
    isa: Cow<'a, str>,
    #[serde(default)]
    fp: FpMode,
    threads: Option<u32>,
    #[serde(default)]
    time: Timestamp,
}

#[derive(Deserialize)]
struct ErrorScan<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct VersionScan {
    format: u64,
}

impl Scanner {
    fn visit(&mut self, line: u64, offset: u64, text: Result<&[u8], Reason>) {
        match text.and_then(|text| self.entry(line, offset, text)) {
            Ok(entry) => self.records.entries.push(entry),
            Err(reason) => self.records.problems.push((line, reason)),
        }
    }

    fn entry(&mut self, line: u64, offset: u64, text: &[u8]) -> Result<Entry, Reason> {
        let malformed = |e: serde_json::Error| Reason::Malformed(e.to_string());
        let parts = split(text).map_err(split::malformed)?;
        let workload: u64 = serde_json::from_slice(&text[parts.workload.clone()]).map_err(malformed)?;
        let workload = WorkloadId(u32::try_from(workload).map_err(|_| Reason::DanglingWorkload(workload))?);
        let run_secs: Option<Vec<f64>> = serde_json::from_slice(&text[parts.run_secs.clone()]).map_err(malformed)?;
        let secs = run_secs.as_deref().and_then(mean_secs);
        let extra: Option<ExtraScan<'_>> = match &parts.extra {
            None => None,
            Some(range) => Some(match serde_json::from_slice(&text[range.clone()]) {
                Ok(extra) => extra,
                // A later version may have other fields; then the version is the reason to report.
                Err(e) => match serde_json::from_slice(&text[range.clone()]) {
                    Ok(VersionScan { format }) if format > u64::from(RECORD_FORMAT) => {
                        return Err(Reason::Version(format));
                    }
                    _ => return Err(malformed(e)),
                },
            }),
        };
        if let Some(e) = &extra
            && e.format > u64::from(RECORD_FORMAT)
        {
            return Err(Reason::Version(e.format));
        }
        let outcome = match (secs, &extra) {
            (Some(secs), None) => Ok(secs),
            (None, None) => Err(self.records.failures.intern("unknown".into())),
            (Some(secs), Some(ExtraScan { status: Status::Ok, .. })) => Ok(secs),
            (None, Some(ExtraScan { status: Status::Ok, .. })) => {
                return Err(Reason::Malformed("status is `ok` but there is no run time".into()));
            }
            (_, Some(ExtraScan { status: Status::Untried, .. })) => Err(self.records.failures.intern("untried".into())),
            (_, Some(ExtraScan { status: Status::Error, error: Some(error), .. })) => {
                Err(self.records.failures.intern(error.kind.clone().into_owned()))
            }
            (_, Some(ExtraScan { status: Status::Error, error: None, .. })) => {
                return Err(Reason::Malformed("status is `error` but there is no `error`".into()));
            }
        };
        Ok(Entry {
            offset,
            line,
            len: text.len() as u32,
            workload,
            workload_hash: extra.as_ref().and_then(|e| e.workload).map(|h| h.0),
            program: extra.as_ref().and_then(|e| e.program).map(|h| h.0),
            role: extra.as_ref().map(|e| e.role).unwrap_or_default(),
            setting: self.setting(text, &parts, extra.as_ref())?,
            outcome,
            is_untried: extra.as_ref().is_some_and(|e| e.status == Status::Untried),
            time: extra.as_ref().map(|e| e.time).unwrap_or_default(),
        })
    }

    fn setting(&mut self, text: &[u8], parts: &Parts, extra: Option<&ExtraScan<'_>>) -> Result<u32, Reason> {
        let target = &text[parts.target.clone()];
        let (isa, strict_fp) = extra.map_or(("", false), |e| (e.isa.as_ref(), e.fp == FpMode::Strict));
        let stated = extra.and_then(|e| e.threads);
        if let Some((bytes, setting, id)) = &self.last
            && bytes == target
            && setting.isa == isa
            && setting.strict_fp == strict_fp
            && stated == Some(setting.threads)
        {
            return Ok(*id);
        }
        let json: Value = serde_json::from_slice(target).map_err(|e| Reason::Malformed(e.to_string()))?;
        let threads = stated.unwrap_or_else(|| threads_of(&json));
        let setting = Setting { cpu: CpuKey::of_json(&json).ok(), threads, isa: isa.into(), strict_fp };
        let id = self.records.settings.intern(setting.clone());
        self.last = Some((target.to_vec(), setting, id));
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_change_the_result() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records");
        let mut text = String::new();
        for i in 0..40_000 {
            let pad = "x".repeat(i % 997);
            match i % 1000 {
                7 => text.push('\n'),
                13 => text.push_str("[0,[\n"),
                _ => text.push_str(&format!(
                    "[{},[[[],[]],[{}e-6],{{\"kind\":\"llvm\",\"num-cores\":{}}},[\"{pad}\"]]]\n",
                    i % 5,
                    i + 1,
                    i % 3 + 1
                )),
            }
        }
        text.push_str("[0,[[[],");
        std::fs::write(&path, &text).unwrap();
        let (one, end) = read_records(&path, Position::default(), 1).unwrap();
        assert_eq!((end.lines, end.offset + end.tail), (40_000, text.len() as u64));
        assert_eq!(one.entries.len(), 40_000 - 80);
        assert_eq!(one.problems.len(), 41);
        assert_eq!(one.problems.last(), Some(&(40_001, Reason::Torn(8))));
        for threads in [2, 3, 4, 64] {
            let (many, same_end) = read_records(&path, Position::default(), threads).unwrap();
            assert_eq!((&many.entries, &many.problems, end), (&one.entries, &one.problems, same_end));
            assert_eq!(many.settings.values, one.settings.values);
        }
        for e in one.entries.iter().step_by(1777) {
            let line = text.split('\n').nth(e.line as usize - 1).unwrap();
            assert_eq!(&text[e.offset as usize..][..e.len as usize], line);
        }
    }

    #[test]
    fn a_piece_may_be_one_long_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records");
        std::fs::write(&path, format!("[0,[[[],[]],null,null,[\"{}\"]]]\n\n", "x".repeat(20 << 20))).unwrap();
        let (records, end) = read_records(&path, Position::default(), 8).unwrap();
        assert_eq!((records.entries.len(), records.problems.len(), end.lines), (1, 0, 2));
    }
}
