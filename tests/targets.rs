//! Every source file belongs to a target that Cargo builds, and every `#[test]` to one that runs it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The Rust files in `dir` and the directories below.
fn rust_files(dir: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let paths = entries.map(|e| e.expect("an entry").path());
    let files = paths.flat_map(|p| if p.is_dir() { rust_files(&p) } else { BTreeSet::from([p]) });
    files.filter(|p| p.extension().is_some_and(|e| e == "rs")).collect()
}

/// Adds `file` and the files of the modules that it declares. `is_root` says whether these lie beside it, as those of
/// the root of a target and of a `mod.rs` do.
fn add_modules(file: &Path, is_root: bool, found: &mut BTreeSet<PathBuf>) {
    found.insert(file.to_path_buf());
    let inner = if is_root { file.with_file_name("") } else { file.with_extension("") };
    let mut path_attribute = None;
    for line in read(file).lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|l| l.strip_suffix("\"]")) {
            path_attribute = Some(path.to_string());
        }
        let declared = line.rsplit_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        let Some(name) = declared.and_then(|(_, name)| name.strip_suffix(';')) else { continue };
        let candidates = match path_attribute.take() {
            Some(path) => vec![file.with_file_name(path)],
            None => vec![inner.join(format!("{name}.rs")), inner.join(name).join("mod.rs")],
        };
        let module = candidates.into_iter().find(|p| p.exists());
        let module = module.unwrap_or_else(|| panic!("{} has no file for module `{name}`", file.display()));
        add_modules(&module, module.ends_with("mod.rs"), found);
    }
}

/// The modules of the package that `build.rs` compiles, as far as they lie in its folder.
fn support() -> BTreeSet<PathBuf> {
    let dir = root().join("src/export/support");
    let text = read(&dir.join("lib.rs"));
    let declared: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert!(declared.len() > 4, "modules were not found: {declared:?}");
    let known = |p: &PathBuf| p.file_stem().is_some_and(|s| s == "lib" || declared.iter().any(|d| s == *d));
    rust_files(&dir).into_iter().filter(known).collect()
}

#[test]
fn every_source_file_belongs_to_a_target() {
    let libraries = crate::layers::CRATES.iter().map(|folder| Path::new(folder).join("lib.rs"));
    let src: Vec<PathBuf> = libraries.chain(["main.rs".into()]).collect();
    for (dir, roots) in [("src", src), ("tests", ["integration.rs", "filetests.rs"].map(PathBuf::from).to_vec())] {
        let dir = root().join(dir);
        let mut used = BTreeSet::new();
        roots.iter().for_each(|r| add_modules(&dir.join(r), true, &mut used));
        if dir.ends_with("src") {
            used.append(&mut support());
        }
        let unused: Vec<PathBuf> = rust_files(&dir).difference(&used).cloned().collect();
        assert!(used.len() > 10, "only {} modules were found in {}", used.len(), dir.display());
        assert!(unused.is_empty(), "no module declares {unused:?}");
    }
}

/// A target that Cargo.toml lists.
struct Target {
    kind: String,
    name: String,
    own_harness: bool,
}

fn targets() -> Vec<Target> {
    let manifest = read(&root().join("Cargo.toml"));
    // The first section may begin the file.
    let manifest = format!("\n{manifest}");
    let sections = manifest.split("\n[").filter_map(|s| s.split_once(']'));
    let listed = sections.filter_map(|(kind, rest)| Some((kind.strip_prefix('[')?, rest)));
    listed
        .map(|(kind, rest)| {
            let value = |key: &str| rest.lines().find_map(|l| l.strip_prefix(key)?.trim().strip_prefix("= "));
            let name = value("name").unwrap_or_else(|| panic!("a target of kind {kind} without a name"));
            let own_harness = value("harness") == Some("false");
            Target { kind: kind.to_string(), name: name.trim_matches('"').to_string(), own_harness }
        })
        .collect()
}

#[test]
fn only_file_tests_have_a_harness_of_their_own() {
    let targets = targets();
    let tests: Vec<(&str, bool)> =
        targets.iter().filter(|t| t.kind == "test").map(|t| (t.name.as_str(), t.own_harness)).collect();
    assert_eq!(tests, [("integration", false), ("filetests", true)]);
    let others = |kind: &str| targets.iter().filter(|t| t.kind == kind).count();
    assert!(others("example") > 0 && others("bench") > 0, "the targets of Cargo.toml were not found");
}

#[test]
fn no_test_is_where_it_would_never_run() {
    let mut silent = rust_files(&root().join("examples"));
    silent.append(&mut rust_files(&root().join("benches")));
    silent.append(&mut support());
    add_modules(&root().join("tests/filetests.rs"), true, &mut silent);
    assert!(silent.len() > 10, "sources were not found: {silent:?}");
    for path in silent {
        let found = read(&path).lines().any(|line| line.trim_start().starts_with("#[test]"));
        assert!(!found, "{} has a `#[test]`, which would never run", path.display());
    }
}
