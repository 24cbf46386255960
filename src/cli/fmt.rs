//! `tvmr fmt`: reprints files in canonical form.
//!
//! The program is parsed and printed, which loses everything that is not part of it: comments (except those at the top
//! of the file), docstrings, and statements outside functions. A file that would lose something is only replaced with
//! `--force`.

use super::Done;
use super::args::{DialectArg, Global, Inputs};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Content, Program};
use super::model_inputs::ModelInputs;
use super::output;
use crate::script::python::{self, Expr, ExprKind, Stmt, StmtKind};
use crate::te_function::WorkloadChoice;
use std::path::Path;

/// Reprint programs in canonical form
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::FMT)]
pub(super) struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// Dialect to print in; that of the file if left out
    #[arg(long, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectArg>,
    /// Replace the files instead of printing to standard output
    #[arg(short, long, conflicts_with = "check")]
    write: bool,
    /// With --write: replace files even if comments, docstrings or statements outside functions are lost
    #[arg(long, requires = "write")]
    force: bool,
    /// Print nothing; fail if a file is not in canonical form
    #[arg(long)]
    check: bool,
}

pub(super) fn run(args: &Args, _global: &Global, console: Console) -> Done {
    if args.inputs.files.len() > 1 && !args.write && !args.check {
        let help = "replace them with `--write`, or compare them with `--check`".to_string();
        return Err(Failure::Usage("several programs cannot be printed to standard output".to_string(), help));
    }
    load::each(&args.inputs.files, console, |file| one(args, file, console))
}

fn one(args: &Args, file: &Path, console: Console) -> Done {
    if crate::onnx::is_model(file) {
        let message = format!("`{}` is an ONNX model, and `fmt` formats TVMScript", file.display());
        let help = "`tvmr import` writes it as text".to_owned();
        return Err(Failure::Usage(message, help));
    }
    let text = load::text(file)?;
    if crate::te_function::is_te_text(&text) {
        let message = format!("`{}` defines tensors in Python, and `fmt` formats TVMScript", file.display());
        let help = "`tvmr emit --stage tir` prints the program that it defines".to_owned();
        return Err(Failure::Usage(message, help));
    }
    let (content, wanted) = (Content::Text(text), WorkloadChoice::default());
    let inputs = ModelInputs::new(&args.inputs.shape, &[]);
    let program = Program::parse(file, &args.inputs.bind, content, wanted, None, &inputs, console)?;
    let program = super::shapes::shaped(program, &args.inputs.shape)?;
    let (name, source) = (&program.name, &program.text);
    let formatted = reprinted(&program, args.dialect);
    if args.check {
        return match *source == formatted {
            true => Ok(()),
            false => Err(Failure::Negative(format!("`{name}` is not in canonical form"))),
        };
    }
    let lost = lost(source);
    if !args.write || file.as_os_str() == "-" {
        if !lost.is_empty() {
            console.warn(&format!("not kept: {}", in_words(&lost)));
        }
        return console.result(&formatted);
    }
    if *source == formatted {
        return Ok(());
    }
    if !lost.is_empty() && !args.force {
        let help = "print to standard output and copy what you need, or discard them with `--force`".to_string();
        return Err(Failure::Usage(format!("reformatting `{name}` would lose {}", in_words(&lost)), help));
    }
    output::write_file(file, formatted.as_bytes())?;
    console.note(&format!("{name}: reformatted"));
    Ok(())
}

/// The printed program under the leading comments of its file. Imports stay comments or statements, as they are.
fn reprinted(program: &Program, dialect: Option<DialectArg>) -> String {
    let comments: String = leading_comments(&program.text).filter(|l| !is_printed(l)).collect();
    let printed = program.print(program.dialect(dialect));
    let imports = python::parse_module(&program.text).is_ok_and(|stmts| stmts.iter().any(is_import));
    let mut text = comments;
    let mut in_head = imports;
    for line in printed.split_inclusive('\n') {
        match line.strip_prefix("# ").filter(|l| in_head && (l.starts_with("from ") || l.starts_with("import "))) {
            Some(import) => text.push_str(import),
            None => {
                in_head = false;
                text.push_str(line);
            }
        }
    }
    text
}

/// The comment lines at the top of a file.
fn leading_comments(source: &str) -> impl Iterator<Item = &str> {
    source.split_inclusive('\n').take_while(|l| l.trim_start().starts_with('#'))
}

