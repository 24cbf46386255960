//! Simplification by rewrite rules, from the leaves up.
//!
//! A node whose operands are simplified is folded if constant, then meets the rules of its operator, one table per
//! file; the first that applies gives the result. Results marked so are simplified again, nested at most
//! [`MAX_NESTING`] deep.
//!
//! The canonical form that rules rely on: constants stand on the right of `+` and `*` and are gathered there
//! (`(x + y) + c`, `x * c`); `x - c` is `x + (-c)` and `x - y * c` is `x + y * (-c)`; `min` and `max` stand on the left
//! of a sum; the only comparisons are `<`, `<=`, `==` and `!=`, with a constant alone on one side if there is one;
//! `not` is applied only to expressions without an opposite.
//!
//! Only index types (`int32`, `int64`) are rewritten, and boolean operators; expressions of other types get their
//! operands simplified, and constants folded. The same visitor serves the [canonical](super::canonical) simplifier,
//! which replaces the treatment of arithmetic: [`Mode`] says which of the two is at work.
//!
//! Rules are those of TVM's `rewrite_simplify.cc` (0.27), which took them from Halide; where TVM's are wrong for some
//! constants, the condition is stricter here.

mod add;
mod compare;
mod floor_div;
mod floor_mod;
mod logic;
mod max;
mod min;
mod mul;
mod select;
mod sub;
mod trunc;

pub(super) use logic::negation_normal;

use super::analyzer::Analyzer;
use super::memo::Simplified;
use super::pattern::{IntoPat, Match, Pat};
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};

/// Which of the two simplifiers is at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Rules only.
    Rewrite,
    /// Sums, products, quotients and remainders in canonical form; rules for the rest.
    Canonical,
}

/// Results of rules are simplified again at most this deep (TVM's `kMaxRecurDepth`).
const MAX_NESTING: u8 = 5;

/// One run of a simplifier.
pub(super) struct Simplifier<'a> {
    pub(super) arena: &'a mut Arena,
    pub(super) analyzer: &'a mut Analyzer,
    pub(super) mode: Mode,
}

impl<'a> Simplifier<'a> {
    pub(super) fn new(arena: &'a mut Arena, analyzer: &'a mut Analyzer, mode: Mode) -> Self {
        Simplifier { arena, analyzer, mode }
    }

