//! Sums of variables with constant factors, the form of most index expressions.

use crate::ir::{Arena, BinOp, Expr, ExprId, VarId};
use smallvec::SmallVec;

/// A sum of variables with constant factors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Linear {
    /// Each variable once, in order of appearance.
    pub terms: SmallVec<[(VarId, i64); 8]>,
    /// The constant term.
    pub constant: i64,
}

impl Linear {
    /// The expression as a sum; `None` if it has another form, or on overflow.
    pub(crate) fn of(arena: &Arena, e: ExprId) -> Option<Linear> {
        let mut linear = Linear { terms: SmallVec::new(), constant: 0 };
        linear.add(arena, e, 1)?;
        Some(linear)
    }

    /// The factor of a variable.
    pub(crate) fn coeff(&self, var: VarId) -> i64 {
        self.terms.iter().find(|(v, _)| *v == var).map_or(0, |(_, c)| *c)
    }

    /// Whether both sums are equal up to order.
    pub(crate) fn is_same(&self, other: &Linear) -> bool {
        let agrees = |linear: &Linear, &(var, coeff): &(VarId, i64)| linear.coeff(var) == coeff;
        self.constant == other.constant
            && self.terms.iter().all(|t| agrees(other, t))
            && other.terms.iter().all(|t| agrees(self, t))
    }

    /// The least and the greatest value for variables in their `ranges` (both ends included); `None` if a variable has
    /// no range, or on overflow.
    pub(crate) fn bounds(&self, ranges: impl Fn(VarId) -> Option<(i64, i64)>) -> Option<(i128, i128)> {
        let mut bounds = (self.constant as i128, self.constant as i128);
        for &(var, coeff) in &self.terms {
            let (min, max) = ranges(var)?;
            let (p, q) = (coeff as i128 * min as i128, coeff as i128 * max as i128);
            bounds = (bounds.0.checked_add(p.min(q))?, bounds.1.checked_add(p.max(q))?);
        }
        Some(bounds)
    }

    fn add(&mut self, arena: &Arena, e: ExprId, scale: i64) -> Option<()> {
        match arena.expr(e) {
            Expr::Int(v) => self.constant = self.constant.checked_add(v.checked_mul(scale)?)?,
            Expr::Var(v) => match self.terms.iter_mut().find(|(t, _)| *t == v) {
                Some((_, c)) => *c = c.checked_add(scale)?,
                None => self.terms.push((v, scale)),
            },
            Expr::Binary(BinOp::Add, a, b) => {
                self.add(arena, a, scale)?;
                self.add(arena, b, scale)?;
            }
            Expr::Binary(BinOp::Sub, a, b) => {
                self.add(arena, a, scale)?;
                self.add(arena, b, scale.checked_neg()?)?;
            }
            Expr::Binary(BinOp::Mul, a, b) => {
                let (inner, factor) = match (arena.as_int(a), arena.as_int(b)) {
                    (_, Some(c)) => (a, c),
                    (Some(c), None) => (b, c),
                    (None, None) => return None,
                };
                self.add(arena, inner, scale.checked_mul(factor)?)?;
            }
            Expr::Cast(a) if arena.dtype(a).is_index() && arena.dtype(e).is_index() => self.add(arena, a, scale)?,
            Expr::Binary(..)
            | Expr::Cast(_)
            | Expr::Float(_)
            | Expr::Str(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Load(..)
            | Expr::BufferData(_)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => return None,
        }
        Some(())
    }
}
