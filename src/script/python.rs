//! Python text as a syntax tree: the one place that knows the Python parser.
//!
//! The parser crate calls its own interface internal and changes it freely, so its tree is turned into the small one
//! below, which the TVMScript translation and the interpreter of schedule functions read. What neither of them
//! supports becomes [`ExprKind::Other`] or [`StmtKind::Other`] with a name for it, and is an error only where it is
//! met. Names are slices of the source; every node has its [`Span`].
//!
//! Nesting is limited before parsing ([`MAX_NESTING`], [`MAX_INDENT`]), so that no later stage has to fear for its
//! stack.

use crate::diagnostic::{Diagnostic, Span};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextRange};

/// The deepest nesting of one expression that is read: brackets, operators and attribute accesses around an operand.
pub const MAX_NESTING: usize = 400;

/// The deepest indentation that is read, in levels.
pub const MAX_INDENT: usize = 100;

/// The longest text that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr<'a> {
    /// What it is.
    pub kind: ExprKind<'a>,
    /// Where it stands.
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
    /// `{key: value}`; a missing key is a `**value`
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
    /// `lambda a, b: body`
    Lambda(Vec<Ident<'a>>, Box<Expr<'a>>),
    /// `*value`
    Starred(Box<Expr<'a>>),
    /// `[element for target in iter if condition]`, or the same as a generator
    ListComp(Box<Comprehension<'a>>),
    /// A formatted string: texts and what is put between them
    Format(Vec<Expr<'a>>),
    /// Anything else, by a name for it.
    Other(&'static str),
}

/// A name with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident<'a> {
    /// The name.
    pub name: &'a str,
    /// Where it stands.
    pub span: Span,
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<'a> {
    /// What is called.
    pub callee: Expr<'a>,
    /// Positional arguments.
    pub args: Vec<Expr<'a>>,
    /// Keyword arguments; without a name for `**value`.
    pub keywords: Vec<(Option<Ident<'a>>, Expr<'a>)>,
    /// The parentheses with what is inside.
    pub args_span: Span,
}

/// A slice.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the parts of `lower:upper:step`")]
pub struct Slice<'a> {
    pub lower: Option<Expr<'a>>,
    pub upper: Option<Expr<'a>>,
    pub step: Option<Expr<'a>>,
}

/// A list made by loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension<'a> {
    /// What each turn adds.
    pub element: Expr<'a>,
    /// The loops, outermost first.
    pub clauses: Vec<Clause<'a>>,
}

/// A loop of a comprehension.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause<'a> {
    /// The variables.
    pub target: Expr<'a>,
    /// What they run over.
    pub iter: Expr<'a>,
    /// What must hold for a turn to count.
    pub conditions: Vec<Expr<'a>>,
}

/// A conditional expression.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the parts of `then if test else otherwise`")]
pub struct Conditional<'a> {
    pub test: Expr<'a>,
    pub then: Expr<'a>,
    pub otherwise: Expr<'a>,
}

/// `-a`, `+a`, `~a`, `not a`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the operator it names")]
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
        #[expect(missing_docs, reason = "each variant is the operator it names")]
        pub enum $name { $($variant,)* }

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

operators! {
    /// `and` or `or`.
    LogicalOp { And "and" Or "or" }
}

