//! Reads loops without a range, jumps, assertions, results and attributes.

use super::func::FuncReader;
use super::value::Namespace;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{Assert, Attr, AttrValue, Body, ExprId, Stmt, Symbol};
use crate::script::python::{Call, Expr, ExprKind, Ident, Stmt as PyStmt, StmtKind, While};
use crate::script::{Dialect, HINT};

/// An attribute of the following statements.
pub(super) struct Attribute {
    pub(super) node: AttrValue,
    pub(super) key: Symbol,
    pub(super) value: ExprId,
    span: Span,
}

impl<'a> FuncReader<'a, '_> {
    /// `while test: body`
    pub(super) fn while_(&mut self, w: &While<'a>, span: Span, mark: usize) -> Option<Body> {
        if let Some(orelse) = w.orelse {
            self.error(Diagnostic::error_at("unsupported", orelse, "`else` of a loop is not supported"));
        }
        let condition = self.eval(&w.test).and_then(|v| self.test(v, w.test.span));
        if !self.enter(span) {
            return None;
        }
        let body = self.framed(&w.body);
        self.leave();
        Some(self.one(Stmt::While { condition: condition?, body }, span, w.test.span, mark))
    }

    /// A statement as a list.
    pub(super) fn one(&mut self, stmt: Stmt, whole: Span, name: Span, mark: usize) -> Body {
        Body::from_elem(self.add(stmt, whole, name, mark), 1)
    }

    /// The condition of a statement: a boolean, or an integer that is true if it is not 0.
    pub(super) fn test(&mut self, value: Value, span: Span) -> Option<ExprId> {
        if let Value::Bool(b) = value {
            return Some(self.func.arena.bool(b));
        }
        let e = self.expr_of(value, span)?;
        if self.func.arena.dtype(e).is_integer() {
            return Some(e);
        }
        self.condition(Value::Expr(e), span)
    }

    /// `assert test, "message"` or `assert test, ("ValueError", ["part", "part"])`
    pub(super) fn assert(
        &mut self,
        test: &Expr<'a>,
        message: Option<&Expr<'a>>,
        span: Span,
        mark: usize,
    ) -> Option<Body> {
        let condition = self.eval(test).and_then(|v| self.test(v, test.span));
        let Some(message) = message else {
            let d = Diagnostic::error_at("argument-count", span, "an `assert` has a message");
            return self.fail(d.help("write `assert condition, \"message\"`"));
        };
        let (kind, message) = match &message.kind {
            ExprKind::Tuple(items) => match items.as_slice() {
                [kind, parts] => {
                    self.file.vote(Dialect::Current);
                    (self.text(kind)?, self.message_parts(parts)?)
                }
                _ => {
                    let d = Diagnostic::error_at("wrong-argument", message.span, "expected an exception and its parts");
                    return self.fail(d.help("write `(\"ValueError\", [\"message\"])`"));
                }
            },
            _ => (Symbol::new("RuntimeError"), self.message_parts(message)?),
        };
        let assert = Assert { condition: condition?, kind, message };
        Some(self.one(Stmt::Assert(Box::new(assert)), span, test.span, mark))
    }

    fn message_parts(&mut self, e: &Expr<'a>) -> Option<Vec<Symbol>> {
        match &e.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().map(|i| self.text(i)).collect(),
            _ => Some(vec![self.text(e)?]),
        }
    }

    /// `return value`, and `T.ret(value)`.
    pub(super) fn return_(&mut self, value: &Expr<'a>, span: Span, mark: usize) -> Option<Body> {
        let found = self.eval(value)?;
        let e = self.expr_of(found, value.span)?;
        Some(self.one(Stmt::Return(e), span, span, mark))
    }

    /// `T.attr(node, key, value)`, `T.attr({key: value})` or `T.hint("message", key=value)`: attributes, outermost first.
    pub(super) fn attributes(&mut self, word: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Vec<Attribute>> {
        if word.name == "hint" {
            return Some(vec![self.hint(call, span)?]);
        }
        let args = self.args("T.attr", call, &["node", "attr_key", "value"], 1)?;
        let node = args[0]?;
        if let ExprKind::Dict(items) = &node.kind {
            let mut all = Vec::new();
            for (key, value) in items {
                let Some(key) = key else { return self.unsupported(value.span, "unpacking with `**`") };
                let (key, value) = (self.text(key)?, self.attribute_value(value)?);
                all.push(Attribute { node: AttrValue::Int(0), key, value, span });
            }
            return Some(all);
        }
        let (Some(key), Some(value)) = (args[1], args[2]) else {
            let d = Diagnostic::error_at("argument-count", call.args_span, "`T.attr` lacks its key and value");
            return self.fail(d.help("write `T.attr(node, \"key\", value)` or `T.attr({\"key\": value})`"));
        };
        let found = self.eval(node)?;
        let node = self.attr_value(found, node.span)?;
        let (key, value) = (self.text(key)?, self.attribute_value(value)?);
        Some(vec![Attribute { node, key, value, span }])
    }

    fn attribute_value(&mut self, e: &Expr<'a>) -> Option<ExprId> {
        match self.eval(e)? {
            Value::Str(text) => Some(self.func.arena.str(Symbol::new(&text))),
            value => self.expr_of(value, e.span),
        }
    }

    /// `T.hint("message", key=value)`: an attribute whose node contains message and values.
    fn hint(&mut self, call: &Call<'a>, span: Span) -> Option<Attribute> {
        let mut items = Vec::new();
        match call.args.as_slice() {
            [] => {}
            [message] => items.push((Symbol::new("message"), AttrValue::Str(self.text(message)?))),
            _ => {
                let message = format!("`T.hint` takes one text, found {} arguments", call.args.len());
                return self.fail(Diagnostic::error_at("argument-count", call.args_span, message));
            }
        }
        for (key, value) in &call.keywords {
            let Some(key) = key else { return self.unsupported(value.span, "unpacking with `**`") };
            let found = self.eval(value)?;
            items.push((Symbol::new(key.name), self.attr_value(found, value.span)?));
        }
        items.sort_by_key(|i| i.0);
        let value = self.func.arena.int32(1);
        Some(Attribute { node: AttrValue::Dict(items), key: Symbol::new(HINT), value, span })
    }

    /// `with T.While(condition): body`
    pub(super) fn with_while(
        &mut self,
        call: &Call<'a>,
        body: &[PyStmt<'a>],
        span: Span,
        context: Span,
    ) -> Option<Body> {
        let mark = self.spans.mark();
        let args = self.args("T.While", call, &["condition"], 1)?;
        let test = args[0]?;
        let condition = self.eval(test).and_then(|v| self.test(v, test.span));
        if !self.enter(span) {
            return None;
        }
        let body = self.framed(body);
        self.leave();
        Some(self.one(Stmt::While { condition: condition?, body }, span, context, mark))
    }

    /// `with T.If(condition):`, whose body is a `with T.Then():` and perhaps a `with T.Else():`.
    pub(super) fn with_if(&mut self, call: &Call<'a>, body: &[PyStmt<'a>], span: Span, context: Span) -> Option<Body> {
        let mark = self.spans.mark();
        let args = self.args("T.If", call, &["condition"], 1)?;
        let test = args[0]?;
        let condition = self.eval(test).and_then(|v| self.test(v, test.span));
        let branches: Option<Vec<(Ident<'a>, &[PyStmt<'a>])>> = body.iter().map(|s| self.branch(s)).collect();
        let (then, otherwise) = match branches.as_deref() {
            Some([then]) if then.0.name == "Then" => (then.1, None),
            Some([then, otherwise]) if then.0.name == "Then" && otherwise.0.name == "Else" => {
                (then.1, Some(otherwise.1))
            }
            _ => {
                let message = "expected `with T.Then():`, and perhaps `with T.Else():` behind it";
                return self.fail(Diagnostic::error_at("misplaced", span, message));
            }
        };
        if !self.enter(span) {
            return None;
        }
        let then = self.framed(then);
        let otherwise = otherwise.map_or_else(Body::new, |list| self.framed(list));
        self.leave();
        Some(self.one(Stmt::If { condition: condition?, then, otherwise }, span, context, mark))
    }

    /// `with T.Then(): body`
    fn branch<'s>(&self, stmt: &'s PyStmt<'a>) -> Option<(Ident<'a>, &'s [PyStmt<'a>])> {
        let StmtKind::With(items, body) = &stmt.kind else { return None };
        let [(Expr { kind: ExprKind::Call(call), .. }, None)] = items.as_slice() else { return None };
        let ExprKind::Attribute(owner, name) = &call.callee.kind else { return None };
        (self.namespace(owner) == Some(Namespace::Tir)).then_some((*name, body.as_slice()))
    }

    /// `T.Assert(condition, "message", error_kind="ValueError")`
    pub(super) fn assert_call(&mut self, call: &Call<'a>, span: Span, mark: usize) -> Option<Body> {
        let args = self.args("T.Assert", call, &["condition", "message", "error_kind"], 2)?;
        let (test, message) = (args[0]?, args[1]?);
        let condition = self.eval(test).and_then(|v| self.test(v, test.span));
        let message = self.message_parts(message)?;
        let kind = match args[2] {
            Some(kind) => {
                self.file.vote(Dialect::Current);
                self.text(kind)?
            }
            None => Symbol::new("RuntimeError"),
        };
        let assert = Assert { condition: condition?, kind, message };
        Some(self.one(Stmt::Assert(Box::new(assert)), span, test.span, mark))
    }

    /// `with T.Assert(…): body`: the assertion, then the statements.
    pub(super) fn with_assert(&mut self, call: &Call<'a>, body: &[PyStmt<'a>], context: Span) -> Option<Body> {
        let mark = self.spans.mark();
        let assertion = self.assert_call(call, context, mark);
        let body = self.framed(body);
        let mut all = assertion?;
        all.extend(body);
        Some(all)
    }

    /// `T.static_assert(condition, "message")`: evaluated by the reader.
    pub(super) fn static_assert(&mut self, call: &Call<'a>) -> Option<Body> {
        let args = self.args("T.static_assert", call, &["x", "message"], 1)?;
        let test = args[0]?;
        let value = self.eval(test)?;
        match self.truth(&value) {
            Some(true) => Some(Body::new()),
            Some(false) => {
                let message = match args[1] {
                    Some(message) => format!("the assertion does not hold: {}", self.text(message)?),
                    None => "the assertion does not hold".to_string(),
                };
                self.fail(Diagnostic::error_at("static-assertion", test.span, message))
            }
            None => {
                let message = format!("expected a constant condition, found {}", value.describe());
                let d = Diagnostic::error_at("wrong-argument", test.span, message);
                self.fail(
                    d.help("write `assert condition, \"message\"` for a condition that depends on the program's data"),
                )
            }
        }
    }

    /// `T.break_loop()` or `T.continue_loop()` as an expression.
    pub(super) fn jump(&self, e: &Expr<'a>) -> Option<Stmt> {
        let ExprKind::Call(call) = &e.kind else { return None };
        let ExprKind::Attribute(owner, name) = &call.callee.kind else { return None };
        if self.namespace(owner) != Some(Namespace::Tir) {
            return None;
        }
        match name.name {
            "break_loop" => Some(Stmt::Break),
            "continue_loop" => Some(Stmt::Continue),
            _ => None,
        }
    }

    /// `with T.attr(…): body`
    pub(super) fn with_attr(
        &mut self,
        word: Ident<'a>,
        call: &Call<'a>,
        body: &[PyStmt<'a>],
        span: Span,
    ) -> Option<Body> {
        let mark = self.spans.mark();
        let attributes = self.attributes(word, call, span);
        if !self.enter(span) {
            return None;
        }
        let body = self.framed(body);
        self.leave();
        Some(self.attributed(attributes?, body, mark))
    }

    /// Puts statements under attributes.
    pub(super) fn attributed(&mut self, attributes: Vec<Attribute>, mut body: Body, mark: usize) -> Body {
        for Attribute { node, key, value, span } in attributes.into_iter().rev() {
            let name = self.first_line(span);
            body = self.one(Stmt::Attr(Box::new(Attr { node, key, value, body })), span, name, mark);
        }
        body
    }
}
