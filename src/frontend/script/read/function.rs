//! Reads calls of scalar functions, such as `T.exp`, and limits of types.

use super::func::FuncReader;
use super::operator::Operand;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::op::Domain;
use crate::ir::{DType, ExprId, Intrinsic};
use crate::script::python::{Call, Ident};
use smallvec::SmallVec;

impl<'a> FuncReader<'a, '_> {
    /// `T.min_value("float32")` and the like.
    pub(super) fn limit(&mut self, name: Ident<'a>, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["dtype", "*", "span"], 1)?;
        let e = args[0]?;
        let dtype = self.dtype(e)?;
        let arena = &mut self.func.arena;
        let value = match name.name {
            "min_value" | "max_value" if !dtype.is_float() && !dtype.is_integer() => None,
            "min_value" => Some(dtype.min_value()),
            "max_value" => Some(dtype.max_value()),
            "infinity" if dtype.is_float() => Some(Err(f64::INFINITY)),
            "nan" if dtype.is_float() => Some(Err(f64::NAN)),
            _ => None,
        };
        match value {
            Some(Ok(v)) => Some(Value::Expr(arena.int(v, dtype))),
            Some(Err(v)) => Some(Value::Expr(arena.float(v, dtype))),
            None => self.fail(Diagnostic::error_at(
                "type-mismatch",
                e.span,
                format!("`{full}` is not defined for `{dtype}`"),
            )),
        }
    }

    /// Rounding functions, which leave integers unchanged and fold constants.
    pub(super) fn rounding(&mut self, name: Ident<'a>, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let function = Intrinsic::from_name(name.name)?;
        let args = self.args(full, call, &["x", "*", "dtype", "span"], 1)?;
        let e = self.expr(args[0]?)?;
        let arena = &mut self.func.arena;
        let dtype = arena.dtype(e);
        let is_test = matches!(function, Intrinsic::IsNan | Intrinsic::IsInf | Intrinsic::IsFinite);
        if dtype.is_integer() || dtype == DType::Bool {
            return Some(Value::Expr(if is_test { arena.bool(function == Intrinsic::IsFinite) } else { e }));
        }
        if let (Some(v), false) = (arena.as_float(e), is_test) {
            let rounded = match function {
                Intrinsic::Floor => v.floor(),
                Intrinsic::Ceil => v.ceil(),
                Intrinsic::Trunc => v.trunc(),
                _ => v.round_ties_even(),
            };
            return Some(Value::Expr(arena.float(rounded, dtype)));
        }
        self.intrinsic_of(function, full, &[e], &[args[0]?.span], span)
    }

    pub(super) fn abs(&mut self, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let args = self.args(full, call, &["x", "*", "dtype", "span"], 1)?;
        let e = self.expr(args[0]?)?;
        let arena = &mut self.func.arena;
        let dtype = arena.dtype(e);
        if dtype.is_uint() {
            return Some(Value::Expr(e));
        }
        if let Some(v) = arena.as_int(e) {
            return Some(Value::Expr(arena.int(v.wrapping_abs(), dtype)));
        }
        if let Some(v) = arena.as_float(e) {
            return Some(Value::Expr(arena.float(v.abs(), dtype)));
        }
        self.intrinsic_of(Intrinsic::Abs, full, &[e], &[args[0]?.span], span)
    }

    /// A scalar function by its name.
    pub(super) fn intrinsic(&mut self, function: Intrinsic, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let n = function.arity();
        let params: &[&str] = match n {
            1 => &["x", "*", "dtype", "span"],
            2 => &["x1", "x2", "*", "dtype", "span"],
            _ => &["x", "y", "z", "*", "dtype", "span"],
        };
        let given = self.args(full, call, params, n)?;
        let operands: SmallVec<[Option<Operand>; 3]> =
            given.iter().take(n).map(|a| a.and_then(|a| self.eval(a).map(|v| (v, a.span)))).collect();
        let operands: SmallVec<[Operand; 3]> = operands.into_iter().collect::<Option<_>>()?;
        let spans: SmallVec<[Span; 3]> = operands.iter().map(|o| o.1).collect();
        let mut args: SmallVec<[ExprId; 3]> = SmallVec::new();
        for operand in operands {
            // Literals take the type of the first expression, as TVM's operators on two arguments do.
            let next = match (args.first(), operand) {
                (Some(&first), (literal @ (Value::Int(_) | Value::Float(_)), at)) => {
                    self.literal(literal, self.func.arena.dtype(first), at)?
                }
                (_, (value, at)) => self.expr_of(value, at)?,
            };
            args.push(next);
        }
        self.intrinsic_of(function, full, &args, &spans, span)
    }

    /// A scalar function of these arguments, whose types are checked.
    fn intrinsic_of(
        &mut self,
        function: Intrinsic,
        full: &str,
        args: &[ExprId],
        spans: &[Span],
        span: Span,
    ) -> Option<Value> {
        let first = self.func.arena.dtype(args[0]);
        for (&arg, &at) in args.iter().zip(spans) {
            let found = self.func.arena.dtype(arg);
            let expected = match function.domain() {
                Domain::Float => "a float",
                Domain::Integer => "an integer",
                Domain::Number => "a number",
                Domain::Bool => "a condition of type `bool`",
            };
            // TVM accepts numbers of the wrong kind in most functions, although the result is undefined: the verifier
            // reports them.
            let is_read = function.domain() != Domain::Bool
                && Domain::Number.takes(found)
                && !matches!(function, Intrinsic::Sin | Intrinsic::Cos | Intrinsic::Tan | Intrinsic::Pow);
            if !function.domain().takes(found) && !is_read {
                let d = Diagnostic::error_at(
                    "type-mismatch",
                    at,
                    format!("expected {expected} for `{full}`, found `{found}`"),
                );
                let help = (function.domain() == Domain::Float && found.is_integer())
                    .then(|| "convert it: `T.Cast(\"float32\", …)`".to_string());
                return self.fail(d.maybe_help(help));
            }
            if found != first {
                let message = format!("expected arguments of one type for `{full}`, found `{first}` and `{found}`");
                return self.fail(Diagnostic::error_at("type-mismatch", span, message));
            }
        }
        let lanes = args.iter().map(|&a| self.func.arena.lanes(a)).max().unwrap_or(1);
        if let Some(&odd) = args.iter().find(|&&a| ![1, lanes].contains(&self.func.arena.lanes(a))) {
            let found = self.func.arena.ty(odd);
            let message = format!("expected {lanes} lanes in all arguments of `{full}`, found `{found}`");
            return self.fail(Diagnostic::error_at("lanes", span, message));
        }
        Some(Value::Expr(self.func.arena.call(function, args)))
    }
}
