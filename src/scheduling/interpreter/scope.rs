//! The meanings of names while a text is compiled.

use super::builtin::Builtin;
use crate::script::python::{Expr, ExprKind, Stmt, StmtKind};
use hashbrown::HashMap;

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// A variable of the function.
    Local(usize),
    /// A global variable.
    Global(usize),
    /// A parameter of the formula being compiled.
    Param(usize),
    /// Another function of the text.
    Function(usize),
    /// A built-in function.
    Builtin(Builtin),
    /// A module, or an item imported from one: its position in [`Outside::modules`].
    Module(usize),
}

/// The global names of a text.
#[derive(Default)]
pub(crate) struct Outside<'a> {
    /// Variables, in order.
    pub globals: Vec<&'a str>,
    /// Functions, in order.
    pub functions: Vec<&'a str>,
    /// Names of modules, each with the full name of what it stands for. Of equal names the last one counts.
    pub modules: Vec<(&'a str, String)>,
}

/// The names of the function being compiled.
pub(crate) struct Scope<'a, 'o> {
    outside: &'o Outside<'a>,
    names: HashMap<&'a str, usize>,
    /// Names of the variables by their position.
    pub locals: Vec<Box<str>>,
    /// Variables of the open comprehensions, innermost last.
    inner: Vec<(&'a str, usize)>,
    /// Parameters of the formula being compiled.
    pub lambda: Option<Vec<&'a str>>,
    /// Variables that are taken from the function around this one: there and here.
    pub captured: Vec<(usize, usize)>,
}

impl<'a, 'o> Scope<'a, 'o> {
    /// The scope of a function with these parameters and this body.
    pub(crate) fn new(outside: &'o Outside<'a>, params: &[&'a str], body: &[Stmt<'a>]) -> Scope<'a, 'o> {
        let (names, locals, inner, captured) = (HashMap::new(), Vec::new(), Vec::new(), Vec::new());
        let mut scope = Scope { outside, names, locals, inner, lambda: None, captured };
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
                StmtKind::Function(f) => self.declare(f.name.name),
                StmtKind::Class(_)
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

    /// The variables of the function.
    pub(crate) fn names(&self) -> Vec<&'a str> {
        let mut names: Vec<(&'a str, usize)> = self.names.iter().map(|(n, i)| (*n, *i)).collect();
        names.sort_by_key(|&(_, i)| i);
        names.into_iter().map(|(n, _)| n).collect()
    }

    /// Opens a comprehension's variables.
    pub(crate) fn enter(&mut self, target: &Expr<'a>) {
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
    pub(crate) fn mark(&self) -> usize {
        self.inner.len()
    }

    /// Closes the comprehension variables opened since `mark`.
    pub(crate) fn leave(&mut self, mark: usize) {
        self.inner.truncate(mark);
    }

    /// The variable of the function called `name`, as a target of an assignment.
    pub(crate) fn target(&self, name: &str) -> Option<usize> {
        let inner = self.inner.iter().rev().find(|(n, _)| *n == name).map(|(_, i)| *i);
        inner.or_else(|| self.names.get(name).copied())
    }

    /// The full name of a module.
    pub(crate) fn module(&self, position: usize) -> &str {
        &self.outside.modules[position].1
    }

    /// Takes a variable of the function around this one.
    pub(crate) fn capture(&mut self, name: &'a str, there: usize) -> usize {
        let here = self.locals.len();
        self.names.insert(name, here);
        self.locals.push(name.into());
        self.captured.push((there, here));
        here
    }

    /// The meaning of a name.
    pub(crate) fn find(&self, name: &str) -> Option<Meaning> {
        if let Some(i) = self.lambda.as_ref().and_then(|params| params.iter().position(|p| *p == name)) {
            return Some(Meaning::Param(i));
        }
        let position = |names: &[&str]| names.iter().rposition(|n| *n == name);
        (self.target(name).map(Meaning::Local))
            .or_else(|| position(&self.outside.globals).map(Meaning::Global))
            .or_else(|| position(&self.outside.functions).map(Meaning::Function))
            .or_else(|| self.outside.modules.iter().rposition(|(n, _)| *n == name).map(Meaning::Module))
            .or_else(|| Builtin::by_name(name).map(Meaning::Builtin))
    }

    /// All defined names, for suggestions.
    pub(crate) fn known(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.lambda.iter().flatten().copied().collect();
        names.extend(self.inner.iter().map(|(n, _)| *n));
        names.extend(self.locals.iter().map(|n| &**n));
        names.extend(&self.outside.globals);
        names.extend(&self.outside.functions);
        names.extend(self.outside.modules.iter().map(|(n, _)| *n));
        names.extend(Builtin::ALL.map(|(n, _)| n));
        names
    }
}
