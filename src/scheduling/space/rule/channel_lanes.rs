//! # `channel_lanes`
//!
//! *When*: a reduction over windows whose rows of results fill at most half of a vector, while another axis, the
//! channels, is a dimension of its own of the result and of operands, such as a depthwise convolution of small images
//! with channels first. *What*: one sketch is unchanged, and in one, as many channels as a vector has lanes are computed
//! together: operands are copied with these channels last (`cache_read`, `transform_layout`), and results copied back
//! (`cache_write`). *Why*: vectors are full however short rows are, and windows move by whole vectors, whatever their
//! stride. The code generator transposes in registers, which takes less time than half-empty vectors if each element is
//! read often.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((64, 9, 9)), W: T.Buffer((64, 3, 3)), Y: T.Buffer((64, 7, 7))):
//!     for c, i, j, r, s in T.grid(64, 7, 7, 3, 3):
//!         with T.sblock("Y"):
//!             vc, vi, vj, vr, vs = T.axis.remap("SSSRR", [c, i, j, r, s])
//!             with T.init():
//!                 Y[vc, vi, vj] = 0.0
//!             Y[vc, vi, vj] = Y[vc, vi, vj] + X[vc, vi + vr, vj + vs] * W[vc, vr, vs]
//!
//! # becomes (candidate: 1)
//!
//! @T.prim_func
//! def after(X: T.Buffer((64, 9, 9)), W: T.Buffer((64, 3, 3)), Y: T.Buffer((64, 7, 7))):
//!     X_global = T.sblock_alloc_buffer((4, 9, 9, 16))
//!     W_global = T.sblock_alloc_buffer((4, 3, 3, 16))
//!     Y_global = T.sblock_alloc_buffer((4, 7, 7, 16))
//!     for c_0 in range(4):
//!         for ax0, ax1 in T.grid(16, 81):
//!             with T.sblock("X_global"):
//!                 v0 = T.axis.spatial(64, c_0 * 16 + ax0)
//!                 v1 = T.axis.spatial(81, ax1)
//!                 X_global[v0 // 16, v1 // 9, v1 % 9, v0 % 16] = X[v0, v1 // 9, v1 % 9]
//!         for ax0, ax1 in T.grid(16, 9):
//!             with T.sblock("W_global"):
//!                 v0 = T.axis.spatial(64, c_0 * 16 + ax0)
//!                 v1 = T.axis.spatial(9, ax1)
//!                 W_global[v0 // 16, v1 // 3, v1 % 3, v0 % 16] = W[v0, v1 // 3, v1 % 3]
//!         for i in range(7):
//!             for r in T.unroll(3):
//!                 for s in T.unroll(3):
//!                     for j, c_1 in T.grid(7, 16):
//!                         with T.sblock("Y"):
//!                             vc = T.axis.spatial(64, c_0 * 16 + c_1)
//!                             vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
//!                             with T.init():
//!                                 Y_global[vc // 16, vi, vj, vc % 16] = 0.0
//!                             Y_global[vc // 16, vi, vj, vc % 16] = Y_global[vc // 16, vi, vj, vc % 16] + X_global[vc // 16, vi + vr, vj + vs, vc % 16] * W_global[vc // 16, vr, vs, vc % 16]
//!         for ax0, ax1 in T.grid(16, 49):
//!             with T.sblock("Y_global"):
//!                 v0 = T.axis.spatial(64, c_0 * 16 + ax0)
//!                 v1 = T.axis.spatial(49, ax1)
//!                 Y[v0, v1 // 7, v1 % 7] = Y_global[v0 // 16, v1 // 7, v1 % 7, v0 % 16]
//! ```
//!
//! # Implementation
//!
//! Computes planes of many channels together, one channel in each lane.
//!
//! *When*: rows of results fill at most half of a vector; a spatial axis is a dimension of its own, of a multiple of the
//! vector length, wherever it moves an operand or the result; planes are small enough for the transposes of the code
//! generator; and each element is read at least three times. *What*: the axis is split by the vector length, and under its
//! outer part lie copies of operands and results whose last dimension is the inner part. Each copy walks through a plane in one loop,
//! so that its tiles are squares of a vector's length. If a block makes the operand for this one alone,
//! what it reads is copied; padding is inlined, and other blocks write the new layout. Constant operands are laid out as a preparation.
//! *Why*: see above. Rows of the result are the tiles: a row and its window are unrolled.
//!
//! ```text
//! for c, i, j, r, s: Y[c, i, j] += X[c, i + r, j + s] * W[c, r, s]
//! # becomes
//! for c0:
//!     for c1, p: XT[p, c1] = X[c0 * 16 + c1, p]          likewise W
//!     for i, r, s, j, c1: YT[i, j, c1] += XT[i + r, j + s, c1] * WT[r, s, c1]
//!     for c1, p: Y[c0 * 16 + c1, p] = YT[p, c1]
//! ```

