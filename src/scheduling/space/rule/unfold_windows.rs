//! # `unfold_windows`
//!
//! *When*: a sum of products over windows of an operand, whose weights are contiguous along the whole window, such as a
//! convolution with channels first: of bytes, if the weights are not constant; of floats, if rows of results are shorter than
//! a vector or their elements read the operand with a stride. *What*: one sketch is unchanged, and one copies the windows
//! side by side (`reindex`), so that the convolution is a product of matrices: the reduction is one axis, and so are rows
//! and columns. If there are few results for each weight, another copies each window as a row, for `dot_tiles`. *Why*:
//! groups of four steps of the reduction are then contiguous in the weights as they are, and columns fill vectors however
//! short the rows of an image are; a handful of columns does not fill them, but the steps of the reduction do.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((4, 10, 10), "int8"), W: T.Buffer((32, 4, 3, 3), "int8"), Y: T.Buffer((32, 8, 8), "int32")):
//!     for o, h, w, c, r, s in T.grid(32, 8, 8, 4, 3, 3):
//!         with T.sblock("Y"):
//!             vo, vh, vw, vc, vr, vs = T.axis.remap("SSSRRR", [o, h, w, c, r, s])
//!             with T.init():
//!                 Y[vo, vh, vw] = 0
//!             Y[vo, vh, vw] = Y[vo, vh, vw] + T.Cast("int32", X[vc, vh + vr, vw + vs]) * T.Cast("int32", W[vo, vc, vr, vs])
//!
//! # becomes (candidate: 1)
//!
//! @T.prim_func
//! def after(X: T.Buffer((4, 10, 10), "int8"), W: T.Buffer((32, 4, 3, 3), "int8"), Y: T.Buffer((32, 8, 8), "int32")):
//!     X_reindex = T.sblock_alloc_buffer((36, 64), "int8")
//!     for ax0, ax1 in T.grid(36, 64):
//!         with T.sblock("X_reindex_reindex"):
//!             v0, v1 = T.axis.remap("SS", [ax0, ax1])
//!             X_reindex[v0, v1] = X[v0 // 9, v1 // 8 + v0 % 9 // 3, v1 % 8 + v0 % 3]
//!     for ax0, ax1, ax2 in T.grid(32, 64, 36):
//!         with T.sblock("Y"):
//!             v0, v1, v2 = T.axis.remap("SSR", [ax0, ax1, ax2])
//!             with T.init():
//!                 Y[v0, v1 // 8, v1 % 8] = 0
//!             Y[v0, v1 // 8, v1 % 8] = Y[v0, v1 // 8, v1 % 8] + T.Cast("int32", X_reindex[v2, v1]) * T.Cast("int32", W[v0, v2 // 9, v2 % 9 // 3, v2 % 3])
//! ```
//!
//! # Implementation
//!
//! Makes a convolution a product of matrices, by a copy of the windows.
//!
//! *When*: a contraction with a window, whose other operand is contiguous along all reduction axes together. *What*: one
//! schedule is unchanged; in the other one, `reindex` copies the operand at each result and step of the reduction, and axes are
//! merged as by `merge_axes`. `register_tiles` lays the copy out. *Why*: weights of bytes would have to be laid out anew in
//! each call, which takes long where they are large and the image is small. Rows of 7 floats leave half of a vector empty,
//! where 49 floats of 7 rows fill four vectors nearly.
//!
//! ```text
//! for o, h, w, c, r, s: Y[o, h, w] += X[c, h + r, w + s] * W[o, c, r, s]
//! # becomes
//! for k, p: U[k, p] = X[k // 9, p // 8 + k % 9 // 3, p % 8 + k % 3]
//! for o, p, k: Y[o, p] += U[k, p] * W[o, k]
//! ```
//!
//! With few results, the copy is `U[p, k]`.

use super::super::analysis::live_block;
use super::super::contraction::{Contraction, Input};
use super::super::draft::{Draft, Unfolded};
use super::Rule;
use super::merge_axes::{MergeAxes, merged};
use crate::ir::{DType, IterKind};
use crate::machine::Core;
use crate::machine::register_tile::MOST_APART;
use crate::schedule::arg::{Lambda, LambdaExpr, Rv};
use crate::schedule::error::ScheduleError;
use smallvec::SmallVec;

