//! Tidiness of the table of errors: each kind says what to do, each class is triggered by some test.

use super::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// Kinds without a help of their own: the message of the first says what was expected, and for the others no
/// instruction is known that would mend it.
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

/// Classes that no program is known to trigger: blocks run in the order of their text, so that no producer of a moved
/// block can come after a consumer. The check stays, for what a later analysis may admit.
const UNREACHED: [&str; 1] = ["InsertionPointNotFoundError"];

#[test]
fn every_kind_says_what_to_do() {
    for (kind, _, help) in ErrorKind::ALL {
        assert_eq!(help.is_empty(), WITHOUT_HELP.contains(kind), "help of `{kind}`");
    }
}

#[test]
fn every_class_is_triggered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = String::new();
    for path in files(&root.join("src/schedule")) {
        // Of a source file, the tests at its end.
        let text = fs::read_to_string(&path).expect("a readable source");
        tests.extend(text.split_once("#[cfg(test)]").map(|(_, tests)| tests.to_string()));
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
