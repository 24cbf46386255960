//! # `column_strips`
//!
//! *When*: the last block of a chain that divides, or otherwise combines, columns by what reductions over an outer axis
//! say about them, such as a softmax over channels; each reduction reads every element once. *What*: one sketch is
//! unchanged, and in one the innermost loop is split by a sampled number of columns (1 to 8 vectors that divide them, if
//! there are such, or all of a few), the strip goes outside of the reduced axes (`reorder`), and the producers are computed
//! in it (`compute_at`). *Why*: sums of a strip stay in registers, and what all steps need, such as exponentials, in the
//! nearest cache. *Seeds*: 4 vectors, 2, 5.
//!
//! ```python
//! @T.prim_func
//! def before(E: T.Buffer((64, 128)), B: T.Buffer((64, 128))):
//!     S = T.sblock_alloc_buffer(128)
//!     for j, k in T.grid(128, 64):
//!         with T.sblock("S"):
//!             vj, vk = T.axis.remap("SR", [j, k])
//!             with T.init():
//!                 S[vj] = 0.0
//!             S[vj] = S[vj] + E[vk, vj]
//!     for i, j in T.grid(64, 128):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = E[vi, vj] / S[vj]
//!
//! # becomes (candidate: 1)
//!
//! @T.prim_func
//! def after(E: T.Buffer((64, 128)), B: T.Buffer((64, 128))):
//!     S = T.sblock_alloc_buffer(128)
//!     for j_0 in range(2):
//!         for ax0, ax1 in T.grid(64, 64):
//!             with T.sblock("S"):
//!                 vj = T.axis.spatial(128, j_0 * 64 + ax0)
//!                 vk = T.axis.reduce(64, ax1)
//!                 with T.init():
//!                     S[vj] = 0.0
//!                 S[vj] = S[vj] + E[vk, vj]
//!         for i, j_1 in T.grid(64, 64):
//!             with T.sblock("B"):
//!                 vi = T.axis.spatial(64, i)
//!                 vj = T.axis.spatial(128, j_0 * 64 + j_1)
//!                 B[vi, vj] = E[vi, vj] / S[vj]
//! ```
//!
//! # Implementation
//!
//! Takes strips of columns through all steps of a computation that reduces along columns.
//!
//! *When*: the last block of a chain reads, contiguously along its innermost loop, results of reductions that do not
//! change along another of its loops. *What*: its innermost loop is split by a sampled width, strips go outside of the
//! loops along which the results stay the same, and the reductions, and what lies between, are computed for each strip.
//! Other reductions, such as a product of matrices that comes first, stay where they are. *Why*: see above.
//!
//! ```text
//! for j, k: S[j] += E[k, j]
//! for i, j: B[i, j] = E[i, j] / S[j]
//! # becomes
//! for j0:
//!     for j1, k: S[j0 * 64 + j1] += E[k, j0 * 64 + j1]
//!     for i, j1: B[i, j0 * 64 + j1] = E[i, j0 * 64 + j1] / S[j0 * 64 + j1]
//! ```

use super::super::access::Access;
use super::super::analysis::{const_extent, is_spatial, is_trivial_binding, live_block, live_loop};
use super::super::draft::Draft;
use super::Rule;
use super::near_consumer::iterations;
use super::random_compute_location;
use crate::ir::{BlockId, Func};
use crate::machine::Core;
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct ColumnStrips {
    /// The machine in whose vectors columns are counted.
    pub machine: Core,
    /// Rank of the decision to make, 0 being the most promising.
    pub variant: usize,
}

/// Candidate widths of a strip in vectors. All columns are one strip if they are no more than the last of these.
const VECTORS: [i64; 7] = [1, 2, 3, 4, 5, 6, 8];
/// Widths in vectors, most promising first.
const PROMISING: [i64; 6] = [4, 2, 5, 1, 8, 3];

impl Rule for ColumnStrips {
    fn name(&self) -> &'static str {
        "column_strips"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some(plan) = self.plan(&draft.sch, block) else { return Ok(vec![draft]) };
        let mut fork = draft.clone();
        // What a primitive refuses stays as it is.
        let done = self.carry_out(&mut fork.sch, block, &plan);
        Ok(if done.is_ok_and(|all| all) { vec![draft, fork] } else { vec![draft] })
    }
}

/// How a block is taken strip by strip.
struct Plan {
    /// The position of each loop but the innermost along which the results of reductions stay the same.
    reduced: Vec<usize>,
    /// Candidate widths of a strip.
    widths: Vec<i64>,
    /// Number of elements of a vector.
    lanes: i64,
}

impl ColumnStrips {
    fn plan(&self, sch: &Schedule, block: Rv) -> Option<Plan> {
        let (index, id) = live_block(sch, block)?;
        let func = sch.func(index);
        if func.block_above(id.stmt()) != Some(func.root) || !is_spatial(func, id) || !is_trivial_binding(func, id) {
            return None;
        }
        let scope = Scope::of(func, func.root);
        let loops = func.loops_above(id.stmt());
        if scope.has_consumer(func, id) {
            return None;
        }
        let [write] = &func.block(id).writes[..] else { return None };
        let columns = loops.len().checked_sub(1)?;
        let written = Access::of_block(func, id, write)?;
        if written.strides.get(columns) != Some(&1) {
            return None;
        }
        let mut reduced: Vec<usize> = Vec::new();
        for producer in scope.producers(func, id).into_iter().filter(|&b| reads_once(func, b)) {
            let writes = &func.block(producer).writes;
            for read in func.block(id).reads.iter().filter(|r| writes.iter().any(|w| w.buffer == r.buffer)) {
                let strides = Access::of_block(func, id, read)?.strides;
                let stays = |&at: &usize| strides[at] == 0 && const_extent(func, loops[at]) != Some(1);
                if strides[columns] == 1 {
                    reduced.extend((0..columns).filter(stays));
                }
            }
        }
        reduced.sort_unstable();
        reduced.dedup();
        let lanes = self.machine.lanes(func.arena.buffer(write.buffer).dtype);
        let widths = widths(const_extent(func, loops[columns])?, lanes, &written.shape);
        (!reduced.is_empty() && !widths.is_empty()).then_some(Plan { reduced, widths, lanes })
    }

