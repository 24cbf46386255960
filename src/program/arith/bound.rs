//! Constant bounds of integer expressions.
//!
//! A [`Bound`] is the set of integers between two ends, either of which may be infinite; it contains every value that
//! the expression can take. Bookkeeping that would overflow gives an infinite end. Arithmetic of index types (`int32`,
//! `int64`) is assumed not to overflow, as everywhere in `arith`. Other integer types wrap: a result that may leave the
//! range of such a type is any value of the type. A divisor is assumed not to be zero, since that would be an error of
//! the program.
//!
//! Follows TVM's `const_int_bound.cc`, with its bounds of remainders mended.

use super::analyzer::Analyzer;
use super::modular::gcd;
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp, Intrinsic};

/// The end of a bound without lower limit.
pub(crate) const NEG_INF: i64 = -i64::MAX;
/// The end of a bound without upper limit.
pub const POS_INF: i64 = i64::MAX;

/// All integers from `min` to `max`, both included; [`NEG_INF`] and [`POS_INF`] mean no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
}

impl Bound {
    /// The values of a variable in a range, given the bounds of its start and of its number of values.
    pub(super) fn sum_of_range(min: Bound, extent: Bound) -> Bound {
        let last = add(min.max, add(extent.max, -1, POS_INF), POS_INF);
        Bound { min: min.min, max: last.max(NEG_INF + 1) }
    }

    /// Any integer.
    pub const ANY: Bound = Bound { min: NEG_INF, max: POS_INF };

    /// The integers from `min` to `max`.
    pub fn new(min: i64, max: i64) -> Bound {
        Bound { min: min.max(NEG_INF), max: max.max(NEG_INF) }
    }

    /// The values of a type.
    pub fn of_type(dtype: DType) -> Bound {
        match dtype {
            DType::Bool => Bound::new(0, 1),
            DType::Int8 | DType::Int16 | DType::Int32 => {
                let half = 1i64 << (dtype.bits() - 1);
                Bound::new(-half, half - 1)
            }
            DType::UInt8 | DType::UInt16 | DType::UInt32 => Bound::new(0, (1i64 << dtype.bits()) - 1),
            DType::UInt64 => Bound::new(0, POS_INF),
            DType::Int64
            | DType::Float16
            | DType::BFloat16
            | DType::Float32
            | DType::Float64
            | DType::Float8(_)
            | DType::Narrow(_)
            | DType::Handle
            | DType::Str => Bound::ANY,
        }
    }

    /// Is this a single integer?
    pub fn as_point(self) -> Option<i64> {
        (self.min == self.max && self.min != NEG_INF && self.max != POS_INF).then_some(self.min)
    }

    /// Is the value in the set?
    pub fn contains(self, value: i64) -> bool {
        (self.min == NEG_INF || self.min <= value) && (self.max == POS_INF || value <= self.max)
    }

    /// Is every member of `self` one of `other`?
    pub fn within(self, other: Bound) -> bool {
        other.min <= self.min && self.max <= other.max
    }

    /// The members of either, and what lies between.
    pub fn union(self, other: Bound) -> Bound {
        Bound { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The members of both; `self` where there are none (facts contradict each other in code that never runs).
    pub fn intersect(self, other: Bound) -> Bound {
        let both = Bound { min: self.min.max(other.min), max: self.max.min(other.max) };
        if both.min <= both.max { both } else { self }
    }

    fn corners(self, other: Bound, f: impl Fn(i64, i64) -> i64) -> Bound {
        let v = [f(self.min, other.min), f(self.min, other.max), f(self.max, other.min), f(self.max, other.max)];
        Bound { min: v.into_iter().fold(POS_INF, i64::min), max: v.into_iter().fold(NEG_INF, i64::max) }
    }
}

fn is_inf(x: i64) -> bool {
    x == POS_INF || x == NEG_INF
}

/// Adds two lower (`toward` = -1) or upper (`toward` = 1) ends of bounds: an infinite operand or an overflow gives the
/// infinity.
fn add(x: i64, y: i64, toward: i64) -> i64 {
    if is_inf(x) || is_inf(y) {
        return if is_inf(x) && is_inf(y) && x != y {
            toward
        } else if is_inf(x) {
            x
        } else {
            y
        };
    }
    match x.checked_add(y) {
        Some(v) if v > NEG_INF => v,
        Some(_) => NEG_INF,
        None => {
            if x > 0 {
                POS_INF
            } else {
                NEG_INF
            }
        }
    }
}

fn mul(x: i64, y: i64) -> i64 {
    if x == 0 || y == 0 {
        return 0;
    }
    let negative = (x < 0) != (y < 0);
    if is_inf(x) || is_inf(y) {
        return if negative { NEG_INF } else { POS_INF };
    }
    match x.checked_mul(y) {
        Some(v) if v > NEG_INF => v,
        _ if negative => NEG_INF,
        _ => POS_INF,
    }
}

fn div(x: i64, y: i64, floor: bool) -> i64 {
    if is_inf(x) {
        return if y > 0 { x } else { -x };
    }
    let q = x / y;
    if floor && x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q }
}

fn quotient(a: Bound, b: Bound, floor: bool) -> Bound {
    // If the divisor may have either sign, the extreme quotients are those by -1 and 1, not those by its ends.
    if b.min < 0 && b.max > 0 {
        let low = a.corners(Bound::new(b.min, -1), |x, y| div(x, y, floor));
        return low.union(a.corners(Bound::new(1, b.max), |x, y| div(x, y, floor)));
    }
    a.corners(b, |x, y| div(x, y, floor))
}

impl Analyzer {
    /// The set of values that an integer expression can take, given what is known of its variables.
    pub fn const_int_bound(&mut self, a: &mut Arena, e: ExprId) -> Bound {
        // Leaves are as quick to look at as the memo.
        if let Expr::Int(v) = a.expr(e) {
            return constant(v, a.dtype(e));
        }
        if let Some(&known) = self.memo.bounds.get(self.epoch, e) {
            return known;
        }
        let mut bound = self.bound_of_node(a, e);
        for &(fact, extra) in &self.bound_facts {
            if fact == e {
                bound = bound.intersect(extra);
            }
        }
        // An end that overflowed the other way is a large number, not an infinity.
        let bound = Bound { min: bound.min.min(POS_INF - 1), max: bound.max.max(NEG_INF + 1) };
        self.memo.bounds.set(self.epoch, e, bound, a.n_exprs());
        bound
    }

