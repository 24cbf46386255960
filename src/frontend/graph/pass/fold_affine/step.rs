//! Operators that scale or shift a tensor by weights.

use super::is_precise;
use crate::graph::function::{CallId, ValueDef, ValueId};
use crate::graph::pass::rewrite::Rewriter;

/// What a step does with each element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Multiply,
    Divide,
    Add,
    Subtract,
}

impl Kind {
    fn named(name: &str) -> Option<Kind> {
        match name {
            "multiply" => Some(Kind::Multiply),
            "divide" => Some(Kind::Divide),
            "add" => Some(Kind::Add),
            "subtract" => Some(Kind::Subtract),
            _ => None,
        }
    }

    /// The operator.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Multiply => "multiply",
            Kind::Divide => "divide",
            Kind::Add => "add",
            Kind::Subtract => "subtract",
        }
    }

    /// Whether it multiplies or divides.
    pub(super) fn is_scale(self) -> bool {
        matches!(self, Kind::Multiply | Kind::Divide)
    }

    /// Whether the operator undoes its counterpart: it divides or subtracts.
    pub(super) fn is_inverse(self) -> bool {
        matches!(self, Kind::Divide | Kind::Subtract)
    }

    fn is_commutative(self) -> bool {
        !self.is_inverse()
    }
}

/// `data * constant`, `data / constant`, `data + constant` or `data - constant`, where only the data depend on the inputs.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) data: ValueId,
    pub(super) constant: ValueId,
}

impl Step {
    /// The step that a call is.
    pub(super) fn of(rw: &Rewriter<'_>, c: CallId) -> Option<Step> {
        let args = rw.args(c)?;
        let kind = Kind::named(args.op.name)?;
        let (a, b) = (args.value("x1")?, args.value("x2")?);
        let (data, constant) = match (rw.is_invariant(a), rw.is_invariant(b)) {
            (false, true) => (a, b),
            (true, false) if kind.is_commutative() => (b, a),
            _ => return None,
        };
        is_precise(rw, data).then_some(Step { kind, data, constant })
    }

    /// The step that defines a value which no other call reads.
    pub(super) fn before(rw: &Rewriter<'_>, v: ValueId) -> Option<Step> {
        match rw.function.value(v).def {
            ValueDef::Call(c) if rw.has_uses(v, 1) => Step::of(rw, c),
            ValueDef::Call(_) | ValueDef::Param | ValueDef::Constant(_) => None,
        }
    }
}
