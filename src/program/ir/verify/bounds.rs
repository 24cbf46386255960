//! Exact ranges of index expressions, which prove that a value *is* reached, not just that it may be.
//!
//! The domain of every visible variable is an arithmetic progression, the domains are independent of each other, and
//! guards only narrow single variables; then the ends of a range computed here are values of instances that run.
//! Otherwise (two iterations bound to one loop, guards over sums, loads) the range is unknown, and unknown ranges prove
//! nothing.

use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp};
use crate::ir::scalar::int::floor_div;

/// The values `lo`, `lo + step`, …, `hi`, all of which are reached; if `step` is 0, only the two ends are known to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub lo: i64,
    pub hi: i64,
    step: i64,
}

impl Range {
    /// All integers from `lo` to `hi`.
    pub(super) fn dense(lo: i64, hi: i64) -> Range {
        Range { lo, hi, step: 1 }
    }

    /// The values `lo`, `lo + step`, …, `n` in all; `None` on overflow.
    pub(super) fn stepped(lo: i64, n: i64, step: i64) -> Option<Range> {
        let hi = (n - 1).checked_mul(step)?.checked_add(lo)?;
        Some(Range { lo, hi, step: if n > 1 { step } else { 1 } })
    }

    /// The values from `lo` to `hi`; `None` if there are none, or the new ends are not known to be reached.
    pub(super) fn intersect(self, lo: i64, hi: i64) -> Option<Range> {
        if lo <= self.lo && self.hi <= hi {
            return Some(self);
        }
        let both = (self.lo.max(lo), self.hi.min(hi));
        (self.step == 1 && both.0 <= both.1).then(|| Range::dense(both.0, both.1))
    }

    fn constant(v: i64) -> Range {
        Range::dense(v, v)
    }

    fn is_constant(self) -> bool {
        self.lo == self.hi
    }

    fn add(self, o: Range) -> Option<Range> {
        let (lo, hi) = (self.lo.checked_add(o.lo)?, self.hi.checked_add(o.hi)?);
        let step = match (self.is_constant(), o.is_constant()) {
            (true, _) => o.step,
            (_, true) => self.step,
            _ => combined_step(self, o).or_else(|| combined_step(o, self)).unwrap_or(0),
        };
        Some(Range { lo, hi, step })
    }

    fn scale(self, factor: i64) -> Option<Range> {
        let (a, b) = (self.lo.checked_mul(factor)?, self.hi.checked_mul(factor)?);
        let step = if factor == 0 { 1 } else { self.step.checked_mul(factor.checked_abs()?)? };
        Some(Range { lo: a.min(b), hi: a.max(b), step })
    }
}

/// The step of a sum in which `fine` fills the gaps of `coarse`.
fn combined_step(coarse: Range, fine: Range) -> Option<i64> {
    let fits = fine.step > 0 && coarse.step > 0 && coarse.step % fine.step == 0;
    let reach = fine.hi.checked_sub(fine.lo)?.checked_add(fine.step)?;
    (fits && coarse.step <= reach).then_some(fine.step)
}

/// The known ranges of variables at a place of the program.
#[derive(Clone, Default)]
pub(super) struct Ranges {
    /// The range of each variable; absent or `None` if unknown.
    vars: Vec<Option<Range>>,
    /// Whether a condition that is not understood decides whether the place is reached.
    pub doubtful: bool,
}

impl Ranges {
    /// The range of a variable.
    pub(super) fn var(&self, v: VarId) -> Option<Range> {
        self.vars.get(v.index()).copied().flatten()
    }

    /// Sets the range of a variable; returns the old one.
    pub(super) fn set(&mut self, v: VarId, range: Option<Range>) -> Option<Range> {
        if self.vars.len() <= v.index() {
            self.vars.resize(v.index() + 1, None);
        }
        std::mem::replace(&mut self.vars[v.index()], range)
    }

    /// The range of an expression in which each variable occurs once.
    pub(super) fn of(&self, arena: &Arena, e: ExprId) -> Option<Range> {
        let mut mentioned = Vec::new();
        self.range(arena, e, &mut mentioned)
    }

