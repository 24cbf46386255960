//! # `row_tiles`
//!
//! *When*: a block without reduction, in a program without reductions, that no other rule has tiled, and whose loops are
//! its iteration variables, at least two of them with more than one iteration; or a reduction of a single operand along
//! its innermost loops that is the only block. *What*: a loop over rows, and the innermost one, are split by sampled sizes
//! (1 to 8 rows; 1 to 16 vectors, or all columns), and the tile goes innermost with its rows unrolled (`unroll`). If the
//! block is the only one, one sketch is unchanged, and there is one for each of the two innermost loops that may be the
//! rows. Of a reduction, rows are split and unrolled. *Why*: rows of a tile share what they read, and what their indices
//! have in common; while one waits for its indices, the processor works on the others. *Seeds*: 1 row of all columns, 4
//! rows of 2 vectors, 8 of all, 1 of 2, 4 of all, 8 of 4.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((64, 768)), B: T.Buffer((768,)), C: T.Buffer((64, 768))):
//!     for i, j in T.grid(64, 768):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             C[vi, vj] = A[vi, vj] + B[vj]
//!
//! # becomes (candidate: 2)
//!
//! @T.prim_func
//! def after(A: T.Buffer((64, 768)), B: T.Buffer((768,)), C: T.Buffer((64, 768))):
//!     for i_0, j_0 in T.grid(16, 24):
//!         for i_1 in T.unroll(4):
//!             for j_1 in range(32):
//!                 with T.sblock("C"):
//!                     vi = T.axis.spatial(64, i_0 * 4 + i_1)
//!                     vj = T.axis.spatial(768, j_0 * 32 + j_1)
//!                     C[vi, vj] = A[vi, vj] + B[vj]
//! ```
//!
//! # Implementation
//!
//! Tiles of rows and columns for blocks in which each element is computed from a few others.
//!
//! *When*: see above. A block for which there is nothing to choose gets a reason, which `tvmr space` prints. *What*:
//!
//! ```text
//! for i, j: C[i, j] = A[i, j] + B[j]
//! # becomes
//! for i0, j0: for i1 in unroll(4): for j1 in 32: C[…] = A[…] + B[j0 * 32 + j1]
//!
//! for i, k: S[i] += A[i, k]
//! # becomes
//! for i0: for i1 in unroll(4): for k: S[i0 * 4 + i1] += A[i0 * 4 + i1, k]
//! ```
//!
//! *Why*: see above. Elements side by side along the only loop get no tiles: of over 100 such operators, none was faster
//! with tiles by more than the noise.

use super::super::access::Access;
use super::super::analysis::{const_extent, has_single_child, is_spatial, is_trivial_binding, live_block};
use super::super::draft::Draft;
use super::super::reason::Reason;
use super::super::tile_sizes::largest;
use super::Rule;
use crate::ir::{BlockId, Func, IterKind, LoopKind};
use crate::machine::Core;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct RowTiles {
    /// The machine in whose vectors columns are counted.
    pub machine: Core,
    /// Rank of the decisions to make, 0 being the most promising.
    pub variant: usize,
}

/// Candidate numbers of rows.
const ROWS: [i64; 4] = [1, 2, 4, 8];
/// Candidate widths in vectors, besides all columns.
const VECTORS: [i64; 5] = [1, 2, 4, 8, 16];
/// All columns.
const ALL: i64 = i64::MAX;
/// Numbers of rows, and widths in vectors, most promising first.
const PROMISING: [(i64, i64); 6] = [(1, ALL), (4, 2), (8, ALL), (1, 2), (4, ALL), (8, 4)];
/// Number of loops, from the innermost but one, that may be the rows.
const ROW_LOOPS: usize = 2;

impl Rule for RowTiles {
    fn name(&self) -> &'static str {
        "row_tiles"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, mut draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let func = draft.sch.func(index);
        if func.root == id {
            return Ok(vec![draft]);
        }
        let tilings = match draft.tiled(block) {
            Some(_) => Err(Reason::Rules),
            None => self.tilings(func, id),
        };
        let tilings = match tilings {
            Ok(tilings) => tilings,
            Err(reason) => {
                draft.note_reason(block, reason);
                return Ok(vec![draft]);
            }
        };
        let is_alone = blocks(func).count() == 1;
        let mut found = Vec::new();
        for tiling in if is_alone { &tilings[..] } else { &tilings[..1] } {
            let mut tiled = draft.clone();
            // What a primitive refuses stays as it is.
            if self.carry_out(&mut tiled.sch, block, tiling).is_ok() {
                found.push(tiled);
            }
        }
        if is_alone || found.is_empty() {
            if found.is_empty() {
                draft.note_reason(block, Reason::Loops);
            }
            found.insert(0, draft);
        }
        Ok(found)
    }
}

/// A loop with more than one iteration.
struct Long {
    /// Its position, which is that of its iteration variable.
    at: usize,
    kind: IterKind,
    extent: i64,
}

