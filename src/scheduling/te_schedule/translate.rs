//! Carries out a schedule of tensor expressions by instructions.
//!
//! 1. Stages that calls made, in the order of the calls: `cache_read`, `cache_write`, `rfactor`.
//! 2. Inlined stages: `compute_inline`.
//! 3. Each other stage after those that read it: `compute_at`, if it is attached, into a loop that exists by then; then its splits,
//!    fusions and new orders, on the loops of its own.
//! 4. What is said of loops and storage, which no loop may have that is still to be split.
//! 5. `decompose_reduction`, where the elements of a reduction are lanes of vectors inside the reduced loops: the elements are set
//!    before these loops, as TVM does it for all schedules of this kind.

use super::attach::Attach;
use super::axis::AxisId;
use super::cached::{Cache, Factor};
use super::note::{LoopUse, Note};
use super::relation::Relation;
use super::stage::{Definition, StageId, Stages};
use super::{Mistake, Refusal, RefusalCause};
use crate::diagnostic::Span;
use crate::ir::BufferId;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, FuncIndex, Rv, RvValue};
use crate::schedule::error::ScheduleError;
use hashbrown::HashMap;

/// Carries out a schedule on a function of a program.
///
/// # Errors
/// An instruction is refused, or a call does not fit the others. The instructions before stay carried out.
pub fn translate(stages: &Stages, schedule: &mut Schedule, func: FuncIndex) -> Result<(), Refusal> {
    let mut t = Translation {
        stages,
        schedule,
        func,
        blocks: HashMap::new(),
        loops: HashMap::new(),
        nests: HashMap::new(),
        instances: HashMap::new(),
    };
    for id in stages.ids() {
        if let Definition::Cache(cache) = &stages.stage(id).definition {
            match cache {
                Cache::Read { of, scope, readers, at } => t.cache_read(id, *of, scope, readers, *at)?,
                Cache::Write { of, scope, at } => t.cache_write(id, *of, scope, *at)?,
                Cache::Factor(factor) => t.rfactor(id, factor)?,
            }
        }
    }
    let order = stages.consumers_first();
    for &id in &order {
        if let (Attach::Inline, at) = stages.stage(id).attach {
            let block = t.block(id, at)?;
            t.schedule.compute_inline(block).map_err(|e| refused(at, e))?;
        }
    }
    for &id in &order {
        t.place(id)?;
    }
    for &id in &order {
        t.notes(id)?;
    }
    for &id in &order {
        t.decompose(id);
    }
    Ok(())
}

/// A translation under way.
struct Translation<'a> {
    stages: &'a Stages,
    schedule: &'a mut Schedule,
    func: FuncIndex,
    /// The blocks of stages, as far as they were looked up.
    blocks: HashMap<StageId, Rv>,
    /// The loops of axes that exist.
    loops: HashMap<AxisId, Rv>,
    /// The axes of stages in the order of their loops as made, if that is not the order of definition.
    nests: HashMap<StageId, Vec<AxisId>>,
    /// The axes of stages in the order of their blocks' iteration variables, if that is not the order of definition.
    instances: HashMap<StageId, Vec<AxisId>>,
}

fn refused(at: Span, error: ScheduleError) -> Refusal {
    Refusal { at, cause: RefusalCause::Schedule(Box::new(error)) }
}

fn mistake(at: Span, mistake: Mistake) -> Refusal {
    Refusal { at, cause: RefusalCause::Mistake(mistake) }
}

