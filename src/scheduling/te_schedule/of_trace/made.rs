//! Stages that instructions make: `cache_read`, `cache_write`, `rfactor`; and the parts of a reduction.

use super::{Done, Reader, block_called, rvs, wrong};
use crate::diagnostic::Span;
use crate::ir::{BlockId, BufferId, LoopId, Symbol};
use crate::schedule::Instruction;
use crate::schedule::arg::Arg;
use crate::te_schedule::axis::AxisId;
use crate::te_schedule::stage::{Definition, StageId};
use hashbrown::HashMap;

impl Reader {
    pub(super) fn cache_read(&mut self, inst: &Instruction, at: Span) -> Done {
        let stage = self.stage(&inst.args[0])?;
        let (Some(Arg::Str(scope)), Some(&copy)) = (inst.args.get(2), inst.outputs.first()) else {
            return wrong("the memory has no name");
        };
        let Some(block) = self.block_id(&Arg::Rv(copy)) else { return wrong("the copy does not exist") };
        let mut readers = vec![stage];
        if let Some(Arg::List(more)) = inst.args.get(3) {
            for more in more {
                let more = self.stage(more)?;
                if !readers.contains(&more) {
                    readers.push(more);
                }
            }
        }
        let f = self.program();
        let source = f.block(block).reads.first().map(|r| r.buffer);
        let Some(of) = source.and_then(|b| self.stage_of_buffer(b)) else { return wrong("it copies no tensor") };
        let name = f.block(block).name;
        if self.prepares {
            return self.prepared_copy(block, of);
        }
        let made = self.stages.cache_read(of, scope.as_str(), &readers, at)?;
        self.new_stage(made, name, block)
    }

    /// The stage whose tensor is a buffer.
    pub(super) fn stage_of_buffer(&self, buffer: BufferId) -> Option<StageId> {
        let f = self.program();
        if let Some(position) = f.param_of(buffer)
            && let Some(input) =
                self.stages.ids().find(|&s| self.stages.stage(s).definition == Definition::Input(position))
        {
            return Some(input);
        }
        let mut blocks = f.blocks().into_iter().filter(|&b| b != f.root);
        let writer = blocks.find(|&b| f.block(b).writes.iter().any(|r| r.buffer == buffer))?;
        let name = f.block(writer).name;
        self.blocks.get(&name).copied().or_else(|| self.prepared_from(name))
    }

    /// Finds the loops of a stage that an instruction made.
    fn new_stage(&mut self, stage: StageId, name: Symbol, block: BlockId) -> Done {
        let axes = self.stages.stage(stage).axes.clone();
        if self.program().block(block).iters.len() != axes.len() {
            return wrong("it copies a part of a tensor");
        }
        self.blocks.insert(name, stage);
        self.instances.insert(stage, axes);
        self.adopt(stage, block, &HashMap::new())
    }

    pub(super) fn cache_write(&mut self, inst: &Instruction, at: Span) -> Done {
        let of = self.stage(&inst.args[0])?;
        let (Some(Arg::Str(scope)), Some(&copy)) = (inst.args.get(2), inst.outputs.first()) else {
            return wrong("the memory has no name");
        };
        let (Some(computing), Some(block)) = (self.block_id(&inst.args[0]), self.block_id(&Arg::Rv(copy))) else {
            return wrong("the copy does not exist");
        };
        let before = self.stages.stage(of).axes.clone();
        let made = self.stages.cache_write_of_nest(of, scope.as_str(), at)?;
        let axes = self.stages.stage(made).axes.clone();
        let moved =
            |axis: AxisId| before.iter().position(|&a| a == axis).and_then(|p| axes.get(p).copied()).unwrap_or(axis);
        for (stage, axis) in self.loops.values_mut().filter(|(s, _)| *s == of) {
            (*stage, *axis) = (made, moved(*axis));
        }
        let instances = self.instances.remove(&of).unwrap_or_default().into_iter().map(moved).collect();
        self.instances.insert(made, instances);
        let f = self.program();
        let (computing, copying) = (f.block(computing).name, f.block(block).name);
        self.blocks.insert(computing, made);
        self.new_stage(of, copying, block)
    }

    pub(super) fn rfactor(&mut self, inst: &Instruction, at: Span) -> Done {
        let Some(axes) = self.axes(&rvs(&inst.args[0]), &[])? else { return wrong("the loop belongs to no stage") };
        let (of, axes) = self.of_one_stage(axes)?;
        let (Some(Arg::Int(dimension)), Some(&rf)) = (inst.args.get(1), inst.outputs.first()) else {
            return wrong("the dimension is drawn");
        };
        let Some(partial_block) = self.block_id(&Arg::Rv(rf)) else { return wrong("the partial results do not exist") };
        let name = self.blocks.iter().find(|(_, s)| **s == of).map(|(n, _)| *n);
        let Some(name) = name else { return wrong("the block is no stage") };
        let nest = self.stages.rfactor_of_nest(of, axes[0], *dimension, at)?;
        let partial = nest.partial;
        self.loops.retain(|_, (s, _)| *s != of);
        let f = self.program();
        let result_block = block_called(f, name);
        let partial_name = f.block(partial_block).name;
        let nests = [(partial, Some(partial_block)), (of, result_block)];
        let mut found = Vec::new();
        for (stage, block) in nests {
            let axes = &self.stages.stage(stage).leaves;
            let Some(block) = block else { return wrong("the block is no stage") };
            let loops = f.loops_above(block.stmt());
            if loops.len() != axes.len() {
                return wrong("the partial results have other loops than the reduction");
            }
            found.extend(loops.into_iter().zip(axes).map(|(l, &axis)| (l, (stage, axis))));
        }
        self.loops.extend(found);
        self.blocks.insert(partial_name, partial);
        // The variable of the axis comes first in both blocks.
        for (stage, first) in [(of, nest.combined), (partial, nest.factored)] {
            let others = self.stages.stage(stage).axes.iter().copied().filter(|&a| a != first);
            let order = std::iter::once(first).chain(others).collect();
            self.instances.insert(stage, order);
        }
        Ok(())
    }

    /// A reduction is decomposed: the block that sets the elements first belongs to its stage, too.
    pub(super) fn decompose(&mut self, inst: &Instruction) -> Done {
        let Some(&initial) = inst.outputs.first() else { return Ok(()) };
        let Some(initial) = self.block_id(&Arg::Rv(initial)) else { return Ok(()) };
        let f = self.program();
        let loops: Vec<LoopId> =
            f.loops_above(initial.stmt()).into_iter().filter(|l| !self.loops.contains_key(l)).collect();
        let name = f.block(initial).name.to_string();
        let of = name.strip_suffix("_init").map(Symbol::new).and_then(|n| self.blocks.get(&n).copied());
        let rest = name.strip_suffix("_init").map(|n| Symbol::new(format!("{n}_update").as_str()));
        self.silent.extend(loops);
        if let (Some(of), Some(rest)) = (of, rest) {
            self.blocks.insert(rest, of);
        }
        Ok(())
    }
}