    fn bound_of_node(&mut self, a: &mut Arena, e: ExprId) -> Bound {
        let dtype = a.dtype(e);
        let whole = Bound::of_type(dtype);
        if a.lanes(e) > 1 || !self.descend() {
            return whole;
        }
        let bound = match a.expr(e) {
            Expr::Int(v) => constant(v, dtype),
            Expr::Var(v) => self.var(v).and_then(|info| info.bound).unwrap_or(whole),
            Expr::Binary(op, x, y) if dtype.is_integer() => self.bound_of_binary(a, op, x, y, dtype),
            Expr::Select(_, t, o) | Expr::IfThenElse(_, t, o) => {
                let t = self.const_int_bound(a, t);
                t.union(self.const_int_bound(a, o))
            }
            Expr::Cast(x) if a.dtype(x).is_integer() || a.dtype(x) == DType::Bool => {
                // A conversion that may wrap gives anything.
                let inner = self.const_int_bound(a, x);
                if dtype.is_integer() && inner.within(whole) { inner } else { whole }
            }
            Expr::Call(f, args) if dtype.is_integer() && a.list(args).len() == 2 => {
                let (x, y) = (a.list(args)[0], a.list(args)[1]);
                let (x, y) = (self.const_int_bound(a, x), self.const_int_bound(a, y));
                bound_of_bits(f, x, y, whole)
            }
            Expr::Let(_, _, body) => {
                // The value's bound is not carried into the body: a let-bound variable of unknown range is rare in
                // index expressions, and simplification inlines trivial ones.
                self.const_int_bound(a, body)
            }
            Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Load(..)
            | Expr::BufferData(_)
            | Expr::Call(..)
            | Expr::Float(_)
            | Expr::Str(_)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => whole,
        };
        self.ascend();
        bound
    }

    fn bound_of_binary(&mut self, a: &mut Arena, op: BinOp, x: ExprId, y: ExprId, dtype: DType) -> Bound {
        let (p, q) = (self.const_int_bound(a, x), self.const_int_bound(a, y));
        let whole = Bound::of_type(dtype);
        let bound = match op {
            BinOp::Add => Bound { min: add(p.min, q.min, NEG_INF), max: add(p.max, q.max, POS_INF) },
            BinOp::Sub => Bound { min: add(p.min, -q.max, NEG_INF), max: add(p.max, -q.min, POS_INF) },
            BinOp::Mul => p.corners(q, mul),
            BinOp::Min => Bound { min: p.min.min(q.min), max: p.max.min(q.max) },
            BinOp::Max => Bound { min: p.min.max(q.min), max: p.max.max(q.max) },
            BinOp::Div | BinOp::FloorDiv | BinOp::Mod | BinOp::FloorMod => {
                let Some(q) = nonzero(q) else { return whole };
                match op {
                    BinOp::Div => quotient(p, q, false),
                    BinOp::FloorDiv => quotient(p, q, true),
                    _ => self.bound_of_remainder(a, op == BinOp::FloorMod, x, p, q, whole),
                }
            }
            BinOp::And | BinOp::Or => whole,
        };
        if dtype.is_index() || bound.within(whole) { bound } else { whole }
    }

