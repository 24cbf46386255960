//! Finds computations in an expression that are worth a buffer of their own (TVM's `cache_index` uses its elimination
//! of common subexpressions, `src/tir/transform/common_subexpr_elim_tools.cc`).
//!
//! Candidates are the largest subexpressions that use variables and no buffers. A candidate that occurs less often than
//! the threshold is replaced by its operands. Computations that simplify to the same expression are equal.

use crate::arith::Analyzer;
use crate::ir::visit::uses_var;
use crate::ir::{Arena, BinOp, Expr, ExprId};
use hashbrown::HashMap;
use std::cmp::Reverse;

/// A computation, as it is first written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Computation {
    /// The expression.
    pub value: ExprId,
    /// The simplified expression, which identifies the computation.
    pub key: ExprId,
}

struct Candidate {
    found: Computation,
    count: usize,
    size: usize,
}

/// The computations that occur at least `threshold` times in `root`: larger ones first, equal ones in order.
pub(crate) fn shared_computations(a: &mut Arena, root: ExprId, threshold: usize) -> Vec<Computation> {
    let mut order = HashMap::new();
    number(a, root, &mut order);
    let mut open: Vec<Candidate> = Vec::new();
    add_largest(a, root, 1, &mut open);
    let mut kept: Vec<Candidate> = Vec::new();
    while let Some(largest) = (0..open.len()).max_by_key(|&n| (open[n].size, Reverse(n))) {
        let candidate = open.remove(largest);
        if candidate.count >= threshold {
            kept.push(candidate);
            continue;
        }
        let mut parts = Vec::new();
        a.for_each_child(candidate.found.value, |c| parts.push(c));
        for part in parts {
            // Occurrences inside a chosen computation do not count.
            let key = key_of(a, part);
            if kept.iter().all(|k| k.found.key != key) {
                add_largest(a, part, candidate.count, &mut open);
            }
        }
    }
    kept.sort_by_key(|c| (Reverse(c.size), order[&c.found.value]));
    kept.into_iter().map(|c| c.found).collect()
}

/// The simplified expression, valid for all values of its variables.
pub(crate) fn key_of(a: &mut Arena, e: ExprId) -> ExprId {
    Analyzer::new().simplify(a, e)
}

/// Whether the expression can be computed at another place and earlier, even if its value is not needed.
pub(crate) fn is_computation(a: &Arena, e: ExprId) -> bool {
    let is_leaf = matches!(a.expr(e), Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_));
    !is_leaf && uses_var(a, e, &mut |_| true) && is_harmless(a, e)
}

fn is_harmless(a: &Arena, e: ExprId) -> bool {
    match a.expr(e) {
        Expr::Load(..) | Expr::Let(..) | Expr::Str(_) | Expr::Builtin(..) => return false,
        _ if a.lanes(e) > 1 => return false,
        // A condition in the block may prevent a division by zero.
        Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod, _, by)
            if a.dtype(by).is_integer() && a.as_int(by).is_none_or(|v| v == 0) =>
        {
            return false;
        }
        _ => {}
    }
    let mut all = true;
    a.for_each_child(e, |c| all = all && is_harmless(a, c));
    all
}

/// Counts the largest computations of an expression, each `count` times.
fn add_largest(a: &mut Arena, e: ExprId, count: usize, open: &mut Vec<Candidate>) {
    if is_computation(a, e) {
        let key = key_of(a, e);
        match open.iter_mut().find(|c| c.found.key == key) {
            Some(known) => known.count += count,
            None => open.push(Candidate { found: Computation { value: e, key }, count, size: size(a, e) }),
        }
        return;
    }
    let mut children = Vec::new();
    a.for_each_child(e, |c| children.push(c));
    for c in children {
        add_largest(a, c, count, open);
    }
}

/// The number of operators, variables and constants.
fn size(a: &Arena, e: ExprId) -> usize {
    let mut n = 1;
    a.for_each_child(e, |c| n += size(a, c));
    n
}

/// Numbers the subexpressions in the order of their first occurrence.
fn number(a: &Arena, e: ExprId, order: &mut HashMap<ExprId, usize>) {
    let next = order.len();
    order.entry(e).or_insert(next);
    a.for_each_child(e, |c| number(a, c, order));
}
