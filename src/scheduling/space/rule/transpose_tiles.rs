//! # `transpose_tiles`
//!
//! *When*: a block without reduction whose result is contiguous along one loop, and one of its reads along another.
//! *What*: both loops are split by sampled edges (16 to 256), and the tile goes innermost; a short loop, such as over the
//! colours of an image, goes around rows of the result, of which long ones are split. *Why*: each cache line is used
//! completely, and the code generator transposes tiles in registers.
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
//!
//! for c in 3: for i, j: B[c, i, j] = A[i, j, c]
//! # becomes
//! for i: for c in 3: for j: B[c, i, j] = A[i, j, c]
//! ```

use super::super::access::Access;
use super::super::analysis::{const_extent, is_spatial, is_trivial_binding, live_block};
use super::super::draft::{Draft, Tiled};
use super::super::reason::Reason;
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
/// Candidate parts of rows of results that alternate, in elements, most promising first.
const ROWS: [i64; 3] = [512, 1024, 256];
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
        let Some(Crossed { read, written, row }) = crossed(&draft.sch, block) else { return Ok(vec![draft]) };
        let mut fork = draft.clone();
        let tiled = match row {
            None => self.tile(&mut fork.sch, block, read, written),
            Some(row) => self.interleave(&mut fork.sch, block, [read, written], row),
        };
        match tiled {
            Ok(()) => {
                fork.tiled.push(Tiled::new(block));
                // Long rows are split by a sampled size, of which `generate` knows.
                fork.note_reason(block, Reason::Order);
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

    /// Moves a short loop along which a read is contiguous around rows of the result, of `row` elements.
    fn interleave(
        &self,
        sch: &mut Schedule,
        block: Rv,
        [read, written]: [usize; 2],
        row: i64,
    ) -> Result<(), ScheduleError> {
        let mut loops = sch.get_loops(block)?;
        let (short, mut inner) = (loops[read], loops[written]);
        if row > ROWS[0] {
            let size = sch.choose_among(&ROWS, self.variant % ROWS.len())?;
            let parts = sch.split(inner, vec![Arg::None, size.into()])?;
            (loops[written], inner) = (parts[0], parts[1]);
        }
        let outer = loops.into_iter().filter(|&l| l != short && l != inner);
        sch.reorder(&outer.chain([short, inner]).collect::<Vec<Rv>>())
    }
}

/// Loops along which a read and the result of the block are contiguous.
struct Crossed {
    read: usize,
    written: usize,
    /// Elements of a row of the result, if the loop of the read is too short for tiles.
    row: Option<i64>,
}

/// The loops along which a read and the result of the block are contiguous, if they differ.
fn crossed(sch: &Schedule, block: Rv) -> Option<Crossed> {
    let (index, id) = live_block(sch, block)?;
    let func = sch.func(index);
    let node = func.block(id);
    let [write] = &node.writes[..] else { return None };
    if func.root == id || !is_spatial(func, id) || !is_trivial_binding(func, id) {
        return None;
    }
    let vars: Vec<_> = node.iters.iter().map(|i| i.var).collect();
    let loops = func.loops_above(id.stmt());
    let extent = |a: usize| loops.get(a).and_then(|&l| const_extent(func, l)).unwrap_or_default();
    let contiguous = |access: &Access| access.strides.iter().position(|&s| s == 1);
    let written = contiguous(&Access::of(func, write, &vars)?).filter(|&a| extent(a) > EDGES[0])?;
    let reads = || node.reads.iter().rev().filter_map(|region| Access::of(func, region, &vars));
    let crossing = |access: Access| contiguous(&access).filter(|&read| read != written && access.strides[written] != 0);
    if let Some(read) = reads().filter_map(crossing).find(|&read| extent(read) > EDGES[0]) {
        return Some(Crossed { read, written, row: None });
    }
    // Whole rows of the read are near when they are read again.
    let is_apart = |&read: &usize| {
        let between = (read + 1..loops.len()).filter(|&a| a != written).any(|a| extent(a) > 1);
        extent(read) > 1 && read < written && (between || extent(written) > ROWS[0])
    };
    let read = reads().filter_map(crossing).find(is_apart)?;
    Some(Crossed { read, written, row: Some(extent(written)) })
}
