//! Known comparisons between expressions, up to constants.
//!
//! A condition such as `i < n` is not a constant bound, but it decides `i <= n` and `i < n + 3`. A [`Known`] is the
//! fact `left op right + offset`; facts about two expressions answer questions about the same two. Follows TVM's
//! `transitive_comparison_analyzer.cc` with its default of not chaining comparisons.

use super::analyzer::Analyzer;
use crate::ir::expr::{Arena, Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};

/// The possible relations between two integers, as a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Relation(u8);

impl Relation {
    pub(super) const EQ: Relation = Relation(1);
    pub(super) const LT: Relation = Relation(2);
    pub(super) const LE: Relation = Relation(3);
    pub(super) const GT: Relation = Relation(4);
    pub(super) const GE: Relation = Relation(5);
    pub(super) const NE: Relation = Relation(6);
    pub(super) const UNKNOWN: Relation = Relation(7);

    /// The intersection of both; `self` if they contradict each other.
    pub(super) fn and(self, other: Relation) -> Relation {
        let both = self.0 & other.0;
        if both == 0 { self } else { Relation(both) }
    }

    /// Whether only one relation is possible.
    pub(super) fn is_decided(self) -> bool {
        self.0.count_ones() == 1
    }
}

/// The fact `left op right + offset`, where op is one of `==`, `!=`, `<=`, `>=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Known {
    left: ExprId,
    right: ExprId,
    offset: i64,
    relation: Relation,
}

impl Known {
    /// The fact that a true comparison states; `None` for constants and for types that are not index types.
    pub(super) fn from_comparison(a: &mut Arena, op: CmpOp, x: ExprId, y: ExprId) -> Option<Known> {
        if !a.dtype(x).is_index() || (a.as_int(x).is_some() && a.as_int(y).is_some()) {
            return None;
        }
        let (left, right, offset) = split_offsets(a, x, y)?;
        let (relation, shift) = match op {
            CmpOp::Eq => (Relation::EQ, 0),
            CmpOp::Ne => (Relation::NE, 0),
            CmpOp::Le => (Relation::LE, 0),
            CmpOp::Ge => (Relation::GE, 0),
            CmpOp::Lt => (Relation::LE, -1),
            CmpOp::Gt => (Relation::GE, 1),
        };
        Some(Known { left, right, offset: offset.checked_add(shift)?, relation })
    }

    /// The fact that a true condition states.
    pub(super) fn from_condition(a: &mut Arena, condition: ExprId) -> Option<Known> {
        match a.expr(condition) {
            Expr::Compare(op, x, y) => Known::from_comparison(a, op, x, y),
            _ => None,
        }
    }

    /// Whether `e` is one of the compared expressions.
    pub(super) fn mentions(self, e: ExprId) -> bool {
        self.left == e || self.right == e
    }

    /// The relations of `left` to `right + offset` that this fact allows.
    fn answer(self, left: ExprId, right: ExprId, offset: i64) -> Relation {
        let known = if (self.left, self.right) == (left, right) {
            self
        } else if (self.right, self.left) == (left, right) {
            let relation = match self.relation {
                Relation::LE => Relation::GE,
                Relation::GE => Relation::LE,
                other => other,
            };
            let Some(offset) = self.offset.checked_neg() else { return Relation::UNKNOWN };
            Known { left, right, offset, relation }
        } else {
            return Relation::UNKNOWN;
        };
        // The fact compares with `right + known.offset`, the question with `right + offset`.
        match known.relation {
            Relation::EQ if known.offset == offset => Relation::EQ,
            Relation::EQ if known.offset < offset => Relation::LT,
            Relation::EQ => Relation::GT,
            Relation::LE if known.offset < offset => Relation::LT,
            Relation::LE if known.offset == offset => Relation::LE,
            Relation::GE if known.offset > offset => Relation::GT,
            Relation::GE if known.offset == offset => Relation::GE,
            Relation::NE if known.offset == offset => Relation::NE,
            _ => Relation::UNKNOWN,
        }
    }
}

/// `x op y` as `left op right + offset`.
fn split_offsets(a: &mut Arena, x: ExprId, y: ExprId) -> Option<(ExprId, ExprId, i64)> {
    let (left, l) = split_offset(a, x);
    let (right, r) = split_offset(a, y);
    Some((left, right, r.checked_sub(l)?))
}

fn split_offset(a: &mut Arena, e: ExprId) -> (ExprId, i64) {
    match a.expr(e) {
        Expr::Int(c) => (a.int(0, a.dtype(e)), c),
        Expr::Binary(BinOp::Add, x, c) => a.as_int(c).map_or((e, 0), |c| (x, c)),
        Expr::Binary(BinOp::Sub, x, c) => a.as_int(c).and_then(i64::checked_neg).map_or((e, 0), |c| (x, c)),
        _ => (e, 0),
    }
}

impl Analyzer {
    /// The relations of `x` to `y` that the known facts allow, without chaining.
    pub(super) fn compare_by_knowns(&self, a: &mut Arena, x: ExprId, y: ExprId) -> Relation {
        if (self.knowns.is_empty() && self.range_knowns.is_empty()) || !a.dtype(x).is_index() {
            return Relation::UNKNOWN;
        }
        let Some((left, right, offset)) = split_offsets(a, x, y) else { return Relation::UNKNOWN };
        self.range_knowns
            .iter()
            .chain(&self.knowns)
            .fold(Relation::UNKNOWN, |r, k| r.and(k.answer(left, right, offset)))
    }
}
