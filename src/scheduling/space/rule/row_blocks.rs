//! # `row_blocks`
//!
//! *When*: the last block of a chain that contains an untiled reduction, itself without one. *What*: the innermost
//! loop with a reduction for each iteration is split by a sampled number of rows (1, 2, 4 or 8) that divides it, or of
//! which there are many blocks before a smaller last one; `near_consumer` may then compute producers at either loop. If
//! rows share data that is contiguous along them, the innermost loop is also split by a sampled number of columns (1, 2
//! or 4 vectors, or all), and the rows go inside. *Why*: a reduction ends by waiting for its last sums; meanwhile the
//! next row can proceed. Data that rows share is loaded once for all of them. *Seeds*: 2 rows, 4, 1; if rows share data,
//! 4 rows of one vector, 2, then more vectors.
//!
//! ```python
//! @T.prim_func
//! def before(E: T.Buffer((64, 128)), B: T.Buffer((64, 128))):
//!     S = T.sblock_alloc_buffer(64)
//!     for i, k in T.grid(64, 128):
//!         with T.sblock("S"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 S[vi] = 0.0
//!             S[vi] = S[vi] + E[vi, vk]
//!     for i, j in T.grid(64, 128):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = E[vi, vj] / S[vi]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(E: T.Buffer((64, 128)), B: T.Buffer((64, 128))):
//!     S = T.sblock_alloc_buffer(64)
//!     for i, k in T.grid(64, 128):
//!         with T.sblock("S"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 S[vi] = 0.0
//!             S[vi] = S[vi] + E[vi, vk]
//!     for i_0, i_1, j in T.grid(32, 2, 128):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(64, i_0 * 2 + i_1)
//!             vj = T.axis.spatial(128, j)
//!             B[vi, vj] = E[vi, vj] / S[vi]
//! ```
//!
//! # Implementation
//!
//! Blocks the rows of a computation that works row by row.
//!
//! *When*: the last block of a chain that contains an untiled reduction, itself without one. *What*: the innermost
//! loop with a reduction for each iteration is split by a sampled number of rows; `near_consumer` may then compute
//! producers at either loop.
//! If rows share data that is contiguous along them, the innermost loop is also split, by a sampled number of columns,
//! and the rows go inside. *Why*: a reduction ends by waiting for its last sums; meanwhile the next row can proceed.
//! Data that rows share is loaded once for all of them.
//!
//! ```text
//! for i, k: S[i] += E[i, k]
//! for i, j: B[i, j] = E[i, j] / S[i]
//! # becomes, with the sum placed by near_consumer
//! for i0:
//!     for i1, k: S[i0 * 2 + i1] += E[i0 * 2 + i1, k]
//!     for i1, j: B[i0 * 2 + i1, j] = E[i0 * 2 + i1, j] / S[i0 * 2 + i1]
//!
//! for i, j: B[i, j] = E[i, j] / S[i] * G[j]
//! # becomes
//! for i0, j0, i1, j1: B[i0 * 2 + i1, j0 * 16 + j1] = E[…] / S[i0 * 2 + i1] * G[j0 * 16 + j1]
//! ```

use super::super::access::Access;
use super::super::analysis::{const_extent, is_spatial, is_trivial_binding, live_block};
use super::super::draft::Draft;
use super::super::tile_sizes::largest;
use super::Rule;
use crate::ir::{BlockId, BufferId, BufferRegion, Func};
use crate::machine::Core;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct RowBlocks {
    /// The machine in whose vectors columns are counted.
    pub machine: Core,
    /// Rank of the decisions to make, 0 being the most promising.
    pub variant: usize,
}

/// Candidate numbers of rows.
const ROWS: [i64; 4] = [1, 2, 4, 8];
/// Minimum number of blocks for which the last one may have fewer rows: its code is another one.
const MANY: i64 = 16;
/// Numbers of rows, most promising first.
const PROMISING: [i64; 6] = [2, 4, 1, 8, 2, 1];
/// Candidate widths in vectors, besides all columns.
const VECTORS: [i64; 3] = [1, 2, 4];
/// Numbers of rows that share data, and of vectors, most promising first.
const SHARING: [(i64, i64); 6] = [(4, 1), (2, 1), (4, 2), (2, 4), (8, 1), (1, 4)];

impl Rule for RowBlocks {
    fn name(&self) -> &'static str {
        "row_blocks"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let blocks = match self.blocks(&draft, block) {
            Some(blocks) if draft.tiled(block).is_none() && blocks.rows.len() > 1 => blocks,
            _ => return Ok(vec![draft]),
        };
        let mut fork = draft.clone();
        let done = self.split(&mut fork, block, &blocks);
        Ok(vec![if done.is_ok() { fork } else { draft }])
    }
}

