//! The heads of source files, and their sections.

use super::read;
use std::path::{Path, PathBuf};

/// The heading after which a head is for readers of the source only.
const IMPLEMENTATION: &str = "# Implementation";

/// A section of a head.
#[derive(Debug)]
pub(super) struct Section {
    /// The file.
    pub(super) file: PathBuf,
    /// The heading.
    pub(super) title: String,
    /// The text below the heading, without blank lines around it.
    pub(super) body: String,
}

/// The sections for a page in the head of `file`. Text before the first heading belongs to none.
pub(super) fn sections(file: &Path) -> Vec<Section> {
    let source = read(file);
    let mut sections: Vec<Section> = Vec::new();
    let mut in_example = false;
    for line in source.lines().map_while(|l| l.strip_prefix("//!")).map(|l| l.strip_prefix(' ').unwrap_or(l)) {
        if !in_example && line == IMPLEMENTATION {
            break;
        }
        in_example ^= line.starts_with("```");
        match (line.strip_prefix("# ").filter(|_| !in_example), sections.last_mut()) {
            (Some(title), _) => {
                sections.push(Section { file: file.to_path_buf(), title: title.to_string(), body: String::new() });
            }
            (None, Some(section)) => section.body += &format!("{line}\n"),
            (None, None) => (),
        }
    }
    for section in &mut sections {
        section.body = section.body.trim().to_string();
    }
    sections
}

/// The Rust files in `dir` and the directories below, sorted.
pub(super) fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files = Vec::new();
    for path in entries.map(|e| e.expect("an entry").path()) {
        if path.is_dir() {
            files.append(&mut rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

impl Section {
    /// The name of a section whose heading is a name in backticks.
    pub(super) fn name(&self) -> Option<&str> {
        self.title.strip_prefix('`')?.strip_suffix('`')
    }

    /// The section's example, a block of Python.
    pub(super) fn example(&self) -> Option<&str> {
        let (_, rest) = self.body.split_once("```python\n")?;
        rest.split_once("```").map(|(example, _)| example)
    }

    /// The text below the heading, with the headings in it moved `levels` down.
    pub(super) fn text(&self, levels: usize) -> String {
        let mut in_example = false;
        let lines = self.body.lines().map(|line| {
            in_example ^= line.starts_with("```");
            let is_heading = !in_example && line.starts_with('#');
            format!("{}{line}\n", "#".repeat(if is_heading { levels } else { 0 }))
        });
        lines.collect()
    }

    /// Replaces a part of the section in the source file.
    pub(super) fn replace(&self, old: &str, new: &str) {
        let commented =
            |text: &str| text.lines().map(|l| format!("//! {l}").trim_end().to_string() + "\n").collect::<String>();
        let source = read(&self.file);
        let heading = format!("//! # {}\n", self.title);
        let (before, section) = source.split_once(&heading).expect("the section is in its file");
        let changed = section.replacen(&commented(old), &commented(new), 1);
        assert_ne!(section, changed, "{}: `{}` holds the part", self.file.display(), self.title);
        let source = format!("{before}{heading}{changed}");
        std::fs::write(&self.file, source).unwrap_or_else(|e| panic!("{}: {e}", self.file.display()));
    }
}
