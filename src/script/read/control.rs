//! Loops without a range, jumps, assertions, results and attributes.

use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{Assert, Attr, AttrValue, Body, ExprId, Stmt, Symbol};
use crate::script::python::{Call, Expr, ExprKind, Stmt as PyStmt, While};

/// An attribute that the statements behind it get.
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

    /// The condition of a statement: a boolean, or an integer that holds if it is not 0.
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
                [kind, parts] => (self.text(kind)?, self.message_parts(parts)?),
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

    /// `T.attr(node, key, value)` or `T.attr({key: value})`: attributes, outermost first.
    pub(super) fn attributes(&mut self, call: &Call<'a>, span: Span) -> Option<Vec<Attribute>> {
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

    /// `with T.attr(…): body`
    pub(super) fn with_attr(&mut self, call: &Call<'a>, body: &[PyStmt<'a>], span: Span) -> Option<Body> {
        let mark = self.spans.mark();
        let attributes = self.attributes(call, span);
        if !self.enter(span) {
            return None;
        }
        let body = self.framed(body);
        self.leave();
        Some(self.attributed(attributes?, body, mark))
    }

    /// Statements under attributes.
    pub(super) fn attributed(&mut self, attributes: Vec<Attribute>, mut body: Body, mark: usize) -> Body {
        for Attribute { node, key, value, span } in attributes.into_iter().rev() {
            let name = self.first_line(span);
            body = self.one(Stmt::Attr(Box::new(Attr { node, key, value, body })), span, name, mark);
        }
        body
    }
}
