//! # `near_consumer`
//!
//! *When*: a block directly under the root, alone in its nest, not tiled, with a consumer. *What*:
//! `sample_compute_location` and `compute_at`. *Why*: a row of a softmax, or a channel of a padded image, is then used
//! while it is in the nearest cache; but some locations recompute the block many times. *Seeds*: locations with little
//! recomputation and full vectors, the smallest intermediate buffer first, those with single sums last; then the root.
//!
//! ```python
//! @T.prim_func
//! def before(E: T.Buffer((64, 128)), B: T.Buffer((64, 128))):
//!     S = T.sblock_alloc_buffer(64)
//!     for i, k in T.grid(64, 128):
//!         with T.sblock("S"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 S[vi] = 0.0
//!             S[vi] = S[vi] + E[vi, vk]
//!     for i, j in T.grid(64, 128):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = E[vi, vj] / S[vi]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(E: T.Buffer((64, 128)), B: T.Buffer((64, 128))):
//!     S = T.sblock_alloc_buffer(64)
//!     for i in range(64):
//!         for ax0, ax1 in T.grid(1, 128):
//!             with T.sblock("S"):
//!                 vi = T.axis.spatial(64, i + ax0)
//!                 vk = T.axis.reduce(128, ax1)
//!                 with T.init():
//!                     S[vi] = 0.0
//!                 S[vi] = S[vi] + E[vi, vk]
//!         for j in range(128):
//!             with T.sblock("B"):
//!                 vi, vj = T.axis.remap("SS", [i, j])
//!                 B[vi, vj] = E[vi, vj] / S[vi]
//! ```
//!
//! # Implementation
//!
//! Computes a block near its use, at a sampled loop of its consumers.
//!
//! *When*: a block directly under the root, alone in its nest, not tiled, with a consumer. *What*:
//! `sample_compute_location` and `compute_at`. *Why*: a row of a softmax, or a channel of a padded image, is then used
//! while it is in the nearest cache; but some locations recompute the block many times. The first choice is the
//! location with the smallest intermediate buffer at which nothing is recomputed, except one where each piece is a
//! single sum.
//!
//! ```text
//! for i, k: S[i] += E[i, k]
//! for i, j: B[i, j] = E[i, j] / S[i]
//! # becomes
//! for i:
//!     for k: S[i] += E[i, k]
//!     for j: B[i, j] = E[i, j] / S[i]
//! ```
//!
//! Corresponds to TVM's `random_compute_location`.

use super::super::analysis::{const_extent, is_spatial, live_block};
use super::super::cases::axis_of_cases;
use super::super::draft::Draft;
use super::super::reason::Reason;
use super::Rule;
use super::random_compute_location;
use crate::ir::visit::uses_var;
use crate::ir::{BlockId, Func, IterKind, LoopId};
use crate::machine::Core;
use crate::schedule::Schedule;
use crate::schedule::analysis::location::{Location, compute_locations};
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct NearConsumer {
    /// The machine whose vectors the block should fill.
    pub machine: Core,
    /// Rank of the location to choose, 0 being the most promising.
    pub variant: usize,
}

/// The decision of `sample_compute_location` that leaves a block under the root.
const AT_ROOT: i64 = -1;
/// Maximum share of recomputation at a promising location.
const REPEATED: f64 = 0.25;
/// Minimum number of vectors that a piece of a block without reduction should have.
const VECTORS: i64 = 4;

impl Rule for NearConsumer {
    fn name(&self) -> &'static str {
        "near_consumer"
    }

    fn decides(&self) -> bool {
        true
    }

    fn apply(&self, mut draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let of_block = draft.deinterleaved.iter().filter(|d| d.block == block && d.is_new);
        let copies: Vec<Rv> = of_block.map(|d| d.copy).collect();
        for copy in copies.into_iter().chain([block]) {
            draft = self.placed(draft, copy)?;
        }
        Ok(vec![draft])
    }
}