pub(crate) struct UnfoldWindows {
    /// The machine whose vectors hold results, or steps of the reduction.
    pub machine: Core,
}

/// Number of products that one lane of a byte dot product accumulates.
const QUAD: i64 = 4;
/// Minimum number of results for each element of the copy.
const REUSE: i64 = 16;
/// Minimum number of floats in a row of the result that need no copy: most of a vector.
const ROW: i64 = 16;
/// Maximum number of results of a weight that are few.
const FEW: i64 = 36;
/// Maximum size of the copy in bytes: a few times a second-level cache.
const MAX_COPY: i64 = 8 << 20;

impl Rule for UnfoldWindows {
    fn name(&self) -> &'static str {
        "unfold_windows"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let Some(windows) = Contraction::of(draft.sch.func(index), id).and_then(|c| Windows::of(&c, &self.machine))
        else {
            return Ok(vec![draft]);
        };
        // What a primitive refuses is not offered.
        let unfolded = windows.orders.iter().filter_map(|&order| windows.unfold(&draft, block, order).ok().flatten());
        let unfolded: Vec<Draft> = unfolded.collect();
        Ok([draft].into_iter().chain(unfolded).collect())
    }
}

/// What is unfolded, in axes of the block.
struct Windows {
    /// Position of the operand with the windows among the block's reads.
    read: usize,
    /// The axes that move with the operand, in order; they are the dimensions of its copy.
    axes: Vec<usize>,
    extents: Vec<i64>,
    /// Positions in `axes` of the axes of the reduction, and of the innermost ones of the result.
    reduction: Vec<usize>,
    pixels: Vec<usize>,
    /// The copies that are offered.
    orders: SmallVec<[Order; 2]>,
}

/// What is innermost in a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The results.
    Pixels,
    /// The steps of the reduction.
    Steps,
}

impl Windows {
    fn of(c: &Contraction, machine: &Core) -> Option<Windows> {
        let [a, b] = &c.inputs[..] else { return None };
        let of_bytes = c.inputs.iter().all(|i| i.access.element_bytes == 1 && i.is_integer && i.is_point);
        let of_bytes = of_bytes && c.dtype.is_integer() && c.dtype.bytes() == QUAD as usize;
        let is_float = |i: &Input| !i.is_integer && i.access.element_bytes <= 4 && i.is_point;
        let of_floats = (c.dtype == DType::Float32 || c.dtype.is_half()) && c.inputs.iter().all(is_float);
        if !of_bytes && !of_floats {
            return None;
        }
        [(a, b), (b, a)].into_iter().find_map(|(x, weights)| {
            let long = |kind| c.of_kind(kind).filter(|&i| c.axes[i].extent > 1);
            // The weights are contiguous along the reduction, in order, and results that move with them do not move with
            // the windows.
            let mut steps = 1;
            for i in long(IterKind::Reduce).collect::<Vec<_>>().into_iter().rev() {
                if weights.access.strides[i] != steps || x.access.strides[i] == 0 {
                    return None;
                }
                steps *= c.axes[i].extent;
            }
            let moves = |i: usize| x.access.strides[i] != 0;
            let fits = of_floats || !weights.is_constant && steps % QUAD == 0;
            if !fits
                || c.reuse(x) < REUSE
                || long(IterKind::Spatial).any(|i| moves(i) == (weights.access.strides[i] != 0))
            {
                return None;
            }
            // The innermost axes of the result, contiguous and together.
            let mut pixels = Vec::new();
            let mut size = 1;
            for i in long(IterKind::Spatial).collect::<Vec<_>>().into_iter().rev() {
                if !moves(i) || c.output.strides[i] != size {
                    break;
                }
                pixels.push(i);
                size *= c.axes[i].extent;
            }
            pixels.reverse();
            // Rows of floats that fill most of a vector, and lie together, need no copy.
            let needs_no_copy = |&i: &usize| {
                let stride = x.access.strides[i];
                c.axes[i].extent >= ROW && stride == 1 || stride > MOST_APART
            };
            let mut orders = SmallVec::new();
            if of_bytes || pixels.last().is_some_and(|last| !needs_no_copy(last)) {
                orders.push(Order::Pixels);
            }
            if of_floats && c.dtype == DType::Float32 && size <= FEW && steps % machine.lanes(c.dtype) == 0 {
                orders.push(Order::Steps);
            }
            let all = long(IterKind::Spatial).filter(|&i| moves(i)).map(|i| c.axes[i].extent).product::<i64>();
            let is_small = all.saturating_mul(steps).saturating_mul(x.access.element_bytes) <= MAX_COPY;
            if pixels.is_empty() || !is_small || !(c.overlaps(x) || pixels.len() > 1) {
                return None;
            }
            // `reindex` has a dimension for each axis that the simplified indices use.
            let dims = &x.access.dims;
            let adds_nothing = |i: usize| {
                let with_another = || (0..c.axes.len()).any(|other| other != i && dims[other] == dims[i]);
                c.axes[i].extent == 1 && with_another()
            };
            let axes: Vec<usize> = (0..c.axes.len()).filter(|&i| dims[i].is_some() && !adds_nothing(i)).collect();
            let extents = axes.iter().map(|&i| c.axes[i].extent).collect();
            let positions = |of: Vec<usize>| of.iter().filter_map(|i| axes.iter().position(|a| a == i)).collect();
            let reduction: Vec<usize> = positions(c.of_kind(IterKind::Reduce).collect());
            let pixels = positions(pixels);
            Some(Windows { read: x.read, axes, extents, reduction, pixels, orders })
        })
    }

