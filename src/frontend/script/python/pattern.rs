//! Parses the patterns of `match`, which are only checked: nothing reads them.

use super::parser::{Parsed, Parser};
use super::token::Kind;

impl Parser<'_> {
    /// The pattern of a `case`: several with commas are a sequence.
    pub(super) fn patterns(&mut self) -> Parsed<()> {
        let starred = self.at(Kind::Star);
        let star = self.token().span;
        self.pattern_or_star()?;
        if starred && !self.at(Kind::Comma) {
            self.mistake(star, "a pattern with `*` can only stand in a sequence");
        }
        while self.eat(Kind::Comma) && !matches!(self.kind(), Kind::Colon | Kind::If) {
            self.pattern_or_star()?;
        }
        Ok(())
    }

    /// An element of a sequence.
    fn pattern_or_star(&mut self) -> Parsed<()> {
        if self.eat(Kind::Star) { self.ident().map(|_| ()) } else { self.pattern() }
    }

    /// Alternatives, perhaps with a name.
    fn pattern(&mut self) -> Parsed<()> {
        self.nested(|p| {
            p.closed_pattern()?;
            while p.eat(Kind::Bar) {
                p.closed_pattern()?;
            }
            if p.eat(Kind::As) { p.capture() } else { Ok(()) }
        })
    }

    /// A name for what a pattern matches.
    fn capture(&mut self) -> Parsed<()> {
        let name = self.ident()?;
        if name.name == "_" {
            self.mistake(name.span, "`_` cannot be the name of a pattern");
        }
        Ok(())
    }

    fn closed_pattern(&mut self) -> Parsed<()> {
        match self.kind() {
            Kind::None | Kind::True | Kind::False => {
                self.bump();
                Ok(())
            }
            Kind::Str => self.strings().map(|_| ()),
            Kind::Int | Kind::Float | Kind::Complex | Kind::Minus => self.number_pattern(),
            Kind::Name => self.name_pattern(),
            Kind::LeftParen => {
                self.bump();
                self.sequence_pattern(Kind::RightParen)
            }
            Kind::LeftBracket => {
                self.bump();
                self.sequence_pattern(Kind::RightBracket)
            }
            Kind::LeftBrace => self.mapping_pattern(),
            _ => self.expected("a pattern"),
        }
    }

    /// `-1`, or a complex number as `1 + 2j`.
    fn number_pattern(&mut self) -> Parsed<()> {
        self.eat(Kind::Minus);
        let first = self.token();
        if !matches!(first.kind, Kind::Int | Kind::Float | Kind::Complex) {
            return self.expected("a number");
        }
        self.bump();
        if matches!(self.kind(), Kind::Plus | Kind::Minus) {
            if first.kind == Kind::Complex {
                self.mistake(first.span, "the first part of a complex number must be real");
            }
            self.bump();
            self.expect(Kind::Complex).map(|_| ())?;
        }
        Ok(())
    }

    /// A name, a dotted name, or a class with its arguments.
    fn name_pattern(&mut self) -> Parsed<()> {
        self.ident()?;
        while self.eat(Kind::Dot) {
            self.ident()?;
        }
        if !self.eat(Kind::LeftParen) {
            return Ok(());
        }
        let mut named = false;
        self.list(Kind::RightParen, |p| {
            if p.at(Kind::Name) && p.kind_behind(1) == Kind::Equal {
                named = true;
                p.bump();
                p.bump();
            } else if named {
                p.mistake(p.token().span, "a positional pattern cannot follow one with a name");
            }
            p.pattern()
        })?;
        self.expect(Kind::RightParen).map(|_| ())
    }

    /// A sequence behind its opening bracket, or a pattern in parentheses.
    fn sequence_pattern(&mut self, close: Kind) -> Parsed<()> {
        let (mut stars, mut commas) = (0, 0);
        let star = self.token().span;
        while !self.at(close) {
            stars += usize::from(self.at(Kind::Star));
            self.pattern_or_star()?;
            if !self.eat(Kind::Comma) {
                break;
            }
            commas += 1;
        }
        if close == Kind::RightParen && stars > 0 && commas == 0 {
            self.mistake(star, "a pattern with `*` can only stand in a sequence");
        }
        self.expect(close).map(|_| ())
    }

    fn mapping_pattern(&mut self) -> Parsed<()> {
        self.expect(Kind::LeftBrace)?;
        self.list(Kind::RightBrace, |p| {
            if p.eat(Kind::DoubleStar) {
                p.capture()?;
                if p.at(Kind::Comma) && p.kind_behind(1) != Kind::RightBrace {
                    return p.fail(p.token().span, "no pattern can follow one with `**`");
                }
                return Ok(());
            }
            match p.kind() {
                Kind::None | Kind::True | Kind::False => {
                    p.bump();
                }
                Kind::Str => {
                    p.strings()?;
                }
                Kind::Int | Kind::Float | Kind::Complex | Kind::Minus => p.number_pattern()?,
                Kind::Name if p.kind_behind(1) == Kind::Dot => {
                    p.bump();
                    while p.eat(Kind::Dot) {
                        p.ident()?;
                    }
                }
                _ => return p.expected("a literal or a dotted name as a key"),
            }
            p.expect(Kind::Colon)?;
            p.pattern()
        })?;
        self.expect(Kind::RightBrace).map(|_| ())
    }
}
