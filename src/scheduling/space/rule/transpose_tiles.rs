//! # `transpose_tiles`
//!
//! *When*: a block without reduction whose result is contiguous along one loop, and one of its reads along another.
//! *What*: both loops are split by sampled edges (16 to 256), and the tile goes innermost. *Why*: each cache line is
//! used completely, and the code generator transposes tiles in registers.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((128, 256)), B: T.Buffer((256, 128))):
//!     for i, j in T.grid(128, 256):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vj, vi] = A[vi, vj]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer((128, 256)), B: T.Buffer((256, 128))):
//!     for i_0, j_0, j_1, i_1 in T.grid(2, 16, 16, 64):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(128, i_0 * 64 + i_1)
//!             vj = T.axis.spatial(256, j_0 * 16 + j_1)
//!             B[vj, vi] = A[vi, vj]
//! ```
//!
//! # Implementation
//!
//! Tiles copies that read contiguously along one loop and write contiguously along another.
//!
//! *When*: a block without reduction that reads contiguously along a loop other than the one along which its result is
//! contiguous. *What*: both loops are split by sampled tile sizes, and the tile goes innermost. *Why*: a tile uses each
//! cache line that it touches completely, and the code generator transposes tiles in registers.
//!
//! ```text
//! for i, j: B[j, i] = A[i, j]
//! # becomes
//! for i0, j0, j1, i1: B[j0 * 16 + j1, i0 * 64 + i1] = A[i0 * 64 + i1, j0 * 16 + j1]
//! ```

use super::super::access::Access;
use super::super::analysis::{const_extent, is_spatial, is_trivial_binding, live_block};
use super::super::draft::{Draft, Tiled};
use super::Rule;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct TransposeTiles {
    /// Rank of the decisions to make, 0 being the most promising.
    pub variant: usize,
}

/// Candidate edges of tiles, in elements.
const EDGES: [i64; 5] = [16, 32, 64, 128, 256];
/// Positions in `EDGES` for the loop that reads are contiguous along and for the one that writes are; most promising
/// first.
const PROMISING: [[usize; 2]; 6] = [[0, 2], [0, 1], [1, 1], [0, 0], [1, 2], [0, 3]];

impl Rule for TransposeTiles {
    fn name(&self) -> &'static str {
        "transpose_tiles"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some([read, written]) = crossed(&draft.sch, block) else { return Ok(vec![draft]) };
        let mut fork = draft.clone();
        match self.tile(&mut fork.sch, block, read, written) {
            Ok(()) => {
                fork.tiled.push(Tiled::new(block));
                Ok(vec![fork])
            }
            Err(_) => Ok(vec![draft]),
        }
    }
}

impl TransposeTiles {
    fn tile(&self, sch: &mut Schedule, block: Rv, read: usize, written: usize) -> Result<(), ScheduleError> {
        let loops = sch.get_loops(block)?;
        let choice = PROMISING[self.variant.min(PROMISING.len() - 1)];
        let (mut outer, mut inner) = (loops.clone(), Vec::new());
        for (axis, choice) in [(read, choice[0]), (written, choice[1])] {
            let size = sch.choose_among(&EDGES, choice)?;
            let parts = sch.split(loops[axis], vec![Arg::None, size.into()])?;
            outer[axis] = parts[0];
            inner.push(parts[1]);
        }
        sch.reorder(&[outer, inner].concat())
    }
}

/// The loops along which a read and the result of the block are contiguous, if they differ.
fn crossed(sch: &Schedule, block: Rv) -> Option<[usize; 2]> {
    let (index, id) = live_block(sch, block)?;
    let func = sch.func(index);
    let node = func.block(id);
    let [write] = &node.writes[..] else { return None };
    if func.root == id || !is_spatial(func, id) || !is_trivial_binding(func, id) {
        return None;
    }
    let vars: Vec<_> = node.iters.iter().map(|i| i.var).collect();
    let long = |a: &usize| func.loops_above(id.stmt()).get(*a).and_then(|&l| const_extent(func, l)) > Some(EDGES[0]);
    let contiguous = |access: &Access| access.strides.iter().position(|&s| s == 1).filter(long);
    let written = contiguous(&Access::of(func, write, &vars)?)?;
    node.reads.iter().rev().find_map(|region| {
        let access = Access::of(func, region, &vars)?;
        let read = contiguous(&access)?;
        (read != written && access.strides[written] != 0).then_some([read, written])
    })
}
