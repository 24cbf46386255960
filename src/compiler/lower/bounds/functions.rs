//! Functions of intervals.
//!
//! An increasing function maps ends to ends; others have their extremes inside the interval, or at corners of the
//! arguments. Without such a rule, the result is known only if all arguments are points.

use super::values::{Interval, Values};
use crate::ir::rounding::FUNCTION;
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::{Arena, ExprId};

impl Values<'_> {
    pub(super) fn call(&mut self, function: Intrinsic, from: DType, dtype: DType, args: &[Interval]) -> Interval {
        if from.is_float() {
            return self.float_call(function, from, args);
        }
        if args.iter().all(|a| a.is_point()) {
            let ends: Vec<ExprId> = args.iter().map(|a| a.lo).collect();
            return Interval::point(self.0.call(function, &ends));
        }
        match function {
            Intrinsic::Likely => args[0],
            Intrinsic::ShiftRight if args[1].is_point() => {
                self.each(args[0], |arena, e| arena.call(function, &[e, args[1].lo]))
            }
            Intrinsic::BitAnd if self.is_positive(args[1]) => {
                let ends: Vec<ExprId> = args.iter().map(|a| a.lo).collect();
                let value = self.0.call(function, &ends);
                let (settled, zero) = (self.settled(args), self.0.int(0, dtype));
                let (lo, hi) = (self.0.select(settled, value, zero), self.0.select(settled, value, args[1].lo));
                Interval { lo, hi }
            }
            _ => {
                let ends: Vec<ExprId> = args.iter().map(|a| a.lo).collect();
                let value = Interval::point(self.0.call(function, &ends));
                self.if_settled(args, value)
            }
        }
    }

    fn float_call(&mut self, function: Intrinsic, dtype: DType, args: &[Interval]) -> Interval {
        use Intrinsic::*;
        let a = args[0];
        let of = |arena: &mut Arena, e| arena.call(function, &[e]);
        // Half-precision functions are computed in float32 and rounded.
        let units = if dtype.is_half() { 1.01 } else { FUNCTION };
        match function {
            Exp | Exp2 | Exp10 | Log | Log2 | Log10 | Log1p | Sqrt | Tanh | Asin | Atan | Sinh | Asinh | Acosh
            | Atanh | Erf | Sigmoid => {
                let v = self.each(a, of);
                self.widened(v, dtype, units)
            }
            Rsqrt | Acos => {
                let v = self.each(a, of);
                self.widened(Interval { lo: v.hi, hi: v.lo }, dtype, units)
            }
            Cosh => {
                let size = self.size(a);
                let v = self.each(size, of);
                self.widened(v, dtype, units)
            }
            Sin | Cos => {
                let v = self.near_middle(a, of);
                let (one, minus) = (self.float(1.0), self.float(-1.0));
                let (lo, hi) = (self.extreme(BinOp::Max, v.lo, minus), self.extreme(BinOp::Min, v.hi, one));
                self.widened(Interval { lo, hi }, dtype, units)
            }
            Tan => {
                let pole = |this: &mut Self, e| {
                    let (scale, half) = (this.float(std::f64::consts::FRAC_1_PI), this.float(0.5));
                    let turns = this.0.mul(e, scale);
                    let turns = this.0.add(turns, half);
                    this.0.call(Floor, &[turns])
                };
                let branch = Interval { lo: pole(self, a.lo), hi: pole(self, a.hi) };
                let v = self.each(a, of);
                let v = if a.is_point() { v } else { self.if_settled(&[branch], v) };
                self.widened(v, dtype, units)
            }
            Pow => self.power(dtype, a, args[1], units),
            Hypot => {
                let (x, y) = (self.size(a), self.size(args[1]));
                let (lo, hi) = (self.0.call(Hypot, &[x.lo, y.lo]), self.0.call(Hypot, &[x.hi, y.hi]));
                self.widened(Interval { lo, hi }, dtype, units)
            }
            Atan2 => self.angle(dtype, a, args[1], units),
            Fmod => self.remainder(Trunc, dtype, a, args[1]),
            Fma => {
                let product = self.product(a, args[1]);
                let product = self.rounded(product, dtype, 1.0);
                let v = self.sum(BinOp::Add, product, args[2]);
                self.rounded(v, dtype, 1.0)
            }
            // One number further, in either direction.
            NextAfter => self.widened(a, dtype, 2.0),
            Abs => self.size(a),
            CopySign => {
                let (size, sign) = (self.size(a), args[1]);
                if a.is_point() && sign.is_point() {
                    return Interval::point(self.0.call(function, &[a.lo, sign.lo]));
                }
                let zero = self.float(0.0);
                let minus = Interval { lo: self.negated(size.hi), hi: self.negated(size.lo) };
                let positive = self.0.compare(CmpOp::Gt, sign.lo, zero);
                let negative = self.0.compare(CmpOp::Lt, sign.hi, zero);
                let (lo, hi) = (self.0.select(positive, size.lo, minus.lo), self.0.select(negative, minus.hi, size.hi));
                Interval { lo, hi }
            }
            Floor | Ceil | Trunc | Round | NearbyInt => self.each(a, of),
            IsNan | IsInf | IsFinite => {
                if a.is_point() {
                    return Interval::point(of(self.0, a.lo));
                }
                let (low, high) = (self.is_nan(a.lo), self.is_nan(a.hi));
                let lost = self.or(low, high);
                let ends = self.each(a, of);
                let (all, any) = (self.0.and(ends.lo, ends.hi), self.or(ends.lo, ends.hi));
                let (no, yes) = (self.0.bool(false), self.0.bool(true));
                let (lo, hi) = (self.0.select(lost, no, all), self.0.select(lost, yes, any));
                Interval { lo, hi }
            }
            Likely | Assume | PopCount | Clz | BitAnd | BitOr | BitXor | BitNot | ShiftLeft | ShiftRight => {
                unreachable!("`{function}` is no function of floats")
            }
        }
    }

    /// The absolute values.
    fn size(&mut self, a: Interval) -> Interval {
        if a.is_point() {
            return Interval::point(self.abs(a.lo));
        }
        let (minus_lo, minus_hi) = (self.negated(a.lo), self.negated(a.hi));
        let zero = self.float(0.0);
        let lo = self.extreme(BinOp::Max, a.lo, minus_hi);
        let lo = self.extreme(BinOp::Max, zero, lo);
        let hi = self.extreme(BinOp::Max, minus_lo, a.hi);
        Interval { lo, hi }
    }

    /// A function with slope at most 1.
    fn near_middle(&mut self, a: Interval, of: impl Fn(&mut Arena, ExprId) -> ExprId) -> Interval {
        if a.is_point() {
            return Interval::point(of(self.0, a.lo));
        }
        let (half, width) = (self.float(0.5), self.0.sub(a.hi, a.lo));
        let radius = self.0.mul(width, half);
        let middle = self.0.add(a.lo, radius);
        let v = of(self.0, middle);
        let (lo, hi) = (self.0.sub(v, radius), self.0.add(v, radius));
        Interval { lo, hi }
    }

    fn power(&mut self, dtype: DType, x: Interval, y: Interval, units: f64) -> Interval {
        let of = |this: &mut Self, x, y| this.0.call(Intrinsic::Pow, &[x, y]);
        if x.is_point() && y.is_point() {
            let v = Interval::point(of(self, x.lo, y.lo));
            return self.widened(v, dtype, units);
        }
        let ends = [(x.lo, y.lo), (x.lo, y.hi), (x.hi, y.lo), (x.hi, y.hi)].map(|(x, y)| of(self, x, y));
        let v = self.span(&ends);
        let zero = self.float(0.0);
        let crosses = self.crosses_zero(x);
        let (lo, hi) = (self.extreme(BinOp::Min, v.lo, zero), self.extreme(BinOp::Max, v.hi, zero));
        let (lo, hi) = (self.0.select(crosses, lo, v.lo), self.0.select(crosses, hi, v.hi));
        // With a varying exponent, only positive numbers have a result; with a negative one, only numbers that are not
        // near zero.
        let lost = if y.is_point() {
            let is_negative = self.0.compare(CmpOp::Lt, y.lo, zero);
            self.0.and(crosses, is_negative)
        } else {
            self.0.compare(CmpOp::Le, x.lo, zero)
        };
        let v = self.unknown_if(lost, Interval { lo, hi });
        self.widened(v, dtype, units)
    }

    /// `atan2(y, x)`: if the rectangle does not meet the branch cut, the extremes are at its corners.
    fn angle(&mut self, dtype: DType, y: Interval, x: Interval, units: f64) -> Interval {
        let of = |this: &mut Self, y, x| this.0.call(Intrinsic::Atan2, &[y, x]);
        if x.is_point() && y.is_point() {
            let v = Interval::point(of(self, y.lo, x.lo));
            return self.widened(v, dtype, units);
        }
        let ends = [(y.lo, x.lo), (y.lo, x.hi), (y.hi, x.lo), (y.hi, x.hi)].map(|(y, x)| of(self, y, x));
        let v = self.span(&ends);
        let zero = self.float(0.0);
        let right = self.0.compare(CmpOp::Gt, x.lo, zero);
        let above = self.0.compare(CmpOp::Gt, y.lo, zero);
        let below = self.0.compare(CmpOp::Lt, y.hi, zero);
        let clear = self.or(above, below);
        let clear = self.or(right, clear);
        let (least, most) = (self.float(-std::f64::consts::PI), self.float(std::f64::consts::PI));
        let (lo, hi) = (self.0.select(clear, v.lo, least), self.0.select(clear, v.hi, most));
        self.widened(Interval { lo, hi }, dtype, units)
    }
}
