//! The box covered by sums of digits: the common case of [`strict_bound`](super::region_bound::strict_bound), computed
//! without an iterator map.
//!
//! Over loops of constant extents, nearly all first elements are sums such as `i_0 * 64 + j_0 * 8 + j_1` in which the
//! relaxed loops (here `j_0` and `j_1`, with 8 iterations each) are the digits of one number: it takes the values
//! `0 .. 64`, and the box begins at the rest, `i_0 * 64`. Other cases are left to the general method. Both must agree
//! exactly: the ends of the box are the same expressions.

use crate::arith::{IntSet, VarRange};
use crate::ir::{Arena, BinOp, DType, Expr, ExprId, VarId};
use smallvec::SmallVec;

/// The box that the ranges cover over a domain without predicate; `None` if the sums do not have the form described
/// above.
pub(crate) fn digit_bound(
    a: &mut Arena,
    ranges: &[(ExprId, ExprId)],
    domain: &[VarRange],
    predicate: ExprId,
) -> Option<Vec<IntSet>> {
    if !a.is_int(predicate, 1) || domain.iter().any(|d| !a.is_int(d.min, 0) || a.as_int(d.extent).is_none()) {
        return None;
    }
    let mut used: SmallVec<[VarId; 8]> = SmallVec::new();
    let mut sets = Vec::with_capacity(ranges.len());
    for &(min, extent) in ranges {
        let dtype = a.dtype(min);
        let length = a.as_int(extent).filter(|_| a.dtype(extent) == dtype)?;
        let mut sum = Sum { domain, dtype, digits: SmallVec::new() };
        let (base, _) = sum.add(a, min, 1)?;
        let spread = sum.spread(length)?;
        for &(var, ..) in &sum.digits {
            // A variable in two indices covers a diagonal, not a box.
            if used.contains(&var) {
                return None;
            }
            used.push(var);
        }
        let length = length.checked_add(spread).filter(|&n| dtype.wrap(n) == n)?;
        let length = a.int(length, dtype);
        sets.push(IntSet::from_range(a, base, length));
    }
    Some(sets)
}

/// The digits of a sum.
struct Sum<'a> {
    domain: &'a [VarRange],
    dtype: DType,
    /// The digits: variable, factor and number of values, which is not 1.
    digits: SmallVec<[(VarId, i64, i64); 8]>,
}

impl Sum<'_> {
    /// Adds `e * scale`. Returns the part of `e` without the variables of the domain, and whether there is one.
    fn add(&mut self, a: &mut Arena, e: ExprId, scale: i64) -> Option<(ExprId, bool)> {
        match a.expr(e) {
            Expr::Int(_) => Some((e, false)),
            Expr::Var(var) => {
                let Some(d) = self.domain.iter().find(|d| d.var == var) else { return Some((e, false)) };
                let n = a.as_int(d.extent).filter(|&n| n > 0 && a.dtype(d.extent) == self.dtype)?;
                if n > 1 {
                    if a.dtype(e) != self.dtype || self.digits.iter().any(|digit| digit.0 == var) {
                        return None;
                    }
                    self.digits.push((var, scale, n));
                }
                Some((d.min, true))
            }
            Expr::Binary(BinOp::Add, x, y) => {
                let ((x, in_x), (y, in_y)) = (self.add(a, x, scale)?, self.add(a, y, scale)?);
                Some((a.add(x, y), in_x || in_y))
            }
            Expr::Binary(BinOp::Mul, x, y) => {
                let (inner, factor) = match (a.as_int(x), a.as_int(y)) {
                    (None, Some(c)) => (x, c),
                    (Some(c), None) => (y, c),
                    // If there is no constant factor, the expression must not contain variables of the domain.
                    _ => return self.untouched(a, e),
                };
                let scale = scale.checked_mul(factor).filter(|_| factor > 0)?;
                match self.add(a, inner, scale)? {
                    (_, false) => Some((e, false)),
                    (rest, true) => Some((a.mul_const(rest, factor), true)),
                }
            }
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
            | Expr::Builtin(..) => self.untouched(a, e),
        }
    }

    /// An expression without variables of the domain.
    fn untouched(&self, a: &Arena, e: ExprId) -> Option<(ExprId, bool)> {
        let touched = crate::ir::visit::uses_var(a, e, &mut |v| self.domain.iter().any(|d| d.var == v));
        (!touched).then_some((e, false))
    }

    /// The distance from the first to the last value, if the digits make one number in which steps leave no gaps
    /// between elements of `length`.
    fn spread(&mut self, length: i64) -> Option<i64> {
        self.digits.sort_unstable_by_key(|&(_, scale, _)| scale);
        let Some(&(_, step, _)) = self.digits.first() else { return Some(0) };
        let mut next = step;
        for &(_, scale, n) in &self.digits {
            if scale != next {
                return None;
            }
            next = next.checked_mul(n)?;
        }
        (length >= step).then_some(next - step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::region_bound::general_bound;
    use super::*;

    /// Relaxes some variables of `i * 64 + j * 8 + k`, and compares with the general method.
    #[test]
    fn agrees_with_iterator_maps() {
        let mut a = Arena::new();
        let names = ["i", "j", "k", "unit"];
        let extents = [4, 8, 8, 1];
        let (vars, exprs): (Vec<VarId>, Vec<ExprId>) =
            names.map(|n| a.new_var_expr(n, DType::Int32)).into_iter().unzip();
        let zero = a.int32(0);
        let domain: Vec<VarRange> =
            vars.iter().zip(extents).map(|(&var, n)| VarRange { var, min: zero, extent: a.int32(n) }).collect();
        let always = a.bool(true);
        let mut found = 0;
        for factors in [[64, 8, 1, 1], [64, 8, 1, 3], [32, 4, 1, 1], [8, 64, 1, 5], [128, 16, 2, 1], [1, 1, 1, 1]] {
            for relaxed in 0..16 {
                for length in 1..4 {
                    let mut sum = zero;
                    for (&e, factor) in exprs.iter().zip(factors) {
                        let term = a.mul_const(e, factor);
                        sum = a.add(sum, term);
                    }
                    let domain: Vec<VarRange> = (0..4).filter(|i| relaxed >> i & 1 == 1).map(|i| domain[i]).collect();
                    let ranges = [(sum, a.int32(length)), (exprs[3], a.int32(1))];
                    let Some(sets) = digit_bound(&mut a, &ranges, &domain, always) else { continue };
                    found += 1;
                    assert_eq!(Some(sets), general_bound(&mut a, &ranges, &domain, always));
                }
            }
        }
        assert!(found > 100, "{found}");
    }
}
