//! # `fuse_epilogue`
//!
//! *When*: a tiled block has one consumer, without reduction. *What*: one sketch is unchanged, and one has the consumer
//! computed at the innermost loop under which a tile is complete (`reverse_compute_at`). *Why*: the consumer finds the
//! tile in registers, or in the nearest cache.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((128, 64)), B: T.Buffer((64, 128)), Y: T.Buffer((128, 128))):
//!     C = T.sblock_alloc_buffer((128, 128))
//!     for i, j, k in T.grid(128, 128, 64):
//!         with T.sblock("C"):
//!             vi, vj, vk = T.axis.remap("SSR", [i, j, k])
//!             with T.init():
//!                 C[vi, vj] = 0.0
//!             C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//!     for i, j in T.grid(128, 128):
//!         with T.sblock("Y"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             Y[vi, vj] = T.max(C[vi, vj], 0.0)
//!
//! # becomes (with: register_tiles; candidate: 1)
//!
//! @T.prim_func
//! def after(A: T.Buffer((128, 64)), B: T.Buffer((64, 128)), Y: T.Buffer((128, 128))):
//!     C = T.sblock_alloc_buffer((128, 128))
//!     for j_0, i_0 in T.grid(2, 32):
//!         for k, i_1, j_1 in T.grid(64, 4, 64):
//!             with T.sblock("C"):
//!                 vi = T.axis.spatial(128, i_0 * 4 + i_1)
//!                 vj = T.axis.spatial(128, j_0 * 64 + j_1)
//!                 vk = T.axis.reduce(64, k)
//!                 with T.init():
//!                     C[vi, vj] = 0.0
//!                 C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//!         for ax0, ax1 in T.grid(4, 64):
//!             with T.sblock("Y"):
//!                 vi = T.axis.spatial(128, i_0 * 4 + ax0)
//!                 vj = T.axis.spatial(128, j_0 * 64 + ax1)
//!                 Y[vi, vj] = T.max(C[vi, vj], 0.0)
//! ```
//!
//! # Implementation
//!
//! Fuses the consumer of a tiled block into its tiles.
//!
//! *When*: the block has one consumer, which is elementwise. *What*: one schedule is unchanged; in the other one, the
//! consumer is computed at the innermost loop under which a tile is complete (`reverse_compute_at`). *Why*: the tile is
//! still in registers or in the nearest cache, and the intermediate buffer needs no memory of its own.
//!
//! ```text
//! for j0, i0, k, i1, j1: P[…] += …
//! for i, j: Y[i, j] = max(P[i, j], 0)
//! # becomes
//! for j0, i0:
//!     for k, i1, j1: P[…] += …
//!     for a, b: Y[…] = max(P[…], 0)
//! ```

use super::super::analysis::{is_spatial, live_block};
use super::super::draft::Draft;
use super::Rule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct FuseEpilogue;

impl Rule for FuseEpilogue {
    fn name(&self) -> &'static str {
        "fuse_epilogue"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some(place) = draft.tiled(block).and_then(|t| t.complete_at) else { return Ok(vec![draft]) };
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let func = draft.sch.func(index);
        let scope = func.block_above(id.stmt()).unwrap_or(func.root);
        // Most blocks have no such consumer, and need no copy of the schedule.
        if !Scope::of(func, scope).only_consumer(func, id).is_some_and(|one| is_spatial(func, one)) {
            return Ok(vec![draft]);
        }
        let mut fused = draft.clone();
        let consumer = match fused.sch.get_consumers(block)?[..] {
            [one] if live_block(&fused.sch, one).is_some_and(|(f, b)| is_spatial(fused.sch.func(f), b)) => one,
            _ => return Ok(vec![draft]),
        };
        let offered = fused.sch.reverse_compute_at(consumer, place, false).is_ok();
        Ok([draft].into_iter().chain(offered.then_some(fused)).collect())
    }
}
