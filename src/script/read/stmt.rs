//! Statements.

use super::args::counted;
use super::func::{FuncReader, LoopFrame, LoopSpec, MAX_DEPTH};
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{AttrValue, Body, DType, ExprId, ExprList, Loop, LoopKind, Stmt, StmtId, Symbol};
use crate::script::Dialect;
use crate::script::python::{BinaryOp, Branch, Call, Expr, ExprKind, For, Ident, Stmt as PyStmt, StmtKind};

impl<'a> FuncReader<'a, '_> {
    /// The statements of a body; one at least, so that every list of the IR does something or says that it does not.
    pub(super) fn body(&mut self, stmts: &[PyStmt<'a>]) -> Body {
        let mut out = Body::new();
        self.stmts(stmts, &mut out);
        // Statements that do nothing vanish where there are others, as in TVM's sequences.
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

    /// Reads statements into a list. What follows a `let` goes into it.
    fn stmts(&mut self, stmts: &[PyStmt<'a>], out: &mut Body) {
        for (i, stmt) in stmts.iter().enumerate() {
            let mark = self.spans.mark();
            match self.let_binding(stmt) {
                None => {
                    if let Some(body) = self.stmt(stmt, mark) {
                        out.extend(body);
                    }
                }
                Some(None) => {}
                Some(Some((var, value, name))) => {
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

    /// Goes one level down in the tree of statements; complains once if it gets too deep.
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

    /// A statement, as the statements that it becomes; `None` after a mistake.
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
                    _ => {
                        let value = self.eval(value);
                        self.bind(target, value);
                        Some(Body::new())
                    }
                }
            }
            StmtKind::AugAssign(target, op, value) => self.aug_assign(target, *op, value, stmt.span, mark),
            StmtKind::AnnAssign(target, annotation, value) => {
                // What is no `let` here has a value that is defined by its call, such as a buffer.
                match value {
                    Some(value) => {
                        let value = self.eval(value);
                        self.bind(target, value);
                        Some(Body::new())
                    }
                    None => {
                        let d = Diagnostic::error_at(
                            "unsupported",
                            annotation.span,
                            "a variable without a value is not supported",
                        );
                        self.bind(target, None);
                        self.fail(d.help("allocate a buffer of shape `(1,)` for what changes"))
                    }
                }
            }
            StmtKind::For(f) => self.for_(f, stmt.span, mark),
            StmtKind::If(branches) => self.if_(branches, stmt.span, mark),
            StmtKind::With(items, body) => self.with(items, body, stmt.span),
            StmtKind::Return(None) => Some(Body::new()),
            StmtKind::Return(Some(_)) => {
                let d = Diagnostic::error_at("unsupported", stmt.span, "functions with a result are not supported");
                self.fail(d.help("write the result into a buffer parameter"))
            }
            StmtKind::Assert(_) => self.unsupported(stmt.span, "`assert`"),
            StmtKind::Function(f) => self.unsupported(f.name.span, "a function inside a function"),
            StmtKind::Class(c) => self.unsupported(c.name.span, "a class inside a function"),
            StmtKind::Import(_) | StmtKind::ImportFrom(..) => {
                self.unsupported(stmt.span, "an import inside a function")
            }
            StmtKind::Break => self.unsupported(stmt.span, "`break`"),
            StmtKind::Continue => self.unsupported(stmt.span, "`continue`"),
            StmtKind::Other(what) => self.unsupported(self.first_line(stmt.span), what),
        }
    }

    // ---- declarations and expression statements ------------------------------------------------------------

    /// A member of `T` that declares something; `None` if the name is none of these.
    pub(super) fn declaration(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Option<Value>> {
        let done = |unit: Option<()>| Some(unit.map(|()| Value::None));
        match name.name {
            "match_buffer" => Some(self.match_buffer(call)),
            "alloc_buffer" | "sblock_alloc_buffer" => Some(self.alloc_buffer(name, call)),
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
            "block" | "sblock" | "init" | "LetStmt" => {
                let message = format!("`T.{}` stands only in a `with`", name.name);
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

    /// `T.var("int32")`
    fn var(&mut self, call: &Call<'a>) -> Option<Value> {
        let args = self.args("T.var", call, &["dtype", "name"], 1)?;
        Some(Value::Fresh(self.dtype(args[0]?)?))
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
                    let value = self.expr(args[0]?)?;
                    return Some(self.evaluate(value, e.span, mark));
                }
                "buffer_store" => return self.buffer_store(call, e.span, mark),
                _ => {}
            }
        }
        match self.eval(e)? {
            Value::Expr(value) => {
                if self.func.arena.as_var(value).is_some_and(|v| self.func.arena.var(v).name == "") {
                    // An iteration variable that nobody names.
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

    /// Binds names to a value, or to nothing after a mistake.
    fn bind(&mut self, target: &Expr<'a>, value: Option<Value>) {
        match (&target.kind, value) {
            (&ExprKind::Name(name), None) => self.scope.define(name, Value::Poison, target.span),
            (&ExprKind::Name(name), Some(Value::Fresh(dtype))) => {
                let quoted = self.quoted.iter().find(|q| q.0 == name).map(|q| q.1);
                match quoted {
                    // A shape has defined the symbol; the declaration only gives it its type.
                    Some(var) if self.func.arena.var(var).dtype == dtype => {}
                    None if self.scope.get(name).is_some() && self.file.options.bind.contains_key(name) => {}
                    _ => {
                        let value = self.symbol(name, dtype, target.span);
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
    fn let_binding(&mut self, stmt: &PyStmt<'a>) -> Option<Option<(crate::ir::VarId, ExprId, Span)>> {
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
        let (var, var_expr) = self.func.arena.new_var_expr(name, self.func.arena.dtype(e));
        self.define(name, Value::Expr(var_expr), target.span);
        Some(Some((var, e, target.span)))
    }

    /// The type of a `let`: `T.let` gives `Some(None)`, `T.let[T.int32]` and the classic `T.int32` a type.
    fn let_type(&mut self, annotation: &Expr<'a>) -> Option<Option<Result<DType, ()>>> {
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
            Some(Value::Str(name)) => self.dtype_named(&name, e.span).ok_or(()),
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
                        let is_fresh = super::expr::dtype_of_name(attr.name).is_some() && call.args.is_empty();
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
                is_buffer && !slices
            }
            _ => false,
        }
    }

    /// `buffer[indices] = value`; the value is read first, as in Python.
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
        let value = self.stored(b, value, at)?;
        let indices: ExprList = self.func.arena.new_list(&indices);
        Some(Body::from_elem(self.add(Stmt::Store { buffer: b, indices, value }, span, target, mark), 1))
    }

    /// A value in the type of a buffer's elements. TVM converts silently; where that loses something we warn.
    fn stored(&mut self, b: crate::ir::BufferId, value: Value, at: Span) -> Option<ExprId> {
        let dtype = self.func.arena.buffer(b).dtype;
        let e = match value {
            Value::Int(_) | Value::Bool(_) => return self.literal(value, dtype, at),
            Value::Float(_) if dtype.is_float() => return self.literal(value, dtype, at),
            value => self.expr_of(value, at)?,
        };
        let found = self.func.arena.dtype(e);
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
            self.eval(target)?;
            let d = Diagnostic::error_at("unsupported", target.span, "variables can't be changed");
            return self.fail(d.help("allocate a buffer of shape `(1,)` for what changes"));
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
            // The `else` of all before.
            return Some(self.framed(&first.body));
        };
        let value = self.eval(test);
        if let Some(value @ (Value::Bool(_) | Value::Int(_))) = &value {
            // A condition on constants is decided here, and its body is no scope of its own.
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
        let condition = value.and_then(|v| self.condition(v, test.span));
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

    /// A body with a scope of its own.
    fn framed(&mut self, body: &[PyStmt<'a>]) -> Body {
        self.scope.push_frame();
        let body = self.body(body);
        self.scope.pop_frame();
        body
    }

    fn for_(&mut self, f: &For<'a>, span: Span, mark: usize) -> Option<Body> {
        if let Some(orelse) = f.orelse {
            self.error(Diagnostic::error_at("unsupported", orelse, "`else` of a loop is not supported"));
        }
        let specs = self.loop_specs(&f.iter);
        self.scope.push_frame();
        let entered = self.loops.len();
        let depth = self.depth;
        let result = self.loops_around(f, specs, span, mark);
        self.loops.truncate(entered);
        self.depth = depth;
        self.scope.pop_frame();
        result
    }

    fn loops_around(&mut self, f: &For<'a>, specs: Option<Vec<LoopSpec>>, span: Span, mark: usize) -> Option<Body> {
        let Some(specs) = specs else {
            // Read on with undefined loop variables, to find the mistakes inside.
            self.bind(&f.target, None);
            self.body(&f.body);
            return None;
        };
        let mut vars = Vec::new();
        for spec in &specs {
            if !self.enter(span) {
                return None;
            }
            let dtype = self.func.arena.dtype(spec.extent);
            let (var, e) = self.func.arena.new_var_expr("", dtype);
            vars.push((var, e));
            self.loops.push(LoopFrame { var, min: spec.min, extent: spec.extent });
        }
        let targets: &[Expr<'a>] = match &f.target.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => items,
            _ => std::slice::from_ref(&f.target),
        };
        let values: Vec<Value> = vars.iter().map(|v| Value::Expr(v.1)).collect();
        if targets.len() == 1 && values.len() > 1 {
            self.bind(&targets[0], Some(Value::Seq(values)));
        } else if targets.len() != values.len() {
            let message = format!(
                "expected {} for {}, found {}",
                counted(values.len(), "name"),
                counted(values.len(), "loop"),
                targets.len()
            );
            self.error(Diagnostic::error_at("unpack-count", f.target.span, message).label(f.iter.span, ""));
            self.bind(&f.target, None);
        } else {
            for (target, value) in targets.iter().zip(values) {
                self.bind(target, Some(value));
            }
        }
        let mut body = self.body(&f.body);
        for (i, (spec, (var, _))) in specs.into_iter().zip(&vars).enumerate().rev() {
            let node = Loop {
                var: *var,
                min: spec.min,
                extent: spec.extent,
                kind: spec.kind,
                annotations: spec.annotations.into_iter().collect(),
                body,
            };
            let name = if targets.len() == vars.len() { targets[i].span } else { f.target.span };
            let id = self.add(Stmt::Loop(node), span, name, if i == 0 { mark } else { self.spans.mark() });
            body = Body::from_elem(id, 1);
        }
        Some(body)
    }

    /// The loops that `for … in e` makes.
    fn loop_specs(&mut self, e: &Expr<'a>) -> Option<Vec<LoopSpec>> {
        let ExprKind::Call(call) = &e.kind else {
            return self.no_loop(e.span);
        };
        let (name, is_range) = match &call.callee.kind {
            ExprKind::Name("range") => ("range", true),
            ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                Some(Namespace::Tir) => (attr.name, false),
                Some(ns) => return self.unknown_member(ns, *attr),
                None => return self.no_loop(e.span),
            },
            _ => return self.no_loop(e.span),
        };
        let full = if is_range { name.to_string() } else { format!("T.{name}") };
        let kind = match name {
            "grid" => return self.grid(call),
            "range" | "serial" => LoopKind::Serial,
            "parallel" => LoopKind::Parallel,
            "vectorized" => LoopKind::Vectorized,
            "unroll" => LoopKind::Unrolled,
            "thread_binding" => return self.thread_binding(call),
            _ => {
                let ExprKind::Attribute(_, attr) = call.callee.kind else { return self.no_loop(e.span) };
                let known = ["grid", "serial", "parallel", "vectorized", "unroll", "thread_binding"];
                return match crate::diagnostic::nearest(name, known) {
                    Some(near) => {
                        let d = Diagnostic::error_at("unknown-function", attr.span, format!("unknown loop `T.{name}`"));
                        self.fail(d.help(format!("did you mean `T.{near}`?")))
                    }
                    None => self.no_loop(e.span),
                };
            }
        };
        let params: &[&str] = match (is_range, kind) {
            (true, _) => &["start", "stop", "step"],
            (false, LoopKind::Serial) => &["start", "stop", "*", "annotations", "step", "unroll", "dtype"],
            _ => &["start", "stop", "*", "annotations", "step", "dtype"],
        };
        let args = self.args(&full, call, params, 1)?;
        let arg = |name: &str| params.iter().position(|p| *p == name).and_then(|i| args[i]);
        let (min, extent) = self.loop_range(args[0]?, args[1])?;
        let mut annotations = match arg("annotations") {
            Some(e) => self.annotations(e)?,
            None => Vec::new(),
        };
        if let Some(step) = arg("step")
            && !matches!(self.eval(step)?, Value::Int(1) | Value::None)
        {
            let d = Diagnostic::error_at("unsupported", step.span, "loops with a step are not supported");
            return self.fail(d.help("run over fewer iterations and multiply the variable by the step"));
        }
        if let Some(unroll) = arg("unroll") {
            // `unroll=` is TVM's short form of two annotations.
            let (key, value) = match self.eval(unroll)? {
                Value::Bool(true) => ("pragma_unroll", AttrValue::Bool(true)),
                Value::Bool(false) => ("disable_unroll", AttrValue::Bool(true)),
                Value::Int(n) if n >= 1 && n <= i64::MAX as i128 => ("pragma_unroll", AttrValue::Int(n as i64)),
                _ => {
                    let message = "expected `True`, `False` or a positive number for `unroll`";
                    return self.fail(Diagnostic::error_at("wrong-argument", unroll.span, message));
                }
            };
            annotations.push((Symbol::new(key), value));
        }
        let (min, extent) = match arg("dtype") {
            Some(e) if !matches!(e.kind, ExprKind::None) => {
                let dtype = self.dtype(e)?;
                if !dtype.is_index() {
                    let message = format!("expected `int32` or `int64` for a loop, found `{dtype}`");
                    return self.fail(Diagnostic::error_at("type-mismatch", e.span, message));
                }
                (self.cast(dtype, min), self.cast(dtype, extent))
            }
            _ => (min, extent),
        };
        Some(vec![LoopSpec { min, extent, kind, annotations }])
    }

    fn no_loop<T>(&mut self, span: Span) -> Option<T> {
        self.fail(Diagnostic::error_at("unknown-loop", span, "expected a loop, found another expression").help(
            "loops are `range`, `T.serial`, `T.grid`, `T.parallel`, `T.vectorized`, `T.unroll` and `T.thread_binding`",
        ))
    }

    /// The range of a loop: `stop`, or `start, stop`.
    fn loop_range(&mut self, first: &Expr<'a>, second: Option<&Expr<'a>>) -> Option<(ExprId, ExprId)> {
        let second = second.filter(|e| !matches!(e.kind, ExprKind::None));
        let (min, extent, span) = match second {
            None => {
                let extent = self.index(first)?;
                let dtype = self.func.arena.dtype(extent);
                (self.func.arena.int(0, dtype), extent, first.span)
            }
            Some(stop) => {
                let (lo, hi) = (self.index(first), self.index(stop));
                let (min, extent) = self.min_extent(lo?, hi?);
                (min, extent, first.span.to(stop.span))
            }
        };
        self.check_extent(extent, span)?;
        Some((min, extent))
    }

    fn check_extent(&mut self, extent: ExprId, span: Span) -> Option<()> {
        let dtype = self.func.arena.dtype(extent);
        if !dtype.is_index() {
            let d = Diagnostic::error_at(
                "type-mismatch",
                span,
                format!("expected an extent of type `int32` or `int64`, found `{dtype}`"),
            );
            return self.fail(d.help("convert it: `T.Cast(\"int32\", …)`"));
        }
        match self.func.arena.as_int(extent) {
            Some(n) if n <= 0 && self.file.options.checks.is_some() => {
                self.fail(Diagnostic::error_at("empty-extent", span, format!("expected a positive extent, found {n}")))
            }
            _ => Some(()),
        }
    }

    fn grid(&mut self, call: &Call<'a>) -> Option<Vec<LoopSpec>> {
        for (key, value) in &call.keywords {
            match key {
                Some(key) if key.name == "dtype" && matches!(value.kind, ExprKind::None) => {}
                Some(key) => {
                    self.unknown_keyword("T.grid", key.name, key.span, &[]);
                    return None;
                }
                None => return self.unsupported(value.span, "unpacking with `**`"),
            }
        }
        if call.args.is_empty() {
            return self.fail(Diagnostic::error_at("argument-count", call.args_span, "`T.grid` needs an extent"));
        }
        let mut specs = Vec::new();
        let mut ok = true;
        for arg in &call.args {
            let range = match &arg.kind {
                // A pair of first value and extent.
                ExprKind::Tuple(items) if items.len() == 2 => {
                    let (min, extent) = (self.index(&items[0]), self.index(&items[1]));
                    match (min, extent) {
                        (Some(min), Some(extent)) => Some(self.same_index_type(min, extent)),
                        _ => None,
                    }
                }
                ExprKind::Starred(inner) => match self.eval(inner) {
                    // `T.grid(*shape)`
                    Some(Value::Seq(items)) => {
                        for item in items {
                            match self.index_of(item, inner.span) {
                                Some(extent) => specs.push(self.serial(extent)),
                                None => ok = false,
                            }
                        }
                        continue;
                    }
                    _ => self.unsupported(arg.span, "unpacking anything but a list"),
                },
                _ => self.loop_range(arg, None),
            };
            match range {
                Some((min, extent)) if self.check_extent(extent, arg.span).is_some() => {
                    specs.push(LoopSpec { min, extent, kind: LoopKind::Serial, annotations: Vec::new() });
                }
                _ => ok = false,
            }
        }
        ok.then_some(specs)
    }

    fn serial(&mut self, extent: ExprId) -> LoopSpec {
        let dtype = self.func.arena.dtype(extent);
        let min = self.func.arena.int(0, dtype);
        LoopSpec { min, extent, kind: LoopKind::Serial, annotations: Vec::new() }
    }

    fn thread_binding(&mut self, call: &Call<'a>) -> Option<Vec<LoopSpec>> {
        let args = self.args("T.thread_binding", call, &["start", "stop", "thread", "*", "annotations"], 1)?;
        // `T.thread_binding(128, "threadIdx.x")`: the thread in the second place.
        let (stop, thread) = match (args[1], args[2]) {
            (Some(e), None) if matches!(e.kind, ExprKind::Str(_)) => (None, Some(e)),
            other => other,
        };
        let Some(thread) = thread else {
            let d = Diagnostic::error_at(
                "argument-count",
                call.args_span,
                "`T.thread_binding` lacks its argument `thread`",
            );
            return self.fail(d.help("write `thread=\"threadIdx.x\"`, for example"));
        };
        let (min, extent) = self.loop_range(args[0]?, stop)?;
        let thread = self.text(thread)?;
        let annotations = match args[4] {
            Some(e) => self.annotations(e)?,
            None => Vec::new(),
        };
        Some(vec![LoopSpec { min, extent, kind: LoopKind::ThreadBinding(thread), annotations }])
    }

    /// `with context: body`; several contexts nest.
    fn with(&mut self, items: &[(Expr<'a>, Option<Expr<'a>>)], body: &[PyStmt<'a>], span: Span) -> Option<Body> {
        let [(context, target), rest @ ..] = items else {
            return Some(self.body(body));
        };
        if !rest.is_empty() {
            return self.unsupported(context.span.to(rest[rest.len() - 1].0.span), "a `with` of several contexts");
        }
        let found = match &context.kind {
            ExprKind::Call(call) => match &call.callee.kind {
                ExprKind::Attribute(owner, attr) if self.namespace(owner) == Some(Namespace::Tir) => {
                    Some((call, *attr))
                }
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
            "LetStmt" | "let" | "Let" => self.with_let(name, call, target.as_ref(), body, span),
            _ => match crate::diagnostic::nearest(name.name, ["block", "sblock", "init", "LetStmt"]) {
                Some(near) => self.fail(
                    Diagnostic::error_at("unknown-function", name.span, format!("unknown context `T.{}`", name.name))
                        .help(format!("did you mean `T.{near}`?")),
                ),
                None => self.unknown_member(Namespace::Tir, name),
            },
        }
    }

    /// `with T.LetStmt(value, var=x): body`, `with T.LetStmt(value) as x: body`, `with T.let(x, value): body`
    fn with_let(
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
                let value = self.typed(value_at, self.func.arena.var(var).dtype)?;
                Some((var, value, at.span))
            }
            (None, Some(&Expr { kind: ExprKind::Name(name), span })) => {
                let value = self.expr(value_at)?;
                let (var, e) = self.func.arena.new_var_expr(name, self.func.arena.dtype(value));
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
