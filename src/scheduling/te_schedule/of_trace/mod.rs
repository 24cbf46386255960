//! The schedule of tensor expressions that a trace amounts to, where there is one.
//!
//! The trace is replayed step by step on the program, so that each instruction is seen with what it changed: the loops that it made are
//! axes of stages from then on.

mod consumer;
mod layout;
mod made;

use super::axis::{AxisId, Size};
use super::stage::{Definition, StageId, Stages};
use super::{Attach, LoopUse, Mistake, Note, of_func};
use crate::diagnostic::Span;
use crate::ir::visit::uses_var;
use crate::ir::{BlockId, Func, LoopId, Symbol};
use crate::schedule::arg::{Arg, FuncIndex, Rv, RvValue};
use crate::schedule::trace::Replay;
use crate::schedule::{Instruction, Schedule, Trace};
use hashbrown::{HashMap, HashSet};

/// An instruction that schedules of tensor expressions cannot say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inexpressible {
    /// Its position in the trace.
    pub index: usize,
    /// Its name as a method: `reverse_compute_at`.
    pub name: &'static str,
    /// Why; empty if there is nothing like it.
    pub why: String,
}

/// Instructions that change nothing that such a schedule says: they look things up, draw numbers, or mark places. Reductions are
/// decomposed by TVM itself.
const SILENT: &[&str] = &[
    "GetSBlock",
    "GetLoops",
    "GetChildBlocks",
    "GetProducers",
    "GetConsumers",
    "GetOutputBlocks",
    "SampleCategorical",
    "SamplePerfectTile",
    "SamplePartitionedTile",
    "SampleComputeLocation",
    "EnterPostproc",
];

/// Instructions that have calls of such a schedule.
const EXPRESSIBLE: &[&str] = &[
    "Split",
    "Fuse",
    "Reorder",
    "Parallel",
    "Vectorize",
    "Unroll",
    "Bind",
    "Annotate",
    "Unannotate",
    "ComputeAt",
    "ReverseComputeAt",
    "ComputeInline",
    "CacheRead",
    "CacheWrite",
    "RFactor",
    "DecomposeReduction",
    "StorageAlign",
    "SetScope",
    "TransformLayout",
];

/// Reads a trace as a schedule of tensor expressions; `schedule` is the program that it starts from.
///
/// # Errors
/// The instructions that such a schedule cannot say. Those that nothing corresponds to are all listed; if there are none, the first
/// one that does not fit the others.
pub fn of_trace(trace: &Trace, schedule: Schedule, func: FuncIndex) -> Result<Stages, Vec<Inexpressible>> {
    let is_known = |name: &str| SILENT.contains(&name) || EXPRESSIBLE.contains(&name);
    let unknown = trace.insts.iter().enumerate().filter(|(_, inst)| !is_known(inst.kind.name));
    let unknown: Vec<Inexpressible> =
        unknown.map(|(index, inst)| Inexpressible { index, name: inst.kind.method, why: String::new() }).collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let mut reader = Reader::new(schedule, func);
    let mut replay = Replay::default();
    let prepared = layout::prepared(trace);
    for (index, inst) in trace.insts.iter().enumerate() {
        let fails = |why: String| vec![Inexpressible { index, name: inst.kind.method, why }];
        replay.step(&mut reader.schedule, inst, inst.decision.clone()).map_err(|e| fails(e.to_string()))?;
        let Some(done) = reader.schedule.trace().insts.last().cloned() else { continue };
        reader.prepares = inst.outputs.first().is_some_and(|copy| prepared.contains(copy));
        reader.read(&done, Span::new(index, index + 1)).map_err(|m| fails(m.message))?;
        reader.remember(&done.outputs);
    }
    for id in reader.stages.ids() {
        let fails = |m: Mistake| vec![Inexpressible { index: 0, name: "reorder", why: m.message }];
        reader.stages.merge_orders(id).map_err(fails)?;
    }
    if let Some((stage, other, at)) = consumer::read_outside(&reader.stages) {
        let index = at.start as usize;
        let (stage, other) = (&reader.stages.stage(stage).name, &reader.stages.stage(other).name);
        let why = format!("`{other}` reads `{stage}`, too, outside of the loop");
        let name = trace.insts.get(index).map_or("compute_at", |inst| inst.kind.method);
        return Err(vec![Inexpressible { index, name, why }]);
    }
    Ok(reader.stages)
}

