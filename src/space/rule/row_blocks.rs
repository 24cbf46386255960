//! Takes several rows at a time where blocks are computed row by row.
//!
//! *When*: the last block of a chain with a reduction in it that is not tiled, itself without one. *What*: its outermost loop is
//! split by a sampled number of rows, which divides it; `near_consumer` may then place producers at either loop. *Why*: at its
//! end a reduction waits for its last sums; meanwhile the next row's can go on.
//!
//!     for i, k: S[i] += E[i, k]
//!     for i, j: B[i, j] = E[i, j] / S[i]
//!     # becomes, with the sum placed by near_consumer
//!     for i0:
//!         for i1, k: S[i0 * 2 + i1] += E[i0 * 2 + i1, k]
//!         for i1, j: B[i0 * 2 + i1, j] = E[i0 * 2 + i1, j] / S[i0 * 2 + i1]

use super::super::analysis::{const_extent, is_spatial, is_trivial_binding, live_block};
use super::super::draft::Draft;
use super::Rule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

/// The rule.
pub struct RowBlocks {
    /// Which of the most promising decisions to make, 0 being the first.
    pub variant: usize,
}

/// Numbers of rows.
const ROWS: [i64; 4] = [1, 2, 4, 8];
/// The same in order of promise.
const PROMISING: [i64; 6] = [2, 1, 4, 2, 1, 8];

impl Rule for RowBlocks {
    fn name(&self) -> &'static str {
        "row_blocks"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let rows = match rows(&draft, block) {
            Some(rows) if draft.tiled(block).is_none() && rows.len() > 1 => rows,
            _ => return Ok(vec![draft]),
        };
        let wanted = PROMISING[self.variant.min(PROMISING.len() - 1)];
        let choice = rows.iter().rposition(|&r| r <= wanted).unwrap_or_default();
        let mut fork = draft.clone();
        let loops = fork.sch.get_loops(block)?;
        let size = fork.sch.choose_among(&rows, choice)?;
        let done = fork.sch.split(loops[0], vec![Arg::None, size.into()]);
        Ok(vec![if done.is_ok() { fork } else { draft }])
    }
}

/// The numbers of rows to choose from, if the block ends a chain with a reduction.
fn rows(draft: &Draft, block: Rv) -> Option<Vec<i64>> {
    let sch = &draft.sch;
    let (index, id) = live_block(sch, block)?;
    let func = sch.func(index);
    if func.block_above(id.stmt()) != Some(func.root) || !is_spatial(func, id) || !is_trivial_binding(func, id) {
        return None;
    }
    let scope = Scope::of(func, func.root);
    let tiled: Vec<_> = draft.tiled.iter().filter_map(|t| live_block(sch, t.block)).map(|(_, b)| b).collect();
    let reduces = scope.producers(id).iter().any(|&b| !is_spatial(func, b) && !tiled.contains(&b));
    let loops = func.loops_above(id.stmt());
    if !reduces || !scope.consumers(id).is_empty() || loops.len() < 2 {
        return None;
    }
    let extent = const_extent(func, loops[0])?;
    Some(ROWS.into_iter().filter(|r| extent % r == 0).collect())
}
