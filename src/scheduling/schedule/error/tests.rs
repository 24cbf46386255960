//! Tests of the table of errors: each kind has a proposal, each class is triggered by a test.

use super::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// Kinds without a proposal: the message of the first one states what was expected, and no instruction is known that
/// would fix the others.
const WITHOUT_HELP: [&str; 9] = [
    "Argument",
    "UncoveredCopy",
    "NotReadWrite",
    "CopyOutOfBounds",
    "InvalidBufferAccess",
    "CopyAt",
    "ReindexCacheMismatch",
    "NotSinglePointAccess",
    "NotSupported",
];

/// Classes that no program is known to trigger: blocks run in text order, so that no producer of a moved block can come
/// after a consumer. The check stays for future analyses.
const UNREACHED: [&str; 1] = ["InsertionPointNotFoundError"];

#[test]
fn every_kind_says_what_to_do() {
    for (kind, _, help) in ErrorKind::ALL {
        assert_eq!(help.is_empty(), WITHOUT_HELP.contains(kind), "help of `{kind}`");
    }
}

#[test]
fn every_class_is_triggered() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut tests = String::new();
    for path in files(&root.join("src/scheduling/schedule")) {
        // In a source file, the tests are at the end.
        let text = fs::read_to_string(&path).expect("a readable source");
        let is_tests = path.ends_with("tests.rs");
        tests += if is_tests { &text } else { text.split_once("#[cfg(test)]").unwrap_or_default().1 };
    }
    for path in files(&root.join("tests/filetests/schedule")) {
        tests += &fs::read_to_string(&path).expect("a readable case");
    }
    for (kind, class, _) in ErrorKind::ALL {
        let named = tests.contains(&format!("\"{class}\"")) || tests.contains(&format!("error[{class}]"));
        assert!(named || UNREACHED.contains(class), "no test triggers `{class}` (`{kind}`)");
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of the repository");
    let paths = entries.map(|e| e.expect("a directory entry").path());
    paths.flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).filter(|p| p.extension().is_some()).collect()
}