struct Reader {
    schedule: Schedule,
    func: FuncIndex,
    stages: Stages,
    /// The stages of blocks, by the present names of these.
    blocks: HashMap<Symbol, StageId>,
    /// The axes of loops.
    loops: HashMap<LoopId, (StageId, AxisId)>,
    /// The axes of stages in the order of their blocks' iteration variables.
    instances: HashMap<StageId, Vec<AxisId>>,
    /// The stages of the blocks that random variables stand for.
    seen: HashMap<Rv, StageId>,
    /// Loops that such a schedule does not mention: those that set elements of reductions first, and those of prepared copies.
    silent: HashSet<LoopId>,
    /// The stages that prepared copies are of, by the names of their blocks.
    prepared: HashMap<Symbol, StageId>,
    /// Whether the present instruction makes a copy that is prepared before the program runs.
    prepares: bool,
}

type Done = Result<(), Mistake>;

fn wrong<T>(message: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake::new(message))
}

impl Reader {
    fn new(schedule: Schedule, func: FuncIndex) -> Reader {
        let (stages, _) = of_func(schedule.func(func));
        let mut reader = Reader {
            blocks: HashMap::new(),
            loops: HashMap::new(),
            instances: HashMap::new(),
            seen: HashMap::new(),
            silent: HashSet::new(),
            prepared: HashMap::new(),
            prepares: false,
            schedule,
            func,
            stages,
        };
        for id in reader.stages.ids() {
            let Definition::Block(name) = reader.stages.stage(id).definition else { continue };
            reader.blocks.insert(name, id);
            let f = reader.program();
            let Some(block) = block_called(f, name) else { continue };
            let axes = reader.stages.stage(id).axes.clone();
            let loops = f.loops_above(block.stmt());
            let of_iter = |value| {
                let at = loops.iter().position(|&l| uses_var(&f.arena, value, &mut |v| v == f.loop_(l).var));
                at.and_then(|p| axes.get(p).copied())
            };
            let instances: Vec<AxisId> = f.block(block).iters.iter().filter_map(|i| of_iter(i.value)).collect();
            reader.loops.extend(loops.iter().copied().zip(axes.iter().map(|&a| (id, a))));
            reader.instances.insert(id, instances);
        }
        reader
    }

    fn program(&self) -> &Func {
        self.schedule.func(self.func)
    }

