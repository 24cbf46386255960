//! # `tuple_lanes`
//!
//! *When*: a reduction of several values at once, such as a maximum and its index, or a sum and a sum of squares. *What*:
//! one sketch is unchanged. If what is read is contiguous along the reduction, one has partial results for as many lanes as
//! a sampled factor (`rfactor`); if it is along the innermost axis of the results, one has that axis innermost, fused with
//! those before it where it alone leaves vectors partly empty. *Why*: the values are computed for whole vectors.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((64, 256)), S: T.Buffer(64), Q: T.Buffer(64)):
//!     for i, k in T.grid(64, 256):
//!         with T.sblock("S"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 S[vi] = 0.0
//!                 Q[vi] = 0.0
//!             s: T.let[T.float32] = S[vi] + A[vi, vk]
//!             q: T.let[T.float32] = Q[vi] + A[vi, vk] * A[vi, vk]
//!             S[vi] = s
//!             Q[vi] = q
//!
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer((64, 256)), S: T.Buffer(64), Q: T.Buffer(64)):
//!     S_rf = T.sblock_alloc_buffer((64, 32))
//!     Q_rf = T.sblock_alloc_buffer((64, 32))
//!     for i in range(64):
//!         for ax2, ax1, ax0 in T.grid(8, 1, 32):
//!             with T.sblock("S_rf"):
//!                 vk_1 = T.axis.spatial(32, ax0)
//!                 vi = T.axis.spatial(64, i + ax1)
//!                 vk_0 = T.axis.reduce(8, ax2)
//!                 with T.init():
//!                     S_rf[vi, vk_1] = 0.0
//!                     Q_rf[vi, vk_1] = 0.0
//!                 v_S_rf: T.let[T.float32] = S_rf[vi, vk_1] + A[vi, vk_0 * 32 + vk_1]
//!                 v_Q_rf: T.let[T.float32] = Q_rf[vi, vk_1] + A[vi, vk_0 * 32 + vk_1] * A[vi, vk_0 * 32 + vk_1]
//!                 S_rf[vi, vk_1] = v_S_rf
//!                 Q_rf[vi, vk_1] = v_Q_rf
//!         for k_1 in range(32):
//!             with T.sblock("S"):
//!                 vk_1, vi = T.axis.remap("RS", [k_1, i])
//!                 with T.init():
//!                     S[vi] = 0.0
//!                     Q[vi] = 0.0
//!                 v_S: T.let[T.float32] = S[vi] + S_rf[vi, vk_1]
//!                 v_Q: T.let[T.float32] = Q[vi] + Q_rf[vi, vk_1]
//!                 S[vi] = v_S
//!                 Q[vi] = v_Q
//! ```
//!
//! # Implementation
//!
//! Vectorises reductions whose results are tuples, which tiles of registers do not serve.
//!
//! *When*: a reduction block that writes several buffers and is bound to its loops one by one. *What*: where it reads
//! consecutive elements with the reduction, `rfactor` of its inner part, computed next to the rest; where it reads them
//! with the innermost axis of the results, `reorder`. If that axis is short, or no multiple of a vector, it is first fused
//! with the axes before it that lie behind one another in all that the block reads and writes. *Why*: a chain of
//! comparisons, one for each element, takes its latency each time.

use super::super::access::Access;
use super::super::analysis::{is_trivial_binding, live_block};
use super::super::draft::Draft;
use super::Rule;
use super::add_rfactor::fuse_reductions;
use crate::ir::{BlockId, Func, IterKind};
use crate::machine::Core;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct TupleLanes {
    /// The machine whose vectors are filled.
    pub machine: Core,
}

/// Maximum number of vectors of partial results.
const VECTORS: i64 = 4;

/// The axis along which elements are contiguous.
enum Along {
    Reduction,
    /// The results, with the positions of the axes among the iteration variables that are walked as one.
    Results(Vec<usize>),
}

impl Rule for TupleLanes {
    fn name(&self) -> &'static str {
        "tuple_lanes"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some((index, id)) = live_block(&draft.sch, block) else { return Ok(vec![draft]) };
        let func = draft.sch.func(index);
        let lanes = func.block(id).writes.iter().map(|w| self.machine.lanes(func.arena.buffer(w.buffer).dtype)).min();
        let lanes = lanes.unwrap_or(1);
        let most = lanes * VECTORS;
        let Some(along) = along(func, id, lanes) else { return Ok(vec![draft]) };
        let mut wide = draft.clone();
        let done = match along {
            Along::Reduction => {
                let n = extent_of(func, id, IterKind::Reduce);
                let factor = (1..=2 * lanes).rev().find(|f| n % f == 0).unwrap_or(1);
                partial(&mut wide.sch, index, block, most, [n / factor, factor])
            }
            Along::Results(axes) => innermost(&mut wide.sch, block, (index, id), &axes, most),
        };
        // What a primitive refuses, such as an unknown combiner, leaves the unchanged sketch.
        Ok(done.is_ok().then_some(wide).into_iter().chain([draft]).collect())
    }
}

