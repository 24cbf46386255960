//! Translates the syntax tree into the IR.
//!
//! This file reads the parts outside functions: imports, constants, the module's class, decorators. [`func`] reads a
//! function, [`stmt`], [`bind`], [`loops`] and [`block`] its statements, [`expr`], [`operator`] and [`call`] its
//! expressions. Each construct has one function. It records a mistake, returns `None`, defines the construct's names as
//! [`Value::Poison`], and reading continues.

mod args;
mod attr;
mod bind;
mod block;
mod buffer;
mod builtin;
mod call;
mod control;
mod dialect;
mod expr;
mod func;
mod function;
mod graph;
mod loops;
mod memory;
mod metadata;
mod object;
mod operator;
mod python_call;
mod refused;
mod scope;
mod stmt;
mod value;
mod vector;

use super::python::{self, Expr, ExprKind, Function, Ident, Stmt, StmtKind};
use super::{Dialect, ParseOptions, Parsed, Spans, check};
use crate::diagnostic::{Diagnostic, Severity, Span, nearest};
use crate::graph::{self as graphs, Constant};
use crate::ir::{Func, Module, ModuleAttrs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use value::{Namespace, Value};

/// The contents of the file outside functions.
struct Reader<'a> {
    text: &'a str,
    options: &'a ParseOptions,
    diagnostics: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Names at module level.
    globals: BTreeMap<&'a str, Value>,
    /// Names at module level whose values are not supported.
    opaque: BTreeSet<&'a str>,
    /// The dialect of the first word that belongs to only one.
    dialect: Option<Dialect>,
    /// The dialect for words with a meaning in both; `None` if the text gives no answer.
    meaning: Option<Dialect>,
    /// The names to which `--bind` may give values.
    symbols: BTreeSet<String>,
    /// The signatures of all functions of the module's class, including later ones.
    functions: BTreeMap<&'a str, Callee<'a>>,
    /// The graph functions of the module's class, including later ones.
    graphs: BTreeMap<&'a str, Arc<Function<'a>>>,
    /// The types of those that others call.
    signatures: graph::subgraph::Signatures<'a>,
    /// The constants of `metadata = tvm.ir.load_json("…")`.
    metadata: Vec<Constant>,
}

/// The signature of a function of the module, for its callers.
#[derive(Clone)]
struct Callee<'a> {
    /// Place of its name.
    name: Span,
    /// Number of its parameters.
    n_params: usize,
    /// Type of its result.
    returns: Option<Expr<'a>>,
}

/// Reads a module, or reports all mistakes in the text.
pub(super) fn module(text: &str, options: &ParseOptions) -> Result<Parsed, Vec<Diagnostic>> {
    let body = python::parse_module(text)?;
    let mut reader = Reader {
        text,
        options,
        diagnostics: Vec::new(),
        warnings: Vec::new(),
        globals: BTreeMap::new(),
        opaque: BTreeSet::new(),
        dialect: None,
        meaning: dialect::Words::of(text, &body).dialect(),
        symbols: BTreeSet::new(),
        functions: BTreeMap::new(),
        graphs: BTreeMap::new(),
        signatures: graph::subgraph::Signatures::default(),
        metadata: Vec::new(),
    };
    // Printed texts have their imports in comments, so the usual names are predefined.
    for (name, ns) in [("tvm", Namespace::Tvm), ("T", Namespace::Tir), ("I", Namespace::Ir), ("R", Namespace::Relax)] {
        reader.globals.insert(name, Value::Namespace(ns));
    }
    let mut found = Found::default();
    for stmt in &body {
        reader.top_level(stmt, &mut found);
    }
    if found.funcs.is_empty() && found.graphs.is_empty() && reader.diagnostics.is_empty() {
        reader.diagnostics.push(
            Diagnostic::error("no-function", "the text defines no function")
                .help("write a function with `@T.prim_func`, alone or in a class with `@I.ir_module`"),
        );
    }
    reader.check_binds();
    if let (true, Some(checks)) = (reader.diagnostics.is_empty(), options.checks) {
        for (func, spans) in &found.funcs {
            let (errors, warnings): (Vec<_>, Vec<_>) =
                check::check(func, spans, checks).into_iter().partition(|d| d.severity == Severity::Error);
            reader.diagnostics.extend(errors);
            reader.warnings.extend(warnings);
        }
    }
    if !reader.diagnostics.is_empty() {
        return Err(reader.diagnostics);
    }
    let (funcs, spans) = found.funcs.into_iter().unzip();
    // Graphs are printed in one form only, that of the current dialect, and so is what stands beside them.
    let dialect = match found.graphs[..] {
        [] => reader.dialect.or(reader.meaning).unwrap_or(Dialect::Classic),
        [..] => Dialect::Current,
    };
    Ok(Parsed {
        module: Module { name: found.class.map(|c| c.name.into()), attributes: Arc::new(found.attributes), funcs },
        graphs: found.graphs,
        dialect,
        spans,
        warnings: reader.warnings,
    })
}

