//! Tiles a contraction for the vector registers of the machine.
//!
//! *When*: a reduction with loops of its own, in which a loop of results can be a loop of vectors: what is read moves by one
//! element with it, or not at all, or can be laid out so because each element is used often enough. *What*: that loop
//! and, if there is one that the vectors do not move with, another are split by sampled numbers of columns and rows,
//! which need not divide them; the tile of rows and columns goes innermost, inside the reduction, and the loop over
//! panels of columns outermost. *Why*: the code generator keeps such a tile in registers, so that an element that was
//! loaded is used once for each row, or column, of it.
//!
//!     for i, j, k: C[i, j] += A[i, k] * B[k, j]
//!     # becomes, with tiles of 8 x 32 and a reduction in pieces of 256
//!     for j0, k0, i0, k1, i1, j1: C[i0 * 8 + i1, j0 * 32 + j1] += …
//!
//! An operand that never changes (`layout_free_buffers`) is laid out in panels of so many columns by a copy that is made
//! once, outside of the calls, and marked as such; there the numbers of columns divide the loop.
//!
//! Schedules come in two kinds: with the reduction in one piece, so that a consumer may follow each tile, and in sampled
//! pieces, whose panels fit a nearer cache.

use super::super::analysis::{is_spatial, live_block};
use super::super::contraction::{Contraction, Input};
use super::super::draft::{Draft, Tiled};
use super::super::machine::Machine;
use super::super::tile_sizes::{TileShape, reduction_choices};
use super::Rule;
use crate::ir::preparation::PREPARATION;
use crate::ir::{BinOp, IterKind};
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Arg, LambdaExpr, Rv};
use crate::schedule::error::ScheduleError;

/// The rule.
pub struct RegisterTiles {
    /// What tiles are to fit.
    pub machine: Machine,
    /// Which of the most promising decisions to make, 0 being the first.
    pub variant: usize,
}

/// An operand whose elements serve fewer results than this is not worth laying out anew.
const RELAYOUT_REUSE: i64 = 16;
/// Nor packing, if it can be read as it is.
const PACKING_REUSE: i64 = 32;
/// Tiles that take so many times the cycles of the best ones are as good, if panels need not be packed for them.
const AS_GOOD: f64 = 1.1;
/// Products that one lane of a dot product of bytes adds up.
const QUAD: i64 = 4;
/// Windows up to this length are unrolled.
const LONGEST_WINDOW: i64 = 16;

/// A way to see the axes of a contraction.
#[derive(Clone, Debug)]
struct View {
    /// The axis of vectors.
    column: usize,
    /// The axis of rows.
    row: Option<usize>,
    /// Spatial axes that operands loaded as vectors move with: outermost.
    batch: Vec<usize>,
    /// The other spatial axes.
    rest: Vec<usize>,
    /// Positions of the inputs that must be laid out so that columns are contiguous.
    relayout: Vec<usize>,
    /// Must the result be, too?
    relayout_output: bool,
    /// The reduction axis along which a window slides over the rows.
    sliding: Option<usize>,
    /// The reduction axis of which four steps at a time are one dot product of bytes.
    quads: Option<usize>,
}

impl Rule for RegisterTiles {
    fn name(&self) -> &'static str {
        "register_tiles"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let func = draft.sch.func(index);
        let Some(contraction) = Contraction::of(func, id) else { return Ok(vec![draft]) };
        let scope = func.block_above(id.stmt()).unwrap_or(func.root);
        let consumers = Scope::of(func, scope).consumers(id);
        let only_consumer = matches!(consumers[..], [one] if is_spatial(func, one));
        let mut drafts = Vec::new();
        for view in views(&contraction, &self.machine) {
            let split = !view.relayout_output && pieces(&contraction).1.len() > 1;
            // In one piece, if something is to follow each tile; the pieces may be one, too.
            let kinds: &[bool] = match (split, only_consumer) {
                (true, true) => &[false, true],
                (true, false) => &[true],
                (false, _) => &[false],
            };
            for &in_pieces in kinds {
                let plan =
                    Plan { rule: self, contraction: &contraction, view: &view, block, in_pieces, prepares: false };
                let kinds = [plan.can_prepare().then_some(true), plan.is_worth_relayout().then_some(false)];
                // What a primitive refuses is not offered. Preparing costs no call anything, so there is no other kind
                // where it is possible.
                drafts.extend(kinds.into_iter().flatten().find_map(|prepares| {
                    let mut fork = draft.clone();
                    Plan { prepares, ..plan }.tile(&mut fork).is_ok().then_some(fork)
                }));
            }
        }
        if drafts.is_empty() {
            drafts.push(draft);
        }
        Ok(drafts)
    }
}

