//! Evaluates expressions.

use super::args::counted;
use super::func::FuncReader;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::difference::difference;
use crate::ir::{BufferId, BufferRegion, DType, ExprId, Ty};
use crate::script::python::{Expr, ExprKind, Ident};
use smallvec::SmallVec;

impl<'a> FuncReader<'a, '_> {
    /// The value of an expression.
    pub(super) fn eval(&mut self, e: &Expr<'a>) -> Option<Value> {
        let value = self.eval_kind(e)?;
        if let Value::Expr(id) = value {
            self.spans.add_expr(id, e.span);
        }
        Some(value)
    }

    fn eval_kind(&mut self, e: &Expr<'a>) -> Option<Value> {
        match &e.kind {
            ExprKind::Name(name) => self.lookup(name, e.span),
            ExprKind::Int(Some(v)) => Some(Value::Int(*v as i128)),
            ExprKind::Int(None) => {
                self.fail(Diagnostic::error_at("literal-range", e.span, "the integer does not fit 64 bits"))
            }
            ExprKind::Float(v) => Some(Value::Float(*v)),
            ExprKind::Str(s) => Some(Value::Str(s.clone())),
            ExprKind::Bool(b) => Some(Value::Bool(*b)),
            ExprKind::None => Some(Value::None),
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                // Evaluate every item, so that every mistake is found.
                let values: Vec<Option<Value>> = items.iter().map(|i| self.eval(i)).collect();
                values.into_iter().collect::<Option<Vec<Value>>>().map(Value::Seq)
            }
            ExprKind::Dict(items) => self.dict(items),
            ExprKind::Attribute(value, attr) => self.attribute(value, *attr),
            ExprKind::Call(call) => self.call(call, e.span),
            ExprKind::Subscript(value, index) => self.subscript(value, index, e.span),
            ExprKind::Unary(op, a) => {
                let a_value = self.eval(a)?;
                self.unary(*op, a_value, e.span)
            }
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.eval(a), self.eval(b));
                self.binary(*op, (x?, a.span), (y?, b.span), e.span)
            }
            ExprKind::Logical(op, operands) => self.logical(*op, operands),
            ExprKind::Compare(first, rest) => self.comparison(first, rest),
            ExprKind::Conditional(c) => {
                let test = self.eval(&c.test)?;
                match self.truth(&test) {
                    Some(true) => self.eval(&c.then),
                    Some(false) => self.eval(&c.otherwise),
                    None => {
                        let (then, otherwise) = (self.eval(&c.then), self.eval(&c.otherwise));
                        let condition = self.condition(test, c.test.span);
                        let (then, otherwise) = self.matched((then?, c.then.span), (otherwise?, c.otherwise.span))?;
                        Some(Value::Expr(self.func.arena.if_then_else(condition?, then, otherwise)))
                    }
                }
            }
            ExprKind::Slice(_) => {
                let d = Diagnostic::error_at("misplaced", e.span, "expected an index, found a slice");
                self.fail(d.help("slices stand in `T.reads`, `T.writes` and `T.match_buffer` only"))
            }
            ExprKind::Lambda(..) => self.unsupported(e.span, "a lambda"),
            ExprKind::Starred(_) => self.unsupported(e.span, "unpacking with `*`"),
            ExprKind::ListComp(_) => self.unsupported(e.span, "a comprehension"),
            ExprKind::Format(_) => self.unsupported(e.span, "a formatted string"),
            ExprKind::Other(what) => self.unsupported(e.span, what),
        }
    }

    pub(super) fn unsupported<T>(&mut self, span: Span, what: &str) -> Option<T> {
        self.fail(Diagnostic::error_at("unsupported", span, format!("{what} is not supported")))
    }

    fn dict(&mut self, items: &[(Option<Expr<'a>>, Expr<'a>)]) -> Option<Value> {
        let mut entries: Vec<(Box<str>, Value)> = Vec::new();
        for (key, value) in items {
            let Some(key) = key else { return self.unsupported(value.span, "unpacking with `**`") };
            let name = match self.eval(key)? {
                Value::Str(name) => name,
                other => {
                    let message = format!("expected a text as key, found {}", other.describe());
                    return self.fail(Diagnostic::error_at("wrong-argument", key.span, message));
                }
            };
            if entries.iter().any(|e| e.0 == name) {
                return self.fail(Diagnostic::error_at(
                    "duplicate-name",
                    key.span,
                    format!("key `{name}` is given twice"),
                ));
            }
            let value = self.eval(value)?;
            entries.push((name, value));
        }
        Some(Value::Dict(entries))
    }

    /// `value.name`
    fn attribute(&mut self, value: &Expr<'a>, attr: Ident<'a>) -> Option<Value> {
        if let Some(ns) = self.namespace(value) {
            if let Some(member) = ns.member(attr.name) {
                return Some(Value::Namespace(member));
            }
            if ns == Namespace::Tir
                && let Some(ty) = type_member(attr.name)
            {
                return Some(Value::Type(ty));
            }
            return self.unknown_member(ns, attr);
        }
        let owner = self.eval(value)?;
        match (&owner, attr.name) {
            (Value::Buffer(b), "dtype") => Some(Value::Str(self.func.arena.buffer(*b).ty().to_string().into())),
            (Value::Buffer(b), "elem_offset") => Some(self.offset_of(*b)),
            (Value::Buffer(b), "data") => Some(Value::Expr(self.func.arena.buffer_data(*b))),
            (Value::Buffer(b), "shape") => {
                let shape = self.func.arena.buffer(*b).shape;
                Some(Value::Seq(self.func.arena.list(shape).iter().map(|&e| self.plain(e)).collect()))
            }
            (Value::Buffer(b), "strides") => {
                let strides = self.func.arena.buffer(*b).strides;
                Some(Value::Seq(
                    strides.map_or(Vec::new(), |l| self.func.arena.list(l).iter().map(|&e| self.plain(e)).collect()),
                ))
            }
            // `T.handle().ty`
            (Value::Fresh(ty), "ty" | "dtype") => Some(Value::Type(*ty)),
            (Value::FreshPointer(_), "ty") => Some(owner),
            (Value::Expr(e), "dtype") => Some(Value::Str(self.func.arena.ty(*e).to_string().into())),
            _ => {
                let message = format!("{} has no attribute `{}`", owner.describe(), attr.name);
                self.fail(Diagnostic::error_at("unknown-attribute", attr.span, message))
            }
        }
    }

    /// Converts an `int32` constant to a Python integer, so that it takes the type of the other operand.
    fn plain(&self, e: ExprId) -> Value {
        match self.func.arena.as_int(e) {
            Some(v) if self.func.arena.dtype(e) == DType::Int32 => Value::Int(v as i128),
            _ => Value::Expr(e),
        }
    }

    /// `value[index]`
    fn subscript(&mut self, value: &Expr<'a>, index: &Expr<'a>, span: Span) -> Option<Value> {
        match self.eval(value)? {
            Value::Buffer(b) => self.element(b, index, span),
            Value::Seq(items) => {
                let i = match self.eval(index)? {
                    Value::Int(i) => i,
                    other => {
                        let message = format!("expected an integer constant as position, found {}", other.describe());
                        return self.fail(Diagnostic::error_at("wrong-argument", index.span, message));
                    }
                };
                let position = if i < 0 { i + items.len() as i128 } else { i };
                match usize::try_from(position).ok().and_then(|p| items.get(p).cloned()) {
                    Some(item) => Some(item),
                    None => {
                        let message = format!("position {i} is outside a list of {}", items.len());
                        self.fail(Diagnostic::error_at("out-of-bounds", index.span, message))
                    }
                }
            }
            other => {
                let message = format!("{} has no elements", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", value.span, message))
            }
        }
    }

    /// `B[i, j]`: an element.
    fn element(&mut self, b: BufferId, index: &Expr<'a>, span: Span) -> Option<Value> {
        let indices = self.indices(b, index, span)?;
        self.spans.add_access(b, span);
        Some(Value::Expr(self.func.arena.load(b, &indices)))
    }

    /// The indices of an element, one for each dimension.
    pub(super) fn indices(&mut self, b: BufferId, index: &Expr<'a>, span: Span) -> Option<SmallVec<[ExprId; 6]>> {
        let items = subscripts(index);
        if items.len() != self.rank(b) {
            return self.wrong_rank(b, items.len(), span);
        }
        self.index_items(b, items)
    }

    pub(super) fn rank(&self, b: BufferId) -> usize {
        self.func.arena.list(self.func.arena.buffer(b).shape).len()
    }

    /// `B[a:b, j]`: a region of a buffer. Missing indices mean the whole dimension.
    fn box_of(&mut self, b: BufferId, index: &Expr<'a>, span: Span) -> Option<BufferRegion> {
        let items = subscripts(index);
        if items.len() > self.rank(b) {
            return self.wrong_rank(b, items.len(), span);
        }
        let shape: SmallVec<[ExprId; 6]> = self.func.arena.list(self.func.arena.buffer(b).shape).into();
        let mut ranges: SmallVec<[(ExprId, ExprId); 6]> = SmallVec::new();
        for (d, &extent) in shape.iter().enumerate() {
            let dtype = self.func.arena.dtype(extent);
            let range = match items.get(d) {
                None => (self.func.arena.int(0, dtype), extent),
                Some(Expr { kind: ExprKind::Slice(slice), span }) => {
                    if let Some(step) = &slice.step
                        && !matches!(self.eval(step)?, Value::Int(1))
                    {
                        return self.unsupported(step.span, "a slice with a step");
                    }
                    let lower = slice.lower.as_ref().map(|e| self.index(e));
                    let upper = slice.upper.as_ref().map(|e| self.index(e));
                    let lower = match lower {
                        Some(e) => e?,
                        None => self.func.arena.int(0, dtype),
                    };
                    let upper = match upper {
                        Some(e) => e?,
                        None => extent,
                    };
                    let (lower, upper) = self.same_index_type(lower, upper);
                    let size = difference(&mut self.func.arena, upper, lower);
                    if self.func.arena.as_int(size).is_some_and(|n| n < 0) && self.file.options.checks.is_some() {
                        let message = "the slice ends before it starts";
                        return self.fail(Diagnostic::error_at("out-of-bounds", *span, message));
                    }
                    (lower, size)
                }
                Some(e) => {
                    let i = self.index(e)?;
                    let dtype = self.func.arena.dtype(i);
                    (i, self.func.arena.int(1, dtype))
                }
            };
            ranges.push(range);
        }
        self.spans.add_access(b, span);
        Some(BufferRegion::new(&mut self.func.arena, b, &ranges))
    }

    /// Converts two index expressions to the wider of their types.
    pub(super) fn same_index_type(&mut self, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
        let (ta, tb) = (self.func.arena.dtype(a), self.func.arena.dtype(b));
        if ta == tb {
            (a, b)
        } else if ta.bits() < tb.bits() {
            (self.func.arena.cast(tb, a), b)
        } else {
            (a, self.func.arena.cast(ta, b))
        }
    }

    pub(super) fn wrong_rank<T>(&mut self, b: BufferId, found: usize, span: Span) -> Option<T> {
        let buffer = self.func.arena.buffer(b);
        let rank = self.func.arena.list(buffer.shape).len();
        let message =
            format!("buffer `{}` has {}, found {}", buffer.name, counted(rank, "dimension"), counted(found, "index"));
        let d = Diagnostic::error_at("index-count", span, message);
        let d = match self.spans.buffer(b) {
            Some(declared) => d.label(declared, "declared here"),
            None => d,
        };
        self.fail(d)
    }

    /// Evaluates an expression of the program.
    pub(super) fn expr(&mut self, e: &Expr<'a>) -> Option<ExprId> {
        let value = self.eval(e)?;
        self.expr_of(value, e.span)
    }

    /// Evaluates an integer expression.
    pub(super) fn index(&mut self, e: &Expr<'a>) -> Option<ExprId> {
        let value = self.eval(e)?;
        self.index_of(value, e.span)
    }

    pub(super) fn index_of(&mut self, value: Value, span: Span) -> Option<ExprId> {
        let i = self.expr_of(value, span)?;
        let dtype = self.func.arena.dtype(i);
        if dtype.is_integer() || dtype == DType::Bool {
            return Some(i);
        }
        let d = Diagnostic::error_at("type-mismatch", span, format!("expected an integer, found `{dtype}`"));
        self.fail(d.maybe_help(dtype.is_float().then(|| "write `T.Cast(\"int32\", …)`".to_string())))
    }

    /// A value as an expression; literals have their default types (`int32`, or `int64` if they need it; `float32`).
    pub(super) fn expr_of(&mut self, value: Value, span: Span) -> Option<ExprId> {
        let expected = match value {
            Value::Expr(e) if self.func.arena.ty(e) == Ty::VOID => {
                let d = Diagnostic::error_at("type-mismatch", span, "expected a value, found a call that gives none");
                return self.fail(d.help("write the call as a statement by itself"));
            }
            Value::Expr(e) => return Some(e),
            Value::Int(v) => {
                let dtype = if i32::try_from(v).is_ok() { DType::Int32 } else { DType::Int64 };
                return self.literal(Value::Int(v), dtype, span);
            }
            Value::Float(v) => {
                let wide = v.is_finite() && v.abs() > f32::MAX as f64;
                let dtype = if wide { DType::Float64 } else { DType::Float32 };
                return self.literal(Value::Float(v), dtype, span);
            }
            Value::Bool(v) => return Some(self.func.arena.bool(v)),
            Value::Str(s) => return Some(self.func.arena.str(&*s)),
            Value::Poison => return None,
            other => other,
        };
        let d = Diagnostic::error_at(
            "wrong-argument",
            span,
            format!("expected an expression, found {}", expected.describe()),
        );
        let help = match expected {
            Value::Buffer(b) => {
                let buffer = self.func.arena.buffer(b);
                let rank = self.func.arena.list(buffer.shape).len();
                Some(format!("give an index: `{}[{}]`", buffer.name, vec!["…"; rank].join(", ")))
            }
            _ => None,
        };
        self.fail(d.maybe_help(help))
    }

    /// A Python number as a constant of a type, which must be able to represent it.
    pub(super) fn literal(&mut self, value: Value, dtype: DType, span: Span) -> Option<ExprId> {
        let range_error = |text: String| {
            Diagnostic::error_at("literal-range", span, format!("{text} is outside the range of `{dtype}`"))
        };
        match value {
            Value::Bool(v) => Some(self.func.arena.constant(v as i64, dtype)),
            Value::Int(v) if dtype.is_float() => Some(self.func.arena.float(v as f64, dtype)),
            Value::Int(v) => {
                let fits = match dtype {
                    DType::UInt64 => u64::try_from(v).is_ok(),
                    DType::Bool => v == 0 || v == 1,
                    _ => i64::try_from(v).is_ok_and(|v| dtype.wrap(v) == v),
                };
                if !fits {
                    return self.fail(range_error(v.to_string()));
                }
                Some(self.func.arena.int(v as i64, dtype))
            }
            Value::Float(v) if dtype.is_float() => {
                let mut rounded = v;
                if v.is_finite() && dtype.round(v).is_infinite() {
                    // TVM prints the least and the greatest bfloat16 as those of float32, and means finite numbers.
                    match dtype.max_value() {
                        Err(most) if dtype == DType::BFloat16 && v.abs() == f64::from(f32::MAX) => {
                            rounded = most.copysign(v);
                        }
                        _ => return self.fail(range_error(format!("{v:?}"))),
                    }
                }
                Some(self.func.arena.float(rounded, dtype))
            }
            Value::Float(v) => {
                let message = format!("expected a constant of type `{dtype}`, found the float {v:?}");
                self.fail(Diagnostic::error_at("type-mismatch", span, message))
            }
            other => self.expr_of(other, span),
        }
    }

    /// The truth value of a Python value, if it has one.
    pub(super) fn truth(&self, value: &Value) -> Option<bool> {
        match value {
            Value::Bool(b) => Some(*b),
            Value::Int(v) => Some(*v != 0),
            _ => None,
        }
    }

    /// A boolean expression.
    pub(super) fn condition(&mut self, value: Value, span: Span) -> Option<ExprId> {
        let e = match value {
            Value::Int(v @ (0 | 1)) => return Some(self.func.arena.bool(v == 1)),
            value => self.expr_of(value, span)?,
        };
        let dtype = self.func.arena.dtype(e);
        if dtype == DType::Bool {
            return Some(e);
        }
        let d = Diagnostic::error_at(
            "type-mismatch",
            span,
            format!("expected a condition of type `bool`, found `{dtype}`"),
        );
        self.fail(d.help("compare it, for example with `!= 0`"))
    }

    /// The data type that a text names.
    pub(super) fn type_named(&mut self, name: &str, span: Span) -> Option<Ty> {
        if let Some(ty) = type_of_name(name) {
            return Some(ty);
        }
        if super::refused::is_scalable_type(name) {
            let reason = super::refused::reason(name).unwrap_or_default();
            return self.fail(Diagnostic::error_at("unsupported", span, format!("the data type `{name}` {reason}")));
        }
        let names = DType::ELEMENTS.iter().map(|t| t.name());
        let near = nearest(name, names.clone());
        let d = Diagnostic::error_at("unknown-type", span, format!("unknown data type `{name}`"));
        let all: Vec<&str> = names.collect();
        self.fail(d.help(match near {
            Some(n) => format!("did you mean `{n}`?"),
            None => format!("data types are {}", all.join(", ")),
        }))
    }

    /// A data type: a text or `T.float32`.
    pub(super) fn dtype(&mut self, e: &Expr<'a>) -> Option<DType> {
        let ty = self.ty(e)?;
        if !ty.is_vector() {
            return Some(ty.dtype);
        }
        self.fail(Diagnostic::error_at("vector", e.span, format!("expected the type of a scalar, found `{ty}`")))
    }

    /// A data type, of scalars or of vectors: a text or `T.float32x4`.
    pub(super) fn ty(&mut self, e: &Expr<'a>) -> Option<Ty> {
        match self.eval(e)? {
            Value::Str(name) => self.type_named(&name, e.span),
            Value::Type(ty) => Some(ty),
            other => {
                let message = format!("expected a data type, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
        }
    }

    /// A region: a slice, an element, or a whole buffer.
    pub(super) fn region(&mut self, e: &Expr<'a>) -> Option<BufferRegion> {
        if let ExprKind::Subscript(owner, index) = &e.kind {
            match self.eval(owner)? {
                Value::Buffer(b) => return self.box_of(b, index, e.span),
                Value::Seq(_) => {}
                other => {
                    let message = format!("expected a buffer, found {}", other.describe());
                    return self.fail(Diagnostic::error_at("wrong-argument", owner.span, message));
                }
            }
        }
        match self.eval(e)? {
            Value::Buffer(b) => Some(BufferRegion::full(&mut self.func.arena, b)),
            other => {
                let message = format!("expected a region of a buffer, found {}", other.describe());
                self.fail(
                    Diagnostic::error_at("wrong-argument", e.span, message).help("write `A[i, 0:16]`, for example"),
                )
            }
        }
    }
}

/// The items of a subscript.
fn subscripts<'e, 'a>(index: &'e Expr<'a>) -> &'e [Expr<'a>] {
    match &index.kind {
        ExprKind::Tuple(items) => items,
        _ => std::slice::from_ref(index),
    }
}

/// The data type `T.name`; common types also have short names.
pub(super) fn type_member(name: &str) -> Option<Ty> {
    let whole = match name {
        "bf16" => "bfloat16",
        "f16" => "float16",
        "f32" => "float32",
        "f64" => "float64",
        "i8" => "int8",
        "i16" => "int16",
        "i32" => "int32",
        "i64" => "int64",
        "u8" => "uint8",
        "u16" => "uint16",
        "u32" => "uint32",
        "u64" => "uint64",
        name => name,
    };
    type_of_name(whole)
}

/// The data type called `name` in the text.
pub(super) fn type_of_name(name: &str) -> Option<Ty> {
    match name {
        "boolean" => Some(DType::Bool.into()),
        _ => name.parse().ok(),
    }
}
