//! Delinearises fused loops: splits them into loops over the quotients and remainders that indices use.
//!
//! ```text
//! for f in 32 vector: Y[f // 8 * 100 + f % 8] = …
//! // becomes
//! for f in 4: for f in 8 vector: Y[f0 * 100 + f1] = …
//! ```
//!
//! The order of iterations is unchanged. Divisions disappear, accesses become affine, and the contiguous part of a loop
//! becomes visible. Parallel loops stay fused: their iterations are long, so the cost of the divisions is negligible.
//!
//! This pass runs after a simplification, which leaves only necessary divisions, and before another one, which uses the
//! ranges of the new variables.

use super::horizontal::ROW;
use super::machine::Machine;
use super::vectorize::{LONGEST_PERIOD, period};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, Intrinsic};
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{Affine, Arena, Body, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, VarId};
use hashbrown::{HashMap, HashSet};

/// Delinearises all fused loops. Returns whether there were any.
pub(super) fn delinearize(kernel: &mut Kernel, machine: &Machine) -> bool {
    let mut cuts = Cuts::default();
    let body = kernel.body;
    kernel.for_each_stmt(body, &mut |_, stmt| {
        for_each_operand(stmt, |e| cuts.expr(&kernel.arena, e));
    });
    if cuts.of.is_empty() {
        return false;
    }
    let decides = std::mem::take(&mut cuts.decides);
    let mut changed = false;
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let Stmt::For(l) = stmt else { return out.push(id) };
        let (Some(cuts), Some(n)) = (cuts.of.get(&l.var), kernel.arena.as_int(l.extent)) else { return out.push(id) };
        let whole = match decides.contains(&l.var) {
            true => cuts.iter().map(|&cut| n / cut * cut).filter(|&n| n > 0).min().unwrap_or(n),
            false => n,
        };
        let mut chain = chain(cuts, whole);
        if machine.vectors.has_regions() {
            keep_rows(kernel, &l, whole, &mut chain);
        }
        if chain.is_empty() || l.kind == LoopKind::Parallel {
            return out.push(id);
        }
        changed = true;
        let split = split(kernel, l, &chain, whole);
        out.push(kernel.stmts.push(split));
        if whole < n {
            let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
            let value = kernel.arena.add_const(e, whole);
            let body = Substitution::of(l.var, value).copy(kernel, l.body);
            let extent = kernel.arena.index(n - whole);
            out.push(kernel.stmts.push(Stmt::For(For { var, extent, body, ..l })));
        }
    });
    changed
}

/// The divisors of each variable.
#[derive(Default)]
struct Cuts {
    of: HashMap<VarId, Vec<i64>, FxBuild>,
    /// The variables of whose remainders comparisons are made.
    decides: HashSet<VarId, FxBuild>,
    seen: HashSet<ExprId, FxBuild>,
}

impl Cuts {
    fn expr(&mut self, arena: &Arena, e: ExprId) {
        let Cuts { of, decides, seen } = self;
        if seen.contains(&e) {
            return;
        }
        for_each_expr(arena, e, &mut |e| {
            if let Expr::Compare(_, a, _) = arena.expr(e)
                && let Expr::Binary(BinOp::FloorMod, a, _) = arena.expr(a)
                && let Some(var) = arena.as_var(a)
            {
                decides.insert(var);
            }
            if seen.insert(e)
                && let Some((var, inner, d)) = digit(arena, e)
            {
                let cuts = of.entry(var).or_default();
                for cut in [inner, inner.saturating_mul(d)] {
                    if cut > 1 && !cuts.contains(&cut) {
                        cuts.push(cut);
                    }
                }
            }
        });
    }
}

/// Matches `v // d`, `v % d`, `v // c // d` or `v // c % d`: returns the variable, `c` (1 if absent) and `d`. In `v % c
/// // d` and similar, the inner part is matched on its own.
fn digit(arena: &Arena, e: ExprId) -> Option<(VarId, i64, i64)> {
    let Expr::Binary(BinOp::FloorDiv | BinOp::FloorMod, a, b) = arena.expr(e) else { return None };
    let d = arena.as_int(b).filter(|&d| d > 1)?;
    match arena.expr(a) {
        Expr::Var(v) => Some((v, 1, d)),
        Expr::Binary(BinOp::FloorDiv, a, b) => Some((arena.as_var(a)?, arena.as_int(b).filter(|&c| c > 1)?, d)),
        Expr::Binary(BinOp::FloorMod, a, _) => Some((arena.as_var(a)?, 1, d)),
        _ => None,
    }
}