    fn read(&mut self, inst: &Instruction, at: Span) -> Done {
        let arg = |i: usize| inst.args.get(i).cloned().unwrap_or(Arg::None);
        match inst.kind.name {
            "Split" => self.split(inst, at),
            "Fuse" => {
                let Some(axes) = self.axes(&rvs(&arg(0)), &inst.outputs)? else { return Ok(()) };
                let (stage, axes) = self.of_one_stage(axes)?;
                let fused = self.stages.fuse(stage, &axes, at)?;
                if let Some(&last) = axes.last() {
                    self.stages.move_attached(stage, last, fused)?;
                }
                self.name_loops(stage, &inst.outputs, &[fused])
            }
            "Reorder" => {
                let Some(axes) = self.axes(&rvs(&arg(0)), &[])? else { return Ok(()) };
                let (stage, axes) = self.of_one_stage(axes)?;
                // The loops of the program may be in another order than the axes of the definition, which are so already.
                let leaves = &self.stages.stage(stage).leaves;
                let places: Option<Vec<usize>> =
                    axes.iter().map(|axis| leaves.iter().position(|leaf| leaf == axis)).collect();
                if places.is_some_and(|places| places.is_sorted()) {
                    return Ok(());
                }
                self.stages.reorder(stage, &axes, at)
            }
            "Parallel" => self.note_loop(&arg(0), LoopUse::Parallel, at),
            "Vectorize" => self.note_loop(&arg(0), LoopUse::Vectorize, at),
            "Unroll" => self.note_loop(&arg(0), LoopUse::Unroll, at),
            "Bind" => match arg(1) {
                Arg::Str(thread) => self.note_loop(&arg(0), LoopUse::Bind(thread), at),
                _ => wrong("the thread axis has no name"),
            },
            "Annotate" => self.annotate(&arg(0), &arg(1), &arg(2), at),
            "Unannotate" => match arg(1) {
                // What a rule has left for a postprocessor.
                Arg::Str(key) if is_mark(key) => Ok(()),
                _ => wrong("nothing takes an annotation back"),
            },
            "ComputeAt" => self.compute_at(&arg(0), &arg(1), at),
            "ReverseComputeAt" => self.reverse_compute_at(&arg(0), &arg(1), at),
            "TransformLayout" => self.transform_layout(inst),
            "ComputeInline" => {
                let stage = self.stage(&arg(0))?;
                self.stages.attach(stage, Attach::Inline, at)
            }
            "CacheRead" => self.cache_read(inst, at),
            "CacheWrite" => self.cache_write(inst, at),
            "RFactor" => self.rfactor(inst, at),
            "DecomposeReduction" => self.decompose(inst),
            "StorageAlign" => match (arg(1), arg(2), arg(3), arg(4)) {
                (Arg::Int(0), Arg::Int(dimension), Arg::Int(factor), Arg::Int(offset)) => {
                    let stage = self.stage(&arg(0))?;
                    let rank = self.stages.axes_of(stage, crate::ir::IterKind::Spatial).len() as i64;
                    let dimension = if dimension < 0 { dimension + rank } else { dimension };
                    let dimension = usize::try_from(dimension).unwrap_or_default();
                    self.stages.note(stage, Note::StorageAlign(dimension, factor, offset), at)
                }
                _ => wrong("its numbers are drawn"),
            },
            "SetScope" => match arg(2) {
                Arg::Str(scope) => {
                    let stage = self.stage(&arg(0))?;
                    self.stages.note(stage, Note::Scope(scope.to_string()), at)
                }
                _ => wrong("the memory has no name"),
            },
            _ => Ok(()),
        }
    }

    fn loop_id(&self, rv: Rv) -> Option<LoopId> {
        match self.schedule.value(rv) {
            Ok(RvValue::Loop(func, id)) if func == self.func => Some(id),
            _ => None,
        }
    }

    fn block_id(&self, rv: &Arg) -> Option<BlockId> {
        match rv {
            Arg::Rv(rv) => match self.schedule.value(*rv) {
                Ok(RvValue::Block(func, id)) if func == self.func => Some(id),
                _ => None,
            },
            _ => None,
        }
    }

    /// The axes of loops. `None` if such a schedule does not mention them; so it is with those that take their place.
    fn axes(&mut self, loops: &[Rv], outputs: &[Rv]) -> Result<Option<Vec<(StageId, AxisId)>>, Mistake> {
        let ids: Vec<LoopId> = loops.iter().filter_map(|&rv| self.loop_id(rv)).collect();
        if !ids.is_empty() && ids.iter().all(|id| self.silent.contains(id)) {
            let new: Vec<LoopId> = outputs.iter().filter_map(|&rv| self.loop_id(rv)).collect();
            self.silent.extend(new);
            return Ok(None);
        }
        let known: Vec<(StageId, AxisId)> = ids.iter().filter_map(|id| self.loops.get(id).copied()).collect();
        if known.len() != loops.len() {
            let f = self.program();
            let is_stage = |&b: &BlockId| b == f.root || f.block(b).writes.len() == 1;
            return wrong(match f.blocks().iter().all(is_stage) {
                true => "a loop belongs to no stage",
                false => "a block with several results is no stage",
            });
        }
        Ok(Some(known))
    }

