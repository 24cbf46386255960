//! Operators on Python's values. Where a value of the library is involved, the library is asked first.

use super::Library;
use super::code::Expr;
use super::failure::{Failure, type_error};
use super::run::{Result, Run, ValueOf};
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::script::python::{BinaryOp, CompareOp};
use std::cmp::Ordering;

impl<'a, L: Library> Run<'a, L> {
    pub(super) fn comparison(
        &mut self,
        first: &'a Expr<L::Code>,
        rest: &'a [(CompareOp, Expr<L::Code>)],
    ) -> Result<ValueOf<L>, L> {
        let mut left = self.eval(first)?;
        let mut result = Value::Bool(true);
        for (i, (op, right)) in rest.iter().enumerate() {
            let value = self.eval(right)?;
            let span = first.span.to(right.span);
            result = self.compare(*op, &left, &value, span)?;
            // `a < b < c` is `a < b and b < c`.
            if i + 1 < rest.len() && !self.truth(&result, span)? {
                return Ok(result);
            }
            left = value;
        }
        Ok(result)
    }

    /// Does the value count as true?
    pub(crate) fn truth(&mut self, value: &ValueOf<L>, span: Span) -> Result<bool, L> {
        Ok(match value {
            Value::None => false,
            Value::Bool(v) => *v,
            Value::Int(v) => *v != 0,
            Value::Float(v) => *v != 0.0,
            Value::Str(s) => !s.is_empty(),
            Value::Sequence(s) => !s.items.is_empty(),
            Value::Range(a, b, step) => super::value::range_len(*a, *b, *step) > 0,
            Value::Dict(items) => !items.is_empty(),
            Value::Function(_) => true,
            Value::Own(v) => L::truth(self, v, span)?,
        })
    }

    /// The value of a comparison.
    fn compare(&mut self, op: CompareOp, a: &ValueOf<L>, b: &ValueOf<L>, span: Span) -> Result<ValueOf<L>, L> {
        if let (Value::Own(_), _) | (_, Value::Own(_)) = (a, b)
            && let Some(value) = L::compare(self, op, a, b, span)?
        {
            return Ok(value);
        }
        let same = |run: &mut Self| run.equal(a, b, span);
        Ok(Value::Bool(match op {
            CompareOp::Eq => same(self)?,
            CompareOp::Ne => !same(self)?,
            CompareOp::Is | CompareOp::IsNot => {
                let identical = match (a, b) {
                    (Value::None, Value::None) => true,
                    (Value::None, _) | (_, Value::None) => false,
                    _ => same(self)?,
                };
                identical == (op == CompareOp::Is)
            }
            CompareOp::In | CompareOp::NotIn => {
                let found = match (a, b) {
                    (Value::Str(part), Value::Str(text)) => text.contains(&**part),
                    _ => {
                        let mut found = false;
                        for item in self.iterate(b.clone(), span)? {
                            found = found || self.equal(a, &item, span)?;
                        }
                        found
                    }
                };
                found == (op == CompareOp::In)
            }
            CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge => {
                let order = self.order(a, b, span)?;
                match op {
                    CompareOp::Lt => order == Some(Ordering::Less),
                    CompareOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    CompareOp::Gt => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }
            }
        }))
    }

    pub(super) fn order(&self, a: &ValueOf<L>, b: &ValueOf<L>, span: Span) -> Result<Option<Ordering>, L> {
        if let (Some(x), Some(y)) = (a.int(&self.library), b.int(&self.library)) {
            return Ok(Some(x.cmp(&y)));
        }
        if let (Some(x), Some(y)) = (a.number(&self.library), b.number(&self.library)) {
            return Ok(x.partial_cmp(&y));
        }
        match (a, b) {
            (Value::Str(x), Value::Str(y)) => Ok(Some(x.cmp(y))),
            _ => {
                let (x, y) = (a.describe(&self.library), b.describe(&self.library));
                Err(type_error(span, format!("cannot order {x} and {y}")))
            }
        }
    }

    /// Are the values equal?
    pub(crate) fn equal(&mut self, a: &ValueOf<L>, b: &ValueOf<L>, span: Span) -> Result<bool, L> {
        self.step(1, span)?;
        if let (Some(x), Some(y)) = (a.int(&self.library), b.int(&self.library)) {
            return Ok(x == y);
        }
        if let (Some(x), Some(y)) = (a.number(&self.library), b.number(&self.library)) {
            return Ok(x == y);
        }
        Ok(match (a, b) {
            (Value::None, Value::None) => true,
            (Value::Str(x), Value::Str(y)) => x == y,
            (Value::Range(..), Value::Range(..)) => {
                let (x, y) = (self.iterate(a.clone(), span)?, self.iterate(b.clone(), span)?);
                self.all_equal(&x, &y, span)?
            }
            (Value::Sequence(x), Value::Sequence(y)) => {
                x.tuple == y.tuple && self.all_equal(&x.items, &y.items, span)?
            }
            (Value::Own(_), _) | (_, Value::Own(_)) => L::equal(self, a, b, span)?,
            _ => false,
        })
    }

