//! # `split_groups`
//!
//! *When*: a reduction whose channels of results are read in groups: an operand is indexed by `c // k`, as in grouped
//! convolutions. *What*: the axis of channels becomes one of groups and one of the channels of a group
//! (`transform_block_layout`). *Why*: tiles of channels then end where groups do, and results of a group share what they read.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((16, 64)), W: T.Buffer((16, 4)), Y: T.Buffer((16, 64))):
//!     for o, w, c in T.grid(16, 64, 4):
//!         with T.sblock("Y"):
//!             vo, vw, vc = T.axis.remap("SSR", [o, w, c])
//!             with T.init():
//!                 Y[vo, vw] = 0.0
//!             Y[vo, vw] = Y[vo, vw] + X[vo // 4 * 4 + vc, vw] * W[vo, vc]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(X: T.Buffer((16, 64)), W: T.Buffer((16, 4)), Y: T.Buffer((16, 64))):
//!     for ax0, ax1, ax2, ax3 in T.grid(4, 4, 64, 4):
//!         with T.sblock("Y"):
//!             v0, v1, v2, v3 = T.axis.remap("SSSR", [ax0, ax1, ax2, ax3])
//!             with T.init():
//!                 Y[v0 * 4 + v1, v2] = 0.0
//!             Y[v0 * 4 + v1, v2] = Y[v0 * 4 + v1, v2] + X[(v0 * 4 + v1) // 4 * 4 + v3, v2] * W[v0 * 4 + v1, v3]
//! ```
//!
//! # Implementation
//!
//! Makes two axes of one whose quotient an operand moves with.
//!
//! *When*: a reduction in which an axis of the result, other than the innermost one, determines the elements of an operand only
//! by its quotient with a constant. *What*: the axis is split where the block is defined, so that the analyses of later rules see
//! two axes. *Why*: the operand moves with one of them and not at all with the other one, which are therefore a batch and the
//! rows of a tile.
//!
//! ```text
//! for o, w, c: Y[o, w] += X[o // 4 * 4 + c, w] * W[o, c]
//! # becomes
//! for g, o, w, c: Y[g * 4 + o, w] += X[g * 4 + c, w] * W[g * 4 + o, c]
//! ```

use super::super::analysis::{is_spatial, is_trivial_binding, live_block};
use super::super::draft::Draft;
use super::Rule;
use crate::ir::visit::{for_each_subexpr, uses_var};
use crate::ir::{BinOp, BlockId, Expr, ExprId, Func, IterKind, Stmt, VarId};
use crate::schedule::arg::{Lambda, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct SplitGroups;

impl Rule for SplitGroups {
    fn name(&self) -> &'static str {
        "split_groups"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let Some(groups) = Groups::of(draft.sch.func(index), id) else { return Ok(vec![draft]) };
        let mut split = draft.clone();
        let done =
            split.sch.transform_block_layout(block, Lambda::splitting(groups.n_axes, &[(groups.axis, groups.size)]));
        Ok(vec![if done.is_ok() { split } else { draft }])
    }
}

/// An axis of a block that consists of groups.
struct Groups {
    /// The axis, and the number of axes of the block.
    axis: usize,
    n_axes: usize,
    /// Number of results of a group.
    size: i64,
}

impl Groups {
    fn of(func: &Func, block: BlockId) -> Option<Groups> {
        if block == func.root || !is_trivial_binding(func, block) || is_spatial(func, block) {
            return None;
        }
        let node = func.block(block);
        let &[body] = &node.body[..] else { return None };
        let Stmt::Store { indices, value, .. } = func.get(body) else { return None };
        let (_, outer) = func.arena.list(*indices).split_last()?;
        let spatial = node.iters.iter().enumerate().filter(|(_, i)| i.kind == IterKind::Spatial);
        spatial.into_iter().find_map(|(axis, iter)| {
            let extent = func.arena.as_int(iter.extent)?;
            outer.iter().find(|&&e| func.arena.as_var(e) == Some(iter.var))?;
            let size = group_size(func, *value, iter.var)?;
            let divides = 1 < size && size < extent && extent % size == 0;
            divides.then_some(Groups { axis, n_axes: node.iters.len(), size })
        })
    }
}

/// The number by which all quotients of a variable in an expression divide it, if some operand depends on the variable by a
/// quotient alone.
fn group_size(func: &Func, value: ExprId, var: VarId) -> Option<i64> {
    let arena = &func.arena;
    let mut sizes = Vec::new();
    let mut is_grouped = false;
    for_each_subexpr(arena, value, &mut |e| {
        let Expr::Load(_, indices) = arena.expr(e) else { return };
        let before = sizes.len();
        let mut is_quotient = true;
        for &i in arena.list(indices) {
            is_quotient &= quotients(func, i, var, &mut sizes);
        }
        is_grouped |= is_quotient && sizes.len() > before;
    });
    let &first = sizes.first()?;
    (is_grouped && sizes.iter().all(|&size| size == first)).then_some(first)
}

/// Adds the divisors of a variable's quotients in an index; returns whether the variable is nowhere else in it.
fn quotients(func: &Func, e: ExprId, var: VarId, sizes: &mut Vec<i64>) -> bool {
    let arena = &func.arena;
    match arena.expr(e) {
        Expr::Binary(BinOp::FloorDiv, a, b) if arena.as_var(a) == Some(var) => {
            sizes.extend(arena.as_int(b));
            arena.as_int(b).is_some()
        }
        Expr::Binary(_, a, b) => {
            let first = quotients(func, a, var, sizes);
            quotients(func, b, var, sizes) && first
        }
        _ => !uses_var(arena, e, &mut |v| v == var),
    }
}
