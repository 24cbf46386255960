//! Prints programs as text; mirrors `read`, construct for construct.
//!
//! The layout is that of TVM's printer: nested serial loops become a `T.grid` where possible; iteration variables that
//! are bound to plain loops are declared by a `T.axis.remap`; a root block with only allocations is a comment; a name
//! in use gets a number. Nodes that the reader would fold are written by name (`T.Add(i, 0)`), so that
//! `parse(print(m))` equals `m`.

mod attr;
mod control;
mod expr;
mod graph;
mod names;
mod number;
mod signature;
mod stmt;

use super::{Dialect, Spans};
use crate::diagnostic::Span;
use crate::ir::{Func, Module, StmtId, Symbol};
use names::Names;

pub use graph::print_graph_module;

/// The name of an unnamed module.
const DEFAULT_MODULE: &str = "Module";

/// A text with the places of its statements.
#[derive(Clone, Debug)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// The places of the statements, one entry per function.
    pub spans: Vec<Spans>,
}

/// A module as text, with a header that names the imports.
pub fn print_module(module: &Module, dialect: Dialect) -> String {
    module_text(module, dialect, false).text
}

/// A module as text, with the places of its statements.
pub fn print_module_mapped(module: &Module, dialect: Dialect) -> Printed {
    module_text(module, dialect, true)
}

/// A function as text, without header and class.
pub fn print_func(func: &Func, dialect: Dialect) -> String {
    print_func_text(func, dialect, false).text
}

fn print_func_text(func: &Func, dialect: Dialect, mapped: bool) -> Printed {
    let mut p = Printer::new(func, dialect, 0, mapped);
    p.out = type_vars([func], dialect);
    p.func();
    Printed { text: p.out, spans: p.spans.into_iter().collect() }
}

/// `n = TypeVar("n")` for each symbol of the functions that must be defined outside them.
fn type_vars<'f>(funcs: impl IntoIterator<Item = &'f Func>, dialect: Dialect) -> String {
    let mut names: Vec<Symbol> = Vec::new();
    for func in funcs {
        for v in Printer::new(func, dialect, 0, false).type_vars() {
            let name = func.arena.var(v).name;
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.iter().map(|n| format!("{n} = TypeVar(\"{n}\")\n")).collect()
}

fn module_text(module: &Module, dialect: Dialect, mapped: bool) -> Printed {
    let mut text = String::new();
    let type_vars = type_vars(&module.funcs, dialect);
    if !type_vars.is_empty() {
        text.push_str("# from typing import TypeVar\n");
    }
    let tir = match dialect {
        Dialect::Classic => "tir",
        Dialect::Current => "tirx",
    };
    if module.name.is_some() {
        text.push_str("# from tvm.script import ir as I\n");
    }
    text.push_str(&format!("# from tvm.script import {tir} as T\n\n"));
    text.push_str(&type_vars);
    if let Some(name) = module.name {
        text.push_str(&format!("@I.ir_module\nclass {name}:\n"));
        text.push_str(&attr::module_attributes(&module.attributes, dialect));
        if module.funcs.is_empty() {
            text.push_str("    pass\n");
        }
    }
    let mut spans = Vec::new();
    for (i, func) in module.funcs.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        let mut p = Printer::new(func, dialect, usize::from(module.name.is_some()), mapped);
        p.module = module.name.unwrap_or(p.module);
        p.out = text;
        p.func();
        text = p.out;
        spans.extend(p.spans);
    }
    Printed { text, spans }
}

/// The state of printing one function.
struct Printer<'f> {
    func: &'f Func,
    /// The name of the enclosing class, for calls of its functions.
    module: Symbol,
    dialect: Dialect,
    out: String,
    indent: usize,
    names: Names,
    spans: Option<Spans>,
    /// The statement whose own expressions are printed.
    owner: Option<StmtId>,
}

impl<'f> Printer<'f> {
    fn new(func: &'f Func, dialect: Dialect, indent: usize, mapped: bool) -> Self {
        Printer {
            func,
            module: Symbol::new(DEFAULT_MODULE),
            dialect,
            out: String::new(),
            indent,
            names: Names::new(func),
            spans: mapped.then(Spans::default),
            owner: None,
        }
    }

    /// Starts a line.
    fn line(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// The word in the dialect of the output.
    fn word(&self, classic: &'static str, current: &'static str) -> &'static str {
        match self.dialect {
            Dialect::Classic => classic,
            Dialect::Current => current,
        }
    }

    /// The span of the text since `start`.
    fn span_from(&self, start: usize) -> Span {
        Span::new(start, self.out.len())
    }

    /// Prints comma-separated items with `f`.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut f: impl FnMut(&mut Self, T)) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            f(self, item);
        }
    }

    /// `(a, b)`, with the comma that makes a tuple of one.
    fn tuple<T>(&mut self, items: impl IntoIterator<Item = T>, f: impl FnMut(&mut Self, T)) {
        let items: Vec<T> = items.into_iter().collect();
        let n = items.len();
        self.put("(");
        self.list(items, f);
        self.put(if n == 1 { ",)" } else { ")" });
    }

    /// A text literal.
    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                '\t' => self.put("\\t"),
                c if c.is_control() => self.put(&format!("\\u{:04x}", c as u32)),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
