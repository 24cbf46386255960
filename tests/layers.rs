//! Checks the order of the modules: an earlier one never uses a later one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the crates below `src`, in the order in which they depend on one another.
pub(crate) const CRATES: &[&str] = &["program", "frontend", "scheduling", "compiler", ""];

/// The modules of all crates, in the order of the data flow.
const ORDER: &[&str] = &[
    "stop",
    "files",
    "diagnostic",
    "ir",
    "machine",
    "arith",
    "te",
    "graph",
    "topi",
    "script",
    "onnx",
    "lint",
    "schedule",
    "interpreter",
    "schedule_function",
    "te_schedule",
    "te_function",
    "tvm_log",
    "space",
    "search",
    "loopir",
    "lower",
    "codegen",
    "measure",
    "arrays",
    "database",
    "workload",
    "perf",
    "export",
    "foreign",
    "check",
    "callable",
    "run",
    "model",
    "tune",
    "request",
    "cli",
];

/// Modules that may use only those listed.
const ALONE: &[(&str, &[&str])] = &[
    ("stop", &[]),
    ("files", &[]),
    ("diagnostic", &[]),
    ("ir", &[]),
    ("arith", &["ir"]),
    ("te", &["ir", "arith"]),
    ("graph", &["diagnostic", "ir", "arith", "te"]),
    ("loopir", &["ir"]),
    ("lower", &["ir", "loopir", "stop"]),
    ("schedule", &["ir", "arith", "script", "diagnostic", "stop"]),
    ("topi", &["ir", "te", "graph"]),
    ("onnx", &["diagnostic", "ir", "arith", "graph"]),
    ("interpreter", &["diagnostic", "ir", "script"]),
    ("schedule_function", &["diagnostic", "ir", "script", "schedule", "interpreter"]),
    ("te_schedule", &["diagnostic", "ir", "schedule"]),
    ("te_function", &["diagnostic", "ir", "te", "topi", "script", "interpreter", "schedule", "te_schedule"]),
    ("tvm_log", &["diagnostic", "ir", "schedule", "te_schedule", "te_function"]),
    ("arrays", &["files", "diagnostic", "ir", "script", "onnx"]),
    ("perf", &["ir", "machine", "measure"]),
    ("export", &["files", "ir", "graph", "loopir", "lower", "machine", "codegen"]),
    ("foreign", &["ir", "graph", "export"]),
    ("callable", &["ir", "loopir", "lower", "codegen", "search", "measure", "workload", "check"]),
    ("run", &["stop", "ir", "loopir", "codegen", "arrays", "measure", "workload", "check", "callable"]),
    ("check", &["ir", "loopir", "lower", "codegen", "schedule", "search", "measure", "database", "workload", "stop"]),
];

#[test]
fn an_earlier_module_never_knows_a_later_one() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut listed = Vec::new();
    let mut home = BTreeMap::new();
    for folder in CRATES {
        let dir = src.join(folder);
        let modules = modules_of(&fs::read_to_string(dir.join("lib.rs")).expect("lib.rs"));
        assert!(!modules.is_empty(), "{} has no modules", dir.display());
        home.extend(modules.iter().map(|m| (m.clone(), dir.clone())));
        listed.extend(modules);
    }
    let mut missing: Vec<&String> = listed.iter().filter(|m| !ORDER.contains(&m.as_str())).collect();
    missing.dedup();
    assert!(missing.is_empty() && listed.len() == ORDER.len(), "ORDER is not the list of modules: {listed:?}");

    let mut mistakes = Vec::new();
    let mut seen = BTreeMap::<&str, usize>::new();
    for (at, module) in ORDER.iter().enumerate() {
        let src = &home[*module];
        for file in files_of(src, module) {
            let text = fs::read_to_string(&file).expect("a source file");
            let code = without_tests(&text);
            let depth = depth(src, &file);
            let climbs = |(_, line): &(usize, &str)| line.contains(&"super::".repeat(depth));
            mistakes.extend(code.lines().enumerate().filter(climbs).map(|(i, _)| {
                format!("{}:{}: reaches the crate by `super::`; write `crate::`", file.display(), i + 1)
            }));
            for (line, used) in uses(code) {
                *seen.entry(module).or_default() += 1;
                let Some(of) = ORDER.iter().position(|m| *m == used) else { continue };
                let allowed = ALONE.iter().find(|(m, _)| m == module).map(|(_, list)| *list);
                if of > at || of < at && allowed.is_some_and(|list| !list.contains(&used)) {
                    mistakes.push(format!("{}:{line}: `{module}` uses `{used}`", file.display()));
                }
            }
        }
    }
    assert!(seen.len() > ORDER.len() / 2, "hardly any use was found: {seen:?}");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// The Python package runs in a process of its caller, so only its console script may use `cli`, which prints and ends processes.
#[test]
fn the_python_package_uses_the_command_line_for_its_command_alone() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/src");
    let mut users = Vec::new();
    let mut n = 0;
    for entry in fs::read_dir(src).expect("the package") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a source file");
        let code: Vec<&str> = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
        n += code.iter().filter(|l| l.contains("tvmr::")).count();
        if code.iter().any(|l| l.contains("tvmr::cli") || l.contains("process::")) {
            users.push(path.file_name().expect("a name").to_string_lossy().into_owned());
        }
    }
    assert!(n > 10, "the package uses the library");
    assert_eq!(users, ["command.rs"]);
}

/// The modules that a file declares, except test modules.
fn modules_of(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let name = |line: &str| {
        let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    };
    let is_test = |i: usize| i > 0 && lines[i - 1].starts_with("#[cfg(") && lines[i - 1].contains("test");
    (0..lines.len()).filter(|&i| !is_test(i)).filter_map(|i| name(lines[i])).collect()
}

/// How many modules lie around what a file says: as many `super::` reach the crate.
fn depth(src: &Path, file: &Path) -> usize {
    let inner = file.strip_prefix(src).expect("a file of the crate");
    inner.components().count() - usize::from(file.ends_with("mod.rs"))
}

/// The files of a module and its submodules.
fn files_of(dir: &Path, module: &str) -> Vec<PathBuf> {
    let inner = dir.join(module);
    let head = [inner.join("mod.rs"), dir.join(format!("{module}.rs"))].into_iter().find(|p| p.exists());
    let Some(head) = head else { panic!("no file for module {module} in {}", dir.display()) };
    let text = fs::read_to_string(&head).expect("a source file");
    let mut files = vec![head];
    for m in modules_of(without_tests(&text)) {
        files.extend(files_of(&inner, &m));
    }
    files
}

/// A file without its test module, which comes last.
fn without_tests(text: &str) -> &str {
    let mut starts = text.match_indices("#[cfg(test)]\n");
    let is_module = |rest: &str| rest.starts_with("mod tests {") || rest.starts_with("pub(crate) mod tests {");
    match starts.find(|(at, attribute)| is_module(&text[at + attribute.len()..])) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The modules that follow `crate::` or the name of a crate of tvmr, with line numbers.
fn uses(code: &str) -> impl Iterator<Item = (usize, &str)> {
    const ROOTS: [&str; 5] = ["crate::", "tvmr_program::", "tvmr_frontend::", "tvmr_scheduling::", "tvmr_compiler::"];
    code.lines().enumerate().flat_map(|(i, line)| {
        let is_comment = line.trim_start().starts_with("//");
        let parts = ROOTS.iter().flat_map(move |root| line.split(root).skip(1)).filter(move |_| !is_comment);
        parts.map(move |rest| (i + 1, rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("")))
    })
}
