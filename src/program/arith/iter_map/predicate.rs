//! Splits predicates into bounds of iterators.

use super::{IterMapError, VarRange};
use crate::arith::analyzer::Analyzer;
use crate::arith::int_set::{binary, uses_var};
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp};
use smallvec::SmallVec;

/// `lower <= iter < upper`, either of which may be missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constraint {
    pub(super) iter: ExprId,
    pub(super) lower: Option<ExprId>,
    pub(super) upper: Option<ExprId>,
    /// The number of nodes of `iter`.
    pub(super) size: usize,
}

/// Splits a conjunction of comparisons into constraints. Those of a single variable narrow its range instead.
pub(super) fn match_constraints(
    a: &mut Arena,
    predicate: ExprId,
    domain: &mut SmallVec<[VarRange; 8]>,
    constraints: &mut Vec<Constraint>,
) -> Result<(), IterMapError> {
    let failed = IterMapError::Predicate(predicate);
    let mut rest = Some(predicate);
    while let Some(e) = rest {
        let (op, x, y, more) = next_comparison(a, e).ok_or(failed)?;
        rest = more;
        if !a.dtype(x).is_integer() {
            return Err(failed);
        }
        let vars: SmallVec<[VarId; 8]> = domain.iter().map(|r| r.var).collect();
        let uses = |a: &Arena, e: ExprId| uses_var(a, e, &mut |v| vars.contains(&v));
        if !uses(a, x) && !uses(a, y) {
            continue;
        }
        let (iter, bound, op) = if !uses(a, x) {
            (y, x, op.swapped())
        } else if !uses(a, y) {
            (x, y, op)
        } else {
            // Terms with iterators go to the left, the others to the right.
            let difference = a.sub(x, y);
            let zero = a.int(0, a.dtype(x));
            let (mut left, mut right) = (zero, zero);
            separate(a, difference, true, &uses, &mut left, &mut right);
            let mut analyzer = Analyzer::new();
            (analyzer.simplify(a, left), analyzer.simplify(a, right), op)
        };
        let next = |a: &mut Arena| a.add_const(bound, 1);
        let (lower, upper) = match op {
            CmpOp::Lt => (None, Some(bound)),
            CmpOp::Le => (None, Some(next(a))),
            CmpOp::Gt => (Some(next(a)), None),
            CmpOp::Ge => (Some(bound), None),
            CmpOp::Eq | CmpOp::Ne => return Err(failed),
        };
        let range = a.as_var(iter).and_then(|v| domain.iter_mut().find(|r| r.var == v));
        let Some(range) = range else {
            constraints.push(Constraint { iter, lower, upper, size: size(a, iter) });
            continue;
        };
        let (mut min, mut end) = (range.min, a.add(range.min, range.extent));
        if let Some(lower) = lower {
            min = binary(a, BinOp::Max, min, lower);
        }
        if let Some(upper) = upper {
            end = binary(a, BinOp::Min, end, upper);
        }
        range.min = min;
        range.extent = if a.is_int(min, 0) { end } else { a.sub(end, min) };
    }
    Ok(())
}

/// The next ordering comparison of a conjunction, and the rest of the conjunction.
fn next_comparison(a: &Arena, e: ExprId) -> Option<(CmpOp, ExprId, ExprId, Option<ExprId>)> {
    let comparison = |e: ExprId, wanted: CmpOp| match a.expr(e) {
        Expr::Compare(op, x, y) if op == wanted => Some((x, y)),
        _ => None,
    };
    for op in [CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge] {
        if let Expr::Binary(BinOp::And, left, right) = a.expr(e) {
            if let Some((x, y)) = comparison(right, op) {
                return Some((op, x, y, Some(left)));
            }
            if let Some((x, y)) = comparison(left, op) {
                return Some((op, x, y, Some(right)));
            }
        } else if let Some((x, y)) = comparison(e, op) {
            return Some((op, x, y, None));
        }
    }
    None
}

fn separate(
    a: &mut Arena,
    part: ExprId,
    positive: bool,
    uses: &impl Fn(&Arena, ExprId) -> bool,
    left: &mut ExprId,
    right: &mut ExprId,
) {
    match a.expr(part) {
        Expr::Binary(BinOp::Add, x, y) => {
            separate(a, x, positive, uses, left, right);
            separate(a, y, positive, uses, left, right);
        }
        Expr::Binary(BinOp::Sub, x, y) => {
            separate(a, x, positive, uses, left, right);
            separate(a, y, !positive, uses, left, right);
        }
        _ if uses(a, part) => *left = if positive { a.add(*left, part) } else { a.sub(*left, part) },
        _ => *right = if positive { a.sub(*right, part) } else { a.add(*right, part) },
    }
}

fn size(a: &Arena, e: ExprId) -> usize {
    let mut n = 1;
    a.for_each_child(e, |c| n += size(a, c));
    n
}
