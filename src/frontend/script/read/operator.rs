//! Evaluates operators: Python's on Python values, TVM's on expressions.
//!
//! TVM's rules: a Python integer beside an expression is an `int32` (or `int64` if it is large), a Python float a
//! `float32`. Then the operands are converted to a common type: the wider of two integers or floats, the float of an
//! integer and a float. Comparisons convert no expressions, but give a literal the type of the other side.

use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{BinOp, Const, DType, ExprId, Intrinsic};
use crate::script::python::{BinaryOp, CompareOp, Expr, LogicalOp, UnaryOp};

/// A value and its place.
pub(super) type Operand = (Value, Span);

impl<'a> FuncReader<'a, '_> {
    // ---- unary ---------------------------------------------------------------------------------------------

    pub(super) fn unary(&mut self, op: UnaryOp, a: Value, span: Span) -> Option<Value> {
        match (op, a) {
            (UnaryOp::Neg, Value::Int(v)) => Some(Value::Int(v.saturating_neg())),
            (UnaryOp::Neg, Value::Float(v)) => Some(Value::Float(-v)),
            (UnaryOp::Neg, Value::Bool(v)) => Some(Value::Int(-(v as i128))),
            (UnaryOp::Pos, v @ (Value::Int(_) | Value::Float(_))) => Some(v),
            (UnaryOp::Invert, Value::Int(v)) => Some(Value::Int(!v)),
            (UnaryOp::Invert, Value::Bool(v)) => Some(Value::Int(!i128::from(v))),
            (UnaryOp::Not, v @ (Value::Int(_) | Value::Bool(_))) => self.truth(&v).map(|b| Value::Bool(!b)),
            (UnaryOp::Pos, a) => {
                self.expr_of(a, span)?;
                self.unsupported(span, "unary `+`")
            }
            (UnaryOp::Neg, a) => {
                // TVM's `-x` is `x * -1`.
                let e = self.expr_of(a, span)?;
                self.require_number(e, "-", span)?;
                let dtype = self.func.arena.dtype(e);
                let minus_one = self.func.arena.constant(-1, dtype);
                Some(Value::Expr(self.func.arena.mul(e, minus_one)))
            }
            (UnaryOp::Invert, a) => {
                let e = self.expr_of(a, span)?;
                self.bit_call(Intrinsic::BitNot, &[e], span)
            }
            (UnaryOp::Not, a) => {
                let e = self.condition(a, span)?;
                Some(Value::Expr(self.func.arena.not_unfolded(e)))
            }
        }
    }

    // ---- arithmetic ----------------------------------------------------------------------------------------

    pub(super) fn binary(&mut self, op: BinaryOp, a: Operand, b: Operand, span: Span) -> Option<Value> {
        if let (Some(x), Some(y)) = (Number::of(&a.0), Number::of(&b.0)) {
            return match python_binary(op, x, y) {
                Ok(value) => Some(value),
                Err(message) => self.fail(Diagnostic::error_at("arithmetic", span, message)),
            };
        }
        if let (BinaryOp::Add, Value::Seq(x), Value::Seq(y)) = (op, &a.0, &b.0) {
            return Some(Value::Seq(x.iter().chain(y).cloned().collect()));
        }
        if let Some(op) = op.arithmetic() {
            let (x, y) = self.matched(a, b)?;
            return self.arithmetic(op, x, y, span);
        }
        match op {
            BinaryOp::Div => self.true_division(a, b, span),
            BinaryOp::Shl => self.bits(Intrinsic::ShiftLeft, a, b, span),
            BinaryOp::Shr => self.bits(Intrinsic::ShiftRight, a, b, span),
            BinaryOp::BitAnd => self.bits(Intrinsic::BitAnd, a, b, span),
            BinaryOp::BitOr => self.bits(Intrinsic::BitOr, a, b, span),
            BinaryOp::BitXor => self.bits(Intrinsic::BitXor, a, b, span),
            BinaryOp::Pow => {
                let d = Diagnostic::error_at("unsupported", span, "`**` is not supported on expressions");
                self.fail(d.help("write `T.pow(a, b)`"))
            }
            _ => self.unsupported(span, &format!("`{}`", op.token())),
        }
    }

    /// `x op y` of expressions of one type, folded.
    pub(super) fn arithmetic(&mut self, op: BinOp, x: ExprId, y: ExprId, span: Span) -> Option<Value> {
        self.check_operands(op, x, y, span)?;
        Some(Value::Expr(self.func.arena.binary(op, x, y)))
    }

    /// Whether the operands' types fit the operator; reports a mistake otherwise.
    pub(super) fn check_operands(&mut self, op: BinOp, x: ExprId, y: ExprId, span: Span) -> Option<()> {
        let dtype = self.func.arena.dtype(x);
        match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max => {
                self.require_number(x, op.node_name(), span)
            }
            BinOp::FloorDiv | BinOp::FloorMod if dtype.is_float() => {
                let token = if op == BinOp::FloorDiv { "//" } else { "%" };
                let d = Diagnostic::error_at(
                    "type-mismatch",
                    span,
                    format!("expected integers around `{token}`, found `{dtype}`"),
                );
                self.fail(d.help(if op == BinOp::FloorDiv { "write `T.floor(a / b)`" } else { "write `T.fmod(a, b)`" }))
            }
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                self.require_number(x, op.node_name(), span)?;
                let zero = match self.func.arena.as_const(y) {
                    Some(Const::Int(v)) => v == 0,
                    Some(Const::Float(v)) => v == 0.0,
                    None => false,
                };
                if zero { self.fail(Diagnostic::error_at("arithmetic", span, "division by zero")) } else { Some(()) }
            }
            BinOp::And | BinOp::Or => {
                if dtype == DType::Bool {
                    return Some(());
                }
                let message = format!("expected conditions of type `bool`, found `{dtype}`");
                self.fail(Diagnostic::error_at("type-mismatch", span, message))
            }
        }
    }

    fn require_number(&mut self, e: ExprId, op: &str, span: Span) -> Option<()> {
        let dtype = self.func.arena.dtype(e);
        if dtype.is_float() || dtype.is_integer() || dtype == DType::Bool {
            return Some(());
        }
        let message = format!("expected a number as operand of `{op}`, found `{dtype}`");
        self.fail(Diagnostic::error_at("type-mismatch", span, message))
    }

    fn true_division(&mut self, a: Operand, b: Operand, span: Span) -> Option<Value> {
        let (x, y) = self.matched(a, b)?;
        if self.func.arena.dtype(x).is_float() {
            return self.arithmetic(BinOp::Div, x, y, span);
        }
        let d = Diagnostic::error_at("type-mismatch", span, "`/` of integers is ambiguous");
        self.fail(d.help("write `//` to round down, or `T.truncdiv(a, b)` to round towards zero"))
    }

    /// A bit operator; a literal takes the type of the other side.
    pub(super) fn bits(&mut self, function: Intrinsic, a: Operand, b: Operand, span: Span) -> Option<Value> {
        let (x, y) = match (a, b) {
            ((Value::Expr(x), _), (literal @ (Value::Int(_) | Value::Bool(_)), at)) => {
                (x, self.literal(literal, self.func.arena.dtype(x), at)?)
            }
            ((literal @ (Value::Int(_) | Value::Bool(_)), at), (Value::Expr(y), _)) => {
                (self.literal(literal, self.func.arena.dtype(y), at)?, y)
            }
            (a, b) => self.matched(a, b)?,
        };
        let (x, y) = self.equal_lanes(x, y, span)?;
        self.bit_call(function, &[x, y], span)
    }

    /// A bit operator of expressions of one type, folded.
    pub(super) fn bit_call(&mut self, function: Intrinsic, args: &[ExprId], span: Span) -> Option<Value> {
        let dtype = self.func.arena.dtype(args[0]);
        if !dtype.is_integer() && dtype != DType::Bool {
            let message = format!("expected integers for `{}`, found `{dtype}`", bit_token(function));
            return self.fail(Diagnostic::error_at("type-mismatch", span, message));
        }
        let constants: Option<Vec<i64>> = args.iter().map(|&e| self.func.arena.as_int(e)).collect();
        if let Some(v) = constants.filter(|_| dtype.is_index()) {
            let in_range = |n: i64| u32::try_from(n).ok().filter(|&n| n < dtype.bits());
            let folded = match function {
                Intrinsic::BitAnd => Some(v[0] & v[1]),
                Intrinsic::BitOr => Some(v[0] | v[1]),
                Intrinsic::BitXor => Some(v[0] ^ v[1]),
                Intrinsic::ShiftLeft => in_range(v[1]).map(|n| v[0] << n),
                Intrinsic::ShiftRight => in_range(v[1]).map(|n| v[0] >> n),
                _ => None,
            };
            if let Some(v) = folded {
                return Some(Value::Expr(self.func.arena.int(v, dtype)));
            }
        }
        Some(Value::Expr(self.func.arena.call(function, args)))
    }

    // ---- logic ---------------------------------------------------------------------------------------------

    pub(super) fn logical(&mut self, op: LogicalOp, operands: &[Expr<'a>]) -> Option<Value> {
        let node = match op {
            LogicalOp::And => BinOp::And,
            LogicalOp::Or => BinOp::Or,
        };
        let mut all: Option<Value> = None;
        let mut ok = true;
        for operand in operands {
            let Some(value) = self.eval(operand) else {
                ok = false;
                continue;
            };
            all = Some(match (all, value) {
                (None, value) => value,
                (Some(Value::Bool(x)), Value::Bool(y)) => Value::Bool(if node == BinOp::And { x && y } else { x || y }),
                (Some(x), y) => {
                    let (x, y) = (self.condition(x, operands[0].span)?, self.condition(y, operand.span)?);
                    let (x, y) = self.equal_lanes(x, y, operands[0].span.to(operand.span))?;
                    let arena = &mut self.func.arena;
                    // TVM reads `and` between vectors as `&`.
                    Value::Expr(match node {
                        BinOp::And if arena.lanes(x) > 1 => arena.call(Intrinsic::BitAnd, &[x, y]),
                        BinOp::Or if arena.lanes(x) > 1 => arena.call(Intrinsic::BitOr, &[x, y]),
                        node => arena.binary_unfolded(node, x, y),
                    })
                }
            });
        }
        let all = all.filter(|_| ok)?;
        match all {
            Value::Bool(_) => Some(all),
            all => self.condition(all, operands[0].span).map(Value::Expr),
        }
    }

    // ---- comparisons ---------------------------------------------------------------------------------------

    /// `a < b <= c` is `a < b and b <= c`.
    pub(super) fn comparison(&mut self, first: &Expr<'a>, rest: &[(CompareOp, Expr<'a>)]) -> Option<Value> {
        let mut left = self.eval(first).map(|v| (v, first.span));
        let mut all: Option<Value> = None;
        let mut ok = true;
        for (op, right) in rest {
            let right_value = self.eval(right).map(|v| (v, right.span));
            let one = match (left, &right_value) {
                (Some(l), Some(r)) => self.compare(*op, l, r.clone(), first.span.to(right.span)),
                _ => None,
            };
            left = right_value;
            let Some(one) = one else {
                ok = false;
                continue;
            };
            all = Some(match (all, one) {
                (None, one) => one,
                (Some(Value::Bool(x)), Value::Bool(y)) => Value::Bool(x && y),
                (Some(x), y) => {
                    let (x, y) = (self.condition(x, first.span)?, self.condition(y, right.span)?);
                    Value::Expr(self.func.arena.binary_unfolded(BinOp::And, x, y))
                }
            });
        }
        all.filter(|_| ok)
    }

    fn compare(&mut self, op: CompareOp, a: Operand, b: Operand, span: Span) -> Option<Value> {
        let Some(op) = op.of_values() else { return self.unsupported(span, &format!("`{}`", op.token())) };
        match (Number::of(&a.0), Number::of(&b.0)) {
            (Some(Number::Int(x)), Some(Number::Int(y))) => return Some(Value::Bool(op.holds(x, y))),
            (Some(x), Some(y)) => return Some(Value::Bool(op.holds(x.float(), y.float()))),
            _ => {}
        }
        if let (Value::Str(x), Value::Str(y)) = (&a.0, &b.0) {
            return Some(Value::Bool(op.holds(x, y)));
        }
        let (x, y) = self.compared(op.token(), a, b, span)?;
        Some(Value::Expr(self.func.arena.compare_unfolded(op, x, y)))
    }

    /// The sides of a comparison: a literal takes the type of the other one; otherwise the types must be equal.
    pub(super) fn compared(&mut self, token: &str, a: Operand, b: Operand, span: Span) -> Option<(ExprId, ExprId)> {
        let is_literal = |v: &Value| matches!(v, Value::Int(_) | Value::Float(_) | Value::Bool(_));
        let (x, y) = match (a, b) {
            ((Value::Expr(x), _), (literal, at)) if is_literal(&literal) => {
                (x, self.literal(literal, self.func.arena.dtype(x), at)?)
            }
            ((literal, at), (Value::Expr(y), _)) if is_literal(&literal) => {
                (self.literal(literal, self.func.arena.dtype(y), at)?, y)
            }
            (a, b) => (self.expr_of(a.0, a.1)?, self.expr_of(b.0, b.1)?),
        };
        let (tx, ty) = (self.func.arena.dtype(x), self.func.arena.dtype(y));
        if tx == ty && tx != DType::Str && tx != DType::Handle {
            return self.equal_lanes(x, y, span);
        }
        let message = format!("expected operands of one type around `{token}`, found `{tx}` and `{ty}`");
        let wider = if tx.bits() < ty.bits() { ty } else { tx };
        let d = Diagnostic::error_at("type-mismatch", span, message);
        self.fail(d.help(format!("convert one of them: `T.Cast(\"{wider}\", …)`")))
    }

    // ---- common types --------------------------------------------------------------------------------------

    /// Converts two operands to their common type.
    pub(super) fn matched(&mut self, a: Operand, b: Operand) -> Option<(ExprId, ExprId)> {
        let (sa, sb) = (a.1, b.1);
        let (x, y) = (self.expr_of(a.0, sa), self.expr_of(b.0, sb));
        let (x, y) = (x?, y?);
        let (tx, ty) = (self.func.arena.dtype(x), self.func.arena.dtype(y));
        for (t, span) in [(tx, sa), (ty, sb)] {
            if matches!(t, DType::Str | DType::Handle) {
                let message = format!("expected a number, found `{t}`");
                return self.fail(Diagnostic::error_at("type-mismatch", span, message));
            }
        }
        let common = tx.common(ty);
        let (x, y) = (self.cast(common, x), self.cast(common, y));
        self.equal_lanes(x, y, sa.to(sb))
    }

    /// A conversion, folded for constants.
    pub(super) fn cast(&mut self, dtype: DType, e: ExprId) -> ExprId {
        self.func.arena.converted(dtype, e)
    }
}

