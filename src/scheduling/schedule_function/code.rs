//! The code of a schedule function, with its names and calls resolved: [`compile`](super::compile) makes it of the text,
//! [`run`](super::run) executes it. It borrows nothing, so threads can share it.

use super::builtin::Builtin;
use crate::diagnostic::Span;
use crate::ir::Symbol;
use crate::schedule::bind::BoundArgs;
use crate::schedule::kind::Kind;
use crate::script::python::{BinaryOp, CompareOp};
use std::sync::Arc;

/// A function of the text.
#[derive(Debug)]
pub(super) struct Function {
    /// Its name.
    pub name: Box<str>,
    /// Parameters, with their default values. They are the first of the variables.
    pub params: Vec<(Box<str>, Option<Expr>)>,
    /// Names of the variables, for messages.
    pub locals: Vec<Box<str>>,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// The place of its name.
    pub span: Span,
}

/// A statement.
#[derive(Debug)]
pub(super) struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// Its place.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Debug)]
pub(super) enum StmtKind {
    /// `a = b = value`
    Assign(Vec<Target>, Expr),
    /// `a += value`
    Update(Target, BinaryOp, Expr),
    /// `for target in iter: body`
    For(Target, Expr, Vec<Stmt>),
    /// `if …: elif …: else: …`; an `else` has no condition.
    If(Vec<(Option<Expr>, Vec<Stmt>)>),
    /// An expression that is evaluated for its effect.
    Expr(Expr),
    /// `return value`
    Return(Option<Expr>),
    /// `assert test`
    Assert(Expr),
    /// `break`
    Break,
    /// `continue`
    Continue,
}

/// The target of an assignment.
#[derive(Debug)]
pub(super) struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its place.
    pub span: Span,
}

/// The kinds of targets.
#[derive(Debug)]
pub(super) enum TargetKind {
    /// A variable of the function.
    Variable(usize),
    /// `a, *b, c`: the targets, and the position of the starred one.
    Unpack(Vec<Target>, Option<usize>),
    /// `a[index]`, of a list in a variable of the function.
    Item(usize, Expr),
}

/// An expression.
#[derive(Debug)]
pub(super) struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
}

/// An item of a list, tuple or argument list; `star` spreads it.
#[derive(Debug)]
pub(super) struct Item {
    pub star: bool,
    pub value: Expr,
}

/// The kinds of expressions.
#[derive(Debug)]
pub(super) enum ExprKind {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(Arc<str>),
    /// A variable of the function.
    Local(usize),
    /// A global variable of the text.
    Global(usize),
    /// A parameter of the innermost lambda.
    Param(usize),
    /// A list.
    List(Vec<Item>),
    /// A tuple.
    Tuple(Vec<Item>),
    /// A dictionary.
    Dict(Vec<(Expr, Expr)>),
    /// `a[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `a[lower:upper:step]`
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    /// `a.name`, of a view that `sch.get` returned.
    Attribute(Box<Expr>, Box<str>),
    /// `-a`
    Neg(Box<Expr>),
    /// `not a`
    Not(Box<Expr>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a and b`
    And(Vec<Expr>),
    /// `a or b`
    Or(Vec<Expr>),
    /// `a < b < c`
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    /// `then if test else otherwise`: test, then, otherwise
    Conditional(Box<[Expr; 3]>),
    /// A function of indices.
    Lambda(Box<Lambda>),
    /// `[element for target in iter if condition]`
    Comprehension(Box<Expr>, Vec<Clause>),
    /// An f-string: its pieces.
    Format(Vec<Expr>),
    /// A call of a built-in function.
    Builtin(Builtin, Vec<Item>, Vec<(Box<str>, Span, Expr)>),
    /// `T.float32(0)`: type and value.
    Typed(Symbol, Box<Expr>),
    /// `T.if_then_else(c, a, b)`
    IfThenElse(Box<[Expr; 3]>),
    /// `T.min(a, b)` and the like.
    Arithmetic(crate::ir::BinOp, Box<[Expr; 2]>),
    /// `IndexMap.AXIS_SEPARATOR`
    AxisSeparator,
    /// `sch.method(…)`
    Method(Box<Method>),
    /// `sch.get(rv)` or `sch.work_on(name)`: schedule, argument.
    Special(Special, Box<[Expr; 2]>),
    /// `variable.append(value)` and the like.
    Change(usize, Change, Vec<Expr>),
    /// A call of another function of the text.
    Call(usize, Vec<Item>, Vec<(Box<str>, Span, Expr)>),
}

/// A `for` or `if` of a comprehension.
#[derive(Debug)]
pub(super) enum Clause {
    /// `for target in iter`
    For(Target, Expr),
    /// `if condition`
    If(Expr),
}

/// `lambda i, j: (j, i)`.
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

/// Changes of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// `append(value)`
    Append,
    /// `extend(values)`
    Extend,
    /// `insert(index, value)`
    Insert,
    /// `pop(index=-1)`
    Pop,
    /// `reverse()`
    Reverse,
}

impl Change {
    /// The changes by name.
    pub(super) const ALL: [(&'static str, Change); 5] = [
        ("append", Change::Append),
        ("extend", Change::Extend),
        ("insert", Change::Insert),
        ("pop", Change::Pop),
        ("reverse", Change::Reverse),
    ];

    /// The range of the number of arguments.
    pub(super) fn arity(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Change::Append | Change::Extend => 1..=1,
            Change::Insert => 2..=2,
            Change::Pop => 0..=1,
            Change::Reverse => 0..=0,
        }
    }
}
