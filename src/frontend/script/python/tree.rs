//! The syntax tree.
//!
//! It has what the translation of TVMScript and the interpreter of schedule functions read. Constructs that neither of
//! them supports are [`ExprKind::Other`] or [`StmtKind::Other`] with a description, and errors only where they are used.

use crate::diagnostic::Span;
use crate::ir::{BinOp, CmpOp};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr<'a> {
    /// The kind, with its operands.
    pub kind: ExprKind<'a>,
    /// Place in the text.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind<'a> {
    /// `name`
    Name(&'a str),
    /// An integer literal; `None` if it does not fit 64 bits.
    Int(Option<u64>),
    /// A float literal.
    Float(f64),
    /// A text literal.
    Str(Box<str>),
    /// `True` or `False`
    Bool(bool),
    /// `None`
    None,
    /// `(a, b)`, also without parentheses
    Tuple(Vec<Expr<'a>>),
    /// `[a, b]`
    List(Vec<Expr<'a>>),
    /// `{key: value}`; a `**value` has no key
    Dict(Vec<(Option<Expr<'a>>, Expr<'a>)>),
    /// `value.name`
    Attribute(Box<Expr<'a>>, Ident<'a>),
    /// `callee(args, keyword=value)`
    Call(Box<Call<'a>>),
    /// `value[index]`; several indices are a tuple
    Subscript(Box<Expr<'a>>, Box<Expr<'a>>),
    /// `lower:upper:step`
    Slice(Box<Slice<'a>>),
    /// `-a`
    Unary(UnaryOp, Box<Expr<'a>>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr<'a>>, Box<Expr<'a>>),
    /// `a and b and c`, at least two operands
    Logical(LogicalOp, Vec<Expr<'a>>),
    /// `a < b <= c`: the first operand, then operators with the others
    Compare(Box<Expr<'a>>, Vec<(CompareOp, Expr<'a>)>),
    /// `then if test else otherwise`
    Conditional(Box<Conditional<'a>>),
    /// `lambda a, *b: body`
    Lambda(Box<Lambda<'a>>),
    /// `*value`
    Starred(Box<Expr<'a>>),
    /// `[element for target in iter if condition]`, or the corresponding generator
    ListComp(Box<Comprehension<'a>>),
    /// A formatted string: literal texts and interpolated values
    Format(Vec<Expr<'a>>),
    /// Any other expression, with a description.
    Other(&'static str),
}

/// A name with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident<'a> {
    /// The name.
    pub name: &'a str,
    /// Place in the text.
    pub span: Span,
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<'a> {
    /// The called expression.
    pub callee: Expr<'a>,
    /// Positional arguments.
    pub args: Vec<Expr<'a>>,
    /// Keyword arguments; without a name for `**value`.
    pub keywords: Vec<(Option<Ident<'a>>, Expr<'a>)>,
    /// The parentheses and their contents.
    pub args_span: Span,
}

/// A function without a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Lambda<'a> {
    /// Parameters.
    pub params: Vec<Ident<'a>>,
    /// The parameter that takes all other arguments: `*b`.
    pub rest: Option<Ident<'a>>,
    /// The result.
    pub body: Expr<'a>,
}

/// A slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice<'a> {
    /// The first index; omitted: the beginning.
    pub lower: Option<Expr<'a>>,
    /// The index behind the last one; omitted: the end.
    pub upper: Option<Expr<'a>>,
    /// The distance between indices; omitted: 1.
    pub step: Option<Expr<'a>>,
}

/// A list made by loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension<'a> {
    /// The expression of each element.
    pub element: Expr<'a>,
    /// The loops, outermost first.
    pub clauses: Vec<Clause<'a>>,
}

/// A loop of a comprehension.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause<'a> {
    /// The variables.
    pub target: Expr<'a>,
    /// The iterable.
    pub iter: Expr<'a>,
    /// The filter conditions.
    pub conditions: Vec<Expr<'a>>,
}

/// A conditional expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditional<'a> {
    /// The condition.
    pub test: Expr<'a>,
    /// The value if it holds.
    pub then: Expr<'a>,
    /// The value if not.
    pub otherwise: Expr<'a>,
}

/// `-a`, `+a`, `~a`, `not a`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type's doc has each operator")]
pub enum UnaryOp {
    Neg,
    Pos,
    Invert,
    Not,
}

macro_rules! operators {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $token:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $(#[doc = concat!("`", $token, "`")] $variant,)* }

        impl $name {
            /// The operator's token.
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token,)* }
            }
        }
    };
}

operators! {
    /// An arithmetic or bit operator.
    BinaryOp {
        Add "+" Sub "-" Mul "*" Div "/" FloorDiv "//" Mod "%" Pow "**" MatMul "@" Shl "<<" Shr ">>" BitAnd "&" BitOr "|" BitXor "^"
    }
}

/// `and` or `or`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type's doc has each operator")]
pub enum LogicalOp {
    And,
    Or,
}

operators! {
    /// A comparison.
    CompareOp { Eq "==" Ne "!=" Lt "<" Le "<=" Gt ">" Ge ">=" Is "is" IsNot "is not" In "in" NotIn "not in" }
}

impl BinaryOp {
    /// The operator of expressions with the same meaning for all numbers that it takes: that of `+`, `-`, `*`, `//` and `%`.
    pub fn arithmetic(self) -> Option<BinOp> {
        match self {
            BinaryOp::Add => Some(BinOp::Add),
            BinaryOp::Sub => Some(BinOp::Sub),
            BinaryOp::Mul => Some(BinOp::Mul),
            BinaryOp::FloorDiv => Some(BinOp::FloorDiv),
            BinaryOp::Mod => Some(BinOp::FloorMod),
            BinaryOp::Div
            | BinaryOp::Pow
            | BinaryOp::MatMul
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor => None,
        }
    }
}

impl CompareOp {
    /// The comparison of expressions; `None` for those of identity and membership.
    pub fn of_values(self) -> Option<CmpOp> {
        match self {
            CompareOp::Eq => Some(CmpOp::Eq),
            CompareOp::Ne => Some(CmpOp::Ne),
            CompareOp::Lt => Some(CmpOp::Lt),
            CompareOp::Le => Some(CmpOp::Le),
            CompareOp::Gt => Some(CmpOp::Gt),
            CompareOp::Ge => Some(CmpOp::Ge),
            CompareOp::Is | CompareOp::IsNot | CompareOp::In | CompareOp::NotIn => None,
        }
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt<'a> {
    /// The kind, with its parts.
    pub kind: StmtKind<'a>,
    /// Place in the text, including the body.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind<'a> {
    /// `def name(params): body`
    Function(Box<Function<'a>>),
    /// `class name: body`
    Class(Box<Class<'a>>),
    /// `a = b = value`
    Assign(Vec<Expr<'a>>, Expr<'a>),
    /// `a += value`
    AugAssign(Expr<'a>, BinaryOp, Expr<'a>),
    /// `a: annotation = value`
    AnnAssign(Expr<'a>, Expr<'a>, Option<Expr<'a>>),
    /// `for target in iter: body`
    For(Box<For<'a>>),
    /// `if test: body elif …: else: …`
    If(Vec<Branch<'a>>),
    /// `with context as target: body`
    With(Vec<(Expr<'a>, Option<Expr<'a>>)>, Vec<Stmt<'a>>),
    /// An expression, evaluated for its effect.
    Expr(Expr<'a>),
    /// `return value`
    Return(Option<Expr<'a>>),
    /// `while test: body`
    While(Box<While<'a>>),
    /// `assert test, message`
    Assert(Expr<'a>, Option<Expr<'a>>),
    /// `import a.b as c`: the dotted name and the name after `as`
    Import(Vec<(Ident<'a>, Option<Ident<'a>>)>),
    /// `from module import a as b`
    ImportFrom(Option<Ident<'a>>, Vec<(Ident<'a>, Option<Ident<'a>>)>),
    /// `pass`
    Pass,
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// Any other statement, with a description.
    Other(&'static str),
}

/// A function definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// Name of the function.
    pub name: Ident<'a>,
    /// Decorators, without the `@`.
    pub decorators: Vec<Expr<'a>>,
    /// Parameters that can be given by position or by name.
    pub params: Vec<Param<'a>>,
    /// A parameter of another kind: `*args`, `**kwargs`, or after a bare `*`.
    pub odd_param: Option<Span>,
    /// `*args`, if that is the only parameter of another kind.
    pub rest: Option<Ident<'a>>,
    /// The annotation after `->`.
    pub returns: Option<Expr<'a>>,
    /// Statements of the function.
    pub body: Vec<Stmt<'a>>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param<'a> {
    /// Name of the parameter.
    pub name: Ident<'a>,
    /// Name and annotation.
    pub span: Span,
    /// The type after the colon.
    pub annotation: Option<Expr<'a>>,
    /// The value after `=`.
    pub default: Option<Expr<'a>>,
}

/// A class definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Class<'a> {
    /// Name of the class.
    pub name: Ident<'a>,
    /// Decorators, without the `@`.
    pub decorators: Vec<Expr<'a>>,
    /// Statements of the class.
    pub body: Vec<Stmt<'a>>,
}

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub struct For<'a> {
    /// The variables.
    pub target: Expr<'a>,
    /// The iterable.
    pub iter: Expr<'a>,
    /// Statements of an iteration.
    pub body: Vec<Stmt<'a>>,
    /// Place of the `else`, if there is one.
    pub orelse: Option<Span>,
}

/// A `while` loop.
#[derive(Clone, Debug, PartialEq)]
pub struct While<'a> {
    /// The condition.
    pub test: Expr<'a>,
    /// Statements of an iteration.
    pub body: Vec<Stmt<'a>>,
    /// Place of the `else`, if there is one.
    pub orelse: Option<Span>,
}

/// A branch of an `if`. Only the last one may have no condition (`else`).
#[derive(Clone, Debug, PartialEq)]
pub struct Branch<'a> {
    /// The condition.
    pub test: Option<Expr<'a>>,
    /// Statements of the branch.
    pub body: Vec<Stmt<'a>>,
    /// From the keyword to the end of the body.
    pub span: Span,
}
