//! TVMScript: the textual form of programs, read and printed.
//!
//! [`parse`] converts a file into an [`ir::Module`](crate::ir::Module) with the places of its statements, or reports
//! all its mistakes at once; [`mod@print`] converts modules back into text. The reader accepts two dialects in any
//! mixture; the printer writes the requested one ([`Dialect`]). docs/ir.md has the grammar.
//!
//! The reader uses [`python`] (a parser of Python of our own), then `read`, which has one function per
//! construct; graph functions have theirs in `read::graph`. `ir::infer_accesses` infers missing `T.reads`/`T.writes` of blocks. `print` mirrors `read`.
//!
//! Invariants: texts are untrusted, so no input panics or overflows the stack; `parse(print(m))` equals `m`, and
//! printing the result gives the same text.

mod check;
mod metadata;
pub(crate) mod print;
pub mod python;
mod read;
mod spans;

pub use check::diagnostic;
pub use print::{Printed, print_func, print_graph_module, print_module, print_module_mapped};
pub use python::MAX_INDENT;
pub use spans::{Spans, StmtSpan};

use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::graph;
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
    /// `T.block`, `T.alloc_buffer`, `tir.noalias`: the dialect of most files.
    Classic,
    /// `T.sblock`, `T.sblock_alloc_buffer`, `tirx.noalias`: the dialect of TVM 0.27.
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

/// The name of the variable for the offset of a buffer that states only an `offset_factor`.
pub(crate) const OWN_OFFSET: &str = "elem_offset";

/// The attribute of a `T.hint`; its node contains the message and further values.
pub(crate) const HINT: &str = "tirx_hint";

/// Options of the reader.
#[derive(Clone, Debug)]
pub struct ParseOptions {
    /// Values of symbolic extents and scalar parameters, by name (`--bind n=1024`). A scalar parameter with a value is
    /// no longer a parameter.
    pub bind: BTreeMap<String, i64>,
    /// Elements of weights by their names, for operators of graphs whose shapes depend on them
    /// ([`op::of_known_elements`](crate::graph::op::of_known_elements)). Others need none.
    pub weights: BTreeMap<String, graph::Constant>,
    /// The verifier's checks; `None` accepts every program that can be represented.
    pub checks: Option<Checks>,
}

impl Default for ParseOptions {
    /// No bindings, no weights, all checks.
    fn default() -> Self {
        ParseOptions { bind: BTreeMap::new(), weights: BTreeMap::new(), checks: Some(Checks::ALL) }
    }
}

/// The contents of a text.
#[derive(Clone)]
pub struct Parsed {
    /// The functions of the text.
    pub module: Module,
    /// The graph functions of the text.
    pub graphs: Vec<graph::Function>,
    /// The dialect of the first word that belongs to only one, or classic; current if there are graphs.
    pub dialect: Dialect,
    /// The places of the statements, one entry per function of the module.
    pub spans: Vec<Spans>,
    /// Valid but suspicious constructs.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a text. `file_name` is only shown in messages.
pub fn parse(source: &str, file_name: &str, options: &ParseOptions) -> Result<Parsed, Diagnostics> {
    read::module(source, options).map_err(|items| Diagnostics::new(Source { name: file_name, text: source }, items))
}

/// Reads a text file: UTF-8, without the byte-order mark. A file that is not text gives a diagnostic; a file that
/// cannot be read gives an I/O error.
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
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
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
