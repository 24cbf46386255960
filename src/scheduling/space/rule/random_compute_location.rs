//! Moves untiled producers to a random location among the loops of their consumers.
//!
//! *When*: a block directly under the root, alone in its nest, not tiled, with a consumer. *What*:
//! `sample_compute_location` and `compute_at`; then likewise for the producer of a block that `add_rfactor` factored.
//! *Why*: a block computed near its use may find its data in the cache, or be recomputed too often; measurement
//! decides.
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/random_compute_location.cc`.

use super::super::analysis::live_block;
use super::super::draft::Draft;
use super::Rule;
use super::add_rfactor::RANDOM_PRODUCER;
use super::multi_level_tiling::TILED;
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct RandomComputeLocation;

impl Rule for RandomComputeLocation {
    fn name(&self) -> &'static str {
        "random_compute_location"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl RandomComputeLocation {
    fn schedules(&self, mut sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        if !fits(&sch, block) {
            return Ok(vec![sch]);
        }
        let marked = live_block(&sch, block)
            .is_some_and(|(f, b)| sch.func(f).block(b).annotations.get(RANDOM_PRODUCER).is_some());
        // Look up the producers first, since the block itself may be inlined.
        let mut producers = Vec::new();
        if marked {
            producers = sch.get_producers(block)?;
            sch.unannotate(block, RANDOM_PRODUCER)?;
        }
        place(&mut sch, block)?;
        if let Some(&producer) = producers.first() {
            place(&mut sch, producer)?;
        }
        Ok(vec![sch])
    }
}

fn place(sch: &mut Schedule, block: Rv) -> Result<(), ScheduleError> {
    let location = sch.sample_compute_location(block, None)?;
    sch.compute_at(block, location, true)
}

/// Whether the block is alone in a nest directly under the root, with a consumer.
pub(crate) fn fits(sch: &Schedule, rv: Rv) -> bool {
    let Some((index, block)) = live_block(sch, rv) else { return false };
    let func = sch.func(index);
    let loops = func.loops_above(block.stmt());
    let Some(outermost) = loops.first() else { return false };
    func.block_above(block.stmt()) == Some(func.root)
        && func.child_blocks(outermost.stmt()).len() == 1
        && func.block(block).annotations.get(TILED).is_none()
        && Scope::of(func, func.root).has_consumer(func, block)
}
