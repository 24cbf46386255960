//! # `dot_tiles`
//!
//! *When*: a reduction that `register_tiles` does not tile, whose operands are contiguous along the reduction, and one
//! of which does not move with the rows. *What*: one sketch is unchanged, and one has partial sums in vectors
//! (`rfactor`) for a sampled number of rows, and of columns if there is an axis that the rows' own data does not move
//! with (a product with a small batch). *Why*: data that rows or columns share is loaded once, and their sums do not
//! wait for each other. *Seeds*: 4 rows of 4 or 2 vectors and similar, then pairs with 8 to 16 simultaneous sums; those
//! first if hardly any width divides the reduction; with columns, the tiles with the fewest estimated cycles.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((64, 256)), x: T.Buffer(256), y: T.Buffer(64)):
//!     for i, k in T.grid(64, 256):
//!         with T.sblock("y"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 y[vi] = 0.0
//!             y[vi] = y[vi] + A[vi, vk] * x[vk]
//!
//! # becomes (candidate: 1)
//!
//! @T.prim_func
//! def after(A: T.Buffer((64, 256)), x: T.Buffer((256,)), y: T.Buffer((64,))):
//!     y_rf = T.sblock_alloc_buffer((64, 64))
//!     for i_0 in range(16):
//!         for ax2, ax1, ax0 in T.grid(4, 4, 64):
//!             with T.sblock("y_rf"):
//!                 vk_1 = T.axis.spatial(64, ax0)
//!                 vi = T.axis.spatial(64, i_0 * 4 + ax1)
//!                 vk_0 = T.axis.reduce(4, ax2)
//!                 with T.init():
//!                     y_rf[vi, vk_1] = 0.0
//!                 y_rf[vi, vk_1] = y_rf[vi, vk_1] + A[vi, vk_0 * 64 + vk_1] * x[vk_0 * 64 + vk_1]
//!         for i_1, k_1 in T.grid(4, 64):
//!             with T.sblock("y"):
//!                 vk_1 = T.axis.reduce(64, k_1)
//!                 vi = T.axis.spatial(64, i_0 * 4 + i_1)
//!                 with T.init():
//!                     y[vi] = 0.0
//!                 y[vi] = y[vi] + y_rf[vi, vk_1]
//! ```
//!
//! # Implementation
//!
//! Reduces several rows at once, each in vectors of partial sums.
//!
//! *When*: a reduction that `register_tiles` does not tile because its operands are contiguous along the reduction, and
//! one of whose operands serves several results. *What*: one schedule is unchanged; in the other one, the last loop of
//! results is split by a sampled number of rows, and the reduction is vectorised: `rfactor` makes the partial sums a
//! block of their own, which is placed under the loop over tiles. If the data of the rows serves another axis as well,
//! the columns, that is split too, and its tiles follow inside: all of them use the rows while those are near. *Why*:
//! data that rows share is loaded once for all of them, and their sums do not wait for each other.
//!
//! ```text
//! for i, k: y[i] += A[i, k] * x[k]
//! # becomes, with 4 rows of 32 partial results
//! for i0:
//!     for k0, i1, k1: y_rf[i0 * 4 + i1, k1] += A[i0 * 4 + i1, k0 * 32 + k1] * x[k0 * 32 + k1]
//!     for i1, k1: y[i0 * 4 + i1] += y_rf[i0 * 4 + i1, k1]
//! ```

use super::super::analysis::live_block;
use super::super::contraction::Contraction;
use super::super::draft::{Draft, Tiled};
use super::Rule;
use crate::ir::IterKind;
use crate::machine::Core;
use crate::schedule::arg::{Arg, Lambda, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct DotTiles {
    /// The machine whose vectors hold the partial sums.
    pub machine: Core,
    /// Rank of the decisions to make, 0 being the most promising.
    pub variant: usize,
}

/// Candidate numbers of rows.
const ROWS: [i64; 5] = [1, 2, 4, 8, 16];
/// Candidate numbers of rows, and of columns, of tiles that have both.
const SIDES: [i64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];
/// Estimated cycles to add up the lanes of one sum: alone, and together with as many others as a vector has lanes.
const ACROSS_LANES: [f64; 2] = [14.0, 3.0];
/// Slowdown of a tile that spills.
const SPILL: f64 = 3.0;
/// Maximum number of vectors of partial sums per row.
const MOST_VECTORS: i64 = 8;
/// Position in `ROWS` and number of vectors, most promising first.
const PROMISING: [(usize, i64); 6] = [(2, 4), (2, 2), (3, 2), (1, 4), (3, 1), (4, 1)];
/// At most this many widths count as few.
const FEW_WIDTHS: usize = 2;
/// Numbers of simultaneous sums that are promising otherwise: enough to hide the latency of an addition, and few enough
/// for the registers.
const SUMS: std::ops::RangeInclusive<i64> = 8..=16;

impl Rule for DotTiles {
    fn name(&self) -> &'static str {
        "dot_tiles"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        if draft.tiled(block).is_some() {
            return Ok(vec![draft]);
        }
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let contraction = Contraction::of(draft.sch.func(index), id);
        let Some((contraction, axes)) = contraction.and_then(|c| axes(&c).map(|a| (c, a))) else {
            return Ok(vec![draft]);
        };
        let lanes = self.machine.lanes(contraction.dtype);
        let long = contraction.axes[axes.k].extent;
        let widths: Vec<i64> = (1..=MOST_VECTORS).map(|n| n * lanes).filter(|w| long % w == 0).collect();
        let mut tiled = draft.clone();
        let offered = !widths.is_empty() && self.tile(&mut tiled, block, &contraction, axes, &widths).is_ok();
        let unchanged = (!offered || !draft.reads_rows_of_windows(block)).then_some(draft);
        Ok(unchanged.into_iter().chain(offered.then_some(tiled)).collect())
    }
}

