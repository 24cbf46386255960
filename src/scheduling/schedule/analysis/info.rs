//! Computes [`BlockInfo`]s, as TVM's `ScheduleState` does (`src/s_tir/schedule/state.cc`).
//!
//! All blocks are analysed when a schedule begins. Later, loop transformations change nothing here. A primitive that
//! makes blocks either analyses their scope again ([`update_scope_info`]), states their properties, or marks them as
//! unknown ([`set_unknown_info`]).

use super::super::state::{BlockInfo, State};
use super::affine::is_affine_binding;
use super::dependence::Scope;
use super::region_cover::is_covered;
use crate::ir::BlockId;

/// Marks the properties of a new block as unknown.
pub(crate) fn set_unknown_info(state: &mut State, b: BlockId) {
    state.set_info(b, BlockInfo { affine_binding: false, region_cover: false, stage_pipeline: false });
}

/// Analyses a scope again after blocks in it were made, moved or removed: the scope itself and all blocks below it.
///
/// The scope itself is considered without its surroundings: its bindings count as affine if it has no iteration
/// variables, and its reads as covered. A caller with better information sets it afterwards.
pub(crate) fn update_scope_info(state: &mut State, scope: BlockId) {
    let affine_binding = state.func.block(scope).iters.is_empty();
    update_block(state, scope, affine_binding);
}

fn update_block(state: &mut State, b: BlockId, affine_binding: bool) {
    for child in state.func.child_blocks(b.stmt()) {
        let loops = state.func.loops_above(child.stmt());
        let affine_binding = is_affine_binding(&mut state.func, child, &loops);
        update_block(state, child, affine_binding);
    }
    let stage_pipeline = update_region_cover(state, b);
    state.set_info(b, BlockInfo { affine_binding, region_cover: true, stage_pipeline });
}

/// Sets the region cover of the blocks of a scope, and returns whether the scope is a stage pipeline: every block's
/// reads are covered, and no block overwrites a buffer that an earlier one reads.
/// are covered, and no block overwrites what an earlier one reads.
fn update_region_cover(state: &mut State, scope: BlockId) -> bool {
    let deps = Scope::of(&state.func, scope);
    let mut stage_pipeline = true;
    for &consumer in deps.blocks() {
        let covered = is_covered(state, &deps, consumer);
        stage_pipeline &= covered && !deps.overwrites_earlier_reads(&state.func, consumer);
        state.update_info(consumer, |info| info.region_cover = covered);
    }
    stage_pipeline
}
