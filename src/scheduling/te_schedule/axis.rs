//! Axes: the loops of a stage, before they are loops.

use crate::ir::{IterKind, VarId};
use crate::schedule::arg::Arg;

/// An axis of some stage. Ids are given in the order of calls, so that equal calls give equal ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AxisId(pub(super) u32);

/// An axis of a stage.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its name, for messages.
    pub name: String,
    /// Whether its iterations write different elements, or are combined.
    pub kind: IterKind,
    /// The number of its iterations, if that is constant.
    pub extent: Option<i64>,
    /// The variable of the definition, if the axis is one of a definition.
    pub var: Option<VarId>,
}

impl Axis {
    /// Whether its iterations are combined.
    pub fn is_reduced(&self) -> bool {
        self.kind == IterKind::Reduce
    }
}

/// A number of iterations that a call gives: the present value, and the argument of the instruction, which may be a sampled number.
#[derive(Clone, PartialEq, Debug)]
pub struct Size {
    /// The present value.
    pub value: i64,
    /// The argument of the instruction.
    pub arg: Arg,
}

impl From<i64> for Size {
    fn from(value: i64) -> Size {
        Size { value, arg: Arg::Int(value) }
    }
}
