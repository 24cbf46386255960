//! Residues of integer expressions.
//!
//! A [`Modular`] is the set of integers `coeff * k + base` over all integers `k`; every value that the expression can
//! take lies in it. `coeff` 0 means the one value `base`, `coeff` 1 any integer; else `0 <= base < coeff`. Bookkeeping
//! that would overflow gives any integer. Wrapping arithmetic of narrow and unsigned types keeps only what holds
//! modulo the power of two at which it wraps.
//!
//! Follows TVM's `modular_set.cc`.

use super::analyzer::Analyzer;
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp, Intrinsic};

/// The integers `coeff * k + base`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modular {
    /// Distance of adjacent members; 0 for a single integer.
    pub coeff: i64,
    /// A member of the set: the smallest nonnegative one unless `coeff` is 0.
    pub base: i64,
}

impl Modular {
    /// Any integer.
    pub const ANY: Modular = Modular { coeff: 1, base: 0 };

    /// The integers `coeff * k + base`.
    pub fn new(coeff: i64, base: i64) -> Modular {
        if coeff == 0 {
            return Modular { coeff, base };
        }
        // The smallest integer has no magnitude.
        let Some(coeff) = coeff.checked_abs() else { return Modular::ANY };
        Modular { coeff, base: base.rem_euclid(coeff) }
    }

    /// One integer.
    pub fn point(value: i64) -> Modular {
        Modular { coeff: 0, base: value }
    }

    /// Is the value in the set?
    pub fn contains(self, value: i64) -> bool {
        if self.coeff == 0 { value == self.base } else { value.rem_euclid(self.coeff) == self.base }
    }

    /// A set that contains both sets. As in TVM, the union of two different single integers is any integer.
    pub fn union(self, other: Modular) -> Modular {
        let coeff = gcd(self.coeff, other.coeff);
        if coeff == 0 {
            return if self.base == other.base { self } else { Modular::ANY };
        }
        let (x, y) = (self.base.rem_euclid(coeff), other.base.rem_euclid(coeff));
        Modular::new(if x == y { coeff } else { gcd(gcd(x, y), coeff) }, x)
    }

    /// A set that contains the intersection; `self` if the intersection is empty.
    pub fn intersect(self, other: Modular) -> Modular {
        if self.coeff == 0 || other.coeff == 1 {
            return self;
        }
        if other.coeff == 0 || self.coeff == 1 {
            return if self.contains(other.base) || other.coeff != 0 { other } else { self };
        }
        // Residue classes intersect in one class modulo the least common multiple, found by stepping through the
        // members of the one; constants in programs are small.
        let Some(lcm) = (self.coeff / gcd(self.coeff, other.coeff)).checked_mul(other.coeff) else { return self };
        if lcm / self.coeff > 4096 {
            return self;
        }
        (0..lcm / self.coeff)
            .map(|k| self.base + k * self.coeff)
            .find(|&v| other.contains(v))
            .map_or(self, |base| Modular::new(lcm, base))
    }

    fn sum(self, other: Modular, sign: i64) -> Modular {
        match other.base.checked_mul(sign).and_then(|b| self.base.checked_add(b)) {
            Some(base) => Modular::new(gcd(self.coeff, other.coeff), base),
            None => Modular::ANY,
        }
    }

    fn product(self, other: Modular) -> Modular {
        // (p x + n) (q y + m) = pq xy + pm x + qn y + nm
        let terms = (|| {
            let pq = self.coeff.checked_mul(other.coeff)?;
            let pm = self.coeff.checked_mul(other.base)?;
            let qn = other.coeff.checked_mul(self.base)?;
            Some((gcd(pq, gcd(pm, qn)), self.base.checked_mul(other.base)?))
        })();
        terms.map_or(Modular::ANY, |(coeff, base)| Modular::new(coeff, base))
    }

    fn wrapped(self, dtype: DType) -> Modular {
        if dtype.is_index() {
            return self;
        }
        if dtype.bits() == 64 {
            // 2^64 is out of the bookkeeping's range: keep the power of two in the distance.
            let coeff = if self.coeff == 0 { 1 << 62 } else { 1 << self.coeff.trailing_zeros().min(62) };
            return Modular::new(coeff, self.base);
        }
        if self.coeff == 0 && dtype.wrap(self.base) == self.base {
            return self;
        }
        Modular::new(gcd(self.coeff, 1 << dtype.bits()), self.base)
    }
}

