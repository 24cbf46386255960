//! Arithmetic of intervals, as expressions of their ends.
//!
//! Floats are carried as `float64`, whatever their type; the type says what an operation may be off by. A sum that would
//! be off by `units` times half an ulp of its result is widened by that; not, where it is of two points and its result is
//! a number of the type, for then every rounding gives it. Results that are subnormal may be flushed to zero; those that
//! no number of the type reaches may be infinite.
//!
//! An end that is NaN says that nothing is known; every operation passes that on. Integers of which nothing is known have
//! the ends of their type.

use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::{Arena, ExprId};

/// The least and the greatest value that right implementations may have for an expression. A point has one expression
/// for both.
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

/// Halves of an ulp that a division may be off by: it may be a product with the rounded reciprocal.
const DIVISION: f64 = 3.0;
/// Halves of an ulp that a function may be off by (docs/architecture.md: 4 ulp).
const FUNCTION: f64 = 8.0;
/// Roundings of a long sum go either way: their sum is as if so many times the root of their number went one way. Each is
/// half an ulp at most, and by its root mean square a factor of `sqrt(3)` less, so this is seven standard deviations.
const WANDER: f64 = 4.0;

/// Half an ulp of 1; twice that for `float64`, in which intervals themselves are computed.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 2f64.powi(-11),
        DType::BFloat16 => 2f64.powi(-8),
        DType::Float64 => 2f64.powi(-52),
        _ => 2f64.powi(-24),
    }
}

/// The least normal number.
fn least_normal(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 2f64.powi(-14),
        DType::Float64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// The greatest number.
fn greatest_number(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 65504.0,
        DType::BFloat16 => f64::from(half::bf16::MAX),
        DType::Float64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::Float16 | DType::BFloat16)
}

/// Makes expressions of intervals.
pub(super) struct Values<'a>(pub &'a mut Arena);

