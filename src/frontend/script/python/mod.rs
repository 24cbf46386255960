//! Parses Python text into a syntax tree. No other file knows the Python parser.
//!
//! The parser crate declares its interface internal and changes it freely, so its tree is converted into the small one
//! below, which the TVMScript translation and the interpreter of schedule functions read. Constructs that neither of
//! them supports become [`ExprKind::Other`] or [`StmtKind::Other`] with a description, and are errors only where they
//! are used. Names are slices of the source; every node has its [`Span`].
//!
//! Nesting is limited before parsing ([`MAX_NESTING`], [`MAX_INDENT`]), so that no later stage can overflow its stack.

mod convert;
mod limits;

use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{BinOp, CmpOp};
use convert::{Convert, span_of};
use limits::check_text;
use ruff_python_ast::PySourceType;
use ruff_python_ast::token::TokenKind;
use ruff_text_size::{Ranged, TextRange};

/// Maximum nesting of one expression: brackets, operators and attribute accesses around an operand.
pub const MAX_NESTING: usize = 400;

/// Maximum number of indentation levels.
pub const MAX_INDENT: usize = 100;

/// Maximum length of a text in bytes.
pub const MAX_BYTES: usize = 64 << 20;

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

/// Parses a file. Syntax errors have spans in the text, and are in text order.
pub fn parse_module(text: &str) -> Result<Vec<Stmt<'_>>, Vec<Diagnostic>> {
    let unclosed = check_text(text)?;
    let parsed = ruff_python_parser::parse_unchecked_source(text, PySourceType::Python);
    let mut errors = syntax_errors(text, parsed.errors());
    if let (Some(bracket), false) = (unclosed, errors.is_empty()) {
        // Everything after an unclosed bracket is parsed as its contents.
        errors.retain(|d| d.labels.first().is_some_and(|l| l.span.end <= bracket.start));
        let message = format!("`{}` is never closed", &text[bracket.range()]);
        errors.push(Diagnostic::error_at("syntax", bracket, message));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let convert = Convert { text };
    Ok(parsed.syntax().body.iter().map(|s| convert.stmt(s)).collect())
}

/// The comments of a text, in text order, each with its `#`.
pub fn comments(text: &str) -> Vec<Span> {
    let parsed = ruff_python_parser::parse_unchecked_source(text, PySourceType::Python);
    let tokens = parsed.tokens().iter().filter(|t| t.kind() == TokenKind::Comment);
    tokens.map(|t| span_of(t.range())).collect()
}

/// Parses the expression in `span` of a text; the result has spans of the whole text.
pub fn parse_expression(text: &str, span: Span) -> Result<Expr<'_>, Vec<Diagnostic>> {
    check_text(text.get(span.range()).unwrap_or_default()).map_err(|mut errors| {
        for label in errors.iter_mut().flat_map(|d| &mut d.labels) {
            label.span = Span { start: label.span.start + span.start, end: label.span.end + span.start };
        }
        errors
    })?;
    let range = TextRange::new(span.start.into(), span.end.into());
    match ruff_python_parser::parse_parenthesized_expression_range(text, range) {
        Ok(parsed) => Ok(Convert { text }.expr(parsed.expr())),
        Err(error) => Err(syntax_errors(text, &[error])),
    }
}

/// The parser recovers after an error and tends to report errors that follow from it, so only the first one of each
/// line is kept.
fn syntax_errors(text: &str, errors: &[ruff_python_parser::ParseError]) -> Vec<Diagnostic> {
    use ruff_python_parser::{LexicalErrorType, ParseErrorType};
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    let mut last_line = None;
    for error in errors {
        let mut span = span_of(error.location);
        if span.start == span.end {
            // A caret under the end of a line is more visible than an empty range.
            span.end = text[span.range().start..].chars().next().map_or(span.end, |c| span.end + c.len_utf8() as u32);
        }
        let line = text.as_bytes()[..span.range().start].iter().filter(|&&b| b == b'\n').count();
        if last_line == Some(line) {
            continue;
        }
        last_line = Some(line);
        let is_indentation = matches!(
            error.error,
            ParseErrorType::UnexpectedIndentation | ParseErrorType::Lexical(LexicalErrorType::IndentationError)
        );
        let message = error.error.to_string();
        let d = if is_indentation {
            Diagnostic::error_at("indentation", span, "unexpected indentation")
                .mark("does not match the lines above")
                .help("indent the statements of one body by the same spaces or tabs")
        } else {
            let mut d = Diagnostic::error_at("syntax", span, lower_first(&message));
            if message.contains("indented block") {
                d = d.help("indent what belongs to the line above, or write `pass`");
            }
            d
        };
        diagnostics.push(d);
    }
    diagnostics
}