/// The contents found so far.
#[derive(Default)]
struct Found<'a> {
    class: Option<Ident<'a>>,
    attributes: ModuleAttrs,
    funcs: Vec<(Func, Spans)>,
    graphs: Vec<graphs::Function>,
    names: BTreeMap<&'a str, Span>,
}

/// The attributes in a function's decorators.
#[derive(Default, Clone, Copy)]
struct PrimFunc {
    private: bool,
    s_tir: bool,
}

/// The kind of a function, by its decorators.
enum Kind {
    PrimFunc(PrimFunc),
    Graph { private: bool },
}

impl<'a> Reader<'a> {
    fn error(&mut self, d: Diagnostic) {
        self.diagnostics.push(d);
    }

    /// Records a word of a dialect; the first such word decides.
    fn vote(&mut self, dialect: Dialect) {
        self.dialect.get_or_insert(dialect);
    }

    /// A statement outside classes and functions. Statements without relation to programs are skipped.
    fn top_level(&mut self, stmt: &Stmt<'a>, found: &mut Found<'a>) {
        match &stmt.kind {
            StmtKind::Import(names) => {
                for (path, alias) in names {
                    match alias {
                        Some(alias) => self.define_module(alias.name, path.name),
                        None => {
                            let root = path.name.split('.').next().unwrap_or(path.name);
                            self.define_module(root, root);
                        }
                    }
                }
            }
            StmtKind::ImportFrom(module, names) => {
                let module = module.map_or("", |m| m.name);
                for (name, alias) in names {
                    let alias = alias.unwrap_or(*name).name;
                    // A decorator may be imported by itself; it is recognised by its name.
                    if !matches!(name.name, "ir_module" | "prim_func" | "*") {
                        self.define_module(alias, &format!("{module}.{}", name.name));
                    }
                    if module == "tvm.script" {
                        match name.name {
                            "tirx" => self.vote(Dialect::Current),
                            "tir" => self.vote(Dialect::Classic),
                            _ => {}
                        }
                    }
                }
            }
            StmtKind::Assign(targets, value) => {
                if let Some(text) = metadata::text(targets, value) {
                    self.metadata(text, value.span);
                    return;
                }
                let value = self.constant(value);
                for target in targets {
                    self.define_constant(target, value.clone());
                }
            }
            StmtKind::AnnAssign(target, _, Some(value)) => {
                let value = self.constant(value);
                self.define_constant(target, value);
            }
            StmtKind::Class(class) => {
                if !self.is_ir_module(&class.decorators, class.name) {
                    return;
                }
                if let Some(first) = found.class {
                    self.error(
                        Diagnostic::error_at("several-modules", class.name.span, "the text defines a second module")
                            .label(first.span, "the first one is here")
                            .help("put all functions into one class"),
                    );
                }
                found.class = Some(class.name);
                self.declare_functions(class);
                for member in &class.body {
                    self.class_member(member, found);
                }
            }
            StmtKind::Function(function)
                // A plain function, such as a schedule, is not a program.
                if !function.decorators.is_empty() => {
                    self.function_definition(function, found);
                }
            _ => {}
        }
    }

    fn define_module(&mut self, name: &'a str, path: &str) {
        self.opaque.remove(name);
        self.globals.insert(name, Value::Namespace(Namespace::of_path(path)));
    }

    fn define_constant(&mut self, target: &Expr<'a>, value: Option<Value>) {
        match (&target.kind, value) {
            (&ExprKind::Name(name), Some(value)) => {
                self.opaque.remove(name);
                self.globals.insert(name, value);
            }
            (&ExprKind::Name(name), None) => {
                self.globals.remove(name);
                self.opaque.insert(name);
            }
            (ExprKind::Tuple(targets) | ExprKind::List(targets), Some(Value::Seq(values)))
                if targets.len() == values.len() =>
            {
                for (t, v) in targets.iter().zip(values) {
                    self.define_constant(t, Some(v));
                }
            }
            (ExprKind::Tuple(targets) | ExprKind::List(targets), _) => {
                for t in targets {
                    self.define_constant(t, None);
                }
            }
            _ => {}
        }
    }

    /// A constant at module level: numbers, texts, lists, and operators on them.
    fn constant(&mut self, e: &Expr<'a>) -> Option<Value> {
        if let ExprKind::Call(call) = &e.kind
            && matches!(call.callee.kind, ExprKind::Name("TypeVar"))
        {
            return Some(Value::TypeVar);
        }
        let (n_errors, n_warnings) = (self.diagnostics.len(), self.warnings.len());
        let value = func::FuncReader::new(self, "").eval(e);
        // An unsupported value is an error only if a function uses it.
        self.diagnostics.truncate(n_errors);
        self.warnings.truncate(n_warnings);
        value.filter(is_portable)
    }

