//! SiLU, also called swish, becomes one operator.
//!
//! ```text
//! x * sigmoid(x)    →    R.nn.silu(x)
//! ```

use super::product::Product;
use crate::graph::function::{CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let whole = Product::of(rw, rw.function.call(c).result);
    let [a, b] = whole.factors[..] else { return None };
    if !whole.is(1.0, 2, 0.0) {
        return None;
    }
    let is_silu = |x, sigmoid| rw.operand_of(sigmoid, "sigmoid").filter(|&of| of == x);
    let x = is_silu(a, b).or_else(|| is_silu(b, a))?;
    rw.add_unary("nn.silu", x)
}
