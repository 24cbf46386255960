//! Compiles the expressions and calls of a text.

use super::Vocabulary;
use super::code::{CallArgs, Change, Clause, Expr, ExprKind, Item};
use super::compile::Compiler;
use super::scope::Meaning;
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::script::python::{self, UnaryOp};

impl<'a, C: Vocabulary> Compiler<'a, '_, '_, C> {
    /// Compiles an expression. If it is wrong, the error is reported, and `None` stands for it.
    pub(crate) fn expr(&mut self, e: &python::Expr<'a>) -> Expr<C> {
        Expr { kind: self.expr_kind(e), span: e.span }
    }

    pub(crate) fn boxed(&mut self, e: &python::Expr<'a>) -> Box<Expr<C>> {
        Box::new(self.expr(e))
    }

    /// Reports a mistake.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.errors.push(Diagnostic::error_at(code, span, message));
        self.errors.last_mut().expect("one was just added")
    }

    /// Compiles an expression in which the parameters of the lambda around it are forbidden.
    pub(crate) fn value<R>(&mut self, compile: impl FnOnce(&mut Self) -> R) -> R {
        let in_formula = self.scope().lambda.is_some();
        let before = std::mem::replace(&mut self.no_params, in_formula);
        let result = compile(self);
        self.no_params = before;
        result
    }

    fn expr_kind(&mut self, e: &python::Expr<'a>) -> ExprKind<C> {
        match &e.kind {
            python::ExprKind::Name(name) => self.name(name, e.span),
            python::ExprKind::Int(v) => match v.and_then(|v| i64::try_from(v).ok()) {
                Some(v) => ExprKind::Int(v),
                None => {
                    self.error("literal", e.span, "the integer does not fit 64 bits");
                    ExprKind::None
                }
            },
            python::ExprKind::Float(v) => ExprKind::Float(*v),
            python::ExprKind::Str(s) => ExprKind::Str((&**s).into()),
            python::ExprKind::Bool(v) => ExprKind::Bool(*v),
            python::ExprKind::None => ExprKind::None,
            python::ExprKind::Tuple(items) => ExprKind::Tuple(self.value(|c| c.items(items))),
            python::ExprKind::List(items) => ExprKind::List(self.value(|c| c.items(items))),
            python::ExprKind::Dict(items) => self.value(|c| c.dict(items)),
            python::ExprKind::Attribute(..) => self.attribute(e),
            python::ExprKind::Call(call) => self.call(call, e.span),
            python::ExprKind::Subscript(of, index) => self.value(|c| match &index.kind {
                python::ExprKind::Slice(s) => {
                    let mut part = |p: &Option<python::Expr<'a>>| p.as_ref().map(|p| c.expr(p));
                    let parts = [part(&s.lower), part(&s.upper), part(&s.step)];
                    ExprKind::Slice(c.boxed(of), Box::new(parts))
                }
                _ => {
                    let of = c.boxed(of);
                    ExprKind::Index(of, c.boxed(index))
                }
            }),
            python::ExprKind::Unary(op, a) => match op {
                UnaryOp::Pos => self.expr_kind(a),
                UnaryOp::Neg => match &a.kind {
                    python::ExprKind::Int(Some(v)) if *v == 1 << 63 => ExprKind::Int(i64::MIN),
                    _ => match self.boxed(a) {
                        a if matches!(a.kind, ExprKind::Int(v) if v != i64::MIN) => match a.kind {
                            ExprKind::Int(v) => ExprKind::Int(-v),
                            _ => ExprKind::None,
                        },
                        a => ExprKind::Neg(a),
                    },
                },
                UnaryOp::Not => ExprKind::Not(self.boxed(a)),
                UnaryOp::Invert => ExprKind::Invert(self.boxed(a)),
            },
            python::ExprKind::Binary(op, a, b) => {
                let a = self.boxed(a);
                ExprKind::Binary(*op, a, self.boxed(b))
            }
            python::ExprKind::Logical(op, parts) => {
                let parts = parts.iter().map(|p| self.expr(p)).collect();
                match op {
                    python::LogicalOp::And => ExprKind::And(parts),
                    python::LogicalOp::Or => ExprKind::Or(parts),
                }
            }
            python::ExprKind::Compare(first, rest) => {
                let first = self.boxed(first);
                ExprKind::Compare(first, rest.iter().map(|(op, e)| (*op, self.expr(e))).collect())
            }
            python::ExprKind::Conditional(c) => {
                ExprKind::Conditional(Box::new([self.expr(&c.test), self.expr(&c.then), self.expr(&c.otherwise)]))
            }
            python::ExprKind::Lambda(l) => C::lambda(self, l, e.span),
            python::ExprKind::ListComp(c) => self.value(|s| s.comprehension(c)),
            python::ExprKind::Format(pieces) => {
                self.value(|c| ExprKind::Format(pieces.iter().map(|p| c.expr(p)).collect()))
            }
            python::ExprKind::Slice(_) => {
                self.error("syntax", e.span, "a slice stands only in brackets");
                ExprKind::None
            }
            python::ExprKind::Starred(_) => {
                self.error("syntax", e.span, "`*` stands only in lists and calls");
                ExprKind::None
            }
            python::ExprKind::Other(what) => {
                self.unsupported(e.span, what);
                ExprKind::None
            }
        }
    }

    fn name(&mut self, name: &'a str, span: Span) -> ExprKind<C> {
        match self.find(name) {
            Some(Meaning::Local(i)) => ExprKind::Local(i),
            Some(Meaning::Global(i)) => ExprKind::Global(i),
            Some(Meaning::Param(i)) => {
                if self.no_params {
                    let message = format!("this cannot depend on `{name}`, a parameter of the index map");
                    self.error("index-map", span, message).help =
                        Some("an index map may use `+`, `-`, `*`, `//`, `%`, comparisons and `T.if_then_else`".into());
                }
                ExprKind::Param(i)
            }
            Some(Meaning::Function(i)) if C::CLOSURES => ExprKind::Closure(i, Vec::new()),
            Some(Meaning::Module(i)) if C::CLOSURES => {
                let path = self.scope().module(i).to_owned();
                C::module_value(self, &path, span)
            }
            Some(Meaning::Function(_) | Meaning::Builtin(_)) => {
                self.error("type", span, format!("`{name}` is a function, which is only called here"));
                ExprKind::None
            }
            Some(Meaning::Module(_)) => {
                self.error("type", span, format!("`{name}` is a module, not a value"));
                ExprKind::None
            }
            None => {
                let near = nearest(name, self.scope().known()).map(|n| format!("did you mean `{n}`?"));
                self.error("undefined-name", span, format!("`{name}` is not defined")).help = near;
                ExprKind::None
            }
        }
    }

    /// Compiles items.
    pub(crate) fn items(&mut self, items: &[python::Expr<'a>]) -> Vec<Item<C>> {
        items
            .iter()
            .map(|item| match &item.kind {
                python::ExprKind::Starred(inner) => Item { star: true, value: self.expr(inner) },
                _ => Item { star: false, value: self.expr(item) },
            })
            .collect()
    }

    fn dict(&mut self, items: &[(Option<python::Expr<'a>>, python::Expr<'a>)]) -> ExprKind<C> {
        let mut pairs = Vec::with_capacity(items.len());
        for (key, value) in items {
            let Some(key) = key else {
                self.unsupported(value.span, "`**`");
                continue;
            };
            let key = self.expr(key);
            // TVM's traces print texts in dictionaries without quotes, so an undefined name is such a text.
            let value = match value.kind {
                python::ExprKind::Name(name) if !C::CLOSURES && self.find(name).is_none() => {
                    Expr { kind: ExprKind::Str(name.into()), span: value.span }
                }
                _ => self.expr(value),
            };
            pairs.push((key, value));
        }
        ExprKind::Dict(pairs)
    }

    fn comprehension(&mut self, c: &python::Comprehension<'a>) -> ExprKind<C> {
        let mark = self.scope().mark();
        let mut clauses = Vec::new();
        for clause in &c.clauses {
            let iter = self.expr(&clause.iter);
            self.scope().enter(&clause.target);
            clauses.push(Clause::For(self.target(&clause.target), iter));
            for test in &clause.conditions {
                let test = self.expr(test);
                clauses.push(Clause::If(test));
            }
        }
        let element = self.boxed(&c.element);
        self.scope().leave(mark);
        ExprKind::Comprehension(element, clauses)
    }

    /// The full name of `a.b.c`, if the first name is a module.
    pub(crate) fn module_path(&mut self, e: &python::Expr<'a>) -> Option<String> {
        match &e.kind {
            python::ExprKind::Name(name) => match self.find(name) {
                Some(Meaning::Module(i)) => Some(self.scope().module(i).to_owned()),
                _ => None,
            },
            python::ExprKind::Attribute(of, name) => Some(format!("{}.{}", self.module_path(of)?, name.name)),
            _ => None,
        }
    }

    fn attribute(&mut self, e: &python::Expr<'a>) -> ExprKind<C> {
        if let Some(path) = self.module_path(e) {
            return C::module_value(self, &path, e.span);
        }
        let python::ExprKind::Attribute(of, name) = &e.kind else { return ExprKind::None };
        if let python::ExprKind::Name(first) = of.kind
            && self.first_parameter == Some(first)
            && let Some(help) = C::attribute_of_first(name.name)
        {
            self.error("unsupported", name.span, format!("`{first}.{}` is no value", name.name)).help = help;
            return ExprKind::None;
        }
        let of = self.value(|c| c.boxed(of));
        ExprKind::Attribute(of, name.name.into())
    }

    fn call(&mut self, call: &python::Call<'a>, span: Span) -> ExprKind<C> {
        for (name, value) in &call.keywords {
            if name.is_none() {
                self.unsupported(value.span, "`**`");
                return ExprKind::None;
            }
        }
        match &call.callee.kind {
            python::ExprKind::Name(name) => self.call_name(name, call, span),
            python::ExprKind::Attribute(of, method) => match self.module_path(&call.callee) {
                Some(path) => C::module_call(self, &path, call, span),
                None => self.value(|c| c.call_method(of, *method, call)),
            },
            _ if C::CLOSURES => self.call_value(call),
            _ => {
                self.unsupported(call.callee.span, "calling this");
                ExprKind::None
            }
        }
    }

    fn call_value(&mut self, call: &python::Call<'a>) -> ExprKind<C> {
        let callee = self.boxed(&call.callee);
        ExprKind::CallValue(callee, self.call_args(call))
    }

    /// Compiles arguments by name.
    pub(crate) fn keywords(&mut self, call: &python::Call<'a>) -> Vec<(Box<str>, Span, Expr<C>)> {
        call.keywords
            .iter()
            .map(|(name, value)| {
                let (name, span) = name.map_or(("", value.span), |n| (n.name, n.span));
                (name.into(), span, self.expr(value))
            })
            .collect()
    }

    fn call_name(&mut self, name: &'a str, call: &python::Call<'a>, span: Span) -> ExprKind<C> {
        match self.find(name) {
            Some(Meaning::Builtin(f)) => {
                if self.scope().lambda.is_some()
                    && let Some(code) = C::builtin_in_formula(self, f, call)
                {
                    return code;
                }
                let args = self.value(|c| c.items(&call.args));
                let keywords = self.value(|c| c.keywords(call));
                if let Some((keyword, at, _)) = keywords.iter().find(|(k, ..)| !f.keywords().contains(&&**k)) {
                    let message = format!("`{name}` has no argument `{keyword}` here");
                    self.error("unknown-argument", *at, message);
                }
                if args.iter().all(|a| !a.star) && !f.arity().contains(&args.len()) {
                    let n = args.len();
                    let arguments = if n == 1 { "argument" } else { "arguments" };
                    let message = format!("`{name}` does not take {n} {arguments}");
                    self.error("argument-count", call.args_span, message);
                }
                ExprKind::Builtin(f, args, keywords)
            }
            Some(Meaning::Function(i)) => {
                let args: CallArgs<C> = self.value(|c| c.call_args(call));
                ExprKind::Call(i, args)
            }
            Some(Meaning::Module(i)) => {
                let path = self.scope().module(i).to_owned();
                C::module_call(self, &path, call, span)
            }
            Some(Meaning::Local(_) | Meaning::Global(_)) if C::CLOSURES => self.call_value(call),
            Some(Meaning::Local(_) | Meaning::Global(_) | Meaning::Param(_)) => {
                self.error("type", call.callee.span, format!("`{name}` is not a function"));
                ExprKind::None
            }
            None => match C::help_on_function(name) {
                Some(help) => {
                    self.unsupported(call.callee.span, &format!("`{name}`")).help = Some(help.to_string());
                    ExprKind::None
                }
                None => self.name(name, call.callee.span),
            },
        }
    }

    fn call_method(
        &mut self,
        of: &python::Expr<'a>,
        method: python::Ident<'a>,
        call: &python::Call<'a>,
    ) -> ExprKind<C> {
        if let python::ExprKind::Name(name) = &of.kind
            && self.first_parameter != Some(*name)
            && let Some(Meaning::Local(variable)) = self.find(name)
            && let Some((_, change)) = Change::ALL.iter().find(|(n, _)| *n == method.name)
        {
            let args: Vec<Expr<C>> = call.args.iter().map(|a| self.expr(a)).collect();
            if !change.arity().contains(&args.len()) || !call.keywords.is_empty() {
                let message = format!("`{}` is not called like this", method.name);
                self.error("argument-count", call.args_span, message);
                return ExprKind::None;
            }
            return ExprKind::Change(variable, *change, args);
        }
        C::method_call(self, of, method, call)
    }
}
