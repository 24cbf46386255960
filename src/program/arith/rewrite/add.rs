//! Sums. Constants move to the right, `min` and `max` to the left, and a term that is both added and subtracted
//! cancels.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::ExprId;

/// Rules for `x + y` of an index type.
pub(super) fn add(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "add-subtracted": [(x - y) + y] => x;
        "add-difference": [x + (y - x)] => y;
        "add-differences-1": [(x - y) + (y - z)] => x - z;
        "add-differences-2": [(x - y) + (z - x)] => z - y;

        "add-min-difference-1": [min(x, y - z) + z] => min(x + z, y);
        "add-min-difference-2": [min(x - z, y) + z] => min(x, y + z);
        "add-max-difference-1": [max(x, y - z) + z] => max(x + z, y);
        "add-max-difference-2": [max(x - z, y) + z] => max(x, y + z);
        "add-min-scaled-1": [min(x, y + z * c1) + z * c2] => min(x + z * c2, y), if c1 == -c2;
        "add-max-scaled-1": [max(x, y + z * c1) + z * c2] => max(x + z * c2, y), if c1 == -c2;
        "add-min-scaled-2": [min(y + z * c1, x) + z * c2] => min(x + z * c2, y), if c1 == -c2;
        "add-max-scaled-2": [max(y + z * c1, x) + z * c2] => max(x + z * c2, y), if c1 == -c2;
        "add-min-max": [max(x, y) + min(x, y), min(x, y) + max(x, y), max(x, y) + min(y, x), min(x, y) + max(y, x)]
            => x + y;
        "add-min-constant-1": [min(x, y + c1) + c2] => min(x + c2, y), if c1 == -c2;
        "add-min-constant-2": [min(x + c1, y) + c2] => min(x, y + c2), if c1 == -c2;
        "add-max-constant-1": [max(x, y + c1) + c2] => max(x + c2, y), if c1 == -c2;
        "add-max-constant-2": [max(x + c1, y) + c2] => max(x, y + c2), if c1 == -c2;

        "add-constants": [(x + c1) + c2] => x + (c1 + c2);
        "add-same": [x + x] => x * 2;
        "add-product-and-factor": [x * y + x, y * x + x, x + y * x, x + x * y] => (y + 1) * x;
        "add-products": [x * y + x * z, y * x + x * z, x * y + z * x, y * x + z * x] => (y + z) * x;

        "add-trunc-parts": [tdiv(x, c1) * c1 + tmod(x, c1)] => x;
        "add-floor-parts": [(x / y) * y + x % y, y * (x / y) + x % y, x % y + (x / y) * y, x % y + y * (x / y)] => x;
        "add-carry": [(x % c2 + c1) / c2 + x / c2] => (x + c1) / c2, if c2 > 0;
        "add-half-and-bit": [x / 2 + x % 2] -> (x + 1) / 2;
        "add-bits-1": [(x + c1) % 2 + x % 2] => 1, if floor_mod(c1, 2) == 1;
        "add-bits-2": [x % 2 + (x + c1) % 2] => 1, if floor_mod(c1, 2) == 1;

        "add-constant-last-1": [x + (c1 - y), (c1 - y) + x] -> (x - y) + c1;
        "add-constant-last-2": [(x + c1) + y, x + (c1 + y), x + (y + c1)] -> (x + y) + c1;
        "add-max-first": [x + max(y, z)] -> max(y, z) + x;
        "add-min-first": [x + min(y, z)] -> min(y, z) + x;
        "add-tmod-last": [tmod(y, c1) + x * c1] -> x * c1 + tmod(y, c1);
        "add-mod-last": [y % c1 + x * c1] -> x * c1 + y % c1;

        "add-selects": [select(x, y, z) + select(x, u, w)] => select(x, y + u, z + w);
    }
    e
}