fn bit_token(function: Intrinsic) -> &'static str {
    match function {
        Intrinsic::BitAnd => "&",
        Intrinsic::BitOr => "|",
        Intrinsic::BitXor => "^",
        Intrinsic::BitNot => "~",
        Intrinsic::ShiftLeft => "<<",
        Intrinsic::ShiftRight => ">>",
        other => other.name(),
    }
}

/// A Python number.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn of(value: &Value) -> Option<Number> {
        match value {
            Value::Int(v) => Some(Number::Int(*v)),
            Value::Bool(v) => Some(Number::Int(*v as i128)),
            Value::Float(v) => Some(Number::Float(*v)),
            _ => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        }
    }
}

/// An operator on Python numbers.
fn python_binary(op: BinaryOp, a: Number, b: Number) -> Result<Value, &'static str> {
    const TOO_LARGE: &str = "the integer becomes too large";
    const ZERO: &str = "division by zero";
    let int = |v: Option<i128>| v.map(Value::Int).ok_or(TOO_LARGE);
    if let (Number::Int(x), Number::Int(y)) = (a, b) {
        return match op {
            BinaryOp::Add => int(x.checked_add(y)),
            BinaryOp::Sub => int(x.checked_sub(y)),
            BinaryOp::Mul => int(x.checked_mul(y)),
            BinaryOp::Div if y == 0 => Err(ZERO),
            BinaryOp::Div => Ok(Value::Float(x as f64 / y as f64)),
            BinaryOp::FloorDiv | BinaryOp::Mod if y == 0 => Err(ZERO),
            BinaryOp::FloorDiv => int(x.checked_div_euclid(y).map(|q| if y < 0 && x % y != 0 { q - 1 } else { q })),
            BinaryOp::Mod => int(x.checked_rem_euclid(y).map(|r| if y < 0 && r != 0 { r + y } else { r })),
            BinaryOp::Pow => match u32::try_from(y) {
                Ok(n) => int(x.checked_pow(n)),
                Err(_) if y < 0 => Ok(Value::Float((x as f64).powf(y as f64))),
                Err(_) => Err(TOO_LARGE),
            },
            BinaryOp::Shl => int(u32::try_from(y).ok().filter(|&n| n < 64).and_then(|n| x.checked_mul(1i128 << n))),
            BinaryOp::Shr => u32::try_from(y).map(|n| Value::Int(x >> n.min(127))).map_err(|_| "negative shift count"),
            BinaryOp::BitAnd => Ok(Value::Int(x & y)),
            BinaryOp::BitOr => Ok(Value::Int(x | y)),
            BinaryOp::BitXor => Ok(Value::Int(x ^ y)),
            BinaryOp::MatMul => Err("`@` is not supported on numbers"),
        };
    }
    let (x, y) = (a.float(), b.float());
    match op {
        BinaryOp::Add => Ok(Value::Float(x + y)),
        BinaryOp::Sub => Ok(Value::Float(x - y)),
        BinaryOp::Mul => Ok(Value::Float(x * y)),
        BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod if y == 0.0 => Err(ZERO),
        BinaryOp::Div => Ok(Value::Float(x / y)),
        BinaryOp::FloorDiv => Ok(Value::Float((x / y).floor())),
        BinaryOp::Mod => Ok(Value::Float(x - (x / y).floor() * y)),
        BinaryOp::Pow => Ok(Value::Float(x.powf(y))),
        _ => Err("bit operators need integers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(op: BinaryOp, x: i128, y: i128) -> Option<i128> {
        match python_binary(op, Number::Int(x), Number::Int(y)) {
            Ok(Value::Int(v)) => Some(v),
            _ => None,
        }
    }

    #[test]
    fn integers_divide_as_in_python() {
        for (x, y, q, r) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -2, -3, 0)] {
            assert_eq!(check(BinaryOp::FloorDiv, x, y), Some(q), "{x} // {y}");
            assert_eq!(check(BinaryOp::Mod, x, y), Some(r), "{x} % {y}");
        }
        assert_eq!(check(BinaryOp::FloorDiv, 1, 0), None);
        assert_eq!(check(BinaryOp::Pow, 10, 10_000), None);
    }
}