impl Translation<'_> {
    fn run(&mut self, name: &str, args: Vec<Arg>, at: Span) -> Result<Vec<Rv>, Refusal> {
        self.schedule.run(name, args).map_err(|e| refused(at, e))
    }

    /// The block that computes a stage.
    fn block(&mut self, stage: StageId, at: Span) -> Result<Rv, Refusal> {
        if let Some(&block) = self.blocks.get(&stage) {
            return Ok(block);
        }
        let s = self.stages.stage(stage);
        let Definition::Block(name) = s.definition else {
            let why = Mistake::new(format!("`{}` has no block of its own, so it cannot be scheduled", s.name));
            return Err(mistake(at, why));
        };
        let func = self.schedule.func(self.func).name;
        let block = self.schedule.get_block(name.as_str(), func.as_str()).map_err(|e| refused(at, e))?;
        self.blocks.insert(stage, block);
        Ok(block)
    }

    /// The buffer of a stage's tensor.
    fn buffer(&mut self, stage: StageId, at: Span) -> Result<Option<BufferId>, Refusal> {
        if let Definition::Input(position) = self.stages.stage(stage).definition {
            return Ok(self.schedule.func(self.func).params.get(position).and_then(|p| p.buffer));
        }
        let block = self.block(stage, at)?;
        let Ok(RvValue::Block(func, b)) = self.schedule.value(block) else { return Ok(None) };
        Ok(self.schedule.func(func).block(b).writes.first().map(|r| r.buffer))
    }

    fn cache_read(
        &mut self,
        copy: StageId,
        of: StageId,
        scope: &str,
        readers: &[StageId],
        at: Span,
    ) -> Result<(), Refusal> {
        let buffer = self.buffer(of, at)?;
        let mut blocks = Vec::with_capacity(readers.len());
        for &reader in readers {
            blocks.push(self.block(reader, at)?);
        }
        let position = match self.schedule.value(blocks[0]) {
            Ok(RvValue::Block(func, b)) => {
                let reads = &self.schedule.func(func).block(b).reads;
                reads.iter().position(|r| Some(r.buffer) == buffer)
            }
            _ => None,
        };
        let Some(position) = position else {
            let (of, reader) = (&self.stages.stage(of).name, &self.stages.stage(readers[0]).name);
            return Err(mistake(at, Mistake::new(format!("the block of `{reader}` does not read `{of}`"))));
        };
        let readers = Arg::List(blocks.iter().map(|&b| Arg::Rv(b)).collect());
        let args = vec![blocks[0].into(), (position as i64).into(), scope.into(), readers];
        let block = self.run("CacheRead", args, at)?;
        self.blocks.extend(block.first().map(|&b| (copy, b)));
        Ok(())
    }

    fn cache_write(&mut self, computing: StageId, of: StageId, scope: &str, at: Span) -> Result<(), Refusal> {
        let block = self.block(of, at)?;
        let copy = self.schedule.cache_write(block, 0, scope).map_err(|e| refused(at, e))?;
        self.blocks.insert(computing, block);
        self.blocks.insert(of, copy);
        // The order of loops and variables is that of the block, which computes the new stage.
        let stages = self.stages;
        let (kept, all) = (&stages.stage(of).axes, &stages.stage(computing).axes);
        let own = |axis: &AxisId| match kept.iter().position(|a| a == axis) {
            Some(position) => all.get(position).copied(),
            None => all.iter().copied().find(|&a| stages.axis(a).is_reduced()),
        };
        for order in [&mut self.nests, &mut self.instances] {
            if let Some(axes) = order.remove(&of) {
                order.insert(computing, axes.iter().filter_map(own).collect());
            }
        }
        Ok(())
    }

    fn rfactor(&mut self, partial: StageId, factor: &Factor) -> Result<(), Refusal> {
        let (stages, at) = (self.stages, factor.at);
        let block = self.block(factor.of, at)?;
        let axes = self.nests.get(&factor.of).unwrap_or(&factor.axes).clone();
        self.own_loops(block, &axes, &stages.stage(factor.of).name, at)?;
        for (relation, at) in &factor.relations {
            self.relation(relation, *at)?;
        }
        let loop_ = self.loop_of(factor.axis, at)?;
        let dimension = factor.dimension as i64;
        let rf = self.schedule.rfactor(loop_, dimension).map_err(|e| refused(at, e))?;
        self.blocks.insert(partial, rf);
        // The axes of both stages, for those of the reduction at the call.
        let mut made: Vec<AxisId> = stages.stage(partial).axes.clone();
        let factored = made.remove(factor.dimension);
        let reduced = factor.leaves.iter().filter(|&&a| a != factor.axis && stages.axis(a).is_reduced());
        let spatial: Vec<AxisId> = factor.axes.iter().copied().filter(|&a| !stages.axis(a).is_reduced()).collect();
        let kept: HashMap<AxisId, AxisId> = spatial.iter().chain(reduced).copied().zip(made.iter().copied()).collect();
        let of_partial = |a: &AxisId| if *a == factor.axis { Some(factored) } else { kept.get(a).copied() };
        let of_result = |a: &AxisId| match *a == factor.axis {
            true => Some(factor.combined),
            false => (!stages.axis(*a).is_reduced()).then_some(*a),
        };
        self.nests.insert(partial, factor.leaves.iter().filter_map(of_partial).collect());
        self.nests.insert(factor.of, factor.leaves.iter().filter_map(of_result).collect());
        self.instances.insert(partial, std::iter::once(factored).chain(made).collect());
        self.instances.insert(factor.of, std::iter::once(factor.combined).chain(spatial).collect());
        for axis in &factor.axes {
            self.loops.remove(axis);
        }
        Ok(())
    }

    /// Puts a stage where it is computed, and replaces its loops.
    fn place(&mut self, id: StageId) -> Result<(), Refusal> {
        let stages = self.stages;
        let stage = stages.stage(id);
        let first = stage.relations.first().map(|(_, at)| *at).or(stage.notes.first().map(|(_, at)| *at));
        let is_parent = || stages.ids().any(|s| matches!(stages.stage(s).attach.0, Attach::At(p, _) if p == id));
        match stage.attach {
            (Attach::Inline, _) => match first {
                Some(at) => {
                    let why = Mistake::new(format!("`{}` is inlined, so it has no loops", stage.name));
                    return Err(mistake(at, why.help("leave the call out")));
                }
                None => return Ok(()),
            },
            (Attach::Root, at) => {
                let order = self.nests.get(&id).unwrap_or(&stage.axes).clone();
                if first.is_none() && !is_parent() && order == stage.axes {
                    return Ok(());
                }
                let at = first.unwrap_or(at);
                let block = self.block(id, at)?;
                self.own_loops(block, &order, &stage.name, at)?;
                self.in_order(&order, &stage.axes, at)?;
            }
            (Attach::At(parent, axis), at) => {
                stages.leaf(parent, axis).map_err(|m| mistake(at, m))?;
                let Ok(target) = self.loop_of(axis, at) else {
                    let (name, parent) = (&stage.name, &stages.stage(parent).name);
                    let why = Mistake::new(format!("`{name}` cannot be computed in a loop of `{parent}`"));
                    return Err(mistake(at, why.help("attach a stage to one that reads it, and that is not inlined")));
                };
                let block = self.block(id, at)?;
                self.schedule.compute_at(block, target, true).map_err(|e| refused(at, e))?;
                let all = self.schedule.get_loops(block).map_err(|e| refused(at, e))?;
                let place = self.schedule.value(target).ok();
                let outer = all.iter().position(|&l| self.schedule.value(l).ok() == place).map_or(0, |p| p + 1);
                // New loops stand in the order of the block's variables.
                let order = self.instances.get(&id).unwrap_or(&stage.axes).clone();
                self.assign(&all[outer..], &order, &stage.name, at)?;
                self.in_order(&order, &stage.axes, at)?;
            }
        }
        for (relation, at) in &stage.relations {
            self.relation(relation, *at)?;
        }
        Ok(())
    }

    /// The loops around a block as those of axes.
    fn own_loops(&mut self, block: Rv, axes: &[AxisId], name: &str, at: Span) -> Result<(), Refusal> {
        let loops = self.schedule.get_loops(block).map_err(|e| refused(at, e))?;
        self.assign(&loops, axes, name, at)?;
        // A copy may be of a part of a tensor, but a definition has the extents of its block.
        let is_defined = |a: &AxisId| {
            let owner = self.stages.owner(*a).map(|(s, _)| &self.stages.stage(s).definition);
            matches!(owner, Some(Definition::Block(_)))
        };
        for (&axis, &l) in axes.iter().zip(&loops).filter(|(a, _)| is_defined(a)) {
            let Ok(RvValue::Loop(func, l)) = self.schedule.value(l) else { continue };
            let func = self.schedule.func(func);
            let axis = self.stages.axis(axis);
            if let (Some(found), Some(expected)) = (func.arena.as_int(func.loop_(l).extent), axis.extent)
                && found != expected
            {
                let why =
                    format!("the axis `{}` of `{name}` has {expected} iterations, and its loop {found}", axis.name);
                let help = "the schedule must be for this program, whose definition cannot depend on knobs";
                return Err(mistake(at, Mistake::new(why).help(help)));
            }
        }
        Ok(())
    }

    fn assign(&mut self, loops: &[Rv], axes: &[AxisId], name: &str, at: Span) -> Result<(), Refusal> {
        if loops.len() != axes.len() {
            let (n, m) = (loops.len(), axes.len());
            let why = Mistake::new(format!("the block of `{name}` has {n} loops of its own, and its stage {m} axes"));
            return Err(mistake(at, why));
        }
        self.loops.extend(axes.iter().copied().zip(loops.iter().copied()));
        Ok(())
    }

    /// Puts loops into the order of the definition.
    fn in_order(&mut self, now: &[AxisId], wanted: &[AxisId], at: Span) -> Result<(), Refusal> {
        if now == wanted {
            return Ok(());
        }
        let loops: Vec<Rv> = wanted.iter().filter_map(|a| self.loops.get(a).copied()).collect();
        self.schedule.reorder(&loops).map_err(|e| refused(at, e))
    }

    fn loop_of(&self, axis: AxisId, at: Span) -> Result<Rv, Refusal> {
        self.loops.get(&axis).copied().ok_or_else(|| {
            let name = &self.stages.axis(axis).name;
            mistake(at, Mistake::new(format!("the axis `{name}` has no loop here")))
        })
    }

    fn relation(&mut self, relation: &Relation, at: Span) -> Result<(), Refusal> {
        match relation {
            Relation::Split { parent, parts, sizes } => {
                let target = self.loop_of(*parent, at)?;
                let sizes = sizes.iter().map(|s| s.as_ref().map_or(Arg::None, |s| s.arg.clone())).collect();
                let loops = self.schedule.split(target, sizes).map_err(|e| refused(at, e))?;
                self.loops.remove(parent);
                self.loops.extend(parts.iter().copied().zip(loops));
            }
            Relation::Fuse { parts, fused } => {
                let mut loops = Vec::with_capacity(parts.len());
                for &part in parts {
                    loops.push(self.loop_of(part, at)?);
                }
                let loop_ = self.schedule.fuse(&loops).map_err(|e| refused(at, e))?;
                parts.iter().for_each(|p| {
                    self.loops.remove(p);
                });
                self.loops.insert(*fused, loop_);
            }
            Relation::Reorder(axes) => {
                let mut loops = Vec::with_capacity(axes.len());
                for &axis in axes {
                    loops.push(self.loop_of(axis, at)?);
                }
                self.schedule.reorder(&loops).map_err(|e| refused(at, e))?;
            }
        }
        Ok(())
    }

    fn notes(&mut self, id: StageId) -> Result<(), Refusal> {
        let stages = self.stages;
        for (note, at) in &stages.stage(id).notes {
            let at = *at;
            match note {
                Note::Loop(axis, how) => {
                    stages.leaf(id, *axis).map_err(|m| mistake(at, m))?;
                    let loop_ = self.loop_of(*axis, at)?;
                    let done = match how {
                        LoopUse::Parallel => self.schedule.parallel(loop_),
                        LoopUse::Vectorize => self.schedule.vectorize(loop_),
                        LoopUse::Unroll => self.schedule.unroll(loop_),
                        LoopUse::Bind(thread) => {
                            self.schedule.run("Bind", vec![loop_.into(), Arg::Str(*thread)]).map(drop)
                        }
                    };
                    done.map_err(|e| refused(at, e))?;
                }
                Note::Pragma(axis, key, value) => {
                    stages.leaf(id, *axis).map_err(|m| mistake(at, m))?;
                    let loop_ = self.loop_of(*axis, at)?;
                    let key = format!("pragma_{key}");
                    self.schedule.annotate(loop_, &key, value.clone()).map_err(|e| refused(at, e))?;
                }
                Note::StorageAlign(dimension, factor, offset) => {
                    let block = self.block(id, at)?;
                    let dimension = *dimension as i64;
                    let args = vec![block.into(), 0.into(), dimension.into(), (*factor).into(), (*offset).into()];
                    self.run("StorageAlign", args, at)?;
                }
                Note::Scope(scope) => {
                    let block = self.block(id, at)?;
                    self.run("SetScope", vec![block.into(), 0.into(), scope.as_str().into()], at)?;
                }
                Note::Tensorize(axis, intrinsic) => {
                    stages.leaf(id, *axis).map_err(|m| mistake(at, m))?;
                    let loop_ = self.loop_of(*axis, at)?;
                    self.run("Tensorize", vec![loop_.into(), intrinsic.as_str().into(), Arg::Bool(true)], at)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the elements of a reduction before the reduced loops, if they are lanes of vectors inside them. Where that is refused,
    /// they are set in the first iteration, which gives the same results.
    fn decompose(&mut self, id: StageId) {
        let stages = self.stages;
        let stage = stages.stage(id);
        let Some(first) = stage.leaves.iter().position(|&a| stages.axis(a).is_reduced()) else { return };
        let is_vector = |a: &AxisId| {
            stage.notes.iter().any(|(n, _)| matches!(n, Note::Loop(axis, LoopUse::Vectorize) if axis == a))
        };
        if !stage.leaves[first..].iter().any(is_vector) {
            return;
        }
        let (Some(&block), Some(&loop_)) = (self.blocks.get(&id), self.loops.get(&stage.leaves[first])) else { return };
        // A refused instruction leaves the program as it is.
        let _ = self.schedule.decompose_reduction(block, loop_);
    }
}
