//! Arithmetic of intervals, as expressions of their ends.
//!
//! Floats are computed as `float64`, whatever their type; the type determines the error of an operation. A sum with an
//! error of `units` halves of an ulp of its result is widened by that, unless it is the sum of two points and its
//! result is a number of the type, which every rounding gives. Subnormal results may be flushed to zero; results beyond
//! the range of the type may be infinite.
//!
//! A NaN end means that the value is unknown; every operation propagates it. Unknown integers have the ends of their
//! type.

use crate::ir::rounding::{DIVISION, has_exact_reciprocal};
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::{Arena, ExprId};

/// The least and the greatest value of an expression in correct implementations. Both ends of a point are the same
/// expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interval {
    pub lo: ExprId,
    pub hi: ExprId,
}

impl Interval {
    pub(super) fn point(e: ExprId) -> Interval {
        Interval { lo: e, hi: e }
    }

    pub(super) fn is_point(self) -> bool {
        self.lo == self.hi
    }
}

/// Roundings of a long sum have random signs: the sum of `n` roundings is assumed to be at most this constant times
/// `sqrt(n)` roundings. Each is half an ulp at most, and its root mean square is smaller by `sqrt(3)`, so this is seven
/// standard deviations.
const WANDER: f64 = 4.0;

/// Half an ulp of 1; twice that for `float64`, in which intervals themselves are computed.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::Float64 => 2.0 * dtype.half_ulp(),
        DType::Float16 | DType::BFloat16 => dtype.half_ulp(),
        // Other types are computed in float32.
        _ => DType::Float32.half_ulp(),
    }
}