    /// Whether this is the class of a module. A class with other decorators, or none, is skipped.
    fn is_ir_module(&mut self, decorators: &[Expr<'a>], name: Ident<'a>) -> bool {
        for d in decorators {
            let callee = match &d.kind {
                ExprKind::Call(call) => &call.callee,
                _ => d,
            };
            match self.dotted(callee) {
                Some((Some(Namespace::Ir | Namespace::Script), member)) if member.name == "ir_module" => return true,
                Some((None, member)) if member.name == "ir_module" => return true,
                Some((Some(Namespace::Ir | Namespace::Script | Namespace::Tir), member)) => {
                    let nearest = nearest(member.name, ["ir_module"]);
                    self.error(
                        Diagnostic::error_at(
                            "unknown-decorator",
                            member.span,
                            format!("unknown decorator `{}`", member.name),
                        )
                        .help(nearest.map_or("modules have `@I.ir_module`".into(), |n| format!("did you mean `{n}`?"))),
                    );
                    return false;
                }
                _ => {}
            }
        }
        if decorators.is_empty() {
            let d = Diagnostic::error_at("no-decorator", name.span, format!("class `{}` has no decorator", name.name));
            self.error(d.help("write `@I.ir_module` before it"));
        }
        false
    }

    /// A path of names: the module before the last name, and that name.
    fn dotted(&self, e: &Expr<'a>) -> Option<(Option<Namespace>, Ident<'a>)> {
        match &e.kind {
            ExprKind::Name(name) => Some((None, Ident { name, span: e.span })),
            ExprKind::Attribute(value, attr) => Some((Some(self.namespace(value)?), *attr)),
            _ => None,
        }
    }

    /// The module named by an expression outside functions.
    fn namespace(&self, e: &Expr<'a>) -> Option<Namespace> {
        match &e.kind {
            ExprKind::Name(name) => match self.globals.get(name) {
                Some(Value::Namespace(ns)) => Some(*ns),
                _ => None,
            },
            ExprKind::Attribute(value, attr) => self.namespace(value)?.member(attr.name),
            _ => None,
        }
    }

    fn class_member(&mut self, member: &Stmt<'a>, found: &mut Found<'a>) {
        match &member.kind {
            StmtKind::Function(function) => self.function_definition(function, found),
            StmtKind::Pass => {}
            StmtKind::Expr(Expr { kind: ExprKind::Str(_), .. }) => {}
            StmtKind::Expr(Expr { kind: ExprKind::Call(call), .. }) => match self.dotted(&call.callee) {
                Some((Some(Namespace::Ir), name)) if matches!(name.name, "module_attrs" | "module_global_infos") => {
                    let attributes = std::mem::take(&mut found.attributes);
                    found.attributes = func::FuncReader::new(self, "").module_attributes(name, call, attributes);
                }
                _ => self.unexpected_member(member.span),
            },
            _ => self.unexpected_member(member.span),
        }
    }

    /// Declares the functions of the module's class to each other, under the name of the class and under `cls`.
    fn declare_functions(&mut self, class: &python::Class<'a>) {
        for member in &class.body {
            let StmtKind::Function(f) = &member.kind else { continue };
            let is_graph = |d: &Expr<'a>| {
                let callee = if let ExprKind::Call(call) = &d.kind { &call.callee } else { d };
                matches!(self.dotted(callee), Some((Some(Namespace::Relax), name)) if name.name == "function")
            };
            if f.decorators.iter().any(is_graph) {
                self.graphs.insert(f.name.name, Arc::new(Function::clone(f)));
            }
            let returns = f.returns.clone().filter(|e| !is_void(e));
            self.functions.insert(f.name.name, Callee { name: f.name.span, n_params: f.params.len(), returns });
        }
        for name in [class.name.name, "cls"] {
            self.opaque.remove(name);
            self.globals.insert(name, Value::Namespace(Namespace::Module));
        }
    }

    fn unexpected_member(&mut self, span: Span) {
        self.error(
            Diagnostic::error_at("unsupported", span, "expected a function in the module's class")
                .help("move constants in front of the class"),
        );
    }

    fn function_definition(&mut self, function: &Function<'a>, found: &mut Found<'a>) {
        let Some(kind) = self.decorators(function) else { return };
        let name = function.name;
        if let Some(&first) = found.names.get(name.name) {
            let d =
                Diagnostic::error_at("duplicate-name", name.span, format!("function `{}` is defined twice", name.name));
            self.error(d.label(first, "first defined here"));
        }
        found.names.insert(name.name, name.span);
        match kind {
            Kind::PrimFunc(kind) => found.funcs.extend(func::function(self, function, kind)),
            Kind::Graph { private } => found.graphs.extend(graph::read(self, function, private)),
        }
    }