    fn range(&self, arena: &Arena, e: ExprId, mentioned: &mut Vec<VarId>) -> Option<Range> {
        let dtype = arena.dtype(e);
        let range = match arena.expr(e) {
            Expr::Int(v) => Range::constant(v),
            Expr::Var(v) => {
                if mentioned.contains(&v) {
                    return None;
                }
                mentioned.push(v);
                self.var(v)?
            }
            Expr::Cast(a) if arena.dtype(a).is_integer() => self.range(arena, a, mentioned)?,
            // The elements that a vector index selects.
            Expr::Broadcast(a) => self.range(arena, a, mentioned)?,
            Expr::Ramp(base, stride) => {
                let reach = arena.as_int(stride)?.checked_mul(i64::from(arena.lanes(e)) - 1)?;
                let steps = Range { lo: reach.min(0), hi: reach.max(0), step: arena.as_int(stride)?.abs() };
                self.range(arena, base, mentioned)?.add(steps)?
            }
            Expr::Binary(op, a, b) => {
                let (x, y) = (self.range(arena, a, mentioned)?, self.range(arena, b, mentioned)?);
                match op {
                    BinOp::Add => x.add(y)?,
                    BinOp::Sub => x.add(y.scale(-1)?)?,
                    BinOp::Mul if y.is_constant() => x.scale(y.lo)?,
                    BinOp::Mul if x.is_constant() => y.scale(x.lo)?,
                    BinOp::FloorDiv if y.is_constant() && y.lo > 0 => {
                        let step = if x.step == 1 { 1 } else { 0 };
                        Range { lo: floor_div(x.lo, y.lo)?, hi: floor_div(x.hi, y.lo)?, step }
                    }
                    BinOp::FloorMod if y.is_constant() && y.lo > 0 && x.step == 1 => {
                        if floor_div(x.lo, y.lo)? == floor_div(x.hi, y.lo)? {
                            Range::dense(x.lo.rem_euclid(y.lo), x.hi.rem_euclid(y.lo))
                        } else if x.hi.checked_sub(x.lo)? >= y.lo - 1 {
                            Range::dense(0, y.lo - 1)
                        } else {
                            return None;
                        }
                    }
                    BinOp::Min if y.is_constant() || x.is_constant() => {
                        Range { lo: x.lo.min(y.lo), hi: x.hi.min(y.hi), step: 0 }
                    }
                    BinOp::Max if y.is_constant() || x.is_constant() => {
                        Range { lo: x.lo.max(y.lo), hi: x.hi.max(y.hi), step: 0 }
                    }
                    BinOp::Mul
                    | BinOp::FloorDiv
                    | BinOp::FloorMod
                    | BinOp::Min
                    | BinOp::Max
                    | BinOp::Div
                    | BinOp::Mod
                    | BinOp::And
                    | BinOp::Or => return None,
                }
            }
            Expr::Float(_)
            | Expr::Str(_)
            | Expr::Cast(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Load(..)
            | Expr::BufferData(_)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => return None,
        };
        // Arithmetic wraps, ranges do not.
        (dtype.wrap(range.lo) == range.lo && dtype.wrap(range.hi) == range.hi).then_some(range)
    }

    /// Narrows the ranges under the assumption that a condition holds (or, with `holds` false, does not).
    pub(super) fn assume(&mut self, arena: &Arena, condition: ExprId, holds: bool) {
        match arena.expr(condition) {
            Expr::Int(v) if (v != 0) == holds => {}
            Expr::Not(a) => self.assume(arena, a, !holds),
            Expr::Binary(BinOp::And, a, b) if holds => {
                self.assume(arena, a, true);
                self.assume(arena, b, true);
            }
            Expr::Binary(BinOp::Or, a, b) if !holds => {
                self.assume(arena, a, false);
                self.assume(arena, b, false);
            }
            Expr::Compare(op, a, b) => {
                let op = if holds { op } else { op.negated() };
                let narrowed = match (arena.as_var(a), arena.as_int(b), arena.as_int(a), arena.as_var(b)) {
                    (Some(v), Some(c), _, _) => self.narrow(v, op, c),
                    (_, _, Some(c), Some(v)) => self.narrow(v, op.swapped(), c),
                    _ => None,
                };
                if narrowed.is_none() {
                    self.doubtful = true;
                }
            }
            _ => self.doubtful = true,
        }
    }

    fn narrow(&mut self, v: VarId, op: CmpOp, c: i64) -> Option<()> {
        let r = self.var(v).filter(|r| r.step == 1)?;
        let (lo, hi) = match op {
            CmpOp::Lt => (r.lo, r.hi.min(c.checked_sub(1)?)),
            CmpOp::Le => (r.lo, r.hi.min(c)),
            CmpOp::Gt => (r.lo.max(c.checked_add(1)?), r.hi),
            CmpOp::Ge => (r.lo.max(c), r.hi),
            CmpOp::Eq => (r.lo.max(c), r.hi.min(c)),
            CmpOp::Ne => return None,
        };
        if lo > hi {
            // The code below never runs.
            return None;
        }
        self.set(v, Some(Range::dense(lo, hi)));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    #[test]
    fn ends_are_reached() {
        let mut a = Arena::new();
        let (vi, i) = a.new_var_expr("i", DType::Int32);
        let (vj, j) = a.new_var_expr("j", DType::Int32);
        let mut r = Ranges::default();
        r.set(vi, Some(Range::dense(0, 7)));
        r.set(vj, Some(Range::dense(0, 15)));
        let scaled = a.mul_const(i, 16);
        let sum = a.add(scaled, j);
        assert_eq!(r.of(&a, sum), Some(Range::dense(0, 127)));
        let c5 = a.int32(5);
        let q = a.floor_div(sum, c5);
        assert_eq!(r.of(&a, q), Some(Range::dense(0, 25)));
        let m = a.floor_mod(sum, c5);
        assert_eq!(r.of(&a, m), Some(Range::dense(0, 4)));
        let twice = a.add(i, i);
        assert_eq!(r.of(&a, twice), None, "two mentions are not independent");
        let back = a.sub(j, scaled);
        assert_eq!(r.of(&a, back).map(|r| (r.lo, r.hi)), Some((-112, 15)));
        let fine = a.mul_const(i, 32);
        let holes = a.add(fine, j);
        assert_eq!(r.of(&a, holes), Some(Range { lo: 0, hi: 239, step: 0 }));
    }

    #[test]
    fn conditions_narrow() {
        let mut a = Arena::new();
        let (vi, i) = a.new_var_expr("i", DType::Int32);
        let (one, nine) = (a.int32(1), a.int32(9));
        let lo = a.compare(CmpOp::Le, one, i);
        let hi = a.lt(i, nine);
        let both = a.and(lo, hi);
        let mut r = Ranges::default();
        r.set(vi, Some(Range::dense(0, 20)));
        let mut inside = r.clone();
        inside.assume(&a, both, true);
        assert_eq!((inside.var(vi), inside.doubtful), (Some(Range::dense(1, 8)), false));
        let mut outside = r.clone();
        outside.assume(&a, both, false);
        assert!(outside.doubtful, "the complement of an interval is none");
        let mut above = r;
        above.assume(&a, hi, false);
        assert_eq!((above.var(vi), above.doubtful), (Some(Range::dense(9, 20)), false));
    }
}
