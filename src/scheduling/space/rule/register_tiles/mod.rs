//! # `register_tiles`
//!
//! *When*: a reduction whose bindings are its loops, over constant ranges, in which some loop of results can be
//! vectorised: each operand moves by one element with it, or not at all, or each of its elements serves at least 16
//! results, so that a new layout pays off; if there is no such loop, one with which a window moves by up to four elements. *What*: see below. *Why*: each loaded value is used for every row, or
//! column, of a tile that stays in registers.
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
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer((128, 64)), B: T.Buffer((64, 128)), C: T.Buffer((128, 128))):
//!     for j_0, i_0, k, i_1, j_1 in T.grid(2, 32, 64, 4, 64):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(128, i_0 * 4 + i_1)
//!             vj = T.axis.spatial(128, j_0 * 64 + j_1)
//!             vk = T.axis.reduce(64, k)
//!             with T.init():
//!                 C[vi, vj] = 0.0
//!             C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//! ```
//!
//! * The *columns* are the axis that is contiguous in the result. If its extent is not a multiple of the vector length
//!   and another axis has one that is, there is a sketch for that axis as well: the result is computed with it last and
//!   then copied to its place, and operands are laid out likewise (a convolution with channels last).
//! * Where columns are a block of one or two vectors, and a step along another axis, to the next *block*, moves what a column
//!   moves (channels in blocks), a tile holds several blocks.
//! * The *rows* are the last axis that vector operands do not move with. If there is none, an axis that a window slides
//!   along is used, whatever its stride: its reduction loop goes last and is unrolled, so that a loaded row serves all results that need it;
//!   the other reduction loops are unrolled too, if all together have at most 25 iterations.
//!   Without a window, it is the axis that the fewest vector operands move with, if some do not, or columns are few.
//! * *Sampled* are the number of columns (whole vectors, up to four, or all columns), the number of rows, and the
//!   length of the pieces of the longest reduction (its divisors, from 64 steps of all reductions up). If the rows of all
//!   operands exceed the second-level cache, or several threads run, the number of tiles in a block of rows is sampled as
//!   well.
//! * The *order* of loops is: axes that vector operands move with; blocks of rows; panels of columns; pieces of the
//!   reduction; other axes; tiles of rows; the reduction, in the order in which vectors lie in memory; the tile.
//! * There are sketches with the reduction in one piece, so that a consumer may be fused into each tile, and with it
//!   strip-mined, so that a panel fits a nearer cache. Where the result is copied to its place, or a window is unrolled,
//!   there are both if a panel of two vectors exceeds the first-level cache, else only the former.
//! * Where sums of at most 64 steps make results that exceed the second-level cache, there is a sketch with tiles of rows outermost,
//!   which writes results row by row.
//! * *Constant* operands ([layout-free parameters](tuning.md#layout-free-parameters)) are laid out in panels as wide as
//!   the tiles, by a `cache_read` under the root that is annotated as a preparation, and so takes no time of a call.
//!   The candidate numbers of columns then divide the loop. If those would make worse tiles, a constant operand is
//!   treated like any other.
//! * *Products of bytes* that are accumulated as 32-bit integers are taken in groups of four, innermost; an operand
//!   whose groups are not contiguous is always packed: panel by panel, or as a whole before all other work if it is the
//!   operand of rows, if panels share elements, or if columns run over several dimensions. A constant one is prepared; if
//!   no tiles divide its columns, as one panel.
//! * *Seeds*: the pairs of rows and columns with the fewest estimated cycles (from multiply-adds, loads and remainders)
//!   that fit the vector registers, for a window together with the rows that it reads; and the longest pieces whose
//!   panel fits the first-level cache, or a quarter of the second.
//!
//! # Implementation
//!
//! Tiles a contraction for the machine's vector registers.
//!
//! *When*: a reduction with loops of its own, in which a loop of results can be vectorised: what is read moves by one
//! element with it, or not at all, or can be laid out that way because each element is used often enough. *What*: that
//! loop and, if there is one that the vectors do not move with, another are split by sampled numbers of columns and
//! rows, which need not divide them; the tile of rows and columns goes innermost, inside the reduction, and the loop
//! over panels of columns outermost. *Why*: the code generator keeps the tile in registers, so that each element loaded
//! is used once per row or column of the tile.
//!
//! ```text
//! for i, j, k: C[i, j] += A[i, k] * B[k, j]
//! # becomes, with tiles of 8 x 32 and a reduction in pieces of 256
//! for j0, k0, i0, k1, i1, j1: C[i0 * 8 + i1, j0 * 32 + j1] += …
//! ```
//!
//! A constant operand (`layout_free_buffers`) is laid out in panels by a copy that is made once, outside the calls, and
//! annotated as a preparation; then the candidate numbers of columns divide the loop.
//!
//! Schedules come in two kinds: with the whole reduction in one piece, so that a consumer may be fused into each tile,
//! and in sampled pieces, whose panels fit a nearer cache.