/// Loops to split, by their positions, with candidate sizes.
struct Tiling {
    rows: (usize, Vec<i64>),
    /// The innermost loop, unless it is a reduction.
    columns: Option<(usize, Vec<i64>)>,
    /// Number of elements of a vector.
    lanes: i64,
}

impl RowTiles {
    /// Ways to tile a block, most promising first; at least one.
    fn tilings(&self, func: &Func, id: BlockId) -> Result<Vec<Tiling>, Reason> {
        if func.block_above(id.stmt()) != Some(func.root) {
            return Err(Reason::Chain);
        }
        if !is_trivial_binding(func, id) {
            return Err(Reason::Bindings);
        }
        let node = func.block(id);
        let mut long = Vec::new();
        for (at, (l, iter)) in func.loops_above(id.stmt()).into_iter().zip(&node.iters).enumerate() {
            let node = func.loop_(l);
            let extent = const_extent(func, l).ok_or(Reason::Loops)?;
            if !matches!(node.kind, LoopKind::Serial) || !node.annotations.is_empty() || !has_single_child(func, l) {
                return Err(Reason::Loops);
            }
            if extent != 1 {
                long.push(Long { at, kind: iter.kind, extent });
            }
        }
        if blocks(func).count() > 1 && blocks(func).any(|b| !is_spatial(func, b)) {
            return Err(Reason::Chain);
        }
        let lanes = node.writes.first().map_or(1, |w| self.machine.lanes(func.arena.buffer(w.buffer).dtype));
        let rows = |l: &Long| (l.at, ROWS.into_iter().filter(|&r| r <= l.extent).collect::<Vec<i64>>());
        let n_spatial = long.iter().take_while(|l| l.kind == IterKind::Spatial).count();
        match long.split_at(n_spatial) {
            (_, rest) if rest.iter().any(|l| matches!(l.kind, IterKind::Scan | IterKind::Opaque)) => {
                Err(Reason::Ordered)
            }
            (_, rest) if rest.iter().any(|l| l.kind == IterKind::Spatial) => Err(Reason::ReducesOutside),
            ([], []) => Err(Reason::Single),
            ([], _) => Err(Reason::OneResult),
            (spatial, [_, ..]) if !reads_once(func, id, spatial) => Err(Reason::Rules),
            ([.., row], [_, ..]) => Ok(vec![Tiling { rows: rows(row), columns: None, lanes }]),
            ([only], []) => Err(if is_contiguous(func, id, only.at) { Reason::Contiguous } else { Reason::OneLoop }),
            ([outer @ .., inner], []) => {
                let widths = VECTORS.iter().map(|v| v * lanes).filter(|&w| w < inner.extent);
                let columns = (inner.at, widths.chain([inner.extent]).collect::<Vec<i64>>());
                let tiling = |l: &Long| Tiling { rows: rows(l), columns: Some(columns.clone()), lanes };
                Ok(outer.iter().rev().take(ROW_LOOPS).map(tiling).collect())
            }
        }
    }

    fn carry_out(&self, sch: &mut Schedule, block: Rv, tiling: &Tiling) -> Result<(), ScheduleError> {
        let (rows, vectors) = PROMISING[self.variant.min(PROMISING.len() - 1)];
        let loops = sch.get_loops(block)?;
        let (at, sizes) = &tiling.rows;
        let size = sch.choose_among(sizes, largest(sizes, rows))?;
        let row = sch.split(loops[*at], vec![Arg::None, size.into()])?;
        if let Some((columns, widths)) = &tiling.columns {
            let mut outer: Vec<Rv> = (0..*columns).filter(|other| other != at).map(|other| loops[other]).collect();
            let mut inner = vec![row[1]];
            outer.push(row[0]);
            if let [_] = widths[..] {
                inner.push(loops[*columns]);
            } else {
                let width = sch.choose_among(widths, largest(widths, vectors.saturating_mul(tiling.lanes)))?;
                let column = sch.split(loops[*columns], vec![Arg::None, width.into()])?;
                outer.push(column[0]);
                inner.push(column[1]);
            }
            inner.extend(&loops[columns + 1..]);
            sch.reorder(&[outer, inner].concat())?;
        }
        sch.unroll(row[1])
    }
}

/// The blocks but the root.
fn blocks(func: &Func) -> impl Iterator<Item = BlockId> + '_ {
    func.blocks().into_iter().filter(|&b| b != func.root)
}

/// Whether a reduction reads a single operand, other elements in each iteration of the given loops.
fn reads_once(func: &Func, id: BlockId, loops: &[Long]) -> bool {
    let [read] = &func.block(id).reads[..] else { return false };
    let access = Access::of_block(func, id, read);
    func.block(id).writes.len() == 1 && access.is_some_and(|a| loops.iter().all(|l| a.strides[l.at] != 0))
}

/// Whether each access of the block advances by one element, or none, with the iteration variable at a position.
fn is_contiguous(func: &Func, id: BlockId, at: usize) -> bool {
    let node = func.block(id);
    let advances = |region| Access::of_block(func, id, region).is_some_and(|a| matches!(a.strides[at], 0 | 1));
    node.reads.iter().chain(&node.writes).all(advances)
}