use super::super::access::Access;
use super::super::analysis::{const_extent, live_block};
use super::super::contraction::{Contraction, Input};
use super::super::draft::{Draft, Tiled};
use super::Rule;
use super::deinterleave_windows::{maker, writes_in_order};
use super::inline_padding::selected_buffer;
use super::merge_axes::merged;
use crate::ir::preparation::PREPARATION;
use crate::ir::{BinOp, IterKind};
use crate::machine::Core;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Lambda, LambdaExpr, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct ChannelLanes {
    /// The machine whose vectors channels should fill.
    pub machine: Core,
}

/// Minimum number of times that each element is read on average.
const READS: i64 = 3;
/// Maximum number of elements of a plane: of the loops that the code generator transposes.
const LARGEST_PLANE: i64 = 256;
/// Maximum number of steps of windows to unroll.
const LONGEST_WINDOW: i64 = 25;
/// Bytes of the elements that are transposed, each in a lane of its own.
const LANE: i64 = 4;

impl Rule for ChannelLanes {
    fn name(&self) -> &'static str {
        "channel_lanes"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let is_laid_out =
            draft.unfolded.iter().any(|u| u.block == block) || draft.deinterleaved.iter().any(|d| d.block == block);
        if is_laid_out || !self.machine.vectors.has_regions() {
            return Ok(vec![draft]);
        }
        let planes = Contraction::of(draft.sch.func(index), id).and_then(|c| Planes::of(c, &self.machine));
        let Some(planes) = planes else { return Ok(vec![draft]) };
        // What a primitive refuses is not offered.
        let mut new = draft.clone();
        let done = planes.schedule(&mut new, block).is_ok_and(|done| done.is_some());
        Ok([draft].into_iter().chain(done.then_some(new)).collect())
    }
}

/// A contraction whose results are planes of channels.
struct Planes {
    contraction: Contraction,
    /// The axis of channels, and the dimension of the result that it is.
    channel: usize,
    dim: usize,
    /// The axis along rows of the result.
    column: usize,
    lanes: i64,
}

impl Planes {
    fn of(c: Contraction, machine: &Core) -> Option<Planes> {
        let lanes = machine.lanes(c.dtype);
        let spatial = || c.of_kind(IterKind::Spatial).filter(|&a| c.axes[a].extent > 1);
        let column = spatial().find(|&a| c.output.strides[a] == 1)?;
        if c.axes[column].extent * 2 > lanes || c.dtype.bytes() as i64 != LANE {
            return None;
        }
        let moves = |i: &Input, a: usize| i.access.strides[a] != 0;
        let channel = spatial().find(|&a| {
            let fits = |i: &Input| i.is_point && i.access.element_bytes == LANE && own_dim(&c, &i.access, a).is_some();
            c.axes[a].extent % lanes == 0
                && own_dim(&c, &c.output, a).is_some()
                && c.inputs.iter().any(|i| moves(i, a) && moves(i, column))
                && c.inputs.iter().all(|i| if moves(i, a) { fits(i) } else { !moves(i, column) })
        })?;
        let dim = own_dim(&c, &c.output, channel)?;
        let is_small = |access: &Access| access.shape.iter().skip(dim + 1).product::<i64>() <= LARGEST_PLANE;
        let iterations = c.axes.iter().map(|a| a.extent).fold(1, i64::saturating_mul);
        let pays = c.inputs.iter().filter(|i| moves(i, column)).all(|i| iterations / READS >= i.access.elements);
        (is_small(&c.output) && pays).then_some(Planes { contraction: c, channel, dim, column, lanes })
    }

