//! What schedule functions have beside Python: methods of the schedule, index maps, typed constants.

use crate::diagnostic::Span;
use crate::interpreter::code;
use crate::ir::{BinOp, Symbol};
use crate::schedule::bind::BoundArgs;
use crate::schedule::kind::Kind;

/// An expression of a schedule function.
pub(super) type Expr = code::Expr<Code>;

/// An argument of a schedule function's call.
pub(super) type Item = code::Item<Code>;

/// The expressions that only schedule functions have.
#[derive(Debug)]
pub(super) enum Code {
    /// `lambda i, j: (j, i)`
    Lambda(Box<Lambda>),
    /// `T.float32(0)`: type and value.
    Typed(Symbol, Box<Expr>),
    /// `T.if_then_else(c, a, b)`
    IfThenElse(Box<[Expr; 3]>),
    /// `T.min(a, b)` and the like.
    Arithmetic(BinOp, Box<[Expr; 2]>),
    /// `IndexMap.AXIS_SEPARATOR`
    AxisSeparator,
    /// `sch.method(…)`
    Method(Box<Method>),
    /// `sch.get(rv)` or `sch.work_on(name)`: schedule, argument.
    Special(Special, Box<[Expr; 2]>),
}

/// A function of indices.
#[derive(Debug)]
pub(super) struct Lambda {
    pub params: Vec<Symbol>,
    pub results: Vec<Expr>,
    /// For results that are ranges: the end of each, if it is written.
    pub ends: Option<Vec<Option<Expr>>>,
    pub scalar: bool,
}

/// A call of a schedule's method.
#[derive(Debug)]
pub(super) struct Method {
    /// The schedule.
    pub receiver: Expr,
    /// The instruction.
    pub kind: &'static Kind,
    /// Positional arguments.
    pub args: Vec<Item>,
    /// Keyword arguments.
    pub keywords: Vec<(Box<str>, Span, Expr)>,
    /// The binding of arguments to parameters; `None` if `*` leaves their number open.
    pub bound: Option<BoundArgs>,
    /// The place of the method's name.
    pub name: Span,
    /// The place of the arguments, with their parentheses.
    pub args_span: Span,
}

/// Methods of a schedule that are not instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    /// `sch.get(rv)`: the number that a random variable stands for, or a view of a loop or block.
    Get,
    /// `sch.work_on(name)`: the function that `get_block` looks into.
    WorkOn,
}