/// The parser's message in tvmr's style.
fn lower_first(message: &str) -> String {
    let mut chars = message.trim_end_matches('.').chars();
    match chars.next() {
        // "IPython" and other names keep their capital.
        Some(c) if !chars.as_str().starts_with(char::is_uppercase) => c.to_lowercase().chain(chars).collect(),
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of the syntax errors of a text.
    fn check(text: &str) -> Vec<&'static str> {
        parse_module(text).err().unwrap_or_default().iter().map(|d| d.code).collect()
    }

    #[test]
    fn spans_point_into_the_text() {
        let text = "x = f(a, key=b[1:2])\n";
        let module = parse_module(text).expect("valid Python");
        let StmtKind::Assign(targets, value) = &module[0].kind else { panic!("{module:?}") };
        assert_eq!(&text[targets[0].span.range()], "x");
        let ExprKind::Call(call) = &value.kind else { panic!("{value:?}") };
        assert_eq!(&text[call.args_span.range()], "(a, key=b[1:2])");
        assert_eq!(&text[call.keywords[0].1.span.range()], "b[1:2]");
    }

    #[test]
    fn an_expression_inside_a_text_keeps_its_place() {
        let text = "T.Buffer((\"n * 2\",))";
        let e = parse_expression(text, Span::new(11, 16)).expect("valid Python");
        assert_eq!(&text[e.span.range()], "n * 2");
        assert!(parse_expression("\"n +\"", Span::new(1, 4)).is_err());
    }

    #[test]
    fn deep_nesting_is_refused_not_suffered() {
        for (open, close) in
            [("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("f(", ")"), ("lambda: ", ""), ("x if y else ", "")]
        {
            let text = |n: usize| format!("a = {}x{}\n", open.repeat(n), close.repeat(n));
            assert_eq!(check(&text(100)), Vec::<&str>::new(), "{open}");
            assert_eq!(check(&text(100_000)), ["nesting"], "{open}");
        }
        for (first, repeated) in
            [("x", " + x"), ("x", ".y"), ("x", "()"), ("x", "[0]"), ("x", " and x"), ("x", " ** x")]
        {
            let text = |n: usize| format!("a = {first}{}\n", repeated.repeat(n));
            assert_eq!(check(&text(150)), Vec::<&str>::new(), "{repeated}");
            assert_eq!(check(&text(100_000)), ["nesting"], "{repeated}");
        }
        let nest = |n: usize| (0..n).map(|i| format!("{}if x:\n", " ".repeat(i))).collect::<String>();
        assert_eq!(check(&(nest(90) + &" ".repeat(90) + "pass\n")), Vec::<&str>::new());
        assert_eq!(check(&nest(10_000)), ["nesting"]);
    }

    #[test]
    fn long_but_flat_texts_are_read() {
        let list = format!("a = [{}]\n", "x + f(1), ".repeat(10_000));
        assert_eq!(check(&list), Vec::<&str>::new());
        let lines = "a = x.y(1)[2] + 3 # (((\n".repeat(1_000);
        assert_eq!(check(&lines), Vec::<&str>::new());
        assert_eq!(check(&format!("a = '{}'\n", "(".repeat(10_000))), Vec::<&str>::new());
    }

    #[test]
    fn errors_have_codes() {
        assert_eq!(check("a = \n"), ["syntax"]);
        assert_eq!(check("a = 1\n  b = 2\n"), ["indentation"]);
        assert_eq!(check("a = \0\n"), ["syntax"]);
        assert_eq!(check("a = )\nb = ]\n"), ["syntax", "syntax"]);
    }
}
