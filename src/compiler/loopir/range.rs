//! Ranges of integer expressions, and division of sums by constants.

use super::affine::Affine;
use super::expr::{Arena, Expr, ExprId, Ty, VarId};
use crate::ir::{BinOp, Const, DType, Intrinsic};

/// All integers from `lo` to `hi`. The ends of `i64` mean "no bound known".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least value.
    pub lo: i64,
    /// The greatest value.
    pub hi: i64,
}

impl Range {
    /// Any value of `int64`.
    pub const ALL: Range = Range { lo: i64::MIN, hi: i64::MAX };

    /// One value.
    pub fn point(v: i64) -> Range {
        Range { lo: v, hi: v }
    }

    /// The values of an integer type; all values for floats.
    pub fn of_type(dtype: DType) -> Range {
        match dtype {
            DType::Bool => Range { lo: 0, hi: 1 },
            DType::Int8 | DType::Int16 | DType::Int32 | DType::UInt8 | DType::UInt16 | DType::UInt32 => {
                Range { lo: dtype.min_value().unwrap_or(i64::MIN), hi: dtype.max_value().unwrap_or(i64::MAX) }
            }
            DType::Int64
            | DType::UInt64
            | DType::Float16
            | DType::BFloat16
            | DType::Float32
            | DType::Float64
            | DType::Float8(_)
            | DType::Narrow(_)
            | DType::Handle
            | DType::Str => Range::ALL,
        }
    }

    /// Whether the range contains `v`.
    pub fn contains(self, v: i64) -> bool {
        self.lo <= v && v <= self.hi
    }

    /// Whether `other` contains the range.
    pub fn within(self, other: Range) -> bool {
        other.lo <= self.lo && self.hi <= other.hi
    }

