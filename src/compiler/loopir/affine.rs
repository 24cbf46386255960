//! The affine view of an index: `constant + Σ coefficient * atom`.

use super::expr::{Arena, Expr, ExprId, Ty, VarId};
use super::rewrite::mentions_var;
use crate::ir::BinOp;
use smallvec::SmallVec;

/// `constant + Σ coefficient * atom` over `int64`, wrapping, which makes the view exact for every expression. An atom
/// is a variable or any other expression that is neither a sum nor a product with a constant (`i // 4`). Terms are
/// sorted by atom, without zero coefficients, so equal views are equal values.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Affine {
    /// Atoms with their coefficients.
    pub terms: SmallVec<[(ExprId, i64); 4]>,
    /// The constant term.
    pub constant: i64,
}

impl Affine {
    /// The view of an `int64` expression.
    pub fn of(arena: &Arena, e: ExprId) -> Affine {
        let mut affine = Affine::default();
        affine.add_scaled(arena, e, 1);
        affine
    }

    /// A number.
    pub fn constant(value: i64) -> Affine {
        Affine { terms: SmallVec::new(), constant: value }
    }

    fn add_scaled(&mut self, arena: &Arena, e: ExprId, scale: i64) {
        if arena.lanes(e) > 1 {
            // A vector of indices is no sum: it is like nothing but itself.
            return self.add_term(e, scale);
        }
        debug_assert_eq!(arena.ty(e), Ty::INDEX, "only int64 expressions have an affine view");
        match arena.expr(e) {
            Expr::Int(v) => self.constant = self.constant.wrapping_add(v.wrapping_mul(scale)),
            Expr::Binary(BinOp::Add, a, b) => {
                self.add_scaled(arena, a, scale);
                self.add_scaled(arena, b, scale);
            }
            Expr::Binary(BinOp::Sub, a, b) => {
                self.add_scaled(arena, a, scale);
                self.add_scaled(arena, b, scale.wrapping_neg());
            }
            Expr::Binary(BinOp::Mul, a, b) => match (arena.as_int(a), arena.as_int(b)) {
                (_, Some(c)) => self.add_scaled(arena, a, scale.wrapping_mul(c)),
                (Some(c), _) => self.add_scaled(arena, b, scale.wrapping_mul(c)),
                (None, None) => self.add_term(e, scale),
            },
            _ => self.add_term(e, scale),
        }
    }

    /// Adds `coefficient * atom`.
    pub fn add_term(&mut self, atom: ExprId, coefficient: i64) {
        match self.terms.binary_search_by_key(&atom, |t| t.0) {
            Ok(i) => {
                self.terms[i].1 = self.terms[i].1.wrapping_add(coefficient);
                if self.terms[i].1 == 0 {
                    self.terms.remove(i);
                }
            }
            Err(_) if coefficient == 0 => {}
            Err(i) => self.terms.insert(i, (atom, coefficient)),
        }
    }

    /// The coefficient of an atom.
    pub fn coefficient(&self, atom: ExprId) -> i64 {
        self.terms.binary_search_by_key(&atom, |t| t.0).map_or(0, |i| self.terms[i].1)
    }

    /// The coefficient of a variable.
    pub fn coefficient_of(&self, arena: &Arena, var: VarId) -> i64 {
        self.terms.iter().find(|t| arena.as_var(t.0) == Some(var)).map_or(0, |t| t.1)
    }

    /// By how much the view changes with a variable; `None` if other atoms depend on the variable.
    pub fn stride(&self, arena: &Arena, var: VarId) -> Option<i64> {
        let own = |atom| arena.as_var(atom) == Some(var);
        let is_linear = self.terms.iter().all(|t| own(t.0) || !mentions_var(arena, t.0, &mut |v| v == var));
        is_linear.then(|| self.coefficient_of(arena, var))
    }

    /// The constant, if there are no terms.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The view of the difference.
    pub fn minus(&self, other: &Affine) -> Affine {
        let mut difference = self.clone();
        for &(atom, c) in &other.terms {
            difference.add_term(atom, c.wrapping_neg());
        }
        difference.constant = self.constant.wrapping_sub(other.constant);
        difference
    }

    /// The expression, in canonical form: terms in order, the constant last.
    pub fn to_expr(&self, arena: &mut Arena) -> ExprId {
        let mut sum = None;
        for &(atom, c) in &self.terms {
            let term = arena.mul_const(atom, c);
            sum = Some(match sum {
                None => term,
                Some(s) => arena.add(s, term),
            });
        }
        match sum {
            None => arena.index(self.constant),
            Some(s) => arena.add_const(s, self.constant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_canonical() {
        let mut a = Arena::default();
        let (i, ie) = a.new_index("i");
        let (_, je) = a.new_index("j");
        let four = a.index(4);
        let q = a.binary(BinOp::FloorDiv, je, four);
        // (i + j // 4 + 3) * 8 - i
        let sum = a.add(ie, q);
        let sum = a.add_const(sum, 3);
        let scaled = a.mul_const(sum, 8);
        let e = a.sub(scaled, ie);
        let view = Affine::of(&a, e);
        assert_eq!((view.coefficient_of(&a, i), view.coefficient(q), view.constant), (7, 8, 24));
        let back = view.to_expr(&mut a);
        assert_eq!(Affine::of(&a, back), view);
        assert_eq!(view.minus(&view), Affine::constant(0));
    }
}