    /// Splits the block and moves its producers. Returns whether a reduction is among these.
    fn carry_out(&self, sch: &mut Schedule, block: Rv, plan: &Plan) -> Result<bool, ScheduleError> {
        let wanted = PROMISING[self.variant.min(PROMISING.len() - 1)] * plan.lanes;
        let loops = sch.get_loops(block)?;
        let decision = plan.widths.iter().rposition(|&w| w <= wanted).unwrap_or_default();
        let width = sch.choose_among(&plan.widths, decision)?;
        let Some((&last, others)) = loops.split_last() else { return Ok(false) };
        let columns = sch.split(last, vec![Arg::None, width.into()])?;
        let strip = columns[0];
        let at = |is_reduced: bool| {
            let positions = 0..others.len();
            positions.filter(move |p| plan.reduced.contains(p) == is_reduced).map(|p| others[p]).collect::<Vec<_>>()
        };
        sch.reorder(&[&at(false)[..], &[strip], &at(true)[..], &columns[1..]].concat())?;
        let mut placed = vec![block];
        let mut sums = false;
        let mut next = 0;
        while let Some(&consumer) = placed.get(next) {
            next += 1;
            let producers = if has_producers(sch, consumer) { sch.get_producers(consumer)? } else { Vec::new() };
            for producer in producers {
                if !fits(sch, producer, strip) {
                    continue;
                }
                let before = size(sch, producer);
                sch.compute_at(producer, strip, true)?;
                if size(sch, producer) > before {
                    // Each strip would compute everything again.
                    return Ok(false);
                }
                sums |= live_block(sch, producer).is_some_and(|(index, id)| !is_spatial(sch.func(index), id));
                placed.push(producer);
            }
        }
        Ok(sums)
    }
}

/// The candidate widths of strips of the innermost `columns` of a buffer: whole vectors that divide them, or all; if there are
/// none, and columns are one dimension, whole vectors with a narrower last strip.
fn widths(columns: i64, lanes: i64, shape: &[i64]) -> Vec<i64> {
    let most = VECTORS[VECTORS.len() - 1] * lanes;
    let sizes = || VECTORS.iter().map(|v| v * lanes).filter(|&w| w < columns);
    let whole = (lanes..=most).contains(&columns).then_some(columns);
    let even: Vec<i64> = sizes().filter(|&w| columns % w == 0 && is_box(w, shape)).chain(whole).collect();
    let is_one = shape.last() == Some(&columns);
    if even.is_empty() && columns > most && is_one { sizes().collect() } else { even }
}

/// Whether so many elements are a box of the buffer: a part of its last dimension, or all of that and a part of the one before, and so
/// on. Only the elements of a box are computed in a strip.
fn is_box(width: i64, shape: &[i64]) -> bool {
    let mut rest = width;
    for &extent in shape.iter().rev() {
        if extent % rest == 0 {
            return true;
        }
        if rest % extent != 0 {
            return false;
        }
        rest /= extent;
    }
    false
}

/// Whether other blocks make what a block reads.
fn has_producers(sch: &Schedule, block: Rv) -> bool {
    live_block(sch, block).is_some_and(|(index, id)| {
        let func = sch.func(index);
        !Scope::of(func, func.root).producers(func, id).is_empty()
    })
}

/// Whether a block is alone under the root, with all its consumers in the strip, and is no reduction that reads elements
/// several times, whose tiles are worth more.
fn fits(sch: &Schedule, block: Rv, strip: Rv) -> bool {
    let (Some((index, id)), Some((_, strip))) = (live_block(sch, block), live_loop(sch, strip)) else { return false };
    let func = sch.func(index);
    let in_strip = |&b: &BlockId| func.loops_above(b.stmt()).contains(&strip);
    random_compute_location::fits(sch, block)
        && Scope::of(func, func.root).consumers(func, id).iter().all(in_strip)
        && (is_spatial(func, id) || reads_once(func, id))
}

/// Whether a block is a reduction whose result is contiguous along the same axis as an operand of which it reads each
/// element once.
fn reads_once(func: &Func, id: BlockId) -> bool {
    let node = func.block(id);
    let [write] = &node.writes[..] else { return false };
    let Some(columns) = Access::of_block(func, id, write).and_then(|a| a.strides.iter().position(|&s| s == 1)) else {
        return false;
    };
    let is_single = |a: Access| {
        let moves = |(i, &stride): (usize, &i64)| stride != 0 || func.arena.is_int(node.iters[i].extent, 1);
        a.strides[columns] == 1 && a.strides.iter().enumerate().all(moves)
    };
    !is_spatial(func, id) && node.reads.iter().any(|read| Access::of_block(func, id, read).is_some_and(is_single))
}

/// The total number of iterations of a block.
fn size(sch: &Schedule, block: Rv) -> i64 {
    live_block(sch, block).map_or(0, |(index, id)| iterations(sch.func(index), id).0)
}