    /// The intersection.
    pub fn intersect(self, other: Range) -> Range {
        Range { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    /// The smallest range that contains both.
    pub fn union(self, other: Range) -> Range {
        Range { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The number of values, if it is bounded.
    pub fn size(self) -> Option<i64> {
        if self.is_bounded() { self.hi.checked_sub(self.lo)?.checked_add(1) } else { None }
    }

    /// The range, if both its ends are known.
    pub fn known(self) -> Option<Range> {
        self.is_bounded().then_some(self)
    }

    /// Whether all values are in `0..n`.
    pub fn is_below(self, n: i64) -> bool {
        n > 0 && self.within(Range { lo: 0, hi: n - 1 })
    }

    fn is_bounded(self) -> bool {
        self.lo != i64::MIN && self.hi != i64::MAX
    }

    /// The range of `a + b`; unbounded on overflow.
    pub fn plus(self, other: Range) -> Range {
        self.combine(other, |a, b| a + b)
    }

    /// The range of `a * c`.
    pub fn times(self, c: i64) -> Range {
        self.combine(Range::point(c), |a, b| a * b)
    }

    /// The range of an operation that is monotonic in each operand, from the results at its corners.
    fn combine(self, other: Range, f: impl Fn(i128, i128) -> i128) -> Range {
        if !self.is_bounded() || !other.is_bounded() {
            // One end of a sum may still be known, but no caller needs it.
            return Range::ALL;
        }
        let corners = [(self.lo, other.lo), (self.lo, other.hi), (self.hi, other.lo), (self.hi, other.hi)];
        let values = corners.map(|(a, b)| f(i128::from(a), i128::from(b)));
        let (lo, hi) = (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
        match (i64::try_from(lo), i64::try_from(hi)) {
            (Ok(lo), Ok(hi)) => Range { lo, hi },
            _ => Range::ALL,
        }
    }
}

/// Computes the ranges of expressions, each once. Variables must be set before expressions over them are requested;
/// each has one binding, so its range is the same everywhere.
#[derive(Default, Clone)]
pub struct Ranges {
    vars: Vec<Option<Range>>,
    known: Vec<Option<Range>>,
}

impl Ranges {
    /// Learns the range of a variable.
    pub fn set(&mut self, v: VarId, range: Range) {
        if self.vars.len() <= v.index() {
            self.vars.resize(v.index() + 1, None);
        }
        self.vars[v.index()] = Some(range);
    }

    /// Learns the range of a loop variable from the loop's extent.
    pub fn set_loop(&mut self, arena: &Arena, v: VarId, extent: ExprId) {
        let n = self.of(arena, extent);
        // A loop without iterations gives no information about its variable.
        let hi = if n.hi == i64::MAX { i64::MAX } else { (n.hi - 1).max(0) };
        self.set(v, Range { lo: 0, hi });
    }

    /// The range of a variable, if it is set.
    pub fn var(&self, v: VarId) -> Option<Range> {
        self.vars.get(v.index()).copied().flatten()
    }

    /// The range of an integer or boolean, or of the lanes of a vector.
    pub fn of(&mut self, arena: &Arena, e: ExprId) -> Range {
        match arena.expr(e) {
            Expr::Int(v) => return Range::point(v),
            Expr::Var(v) => return self.var(v).unwrap_or(Range::of_type(arena.dtype(e))),
            _ => {}
        }
        if self.known.len() <= e.index() {
            self.known.resize(arena.n_exprs(), None);
        }
        if let Some(known) = self.known[e.index()] {
            return known;
        }
        let range = self.of_node(arena, e);
        self.known[e.index()] = Some(range);
        range
    }

    /// The range of an `int64` expression, if it is bounded.
    pub fn get(&mut self, arena: &Arena, e: ExprId) -> Option<Range> {
        if arena.ty(e) == Ty::INDEX { self.of(arena, e).known() } else { None }
    }

    fn of_node(&mut self, arena: &Arena, e: ExprId) -> Range {
        let dtype = arena.dtype(e);
        let whole = Range::of_type(dtype);
        if dtype.is_float() {
            return Range::ALL;
        }
        let range = match arena.expr(e) {
            Expr::Binary(op, a, b) => {
                let (x, y) = (self.of(arena, a), self.of(arena, b));
                match op {
                    BinOp::Add => x.plus(y),
                    BinOp::Sub => x.combine(y, |a, b| a - b),
                    BinOp::Mul => x.combine(y, |a, b| a * b),
                    BinOp::Min => Range { lo: x.lo.min(y.lo), hi: x.hi.min(y.hi) },
                    BinOp::Max => Range { lo: x.lo.max(y.lo), hi: x.hi.max(y.hi) },
                    BinOp::Div | BinOp::FloorDiv if y.lo > 0 && y.is_bounded() => {
                        if op == BinOp::FloorDiv || x.lo >= 0 {
                            x.combine(y, i128::div_euclid)
                        } else {
                            x.combine(y, |a, b| a / b)
                        }
                    }
                    BinOp::FloorMod | BinOp::Mod if y.lo > 0 && y.is_bounded() => {
                        if x.lo >= 0 && x.hi < y.lo {
                            x
                        } else if op == BinOp::FloorMod || x.lo >= 0 {
                            Range { lo: 0, hi: if x.lo >= 0 { x.hi.min(y.hi - 1) } else { y.hi - 1 } }
                        } else {
                            Range { lo: -(y.hi - 1), hi: y.hi - 1 }
                        }
                    }
                    BinOp::Div | BinOp::FloorDiv | BinOp::Mod | BinOp::FloorMod | BinOp::And | BinOp::Or => whole,
                }
            }
            Expr::Cast(a) if !arena.dtype(a).is_float() => self.of(arena, a),
            // Any number but zero is true.
            Expr::Cast(_) if dtype == DType::Bool => whole,
            Expr::Cast(a) => limits(arena, a).map_or(whole, |ends| ends.truncated(whole)),
            Expr::Select(_, a, b) | Expr::IfThenElse(_, a, b) => self.of(arena, a).union(self.of(arena, b)),
            Expr::Call(Intrinsic::BitAnd, list) => {
                let y = arena.list(list)[1];
                match arena.as_int(y) {
                    Some(mask) if mask >= 0 => Range { lo: 0, hi: mask },
                    _ => whole,
                }
            }
            Expr::Call(Intrinsic::Abs, list) => match self.of(arena, arena.list(list)[0]) {
                x if x.lo >= 0 => x,
                x if x.hi <= 0 => x.times(-1),
                x if x.is_bounded() => Range { lo: 0, hi: x.hi.max(x.lo.saturating_neg()) },
                _ => whole,
            },
            Expr::Broadcast(a) => self.of(arena, a),
            Expr::Ramp(first, step) => {
                let last = i64::from(arena.lanes(e)) - 1;
                let steps = Range::point(0).union(Range::point(step.saturating_mul(last)));
                self.of(arena, first).plus(steps)
            }
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Var(_)
            | Expr::Local(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Reinterpret(_)
            | Expr::Dot4(..)
            | Expr::Load(..)
            | Expr::Call(..)
            | Expr::Pack(_)
            | Expr::Lookup(..)
            | Expr::Extract(..)
            | Expr::Reduce(..) => whole,
        };
        // A value that may wrap may be any value.
        if dtype == DType::UInt64 && range.lo < 0 || !range.within(whole) { whole } else { range }
    }

    /// The range of an affine sum.
    pub fn of_affine(&mut self, arena: &Arena, sum: &Affine) -> Range {
        let mut range = Range::point(sum.constant);
        for &(atom, c) in &sum.terms {
            range = range.plus(self.of(arena, atom).times(c));
        }
        range
    }

    /// `a // c` of an `int64` sum by a positive constant, with the divisible terms taken out: `(x * 8 + y) // 4` is
    /// `x * 2 + y // 4`, and `x * 2` where `0 <= y < 4`.
    pub fn floor_div(&mut self, arena: &mut Arena, a: ExprId, c: i64) -> ExprId {
        let (whole, rest) = self.divide(arena, a, c);
        let whole = whole.to_expr(arena);
        let rest = self.small_div(arena, &rest, c);
        arena.add(whole, rest)
    }

    /// `a % c` of an `int64` sum by a positive constant, without the divisible terms.
    pub fn floor_mod(&mut self, arena: &mut Arena, a: ExprId, c: i64) -> ExprId {
        let (_, rest) = self.divide(arena, a, c);
        let range = self.of_affine(arena, &rest);
        if range.within(Range { lo: 0, hi: c - 1 }) {
            return rest.to_expr(arena);
        }
        if let Some(q) = same_quotient(range, c) {
            let shifted = Affine { constant: rest.constant - q * c, ..rest };
            return shifted.to_expr(arena);
        }
        let e = rest.to_expr(arena);
        // (x % 12) % 4
        let e = match arena.expr(e) {
            Expr::Binary(BinOp::FloorMod, x, d) if arena.as_int(d).is_some_and(|d| d > 0 && d % c == 0) => x,
            _ => e,
        };
        let divisor = arena.index(c);
        arena.binary(BinOp::FloorMod, e, divisor)
    }

    /// Splits a sum into the quotient of the terms divisible by `c`, and the other terms.
    fn divide(&mut self, arena: &Arena, a: ExprId, c: i64) -> (Affine, Affine) {
        let sum = Affine::of(arena, a);
        let (mut whole, mut rest) = (Affine::default(), Affine::default());
        for &(atom, k) in &sum.terms {
            if k % c == 0 { whole.add_term(atom, k / c) } else { rest.add_term(atom, k) }
        }
        whole.constant = sum.constant.div_euclid(c);
        rest.constant = sum.constant.rem_euclid(c);
        // Taking a multiple out of the constant may push the rest over the next multiple; put it back if that helps.
        let with = self.of_affine(arena, &Affine { constant: sum.constant, ..rest.clone() });
        if with.within(Range { lo: 0, hi: c - 1 }) {
            whole.constant = 0;
            rest.constant = sum.constant;
        }
        (whole, rest)
    }

    fn small_div(&mut self, arena: &mut Arena, rest: &Affine, c: i64) -> ExprId {
        let range = self.of_affine(arena, rest);
        if let Some(q) = same_quotient(range, c) {
            return arena.index(q);
        }
        let e = rest.to_expr(arena);
        // (x // 4) // 2
        if let Expr::Binary(BinOp::FloorDiv, x, d) = arena.expr(e)
            && let Some(product) = arena.as_int(d).filter(|&d| d > 0).and_then(|d| d.checked_mul(c))
        {
            return self.floor_div(arena, x, product);
        }
        let divisor = arena.index(c);
        arena.binary(BinOp::FloorDiv, e, divisor)
    }

    /// The condition if its value follows from the ranges of variables.
    pub fn decide(&mut self, arena: &Arena, condition: ExprId) -> Option<bool> {
        use crate::ir::CmpOp;
        match arena.expr(condition) {
            Expr::Int(v) => Some(v != 0),
            Expr::Not(a) => self.decide(arena, a).map(|v| !v),
            Expr::Binary(BinOp::And, a, b) => match (self.decide(arena, a), self.decide(arena, b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Expr::Binary(BinOp::Or, a, b) => match (self.decide(arena, a), self.decide(arena, b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Expr::Compare(op, a, b) if arena.lanes(a) == 1 && arena.dtype(a).is_integer() => {
                let r = if arena.ty(a) == Ty::INDEX {
                    let difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
                    self.of_affine(arena, &difference)
                } else {
                    self.of(arena, a).combine(self.of(arena, b), |a, b| a - b)
                };
                if r == Range::ALL {
                    return None;
                }
                match op {
                    CmpOp::Lt => decided(r.hi < 0, r.lo >= 0),
                    CmpOp::Le => decided(r.hi <= 0, r.lo > 0),
                    CmpOp::Gt => decided(r.lo > 0, r.hi <= 0),
                    CmpOp::Ge => decided(r.lo >= 0, r.hi < 0),
                    CmpOp::Eq => decided(r == Range::point(0), !r.contains(0)),
                    CmpOp::Ne => decided(!r.contains(0), r == Range::point(0)),
                }
            }
            _ => None,
        }
    }
}

/// The least and the greatest number that a float can be.
struct Limits {
    low: f64,
    high: f64,
}

impl Limits {
    /// The integers that result from a conversion, which saturates, to a type with this range.
    fn truncated(&self, whole: Range) -> Range {
        // Conversions of floats to integers saturate as well.
        Range { lo: (self.low as i64).clamp(whole.lo, whole.hi), hi: (self.high as i64).clamp(whole.lo, whole.hi) }
    }

    fn map(self, f: fn(f64) -> f64) -> Limits {
        Limits { low: f(self.low), high: f(self.high) }
    }
}

/// The limits of a float that a minimum or a maximum with a number imposes, which no other way to compute its operands could exceed;
/// `None` if there are none, or if the float may be NaN.
fn limits(arena: &Arena, e: ExprId) -> Option<Limits> {
    match arena.expr(e) {
        Expr::Broadcast(a) => limits(arena, a),
        // The second operand unless the first one is smaller (greater), so that of a NaN and a number it is the number.
        Expr::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
            let b = match arena.as_const(b) {
                Some(Const::Float(v)) if !v.is_nan() => Limits { low: v, high: v },
                _ => limits(arena, b)?,
            };
            let a = limits(arena, a).unwrap_or(Limits { low: f64::NEG_INFINITY, high: f64::INFINITY });
            let pick = if op == BinOp::Min { f64::min } else { f64::max };
            Some(Limits { low: pick(a.low, b.low), high: pick(a.high, b.high) })
        }
        Expr::Call(function, list) => {
            let &[a] = arena.list(list) else { return None };
            let rounding = match function {
                Intrinsic::Floor => f64::floor,
                Intrinsic::Ceil => f64::ceil,
                Intrinsic::Trunc => f64::trunc,
                Intrinsic::Round | Intrinsic::NearbyInt => f64::round_ties_even,
                _ => return None,
            };
            Some(limits(arena, a)?.map(rounding))
        }
        _ => None,
    }
}

fn decided(yes: bool, no: bool) -> Option<bool> {
    if yes {
        Some(true)
    } else if no {
        Some(false)
    } else {
        None
    }
}

/// The quotient by `c`, if it is the same for all values.
fn same_quotient(range: Range, c: i64) -> Option<i64> {
    let (lo, hi) = (range.lo.div_euclid(c), range.hi.div_euclid(c));
    (range.is_bounded() && lo == hi).then_some(lo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::CmpOp;

    #[test]
    fn fused_loops_come_apart() {
        let mut a = Arena::default();
        let mut r = Ranges::default();
        let (f, fe) = a.new_index("f");
        let (i, ie) = a.new_index("i");
        r.set(f, Range { lo: 0, hi: 127 });
        r.set(i, Range { lo: 0, hi: 3 });
        // (f * 8 + i) // 4 and % 4
        let f8 = a.mul_const(fe, 8);
        let sum = a.add(f8, ie);
        let f2 = a.mul_const(fe, 2);
        assert_eq!(r.floor_div(&mut a, sum, 4), f2);
        assert_eq!(r.floor_mod(&mut a, sum, 4), ie);
        // (f // 4) // 8 and (f % 16) % 4
        let q = r.floor_div(&mut a, fe, 4);
        let nested = r.floor_div(&mut a, q, 8);
        assert_eq!(nested, r.floor_div(&mut a, fe, 32));
        let m = r.floor_mod(&mut a, fe, 16);
        let nested = r.floor_mod(&mut a, m, 4);
        assert_eq!(nested, r.floor_mod(&mut a, fe, 4));
        // The range of f // 32 * 32 + f % 32 is that of f.
        let high = r.floor_div(&mut a, fe, 32);
        let high = a.mul_const(high, 32);
        let low = r.floor_mod(&mut a, fe, 32);
        let back = a.add(high, low);
        assert_eq!(r.of(&a, back), Range { lo: 0, hi: 127 });
    }

    #[test]
    fn conditions_that_ranges_decide() {
        let mut a = Arena::default();
        let mut r = Ranges::default();
        let (i, ie) = a.new_index("i");
        r.set(i, Range { lo: 0, hi: 9 });
        let mut holds = |op, shift: i64, limit: i64| {
            let x = a.add_const(ie, shift);
            let c = a.index(limit);
            let e = a.compare(op, x, c);
            r.decide(&a, e)
        };
        assert_eq!(holds(CmpOp::Lt, 0, 10), Some(true));
        assert_eq!(holds(CmpOp::Lt, 1, 10), None);
        assert_eq!(holds(CmpOp::Ge, 5, 5), Some(true));
        assert_eq!(holds(CmpOp::Eq, 5, 4), Some(false));
    }

    #[test]
    fn limits_of_floats_are_those_of_integers() {
        let mut a = Arena::default();
        let mut r = Ranges::default();
        let x = a.new_var("x", Ty::scalar(DType::Float32));
        let x = a.var_expr(x);
        let (low, high) = (a.float(-0.5, DType::Float32), a.float(31.0, DType::Float32));
        let from_low = a.binary(BinOp::Max, x, low);
        let between = a.binary(BinOp::Min, from_low, high);
        let floor = a.call(Intrinsic::Floor, &[between]);
        let mut of = |e, dtype| {
            let e = a.cast(dtype, e);
            r.of(&a, e)
        };
        assert_eq!(of(floor, DType::Int32), Range { lo: -1, hi: 31 });
        assert_eq!(of(between, DType::Int32), Range { lo: 0, hi: 31 });
        assert_eq!(of(from_low, DType::Int32), Range { lo: 0, hi: i64::from(i32::MAX) });
        assert_eq!(of(x, DType::Int8), Range { lo: -128, hi: 127 });
        // A maximum is its second operand where one is NaN.
        let other = a.binary(BinOp::Max, low, x);
        let other = a.cast(DType::Int8, other);
        assert_eq!(r.of(&a, other), Range { lo: -128, hi: 127 });
        // Comparisons of these integers are decided.
        let place = a.cast(DType::Int32, floor);
        let last = a.int(31, DType::Int32);
        let is_inside = a.compare(CmpOp::Le, place, last);
        assert_eq!(r.decide(&a, is_inside), Some(true));
    }

    #[test]
    fn what_may_wrap_may_be_anything() {
        let mut a = Arena::default();
        let mut r = Ranges::default();
        let v = a.new_var("v", Ty::scalar(DType::Int8));
        let e = a.var_expr(v);
        let sum = a.add(e, e);
        assert_eq!(r.of(&a, sum), Range { lo: -128, hi: 127 });
    }
}