impl Values<'_> {
    // ---- pieces --------------------------------------------------------------------------------------------

    fn float(&mut self, v: f64) -> ExprId {
        self.0.float(v, DType::Float64)
    }

    fn is_float(&self, e: ExprId) -> bool {
        self.0.dtype(e).is_float()
    }

    fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.0.binary(BinOp::Or, a, b)
    }

    fn abs(&mut self, e: ExprId) -> ExprId {
        self.0.call(Intrinsic::Abs, &[e])
    }

    fn negated(&mut self, e: ExprId) -> ExprId {
        let minus = self.float(-1.0);
        self.0.mul(e, minus)
    }

    fn is_nan(&mut self, e: ExprId) -> ExprId {
        self.0.compare(CmpOp::Ne, e, e)
    }

    /// The lesser (`Min`) or greater (`Max`) of two; NaN if one is.
    fn extreme(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let chosen = self.0.binary(op, a, b);
        if a == b || !self.is_float(a) || self.0.as_const(a).is_some() {
            return chosen;
        }
        // The operator gives the second one where either is NaN.
        let is_nan = self.is_nan(a);
        self.0.select(is_nan, a, chosen)
    }

    fn span(&mut self, ends: &[ExprId]) -> Interval {
        let all = |this: &mut Self, op| ends[1..].iter().fold(ends[0], |x, &y| this.extreme(op, x, y));
        let (lo, hi) = (all(self, BinOp::Min), all(self, BinOp::Max));
        Interval { lo, hi }
    }

    /// What is in either.
    pub(super) fn hull(&mut self, a: Interval, b: Interval) -> Interval {
        let lo = self.extreme(BinOp::Min, a.lo, b.lo);
        let hi = self.extreme(BinOp::Max, a.hi, b.hi);
        Interval { lo, hi }
    }

    /// Of which nothing is known.
    fn unknown(&mut self, dtype: DType) -> Interval {
        if dtype.is_float() {
            return Interval::point(self.float(f64::NAN));
        }
        let (lo, hi) = (dtype.min_value().unwrap_or(i64::MIN), dtype.max_value().unwrap_or(i64::MAX));
        Interval { lo: self.0.int(lo, dtype), hi: self.0.int(hi, dtype) }
    }

    /// Each end by its own.
    fn each(&mut self, a: Interval, mut f: impl FnMut(&mut Arena, ExprId) -> ExprId) -> Interval {
        let lo = f(self.0, a.lo);
        let hi = if a.is_point() { lo } else { f(self.0, a.hi) };
        Interval { lo, hi }
    }

    /// Are these intervals one value each?
    fn settled(&mut self, args: &[Interval]) -> ExprId {
        let yes = self.0.bool(true);
        args.iter().filter(|a| !a.is_point()).fold(yes, |all, a| {
            let same = self.0.compare(CmpOp::Eq, a.lo, a.hi);
            self.0.and(all, same)
        })
    }

    /// The value where the operands turn out to be one value each; unknown elsewhere.
    pub(super) fn if_settled(&mut self, args: &[Interval], value: Interval) -> Interval {
        let settled = self.settled(args);
        let unknown = self.unknown(self.0.dtype(value.lo));
        let lo = self.0.if_then_else(settled, value.lo, unknown.lo);
        let hi = self.0.if_then_else(settled, value.hi, unknown.hi);
        Interval { lo, hi }
    }

    // ---- rounding ------------------------------------------------------------------------------------------

    /// What rounding to a type makes of results that are off by so many halves of an ulp.
    fn widened(&mut self, v: Interval, dtype: DType, units: f64) -> Interval {
        let (lo, hi) = (self.abs(v.lo), self.abs(v.hi));
        let size = self.extreme(BinOp::Max, lo, hi);
        let off = self.off(size, dtype, units);
        self.moved(v, off, dtype)
    }

    /// The same for a result that is computed by one operation that rounds well: it is right where it is a number.
    fn rounded(&mut self, v: Interval, dtype: DType, units: f64) -> Interval {
        let (lo, hi) = (self.abs(v.lo), self.abs(v.hi));
        let size = if v.is_point() { lo } else { self.extreme(BinOp::Max, lo, hi) };
        let off = self.off(size, dtype, units);
        let off = self.unless_number(v, dtype, off);
        self.moved(v, off, dtype)
    }

    fn off(&mut self, size: ExprId, dtype: DType, units: f64) -> ExprId {
        let (greatest, unit) = (self.float(greatest_number(dtype)), self.float(unit(dtype) * units));
        // An infinity stays one.
        let size = self.extreme(BinOp::Min, size, greatest);
        let (off, least) = (self.0.mul(size, unit), self.float(least_normal(dtype)));
        self.0.add(off, least)
    }

    /// `off`, but nothing for a single value that is a number of the type.
    fn unless_number(&mut self, v: Interval, dtype: DType, off: ExprId) -> ExprId {
        if dtype == DType::Float64 {
            return off;
        }
        let narrow = self.0.cast(dtype, v.lo);
        let back = self.0.cast(DType::Float64, narrow);
        // Half-precision results may pass through float32, which has all of their numbers.
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
        // What is less than an ulp is lost over and over, all in one direction.
        let unit = self.float(2.0 * unit(dtype));
        let ulp = self.0.mul(size, unit);
        let (is_lost, all) = (self.0.compare(CmpOp::Lt, term_size, ulp), self.float(1.0));
        one_way = self.0.select(is_lost, all, one_way);
        // In another order a partial sum may be as large as the terms are after as many steps.
        let (size, wander) = (self.0.mul(size, one_way), self.float(WANDER));
        let term_size = self.0.mul(term_size, wander);
        let size = self.extreme(BinOp::Max, size, term_size);
        let off = self.off(size, dtype, 1.0);
        let off = self.unless_number(v, dtype, off);
        self.moved(v, off, dtype)
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
                // Between two multiples the remainder grows with the dividend.
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

    fn is_positive(&self, b: Interval) -> bool {
        b.is_point() && self.0.as_int(b.lo).is_some_and(|v| v > 0)
    }

    /// Sums and products, in `int64`; nothing is known of those that wrap around in their type.
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

    /// An interval of `int64` in another integer type.
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

    fn sum(&mut self, op: BinOp, a: Interval, b: Interval) -> Interval {
        if a.is_point() && b.is_point() {
            return Interval::point(self.0.binary(op, a.lo, b.lo));
        }
        if op == BinOp::Sub {
            return Interval { lo: self.0.sub(a.lo, b.hi), hi: self.0.sub(a.hi, b.lo) };
        }
        Interval { lo: self.0.add(a.lo, b.lo), hi: self.0.add(a.hi, b.hi) }
    }

    fn product(&mut self, a: Interval, b: Interval) -> Interval {
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

    /// May it be positive and negative, or zero?
    fn crosses_zero(&mut self, a: Interval) -> ExprId {
        let zero = self.float(0.0);
        let (low, high) = (self.0.compare(CmpOp::Le, a.lo, zero), self.0.compare(CmpOp::Ge, a.hi, zero));
        self.0.and(low, high)
    }

    fn unknown_if(&mut self, condition: ExprId, v: Interval) -> Interval {
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

    /// Is it a power of two?
    fn has_exact_reciprocal(&self, b: Interval) -> bool {
        match self.0.as_const(b.lo) {
            Some(Const::Float(v)) => b.is_point() && v.is_normal() && v.to_bits() << 12 == 0,
            Some(Const::Int(_)) | None => false,
        }
    }

    /// `a - floor(a / b) * b`, or with `trunc`: anything up to the divisor next to a multiple of it.
    fn remainder(&mut self, to_integer: Intrinsic, dtype: DType, a: Interval, b: Interval) -> Interval {
        if to_integer == Intrinsic::Trunc && a.is_point() && b.is_point() {
            // `fmod` rounds nothing.
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
            // As the divisor.
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
        // NaN is no single quotient.
        let lost = self.is_nan(quotient.lo);
        let v = self.unknown_if(lost, Interval { lo, hi });
        // The multiple is rounded as it is subtracted.
        let sizes = [self.abs(a.lo), self.abs(a.hi)];
        let size = self.span(&sizes).hi;
        let off = self.off(size, dtype, DIVISION);
        self.moved(v, off, dtype)
    }

    pub(super) fn compare(&mut self, op: CmpOp, a: Interval, b: Interval) -> Interval {
        if a.is_point() && b.is_point() {
            return Interval::point(self.0.compare(op, a.lo, b.lo));
        }
        // NaN ends: what must hold does not, what may hold does.
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
            (true, true) if unit(to) > unit(from) || is_half(to) && is_half(from) && to != from => {
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

    // ---- functions -----------------------------------------------------------------------------------------

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
        // Half-precision functions are those of float32, rounded.
        let units = if is_half(dtype) { 1.01 } else { FUNCTION };
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
            // A number further, whichever way.
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

    /// A function whose slope is at most 1.
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
        // To a power that varies only positive numbers can be raised, to a negative one nothing near zero.
        let lost = if y.is_point() {
            let is_negative = self.0.compare(CmpOp::Lt, y.lo, zero);
            self.0.and(crosses, is_negative)
        } else {
            self.0.compare(CmpOp::Le, x.lo, zero)
        };
        let v = self.unknown_if(lost, Interval { lo, hi });
        self.widened(v, dtype, units)
    }

    /// `atan2(y, x)`: a rectangle that the cut does not meet has its extremes in its corners.
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