    /// Splits the channels and places the copies; `None` if an operand has no layout that can be transposed.
    fn schedule(&self, draft: &mut Draft, block: Rv) -> Result<Option<()>, ScheduleError> {
        let (c, sch) = (&self.contraction, &mut draft.sch);
        let (mut copies, mut padding) = (Vec::new(), Vec::new());
        for input in c.inputs.iter().filter(|i| i.access.strides[self.channel] != 0) {
            let Some(dim) = own_dim(c, &input.access, self.channel) else { return Ok(None) };
            if input.is_constant {
                let copy = sch.cache_read(block, input.read as i64, "global")?;
                sch.annotate(copy, PREPARATION, true)?;
                sch.lay_out_written(copy, input.access.n_dims(), self.channels_last(input.access.n_dims(), dim))?;
                continue;
            }
            match maker(sch, block, input.read, input.access.n_dims())? {
                Some(maker) => {
                    for (read, dim) in planes_read(sch, maker, dim) {
                        let copy = sch.cache_read(maker, read as i64, "global")?;
                        let Some(()) = self.transpose(sch, copy, dim)? else { return Ok(None) };
                        copies.push(copy);
                    }
                    if is_padding(sch, maker) {
                        padding.push(maker);
                        continue;
                    }
                    let (n, results) = (input.access.n_dims(), self.channels_last(input.access.n_dims(), dim));
                    sch.lay_out_written(maker, n, results.clone())?;
                    transform_block(sch, maker, n, results)?;
                    // Placed first, so that what it reads can follow.
                    copies.insert(0, maker);
                }
                None => {
                    let copy = sch.cache_read(block, input.read as i64, "global")?;
                    let Some(()) = self.transpose(sch, copy, dim)? else { return Ok(None) };
                    copies.push(copy);
                }
            }
        }
        // Inlined last: until then, operands keep their positions among the block's reads.
        padding.into_iter().try_for_each(|maker| sch.compute_inline(maker))?;
        let n = c.output.n_dims();
        let existing = match sch.get_consumers(block)?[..] {
            [one] if live_block(sch, one).is_some_and(|(f, b)| writes_in_order(sch.func(f), b, n)) => Some(one),
            _ => None,
        };
        let back = match existing {
            Some(one) => one,
            None => sch.cache_write(block, 0, "global")?,
        };
        sch.lay_out_written(block, n, self.channels_last(n, self.dim))?;
        let Some(()) = self.walk_planes(sch, back, self.dim)? else { return Ok(None) };

        let outer = self.arrange(sch, block)?;
        for &copy in &copies {
            sch.compute_at(copy, outer, true)?;
        }
        sch.reverse_compute_at(back, outer, true)?;
        draft.tiled.extend(copies.into_iter().chain([block, back]).map(Tiled::new));
        Ok(Some(()))
    }

    /// Orders the loops of the block, the channels of a vector innermost; returns the loop over vectors.
    fn arrange(&self, sch: &mut Schedule, block: Rv) -> Result<Rv, ScheduleError> {
        let c = &self.contraction;
        let loops = sch.get_loops(block)?;
        let channels = sch.split(loops[self.channel], vec![Arg::None, self.lanes.into()])?;
        let is_outside = |a: &usize| c.output.dims[*a].is_none_or(|d| d < self.dim);
        let others = c.of_kind(IterKind::Spatial).filter(|&a| a != self.channel && a != self.column);
        let (outside, inside): (Vec<usize>, Vec<usize>) = others.partition(is_outside);
        let reductions: Vec<usize> = c.of_kind(IterKind::Reduce).collect();
        let of = |axes: &[usize]| axes.iter().map(|&a| loops[a]).collect::<Vec<Rv>>();
        let column = vec![loops[self.column], channels[1]];
        sch.reorder(&[of(&outside), vec![channels[0]], of(&inside), of(&reductions), column].concat())?;
        let mut steps = 1;
        for &a in reductions.iter().rev() {
            steps *= c.axes[a].extent;
            if steps > LONGEST_WINDOW {
                break;
            }
            if c.axes[a].extent > 1 {
                sch.unroll(loops[a])?;
            }
        }
        Ok(channels[0])
    }

