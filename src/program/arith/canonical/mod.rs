//! Simplification to canonical form.
//!
//! Index arithmetic becomes a sum of terms `(index % upper) / lower * scale`. Parts of the same index merge, in
//! whatever order they were written: `(i // 8) * 8 + i % 8` is `i`. Everything else is left to the
//! [rules](super::rewrite), whose visitor drives this one too. Terms are ordered by descending scale, positive ones
//! first; later passes and TVM's output rely on this order.
//!
//! Follows TVM's `canonical_simplify.cc` (0.27), except where a negative scale meets rounding, where TVM is not sound.

mod sum;

use super::bound::POS_INF;
use super::modular::gcd;
use super::rewrite::Simplifier;
use super::transitive::Relation;
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};
use sum::{Rounding, Split, Sum};

/// A value on its way to canonical form.
pub(super) enum Canonical {
    /// An expression that is not index arithmetic.
    Expr(ExprId),
    /// One term.
    Split(Split),
    /// A sum.
    Sum(Sum),
}

impl Simplifier<'_> {
    /// A node with its operands in canonical form, operands first.
    pub(super) fn mutate(&mut self, e: ExprId) -> Canonical {
        let dtype = self.arena.dtype(e);
        match self.arena.expr(e) {
            Expr::Binary(op, x, y) if dtype.is_index() => match op {
                BinOp::Add => self.mutate_sum(e, x, y, 1),
                BinOp::Sub => self.mutate_sum(e, x, y, -1),
                BinOp::Mul => self.mutate_product(x, y),
                BinOp::Div => self.mutate_quotient(x, y, Rounding::Trunc),
                BinOp::FloorDiv => self.mutate_quotient(x, y, Rounding::Floor),
                BinOp::Mod => self.mutate_remainder(x, y, Rounding::Trunc),
                BinOp::FloorMod => self.mutate_remainder(x, y, Rounding::Floor),
                BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or => Canonical::Expr(self.visit_node(e)),
            },
            Expr::Cast(x) if dtype.is_index() => self.mutate_cast(e, x, dtype),
            Expr::Compare(CmpOp::Lt, x, y) if self.arena.dtype(x).is_index() => {
                Canonical::Expr(self.mutate_less(e, x, y))
            }
            _ => Canonical::Expr(self.visit_node(e)),
        }
    }

    /// An operand in canonical form.
    fn operand(&mut self, e: ExprId) -> Canonical {
        match self.arena.expr(e) {
            Expr::Binary(op, ..)
                if self.arena.dtype(e).is_index()
                    && !matches!(op, BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or) =>
            {
                if !self.analyzer.descend() {
                    return Canonical::Expr(e);
                }
                let value = self.mutate(e);
                self.analyzer.ascend();
                value
            }
            Expr::Cast(_) if self.arena.dtype(e).is_index() => self.mutate(e),
            _ => Canonical::Expr(self.visit(e)),
        }
    }

    /// The expression of a canonical value.
    pub(super) fn normalize(&mut self, value: Canonical) -> ExprId {
        match value {
            Canonical::Expr(e) => e,
            Canonical::Split(split) => split.to_expr(self.arena, 1),
            Canonical::Sum(sum) => sum.to_expr(self.arena),
        }
    }

    fn as_split(&mut self, value: Canonical) -> Split {
        match value {
            Canonical::Split(split) => split,
            Canonical::Sum(sum) => match sum.args.as_slice() {
                [split] if sum.base == 0 => *split,
                _ => Split::whole(sum.to_expr(self.arena)),
            },
            Canonical::Expr(e) => Split::whole(e),
        }
    }

    fn as_sum(&mut self, value: Canonical, dtype: DType) -> Sum {
        match value {
            Canonical::Sum(sum) => sum,
            Canonical::Expr(e) if self.arena.as_int(e).is_some() => {
                Sum::constant(self.arena.as_int(e).unwrap_or(0), dtype)
            }
            other => {
                let split = self.as_split(other);
                let mut sum = Sum::constant(0, dtype);
                sum.args.push(split);
                sum
            }
        }
    }

    /// Folds constants, neutral elements and absorbing elements before operands are put into canonical form.
    fn fold(&mut self, op: BinOp, a: &Canonical, b: &Canonical) -> Option<Folded> {
        let constant = |s: &Self, v: &Canonical| match v {
            Canonical::Expr(e) => s.arena.as_int(*e).map(|v| (*e, v)),
            Canonical::Split(_) | Canonical::Sum(_) => None,
        };
        match (constant(self, a), constant(self, b)) {
            (Some((x, _)), Some((y, _))) => {
                let e = self.arena.binary(op, x, y);
                self.arena.as_int(e).map(|_| Folded::Value(e))
            }
            (Some((x, v)), None) => match (op, v) {
                (BinOp::Add, 0) | (BinOp::Mul, 1) => Some(Folded::Right),
                (BinOp::Mul | BinOp::Div | BinOp::FloorDiv | BinOp::Mod | BinOp::FloorMod, 0) => Some(Folded::Value(x)),
                _ => None,
            },
            (None, Some((y, v))) => match (op, v) {
                (BinOp::Add | BinOp::Sub, 0) | (BinOp::Mul | BinOp::Div | BinOp::FloorDiv, 1) => Some(Folded::Left),
                (BinOp::Mul, 0) => Some(Folded::Value(y)),
                (BinOp::Mod | BinOp::FloorMod, 1) => Some(Folded::Value(self.arena.int(0, self.arena.dtype(y)))),
                _ => None,
            },
            (None, None) => None,
        }
    }

    fn mutate_sum(&mut self, e: ExprId, x: ExprId, y: ExprId, sign: i64) -> Canonical {
        let dtype = self.arena.dtype(e);
        let (a, b) = (self.operand(x), self.operand(y));
        let op = if sign > 0 { BinOp::Add } else { BinOp::Sub };
        match self.fold(op, &a, &b) {
            Some(Folded::Left) => return a,
            Some(Folded::Right) => return b,
            Some(Folded::Value(e)) => return Canonical::Expr(e),
            None => {}
        }
        let mut sum = self.as_sum(a, dtype);
        let before = sum.clone();
        let b = self.as_sum(b, dtype);
        match sum.add_sum(&b, sign) {
            Some(()) => Canonical::Sum(sum),
            // The folded constant would leave the type: keep the two apart.
            None => {
                let (a, b) = (before.to_expr(self.arena), b.to_expr(self.arena));
                Canonical::Expr(self.arena.binary(op, a, b))
            }
        }
    }

    fn mutate_product(&mut self, x: ExprId, y: ExprId) -> Canonical {
        let dtype = self.arena.dtype(x);
        let (mut a, mut b) = (self.operand(x), self.operand(y));
        match self.fold(BinOp::Mul, &a, &b) {
            Some(Folded::Left) => return a,
            Some(Folded::Right) => return b,
            Some(Folded::Value(e)) => return Canonical::Expr(e),
            None => {}
        }
        if matches!(a, Canonical::Expr(e) if self.arena.as_int(e).is_some()) {
            std::mem::swap(&mut a, &mut b);
        }
        if let Canonical::Expr(c) = b
            && let Some(c) = self.arena.as_int(c)
        {
            if let Canonical::Sum(sum) = a {
                return match sum.clone().scaled(c) {
                    Some(sum) => Canonical::Sum(sum),
                    None => {
                        let e = sum.to_expr(self.arena);
                        Canonical::Expr(self.arena.mul_const(e, c))
                    }
                };
            }
            let split = self.as_split(a);
            return match split.scale.checked_mul(c).filter(|&v| super::pattern::fits(v, dtype)) {
                Some(scale) => Canonical::Split(Split { scale, ..split }),
                None => {
                    let e = split.to_expr(self.arena, 1);
                    Canonical::Expr(self.arena.mul_const(e, c))
                }
            };
        }
        let (a, b) = (self.normalize(a), self.normalize(b));
        Canonical::Expr(mul_and_normalize(self.arena, a, b))
    }

    fn mutate_quotient(&mut self, x: ExprId, y: ExprId, rounding: Rounding) -> Canonical {
        let dtype = self.arena.dtype(x);
        let (a, b) = (self.operand(x), self.operand(y));
        match self.fold(rounding.div(), &a, &b) {
            Some(Folded::Left) => return a,
            Some(Folded::Right) => return b,
            Some(Folded::Value(e)) => return Canonical::Expr(e),
            None => {}
        }
        if let Canonical::Expr(c) = b
            && let Some(c) = self.arena.as_int(c).filter(|&c| c > 0)
        {
            if let Canonical::Sum(sum) = &a {
                let (divisible, extra) = sum.separate(c);
                if extra.is_zero() {
                    return Canonical::Sum(divisible.divided(c));
                }
                let splits = match rounding {
                    Rounding::Floor => true,
                    // Rounding towards zero splits if both parts have the same sign.
                    Rounding::Trunc => self.not_negative(&divisible) && self.not_negative(&extra),
                };
                if splits && let Some(quotient) = self.quotient_of_parts(divisible, &extra, c, rounding) {
                    return Canonical::Sum(quotient);
                }
            } else {
                let e = self.normalized(&a);
                let bound = self.analyzer.const_int_bound(self.arena, e);
                if bound.min >= 0 && bound.max < c && bound.max != POS_INF {
                    return Canonical::Expr(self.arena.int(0, dtype));
                }
            }
            if let Some(part) = self.remainder_then_quotient(&a, c, rounding) {
                return part;
            }
            let split = self.as_split(a);
            return Canonical::Split(self.divide(split, c, rounding));
        }
        let (mut a, mut b) = (self.normalize(a), self.normalize(b));
        cancel_common_factors(self.arena, &mut a, &mut b);
        Canonical::Expr(self.arena.binary(rounding.div(), a, b))
    }

    /// `(divisible + extra) / c`, where `c` divides the one part.
    fn quotient_of_parts(&mut self, divisible: Sum, extra: &Sum, c: i64, rounding: Rounding) -> Option<Sum> {
        let mut quotient = divisible.divided(c);
        let extra = extra.to_expr(self.arena);
        if let Some(v) = self.arena.as_int(extra) {
            quotient.add_constant(v.div_euclid(c))?;
        } else if !self.in_range(extra, c, rounding) {
            let part = self.divide(Split::whole(extra), c, rounding);
            quotient.add_split(part, 1)?;
        }
        Some(quotient)
    }

    /// `(index % (m * c)) / c` as `(index / c) % m`, where `c` divides a part of the index.
    fn remainder_then_quotient(&mut self, a: &Canonical, c: i64, rounding: Rounding) -> Option<Canonical> {
        let Canonical::Split(split) = a else { return None };
        let fits = split.lower == 1 && split.scale == 1 && split.upper != POS_INF && split.upper > 0;
        if rounding != Rounding::Floor || !fits || split.upper % c != 0 || !split.rounds_as(rounding) {
            return None;
        }
        let Canonical::Sum(sum) = self.operand(split.index) else { return None };
        let (divisible, extra) = sum.separate(c);
        if divisible.is_zero() {
            return None;
        }
        let quotient = self.quotient_of_parts(divisible, &extra, c, rounding)?;
        let quotient = quotient.to_expr(self.arena);
        let modulus = self.arena.int(split.upper / c, sum.dtype);
        let part = self.arena.floor_mod(quotient, modulus);
        Some(Canonical::Expr(self.visit(part)))
    }

    fn mutate_remainder(&mut self, x: ExprId, y: ExprId, rounding: Rounding) -> Canonical {
        let dtype = self.arena.dtype(x);
        let (mut a, b) = (self.operand(x), self.operand(y));
        match self.fold(rounding.rem(), &a, &b) {
            Some(Folded::Left) => return a,
            Some(Folded::Right) => return b,
            Some(Folded::Value(e)) => return Canonical::Expr(e),
            None => {}
        }
        if let Canonical::Expr(divisor) = b
            && let Some(c) = self.arena.as_int(divisor).filter(|&c| c > 0)
        {
            if let Canonical::Sum(sum) = &a {
                let (divisible, extra) = sum.separate(c);
                let mut rest = sum.clone();
                if extra.is_zero() {
                    return Canonical::Expr(self.arena.int(0, dtype));
                }
                if rounding == Rounding::Floor || (self.not_negative(&divisible) && self.not_negative(&extra)) {
                    let e = extra.to_expr(self.arena);
                    if self.arena.as_int(e).is_some() {
                        return Canonical::Expr(self.arena.binary(rounding.rem(), e, divisor));
                    }
                    if self.in_range(e, c, rounding) {
                        return Canonical::Expr(e);
                    }
                    rest = extra;
                }
                // The constant is brought into the range of the divisor.
                match rounding {
                    Rounding::Floor => rest.base = rest.base.rem_euclid(c),
                    Rounding::Trunc => {
                        let e = rest.to_expr(self.arena);
                        let bound = self.analyzer.const_int_bound(self.arena, e);
                        let base = rest.base % c;
                        let shifted = bound.min.checked_sub(rest.base).and_then(|v| v.checked_add(base));
                        if bound.min >= 0 && shifted.is_some_and(|v| v >= 0) {
                            rest.base = base;
                        }
                    }
                }
                a = Canonical::Sum(rest);
            } else {
                let e = self.normalized(&a);
                let bound = self.analyzer.const_int_bound(self.arena, e);
                if bound.min >= 0 && bound.max < c && bound.max != POS_INF {
                    return a;
                }
            }
            let split = self.as_split(a);
            return Canonical::Split(self.remainder(split, c, rounding));
        }
        let (mut a, mut b) = (self.normalize(a), self.normalize(b));
        let common = cancel_common_factors(self.arena, &mut a, &mut b);
        let rest = self.arena.binary(rounding.rem(), a, b);
        Canonical::Expr(match common {
            Some(common) => self.arena.mul(rest, common),
            None => rest,
        })
    }

    fn mutate_cast(&mut self, e: ExprId, x: ExprId, dtype: DType) -> Canonical {
        match self.operand(x) {
            Canonical::Sum(sum) if self.can_cast_sum(&sum, dtype) => {
                let args = sum.args.iter().map(|arg| Split { index: self.arena.cast(dtype, arg.index), ..*arg });
                Canonical::Sum(Sum { args: args.collect(), base: sum.base, dtype })
            }
            Canonical::Split(split) if self.can_cast_split(&split, dtype) => {
                Canonical::Split(Split { index: self.arena.cast(dtype, split.index), ..split })
            }
            _ => Canonical::Expr(self.visit_node(e)),
        }
    }

    /// Does every partial value of the sum keep its value in the type?
    fn can_cast_sum(&mut self, sum: &Sum, dtype: DType) -> bool {
        if dtype.bits() >= sum.dtype.bits() {
            return true;
        }
        let mut partial = Sum::constant(0, sum.dtype);
        let (positive, negative): (Vec<Split>, Vec<Split>) = sum.args.iter().partition(|arg| arg.scale > 0);
        let base = Sum::constant(sum.base, sum.dtype);
        for part in positive.iter().map(Some).chain([None]).chain(negative.iter().map(Some)) {
            let added = match part {
                Some(&split) => partial.add_split(split, 1),
                None => partial.add_sum(&base, 1),
            };
            let e = partial.to_expr(self.arena);
            if added.is_none() || !self.cast_keeps(e, dtype) {
                return false;
            }
        }
        sum.args.iter().all(|arg| self.can_cast_split(arg, dtype))
    }

    fn can_cast_split(&mut self, split: &Split, dtype: DType) -> bool {
        if dtype.bits() >= self.arena.dtype(split.index).bits() || split.scale == 0 {
            return true;
        }
        let steps =
            [Split::whole(split.index), Split { lower: 1, scale: 1, ..*split }, Split { scale: 1, ..*split }, *split];
        steps.into_iter().all(|step| {
            let e = step.to_expr(self.arena, 1);
            self.cast_keeps(e, dtype)
        })
    }

    fn cast_keeps(&mut self, e: ExprId, dtype: DType) -> bool {
        self.analyzer.const_int_bound(self.arena, e).within(super::bound::Bound::of_type(dtype))
    }

    fn mutate_less(&mut self, e: ExprId, x: ExprId, y: ExprId) -> ExprId {
        let difference = self.arena.sub(x, y);
        let Canonical::Sum(sum) = self.operand(difference) else { return self.visit_node(e) };
        // x0 * s0 + … + base < 0 with a common divisor d of the scales and the base: the part of the base in [0, d) can
        // be dropped.
        let scales = sum.args.iter().map(|arg| arg.scale).filter(|s| s.unsigned_abs() > 1);
        let divisor = scales.clone().fold(sum.base, gcd);
        if scales.count() == 0 || divisor <= 1 {
            return self.visit_node(e);
        }
        let (divisible, extra) = sum.separate(divisor);
        let rest = extra.to_expr(self.arena);
        let zero = self.arena.int(0, sum.dtype);
        let limit = self.arena.int(divisor, sum.dtype);
        let below = self.arena.lt(rest, limit);
        let not_negative = self.arena.compare(CmpOp::Ge, rest, zero);
        if self.analyzer.can_prove(self.arena, below) && self.analyzer.can_prove(self.arena, not_negative) {
            let quotient = divisible.divided(divisor).to_expr(self.arena);
            let less = self.arena.lt(quotient, zero);
            return self.visit(less);
        }
        if let ([split], 0) = (extra.args.as_slice(), extra.base)
            && split.scale == 1
            && split.upper != POS_INF
            && split.rounding == Rounding::Floor
            && let Some(lower) = divisor.checked_mul(split.lower)
            && split.upper % lower == 0
        {
            // (y % m) // l // d is (y // (l * d)) % (m // (l * d)).
            let quotient = divisible.divided(divisor).to_expr(self.arena);
            let (c, m) = (self.arena.int(lower, sum.dtype), self.arena.int(split.upper / lower, sum.dtype));
            let part = self.arena.floor_div(split.index, c);
            let part = self.arena.floor_mod(part, m);
            let sum = self.arena.add(quotient, part);
            let less = self.arena.lt(sum, zero);
            return self.visit(less);
        }
        self.visit_node(e)
    }

    fn not_negative(&mut self, sum: &Sum) -> bool {
        let e = sum.to_expr(self.arena);
        self.analyzer.can_prove_greater_equal(self.arena, e, 0)
    }

    /// Whether `e` is below `c` and, if the rounding requires it, not negative, so that its quotient by `c` is 0.
    fn in_range(&mut self, e: ExprId, c: i64, rounding: Rounding) -> bool {
        self.compare_to(e, c) == Relation::LT
            && (rounding == Rounding::Trunc || self.analyzer.can_prove_greater_equal(self.arena, e, 0))
    }

    fn normalized(&mut self, value: &Canonical) -> ExprId {
        match value {
            Canonical::Expr(e) => *e,
            Canonical::Split(split) => split.to_expr(self.arena, 1),
            Canonical::Sum(sum) => sum.to_expr(self.arena),
        }
    }

    fn with_rounding(&mut self, split: Split, rounding: Rounding) -> Split {
        if split.rounds_as(rounding) {
            return Split { rounding, ..split };
        }
        Split { rounding, ..Split::whole(split.to_expr(self.arena, 1)) }
    }

    /// `split / c`.
    fn divide(&mut self, split: Split, c: i64, rounding: Rounding) -> Split {
        let split = self.with_rounding(split, rounding);
        if split.scale % c == 0 {
            return Split { scale: split.scale / c, ..split };
        }
        let dtype = self.arena.dtype(split.index);
        // Rounding down two quotients by negative numbers is not rounding down the quotient by the product.
        let sound = split.scale > 0 || split.lower == 1 || rounding == Rounding::Trunc;
        if c % split.scale == 0
            && sound
            && let Some(lower) = split.lower.checked_mul(c / split.scale).filter(|&v| super::pattern::fits(v, dtype))
        {
            let divided = Split { lower, scale: 1, ..split };
            if split.upper == POS_INF || split.upper % lower == 0 {
                return divided;
            }
            if split.upper.unsigned_abs() <= lower.unsigned_abs() && (split.upper > 0) == (lower > 0) {
                return Split::whole(self.arena.int(0, dtype));
            }
            let upper = self.arena.int(split.upper, dtype);
            let index = self.arena.binary(rounding.rem(), split.index, upper);
            return Split { index, upper: POS_INF, ..divided };
        }
        let index = split.to_expr(self.arena, 1);
        Split { lower: c, rounding, ..Split::whole(index) }
    }

    /// `split % c`.
    fn remainder(&mut self, split: Split, c: i64, rounding: Rounding) -> Split {
        let split = self.with_rounding(split, rounding);
        if split.scale % c == 0 {
            return Split { scale: 0, ..split };
        }
        let dtype = self.arena.dtype(split.index);
        let sound = split.scale > 0 || split.lower == 1 || rounding == Rounding::Trunc;
        if c % split.scale == 0
            && sound
            && let Some(upper) = split.lower.checked_mul(c / split.scale).filter(|&v| super::pattern::fits(v, dtype))
        {
            if split.upper == POS_INF || split.upper % upper == 0 {
                if split.upper == POS_INF || upper >= split.upper || split.lower < 0 {
                    return Split { upper, ..split };
                }
                // A smaller divisor may simplify the index further.
                let modulus = self.arena.int(upper, dtype);
                let index = self.arena.binary(rounding.rem(), split.index, modulus);
                let index = self.visit(index);
                let mut part = Split::whole(index);
                if split.lower != 1 {
                    part = self.divide(part, split.lower, rounding);
                }
                return match part.scale.checked_mul(split.scale) {
                    Some(scale) => Split { scale, ..part },
                    None => Split { upper: c, rounding, ..Split::whole(split.to_expr(self.arena, 1)) },
                };
            }
            if upper % split.upper == 0 && (upper > 0 || rounding == Rounding::Trunc) {
                return split;
            }
        }
        let index = split.to_expr(self.arena, 1);
        Split { upper: c, rounding, ..Split::whole(index) }
    }
}

