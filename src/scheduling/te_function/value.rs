//! The values of tensor expressions beside Python's.

use super::function::Function;
use super::knob::Entity;
use crate::interpreter::{self, OwnValue};
use crate::ir::{ExprId, Symbol};
use crate::te::{Combiner, DefinitionAxis, Tensor};
use crate::te_schedule::{AxisId, StageId};
use std::rc::Rc;

/// A value of a text with tensor expressions.
pub(super) type Value = interpreter::Value<Own>;

/// A value that only tensor expressions have.
#[derive(Clone, Debug)]
pub(super) enum Own {
    /// A scalar expression.
    Expr(ExprId),
    /// An axis (`te.reduce_axis`, `C.op.axis[0]`).
    Axis(DefinitionAxis),
    /// A tensor.
    Tensor(Tensor),
    /// A tensor with fewer indices than dimensions: `A[i]`.
    Slice(Tensor, Rc<[ExprId]>),
    /// What computes a tensor: `C.op`.
    Operation(Tensor),
    /// A result of a reduction: its position among all.
    Reduction(Rc<Reduction>, usize),
    /// What `te.comm_reducer` gives.
    Reducer(Rc<Reducer>),
    /// A function of a module.
    Function(Function),
    /// A schedule: its position among those of the text.
    Schedule(usize),
    /// A stage of a schedule: `s[C]`.
    Stage(usize, StageId),
    /// What computes a stage: `s[C].op`.
    StageOperation(usize, StageId),
    /// An axis of a stage.
    StageAxis(usize, AxisId),
    /// A thread axis of a GPU.
    Thread(Symbol),
    /// The configuration of a template.
    Config,
    /// A candidate of a knob.
    Entity(Rc<Entity>),
    /// An axis that a knob will make.
    KnobAxis(usize),
}

/// A reduction, which can only be the value of an element.
#[derive(Debug)]
pub(super) struct Reduction {
    /// How values are combined.
    pub combiner: Combiner,
    /// The values.
    pub values: Vec<ExprId>,
    /// The axes over which they are combined.
    pub axes: Vec<DefinitionAxis>,
}

/// How values are combined, by functions of the text.
#[derive(Debug)]
pub(super) struct Reducer {
    /// Gives the combination of two values, or of two tuples of them.
    pub combine: Value,
    /// Gives the value before the first one, from the types of the values.
    pub identity: Value,
    /// Its name, for messages.
    pub name: String,
}

impl OwnValue for Own {
    fn depth(&self) -> usize {
        match self {
            Own::Reducer(r) => 1 + r.combine.depth().max(r.identity.depth()),
            Own::Expr(_)
            | Own::Axis(_)
            | Own::Tensor(_)
            | Own::Slice(..)
            | Own::Operation(_)
            | Own::Reduction(..)
            | Own::Function(_)
            | Own::Schedule(_)
            | Own::Stage(..)
            | Own::StageOperation(..)
            | Own::StageAxis(..)
            | Own::Thread(_)
            | Own::Config
            | Own::KnobAxis(_) => 0,
            Own::Entity(entity) => match &**entity {
                Entity::Other(value) => 1 + value.depth(),
                Entity::Split(_) | Entity::Reorder(_) | Entity::Annotate(_) => 0,
            },
        }
    }
}

/// A scalar expression as a value.
pub(super) fn expr(e: ExprId) -> Value {
    Value::Own(Own::Expr(e))
}

/// A tensor as a value.
pub(super) fn tensor(t: Tensor) -> Value {
    Value::Own(Own::Tensor(t))
}