/// Divisors of `n` in ascending order, each of which divides the next.
fn chain(cuts: &[i64], n: i64) -> Vec<i64> {
    let mut sorted: Vec<i64> = cuts.iter().copied().filter(|&c| c < n && n % c == 0).collect();
    sorted.sort_unstable();
    let mut chain: Vec<i64> = Vec::new();
    for cut in sorted {
        if chain.last().is_none_or(|last| cut % last == 0) {
            chain.push(cut);
        }
    }
    chain
}

/// Maximum number of elements of a group that shares a word or a factor: a row of narrower vectors has half as many as `ROW`.
const GROUP: i64 = ROW / 2;

/// Lanes of a vector for which a loop of its own is worth while.
const LANES: i64 = 16;

/// Takes away the divisors that are fewer elements than a vector, or than a row of them, where numbers that are packed in words are read
/// beside contiguous elements:
///
/// ```text
/// for k in 4096: Y[j] = Y[j] + X[k] * cast(float32, (W[j * 512 + k // 8] >> k % 8 * 4) & 15)
/// ```
///
/// In rows of vectors, `k % 8 * 4` is the same for each of them, and `W` is a few words whose lanes are repeated; in a loop of its own, the
/// digit would fill half a vector.
fn keep_rows(kernel: &Kernel, l: &For, n: i64, chain: &mut Vec<i64>) {
    let arena = &kernel.arena;
    let &[s] = kernel.stmts.list(l.body) else { return };
    let Stmt::Store { index, value, .. } = kernel.stmts.get(s) else { return };
    let stride = |index| Affine::of(arena, index).stride(arena, l.var);
    // A sum takes rows of several vectors, elements are made in single ones.
    let (group, row) = match (l.iterations, stride(index)) {
        (Iterations::Reduction, _) => (GROUP, ROW),
        (Iterations::Independent, Some(1)) if shifts_by(arena, value, l.var) => (LONGEST_PERIOD, LANES),
        _ => return,
    };
    let inner = chain.iter().copied().find(|&cut| cut > group).unwrap_or(n);
    let first = chain.first().copied().unwrap_or(n);
    if inner % row != 0 || arena.dtype(value).bytes() != 4 || first >= LANES || row % first != 0 {
        return;
    }
    let (mut is_contiguous, mut fits) = (stride(index) == Some(1), true);
    for_each_expr(arena, value, &mut |e| {
        let Expr::Load(_, index) = arena.expr(e) else { return };
        match stride(index) {
            Some(0) => {}
            Some(1) => is_contiguous = true,
            Some(_) => fits = false,
            None => fits &= period(arena, index, l.var, inner).is_some(),
        }
    });
    if is_contiguous && fits {
        chain.retain(|&cut| cut > group);
    }
}

/// Whether an expression shifts by amounts that depend on a variable.
fn shifts_by(arena: &Arena, e: ExprId, var: VarId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| {
        if let Expr::Call(Intrinsic::ShiftRight, list) = arena.expr(e)
            && let &[_, by] = arena.list(list)
        {
            found |= mentions_var(arena, by, &mut |v| v == var);
        }
    });
    found
}

/// The loop as a nest with one loop per digit, outermost first.
fn split(kernel: &mut Kernel, l: For, chain: &[i64], n: i64) -> Stmt {
    let name = kernel.arena.var(l.var).name;
    let mut value = kernel.arena.index(0);
    let mut digits: Vec<(VarId, i64)> = Vec::new();
    let mut upper = n;
    for &cut in chain.iter().rev().chain(&[1]) {
        let (var, e) = kernel.arena.new_index(name);
        let scaled = kernel.arena.mul_const(e, cut);
        value = kernel.arena.add(value, scaled);
        digits.push((var, upper / cut));
        upper = cut;
    }
    let body: Body = Substitution::of(l.var, value).copy(kernel, l.body);
    let mut stmt: Option<Stmt> = None;
    for (i, &(var, extent)) in digits.iter().enumerate().rev() {
        let body = match stmt {
            Some(inner) => kernel.stmts.single(inner),
            None => body,
        };
        // Only the innermost digit can be contiguous.
        let kind = match l.kind {
            LoopKind::Vector if i + 1 < digits.len() => LoopKind::Serial,
            kind => kind,
        };
        let extent = kernel.arena.index(extent);
        stmt = Some(Stmt::For(For { var, extent, kind, body, ..l }));
    }
    stmt.unwrap_or(Stmt::For(l))
}
