//! Minima. A constant moves to the outside right.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::ExprId;

/// Rules for `min(x, y)` of an index type.
pub(super) fn min(s: &mut Simplifier, e: ExprId) -> ExprId {
    if let Some(known) = super::max::by_bounds(s, e) {
        return known;
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "min-shifted-1": [min(x + c1, x + c2)] => x + c1.min(c2);
        "min-shifted-2": [min(x + c1, x), min(x, x + c1)] => x + c1.min(0);
        "min-mirrored": [min(c1 - x, c2 - x)] => c1.min(c2) - x;

        "min-rounded-up": [min(tdiv(x + c1, c2) * c2, x), min(x, tdiv(x + c1, c2) * c2), min(((x + c1) / c2) * c2, x),
            min(x, ((x + c1) / c2) * c2)] => x, if c2 > 0 && c1 + 1 == c2;
        "min-rounded-up-max": [min(tdiv(x + c1, c2) * c2, max(x, c2)), min(max(x, c2), tdiv(x + c1, c2) * c2),
            min(((x + c1) / c2) * c2, max(x, c2)), min(max(x, c2), ((x + c1) / c2) * c2)]
            => max(x, c2), if c2 > 0 && c1 + 1 == c2 && s.at_least(&m, x, 1);
        "min-rounded-down": [min(x, (x / c2) * c2), min((x / c2) * c2, x)] => (x / c2) * c2, if c2 > 0;

        "min-absorbs-1": [min(max(x, y), min(x, y)), min(max(x, y), min(y, x)), min(min(x, y), max(x, y)),
            min(min(x, y), max(y, x)), min(min(x, y), x), min(min(x, y), y), min(x, min(x, y)), min(y, min(x, y))]
            => min(x, y);
        "min-absorbs-2": [min(max(x, y), x), min(max(y, x), x), min(x, max(x, y)), min(x, max(y, x))] => x;
        "min-again-3": [min(min(min(x, y), z), y)] => min(min(x, y), z);
        "min-again-4": [min(min(min(min(x, y), z), u), y)] => min(min(min(x, y), z), u);
        "min-again-5": [min(min(min(min(min(x, y), z), u), w), y)] => min(min(min(min(x, y), z), u), w);
        "min-of-maxes": [min(max(x, y), max(x, z)), min(max(x, y), max(z, x)), min(max(y, x), max(x, z)),
            min(max(y, x), max(z, x))] => max(min(y, z), x);
        "min-of-mins": [min(min(x, y), min(x, z)), min(min(x, y), min(z, x)), min(min(y, x), min(x, z)),
            min(min(y, x), min(z, x))] => min(min(y, z), x);

        "min-of-sums": [min(y + x, z + x), min(y + x, x + z), min(x + y, x + z), min(x + y, z + x)] => min(y, z) + x;
        "min-of-differences-1": [min(y - x, z - x)] => min(y, z) - x;
        "min-of-differences-2": [min(x - y, x - z)] => x - max(y, z);
        "min-constants": [min(min(x, c1), c2)] => min(x, c1.min(c2));

        "min-of-tdivs-1": [min(tdiv(x, c1), tdiv(y, c1))] => tdiv(min(x, y), c1), if c1 > 0;
        "min-of-tdivs-2": [min(tdiv(x, c1), tdiv(y, c1))] => tdiv(max(x, y), c1), if c1 < 0;
        "min-of-divs-1": [min(x / c1, y / c1)] => min(x, y) / c1, if c1 > 0;
        "min-of-divs-2": [min(x / c1, y / c1)] => max(x, y) / c1, if c1 < 0;
        "min-of-scaled-1": [min(x * c1, y * c1)] => min(x, y) * c1, if c1 > 0;
        "min-of-scaled-2": [min(x * c1, y * c1)] => max(x, y) * c1, if c1 < 0;
        "min-scaled-constant-1": [min(x * c1, c2)] => min(x, c2 / c1) * c1, if c1 > 0 && divides(c1, c2);
        "min-scaled-constant-2": [min(x * c1, c2)] => max(x, c2 / c1) * c1, if c1 < 0 && divides(c1, c2);

        "min-constant-out": [min(min(x, c1), y)] -> min(min(x, y), c1);
        "min-mirrored-constant": [min(c1 - x, c2)] -> c1 - max(x, c1 - c2), if c2 != 0;
        "min-selects": [min(select(x, y, z), select(x, u, w))] => select(x, min(y, u), min(z, w));
    }
    e
}