/// The axes that are tiled.
#[derive(Clone, Copy)]
struct Axes {
    /// The axis of rows.
    row: usize,
    /// The axis of columns: the data of the rows does not move with it.
    column: Option<usize>,
    /// The reduction axis along which operands are contiguous.
    k: usize,
}

fn axes(c: &Contraction) -> Option<Axes> {
    let k = c.of_kind(IterKind::Reduce).filter(|&k| c.axes[k].extent > 1).find(|&k| {
        c.inputs.iter().all(|i| matches!(i.access.strides[k], 0 | 1))
            && c.inputs.iter().any(|i| i.access.strides[k] == 1)
    })?;
    let row = c.of_kind(IterKind::Spatial).filter(|&a| c.axes[a].extent > 1).last()?;
    let is_shared = c.inputs.iter().any(|i| i.access.strides[row] == 0 && i.access.strides[k] == 1);
    let serves = |&a: &usize| c.inputs.iter().all(|i| i.access.strides[row] == 0 || i.access.strides[a] == 0);
    let column = c.of_kind(IterKind::Spatial).filter(|&a| a != row && c.axes[a].extent > 1).filter(serves).last();
    is_shared.then_some(Axes { row, column, k })
}

/// The candidates of [`SIDES`] for an axis.
fn sides(extent: i64) -> Vec<i64> {
    SIDES.into_iter().filter(|&n| n <= extent).collect()
}

/// The extents that tiles with rows and columns are cut from.
struct TileArea {
    rows: i64,
    columns: i64,
    /// Vectors of the reduction.
    vectors: i64,
    /// Lanes of a vector.
    lanes: i64,
}

impl TileArea {
    /// Estimated cycles of all tiles of `rows` by `columns` that take `width` vectors at a time, if data is near.
    fn cycles(&self, machine: &Core, rows: i64, columns: i64, width: i64) -> f64 {
        let parts = |extent: i64, size: i64| [(extent / size, size), (i64::from(extent % size > 0), extent % size)];
        let mut cycles = 0.0;
        for (n_rows, rows) in parts(self.rows, rows) {
            for (n_columns, columns) in parts(self.columns, columns) {
                let (sums, loads) = ((rows * columns * width) as f64, ((rows + columns) * width) as f64);
                let fits = sums + (rows.min(columns) * width) as f64 + 1.0 <= machine.vectors.registers as f64;
                let step = (sums.max(loads) / Core::VECTOR_PORTS).max(Core::LATENCY) * if fits { 1.0 } else { SPILL };
                let across_lanes = ACROSS_LANES[usize::from(rows % self.lanes == 0)];
                let tile = step * (self.vectors / width) as f64 + (rows * columns) as f64 * across_lanes;
                cycles += (n_rows * n_columns) as f64 * tile;
            }
        }
        cycles
    }

