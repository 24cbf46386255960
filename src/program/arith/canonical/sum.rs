//! The canonical form of index arithmetic: sums of scaled splits.

use crate::arith::bound::POS_INF;
use crate::arith::pattern::fits;
use crate::ir::DType;
use crate::ir::expr::{Arena, ExprId};
use crate::ir::op::BinOp;
use smallvec::SmallVec;

/// Rounding of a division. The order of the variants is the order of otherwise equal terms in a sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::arith) enum Rounding {
    /// Towards zero.
    Trunc,
    /// Towards minus infinity.
    Floor,
}

impl Rounding {
    pub(super) fn div(self) -> BinOp {
        match self {
            Rounding::Trunc => BinOp::Div,
            Rounding::Floor => BinOp::FloorDiv,
        }
    }

    pub(super) fn rem(self) -> BinOp {
        match self {
            Rounding::Trunc => BinOp::Mod,
            Rounding::Floor => BinOp::FloorMod,
        }
    }
}

/// `(index % upper) / lower * scale`. `upper` is a multiple of `lower`; [`POS_INF`] means that there is no modulus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::arith) struct Split {
    pub(super) index: ExprId,
    pub(super) lower: i64,
    pub(super) upper: i64,
    pub(super) scale: i64,
    pub(super) rounding: Rounding,
}

impl Split {
    /// The whole of an index.
    pub(super) fn whole(index: ExprId) -> Split {
        Split { index, lower: 1, upper: POS_INF, scale: 1, rounding: Rounding::Trunc }
    }

    /// Whether the split rounds in this way, or has no rounding.
    pub(super) fn rounds_as(&self, rounding: Rounding) -> bool {
        self.rounding == rounding || (self.lower == 1 && self.upper == POS_INF)
    }

    /// The split as an expression, multiplied by `sign`.
    pub(super) fn to_expr(self, a: &mut Arena, sign: i64) -> ExprId {
        let dtype = a.dtype(self.index);
        if self.scale == 0 {
            return a.int(0, dtype);
        }
        let mut e = self.index;
        if self.upper != POS_INF {
            let c = a.int(self.upper, dtype);
            e = a.binary(self.rounding.rem(), e, c);
        }
        if self.lower != 1 {
            let c = a.int(self.lower, dtype);
            e = a.binary(self.rounding.div(), e, c);
        }
        // The scale fits its type; the most negative scale has no opposite and wraps to itself.
        let scale = self.scale.wrapping_mul(sign);
        if scale != 1 { a.mul_const(e, scale) } else { e }
    }

    fn sort_key(&self) -> impl Ord + use<> {
        use std::cmp::Reverse;
        (Reverse(self.scale), Reverse(self.lower), Reverse(self.upper), Reverse(self.rounding))
    }
}

/// `args[0] + … + base`. Terms of the same index are adjacent, by descending `lower`.
#[derive(Clone, Debug)]
pub(in crate::arith) struct Sum {
    pub(super) args: SmallVec<[Split; 4]>,
    pub(super) base: i64,
    pub(super) dtype: DType,
}

impl Sum {
    /// A constant.
    pub(super) fn constant(base: i64, dtype: DType) -> Sum {
        Sum { args: SmallVec::new(), base, dtype }
    }

    /// Whether the sum is the constant 0.
    pub(super) fn is_zero(&self) -> bool {
        self.base == 0 && self.args.is_empty()
    }

    /// All terms times `scale`; `None` where a constant leaves the type.
    pub(super) fn scaled(mut self, scale: i64) -> Option<Sum> {
        self.base = checked(self.base.checked_mul(scale), self.dtype)?;
        for arg in &mut self.args {
            arg.scale = checked(arg.scale.checked_mul(scale), self.dtype)?;
        }
        Some(self)
    }

    /// All terms divided by `scale`, which must divide them.
    pub(super) fn divided(mut self, scale: i64) -> Sum {
        debug_assert_eq!(self.base % scale, 0, "the base is divisible");
        self.base /= scale;
        for arg in &mut self.args {
            debug_assert_eq!(arg.scale % scale, 0, "the scales are divisible");
            arg.scale /= scale;
        }
        self
    }

