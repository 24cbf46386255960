//! Makes the checks of a loop before it, all of them at once.
//!
//! ```text
//! for j in 512 {
//!   check I[j] >= 0 && I[j] < 1024 else out_of_bounds(X)
//!   Y[j] = X[I[j]]
//! }
//! // becomes
//! fails[0] = 0
//! for j in 512 reduction: fails[0] = max(fails[0], select(I[j] >= 0 && I[j] < 1024, 0, 1))
//! check fails[0] == 0 else out_of_bounds(X)
//! for j in 512: Y[j] = X[I[j]]
//! ```
//!
//! Both loops can be vectorised. The checks of a nest whose inner loop is short are made before the nest. Conditions must read only elements that exist whether or not other conditions hold, and that the loop
//! does not write. If a check fails, stores that the loop would have made before it are missing, which nobody may rely on.

use super::machine::Machine;
use super::walk::{around, replace_nests};
use crate::codegen::facts::fails;
use crate::ir::{BinOp, CmpOp, DType};
use crate::loopir::rewrite::{Substitution, for_each_expr, mentions_var};
use crate::loopir::{
    Affine, BufferId, Expr, ExprId, Failure, For, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, VarId,
};
use smallvec::SmallVec;

/// Collects the checks of all innermost loops.
pub(super) fn collect_checks(kernel: &mut Kernel, machine: &Machine) {
    if machine.vectors.has_regions() {
        kernel.body = replace_nests(kernel, kernel.body, Placement::Shared, &mut collected);
    }
}

/// Minimum number of iterations for which it pays to look at the elements twice.
const SHORTEST: i64 = 4;
/// Number of iterations from which on a loop's checks are made before this loop, so that their elements are still in the
/// first cache, and not before the loops around it.
const LONG: i64 = 256;

/// Emits the checks of a loop, or of a perfect nest, and the loops without them; `false` if there are none, or they depend
/// on it.
fn collected(kernel: &mut Kernel, outer: &For, placement: Placement, out: &mut Vec<StmtId>) -> bool {
    let Some(loops) = nest(kernel, *outer) else { return false };
    let extents = || loops.iter().filter_map(|l| kernel.arena.as_int(l.extent));
    let innermost = extents().next_back().unwrap_or(0);
    if extents().product::<i64>() < SHORTEST || loops.len() > 1 && innermost >= LONG {
        return false;
    }
    let mut checks = SmallVec::<[(ExprId, Failure); 2]>::new();
    let (mut rest, mut written) = (Vec::new(), SmallVec::<[BufferId; 2]>::new());
    for &s in kernel.stmts.list(loops[loops.len() - 1].body) {
        match kernel.stmts.get(s) {
            // Several elements of a place are often read under the same condition.
            Stmt::Check { condition, failure } if checks.contains(&(condition, failure)) => {}
            Stmt::Check { condition, failure } => checks.push((condition, failure)),
            Stmt::Store { buffer, .. } => {
                written.push(buffer);
                rest.push(s);
            }
            _ => return false,
        }
    }
    let is_free = |c| loops.iter().all(|l| is_free(kernel, c, l.var, &written));
    if checks.is_empty() || rest.is_empty() || !checks.iter().all(|&(c, _)| is_free(c)) {
        return false;
    }
    for (condition, failure) in checks {
        let buffer = kernel.add_scratch("fails", DType::Int32, 1, placement);
        let (zero, one, first) =
            (kernel.arena.int(0, DType::Int32), kernel.arena.int(1, DType::Int32), kernel.arena.index(0));
        out.push(kernel.store(buffer, first, zero));
        let mut renamed = Substitution::default();
        let vars: SmallVec<[VarId; 4]> = loops.iter().map(|l| renamed.fresh(&mut kernel.arena, l.var)).collect();
        let condition = renamed.expr(&mut kernel.arena, condition);
        let one_of = kernel.arena.select(condition, zero, one);
        let old = kernel.load(buffer, first);
        let value = kernel.arena.binary(BinOp::Max, old, one_of);
        let store = kernel.store(buffer, first, value);
        let (kind, iterations) = (LoopKind::Serial, Iterations::Reduction);
        let checked = loops.iter().zip(vars).map(|(l, var)| For { var, kind, iterations, ..*l });
        out.extend(nested(kernel, checked.rev(), vec![store]));
        let all = kernel.load(buffer, first);
        let condition = kernel.arena.compare(CmpOp::Eq, all, zero);
        out.push(kernel.stmts.push(Stmt::Check { condition, failure }));
    }
    out.extend(nested(kernel, loops.iter().rev().copied(), rest));
    true
}

/// A loop and those that are the only statements of each other, from the outside in; `None` if their iterations must keep
/// their order, or their number is not known.
fn nest(kernel: &Kernel, outer: For) -> Option<SmallVec<[For; 4]>> {
    let mut loops: SmallVec<[For; 4]> = SmallVec::new();
    let mut next = Some(outer);
    while let Some(l) = next {
        let is_free = l.kind != LoopKind::Parallel && l.iterations == Iterations::Independent;
        if !is_free || kernel.arena.as_int(l.extent).is_none_or(|n| n < 1) {
            return None;
        }
        loops.push(l);
        next = match *kernel.stmts.list(l.body) {
            [only] => match kernel.stmts.get(only) {
                Stmt::For(inner) => Some(inner),
                _ => None,
            },
            _ => None,
        };
    }
    Some(loops)
}

/// Loops around each other, given from the inside out, around statements.
fn nested(kernel: &mut Kernel, loops: impl Iterator<Item = For>, inner: Vec<StmtId>) -> Vec<StmtId> {
    loops.fold(inner, |inner, l| vec![around(kernel, l, &inner)])
}

/// Whether a condition can be evaluated for all iterations before the loop, for several of them at once.
fn is_free(kernel: &Kernel, condition: ExprId, var: VarId, written: &[BufferId]) -> bool {
    let arena = &kernel.arena;
    let mut is_free = !fails(arena, condition);
    for_each_expr(arena, condition, &mut |e| match arena.expr(e) {
        // Another check may guard an index that is not affine.
        Expr::Load(buffer, index) => {
            is_free &= !written.contains(&buffer) && is_affine(kernel, index, var);
        }
        Expr::Local(_) => is_free = false,
        _ => {}
    });
    is_free
}

fn is_affine(kernel: &Kernel, index: ExprId, var: VarId) -> bool {
    let arena = &kernel.arena;
    let is_own = |e: ExprId| arena.as_var(e) == Some(var);
    let affine = Affine::of(arena, index);
    affine.terms.iter().all(|t| is_own(t.0) || !mentions_var(arena, t.0, &mut |v| v == var))
}