operators! {
    /// A comparison.
    CompareOp { Eq "==" Ne "!=" Lt "<" Le "<=" Gt ">" Ge ">=" Is "is" IsNot "is not" In "in" NotIn "not in" }
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt<'a> {
    /// What it is.
    pub kind: StmtKind<'a>,
    /// Where it stands, with everything inside.
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
    /// An expression, for its effect.
    Expr(Expr<'a>),
    /// `return value`
    Return(Option<Expr<'a>>),
    /// `assert test, message`
    Assert(Expr<'a>),
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
    /// Anything else, by a name for it.
    Other(&'static str),
}

/// A function definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// Decorators, without the `@`.
    pub decorators: Vec<Expr<'a>>,
    /// Parameters that can be given by position or name.
    pub params: Vec<Param<'a>>,
    /// A parameter that is none of these: `*args`, `**kwargs`, or after a bare `*`.
    pub odd_param: Option<Span>,
    /// The annotation after `->`.
    pub returns: Option<Expr<'a>>,
    /// What it does.
    pub body: Vec<Stmt<'a>>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param<'a> {
    /// Its name.
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
    /// Its name.
    pub name: Ident<'a>,
    /// Decorators, without the `@`.
    pub decorators: Vec<Expr<'a>>,
    /// What is inside.
    pub body: Vec<Stmt<'a>>,
}

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub struct For<'a> {
    /// The variables.
    pub target: Expr<'a>,
    /// What they run over.
    pub iter: Expr<'a>,
    /// What is repeated.
    pub body: Vec<Stmt<'a>>,
    /// Where an `else` stands, if there is one.
    pub orelse: Option<Span>,
}

/// A branch of an `if`: the last one may have no condition (`else`), no other.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch<'a> {
    /// The condition.
    pub test: Option<Expr<'a>>,
    /// What runs.
    pub body: Vec<Stmt<'a>>,
    /// From the keyword to the end of the body.
    pub span: Span,
}

/// Parses a file. Syntax errors come with the spans of the text, in its order.
pub fn parse_module(text: &str) -> Result<Vec<Stmt<'_>>, Vec<Diagnostic>> {
    let unclosed = check_text(text)?;
    let parsed = ruff_python_parser::parse_unchecked_source(text, ast::PySourceType::Python);
    let mut errors = syntax_errors(text, parsed.errors());
    if let (Some(bracket), false) = (unclosed, errors.is_empty()) {
        // All that comes after an open bracket is read as if it were inside.
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

/// Parses the expression in `span` of a text; spans are those of the whole text.
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

/// The parser recovers after an error and tends to report what follows from it, too: only the first one of each line
/// is kept.
fn syntax_errors(text: &str, errors: &[ruff_python_parser::ParseError]) -> Vec<Diagnostic> {
    use ruff_python_parser::{LexicalErrorType, ParseErrorType};
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    let mut last_line = None;
    for error in errors {
        let mut span = span_of(error.location);
        if span.start == span.end {
            // A caret under the end of a line shows more than an empty range.
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

/// The parser's message in the house style.
fn lower_first(message: &str) -> String {
    let mut chars = message.trim_end_matches('.').chars();
    match chars.next() {
        // "IPython" and other names keep their capital.
        Some(c) if !chars.as_str().starts_with(char::is_uppercase) => c.to_lowercase().chain(chars).collect(),
        _ => message.to_string(),
    }
}

fn span_of(range: TextRange) -> Span {
    Span { start: range.start().into(), end: range.end().into() }
}

// ---- limits ------------------------------------------------------------------------------------------------

/// What is open at a level of brackets: how many operators are around the next operand.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Operators since the last comma.
    operators: usize,
    /// Attribute accesses, calls and subscripts since the last operator.
    suffixes: usize,
    /// Lambdas since the level was opened: their bodies extend over commas.
    lambdas: usize,
    /// The position of the bracket.
    opened: usize,
}

impl Level {
    fn depth(self) -> usize {
        1 + self.operators + self.suffixes + self.lambdas
    }
}

/// Refuses what the parser, or a recursive walk over its tree, could not bear. The count is an upper bound of the
/// depth of the tree, taken from the text with strings and comments skipped. Returns the last bracket that is not
/// closed.
fn check_text(text: &str) -> Result<Option<Span>, Vec<Diagnostic>> {
    if text.len() > MAX_BYTES {
        let message = format!("the text has {} bytes, more than the {MAX_BYTES} that are read", text.len());
        return Err(vec![Diagnostic::error("too-long", message)]);
    }
    if let Some(at) = text.bytes().position(|b| b == 0) {
        let d = Diagnostic::error_at("syntax", Span::new(at, at + 1), "the text contains a NUL byte");
        return Err(vec![d.help("save the file as plain UTF-8 text")]);
    }
    let bytes = text.as_bytes();
    let mut levels = vec![Level::default()];
    let mut total = 0;
    let mut indents: Vec<usize> = Vec::new();
    let mut line_start = true;
    let mut i = 0;
    while i < bytes.len() {
        if line_start && levels.len() == 1 {
            line_start = false;
            let width = bytes[i..].iter().take_while(|&&b| b == b' ' || b == b'\t').count();
            i += width;
            if !matches!(bytes.get(i), None | Some(b'\n' | b'\r' | b'#')) {
                indents.retain(|&w| w < width);
                indents.push(width);
                if indents.len() > MAX_INDENT + 1 {
                    let d = Diagnostic::error_at(
                        "nesting",
                        Span::new(i, i + 1),
                        format!("statements are nested more than {MAX_INDENT} levels deep"),
                    );
                    return Err(vec![d]);
                }
            }
            continue;
        }
        let start = i;
        let level = levels.last_mut().expect("the outermost level is never closed");
        let before = level.depth();
        match bytes[i] {
            b'#' => {
                i += bytes[i..].iter().take_while(|&&b| b != b'\n').count();
                continue;
            }
            b'\\' => {
                i += 2;
                continue;
            }
            quote @ (b'"' | b'\'') => {
                i = skip_string(bytes, i, quote);
                continue;
            }
            b'\n' => {
                line_start = true;
                if levels.len() == 1 {
                    levels[0] = Level::default();
                    total = 1;
                }
                i += 1;
                continue;
            }
            b'(' | b'[' | b'{' => {
                levels.push(Level { opened: i, ..Level::default() });
                total += 1;
            }
            b')' | b']' | b'}' => {
                if levels.len() > 1 {
                    total -= before;
                    levels.pop();
                }
                let outer = levels.last_mut().expect("the outermost level is never closed");
                outer.suffixes += 1;
                total += 1;
            }
            b',' | b';' => {
                (level.operators, level.suffixes) = (0, 0);
                total = total + level.depth() - before;
            }
            b'.' => {
                level.suffixes += 1;
                total += 1;
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'~' | b'<' | b'>' | b'@' | b'=' | b'!' => {
                // A run such as `//` or `- -` is counted by its characters: too many rather than too few.
                level.operators += 1;
                level.suffixes = 0;
                total = total + level.depth() - before;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                let end = i + bytes[i..].iter().take_while(|&&b| is_word(b)).count();
                match &bytes[i..end] {
                    b"lambda" => level.lambdas += 1,
                    b"not" | b"and" | b"or" | b"if" | b"else" | b"in" | b"is" | b"await" | b"yield" | b"for" => {
                        level.operators += 1;
                        level.suffixes = 0;
                    }
                    _ => {}
                }
                total = total + level.depth() - before;
                i = end - 1;
            }
            _ => {}
        }
        i += 1;
        if total > MAX_NESTING {
            let d = Diagnostic::error_at(
                "nesting",
                Span::new(start, start + 1),
                format!("the expression is nested more than {MAX_NESTING} levels deep"),
            );
            return Err(vec![d.help("split it up with `T.let` variables")]);
        }
    }
    Ok(levels.get(1..).and_then(|open| open.last()).map(|l| Span::new(l.opened, l.opened + 1)))
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

/// The position behind the string that begins at `i`; of a string that can contain expressions, behind the quote, so
/// that what is inside is counted.
fn skip_string(bytes: &[u8], i: usize, quote: u8) -> usize {
    let triple = bytes[i..].starts_with(&[quote; 3]);
    let prefix = bytes[..i].iter().rev().take_while(|&&b| is_word(b)).take(2);
    if prefix.clone().any(|b| matches!(b, b'f' | b'F' | b't' | b'T')) {
        return i + if triple { 3 } else { 1 };
    }
    let mut j = i + if triple { 3 } else { 1 };
    while j < bytes.len() {
        match bytes[j] {
            b'\\' => j += 2,
            b'\n' if !triple => return j,
            b if b == quote && !triple => return j + 1,
            b if b == quote && bytes[j..].starts_with(&[quote; 3]) => return j + 3,
            _ => j += 1,
        }
    }
    bytes.len()
}

// ---- conversion --------------------------------------------------------------------------------------------

struct Convert<'a> {
    text: &'a str,
}

impl<'a> Convert<'a> {
    fn slice(&self, range: TextRange) -> &'a str {
        &self.text[usize::from(range.start())..usize::from(range.end())]
    }

    fn ident(&self, id: &ast::Identifier) -> Ident<'a> {
        Ident { name: self.slice(id.range), span: span_of(id.range) }
    }

    fn exprs(&self, list: &[ast::Expr]) -> Vec<Expr<'a>> {
        list.iter().map(|e| self.expr(e)).collect()
    }

    fn boxed(&self, e: &ast::Expr) -> Box<Expr<'a>> {
        Box::new(self.expr(e))
    }

    fn expr(&self, e: &ast::Expr) -> Expr<'a> {
        let kind = match e {
            ast::Expr::Name(n) => ExprKind::Name(self.slice(n.range)),
            ast::Expr::NumberLiteral(n) => match &n.value {
                ast::Number::Int(v) => ExprKind::Int(v.as_u64()),
                ast::Number::Float(v) => ExprKind::Float(*v),
                ast::Number::Complex { .. } => ExprKind::Other("a complex number"),
            },
            ast::Expr::StringLiteral(s) => ExprKind::Str(s.value.to_str().into()),
            ast::Expr::BooleanLiteral(b) => ExprKind::Bool(b.value),
            ast::Expr::NoneLiteral(_) => ExprKind::None,
            ast::Expr::Tuple(t) => ExprKind::Tuple(self.exprs(&t.elts)),
            ast::Expr::List(l) => ExprKind::List(self.exprs(&l.elts)),
            ast::Expr::Dict(d) => ExprKind::Dict(
                d.items.iter().map(|i| (i.key.as_ref().map(|k| self.expr(k)), self.expr(&i.value))).collect(),
            ),
            ast::Expr::Attribute(a) => ExprKind::Attribute(self.boxed(&a.value), self.ident(&a.attr)),
            ast::Expr::Call(c) => ExprKind::Call(Box::new(Call {
                callee: self.expr(&c.func),
                args: self.exprs(&c.arguments.args),
                keywords: (c.arguments.keywords.iter())
                    .map(|k| (k.arg.as_ref().map(|a| self.ident(a)), self.expr(&k.value)))
                    .collect(),
                args_span: span_of(c.arguments.range),
            })),
            ast::Expr::Subscript(s) => ExprKind::Subscript(self.boxed(&s.value), self.boxed(&s.slice)),
            ast::Expr::Slice(s) => {
                let part = |e: &Option<Box<ast::Expr>>| e.as_deref().map(|e| self.expr(e));
                ExprKind::Slice(Box::new(Slice { lower: part(&s.lower), upper: part(&s.upper), step: part(&s.step) }))
            }
            ast::Expr::UnaryOp(u) => {
                let op = match u.op {
                    ast::UnaryOp::Invert => UnaryOp::Invert,
                    ast::UnaryOp::Not => UnaryOp::Not,
                    ast::UnaryOp::UAdd => UnaryOp::Pos,
                    ast::UnaryOp::USub => UnaryOp::Neg,
                };
                ExprKind::Unary(op, self.boxed(&u.operand))
            }
            ast::Expr::BinOp(b) => ExprKind::Binary(binary_op(b.op), self.boxed(&b.left), self.boxed(&b.right)),
            ast::Expr::BoolOp(b) => {
                let op = match b.op {
                    ast::BoolOp::And => LogicalOp::And,
                    ast::BoolOp::Or => LogicalOp::Or,
                };
                ExprKind::Logical(op, self.exprs(&b.values))
            }
            ast::Expr::Compare(c) => {
                let rest = c.ops.iter().zip(&c.comparators).map(|(op, e)| (compare_op(*op), self.expr(e)));
                ExprKind::Compare(self.boxed(&c.left), rest.collect())
            }
            ast::Expr::If(i) => ExprKind::Conditional(Box::new(Conditional {
                test: self.expr(&i.test),
                then: self.expr(&i.body),
                otherwise: self.expr(&i.orelse),
            })),
            ast::Expr::Lambda(l) => {
                let simple = l.parameters.as_deref().is_none_or(|p| {
                    p.vararg.is_none()
                        && p.kwarg.is_none()
                        && p.kwonlyargs.is_empty()
                        && p.iter_non_variadic_params().all(|p| p.default.is_none())
                });
                let names = l.parameters.iter().flat_map(|p| p.iter_non_variadic_params());
                let names = names.map(|p| self.ident(&p.parameter.name)).collect();
                if simple {
                    ExprKind::Lambda(names, self.boxed(&l.body))
                } else {
                    ExprKind::Other("a lambda with defaults or variable arguments")
                }
            }
            ast::Expr::Starred(s) => ExprKind::Starred(self.boxed(&s.value)),
            ast::Expr::Named(_) => ExprKind::Other("an assignment expression"),
            ast::Expr::Set(_) => ExprKind::Other("a set"),
            ast::Expr::ListComp(c) => self.comprehension(&c.elt, &c.generators),
            ast::Expr::Generator(g) => self.comprehension(&g.elt, &g.generators),
            ast::Expr::SetComp(_) => ExprKind::Other("a set"),
            ast::Expr::DictComp(_) => ExprKind::Other("a dictionary comprehension"),
            ast::Expr::Await(_) => ExprKind::Other("`await`"),
            ast::Expr::Yield(_) | ast::Expr::YieldFrom(_) => ExprKind::Other("`yield`"),
            ast::Expr::FString(f) => self.format(f),
            ast::Expr::TString(_) => ExprKind::Other("a template string"),
            ast::Expr::BytesLiteral(_) => ExprKind::Other("a bytes literal"),
            ast::Expr::EllipsisLiteral(_) => ExprKind::Other("`...`"),
            ast::Expr::IpyEscapeCommand(_) => ExprKind::Other("a shell command"),
        };
        Expr { kind, span: span_of(e.range()) }
    }

    fn comprehension(&self, element: &ast::Expr, clauses: &[ast::Comprehension]) -> ExprKind<'a> {
        if clauses.iter().any(|c| c.is_async) {
            return ExprKind::Other("an `async` comprehension");
        }
        let clause = |c: &ast::Comprehension| Clause {
            target: self.expr(&c.target),
            iter: self.expr(&c.iter),
            conditions: self.exprs(&c.ifs),
        };
        let clauses = clauses.iter().map(clause).collect();
        ExprKind::ListComp(Box::new(Comprehension { element: self.expr(element), clauses }))
    }

    fn format(&self, f: &ast::ExprFString) -> ExprKind<'a> {
        let text = |s: &str, range| Expr { kind: ExprKind::Str(s.into()), span: span_of(range) };
        let mut pieces = Vec::new();
        for part in &f.value {
            match part {
                ast::FStringPart::Literal(s) => pieces.push(text(s.as_str(), s.range)),
                ast::FStringPart::FString(f) => {
                    for element in &f.elements {
                        match element {
                            ast::InterpolatedStringElement::Literal(s) => pieces.push(text(&s.value, s.range)),
                            ast::InterpolatedStringElement::Interpolation(i) => {
                                let plain = i.conversion == ast::ConversionFlag::None && i.debug_text.is_none();
                                if i.format_spec.is_some() || !plain {
                                    return ExprKind::Other("a format specification");
                                }
                                pieces.push(self.expr(&i.expression));
                            }
                        }
                    }
                }
            }
        }
        ExprKind::Format(pieces)
    }

    fn stmts(&self, list: &[ast::Stmt]) -> Vec<Stmt<'a>> {
        list.iter().map(|s| self.stmt(s)).collect()
    }

    fn aliases(&self, names: &[ast::Alias]) -> Vec<(Ident<'a>, Option<Ident<'a>>)> {
        names.iter().map(|a| (self.ident(&a.name), a.asname.as_ref().map(|n| self.ident(n)))).collect()
    }

    fn decorators(&self, list: &[ast::Decorator]) -> Vec<Expr<'a>> {
        list.iter().map(|d| self.expr(&d.expression)).collect()
    }

    fn stmt(&self, s: &ast::Stmt) -> Stmt<'a> {
        let kind = match s {
            ast::Stmt::FunctionDef(f) if !f.is_async => StmtKind::Function(Box::new(self.function(f))),
            ast::Stmt::FunctionDef(_) => StmtKind::Other("an `async` function"),
            ast::Stmt::ClassDef(c) => StmtKind::Class(Box::new(Class {
                name: self.ident(&c.name),
                decorators: self.decorators(&c.decorator_list),
                body: self.stmts(&c.body),
            })),
            ast::Stmt::Assign(a) => StmtKind::Assign(self.exprs(&a.targets), self.expr(&a.value)),
            ast::Stmt::AugAssign(a) => StmtKind::AugAssign(self.expr(&a.target), binary_op(a.op), self.expr(&a.value)),
            ast::Stmt::AnnAssign(a) => StmtKind::AnnAssign(
                self.expr(&a.target),
                self.expr(&a.annotation),
                a.value.as_deref().map(|e| self.expr(e)),
            ),
            ast::Stmt::For(f) if !f.is_async => StmtKind::For(Box::new(For {
                target: self.expr(&f.target),
                iter: self.expr(&f.iter),
                body: self.stmts(&f.body),
                orelse: f.orelse.first().map(|s| span_of(s.range())),
            })),
            ast::Stmt::For(_) => StmtKind::Other("an `async` loop"),
            ast::Stmt::If(i) => {
                let end_of = |body: &[ast::Stmt]| body.last().map_or(i.range.end(), |s| s.end());
                let first = Branch {
                    test: Some(self.expr(&i.test)),
                    body: self.stmts(&i.body),
                    span: span_of(TextRange::new(i.range.start(), end_of(&i.body))),
                };
                let rest = i.elif_else_clauses.iter().map(|c| Branch {
                    test: c.test.as_ref().map(|t| self.expr(t)),
                    body: self.stmts(&c.body),
                    span: span_of(c.range),
                });
                StmtKind::If(std::iter::once(first).chain(rest).collect())
            }
            ast::Stmt::With(w) if !w.is_async => {
                let item =
                    |i: &ast::WithItem| (self.expr(&i.context_expr), i.optional_vars.as_deref().map(|v| self.expr(v)));
                StmtKind::With(w.items.iter().map(item).collect(), self.stmts(&w.body))
            }
            ast::Stmt::With(_) => StmtKind::Other("an `async with`"),
            ast::Stmt::Expr(e) => StmtKind::Expr(self.expr(&e.value)),
            ast::Stmt::Return(r) => StmtKind::Return(r.value.as_deref().map(|e| self.expr(e))),
            ast::Stmt::Assert(a) => StmtKind::Assert(self.expr(&a.test)),
            ast::Stmt::Import(i) => StmtKind::Import(self.aliases(&i.names)),
            ast::Stmt::ImportFrom(i) => {
                StmtKind::ImportFrom(i.module.as_ref().map(|m| self.ident(m)), self.aliases(&i.names))
            }
            ast::Stmt::Pass(_) => StmtKind::Pass,
            ast::Stmt::While(_) => StmtKind::Other("a `while` loop"),
            ast::Stmt::Delete(_) => StmtKind::Other("`del`"),
            ast::Stmt::TypeAlias(_) => StmtKind::Other("a type alias"),
            ast::Stmt::Match(_) => StmtKind::Other("`match`"),
            ast::Stmt::Raise(_) => StmtKind::Other("`raise`"),
            ast::Stmt::Try(_) => StmtKind::Other("`try`"),
            ast::Stmt::Global(_) => StmtKind::Other("`global`"),
            ast::Stmt::Nonlocal(_) => StmtKind::Other("`nonlocal`"),
            ast::Stmt::Break(_) => StmtKind::Break,
            ast::Stmt::Continue(_) => StmtKind::Continue,
            ast::Stmt::IpyEscapeCommand(_) => StmtKind::Other("a shell command"),
        };
        Stmt { kind, span: span_of(s.range()) }
    }

    fn function(&self, f: &ast::StmtFunctionDef) -> Function<'a> {
        let p = &f.parameters;
        let param = |p: &ast::ParameterWithDefault| Param {
            name: self.ident(&p.parameter.name),
            span: span_of(p.parameter.range),
            annotation: p.parameter.annotation.as_deref().map(|e| self.expr(e)),
            default: p.default.as_deref().map(|e| self.expr(e)),
        };
        let odd = p.vararg.as_deref().or(p.kwarg.as_deref()).map(|p| p.range);
        Function {
            name: self.ident(&f.name),
            decorators: self.decorators(&f.decorator_list),
            params: p.posonlyargs.iter().chain(&p.args).map(param).collect(),
            odd_param: odd.or(p.kwonlyargs.first().map(|p| p.range)).map(span_of),
            returns: f.returns.as_deref().map(|e| self.expr(e)),
            body: self.stmts(&f.body),
        }
    }
}