    fn all_equal(&mut self, x: &[ValueOf<L>], y: &[ValueOf<L>], span: Span) -> Result<bool, L> {
        if x.len() != y.len() {
            return Ok(false);
        }
        for (a, b) in x.iter().zip(y) {
            if !self.equal(a, b, span)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `-a`
    pub(super) fn negate(&mut self, a: ValueOf<L>, a_span: Span, span: Span) -> Result<ValueOf<L>, L> {
        match a {
            Value::Float(v) => Ok(Value::Float(-v)),
            Value::Own(own) => match L::negate(self, &own, span)? {
                Some(value) => Ok(value),
                None => self.binary(BinaryOp::Sub, Value::Int(0), Value::Own(own), span, a_span),
            },
            other => self.binary(BinaryOp::Sub, Value::Int(0), other, span, a_span),
        }
    }

    /// `~a`
    pub(super) fn invert(&mut self, a: ValueOf<L>, span: Span) -> Result<ValueOf<L>, L> {
        let value = match &a {
            Value::Int(v) => Some(Value::Int(!v)),
            Value::Bool(v) => Some(Value::Int(!(*v as i64))),
            Value::Own(own) => L::invert(self, own, span)?,
            _ => None,
        };
        let found = a.describe(&self.library);
        value.ok_or_else(|| type_error(span, format!("`~` is not possible on {found}")))
    }

    /// `a op b`
    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        a: ValueOf<L>,
        b: ValueOf<L>,
        a_span: Span,
        b_span: Span,
    ) -> Result<ValueOf<L>, L> {
        let span = a_span.to(b_span);
        match (op, &a, &b) {
            (BinaryOp::Add, Value::Sequence(x), Value::Sequence(y)) if x.tuple == y.tuple => {
                let items = x.items.iter().chain(&y.items).cloned().collect();
                return self.list(items, x.tuple, span);
            }
            (BinaryOp::Mul, Value::Sequence(s), Value::Int(n)) | (BinaryOp::Mul, Value::Int(n), Value::Sequence(s)) => {
                let n = usize::try_from(*n).unwrap_or(0);
                self.step(s.items.len().saturating_mul(n), span)?;
                let items = std::iter::repeat_n(&s.items, n).flatten().cloned().collect();
                return self.list(items, s.tuple, span);
            }
            (BinaryOp::Add, Value::Str(x), Value::Str(y)) => return self.limited(format!("{x}{y}"), span),
            (_, Value::Own(_), _) | (_, _, Value::Own(_)) => {
                if let Some(value) = L::binary(self, op, &a, &b, span)? {
                    return Ok(value);
                }
            }
            _ => {}
        }
        if let (Some(x), Some(y)) = (a.int(&self.library), b.int(&self.library))
            && let Some(v) = integer(op, x, y)
        {
            return v.map(Value::Int).ok_or_else(|| undefined(op.token(), span));
        }
        if let (Some(x), Some(y)) = (a.number(&self.library), b.number(&self.library)) {
            let v = match op {
                BinaryOp::Add => Some(x + y),
                BinaryOp::Sub => Some(x - y),
                BinaryOp::Mul => Some(x * y),
                BinaryOp::Pow => Some(x.powf(y)),
                BinaryOp::Div if y != 0.0 => Some(x / y),
                BinaryOp::FloorDiv if y != 0.0 => Some((x / y).floor()),
                BinaryOp::Mod if y != 0.0 => Some(x - (x / y).floor() * y),
                BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod => return Err(undefined(op.token(), span)),
                _ => None,
            };
            if let Some(v) = v {
                return Ok(Value::Float(v));
            }
        }
        let (x, y) = (a.describe(&self.library), b.describe(&self.library));
        Err(type_error(span, format!("`{}` is not possible between {x} and {y}", op.token())))
    }
}

/// The error of an operation without a result.
pub(crate) fn undefined<C>(what: &str, span: Span) -> Failure<C> {
    not_defined(&format!("the result of `{what}`"), span)
}

/// The error of a result that is not defined.
pub(crate) fn not_defined<C>(result: &str, span: Span) -> Failure<C> {
    Diagnostic::error_at("arithmetic", span, format!("{result} is not defined"))
        .help("it divides by zero, or does not fit 64 bits")
        .into()
}

/// An operator on integers that gives an integer; the inner `None` is an undefined result.
fn integer(op: BinaryOp, x: i64, y: i64) -> Option<Option<i64>> {
    let shift = |y: i64| u32::try_from(y).ok().filter(|&n| n < 64);
    // The quotient rounds towards minus infinity, and the remainder has the sign of the divisor.
    let quotient = || x.checked_div_euclid(y).map(|q| if y < 0 && x % y != 0 { q - 1 } else { q });
    match op {
        BinaryOp::Add => Some(x.checked_add(y)),
        BinaryOp::Sub => Some(x.checked_sub(y)),
        BinaryOp::Mul => Some(x.checked_mul(y)),
        BinaryOp::FloorDiv => Some(quotient()),
        BinaryOp::Mod => Some(quotient().map(|q| x - q * y)),
        BinaryOp::Pow if y >= 0 => Some(u32::try_from(y).ok().and_then(|y| x.checked_pow(y))),
        BinaryOp::Shl => Some(shift(y).and_then(|n| x.checked_mul(1i64.checked_shl(n)?)).filter(|_| y < 63)),
        BinaryOp::Shr => Some(shift(y).map(|n| x >> n)),
        BinaryOp::BitAnd => Some(Some(x & y)),
        BinaryOp::BitOr => Some(Some(x | y)),
        BinaryOp::BitXor => Some(Some(x ^ y)),
        BinaryOp::Pow | BinaryOp::Div | BinaryOp::MatMul => None,
    }
}
