//! # `inline_padding`
//!
//! *When*: a block only selects between an element and a constant, by conditions on indices, and its one consumer is
//! tiled and loads its elements as vectors, each for fewer than 32 results. *What*: one sketch is unchanged, and one
//! has the block inlined (`compute_inline`). *Why*: the copy may take a good part of the computation's time, and
//! vectors can be loaded partially. If elements are used more often, one copy is cheaper than a condition at each use.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((64, 56)), W: T.Buffer((3, 8, 64)), Y: T.Buffer((8, 56))):
//!     P = T.sblock_alloc_buffer((64, 58))
//!     for c, w in T.grid(64, 58):
//!         with T.sblock("P"):
//!             vc, vw = T.axis.remap("SS", [c, w])
//!             P[vc, vw] = T.if_then_else(1 <= vw and vw < 57, X[vc, vw - 1], 0.0)
//!     for o, w, c, r in T.grid(8, 56, 64, 3):
//!         with T.sblock("Y"):
//!             vo, vw, vc, vr = T.axis.remap("SSRR", [o, w, c, r])
//!             with T.init():
//!                 Y[vo, vw] = 0.0
//!             Y[vo, vw] = Y[vo, vw] + P[vc, vw + vr] * W[vr, vo, vc]
//!
//! # becomes (with: register_tiles; candidate: 1)
//!
//! @T.prim_func
//! def after(X: T.Buffer((64, 56)), W: T.Buffer((3, 8, 64)), Y: T.Buffer((8, 56))):
//!     for w_0, c_0, o_0, c_1, r, o_1, w_1 in T.grid(1, 2, 2, 32, 3, 4, 56):
//!         with T.sblock("Y"):
//!             vo = T.axis.spatial(8, o_0 * 4 + o_1)
//!             vw = T.axis.spatial(56, w_0 * 56 + w_1)
//!             vc = T.axis.reduce(64, c_0 * 32 + c_1)
//!             vr = T.axis.reduce(3, r)
//!             with T.init():
//!                 Y[vo, vw] = 0.0
//!             Y[vo, vw] = Y[vo, vw] + T.if_then_else(1 <= vw + vr and vw + vr < 57, X[vc, vw + vr - 1], 0.0) * W[vr, vo, vc]
//! ```
//!
//! # Implementation
//!
//! Inlines the padding of an operand into its consumer.
//!
//! *When*: a block only selects between an element and a constant, and its only consumer is a tiled block that reads it
//! as vectors, each element for few results. *What*: one schedule is unchanged; in the other one, the block is inlined.
//! *Why*: the copy may take a good part of the computation's time, and region code loads partial vectors. If each
//! element is used often, the copy pays: it is made once, while conditions are evaluated at each use.
//!
//! ```text
//! for h, w: P[h, w] = if_then_else(1 <= h and h < 57 and 1 <= w and w < 57, X[h - 1, w - 1], 0)
//! for h, w, r, s: Y[h, w] += P[h + r, w + s] * W[r, s]
//! # becomes
//! for h, w, r, s: Y[h, w] += if_then_else(1 <= h + r and …, X[h + r - 1, w + s - 1], 0) * W[r, s]
//! ```

use super::super::analysis::{is_spatial, live_block};
use super::super::draft::{Draft, Tiled};
use super::Rule;
use crate::ir::{BlockId, BufferId, Expr, Func, Stmt};
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct InlinePadding;

impl Rule for InlinePadding {
    fn name(&self) -> &'static str {
        "inline_padding"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let func = draft.sch.func(index);
        let Some(padded) = padded_buffer(func, id) else { return Ok(vec![draft]) };
        let scope = func.block_above(id.stmt()).unwrap_or(func.root);
        let Some(consumer) = Scope::of(func, scope).only_consumer(func, id) else { return Ok(vec![draft]) };
        let reads = &func.block(consumer).reads;
        let is_consumer = |t: &&Tiled| live_block(&draft.sch, t.block) == Some((index, consumer));
        let is_padded = |&read: &usize| reads.get(read).is_some_and(|r| r.buffer == padded);
        if !draft.tiled.iter().filter(is_consumer).any(|t| t.seldom.iter().any(is_padded)) {
            return Ok(vec![draft]);
        }
        let mut inlined = draft.clone();
        let offered = inlined.sch.compute_inline(block).is_ok();
        Ok([draft].into_iter().chain(offered.then_some(inlined)).collect())
    }
}

/// The buffer that a padding block writes.
fn padded_buffer(func: &Func, block: BlockId) -> Option<BufferId> {
    let node = func.block(block);
    let &[inner] = &node.body[..] else { return None };
    let Stmt::Store { buffer, value, .. } = func.get(inner) else { return None };
    let arena = &func.arena;
    let Expr::IfThenElse(_, then, otherwise) = arena.expr(*value) else { return None };
    let is_load = matches!(arena.expr(then), Expr::Load(..));
    let is_constant = matches!(arena.expr(otherwise), Expr::Int(_) | Expr::Float(_));
    (is_spatial(func, block) && is_load && is_constant).then_some(*buffer)
}
