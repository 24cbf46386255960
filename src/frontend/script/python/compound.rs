//! Parses statements with bodies.

use super::parser::{Parsed, Parser};
use super::token::Kind;
use super::{Branch, Class, Expr, ExprKind, For, Function, Mistake, MistakeKind, Stmt, StmtKind, While};
use crate::diagnostic::Span;

/// A value of `with`, and the target behind its `as`.
type Item<'a> = (Expr<'a>, Option<Expr<'a>>);

impl<'a> Parser<'a> {
    /// The statement with a body that begins here, if there is one.
    pub(super) fn compound_statement(&mut self) -> Parsed<Option<StmtKind<'a>>> {
        Ok(Some(match self.kind() {
            Kind::If => self.if_statement()?,
            Kind::For => self.for_statement()?,
            Kind::While => self.while_statement()?,
            Kind::With => self.with_statement()?,
            Kind::Try => self.try_statement()?,
            Kind::Def => self.function(Vec::new())?,
            Kind::Class => self.class(Vec::new())?,
            Kind::At => self.decorated()?,
            Kind::Async => self.async_statement()?,
            Kind::Name if self.slice(self.token().span) == "match" => return self.match_statement(),
            _ => return Ok(None),
        }))
    }

    /// The colon of a statement and its body, which may stand on the same line.
    fn body(&mut self, statement: &str) -> Parsed<Vec<Stmt<'a>>> {
        self.expect(Kind::Colon)?;
        if !self.eat(Kind::Newline) {
            let mut statements = Vec::new();
            self.line(&mut statements)?;
            return Ok(statements);
        }
        if self.at(Kind::Indent) {
            return Ok(self.indented());
        }
        let kind = MistakeKind::Body(format!("expected an indented block after {statement}"));
        self.mistakes.push(Mistake { span: self.token().span, kind });
        Ok(Vec::new())
    }

    fn if_statement(&mut self) -> Parsed<StmtKind<'a>> {
        let mut branches = Vec::new();
        loop {
            let start = self.start();
            let keyword = self.bump().kind;
            let test = if keyword == Kind::Else { None } else { Some(self.named_expression()?) };
            let what = match keyword {
                Kind::If => "`if` statement",
                Kind::Elif => "`elif` clause",
                _ => "`else` clause",
            };
            let body = self.body(what)?;
            branches.push(Branch { test, body, span: self.since(start) });
            if keyword == Kind::Else || !matches!(self.kind(), Kind::Elif | Kind::Else) {
                return Ok(StmtKind::If(branches));
            }
        }
    }

    /// The `else` of a loop: the place of its first statement.
    fn orelse(&mut self) -> Parsed<Option<Span>> {
        if !self.eat(Kind::Else) {
            return Ok(None);
        }
        let body = self.body("`else` clause")?;
        Ok(body.first().map(|s| s.span))
    }

    fn for_statement(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let target = self.targets()?;
        self.expect(Kind::In)?;
        let iter = self.expressions()?;
        let body = self.body("`for` statement")?;
        let orelse = self.orelse()?;
        Ok(StmtKind::For(Box::new(For { target, iter, body, orelse })))
    }

    fn while_statement(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let test = self.named_expression()?;
        let body = self.body("`while` statement")?;
        let orelse = self.orelse()?;
        Ok(StmtKind::While(Box::new(While { test, body, orelse })))
    }

    fn with_statement(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let items = match self.items_in_parentheses() {
            Some(items) => items,
            None => self.items()?,
        };
        Ok(StmtKind::With(items, self.body("`with` statement")?))
    }

    fn items(&mut self) -> Parsed<Vec<Item<'a>>> {
        let mut items = vec![self.item()?];
        while self.eat(Kind::Comma) {
            items.push(self.item()?);
        }
        Ok(items)
    }

    fn item(&mut self) -> Parsed<Item<'a>> {
        let value = self.expression()?;
        let target = if self.eat(Kind::As) { Some(self.target()?) } else { None };
        Ok((value, target))
    }

    /// Items in parentheses. Nothing is read where the parentheses are those of an expression.
    fn items_in_parentheses(&mut self) -> Option<Vec<Item<'a>>> {
        let mark = self.mark();
        if self.eat(Kind::LeftParen)
            && let Ok(items) = self.list(Kind::RightParen, Parser::item)
            && !items.is_empty()
            && self.eat(Kind::RightParen)
            && self.at(Kind::Colon)
            && !self.failed_since(&mark)
        {
            return Some(items);
        }
        self.back_to(&mark);
        None
    }

    fn try_statement(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        self.body("`try` statement")?;
        let mut groups = None;
        while self.eat(Kind::Except) {
            let (span, group) = (self.token().span, self.at(Kind::Star));
            if groups.replace(group).is_some_and(|g| g != group) {
                self.mistake(span, "`except` and `except*` cannot belong to the same `try`");
            }
            self.handler()?;
        }
        if groups.is_some() && self.eat(Kind::Else) {
            self.body("`else` clause")?;
        }
        if self.eat(Kind::Finally) {
            self.body("`finally` clause")?;
        } else if groups.is_none() {
            return self.expected("`except` or `finally` after the body of `try`");
        }
        Ok(StmtKind::Other("`try`"))
    }

    /// `except A as name: body`, behind the `except`.
    fn handler(&mut self) -> Parsed<()> {
        let group = self.eat(Kind::Star);
        if group || !self.at(Kind::Colon) {
            let start = self.start();
            self.expression()?;
            let several = self.at(Kind::Comma);
            while self.eat(Kind::Comma) && self.at_expression() {
                self.expression()?;
            }
            if several && self.at(Kind::As) {
                self.mistake(self.since(start), "several exceptions before `as` need parentheses");
            }
            if self.eat(Kind::As) {
                self.ident()?;
            }
        }
        self.body("`except` clause")?;
        Ok(())
    }

    fn decorated(&mut self) -> Parsed<StmtKind<'a>> {
        let mut decorators = Vec::new();
        while self.eat(Kind::At) {
            decorators.push(self.named_expression()?);
            self.expect(Kind::Newline)?;
        }
        match self.kind() {
            Kind::Def => self.function(decorators),
            Kind::Class => self.class(decorators),
            Kind::Async if self.kind_behind(1) == Kind::Def => self.async_statement(),
            _ => self.expected("a function or a class after its decorators"),
        }
    }

    fn async_statement(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let (statement, what) = match self.kind() {
            Kind::Def => (self.function(Vec::new()), "an `async` function"),
            Kind::For => (self.for_statement(), "an `async` loop"),
            Kind::With => (self.with_statement(), "an `async with`"),
            _ => return self.expected("`def`, `for` or `with` after `async`"),
        };
        statement.map(|_| StmtKind::Other(what))
    }

    fn function(&mut self, decorators: Vec<Expr<'a>>) -> Parsed<StmtKind<'a>> {
        self.bump();
        let name = self.ident()?;
        self.type_parameters()?;
        self.expect(Kind::LeftParen)?;
        let parameters = self.parameters(Kind::RightParen)?;
        self.expect(Kind::RightParen)?;
        let returns = if self.eat(Kind::Arrow) { Some(self.expression()?) } else { None };
        let body = self.body("function definition")?;
        let alone = parameters.keywords.is_none() && parameters.keyword_only.is_empty();
        let rest = parameters.rest.filter(|_| alone).map(|(name, _)| name);
        let odd_param = parameters.odd();
        let params = parameters.positional;
        Ok(StmtKind::Function(Box::new(Function { name, decorators, params, odd_param, rest, returns, body })))
    }

    fn class(&mut self, decorators: Vec<Expr<'a>>) -> Parsed<StmtKind<'a>> {
        self.bump();
        let name = self.ident()?;
        self.type_parameters()?;
        if self.at(Kind::LeftParen) {
            self.arguments(false)?;
        }
        let body = self.body("`class` definition")?;
        Ok(StmtKind::Class(Box::new(Class { name, decorators, body })))
    }

    /// `match subject:` and its cases; nothing is read where `match` is a name.
    fn match_statement(&mut self) -> Parsed<Option<StmtKind<'a>>> {
        let mark = self.mark();
        self.bump();
        let has_subject = self.at_expression()
            && self.tuple_of(Parser::starred_or_named).is_ok_and(|e| !matches!(e.kind, ExprKind::Starred(_)))
            && !self.failed_since(&mark);
        let end = self.token().span;
        let has_colon = self.eat(Kind::Colon);
        if !has_subject || !self.at(Kind::Newline) || !(has_colon || self.cases_follow()) {
            self.back_to(&mark);
            return Ok(None);
        }
        if !has_colon {
            self.mistake(end, "expected `:`, found the end of the line");
        }
        self.bump();
        if !self.eat(Kind::Indent) {
            return self.expected("an indented `case` after `match`");
        }
        while self.at_case() {
            if self.case().is_err() {
                self.recover();
            }
        }
        if !self.at(Kind::Dedent) {
            let _: Parsed<()> = self.expected("`case`");
            self.statements();
        }
        self.eat(Kind::Dedent);
        Ok(Some(StmtKind::Other("`match`")))
    }

    fn at_case(&self) -> bool {
        self.at(Kind::Name) && self.slice(self.token().span) == "case"
    }

    /// Whether an indented `case` is behind the end of the line here.
    fn cases_follow(&self) -> bool {
        self.kind_behind(1) == Kind::Indent && self.slice(self.token_behind(2).span) == "case"
    }

    /// `case pattern if condition: body`
    fn case(&mut self) -> Parsed<()> {
        self.bump();
        self.patterns()?;
        if self.eat(Kind::If) {
            self.named_expression()?;
        }
        self.body("`case` clause")?;
        Ok(())
    }
}
