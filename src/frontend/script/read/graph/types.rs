//! Reads types of values: `R.Tensor((1, n), "float32")`, `R.Tuple(…)`, `R.Shape([1, n])`.

use super::GraphReader;
use crate::diagnostic::{Diagnostic, Span};
use crate::graph::{TensorType, Type};
use crate::ir::{DType, ExprId};
use crate::script::python::{self, Call, Expr, ExprKind};
use crate::script::read::value::Value;

impl<'a> GraphReader<'a, '_> {
    /// A type.
    pub(super) fn ty(&mut self, e: &Expr<'a>) -> Option<Type> {
        let (callee, call) = match &e.kind {
            ExprKind::Call(call) => (&call.callee, Some(&**call)),
            _ => (e, None),
        };
        // Texts of books import the names themselves.
        let path = match (self.relax_path(callee), &callee.kind) {
            (Some(path), _) => path,
            (None, ExprKind::Name(name)) => (*name).to_owned(),
            (None, ExprKind::Attribute(_, name)) => format!("T.{}", name.name),
            (None, _) => String::new(),
        };
        match (path.as_str(), call) {
            ("Tensor", Some(call)) => self.tensor_type(call),
            ("Tensor", None) => Some(Type::Tensor(TensorType { dtype: None, shape: None, rank: None })),
            ("Tuple", Some(call)) => {
                let items = match &call.args[..] {
                    [Expr { kind: ExprKind::List(items) | ExprKind::Tuple(items), .. }] => items,
                    all => all,
                };
                let items: Vec<Option<Type>> = items.iter().map(|e| self.ty(e)).collect();
                items.into_iter().collect::<Option<_>>().map(Type::Tuple)
            }
            ("Tuple", None) => Some(Type::Tuple(Vec::new())),
            ("Shape", Some(call)) => match call.args.first() {
                Some(shape) => self.extents(shape).map(|s| Type::Shape(Some(s))),
                None => Some(Type::Shape(None)),
            },
            ("Shape", None) => Some(Type::Shape(None)),
            ("Prim", Some(call)) => match call.args.first() {
                Some(dtype) => self.dtype(dtype).map(Type::Prim),
                None => Some(Type::Prim(DType::Int64)),
            },
            ("Object" | "Any", _) => Some(Type::Object),
            _ => match self.r.eval(e)? {
                Value::Type(ty) | Value::Fresh(ty) => Some(Type::Prim(ty.dtype)),
                other => {
                    let message = format!("expected a type, found {}", other.describe());
                    let d = Diagnostic::error_at("no-type", e.span, message);
                    self.fail(d.help("types are `R.Tensor(shape, dtype)` and `R.Tuple(…)`, for example"))
                }
            },
        }
    }

    fn tensor_type(&mut self, call: &Call<'a>) -> Option<Type> {
        let args = self.r.args("R.Tensor", call, &["shape", "dtype", "vdevice", "ndim"], 0)?;
        let (mut shape, mut dtype) = (args[0], args[1]);
        // `R.Tensor("float32")`
        if let (Some(Expr { kind: ExprKind::Str(_), .. }), None) = (shape, dtype) {
            dtype = shape.take();
        }
        let dtype = match dtype {
            Some(e) if e.kind == ExprKind::None => None,
            Some(e) => Some(self.dtype(e)?),
            None => None,
        };
        let shape = match shape {
            Some(e) if e.kind == ExprKind::None => None,
            Some(e) => Some(self.extents(e)?),
            None => None,
        };
        let rank = match (&shape, args[3]) {
            (Some(shape), _) => Some(shape.len()),
            (None, Some(e)) => match self.r.eval(e)? {
                Value::Int(n) => usize::try_from(n).ok(),
                _ => None,
            },
            (None, None) => None,
        };
        Some(Type::Tensor(TensorType { dtype, shape, rank }))
    }

    /// Extents: a tuple or list of them, or `R.shape([…])`.
    pub(super) fn extents(&mut self, e: &Expr<'a>) -> Option<Vec<ExprId>> {
        let items: &[Expr<'a>] = match &e.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => items,
            ExprKind::Call(call) if self.relax_path(&call.callee).as_deref() == Some("shape") => match &call.args[..] {
                [shape, ..] => return self.extents(shape),
                [] => &[],
            },
            _ => std::slice::from_ref(e),
        };
        let extents: Vec<Option<ExprId>> = items.iter().map(|item| self.extent(item)).collect();
        extents.into_iter().collect()
    }

    /// An extent: an integer, a symbol, or an expression of them, perhaps quoted.
    pub(super) fn extent(&mut self, e: &Expr<'a>) -> Option<ExprId> {
        if let ExprKind::Str(text) = &e.kind {
            let inner = Span { start: e.span.start + 1, end: e.span.end.saturating_sub(1) };
            if self.r.file.text.get(inner.range()) != Some(&**text) {
                return self.r.unsupported(e.span, "a quoted extent with escapes or a prefix");
            }
            return match python::parse_expression(self.r.file.text, inner) {
                Ok(inner) => self.extent_of(&inner),
                Err(errors) => {
                    self.r.file.diagnostics.extend(errors);
                    None
                }
            };
        }
        self.extent_of(e)
    }

    fn extent_of(&mut self, e: &Expr<'a>) -> Option<ExprId> {
        self.define_symbols(e);
        let value = self.r.eval(e)?;
        let dtype = DType::Int64;
        let e = match value {
            Value::Int(_) => return self.r.literal(value, dtype, e.span),
            value => {
                let span = e.span;
                self.r.expr_of(value, span)?
            }
        };
        // `T.int32` and `T.int64` are not told apart in shapes.
        Some(self.r.func.arena.cast(dtype, e))
    }

    /// Names that are not known become symbols: quoted extents define them, and texts of several functions share them.
    fn define_symbols(&mut self, e: &Expr<'a>) {
        match &e.kind {
            ExprKind::Name(name) => {
                let is_symbol = match self.r.scope.get(name).or_else(|| self.r.file.globals.get(name)) {
                    None => !self.names.contains_key(name),
                    Some(Value::TypeVar) => true,
                    Some(_) => false,
                };
                if is_symbol {
                    self.symbol(name, e.span);
                }
            }
            ExprKind::Binary(_, a, b) => {
                self.define_symbols(a);
                self.define_symbols(b);
            }
            ExprKind::Unary(_, a) => self.define_symbols(a),
            ExprKind::Call(call) => call.args.iter().for_each(|a| self.define_symbols(a)),
            _ => {}
        }
    }

    /// The type of elements: a text, or `T.float32`.
    pub(super) fn dtype(&mut self, e: &Expr<'a>) -> Option<DType> {
        match &e.kind {
            ExprKind::Str(_) => self.r.dtype(e),
            _ => match self.r.eval(e)? {
                Value::Type(ty) | Value::Fresh(ty) => Some(ty.dtype),
                Value::Str(name) => self.r.type_named(&name, e.span).map(|t| t.dtype),
                other => {
                    let message = format!("expected a data type, found {}", other.describe());
                    self.fail(Diagnostic::error_at("no-type", e.span, message))
                }
            },
        }
    }
}
