//! Parses and checks what values are assigned to.

use super::parser::{Parsed, Parser};
use super::precedence::BIT_OR;
use super::token::Kind;
use super::{Expr, ExprKind};

impl<'a> Parser<'a> {
    /// The targets of a loop, up to its `in`.
    pub(super) fn targets(&mut self) -> Parsed<Expr<'a>> {
        let targets = self.tuple_of(Parser::target_element)?;
        self.check_target(&targets);
        Ok(targets)
    }

    /// The target behind an `as`.
    pub(super) fn target(&mut self) -> Parsed<Expr<'a>> {
        let target = self.target_element()?;
        self.check_target(&target);
        Ok(target)
    }

    fn target_element(&mut self) -> Parsed<Expr<'a>> {
        if self.at(Kind::Star) { self.starred(BIT_OR) } else { self.operators(BIT_OR) }
    }

    /// Refuses what nothing can be assigned to.
    pub(super) fn check_target(&mut self, target: &Expr<'a>) {
        match &target.kind {
            ExprKind::Name(_) | ExprKind::Attribute(..) | ExprKind::Subscript(..) => {}
            ExprKind::Tuple(elements) | ExprKind::List(elements) => elements.iter().for_each(|e| self.check_target(e)),
            ExprKind::Starred(value) => self.check_target(value),
            _ => self.mistake(target.span, "invalid assignment target"),
        }
    }

    /// Refuses what is no target of `del`.
    pub(super) fn check_deleted(&mut self, target: &Expr<'a>) {
        match &target.kind {
            ExprKind::Name(_) | ExprKind::Attribute(..) | ExprKind::Subscript(..) => {}
            ExprKind::Tuple(elements) | ExprKind::List(elements) => elements.iter().for_each(|e| self.check_deleted(e)),
            _ => self.mistake(target.span, "invalid target of `del`"),
        }
    }

    /// Refuses several targets where only one can be: before an annotation, or an operator with `=`.
    pub(super) fn check_single_target(&mut self, target: &Expr<'a>, of: &str) {
        if !matches!(target.kind, ExprKind::Name(_) | ExprKind::Attribute(..) | ExprKind::Subscript(..)) {
            self.mistake(target.span, format!("invalid target of {of}"));
        }
    }
}