    fn bound_of_remainder(&mut self, a: &mut Arena, floor: bool, x: ExprId, p: Bound, q: Bound, whole: Bound) -> Bound {
        if q.min <= 0 {
            if !floor {
                return whole;
            }
            let low = add(q.min, 1, NEG_INF).min(0);
            let high = add(q.max, -1, POS_INF).max(0);
            return Bound { min: low, max: high }.intersect(whole);
        }
        let cap = add(q.max, -1, POS_INF);
        // A truncating remainder keeps the sign of the dividend.
        let bound = match (floor, p.min >= 0, p.max < 0) {
            (_, true, _) if p.max < q.min => p,
            (_, true, _) => Bound { min: 0, max: p.max.min(cap) },
            (true, false, _) => Bound { min: 0, max: cap },
            (false, false, true) if p.min > -q.min => p,
            (false, false, true) => Bound { min: p.min.max(-cap), max: 0 },
            (false, false, false) => Bound { min: p.min.max(-cap), max: p.max.max(0).min(cap) },
        };
        // If the dividend has a known residue, so has the remainder.
        let Some(divisor) = q.as_point() else { return bound };
        let residue = self.modular_set(a, x);
        let step = gcd(residue.coeff, divisor);
        if step <= 1 {
            return bound;
        }
        let base = residue.base.rem_euclid(step);
        let mirrored = (step - base) % step;
        let max = if !floor && p.max < 0 { -mirrored } else { divisor - step + base };
        let min = if floor || p.min >= 0 { base } else { -(divisor - step + mirrored) };
        bound.intersect(Bound::new(min, max))
    }
}

/// The bound of a divisor, zero left out; `None` if it can only be zero.
fn nonzero(q: Bound) -> Option<Bound> {
    if q.min == 0 && q.max == 0 {
        return None;
    }
    Some(Bound { min: if q.min == 0 { 1 } else { q.min }, max: if q.max == 0 { -1 } else { q.max } })
}

fn constant(v: i64, dtype: DType) -> Bound {
    match dtype {
        // Values above the range of the bookkeeping.
        DType::UInt64 if v < 0 => Bound { min: POS_INF - 1, max: POS_INF },
        _ if v == i64::MIN => Bound { min: NEG_INF, max: NEG_INF + 1 },
        _ if v == POS_INF => Bound { min: POS_INF - 1, max: POS_INF },
        _ => Bound::new(v, v),
    }
}

fn bound_of_bits(f: Intrinsic, x: Bound, y: Bound, whole: Bound) -> Bound {
    let bound = match f {
        Intrinsic::BitAnd => match (x.min >= 0, y.min >= 0) {
            (true, true) => Bound { min: 0, max: x.max.min(y.max) },
            (false, true) => Bound { min: 0, max: y.max },
            (true, false) => Bound { min: 0, max: x.max },
            (false, false) => whole,
        },
        Intrinsic::BitOr | Intrinsic::BitXor if x.min >= 0 && y.min >= 0 => {
            let bits = 64 - (x.max | y.max).leading_zeros();
            if bits >= 63 { whole } else { Bound::new(0, (1 << bits) - 1) }
        }
        Intrinsic::ShiftRight if y.min >= 0 && y.max < 64 => x.corners(y, |x, y| if is_inf(x) { x } else { x >> y }),
        Intrinsic::ShiftLeft if x.min >= 0 && y.min >= 0 && y.max < 63 => {
            let bound = x.corners(y, |x, y| mul(x, 1 << y));
            // A shift drops the bits that leave the type, whatever the type.
            if bound.max == POS_INF { whole } else { bound }
        }
        _ => whole,
    };
    if bound.within(whole) { bound } else { whole }
}

/// The facts about constant bounds that follow from a condition: pairs of an expression and its bound.
pub(super) fn facts_of(a: &Arena, condition: ExprId) -> Option<(ExprId, Bound)> {
    let Expr::Compare(op, x, y) = a.expr(condition) else { return None };
    if !a.dtype(x).is_index() {
        return None;
    }
    let (op, x, c) = match (a.as_int(x), a.as_int(y)) {
        (None, Some(c)) => (op, x, c),
        (Some(c), None) => (op.swapped(), y, c),
        _ => return None,
    };
    let bound = match op {
        CmpOp::Lt => Bound::new(NEG_INF, c.saturating_sub(1)),
        CmpOp::Le => Bound::new(NEG_INF, c),
        CmpOp::Gt => Bound::new(c.saturating_add(1), POS_INF),
        CmpOp::Ge => Bound::new(c, POS_INF),
        CmpOp::Eq => Bound::new(c, c),
        CmpOp::Ne => return None,
    };
    Some((x, bound))
}
