//! Multiversions loops in which accesses are checked under conditions: one version for indices that are in bounds throughout.
//!
//! ```text
//! for c in 64: for y in 7 {
//!   check !(0.0 <= S[y]) || B[i] >= 0 && B[i] < 8 else out_of_bounds(X)
//!   Y[…] = if_then_else(0.0 <= S[y], X[B[i] * 65536 + …], 0.0)
//! }
//! // becomes
//! if B[i] >= 0 && B[i] < 8:
//!   for c in 64: for y in 7: Y[…] = if_then_else(0.0 <= S[y], X[min(max(B[i], 0), 7) * 65536 + …], 0.0)
//! else: the loops as they were
//! ```
//!
//! Operators that sample images at boxes read the number of the image for each box, and no element of it where a sample is outside. The
//! bounds of an index that a loop does not change are compared once; the check as a whole cannot be moved out of the loop. In the version
//! for indices in bounds, the index is clamped, which changes no value, and lets later passes know that elements exist.

use super::machine::Machine;
use super::partition::may_copy;
use crate::codegen::facts::{fails, note_stores};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, CmpOp};
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, map_expr, map_operands, mentions_var};
use crate::loopir::{
    Access, Affine, Arena, Body, BufferId, Expr, ExprId, For, Kernel, LoopKind, Range, Ranges, Stmt, StmtId, Storage,
    VarId,
};
use hashbrown::HashSet;
use smallvec::SmallVec;

/// Multiversions the outermost such loops. Returns whether there is one.
pub(super) fn version_checks(kernel: &mut Kernel, machine: &Machine) -> bool {
    let mut has_checks = false;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| has_checks |= matches!(stmt, Stmt::Check { .. }));
    if !machine.vectors.has_regions() || !has_checks {
        return false;
    }
    let defined = kernel.buffers().filter(|(_, b)| matches!(b.storage, Storage::Param(Access::In | Access::InOut)));
    let mut pass = Pass { ranges: Ranges::default(), defined: defined.map(|(b, _)| b).collect() };
    let old = kernel.body;
    kernel.body = pass.body(kernel, old);
    kernel.body != old
}

struct Pass {
    ranges: Ranges,
    /// The buffers whose elements all have values.
    defined: HashSet<BufferId, FxBuild>,
}

impl Pass {
    fn body(&mut self, kernel: &mut Kernel, old: Body) -> Body {
        let outside = self.defined.clone();
        let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
        for &s in &kernel.stmts.list(old).to_vec() {
            out.push(self.stmt(kernel, s));
            if let Some(buffer) = stores_all(kernel, s) {
                self.defined.insert(buffer);
            }
        }
        self.defined = outside;
        if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
    }

    fn stmt(&mut self, kernel: &mut Kernel, s: StmtId) -> StmtId {
        let old = kernel.stmts.get(s);
        let new = match old {
            Stmt::For(l) => {
                if let Some(new) = self.versions(kernel, s, &l) {
                    return kernel.stmts.push(new);
                }
                self.ranges.set_loop(&kernel.arena, l.var, l.extent);
                Stmt::For(For { body: self.body(kernel, l.body), ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (self.body(kernel, then), self.body(kernel, otherwise));
                Stmt::If { condition, then, otherwise }
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => old,
        };
        if new == old { s } else { kernel.stmts.push(new) }
    }

    /// Both versions of a loop, if it has checks of an index that it does not change.
    fn versions(&mut self, kernel: &mut Kernel, s: StmtId, l: &For) -> Option<Stmt> {
        if l.kind == LoopKind::Parallel {
            return None;
        }
        let bounds = self.bounds(kernel, s, l);
        if bounds.is_empty() || !may_copy(kernel, l, 2) {
            return None;
        }
        let mut known = ExprMap::default();
        let mut all = None;
        let yes = kernel.arena.bool(true);
        for b in &bounds {
            let last = kernel.arena.constant(b.extent - 1, kernel.arena.ty(b.index));
            let zero = kernel.arena.constant(0, kernel.arena.ty(b.index));
            let clamped = if b.extent == 1 {
                zero
            } else {
                let from_zero = kernel.arena.binary(BinOp::Max, b.index, zero);
                kernel.arena.binary(BinOp::Min, from_zero, last)
            };
            known.insert(b.index, clamped);
            for condition in [b.is_from_zero, b.is_below] {
                known.insert(condition, yes);
                all = Some(match all {
                    None => condition,
                    Some(others) => kernel.arena.binary(BinOp::And, others, condition),
                });
            }
        }
        let copy = match Substitution::default().copy_stmt(kernel, Stmt::For(*l)) {
            Stmt::For(copy) => copy,
            _ => return None,
        };
        let body = kernel.rebuild(copy.body, &mut |kernel, _, id, stmt, out| {
            let new = map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut known, &mut |_, _| None));
            if !matches!(new, Stmt::Check { condition, .. } if kernel.arena.as_int(condition) == Some(1)) {
                out.push(if new == stmt { id } else { kernel.stmts.push(new) });
            }
        });
        let fast = kernel.stmts.push(Stmt::For(For { body, ..copy }));
        let (then, otherwise) = (kernel.stmts.body(&[fast]), kernel.stmts.body(&[s]));
        Some(Stmt::If { condition: all?, then, otherwise })
    }

    /// The bounds in a loop's checks that can be compared before it.
    fn bounds(&mut self, kernel: &Kernel, s: StmtId, l: &For) -> SmallVec<[Bounds; 2]> {
        let mut bound: HashSet<VarId, FxBuild> = HashSet::from_iter([l.var]);
        let mut written = HashSet::default();
        note_stores(kernel, s, &mut written);
        let mut checks = Vec::new();
        kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
            Stmt::For(For { var, .. }) | Stmt::Let { var, .. } => {
                bound.insert(var);
            }
            Stmt::Check { condition, .. } => checks.push(condition),
            Stmt::Store { .. } | Stmt::Set { .. } | Stmt::If { .. } | Stmt::While { .. } => {}
        });
        let mut found: SmallVec<[Bounds; 2]> = SmallVec::new();
        for check in checks {
            if !matches!(kernel.arena.expr(check), Expr::Binary(BinOp::Or, ..)) {
                continue;
            }
            for b in bounds_in(&kernel.arena, check) {
                if !found.iter().any(|f| f.index == b.index) && self.is_known_before(kernel, b.index, &bound, &written)
                {
                    found.push(b);
                }
            }
        }
        found
    }

    /// Whether an index reads memory, and has the same value before a loop, where it can be computed whatever conditions are inside.
    fn is_known_before(
        &mut self,
        kernel: &Kernel,
        index: ExprId,
        bound: &HashSet<VarId, FxBuild>,
        written: &HashSet<BufferId, FxBuild>,
    ) -> bool {
        let arena = &kernel.arena;
        if mentions_var(arena, index, &mut |v| bound.contains(&v)) {
            return false;
        }
        let (mut reads, mut fits) = (false, !fails(arena, index));
        for_each_expr(arena, index, &mut |e| match arena.expr(e) {
            Expr::Load(buffer, at) => {
                reads = true;
                let elements = Range { lo: 0, hi: kernel.buffer(buffer).len - 1 };
                fits &= self.defined.contains(&buffer) && !written.contains(&buffer);
                fits &= arena.lanes(e) == 1 && self.ranges.of(arena, at).within(elements);
            }
            Expr::Local(_) => fits = false,
            _ => {}
        });
        reads && fits
    }
}