mod layout;
mod view;

use super::super::analysis::{is_spatial, live_block};
use super::super::contraction::{Contraction, Input};
use super::super::draft::{Draft, Tiled};
use super::super::tile_sizes::{TileShape, Window};
use super::Rule;
use crate::ir::DType;
use crate::machine::Core;
use crate::machine::register_tile::MOST_APART;
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;
use view::{QUAD, RELAYOUT_REUSE, View, pieces, steps, views};

pub(crate) struct RegisterTiles {
    /// The machine that tiles must fit.
    pub machine: Core,
    /// Rank of the decisions to make, 0 being the most promising.
    pub variant: usize,
}

/// Minimum number of results per element for packing an operand that can be read in place.
const PACKING_REUSE: i64 = 32;
/// Tiles up to this many times slower than the best ones are acceptable if they avoid packing panels.
const AS_GOOD: f64 = 1.1;
/// Maximum length of windows to unroll.
const LONGEST_WINDOW: i64 = 25;

impl Rule for RegisterTiles {
    fn name(&self) -> &'static str {
        "register_tiles"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        if draft.tiled(block).is_some() || draft.reads_rows_of_windows(block) {
            return Ok(vec![draft]);
        }
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let func = draft.sch.func(index);
        let Some(contraction) = Contraction::of(func, id) else { return Ok(vec![draft]) };
        let scope = func.block_above(id.stmt()).unwrap_or(func.root);
        let only_consumer = Scope::of(func, scope).only_consumer(func, id).is_some_and(|one| is_spatial(func, one));
        let mut drafts = Vec::new();
        let deinterleaved = draft.deinterleaved.iter().find(|d| d.block == block).map(|d| d.read);
        for view in views(&contraction, &self.machine) {
            // That layout is made for columns that are contiguous in the result.
            if deinterleaved.is_some() && view.relayout_output {
                continue;
            }
            // A result that is copied to its place, and a window that is unrolled, want the reduction in one piece, unless
            // panels are large.
            let wants_whole = view.relayout_output || view.sliding.is_some();
            let split = pieces(&contraction).1.len() > 1 && (!wants_whole || self.exceeds_nearest_cache(&contraction));
            // The reduction stays in one piece if a consumer may be fused; sampled pieces include the whole as well.
            let mut kinds: Vec<Order> = match (split, only_consumer || wants_whole) {
                (true, true) => vec![Order::Panels, Order::Pieces],
                (true, false) => vec![Order::Pieces],
                (false, _) => vec![Order::Panels],
            };
            if self.writes_more_than_it_reads(&contraction, &view) {
                kinds.push(Order::Rows);
            }
            for outermost in kinds {
                let plan = TilingPlan {
                    rule: self,
                    contraction: &contraction,
                    view: &view,
                    block,
                    outermost,
                    prepares: Prepared::No,
                };
                let kinds = [
                    plan.can_prepare().then_some(Prepared::Panels),
                    plan.can_prepare_whole().then_some(Prepared::Whole),
                    plan.is_worth_relayout().then_some(Prepared::No),
                ];
                // A kind that a primitive refuses is skipped. Preparation costs nothing per call, so where it is
                // possible, it is the only kind.
                drafts.extend(kinds.into_iter().flatten().find_map(|prepares| {
                    let mut fork = draft.clone();
                    TilingPlan { prepares, ..plan }.tile(&mut fork).is_ok().then_some(fork)
                }));
            }
        }
        if drafts.is_empty() {
            drafts.push(draft);
        }
        Ok(drafts)
    }
}

