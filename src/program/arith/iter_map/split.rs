//! Quotients and remainders of iterators.

use super::rewrite::{Rewriter, Value};
use super::{IterMapError, IterSplit, IterSum, MarkSource};
use crate::ir::expr::ExprId;
use crate::ir::op::{BinOp, CmpOp};
use smallvec::smallvec;

impl Rewriter<'_> {
    /// `(split + base) // divisor`.
    pub(super) fn quotient(&mut self, mut split: IterSplit, mut base: ExprId, mut divisor: ExprId) -> Option<Value> {
        if self.a.is_int(divisor, 1) {
            return Some(self.with_base(split, base));
        }
        if !self.a.is_int(split.scale, 1) {
            let scale = split.scale;
            let scale_even = self.divides(divisor, scale);
            if scale_even && self.a.is_int(base, 0) {
                split.scale = self.a.floor_div(scale, divisor);
                return Some(Value::Split(split));
            }
            if scale_even && self.divides(divisor, base) {
                split.scale = self.a.floor_div(scale, divisor);
                let base = self.a.floor_div(base, divisor);
                return Some(Value::Sum(IterSum::new(&[split], base)));
            }
            if !self.takes_out(scale, base, divisor) {
                self.fail(IterMapError::Scale { scale, divisor });
                return None;
            }
            base = self.a.floor_div(base, scale);
            divisor = self.a.floor_div(divisor, scale);
            split.scale = self.a.int(1, self.a.dtype(scale));
        }
        let (padded, left_pad) = self.pad(split, base, divisor)?;
        let simplify = |r: &mut Self, e: ExprId| r.analyzer.simplify(r.a, e);
        let part = if self.divides(divisor, padded.extent) {
            // (iter // lower) % (c1 * c2) // c1 is (iter // (lower * c1)) % c2
            let lower_factor = self.a.mul(padded.lower_factor, divisor);
            let extent = self.a.floor_div(padded.extent, divisor);
            IterSplit { lower_factor, extent: simplify(self, extent), ..padded }
        } else {
            let extent = self.ceil_div(padded.extent, divisor);
            let extent = simplify(self, extent);
            let source = self.marks[padded.mark.index()].extent;
            if self.a.is_int(padded.lower_factor, 1) && self.equal(padded.extent, source) {
                IterSplit { lower_factor: divisor, extent, ..padded }
            } else {
                // The part becomes a new iterator, which is divided.
                let zero = self.zero_like(divisor);
                let sum = IterSum { args: smallvec![padded], base: zero };
                let mark = self.new_mark(MarkSource::Sum(sum), padded.extent);
                let one = self.a.int(1, self.a.dtype(divisor));
                IterSplit { mark, lower_factor: divisor, extent, scale: one }
            }
        };
        let rest = self.a.sub(base, left_pad);
        let rest = self.a.floor_div(rest, divisor);
        let new_base = self.analyzer.simplify_steps(self.a, rest, 6);
        Some(if self.a.is_int(new_base, 0) { Value::Split(part) } else { Value::Sum(IterSum::new(&[part], new_base)) })
    }

    /// `(split + base) % divisor`.
    pub(super) fn remainder(&mut self, split: IterSplit, mut base: ExprId, mut divisor: ExprId) -> Option<Value> {
        let zero = self.zero_like(divisor);
        if self.a.is_int(divisor, 1) {
            return Some(Value::Expr(zero));
        }
        let scale = split.scale;
        if !self.a.is_int(scale, 1) {
            if self.divides(divisor, scale) && self.divides(divisor, base) {
                return Some(Value::Expr(zero));
            }
            if !self.takes_out(scale, base, divisor) {
                self.fail(IterMapError::Scale { scale, divisor });
                return None;
            }
            divisor = self.a.floor_div(divisor, scale);
            base = self.a.floor_div(base, scale);
        }
        // A part that repeats before its iterator ends can be divided only by divisors of its extent.
        let source = self.marks[split.mark.index()].extent;
        let whole = self.a.mul(split.lower_factor, split.extent);
        if !self.proves(CmpOp::Le, source, whole) && !self.divides(divisor, split.extent) {
            return None;
        }
        let (padded, _) = self.pad(split, base, divisor)?;
        // (iter // lower) % (c1 * c2) % c1 is (iter // lower) % c1
        Some(Value::Split(IterSplit { extent: divisor, scale: padded.scale, ..padded }))
    }

    /// Whether a scale can be cancelled. TVM also cancels negative scales, which reverses the rounding.
    fn takes_out(&mut self, scale: ExprId, base: ExprId, divisor: ExprId) -> bool {
        self.a.as_int(scale).is_none_or(|s| s > 0)
            && self.divides(scale, divisor)
            && (self.a.is_int(base, 0) || self.divides(scale, base))
    }

    fn with_base(&self, split: IterSplit, base: ExprId) -> Value {
        if self.a.is_int(base, 0) { Value::Split(split) } else { Value::Sum(IterSum::new(&[split], base)) }
    }

    fn ceil_div(&mut self, x: ExprId, y: ExprId) -> ExprId {
        let sum = self.a.add(x, y);
        let sum = self.a.add_const(sum, -1);
        self.a.binary(BinOp::FloorDiv, sum, y)
    }
}

#[cfg(test)]
mod tests {
    use crate::arith::{Analyzer, IterMapLevel, VarRange, iter_map_simplify};
    use crate::ir::{Arena, DType, Substitution};

    #[test]
    fn parts_of_a_backward_iterator_keep_their_values() {
        let mut a = Arena::new();
        let (var, e) = a.new_var_expr("v", DType::Int32);
        let [zero, two, seven, eight] = [0, 2, 7, 8].map(|n| a.int32(n));
        let backward = a.sub(seven, e);
        let parts = [a.floor_div(backward, two), a.floor_mod(backward, two)];
        let (domain, always) = ([VarRange { var, min: zero, extent: eight }], a.bool(true));
        let (level, analyzer) = (IterMapLevel::Surjective, &mut Analyzer::new());
        let simple = iter_map_simplify(&mut a, &parts, &domain, always, level, analyzer, true);
        for n in 0..8 {
            let value = a.int32(n);
            let at = |a: &mut Arena, e| Substitution::of_vars([(var, value)]).apply(a, e);
            for (&part, &simple) in parts.iter().zip(&simple) {
                assert_eq!(at(&mut a, part), at(&mut a, simple));
            }
        }
    }
}