/// The greatest common divisor of the magnitudes, where 0 is a multiple of everything.
pub(super) fn gcd(x: i64, y: i64) -> i64 {
    let (mut x, mut y) = (x.unsigned_abs(), y.unsigned_abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    // Only the magnitude of the smallest integer does not fit; 1 divides it too.
    i64::try_from(x).unwrap_or(1)
}

impl Analyzer {
    /// The residue of an integer expression, given what is known of its variables.
    pub fn modular_set(&mut self, a: &mut Arena, e: ExprId) -> Modular {
        if let Expr::Int(v) = a.expr(e) {
            return if a.dtype(e) == DType::UInt64 && v < 0 { Modular::ANY } else { Modular::point(v) };
        }
        if let Some(&known) = self.memo.modular.get(self.epoch, e) {
            return known;
        }
        if !self.descend() {
            return Modular::ANY;
        }
        let set = self.modular_of_node(a, e);
        self.ascend();
        self.memo.modular.set(self.epoch, e, set, a.n_exprs());
        set
    }

    fn modular_of_node(&mut self, a: &mut Arena, e: ExprId) -> Modular {
        let dtype = a.dtype(e);
        if a.lanes(e) > 1 {
            return Modular::ANY;
        }
        match a.expr(e) {
            Expr::Var(v) => self.var(v).map_or(Modular::ANY, |info| info.modular),
            Expr::Cast(x) if a.dtype(x).is_integer() && dtype.is_integer() => {
                let inner = self.modular_set(a, x);
                let bound = self.const_int_bound(a, x);
                if bound.within(super::bound::Bound::of_type(dtype)) { inner } else { wrap_modulo(inner, dtype) }
            }
            Expr::Binary(op, x, y) if dtype.is_integer() => match op {
                BinOp::Add => {
                    let x = self.modular_set(a, x);
                    x.sum(self.modular_set(a, y), 1).wrapped(dtype)
                }
                BinOp::Sub => {
                    let x = self.modular_set(a, x);
                    x.sum(self.modular_set(a, y), -1).wrapped(dtype)
                }
                BinOp::Mul => {
                    let x = self.modular_set(a, x);
                    x.product(self.modular_set(a, y)).wrapped(dtype)
                }
                BinOp::Min | BinOp::Max => {
                    let x = self.modular_set(a, x);
                    x.union(self.modular_set(a, y))
                }
                BinOp::FloorDiv | BinOp::Div => match self.modular_set(a, y) {
                    Modular { coeff: 0, base } if base != 0 => self.modular_of_quotient(a, x, base, op),
                    _ => Modular::ANY,
                },
                BinOp::FloorMod | BinOp::Mod => match self.modular_set(a, y) {
                    Modular { coeff: 0, base } if base != 0 => self.modular_of_remainder(a, x, base, op),
                    _ => Modular::ANY,
                },
                BinOp::And | BinOp::Or => Modular::ANY,
            },
            Expr::Select(_, t, o) | Expr::IfThenElse(_, t, o) if dtype.is_integer() => {
                let t = self.modular_set(a, t);
                t.union(self.modular_set(a, o))
            }
            Expr::Call(f, args) if dtype.is_index() => {
                let args = a.list(args);
                let (Some(&x), Some(y)) = (args.first(), args.get(1).and_then(|&y| a.as_int(y))) else {
                    return Modular::ANY;
                };
                match f {
                    Intrinsic::ShiftRight if (0..62).contains(&y) => {
                        self.modular_of_quotient(a, x, 1 << y, BinOp::FloorDiv)
                    }
                    Intrinsic::BitAnd if (0..1 << 62).contains(&y) && (y + 1).count_ones() == 1 => {
                        self.modular_of_remainder(a, x, y + 1, BinOp::FloorMod)
                    }
                    _ => Modular::ANY,
                }
            }
            Expr::Let(_, _, body) => self.modular_set(a, body),
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Str(_)
            | Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Load(..)
            | Expr::Call(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::BufferData(_)
            | Expr::Builtin(..) => Modular::ANY,
        }
    }

    fn modular_of_quotient(&mut self, a: &mut Arena, x: ExprId, divisor: i64, op: BinOp) -> Modular {
        let set = self.modular_set(a, x);
        if divisor == i64::MIN || set.coeff % divisor != 0 {
            return Modular::ANY;
        }
        if set.base == 0 {
            // A multiple of the divisor: both roundings are exact.
            return Modular::new(set.coeff / divisor, 0);
        }
        let rounds_down = op == BinOp::FloorDiv || self.can_prove_greater_equal(a, x, 0);
        if set.base > 0 && divisor > 0 && rounds_down {
            return Modular::new(set.coeff / divisor, set.base / divisor);
        }
        Modular::ANY
    }

    fn modular_of_remainder(&mut self, a: &mut Arena, x: ExprId, divisor: i64, op: BinOp) -> Modular {
        let set = self.modular_set(a, x);
        // A remainder differs from the dividend by a multiple of the divisor, however it rounds.
        let _ = op;
        Modular::new(gcd(set.coeff, divisor), set.base)
    }
}

fn wrap_modulo(set: Modular, dtype: DType) -> Modular {
    if dtype.bits() >= 64 {
        return Modular::ANY;
    }
    Modular::new(gcd(set.coeff, 1 << dtype.bits()), set.base)
}

/// The residue of a variable that a condition states: `x % c == b`, `x == b`.
pub(super) fn fact_of(a: &Arena, condition: ExprId) -> Option<(VarId, Modular)> {
    let Expr::Compare(CmpOp::Eq, x, y) = a.expr(condition) else { return None };
    let (x, value) = match (a.as_int(x), a.as_int(y)) {
        (None, Some(c)) => (x, c),
        (Some(c), None) => (y, c),
        _ => return None,
    };
    match a.expr(x) {
        Expr::Binary(BinOp::FloorMod | BinOp::Mod, v, c) if a.dtype(v).is_index() => {
            let (v, c) = (a.as_var(v)?, a.as_int(c)?);
            (c != 0).then(|| (v, Modular::new(c, value)))
        }
        _ => None,
    }
}