    /// Lays out what a copy of channels `dim` writes with the channels of a vector last.
    fn transpose(&self, sch: &mut Schedule, copy: Rv, dim: usize) -> Result<Option<()>, ScheduleError> {
        let Some((index, id)) = live_block(sch, copy) else { return Ok(None) };
        let n = sch.func(index).block(id).iters.len();
        sch.lay_out_written(copy, n, self.channels_last(n, dim))?;
        self.walk_planes(sch, copy, dim)
    }

    /// Merges the loops of a copy over the dimensions of a plane, those after `dim`; `None` if planes are too large to
    /// transpose.
    fn walk_planes(&self, sch: &mut Schedule, copy: Rv, dim: usize) -> Result<Option<()>, ScheduleError> {
        let Some((index, id)) = live_block(sch, copy) else { return Ok(None) };
        let func = sch.func(index);
        let n = func.block(id).iters.len();
        let extents: Option<Vec<i64>> = func.loops_above(id.stmt()).iter().map(|&l| const_extent(func, l)).collect();
        let Some(extents) = extents.filter(|e| e.len() == n) else { return Ok(None) };
        if extents[dim + 1..].iter().product::<i64>() > LARGEST_PLANE {
            return Ok(None);
        }
        let plane: Vec<usize> = (dim + 1..n).collect();
        if plane.len() > 1 {
            let others = (0..=dim).map(LambdaExpr::Param);
            let results = others.chain([merged(&plane, &extents[dim + 1..])]).collect();
            transform_block(sch, copy, n, results)?;
        }
        Ok(Some(()))
    }

    /// The indices of a buffer of `n` dimensions, of which `dim` are channels, with those of a vector last.
    fn channels_last(&self, n: usize, dim: usize) -> Vec<LambdaExpr> {
        let part = |op| LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(dim)), Box::new(LambdaExpr::Int(self.lanes)));
        let vector = |d| if d == dim { part(BinOp::FloorDiv) } else { LambdaExpr::Param(d) };
        (0..n).map(vector).chain([part(BinOp::FloorMod)]).collect()
    }
}

fn transform_block(sch: &mut Schedule, block: Rv, n: usize, results: Vec<LambdaExpr>) -> Result<(), ScheduleError> {
    let params = (0..n).map(|i| format!("i{i}").as_str().into()).collect();
    sch.transform_block_layout(block, Lambda { params, results, scalar: false, ranges: false })
}

/// Whether a block only pads: its conditions then choose whole vectors of channels, and need no copy.
fn is_padding(sch: &Schedule, block: Rv) -> bool {
    live_block(sch, block).is_some_and(|(index, id)| matches!(selected_buffer(sch.func(index), id), Some((_, None))))
}

/// The dimension that an axis walks through by itself, element by element and as a whole.
fn own_dim(c: &Contraction, access: &Access, axis: usize) -> Option<usize> {
    let dim = access.dims[axis]?;
    let others = (0..c.axes.len()).filter(|&a| a != axis && c.axes[a].extent > 1);
    let is_own = others.into_iter().all(|a| access.dims[a] != Some(dim));
    (is_own && walks(access, axis, dim) && access.shape[dim] == c.axes[axis].extent).then_some(dim)
}

/// Whether a variable moves an access by one element of a dimension.
fn walks(access: &Access, var: usize, dim: usize) -> bool {
    access.dims[var] == Some(dim) && access.strides[var] == access.shape[dim + 1..].iter().product::<i64>()
}

/// The operands of a block that are planes of the channels, its iteration variable `channel`: their positions among its
/// reads, and the dimension of the channels.
fn planes_read(sch: &Schedule, block: Rv, channel: usize) -> Vec<(usize, usize)> {
    let Some((index, id)) = live_block(sch, block) else { return Vec::new() };
    let func = sch.func(index);
    let node = func.block(id);
    let vars: Vec<_> = node.iters.iter().map(|i| i.var).collect();
    let plane = |(read, region)| {
        let access = Access::of(func, region, &vars)?;
        let dim = access.dims[channel]?;
        (walks(&access, channel, dim) && dim + 1 < access.n_dims()).then_some((read, dim))
    };
    node.reads.iter().enumerate().filter_map(plane).collect()
}
