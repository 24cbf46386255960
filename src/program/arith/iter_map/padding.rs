//! Pads iterators, so that divisions are exact.
//!
//! `i // 4` and `i % 4` of an `i` in `0 .. 18` are splits of an iterator of 20 values, of which the last two are
//! padding. All uses of an iterator must agree on how it is padded: a first round over all indices learns the
//! divisors and the offset, a second one uses them.

use super::rewrite::{Padding, Rewriter};
use super::{IterMapError, IterSplit, IterSum, MarkId, MarkSource, to_expr};
use crate::arith::analyzer::Analyzer;
use crate::ir::expr::{Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};

impl Rewriter<'_> {
    /// The split, padded so that `split + base` starts and ends at multiples of `divisor`, and the padding before it.
    pub(super) fn pad(&mut self, split: IterSplit, base: ExprId, divisor: ExprId) -> Option<(IterSplit, ExprId)> {
        let left_pad = self.a.floor_mod(base, divisor);
        let left_pad = self.analyzer.simplify(self.a, left_pad);
        let right_edge = self.a.add(left_pad, split.extent);
        let right_pad = if self.divides(divisor, right_edge) {
            self.zero_like(divisor)
        } else {
            let rest = self.complement(right_edge, divisor);
            self.analyzer.simplify(self.a, rest)
        };
        if self.collects_padding {
            return self.collect(split, divisor, left_pad, right_pad);
        }
        let Some(i) = self.padding_of(split.mark) else {
            // Without a first round nothing may be padded. TVM lets this pass, and loses the offset.
            if !self.a.is_int(left_pad, 0) {
                self.fail(IterMapError::Padding);
                return None;
            }
            return Some((split, left_pad));
        };
        let padding = self.paddings[i].1;
        let extent = self.marks[split.mark.index()].extent;
        if self.a.is_int(padding.left, 0) && self.divides(padding.factor, extent) {
            return Some((split, left_pad));
        }
        if !self.divides(split.lower_factor, padding.factor) || !self.divides(divisor, padding.factor) {
            self.fail(IterMapError::Padding);
            return None;
        }
        let mut left_pad = left_pad;
        let mark = match padding.padded {
            Some(mark) => mark,
            None => {
                if !self.divides(split.lower_factor, padding.left) {
                    self.fail(IterMapError::Padding);
                    return None;
                }
                left_pad = self.a.floor_div(padding.left, split.lower_factor);
                self.make_padded(i)
            }
        };
        let extent = self.marks[mark.index()].extent;
        let extent = self.a.floor_div(extent, split.lower_factor);
        Some((IterSplit { mark, extent, ..split }, left_pad))
    }

    /// In the first round, notes the padding that this division needs.
    fn collect(
        &mut self,
        mut split: IterSplit,
        divisor: ExprId,
        left_pad: ExprId,
        right_pad: ExprId,
    ) -> Option<(IterSplit, ExprId)> {
        let i = match self.padding_of(split.mark) {
            Some(i) => i,
            None => {
                let dtype = self.mark_dtype(split.mark);
                let (one, zero) = (self.a.int(1, dtype), self.a.int(0, dtype));
                self.paddings.push((split.mark, Padding { factor: one, left: zero, padded: None }));
                self.paddings.len() - 1
            }
        };
        let whole = self.a.mul(divisor, split.lower_factor);
        let Some(factor) = self.common_multiple(self.paddings[i].1.factor, whole) else {
            self.fail(IterMapError::Padding);
            return None;
        };
        self.paddings[i].1.factor = factor;
        if self.a.is_int(left_pad, 0) && self.a.is_int(right_pad, 0) {
            return Some((split, self.zero_like(divisor)));
        }
        self.requires_padding = true;
        let left = self.a.mul(left_pad, split.lower_factor);
        self.paddings[i].1.left = self.a.max(self.paddings[i].1.left, left);
        // Only extents matter in this round.
        let extent = self.a.add(left_pad, split.extent);
        let extent = self.a.add(extent, right_pad);
        split.extent = self.analyzer.simplify(self.a, extent);
        Some((split, left_pad))
    }

    /// In the second round, returns the padded iterator and records the condition under which a point is padding.
    fn make_padded(&mut self, i: usize) -> MarkId {
        let (mark, Padding { factor, left, .. }) = self.paddings[i];
        let extent = self.marks[mark.index()].extent;
        let right_edge = self.a.add(extent, left);
        let right =
            if self.divides(factor, right_edge) { self.zero_like(factor) } else { self.complement(right_edge, factor) };
        let padded_extent = self.a.add(right_edge, right);
        let padded_extent = self.analyzer.simplify(self.a, padded_extent);
        let whole = self.whole(mark);
        let source = IterSum::new(&[whole], left);
        let padded = self.new_mark(MarkSource::Sum(source.clone()), padded_extent);
        self.paddings[i].1.padded = Some(padded);
        self.padded_from.push((padded, mark));

        let value = to_expr::sum_to_expr(self.a, &mut Analyzer::new(), &self.marks, &source);
        let a = &mut *self.a;
        let zero = a.int(0, a.dtype(value));
        let (quotient, rest) = (a.floor_div(value, factor), a.floor_mod(value, factor));
        let has_left = a.compare(CmpOp::Ne, left, zero);
        let first = a.compare(CmpOp::Eq, quotient, zero);
        let before = a.lt(rest, left);
        let before = a.and(first, before);
        let left_predicate = a.and(has_left, before);
        let has_right = a.compare(CmpOp::Ne, right, zero);
        let (edge, edge_rest) = (a.floor_div(right_edge, factor), a.floor_mod(right_edge, factor));
        let last = a.compare(CmpOp::Eq, quotient, edge);
        let behind = a.compare(CmpOp::Ge, rest, edge_rest);
        let behind = a.and(last, behind);
        let right_predicate = a.and(has_right, behind);
        let either = a.or(left_predicate, right_predicate);
        self.padding_predicate = a.or(self.padding_predicate, either);
        padded
    }

    fn padding_of(&self, mark: MarkId) -> Option<usize> {
        self.paddings.iter().position(|&(known, _)| self.same_structure(known, mark))
    }

    /// Whether the iterators are the same, or are made in the same way of the same iterators.
    fn same_structure(&self, x: MarkId, y: MarkId) -> bool {
        if x == y {
            return true;
        }
        let (p, q) = (&self.marks[x.index()], &self.marks[y.index()]);
        p.extent == q.extent
            && match (&p.source, &q.source) {
                (MarkSource::Expr(x), MarkSource::Expr(y)) => x == y,
                (MarkSource::Sum(x), MarkSource::Sum(y)) => {
                    x.base == y.base
                        && x.args.len() == y.args.len()
                        && x.args
                            .iter()
                            .zip(&y.args)
                            .all(|(x, y)| IterSplit { mark: y.mark, ..*x } == *y && self.same_structure(x.mark, y.mark))
                }
                _ => false,
            }
    }

    /// `(-e) % divisor`.
    fn complement(&mut self, e: ExprId, divisor: ExprId) -> ExprId {
        let zero = self.zero_like(e);
        let negative = self.a.sub(zero, e);
        self.a.floor_mod(negative, divisor)
    }

    /// A common multiple; the least one as far as can be proved.
    fn common_multiple(&mut self, x: ExprId, y: ExprId) -> Option<ExprId> {
        let one = self.a.int(1, self.a.dtype(x));
        let split = |r: &Self, e: ExprId| match r.a.expr(e) {
            Expr::Int(c) => (one, c),
            Expr::Binary(BinOp::Mul, x, y) => match (r.a.as_int(x), r.a.as_int(y)) {
                (_, Some(c)) => (x, c),
                (Some(c), None) => (y, c),
                (None, None) => (e, 1),
            },
            _ => (e, 1),
        };
        let ((p, c), (q, d)) = (split(self, x), split(self, y));
        let lcm = (c / crate::arith::modular::gcd(c, d).max(1)).checked_mul(d)?;
        if !crate::arith::pattern::fits(lcm, self.a.dtype(x)) {
            return None;
        }
        let multiple = if self.equal(p, q) || self.divides(q, p) {
            p
        } else if self.divides(p, q) {
            q
        } else {
            self.a.mul(p, q)
        };
        Some(self.a.mul_const(multiple, lcm))
    }
}