impl RegisterTiles {
    /// Whether a panel of two vectors over the whole reduction is larger than the nearest cache.
    fn exceeds_nearest_cache(&self, c: &Contraction) -> bool {
        let columns = 2 * self.machine.lanes(c.dtype);
        steps(c) * columns * c.dtype.bytes() as i64 > self.machine.l1
    }

    /// Whether results exceed the second-level cache, of which the operands in vectors fill at most a half, and sums are short: writing
    /// the results takes the most time.
    fn writes_more_than_it_reads(&self, c: &Contraction, view: &View) -> bool {
        let vectors: i64 =
            c.inputs.iter().filter(|i| i.access.strides[view.column] != 0).map(|i| i.access.bytes()).sum();
        let in_place = view.relayout.is_empty() && !view.relayout_output;
        let is_tiled =
            view.row.is_some() && view.sliding.is_none() && view.batch.iter().all(|&a| c.axes[a].extent == 1);
        in_place
            && is_tiled
            && steps(c) <= SHORT_SUM
            && c.output.bytes() > self.machine.l2
            && 2 * vectors <= self.machine.l2
    }
}

/// Maximum number of steps of a reduction whose results take about as long to write as to compute.
const SHORT_SUM: i64 = 64;

/// One way to tile one block.
#[derive(Clone, Copy)]
struct TilingPlan<'a> {
    rule: &'a RegisterTiles,
    contraction: &'a Contraction,
    view: &'a View,
    block: Rv,
    outermost: Order,
    /// How constant operands are laid out, once.
    prepares: Prepared,
}

/// What runs outermost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Panels of columns, with the whole reduction.
    Panels,
    /// Panels of columns, and in each, pieces of the reduction.
    Pieces,
    /// Tiles of rows, with the whole reduction: results are written row by row.
    Rows,
}

/// The layout of constant operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepared {
    /// As they are.
    No,
    /// In panels as wide as the tiles.
    Panels,
    /// With all columns in one panel, of which tiles read parts.
    Whole,
}

/// The loops of a block after splitting.
struct Parts {
    /// The innermost loop of each axis; for a reduction in quads, the loop over quads.
    loops: Vec<Rv>,
    /// The loop over panels of columns.
    panels: Option<Rv>,
    /// Number of columns of a panel.
    width: Option<Rv>,
    /// The loops over blocks of rows and over the tiles of a block.
    blocks: Option<Rv>,
    row_tiles: Option<Rv>,
    /// The loop over the pieces of the reduction.
    slab: Option<Rv>,
    /// The loop over the four steps of a dot product.
    quad: Option<Rv>,
    /// The loop over the blocks of the reduction whose vectors lie together.
    chunks: Option<Rv>,
}

