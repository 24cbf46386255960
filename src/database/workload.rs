//! The workload table: the lines of `database_workload.json` as values.

use super::Reason;
use super::decimal::Decimal;
use super::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Index of a workload: the number of its line, from 0. Damaged lines keep their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkloadId(pub u32);

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A tuned function.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadEntry {
    /// Structural hash.
    pub hash: u64,
    /// Program text: a module with one function, called `main`.
    pub tir: String,
    /// Original name of the function where it was first added, for display.
    pub name: String,
    /// Time when it was added.
    pub added: Timestamp,
    /// Fields of later versions, kept unchanged.
    pub other: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct EntryJson {
    tir: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    added: Timestamp,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl WorkloadEntry {
    /// A workload for [`super::Database::commit_workload`].
    pub fn new(hash: u64, tir: impl Into<String>, name: impl Into<String>, added: Timestamp) -> WorkloadEntry {
        WorkloadEntry { hash, tir: tir.into(), name: name.into(), added, other: Map::new() }
    }

    /// The line, including the newline.
    pub(super) fn to_line(&self) -> String {
        let WorkloadEntry { hash, tir, name, added, other } = self.clone();
        let mut line = serde_json::to_string(&(Decimal(hash), EntryJson { tir, name, added, other }))
            .expect("texts and values with text keys have a JSON form");
        line.push('\n');
        line
    }

    pub(super) fn from_line(line: &[u8]) -> Result<WorkloadEntry, Reason> {
        let malformed = |e: serde_json::Error| Reason::Malformed(e.to_string());
        let (hash, entry): (Decimal, Value) = serde_json::from_slice(line).map_err(malformed)?;
        if entry.is_string() {
            // TVM's own table has its object graph here, which only TVM can read.
            return Err(Reason::Malformed(
                "expected an object with the text of the function, found one of TVM's".into(),
            ));
        }
        let EntryJson { tir, name, added, other } = serde_json::from_value(entry).map_err(malformed)?;
        Ok(WorkloadEntry { hash: hash.0, tir, name, added, other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let entry = WorkloadEntry::new(u64::MAX, "def main():\n  \"\u{e9}\"", "matmul", Timestamp(5));
        let line = entry.to_line();
        assert_eq!(line.lines().count(), 1);
        assert_eq!(WorkloadEntry::from_line(line.trim_end().as_bytes()), Ok(entry));
    }

    #[test]
    fn unknown_fields_are_kept() {
        let line = r#"["12",{"tir":"x","name":"f","added":"2026-03-01T12:00:00Z","colour":"red"}]"#;
        let entry = WorkloadEntry::from_line(line.as_bytes()).unwrap();
        assert_eq!(entry.other["colour"], "red");
        assert_eq!(entry.to_line().trim_end(), line);
    }

    #[test]
    fn damaged_lines_say_why() {
        let check = |line: &str, expected: &str| {
            let reason = WorkloadEntry::from_line(line.as_bytes()).unwrap_err().to_string();
            assert!(reason.starts_with(expected), "{line}: {reason}");
        };
        check("", "EOF while parsing");
        check(r#"["12", {"name": "x"}]"#, "missing field `tir`");
        check(r#"[12, {"tir": "x"}]"#, "invalid type: integer `12`, expected a 64-bit number");
        check(r#"["12", "aGVsbG8="]"#, "expected an object with the text of the function, found one of TVM's");
        check(r#"["12", {"tir": "x"}, 1]"#, "trailing characters");
    }
}
