//! Facts that follow from the conditions at a place.

use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Affine, Arena, BufferId, Expr, ExprId, Range, Ranges, Ty};
use smallvec::SmallVec;

/// The fact that a sum lies in a range.
struct Fact {
    /// The sum, without a constant.
    sum: Affine,
    range: Range,
}

/// The facts at a place, as a stack: those of inner places come after those of outer ones.
#[derive(Default)]
pub(super) struct Facts {
    facts: Vec<Fact>,
}

/// A height of the stack.
#[derive(Clone, Copy)]
pub(super) struct Mark(usize);

impl Facts {
    /// The current height.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.facts.len())
    }

    /// Removes the facts since `mark`.
    pub(super) fn forget(&mut self, mark: Mark) {
        self.facts.truncate(mark.0);
    }

    /// Learns that a condition holds, or that it does not.
    pub(super) fn learn(&mut self, arena: &mut Arena, ranges: &mut Ranges, condition: ExprId, holds: bool) {
        match arena.expr(condition) {
            Expr::Not(a) => self.learn(arena, ranges, a, !holds),
            Expr::Binary(BinOp::And, a, b) if holds => {
                self.learn(arena, ranges, a, true);
                self.learn(arena, ranges, b, true);
            }
            Expr::Binary(BinOp::Or, a, b) if !holds => {
                self.learn(arena, ranges, a, false);
                self.learn(arena, ranges, b, false);
            }
            // Facts are about indices: 32-bit integers become them in addresses.
            Expr::Compare(op, a, b) if arena.ty(a) == Ty::scalar(DType::Int32) => {
                let (a, b) = (arena.cast(DType::Int64, a), arena.cast(DType::Int64, b));
                let wide = arena.compare(op, a, b);
                self.learn(arena, ranges, wide, holds);
            }
            Expr::Compare(op, a, b) if arena.ty(a) == Ty::INDEX => {
                let mut sum = Affine::of(arena, a).minus(&Affine::of(arena, b));
                let c = std::mem::take(&mut sum.constant);
                let whole = ranges.of_affine(arena, &sum);
                let Some(limit) = c.checked_neg() else { return };
                let op = if holds { op } else { op.negated() };
                // sum + c op 0, which is sum op limit
                let range = match op {
                    CmpOp::Lt => Range { hi: limit.saturating_sub(1), ..whole },
                    CmpOp::Le => Range { hi: limit, ..whole },
                    CmpOp::Gt => Range { lo: limit.saturating_add(1), ..whole },
                    CmpOp::Ge => Range { lo: limit, ..whole },
                    CmpOp::Eq => Range::point(limit),
                    CmpOp::Ne => return,
                };
                let range = range.intersect(whole);
                if range.lo <= range.hi {
                    self.facts.push(Fact { sum, range });
                }
            }
            Expr::Call(Intrinsic::BitAnd, list) if holds && arena.dtype(condition) == DType::Bool => {
                let list: SmallVec<[ExprId; 2]> = arena.list(list).into();
                list.into_iter().for_each(|a| self.learn(arena, ranges, a, true));
            }
            Expr::Call(Intrinsic::BitOr, list) if !holds && arena.dtype(condition) == DType::Bool => {
                let list: SmallVec<[ExprId; 2]> = arena.list(list).into();
                list.into_iter().for_each(|a| self.learn(arena, ranges, a, false));
            }
            Expr::Cast(a) if arena.dtype(a) == DType::Bool => self.learn(arena, ranges, a, holds),
            _ => {}
        }
    }

    /// Removes facts that depend on elements of a buffer, because some elements change.
    pub(super) fn forget_buffer(&mut self, arena: &Arena, buffer: BufferId) {
        for fact in &mut self.facts {
            let mut reads = false;
            for &(atom, _) in &fact.sum.terms {
                for_each_expr(arena, atom, &mut |e| reads |= matches!(arena.expr(e), Expr::Load(b, _) if b == buffer));
            }
            // An empty fact is never used, and keeps the height of the stack.
            if reads {
                fact.sum = Affine::default();
            }
        }
    }

    /// The range of an index, given the current facts.
    pub(super) fn range_of(&self, arena: &Arena, ranges: &mut Ranges, index: ExprId) -> Range {
        self.range_of_sum(arena, ranges, &Affine::of(arena, index))
    }

    fn range_of_sum(&self, arena: &Arena, ranges: &mut Ranges, sum: &Affine) -> Range {
        let mut range = ranges.of_affine(arena, sum);
        if self.facts.is_empty() {
            return range;
        }
        for fact in &self.facts {
            let (plain, mirrored) = (sum.minus(&fact.sum), sum.minus(&Affine::default().minus(&fact.sum)));
            // A fact helps if it removes terms.
            if plain.terms.len() < sum.terms.len() {
                range = range.intersect(ranges.of_affine(arena, &plain).plus(fact.range));
            }
            if mirrored.terms.len() < sum.terms.len() {
                range = range.intersect(ranges.of_affine(arena, &mirrored).plus(fact.range.times(-1)));
            }
        }
        // The facts about `x` also limit `x // 28`.
        let mut by_term = Range::point(sum.constant);
        let mut has_quotient = false;
        for &(atom, c) in &sum.terms {
            let of_atom = match self.range_of_quotient(arena, ranges, atom) {
                Some(quotient) => {
                    has_quotient = true;
                    quotient
                }
                None => ranges.of(arena, atom),
            };
            by_term = by_term.plus(of_atom.times(c));
        }
        if has_quotient { range.intersect(by_term) } else { range }
    }

    /// The range of `x // c` with a positive constant `c`, given the facts about `x`; `None` for other expressions.
    fn range_of_quotient(&self, arena: &Arena, ranges: &mut Ranges, e: ExprId) -> Option<Range> {
        let Expr::Binary(BinOp::FloorDiv, x, c) = arena.expr(e) else { return None };
        let c = arena.as_int(c).filter(|&c| c > 0)?;
        let range = self.range_of(arena, ranges, x).known()?;
        Some(Range { lo: range.lo.div_euclid(c), hi: range.hi.div_euclid(c) })
    }

    /// The condition `0 <= index < extent`, without the parts that follow from the current facts.
    pub(super) fn unproved_bounds(
        &self,
        arena: &mut Arena,
        ranges: &mut Ranges,
        index: ExprId,
        extent: ExprId,
    ) -> ExprId {
        let mut condition = arena.bool(true);
        if self.range_of(arena, ranges, index).lo < 0 {
            let zero = arena.index(0);
            condition = arena.compare(CmpOp::Ge, index, zero);
        }
        let past_end = arena.sub(index, extent);
        if self.range_of(arena, ranges, past_end).hi >= 0 {
            let below = arena.compare(CmpOp::Lt, index, extent);
            condition = arena.and(condition, below);
        }
        condition
    }
}