    /// The expression simplified.
    pub(super) fn visit(&mut self, e: ExprId) -> ExprId {
        match self.arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::BufferData(_) => return e,
            Expr::Var(v) => {
                if self.arena.dtype(e) == DType::Bool
                    && let Some(known) = self.literal(e)
                {
                    return known;
                }
                return self.analyzer.var(v).and_then(|info| info.value).unwrap_or(e);
            }
            Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Load(..)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => {}
        }
        // The rules are about scalars. Operands of vectors are simplified as scalars.
        if self.arena.lanes(e) > 1 {
            return self.visit_operands(e);
        }
        let mode = self.mode as usize;
        let analyzer = &mut *self.analyzer;
        let nesting = analyzer.nesting[mode];
        if let Some(known) = analyzer.memo.simplified[mode].get(analyzer.epoch, e)
            && nesting + known.nesting <= MAX_NESTING
        {
            analyzer.peak[mode] = analyzer.peak[mode].max(nesting + known.nesting);
            return known.result;
        }
        if !analyzer.descend() {
            return e;
        }
        let epoch = analyzer.epoch;
        let outer_peak = std::mem::replace(&mut analyzer.peak[mode], nesting);
        let outer_hit = std::mem::replace(&mut analyzer.limit_hit[mode], false);
        let result = match self.mode {
            Mode::Rewrite => self.visit_node(e),
            Mode::Canonical => {
                let value = self.mutate(e);
                self.normalize(value)
            }
        };
        let analyzer = &mut *self.analyzer;
        analyzer.ascend();
        // The nesting of results says from which depth on the outcome would be the same.
        if !analyzer.limit_hit[mode] {
            let known = Simplified { result, nesting: analyzer.peak[mode] - nesting };
            analyzer.memo.simplified[mode].set(epoch, e, known, self.arena.n_exprs());
        }
        analyzer.peak[mode] = analyzer.peak[mode].max(outer_peak);
        analyzer.limit_hit[mode] |= outer_hit;
        result
    }

    /// A node by rules, operands first.
    pub(super) fn visit_node(&mut self, e: ExprId) -> ExprId {
        match self.arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) | Expr::BufferData(_) => self.visit(e),
            Expr::Binary(op, x, y) => {
                let (x, y) = (self.visit(x), self.visit(y));
                let new = self.arena.binary(op, x, y);
                match self.arena.expr(new) {
                    Expr::Binary(new_op, ..) if new_op == op => self.apply_binary(op, new),
                    _ => new,
                }
            }
            Expr::Compare(op, x, y) => self.visit_compare(op, x, y),
            Expr::Not(x) => {
                let x = self.visit(x);
                let new = self.arena.not(x);
                if self.arena.as_int(new).is_some() {
                    return new;
                }
                if let Some(known) = self.literal(new) {
                    return known;
                }
                logic::not(self, new)
            }
            Expr::Cast(x) => {
                let x = self.visit(x);
                self.arena.cast(self.arena.dtype(e), x)
            }
            Expr::Select(c, t, o) => select::select(self, c, t, o),
            Expr::IfThenElse(c, t, o) => select::if_then_else(self, c, t, o),
            Expr::Load(..) | Expr::Ramp(..) | Expr::Broadcast(_) | Expr::Shuffle(..) | Expr::Builtin(..) => {
                self.visit_operands(e)
            }
            Expr::Call(..) => select::call(self, e),
            Expr::Let(v, value, body) => select::let_(self, v, value, body),
        }
    }

    fn apply_binary(&mut self, op: BinOp, e: ExprId) -> ExprId {
        let dtype = self.arena.dtype(e);
        if matches!(op, BinOp::And | BinOp::Or) {
            if let Some(known) = self.literal(e) {
                return known;
            }
            return if op == BinOp::And { logic::and(self, e) } else { logic::or(self, e) };
        }
        if !dtype.is_index() {
            return if dtype.is_integer() { sub::narrow(self, e) } else { e };
        }
        match op {
            BinOp::Add => add::add(self, e),
            BinOp::Sub => sub::sub(self, e),
            BinOp::Mul => mul::mul(self, e),
            BinOp::Div => trunc::div(self, e),
            BinOp::Mod => trunc::rem(self, e),
            BinOp::FloorDiv => floor_div::floor_div(self, e),
            BinOp::FloorMod => floor_mod::floor_mod(self, e),
            BinOp::Min => min::min(self, e),
            BinOp::Max => max::max(self, e),
            BinOp::And | BinOp::Or => e,
        }
    }

    fn visit_compare(&mut self, op: CmpOp, x: ExprId, y: ExprId) -> ExprId {
        if matches!(op, CmpOp::Gt | CmpOp::Ge) {
            let swapped = self.arena.compare(op.swapped(), y, x);
            return self.visit(swapped);
        }
        let (x, y) = (self.visit(x), self.visit(y));
        let new = self.arena.compare(op, x, y);
        if self.arena.as_int(new).is_some() {
            return new;
        }
        if let Some(known) = self.literal(new) {
            return known;
        }
        compare::compare(self, op, new, x, y)
    }

    /// The node with its operands simplified.
    pub(super) fn visit_operands(&mut self, e: ExprId) -> ExprId {
        let Simplifier { arena, analyzer, mode } = self;
        arena.map_children(e, |arena, c| Simplifier::new(arena, analyzer, *mode).visit(c))
    }

    /// The value of a condition that is a known condition or its opposite. Only the rules use known conditions; in
    /// canonical form they would prevent parts of an index from merging.
    pub(super) fn literal(&mut self, e: ExprId) -> Option<ExprId> {
        if self.mode == Mode::Canonical || self.analyzer.literals.is_empty() {
            return None;
        }
        let opposite = self.arena.not(e);
        for &known in &self.analyzer.literals {
            if known == e {
                return Some(self.arena.bool(true));
            }
            if known == opposite {
                return Some(self.arena.bool(false));
            }
        }
        None
    }

    /// The result of a rule, simplified again.
    pub(super) fn again(&mut self, e: ExprId) -> ExprId {
        let mode = self.mode as usize;
        if self.analyzer.nesting[mode] >= MAX_NESTING {
            self.analyzer.limit_hit[mode] = true;
            return e;
        }
        self.analyzer.nesting[mode] += 1;
        self.analyzer.peak[mode] = self.analyzer.peak[mode].max(self.analyzer.nesting[mode]);
        let result = self.visit(e);
        self.analyzer.nesting[mode] -= 1;
        result
    }

    /// The type of the constants in a node's operands.
    pub(super) fn operand_dtype(&self, e: ExprId) -> DType {
        match self.arena.expr(e) {
            Expr::Compare(_, x, _) => self.arena.dtype(x),
            _ => self.arena.dtype(e),
        }
    }

    // ---- conditions of rules -------------------------------------------------------------------------------

    /// Whether the expression is provably at least `value`.
    pub(super) fn at_least(&mut self, m: &Match, p: impl IntoPat, value: i128) -> bool {
        let (Some(e), Ok(value)) = (p.pat().build(self.arena, m), i64::try_from(value)) else { return false };
        self.analyzer.can_prove_greater_equal(self.arena, e, value)
    }

    /// Whether the expression is provably below `value`.
    pub(super) fn below(&mut self, m: &Match, p: impl IntoPat, value: i128) -> bool {
        let (Some(e), Ok(value)) = (p.pat().build(self.arena, m), i64::try_from(value)) else { return false };
        self.analyzer.can_prove_less(self.arena, e, value)
    }

    /// Whether the expression is provably 0.
    pub(super) fn is_zero(&mut self, m: &Match, p: impl IntoPat) -> bool {
        let Some(e) = p.pat().build(self.arena, m) else { return false };
        self.compare_to(e, 0) == super::transitive::Relation::EQ
    }

    /// Notes which rule applied.
    #[inline(always)]
    pub(super) fn applied(&mut self, name: &'static str) {
        #[cfg(test)]
        log::APPLIED.with(|names| names.borrow_mut().push(name));
        let _ = name;
    }
}

/// Which rules applied on this thread, for tests.
#[cfg(test)]
pub(super) mod log {
    use std::cell::RefCell;

    thread_local! {
        /// Their names, in order.
        pub(in crate::arith) static APPLIED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }
}
