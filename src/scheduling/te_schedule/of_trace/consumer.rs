//! `reverse_compute_at`: a consumer in a loop of its producer.

use super::{Done, Reader, rvs, wrong};
use crate::diagnostic::Span;
use crate::ir::{BlockId, BufferRegion, Func, VarId};
use crate::schedule::arg::{Arg, RvValue};
use crate::te_schedule::axis::AxisId;
use crate::te_schedule::stage::{StageId, Stages};
use crate::te_schedule::{Attach, Mistake};
use hashbrown::HashMap;

impl Reader {
    pub(super) fn reverse_compute_at(&mut self, block: &Arg, target: &Arg, at: Span) -> Done {
        match target {
            Arg::Rv(rv) if matches!(self.schedule.value(*rv), Ok(RvValue::AtRoot)) => return Ok(()),
            Arg::Rv(rv) if matches!(self.schedule.value(*rv), Ok(RvValue::Inlined)) => {
                return wrong("a stage cannot be inlined into the one that it reads");
            }
            _ => {}
        }
        let consumer = self.stage(block)?;
        let Some(axes) = self.axes(&rvs(target), &[])? else { return wrong("the loop belongs to no stage") };
        let (producer, axes) = self.of_one_stage(axes)?;
        let Some(block) = self.block_id(block) else { return wrong("the block is no stage") };
        let matching = self.matching(producer, consumer, block)?;
        let done = self.stages.hand_over(producer, axes[0], consumer, &matching, at)?;
        self.loops.retain(|_, (stage, _)| *stage != consumer);
        for (stage, axis) in self.loops.values_mut().filter(|(stage, _)| *stage == producer) {
            match (done.outer.get(axis), done.inner.get(axis)) {
                (Some(&of_consumer), _) => (*stage, *axis) = (consumer, of_consumer),
                (None, Some(&of_tile)) => *axis = of_tile,
                (None, None) => {}
            }
        }
        self.adopt(consumer, block, &done.rest)
    }

    /// The axes of a consumer that are the indices at which it reads its producer, for the producer's axes.
    fn matching(
        &self,
        producer: StageId,
        consumer: StageId,
        reader: BlockId,
    ) -> Result<HashMap<AxisId, AxisId>, Mistake> {
        let f = self.program();
        let (p, c) = (&self.stages.stage(producer).name, &self.stages.stage(consumer).name);
        let mut blocks = f.blocks().into_iter();
        let writer = blocks.find(|&b| b != reader && self.blocks.get(&f.block(b).name) == Some(&producer));
        let write = writer.and_then(|b| Some((b, f.block(b).writes.first()?)));
        let Some((writer, write)) = write else { return wrong("the loop belongs to no stage") };
        let mut reads = f.block(reader).reads.iter().filter(|r| r.buffer == write.buffer);
        let read = match (reads.next(), reads.next()) {
            (Some(read), None) => read,
            (Some(_), Some(_)) => return wrong(format!("`{c}` reads `{p}` at several places")),
            (None, _) => return wrong(format!("the loop is one of `{p}`, which `{c}` does not read")),
        };
        let written = self.indices(f, producer, writer, write);
        let read = self.indices(f, consumer, reader, read);
        let mut pairs = HashMap::new();
        for (written, read) in written.into_iter().zip(read) {
            let (Some(written), Some(read)) = (written, read) else { continue };
            if pairs.values().any(|&other| other == read) {
                return wrong(format!("`{c}` reads `{p}` at one index in two dimensions"));
            }
            let extents = [written, read].map(|a| self.stages.axis(a).extent);
            if extents[0].is_some() && extents[0] == extents[1] {
                pairs.insert(written, read);
            }
        }
        Ok(pairs)
    }

    /// The axes that are the indices of single elements of a region, by dimensions.
    fn indices(&self, f: &Func, stage: StageId, block: BlockId, region: &BufferRegion) -> Vec<Option<AxisId>> {
        let iters = &f.block(block).iters;
        let instances = self.instances.get(&stage).filter(|all| all.len() == iters.len());
        let axis_of = |v: VarId| {
            let position = iters.iter().position(|i| i.var == v)?;
            instances.and_then(|all| all.get(position).copied())
        };
        let (mins, extents) = (f.arena.list(region.mins), f.arena.list(region.extents));
        let index = |(&min, &extent)| match f.arena.as_int(extent) {
            Some(1) => f.arena.as_var(min).and_then(axis_of),
            _ => None,
        };
        mins.iter().zip(extents).map(index).collect()
    }
}

/// The first stage that is computed in a loop of another one although a stage outside of this loop reads it, and the call.
pub(super) fn read_outside(stages: &Stages) -> Option<(StageId, StageId, Span)> {
    let is_within = |mut stage: StageId, parent: StageId| {
        // A stage is attached to one that reads it, so that this ends.
        for _ in stages.ids() {
            match stages.stage(stage).attach.0 {
                _ if stage == parent => return true,
                Attach::At(next, _) => stage = next,
                Attach::Root | Attach::Inline => return false,
            }
        }
        false
    };
    stages.ids().find_map(|id| {
        let (Attach::At(parent, _), at) = stages.stage(id).attach else { return None };
        let mut open = stages.readers(id);
        while let Some(reader) = open.pop() {
            match stages.stage(reader).attach.0 {
                Attach::Inline => open.extend(stages.readers(reader)),
                Attach::Root | Attach::At(..) if is_within(reader, parent) => {}
                Attach::Root | Attach::At(..) => return Some((id, reader, at)),
            }
        }
        None
    })
}