    /// Adds a constant.
    pub(super) fn add_constant(&mut self, value: i64) -> Option<()> {
        self.base = checked(self.base.checked_add(value), self.dtype)?;
        Some(())
    }

    /// Adds a term times `sign`, keeping the order.
    pub(super) fn add_split(&mut self, mut split: Split, sign: i64) -> Option<()> {
        if split.scale == 0 {
            return Some(());
        }
        split.scale = checked(split.scale.checked_mul(sign), self.dtype)?;
        let start = self.args.iter().position(|arg| arg.index == split.index).unwrap_or(self.args.len());
        for j in start..self.args.len() {
            let arg = self.args[j];
            if arg.index != split.index || split.lower > arg.lower {
                self.args.insert(j, split);
                return Some(());
            }
            if split.lower == arg.lower && split.upper == arg.upper && split.rounds_as(arg.rounding) {
                self.args[j].scale = checked(arg.scale.checked_add(split.scale), self.dtype)?;
                return Some(());
            }
        }
        self.args.push(split);
        Some(())
    }

    /// Adds the terms of another sum times `sign`.
    pub(super) fn add_sum(&mut self, other: &Sum, sign: i64) -> Option<()> {
        for &arg in &other.args {
            self.add_split(arg, sign)?;
        }
        self.add_constant(other.base.checked_mul(sign)?)
    }

    /// The terms that `divisor` divides, and the others.
    pub(super) fn separate(&self, divisor: i64) -> (Sum, Sum) {
        let (mut divisible, mut rest) = (Sum::constant(0, self.dtype), Sum::constant(0, self.dtype));
        if self.base % divisor == 0 {
            divisible.base = self.base;
        } else {
            rest.base = self.base;
        }
        for &arg in &self.args {
            if arg.scale % divisor == 0 {
                divisible.args.push(arg);
            } else {
                rest.args.push(arg);
            }
        }
        (divisible, rest)
    }

    /// As an expression: positive terms by descending scale, the constant, negative terms.
    pub(super) fn to_expr(&self, a: &mut Arena) -> ExprId {
        if self.args.is_empty() {
            return a.int(self.base, self.dtype);
        }
        let mut args = self.args.clone();
        merge_adjacent(&mut args);
        args.sort_by_key(Split::sort_key);
        // The most negative constant has no opposite to subtract.
        let add_base = self.base > 0 || !fits(self.base.wrapping_neg(), self.dtype) || self.base == i64::MIN;
        let mut e = a.int(0, self.dtype);
        for arg in args.iter().filter(|arg| arg.scale > 0) {
            let term = arg.to_expr(a, 1);
            e = a.add(e, term);
        }
        if add_base {
            e = a.add_const(e, self.base);
        }
        for arg in args.iter().filter(|arg| arg.scale < 0) {
            let term = arg.to_expr(a, -1);
            e = a.sub(e, term);
        }
        if self.base < 0 && !add_base {
            let c = a.int(-self.base, self.dtype);
            e = a.sub(e, c);
        }
        e
    }
}

/// Puts splits of one index together: `(x // (c*s)) * s + (x // c) % s` is `x // c`.
fn merge_adjacent(args: &mut [Split]) {
    for i in 0..args.len() {
        if args[i].scale == 0 {
            continue;
        }
        for j in i + 1..args.len() {
            let (l, r) = (args[i], args[j]);
            if l.index != r.index || l.upper < r.lower {
                break;
            }
            if l.upper == r.upper && l.lower == r.lower && l.rounds_as(r.rounding) {
                let Some(scale) = l.scale.checked_add(r.scale) else { break };
                args[j].scale = scale;
                args[i].scale = 0;
            } else if l.lower == r.upper
                && r.scale != 0
                && l.scale % r.scale == 0
                && (l.scale / r.scale).checked_mul(r.lower) == Some(l.lower)
                && l.rounds_as(r.rounding)
            {
                args[j].upper = l.upper;
                args[i].scale = 0;
                break;
            }
        }
    }
}

fn checked(value: Option<i64>, dtype: DType) -> Option<i64> {
    value.filter(|&v| fits(v, dtype))
}