/// Whether the printer writes this comment by itself.
fn is_printed(comment: &str) -> bool {
    let heads = ["# from tvm", "# import tvm", "# from typing", "# with T."];
    heads.iter().any(|head| comment.trim_start().starts_with(head))
}

/// Whether a statement imports something that printed programs use.
fn is_import(stmt: &Stmt<'_>) -> bool {
    let is_ours = |module: &str| matches!(module.split('.').next(), Some("tvm" | "typing"));
    match &stmt.kind {
        StmtKind::Import(names) => names.iter().all(|(module, _)| is_ours(module.name)),
        StmtKind::ImportFrom(module, _) => module.is_some_and(|m| is_ours(m.name)),
        _ => false,
    }
}

/// A kind of text that reprinting loses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Comment,
    Docstring,
    /// A statement outside functions.
    Statement,
}

impl Part {
    fn noun(self, n: usize) -> &'static str {
        match (self, n) {
            (Part::Comment, 1) => "comment",
            (Part::Comment, _) => "comments",
            (Part::Docstring, 1) => "docstring",
            (Part::Docstring, _) => "docstrings",
            (Part::Statement, 1) => "statement outside functions",
            (Part::Statement, _) => "statements outside functions",
        }
    }
}

/// Everything that reprinting a text loses, by line number from 1.
fn lost(source: &str) -> Vec<(Part, usize)> {
    let breaks: Vec<usize> = source.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect();
    let line = |at: usize| breaks.partition_point(|&i| i < at) + 1;
    let head: usize = leading_comments(source).map(str::len).sum();
    let comments = python::comments(source).into_iter().filter(|c| c.range().start >= head);
    let comments = comments.filter(|c| !is_printed(&source[c.range()]));
    let mut lost: Vec<(Part, usize)> = comments.map(|c| (Part::Comment, line(c.range().start))).collect();
    // The text has been parsed already, so this cannot fail.
    let stmts = python::parse_module(source).unwrap_or_default();
    add_lost(&stmts, false, &mut |part, stmt| lost.push((part, line(stmt.span.range().start))));
    lost
}

fn add_lost<'s, 'a>(body: &'s [Stmt<'a>], in_function: bool, add: &mut impl FnMut(Part, &'s Stmt<'a>)) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Expr(Expr { kind: ExprKind::Str(_), .. }) => add(Part::Docstring, stmt),
            _ if in_function => {}
            StmtKind::Function(f) => add_lost(&f.body, true, add),
            StmtKind::Class(c) => add_lost(&c.body, false, add),
            StmtKind::Pass => {}
            _ if is_import(stmt) || is_type_variable(stmt) || is_module_attribute(stmt) => {}
            _ => add(Part::Statement, stmt),
        }
    }
}

/// Whether a statement is `n = TypeVar("n")`, which the printer writes for extents of `int64`.
fn is_type_variable(stmt: &Stmt<'_>) -> bool {
    let StmtKind::Assign(_, Expr { kind: ExprKind::Call(call), .. }) = &stmt.kind else { return false };
    matches!(call.callee.kind, ExprKind::Name("TypeVar"))
}

/// Whether a statement is `I.module_attrs({…})` or `I.module_global_infos({…})`.
fn is_module_attribute(stmt: &Stmt<'_>) -> bool {
    let StmtKind::Expr(Expr { kind: ExprKind::Call(call), .. }) = &stmt.kind else { return false };
    match &call.callee.kind {
        ExprKind::Attribute(_, name) => matches!(name.name, "module_attrs" | "module_global_infos"),
        _ => false,
    }
}

/// `2 comments (lines 3, 7) and 1 docstring (line 5)`
fn in_words(lost: &[(Part, usize)]) -> String {
    let parts = [Part::Comment, Part::Docstring, Part::Statement].into_iter().filter_map(|part| {
        let lines: Vec<String> = lost.iter().filter(|l| l.0 == part).map(|l| l.1.to_string()).collect();
        let (s, n) = (if lines.len() == 1 { "" } else { "s" }, lines.len());
        (n > 0).then(|| format!("{n} {} (line{s} {})", part.noun(n), lines.join(", ")))
    });
    let parts: Vec<String> = parts.collect();
    match parts.split_last() {
        Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
        _ => parts.concat(),
    }
}