    /// Positions of the numbers of rows, of columns and of the widths, most promising first.
    fn ranked(&self, machine: &Core, widths: &[i64]) -> Vec<(usize, usize, usize)> {
        let mut all = Vec::new();
        for (r, &rows) in sides(self.rows).iter().enumerate() {
            for (c, &columns) in sides(self.columns).iter().enumerate() {
                all.extend(widths.iter().enumerate().map(|(w, &n)| (self.cycles(machine, rows, columns, n), r, c, w)));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().map(|(_, r, c, w)| (r, c, w)).collect()
    }
}

/// Positions of row numbers and of widths, most promising first.
fn ranked(widths: &[i64], lanes: i64) -> Vec<(usize, usize)> {
    let exact = |&(rows, vectors): &(usize, i64)| Some((rows, widths.iter().position(|&w| w == vectors * lanes)?));
    let mut ranked: Vec<(usize, usize)> = PROMISING.iter().filter_map(exact).collect();
    // Few rows mean few streams from memory.
    for (rows, &n) in ROWS.iter().enumerate() {
        for (width, &w) in widths.iter().enumerate().rev() {
            if SUMS.contains(&(n * w / lanes)) && !ranked.contains(&(rows, width)) {
                ranked.push((rows, width));
            }
        }
    }
    if widths.len() <= FEW_WIDTHS {
        // If hardly any width divides the reduction, the usual order says nothing about the remaining pairs.
        ranked.sort_by_key(|&(rows, _)| rows);
    }
    ranked
}

/// Positions of indices of the result that two axes share, such as groups and their rows, and the extents of the inner axes.
fn groups(c: &Contraction) -> Vec<(usize, i64)> {
    let axes: Vec<_> =
        c.of_kind(IterKind::Spatial).filter_map(|a| Some((c.output.dims[a]?, c.axes[a].extent))).collect();
    let shared = axes.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    shared.map(|pair| pair[1]).collect()
}

impl DotTiles {
    /// The positions of this variant.
    fn chosen(&self, ranked: Vec<(usize, usize, usize)>) -> (usize, usize, usize) {
        ranked.get(self.variant.min(ranked.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn tile(
        &self,
        draft: &mut Draft,
        block: Rv,
        c: &Contraction,
        axes: Axes,
        widths: &[i64],
    ) -> Result<(), ScheduleError> {
        let sch = &mut draft.sch;
        let loops = sch.get_loops(block)?;
        let lanes = self.machine.lanes(c.dtype);
        let (rows, columns, width) = match axes.column {
            None => self.chosen(ranked(widths, lanes).into_iter().map(|(rows, width)| (rows, 0, width)).collect()),
            Some(column) => {
                let [rows, columns, long] = [axes.row, column, axes.k].map(|a| c.axes[a].extent);
                let in_vectors: Vec<i64> = widths.iter().map(|w| w / lanes).collect();
                let area = TileArea { rows, columns, vectors: long / lanes, lanes };
                self.chosen(area.ranked(&self.machine, &in_vectors))
            }
        };
        let of_rows = axes.column.map_or(ROWS.to_vec(), |_| sides(c.axes[axes.row].extent));
        let rows = sch.choose_among(&of_rows, rows)?;
        let row = sch.split(loops[axes.row], vec![Arg::None, rows.into()])?;
        let mut tiles = row[0];
        if let Some(column) = axes.column {
            let columns = sch.choose_among(&sides(c.axes[column].extent), columns)?;
            let column = sch.split(loops[column], vec![Arg::None, columns.into()])?;
            sch.reorder(&[row[0], column[0], column[1], row[1]])?;
            tiles = column[0];
        }
        let width = sch.choose_among(widths, width)?;
        let k = sch.split(loops[axes.k], vec![Arg::None, width.into()])?;
        let partial = sch.rfactor(k[1], c.output.n_dims() as i64)?;
        let groups = groups(c);
        if !groups.is_empty() {
            // Only elements whose indices are axes of the block have an instance that can be found.
            sch.transform_layout(partial, ("write", 0), Lambda::splitting(c.output.n_dims() + 1, &groups))?;
        }
        // Unit loops are kept, so that the number of loops does not depend on the decisions.
        sch.compute_at(partial, tiles, true)?;
        let n = (c.of_kind(IterKind::Spatial).count(), c.of_kind(IterKind::Reduce).count());
        let all = sch.get_loops(partial)?;
        let inner = &all[all.len().saturating_sub(1 + n.0 + n.1)..];
        let [lane, others @ ..] = inner else { return Ok(()) };
        let (results, reductions) = others.split_at(n.0.min(others.len()));
        sch.reorder(&[reductions, results, &[*lane]].concat())?;
        draft.tiled.push(Tiled { complete_at: Some(tiles), ..Tiled::new(block) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promising(widths: &[i64]) -> Vec<(i64, i64)> {
        ranked(widths, 16).into_iter().map(|(r, w)| (ROWS[r], widths[w] / 16)).collect()
    }

    #[test]
    fn the_usual_pairs_come_first_where_there_are_such_widths() {
        let all = promising(&[16, 32, 64, 128]);
        assert_eq!(all[..6], [(4, 4), (4, 2), (8, 2), (2, 4), (8, 1), (16, 1)]);
    }

    #[test]
    fn an_odd_width_has_as_many_sums_at_a_time() {
        // 784 elements are 49 vectors of 16 lanes.
        assert_eq!(promising(&[16, 112]), [(2, 7), (8, 1), (16, 1)]);
        assert_eq!(promising(&[16]), [(8, 1), (16, 1)]);
    }
}