impl NearConsumer {
    /// The draft with a block at a sampled place.
    fn placed(&self, mut draft: Draft, block: Rv) -> Result<Draft, ScheduleError> {
        if draft.tiled(block).is_some() || !random_compute_location::fits(&draft.sch, block) {
            return Ok(draft);
        }
        let Some(decision) = self.decision(&mut draft.sch, block) else {
            draft.note_reason(block, Reason::Rules);
            return Ok(draft);
        };
        if decision == AT_ROOT {
            // This step moves nothing and is never refused, so no copy of the schedule is needed.
            let place = draft.sch.sample_compute_location(block, Some(decision))?;
            draft.sch.compute_at(block, place, true)?;
            return Ok(draft);
        }
        let mut moved = draft.clone();
        let done = moved.sch.sample_compute_location(block, Some(decision));
        let done = done.and_then(|place| moved.sch.compute_at(block, place, true));
        Ok(if done.is_ok() { moved } else { draft })
    }

    /// The decision of `sample_compute_location`. Locations with little recomputation and wide enough pieces are ranked:
    /// those with single sums go last, smaller pieces first. The root if there are too few; `None` if there is no other place.
    fn decision(&self, sch: &mut Schedule, block: Rv) -> Option<i64> {
        let (index, id) = live_block(sch, block)?;
        let places = compute_locations(&mut sch.states[index], id).ok()?;
        if places.len() < 2 {
            return None;
        }
        let before = iterations(sch.func(index), id).0;
        let mut found: Vec<(bool, i64, i64)> = Vec::new();
        for place in places.into_iter().filter(|p| matches!(p, Location::Loop(..))) {
            let mut probe = sch.clone();
            let moved = probe.sample_compute_location(block, Some(place.decision()));
            if moved.and_then(|l| probe.compute_at(block, l, true)).is_err() {
                continue;
            }
            let Some((index, id)) = live_block(&probe, block) else { continue };
            let func = probe.func(index);
            let (all, piece) = iterations(func, id);
            let lanes =
                func.block(id).writes.first().map_or(1, |w| self.machine.lanes(func.arena.buffer(w.buffer).dtype));
            let fills_vectors = !is_spatial(func, id) || piece >= VECTORS * lanes;
            if all as f64 <= before as f64 * (1.0 + REPEATED) && fills_vectors && has_all_cases(func, id) {
                // A single sum waits for its own latency, with nothing to overlap it.
                let waits = !is_spatial(func, id) && piece < 2;
                found.push((waits, piece, place.decision()));
            }
        }
        found.sort_unstable();
        Some(found.get(self.variant / 2).map_or(AT_ROOT, |&(.., decision)| decision))
    }
}

/// Whether the block's own nest computes all cases together, if it chooses among some.
fn has_all_cases(func: &Func, id: BlockId) -> bool {
    axis_of_cases(func, id).is_none_or(|axis| {
        let binding = func.block(id).iters[axis].value;
        let is_over_cases = |&l: &LoopId| {
            let var = func.loop_(l).var;
            func.child_blocks(l.stmt()) == [id]
                && const_extent(func, l) != Some(1)
                && uses_var(&func.arena, binding, &mut |v| v == var)
        };
        func.loops_above(id.stmt()).iter().any(is_over_cases)
    })
}

/// Total number of iterations of a block, and number of results of its own nest.
pub(super) fn iterations(func: &Func, id: BlockId) -> (i64, i64) {
    let (mut all, mut piece) = (1i64, 1i64);
    for l in func.loops_above(id.stmt()) {
        let n = const_extent(func, l).unwrap_or(1);
        all = all.saturating_mul(n);
        let own = func.child_blocks(l.stmt()) == [id];
        if own && super::super::analysis::loop_iter_kind(func, l) == IterKind::Spatial {
            piece = piece.saturating_mul(n);
        }
    }
    (all, piece)
}