/// The candidate block sizes.
struct Blocks {
    /// The position of the loop over rows.
    at: usize,
    /// Candidate numbers of rows.
    rows: Vec<i64>,
    /// Candidate numbers of columns, if rows share data.
    columns: Vec<i64>,
}

impl RowBlocks {
    fn split(&self, draft: &mut Draft, block: Rv, blocks: &Blocks) -> Result<(), ScheduleError> {
        let sch = &mut draft.sch;
        let shares = blocks.columns.len() > 1;
        let (rows, vectors) = match SHARING[self.variant.min(SHARING.len() - 1)] {
            sharing if shares => sharing,
            _ => (PROMISING[self.variant.min(PROMISING.len() - 1)], 0),
        };
        let loops = sch.get_loops(block)?;
        let size = sch.choose_among(&blocks.rows, largest(&blocks.rows, rows))?;
        let row = sch.split(loops[blocks.at], vec![Arg::None, size.into()])?;
        if !shares {
            return Ok(());
        }
        let wanted = vectors * blocks.columns[0];
        let size = sch.choose_among(&blocks.columns, largest(&blocks.columns, wanted))?;
        let column = sch.split(loops[loops.len() - 1], vec![Arg::None, size.into()])?;
        let between = &loops[blocks.at + 1..loops.len() - 1];
        sch.reorder(&[&[row[0]], between, &[column[0], row[1], column[1]]].concat())
    }

    /// The candidate block sizes, if the block ends a chain with a reduction.
    fn blocks(&self, draft: &Draft, block: Rv) -> Option<Blocks> {
        let sch = &draft.sch;
        let (index, id) = live_block(sch, block)?;
        let func = sch.func(index);
        if func.block_above(id.stmt()) != Some(func.root) || !is_spatial(func, id) || !is_trivial_binding(func, id) {
            return None;
        }
        let scope = Scope::of(func, func.root);
        let loops = func.loops_above(id.stmt());
        if loops.len() < 2 || scope.has_consumer(func, id) {
            return None;
        }
        let tiled: Vec<_> = draft.tiled.iter().filter_map(|t| live_block(sch, t.block)).map(|(_, b)| b).collect();
        let is_reduced = |b: &BlockId| !is_spatial(func, *b) && !tiled.contains(b);
        let reduced: Vec<BlockId> = scope.producers(func, id).into_iter().filter(is_reduced).collect();
        if reduced.is_empty() {
            return None;
        }
        let at = loop_over_rows(func, id, &reduced, loops.len());
        let extent = const_extent(func, loops[at])?;
        let rows = ROWS.into_iter().filter(|r| extent % r == 0 || extent / r >= MANY).collect();
        let columns = match const_extent(func, loops[loops.len() - 1]) {
            Some(all) if rows_share(func, id, at) => {
                let write = func.block(id).writes.first()?;
                let lanes = self.machine.lanes(func.arena.buffer(write.buffer).dtype);
                let sizes = VECTORS.iter().map(|v| v * lanes).filter(|&size| size < all && all % size == 0);
                sizes.chain([all]).collect()
            }
            _ => Vec::new(),
        };
        Some(Blocks { at, rows, columns })
    }
}

/// The accesses of a block, by its iteration variables, each of which is a loop.
fn reads(func: &Func, id: BlockId) -> Vec<(BufferId, Access)> {
    let access = |region: &BufferRegion| Some((region.buffer, Access::of_block(func, id, region)?));
    func.block(id).reads.iter().filter_map(access).collect()
}

/// The position of the innermost loop, before the last of `n`, along which the block reads other results of reductions,
/// each for its whole innermost loop; the outermost loop if there is none.
fn loop_over_rows(func: &Func, id: BlockId, reduced: &[BlockId], n: usize) -> usize {
    let is_result = |buffer: BufferId| reduced.iter().any(|&b| func.block(b).writes.iter().any(|w| w.buffer == buffer));
    let loops = func.loops_above(id.stmt());
    let reads = reads(func, id);
    let is_row = |&at: &usize| {
        let changes = |a: &Access| a.strides.get(at).is_some_and(|&s| s != 0) && a.strides.last() == Some(&0);
        const_extent(func, loops[at]) != Some(1) && reads.iter().any(|(buffer, a)| is_result(*buffer) && changes(a))
    };
    (0..n - 1).rev().find(is_row).unwrap_or(0)
}

/// Whether the block reads data contiguously along its innermost loop that all iterations of the loop over rows share.
fn rows_share(func: &Func, id: BlockId, rows: usize) -> bool {
    reads(func, id).iter().any(|(_, a)| a.strides.get(rows) == Some(&0) && a.strides.last() == Some(&1))
}
