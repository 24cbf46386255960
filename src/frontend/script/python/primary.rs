//! Parses operands: literals, names and bracketed expressions, with the calls, subscripts and attributes behind them.

use super::parser::{Parsed, Parser};
use super::precedence::{BIT_OR, OR};
use super::token::Kind;
use super::{Call, Clause, Comprehension, Expr, ExprKind, Ident, Slice, number};
use crate::diagnostic::Span;

impl<'a> Parser<'a> {
    /// An operand with what stands behind it: `await f(a)[b].c`.
    pub(super) fn primary(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        if self.eat(Kind::Await) {
            if self.at(Kind::Await) {
                return self.expected("an expression");
            }
            self.nested(Parser::primary)?;
            return Ok(Expr { kind: ExprKind::Other("`await`"), span: self.since(start) });
        }
        let mut value = self.atom()?;
        loop {
            let kind = match self.kind() {
                Kind::Dot => {
                    self.bump();
                    ExprKind::Attribute(Box::new(value), self.ident()?)
                }
                Kind::LeftParen => self.call(value)?,
                Kind::LeftBracket => {
                    self.bump();
                    let index = self.index()?;
                    self.expect(Kind::RightBracket)?;
                    ExprKind::Subscript(Box::new(value), Box::new(index))
                }
                _ => return Ok(value),
            };
            value = Expr { kind, span: self.since(start) };
        }
    }

