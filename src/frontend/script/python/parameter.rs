//! Parses the parameters of functions and lambdas, and the type parameters of definitions.

use super::parser::{Parsed, Parser};
use super::precedence::BIT_OR;
use super::token::Kind;
use super::{Expr, ExprKind, Ident, Lambda, Param};
use crate::diagnostic::Span;

/// The parameters of a function.
#[derive(Default)]
pub(super) struct Parameters<'a> {
    /// Those that can be given by position.
    pub positional: Vec<Param<'a>>,
    /// `*args`, with its place.
    pub rest: Option<(Ident<'a>, Span)>,
    /// The places of those behind `*` or `*args`, with their defaults.
    pub keyword_only: Vec<Span>,
    /// The place of `**kwargs`.
    pub keywords: Option<Span>,
    has_default: bool,
    star: bool,
    slash: bool,
}

impl Parameters<'_> {
    /// The place of a parameter that is not positional.
    pub(super) fn odd(&self) -> Option<Span> {
        self.rest.map(|(_, span)| span).or(self.keywords).or(self.keyword_only.first().copied())
    }
}

impl<'a> Parser<'a> {
    /// Parameters up to the token that ends them; those of a function can have annotations.
    pub(super) fn parameters(&mut self, end: Kind) -> Parsed<Parameters<'a>> {
        let mut parameters = Parameters::default();
        let annotated = end == Kind::RightParen;
        while !self.at(end) {
            if let Some(span) = parameters.keywords {
                self.mistake(span, "no parameter can follow one with `**`");
            }
            match self.kind() {
                Kind::Slash => self.slash(&mut parameters)?,
                Kind::Star => self.star(&mut parameters, annotated)?,
                Kind::DoubleStar => {
                    let start = self.start();
                    self.bump();
                    self.parameter(annotated)?;
                    parameters.keywords = Some(self.since(start));
                    self.refuse_default()?;
                }
                _ => self.plain_parameter(&mut parameters, annotated)?,
            }
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        Ok(parameters)
    }

    fn slash(&mut self, parameters: &mut Parameters<'a>) -> Parsed<()> {
        let span = self.bump().span;
        if parameters.positional.is_empty() || parameters.slash || parameters.star {
            self.mistake(span, "`/` must follow the parameters that have only a position");
        }
        parameters.slash = true;
        Ok(())
    }

    /// `*args`, or a bare `*` before parameters that have only names.
    fn star(&mut self, parameters: &mut Parameters<'a>, annotated: bool) -> Parsed<()> {
        let star = self.bump().span;
        if parameters.star {
            self.mistake(star, "only one parameter can have `*`");
        }
        parameters.star = true;
        if self.at(Kind::Comma) {
            if self.kind_behind(1) != Kind::Name {
                return self.fail(star, "a parameter with a name must follow `*`");
            }
            return Ok(());
        }
        let name = self.ident()?;
        if annotated && self.eat(Kind::Colon) {
            if self.at(Kind::Star) {
                self.starred(BIT_OR)?
            } else {
                self.expression()?
            };
        }
        parameters.rest = Some((name, self.since(star.start)));
        self.refuse_default()
    }

    fn plain_parameter(&mut self, parameters: &mut Parameters<'a>, annotated: bool) -> Parsed<()> {
        let start = self.start();
        let (name, annotation) = self.parameter(annotated)?;
        let span = self.since(start);
        let default = if self.eat(Kind::Equal) { Some(self.expression()?) } else { None };
        if parameters.star {
            parameters.keyword_only.push(self.since(start));
            return Ok(());
        }
        if parameters.has_default && default.is_none() {
            self.mistake(span, "a parameter without a default cannot follow one with a default");
        }
        parameters.has_default |= default.is_some();
        parameters.positional.push(Param { name, span, annotation, default });
        Ok(())
    }

    /// A name, with its annotation where there may be one.
    fn parameter(&mut self, annotated: bool) -> Parsed<(Ident<'a>, Option<Expr<'a>>)> {
        if !self.at(Kind::Name) {
            return self.expected("a parameter");
        }
        let name = self.ident()?;
        let annotation = if annotated && self.eat(Kind::Colon) { Some(self.expression()?) } else { None };
        Ok((name, annotation))
    }

    fn refuse_default(&mut self) -> Parsed<()> {
        if self.at(Kind::Equal) {
            return self.fail(self.token().span, "a parameter with `*` or `**` cannot have a default");
        }
        Ok(())
    }

    /// `lambda a, *b: body`
    pub(super) fn lambda(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        self.expect(Kind::Lambda)?;
        let parameters = self.parameters(Kind::Colon)?;
        self.expect(Kind::Colon)?;
        let body = self.expression()?;
        let simple = parameters.keywords.is_none() && parameters.keyword_only.is_empty() && !parameters.has_default;
        let kind = if simple {
            let params = parameters.positional.iter().map(|p| p.name).collect();
            ExprKind::Lambda(Box::new(Lambda { params, rest: parameters.rest.map(|(name, _)| name), body }))
        } else {
            ExprKind::Other("a lambda with defaults or keyword arguments")
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    /// `[T: bound = default, *Ts, **P]`, if there are type parameters here.
    pub(super) fn type_parameters(&mut self) -> Parsed<()> {
        if !self.eat(Kind::LeftBracket) {
            return Ok(());
        }
        if self.at(Kind::RightBracket) {
            return self.expected("a type parameter");
        }
        self.list(Kind::RightBracket, |p| {
            let starred = p.at(Kind::Star);
            let plain = !p.eat(Kind::Star) && !p.eat(Kind::DoubleStar);
            p.ident()?;
            if plain && p.eat(Kind::Colon) {
                p.expression()?;
            }
            if p.eat(Kind::Equal) {
                if starred {
                    p.starred_or_expression()?
                } else {
                    p.expression()?
                };
            }
            Ok(())
        })?;
        self.expect(Kind::RightBracket)?;
        Ok(())
    }
}
