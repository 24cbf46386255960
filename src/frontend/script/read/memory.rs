//! Reads memory that is allocated or named in place: buffers, scalar variables, handles.

use super::args::Args;
use super::buffer::PARAMS;
use super::func::FuncReader;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{AttrValue, Body, Buffer, BufferId, DType, Expr, ExprId, Pointee, Stmt, Symbol, Ty};
use crate::script::Dialect;
use crate::script::python::{Call, Expr as PyExpr, ExprKind, Ident, Stmt as PyStmt};

/// The number of parameters of `T.alloc_buffer`: those of `T.Buffer`, and annotations.
const ALLOC_PARAMS: usize = PARAMS.len() + 1;

impl<'a> FuncReader<'a, '_> {
    /// `T.alloc_buffer(shape, dtype, …)`: a statement in the current dialect, else an allocation of the enclosing
    /// block.
    pub(super) fn alloc_buffer(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Value> {
        let of_block = name.name == "sblock_alloc_buffer";
        let annotated = call.keywords.iter().any(|k| k.0.is_some_and(|k| k.name == "annotations"));
        if of_block || annotated {
            self.file.vote(Dialect::Current);
        } else if self.file.meaning != Some(Dialect::Current) {
            self.file.vote(Dialect::Classic);
        }
        let scope = match name.name {
            "alloc_local" => Some("local"),
            "alloc_shared" | "smem" => Some("shared"),
            _ => None,
        };
        let mut params = [""; ALLOC_PARAMS];
        params[..PARAMS.len()].copy_from_slice(PARAMS);
        params[PARAMS.len()] = "annotations";
        let args = self.args(&format!("T.{}", name.name), call, &params, 1)?;
        let annotations = match args[PARAMS.len()] {
            Some(e) => self.annotations(e)?,
            None => Vec::new(),
        };
        let buffer = self.described(&args, PARAMS, false)?;
        if let Some(scope) = scope {
            self.func.arena.update_buffer(buffer, |b| b.scope = scope.into());
        }
        let in_place = scope.is_some() || !annotations.is_empty() || self.file.meaning == Some(Dialect::Current);
        if in_place && !of_block {
            self.push_alloc(buffer, annotations, span);
        } else {
            self.block_frame().allocs.push(buffer);
        }
        Some(Value::Buffer(buffer))
    }

    fn push_alloc(&mut self, buffer: BufferId, annotations: Vec<(Symbol, AttrValue)>, span: Span) {
        let stmt = Stmt::Alloc { buffer, annotations: annotations.into_iter().collect() };
        let mark = self.spans.mark();
        let id = self.add(stmt, span, span, mark);
        self.pending.push(id);
    }

    fn push_declare(&mut self, buffer: BufferId, data: ExprId, span: Span) {
        let mark = self.spans.mark();
        let id = self.add(Stmt::Declare { buffer, data }, span, span, mark);
        self.pending.push(id);
    }

    /// `T.decl_buffer(shape, dtype, data=…)`: another name for existing memory; without `data` an allocation.
    pub(super) fn decl_buffer(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Value> {
        let args = self.args(&format!("T.{}", name.name), call, PARAMS, 1)?;
        self.declared(&args, span)
    }

    fn declared(&mut self, args: &Args<'_, 'a>, span: Span) -> Option<Value> {
        const DATA: usize = 2;
        let mut described = args.clone();
        described[DATA] = None;
        let data = match args[DATA].filter(|e| !matches!(e.kind, ExprKind::None)) {
            Some(e) => Some((self.eval(e)?, e.span)),
            None => None,
        };
        let buffer = self.described(&described, PARAMS, false)?;
        let data = match data {
            None => {
                self.push_alloc(buffer, Vec::new(), span);
                return Some(Value::Buffer(buffer));
            }
            Some((Value::Memory(memory), at)) => match self.memories[memory] {
                Some(of) => self.func.arena.buffer_data(of),
                None => return self.first_name(memory, buffer, at, span),
            },
            Some((value, at)) => {
                let e = self.expr_of(value, at)?;
                let found = self.func.arena.dtype(e);
                if found != DType::Handle {
                    let message = format!("expected a handle such as `A.data`, found `{found}`");
                    return self.fail(Diagnostic::error_at("type-mismatch", at, message));
                }
                e
            }
        };
        self.push_declare(buffer, data, span);
        Some(Value::Buffer(buffer))
    }

    // ---- the classic pair ----------------------------------------------------------------------------------

    /// `T.allocate(extents, dtype, scope)`: memory that `T.Buffer(…, data=…)` names.
    pub(super) fn allocate(&mut self, call: &Call<'a>, span: Span) -> Option<Value> {
        let args = self.args("T.allocate", call, &["extents", "dtype", "scope", "condition", "annotations"], 2)?;
        if let Some(e) = args[3].filter(|e| !matches!(e.kind, ExprKind::None | ExprKind::Bool(true))) {
            return self.unsupported(e.span, "a condition of an allocation");
        }
        // The buffer that `T.alloc_buffer` would make.
        let mut described: Args<'_, 'a> = smallvec::SmallVec::from_elem(None, PARAMS.len());
        (described[0], described[1], described[6]) = (args[0], args[1], args[2]);
        let buffer = self.described(&described, PARAMS, false)?;
        let annotations = match args[4] {
            Some(e) => self.annotations(e)?,
            None => Vec::new(),
        };
        // The allocation is here, whatever the name of its buffer.
        let stmt = Stmt::Alloc { buffer, annotations: annotations.into_iter().collect() };
        let mark = self.spans.mark();
        let id = self.add(stmt, span, span, mark);
        self.pending.push(id);
        self.memories.push(None);
        self.allocations.push((buffer, id));
        Some(Value::Memory(self.memories.len() - 1))
    }

    /// The first buffer in the memory of a `T.allocate`. If it covers the memory, as usual, it becomes the allocated
    /// buffer.
    fn first_name(&mut self, memory: usize, buffer: BufferId, at: Span, span: Span) -> Option<Value> {
        let (flat, alloc) = self.allocations[memory];
        let arena = &self.func.arena;
        let (new, old) = (arena.buffer(buffer), arena.buffer(flat));
        if new.scope != old.scope && new.scope != "global" {
            let message = format!("the memory is in `{}`, found the scope `{}`", old.scope, new.scope);
            return self.fail(Diagnostic::error_at("wrong-argument", at, message));
        }
        let size = |b: &Buffer| arena.list(b.shape).iter().try_fold(1i64, |n, &e| n.checked_mul(arena.as_int(e)?));
        let scope = old.scope;
        let is_all = new.dtype == old.dtype && new.elem_offset.is_none() && {
            new.strides.is_none() && (new.shape == old.shape || size(new).is_some() && size(new) == size(old))
        };
        if is_all {
            self.func.arena.update_buffer(buffer, |b| b.scope = scope);
            if let Stmt::Alloc { buffer: slot, .. } = self.func.stmts.stmt_mut(alloc) {
                *slot = buffer;
            }
            self.memories[memory] = Some(buffer);
            return Some(Value::Buffer(buffer));
        }
        self.memories[memory] = Some(flat);
        let data = self.func.arena.buffer_data(flat);
        self.push_declare(buffer, data, span);
        Some(Value::Buffer(buffer))
    }

    /// `with T.allocate(…) as p: body`; the memory lives to the end of the enclosing list.
    pub(super) fn with_allocate(
        &mut self,
        call: &Call<'a>,
        target: Option<&PyExpr<'a>>,
        body: &[PyStmt<'a>],
        span: Span,
    ) -> Option<Body> {
        let memory = self.allocate(call, span);
        self.scope.push_frame();
        if let Some(target) = target {
            self.bind(target, memory.clone());
        }
        let body = self.body(body);
        self.scope.pop_frame();
        memory.map(|_| body)
    }

    /// `x: T.float32[4]`: an array in local memory.
    pub(super) fn local_array(&mut self, ty: Ty, shape: &[ExprId], span: Span) -> Value {
        let shape = self.func.arena.new_list(shape);
        let buffer = Buffer { scope: Symbol::new("local"), lanes: ty.lanes, ..Buffer::new("", ty.dtype, shape) };
        let buffer = self.func.arena.new_buffer(buffer);
        self.push_alloc(buffer, Vec::new(), span);
        Value::Buffer(buffer)
    }

    // ---- views ---------------------------------------------------------------------------------------------

    /// `A.view(4, 4)`: the memory of a buffer in another shape.
    pub(super) fn view_of(&mut self, of: BufferId, call: &Call<'a>, span: Span) -> Option<Value> {
        if let [PyExpr { kind: ExprKind::Str(_) | ExprKind::Attribute(..), span }] = call.args.as_slice() {
            return self.unsupported(*span, "a view of another data type");
        }
        if let Some((key, value)) = call.keywords.first() {
            return self.unsupported(key.map_or(value.span, |k| k.span), "a view with a layout");
        }
        let mut extents = Vec::new();
        let mut inferred = None;
        for (i, e) in call.args.iter().enumerate() {
            match self.eval(e)? {
                Value::Int(-1) if inferred.is_none() => {
                    inferred = Some(i);
                    extents.push(self.func.arena.int32(1));
                }
                value => extents.push(self.index_of(value, e.span)?),
            }
        }
        let old = self.func.arena.buffer(of).clone();
        let arena = &mut self.func.arena;
        let whole = arena.list(old.shape).to_vec().into_iter().reduce(|a, b| arena.mul(a, b));
        let shown = extents.iter().copied().reduce(|a, b| arena.mul(a, b));
        if let (Some(i), Some(whole), Some(shown)) = (inferred, whole, shown) {
            extents[i] = arena.floor_div(whole, shown);
        }
        let shape = arena.new_list(&extents);
        let view = Buffer { name: Symbol::new(""), shape, scalar: false, ..old };
        let view = self.func.arena.new_buffer(view);
        let data = self.func.arena.buffer_data(of);
        self.push_declare(view, data, span);
        Some(Value::Buffer(view))
    }

    // ---- scalar variables ----------------------------------------------------------------------------------

    /// `T.local_scalar(dtype)` and similar: a buffer with one element, read and stored by its name.
    pub(super) fn scalar_call(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Value> {
        let full = format!("T.{}", name.name);
        if name.name == "decl_scalar" {
            let args = self.args(&full, call, &["dtype", "data", "scope", "elem_offset", "byte_offset"], 3)?;
            let ty = self.ty(args[0]?)?;
            let data = self.expr(args[1]?)?;
            let scope = self.text(args[2]?)?;
            let offset = match args[3] {
                Some(e) => Some(self.index(e)?),
                None => None,
            };
            let scalar = self.scalar_buffer("", ty, scope);
            self.func.arena.update_buffer(scalar, |b| b.elem_offset = offset);
            self.push_declare(scalar, data, span);
            return Some(Value::Scalar(scalar));
        }
        let args = self.args(&full, call, &["dtype", "scope"], 0)?;
        let ty = match args[0] {
            Some(e) => self.ty(e)?,
            None => DType::Float32.into(),
        };
        let scope = match (name.name, args[1]) {
            ("local_scalar", _) => Symbol::new("local"),
            ("shared_scalar", _) => Symbol::new("shared"),
            (_, Some(e)) => self.text(e)?,
            (_, None) => Symbol::new("global"),
        };
        let scalar = self.scalar_buffer("", ty, scope);
        self.push_alloc(scalar, Vec::new(), span);
        Some(Value::Scalar(scalar))
    }

    fn scalar_buffer(&mut self, name: &str, ty: Ty, scope: Symbol) -> BufferId {
        let one = self.func.arena.int32(1);
        let shape = self.func.arena.new_list(&[one]);
        let buffer = Buffer { scope, lanes: ty.lanes, scalar: true, ..Buffer::new(name, ty.dtype, shape) };
        self.func.arena.new_buffer(buffer)
    }

    /// Converts a value to the type of a scalar.
    pub(super) fn stored_scalar(&mut self, b: BufferId, value: Value, at: Span) -> Option<ExprId> {
        let zero = self.func.arena.int32(0);
        self.stored(b, &[zero], value, at)
    }

    /// The element of a scalar.
    pub(super) fn scalar_value(&mut self, b: BufferId) -> ExprId {
        let zero = self.func.arena.int32(0);
        self.func.arena.load(b, &[zero])
    }

    /// `x: T.float32` or `x: T.float32 = value`: a scalar variable.
    pub(super) fn define_scalar(
        &mut self,
        target: &PyExpr<'a>,
        ty: Ty,
        value: Option<(Value, Span)>,
        span: Span,
        mark: usize,
    ) -> Option<Body> {
        let ExprKind::Name(name) = target.kind else {
            return self.unsupported(target.span, "a declaration of anything but a name");
        };
        if matches!(ty.dtype, DType::Handle | DType::Str) {
            let d = Diagnostic::error_at("type-mismatch", span, "a handle cannot be stored to");
            return self.fail(d.help("bind it once: `h: T.let[T.handle(\"float32\")] = A.data`"));
        }
        let scalar = self.scalar_buffer(name, ty, Symbol::new("local"));
        let value = match value {
            Some((value, at)) => Some(self.stored_scalar(scalar, value, at)?),
            None => None,
        };
        self.push_alloc(scalar, Vec::new(), span);
        self.spans.add_buffer(scalar, target.span);
        self.define(name, Value::Scalar(scalar), target.span);
        Some(match value {
            Some(value) => self.store_scalar(scalar, value, span, target.span, mark),
            None => Body::new(),
        })
    }

    /// `x = value`
    pub(super) fn store_scalar(&mut self, b: BufferId, value: ExprId, span: Span, target: Span, mark: usize) -> Body {
        self.spans.add_access(b, target);
        let zero = self.func.arena.int32(0);
        let indices = self.func.arena.new_list(&[zero]);
        self.one(Stmt::Store { buffer: b, indices, value }, span, target, mark)
    }

    /// The buffer of one element to which `name = value` stores, as in TVM 0.27: a scalar variable, or any buffer of
    /// shape `(1,)`.
    pub(super) fn assigned_buffer(&self, target: &PyExpr<'a>) -> Option<BufferId> {
        let ExprKind::Name(name) = target.kind else { return None };
        let arena = &self.func.arena;
        let b = match self.scope.get(name)? {
            Value::Scalar(b) => return Some(*b),
            _ if self.file.meaning == Some(Dialect::Classic) => return None,
            // The dialect is unknown, and the store would be a mistake in the classic one.
            _ if self.file.meaning.is_none() && self.scope.in_frame(name).is_none() => return None,
            Value::Buffer(b) => *b,
            Value::Expr(e) => match arena.expr(*e) {
                Expr::Load(b, _) => b,
                _ => return None,
            },
            _ => return None,
        };
        match arena.list(arena.buffer(b).shape) {
            [n] if arena.is_int(*n, 1) => Some(b),
            _ => None,
        }
    }

    /// The type of the scalar variable that a plain assignment of the value makes; `None` if it makes none.
    pub(super) fn scalar_type_of(&self, value: &Value) -> Option<Ty> {
        match value {
            Value::Int(_) => Some(DType::Int32.into()),
            Value::Float(_) => Some(DType::Float32.into()),
            Value::Bool(_) => Some(DType::Bool.into()),
            Value::Expr(e) => match self.func.arena.ty(*e) {
                ty if matches!(ty.dtype, DType::Handle | DType::Str) => None,
                ty => {
                    // An iteration variable that gets its name here.
                    let fresh = self.func.arena.as_var(*e).is_some_and(|v| self.func.arena.var(v).name == "");
                    (!fresh).then_some(ty)
                }
            },
            _ => None,
        }
    }

    /// Whether the right side names its own result, so that it is never a scalar.
    pub(super) fn names_directly(&self, e: &PyExpr<'a>) -> bool {
        let ExprKind::Call(call) = &e.kind else { return false };
        match &call.callee.kind {
            ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                Some(Namespace::Tir) => attr.name == "meta_var",
                Some(Namespace::Axis) => true,
                _ => false,
            },
            _ => false,
        }
    }

    // ---- handles -------------------------------------------------------------------------------------------

    /// `T.handle`, `T.handle("float32", "global")`, `T.ptr("float32")`
    pub(super) fn handle_call(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["dtype", "storage_scope"], 0)?;
        let ty = match (args[0].filter(|e| !matches!(e.kind, ExprKind::None)), args[1]) {
            (None, None) => return Some(Value::Fresh(DType::Handle.into())),
            (None, Some(_)) => Ty::VOID,
            (Some(e), _) => self.ty(e)?,
        };
        let scope = match args[1] {
            Some(e) => self.text(e)?,
            None => Symbol::new("global"),
        };
        Some(Value::FreshPointer(Pointee { ty, scope }))
    }
}