/// The axis of the reduction that is taken in pieces, and their possible lengths.
fn pieces(c: &Contraction) -> (usize, Vec<i64>) {
    let longest = c.of_kind(IterKind::Reduce).rev_by_extent(c);
    (longest, reduction_choices(c.axes[longest].extent))
}

trait Longest {
    fn rev_by_extent(self, c: &Contraction) -> usize;
}

impl<I: Iterator<Item = usize>> Longest for I {
    /// The longest axis; of equal ones the first.
    fn rev_by_extent(self, c: &Contraction) -> usize {
        self.fold(usize::MAX, |best, a| match c.axes.get(best) {
            Some(b) if b.extent >= c.axes[a].extent => best,
            _ => a,
        })
    }
}

/// The ways to tile: along the axis that is contiguous in the result, and along another one where that leaves vectors
/// half empty.
fn views(c: &Contraction, machine: &Machine) -> Vec<View> {
    let lanes = machine.lanes(c.dtype);
    let candidates = c.of_kind(IterKind::Spatial).filter(|&a| c.axes[a].extent > 1);
    let possible: Vec<View> = candidates.filter_map(|a| view(c, a)).collect();
    let natural = possible.iter().find(|v| !v.relayout_output);
    let full = |v: &View| c.axes[v.column].extent % lanes == 0;
    let other = possible
        .iter()
        .filter(|v| v.relayout_output && v.row.is_some() && full(v))
        .min_by_key(|v| v.relayout.len())
        .filter(|_| natural.is_none_or(|n| !full(n)));
    natural.into_iter().chain(other).cloned().collect()
}

fn view(c: &Contraction, column: usize) -> Option<View> {
    let stride = |i: &Input, a: usize| i.access.strides[a];
    let movable = |i: &Input| i.is_point && (i.is_constant || c.reuse(i) >= RELAYOUT_REUSE);
    let quads = quads(c, column);
    let as_needed = |i: &Input| match quads {
        Some(k) => stride(i, column) == 0 || (stride(i, column), stride(i, k)) == (QUAD, 1),
        None => matches!(stride(i, column), 0 | 1),
    };
    let relayout: Vec<usize> = (0..c.inputs.len()).filter(|&i| !as_needed(&c.inputs[i])).collect();
    if !relayout.iter().all(|&i| movable(&c.inputs[i])) {
        return None;
    }
    let vectors: Vec<&Input> = c.inputs.iter().filter(|i| stride(i, column) != 0).collect();
    let moves = |a: usize| vectors.iter().any(|i| stride(i, a) != 0);
    let others = || c.of_kind(IterKind::Spatial).filter(|&a| a != column);
    let unmoved = others().filter(|&a| c.axes[a].extent > 1 && !moves(a)).last();
    let window = if unmoved.is_none() { window(c, column) } else { None };
    let row = unmoved.or(window.map(|(row, _)| row));
    Some(View {
        column,
        row,
        batch: others().filter(|&a| Some(a) != row && (moves(a) || c.axes[a].extent == 1)).collect(),
        rest: others().filter(|&a| Some(a) != row && !moves(a) && c.axes[a].extent > 1).collect(),
        relayout,
        relayout_output: c.output.strides[column] != 1,
        sliding: window.map(|(_, r)| r),
        quads,
    })
}

/// A spatial and a reduction axis that a window slides along: neighbouring results read some of the same elements, for
/// different iterations of the reduction.
fn window(c: &Contraction, column: usize) -> Option<(usize, usize)> {
    let spatial = c.of_kind(IterKind::Spatial).filter(|&a| a != column && c.axes[a].extent > 1);
    let long = |&r: &usize| c.axes[r].extent > 1;
    spatial.into_iter().find_map(|a| {
        c.inputs.iter().find_map(|i| {
            let step = i.access.strides[a];
            let along = |&r: &usize| step != 0 && i.access.strides[r] == step;
            c.of_kind(IterKind::Reduce).filter(long).find(along).map(|r| (a, r))
        })
    })
}