    /// Reads the decorators; `None` if the function is skipped.
    fn decorators(&mut self, function: &Function<'a>) -> Option<Kind> {
        let name = function.name;
        for d in &function.decorators {
            let (callee, call) = match &d.kind {
                ExprKind::Call(call) => (&call.callee, Some(call)),
                _ => (d, None),
            };
            let Some((ns, member)) = self.dotted(callee) else { continue };
            match (ns, member.name) {
                (Some(Namespace::Tir) | None, "prim_func") => {
                    let mut kind = PrimFunc::default();
                    for (key, value) in call.iter().flat_map(|c| &c.keywords) {
                        let Some(key) = key else { continue };
                        match (key.name, &value.kind) {
                            ("private", ExprKind::Bool(b)) => kind.private = *b,
                            ("s_tir", ExprKind::Bool(b)) => {
                                self.vote(Dialect::Current);
                                kind.s_tir = *b;
                            }
                            ("private" | "s_tir", _) => self.error(Diagnostic::error_at(
                                "wrong-argument",
                                value.span,
                                format!("expected `True` or `False` for `{}`", key.name),
                            )),
                            ("check_well_formed" | "persistent" | "tirx", _) => {}
                            _ => {
                                let near = nearest(key.name, ["private", "s_tir", "check_well_formed"]);
                                self.error(
                                    Diagnostic::error_at(
                                        "unknown-keyword",
                                        key.span,
                                        format!("`prim_func` has no argument `{}`", key.name),
                                    )
                                    .maybe_help(near.map(|n| format!("did you mean `{n}`?"))),
                                );
                            }
                        }
                    }
                    return Some(Kind::PrimFunc(kind));
                }
                (Some(Namespace::Relax), "function") => {
                    let keywords = call.iter().flat_map(|c| &c.keywords);
                    let is_private = |key: &Option<Ident<'a>>| key.is_some_and(|k| k.name == "private");
                    let mut values = keywords.filter(|(key, _)| is_private(key)).map(|(_, value)| &value.kind);
                    let private = values.any(|value| *value == ExprKind::Bool(true));
                    return Some(Kind::Graph { private });
                }
                (Some(Namespace::Tir | Namespace::Relax | Namespace::Ir), _) => {
                    let near = nearest(member.name, ["prim_func", "function"]);
                    self.error(
                        Diagnostic::error_at(
                            "unknown-decorator",
                            member.span,
                            format!("unknown decorator `{}`", member.name),
                        )
                        .help(near.map_or("functions have `@T.prim_func`".into(), |n| format!("did you mean `{n}`?"))),
                    );
                    return None;
                }
                _ => {}
            }
        }
        if function.decorators.is_empty() {
            let message = format!("function `{}` has no decorator", name.name);
            self.error(Diagnostic::error_at("no-decorator", name.span, message).help("write `@T.prim_func` before it"));
        }
        None
    }

    /// Reports names of `--bind` that do not occur.
    fn check_binds(&mut self) {
        if self.diagnostics.is_empty() {
            let known: Vec<&str> = self.symbols.iter().map(String::as_str).collect();
            for name in self.options.bind.keys().filter(|n| !self.symbols.contains(*n)) {
                let d =
                    Diagnostic::error("unknown-bind", format!("no function has a symbolic extent or scalar `{name}`"));
                let what_there_is = match known[..] {
                    [] => "there is none".to_string(),
                    [one] => format!("there is `{one}`"),
                    _ => format!("there are `{}`", known.join("`, `")),
                };
                self.diagnostics
                    .push(d.help(format!("leave out `--bind {name}=…`, or correct the name: {what_there_is}")));
            }
        }
    }
}

/// Whether the type of a result means that there is no value.
fn is_void(returns: &Expr<'_>) -> bool {
    match &returns.kind {
        ExprKind::None => true,
        ExprKind::Attribute(_, attr) => attr.name == "void",
        _ => false,
    }
}

/// Whether the value has the same meaning in every function.
fn is_portable(value: &Value) -> bool {
    match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Str(_) | Value::None | Value::Type(_) => true,
        Value::TypeVar | Value::Namespace(_) => true,
        Value::Seq(items) => items.iter().all(is_portable),
        Value::Dict(items) => items.iter().all(|(_, v)| is_portable(v)),
        Value::Target(target) => is_portable(target),
        Value::Object(_, items) => items.iter().all(is_portable),
        Value::IndexMap(..)
        | Value::Expr(_)
        | Value::Buffer(_)
        | Value::Scalar(_)
        | Value::Memory(_)
        | Value::Fresh(_)
        | Value::FreshPointer(_)
        | Value::Poison => false,
    }
}
