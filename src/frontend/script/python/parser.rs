//! The position of the parser in the tokens, and the mistakes that it found.

use super::lexer::Lexed;
use super::token::{Kind, Token};
use super::{MAX_NESTING, Mistake, MistakeKind};
use crate::diagnostic::Span;

/// A mistake was recorded, and the construct cannot be read further.
#[derive(Debug)]
pub(super) struct Failed;

/// What was read, unless a mistake prevents it.
pub(super) type Parsed<T> = Result<T, Failed>;

/// Nested calls of the parser that fit its stack. The texts that `limits` accepts stay below: a level of a formatted
/// string takes three.
const MAX_DEPTH: usize = 4 * MAX_NESTING;

/// The parser of a text.
pub(super) struct Parser<'a> {
    pub text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// The end of the last token that belongs to a statement: none of the semicolons and ends of lines between them.
    end: u32,
    /// The mistakes found so far; those of the lexer come first.
    pub mistakes: Vec<Mistake>,
    depth: usize,
}

/// A state of the parser to go back to.
pub(super) struct Mark {
    at: usize,
    end: u32,
    mistakes: usize,
}

impl<'a> Parser<'a> {
    /// A parser at the start of the tokens of a text.
    pub(super) fn new(text: &'a str, lexed: Lexed) -> Parser<'a> {
        let Lexed { tokens, mistakes, .. } = lexed;
        Parser { text, tokens, at: 0, end: 0, mistakes, depth: 0 }
    }

    /// The token here. The last one, [`Kind::End`], is never passed.
    pub(super) fn token(&self) -> Token {
        self.tokens[self.at]
    }

    pub(super) fn kind(&self) -> Kind {
        self.token().kind
    }

    /// The kind of the token that is `n` behind this one.
    pub(super) fn kind_behind(&self, n: usize) -> Kind {
        self.token_behind(n).kind
    }

    /// The token that is `n` behind this one.
    pub(super) fn token_behind(&self, n: usize) -> Token {
        self.tokens[(self.at + n).min(self.tokens.len() - 1)]
    }

    pub(super) fn at(&self, kind: Kind) -> bool {
        self.kind() == kind
    }

    /// Where the token here begins.
    pub(super) fn start(&self) -> u32 {
        self.token().span.start
    }

    /// From a position to the end of what was read before this token, without what separates statements.
    pub(super) fn since(&self, start: u32) -> Span {
        Span { start, end: self.end.max(start) }
    }

    pub(super) fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.range()).unwrap_or_default()
    }

    /// Passes the token here.
    pub(super) fn bump(&mut self) -> Token {
        let token = self.token();
        if token.kind != Kind::End {
            self.at += 1;
        }
        if !matches!(token.kind, Kind::Newline | Kind::Indent | Kind::Dedent | Kind::Semicolon) {
            self.end = token.span.end;
        }
        token
    }

    /// Passes the token here, if it is of a kind.
    pub(super) fn eat(&mut self, kind: Kind) -> bool {
        let is = self.at(kind);
        if is {
            self.bump();
        }
        is
    }

    pub(super) fn expect(&mut self, kind: Kind) -> Parsed<Token> {
        if self.at(kind) { Ok(self.bump()) } else { self.expected(kind.describe()) }
    }

    /// Records that something else was expected here.
    pub(super) fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let token = self.token();
        let found = match token.kind {
            Kind::Name | Kind::Int | Kind::Float | Kind::Complex => format!("`{}`", self.slice(token.span)),
            // The lexer has said what is wrong.
            Kind::Unknown => return Err(Failed),
            kind => kind.describe().to_string(),
        };
        self.fail(token.span, format!("expected {what}, found {found}"))
    }

    /// Records a mistake that ends the construct.
    pub(super) fn fail<T>(&mut self, span: Span, message: impl Into<String>) -> Parsed<T> {
        self.mistake(span, message);
        Err(Failed)
    }

    /// Records a mistake behind which reading goes on.
    pub(super) fn mistake(&mut self, span: Span, message: impl Into<String>) {
        self.mistakes.push(Mistake { span, kind: MistakeKind::Syntax(message.into()) });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { at: self.at, end: self.end, mistakes: self.mistakes.len() }
    }

    /// Goes back, and forgets the mistakes since.
    pub(super) fn back_to(&mut self, mark: &Mark) {
        (self.at, self.end) = (mark.at, mark.end);
        self.mistakes.truncate(mark.mistakes);
    }

    /// Whether mistakes were recorded since.
    pub(super) fn failed_since(&self, mark: &Mark) -> bool {
        self.mistakes.len() > mark.mistakes
    }

    /// Reads something that can contain itself.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            self.mistakes.push(Mistake { span: self.token().span, kind: MistakeKind::Nesting });
            return Err(Failed);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads a list with commas between its elements and perhaps behind the last one, up to a closing bracket, which
    /// stays.
    pub(super) fn list<T>(&mut self, close: Kind, mut element: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut elements = Vec::new();
        while !self.at(close) {
            elements.push(element(self)?);
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        Ok(elements)
    }
}