    /// The changed schedule; `None` if axes cannot be merged.
    fn unfold(&self, draft: &Draft, block: Rv, order: Order) -> Result<Option<Draft>, ScheduleError> {
        let mut new = draft.clone();
        let sch = &mut new.sch;
        let copy = sch.reindex_read(block, self.read as i64)?;
        let n = self.axes.len();
        if sch.get_loops(copy)?.len() != n {
            return Ok(None);
        }
        let is_other = |&d: &usize| !self.reduction.contains(&d) && !self.pixels.contains(&d);
        let others: Vec<usize> = (0..n).filter(is_other).collect();
        let groups = match order {
            Order::Pixels => [&self.reduction[..], &self.pixels],
            Order::Steps => [&self.pixels[..], &self.reduction],
        };
        let dims: Vec<usize> = [&others[..], groups[0], groups[1]].concat();
        sch.lay_out_written(copy, n, dims.iter().map(|&d| LambdaExpr::Param(d)).collect())?;
        let Some(mut new) = MergeAxes::merged(new, block) else { return Ok(None) };
        let sch = &mut new.sch;
        // The copy in the new order, and then its iterations: the other dimensions, and the groups.
        let flat = |others: Vec<usize>, parts: [&[usize]; 2]| {
            let merged_part = |(dims, of): (&[usize], &[usize])| {
                let extents: Vec<i64> = of.iter().map(|&d| self.extents[d]).collect();
                merged(dims, &extents)
            };
            let parts = parts.into_iter().zip(groups).filter(|(dims, _)| !dims.is_empty()).map(merged_part);
            others.into_iter().map(LambdaExpr::Param).chain(parts).collect::<Vec<LambdaExpr>>()
        };
        let (first, second) = (others.len(), others.len() + groups[0].len());
        let places: Vec<usize> = (0..n).collect();
        sch.lay_out_written(copy, n, flat(places[..first].to_vec(), [&places[first..second], &places[second..]]))?;
        let params = (0..n).map(|i| format!("i{i}").as_str().into()).collect();
        let results = flat(others, groups);
        sch.transform_block_layout(copy, Lambda { params, results, scalar: false, ranges: false })?;
        let row = self.pixels.last().filter(|_| self.pixels.len() > 1).map(|&d| self.extents[d]);
        new.unfolded.push(Unfolded { block, copy, row, is_row_by_row: order == Order::Steps });
        Ok(Some(new))
    }
}
