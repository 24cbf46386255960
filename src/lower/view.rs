//! Index sums seen as digits of loop variables: what tells which elements an access reaches, and from which iterations.

use crate::ir::BinOp;
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Affine, Arena, Expr, ExprId, Range, Ranges, VarId};
use smallvec::SmallVec;

/// `(var // low) % size`: part of a loop's counter, as splits of fused loops make them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digit {
    pub var: VarId,
    pub low: i64,
    pub size: i64,
    /// Does it reach to the top of the counter?
    top: bool,
}

/// The digit that a term of an index sum is.
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

/// Do the digits together tell the counter: does every part of it appear?
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

/// Is every variable in the expression one for which `is` holds, and is no memory read?
pub(super) fn only_over(arena: &Arena, e: ExprId, is: &mut impl FnMut(VarId) -> bool) -> bool {
    let mut only = true;
    for_each_expr(arena, e, &mut |e| match arena.expr(e) {
        Expr::Var(v) => only &= is(v),
        Expr::Load(..) | Expr::Local(_) => only = false,
        _ => {}
    });
    only
}

/// An index split at a place in the loop nest: a sum over the loops outside, and where the rest lies.
pub(super) struct Split {
    /// Without constant.
    pub outer: Affine,
    /// With the constant.
    pub inner: Range,
    /// The terms inside.
    pub terms: SmallVec<[(ExprId, i64); 4]>,
}

/// Splits an index; `None` if some term mixes both sides, or has no bounds.
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
        // A term over both kinds of loops has no place on either side.
        if !only_over(arena, atom, &mut |v| !is_outer(v)) && !reads_memory_only(arena, atom, is_outer) {
            return None;
        }
        parts.inner = parts.inner.plus(ranges.of(arena, atom).times(c));
        parts.terms.push((atom, c));
    }
    parts.inner.size()?;
    Some(parts)
}

/// Does the expression mention no outer loop, whatever memory it reads?
fn reads_memory_only(arena: &Arena, e: ExprId, is_outer: &mut impl FnMut(VarId) -> bool) -> bool {
    let mut none = true;
    for_each_expr(arena, e, &mut |e| {
        if let Expr::Var(v) = arena.expr(e) {
            none &= !is_outer(v);
        }
    });
    none
}

/// Do the terms take every value of their range? Gives the digits that they are.
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

/// Do the digits vary independently of each other?
pub(super) fn are_independent(ranges: &Ranges, digits: &[Digit]) -> bool {
    digits.iter().enumerate().all(|(i, d)| {
        let others: SmallVec<[&Digit; 4]> =
            digits.iter().enumerate().filter(|(j, o)| *j != i && o.var == d.var).map(|(_, o)| o).collect();
        if others.is_empty() {
            return true;
        }
        // Parts of one counter: they must not overlap, and divide it exactly.
        let whole = ranges.var(d.var).and_then(Range::size);
        let divides = whole.is_some_and(|n| n % d.low == 0 && n % (d.low * d.size) == 0);
        divides && others.iter().all(|o| o.low * o.size <= d.low || d.low * d.size <= o.low)
    })
}