    fn of_one_stage(&self, axes: Vec<(StageId, AxisId)>) -> Result<(StageId, Vec<AxisId>), Mistake> {
        let Some(&(stage, _)) = axes.first() else { return wrong("there is no loop") };
        if axes.iter().any(|(s, _)| *s != stage) {
            return wrong("the loops belong to several stages");
        }
        Ok((stage, axes.into_iter().map(|(_, a)| a).collect()))
    }

    /// Says that loops are those of axes.
    fn name_loops(&mut self, stage: StageId, loops: &[Rv], axes: &[AxisId]) -> Done {
        for (&rv, &axis) in loops.iter().zip(axes) {
            let Some(id) = self.loop_id(rv) else { return wrong("a loop does not exist") };
            self.loops.insert(id, (stage, axis));
        }
        Ok(())
    }

    fn stage(&self, block: &Arg) -> Result<StageId, Mistake> {
        let f = self.program();
        let alive = self.block_id(block).filter(|b| f.is_alive(b.stmt()));
        let by_name = alive.and_then(|b| self.blocks.get(&f.block(b).name).copied());
        // An inlined block is gone, and was a stage when it was looked up.
        match (by_name, block) {
            (Some(stage), _) => Ok(stage),
            (None, Arg::Rv(rv)) if alive.is_none() && self.seen.contains_key(rv) => Ok(self.seen[rv]),
            _ => wrong("the block is no stage"),
        }
    }

    /// Remembers the stages of the blocks that an instruction gave.
    fn remember(&mut self, outputs: &[Rv]) {
        for &rv in outputs {
            if let Ok(stage) = self.stage(&Arg::Rv(rv)) {
                self.seen.insert(rv, stage);
            }
        }
    }

    fn split(&mut self, inst: &Instruction, at: Span) -> Done {
        let Some(axes) = self.axes(&rvs(&inst.args[0]), &inst.outputs)? else { return Ok(()) };
        let (stage, axes) = self.of_one_stage(axes)?;
        let (Some(&axis), Some(Arg::List(factors))) = (axes.first(), inst.args.get(1)) else {
            return wrong("the sizes are no list");
        };
        let extent = |rv: &Rv| {
            let f = self.program();
            self.loop_id(*rv).and_then(|l| f.arena.as_int(f.loop_(l).extent))
        };
        let sizes: Vec<Option<i64>> = inst.outputs.iter().map(extent).collect();
        // One part follows from the others: the one that was left open, else the outermost.
        let open = factors.iter().position(|f| *f == Arg::None).unwrap_or(0);
        let inner = sizes.iter().enumerate().filter(|(i, _)| *i != open);
        let Some(inner) = inner.map(|(_, s)| *s).collect::<Option<Vec<i64>>>() else {
            return wrong("a part has an extent that is not constant");
        };
        let product = inner.iter().try_fold(1i64, |product, s| product.checked_mul(*s)).filter(|p| *p > 0);
        // An axis of a stage that is computed in a loop has the extent of a tile, which only the loop has.
        let whole = rvs(&inst.args[0]).first().and_then(extent);
        if let (Some(whole), Some(product), Some(part)) = (whole, product, sizes[open])
            && factors.iter().all(|f| *f != Arg::None)
            && (whole + product - 1) / product != part
        {
            return wrong("the parts have more iterations than are needed");
        }
        let sizes = sizes.iter().enumerate().map(|(i, s)| s.filter(|_| i != open).map(Size::from)).collect();
        let parts = self.stages.split(stage, axis, sizes, at)?;
        if let Some(&last) = parts.last() {
            self.stages.move_attached(stage, axis, last)?;
        }
        self.name_loops(stage, &inst.outputs, &parts)
    }

    fn note_loop(&mut self, of: &Arg, how: LoopUse, at: Span) -> Done {
        let Some(axes) = self.axes(&rvs(of), &[])? else { return Ok(()) };
        let (stage, axes) = self.of_one_stage(axes)?;
        self.note(stage, Note::Loop(axes[0], how), at)
    }

