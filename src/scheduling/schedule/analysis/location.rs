//! The candidate locations of `sample_compute_location` for a block (TVM's `CollectComputeLocation`).

use super::super::error::ScheduleError;
use super::super::primitive::compute_at::can_compute_at;
use super::super::primitive::compute_inline::can_inline;
use super::super::state::State;
use super::block_class::scope_dependences;
use super::loop_kind::loop_kind;
use super::tree;
use crate::ir::{BlockId, IterKind, LoopId};

/// A location for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    /// Inlined into its consumers; decision -2.
    Inlined,
    /// Directly under the root; decision -1.
    AtRoot,
    /// Under the loop at this position, from outside, around the first consumer.
    Loop(usize, LoopId),
}

impl Location {
    /// The decision for this location.
    pub(crate) fn decision(self) -> i64 {
        match self {
            Location::Inlined => -2,
            Location::AtRoot => -1,
            Location::Loop(position, _) => position as i64,
        }
    }
}

/// The loops to consider, with their positions around the first consumer, except loops of one iteration, reduction
/// loops after the last spatial loop, and spatial loops inside a reduction loop.
fn loops_worth_trying(state: &State, block: BlockId) -> Result<Vec<(usize, LoopId)>, ScheduleError> {
    let func = &state.func;
    let (_, deps) = scope_dependences(state, block)?;
    // A loop around the first and the last consumer contains those between them.
    let Some([first, last]) = deps.outer_consumers(func, block) else { return Ok(Vec::new()) };
    let boundary = match first == last {
        true => tree::parent(func, first),
        false => tree::common_ancestor(func, &[first.stmt(), last.stmt()]),
    };
    let Some(boundary) = boundary.and_then(|b| func.as_loop(b)) else { return Ok(Vec::new()) };
    let loops = func.loops_above(first.stmt());
    let count = loops.iter().position(|&l| l == boundary).map_or(0, |p| p + 1);
    let kinds: Vec<IterKind> = loops[..count].iter().map(|&l| loop_kind(func, l)).collect();
    let last_spatial = kinds.iter().rposition(|&k| k == IterKind::Spatial);
    let mut found = Vec::new();
    let mut reduction_seen = false;
    for (i, &l) in loops[..count].iter().enumerate() {
        if func.arena.is_int(func.loop_(l).extent, 1) {
            continue;
        }
        if kinds[i] == IterKind::Spatial {
            if reduction_seen {
                break;
            }
        } else {
            reduction_seen = true;
            if last_spatial.is_none_or(|last| i > last) {
                break;
            }
        }
        found.push((i, l));
    }
    Ok(found)
}

/// All candidates, by increasing decision.
///
/// # Errors
///
/// For the root block.
pub(crate) fn compute_locations(state: &mut State, block: BlockId) -> Result<Vec<Location>, ScheduleError> {
    let loops = loops_worth_trying(state, block)?;
    let mut found = Vec::with_capacity(loops.len() + 2);
    if can_inline(state, block) {
        found.push(Location::Inlined);
    }
    found.push(Location::AtRoot);
    for (i, l) in loops {
        if can_compute_at(state, block, l, true) {
            found.push(Location::Loop(i, l));
        }
    }
    Ok(found)
}

/// The candidate of a decision; if it is invalid, the next smaller one, or else the root. Tries as few locations as
/// possible.
///
/// # Errors
///
/// For the root block.
pub(crate) fn compute_location(state: &mut State, block: BlockId, decision: i64) -> Result<Location, ScheduleError> {
    let loops = loops_worth_trying(state, block)?;
    if decision <= -2 {
        return Ok(if decision == -2 && can_inline(state, block) { Location::Inlined } else { Location::AtRoot });
    }
    for &(i, l) in loops.iter().rev().filter(|(i, _)| *i as i64 <= decision) {
        if can_compute_at(state, block, l, true) {
            return Ok(Location::Loop(i, l));
        }
    }
    Ok(Location::AtRoot)
}
