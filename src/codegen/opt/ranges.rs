//! Where the values of index expressions lie.

use crate::ir::BinOp;
use crate::ir::expr::FxBuild;
use crate::loopir::{Affine, Arena, Expr, ExprId, Ty, VarId};
use hashbrown::HashMap;

/// All integers from `lo` to `hi`; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub lo: i64,
    pub hi: i64,
}

impl Range {
    /// One value.
    pub fn point(v: i64) -> Range {
        Range { lo: v, hi: v }
    }

    fn of_wide(lo: i128, hi: i128) -> Option<Range> {
        Some(Range { lo: i64::try_from(lo).ok()?, hi: i64::try_from(hi).ok()? })
    }

    fn is_within(self, lo: i64, hi: i64) -> bool {
        lo <= self.lo && self.hi <= hi
    }

    /// Are all values in `0..n`?
    pub fn is_below(self, n: i64) -> bool {
        n > 0 && self.is_within(0, n - 1)
    }
}

/// What is known of the variables of a kernel. Variables are bound once, so what was found stays true.
#[derive(Default)]
pub(super) struct Ranges {
    vars: HashMap<VarId, Range, FxBuild>,
    memo: HashMap<ExprId, Option<Range>, FxBuild>,
}

impl Ranges {
    /// Says where a variable lies, before anything asks.
    pub fn set(&mut self, var: VarId, range: Range) {
        self.vars.insert(var, range);
    }

    /// Where an `int64` expression lies, if it is known to.
    pub fn get(&mut self, arena: &Arena, e: ExprId) -> Option<Range> {
        match arena.expr(e) {
            Expr::Int(v) => return Some(Range::point(v)),
            Expr::Var(v) => return self.vars.get(&v).copied(),
            _ if arena.ty(e) != Ty::INDEX => return None,
            _ => {}
        }
        if let Some(&known) = self.memo.get(&e) {
            return known;
        }
        let range = self.compute(arena, e);
        self.memo.insert(e, range);
        range
    }

    fn compute(&mut self, arena: &Arena, e: ExprId) -> Option<Range> {
        match arena.expr(e) {
            Expr::Binary(op, a, b) => {
                let (x, y) = (self.get(arena, a)?, self.get(arena, b)?);
                let (xl, xh, yl, yh) = (x.lo as i128, x.hi as i128, y.lo as i128, y.hi as i128);
                match op {
                    BinOp::Add => Range::of_wide(xl + yl, xh + yh),
                    BinOp::Sub => Range::of_wide(xl - yh, xh - yl),
                    BinOp::Mul => {
                        let corners = [xl * yl, xl * yh, xh * yl, xh * yh];
                        Range::of_wide(*corners.iter().min()?, *corners.iter().max()?)
                    }
                    BinOp::Min => Some(Range { lo: x.lo.min(y.lo), hi: x.hi.min(y.hi) }),
                    BinOp::Max => Some(Range { lo: x.lo.max(y.lo), hi: x.hi.max(y.hi) }),
                    BinOp::FloorDiv if y.lo == y.hi && y.lo > 0 => {
                        Some(Range { lo: x.lo.div_euclid(y.lo), hi: x.hi.div_euclid(y.lo) })
                    }
                    BinOp::Div if y.lo == y.hi && y.lo > 0 && x.lo >= 0 => {
                        Some(Range { lo: x.lo / y.lo, hi: x.hi / y.lo })
                    }
                    BinOp::FloorMod if y.lo == y.hi && y.lo > 0 => {
                        if x.is_below(y.lo) {
                            Some(x)
                        } else {
                            Some(Range { lo: 0, hi: y.lo - 1 })
                        }
                    }
                    BinOp::Mod if y.lo == y.hi && y.lo > 0 && x.lo >= 0 => {
                        Some(Range { lo: 0, hi: (y.lo - 1).min(x.hi) })
                    }
                    BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod | BinOp::And | BinOp::Or => None,
                }
            }
            Expr::Select(_, t, o) | Expr::IfThenElse(_, t, o) => {
                let (x, y) = (self.get(arena, t)?, self.get(arena, o)?);
                Some(Range { lo: x.lo.min(y.lo), hi: x.hi.max(y.hi) })
            }
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Var(_)
            | Expr::Local(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Load(..)
            | Expr::Call(..)
            | Expr::Broadcast(_)
            | Expr::Ramp(..)
            | Expr::Pack(_)
            | Expr::Extract(..)
            | Expr::Reduce(..) => None,
        }
    }

    /// Where an affine view lies. Narrower than [`Ranges::get`] of the expression, where terms cancel.
    pub fn of_affine(&mut self, arena: &Arena, affine: &Affine) -> Option<Range> {
        let (mut lo, mut hi) = (affine.constant as i128, affine.constant as i128);
        for &(atom, c) in &affine.terms {
            let r = self.get(arena, atom)?;
            let (x, y) = (r.lo as i128 * c as i128, r.hi as i128 * c as i128);
            lo += x.min(y);
            hi += x.max(y);
        }
        Range::of_wide(lo, hi)
    }
}
