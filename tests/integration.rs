//! All external tests of the library and the command, in one binary, since each binary links the whole library.
//!
//! `cargo test --test integration NAME::` runs those of one module.

mod cli;
mod conformance;
mod handles;
mod interpreter;
mod layers;
mod pages;
mod pictures;
mod random_walks;
mod script;
mod space;
mod statements;
mod workloads;

/// A target with a harness of its own does not run `#[test]` functions.
#[test]
fn filetests_hold_no_test_that_would_never_run() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let inner = std::fs::read_dir(dir.join("filetests")).expect("the directory of cases");
    let mut sources: Vec<_> = inner.map(|e| e.expect("an entry").path()).collect();
    sources.retain(|p| p.extension().is_some_and(|e| e == "rs"));
    sources.push(dir.join("filetests.rs"));
    assert!(sources.len() > 3, "sources of the file tests were not found: {sources:?}");
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let found = text.lines().any(|line| line.trim_start().starts_with("#[test]"));
        assert!(!found, "{} has a `#[test]`, which would never run", path.display());
    }
}
