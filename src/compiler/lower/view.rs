//! Splits index sums into digits of loop variables, which tell the elements that an access reaches, and the iterations.

use crate::ir::BinOp;
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Affine, Arena, Expr, ExprId, Range, Ranges, VarId};
use smallvec::SmallVec;

/// `(var // low) % size`: a part of a loop's counter, as splits of fused loops produce it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digit {
    pub var: VarId,
    pub low: i64,
    pub size: i64,
    /// Whether the digit includes the top of the counter.
    top: bool,
}

/// A term of an index sum as a digit.
pub(super) fn digit(arena: &Arena, ranges: &Ranges, atom: ExprId) -> Option<Digit> {
    match arena.expr(atom) {
        Expr::Var(var) => {
            let range = ranges.var(var).filter(|r| r.lo == 0)?;
            Some(Digit { var, low: 1, size: range.size()?, top: true })
        }
        Expr::Binary(op @ (BinOp::FloorDiv | BinOp::FloorMod), x, c) => {
            let c = arena.as_int(c).filter(|&c| c > 0)?;
            let d = digit(arena, ranges, x)?;
            match op {
                BinOp::FloorDiv if d.size % c == 0 || d.top => {
                    Some(Digit { low: d.low.checked_mul(c)?, size: (d.size - 1) / c + 1, ..d })
                }
                BinOp::FloorMod if c >= d.size => Some(d),
                BinOp::FloorMod if d.size % c == 0 || d.top => Some(Digit { size: c, top: false, ..d }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the digits together determine the counter: every part of it appears.
pub(super) fn determine(ranges: &Ranges, var: VarId, digits: &[Digit]) -> bool {
    let Some(extent) = ranges.var(var).and_then(Range::size) else { return false };
    let mut known = 1;
    while known < extent {
        let ends = digits.iter().filter(|d| d.var == var && d.low == known).map(|d| d.low * d.size);
        match ends.max().filter(|&end| end > known) {
            Some(end) => known = end,
            None => return false,
        }
    }
    true
}

/// Whether every variable in the expression satisfies `is`, and no memory is read.
pub(super) fn only_over(arena: &Arena, e: ExprId, is: &mut impl FnMut(VarId) -> bool) -> bool {
    let mut only = true;
    for_each_expr(arena, e, &mut |e| match arena.expr(e) {
        Expr::Var(v) => only &= is(v),
        Expr::Load(..) | Expr::Local(_) => only = false,
        _ => {}
    });
    only
}

/// An index split at a place in the loop nest: a sum over the outer loops, and the range of the rest.
pub(super) struct Split {
    /// The sum over the outer loops, without a constant.
    pub outer: Affine,
    /// The range of the rest, including the constant.
    pub inner: Range,
    /// The terms over the inner loops.
    pub terms: SmallVec<[(ExprId, i64); 4]>,
}

/// Splits an index; `None` if a term mixes both kinds of loops, or has no bounds.
pub(super) fn split(
    arena: &Arena,
    ranges: &mut Ranges,
    index: ExprId,
    is_outer: &mut impl FnMut(VarId) -> bool,
) -> Option<Split> {
    let sum = Affine::of(arena, index);
    let mut parts = Split { outer: Affine::default(), inner: Range::point(sum.constant), terms: SmallVec::new() };
    for &(atom, c) in &sum.terms {
        if only_over(arena, atom, is_outer) {
            parts.outer.add_term(atom, c);
            continue;
        }
        // A term over both kinds of loops belongs to neither side.
        if !only_over(arena, atom, &mut |v| !is_outer(v)) && !reads_memory_only(arena, atom, is_outer) {
            return None;
        }
        parts.inner = parts.inner.plus(ranges.of(arena, atom).times(c));
        parts.terms.push((atom, c));
    }
    parts.inner.size()?;
    Some(parts)
}

/// Whether the expression mentions no outer loop. It may read memory.
fn reads_memory_only(arena: &Arena, e: ExprId, is_outer: &mut impl FnMut(VarId) -> bool) -> bool {
    let mut none = true;
    for_each_expr(arena, e, &mut |e| {
        if let Expr::Var(v) = arena.expr(e) {
            none &= !is_outer(v);
        }
    });
    none
}

/// The digits of the terms, if the terms take every value of their range.
pub(super) fn is_dense(arena: &Arena, ranges: &Ranges, terms: &[(ExprId, i64)]) -> Option<SmallVec<[Digit; 4]>> {
    let mut digits: SmallVec<[(i64, Digit); 4]> = SmallVec::new();
    for &(atom, c) in terms {
        if c <= 0 {
            return None;
        }
        digits.push((c, digit(arena, ranges, atom)?));
    }
    digits.sort_by_key(|d| d.0);
    let mut covered = 1i64;
    for (c, d) in &digits {
        if *c > covered {
            return None;
        }
        covered = covered.checked_add(c.checked_mul(d.size - 1)?)?;
    }
    Some(digits.into_iter().map(|d| d.1).collect())
}

/// Whether the digits vary independently of each other.
pub(super) fn are_independent(ranges: &Ranges, digits: &[Digit]) -> bool {
    digits.iter().enumerate().all(|(i, d)| {
        let others: SmallVec<[&Digit; 4]> =
            digits.iter().enumerate().filter(|(j, o)| *j != i && o.var == d.var).map(|(_, o)| o).collect();
        if others.is_empty() {
            return true;
        }
        // Parts of one counter must not overlap, and must divide it exactly.
        let whole = ranges.var(d.var).and_then(Range::size);
        let divides = whole.is_some_and(|n| n % d.low == 0 && n % (d.low * d.size) == 0);
        divides && others.iter().all(|o| o.low * o.size <= d.low || d.low * d.size <= o.low)
    })
}