    /// A name that is no keyword.
    pub(super) fn ident(&mut self) -> Parsed<Ident<'a>> {
        let span = self.expect(Kind::Name)?.span;
        Ok(Ident { name: self.slice(span), span })
    }

    fn atom(&mut self) -> Parsed<Expr<'a>> {
        let token = self.token();
        let kind = match token.kind {
            Kind::Name => ExprKind::Name(self.slice(token.span)),
            Kind::Int => number::int(self.slice(token.span)),
            Kind::Float => number::float(self.slice(token.span)),
            Kind::Complex => ExprKind::Other("a complex number"),
            Kind::True => ExprKind::Bool(true),
            Kind::False => ExprKind::Bool(false),
            Kind::None => ExprKind::None,
            Kind::Ellipsis => ExprKind::Other("`...`"),
            Kind::Str | Kind::FormatStart => return self.strings(),
            Kind::LeftParen => return self.parenthesized(),
            Kind::LeftBracket => return self.list_display(),
            Kind::LeftBrace => return self.braces(),
            _ => return self.expected("an expression"),
        };
        self.bump();
        Ok(Expr { kind, span: token.span })
    }

    /// An expression in parentheses, a tuple, or a generator.
    fn parenthesized(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        self.expect(Kind::LeftParen)?;
        if self.at(Kind::Yield) {
            let value = self.yield_expression()?;
            self.expect(Kind::RightParen)?;
            return Ok(value);
        }
        if self.eat(Kind::RightParen) {
            return Ok(Expr { kind: ExprKind::Tuple(Vec::new()), span: self.since(start) });
        }
        let first = self.starred_or_named()?;
        let kind = match self.kind() {
            Kind::Comma => {
                self.bump();
                ExprKind::Tuple(self.more_elements(first, Kind::RightParen)?)
            }
            Kind::For | Kind::Async => self.comprehension(first)?,
            _ => {
                if matches!(first.kind, ExprKind::Starred(_)) {
                    self.mistake(first.span, "a starred expression cannot be used here");
                }
                self.expect(Kind::RightParen)?;
                return Ok(first);
            }
        };
        self.expect(Kind::RightParen)?;
        Ok(Expr { kind, span: self.since(start) })
    }

    /// The elements behind the first one and its comma.
    fn more_elements(&mut self, first: Expr<'a>, close: Kind) -> Parsed<Vec<Expr<'a>>> {
        let mut elements = vec![first];
        elements.extend(self.list(close, Parser::starred_or_named)?);
        Ok(elements)
    }

    fn list_display(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        self.expect(Kind::LeftBracket)?;
        let kind = if self.at(Kind::RightBracket) {
            ExprKind::List(Vec::new())
        } else {
            let first = self.starred_or_named()?;
            match self.kind() {
                Kind::For | Kind::Async => self.comprehension(first)?,
                _ if self.eat(Kind::Comma) => ExprKind::List(self.more_elements(first, Kind::RightBracket)?),
                _ => ExprKind::List(vec![first]),
            }
        };
        self.expect(Kind::RightBracket)?;
        Ok(Expr { kind, span: self.since(start) })
    }

    /// A dictionary or a set, or a comprehension of one.
    fn braces(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        self.expect(Kind::LeftBrace)?;
        let kind = if matches!(self.kind(), Kind::RightBrace | Kind::DoubleStar) {
            let items = self.list(Kind::RightBrace, Parser::dict_item)?;
            if items.len() == 1 && self.at_clause() { self.dict_comprehension()? } else { ExprKind::Dict(items) }
        } else {
            let first = self.starred_or_named()?;
            if self.at(Kind::Colon) && !matches!(first.kind, ExprKind::Starred(_)) {
                self.dict(first)?
            } else {
                self.set(first)?
            }
        };
        self.expect(Kind::RightBrace)?;
        Ok(Expr { kind, span: self.since(start) })
    }

    fn dict_item(&mut self) -> Parsed<(Option<Expr<'a>>, Expr<'a>)> {
        if self.eat(Kind::DoubleStar) {
            return Ok((None, self.operators(BIT_OR)?));
        }
        let key = self.expression()?;
        self.expect(Kind::Colon)?;
        Ok((Some(key), self.expression()?))
    }

    /// A dictionary behind its first key.
    fn dict(&mut self, key: Expr<'a>) -> Parsed<ExprKind<'a>> {
        self.refuse_bare_assignment(&key);
        self.expect(Kind::Colon)?;
        let value = self.expression()?;
        if self.at_clause() {
            return self.dict_comprehension();
        }
        let mut items = vec![(Some(key), value)];
        if self.eat(Kind::Comma) {
            items.extend(self.list(Kind::RightBrace, Parser::dict_item)?);
        }
        Ok(ExprKind::Dict(items))
    }

    /// The loops behind the item of a dictionary comprehension.
    fn dict_comprehension(&mut self) -> Parsed<ExprKind<'a>> {
        self.clauses()?;
        Ok(ExprKind::Other("a dictionary comprehension"))
    }

    /// Refuses `a := b` without parentheses as the expression that was just read.
    fn refuse_bare_assignment(&mut self, e: &Expr<'a>) {
        let in_parentheses = self.since(e.span.start).end != e.span.end;
        if e.kind == ExprKind::Other("an assignment expression") && !in_parentheses {
            self.mistake(e.span, "an assignment expression needs parentheses here");
        }
    }

    /// A set behind its first element.
    fn set(&mut self, first: Expr<'a>) -> Parsed<ExprKind<'a>> {
        if self.at_clause() {
            self.comprehension(first)?;
        } else if self.eat(Kind::Comma) {
            self.list(Kind::RightBrace, Parser::starred_or_named)?;
        }
        Ok(ExprKind::Other("a set"))
    }

    /// The loops behind the element of a comprehension.
    fn comprehension(&mut self, element: Expr<'a>) -> Parsed<ExprKind<'a>> {
        Ok(match self.clauses()? {
            Some(clauses) => ExprKind::ListComp(Box::new(Comprehension { element, clauses })),
            None => ExprKind::Other("an `async` comprehension"),
        })
    }

    fn at_clause(&self) -> bool {
        matches!(self.kind(), Kind::For | Kind::Async)
    }

    /// `for target in iter if condition …`; `None` if one of them is `async`.
    fn clauses(&mut self) -> Parsed<Option<Vec<Clause<'a>>>> {
        let mut clauses = Vec::new();
        let mut is_async = false;
        while self.at_clause() {
            is_async |= self.eat(Kind::Async);
            self.expect(Kind::For)?;
            let target = self.targets()?;
            self.expect(Kind::In)?;
            let iter = self.operators(OR)?;
            let mut conditions = Vec::new();
            while self.eat(Kind::If) {
                conditions.push(self.condition()?);
            }
            clauses.push(Clause { target, iter, conditions });
        }
        Ok((!is_async).then_some(clauses))
    }

    /// The condition of a comprehension: it is no conditional expression without parentheses.
    fn condition(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        let condition = self.operators(OR)?;
        if !self.eat(Kind::Walrus) {
            return Ok(condition);
        }
        if !matches!(condition.kind, ExprKind::Name(_)) || condition.span.start != start {
            self.mistake(condition.span, "the target of `:=` must be a name");
        }
        self.expression()?;
        Ok(Expr { kind: ExprKind::Other("an assignment expression"), span: self.since(start) })
    }

    /// The index of a subscript; several are a tuple.
    fn index(&mut self) -> Parsed<Expr<'a>> {
        let first = self.tuple_of_indices()?;
        if !matches!(first.kind, ExprKind::Starred(_)) {
            return Ok(first);
        }
        // A single index with a star is unpacked into a tuple.
        let span = first.span;
        Ok(Expr { kind: ExprKind::Tuple(vec![first]), span })
    }

    fn tuple_of_indices(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        if self.at(Kind::RightBracket) {
            return self.expected("an index or a slice");
        }
        let first = self.slice_or_index()?;
        if !self.eat(Kind::Comma) {
            return Ok(first);
        }
        let mut indices = vec![first];
        indices.extend(self.list(Kind::RightBracket, Parser::slice_or_index)?);
        Ok(Expr { kind: ExprKind::Tuple(indices), span: self.since(start) })
    }

    fn slice_or_index(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        if self.eat(Kind::Star) {
            let value = self.expression()?;
            return Ok(Expr { kind: ExprKind::Starred(Box::new(value)), span: self.since(start) });
        }
        let lower = if self.at(Kind::Colon) { None } else { Some(self.named_expression()?) };
        match lower {
            Some(index) if !self.at(Kind::Colon) => Ok(index),
            lower => {
                lower.iter().for_each(|e| self.refuse_bare_assignment(e));
                self.slice_behind(start, lower)
            }
        }
    }

    /// A slice from its first colon.
    fn slice_behind(&mut self, start: u32, lower: Option<Expr<'a>>) -> Parsed<Expr<'a>> {
        self.expect(Kind::Colon)?;
        let upper = self.slice_part()?;
        let step = if self.eat(Kind::Colon) { self.slice_part()? } else { None };
        Ok(Expr { kind: ExprKind::Slice(Box::new(Slice { lower, upper, step })), span: self.since(start) })
    }

    fn slice_part(&mut self) -> Parsed<Option<Expr<'a>>> {
        let ends = matches!(self.kind(), Kind::Colon | Kind::Comma | Kind::RightBracket);
        if ends { Ok(None) } else { self.expression().map(Some) }
    }

    /// The call of a callee, from the parenthesis.
    fn call(&mut self, callee: Expr<'a>) -> Parsed<ExprKind<'a>> {
        let start = self.start();
        let (args, keywords) = self.arguments(true)?;
        Ok(ExprKind::Call(Box::new(Call { callee, args, keywords, args_span: self.since(start) })))
    }

    /// `(a, *b, c=d, **e)`; those of a call can be a generator without parentheses of its own.
    pub(super) fn arguments(&mut self, of_call: bool) -> Parsed<(Vec<Expr<'a>>, Keywords<'a>)> {
        self.expect(Kind::LeftParen)?;
        let (mut args, mut keywords) = (Vec::new(), Vec::new());
        let mut generator: Option<Span> = None;
        let mut commas = 0;
        while !self.at(Kind::RightParen) {
            if self.argument(&mut args, &mut keywords)? {
                generator = args.last().map(|a| a.span);
            }
            if !self.eat(Kind::Comma) {
                break;
            }
            commas += 1;
        }
        if let Some(span) = generator
            && (commas > 0 || !of_call)
        {
            self.mistake(span, "the generator needs parentheses of its own");
        }
        self.expect(Kind::RightParen)?;
        Ok((args, keywords))
    }

    /// Reads an argument; whether it is a generator without parentheses of its own.
    fn argument(&mut self, args: &mut Vec<Expr<'a>>, keywords: &mut Keywords<'a>) -> Parsed<bool> {
        let start = self.start();
        if self.eat(Kind::DoubleStar) {
            keywords.push((None, self.expression()?));
            return Ok(false);
        }
        if self.at(Kind::Name) && self.kind_behind(1) == Kind::Equal {
            let name = self.ident()?;
            self.bump();
            keywords.push((Some(name), self.expression()?));
            return Ok(false);
        }
        let unpacked = keywords.iter().any(|(name, _)| name.is_none());
        if self.eat(Kind::Star) {
            let value = self.expression()?;
            let span = self.since(start);
            if unpacked {
                self.mistake(span, "an argument with `*` cannot follow one with `**`");
            }
            let arg = Expr { kind: ExprKind::Starred(Box::new(value)), span };
            return self.argument_or_generator(start, arg, args);
        }
        let arg = self.named_expression()?;
        if self.at(Kind::Equal) {
            return self.fail(arg.span, "the name of a keyword argument must be a name");
        }
        if unpacked {
            self.mistake(arg.span, "a positional argument cannot follow one with `**`");
        } else if !keywords.is_empty() {
            self.mistake(arg.span, "a positional argument cannot follow a keyword argument");
        }
        self.argument_or_generator(start, arg, args)
    }

    /// Adds an argument, or the generator that it is the element of; whether it is one.
    fn argument_or_generator(&mut self, start: u32, arg: Expr<'a>, args: &mut Vec<Expr<'a>>) -> Parsed<bool> {
        let is_generator = self.at_clause();
        args.push(if is_generator {
            let kind = self.comprehension(arg)?;
            Expr { kind, span: self.since(start) }
        } else {
            arg
        });
        Ok(is_generator)
    }
}

/// Keyword arguments; without a name for `**value`.
pub(super) type Keywords<'a> = Vec<(Option<Ident<'a>>, Expr<'a>)>;
