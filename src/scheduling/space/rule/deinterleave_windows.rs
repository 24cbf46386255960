//! # `deinterleave_windows`
//!
//! *When*: windows of a reduction that move by two to four elements from column to column, and read each element at least three
//! times on average, such as those of convolutions with a stride and channels first. *What*: one sketch is unchanged, and in one the copy with the padding, or a copy
//! made for it (`cache_read`), has first the columns that are multiples of the stride, then those with remainder one, and so
//! on (`transform_layout`, `transform_block_layout`); rows that fill most of a vector's lanes start at whole vectors
//! (`storage_align`); loops along the window are unrolled. *Why*: what neighbouring results read is
//! then contiguous. Columns are brought together once for each row that is copied, instead of at each of its uses, and
//! fewer stores and loads cross a cache line.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((64, 34)), Y: T.Buffer((61, 16))):
//!     for i, j, r, s in T.grid(61, 16, 4, 4):
//!         with T.sblock("Y"):
//!             vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
//!             with T.init():
//!                 Y[vi, vj] = 0.0
//!             Y[vi, vj] = T.max(Y[vi, vj], X[vi + vr, vj * 2 + vs])
//!
//! # becomes (candidate: 1)
//!
//! @T.prim_func
//! def after(X: T.Buffer((64, 34)), Y: T.Buffer((61, 16))):
//!     X_global = T.sblock_alloc_buffer((64, 2, 17))
//!     for ax0, ax1, ax2 in T.grid(64, 2, 17):
//!         with T.sblock("X_global"):
//!             v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
//!             X_global[v0, (v2 * 2 + v1) % 2, (v2 * 2 + v1) // 2] = X[v0, v2 * 2 + v1]
//!     for i, j, r in T.grid(61, 16, 4):
//!         for s in T.unroll(4):
//!             with T.sblock("Y"):
//!                 vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
//!                 with T.init():
//!                     Y[vi, vj] = 0.0
//!                 Y[vi, vj] = T.max(Y[vi, vj], X_global[vi + vr, vs % 2, vs // 2 + vj])
//! ```
//!
//! # Implementation
//!
//! Lays out a copy so that strided windows become contiguous.
//!
//! *When*: an operand of 32-bit elements whose last dimension the columns walk through with a stride, together with a short
//! reduction, and each element of which is read at least three times. *What*: the block that makes the operand, if this is its only
//! consumer, or a new copy writes columns by remainder; loops over steps of the window are unrolled, since the place of a step is
//! no multiple of it. `near_consumer` finds the place of the copy. *Why*: the code generator would assemble strided vectors from
//! contiguous ones for each row and step of a window; for short rows, that takes longer than the arithmetic.
//!
//! ```text
//! for i, j, k: Y[i, j] = max(Y[i, j], X[i, j * 2 + k])
//! # becomes
//! for i, r, q: P[i, r, q] = X[i, q * 2 + r]
//! for i, j, k: Y[i, j] = max(Y[i, j], P[i, k % 2, j + k // 2])
//! ```

use super::super::analysis::{is_spatial, is_trivial_binding, live_block};
use super::super::contraction::{Contraction, Input};
use super::super::draft::{Deinterleaved, Draft};
use super::Rule;
use crate::ir::{BinOp, BlockId, DType, Func, IterKind};
use crate::machine::Core;
use crate::machine::register_tile::MOST_APART;
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Lambda, LambdaExpr, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct DeinterleaveWindows {
    /// The machine at whose vectors rows start.
    pub machine: Core,
}

/// Minimum number of times that each element is read on average.
const READS: i64 = 3;
/// Maximum length of a window along the columns, whose steps are unrolled.
const LONGEST: i64 = 7;
/// Maximum ratio of a row in memory to its columns.
const MOST_PADDED: (i64, i64) = (4, 3);

impl Rule for DeinterleaveWindows {
    fn name(&self) -> &'static str {
        "deinterleave_windows"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let Some(windows) = Contraction::of(draft.sch.func(index), id).and_then(|c| Windows::of(&c)) else {
            return Ok(vec![draft]);
        };
        let mut new = draft.clone();
        // What a primitive refuses is not offered.
        let done = windows.deinterleave(&mut new, block, self.machine.lanes(DType::Float32)).is_ok();
        Ok([draft].into_iter().chain(done.then_some(new)).collect())
    }
}

/// The operand that is laid out, and how its windows move.
struct Windows {
    /// Position of the operand among the block's reads.
    read: usize,
    n_dims: usize,
    /// Elements from one result to the next.
    stride: i64,
    /// Whether each remainder has the same number of columns.
    is_even: bool,
    /// Columns of each remainder.
    columns: i64,
    /// The axes of the block that are the steps of a window along the columns.
    steps: Vec<usize>,
}

