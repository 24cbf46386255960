//! Binds names to values: assignments, unpacking, and variables of the program (`let`).

use super::args::counted;
use super::func::FuncReader;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{Body, DType, Expr as IrExpr, ExprId, Pointee, Stmt, Ty, VarId};
use crate::script::Dialect;
use crate::script::python::{BinaryOp, Call, Expr, ExprKind, Ident, Stmt as PyStmt, StmtKind};

/// The translation of a statement that binds a name.
pub(super) enum Bound {
    /// A variable bound to a value in all following statements, and the place of its name.
    Let(VarId, ExprId, Span),
    /// Statements; `None` after a mistake.
    Done(Option<Body>),
}

/// The annotation of an assignment.
enum Annotation {
    /// `T.let`
    Let,
    /// `T.let[T.int32]`
    LetType(Ty, Option<Pointee>),
    /// `T.int32`
    Type(Ty, Option<Pointee>),
    /// `T.float32[4, 4]`: an array in local memory.
    Vector(Ty, Vec<ExprId>),
    /// A type that the value determines completely.
    Other,
}

impl<'a> FuncReader<'a, '_> {
    /// Binds names to a value; to a poisoned one after a mistake.
    pub(super) fn bind(&mut self, target: &Expr<'a>, value: Option<Value>) {
        match (&target.kind, value) {
            (&ExprKind::Name(name), None) => self.scope.define(name, Value::Poison, target.span),
            (&ExprKind::Name(name), Some(Value::Fresh(ty))) => {
                let quoted = self.quoted.iter().find(|q| q.0 == name).and_then(|q| q.1);
                match quoted {
                    // A shape has defined the symbol; the declaration only states its type.
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
        for (target, item) in self.unpacked(targets, span, value) {
            self.bind(target, item);
        }
    }

    /// The targets of an unpacking, each with its value.
    fn unpacked<'e>(
        &mut self,
        targets: &'e [Expr<'a>],
        span: Span,
        value: Option<Value>,
    ) -> Vec<(&'e Expr<'a>, Option<Value>)> {
        let value = match value {
            Some(Value::Seq(items)) => match targets.iter().position(|t| matches!(t.kind, ExprKind::Starred(_))) {
                // `a, *b = …`: the starred name takes the remaining values.
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
        targets.iter().zip(items).collect()
    }

    // ---- assignments to names ------------------------------------------------------------------------------

    /// Translates the statement if it binds a name; `None` otherwise.
    pub(super) fn binding(&mut self, stmt: &PyStmt<'a>, mark: usize) -> Option<Bound> {
        match &stmt.kind {
            StmtKind::Assign(targets, value) => match targets.as_slice() {
                [Expr { kind: ExprKind::Subscript(..), .. }] => None,
                [target] => Some(self.assign(target, value, stmt.span, mark)),
                _ => None,
            },
            StmtKind::AnnAssign(target, annotation, value) => {
                Some(self.annotated(target, annotation, value.as_ref(), stmt.span, mark))
            }
            StmtKind::AugAssign(target, op, value) => match &target.kind {
                ExprKind::Subscript(..) => None,
                _ => Some(Bound::Done(self.update(target, *op, value, stmt.span, mark))),
            },
            StmtKind::Expr(Expr { kind: ExprKind::Call(call), .. }) if self.is_bind(call) => {
                Some(self.bound_by_call(call, None))
            }
            _ => None,
        }
    }

    /// `name = value`
    fn assign(&mut self, target: &Expr<'a>, value_at: &Expr<'a>, span: Span, mark: usize) -> Bound {
        if let ExprKind::Call(call) = &value_at.kind
            && self.is_bind(call)
        {
            return self.bound_by_call(call, Some(target));
        }
        let current = self.file.meaning == Some(Dialect::Current);
        if let (false, ExprKind::Name(name)) = (current, &target.kind)
            && self.assigned_buffer(target).is_none()
            && self.is_plain_value(value_at)
        {
            return match self.expr(value_at) {
                Some(e) => self.name_value(name, e, target.span),
                None => self.poison(target),
            };
        }
        let assigned = self.assigned_buffer(target);
        let value = self.eval(value_at);
        if let (Some(b), Some(found)) = (assigned, &value)
            && self.scalar_type_of(found).is_some()
        {
            let stored = value.and_then(|v| self.stored_scalar(b, v, value_at.span));
            return Bound::Done(stored.map(|e| self.store_scalar(b, e, span, target.span, mark)));
        }
        // A handle has one binding.
        if let (ExprKind::Name(name), Some(Value::Expr(e))) = (&target.kind, &value)
            && self.func.arena.dtype(*e) == DType::Handle
        {
            return self.name_value(name, *e, target.span);
        }
        if !current || self.names_directly(value_at) {
            self.bind(target, value);
            return Bound::Done(Some(Body::new()));
        }
        let mut out = Body::new();
        self.bind_scalars(target, value, span, mark, &mut out);
        Bound::Done(Some(out))
    }

    /// Binds numbers to names as TVM 0.27 does: each name becomes a mutable variable.
    fn bind_scalars(&mut self, target: &Expr<'a>, value: Option<Value>, span: Span, mark: usize, out: &mut Body) {
        out.extend(self.pending.drain(..));
        match (&target.kind, value) {
            (ExprKind::Tuple(targets) | ExprKind::List(targets), value) => {
                for (target, item) in self.unpacked(targets, target.span, value) {
                    self.bind_scalars(target, item, span, mark, out);
                }
            }
            (_, Some(value)) => match self.scalar_type_of(&value) {
                Some(dtype) => {
                    let body = self.define_scalar(target, dtype, Some((value, target.span)), span, mark);
                    out.extend(self.pending.drain(..));
                    out.extend(body.into_iter().flatten());
                }
                None => self.bind(target, Some(value)),
            },
            (_, None) => self.bind(target, None),
        }
    }

    /// `name: annotation = value`, or without a value.
    fn annotated(
        &mut self,
        target: &Expr<'a>,
        annotation: &Expr<'a>,
        value: Option<&Expr<'a>>,
        span: Span,
        mark: usize,
    ) -> Bound {
        let current = self.file.meaning == Some(Dialect::Current);
        let value_at = value;
        let kind = match self.annotation(annotation) {
            Some(kind) => kind,
            None => return self.poison(target),
        };
        let (explicit, declared) = match kind {
            Annotation::Other => {
                // The call defines an entity such as a buffer.
                let Some(value_at) = value_at else {
                    let message = "a variable without a value has a data type";
                    self.error(Diagnostic::error_at("no-type", annotation.span, message));
                    return self.poison(target);
                };
                let value = self.eval(value_at);
                self.bind(target, value);
                return Bound::Done(Some(Body::new()));
            }
            Annotation::Vector(dtype, shape) => {
                if let Some(value) = value_at {
                    let d = Diagnostic::error_at("unsupported", value.span, "an array has no initial value");
                    self.error(d.help("store to its elements"));
                }
                let value = self.local_array(dtype, &shape, span);
                self.bind(target, Some(value));
                return Bound::Done(Some(Body::new()));
            }
            Annotation::Let => (true, None),
            Annotation::LetType(dtype, pointee) => (true, Some((dtype, pointee))),
            Annotation::Type(dtype, pointee) => (false, Some((dtype, pointee))),
        };
        let is_scalar = !explicit && (current || value_at.is_none());
        if let (true, Some((dtype, _))) = (is_scalar, declared) {
            if self.file.meaning == Some(Dialect::Classic) {
                let d =
                    Diagnostic::error_at("unsupported", annotation.span, "a variable without a value is not supported");
                self.error(d.help("allocate a buffer of shape `(1,)` for what changes"));
                return self.poison(target);
            }
            let value = match value_at {
                Some(at) => match self.eval(at) {
                    Some(value) => Some((value, at.span)),
                    None => return self.poison(target),
                },
                None => None,
            };
            return Bound::Done(self.define_scalar(target, dtype, value, span, mark));
        }
        let ExprKind::Name(name) = target.kind else {
            return Bound::Done(self.unsupported(target.span, "a `let` of anything but a name"));
        };
        let Some(value_at) = value_at else {
            self.error(Diagnostic::error_at("no-type", annotation.span, "a `T.let` has a value"));
            return self.poison(target);
        };
        let e = match declared {
            Some((dtype, _)) => self.typed(value_at, dtype),
            None => self.expr(value_at),
        };
        let Some(e) = e else { return self.poison(target) };
        let bound = match explicit {
            true => self.named(name, e, target.span),
            false => self.name_value(name, e, target.span),
        };
        if let (Bound::Let(var, ..), Some((_, Some(pointee)))) = (&bound, declared) {
            self.func.arena.set_pointee(*var, Some(pointee));
        }
        bound
    }

    /// `name += value`
    fn update(&mut self, target: &Expr<'a>, op: BinaryOp, value: &Expr<'a>, span: Span, mark: usize) -> Option<Body> {
        let (old, new) = (self.eval(target), self.eval(value));
        let (old, new) = (old?, new?);
        if let Some(b) = self.assigned_buffer(target) {
            let old = match old {
                Value::Buffer(b) => Value::Expr(self.scalar_value(b)),
                old => old,
            };
            let sum = self.binary(op, (old, target.span), (new, value.span), span)?;
            let e = self.stored_scalar(b, sum, span)?;
            return Some(self.store_scalar(b, e, span, target.span, mark));
        }
        if let ExprKind::Name(name) = target.kind {
            self.check_ambiguous(name, target.span)?;
        }
        let d =
            Diagnostic::error_at("unsupported", target.span, "this name stands for a value, which can't be changed");
        self.fail(d.help("allocate a buffer of shape `(1,)` for what changes"))
    }

    /// Binds a name to an expression without an explicit `let`.
    fn name_value(&mut self, name: &'a str, e: ExprId, span: Span) -> Bound {
        if self.check_ambiguous(name, span).is_none() {
            self.scope.define(name, Value::Poison, span);
            return Bound::Done(None);
        }
        let bound = self.named(name, e, span);
        if let (Bound::Let(var, ..), None) = (&bound, self.file.meaning) {
            self.ambiguous.push(*var);
        }
        bound
    }

    /// # Errors
    ///
    /// If a value's name is assigned again: this is a new name in the classic dialect, and a store in the current one.
    fn check_ambiguous(&mut self, name: &str, span: Span) -> Option<()> {
        let arena = &self.func.arena;
        let dtype = match self.scope.get(name) {
            Some(&Value::Expr(e)) => match arena.as_var(e).filter(|v| self.ambiguous.contains(v)) {
                Some(var) => arena.var(var).ty(),
                None => return Some(()),
            },
            Some(&Value::Buffer(b)) if self.file.meaning.is_none() => match arena.list(arena.buffer(b).shape) {
                [n] if arena.is_int(*n, 1) => arena.buffer(b).ty(),
                _ => return Some(()),
            },
            _ => return Some(()),
        };
        let message = format!("`{name}` is assigned again, and the text does not say what that means");
        let d = Diagnostic::error_at("ambiguous-assignment", span, message);
        self.fail(d.help(format!(
            "for a variable that is stored to, write `@T.prim_func(s_tir=True)` and `{name}: T.{dtype}`; for a second \
             value, write `{name}_1: T.let[T.{dtype}] = …`"
        )))
    }

    fn named(&mut self, name: &'a str, e: ExprId, span: Span) -> Bound {
        let (var, var_expr) = self.func.arena.new_var_expr(name, self.func.arena.ty(e));
        let pointee = match self.func.arena.expr(e) {
            IrExpr::BufferData(b) => {
                let buffer = self.func.arena.buffer(b);
                Some(Pointee { ty: buffer.ty(), scope: buffer.scope })
            }
            IrExpr::Var(v) => self.func.arena.var(v).pointee,
            _ => None,
        };
        self.func.arena.set_pointee(var, pointee);
        self.define(name, Value::Expr(var_expr), span);
        Bound::Let(var, e, span)
    }

    fn poison(&mut self, target: &Expr<'a>) -> Bound {
        self.bind(target, None);
        Bound::Done(None)
    }

    /// `T.bind(value)`, `T.Bind(value, var=x)`
    fn is_bind(&self, call: &Call<'a>) -> bool {
        match &call.callee.kind {
            ExprKind::Attribute(owner, attr) => {
                matches!(attr.name, "bind" | "Bind") && self.namespace(owner) == Some(Namespace::Tir)
            }
            _ => false,
        }
    }

    fn bound_by_call(&mut self, call: &Call<'a>, target: Option<&Expr<'a>>) -> Bound {
        let Some(args) = self.args("T.bind", call, &["value", "type_annotation", "*", "var"], 1) else {
            return Bound::Done(None);
        };
        let Some(value_at) = args[0] else { return Bound::Done(None) };
        match (args[3], target) {
            (Some(at), None) => {
                let var = self.expr(at).and_then(|e| self.func.arena.as_var(e));
                let Some(var) = var else {
                    return Bound::Done(self.fail(Diagnostic::error_at(
                        "wrong-argument",
                        at.span,
                        "expected a variable",
                    )));
                };
                match self.typed(value_at, self.func.arena.var(var).ty()) {
                    Some(value) => Bound::Let(var, value, at.span),
                    None => Bound::Done(None),
                }
            }
            (None, Some(&Expr { kind: ExprKind::Name(name), span })) => match self.expr(value_at) {
                Some(e) => self.named(name, e, span),
                None => {
                    self.scope.define(name, Value::Poison, span);
                    Bound::Done(None)
                }
            },
            _ => {
                let d = Diagnostic::error_at("wrong-argument", call.args_span, "the value has no variable");
                Bound::Done(self.fail(d.help("write `x = T.bind(value)`")))
            }
        }
    }

    /// Reads an annotation.
    fn annotation(&mut self, annotation: &Expr<'a>) -> Option<Annotation> {
        let is_let = |this: &Self, e: &Expr<'a>| match &e.kind {
            ExprKind::Attribute(owner, attr) => attr.name == "let" && this.namespace(owner) == Some(Namespace::Tir),
            _ => false,
        };
        if is_let(self, annotation) {
            self.file.vote(Dialect::Current);
            return Some(Annotation::Let);
        }
        let is_buffer = |e: &Expr<'a>| match &e.kind {
            ExprKind::Call(c) => matches!(&c.callee.kind, ExprKind::Attribute(_, a) if a.name == "Buffer"),
            ExprKind::Subscript(o, _) => matches!(&o.kind, ExprKind::Attribute(_, a) if a.name == "Buffer"),
            _ => false,
        };
        let (e, explicit) = match &annotation.kind {
            ExprKind::Subscript(owner, inner) if is_let(self, owner) => {
                self.file.vote(Dialect::Current);
                (&**inner, true)
            }
            _ if is_buffer(annotation) => return Some(Annotation::Other),
            ExprKind::Subscript(owner, shape) => {
                self.file.vote(Dialect::Current);
                let dtype = self.ty(owner)?;
                let items: &[Expr<'a>] = match &shape.kind {
                    ExprKind::Tuple(items) => items,
                    _ => std::slice::from_ref(&**shape),
                };
                let shape: Option<Vec<ExprId>> = items.iter().map(|i| self.index(i)).collect();
                return Some(Annotation::Vector(dtype, shape?));
            }
            _ => (annotation, false),
        };
        let (dtype, pointee) = match self.eval(e)? {
            Value::Type(t) | Value::Fresh(t) => (t, None),
            Value::FreshPointer(p) => (DType::Handle.into(), Some(p)),
            Value::Str(name) => (self.type_named(&name, e.span)?, None),
            other => {
                let message = format!("expected a data type, found {}", other.describe());
                return self.fail(Diagnostic::error_at("no-type", e.span, message));
            }
        };
        Some(if explicit { Annotation::LetType(dtype, pointee) } else { Annotation::Type(dtype, pointee) })
    }

    /// Whether the right side of an assignment is a value of the program, and not a declaration.
    fn is_plain_value(&self, e: &Expr<'a>) -> bool {
        match &e.kind {
            ExprKind::Call(call) => match &call.callee.kind {
                ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                    Some(Namespace::Tir) => {
                        let declares = matches!(
                            attr.name,
                            "match_buffer"
                                | "alloc_buffer"
                                | "sblock_alloc_buffer"
                                | "alloc_local"
                                | "alloc_shared"
                                | "smem"
                                | "alloc_scalar"
                                | "local_scalar"
                                | "shared_scalar"
                                | "decl_scalar"
                                | "decl_buffer"
                                | "allocate"
                                | "var"
                                | "meta_var"
                                | "Buffer"
                                | "handle"
                                | "ptr"
                                | "Ptr"
                                | "buffer_var"
                                | "Var"
                                | "target"
                        );
                        let is_fresh = super::expr::type_member(attr.name).is_some() && call.args.is_empty();
                        !declares && !is_fresh
                    }
                    Some(_) => false,
                    None => attr.name != "view",
                },
                _ => true,
            },
            ExprKind::Attribute(_, attr) => attr.name == "data",
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
                // A slice is a named region; a vector is written `A[T.Ramp(…)]`.
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
