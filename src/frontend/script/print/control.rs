//! Prints buffers that are allocated in place, loops without a range, jumps, assertions and attributes.

use super::Printer;
use crate::ir::visit::for_each_subexpr;
use crate::ir::{Annotations, Attr, AttrValue, Buffer, BufferId, Expr, ExprId, Pointee, Stmt, StmtId, Ty, VarId};
use crate::script::{Dialect, HINT};

impl Printer<'_> {
    /// A statement of the kinds that this file prints.
    pub(super) fn other_stmt(&mut self, s: StmtId) {
        let func = self.func;
        match func.get(s) {
            Stmt::Alloc { buffer, annotations } => self.alloc(s, *buffer, annotations),
            Stmt::Declare { buffer, data } => self.declaration(s, *buffer, *data),
            Stmt::While { condition, body } => {
                let start = self.start(s, [*condition]);
                self.put("while ");
                let name_start = self.out.len();
                self.expr(*condition);
                let name = self.span_from(name_start);
                self.put(":\n");
                self.nested(body);
                self.record(s, self.whole(start), name);
            }
            Stmt::Break => self.word_stmt(s, "break"),
            Stmt::Continue => self.word_stmt(s, "continue"),
            Stmt::Return(value) => {
                let start = self.start(s, [*value]);
                self.put("return ");
                self.expr(*value);
                self.end(s, start);
            }
            Stmt::Assert(a) => {
                let start = self.start(s, [a.condition]);
                self.put("assert ");
                self.expr(a.condition);
                match self.dialect {
                    Dialect::Current => {
                        self.put(", (");
                        self.string(a.kind.as_str());
                        self.put(", [");
                        self.list(&a.message, |p, part| p.string(part.as_str()));
                        self.put("])");
                    }
                    // The message is one text; the dialect cannot express the kind.
                    Dialect::Classic => {
                        self.put(", ");
                        self.string(&a.text());
                    }
                }
                self.end(s, start);
            }
            Stmt::Attr(a) => self.attr(s, a),
            Stmt::Loop(_)
            | Stmt::Block(_)
            | Stmt::Store { .. }
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_) => unreachable!("printed with the common statements"),
        }
    }

    /// Begins the line of a statement, after declarations of the variables in its expressions.
    fn start(&mut self, s: StmtId, exprs: impl IntoIterator<Item = ExprId>) -> usize {
        self.declare_unknown(exprs);
        self.owner = Some(s);
        self.line();
        self.out.len()
    }

    /// Ends a statement of one line.
    fn end(&mut self, s: StmtId, start: usize) {
        let span = self.span_from(start);
        self.record(s, span, span);
        self.put("\n");
    }

    fn word_stmt(&mut self, s: StmtId, word: &str) {
        let start = self.start(s, []);
        self.put(word);
        self.end(s, start);
    }

    fn alloc(&mut self, s: StmtId, buffer: BufferId, annotations: &Annotations) {
        self.owner = Some(s);
        let start = self.out.len();
        if self.dialect == Dialect::Classic {
            self.classic_alloc(buffer, annotations);
        } else if self.func.arena.buffer(buffer).scalar {
            self.scalar(buffer);
            self.put("\n");
        } else {
            self.buffer_statement_with(buffer, "alloc_buffer", |_| {}, |_| {}, |p| p.alloc_annotations(annotations));
        }
        self.record_line(s, start);
    }

    fn alloc_annotations(&mut self, annotations: &Annotations) {
        if !annotations.is_empty() {
            self.put(", annotations=");
            self.annotations(annotations);
        }
    }

    /// The pair of statements for an in-place allocation in older versions of TVM: memory, and a buffer in it.
    fn classic_alloc(&mut self, buffer: BufferId, annotations: &Annotations) {
        let arena = &self.func.arena;
        let Buffer { name, shape, scope, .. } = *arena.buffer(buffer);
        let dtype = arena.buffer(buffer).ty();
        let extents = arena.list(shape).to_vec();
        self.declare_unknown(extents.iter().copied());
        let memory = self.names.reserve(name.with_suffix("_data"));
        self.line();
        self.put(&format!("{memory} = T.allocate(["));
        self.list(extents, |p, e| p.expr(e));
        self.put(&format!("], \"{dtype}\", "));
        self.string(scope.as_str());
        self.alloc_annotations(annotations);
        self.put(")\n");
        self.buffer_statement_with(buffer, "decl_buffer", |_| {}, |p| p.put(&format!(", data={memory}")), |_| {});
    }

    /// `x: T.float32`, or `x = T.shared_scalar("float32")`, without the end of the line.
    fn scalar(&mut self, buffer: BufferId) {
        let func = self.func;
        let (dtype, scope) = (func.arena.buffer(buffer).ty(), func.arena.buffer(buffer).scope);
        self.line();
        let start = self.out.len();
        let name = self.names.define_buffer(func, buffer);
        self.put(name.as_str());
        let span = self.span_from(start);
        match scope.as_str() {
            "local" => self.put(&format!(": T.{dtype}")),
            "shared" => self.put(&format!(" = T.shared_scalar(\"{dtype}\")")),
            other => self.put(&format!(" = T.alloc_scalar(\"{dtype}\", \"{other}\")")),
        }
        if let Some(spans) = &mut self.spans {
            spans.add_buffer(buffer, span);
        }
    }

    /// The first two statements of a list, if they are a scalar variable and a store of its first value.
    pub(super) fn initialised(&self, body: &[StmtId]) -> Option<(StmtId, StmtId)> {
        let [alloc, store, ..] = *body else { return None };
        let func = self.func;
        let Stmt::Alloc { buffer, annotations } = func.get(alloc) else { return None };
        let Stmt::Store { buffer: stored, value, .. } = func.get(store) else { return None };
        let is_local = func.arena.buffer(*buffer).scalar && func.arena.buffer(*buffer).scope == "local";
        let mut reads = false;
        for_each_subexpr(&func.arena, *value, &mut |e| {
            reads |= matches!(func.arena.expr(e), Expr::Load(b, _) if b == *buffer);
        });
        let is_one = self.dialect == Dialect::Current && is_local && annotations.is_empty() && !reads;
        (is_one && stored == buffer).then_some((alloc, store))
    }

    /// `x: T.float32 = value`
    pub(super) fn scalar_with_value(&mut self, alloc: StmtId, store: StmtId) {
        let func = self.func;
        let (Stmt::Alloc { buffer, .. }, Stmt::Store { value, .. }) = (func.get(alloc), func.get(store)) else {
            unreachable!("`initialised` has found an allocation and a store")
        };
        // The name is not in scope in the value.
        self.declare_unknown([*value]);
        self.owner = Some(store);
        let start = self.out.len();
        self.scalar(*buffer);
        self.put(" = ");
        self.expr(*value);
        self.put("\n");
        self.record_line(alloc, start);
        self.record_line(store, start);
    }

    fn declaration(&mut self, s: StmtId, buffer: BufferId, data: ExprId) {
        self.owner = Some(s);
        let func = self.func;
        let start = self.out.len();
        let Buffer { scope, scalar, elem_offset, .. } = *func.arena.buffer(buffer);
        let dtype = func.arena.buffer(buffer).ty();
        if scalar && self.dialect == Dialect::Current {
            self.declare_unknown(elem_offset);
            self.line();
            let name = self.names.define_buffer(func, buffer);
            self.put(&format!("{name} = T.decl_scalar(\"{dtype}\", "));
            self.expr(data);
            self.put(&format!(", \"{scope}\""));
            if let Some(e) = elem_offset {
                self.put(", ");
                self.expr(e);
            }
            self.put(")\n");
        } else {
            self.buffer_statement_with(
                buffer,
                "decl_buffer",
                |_| {},
                |p| {
                    p.put(", data=");
                    p.expr(data);
                },
                |_| {},
            );
        }
        self.record_line(s, start);
    }

    /// `T.int32`, `T.handle("float32", "global")`
    pub(super) fn var_type(&self, v: VarId) -> String {
        let var = self.func.arena.var(v);
        match var.pointee {
            Some(p) => handle_type(p),
            None => format!("T.{}", var.ty()),
        }
    }

    /// Records the last line, which begins at `start`, as a statement.
    fn record_line(&mut self, s: StmtId, start: usize) {
        let line = self.whole(start);
        let indent = self.out[start..].len() - self.out[start..].trim_start().len();
        let line = crate::diagnostic::Span { start: line.start + indent as u32, ..line };
        self.record(s, line, line);
    }

    fn attr(&mut self, s: StmtId, a: &Attr) {
        let start = self.start(s, [a.value]);
        if let (HINT, AttrValue::Dict(items)) = (a.key.as_str(), &a.node) {
            self.put("with T.hint(");
            let (message, others): (Vec<_>, Vec<_>) = items.iter().partition(|(key, _)| key.as_str() == "message");
            self.list(message.into_iter().chain(others), |p, (key, value)| {
                if key.as_str() != "message" {
                    p.put(&format!("{key}="));
                }
                p.attr_value(value);
            });
            self.put(")");
            let name = self.span_from(start);
            self.put(":\n");
            self.nested(&a.body);
            return self.record(s, self.whole(start), name);
        }
        self.put("with T.attr(");
        self.attr_value(&a.node);
        self.put(", ");
        self.string(a.key.as_str());
        self.put(", ");
        self.expr(a.value);
        self.put(")");
        let name = self.span_from(start);
        self.put(":\n");
        self.nested(&a.body);
        self.record(s, self.whole(start), name);
    }
}

/// `T.handle("float32", "global")`; `T.handle(storage_scope="shared")` without an element type.
pub(super) fn handle_type(pointee: Pointee) -> String {
    match pointee.ty {
        Ty::VOID => format!("T.handle(storage_scope=\"{}\")", pointee.scope),
        ty => format!("T.handle(\"{ty}\", \"{}\")", pointee.scope),
    }
}
