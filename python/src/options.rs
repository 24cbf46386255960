//! Options that `tune` and `compile` share.

use super::errors;
use pyo3::prelude::*;
use std::path::PathBuf;
use tvmr::machine::Isa;
use tvmr::request::models::Source;
use tvmr::request::program::{self, Content};
use tvmr::request::setting::{Threads, Wanted};

/// A program and what is known of its inputs, as `tvmr._program.source` says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SourceArgs {
    name: String,
    text: Option<String>,
    bind: Vec<(String, i64)>,
    shapes: Vec<(String, Vec<i64>)>,
    constants: Vec<(String, String)>,
    func: Option<String>,
    args: Option<String>,
    weights: Option<PathBuf>,
    library: Vec<PathBuf>,
}

impl SourceArgs {
    /// The source, with the content of its file.
    ///
    /// # Errors
    /// `InputError`: the file cannot be read.
    pub(crate) fn read(self, py: Python<'_>) -> PyResult<Source> {
        let SourceArgs { name, text, bind, shapes, constants, func, args, weights, library } = self;
        let content = match text {
            Some(text) => Content::Text(text),
            None => py.detach(|| program::content(name.as_ref())).map_err(|e| errors::of_request(py, &e))?,
        };
        Ok(Source { name, content, bind, shapes, constants, func, args, weights, library })
    }
}

/// The setting that options ask for; `None` means all threads.
///
/// # Errors
/// `InputError`: an option is out of range.
pub(crate) fn wanted(
    py: Python<'_>,
    threads: Option<usize>,
    isa: Option<&str>,
    strict_fp: bool,
    check: bool,
) -> PyResult<Wanted> {
    let isa = isa.map(str::parse).transpose().map_err(|_| {
        let known: Vec<&str> = Isa::ALL.iter().map(|i| i.name()).collect();
        let help = format!("name one of `{}`", known.join("`, `"));
        errors::input(py, format!("there is no such instruction set\n  help: {help}"))
    })?;
    let threads = positive(py, "threads", threads)?.map_or(Threads::All, Threads::Count);
    Ok(Wanted { threads, isa, strict_fp, check })
}

/// A number of threads.
///
/// # Errors
/// `InputError`: it is not from 1 to 1024.
pub(crate) fn positive(py: Python<'_>, what: &str, n: Option<usize>) -> PyResult<Option<usize>> {
    match n {
        Some(n) if !(1..=1024).contains(&n) => {
            Err(errors::input(py, format!("`{what}` is {n}, which is not from 1 to 1024")))
        }
        _ => Ok(n),
    }
}
