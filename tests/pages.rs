//! The pages docs/primitives.md and docs/spaces.md are made from the heads of source files, and their examples run.
//!
//! A head is the `//!` comment that a file begins with. It holds sections for a page up to the heading
//! `# Implementation`; what follows is for readers of the source. `TVMR_BLESS=1 cargo test --test integration pages::`
//! writes the pages, and the result of an example (`after`) that is out of date.

mod head;
mod primitives;
mod spaces;

use std::path::{Path, PathBuf};
use tvmr::ir::Module;
use tvmr::ir::equal::Equality;
use tvmr::script::{Dialect, ParseOptions, parse, print_func};

/// The comment below the title of a page.
const NOTICE: &str = "<!-- Made from the heads of source files; see CONTRIBUTING.md. Edit those. -->";

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn blessing() -> bool {
    std::env::var_os("TVMR_BLESS").is_some_and(|v| v == "1")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Compares a page with what it is to be, or writes it.
fn check_page(relative: &str, made: &str) {
    let path = path(relative);
    if blessing() {
        std::fs::write(&path, made).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let page = read(&path);
    let differing = page.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line = differing.unwrap_or_else(|| page.lines().count().min(made.lines().count())) + 1;
    assert!(
        page == made,
        "{relative}, line {line}, is not what the heads of the sources say; `TVMR_BLESS=1` writes it:\n  page: {}\n  made: {}",
        page.lines().nth(line - 1).unwrap_or("(its end)"),
        made.lines().nth(line - 1).unwrap_or("(its end)"),
    );
}

/// The parts of an example: functions with their decorators, and comments that begin a line.
fn parts(example: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut decorated = false;
    for line in example.lines() {
        let begins = line.starts_with('@') || line.starts_with("# ") || (line.starts_with("def ") && !decorated);
        decorated = line.starts_with('@');
        match parts.last_mut() {
            Some(part) if !begins => *part = format!("{part}{line}\n"),
            _ => parts.push(format!("{line}\n")),
        }
    }
    parts.iter().map(|p| format!("{}\n", p.trim_end())).collect()
}

/// The part that defines the function `name`.
fn part<'p>(parts: &'p [String], name: &str) -> Result<&'p String, String> {
    let mut found = parts.iter().filter(|p| p.lines().any(|l| l.starts_with(&format!("def {name}("))));
    match (found.next(), found.next()) {
        (Some(part), None) => Ok(part),
        (None, _) => Err(format!("the example has no function `{name}`")),
        (Some(_), Some(_)) => Err(format!("the example has several functions `{name}`")),
    }
}

/// A part as a module whose function is called `main`.
fn program(part: &str, name: &str) -> Result<Module, String> {
    let text = part.replacen(&format!("def {name}("), "def main(", 1);
    parse(&text, &format!("{name}.tir"), &ParseOptions::default()).map(|p| p.module).map_err(|e| e.to_string())
}

fn difference(expected: &Module, found: &Module) -> Option<String> {
    let equality = Equality { block_names: true, fold: true };
    equality.funcs(&expected.funcs[0], &found.funcs[0]).err().map(|d| d.to_string())
}

/// Compares the function `after` of an example with the program that was made, which must differ from `before`. If
/// `after` is wrong, its right text is returned while blessing, and otherwise the difference.
fn check_after(parts: &[String], made: &Module) -> Result<Option<(String, String)>, String> {
    if difference(&program(part(parts, "before")?, "before")?, made).is_none() {
        return Err("the example changes nothing".to_string());
    }
    let after = part(parts, "after")?;
    let why = match program(after, "after").map(|expected| difference(&expected, made)) {
        Ok(None) => return Ok(None),
        Ok(Some(why)) | Err(why) => why,
    };
    let text = short(made).replacen("def main(", "def after(", 1);
    if blessing() { Ok(Some((after.clone(), text))) } else { Err(format!("{why}\nthe result is\n{text}")) }
}

