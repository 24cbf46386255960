//! Converts sums of splits back into expressions.

use super::{IterMark, IterSplit, IterSum, MarkSource};
use crate::arith::analyzer::Analyzer;
use crate::ir::expr::{Arena, ExprId};
use crate::ir::op::CmpOp;

/// The expression of a sum.
pub(super) fn sum_to_expr(a: &mut Arena, analyzer: &mut Analyzer, marks: &[IterMark], sum: &IterSum) -> ExprId {
    let mut e = a.int(0, a.dtype(sum.base));
    for split in &sum.args {
        let term = split_to_expr(a, analyzer, marks, split);
        e = a.add(e, term);
    }
    a.add(e, sum.base)
}

/// The expression of a split.
pub(super) fn split_to_expr(a: &mut Arena, analyzer: &mut Analyzer, marks: &[IterMark], split: &IterSplit) -> ExprId {
    let mark = &marks[split.mark.index()];
    let source = match &mark.source {
        MarkSource::Expr(e) => *e,
        MarkSource::Sum(sum) => sum_to_expr(a, analyzer, marks, sum),
    };
    let mut proves = |a: &mut Arena, x: ExprId, y: ExprId| {
        let equal = a.compare(CmpOp::Eq, x, y);
        analyzer.can_prove(a, equal)
    };
    if proves(a, split.extent, mark.extent) && a.is_int(split.lower_factor, 1) {
        return a.mul(source, split.scale);
    }
    let whole = a.mul(split.lower_factor, split.extent);
    let turned = a.mul(split.extent, split.lower_factor);
    if proves(a, mark.extent, whole) || proves(a, mark.extent, turned) {
        // A part with one value is 0, unless the iterator itself has one value: unit iterators stay visible.
        if a.is_int(split.extent, 1) && !a.is_int(mark.extent, 1) {
            return a.int(0, a.dtype(split.extent));
        }
        let part = a.floor_div(source, split.lower_factor);
        return a.mul(part, split.scale);
    }
    let whole = analyzer.canonical_simplify(a, turned);
    let part = a.floor_mod(source, whole);
    let part = a.floor_div(part, split.lower_factor);
    a.mul(part, split.scale)
}
