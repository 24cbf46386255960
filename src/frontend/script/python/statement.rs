//! Parses statements of one line, and goes on behind mistakes.

use super::parser::{Parsed, Parser};
use super::token::Kind;
use super::{BinaryOp, Expr, Ident, Mistake, MistakeKind, Stmt, StmtKind};

/// Names with those behind `as`.
type Aliases<'a> = Vec<(Ident<'a>, Option<Ident<'a>>)>;

impl<'a> Parser<'a> {
    /// All statements of a text.
    pub(super) fn module(&mut self) -> Vec<Stmt<'a>> {
        let statements = self.statements();
        // Behind a mistake, the end of a block can be left.
        while self.eat(Kind::Dedent) {
            self.statements();
        }
        statements
    }

    /// Statements up to the end of the text or of their block, which stays.
    pub(super) fn statements(&mut self) -> Vec<Stmt<'a>> {
        let mut statements = Vec::new();
        while !matches!(self.kind(), Kind::End | Kind::Dedent) {
            if self.at(Kind::Newline) {
                self.bump();
            } else if self.at(Kind::Indent) {
                let span = self.token().span;
                self.mistakes.push(Mistake { span, kind: MistakeKind::Indentation });
                self.indented();
            } else if self.statement(&mut statements).is_err() {
                self.recover();
            }
        }
        statements
    }

    /// The statements of an indented block.
    pub(super) fn indented(&mut self) -> Vec<Stmt<'a>> {
        self.bump();
        let statements = self.statements();
        self.eat(Kind::Dedent);
        statements
    }

    /// Goes on behind a statement with a mistake: behind its line and body, and those of `else` and its like.
    pub(super) fn recover(&mut self) {
        loop {
            while !matches!(self.kind(), Kind::Newline | Kind::Indent | Kind::Dedent | Kind::End) {
                self.bump();
            }
            self.eat(Kind::Newline);
            if self.at(Kind::Indent) {
                self.indented();
            }
            if !matches!(self.kind(), Kind::Elif | Kind::Else | Kind::Except | Kind::Finally) {
                return;
            }
        }
    }

    fn statement(&mut self, statements: &mut Vec<Stmt<'a>>) -> Parsed<()> {
        let start = self.start();
        if let Some(kind) = self.compound_statement()? {
            statements.push(Stmt { kind, span: self.since(start) });
            return Ok(());
        }
        self.line(statements)
    }

    /// Statements with semicolons between them, up to the end of the line.
    pub(super) fn line(&mut self, statements: &mut Vec<Stmt<'a>>) -> Parsed<()> {
        loop {
            let start = self.start();
            let kind = self.simple_statement()?;
            statements.push(Stmt { kind, span: self.since(start) });
            if self.eat(Kind::Newline) || self.at(Kind::End) {
                return Ok(());
            }
            if !self.eat(Kind::Semicolon) {
                return self.expected("the end of the line");
            }
            if self.eat(Kind::Newline) || self.at(Kind::End) {
                return Ok(());
            }
        }
    }

    fn simple_statement(&mut self) -> Parsed<StmtKind<'a>> {
        match self.kind() {
            Kind::Pass => Ok(self.word(StmtKind::Pass)),
            Kind::Break => Ok(self.word(StmtKind::Break)),
            Kind::Continue => Ok(self.word(StmtKind::Continue)),
            Kind::Return => {
                self.bump();
                let value = if self.at_expression() { Some(self.expressions()?) } else { None };
                Ok(StmtKind::Return(value))
            }
            Kind::Assert => {
                self.bump();
                let test = self.expression()?;
                let message = if self.eat(Kind::Comma) { Some(self.expression()?) } else { None };
                Ok(StmtKind::Assert(test, message))
            }
            Kind::Import => self.import(),
            Kind::From => self.import_from(),
            Kind::Raise => self.raise(),
            Kind::Del => self.delete(),
            Kind::Global => self.names("`global`"),
            Kind::Nonlocal => self.names("`nonlocal`"),
            Kind::Name if self.at_lazy_import() => {
                self.bump();
                if self.at(Kind::Import) { self.import() } else { self.import_from() }
            }
            Kind::Name if self.at_type_alias() => self.type_alias(),
            Kind::Yield => {
                let value = self.yield_expression()?;
                self.assignment(value)
            }
            _ if self.at_expression() => {
                let value = self.expressions()?;
                self.assignment(value)
            }
            _ => self.expected("a statement"),
        }
    }

    fn word(&mut self, kind: StmtKind<'a>) -> StmtKind<'a> {
        self.bump();
        kind
    }

    /// An expression, or the assignment that it is the target of.
    fn assignment(&mut self, first: Expr<'a>) -> Parsed<StmtKind<'a>> {
        if self.at(Kind::Equal) {
            return self.targets_and_value(first);
        }
        if self.eat(Kind::Colon) {
            self.check_single_target(&first, "an annotation");
            let annotation = self.expression()?;
            let value = if self.eat(Kind::Equal) { Some(self.yield_or_expressions()?) } else { None };
            return Ok(StmtKind::AnnAssign(first, annotation, value));
        }
        if let Some(op) = augmented(self.kind()) {
            self.check_single_target(&first, self.kind().describe());
            self.bump();
            return Ok(StmtKind::AugAssign(first, op, self.yield_or_expressions()?));
        }
        Ok(StmtKind::Expr(first))
    }

    /// `= b = c` behind the first target.
    fn targets_and_value(&mut self, first: Expr<'a>) -> Parsed<StmtKind<'a>> {
        let mut targets = Vec::new();
        let mut value = first;
        while self.eat(Kind::Equal) {
            let next = self.yield_or_expressions()?;
            targets.push(std::mem::replace(&mut value, next));
        }
        targets.iter().for_each(|t| self.check_target(t));
        Ok(StmtKind::Assign(targets, value))
    }

    /// `import a.b as c`
    fn import(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let mut names = vec![self.alias(Parser::dotted_name)?];
        while self.eat(Kind::Comma) {
            names.push(self.alias(Parser::dotted_name)?);
        }
        Ok(StmtKind::Import(names))
    }

    /// `from module import a as b`
    fn import_from(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let mut relative = false;
        while matches!(self.kind(), Kind::Dot | Kind::Ellipsis) {
            self.bump();
            relative = true;
        }
        let module = if relative && self.at(Kind::Import) { None } else { Some(self.dotted_name()?) };
        self.expect(Kind::Import)?;
        Ok(StmtKind::ImportFrom(module, self.imported()?))
    }

    fn imported(&mut self) -> Parsed<Aliases<'a>> {
        if self.at(Kind::Star) {
            let span = self.bump().span;
            return Ok(vec![(Ident { name: self.slice(span), span }, None)]);
        }
        if self.eat(Kind::LeftParen) {
            let mut names = vec![self.alias(Parser::ident)?];
            if self.eat(Kind::Comma) {
                names.extend(self.list(Kind::RightParen, |p| p.alias(Parser::ident))?);
            }
            self.expect(Kind::RightParen)?;
            return Ok(names);
        }
        let mut names = vec![self.alias(Parser::ident)?];
        while self.eat(Kind::Comma) {
            names.push(self.alias(Parser::ident)?);
        }
        Ok(names)
    }

    /// A name, perhaps with another one behind `as`.
    fn alias(&mut self, name: fn(&mut Self) -> Parsed<Ident<'a>>) -> Parsed<(Ident<'a>, Option<Ident<'a>>)> {
        let name = name(self)?;
        let other = if self.eat(Kind::As) { Some(self.ident()?) } else { None };
        Ok((name, other))
    }

    /// `a.b.c` as one name.
    fn dotted_name(&mut self) -> Parsed<Ident<'a>> {
        let start = self.start();
        self.ident()?;
        while self.eat(Kind::Dot) {
            self.ident()?;
        }
        let span = self.since(start);
        Ok(Ident { name: self.slice(span), span })
    }

    fn raise(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        if self.at_expression() {
            self.expression()?;
            if self.eat(Kind::From) {
                self.expression()?;
            }
        }
        Ok(StmtKind::Other("`raise`"))
    }

    fn delete(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        let targets = self.tuple_of(Parser::starred_or_expression)?;
        self.check_deleted(&targets);
        Ok(StmtKind::Other("`del`"))
    }

    /// The names behind `global` or `nonlocal`.
    fn names(&mut self, statement: &'static str) -> Parsed<StmtKind<'a>> {
        self.bump();
        self.ident()?;
        while self.eat(Kind::Comma) {
            self.ident()?;
        }
        Ok(StmtKind::Other(statement))
    }

    /// Whether `lazy` begins an import here; elsewhere it is a name.
    fn at_lazy_import(&self) -> bool {
        matches!(self.kind_behind(1), Kind::Import | Kind::From) && self.slice(self.token().span) == "lazy"
    }

    /// Whether `type` begins an alias here; elsewhere it is a name.
    fn at_type_alias(&self) -> bool {
        self.slice(self.token().span) == "type" && self.kind_behind(1) == Kind::Name
    }

    /// `type Name[T] = value`
    fn type_alias(&mut self) -> Parsed<StmtKind<'a>> {
        self.bump();
        self.ident()?;
        self.type_parameters()?;
        self.expect(Kind::Equal)?;
        self.expression()?;
        Ok(StmtKind::Other("a type alias"))
    }
}

/// The operator of an assignment such as `+=`.
fn augmented(kind: Kind) -> Option<BinaryOp> {
    Some(match kind {
        Kind::PlusEqual => BinaryOp::Add,
        Kind::MinusEqual => BinaryOp::Sub,
        Kind::StarEqual => BinaryOp::Mul,
        Kind::SlashEqual => BinaryOp::Div,
        Kind::DoubleSlashEqual => BinaryOp::FloorDiv,
        Kind::PercentEqual => BinaryOp::Mod,
        Kind::AtEqual => BinaryOp::MatMul,
        Kind::AmpersandEqual => BinaryOp::BitAnd,
        Kind::BarEqual => BinaryOp::BitOr,
        Kind::CaretEqual => BinaryOp::BitXor,
        Kind::ShlEqual => BinaryOp::Shl,
        Kind::ShrEqual => BinaryOp::Shr,
        Kind::DoubleStarEqual => BinaryOp::Pow,
        _ => return None,
    })
}