/// The buffer that a statement stores to, if it stores to all elements in any case.
fn stores_all(kernel: &Kernel, mut s: StmtId) -> Option<BufferId> {
    let mut loops: SmallVec<[(VarId, i64); 4]> = SmallVec::new();
    while let Stmt::For(l) = kernel.stmts.get(s) {
        loops.push((l.var, kernel.arena.as_int(l.extent).filter(|&n| n > 0)?));
        let [inner] = *kernel.stmts.list(l.body) else { return None };
        s = inner;
    }
    let Stmt::Store { buffer, index, value } = kernel.stmts.get(s) else { return None };
    let index = Affine::of(&kernel.arena, index);
    if index.constant != 0 || kernel.arena.lanes(value) > 1 {
        return None;
    }
    let mut digits: SmallVec<[(i64, i64); 4]> = SmallVec::new();
    for &(e, stride) in &index.terms {
        let var = kernel.arena.as_var(e)?;
        digits.push((stride, loops.iter().find(|l| l.0 == var)?.1));
    }
    digits.sort_unstable();
    // Elements that the digits so far count without a gap.
    let mut counted = 1i64;
    for (stride, n) in digits {
        if stride != counted {
            return None;
        }
        counted = counted.checked_mul(n)?;
    }
    (counted == kernel.buffer(buffer).len).then_some(buffer)
}

/// The bounds of an index in a check.
struct Bounds {
    index: ExprId,
    extent: i64,
    is_from_zero: ExprId,
    is_below: ExprId,
}

/// The bounds `index >= 0 && index < extent` among the alternatives of a condition.
fn bounds_in(arena: &Arena, condition: ExprId) -> SmallVec<[Bounds; 2]> {
    let mut comparisons = Vec::new();
    note_comparisons(arena, condition, &mut comparisons);
    let mut out = SmallVec::new();
    for &(is_from_zero, op, index, zero) in &comparisons {
        if (op, zero) != (CmpOp::Ge, 0) {
            continue;
        }
        let is_upper = |c: &&(ExprId, CmpOp, ExprId, i64)| c.1 == CmpOp::Lt && c.2 == index && c.3 > 0;
        if let Some(&(is_below, _, _, extent)) = comparisons.iter().find(is_upper) {
            out.push(Bounds { index, extent, is_from_zero, is_below });
        }
    }
    out
}

/// Adds the comparisons with constants that make a condition more often true.
fn note_comparisons(arena: &Arena, e: ExprId, out: &mut Vec<(ExprId, CmpOp, ExprId, i64)>) {
    match arena.expr(e) {
        Expr::Binary(BinOp::And | BinOp::Or, a, b) => {
            note_comparisons(arena, a, out);
            note_comparisons(arena, b, out);
        }
        Expr::Compare(op, index, limit) => {
            if let Some(limit) = arena.as_int(limit) {
                out.push((e, op, index, limit));
            }
        }
        _ => {}
    }
}