/// The reduction axis of which four steps are one dot product: operands are bytes, those that do not move with the columns
/// have the four together, and the others have, or can be laid out so.
fn quads(c: &Contraction, column: usize) -> Option<usize> {
    let bytes = c.dtype.is_integer() && c.dtype.bytes() == QUAD as usize;
    if !bytes || c.inputs.iter().any(|i| i.access.element_bytes != 1 || !i.is_integer) {
        return None;
    }
    c.of_kind(IterKind::Reduce).filter(|&k| c.axes[k].extent % QUAD == 0).find(|&k| {
        c.inputs.iter().all(|i| {
            let (of_column, of_k) = (i.access.strides[column], i.access.strides[k]);
            let dims = (i.access.dims[column], i.access.dims[k]);
            match of_column {
                0 => of_k == 1,
                QUAD if of_k == 1 => true,
                _ => i.access.n_dims == 2 && dims.0.is_some() && dims.1.is_some() && dims.0 != dims.1,
            }
        })
    })
}

/// One way to tile one block.
#[derive(Clone, Copy)]
struct Plan<'a> {
    rule: &'a RegisterTiles,
    contraction: &'a Contraction,
    view: &'a View,
    block: Rv,
    in_pieces: bool,
    /// Are operands that never change laid out in panels, once?
    prepares: bool,
}