/// The axis along which all that a reduction of several values reads is contiguous, or constant. Vectors have `lanes`.
fn along(func: &Func, block: BlockId, lanes: i64) -> Option<Along> {
    let node = func.block(block);
    let constant = node.iters.iter().all(|i| func.arena.as_int(i.extent).is_some());
    if block == func.root || node.writes.len() < 2 || !constant || !is_trivial_binding(func, block) {
        return None;
    }
    let last =
        |kind: IterKind| node.iters.iter().rposition(|i| i.kind == kind && func.arena.as_int(i.extent) != Some(1));
    let reduction = last(IterKind::Reduce)?;
    let vars: Vec<_> = node.iters.iter().map(|i| i.var).collect();
    let written = |buffer| node.writes.iter().any(|w| w.buffer == buffer);
    let inputs: Vec<Access> = (node.reads.iter().filter(|r| !written(r.buffer)))
        .map(|r| Access::of(func, r, &vars))
        .collect::<Option<_>>()?;
    let contiguous = |axis: usize| {
        inputs.iter().any(|i| i.strides[axis] == 1) && inputs.iter().all(|i| matches!(i.strides[axis], 0 | 1))
    };
    let results = last(IterKind::Spatial);
    if contiguous(reduction) {
        return Some(Along::Reduction);
    }
    let axis = results.filter(|&axis| contiguous(axis))?;
    let extent = |axis: usize| func.arena.as_int(node.iters[axis].extent).unwrap_or(1);
    let fills_vectors = extent(axis) >= lanes * VECTORS && extent(axis) % lanes == 0;
    let outputs = node.writes.iter().map(|w| Access::of(func, w, &vars)).collect::<Option<Vec<Access>>>();
    let Some(outputs) = outputs.filter(|_| !fills_vectors) else { return Some(Along::Results(vec![axis])) };
    let mut run = vec![axis];
    for outer in (0..axis).rev().filter(|&i| node.iters[i].kind == IterKind::Spatial && extent(i) != 1) {
        let follows = |a: &Access| a.strides[outer] == a.strides[run[0]] * extent(run[0]);
        if !inputs.iter().chain(&outputs).all(follows) {
            break;
        }
        run.insert(0, outer);
    }
    Some(Along::Results(run))
}

/// Number of iterations of the axes of a kind.
fn extent_of(func: &Func, block: BlockId, kind: IterKind) -> i64 {
    let axes = func.block(block).iters.iter().filter(|i| i.kind == kind);
    axes.filter_map(|i| func.arena.as_int(i.extent)).fold(1, i64::saturating_mul)
}

/// Partial results in up to `most` lanes, next to their combination; `factors` is the most promising decision.
fn partial(sch: &mut Schedule, index: usize, block: Rv, most: i64, factors: [i64; 2]) -> Result<(), ScheduleError> {
    let (fused, n_spatial) = fuse_reductions(sch, index, block)?;
    let factors = sch.choose_tile(fused, most, factors.to_vec())?;
    let parts = sch.split(fused, factors.iter().map(Arg::from).collect())?;
    let partial = sch.rfactor(parts[1], n_spatial as i64)?;
    if let Some(innermost) = n_spatial.checked_sub(1) {
        let place = sch.get_loops(block)?[innermost];
        sch.compute_at(partial, place, true)?;
    }
    // The lanes are the first of its own loops, the rest of the reduction the last.
    let loops = sch.get_loops(partial)?;
    match (loops.get(n_spatial), loops.last()) {
        (Some(&lanes), Some(&reduction)) if lanes != reduction => sch.reorder(&[reduction, lanes]),
        _ => Ok(()),
    }
}

/// Axes of the results, fused, go innermost, in pieces of `most`.
fn innermost(
    sch: &mut Schedule,
    block: Rv,
    (index, id): (usize, BlockId),
    axes: &[usize],
    most: i64,
) -> Result<(), ScheduleError> {
    let iters = &sch.func(index).block(id).iters;
    let kinds: Vec<IterKind> = iters.iter().map(|i| i.kind).collect();
    let extents = axes.iter().map(|&axis| sch.func(index).arena.as_int(iters[axis].extent));
    let extent = extents.into_iter().try_fold(1i64, |n, extent| n.checked_mul(extent?));
    let loops = sch.get_loops(block)?;
    let of = |kind: IterKind| {
        (0..loops.len()).filter(|i| !axes.contains(i) && kinds[*i] == kind).map(|i| loops[i]).collect()
    };
    let [mut order, reductions]: [Vec<Rv>; 2] = [IterKind::Spatial, IterKind::Reduce].map(of);
    let whole = match axes {
        [axis] => loops[*axis],
        _ => {
            let run: Vec<Rv> = axes.iter().map(|&axis| loops[axis]).collect();
            sch.reorder(&[&order[..], &run, &reductions].concat())?;
            sch.fuse(&run)?
        }
    };
    let (outer, inner) = if extent.is_some_and(|n| n > most) {
        let parts = sch.split(whole, vec![Arg::None, most.into()])?;
        (Some(parts[0]), parts[1])
    } else {
        (None, whole)
    };
    order.extend(outer.into_iter().chain(reductions).chain([inner]));
    sch.reorder(&order)
}
