//! Reads statements.

use super::bind::Bound;
use super::control::Attribute;
use super::func::{FuncReader, MAX_DEPTH};
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{AttrValue, Body, DType, ExprId, ExprList, Stmt, StmtId, Symbol};
use crate::script::python::{BinaryOp, Branch, Call, Expr, ExprKind, Ident, Stmt as PyStmt, StmtKind};

impl<'a> FuncReader<'a, '_> {
    /// The statements of a body; an empty statement if there are none, so that no list of the IR is empty by accident.
    pub(super) fn body(&mut self, stmts: &[PyStmt<'a>]) -> Body {
        let mut out = Body::new();
        // Statements that the head of the enclosing statement requires come before it.
        let outside = std::mem::take(&mut self.pending);
        self.stmts(stmts, &mut out);
        self.pending = outside;
        // Empty statements are removed if there are others, as in TVM's sequences.
        if out.len() > 1 {
            out.retain(|s| !self.is_no_op(*s));
        }
        if out.is_empty() {
            let zero = self.func.arena.int32(0);
            out.push(self.func.stmts.add(Stmt::Evaluate(zero)));
        }
        out
    }

    fn is_no_op(&self, s: StmtId) -> bool {
        matches!(self.func.get(s), Stmt::Evaluate(e) if self.func.arena.is_int(*e, 0))
    }

    /// Reads statements into a list. Statements after a `let` go into its body.
    fn stmts(&mut self, stmts: &[PyStmt<'a>], out: &mut Body) {
        for (i, stmt) in stmts.iter().enumerate() {
            let mark = self.spans.mark();
            if let Some(attributes) = self.attributes_behind(stmt) {
                if let Some(attributes) = attributes
                    && self.enter(stmt.span)
                {
                    let body = self.body(&stmts[i + 1..]);
                    self.leave();
                    out.extend(self.attributed(attributes, body, mark));
                }
                return;
            }
            let bound = self.binding(stmt, mark).unwrap_or_else(|| Bound::Done(self.stmt(stmt, mark)));
            out.extend(self.pending.drain(..));
            match bound {
                Bound::Done(body) => out.extend(body.into_iter().flatten()),
                Bound::Let(var, value, name) => {
                    if !self.enter(stmt.span) {
                        return;
                    }
                    let body = self.body(&stmts[i + 1..]);
                    self.leave();
                    out.push(self.add(Stmt::Let { var, value, body }, stmt.span, name, mark));
                    return;
                }
            }
        }
    }

    /// The attributes, if the statement gives attributes to all following ones.
    fn attributes_behind(&mut self, stmt: &PyStmt<'a>) -> Option<Option<Vec<Attribute>>> {
        let StmtKind::Expr(Expr { kind: ExprKind::Call(call), span }) = &stmt.kind else { return None };
        let ExprKind::Attribute(owner, name) = &call.callee.kind else { return None };
        let is_attr = matches!(name.name, "attr" | "hint") && self.namespace(owner) == Some(Namespace::Tir);
        is_attr.then(|| self.attributes(*name, call, *span))
    }

    /// Enters a level of statements; reports the first one that is too deep.
    pub(super) fn enter(&mut self, span: Span) -> bool {
        if self.depth >= MAX_DEPTH {
            if !self.too_deep {
                self.too_deep = true;
                let message = format!("statements are nested more than {MAX_DEPTH} levels deep");
                self.error(Diagnostic::error_at("nesting", span, message));
            }
            return false;
        }
        self.depth += 1;
        true
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Translates a statement; `None` after a mistake.
    fn stmt(&mut self, stmt: &PyStmt<'a>, mark: usize) -> Option<Body> {
        match &stmt.kind {
            StmtKind::Pass => Some(Body::new()),
            StmtKind::Expr(e) => self.expr_stmt(e, mark),
            StmtKind::Assign(targets, value) => {
                let [target] = targets.as_slice() else {
                    return self.unsupported(stmt.span, "an assignment to several targets");
                };
                match &target.kind {
                    ExprKind::Subscript(buffer, index) => {
                        self.store(buffer, index, target.span, stmt.span, mark, |this| {
                            this.eval(value).map(|v| (v, value.span))
                        })
                    }
                    _ => unreachable!("names are bound in `binding`"),
                }
            }
            StmtKind::AugAssign(target, op, value) => self.aug_assign(target, *op, value, stmt.span, mark),
            StmtKind::AnnAssign(..) => unreachable!("read in `binding`"),
            StmtKind::For(f) => self.for_(f, stmt.span, mark),
            StmtKind::If(branches) => self.if_(branches, stmt.span, mark),
            StmtKind::With(items, body) => self.with(items, body, stmt.span),
            // A return at the end of the function skips nothing.
            StmtKind::Return(None) if self.depth == 0 => Some(Body::new()),
            StmtKind::Return(None) => {
                let d =
                    Diagnostic::error_at("unsupported", stmt.span, "a `return` without a value is not supported here");
                self.fail(d.help("put the skipped statements under the opposite condition, or return a value"))
            }
            StmtKind::Return(Some(value)) => self.return_(value, stmt.span, mark),
            StmtKind::Assert(test, message) => self.assert(test, message.as_ref(), stmt.span, mark),
            StmtKind::While(w) => self.while_(w, stmt.span, mark),
            StmtKind::Function(f) => self.unsupported(f.name.span, "a function inside a function"),
            StmtKind::Class(c) => self.unsupported(c.name.span, "a class inside a function"),
            StmtKind::Import(_) | StmtKind::ImportFrom(..) => {
                self.unsupported(stmt.span, "an import inside a function")
            }
            StmtKind::Break => Some(self.one(Stmt::Break, stmt.span, stmt.span, mark)),
            StmtKind::Continue => Some(self.one(Stmt::Continue, stmt.span, stmt.span, mark)),
            StmtKind::Other(what) => self.unsupported(self.first_line(stmt.span), what),
        }
    }

    // ---- declarations and expression statements ------------------------------------------------------------

    /// A declaration by a member of `T`; `None` for other names.
    pub(super) fn declaration(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Option<Value>> {
        let done = |unit: Option<()>| Some(unit.map(|()| Value::None));
        match name.name {
            "match_buffer" => Some(self.match_buffer(call)),
            "alloc_buffer" | "sblock_alloc_buffer" | "alloc_local" | "alloc_shared" | "smem" => {
                Some(self.alloc_buffer(name, call, span))
            }
            "decl_buffer" => Some(self.decl_buffer(name, call, span)),
            "Buffer" if call.keywords.iter().any(|k| k.0.is_some_and(|k| k.name == "data")) => {
                Some(self.decl_buffer(name, call, span))
            }
            "allocate" => Some(self.allocate(call, span)),
            "local_scalar" | "shared_scalar" | "alloc_scalar" | "decl_scalar" => {
                Some(self.scalar_call(name, call, span))
            }
            "ptr" | "Ptr" | "buffer_var" => Some(self.handle_call(&format!("T.{}", name.name), call)),
            "target" => Some(self.target(call)),
            "var" => Some(self.var(call)),
            "meta_var" => Some(self.args("T.meta_var", call, &["value"], 1).and_then(|args| self.eval(args[0]?))),
            "func_attr" => done(self.func_attr(call)),
            "where" => done(self.where_(call, span)),
            "reads" | "writes" => done(self.accesses(name, call, span)),
            "block_attr" | "sblock_attr" => done(self.block_attr(name, call, span)),
            "grid" | "serial" | "parallel" | "vectorized" | "unroll" | "thread_binding" => {
                let message = format!("`T.{}` stands only in a `for`", name.name);
                Some(self.fail(Diagnostic::error_at("misplaced", span, message)))
            }
            "break_loop" | "continue_loop" | "attr" | "ret" | "hint" | "Assert" | "Break" | "Continue" | "Return"
            | "static_assert" => {
                let message = format!("`T.{}` is a statement", name.name);
                Some(self.fail(Diagnostic::error_at("misplaced", span, message)))
            }
            "block" | "sblock" | "init" | "LetStmt" | "If" | "Then" | "Else" | "While" => {
                let message = format!("`T.{}` stands only in a `with`", name.name);
                Some(self.fail(Diagnostic::error_at("misplaced", span, message)))
            }
            "bind" | "Bind" => {
                let message = format!("`T.{}` stands alone on the right of `name =`", name.name);
                Some(self.fail(Diagnostic::error_at("misplaced", span, message)))
            }
            "evaluate" => {
                let message = "`T.evaluate` is a statement";
                Some(self.fail(Diagnostic::error_at("misplaced", span, message)))
            }
            "Buffer" => {
                let d = Diagnostic::error_at("misplaced", span, "`T.Buffer` is the type of a parameter");
                Some(self.fail(d.help("allocate a buffer with `T.alloc_buffer(shape, dtype)`")))
            }
            "prim_func" => Some(self.fail(Diagnostic::error_at("misplaced", span, "`T.prim_func` is a decorator"))),
            _ => None,
        }
    }

    /// `T.target("llvm")` or `T.target({…})`
    fn target(&mut self, call: &Call<'a>) -> Option<Value> {
        let args = self.args("T.target", call, &["target_config", "host"], 1)?;
        let target = self.eval(args[0]?)?;
        let Some(host) = args[1] else { return Some(Value::Target(Box::new(target))) };
        let host = match self.eval(host)? {
            Value::Target(host) => *host,
            host => host,
        };
        let mut items = match target {
            Value::Dict(items) => items,
            // A text is the tag of a machine, or the kind of a target.
            Value::Str(name) => vec![(if name.contains('/') { "tag" } else { "kind" }.into(), Value::Str(name))],
            other => {
                let message = format!("expected a target, found {}", other.describe());
                return self.fail(Diagnostic::error_at("wrong-argument", call.args_span, message));
            }
        };
        items.push(("host".into(), host));
        Some(Value::Target(Box::new(Value::Dict(items))))
    }

    /// `T.var("int32")`
    fn var(&mut self, call: &Call<'a>) -> Option<Value> {
        let args = self.args("T.var", call, &["dtype", "name"], 1)?;
        Some(Value::Fresh(self.ty(args[0]?)?))
    }

    /// `T.func_attr({…})`
    fn func_attr(&mut self, call: &Call<'a>) -> Option<()> {
        let args = self.args("T.func_attr", call, &["attrs"], 1)?;
        let e = args[0]?;
        let new = self.annotations(e)?;
        let mut all: Vec<(Symbol, AttrValue)> = self.func.attrs.iter().cloned().collect();
        self.merge_annotations(&mut all, new, e);
        self.func.attrs = all.into_iter().collect();
        Some(())
    }

    fn expr_stmt(&mut self, e: &Expr<'a>, mark: usize) -> Option<Body> {
        if let ExprKind::Call(call) = &e.kind
            && let ExprKind::Attribute(owner, name) = &call.callee.kind
            && self.namespace(owner) == Some(Namespace::Tir)
        {
            match name.name {
                "evaluate" => {
                    let args = self.args("T.evaluate", call, &["value"], 1)?;
                    // `T.evaluate(T.break_loop())`
                    if let Some(jump) = self.jump(args[0]?) {
                        return Some(self.one(jump, e.span, e.span, mark));
                    }
                    let value = match self.eval(args[0]?)? {
                        Value::Expr(value) => value,
                        value => self.expr_of(value, args[0]?.span)?,
                    };
                    return Some(self.evaluate(value, e.span, mark));
                }
                "buffer_store" => return self.buffer_store(call, e.span, mark),
                "break_loop" | "Break" => return Some(self.one(Stmt::Break, e.span, e.span, mark)),
                "continue_loop" | "Continue" => return Some(self.one(Stmt::Continue, e.span, e.span, mark)),
                "ret" | "Return" => {
                    let args = self.args(&format!("T.{}", name.name), call, &["value"], 1)?;
                    return self.return_(args[0]?, e.span, mark);
                }
                "Assert" => return self.assert_call(call, e.span, mark),
                "static_assert" => return self.static_assert(call),
                _ => {}
            }
        }
        match self.eval(e)? {
            Value::Expr(value) => {
                if self.func.arena.as_var(value).is_some_and(|v| self.func.arena.var(v).name == "") {
                    // An unnamed iteration variable.
                    let var = self.func.arena.as_var(value)?;
                    self.func.arena.rename_var(var, "v");
                    return Some(Body::new());
                }
                Some(self.evaluate(value, e.span, mark))
            }
            Value::Int(_) | Value::Bool(_) => {
                let zero = self.func.arena.int32(0);
                Some(self.evaluate(zero, e.span, mark))
            }
            Value::Buffer(b) if self.func.arena.buffer(b).name == "" => {
                self.func.arena.update_buffer(b, |b| b.name = "buffer".into());
                Some(Body::new())
            }
            // Docstrings, and calls that were statements.
            Value::Str(_) | Value::None | Value::Seq(_) => Some(Body::new()),
            other => {
                let message = format!("expected a statement, found {}", other.describe());
                self.fail(Diagnostic::error_at("misplaced", e.span, message))
            }
        }
    }

    fn evaluate(&mut self, value: ExprId, span: Span, mark: usize) -> Body {
        Body::from_elem(self.add(Stmt::Evaluate(value), span, span, mark), 1)
    }

    // ---- assignments ---------------------------------------------------------------------------------------

    /// `buffer[indices] = value`; the value is evaluated first, as in Python.
    fn store(
        &mut self,
        buffer: &Expr<'a>,
        index: &Expr<'a>,
        target: Span,
        span: Span,
        mark: usize,
        value: impl FnOnce(&mut Self) -> Option<(Value, Span)>,
    ) -> Option<Body> {
        let value = value(self);
        let b = match self.eval(buffer)? {
            Value::Buffer(b) => b,
            other => {
                let message = format!("expected a buffer, found {}", other.describe());
                return self.fail(Diagnostic::error_at("wrong-argument", buffer.span, message));
            }
        };
        let indices = self.indices(b, index, target)?;
        self.spans.add_access(b, target);
        let (value, at) = value?;
        let value = self.stored(b, &indices, value, at)?;
        let indices: ExprList = self.func.arena.new_list(&indices);
        Some(Body::from_elem(self.add(Stmt::Store { buffer: b, indices, value }, span, target, mark), 1))
    }

    /// Converts a value to the type of a buffer's elements. TVM converts silently; a lossy conversion gives a warning.
    pub(super) fn stored(
        &mut self,
        b: crate::ir::BufferId,
        indices: &[ExprId],
        value: Value,
        at: Span,
    ) -> Option<ExprId> {
        let expected = self.func.arena.accessed(b, indices);
        let dtype = expected.dtype;
        let e = match value {
            Value::Int(_) | Value::Bool(_) | Value::Float(_) if expected.is_vector() => self.expr_of(value, at)?,
            Value::Int(_) | Value::Bool(_) => return self.literal(value, dtype, at),
            Value::Float(_) if dtype.is_float() => return self.literal(value, dtype, at),
            value => self.expr_of(value, at)?,
        };
        let found = self.func.arena.ty(e);
        if found.lanes != expected.lanes {
            let message = format!("expected a value of type `{expected}`, found `{found}`");
            let d = Diagnostic::error_at("lanes", at, message);
            let broadcast = || format!("write `T.Broadcast(…, {})`", expected.lanes);
            return self.fail(d.maybe_help((found.lanes == 1).then(broadcast)));
        }
        let found = found.dtype;
        if found == dtype {
            return Some(e);
        }
        if matches!(found, DType::Str | DType::Handle) {
            let message = format!("expected a value of type `{dtype}`, found `{found}`");
            return self.fail(Diagnostic::error_at("type-mismatch", at, message));
        }
        if found.is_float() && !dtype.is_float() {
            let name = self.func.arena.buffer(b).name;
            let message = format!("expected a value of type `{dtype}` for buffer `{name}`, found `{found}`");
            let d = Diagnostic::error_at("type-mismatch", at, message);
            return self.fail(d.help(format!("convert it: `T.Cast(\"{dtype}\", …)`")));
        }
        Some(self.cast(dtype, e))
    }

    /// `buffer[indices] += value`
    fn aug_assign(
        &mut self,
        target: &Expr<'a>,
        op: BinaryOp,
        value: &Expr<'a>,
        span: Span,
        mark: usize,
    ) -> Option<Body> {
        let ExprKind::Subscript(buffer, index) = &target.kind else {
            unreachable!("updates of names are read in `binding`")
        };
        self.store(buffer, index, target.span, span, mark, |this| {
            let (old, new) = (this.eval(target), this.eval(value));
            this.binary(op, (old?, target.span), (new?, value.span), span).map(|v| (v, span))
        })
    }

    /// `T.buffer_store(buffer, value, indices)`
    fn buffer_store(&mut self, call: &Call<'a>, span: Span, mark: usize) -> Option<Body> {
        let args = self.args("T.buffer_store", call, &["buffer", "value", "indices"], 3)?;
        let (buffer, value, indices) = (args[0]?, args[1]?, args[2]?);
        let tuple;
        let index = match &indices.kind {
            ExprKind::List(items) => {
                tuple = Expr { kind: ExprKind::Tuple(items.clone()), span: indices.span };
                &tuple
            }
            _ => indices,
        };
        self.store(buffer, index, span, span, mark, |this| this.eval(value).map(|v| (v, value.span)))
    }

    // ---- control -------------------------------------------------------------------------------------------

    fn if_(&mut self, branches: &[Branch<'a>], span: Span, mark: usize) -> Option<Body> {
        let [first, rest @ ..] = branches else { return Some(Body::new()) };
        let Some(test) = &first.test else {
            // The `else` branch of all earlier conditions.
            return Some(self.framed(&first.body));
        };
        let value = self.eval(test);
        if let Some(value @ (Value::Bool(_) | Value::Int(_))) = &value {
            // A condition on constants is evaluated here, and its body has no scope of its own.
            let mut out = Body::new();
            if self.truth(value) == Some(true) {
                self.stmts(&first.body, &mut out);
                return Some(out);
            }
            return match rest {
                [Branch { test: None, body, .. }] => {
                    self.stmts(body, &mut out);
                    Some(out)
                }
                rest => self.if_(rest, span, mark),
            };
        }
        let condition = value.and_then(|v| self.test(v, test.span));
        if !self.enter(span) {
            return None;
        }
        let then = self.framed(&first.body);
        let otherwise = match rest {
            [] => Body::new(),
            rest => {
                let mark = self.spans.mark();
                let span = rest[0].span.to(rest[rest.len() - 1].span);
                let inner = self.if_(rest, span, mark).unwrap_or_default();
                if inner.is_empty() { self.body(&[]) } else { inner }
            }
        };
        self.leave();
        let condition = condition?;
        Some(Body::from_elem(self.add(Stmt::If { condition, then, otherwise }, span, test.span, mark), 1))
    }

    /// Reads a body in its own scope.
    pub(super) fn framed(&mut self, body: &[PyStmt<'a>]) -> Body {
        self.scope.push_frame();
        let body = self.body(body);
        self.scope.pop_frame();
        body
    }

    /// `with context: body`; several contexts are nested.
    fn with(&mut self, items: &[(Expr<'a>, Option<Expr<'a>>)], body: &[PyStmt<'a>], span: Span) -> Option<Body> {
        let [(context, target), rest @ ..] = items else {
            return Some(self.body(body));
        };
        if !rest.is_empty() {
            let inner = PyStmt { kind: StmtKind::With(rest.to_vec(), body.to_vec()), span };
            let first = [(context.clone(), target.clone())];
            return self.with(&first, std::slice::from_ref(&inner), span);
        }
        let found = match &context.kind {
            ExprKind::Call(call) => match &call.callee.kind {
                ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                    Some(Namespace::Tir) => Some((call, *attr)),
                    Some(refused @ Namespace::Refused(_)) => return self.unknown_member(refused, *attr),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let Some((call, name)) = found else {
            return self.fail(
                Diagnostic::error_at("unknown-context", context.span, "expected a block, found another context")
                    .help("`with` goes with `T.block(\"name\")` and `T.init()`"),
            );
        };
        if let (Some(target), "block" | "sblock" | "init") = (target, name.name) {
            return self.unsupported(target.span, "`as` of a block");
        }
        match name.name {
            "block" | "sblock" => self.block(name, call, body, span, context.span),
            "init" => self.init(call, body, span),
            "attr" | "hint" => self.with_attr(name, call, body, span),
            "While" => self.with_while(call, body, span, context.span),
            "If" => self.with_if(call, body, span, context.span),
            "Then" | "Else" => {
                let message = format!("`T.{}` stands only in a `with T.If(…)`", name.name);
                self.fail(Diagnostic::error_at("misplaced", name.span, message))
            }
            "Assert" => self.with_assert(call, body, context.span),
            "allocate" => self.with_allocate(call, target.as_ref(), body, span),
            "LetStmt" | "let" | "Let" => self.with_let(name, call, target.as_ref(), body, span),
            _ if super::refused::reason(name.name).is_some() => self.unknown_member(Namespace::Tir, name),
            _ => match crate::diagnostic::nearest(name.name, ["block", "sblock", "init", "LetStmt", "attr"]) {
                Some(near) => self.fail(
                    Diagnostic::error_at("unknown-function", name.span, format!("unknown context `T.{}`", name.name))
                        .help(format!("did you mean `T.{near}`?")),
                ),
                None => self.unknown_member(Namespace::Tir, name),
            },
        }
    }
}
