//! Maxima. A constant moves to the outside right.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::{Expr, ExprId};
use crate::ir::op::BinOp;

/// Rules for `max(x, y)` of an index type.
pub(super) fn max(s: &mut Simplifier, e: ExprId) -> ExprId {
    if let Some(known) = by_bounds(s, e) {
        return known;
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "max-shifted-1": [max(x + c1, x + c2)] => x + c1.max(c2);
        "max-shifted-2": [max(x + c1, x), max(x, x + c1)] => x + c1.max(0);
        "max-mirrored": [max(c1 - x, c2 - x)] => c1.max(c2) - x;

        "max-tdiv-rounded-up": [max(tdiv(x + c1, c2) * c2, x), max(x, tdiv(x + c1, c2) * c2)]
            => tdiv(x + c1, c2) * c2, if c2 > 0 && c1 + 1 == c2;
        "max-rounded-up": [max(((x + c1) / c2) * c2, x), max(x, ((x + c1) / c2) * c2)]
            => ((x + c1) / c2) * c2, if c2 > 0 && c1 + 1 == c2;
        "max-rounded-down": [max((x / c2) * c2, x), max(x, (x / c2) * c2)] => x, if c2 > 0;

        "max-absorbs-2": [max(min(x, y), x), max(min(y, x), x), max(x, min(x, y)), max(x, min(y, x))] => x;
        "max-absorbs-1": [max(min(x, y), max(x, y)), max(min(x, y), max(y, x)), max(max(x, y), min(x, y)),
            max(max(x, y), min(y, x)), max(max(x, y), x), max(max(x, y), y), max(x, max(x, y)), max(y, max(x, y))]
            => max(x, y);
        "max-again-3": [max(max(max(x, y), z), y)] => max(max(x, y), z);
        "max-again-4": [max(max(max(max(x, y), z), u), y)] => max(max(max(x, y), z), u);
        "max-again-5": [max(max(max(max(max(x, y), z), u), w), y)] => max(max(max(max(x, y), z), u), w);
        "max-of-maxes": [max(max(x, y), max(x, z)), max(max(x, y), max(z, x)), max(max(y, x), max(x, z)),
            max(max(y, x), max(z, x))] => max(max(y, z), x);
        "max-of-mins": [max(min(x, y), min(x, z)), max(min(x, y), min(z, x)), max(min(y, x), min(x, z)),
            max(min(y, x), min(z, x))] => min(max(y, z), x);

        "max-of-sums": [max(y + x, z + x), max(y + x, x + z), max(x + y, x + z), max(x + y, z + x)] => max(y, z) + x;
        "max-of-differences-1": [max(y - x, z - x)] => max(y, z) - x;
        "max-of-differences-2": [max(x - y, x - z)] => x - min(y, z);
        "max-constants": [max(max(x, c1), c2)] => max(x, c1.max(c2));

        "max-of-tdivs-1": [max(tdiv(x, c1), tdiv(y, c1))] => tdiv(max(x, y), c1), if c1 > 0;
        "max-of-tdivs-2": [max(tdiv(x, c1), tdiv(y, c1))] => tdiv(min(x, y), c1), if c1 < 0;
        "max-of-divs-1": [max(x / c1, y / c1)] => max(x, y) / c1, if c1 > 0;
        "max-of-divs-2": [max(x / c1, y / c1)] => min(x, y) / c1, if c1 < 0;
        "max-of-scaled-1": [max(x * c1, y * c1)] => max(x, y) * c1, if c1 > 0;
        "max-of-scaled-2": [max(x * c1, y * c1)] => min(x, y) * c1, if c1 < 0;
        "max-scaled-constant-1": [max(x * c1, c2)] => max(x, c2 / c1) * c1, if c1 > 0 && divides(c1, c2);
        "max-scaled-constant-2": [max(x * c1, c2)] => min(x, c2 / c1) * c1, if c1 < 0 && divides(c1, c2);

        "max-constant-out": [max(max(x, c1), y)] -> max(max(x, y), c1);
        "max-mirrored-constant": [max(c1 - x, c2)] -> c1 - min(x, c1 - c2), if c2 != 0;
        "max-selects": [max(select(x, y, z), select(x, u, w))] => select(x, max(y, u), max(z, w));
    }
    e
}

/// The operand of a minimum or maximum that constant bounds choose.
pub(super) fn by_bounds(s: &mut Simplifier, e: ExprId) -> Option<ExprId> {
    let Expr::Binary(op, x, y) = s.arena.expr(e) else { return None };
    if x == y {
        return Some(x);
    }
    let p = s.analyzer.const_int_bound(s.arena, x);
    let q = s.analyzer.const_int_bound(s.arena, y);
    let (x_below, y_below) = (p.max <= q.min, q.max <= p.min);
    match op {
        BinOp::Min if x_below => Some(x),
        BinOp::Min if y_below => Some(y),
        BinOp::Max if y_below => Some(x),
        BinOp::Max if x_below => Some(y),
        _ => None,
    }
}
