//! Limits that are checked before parsing.

use super::token::{Kind, Token};
use super::{MAX_BYTES, MAX_INDENT, MAX_NESTING};
use crate::diagnostic::{Diagnostic, Span};

/// Rejects texts that are too long, or no text.
pub(super) fn check_text(text: &str) -> Result<(), Diagnostic> {
    if text.len() > MAX_BYTES {
        let message = format!("the text has {} bytes, more than the {MAX_BYTES} that are read", text.len());
        return Err(Diagnostic::error("too-long", message));
    }
    if let Some(at) = text.bytes().position(|b| b == 0) {
        let d = Diagnostic::error_at("syntax", Span::new(at, at + 1), "the text contains a NUL byte");
        return Err(d.help("save the file as plain UTF-8 text"));
    }
    Ok(())
}

/// An open bracket level, with the number of operators around the next operand.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Operators since the last comma.
    operators: usize,
    /// Attribute accesses, calls and subscripts since the last operator.
    suffixes: usize,
    /// Lambdas since the level was opened: their bodies extend across commas.
    lambdas: usize,
    /// The place of the bracket.
    opened: Span,
}

impl Level {
    fn depth(self) -> usize {
        1 + self.operators + self.suffixes + self.lambdas
    }

    /// Counts a token that opens and closes nothing.
    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Comma | Kind::Semicolon => (self.operators, self.suffixes) = (0, 0),
            Kind::Dot => self.suffixes += 1,
            Kind::Lambda => self.lambdas += 1,
            kind if is_operator(kind) => (self.operators, self.suffixes) = (self.operators + 1, 0),
            _ => {}
        }
    }
}

/// How deep a text is nested.
#[derive(Clone, Copy)]
pub(super) struct Nesting {
    /// The nesting of the deepest expression and its statement.
    pub deepest: usize,
    /// Where the deepest expression is.
    pub place: Span,
    /// The last bracket that is not closed.
    pub unclosed: Option<Span>,
}

/// Rejects texts that would overflow the stack of the parser, or of a recursive walk over its tree. The count is an
/// upper bound of the tree's depth.
pub(super) fn check_nesting(tokens: &[Token]) -> Result<Nesting, Diagnostic> {
    let mut levels = vec![Level::default()];
    let mut total = 1;
    let mut indents = 0;
    let (mut deepest, mut place) = (0, Span::default());
    for token in tokens {
        let level = levels.last_mut().expect("the outermost level is never closed");
        let before = level.depth();
        match token.kind {
            Kind::Indent => indents += 1,
            Kind::Dedent => indents -= 1,
            Kind::Newline => {
                *level = Level { opened: level.opened, ..Level::default() };
                total = total + 1 - before;
            }
            Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace => {
                levels.push(Level { opened: token.span, ..Level::default() });
                total += 1;
            }
            Kind::RightParen | Kind::RightBracket | Kind::RightBrace => {
                if levels.len() > 1 {
                    total -= before;
                    levels.pop();
                }
                let outer = levels.last_mut().expect("the outermost level is never closed");
                outer.suffixes += 1;
                total += 1;
            }
            kind => {
                level.count(kind);
                total = total + level.depth() - before;
            }
        }
        if indents > MAX_INDENT {
            let at = Span { start: token.span.end, end: token.span.end + 1 };
            let message = format!("statements are nested more than {MAX_INDENT} levels deep");
            return Err(Diagnostic::error_at("nesting", at, message));
        }
        if total > MAX_NESTING {
            return Err(too_nested(token.span));
        }
        if total + indents > deepest {
            (deepest, place) = (total + indents, token.span);
        }
    }
    let unclosed = levels.get(1..).and_then(|open| open.last()).map(|l| l.opened);
    Ok(Nesting { deepest, place, unclosed })
}

/// The refusal of an expression.
pub(super) fn too_nested(at: Span) -> Diagnostic {
    let message = format!("the expression is nested more than {MAX_NESTING} levels deep");
    Diagnostic::error_at("nesting", at, message).help("split it up with `T.let` variables")
}

/// Whether a token puts an operand into a deeper expression.
fn is_operator(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Not
            | Kind::And
            | Kind::Or
            | Kind::If
            | Kind::Else
            | Kind::In
            | Kind::Is
            | Kind::Await
            | Kind::Yield
            | Kind::For
            | Kind::Plus
            | Kind::Minus
            | Kind::Star
            | Kind::Slash
            | Kind::DoubleSlash
            | Kind::Percent
            | Kind::DoubleStar
            | Kind::Shl
            | Kind::Shr
            | Kind::At
            | Kind::Ampersand
            | Kind::Bar
            | Kind::Caret
            | Kind::Tilde
            | Kind::Less
            | Kind::Greater
            | Kind::LessEqual
            | Kind::GreaterEqual
            | Kind::EqualEqual
            | Kind::NotEqual
            | Kind::Walrus
    )
}
