//! Determines which of TVM's two dialects a text uses.
//!
//! Most words belong to one dialect, and have the same meaning in a text of either. A few exist in both with different
//! meanings: `x: T.float32 = e` and `x = e` name a value in the classic dialect and make a mutable variable in the
//! current one; `T.alloc_buffer` allocates in the enclosing block or in place. Their meaning is determined by the other
//! words of the text, before anything is read. If these give no answer or contradict each other, constructs that would
//! give different results are refused.

use crate::script::Dialect;
use crate::script::python::{Branch, Expr, ExprKind, Stmt, StmtKind};

/// The dialects to which the words of a text belong.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Words {
    classic: bool,
    current: bool,
}

/// Members of `T` that only the classic dialect has.
const CLASSIC: &[&str] = &["LetStmt", "allocate", "allocate_const", "block", "block_attr", "buffer_decl", "ret"];

/// Members of `T`, and methods, that only the current dialect has.
const CURRENT: &[&str] = &[
    "Bind",
    "Break",
    "Continue",
    "Return",
    "alloc_local",
    "alloc_scalar",
    "alloc_shared",
    "bf16",
    "bind",
    "decl_scalar",
    "f16",
    "f32",
    "f64",
    "hint",
    "i16",
    "i32",
    "i64",
    "i8",
    "local_scalar",
    "sblock",
    "sblock_alloc_buffer",
    "sblock_attr",
    "shared_scalar",
    "smem",
    "u16",
    "u32",
    "u64",
    "u8",
    "view",
];

impl Words {
    /// Searches a text and its syntax tree. If no word belongs to one dialect only, the imports in comments decide,
    /// which printed programs have.
    pub(super) fn of(text: &str, body: &[Stmt<'_>]) -> Words {
        let mut words = Words::default();
        words.stmts(body);
        if words == Words::default() {
            let imports =
                |module: &str| text.lines().any(|l| l.starts_with(&format!("# from tvm.script import {module} ")));
            words = Words { classic: imports("tir"), current: imports("tirx") };
        }
        words
    }

    /// The dialect, if all words agree.
    pub(super) fn dialect(self) -> Option<Dialect> {
        match (self.classic, self.current) {
            (true, false) => Some(Dialect::Classic),
            (false, true) => Some(Dialect::Current),
            _ => None,
        }
    }

    fn stmts(&mut self, body: &[Stmt<'_>]) {
        body.iter().for_each(|s| self.stmt(s));
    }

    fn exprs<'e, 'a: 'e>(&mut self, items: impl IntoIterator<Item = &'e Expr<'a>>) {
        items.into_iter().for_each(|e| self.expr(e));
    }

    fn stmt(&mut self, stmt: &Stmt<'_>) {
        match &stmt.kind {
            StmtKind::Function(f) => {
                for d in &f.decorators {
                    if let ExprKind::Call(call) = &d.kind {
                        self.current |= call.keywords.iter().any(|k| k.0.is_some_and(|k| k.name == "s_tir"));
                    }
                }
                self.exprs(f.params.iter().filter_map(|p| p.annotation.as_ref()));
                self.stmts(&f.body);
            }
            StmtKind::Class(c) => self.stmts(&c.body),
            StmtKind::Assign(targets, value) => {
                self.exprs(targets);
                self.expr(value);
            }
            StmtKind::AugAssign(target, _, value) => self.exprs([target, value]),
            StmtKind::AnnAssign(_, annotation, value) => {
                self.current |= value.is_none() || is_let(annotation);
                self.expr(annotation);
                self.exprs(value);
            }
            StmtKind::For(f) => {
                self.expr(&f.iter);
                self.stmts(&f.body);
            }
            StmtKind::While(w) => {
                self.expr(&w.test);
                self.stmts(&w.body);
            }
            StmtKind::If(branches) => {
                for Branch { test, body, .. } in branches {
                    self.exprs(test);
                    self.stmts(body);
                }
            }
            StmtKind::With(items, body) => {
                for (context, target) in items {
                    // `with T.let(x, value):` is classic.
                    self.classic |= matches!(&context.kind, ExprKind::Call(call) if is_let(&call.callee));
                    self.expr(context);
                    self.exprs(target);
                }
                self.stmts(body);
            }
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::Return(e) => self.exprs(e),
            StmtKind::Assert(test, message) => {
                self.expr(test);
                self.exprs(message);
            }
            StmtKind::ImportFrom(Some(module), names) if module.name == "tvm.script" => {
                self.classic |= names.iter().any(|n| n.0.name == "tir");
                self.current |= names.iter().any(|n| n.0.name == "tirx");
            }
            StmtKind::Import(_)
            | StmtKind::ImportFrom(..)
            | StmtKind::Pass
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Other(_) => {}
        }
    }

    fn expr(&mut self, e: &Expr<'_>) {
        match &e.kind {
            ExprKind::Attribute(owner, attr) => {
                self.classic |= CLASSIC.contains(&attr.name);
                self.current |= CURRENT.contains(&attr.name);
                self.expr(owner);
            }
            ExprKind::Call(call) => {
                self.expr(&call.callee);
                self.exprs(&call.args);
                self.current |= call.keywords.iter().any(|k| k.0.is_some_and(|k| k.name == "layout"));
                self.exprs(call.keywords.iter().map(|k| &k.1));
            }
            ExprKind::Subscript(owner, index) => {
                self.classic |= matches!(&owner.kind, ExprKind::Attribute(_, attr) if attr.name == "Buffer");
                self.exprs([&**owner, &**index]);
            }
            ExprKind::Dict(items) => {
                for (key, value) in items {
                    if let Some(Expr { kind: ExprKind::Str(key), .. }) = key {
                        self.classic |= key.starts_with("tir.");
                        self.current |= key.starts_with("tirx.");
                    }
                    self.expr(value);
                }
            }
            ExprKind::Tuple(items) | ExprKind::List(items) | ExprKind::Logical(_, items) | ExprKind::Format(items) => {
                self.exprs(items);
            }
            ExprKind::Slice(s) => self.exprs([&s.lower, &s.upper, &s.step].into_iter().flatten()),
            ExprKind::Unary(_, a) | ExprKind::Starred(a) => self.expr(a),
            ExprKind::Lambda(l) => self.expr(&l.body),
            ExprKind::Binary(_, a, b) => self.exprs([&**a, &**b]),
            ExprKind::Compare(first, rest) => {
                self.expr(first);
                self.exprs(rest.iter().map(|r| &r.1));
            }
            ExprKind::Conditional(c) => self.exprs([&c.test, &c.then, &c.otherwise]),
            ExprKind::ListComp(c) => self.expr(&c.element),
            ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Other(_) => {}
        }
    }
}

/// `T.let` or `T.let[…]`
fn is_let(e: &Expr<'_>) -> bool {
    match &e.kind {
        ExprKind::Attribute(_, attr) => attr.name == "let",
        ExprKind::Subscript(owner, _) => is_let(owner),
        _ => false,
    }
}
