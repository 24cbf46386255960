//! Reads declarations of buffers: parameters, allocations, views.

use super::args::Args;
use super::func::FuncReader;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::buffer::index_type;
use crate::ir::difference::difference;
use crate::ir::{Buffer, BufferId, DType, ExprId, MatchBuffer, Symbol};
use crate::script::OWN_OFFSET;
use crate::script::python::{self, Call, Expr, ExprKind, Ident};
use smallvec::SmallVec;

/// The parameters that describe a buffer, in the order of `T.Buffer`.
pub(super) const PARAMS: &[&str] = &[
    "shape",
    "dtype",
    "data",
    "strides",
    "elem_offset",
    "byte_offset",
    "scope",
    "align",
    "offset_factor",
    "buffer_type",
    "axis_separators",
    "layout",
    "allocated_addr",
];

/// The parameters of `T.match_buffer`: the matched parameter, then those of `T.Buffer`.
const MATCH_PARAMS: &[&str] = &[
    "param",
    "shape",
    "dtype",
    "data",
    "strides",
    "elem_offset",
    "scope",
    "align",
    "offset_factor",
    "buffer_type",
    "axis_separators",
    "layout",
];

impl<'a> FuncReader<'a, '_> {
    /// The type of a parameter, if it is a buffer: `T.Buffer(shape, dtype)` or `T.Buffer[shape, dtype]`.
    pub(super) fn buffer_annotation(&mut self, e: &Expr<'a>) -> Option<Option<BufferId>> {
        let is_buffer = |this: &Self, e: &Expr<'a>| match &e.kind {
            ExprKind::Attribute(owner, attr) => attr.name == "Buffer" && this.namespace(owner) == Some(Namespace::Tir),
            _ => false,
        };
        match &e.kind {
            ExprKind::Call(call) if is_buffer(self, &call.callee) => {
                let args = match self.args("T.Buffer", call, PARAMS, 1) {
                    Some(args) => args,
                    None => return Some(None),
                };
                Some(self.described(&args, PARAMS, true))
            }
            ExprKind::Subscript(owner, index) if is_buffer(self, owner) => {
                // `T.Buffer[(128, 128), "float32"]`; without a data type the tuple is the shape.
                let mut args: Args<'_, 'a> = SmallVec::from_elem(None, PARAMS.len());
                match &index.kind {
                    ExprKind::Tuple(items)
                        if items.len() == 2 && matches!(items[1].kind, ExprKind::Str(_) | ExprKind::Attribute(..)) =>
                    {
                        args[0] = Some(&items[0]);
                        args[1] = Some(&items[1]);
                    }
                    _ => args[0] = Some(index),
                }
                Some(self.described(&args, PARAMS, true))
            }
            _ => None,
        }
    }

    /// A new, unnamed buffer with these arguments. With `defines`, which is set for annotations of parameters and for
    /// `T.match_buffer`, unknown names in quoted shapes define symbols.
    pub(super) fn described(&mut self, args: &Args<'_, 'a>, params: &[&str], defines: bool) -> Option<BufferId> {
        let arg = |name: &str| params.iter().position(|p| *p == name).and_then(|i| args[i]);
        let shape = self.shape(arg("shape")?, defines);
        let dtype = match arg("dtype") {
            Some(e) => self.ty(e),
            None => Some(DType::Float32.into()),
        };
        let strides = match arg("strides") {
            Some(e) => self.strides(e),
            None => Some(None),
        };
        let given = |name: &str| arg(name).filter(|e| !matches!(e.kind, ExprKind::None));
        let elem_offset = match (given("elem_offset"), given("byte_offset")) {
            (Some(_), Some(e)) => {
                let message = "a buffer has an `elem_offset` or a `byte_offset`, not both";
                return self.fail(Diagnostic::error_at("wrong-argument", e.span, message));
            }
            (Some(e), None) => self.index(e).map(Some),
            (None, Some(e)) => self.index(e).zip(dtype).map(|(bytes, dtype)| {
                let arena = &mut self.func.arena;
                let bits = arena.mul_const(bytes, 8);
                let size = arena.int(i64::from(dtype.dtype.bits()) * i64::from(dtype.lanes), arena.dtype(bytes));
                Some(arena.floor_div(bits, size))
            }),
            (None, None) => Some(None),
        };
        let scope = match arg("scope") {
            Some(e) => self.text(e),
            None => Some(Symbol::new("global")),
        };
        let align = self.small(arg("align"));
        let offset_factor = self.small(arg("offset_factor"));
        let separators = match arg("axis_separators") {
            Some(e) => self.integers(e),
            None => Some(Vec::new()),
        };
        for name in ["data", "allocated_addr"] {
            if let Some(e) = arg(name).filter(|e| !matches!(e.kind, ExprKind::None)) {
                return self.unsupported(e.span, &format!("the argument `{name}` of a buffer"));
            }
        }
        let no_layout = match arg("layout") {
            // With `s_tir` no buffer has a layout.
            Some(e) => match self.eval(e)? {
                Value::None => !self.func.s_tir,
                Value::Str(text) if &*text == "default" => false,
                _ => return self.unsupported(e.span, "a layout other than `None`"),
            },
            None => false,
        };
        let (shape, dtype) = (shape?, dtype?);
        if matches!(dtype.dtype, DType::Handle | DType::Str) {
            let span = arg("dtype").map_or(Span::default(), |e| e.span);
            return self.fail(Diagnostic::error_at(
                "type-mismatch",
                span,
                format!("a buffer has no elements of type `{dtype}`"),
            ));
        }
        let mut buffer = Buffer::new("", dtype, self.func.arena.new_list(&shape));
        if let Some(strides) = strides? {
            if strides.len() != shape.len() {
                let span = arg("strides").map_or(Span::default(), |e| e.span);
                let message = format!("expected {} strides, one per dimension, found {}", shape.len(), strides.len());
                return self.fail(Diagnostic::error_at("wrong-argument", span, message));
            }
            buffer.strides = Some(self.func.arena.new_list(&strides));
        }
        // An offset of 0 is the default, unless its type differs.
        let usual = index_type(&self.func.arena, buffer.shape);
        let says_nothing = |e: ExprId| self.func.arena.is_int(e, 0) && self.func.arena.dtype(e) == usual;
        buffer.elem_offset = elem_offset?.filter(|&e| !says_nothing(e));
        buffer.scope = scope?;
        buffer.align = align?;
        buffer.offset_factor = offset_factor?;
        buffer.axis_separators = separators?;
        buffer.no_layout = no_layout;
        Some(self.func.arena.new_buffer(buffer))
    }

    /// A shape: one extent or a list of them.
    fn shape(&mut self, e: &Expr<'a>, defines: bool) -> Option<SmallVec<[ExprId; 6]>> {
        let items: &[Expr<'a>] = match &e.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => items,
            _ => std::slice::from_ref(e),
        };
        let mut extents: SmallVec<[ExprId; 6]> = SmallVec::new();
        let mut ok = true;
        for item in items {
            let value = match &item.kind {
                ExprKind::Str(text) if defines => self.quoted_extent(text, item.span),
                _ => self.eval(item).map(|v| (v, item.span)),
            };
            match value {
                // A list instead of the only extent: a shape by name.
                Some((Value::Seq(values), span)) if items.len() == 1 => {
                    for v in values {
                        match self.extent(v, span) {
                            Some(e) => extents.push(e),
                            None => ok = false,
                        }
                    }
                }
                Some((v, span)) => match self.extent(v, span) {
                    Some(e) => extents.push(e),
                    None => ok = false,
                },
                None => ok = false,
            }
        }
        ok.then_some(extents)
    }

    /// One extent: an integer expression, not negative if it is constant.
    fn extent(&mut self, value: Value, span: Span) -> Option<ExprId> {
        let e = self.index_of(value, span)?;
        if !self.func.arena.dtype(e).is_index() {
            let message =
                format!("expected an extent of type `int32` or `int64`, found `{}`", self.func.arena.dtype(e));
            return self.fail(Diagnostic::error_at("type-mismatch", span, message));
        }
        match self.func.arena.as_int(e) {
            Some(n) if n < 0 && self.file.options.checks.is_some() => self.fail(Diagnostic::error_at(
                "negative-dimension",
                span,
                format!("expected an extent of at least 0, found {n}"),
            )),
            _ => Some(e),
        }
    }

    /// A quoted extent in the annotation of a parameter: unknown names become symbols.
    fn quoted_extent(&mut self, text: &str, span: Span) -> Option<(Value, Span)> {
        let inner = Span { start: span.start + 1, end: span.end.saturating_sub(1) };
        if self.file.text.get(inner.range()) != Some(text) {
            return self.unsupported(span, "a quoted extent with escapes or a prefix");
        }
        let e = match python::parse_expression(self.file.text, inner) {
            Ok(e) => e,
            Err(errors) => {
                self.file.diagnostics.extend(errors);
                return None;
            }
        };
        let mut names = Vec::new();
        names_in(&e, &mut names);
        for name in names {
            let scalar = self.scalars.iter().find(|s| s.0 == name.name).map(|s| s.1);
            let is_global = scalar.is_none() && self.file.globals.contains_key(name.name);
            if self.scope.get(name.name).is_none() && !is_global {
                let value = self.symbol(name.name, scalar.unwrap_or(DType::Int32), name.span);
                if let Value::Expr(id) = value {
                    self.quoted.push((name.name, self.func.arena.as_var(id)));
                }
                self.scope.define(name.name, value, name.span);
            }
        }
        self.eval(&e).map(|v| (v, e.span))
    }

    fn strides(&mut self, e: &Expr<'a>) -> Option<Option<Vec<ExprId>>> {
        let items = match &e.kind {
            ExprKind::None => return Some(None),
            ExprKind::Tuple(items) | ExprKind::List(items) => items,
            _ => {
                let message = "expected a list of strides";
                return self.fail(Diagnostic::error_at("wrong-argument", e.span, message));
            }
        };
        let mut strides = Vec::new();
        for item in items {
            let stride = match &item.kind {
                // A quoted stride is a new variable.
                ExprKind::Str(name) => self.func.arena.new_var_expr(&**name, DType::Int32).1,
                _ => self.index(item)?,
            };
            strides.push(stride);
        }
        // An empty list means no strides.
        Some(Some(strides).filter(|s| !s.is_empty()))
    }

    /// `buffer.elem_offset`: the stated offset; 0 if none is stated; if only an `offset_factor` is stated, a symbol
    /// that is made at its first use.
    pub(super) fn offset_of(&mut self, b: BufferId) -> Value {
        let buffer = self.func.arena.buffer(b);
        let dtype = index_type(&self.func.arena, buffer.shape);
        Value::Expr(match buffer.elem_offset {
            Some(e) => e,
            None if buffer.offset_factor == 0 => self.func.arena.int(0, dtype),
            None => {
                let (_, offset) = self.func.arena.new_var_expr(OWN_OFFSET, dtype);
                self.func.arena.update_buffer(b, |b| b.elem_offset = Some(offset));
                offset
            }
        })
    }

    /// A text argument.
    pub(super) fn text(&mut self, e: &Expr<'a>) -> Option<Symbol> {
        match self.eval(e)? {
            Value::Str(s) => Some(Symbol::new(&s)),
            other => {
                let message = format!("expected a text, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
        }
    }

    /// A small constant; -1 and `None` mean 0.
    fn small(&mut self, e: Option<&Expr<'a>>) -> Option<u32> {
        let Some(e) = e else { return Some(0) };
        match self.eval(e)? {
            Value::Int(-1) | Value::None => Some(0),
            Value::Int(v) if (0..=1 << 20).contains(&v) => Some(v as u32),
            other => {
                let message = match other {
                    Value::Int(v) => format!("expected a small positive number, found {v}"),
                    other => format!("expected a number, found {}", other.describe()),
                };
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
        }
    }

    fn integers(&mut self, e: &Expr<'a>) -> Option<Vec<u32>> {
        let value = self.eval(e)?;
        let items = match value {
            Value::None => Some(Vec::new()),
            Value::Seq(items) => items
                .into_iter()
                .map(|v| match v {
                    Value::Int(v) => u32::try_from(v).ok(),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        match items {
            Some(items) => Some(items),
            None => self.fail(Diagnostic::error_at("wrong-argument", e.span, "expected a list of small numbers")),
        }
    }

    /// `T.match_buffer(param, shape, …)`: gives a handle parameter its shape, or a region a name.
    pub(super) fn match_buffer(&mut self, call: &Call<'a>) -> Option<Value> {
        let args = self.args("T.match_buffer", call, MATCH_PARAMS, 1)?;
        let param = args[0]?;
        if let ExprKind::Subscript(..) = param.kind {
            return self.view(&args);
        }
        match self.eval(param)? {
            Value::Buffer(_) => self.view(&args),
            Value::Expr(e) if self.func.arena.dtype(e) == DType::Handle => {
                let var = self.func.arena.as_var(e);
                let position = self.func.params.iter().position(|p| Some(p.var) == var);
                let d = match position {
                    None => {
                        let message = "expected a parameter of type `T.handle`";
                        Diagnostic::error_at("wrong-argument", param.span, message)
                    }
                    Some(_) if args[1].is_none() => {
                        let message = "`T.match_buffer` of a parameter needs a shape";
                        Diagnostic::error_at("argument-count", call.args_span, message)
                    }
                    Some(i) if self.func.params[i].buffer.is_some() => {
                        Diagnostic::error_at("duplicate-name", param.span, "the parameter already has a buffer")
                    }
                    Some(i) => {
                        let buffer = self.described(&args, MATCH_PARAMS, true)?;
                        self.func.params[i].buffer = Some(buffer);
                        return Some(Value::Buffer(buffer));
                    }
                };
                self.fail(d)
            }
            other => {
                let message = format!("expected a parameter or a region, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", param.span, message))
            }
        }
    }

    /// `T.match_buffer(B[0:16, i], shape, …)`: a named region. The default shape is that of the region, the default
    /// data type that of the buffer.
    fn view(&mut self, args: &Args<'_, 'a>) -> Option<Value> {
        let source = self.region(args[0]?)?;
        let ty = self.func.arena.buffer(source.buffer).ty();
        let buffer = match args[1] {
            None => Buffer::new("", ty, source.extents),
            Some(_) => {
                let described = self.described(args, MATCH_PARAMS, false)?;
                let buffer = self.func.arena.buffer(described).clone();
                let ty = if args[2].is_some() { buffer.ty() } else { ty };
                Buffer { dtype: ty.dtype, lanes: ty.lanes, ..buffer }
            }
        };
        let buffer = self.func.arena.new_buffer(buffer);
        self.block_frame().matches.push(MatchBuffer { buffer, source });
        Some(Value::Buffer(buffer))
    }

    /// `lo, hi` as minimum and extent.
    pub(super) fn min_extent(&mut self, lo: ExprId, hi: ExprId) -> (ExprId, ExprId) {
        let (lo, hi) = self.same_index_type(lo, hi);
        (lo, difference(&mut self.func.arena, hi, lo))
    }
}

/// The names in an extent.
fn names_in<'a>(e: &Expr<'a>, out: &mut Vec<Ident<'a>>) {
    match &e.kind {
        ExprKind::Name(name) => out.push(Ident { name, span: e.span }),
        ExprKind::Unary(_, a) => names_in(a, out),
        ExprKind::Binary(_, a, b) => {
            names_in(a, out);
            names_in(b, out);
        }
        ExprKind::Call(call) => call.args.iter().for_each(|a| names_in(a, out)),
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().for_each(|i| names_in(i, out)),
        _ => {}
    }
}
