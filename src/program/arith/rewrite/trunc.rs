//! Division towards zero, and its remainder. Most rules need operands that are not negative.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::{Expr, ExprId};

/// Rules for `T.truncdiv(x, y)` of an index type.
pub(super) fn div(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "tdiv-of-tdiv": [tdiv(tdiv(x, c1), c2)] => tdiv(x, c1 * c2), if c1 > 0 && c2 > 0;
        "tdiv-of-tdiv-sum": [tdiv(tdiv(x, c1) + c2, c3)] => tdiv(x + c1 * c2, c1 * c3),
            if c1 > 0 && c2 >= 0 && c3 > 0 && s.at_least(&m, x, 0);
        "tdiv-scaled-1": [tdiv(x * c1, c2)] => x * (c1 / c2), if c1 > 0 && c2 > 0 && divides(c2, c1);
        "tdiv-scaled-2": [tdiv(x * c1, c2)] => tdiv(x, c2 / c1), if c1 > 0 && c2 > 0 && divides(c1, c2);
        "tdiv-same": [tdiv(x, x)] => 1;
        "tdiv-scaled-same": [tdiv(x * c1, x), tdiv(c1 * x, x)] => c1;

        "tdiv-sum-1": [tdiv(x * c1 + y, c2)] => x * (c1 / c2) + tdiv(y, c2),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-min-1": [tdiv(min(x * c1, y), c2)] => min(x * (c1 / c2), tdiv(y, c2)),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-max-1": [tdiv(max(x * c1, y), c2)] => max(x * (c1 / c2), tdiv(y, c2)),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-sum-2": [tdiv(y + x * c1, c2)] => tdiv(y, c2) + x * (c1 / c2),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-min-2": [tdiv(min(y, x * c1), c2)] => min(tdiv(y, c2), x * (c1 / c2)),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-max-2": [tdiv(max(y, x * c1), c2)] => max(tdiv(y, c2), x * (c1 / c2)),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-sum-3": [tdiv(x * c1 + y + z, c2)] => x * (c1 / c2) + tdiv(y + z, c2),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y + z, 0);
        "tdiv-sum-4": [tdiv(x * c1 - y + z, c2)] => x * (c1 / c2) + tdiv(z - y, c2),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, z - y, 0);
        "tdiv-sum-5": [tdiv(x * c1 + y - z, c2)] => x * (c1 / c2) + tdiv(y - z, c2),
            if c1 >= 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y - z, 0);
        "tdiv-sum-6": [tdiv(y + x * c1 + z, c2)] => x * (c1 / c2) + tdiv(y + z, c2),
            if c1 > 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y + z, 0);
        "tdiv-constant-out": [tdiv(x + c1, c2)] => tdiv(x, c2) + c1 / c2,
            if c1 > 0 && c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0);
        "tdiv-divisor-out-1": [tdiv(x + y, x), tdiv(y + x, x)] => tdiv(y, x) + 1,
            if s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-divisor-out-2": [tdiv((x + y) + z, x), tdiv((y + x) + z, x), tdiv(y + (z + x), x), tdiv(y + (x + z), x)]
            => tdiv(y + z, x) + 1, if s.at_least(&m, x, 0) && s.at_least(&m, y + z, 0);
        "tdiv-product": [tdiv(x * y, y), tdiv(y * x, y)] => x, if s.at_least(&m, x, 0) && s.at_least(&m, y, 0);
        "tdiv-product-out-1": [tdiv(x * z + y, z), tdiv(z * x + y, z)] => x + tdiv(y, z),
            if s.at_least(&m, x, 0) && s.at_least(&m, y, 0) && s.at_least(&m, z, 0);
        "tdiv-product-out-2": [tdiv(y + x * z, z), tdiv(y + z * x, z)] => tdiv(y, z) + x,
            if s.at_least(&m, x, 0) && s.at_least(&m, y, 0) && s.at_least(&m, z, 0);
    }
    e
}

/// Rules for `T.truncmod(x, y)` of an index type.
pub(super) fn rem(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "tmod-scaled": [tmod(x * c1, c2)] => 0, if divides(c2, c1);
        "tmod-sum-1": [tmod(x * c1 + y, c2)] => tmod(y, c2),
            if c2 > 0 && divides(c2, c1) && s.at_least(&m, x * c1, 0) && s.at_least(&m, y, 0);
        "tmod-constant": [tmod(x + c1, c2)] => tmod(x, c2),
            if c2 > 0 && c1 >= 0 && divides(c2, c1) && s.at_least(&m, x, 0);
        "tmod-sum-2": [tmod(x + y * c1, c2)] => tmod(x, c2),
            if c2 > 0 && divides(c2, c1) && s.at_least(&m, x, 0) && s.at_least(&m, y * c1, 0);
        "tmod-negative": [tmod(x, c1)] -> tmod(x, -c1), if c1 < 0;
    }
    let Expr::Binary(_, x, divisor) = s.arena.expr(e) else { return e };
    if let Some(c) = s.arena.as_int(divisor)
        && c > 0
    {
        let residue = s.analyzer.modular_set(s.arena, x);
        if residue.coeff % c == 0 && s.analyzer.can_prove_greater_equal(s.arena, x, 0) {
            s.applied("tmod-known-residue");
            let dtype = s.arena.dtype(e);
            return s.arena.int(residue.base.rem_euclid(c), dtype);
        }
    }
    e
}
