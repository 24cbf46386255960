//! Stages: the computations of a program, each with the calls that were made on it.

use super::attach::Attach;
use super::axis::{Axis, AxisId};
use super::cached::Cache;
use super::note::Note;
use super::relation::Relation;
use crate::diagnostic::Span;
use crate::ir::{IterKind, Symbol, VarId};

/// A stage of a [`Stages`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StageId(pub(super) u32);

/// Where a stage comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Definition {
    /// The parameter at this position, which the program only reads.
    Input(usize),
    /// The block of this name.
    Block(Symbol),
    /// A stage of the definition whose block is not known: only its axes can be asked for.
    Unplaced,
    /// A call made it.
    Cache(Cache),
}

/// A stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The name of its tensor, for messages.
    pub name: String,
    /// Where it comes from.
    pub definition: Definition,
    /// Its axes as defined: one for each dimension, then the reduced ones.
    pub axes: Vec<AxisId>,
    /// Its axes now, outermost first.
    pub leaves: Vec<AxisId>,
    /// What became of the axes, in the order of the calls.
    pub relations: Vec<(Relation, Span)>,
    /// How loops run, and where its tensor is stored.
    pub notes: Vec<(Note, Span)>,
    /// Where it is computed, and the call that said so.
    pub attach: (Attach, Span),
    /// The stages that it reads.
    pub reads: Vec<StageId>,
    /// Whether it is a result of the program.
    pub is_output: bool,
}

/// The stages of a program, with what a schedule says of them.
#[derive(Clone, Default, Debug)]
pub struct Stages {
    pub(super) stages: Vec<Stage>,
    pub(super) axes: Vec<Axis>,
    /// Layouts of tensors that were chosen beside the schedule, which cannot say them: the tensor's stage, and the index map.
    pub(super) layouts: Vec<(StageId, String)>,
}

impl Stages {
    /// Without stages.
    pub fn new() -> Stages {
        Stages::default()
    }

    /// Adds a stage, after all that it reads. Its axes are one for each dimension, then the reduced ones.
    pub fn add(&mut self, name: &str, definition: Definition, axes: Vec<Axis>, reads: Vec<StageId>) -> StageId {
        let axes: Vec<AxisId> = axes.into_iter().map(|a| self.add_axis(a)).collect();
        self.stages.push(Stage {
            name: name.to_owned(),
            definition,
            leaves: axes.clone(),
            axes,
            relations: Vec::new(),
            notes: Vec::new(),
            attach: (Attach::Root, Span::default()),
            reads,
            is_output: false,
        });
        StageId(self.stages.len() as u32 - 1)
    }

    /// Says that a stage is a result of the program.
    pub fn set_output(&mut self, stage: StageId) {
        self.stage_mut(stage).is_output = true;
    }

    /// A stage.
    pub fn stage(&self, stage: StageId) -> &Stage {
        &self.stages[stage.0 as usize]
    }

    pub(super) fn stage_mut(&mut self, stage: StageId) -> &mut Stage {
        &mut self.stages[stage.0 as usize]
    }

    /// All stages, producers first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = StageId> + use<> {
        (0..self.stages.len() as u32).map(StageId)
    }

    /// An axis.
    pub fn axis(&self, axis: AxisId) -> &Axis {
        &self.axes[axis.0 as usize]
    }

    pub(super) fn add_axis(&mut self, axis: Axis) -> AxisId {
        self.axes.push(axis);
        AxisId(self.axes.len() as u32 - 1)
    }

    /// The axes of a stage as defined, of one kind.
    pub fn axes_of(&self, stage: StageId, kind: IterKind) -> Vec<AxisId> {
        self.stage(stage).axes.iter().copied().filter(|&a| self.axis(a).kind == kind).collect()
    }

    /// The axis of a stage that has the variable of a definition.
    pub fn axis_with(&self, stage: StageId, var: VarId) -> Option<AxisId> {
        self.stage(stage).axes.iter().copied().find(|&a| self.axis(a).var == Some(var))
    }

    /// The stage that has an axis, now or before it was replaced, and the position among its axes as defined, if it is one of them.
    pub fn owner(&self, axis: AxisId) -> Option<(StageId, Option<usize>)> {
        self.ids().find_map(|id| {
            let stage = self.stage(id);
            let defined = stage.axes.iter().position(|&a| a == axis);
            let made = || stage.leaves.contains(&axis) || stage.relations.iter().any(|(r, _)| r.mentions(axis));
            (defined.is_some() || made()).then_some((id, defined))
        })
    }

    /// The stages that read a stage.
    pub fn readers(&self, stage: StageId) -> Vec<StageId> {
        self.ids().filter(|&id| self.stage(id).reads.contains(&stage)).collect()
    }

    /// All stages, each after those that read it.
    pub fn consumers_first(&self) -> Vec<StageId> {
        let mut order = Vec::with_capacity(self.stages.len());
        let mut seen = vec![false; self.stages.len()];
        for id in self.ids() {
            self.visit(id, &mut seen, &mut order);
        }
        order.reverse();
        order
    }

    fn visit(&self, stage: StageId, seen: &mut [bool], order: &mut Vec<StageId>) {
        // The way to each open stage, with the number of its producers that were visited.
        let mut open = vec![(stage, 0)];
        while let Some((id, next)) = open.pop() {
            if next == 0 && std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            match self.stage(id).reads.get(next) {
                Some(&producer) => {
                    open.push((id, next + 1));
                    open.push((producer, 0));
                }
                None => order.push(id),
            }
        }
    }
}