    /// Blocks share loops, so that a postprocessor may say the same of one loop for each of them.
    fn note(&mut self, stage: StageId, note: Note, at: Span) -> Done {
        if self.stages.stage(stage).notes.iter().any(|(n, _)| *n == note) {
            return Ok(());
        }
        self.stages.note(stage, note, at)
    }

    fn annotate(&mut self, of: &Arg, key: &Arg, value: &Arg, at: Span) -> Done {
        let Arg::Str(key) = key else { return wrong("the annotation has no name") };
        if is_mark(*key) {
            return Ok(());
        }
        let Some(pragma) = key.as_str().strip_prefix("pragma_") else {
            return wrong(format!("there is no annotation `{key}`"));
        };
        if self.block_id(of).is_some() {
            return wrong("a block has no pragmas");
        }
        if !matches!(value, Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_)) {
            return wrong(format!("the value of `{key}` is no constant"));
        }
        let Some(axes) = self.axes(&rvs(of), &[])? else { return Ok(()) };
        let (stage, axes) = self.of_one_stage(axes)?;
        self.note(stage, Note::Pragma(axes[0], pragma.to_owned(), value.clone()), at)
    }

    fn compute_at(&mut self, block: &Arg, target: &Arg, at: Span) -> Done {
        let stage = match target {
            Arg::Rv(rv) if matches!(self.schedule.value(*rv), Ok(RvValue::AtRoot)) => return Ok(()),
            Arg::Rv(rv) if matches!(self.schedule.value(*rv), Ok(RvValue::Inlined)) => {
                let stage = self.stage(block)?;
                return self.stages.attach(stage, Attach::Inline, at);
            }
            _ => self.stage(block)?,
        };
        self.stages.forget_nest(stage)?;
        let Some(axes) = self.axes(&rvs(target), &[])? else { return wrong("the loop belongs to no stage") };
        let (parent, axes) = self.of_one_stage(axes)?;
        self.stages.attach(stage, Attach::At(parent, axes[0]), at)?;
        self.loops.retain(|_, (s, _)| *s != stage);
        match self.block_id(block) {
            Some(block) => self.adopt(stage, block, &HashMap::new()),
            None => wrong("the block is no stage"),
        }
    }

    /// Finds the axes of new loops around the block of a stage, by the iteration variables that they drive; `rest` has the parts of
    /// axes that are split already.
    fn adopt(&mut self, stage: StageId, block: BlockId, rest: &HashMap<AxisId, AxisId>) -> Done {
        let f = self.program();
        let instances = self.instances.get(&stage).cloned().unwrap_or_default();
        let iters = &f.block(block).iters;
        let mut found = Vec::new();
        for l in f.loops_above(block.stmt()) {
            if self.loops.contains_key(&l) {
                continue;
            }
            let var = f.loop_(l).var;
            let driven = iters.iter().position(|i| uses_var(&f.arena, i.value, &mut |v| v == var));
            // A loop of one iteration may drive nothing.
            let is_single = f.arena.as_int(f.loop_(l).extent) == Some(1);
            match driven.and_then(|p| instances.get(p)) {
                Some(axis) => found.push((l, rest.get(axis).copied().unwrap_or(*axis))),
                None if is_single => {}
                None => return wrong("a loop drives no axis of its own"),
            }
        }
        self.loops.extend(found.into_iter().map(|(l, axis)| (l, (stage, axis))));
        Ok(())
    }
}

/// Whether an annotation is a mark for postprocessors, which says nothing of the program.
fn is_mark(key: Symbol) -> bool {
    key.as_str().starts_with("meta_schedule.")
}

fn rvs(arg: &Arg) -> Vec<Rv> {
    match arg {
        Arg::Rv(rv) => vec![*rv],
        Arg::List(all) => all.iter().flat_map(rvs).collect(),
        _ => Vec::new(),
    }
}

fn block_called(f: &Func, name: Symbol) -> Option<BlockId> {
    f.blocks().into_iter().find(|&b| f.block(b).name == name)
}
