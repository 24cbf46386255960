//! Names bound to values: assignments, unpacking, and variables of the program (`let`).

use super::args::counted;
use super::func::FuncReader;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{Body, ExprId, Stmt, Ty};
use crate::script::Dialect;
use crate::script::python::{Call, Expr, ExprKind, Ident, Stmt as PyStmt, StmtKind};

impl<'a> FuncReader<'a, '_> {
    /// Binds names to a value, or to nothing after a mistake.
    pub(super) fn bind(&mut self, target: &Expr<'a>, value: Option<Value>) {
        match (&target.kind, value) {
            (&ExprKind::Name(name), None) => self.scope.define(name, Value::Poison, target.span),
            (&ExprKind::Name(name), Some(Value::Fresh(ty))) => {
                let quoted = self.quoted.iter().find(|q| q.0 == name).map(|q| q.1);
                match quoted {
                    // A shape has defined the symbol; the declaration only gives it its type.
                    Some(var) if self.func.arena.var(var).ty() == ty => {}
                    None if self.scope.get(name).is_some() && self.file.options.bind.contains_key(name) => {}
                    _ => {
                        let value = self.symbol(name, ty, target.span);
                        self.define(name, value, target.span);
                    }
                }
            }
            (&ExprKind::Name(name), Some(Value::Seq(items))) => {
                for (i, item) in items.iter().enumerate() {
                    if let Value::Expr(e) = item
                        && let Some(v) = self.func.arena.as_var(*e).filter(|&v| self.func.arena.var(v).name == "")
                    {
                        self.func.arena.rename_var(v, format!("{name}_{i}").as_str());
                    }
                }
                self.define(name, Value::Seq(items), target.span);
            }
            (&ExprKind::Name(name), Some(value)) => self.define(name, value, target.span),
            (ExprKind::Tuple(targets) | ExprKind::List(targets), value) => self.unpack(targets, target.span, value),
            (ExprKind::Starred(inner), value) => self.bind(inner, value),
            _ => {
                let d =
                    Diagnostic::error_at("unsupported", target.span, "expected a name or a buffer element on the left");
                self.error(d);
            }
        }
    }

    fn unpack(&mut self, targets: &[Expr<'a>], span: Span, value: Option<Value>) {
        let value = match value {
            Some(Value::Seq(items)) => match targets.iter().position(|t| matches!(t.kind, ExprKind::Starred(_))) {
                // `a, *b = …`: the starred name takes what the others leave.
                Some(at) if items.len() + 1 >= targets.len() => {
                    let n = items.len() + 1 - targets.len();
                    let mut items = items;
                    let rest: Vec<Value> = items.drain(at..at + n).collect();
                    items.insert(at, Value::Seq(rest));
                    Some(Value::Seq(items))
                }
                _ => Some(Value::Seq(items)),
            },
            value => value,
        };
        let items = match value {
            Some(Value::Seq(items)) if items.len() == targets.len() => items.into_iter().map(Some).collect(),
            None => vec![None; targets.len()],
            Some(value) => {
                let found = match &value {
                    Value::Seq(items) => counted(items.len(), "value"),
                    other => other.describe().to_string(),
                };
                let message = format!("expected {}, found {found}", counted(targets.len(), "value"));
                self.error(Diagnostic::error_at("unpack-count", span, message));
                vec![None; targets.len()]
            }
        };
        for (target, item) in targets.iter().zip(items) {
            self.bind(target, item);
        }
    }

    /// If the statement binds a variable to a value of the program: the variable and its value. `Some(None)` after a
    /// mistake, `None` for other statements.
    pub(super) fn let_binding(&mut self, stmt: &PyStmt<'a>) -> Option<Option<(crate::ir::VarId, ExprId, Span)>> {
        let (target, dtype, value) = match &stmt.kind {
            StmtKind::Assign(targets, value) if targets.len() == 1 => match &targets[0].kind {
                ExprKind::Name(_) if self.is_plain_value(value) => (&targets[0], None, value),
                _ => return None,
            },
            StmtKind::AnnAssign(target, annotation, Some(value)) => match self.let_type(annotation) {
                Some(dtype) => (target, dtype, value),
                None => return None,
            },
            _ => return None,
        };
        let ExprKind::Name(name) = target.kind else {
            return Some(self.unsupported(target.span, "a `let` of anything but a name"));
        };
        let dtype = match dtype {
            Some(Err(())) => {
                self.scope.define(name, Value::Poison, target.span);
                return Some(None);
            }
            Some(Ok(dtype)) => Some(dtype),
            None => None,
        };
        let e = match dtype {
            Some(dtype) => self.typed(value, dtype),
            None => self.expr(value),
        };
        let Some(e) = e else {
            self.scope.define(name, Value::Poison, target.span);
            return Some(None);
        };
        let (var, var_expr) = self.func.arena.new_var_expr(name, self.func.arena.ty(e));
        self.define(name, Value::Expr(var_expr), target.span);
        Some(Some((var, e, target.span)))
    }

    /// The type of a `let`: `T.let` gives `Some(None)`, `T.let[T.int32]` and the classic `T.int32` a type.
    fn let_type(&mut self, annotation: &Expr<'a>) -> Option<Option<Result<Ty, ()>>> {
        let is_let = |this: &Self, e: &Expr<'a>| match &e.kind {
            ExprKind::Attribute(owner, attr) => attr.name == "let" && this.namespace(owner) == Some(Namespace::Tir),
            _ => false,
        };
        if is_let(self, annotation) {
            self.file.vote(Dialect::Current);
            return Some(None);
        }
        let (e, explicit) = match &annotation.kind {
            ExprKind::Subscript(owner, inner) if is_let(self, owner) => {
                self.file.vote(Dialect::Current);
                (&**inner, true)
            }
            _ => (annotation, false),
        };
        let is_buffer = |e: &Expr<'a>| match &e.kind {
            ExprKind::Call(c) => matches!(&c.callee.kind, ExprKind::Attribute(_, a) if a.name == "Buffer"),
            ExprKind::Subscript(o, _) => matches!(&o.kind, ExprKind::Attribute(_, a) if a.name == "Buffer"),
            _ => false,
        };
        if !explicit && is_buffer(e) {
            return None;
        }
        let dtype = match self.eval(e) {
            Some(Value::Type(t) | Value::Fresh(t)) => Ok(t),
            Some(Value::Str(name)) => self.type_named(&name, e.span).ok_or(()),
            Some(other) => {
                let message = format!("expected a data type, found {}", other.describe());
                self.error(Diagnostic::error_at("no-type", e.span, message));
                Err(())
            }
            None => Err(()),
        };
        Some(Some(dtype))
    }

    /// Is the right side of an assignment a value of the program, and no declaration?
    fn is_plain_value(&self, e: &Expr<'a>) -> bool {
        match &e.kind {
            ExprKind::Call(call) => match &call.callee.kind {
                ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                    Some(Namespace::Tir) => {
                        let declares = matches!(
                            attr.name,
                            "match_buffer" | "alloc_buffer" | "sblock_alloc_buffer" | "var" | "meta_var" | "Buffer"
                        );
                        let is_fresh = super::expr::type_of_name(attr.name).is_some() && call.args.is_empty();
                        !declares && !is_fresh
                    }
                    Some(_) => false,
                    None => true,
                },
                _ => true,
            },
            ExprKind::Binary(..) | ExprKind::Unary(..) | ExprKind::Compare(..) | ExprKind::Logical(..) => true,
            ExprKind::Conditional(_) => true,
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => true,
            ExprKind::Name(name) => matches!(self.scope.get(name), Some(Value::Expr(_))),
            ExprKind::Subscript(owner, index) => {
                let is_slice = |e: &Expr<'a>| matches!(e.kind, ExprKind::Slice(_));
                let slices = match &index.kind {
                    ExprKind::Tuple(items) => items.iter().any(is_slice),
                    _ => is_slice(index),
                };
                let is_buffer = match &owner.kind {
                    ExprKind::Name(name) => matches!(self.scope.get(name), Some(Value::Buffer(_))),
                    _ => false,
                };
                // A slice is a region under a name; a vector is written as `A[T.Ramp(…)]`.
                is_buffer && !slices
            }
            _ => false,
        }
    }

    /// `with T.LetStmt(value, var=x): body`, `with T.LetStmt(value) as x: body`, `with T.let(x, value): body`
    pub(super) fn with_let(
        &mut self,
        word: Ident<'a>,
        call: &Call<'a>,
        target: Option<&Expr<'a>>,
        body: &[PyStmt<'a>],
        span: Span,
    ) -> Option<Body> {
        let mark = self.spans.mark();
        let (var_at, value_at) = if word.name == "LetStmt" {
            let args = self.args("T.LetStmt", call, &["value", "type_annotation", "var"], 1)?;
            (args[2], args[0]?)
        } else {
            let args = self.args(&format!("T.{}", word.name), call, &["var", "value"], 2)?;
            (args[0], args[1]?)
        };
        self.scope.push_frame();
        let bound = self.let_variable(var_at, target, value_at);
        let entered = bound.is_some() && self.enter(span);
        let body = self.body(body);
        if entered {
            self.leave();
        }
        self.scope.pop_frame();
        let (var, value, name) = bound?;
        Some(Body::from_elem(self.add(Stmt::Let { var, value, body }, span, name, mark), 1))
    }

    fn let_variable(
        &mut self,
        var_at: Option<&Expr<'a>>,
        target: Option<&Expr<'a>>,
        value_at: &Expr<'a>,
    ) -> Option<(crate::ir::VarId, ExprId, Span)> {
        match (var_at, target) {
            (Some(at), _) => {
                let e = self.expr(at)?;
                let Some(var) = self.func.arena.as_var(e) else {
                    return self.fail(Diagnostic::error_at("wrong-argument", at.span, "expected a variable"));
                };
                let value = self.typed(value_at, self.func.arena.var(var).ty())?;
                Some((var, value, at.span))
            }
            (None, Some(&Expr { kind: ExprKind::Name(name), span })) => {
                let value = self.expr(value_at)?;
                let (var, e) = self.func.arena.new_var_expr(name, self.func.arena.ty(value));
                self.define(name, Value::Expr(e), span);
                Some((var, value, span))
            }
            _ => {
                let d = Diagnostic::error_at("wrong-argument", value_at.span, "the value has no variable");
                self.fail(d.help("write `with T.LetStmt(value) as x:`"))
            }
        }
    }
}
