//! Parses Python text into a syntax tree.
//!
//! `lexer` makes tokens, and a recursive descent makes the tree of them: `statement` and `compound` of statements,
//! `expression` of operators, `primary` of operands, `string` of literals. The parser reads all of Python 3.15, so that
//! it knows where a construct ends, but the tree has only what is used here: everything else becomes
//! [`ExprKind::Other`] or [`StmtKind::Other`]. Names are slices of the source; every node has its [`Span`].
//!
//! What Python's own parser refuses is refused. What only its compiler refuses, such as `return` outside of a function
//! or two parameters with one name, is left to the readers of the tree. A mistake does not end the parser: it goes on
//! behind the statement, so that one run shows all of them. Behind a mistake, the tree is thrown away.
//!
//! Nesting is limited before parsing ([`MAX_NESTING`], [`MAX_INDENT`]), so that no later stage can overflow its stack.
//! The parser itself needs some kilobytes for each bracket, and gets a larger stack for texts with many.

mod compound;
mod expression;
mod lexer;
mod limits;
mod number;
mod parameter;
mod parser;
mod pattern;
mod precedence;
mod primary;
mod statement;
mod string;
mod target;
#[cfg(test)]
mod tests;
mod token;
mod tree;

use crate::diagnostic::{Diagnostic, Span};
use lexer::lex;
use limits::{Nesting, check_nesting, check_text, too_nested};
use parser::{Parsed, Parser};
use std::ops::Range;
pub use tree::*;

/// Maximum nesting of one expression: brackets, operators and attribute accesses around an operand.
pub const MAX_NESTING: usize = 400;

/// Maximum number of indentation levels.
pub const MAX_INDENT: usize = 100;

/// Maximum length of a text in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// Nesting that fits every stack, also where nothing is optimised.
const SHALLOW: usize = 50;

/// The stack for texts that are nested deeper, in bytes.
const DEEP_STACK: usize = 16 << 20;

/// Parses a file. Syntax errors have spans in the text, and are in text order.
pub fn parse_module(text: &str) -> Result<Vec<Stmt<'_>>, Vec<Diagnostic>> {
    let (parser, nesting) = parser_of(text, None)?;
    let (module, mistakes) = nesting.read(parser, |parser| Ok(parser.module()))?;
    if let (Ok(module), []) = (module, &mistakes[..]) {
        return Ok(module);
    }
    let mut errors = syntax_errors(text, mistakes);
    if let Some(bracket) = nesting.unclosed {
        // Everything after an unclosed bracket is parsed as its contents.
        errors.retain(|d| d.labels.first().is_some_and(|l| l.span.end <= bracket.start));
        let message = format!("`{}` is never closed", &text[bracket.range()]);
        errors.push(Diagnostic::error_at("syntax", bracket, message));
    }
    Err(errors)
}

/// The comments of a text, in text order, each with its `#`.
pub fn comments(text: &str) -> Vec<Span> {
    lex(text, None).comments
}

/// Parses the expression in `span` of a text; the result has spans of the whole text.
pub fn parse_expression(text: &str, span: Span) -> Result<Expr<'_>, Vec<Diagnostic>> {
    let (parser, nesting) = parser_of(text, Some(span.range()))?;
    match nesting.read(parser, Parser::whole_expression)? {
        (Ok(expression), mistakes) if mistakes.is_empty() => Ok(expression),
        (_, mistakes) => Err(syntax_errors(text, mistakes)),
    }
}

/// A parser of a text or a range of it, and how deep it is nested.
fn parser_of(text: &str, range: Option<Range<usize>>) -> Result<(Parser<'_>, Nesting), Vec<Diagnostic>> {
    check_text(text).map_err(|d| vec![d])?;
    let lexed = lex(text, range);
    let nesting = check_nesting(&lexed.tokens).map_err(|d| vec![d])?;
    Ok((Parser::new(text, lexed), nesting))
}

/// A result of the parser, with the mistakes that it found.
type Read<T> = (Parsed<T>, Vec<Mistake>);

impl Nesting {
    /// Runs the parser where the stack suffices.
    fn read<'a, T: Send>(
        self,
        mut parser: Parser<'a>,
        read: impl FnOnce(&mut Parser<'a>) -> Parsed<T> + Send,
    ) -> Result<Read<T>, Vec<Diagnostic>> {
        let run = move || (read(&mut parser), parser.mistakes);
        if self.deepest <= SHALLOW {
            return Ok(run());
        }
        std::thread::scope(|scope| match std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, run) {
            Ok(thread) => Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
            Err(_) => Err(vec![too_nested(self.place)]),
        })
    }
}

/// A mistake in a text.
#[derive(Debug)]
struct Mistake {
    span: Span,
    kind: MistakeKind,
}

/// The kinds of mistakes.
#[derive(Debug)]
enum MistakeKind {
    /// A message.
    Syntax(String),
    /// A message about a body that is not there.
    Body(String),
    /// White space that fits no block.
    Indentation,
    /// An expression that is too deep.
    Nesting,
}

/// The diagnostics of mistakes, in text order. A mistake tends to cause others behind it, so only the first one of each
/// line is kept.
fn syntax_errors(text: &str, mut mistakes: Vec<Mistake>) -> Vec<Diagnostic> {
    mistakes.sort_by_key(|m| m.span.start);
    let mut diagnostics = Vec::new();
    let (mut line, mut counted, mut last_line) = (0, 0, None);
    for Mistake { mut span, kind } in mistakes {
        if span.start == span.end {
            // A caret under the end of a line is more visible than an empty range.
            span.end = text[span.range().start..].chars().next().map_or(span.end, |c| span.end + c.len_utf8() as u32);
        }
        let start = span.range().start;
        line += text.as_bytes()[counted..start].iter().filter(|&&b| b == b'\n').count();
        counted = start;
        if last_line.replace(line) == Some(line) {
            continue;
        }
        diagnostics.push(match kind {
            MistakeKind::Syntax(message) => Diagnostic::error_at("syntax", span, message),
            MistakeKind::Body(message) => Diagnostic::error_at("syntax", span, message)
                .help("indent what belongs to the line above, or write `pass`"),
            MistakeKind::Indentation => Diagnostic::error_at("indentation", span, "unexpected indentation")
                .mark("does not match the lines above")
                .help("indent the statements of one body by the same spaces or tabs"),
            MistakeKind::Nesting => too_nested(span),
        });
    }
    diagnostics
}
