//! Products. Constants move to the right and are multiplied out over sums.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::ExprId;

/// Rules for `x * y` of an index type.
pub(super) fn mul(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "mul-sum": [(x + c1) * c2] => x * c2 + c1 * c2;
        "mul-constants": [(x * c1) * c2] => x * (c1 * c2);
        "mul-min-max": [min(x, y) * max(x, y), max(x, y) * min(x, y)] => x * y;
        "mul-rounded-up": [((x - x % c2) / c1) * c1] => x - x % c2, if c1 == -c2;
        "mul-constant-out": [x * (c1 * y)] -> (x * y) * c1;
        "mul-constant-last": [c1 * x] -> x * c1;
        "mul-negative": [(x - y) * c1] -> (y - x) * (-c1), if c1 < 0;
    }
    e
}
