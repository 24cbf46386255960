//! TVMScript: the textual form of programs, read and printed.
//!
//! [`parse`] turns a file into an [`ir::Module`](crate::ir::Module) with the places of its statements, or into all
//! its mistakes at once; [`mod@print`] turns modules back into text. Two dialects are read, mixed freely, and printed as
//! asked for ([`Dialect`]); docs/ir.md is the grammar.
//!
//! Reading goes through [`python`] (the only file that knows the Python parser), then through `read`, one function per
//! construct. Blocks without `T.reads`/`T.writes` get them from `complete`. `print` mirrors `read`.
//!
//! Invariants: text is untrusted, no input panics or overflows the stack; `parse(print(m))` equals `m`, and printing
//! that again gives the same text.

mod check;
mod complete;
mod difference;
pub(crate) mod print;
pub(crate) mod python;
mod read;
mod spans;

pub use check::diagnostic;
pub use print::{Printed, print_func, print_module, print_module_mapped};
pub use python::MAX_INDENT;
pub use spans::{Spans, StmtSpan};

use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::ir::Module;
use crate::ir::verify::Checks;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// The two spellings of TVMScript.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// `T.block`, `T.alloc_buffer`, `tir.noalias`: what most files use.
    Classic,
    /// `T.sblock`, `T.sblock_alloc_buffer`, `tirx.noalias`: TVM 0.27.
    #[default]
    Current,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Classic => "classic",
            Dialect::Current => "current",
        })
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "classic" => Ok(Dialect::Classic),
            "current" => Ok(Dialect::Current),
            _ => Err(format!("expected `classic` or `current`, found `{s}`")),
        }
    }
}

/// The name of the variable that stands for the offset of a buffer with an `offset_factor` alone.
pub(crate) const OWN_OFFSET: &str = "elem_offset";

/// The attribute that `T.hint` is; its node holds the message and further values.
pub(crate) const HINT: &str = "tirx_hint";

/// How to read a text.
#[derive(Clone, Debug)]
pub struct ParseOptions {
    /// Values for symbolic extents and scalar parameters, by name (`--bind n=1024`). A scalar parameter that is
    /// given a value is no parameter any more.
    pub bind: BTreeMap<String, i64>,
    /// What the verifier checks; `None` takes what can be represented, whether it makes sense or not.
    pub checks: Option<Checks>,
}

impl Default for ParseOptions {
    /// Nothing is bound, everything is checked.
    fn default() -> Self {
        ParseOptions { bind: BTreeMap::new(), checks: Some(Checks::ALL) }
    }
}

/// What a text says.
#[derive(Clone)]
pub struct Parsed {
    /// Its functions.
    pub module: Module,
    /// The spelling it uses: that of the first word that tells them apart, classic where none does.
    pub dialect: Dialect,
    /// The places of the statements, one entry per function of the module.
    pub spans: Vec<Spans>,
    /// What is allowed but looks wrong.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a text. `file_name` is only shown in messages.
pub fn parse(source: &str, file_name: &str, options: &ParseOptions) -> Result<Parsed, Diagnostics> {
    read::module(source, options).map_err(|items| Diagnostics::new(Source { name: file_name, text: source }, items))
}

/// The text of a file: its bytes as UTF-8, without a byte-order mark. A file that is no text is a diagnostic, one
/// that can't be read at all an error of the system.
pub fn read_file(path: &Path) -> io::Result<Result<String, Diagnostics>> {
    let bytes = std::fs::read(path)?;
    Ok(text_of(bytes).map_err(|d| Diagnostics::new(Source { name: &path.to_string_lossy(), text: "" }, vec![d])))
}

fn text_of(bytes: Vec<u8>) -> Result<String, Diagnostic> {
    let text = String::from_utf8(bytes).map_err(|e| {
        let (valid, rest) = e.as_bytes().split_at(e.utf8_error().valid_up_to());
        let line = valid.iter().filter(|&&b| b == b'\n').count() + 1;
        let byte = rest.first().copied().unwrap_or(0);
        Diagnostic::error("encoding", format!("the file is not UTF-8: byte 0x{byte:02x} in line {line}"))
            .help("save the file as UTF-8 text")
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workloads() -> Vec<(String, String)> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
        let entries = std::fs::read_dir(dir).expect("the repository has workloads");
        let mut all: Vec<(String, String)> = entries
            .map(|e| e.expect("a directory entry").path())
            .filter(|path| path.extension().is_some_and(|e| e == "tir"))
            .map(|path| {
                let text = read_file(&path).expect("readable").expect("text");
                (path.display().to_string(), text)
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn workloads_read_and_print_to_a_fixed_point() {
        for (name, text) in workloads() {
            let parsed = parse(&text, &name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(parsed.dialect, Dialect::Classic, "{name}");
            for dialect in [Dialect::Classic, Dialect::Current] {
                let first = print_module(&parsed.module, dialect);
                let again = parse(&first, &name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(again.dialect, dialect, "{name}");
                assert_eq!(print_module(&again.module, dialect), first, "{name}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_a_diagnostic() {
        let wrong = text_of(b"a\nb\xff".to_vec()).expect_err("no UTF-8");
        assert_eq!(wrong.message, "the file is not UTF-8: byte 0xff in line 2");
        assert_eq!(text_of(b"\xef\xbb\xbfx".to_vec()).expect("text"), "x");
    }
}
