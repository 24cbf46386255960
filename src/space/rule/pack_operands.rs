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
