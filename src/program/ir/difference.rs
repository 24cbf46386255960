//! Differences of index expressions: `stop - start` as a constant or a short sum.
//!
//! Texts state ranges as `start:stop`, the IR stores start and extent, so the reader has to find that `(x + 4) - x` is
//! 4.

use super::{Arena, BinOp, Expr, ExprId};
use smallvec::SmallVec;

/// A sum of opaque terms with coefficients, and a constant.
#[derive(Default, Clone)]
pub(crate) struct Linear {
    /// Terms in order of appearance, coefficients not zero.
    pub(crate) terms: SmallVec<[(ExprId, i64); 4]>,
    /// The constant.
    pub(crate) constant: i64,
}

impl Linear {
    /// The expression as a sum; an expression that is neither a sum nor a product with a constant is a term. `None` if
    /// a coefficient overflows.
    pub(crate) fn of(arena: &Arena, e: ExprId) -> Option<Linear> {
        let mut sum = Linear::default();
        sum.add(arena, e, 1)?;
        Some(sum)
    }

    /// Adds `e * factor`.
    pub(crate) fn add(&mut self, arena: &Arena, e: ExprId, factor: i64) -> Option<()> {
        if !arena.dtype(e).is_index() {
            return self.add_term(e, factor);
        }
        match arena.expr(e) {
            Expr::Int(v) => {
                self.constant = self.constant.checked_add(v.checked_mul(factor)?)?;
                Some(())
            }
            Expr::Binary(BinOp::Add, a, b) => {
                self.add(arena, a, factor)?;
                self.add(arena, b, factor)
            }
            Expr::Binary(BinOp::Sub, a, b) => {
                self.add(arena, a, factor)?;
                self.add(arena, b, factor.checked_neg()?)
            }
            Expr::Binary(BinOp::Mul, a, b) => match (arena.as_int(a), arena.as_int(b)) {
                (_, Some(c)) => self.add(arena, a, factor.checked_mul(c)?),
                (Some(c), None) => self.add(arena, b, factor.checked_mul(c)?),
                (None, None) => self.add_term(e, factor),
            },
            _ => self.add_term(e, factor),
        }
    }

    fn add_term(&mut self, e: ExprId, factor: i64) -> Option<()> {
        match self.terms.iter_mut().position(|t| t.0 == e) {
            Some(i) => {
                self.terms[i].1 = self.terms[i].1.checked_add(factor)?;
                if self.terms[i].1 == 0 {
                    self.terms.remove(i);
                }
            }
            None if factor != 0 => self.terms.push((e, factor)),
            None => {}
        }
        Some(())
    }

    /// The sum as an expression of the type of `like`.
    pub(crate) fn build(&self, arena: &mut Arena, like: ExprId) -> ExprId {
        // TVM's order: added terms, the constant if it is positive, then subtracted terms.
        let dtype = arena.dtype(like);
        let zero = arena.int(0, dtype);
        let scaled = |arena: &mut Arena, (term, factor): (ExprId, i64)| arena.mul_const(term, factor);
        let mut sum = zero;
        for &(term, factor) in self.terms.iter().filter(|t| t.1 > 0) {
            let next = scaled(arena, (term, factor));
            sum = arena.add(sum, next);
        }
        if self.constant > 0 {
            sum = arena.add_const(sum, self.constant);
        }
        for &(term, factor) in self.terms.iter().filter(|t| t.1 < 0) {
            let next = scaled(arena, (term, factor.saturating_neg()));
            sum = arena.sub(sum, next);
        }
        if self.constant < 0 {
            let c = arena.int(self.constant.saturating_neg(), dtype);
            sum = arena.sub(sum, c);
        }
        sum
    }
}

/// `stop - start`, both of one type, with equal terms cancelled.
pub fn difference(arena: &mut Arena, stop: ExprId, start: ExprId) -> ExprId {
    if arena.is_int(start, 0) {
        return stop;
    }
    let sum = Linear::of(arena, stop).and_then(|mut s| s.add(arena, start, -1).map(|()| s));
    match sum {
        Some(sum) => sum.build(arena, stop),
        None => arena.sub(stop, start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    #[test]
    fn equal_terms_cancel() {
        let mut a = Arena::new();
        let (_, i) = a.new_var_expr("i", DType::Int32);
        let (_, j) = a.new_var_expr("j", DType::Int32);
        let eight = a.int32(8);
        let i8 = a.mul(i, eight);
        let start = a.add(i8, j);
        let stop = a.add(start, eight);
        assert_eq!(difference(&mut a, stop, start), eight);
        let other = a.add(i8, eight);
        let d = difference(&mut a, other, start);
        let expected = { a.sub(eight, j) };
        assert_eq!(d, expected);
    }
}
