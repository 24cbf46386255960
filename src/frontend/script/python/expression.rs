//! Parses expressions with operators.
//!
//! A recursive descent, in which one function reads all operators by their precedence. The span of an expression is
//! that of its tokens, without parentheses around it, which belong to the expressions that it is part of.

use super::parser::{Parsed, Parser};
use super::precedence::{BIT_OR, COMPARE, Infix, NOT, OR, SIGN, infix};
use super::token::Kind;
use super::{BinaryOp, CompareOp, Conditional, Expr, ExprKind, LogicalOp, UnaryOp};

impl<'a> Parser<'a> {
    /// The expressions of a text that has nothing else.
    pub(super) fn whole_expression(&mut self) -> Parsed<Expr<'a>> {
        let expression = self.tuple_of(Parser::expression)?;
        if self.at(Kind::End) { Ok(expression) } else { self.expected("the end of the expression") }
    }

    /// Expressions with commas between them, which are a tuple, or one expression; each may have a star.
    pub(super) fn expressions(&mut self) -> Parsed<Expr<'a>> {
        self.tuple_of(Parser::starred_or_expression)
    }

    /// One element, or several with commas between or behind them, which are a tuple.
    pub(super) fn tuple_of(&mut self, element: fn(&mut Self) -> Parsed<Expr<'a>>) -> Parsed<Expr<'a>> {
        let start = self.start();
        let first = element(self)?;
        if !self.at(Kind::Comma) {
            return Ok(first);
        }
        let mut elements = vec![first];
        while self.eat(Kind::Comma) && self.at_expression() {
            elements.push(element(self)?);
        }
        Ok(Expr { kind: ExprKind::Tuple(elements), span: self.since(start) })
    }

    /// `*a` or an expression.
    pub(super) fn starred_or_expression(&mut self) -> Parsed<Expr<'a>> {
        if self.at(Kind::Star) { self.starred(BIT_OR) } else { self.expression() }
    }

    /// `*a` or an expression, which may assign: `a := b`.
    pub(super) fn starred_or_named(&mut self) -> Parsed<Expr<'a>> {
        if self.at(Kind::Star) { self.starred(BIT_OR) } else { self.named_expression() }
    }

    /// `*a`, where `a` has operators of at least a precedence.
    pub(super) fn starred(&mut self, min: u8) -> Parsed<Expr<'a>> {
        let start = self.start();
        self.expect(Kind::Star)?;
        let value = self.operators(min)?;
        Ok(Expr { kind: ExprKind::Starred(Box::new(value)), span: self.since(start) })
    }

    /// An expression, which may assign: `a := b`.
    pub(super) fn named_expression(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        let is_name = self.at(Kind::Name);
        let target = self.expression()?;
        if !self.at(Kind::Walrus) {
            return Ok(target);
        }
        if !is_name || !matches!(target.kind, ExprKind::Name(_)) {
            self.mistake(target.span, "the target of `:=` must be a name");
        }
        self.bump();
        self.expression()?;
        Ok(Expr { kind: ExprKind::Other("an assignment expression"), span: self.since(start) })
    }

    /// `yield` with its value, or expressions with commas.
    pub(super) fn yield_or_expressions(&mut self) -> Parsed<Expr<'a>> {
        if self.at(Kind::Yield) { self.yield_expression() } else { self.expressions() }
    }

    pub(super) fn yield_expression(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        self.expect(Kind::Yield)?;
        if self.eat(Kind::From) {
            self.expression()?;
        } else if self.at_expression() {
            self.expressions()?;
        }
        Ok(Expr { kind: ExprKind::Other("`yield`"), span: self.since(start) })
    }

    /// An expression without commas or stars around it.
    pub(super) fn expression(&mut self) -> Parsed<Expr<'a>> {
        if self.at(Kind::Lambda) {
            return self.nested(Parser::lambda);
        }
        let start = self.start();
        let then = self.operators(OR)?;
        if self.at(Kind::If) { self.nested(|p| p.conditional(start, then)) } else { Ok(then) }
    }

    /// `then if test else otherwise`, from the `if`.
    fn conditional(&mut self, start: u32, then: Expr<'a>) -> Parsed<Expr<'a>> {
        self.expect(Kind::If)?;
        let test = self.operators(OR)?;
        self.expect(Kind::Else)?;
        let otherwise = self.expression()?;
        let conditional = Box::new(Conditional { test, then, otherwise });
        Ok(Expr { kind: ExprKind::Conditional(conditional), span: self.since(start) })
    }

    /// Operands with operators of at least a precedence between them.
    pub(super) fn operators(&mut self, min: u8) -> Parsed<Expr<'a>> {
        self.nested(|p| {
            let start = p.start();
            let mut left = p.operand(min)?;
            while let Some((op, precedence)) = p.infix()
                && precedence >= min
            {
                left = p.operation(start, left, op, precedence)?;
            }
            Ok(left)
        })
    }

    /// An operand with the signs before it.
    fn operand(&mut self, min: u8) -> Parsed<Expr<'a>> {
        let (op, precedence) = match self.kind() {
            Kind::Not if min <= NOT => (UnaryOp::Not, NOT),
            Kind::Minus => (UnaryOp::Neg, SIGN),
            Kind::Plus => (UnaryOp::Pos, SIGN),
            Kind::Tilde => (UnaryOp::Invert, SIGN),
            _ => return self.power(),
        };
        let start = self.start();
        self.bump();
        let operand = self.operators(precedence)?;
        Ok(Expr { kind: ExprKind::Unary(op, Box::new(operand)), span: self.since(start) })
    }

    /// `a ** b`: its left operand has no sign, its right one may.
    fn power(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        let base = self.primary()?;
        if !self.eat(Kind::DoubleStar) {
            return Ok(base);
        }
        let exponent = self.operators(SIGN)?;
        let kind = ExprKind::Binary(BinaryOp::Pow, Box::new(base), Box::new(exponent));
        Ok(Expr { kind, span: self.since(start) })
    }

    /// The operation of a left operand with the operator here.
    fn operation(&mut self, start: u32, left: Expr<'a>, op: Infix, precedence: u8) -> Parsed<Expr<'a>> {
        let kind = match op {
            Infix::Binary(op) => {
                self.bump();
                let right = self.operators(precedence + 1)?;
                ExprKind::Binary(op, Box::new(left), Box::new(right))
            }
            Infix::Logical(op) => self.logical(left, op, precedence)?,
            Infix::Compare(op) => self.comparison(left, op)?,
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    fn logical(&mut self, left: Expr<'a>, op: LogicalOp, precedence: u8) -> Parsed<ExprKind<'a>> {
        let token = self.kind();
        let mut operands = vec![left];
        while self.eat(token) {
            operands.push(self.operators(precedence + 1)?);
        }
        Ok(ExprKind::Logical(op, operands))
    }

    fn comparison(&mut self, left: Expr<'a>, mut op: CompareOp) -> Parsed<ExprKind<'a>> {
        let mut rest = Vec::new();
        loop {
            self.bump();
            if matches!(op, CompareOp::IsNot | CompareOp::NotIn) {
                self.bump();
            }
            rest.push((op, self.operators(COMPARE + 1)?));
            match self.infix() {
                Some((Infix::Compare(next), _)) => op = next,
                _ => return Ok(ExprKind::Compare(Box::new(left), rest)),
            }
        }
    }

    /// The operator here, with its precedence.
    fn infix(&self) -> Option<(Infix, u8)> {
        infix(self.kind(), self.kind_behind(1))
    }

    /// Whether an expression, perhaps with a star, can begin here.
    pub(super) fn at_expression(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Name
                | Kind::Int
                | Kind::Float
                | Kind::Complex
                | Kind::Str
                | Kind::FormatStart
                | Kind::False
                | Kind::None
                | Kind::True
                | Kind::Await
                | Kind::Lambda
                | Kind::Not
                | Kind::LeftParen
                | Kind::LeftBracket
                | Kind::LeftBrace
                | Kind::Ellipsis
                | Kind::Plus
                | Kind::Minus
                | Kind::Star
                | Kind::Tilde
                | Kind::Unknown
        )
    }
}
