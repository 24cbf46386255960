//! Remainders of floor division. Multiples of the divisor leave the dividend.

use super::Simplifier;
use crate::arith::bound::POS_INF;
use crate::arith::pattern::rules;
use crate::ir::expr::{Expr, ExprId};

/// Rules for `x % y` of an index type.
pub(super) fn floor_mod(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "mod-scaled": [(x * c1) % c2] => (x * floor_mod(c1, c2)) % c2, if c2 != 0;
        "mod-scaled-small": [(x * c1 + y) % c2] => (x % floor_div(c2, c1)) * c1 + y,
            if c1 > 0 && c2 > 0 && divides(c1, c2) && s.is_zero(&m, y / c1);
        "mod-multiple-1": [(x * c1 + y) % c2] => (x * floor_mod(c1, c2) + y) % c2, if c2 > 0 && divides(c2, c1);
        "mod-constant": [(x + c1) % c2] => (x + floor_mod(c1, c2)) % c2, if c2 > 0 && (c1 >= c2 || c1 < 0);
        "mod-multiple-2": [(x + y * c1) % c2] => (x + y * floor_mod(c1, c2)) % c2, if c2 > 0 && divides(c2, c1);
        "mod-common-factor": [(x * c1) % (x * c2)] => x * floor_mod(c1, c2), if c2 != 0;
        "mod-product": [(x * y) % y, (y * x) % y] => 0;
        "mod-of-complement": [(x + z % y) % y, (z % y + x) % y] => 0, if s.is_zero(&m, (x + z) % y);
        "mod-of-rounded": [(x - x % z) % y, (x % z - x) % y] => 0, if s.is_zero(&m, y - z) || s.is_zero(&m, y + z);
        "mod-product-out": [(x * z * c1 + y) % (z * c1)] => y % (z * c1), if s.at_least(&m, z * c1, 0);
    }
    let Expr::Binary(_, x, divisor) = s.arena.expr(e) else { return e };
    if let Some(c) = s.arena.as_int(divisor)
        && c > 0
    {
        let residue = s.analyzer.modular_set(s.arena, x);
        if residue.coeff % c == 0 {
            s.applied("mod-known-residue");
            let dtype = s.arena.dtype(e);
            return s.arena.int(residue.base.rem_euclid(c), dtype);
        }
        let bound = s.analyzer.const_int_bound(s.arena, x);
        if bound.min >= 0 && bound.max < c && bound.max != POS_INF {
            s.applied("mod-in-range");
            return x;
        }
    }
    e
}