fn binary_op(op: ast::Operator) -> BinaryOp {
    match op {
        ast::Operator::Add => BinaryOp::Add,
        ast::Operator::Sub => BinaryOp::Sub,
        ast::Operator::Mult => BinaryOp::Mul,
        ast::Operator::MatMult => BinaryOp::MatMul,
        ast::Operator::Div => BinaryOp::Div,
        ast::Operator::Mod => BinaryOp::Mod,
        ast::Operator::Pow => BinaryOp::Pow,
        ast::Operator::LShift => BinaryOp::Shl,
        ast::Operator::RShift => BinaryOp::Shr,
        ast::Operator::BitOr => BinaryOp::BitOr,
        ast::Operator::BitXor => BinaryOp::BitXor,
        ast::Operator::BitAnd => BinaryOp::BitAnd,
        ast::Operator::FloorDiv => BinaryOp::FloorDiv,
    }
}

fn compare_op(op: ast::CmpOp) -> CompareOp {
    match op {
        ast::CmpOp::Eq => CompareOp::Eq,
        ast::CmpOp::NotEq => CompareOp::Ne,
        ast::CmpOp::Lt => CompareOp::Lt,
        ast::CmpOp::LtE => CompareOp::Le,
        ast::CmpOp::Gt => CompareOp::Gt,
        ast::CmpOp::GtE => CompareOp::Ge,
        ast::CmpOp::Is => CompareOp::Is,
        ast::CmpOp::IsNot => CompareOp::IsNot,
        ast::CmpOp::In => CompareOp::In,
        ast::CmpOp::NotIn => CompareOp::NotIn,
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
