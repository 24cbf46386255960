//! The meanings of names while a schedule function is compiled.

use super::builtin::Builtin;
use crate::script::python::{Expr, ExprKind, Stmt, StmtKind};
use hashbrown::HashMap;

/// Names of TVM's modules that need no import; printed traces use them without.
const MODULES: [&str; 7] = ["T", "tir", "tirx", "s_tir", "tvm", "te", "IndexMap"];

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// A variable of the function.
    Local(usize),
    /// A global variable.
    Global(usize),
    /// A parameter of the lambda being compiled.
    Param(usize),
    /// Another function of the text.
    Function(usize),
    /// A built-in function.
    Builtin(Builtin),
    /// A module, or an item imported from one.
    Module,
}

/// The global names of a text.
#[derive(Default)]
pub(super) struct Outside<'a> {
    /// Variables, in order.
    pub globals: Vec<&'a str>,
    /// Functions, in order.
    pub functions: Vec<&'a str>,
    /// Imported names.
    pub modules: Vec<&'a str>,
}

/// The names of the function being compiled.
pub(super) struct Scope<'a, 'o> {
    outside: &'o Outside<'a>,
    names: HashMap<&'a str, usize>,
    /// Names of the variables by their position.
    pub locals: Vec<Box<str>>,
    /// Variables of the open comprehensions, innermost last.
    inner: Vec<(&'a str, usize)>,
    /// Parameters of the lambda being compiled.
    pub lambda: Option<Vec<&'a str>>,
}

impl<'a, 'o> Scope<'a, 'o> {
    /// The scope of a function with these parameters and this body.
    pub(super) fn new(outside: &'o Outside<'a>, params: &[&'a str], body: &[Stmt<'a>]) -> Scope<'a, 'o> {
        let mut scope = Scope { outside, names: HashMap::new(), locals: Vec::new(), inner: Vec::new(), lambda: None };
        for p in params {
            scope.declare(p);
        }
        scope.declare_all(body);
        scope
    }

    fn declare(&mut self, name: &'a str) {
        if !self.names.contains_key(name) {
            self.names.insert(name, self.locals.len());
            self.locals.push(name.into());
        }
    }

    fn declare_all(&mut self, body: &[Stmt<'a>]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Assign(targets, _) => targets.iter().for_each(|t| self.declare_target(t)),
                StmtKind::AugAssign(target, ..) | StmtKind::AnnAssign(target, ..) => self.declare_target(target),
                StmtKind::For(f) => {
                    self.declare_target(&f.target);
                    self.declare_all(&f.body);
                }
                StmtKind::If(branches) => branches.iter().for_each(|b| self.declare_all(&b.body)),
                StmtKind::Function(_)
                | StmtKind::Class(_)
                | StmtKind::With(..)
                | StmtKind::Expr(_)
                | StmtKind::Return(_)
                | StmtKind::Assert(..)
                | StmtKind::While(_)
                | StmtKind::Import(_)
                | StmtKind::ImportFrom(..)
                | StmtKind::Pass
                | StmtKind::Break
                | StmtKind::Continue
                | StmtKind::Other(_) => {}
            }
        }
    }

    fn declare_target(&mut self, target: &Expr<'a>) {
        match &target.kind {
            ExprKind::Name(name) => self.declare(name),
            ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().for_each(|t| self.declare_target(t)),
            ExprKind::Starred(inner) => self.declare_target(inner),
            _ => {}
        }
    }

    /// Opens a comprehension's variables.
    pub(super) fn enter(&mut self, target: &Expr<'a>) {
        match &target.kind {
            ExprKind::Name(name) => {
                self.inner.push((name, self.locals.len()));
                self.locals.push((*name).into());
            }
            ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().for_each(|t| self.enter(t)),
            ExprKind::Starred(inner) => self.enter(inner),
            _ => {}
        }
    }

    /// The number of variables of open comprehensions, for [`Scope::leave`].
    pub(super) fn mark(&self) -> usize {
        self.inner.len()
    }

    /// Closes the comprehension variables opened since `mark`.
    pub(super) fn leave(&mut self, mark: usize) {
        self.inner.truncate(mark);
    }

    /// The variable of the function called `name`, as a target of an assignment.
    pub(super) fn target(&self, name: &str) -> Option<usize> {
        let inner = self.inner.iter().rev().find(|(n, _)| *n == name).map(|(_, i)| *i);
        inner.or_else(|| self.names.get(name).copied())
    }

    /// The meaning of a name.
    pub(super) fn find(&self, name: &str) -> Option<Meaning> {
        if let Some(i) = self.lambda.as_ref().and_then(|params| params.iter().position(|p| *p == name)) {
            return Some(Meaning::Param(i));
        }
        let position = |names: &[&str]| names.iter().rposition(|n| *n == name);
        (self.target(name).map(Meaning::Local))
            .or_else(|| position(&self.outside.globals).map(Meaning::Global))
            .or_else(|| position(&self.outside.functions).map(Meaning::Function))
            .or_else(|| {
                let module = MODULES.contains(&name) || self.outside.modules.contains(&name);
                module.then_some(Meaning::Module)
            })
            .or_else(|| Builtin::by_name(name).map(Meaning::Builtin))
    }

    /// All defined names, for suggestions.
    pub(super) fn known(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.lambda.iter().flatten().copied().collect();
        names.extend(self.inner.iter().map(|(n, _)| *n));
        names.extend(self.locals.iter().map(|n| &**n));
        names.extend(&self.outside.globals);
        names.extend(&self.outside.functions);
        names.extend(&self.outside.modules);
        names.extend(MODULES);
        names.extend(Builtin::ALL.map(|(n, _)| n));
        names
    }
}
