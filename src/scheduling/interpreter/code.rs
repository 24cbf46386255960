//! The code of a text, with its names and calls resolved: [`compile`](super::compile) makes it of the text, [`run`](super::run)
//! executes it. It borrows nothing, so threads can share it. `C` are the expressions of a library.

use super::builtin::Builtin;
use crate::diagnostic::Span;
use crate::script::python::{BinaryOp, CompareOp};
use std::sync::Arc;

/// A function of the text.
#[derive(Debug)]
pub(crate) struct Function<C> {
    /// Its name.
    pub name: Box<str>,
    /// Parameters, with functions that return their default values. They are the first of the variables.
    pub params: Params<C>,
    /// The variable that takes the other positional arguments as a tuple.
    pub rest: Option<usize>,
    /// Names of the variables, for messages.
    pub locals: Vec<Box<str>>,
    /// Its statements.
    pub body: Vec<Stmt<C>>,
    /// The place of its name.
    pub span: Span,
}

/// Parameters, each with a function that returns its default value.
pub(crate) type Params<C> = Vec<(Box<str>, Option<Box<Function<C>>>)>;

/// A branch of an `if`: its condition and statements.
pub(crate) type Branch<C> = (Option<Expr<C>>, Vec<Stmt<C>>);

/// An item of a dictionary: key and value.
pub(crate) type Entry<C> = (Expr<C>, Expr<C>);

/// A statement.
#[derive(Debug)]
pub(crate) struct Stmt<C> {
    /// Its kind.
    pub kind: StmtKind<C>,
    /// Its place.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Debug)]
pub(crate) enum StmtKind<C> {
    /// `a = b = value`
    Assign(Vec<Target<C>>, Expr<C>),
    /// `a += value`
    Update(Target<C>, BinaryOp, Expr<C>),
    /// `for target in iter: body`
    For(Target<C>, Expr<C>, Vec<Stmt<C>>),
    /// `if …: elif …: else: …`; an `else` has no condition.
    If(Vec<Branch<C>>),
    /// An expression that is evaluated for its effect.
    Expr(Expr<C>),
    /// `return value`
    Return(Option<Expr<C>>),
    /// `assert test`
    Assert(Expr<C>),
    /// `break`
    Break,
    /// `continue`
    Continue,
}

/// The target of an assignment.
#[derive(Debug)]
pub(crate) struct Target<C> {
    /// Its kind.
    pub kind: TargetKind<C>,
    /// Its place.
    pub span: Span,
}

/// The kinds of targets.
#[derive(Debug)]
pub(crate) enum TargetKind<C> {
    /// A variable of the function.
    Variable(usize),
    /// `a, *b, c`: the targets, and the position of the starred one.
    Unpack(Vec<Target<C>>, Option<usize>),
    /// `a[index]`, of a list in a variable of the function.
    Item(usize, Expr<C>),
}

/// An expression.
#[derive(Debug)]
pub(crate) struct Expr<C> {
    /// Its kind.
    pub kind: ExprKind<C>,
    /// Its place.
    pub span: Span,
}

/// An item of a list, tuple or argument list; `star` spreads it.
#[derive(Debug)]
pub(crate) struct Item<C> {
    /// Is it spread?
    pub star: bool,
    /// The item.
    pub value: Expr<C>,
}

/// The kinds of expressions.
#[derive(Debug)]
pub(crate) enum ExprKind<C> {
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
    /// A parameter of the formula around it.
    Param(usize),
    /// A list.
    List(Vec<Item<C>>),
    /// A tuple.
    Tuple(Vec<Item<C>>),
    /// A dictionary.
    Dict(Vec<Entry<C>>),
    /// `a[index]`
    Index(Box<Expr<C>>, Box<Expr<C>>),
    /// `a[lower:upper:step]`
    Slice(Box<Expr<C>>, Box<[Option<Expr<C>>; 3]>),
    /// `a.name`
    Attribute(Box<Expr<C>>, Box<str>),
    /// `-a`
    Neg(Box<Expr<C>>),
    /// `not a`
    Not(Box<Expr<C>>),
    /// `~a`
    Invert(Box<Expr<C>>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr<C>>, Box<Expr<C>>),
    /// `a and b`
    And(Vec<Expr<C>>),
    /// `a or b`
    Or(Vec<Expr<C>>),
    /// `a < b < c`
    Compare(Box<Expr<C>>, Vec<(CompareOp, Expr<C>)>),
    /// `then if test else otherwise`: test, then, otherwise
    Conditional(Box<[Expr<C>; 3]>),
    /// A function as a value: its position, and for each variable that it takes from the function around it, the variable there
    /// and its own.
    Closure(usize, Vec<(usize, usize)>),
    /// `[element for target in iter if condition]`
    Comprehension(Box<Expr<C>>, Vec<Clause<C>>),
    /// An f-string: its pieces.
    Format(Vec<Expr<C>>),
    /// A call of a built-in function.
    Builtin(Builtin, Vec<Item<C>>, Vec<(Box<str>, Span, Expr<C>)>),
    /// What only the library can evaluate.
    Own(C),
    /// `variable.append(value)` and the like.
    Change(usize, Change, Vec<Expr<C>>),
    /// A call of another function of the text.
    Call(usize, CallArgs<C>),
    /// A call of a value.
    CallValue(Box<Expr<C>>, CallArgs<C>),
}

/// A `for` or `if` of a comprehension.
#[derive(Debug)]
pub(crate) enum Clause<C> {
    /// `for target in iter`
    For(Target<C>, Expr<C>),
    /// `if condition`
    If(Expr<C>),
}

/// The arguments of a call.
#[derive(Debug)]
pub(crate) struct CallArgs<C> {
    /// Those by position.
    pub positional: Vec<Item<C>>,
    /// Those by name.
    pub keywords: Vec<(Box<str>, Span, Expr<C>)>,
}

/// Changes of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
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
    pub(crate) const ALL: [(&'static str, Change); 5] = [
        ("append", Change::Append),
        ("extend", Change::Extend),
        ("insert", Change::Insert),
        ("pop", Change::Pop),
        ("reverse", Change::Reverse),
    ];

    /// The range of the number of arguments.
    pub(crate) fn arity(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Change::Append | Change::Extend => 1..=1,
            Change::Insert => 2..=2,
            Change::Pop => 0..=1,
            Change::Reverse => 0..=0,
        }
    }
}