/// The program as one would write it: without what reading infers, as long as it reads as the same program.
fn short(module: &Module) -> String {
    let is_same = |text: &str| program(text, "main").is_ok_and(|read| difference(&read, module).is_none());
    let mut text = print_func(&module.funcs[0], Dialect::default());
    let mut n = 0;
    while let Some(line) = text.lines().nth(n) {
        let inferred = ["T.reads(", "T.writes(", "T.func_attr(", "# with T."];
        let without = || text.lines().enumerate().filter(|(i, _)| *i != n).map(|(_, l)| format!("{l}\n")).collect();
        let shorter: Option<String> = inferred.iter().any(|p| line.trim_start().starts_with(p)).then(without);
        match shorter.filter(|t| is_same(t)) {
            Some(shorter) => text = shorter,
            None => n += 1,
        }
    }
    let one_dimension = |t: &str| {
        let mut pieces = t.split("((");
        let first = pieces.next().unwrap_or_default().to_string();
        pieces.fold(first, |text, piece| match piece.split_once(",)") {
            Some((extent, rest)) if extent.bytes().all(|b| b.is_ascii_digit()) => format!("{text}({extent}{rest}"),
            _ => format!("{text}(({piece}"),
        })
    };
    let bare_floats = |t: &str| {
        let mut pieces = t.split("T.float32(");
        let first = pieces.next().unwrap_or_default().to_string();
        pieces.fold(first, |text, piece| text + &piece.replacen(')', "", 1))
    };
    let per_line = |t: &str, edit: &dyn Fn(&str) -> String| {
        let mut lines: Vec<String> = t.lines().map(String::from).collect();
        for i in 0..lines.len() {
            let old = std::mem::take(&mut lines[i]);
            lines[i] = edit(&old);
            if lines[i] != old && !is_same(&(lines.join("\n") + "\n")) {
                lines[i] = old;
            }
        }
        lines.join("\n") + "\n"
    };
    let edits: [&dyn Fn(&str) -> String; 4] = [
        &|l| l.replace("@T.prim_func(s_tir=True)", "@T.prim_func"),
        &|l| l.replace(", \"float32\")", ")"),
        &bare_floats,
        &one_dimension,
    ];
    edits.iter().fold(text, |text, edit| per_line(&text, edit))
}

#[test]
fn parts_of_an_example_are_found() {
    let example = "@T.prim_func\ndef before(A: T.Buffer(4)):\n    pass\n\ndef steps(sch):\n    pass\n\n# becomes\n\n@T.prim_func\ndef after(A):\n    pass\n";
    let parts = parts(example);
    assert_eq!(parts.len(), 4, "{parts:?}");
    assert_eq!(part(&parts, "steps").map(String::as_str), Ok("def steps(sch):\n    pass\n"));
    assert!(part(&parts, "between").is_err());
}

/// The pages that a reader of the repository begins with, and all of docs.
fn all_pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path("docs")).unwrap_or_else(|e| panic!("docs: {e}"));
    let inner = entries.map(|e| e.expect("an entry").path()).filter(|p| p.extension().is_some_and(|e| e == "md"));
    inner.chain(["README.md", "CONTRIBUTING.md"].map(path)).collect()
}

/// The paths that a page names: targets of links, relative to the page, and code that begins with a directory of the
/// repository. Placeholders such as `src/cli/NAME.rs` stand for their directory.
fn named_paths(page: &Path, text: &str) -> Vec<PathBuf> {
    const ROOTS: [&str; 7] = ["src/", "tests/", "docs/", "benches/", "examples/", "workloads/", ".ci/"];
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let links = links.filter(|l| !l.is_empty() && !l.contains("://"));
    let mut found: Vec<PathBuf> = links.map(|l| page.with_file_name(l)).collect();
    let is_path = |code: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        ROOTS.iter().any(|r| code.starts_with(r)) && code.chars().all(plain)
    };
    // Fences aside, every second piece between backticks is code.
    let prose = text.split("```").step_by(2);
    let code = prose.flat_map(|p| p.split('`').skip(1).step_by(2)).flat_map(str::split_whitespace);
    found.extend(code.filter(is_path).map(|code| match code.split_once("NAME") {
        Some((before, _)) => path(before.rsplit_once('/').map_or("", |(directory, _)| directory)),
        None => path(code),
    }));
    found
}

#[test]
fn paths_that_pages_name_exist() {
    let (mut n_found, mut missing) = (0, String::new());
    for page in all_pages() {
        let paths = named_paths(&page, &read(&page));
        n_found += paths.len();
        for path in paths.into_iter().filter(|p| !p.exists()) {
            missing += &format!("{} names {}, which does not exist\n", page.display(), path.display());
        }
    }
    assert!(n_found > 100, "only {n_found} paths were found");
    assert!(missing.is_empty(), "{missing}");
}