impl TilingPlan<'_> {
    fn tile(&self, draft: &mut Draft) -> Result<(), ScheduleError> {
        let (c, view) = (self.contraction, self.view);
        let unfolded = draft.unfolded.iter().find(|u| u.block == self.block).copied();
        let sch = &mut draft.sch;
        let parts = self.split(sch)?;
        self.arrange(sch, &parts)?;
        let by_rows = self.outermost == Order::Rows;
        let place = parts.slab.or(parts.panels);
        for (i, input) in c.inputs.iter().enumerate() {
            if self.is_prepared(i) {
                self.prepare(sch, input, parts.width.filter(|_| self.prepares == Prepared::Panels))?;
            } else if view.relayout.contains(&i) {
                match view.quads.filter(|_| input.access.strides[view.column] == 0) {
                    Some(k) => self.lay_out_rows(sch, input, k)?,
                    None => match unfolded.filter(|u| makes(sch, u.copy, self.block, input.read)) {
                        Some(unfolded) => self.lay_out_unfolded(sch, input, unfolded)?,
                        None => self.lay_out(sch, input, place)?,
                    },
                }
            }
        }
        let innermost_rest = view.rest.last().map(|&a| parts.loops[a]);
        let mut complete_at = match parts.slab {
            Some(_) => parts.panels,
            None if by_rows => parts.panels,
            None => parts.row_tiles.or(innermost_rest).or(parts.panels),
        };
        if view.relayout_output {
            let dim = c.output.dims[view.column].unwrap_or_default();
            let complete = match parts.slab {
                Some(_) => parts.panels,
                None => innermost_rest.or(parts.panels),
            };
            self.write_back(sch, complete.or(parts.blocks), dim)?;
            complete_at = None;
        }
        let stride = |i: usize| c.inputs[i].access.strides[view.column];
        let as_columns = |&(i, input): &(usize, &Input)| {
            // A copy of a piece keeps dimensions apart that the columns walk through as one.
            let in_one_dim =
                input.access.dims[view.column].is_some_and(|d| input.access.shape[d] >= c.axes[view.column].extent);
            let is_laid_out = self.is_prepared(i) || (view.quads.is_some() && view.relayout.contains(&i));
            let as_vectors = stride(i) == 1 || (2..=MOST_APART).contains(&stride(i)) && !view.relayout.contains(&i);
            as_vectors && in_one_dim && input.is_point && !is_laid_out && !by_rows
        };
        let (packable, seldom): (Vec<_>, Vec<_>) =
            c.inputs.iter().enumerate().filter(as_columns).partition(|(_, i)| c.reuse(i) >= PACKING_REUSE);
        let is_copy = |input: &Input| draft.deinterleaved.iter().any(|d| d.block == self.block && d.read == input.read);
        let packable =
            packable.into_iter().filter(|&(i, input)| stride(i) == 1 && !is_copy(input)).map(|(_, i)| i).collect();
        let seldom = seldom.into_iter().map(|(_, i)| i).collect();
        let reads = |inputs: Vec<&Input>| inputs.iter().map(|i| i.read).collect();
        let (packable, seldom) = (reads(packable), reads(seldom));
        draft.tiled.push(Tiled { block: self.block, complete_at, panel: place, packable, seldom });
        Ok(())
    }

    /// Splits the loops of columns and rows, and the longest reduction.
    fn split(&self, sch: &mut Schedule) -> Result<Parts, ScheduleError> {
        let (c, view) = (self.contraction, self.view);
        let mut loops = sch.get_loops(self.block)?;
        let shape = self.shape();
        let (columns, rows) = (self.column_choices(), shape.row_choices());
        let of_all = shape.column_choices();
        let position = |c: usize| columns.iter().position(|&n| n == of_all[c]);
        let ranked: Vec<(usize, usize)> =
            shape.ranked(&self.rule.machine).into_iter().filter_map(|(r, c)| Some((r, position(c)?))).collect();
        // Successive variants differ in the length of the pieces.
        let (row_choice, column_choice) = ranked[(self.rule.variant / 2).min(ranked.len() - 1)];
        let (axis, part) = match view.blocks {
            Some(blocks) => (blocks, c.axes[view.column].extent),
            None => (view.column, 1),
        };
        let columns_of: Vec<i64> = columns.iter().map(|n| n / part).collect();
        let (panels, column, width) = split_by(sch, loops[axis], &columns_of, column_choice, c.axes[axis].extent)?;
        loops[axis] = column;
        let (mut blocks, mut row_tiles) = (None, None);
        if let Some(axis) = view.row {
            let extent = c.axes[axis].extent;
            (row_tiles, loops[axis], _) = split_by(sch, loops[axis], &rows, row_choice, extent)?;
            if let Some(outer) = row_tiles.filter(|_| self.rows_need_blocks()) {
                let n = (extent + rows[row_choice] - 1) / rows[row_choice];
                // One block, or one per thread.
                let n_blocks = (self.rule.machine.threads..=n).find(|b| n % b == 0).unwrap_or(1);
                let factors = sch.choose_tile(outer, i64::MAX >> 32, vec![n_blocks, n / n_blocks])?;
                let parts = sch.split(outer, factors.iter().map(Arg::from).collect())?;
                (blocks, row_tiles) = (Some(parts[0]), Some(parts[1]));
            }
        }
        let (longest, mut lengths) = pieces(c);
        if view.quads == Some(longest) {
            lengths.retain(|n| n % QUAD == 0);
        }
        if let Some((axis, length)) = view.blocked
            && axis == longest
        {
            lengths.retain(|n| n % length == 0);
        }
        let (mut slab, mut quad, mut chunks) = (None, None, None);
        if self.outermost == Order::Pieces {
            let choice = self.piece_choice(&lengths, columns[column_choice]);
            let length = sch.choose_among(&lengths, choice)?;
            let parts = sch.split(loops[longest], vec![Arg::None, length.into()])?;
            (slab, loops[longest]) = (Some(parts[0]), parts[1]);
        }
        if let Some(axis) = view.quads {
            let parts = sch.split(loops[axis], vec![Arg::None, QUAD.into()])?;
            (loops[axis], quad) = (parts[0], Some(parts[1]));
        }
        if let Some((axis, length)) = view.blocked {
            let parts = sch.split(loops[axis], vec![Arg::None, length.into()])?;
            (chunks, loops[axis]) = (Some(parts[0]), parts[1]);
        }
        Ok(Parts { loops, panels, width, blocks, row_tiles, slab, quad, chunks })
    }

    /// Reorders the loops.
    fn arrange(&self, sch: &mut Schedule, parts: &Parts) -> Result<(), ScheduleError> {
        let (c, view) = (self.contraction, self.view);
        let of = |axes: &[usize]| axes.iter().map(|&a| parts.loops[a]).collect::<Vec<Rv>>();
        let mut order = of(&view.batch);
        order.extend(parts.blocks);
        if self.outermost == Order::Rows {
            order.extend(of(&view.rest).into_iter().chain(parts.row_tiles).chain(parts.panels));
        } else {
            order.extend(parts.panels.into_iter().chain(parts.slab));
            order.extend(of(&view.rest).into_iter().chain(parts.row_tiles));
        }
        order.extend(parts.chunks);
        order.extend(of(&view.reductions));
        order.extend(view.blocks.map(|a| parts.loops[a]));
        order.extend(view.row.map(|a| parts.loops[a]));
        order.push(parts.loops[view.column]);
        order.extend(parts.quad);
        sch.reorder(&order)?;
        let Some(sliding) = view.sliding else { return Ok(()) };
        // A small window is unrolled completely, so that its reads have constant offsets; otherwise only the sliding
        // axis.
        let extent = |axes: &[usize]| axes.iter().map(|&a| c.axes[a].extent).product::<i64>();
        let is_small = extent(&view.reductions) <= LONGEST_WINDOW && parts.slab.is_none() && parts.quad.is_none();
        let window = if is_small { &view.reductions[..] } else { &[sliding.axis] };
        if extent(window) > LONGEST_WINDOW {
            return Ok(());
        }
        window.iter().filter(|&&a| c.axes[a].extent > 1).try_for_each(|&a| sch.unroll(parts.loops[a]))
    }

    fn shape(&self) -> TileShape {
        let (c, view) = (self.contraction, self.view);
        TileShape {
            rows: view.row.map_or(1, |a| c.axes[a].extent),
            columns: c.axes[view.column].extent * view.blocks.map_or(1, |a| c.axes[a].extent),
            reduction: steps(c),
            lanes: self.rule.machine.lanes(c.dtype),
            fuses: view.sliding.is_none() && matches!(c.dtype, DType::Float32 | DType::Float64) && c.inputs.len() == 2,
            window: view.sliding.map(|s| Window { extent: c.axes[s.axis].extent, step: s.step }),
        }
    }

    /// Candidate numbers of columns; for prepared panels, only those that divide the loop; where columns come in blocks, whole blocks.
    fn column_choices(&self) -> Vec<i64> {
        let (c, view) = (self.contraction, self.view);
        let extent = c.axes[view.column].extent;
        let divides = |&n: &i64| match view.blocks {
            Some(blocks) => n % extent == 0 && c.axes[blocks].extent % (n / extent) == 0,
            None => self.prepares != Prepared::Panels || extent % n == 0,
        };
        self.shape().column_choices().into_iter().filter(divides).collect()
    }

    /// Whether some operand's panels can be prepared, and tiles that divide the columns are about as fast as others.
    fn can_prepare(&self) -> bool {
        let plan = TilingPlan { prepares: Prepared::Panels, ..*self };
        let (shape, machine) = (self.shape(), &self.rule.machine);
        let rows = shape.row_choices();
        let cycles = |&c: &i64| rows.iter().map(|&r| shape.cycles(machine, r, c)).fold(f64::INFINITY, f64::min);
        let least = |columns: Vec<i64>| columns.iter().map(cycles).fold(f64::INFINITY, f64::min);
        // Blocks of columns are panels as they are.
        self.view.blocks.is_none()
            && (0..self.contraction.inputs.len()).any(|i| plan.is_prepared(i))
            && least(plan.column_choices()) <= least(shape.column_choices()) * AS_GOOD
    }

    /// Whether constant operands of byte dot products can be prepared where no panels of tiles divide the columns: their groups of four
    /// must be contiguous in any case.
    fn can_prepare_whole(&self) -> bool {
        let plan = TilingPlan { prepares: Prepared::Whole, ..*self };
        let is_row = |i: usize| self.contraction.inputs[i].access.strides[self.view.column] == 0;
        let columns = || self.view.relayout.iter().filter(|&&i| !is_row(i));
        self.view.quads.is_some() && columns().next().is_some() && columns().all(|&i| plan.is_prepared(i))
    }

    /// Whether laying out operands in every call pays off.
    fn is_worth_relayout(&self) -> bool {
        let c = self.contraction;
        let is_row = |i: usize| c.inputs[i].access.strides[self.view.column] == 0;
        let once = |i: usize| is_row(i) && c.inputs[i].is_constant;
        self.view.relayout.iter().all(|&i| once(i) || c.reuse(&c.inputs[i]) >= RELAYOUT_REUSE)
    }

    /// Whether the panels of this input are prepared: it is constant, and read as vectors (perhaps after a new layout).
    fn is_prepared(&self, i: usize) -> bool {
        let input = &self.contraction.inputs[i];
        let stride = input.access.strides[self.view.column];
        let as_vectors = stride == 1 || (stride != 0 && self.view.relayout.contains(&i));
        self.prepares != Prepared::No && input.is_constant && input.is_point && as_vectors
    }

    /// Whether the rows that are multiplied with a panel exceed the second-level cache, or should be divided among
    /// threads.
    fn rows_need_blocks(&self) -> bool {
        let (c, view) = (self.contraction, self.view);
        let rows = c.inputs.iter().filter(|i| i.access.strides[view.column] == 0);
        let machine = &self.rule.machine;
        let exceed = rows.map(|i| i.access.bytes()).sum::<i64>() > machine.l2;
        view.rest.is_empty() && (exceed || machine.threads > 1)
    }

    /// The longest piece whose panel fits the nearest cache, or a part of the next one.
    fn piece_choice(&self, lengths: &[i64], columns: i64) -> usize {
        let c = self.contraction;
        let others = steps(c) / lengths[lengths.len() - 1];
        let machine = &self.rule.machine;
        let room = if self.rule.variant.is_multiple_of(2) { machine.l1 } else { machine.l2 / 4 };
        let bytes = |n: i64| n * others * columns * (c.dtype.bytes() as i64);
        lengths.iter().rposition(|&n| bytes(n) <= room).unwrap_or_default()
    }
}

/// Whether a copy writes what a block reads at a position.
fn makes(sch: &Schedule, copy: Rv, block: Rv, read: usize) -> bool {
    let (Some((index, copy)), Some((_, block))) = (live_block(sch, copy), live_block(sch, block)) else { return false };
    let func = sch.func(index);
    let written = func.block(copy).writes.first().map(|w| w.buffer);
    func.block(block).reads.get(read).is_some_and(|r| Some(r.buffer) == written)
}

/// Splits a loop into pieces of a sampled length. Returns the outer loop (`None` if there is only one piece), the inner
/// loop and the length.
fn split_by(
    sch: &mut Schedule,
    l: Rv,
    choices: &[i64],
    choice: usize,
    extent: i64,
) -> Result<(Option<Rv>, Rv, Option<Rv>), ScheduleError> {
    if choices[..] == [extent] {
        return Ok((None, l, None));
    }
    let size = sch.choose_among(choices, choice)?;
    let parts = sch.split(l, vec![Arg::None, size.into()])?;
    Ok((Some(parts[0]), parts[1], Some(size)))
}