enum Folded {
    Left,
    Right,
    Value(ExprId),
}

/// The product with its constant factor last.
pub(super) fn mul_and_normalize(a: &mut Arena, x: ExprId, y: ExprId) -> ExprId {
    let dtype = a.dtype(x);
    let mut factors = Vec::new();
    collect_factors(a, x, &mut factors);
    collect_factors(a, y, &mut factors);
    let mut constant = 1i64;
    let mut product = a.int(1, dtype);
    for &f in &factors {
        match a.as_int(f) {
            Some(v) => match constant.checked_mul(v).filter(|&v| super::pattern::fits(v, dtype)) {
                Some(v) => constant = v,
                None => return a.mul(x, y),
            },
            None => product = a.mul(product, f),
        }
    }
    if constant != 1 { a.mul_const(product, constant) } else { product }
}

/// The factors of a product, from left to right.
pub(super) fn collect_factors(a: &Arena, e: ExprId, out: &mut Vec<ExprId>) {
    match a.expr(e) {
        Expr::Binary(BinOp::Mul, x, y) => {
            collect_factors(a, x, out);
            collect_factors(a, y, out);
        }
        _ => out.push(e),
    }
}

/// Cancels common factors of a dividend and a non-constant divisor; returns the product of the cancelled factors.
fn cancel_common_factors(a: &mut Arena, x: &mut ExprId, y: &mut ExprId) -> Option<ExprId> {
    if a.as_int(*y).is_some() {
        return None;
    }
    let dtype = a.dtype(*y);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    collect_factors(a, *x, &mut left);
    collect_factors(a, *y, &mut right);
    let constant = |a: &Arena, factors: &mut Vec<ExprId>| {
        let mut product = Some(1i64);
        factors.retain(|&f| match a.as_int(f) {
            Some(v) => {
                product = product.and_then(|p| p.checked_mul(v));
                false
            }
            None => true,
        });
        product
    };
    let (l, r) = (constant(a, &mut left)?, constant(a, &mut right)?);
    if ![l, r].into_iter().all(|c| super::pattern::fits(c, dtype)) {
        return None;
    }
    let (mut divisor, mut common) = (a.int(1, dtype), a.int(1, dtype));
    let mut n_common = 0;
    for f in right {
        match left.iter().position(|&g| g == f) {
            Some(i) => {
                left.remove(i);
                n_common += 1;
                common = a.mul(common, f);
            }
            None => divisor = a.mul(divisor, f),
        }
    }
    let divisor_of_constants = gcd(l, r).max(1);
    if n_common == 0 && divisor_of_constants == 1 {
        return None;
    }
    let mut dividend = a.int(1, dtype);
    for f in left {
        dividend = a.mul(dividend, f);
    }
    *x = a.mul_const(dividend, l / divisor_of_constants);
    *y = a.mul_const(divisor, r / divisor_of_constants);
    Some(a.mul_const(common, divisor_of_constants))
}
