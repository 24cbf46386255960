//! Floor division. Multiples of the divisor leave the dividend; quotients of quotients become one.

use super::Simplifier;
use crate::arith::pattern::{self, rules};
use crate::ir::expr::{Expr, ExprId};
use crate::ir::op::BinOp;

/// Rules for `x // y` of an index type.
pub(super) fn floor_div(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "div-of-div": [(x / c1) / c2] => x / (c1 * c2), if c1 > 0 && c2 > 0;
        "div-of-div-sum": [(x / c1 + c2) / c3] => (x + c1 * c2) / (c1 * c3), if c1 > 0 && c3 > 0;
    }
    if let Some(split) = scaled_part(s, e) {
        return split;
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "div-same": [x / x] => 1;
        "div-scaled-same": [(x * c1) / x, (c1 * x) / x] => c1;
        "div-bit-up": [(x % 2 + 1) / 2] => x % 2;

        "div-min-1": [min(x * c1, y) / c2] => min(x * floor_div(c1, c2), y / c2), if c2 > 0 && divides(c2, c1);
        "div-max-1": [max(x * c1, y) / c2] => max(x * floor_div(c1, c2), y / c2), if c2 > 0 && divides(c2, c1);
        "div-min-2": [min(y, x * c1) / c2] => min(y / c2, x * floor_div(c1, c2)), if c2 > 0 && divides(c2, c1);
        "div-max-2": [max(y, x * c1) / c2] => max(y / c2, x * floor_div(c1, c2)), if c2 > 0 && divides(c2, c1);

        "div-sum-1": [(x * c1 + y + z) / c2] => x * floor_div(c1, c2) + (y + z) / c2, if c2 > 0 && divides(c2, c1);
        "div-sum-small": [(x * c1 + y + z) / c2] => x / floor_div(c2, c1),
            if c1 > 0 && c2 > 0 && divides(c1, c2) && s.is_zero(&m, (y + z) / c1);
        "div-sum-2": [(x * c1 - y + z) / c2, (x * c1 + z - y) / c2] => x * floor_div(c1, c2) + (z - y) / c2,
            if c2 > 0 && divides(c2, c1);
        "div-sum-3": [(y + x * c1 + z) / c2] => x * floor_div(c1, c2) + (y + z) / c2, if c2 > 0 && divides(c2, c1);
        "div-constant-out": [(x + c1) / c2] => x / c2 + floor_div(c1, c2), if c2 > 0 && divides(c2, c1);
        "div-known-quotient": [(x + c1) / c2] => floor_div(c1, c2),
            if c1 > 0 && c2 > 0 && s.at_least(&m, x, -(c1 % c2)) && s.below(&m, x, c2 - c1 % c2);
        "div-common-factor": [(x * c1) / (x * c2)] => floor_div(c1, c2), if c2 > 0;

        "div-divisor-out-1": [(x + y) / x, (y + x) / x] => y / x + 1, if s.at_least(&m, x, 0);
        "div-divisor-out-2": [((x + y) + z) / x, ((y + x) + z) / x, (y + (z + x)) / x, (y + (x + z)) / x]
            => (y + z) / x + 1, if s.at_least(&m, x, 0);
        "div-product": [(x * y) / y, (y * x) / y] => x, if s.at_least(&m, y, 0);
        "div-product-out-1": [(x * z + y) / z, (z * x + y) / z] => x + y / z, if s.at_least(&m, z, 0);
        "div-product-out-2": [(y + x * z) / z, (y + z * x) / z] => y / z + x, if s.at_least(&m, z, 0);
        "div-product-out-3": [(x * z * c1 + y) / (z * c1)] => x + y / (z * c1), if s.at_least(&m, z * c1, 0);
        "div-rounded": [(x - x % c1) / c1] => x / c1, if c1 != 0;
    }
    e
}

/// `(x * c1 + y) // c2`, if the remainders of `x * c1` and of `y` carry a known amount into the quotient.
fn scaled_part(s: &mut Simplifier, e: ExprId) -> Option<ExprId> {
    let Expr::Binary(_, dividend, divisor) = s.arena.expr(e) else { return None };
    let c2 = s.arena.as_int(divisor)?;
    let scaled = |s: &Simplifier, e: ExprId| match s.arena.expr(e) {
        Expr::Binary(BinOp::Mul, x, c) => s.arena.as_int(c).map(|c| (x, c)),
        _ => None,
    };
    let ((x, c1), y) = match s.arena.expr(dividend) {
        Expr::Binary(BinOp::Add, p, q) => match scaled(s, p) {
            Some(part) => (part, Some(q)),
            None => (scaled(s, q)?, Some(p)),
        },
        _ => (scaled(s, dividend)?, None),
    };
    if c2 <= 0 {
        return None;
    }
    let dtype = s.arena.dtype(e);
    let y = y.unwrap_or_else(|| s.arena.int(0, dtype));
    // The quotient is x * (c1 // c2) + y // c2 + residue.
    let c1_rest = pattern::floor_mod(c1 as i128, c2 as i128) as i64;
    let x_rest = s.arena.mul_const(x, c1_rest);
    let y_rest = s.arena.floor_mod(y, divisor);
    let rest = s.arena.add(x_rest, y_rest);
    let residue = s.arena.floor_div(rest, divisor);
    let y_div = s.arena.floor_div(y, divisor);
    let y_div =
        if s.compare_to(y_div, 0) == crate::arith::transitive::Relation::EQ { s.arena.int(0, dtype) } else { y_div };
    if let Some(residue) = s.analyzer.const_int_bound(s.arena, residue).as_point() {
        s.applied("div-known-residue");
        let quotient = pattern::floor_div(c1 as i128, c2 as i128) as i64;
        let x_div = s.arena.mul_const(x, quotient);
        let residue = s.arena.int(residue, dtype);
        let rest = s.arena.add(y_div, residue);
        return Some(s.arena.add(x_div, rest));
    }
    // With c2 = a * c1 and y % c2 < c1 the quotient is x // a + y // c2.
    if c1 > 0 && c2 % c1 == 0 && s.analyzer.can_prove_less(s.arena, y_rest, c1) {
        s.applied("div-smaller-divisor");
        let smaller = s.arena.int(c2 / c1, dtype);
        let x_div = s.arena.floor_div(x, smaller);
        return Some(s.arena.add(x_div, y_div));
    }
    None
}