impl Windows {
    fn of(c: &Contraction) -> Option<Windows> {
        let column = c.of_kind(IterKind::Spatial).find(|&a| c.axes[a].extent > 1 && c.output.strides[a] == 1)?;
        let iterations = c.axes.iter().map(|a| a.extent).fold(1, i64::saturating_mul);
        c.inputs.iter().find_map(|input: &Input| {
            let access = &input.access;
            let (stride, last) = (access.strides[column], access.n_dims().checked_sub(1)?);
            let is_last = |a: usize| access.dims[a] == Some(last);
            let steps: Vec<usize> =
                c.of_kind(IterKind::Reduce).filter(|&a| c.axes[a].extent > 1 && is_last(a)).collect();
            let length: i64 = steps.iter().map(|&a| c.axes[a].extent).product();
            let is_window = (2..=MOST_APART).contains(&stride) && is_last(column) && (2..=LONGEST).contains(&length);
            let pays = iterations / READS >= access.elements;
            (input.is_point && access.element_bytes == 4 && is_window && pays).then(|| Windows {
                read: input.read,
                n_dims: access.n_dims(),
                stride,
                is_even: access.shape[last] % stride == 0,
                columns: (access.shape[last] + stride - 1) / stride,
                steps,
            })
        })
    }

    /// Lays the operand out; vectors have so many lanes.
    fn deinterleave(&self, draft: &mut Draft, block: Rv, lanes: i64) -> Result<(), ScheduleError> {
        let sch = &mut draft.sch;
        let loops = sch.get_loops(block)?;
        self.steps.iter().try_for_each(|&a| sch.unroll(loops[a]))?;
        let existing = maker(sch, block, self.read, self.n_dims)?;
        let copy = match existing {
            Some(maker) => maker,
            None => sch.cache_read(block, self.read as i64, "global")?,
        };
        let last = self.n_dims - 1;
        let part =
            |op| LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(last)), Box::new(LambdaExpr::Int(self.stride)));
        let results: Vec<LambdaExpr> =
            (0..last).map(LambdaExpr::Param).chain([part(BinOp::FloorMod), part(BinOp::FloorDiv)]).collect();
        if self.is_even {
            sch.lay_out_written(copy, self.n_dims, results.clone())?;
            let params = (0..self.n_dims).map(|i| format!("i{i}").as_str().into()).collect();
            sch.transform_block_layout(copy, Lambda { params, results, scalar: false, ranges: false })?;
        } else {
            // The loops of the block become those over the new dimensions.
            let Some((func, id)) = live_block(sch, copy) else { return Ok(()) };
            let func = sch.func(func);
            let dtype = func.arena.buffer(func.block(id).writes[0].buffer).dtype;
            sch.lay_out_padded(copy, self.n_dims, results, dtype)?;
        }
        if (self.columns + lanes - 1) / lanes * lanes * MOST_PADDED.1 <= self.columns * MOST_PADDED.0 {
            sch.storage_align(copy, 0, last as i64, [lanes, 0])?;
        }
        draft.deinterleaved.push(Deinterleaved { block, read: self.read, copy, is_new: existing.is_none() });
        Ok(())
    }
}

/// The block that makes an operand of `n_dims` dimensions for a block alone, element by element.
pub(super) fn maker(sch: &mut Schedule, block: Rv, read: usize, n_dims: usize) -> Result<Option<Rv>, ScheduleError> {
    let Some((index, id)) = live_block(sch, block) else { return Ok(None) };
    let func = sch.func(index);
    let Some(buffer) = func.block(id).reads.get(read).map(|r| r.buffer) else { return Ok(None) };
    let scope = func.block_above(id.stmt()).unwrap_or(func.root);
    let writes = |b: &BlockId| func.block(*b).writes.iter().any(|w| w.buffer == buffer);
    let makers: Vec<BlockId> = func.blocks().into_iter().filter(|b| *b != func.root && writes(b)).collect();
    let [maker] = makers[..] else { return Ok(None) };
    let is_temporary = func.block(func.root).allocs.contains(&buffer);
    if !is_temporary
        || Scope::of(func, scope).only_consumer(func, maker) != Some(id)
        || !writes_in_order(func, maker, n_dims)
    {
        return Ok(None);
    }
    let producers = sch.get_producers(block)?;
    Ok(producers.into_iter().find(|&rv| live_block(sch, rv) == Some((index, maker))))
}

/// Whether a block without reduction writes one buffer, at its iteration variables in order.
pub(super) fn writes_in_order(func: &Func, block: BlockId, n_dims: usize) -> bool {
    let node = func.block(block);
    let [write] = &node.writes[..] else { return false };
    let mins = func.arena.list(write.mins);
    is_spatial(func, block)
        && is_trivial_binding(func, block)
        && node.iters.len() == n_dims
        && mins.iter().zip(&node.iters).all(|(&e, iter)| func.arena.as_var(e) == Some(iter.var))
}
