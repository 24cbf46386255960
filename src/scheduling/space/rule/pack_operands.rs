//! # `pack_operands`
//!
//! *When*: a tiled block reads an operand as vectors, each element at least 32 times. *What*: one sketch is unchanged,
//! and one has a `cache_read` of the operand, computed at the loop over its panels. *Why*: rows of a panel that are a
//! power of two apart map to few cache sets and many pages; a packed panel is contiguous. This pays off from about 512
//! x 512.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((128, 64)), B: T.Buffer((64, 128)), C: T.Buffer((128, 128))):
//!     for i, j, k in T.grid(128, 128, 64):
//!         with T.sblock("C"):
//!             vi, vj, vk = T.axis.remap("SSR", [i, j, k])
//!             with T.init():
//!                 C[vi, vj] = 0.0
//!             C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//!
//! # becomes (with: register_tiles; candidate: 1)
//!
//! @T.prim_func
//! def after(A: T.Buffer((128, 64)), B: T.Buffer((64, 128)), C: T.Buffer((128, 128))):
//!     B_global = T.sblock_alloc_buffer((64, 128))
//!     for j_0 in range(2):
//!         for ax0, ax1 in T.grid(64, 64):
//!             with T.sblock("B_global"):
//!                 v0 = T.axis.spatial(64, ax0)
//!                 v1 = T.axis.spatial(128, j_0 * 64 + ax1)
//!                 B_global[v0, v1] = B[v0, v1]
//!         for i_0, k, i_1, j_1 in T.grid(32, 64, 4, 64):
//!             with T.sblock("C"):
//!                 vi = T.axis.spatial(128, i_0 * 4 + i_1)
//!                 vj = T.axis.spatial(128, j_0 * 64 + j_1)
//!                 vk = T.axis.reduce(64, k)
//!                 with T.init():
//!                     C[vi, vj] = 0.0
//!                 C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vk, vj]
//! ```
//!
//! # Implementation
//!
//! Packs panels of an operand, so that the innermost loops read contiguous memory.
//!
//! *When*: a tiled block reads an operand as vectors, and each element often. *What*: one schedule is unchanged; in the
//! other one, a `cache_read` of the operand is computed at the loop over its panels. *Why*: rows of a panel that are a
//! power of two apart map to few cache sets and many pages; a packed panel avoids both, and all rows read it from the
//! nearest cache.
//!
//! ```text
//! for j0, k0, i0, k1, i1, j1: C[…] += A[…] * B[k0 * 256 + k1, j0 * 32 + j1]
//! # becomes
//! for j0, k0:
//!     for a, b: B_global[a, b] = B[k0 * 256 + a, j0 * 32 + b]
//!     for i0, k1, i1, j1: C[…] += A[…] * B_global[k1, j1]
//! ```

use super::super::draft::Draft;
use super::Rule;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct PackOperands;

impl Rule for PackOperands {
    fn name(&self) -> &'static str {
        "pack_operands"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some(tiled) = draft.tiled(block) else { return Ok(vec![draft]) };
        let (Some(panel), reads) = (tiled.panel, tiled.packable.clone()) else { return Ok(vec![draft]) };
        let mut packed = draft.clone();
        let done = reads.iter().try_for_each(|&read| {
            let copy = packed.sch.cache_read(block, read as i64, "global")?;
            packed.sch.compute_at(copy, panel, false)
        });
        let offered = done.is_ok() && !reads.is_empty();
        Ok([draft].into_iter().chain(offered.then_some(packed)).collect())
    }
}
