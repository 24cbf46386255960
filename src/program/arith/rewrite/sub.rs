//! Differences. A constant subtrahend becomes an added constant; a term that is both added and subtracted cancels.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::ExprId;

/// Rules for `x - y` of an index type.
pub(super) fn sub(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "sub-added": [(x + y) - y, (y + x) - y] => x;
        "sub-sum": [x - (y + x), x - (x + y)] => 0 - y;

        "sub-min-operand-1": [min(x, y) - y, x - max(y, x)] => min(x - y, 0);
        "sub-min-operand-2": [x - max(x, y), min(y, x) - y] => min(0, x - y);
        "sub-max-operand-1": [max(x, y) - y, x - min(y, x)] => max(x - y, 0);
        "sub-max-operand-2": [x - min(x, y), max(y, x) - y] => max(0, x - y);

        "sub-same": [x - x] => 0;
        "sub-product-and-factor-1": [x * y - x, y * x - x] => (y - 1) * x;
        "sub-product-and-factor-2": [x - y * x, x - x * y] => (1 - y) * x;
        "sub-products": [x * y - x * z, y * x - x * z, x * y - z * x, y * x - z * x] => (y - z) * x;

        "sub-constants-1": [(x + c1) - c2] => x + (c1 - c2);
        "sub-constants-2": [(c1 - x) - (c2 - y)] => (y - x) + (c1 - c2);
        "sub-sums": [(x + y) - (x + z), (x + y) - (z + x), (y + x) - (z + x), (y + x) - (x + z)] => y - z;

        "sub-from-min-1": [min(x + y, z) - x, min(y + x, z) - x] => min(y, z - x);
        "sub-from-min-2": [min(z, x + y) - x, min(z, y + x) - x] => min(z - x, y);
        "sub-from-max-1": [max(x + y, z) - x, max(y + x, z) - x] => max(y, z - x);
        "sub-from-max-2": [max(z, x + y) - x, max(z, y + x) - x] => max(z - x, y);
        "sub-min-1": [x - min(x + y, z), x - min(y + x, z)] => max(0 - y, x - z);
        "sub-min-2": [x - min(z, x + y), x - min(z, y + x)] => max(x - z, 0 - y);
        "sub-max-1": [x - max(x + y, z), x - max(y + x, z)] => min(0 - y, x - z);
        "sub-max-2": [x - max(z, x + y), x - max(z, y + x)] => min(x - z, 0 - y);
        "sub-same-min": [min(x, y) - min(y, x)] => 0;
        "sub-same-max": [max(x, y) - max(y, x)] => 0;
        "sub-mins": [min(x, y) - min(u, w), min(x, y) - min(w, u)] => x - u, if s.is_zero(&m, (x - u) - (y - w));
        "sub-maxes": [max(x, y) - max(u, w), max(x, y) - max(w, u)] => x - u, if s.is_zero(&m, (x - u) - (y - w));

        "sub-tdiv-1": [x - tdiv(x, c1) * c1] => tmod(x, c1), if c1 != 0;
        "sub-tdiv-2": [tdiv(x, c1) * c1 - x] => 0 - tmod(x, c1), if c1 != 0;
        "sub-tdiv-3": [x - tdiv(x + y, c1) * c1] => tmod(x + y, c1) - y, if c1 != 0;
        "sub-tdiv-4": [tdiv(x + y, c1) * c1 - x] => y - tmod(x + y, c1), if c1 != 0;
        "sub-tdiv-5": [x - tdiv(x - y, c1) * c1] => tmod(x - y, c1) + y, if c1 != 0;
        "sub-tdiv-6": [tdiv(x - y, c1) * c1 - x] => 0 - tmod(x - y, c1) - y, if c1 != 0;
        "sub-tdiv-scaled-1": [x * c2 - tdiv(x, c1) * c3] => tmod(x, c1) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-tdiv-scaled-2": [tdiv(x, c1) * c3 - x * c2] => 0 - tmod(x, c1) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-tdiv-scaled-3": [x * c2 - tdiv(x + y, c1) * c3] => (tmod(x + y, c1) - y) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-tdiv-scaled-4": [tdiv(x + y, c1) * c3 - x * c2] => (y - tmod(x + y, c1)) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-tdiv-scaled-5": [x * c2 - tdiv(x - y, c1) * c3] => (tmod(x - y, c1) + y) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-tdiv-scaled-6": [tdiv(x - y, c1) * c3 - x * c2] => (0 - tmod(x - y, c1) - y) * c2,
            if c1 != 0 && c3 == c1 * c2;
        "sub-tdivs-1": [tdiv(x + c1, c3) - tdiv(x + c2, c3)] => tdiv(tmod(x + floor_mod(c2, c3), c3) + (c1 - c2), c3),
            if c3 > 0 && c1 >= c2 && s.at_least(&m, x, -c2) && s.at_least(&m, x, -floor_mod(c2, c3));
        "sub-tdivs-2": [tdiv(x + c1, c3) - tdiv(x, c3)] => tdiv(tmod(x, c3) + c1, c3),
            if c3 > 0 && c1 >= 0 && s.at_least(&m, x, 0);

        "sub-div-1": [x - (x / c1) * c1] => x % c1, if c1 != 0;
        "sub-div-2": [(x / c1) * c1 - x] => 0 - x % c1, if c1 != 0;
        "sub-div-3": [x - ((x + y) / c1) * c1] => (x + y) % c1 - y, if c1 != 0;
        "sub-div-4": [((x + y) / c1) * c1 - x] => y - (x + y) % c1, if c1 != 0;
        "sub-div-5": [x - ((x - y) / c1) * c1] => (x - y) % c1 + y, if c1 != 0;
        "sub-div-6": [((x - y) / c1) * c1 - x] => 0 - (x - y) % c1 - y, if c1 != 0;
        "sub-halves-1": [(x + c1) / 2 - (x + c2) / 2]
            -> (x % 2) * (floor_mod(c1, 2) - floor_mod(c2, 2)) + (floor_div(c1, 2) - floor_div(c2, 2));
        "sub-halves-2": [x / 2 - (x + c2) / 2] -> (x % 2) * (-floor_mod(c2, 2)) - floor_div(c2, 2);
        "sub-halves-3": [(x + c1) / 2 - x / 2] -> (x % 2) * floor_mod(c1, 2) + floor_div(c1, 2);
        "sub-div-scaled-1": [x * c2 - (x / c1) * c3] => (x % c1) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-div-scaled-2": [(x / c1) * c3 - x * c2] => 0 - (x % c1) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-div-scaled-3": [x * c2 - ((x + y) / c1) * c3] => ((x + y) % c1 - y) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-div-scaled-4": [((x + y) / c1) * c3 - x * c2] => (y - (x + y) % c1) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-div-scaled-5": [x * c2 - ((x - y) / c1) * c3] => ((x - y) % c1 + y) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-div-scaled-6": [((x - y) / c1) * c3 - x * c2] => (0 - (x - y) % c1 - y) * c2, if c1 != 0 && c3 == c1 * c2;
        "sub-half-up-bit": [(x + 1) / 2 - x % 2] -> x / 2;
        "sub-divs-1": [(x + c1) / c3 - (x + c2) / c3] => ((x + floor_mod(c2, c3)) % c3 + (c1 - c2)) / c3, if c3 > 0;
        "sub-divs-2": [(x + c1) / c3 - x / c3] => (x % c3 + c1) / c3, if c3 > 0;

        "sub-constant": [x - c1] => x + (-c1);
        "sub-constant-out-1": [(x + c1) - y] -> (x - y) + c1;
        "sub-constant-out-2": [x - (y + c1)] -> (x - y) + (-c1);
        "sub-difference": [x - (y - z)] -> (x + z) - y;
        "sub-scaled": [x - y * c1] -> x + y * (-c1);

        "sub-selects": [select(x, y, z) - select(x, u, w)] => select(x, y - u, z - w);
        "sub-select-1": [select(x, y, z) - z] => select(x, y - z, 0);
        "sub-select-2": [select(x, y, z) - y] => select(x, 0, z - y);
    }
    e
}

/// Rules for integer types that wrap: they hold for residues.
pub(super) fn narrow(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "wrap-sub-same": [x - x] => 0;
        "wrap-sub-added-1": [(x + y) - y] => x;
        "wrap-sub-added-2": [(x + y) - x] => y;
    }
    e
}
