//! # `add_rfactor`
//!
//! *When*: a reduction to few results: fewer than four per thread, or fewer than eight. *What*: its loops are fused and
//! split by sampled factors; one sketch factors the outer loop into partial results, one the inner loop (`rfactor`),
//! one is unchanged. *Why*: otherwise a full reduction occupies only one core and one lane. TVM's rule, fired less
//! often.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(4096), B: T.Buffer(1)):
//!     for k in range(4096):
//!         with T.sblock("B"):
//!             vk = T.axis.reduce(4096, k)
//!             with T.init():
//!                 B[0] = 0.0
//!             B[0] = B[0] + A[vk]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer(4096), B: T.Buffer(1)):
//!     B_rf = T.sblock_alloc_buffer((32, 1))
//!     for k_0, k_1 in T.grid(32, 128):
//!         with T.sblock("B_rf"):
//!             vk_0, vk_1 = T.axis.remap("SR", [k_0, k_1])
//!             with T.init():
//!                 B_rf[vk_0, 0] = 0.0
//!             B_rf[vk_0, 0] = B_rf[vk_0, 0] + A[vk_0 * 128 + vk_1]
//!     for k_0 in range(32):
//!         with T.sblock("B"):
//!             vk_0 = T.axis.reduce(32, k_0)
//!             T.sblock_attr({"meta_schedule.random_compute_producer": 1})
//!             with T.init():
//!                 B[0] = 0.0
//!             B[0] = B[0] + B_rf[vk_0, 0]
//! ```
//!
//! # Implementation
//!
//! Factors long reductions, so that their parts can run in parallel.
//!
//! *When*: a reduction block with plain bindings and one output; if tiling serves it too, only if the reduction has
//! more work than the spatial loops have parallelism. *What*: all reduction loops are fused into one innermost loop,
//! which is split in two by sampled factors; one schedule factors the outer part, one the inner, and one is unchanged.
//! *Why*: otherwise a full reduction occupies only one core and one lane.
//!
//! ```text
//! for i, k: B[i] += A[i, k]
//! # becomes
//! for i, k0, k1: B_rf[i, k0] += A[i, k0 * f + k1]
//! for i, k0: B[i] += B_rf[i, k0]
//! ```
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/add_rfactor.cc`.

use super::super::analysis::{const_extent, is_trivial_binding, live_block, loop_iter_kind};
use super::super::draft::Draft;
use super::Rule;
use super::multi_level_tiling::{TILED, needs_tiling};
use crate::ir::{BlockId, IterKind, LoopId};
use crate::machine::Core;
use crate::schedule::Schedule;
use crate::schedule::analysis::block_class::is_reduction_block;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct AddRFactor {
    /// Spatial parallelism above which a reduction that tiling serves is not factored.
    pub max_parallel_extent: i64,
    /// Spatial parallelism above which a reduction that tiling does not serve is not factored.
    pub max_untiled_extent: i64,
    /// Maximum extent of the inner part.
    pub max_innermost_factor: i64,
    /// Whether to factor only blocks whose bindings are their loops.
    pub plain_bindings: bool,
}

/// The annotation of a block whose producer gets a random compute location.
pub(crate) const RANDOM_PRODUCER: &str = "meta_schedule.random_compute_producer";

impl AddRFactor {
    /// TVM's default CPU parameters for a machine with `cores` cores.
    pub(crate) fn tvm(cores: usize) -> Self {
        AddRFactor {
            max_parallel_extent: 16 * cores as i64,
            max_untiled_extent: i64::MAX,
            max_innermost_factor: 64,
            plain_bindings: true,
        }
    }

    /// Factors only if there are fewer results than threads or vector lanes; otherwise rows are reduced in parallel.
    pub(crate) fn for_machine(machine: &Core) -> Self {
        AddRFactor {
            max_parallel_extent: 0,
            max_untiled_extent: (machine.threads * 4).max(8),
            max_innermost_factor: i64::MAX >> 32,
            plain_bindings: false,
        }
    }

    fn fits(&self, sch: &Schedule, index: usize, block: BlockId) -> bool {
        let func = sch.func(index);
        let node = func.block(block);
        let Some(scope) = func.block_above(block.stmt()) else { return false };
        if node.writes.len() != 1
            || !is_reduction_block(&sch.states[index], block, scope)
            || self.plain_bindings && !is_trivial_binding(func, block)
            || node.annotations.get(TILED).is_some()
        {
            return false;
        }
        let loops = func.loops_above(block.stmt());
        let inner = loops.iter().skip(1).map(|l| l.stmt()).chain([block.stmt()]);
        if !loops.iter().zip(inner).all(|(&l, inside)| func.loop_(l).body[..] == [inside]) {
            return false;
        }
        let (mut space, mut reduce, mut reduces) = (1i64, 1i64, false);
        for &l in &loops {
            let (kind, extent) = (loop_iter_kind(func, l), const_extent(func, l));
            match (kind, extent) {
                (IterKind::Spatial, Some(n)) => space = space.saturating_mul(n),
                (IterKind::Reduce, Some(n)) => {
                    reduce = reduce.saturating_mul(n);
                    reduces = true;
                }
                (IterKind::Scan | IterKind::Opaque, _) | (_, None) => return false,
            }
        }
        if !reduces {
            return false;
        }
        match needs_tiling(func, block) {
            true => space < reduce && space <= self.max_parallel_extent,
            false => reduce > 1 && space <= self.max_untiled_extent,
        }
    }
}

impl Rule for AddRFactor {
    fn name(&self) -> &'static str {
        "add_rfactor"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl AddRFactor {
    fn schedules(&self, sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        let Some((index, id)) = live_block(&sch, block) else { return Ok(vec![sch]) };
        if !self.fits(&sch, index, id) {
            return Ok(vec![sch]);
        }
        let mut factored = sch.clone();
        let (fused, n_spatial) = fuse_reductions(&mut factored, index, block)?;
        let factors = factored.sample_perfect_tile(fused, 2, self.max_innermost_factor)?;
        let parts = factored.split(fused, factors.iter().map(Arg::from).collect())?;
        let mut results = Vec::with_capacity(3);
        for part in parts {
            let mut one = factored.clone();
            // A reduction with an unknown combiner cannot be factored; only the unchanged schedule remains.
            let Ok(partial) = one.rfactor(part, n_spatial as i64) else { continue };
            one.get_loops(partial)?;
            one.annotate(block, RANDOM_PRODUCER, 1)?;
            results.push(one);
        }
        results.push(sch);
        Ok(results)
    }
}

/// Moves the reduction loops inwards and fuses them; returns the fused loop and the number of spatial loops.
pub(super) fn fuse_reductions(sch: &mut Schedule, index: usize, block: Rv) -> Result<(Rv, usize), ScheduleError> {
    let loops = sch.get_loops(block)?;
    let ids: Vec<LoopId> = match live_block(sch, block) {
        Some((_, b)) => sch.func(index).loops_above(b.stmt()),
        None => Vec::new(),
    };
    let func = sch.func(index);
    let reduces: Vec<bool> = ids.iter().map(|&l| loop_iter_kind(func, l) == IterKind::Reduce).collect();
    let of = |wanted: bool| -> Vec<Rv> {
        loops.iter().zip(&reduces).filter(|&(_, &r)| r == wanted).map(|(&l, _)| l).collect()
    };
    let (spatial, reduction) = (of(false), of(true));
    let order = [&spatial[..], &reduction[..]].concat();
    if order != loops {
        sch.reorder(&order)?;
    }
    let fused = match reduction[..] {
        [one] => one,
        _ => sch.fuse(&reduction)?,
    };
    Ok((fused, spatial.len()))
}