/// The least normal number of a type.
fn least_normal(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 2f64.powi(-14),
        DType::Float64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// The greatest number of a type.
fn greatest_number(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 65504.0,
        DType::BFloat16 => f64::from(half::bf16::MAX),
        DType::Float64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

/// Builds expressions of intervals.
pub(super) struct Values<'a>(pub &'a mut Arena);

impl Values<'_> {
    // ---- pieces --------------------------------------------------------------------------------------------

    pub(super) fn float(&mut self, v: f64) -> ExprId {
        self.0.float(v, DType::Float64)
    }

    fn is_float(&self, e: ExprId) -> bool {
        self.0.dtype(e).is_float()
    }

    pub(super) fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.0.binary(BinOp::Or, a, b)
    }

    pub(super) fn abs(&mut self, e: ExprId) -> ExprId {
        self.0.call(Intrinsic::Abs, &[e])
    }

    pub(super) fn negated(&mut self, e: ExprId) -> ExprId {
        let minus = self.float(-1.0);
        self.0.mul(e, minus)
    }

    pub(super) fn is_nan(&mut self, e: ExprId) -> ExprId {
        self.0.compare(CmpOp::Ne, e, e)
    }

    /// The lesser (`Min`) or greater (`Max`) of two numbers; NaN if one is NaN.
    pub(super) fn extreme(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let chosen = self.0.binary(op, a, b);
        if a == b || !self.is_float(a) || self.0.as_const(a).is_some() {
            return chosen;
        }
        // The operator returns the second operand if either is NaN.
        let is_nan = self.is_nan(a);
        self.0.select(is_nan, a, chosen)
    }

    pub(super) fn span(&mut self, ends: &[ExprId]) -> Interval {
        let all = |this: &mut Self, op| ends[1..].iter().fold(ends[0], |x, &y| this.extreme(op, x, y));
        let (lo, hi) = (all(self, BinOp::Min), all(self, BinOp::Max));
        Interval { lo, hi }
    }

    /// The smallest interval that contains both.
    pub(super) fn hull(&mut self, a: Interval, b: Interval) -> Interval {
        let lo = self.extreme(BinOp::Min, a.lo, b.lo);
        let hi = self.extreme(BinOp::Max, a.hi, b.hi);
        Interval { lo, hi }
    }

    /// The interval of an unknown value.
    fn unknown(&mut self, dtype: DType) -> Interval {
        if dtype.is_float() {
            return Interval::point(self.float(f64::NAN));
        }
        let (lo, hi) = (dtype.min_value().unwrap_or(i64::MIN), dtype.max_value().unwrap_or(i64::MAX));
        Interval { lo: self.0.int(lo, dtype), hi: self.0.int(hi, dtype) }
    }

    /// Applies `f` to each end.
    pub(super) fn each(&mut self, a: Interval, mut f: impl FnMut(&mut Arena, ExprId) -> ExprId) -> Interval {
        let lo = f(self.0, a.lo);
        let hi = if a.is_point() { lo } else { f(self.0, a.hi) };
        Interval { lo, hi }
    }

    /// The condition that all intervals are points.
    pub(super) fn settled(&mut self, args: &[Interval]) -> ExprId {
        let yes = self.0.bool(true);
        args.iter().filter(|a| !a.is_point()).fold(yes, |all, a| {
            let same = self.0.compare(CmpOp::Eq, a.lo, a.hi);
            self.0.and(all, same)
        })
    }

    /// `value` if all operands are points at run time, unknown otherwise.
    pub(super) fn if_settled(&mut self, args: &[Interval], value: Interval) -> Interval {
        let settled = self.settled(args);
        let unknown = self.unknown(self.0.dtype(value.lo));
        let lo = self.0.if_then_else(settled, value.lo, unknown.lo);
        let hi = self.0.if_then_else(settled, value.hi, unknown.hi);
        Interval { lo, hi }
    }

    // ---- rounding ------------------------------------------------------------------------------------------

    /// Widens an interval of results with an error of `units` halves of an ulp. An exact zero has no error:
    /// approximations are exact at zero, and zero divided is zero.
    pub(super) fn widened(&mut self, v: Interval, dtype: DType, units: f64) -> Interval {
        let (lo, hi) = (self.abs(v.lo), self.abs(v.hi));
        let size = self.extreme(BinOp::Max, lo, hi);
        let off = self.off(size, dtype, units);
        let zero = self.float(0.0);
        let is_zero = self.0.compare(CmpOp::Eq, size, zero);
        let off = self.0.select(is_zero, zero, off);
        self.moved(v, off, dtype)
    }

    /// Widens the interval of an operation that is correctly rounded if its result is a number of the type.
    pub(super) fn rounded(&mut self, v: Interval, dtype: DType, units: f64) -> Interval {
        let (lo, hi) = (self.abs(v.lo), self.abs(v.hi));
        let size = if v.is_point() { lo } else { self.extreme(BinOp::Max, lo, hi) };
        let off = self.off(size, dtype, units);
        let off = self.unless_number(v, dtype, off);
        self.moved(v, off, dtype)
    }

    fn off(&mut self, size: ExprId, dtype: DType, units: f64) -> ExprId {
        let (greatest, unit) = (self.float(greatest_number(dtype)), self.float(unit(dtype) * units));
        // An infinity stays infinite.
        let size = self.extreme(BinOp::Min, size, greatest);
        let (off, least) = (self.0.mul(size, unit), self.float(least_normal(dtype)));
        self.0.add(off, least)
    }

    /// `off`, or 0 for a point that is a number of the type.
    fn unless_number(&mut self, v: Interval, dtype: DType, off: ExprId) -> ExprId {
        if dtype == DType::Float64 {
            return off;
        }
        let narrow = self.0.cast(dtype, v.lo);
        let back = self.0.cast(DType::Float64, narrow);
        // Half-precision results may be computed in float32, which contains all of their numbers.
        let mut is_number = self.0.compare(CmpOp::Eq, back, v.lo);
        if !v.is_point() {
            let same = self.0.compare(CmpOp::Eq, v.lo, v.hi);
            is_number = self.0.and(is_number, same);
        }
        let zero = self.float(0.0);
        self.0.select(is_number, zero, off)
    }

    fn moved(&mut self, v: Interval, off: ExprId, dtype: DType) -> Interval {
        let (mut lo, mut hi) = (self.0.sub(v.lo, off), self.0.add(v.hi, off));
        if dtype != DType::Float64 {
            let (most, least) = (self.float(greatest_number(dtype)), self.float(-greatest_number(dtype)));
            let (inf, minus_inf) = (self.float(f64::INFINITY), self.float(f64::NEG_INFINITY));
            let is_over = self.0.compare(CmpOp::Gt, hi, most);
            hi = self.0.select(is_over, inf, hi);
            let is_under = self.0.compare(CmpOp::Lt, lo, least);
            lo = self.0.select(is_under, minus_inf, lo);
        }
        Interval { lo, hi }
    }

    /// `sum + term` or `sum - term`, one of `n` such steps.
    pub(super) fn accumulate(&mut self, op: BinOp, dtype: DType, sum: Interval, term: Interval, n: i64) -> Interval {
        let v = self.sum(op, sum, term);
        let sizes = |this: &mut Self, v: Interval| {
            let ends = [this.abs(v.lo), this.abs(v.hi)];
            this.span(&ends).hi
        };
        let (size, term_size) = (sizes(self, v), sizes(self, term));
        let share = (WANDER / (n.max(1) as f64).sqrt()).min(1.0);
        let mut one_way = self.float(share);
        // Terms smaller than an ulp are lost in every step, in the same direction.
        let unit = self.float(2.0 * unit(dtype));
        let ulp = self.0.mul(size, unit);
        let (is_lost, all) = (self.0.compare(CmpOp::Lt, term_size, ulp), self.float(1.0));
        one_way = self.0.select(is_lost, all, one_way);
        let once = self.off(size, dtype, 1.0);
        // In another order, a partial sum may be as large as `sqrt(n)` terms; times `share`, that is `WANDER` terms.
        let (size, wander) = (self.0.mul(size, one_way), self.float(WANDER));
        let term_size = self.0.mul(term_size, wander);
        let size = self.extreme(BinOp::Max, size, term_size);
        let off = self.off(size, dtype, 1.0);
        let few = self.wandering(v, once);
        let off = self.extreme(BinOp::Max, off, few);
        let off = self.unless_number(v, dtype, off);
        self.moved(v, off, dtype)
    }

    /// The amount by which one more rounding widens an interval whose width comes from such roundings. The first
    /// roundings have the same direction: only a few steps of a long sum may be rounded, if small numbers are added
    /// exactly.
    fn wandering(&mut self, v: Interval, once: ExprId) -> ExprId {
        if v.is_point() {
            return once;
        }
        let (half, most) = (self.float(0.5), self.float(f64::MAX));
        let width = self.0.sub(v.hi, v.lo);
        let width = self.0.mul(width, half);
        let step = self.float(WANDER);
        let step = self.0.mul(once, step);
        let (width_squared, step_squared) = (self.0.mul(width, width), self.0.mul(step, step));
        let sum = self.0.add(width_squared, step_squared);
        let root = self.0.call(Intrinsic::Sqrt, &[sum]);
        let more = self.0.sub(root, width);
        let more = self.0.binary(BinOp::Min, more, once);
        let is_finite = self.0.compare(CmpOp::Lt, width, most);
        self.0.select(is_finite, more, once)
    }

    // ---- operators -----------------------------------------------------------------------------------------

    pub(super) fn binary(&mut self, op: BinOp, dtype: DType, a: Interval, b: Interval) -> Interval {
        if dtype.is_float() {
            return self.float_binary(op, dtype, a, b);
        }
        if a.is_point() && b.is_point() {
            return Interval::point(self.0.binary(op, a.lo, b.lo));
        }
        match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul => self.integer_arithmetic(op, dtype, a, b),
            BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or => {
                let (lo, hi) = (self.0.binary(op, a.lo, b.lo), self.0.binary(op, a.hi, b.hi));
                Interval { lo, hi }
            }
            BinOp::Div | BinOp::FloorDiv if self.is_positive(b) => {
                self.each(a, |arena, end| arena.binary(op, end, b.lo))
            }
            BinOp::FloorMod if self.is_positive(b) => {
                // Between two multiples the remainder increases with the dividend.
                let multiple = self.each(a, |arena, end| arena.binary(BinOp::FloorDiv, end, b.lo));
                let is_one = self.settled(&[multiple]);
                let rest = self.each(a, |arena, end| arena.binary(op, end, b.lo));
                let (zero, most) = (self.0.int(0, dtype), self.0.add_const(b.lo, -1));
                let (lo, hi) = (self.0.select(is_one, rest.lo, zero), self.0.select(is_one, rest.hi, most));
                Interval { lo, hi }
            }
            BinOp::Div | BinOp::FloorDiv | BinOp::Mod | BinOp::FloorMod => {
                let value = Interval::point(self.0.binary(op, a.lo, b.lo));
                self.if_settled(&[a, b], value)
            }
        }
    }

    pub(super) fn is_positive(&self, b: Interval) -> bool {
        b.is_point() && self.0.as_int(b.lo).is_some_and(|v| v > 0)
    }

    /// Sums and products, in `int64`; unknown if they wrap around in their type.
    fn integer_arithmetic(&mut self, op: BinOp, dtype: DType, a: Interval, b: Interval) -> Interval {
        let a = self.each(a, |arena, e| arena.cast(DType::Int64, e));
        let b = self.each(b, |arena, e| arena.cast(DType::Int64, e));
        let v = match op {
            BinOp::Sub => Interval { lo: self.0.sub(a.lo, b.hi), hi: self.0.sub(a.hi, b.lo) },
            BinOp::Mul => {
                let ends = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)].map(|(x, y)| self.0.mul(x, y));
                self.span(&ends)
            }
            _ => Interval { lo: self.0.add(a.lo, b.lo), hi: self.0.add(a.hi, b.hi) },
        };
        self.narrowed(v, dtype)
    }

    /// Converts an `int64` interval to another integer type.
    fn narrowed(&mut self, v: Interval, dtype: DType) -> Interval {
        if dtype.bits() == 64 {
            return self.each(v, |arena, e| arena.cast(dtype, e));
        }
        let all = self.unknown(dtype);
        let wide = self.each(all, |arena, e| arena.cast(DType::Int64, e));
        let (low, high) = (self.0.compare(CmpOp::Ge, v.lo, wide.lo), self.0.compare(CmpOp::Le, v.hi, wide.hi));
        let fits = self.0.and(low, high);
        let v = self.each(v, |arena, e| arena.cast(dtype, e));
        let (lo, hi) = (self.0.select(fits, v.lo, all.lo), self.0.select(fits, v.hi, all.hi));
        Interval { lo, hi }
    }

    pub(super) fn sum(&mut self, op: BinOp, a: Interval, b: Interval) -> Interval {
        if a.is_point() && b.is_point() {
            return Interval::point(self.0.binary(op, a.lo, b.lo));
        }
        if op == BinOp::Sub {
            return Interval { lo: self.0.sub(a.lo, b.hi), hi: self.0.sub(a.hi, b.lo) };
        }
        Interval { lo: self.0.add(a.lo, b.lo), hi: self.0.add(a.hi, b.hi) }
    }

    pub(super) fn product(&mut self, a: Interval, b: Interval) -> Interval {
        match (a.is_point(), b.is_point()) {
            (true, true) => Interval::point(self.0.mul(a.lo, b.lo)),
            (true, false) => self.product(b, a),
            (false, true) => {
                let ends = [self.0.mul(a.lo, b.lo), self.0.mul(a.hi, b.lo)];
                self.span(&ends)
            }
            (false, false) if a == b => {
                // A square.
                let ends = [self.0.mul(a.lo, a.lo), self.0.mul(a.hi, a.hi)];
                let v = self.span(&ends);
                let (crosses, zero) = (self.crosses_zero(a), self.float(0.0));
                Interval { lo: self.0.select(crosses, zero, v.lo), hi: v.hi }
            }
            (false, false) => {
                let ends = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)].map(|(x, y)| self.0.mul(x, y));
                self.span(&ends)
            }
        }
    }

    fn quotient(&mut self, a: Interval, b: Interval) -> Interval {
        if a.is_point() && b.is_point() {
            return Interval::point(self.0.binary(BinOp::Div, a.lo, b.lo));
        }
        let ends =
            [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)].map(|(x, y)| self.0.binary(BinOp::Div, x, y));
        let v = self.span(&ends);
        if b.is_point() {
            return v;
        }
        let crosses = self.crosses_zero(b);
        self.unknown_if(crosses, v)
    }

    /// Whether the interval contains zero, or numbers of both signs.
    pub(super) fn crosses_zero(&mut self, a: Interval) -> ExprId {
        let zero = self.float(0.0);
        let (low, high) = (self.0.compare(CmpOp::Le, a.lo, zero), self.0.compare(CmpOp::Ge, a.hi, zero));
        self.0.and(low, high)
    }

    pub(super) fn unknown_if(&mut self, condition: ExprId, v: Interval) -> Interval {
        let nan = self.float(f64::NAN);
        let (lo, hi) = (self.0.select(condition, nan, v.lo), self.0.select(condition, nan, v.hi));
        Interval { lo, hi }
    }

    fn float_binary(&mut self, op: BinOp, dtype: DType, a: Interval, b: Interval) -> Interval {
        match op {
            BinOp::Add | BinOp::Sub => {
                let v = self.sum(op, a, b);
                self.rounded(v, dtype, 1.0)
            }
            BinOp::Mul => {
                let v = self.product(a, b);
                self.rounded(v, dtype, 1.0)
            }
            BinOp::Div => {
                let v = self.quotient(a, b);
                if self.has_exact_reciprocal(b) {
                    self.rounded(v, dtype, 1.0)
                } else {
                    self.widened(v, dtype, DIVISION)
                }
            }
            BinOp::Min | BinOp::Max => {
                if a.is_point() && b.is_point() {
                    return Interval::point(self.0.binary(op, a.lo, b.lo));
                }
                let (lo, hi) = (self.extreme(op, a.lo, b.lo), self.extreme(op, a.hi, b.hi));
                Interval { lo, hi }
            }
            BinOp::FloorDiv => {
                let v = self.quotient(a, b);
                let v = self.widened(v, dtype, DIVISION);
                self.each(v, |arena, e| arena.call(Intrinsic::Floor, &[e]))
            }
            BinOp::FloorMod => self.remainder(Intrinsic::Floor, dtype, a, b),
            BinOp::Mod => self.remainder(Intrinsic::Trunc, dtype, a, b),
            BinOp::And | BinOp::Or => unreachable!("the operands of {op:?} are booleans"),
        }
    }

    /// Whether the divisor is a power of two.
    fn has_exact_reciprocal(&self, b: Interval) -> bool {
        match self.0.as_const(b.lo) {
            Some(Const::Float(v)) => b.is_point() && has_exact_reciprocal(v),
            Some(Const::Int(_)) | None => false,
        }
    }

    /// `a - floor(a / b) * b`, or with `trunc`; any value up to the divisor next to a multiple of it.
    pub(super) fn remainder(&mut self, to_integer: Intrinsic, dtype: DType, a: Interval, b: Interval) -> Interval {
        if to_integer == Intrinsic::Trunc && a.is_point() && b.is_point() {
            // `fmod` is exact.
            let v = Interval::point(self.0.binary(BinOp::Mod, a.lo, b.lo));
            return self.rounded(v, dtype, 1.0);
        }
        let quotient = self.quotient(a, b);
        let quotient = self.widened(quotient, dtype, DIVISION);
        let whole = self.each(quotient, |arena, e| arena.call(to_integer, &[e]));
        let is_one = self.settled(&[whole]);
        let multiple = self.product(Interval::point(whole.lo), b);
        let rest = self.sum(BinOp::Sub, a, multiple);
        let zero = self.float(0.0);
        let any = match to_integer {
            // The remainder has the sign of the divisor.
            Intrinsic::Floor => self.span(&[zero, b.lo, b.hi]),
            _ => {
                let sizes = [self.abs(b.lo), self.abs(b.hi)];
                let size = self.span(&sizes).hi;
                let minus = self.negated(size);
                Interval { lo: minus, hi: size }
            }
        };
        let lo = self.0.select(is_one, rest.lo, any.lo);
        let hi = self.0.select(is_one, rest.hi, any.hi);
        // NaN is not a single quotient.
        let lost = self.is_nan(quotient.lo);
        let v = self.unknown_if(lost, Interval { lo, hi });
        // The multiple is rounded when it is subtracted.
        let sizes = [self.abs(a.lo), self.abs(a.hi)];
        let size = self.span(&sizes).hi;
        let off = self.off(size, dtype, DIVISION);
        self.moved(v, off, dtype)
    }

    pub(super) fn compare(&mut self, op: CmpOp, a: Interval, b: Interval) -> Interval {
        if a.is_point() && b.is_point() {
            return Interval::point(self.0.compare(op, a.lo, b.lo));
        }
        // NaN ends: the condition is not certain, but possible.
        match op {
            CmpOp::Lt | CmpOp::Le => {
                let lo = self.0.compare(op, a.hi, b.lo);
                let never = self.0.compare(op.negated(), a.lo, b.hi);
                Interval { lo, hi: self.0.not(never) }
            }
            CmpOp::Gt | CmpOp::Ge => self.compare(op.swapped(), b, a),
            CmpOp::Eq => {
                let (low, high) = (self.0.compare(CmpOp::Eq, a.lo, b.hi), self.0.compare(CmpOp::Eq, a.hi, b.lo));
                let lo = self.0.and(low, high);
                let (above, below) = (self.0.compare(CmpOp::Gt, a.lo, b.hi), self.0.compare(CmpOp::Gt, b.lo, a.hi));
                let apart = self.or(above, below);
                Interval { lo, hi: self.0.not(apart) }
            }
            CmpOp::Ne => {
                let equal = self.compare(CmpOp::Eq, a, b);
                let (lo, hi) = (self.0.not(equal.hi), self.0.not(equal.lo));
                Interval { lo, hi }
            }
        }
    }

    pub(super) fn select(&mut self, c: Interval, t: Interval, o: Interval) -> Interval {
        if c.is_point() {
            let (lo, hi) = (self.0.select(c.lo, t.lo, o.lo), self.0.select(c.lo, t.hi, o.hi));
            return Interval { lo, hi };
        }
        let both = self.hull(t, o);
        let (lo, hi) = (self.0.select(c.hi, both.lo, o.lo), self.0.select(c.hi, both.hi, o.hi));
        let (lo, hi) = (self.0.select(c.lo, t.lo, lo), self.0.select(c.lo, t.hi, hi));
        Interval { lo, hi }
    }

    pub(super) fn if_then_else(&mut self, c: Interval, t: Interval, o: Interval) -> Interval {
        if c.is_point() {
            let (lo, hi) = (self.0.if_then_else(c.lo, t.lo, o.lo), self.0.if_then_else(c.lo, t.hi, o.hi));
            return Interval { lo, hi };
        }
        let both = self.hull(t, o);
        let (lo, hi) = (self.0.if_then_else(c.hi, both.lo, o.lo), self.0.if_then_else(c.hi, both.hi, o.hi));
        let (lo, hi) = (self.0.if_then_else(c.lo, t.lo, lo), self.0.if_then_else(c.lo, t.hi, hi));
        Interval { lo, hi }
    }

    pub(super) fn cast(&mut self, from: DType, to: DType, a: Interval) -> Interval {
        match (from.is_float(), to.is_float()) {
            (true, true) if unit(to) > unit(from) || to.is_half() && from.is_half() && to != from => {
                self.rounded(a, to, 1.0)
            }
            (true, true) => a,
            (false, true) => {
                let wide = self.each(a, |arena, e| arena.cast(DType::Float64, e));
                if from.bits() < 9 { wide } else { self.rounded(wide, to, 1.0) }
            }
            (true, false) if to == DType::Bool => {
                let zero = Interval::point(self.float(0.0));
                self.compare(CmpOp::Ne, a, zero)
            }
            (true, false) => {
                let v = self.each(a, |arena, e| arena.cast(to, e));
                if a.is_point() {
                    return v;
                }
                let (low, high) = (self.is_nan(a.lo), self.is_nan(a.hi));
                let (lost, all) = (self.or(low, high), self.unknown(to));
                let (lo, hi) = (self.0.select(lost, all.lo, v.lo), self.0.select(lost, all.hi, v.hi));
                Interval { lo, hi }
            }
            (false, false) if a.is_point() => self.each(a, |arena, e| arena.cast(to, e)),
            (false, false) if to == DType::Bool => {
                let zero = Interval::point(self.0.int(0, from));
                self.compare(CmpOp::Ne, a, zero)
            }
            (false, false) if from.bits() == 64 && to.bits() == 64 => self.each(a, |arena, e| arena.cast(to, e)),
            (false, false) => {
                let wide = self.each(a, |arena, e| arena.cast(DType::Int64, e));
                self.narrowed(wide, to)
            }
        }
    }

    /// The bits of values of type `from` as values of type `to`.
    pub(super) fn reinterpret(&mut self, from: DType, to: DType, a: Interval) -> Interval {
        let narrow = self.0.cast(from, a.lo);
        let bits = self.0.reinterpret(to, narrow);
        let value = if to.is_float() { self.0.cast(DType::Float64, bits) } else { bits };
        let value = Interval::point(value);
        if a.is_point() { value } else { self.if_settled(&[a], value) }
    }
}
