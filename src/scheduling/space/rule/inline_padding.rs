//! # `inline_padding`
//!
//! *When*: a block only selects between an element and a constant, by conditions on indices, and its one consumer is
//! tiled and loads its elements as vectors, each for fewer than 32 results; or it joins arrays along an axis that the
//! consumer sums over, as for channels behind a concatenation. *What*: one sketch is unchanged, and one has the block
//! inlined (`compute_inline`). *Why*: the copy may take a good part of the computation's time, and vectors can be loaded
//! partially. If padded elements are used more often, one copy is cheaper than a condition at each use; a sum over joined
//! arrays is divided where they meet, and has no condition left.
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
//! Inlines the padding of an operand, or the arrays that it joins, into its consumer.
//!
//! *When*: a block only selects between an element and a constant, and its only consumer is a tiled block that reads it
//! as vectors, each element for few results; or it selects between elements, by conditions on axes that the consumer
//! reduces. *What*: one schedule is unchanged; in the other one, the block is inlined.
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
use crate::ir::visit::for_each_subexpr;
use crate::ir::{BlockId, BufferId, Expr, ExprId, Func, IterKind, Stmt, VarId};
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
        // A copy that also changes the layout is worth it.
        if draft.deinterleaved.iter().any(|d| live_block(&draft.sch, d.copy) == Some((index, id))) {
            return Ok(vec![draft]);
        }
        let Some((padded, joined)) = selected_buffer(func, id) else { return Ok(vec![draft]) };
        let scope = func.block_above(id.stmt()).unwrap_or(func.root);
        let Some(consumer) = Scope::of(func, scope).only_consumer(func, id) else { return Ok(vec![draft]) };
        let reads = &func.block(consumer).reads;
        let is_consumer = |t: &&Tiled| live_block(&draft.sch, t.block) == Some((index, consumer));
        let is_padded = |&read: &usize| reads.get(read).is_some_and(|r| r.buffer == padded);
        let mut tiled = draft.tiled.iter().filter(is_consumer);
        let pays = match joined {
            None => tiled.any(|t| t.seldom.iter().any(is_padded)),
            Some(axes) => tiled.next().is_some() && reduces(func, consumer, padded, &axes),
        };
        if !pays {
            return Ok(vec![draft]);
        }
        let mut inlined = draft.clone();
        let offered = inlined.sch.compute_inline(block).is_ok();
        Ok([draft].into_iter().chain(offered.then_some(inlined)).collect())
    }
}

/// The buffer that a block writes which selects between an element and a constant, or between elements; for the latter,
/// the axes of the buffer that the conditions depend on.
pub(super) fn selected_buffer(func: &Func, block: BlockId) -> Option<(BufferId, Option<Vec<usize>>)> {
    let node = func.block(block);
    let &[inner] = &node.body[..] else { return None };
    let Stmt::Store { buffer, value, indices } = func.get(inner) else { return None };
    let arena = &func.arena;
    let Expr::IfThenElse(_, then, otherwise) = arena.expr(*value) else { return None };
    let is_load = |e| matches!(arena.expr(e), Expr::Load(..));
    if !is_spatial(func, block) {
        return None;
    }
    if is_load(then) && matches!(arena.expr(otherwise), Expr::Int(_) | Expr::Float(_)) {
        return Some((*buffer, None));
    }
    let (mut axes, mut rest) = (Vec::new(), *value);
    while let Expr::IfThenElse(condition, then, otherwise) = arena.expr(rest) {
        for v in variables(func, condition) {
            let axis = arena.list(*indices).iter().position(|&i| arena.as_var(i) == Some(v))?;
            axes.push(axis);
        }
        if !is_load(then) {
            return None;
        }
        rest = otherwise;
    }
    is_load(rest).then_some((*buffer, Some(axes)))
}

/// The variables in an expression.
fn variables(func: &Func, e: ExprId) -> Vec<VarId> {
    let mut found = Vec::new();
    for_each_subexpr(&func.arena, e, &mut |e| found.extend(func.arena.as_var(e)));
    found
}

/// Whether a block reads a buffer at places that only its reduction variables determine along some axes.
fn reduces(func: &Func, block: BlockId, buffer: BufferId, axes: &[usize]) -> bool {
    let iters = &func.block(block).iters;
    let is_reduced = |v: &VarId| iters.iter().any(|i| i.var == *v && i.kind == IterKind::Reduce);
    let (mut reads, mut fits) = (0, true);
    for &s in &func.block(block).body {
        let Stmt::Store { value, .. } = func.get(s) else { return false };
        for_each_subexpr(&func.arena, *value, &mut |e| {
            if let Expr::Load(read, indices) = func.arena.expr(e)
                && read == buffer
            {
                let indices = func.arena.list(indices);
                reads += 1;
                fits &= axes
                    .iter()
                    .all(|&axis| indices.get(axis).is_some_and(|&i| variables(func, i).iter().all(is_reduced)));
            }
        });
    }
    reads > 0 && fits
}
