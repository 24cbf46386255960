//! Multiversions a body: one version for all values of an index but the last, and one for the last. This is what
//! `partition` does for loops that cannot be split.
//!
//! ```text
//! for f in 33 parallel: for i in 12: if f % 11 * 12 + i < 127: S(f % 11, i)
//! // becomes
//! for f in 33 parallel:
//!     if f % 11 < 10: for i in 12: S(f % 11, i)
//!     else: for i in 12: if 120 + i < 127: S(10, i)
//! ```
//!
//! A parallel loop is not split, and if it was fused from several loops, its predicates use quotients and remainders of
//! its variable. The index is any part of a comparison that depends on that variable alone.

use super::partition::{Partition, is_comparison, may_copy};
use crate::codegen::facts::{is_speculable, reads_state};
use crate::ir::CmpOp;
use crate::loopir::rewrite::{
    ExprMap, Substitution, for_each_expr, for_each_operand, map_expr, map_operands, mentions_var,
};
use crate::loopir::{Affine, Arena, Body, ExprId, For, Kernel, Range, Stmt};

/// Maximum nesting of versions: one for rows, one for columns.
const MAX_DEPTH: usize = 2;

impl Partition {
    /// The body of a loop, multiversioned if that decides its predicates; each version is partitioned.
    pub(super) fn multiversion(&mut self, kernel: &mut Kernel, l: &For, body: Body, depth: usize) -> Body {
        let found = if depth < MAX_DEPTH && may_copy(kernel, &For { body, ..*l }, 2) {
            self.index_to_decide(kernel, l, body)
        } else {
            None
        };
        let Some((index, last)) = found else { return self.body(kernel, body) };
        self.changed = true;
        let copy = Substitution::default().copy(kernel, body);
        self.set_ranges(kernel, copy);
        let others = self.decided(kernel, body, index, last);
        let at_last = kernel.arena.index(last);
        let otherwise = replaced(kernel, copy, &mut ExprMap::from_iter([(index, at_last)]));
        let condition = kernel.arena.compare(CmpOp::Lt, index, at_last);
        let then = self.multiversion(kernel, l, others, depth + 1);
        let otherwise = self.multiversion(kernel, l, otherwise, depth + 1);
        kernel.stmts.single(Stmt::If { condition, then, otherwise })
    }

    /// An expression of the loop's variable alone, starting at 0, whose last value decides a comparison.
    fn index_to_decide(&mut self, kernel: &Kernel, l: &For, body: Body) -> Option<(ExprId, i64)> {
        let arena = &kernel.arena;
        for e in comparisons(kernel, body) {
            let Some((_, difference)) = difference(arena, e) else { continue };
            for &(index, _) in &difference.terms {
                let Range { lo: 0, hi } = self.ranges.of(arena, index) else { continue };
                let is_of_loop =
                    mentions_var(arena, index, &mut |v| v == l.var) && !mentions_var(arena, index, &mut |v| v != l.var);
                // The index is evaluated at the start of the body: it must have the same value there, and must not stop
                // the kernel.
                if hi > 0
                    && is_of_loop
                    && is_speculable(arena, index)
                    && !reads_state(arena, index)
                    && self.decide(arena, e, index, Range { lo: 0, hi }).is_none()
                    && self.decide(arena, e, index, Range { lo: 0, hi: hi - 1 }).is_some()
                {
                    return Some((index, hi));
                }
            }
        }
        None
    }

    /// The body with those comparisons decided that are independent of the index's last value.
    fn decided(&mut self, kernel: &mut Kernel, body: Body, index: ExprId, last: i64) -> Body {
        let mut known = ExprMap::default();
        for e in comparisons(kernel, body) {
            if let Some(value) = self.decide(&kernel.arena, e, index, Range { lo: 0, hi: last - 1 }) {
                let value = kernel.arena.bool(value);
                known.insert(e, value);
            }
        }
        replaced(kernel, body, &mut known)
    }

    /// The outcome of a comparison while an index is in a range.
    fn decide(&mut self, arena: &Arena, e: ExprId, index: ExprId, range: Range) -> Option<bool> {
        let (op, mut rest) = difference(arena, e)?;
        let at = rest.terms.iter().position(|t| t.0 == index)?;
        let (_, c) = rest.terms.remove(at);
        let Range { lo, hi } = self.ranges.of_affine(arena, &rest).plus(range.times(c)).known()?;
        let (yes, no) = match op {
            CmpOp::Lt => (hi < 0, lo >= 0),
            CmpOp::Le => (hi <= 0, lo > 0),
            CmpOp::Gt => (lo > 0, hi <= 0),
            CmpOp::Ge => (lo >= 0, hi < 0),
            CmpOp::Eq | CmpOp::Ne => (false, false),
        };
        if yes || no { Some(yes) } else { None }
    }
}

fn difference(arena: &Arena, e: ExprId) -> Option<(CmpOp, Affine)> {
    let crate::loopir::Expr::Compare(op, a, b) = arena.expr(e) else { return None };
    Some((op, Affine::of(arena, a).minus(&Affine::of(arena, b))))
}

/// The distinct comparisons of indices in a body.
fn comparisons(kernel: &Kernel, body: Body) -> Vec<ExprId> {
    let arena = &kernel.arena;
    let mut found = Vec::new();
    kernel.for_each_stmt(body, &mut |_, stmt| {
        for_each_operand(stmt, |e| {
            for_each_expr(arena, e, &mut |e| {
                if is_comparison(arena, e) && !found.contains(&e) {
                    found.push(e);
                }
            });
        });
    });
    found
}

/// The body with some expressions replaced.
fn replaced(kernel: &mut Kernel, body: Body, by: &mut ExprMap) -> Body {
    kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let new = map_operands(stmt, |e| map_expr(&mut kernel.arena, e, by, &mut |_, _| None));
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    })
}