impl Plan<'_> {
    fn tile(&self, draft: &mut Draft) -> Result<(), ScheduleError> {
        let (c, view, sch) = (self.contraction, self.view, &mut draft.sch);
        let loops = sch.get_loops(self.block)?;
        let shape = self.shape();
        let columns = self.column_choices();
        let of_all = shape.column_choices();
        let position = |c: usize| columns.iter().position(|&n| n == of_all[c]);
        let ranked: Vec<(usize, usize)> =
            shape.ranked(&self.rule.machine).into_iter().filter_map(|(r, c)| Some((r, position(c)?))).collect();
        // Every other variant has another length of the pieces.
        let (row_choice, column_choice) = ranked[(self.rule.variant / 2).min(ranked.len() - 1)];
        let column_extent = c.axes[view.column].extent;
        let (panels, column, width) = split_by(sch, loops[view.column], &columns, column_choice, column_extent)?;
        let (mut blocks, mut row_tiles, mut row) = (None, None, None);
        if let Some(axis) = view.row {
            let (outer, inner, _) = split_by(sch, loops[axis], &shape.row_choices(), row_choice, c.axes[axis].extent)?;
            (row_tiles, row) = (outer, Some(inner));
            if let Some(outer) = outer.filter(|_| self.rows_need_blocks()) {
                let n = (c.axes[axis].extent + shape.row_choices()[row_choice] - 1) / shape.row_choices()[row_choice];
                // One block, unless each thread is to have one.
                let threads = self.rule.machine.threads;
                let n_blocks = (threads..=n).find(|b| n % b == 0).unwrap_or(1);
                let factors = sch.choose_tile(outer, i64::MAX >> 32, vec![n_blocks, n / n_blocks])?;
                let parts = sch.split(outer, factors.iter().map(Arg::from).collect())?;
                (blocks, row_tiles) = (Some(parts[0]), Some(parts[1]));
            }
        }
        let (longest, lengths) = pieces(c);
        let (mut slab, mut piece) = (None, loops[longest]);
        if self.in_pieces {
            let choice = self.piece_choice(&lengths, columns[column_choice]);
            let length = sch.choose_among(&lengths, choice)?;
            let parts = sch.split(piece, vec![Arg::None, length.into()])?;
            (slab, piece) = (Some(parts[0]), parts[1]);
        }
        let mut quad = None;
        if view.quads == Some(longest) {
            let parts = sch.split(piece, vec![Arg::None, QUAD.into()])?;
            (piece, quad) = (parts[0], Some(parts[1]));
        }
        let of = |axes: &[usize]| axes.iter().map(|&a| loops[a]).collect::<Vec<Rv>>();
        // What the window slides along comes last, unrolled: a row that was loaded serves several results.
        let mut reductions: Vec<usize> = c.of_kind(IterKind::Reduce).collect();
        reductions.sort_by_key(|&a| view.sliding == Some(a));
        let reductions = reductions.into_iter().map(|a| if a == longest { piece } else { loops[a] });
        let rest = of(&view.rest);
        let mut order = of(&view.batch);
        order.extend(blocks.into_iter().chain(panels).chain(slab).chain(rest.iter().copied()).chain(row_tiles));
        order.extend(reductions);
        order.extend(row);
        order.push(column);
        order.extend(quad);
        sch.reorder(&order)?;
        if let Some(axis) = view.sliding.filter(|&a| c.axes[a].extent <= LONGEST_WINDOW) {
            sch.unroll(if axis == longest { piece } else { loops[axis] })?;
        }
        let place = slab.or(panels);
        for (i, input) in c.inputs.iter().enumerate() {
            if self.is_prepared(i) {
                self.prepare(sch, input, width)?;
            } else if view.relayout.contains(&i) {
                self.lay_out(sch, input, place)?;
            }
        }
        let mut complete_at = match slab {
            Some(_) => panels,
            None => row_tiles.or(rest.last().copied()).or(panels),
        };
        if view.relayout_output {
            let dim = c.output.dims[view.column].unwrap_or_default();
            self.write_back(sch, rest.last().copied().or(panels).or(blocks), dim)?;
            complete_at = None;
        }
        let packable = |&(i, input): &(usize, &Input)| {
            let as_columns = input.access.strides[view.column] == 1 && input.is_point;
            as_columns && c.reuse(input) >= PACKING_REUSE && !self.is_prepared(i)
        };
        let packable = c.inputs.iter().enumerate().filter(packable).map(|(_, input)| input.read).collect();
        draft.tiled.push(Tiled { block: self.block, complete_at, panel: place, packable });
        Ok(())
    }

    fn shape(&self) -> TileShape {
        let (c, view) = (self.contraction, self.view);
        TileShape {
            rows: view.row.map_or(1, |a| c.axes[a].extent),
            columns: c.axes[view.column].extent,
            reduction: c.of_kind(IterKind::Reduce).map(|a| c.axes[a].extent).product(),
            lanes: self.rule.machine.lanes(c.dtype),
        }
    }

    /// Numbers of columns to choose from: where panels are prepared, those that divide the loop.
    fn column_choices(&self) -> Vec<i64> {
        let extent = self.contraction.axes[self.view.column].extent;
        let divides = |&n: &i64| !self.prepares || extent % n == 0;
        self.shape().column_choices().into_iter().filter(divides).collect()
    }

    /// Is there an operand whose panels can be made once, and are tiles that divide the columns as good as others?
    fn can_prepare(&self) -> bool {
        let plan = Plan { prepares: true, ..*self };
        let (shape, machine) = (self.shape(), &self.rule.machine);
        let rows = shape.row_choices();
        let cycles = |&c: &i64| rows.iter().map(|&r| shape.cycles(machine, r, c)).fold(f64::INFINITY, f64::min);
        let least = |columns: Vec<i64>| columns.iter().map(cycles).fold(f64::INFINITY, f64::min);
        (0..self.contraction.inputs.len()).any(|i| plan.is_prepared(i))
            && least(plan.column_choices()) <= least(shape.column_choices()) * AS_GOOD
    }

    /// Does it pay to lay out in every call what must be laid out anew?
    fn is_worth_relayout(&self) -> bool {
        let c = self.contraction;
        self.view.relayout.iter().all(|&i| c.reuse(&c.inputs[i]) >= RELAYOUT_REUSE)
    }

    /// Are the panels of this input made once? It is read as vectors, or is to be.
    fn is_prepared(&self, i: usize) -> bool {
        let input = &self.contraction.inputs[i];
        let as_vectors = self.view.relayout.contains(&i) || input.access.strides[self.view.column] == 1;
        self.prepares && input.is_constant && input.is_point && as_vectors
    }

    /// Copies an operand that never changes before everything else, in panels `width` columns wide; all columns are one
    /// panel without it.
    fn prepare(&self, sch: &mut Schedule, input: &Input, width: Option<Rv>) -> Result<(), ScheduleError> {
        let copy = sch.cache_read(self.block, input.read as i64, "global")?;
        sch.annotate(copy, PREPARATION, true)?;
        let access = &input.access;
        let column = access.dims[self.view.column].unwrap_or_default();
        let quad = self.view.quads.map(|k| access.dims[k].unwrap_or_default());
        let part = |op: BinOp, dim: usize, by: LambdaExpr| {
            LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(dim)), Box::new(by))
        };
        let mut results: Vec<LambdaExpr> =
            width.map(|w| part(BinOp::FloorDiv, column, LambdaExpr::Rv(w))).into_iter().collect();
        results.extend((0..access.n_dims).filter(|&d| d != column).map(|d| match quad {
            Some(k) if k == d => part(BinOp::FloorDiv, d, LambdaExpr::Int(QUAD)),
            _ => LambdaExpr::Param(d),
        }));
        results.push(match width {
            Some(w) => part(BinOp::FloorMod, column, LambdaExpr::Rv(w)),
            None => LambdaExpr::Param(column),
        });
        results.extend(quad.map(|k| part(BinOp::FloorMod, k, LambdaExpr::Int(QUAD))));
        sch.lay_out_written(copy, access.n_dims, results)
    }

    /// Do all rows of the operands that panels are multiplied with exceed the second-level cache, or should threads
    /// share them?
    fn rows_need_blocks(&self) -> bool {
        let (c, view) = (self.contraction, self.view);
        let rows = c.inputs.iter().filter(|i| i.access.strides[view.column] == 0);
        let machine = &self.rule.machine;
        let exceed = rows.map(|i| i.access.bytes()).sum::<i64>() > machine.l2;
        view.rest.is_empty() && (exceed || machine.threads > 1)
    }

    /// The longest piece whose panel fits the nearest cache, or a part of the next.
    fn piece_choice(&self, lengths: &[i64], columns: i64) -> usize {
        let c = self.contraction;
        let others: i64 =
            c.of_kind(IterKind::Reduce).map(|a| c.axes[a].extent).product::<i64>() / lengths[lengths.len() - 1];
        let machine = &self.rule.machine;
        let room = if self.rule.variant.is_multiple_of(2) { machine.l1 } else { machine.l2 / 4 };
        let bytes = |n: i64| n * others * columns * (c.dtype.bytes() as i64);
        lengths.iter().rposition(|&n| bytes(n) <= room).unwrap_or_default()
    }

    /// Lets the tile be written with contiguous columns, and copied to its place under `place`.
    fn write_back(&self, sch: &mut Schedule, place: Option<Rv>, dim: usize) -> Result<(), ScheduleError> {
        let existing = match sch.get_consumers(self.block)?[..] {
            [one] if live_block(sch, one).is_some_and(|(f, b)| is_spatial(sch.func(f), b)) => Some(one),
            _ => None,
        };
        let copy = match existing {
            Some(one) => one,
            None => sch.cache_write(self.block, 0, "global")?,
        };
        if let Some(place) = place {
            sch.reverse_compute_at(copy, place, false)?;
        }
        let n = self.contraction.output.n_dims;
        sch.lay_out_written(self.block, n, moved_last(n, dim))
    }

    /// Copies an operand, each panel when it is needed, with columns contiguous, or the quads of columns.
    fn lay_out(&self, sch: &mut Schedule, input: &Input, place: Option<Rv>) -> Result<(), ScheduleError> {
        let copy = sch.cache_read(self.block, input.read as i64, "global")?;
        if let Some(place) = place {
            sch.compute_at(copy, place, false)?;
        }
        let access = &input.access;
        let dim = access.dims[self.view.column].unwrap_or_default();
        let Some(k) = self.view.quads else {
            return sch.lay_out_written(copy, access.n_dims, moved_last(access.n_dims, dim));
        };
        let k_dim = access.dims[k].unwrap_or_default();
        let part =
            |op: BinOp| LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(k_dim)), Box::new(LambdaExpr::Int(QUAD)));
        let results = vec![part(BinOp::FloorDiv), LambdaExpr::Param(dim), part(BinOp::FloorMod)];
        sch.lay_out_written(copy, access.n_dims, results)?;
        // Elements in the order in which they are written.
        let loops = sch.get_loops(copy)?;
        let [.., first, second] = loops[..] else { return Ok(()) };
        let (along_k, along_columns) = if k_dim < dim { (first, second) } else { (second, first) };
        let parts = sch.split(along_k, vec![Arg::None, QUAD.into()])?;
        sch.reorder(&[parts[0], along_columns, parts[1]])
    }
}

/// Splits a loop into pieces of a sampled length: the outer loop, unless one piece is all there is, the inner one, and
/// the length.
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

/// The indices of `n` dimensions with `last` moved to the end.
fn moved_last(n: usize, last: usize) -> Vec<LambdaExpr> {
    (0..n).filter(|&d| d != last).chain([last]).map(LambdaExpr::Param).collect()
}
