//! Fuses consecutive loops that read the same data and do not depend on each other.
//!
//! ```text
//! for k in 12 reduction: s = s + X[k * 64; 64]
//! S[0] = reduce(add, s)
//! q = splat(0.0, 64)
//! for k in 12 reduction: q = fma(X[k * 64; 64], X[k * 64; 64], q)
//! // becomes
//! q = splat(0.0, 64)
//! for k in 12 reduction:
//!   s = s + X[k * 64; 64]
//!   q = fma(X[k * 64; 64], X[k * 64; 64], q)
//! S[0] = reduce(add, s)
//! ```
//!
//! For example sums of a row and of its squares: shared data is loaded once. Or the second loop reads what the first
//! one wrote in the same iteration, such as a sum over computed elements; several iterations of one loop may then
//! correspond to one of the other:
//!
//! ```text
//! for k in 32: E[k * 32] = exp(X[k * 32; 32])
//! for k in 16 reduction: s = s + E[k * 64; 64]
//! // becomes
//! for k in 16 reduction:
//!   E[k * 64] = exp(X[k * 64; 32])
//!   E[k * 64 + 32] = exp(X[k * 64 + 32; 32])
//!   s = s + E[k * 64; 64]
//! ```
//!
//! Nests are fused level by level, down to their innermost loops, or not at all. Statements between the loops move
//! before or after them. Loops that need many registers are not fused. This pass runs after register promotion, since
//! loops vectorised with different widths read different ranges.

use super::effects::{At, Effects, accesses};
use super::machine::Machine;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LocalId, LoopKind, Stmt, StmtId, VarId};
use hashbrown::HashSet;

/// Maximum number of statements of a fused innermost loop.
const MOST_STATEMENTS: usize = 24;
/// Maximum number of iterations of one loop per iteration of the other.
const MOST_AT_ONCE: i64 = 4;

/// Fuses loops of the kernel.
pub(super) fn fuse(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, machine);
}

fn body(kernel: &mut Kernel, old: Body, machine: &Machine) -> Body {
    let mut list = kernel.stmts.list(old).to_vec();
    while let Some(fused) = fuse_neighbours(kernel, &list, machine) {
        list = fused;
    }
    for s in &mut list {
        let stmt = kernel.stmts.get(*s);
        let new = match stmt {
            Stmt::For(l) => Stmt::For(For { body: body(kernel, l.body, machine), ..l }),
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (body(kernel, then, machine), body(kernel, otherwise, machine));
                Stmt::If { condition, then, otherwise }
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => stmt,
        };
        if new != stmt {
            *s = kernel.stmts.push(new);
        }
    }
    if kernel.stmts.list(old) == list { old } else { kernel.stmts.body(&list) }
}

/// The statements with the first pair of fusible loops fused.
fn fuse_neighbours(kernel: &mut Kernel, list: &[StmtId], machine: &Machine) -> Option<Vec<StmtId>> {
    let loops: Vec<usize> = (0..list.len()).filter(|&i| matches!(kernel.stmts.get(list[i]), Stmt::For(_))).collect();
    loops.windows(2).find_map(|pair| fuse_pair(kernel, list, pair[0], pair[1], machine))
}

/// The statements with the loops at two positions fused, which have no other loop between them.
fn fuse_pair(kernel: &mut Kernel, list: &[StmtId], p: usize, q: usize, machine: &Machine) -> Option<Vec<StmtId>> {
    let (Stmt::For(first), Stmt::For(second)) = (kernel.stmts.get(list[p]), kernel.stmts.get(list[q])) else {
        return None;
    };
    let (n, ours, theirs) = at_once(kernel, &first, &second)?;
    if !is_plain(&first) || !is_plain(&second) {
        return None;
    }
    let inner = |l: &For| {
        let stmts = kernel.stmts.list(l.body).iter().map(|&s| kernel.stmts.get(s));
        stmts.filter(|s| matches!(s, Stmt::For(_))).count()
    };
    let depth = inner(&first);
    if depth > 1 || inner(&second) != depth || ours.max(theirs) > 1 && depth > 0 {
        return None;
    }
    let (before, behind) = (Effects::of(kernel, list[p])?, Effects::of(kernel, list[q])?);
    let flow = before.flow_to(&behind)?;
    let (early, late) = divide(kernel, &list[p + 1..q], &before, &behind)?;
    let (var, counter) = kernel.arena.new_index(kernel.arena.var(first.var).name);
    let ours = iterations(kernel, &first, counter, ours);
    let theirs = iterations(kernel, &second, counter, theirs);
    if !flow.iter().all(|&b| stays_within(kernel, b, var, &ours, &theirs)) {
        return None;
    }
    let both = [ours.as_slice(), theirs.as_slice()].concat();
    let stmts = if depth == 1 {
        let is_loop = |&i: &usize| matches!(kernel.stmts.get(both[i]), Stmt::For(_));
        let loops: Vec<usize> = (0..both.len()).filter(is_loop).collect();
        fuse_pair(kernel, &both, loops[0], loops[1], machine)?
    } else if both.len() <= MOST_STATEMENTS
        && (!flow.is_empty() || share(kernel, var, &ours, &theirs))
        && fit(kernel, &both, machine)
    {
        both
    } else {
        return None;
    };
    let fused = joined(kernel, [&first, &second], var, n, &stmts);
    Some([&list[..p], &early, &[fused], &late, &list[q + 1..]].concat())
}

/// Whether a loop is serial with a constant number of iterations.
pub(super) fn is_plain(l: &For) -> bool {
    l.kind == LoopKind::Serial && l.iterations != Iterations::Unknown
}

/// The number of iterations of the fused loop, and how many of each original loop one of them comprises.
pub(super) fn at_once(kernel: &Kernel, first: &For, second: &For) -> Option<(i64, i64, i64)> {
    let extent = |l: &For| kernel.arena.as_int(l.extent).filter(|&n| n > 0);
    let (n, m) = (extent(first)?, extent(second)?);
    let least = n.min(m);
    let is_whole = n.max(m) % least == 0 && n.max(m) / least <= MOST_AT_ONCE;
    is_whole.then_some((least, n / least, m / least))
}

/// The fused loop, over copies of the statements of both.
pub(super) fn joined(kernel: &mut Kernel, [first, second]: [&For; 2], var: VarId, n: i64, stmts: &[StmtId]) -> StmtId {
    let reduces = [first, second].iter().any(|l| l.iterations == Iterations::Reduction);
    let iterations = if reduces { Iterations::Reduction } else { Iterations::Independent };
    let extent = kernel.arena.index(n);
    let body = kernel.stmts.body(stmts);
    kernel.stmts.push(Stmt::For(For { var, extent, iterations, body, ..*first }))
}

/// Several iterations of a loop for each value of another counter.
pub(super) fn iterations(kernel: &mut Kernel, l: &For, counter: ExprId, at_once: i64) -> Vec<StmtId> {
    let mut all = Vec::new();
    for part in 0..at_once {
        let first = kernel.arena.mul_const(counter, at_once);
        let own = kernel.arena.add_const(first, part);
        let body = Substitution::of(l.var, own).copy(kernel, l.body);
        all.extend_from_slice(kernel.stmts.list(body));
    }
    all
}

/// Whether each iteration of the second loop reads only what the same iteration of the first wrote to a buffer, if it
/// was written there.
fn stays_within(kernel: &Kernel, buffer: BufferId, counter: VarId, ours: &[StmtId], theirs: &[StmtId]) -> bool {
    let (mut stores, mut loads) = (Vec::new(), Vec::new());
    accesses(kernel, ours, buffer, &mut |a, is_store| {
        if is_store {
            stores.push(a)
        }
    });
    accesses(kernel, theirs, buffer, &mut |a, is_store| {
        if !is_store {
            loads.push(a)
        }
    });
    let is_between = |load: &At, store: &At| {
        let (Some((from, to)), Some(written)) = (load.distance(kernel, store), store.span(kernel)) else {
            return false;
        };
        // From the end of the previous iteration's elements to the first element of the next.
        let next = store.index.coefficient_of(&kernel.arena, counter);
        from >= written - next && to <= next
    };
    loads.iter().chain(&stores).all(|a| a.is_linear(&kernel.arena, counter))
        && loads.iter().all(|load| stores.iter().all(|store| is_between(load, store)))
}

/// Divides the statements between two loops into those that can run before both, and those that can run after both.
fn divide(
    kernel: &Kernel,
    between: &[StmtId],
    before: &Effects,
    behind: &Effects,
) -> Option<(Vec<StmtId>, Vec<StmtId>)> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    // The statements that run later than before: the first loop, and everything that depends on it.
    let mut stays = before.clone();
    for &s in between {
        let effects = Effects::of(kernel, s)?;
        if !effects.meets(&stays) {
            early.push(s);
        } else if !effects.meets(behind) {
            stays.add(&effects);
            late.push(s);
        } else {
            return None;
        }
    }
    Some((early, late))
}

/// Whether statements on both sides load the same, iteration-dependent element.
fn share(kernel: &Kernel, counter: VarId, ours: &[StmtId], theirs: &[StmtId]) -> bool {
    let arena = &kernel.arena;
    let loads = |stmts: &[StmtId]| {
        let mut found = HashSet::<ExprId, FxBuild>::default();
        for &s in stmts {
            for_each_operand(kernel.stmts.get(s), |e| {
                for_each_expr(arena, e, &mut |e| {
                    if matches!(arena.expr(e), Expr::Load(..)) {
                        found.insert(e);
                    }
                });
            });
        }
        found
    };
    let theirs = loads(theirs);
    loads(ours).iter().any(|load| theirs.contains(load) && mentions_var(arena, *load, &mut |v| v == counter))
}

/// Whether the registers that the statements set leave half of the machine's registers for computing.
pub(super) fn fit(kernel: &Kernel, stmts: &[StmtId], machine: &Machine) -> bool {
    registers_set(kernel, stmts, machine) <= machine.vectors.registers / 2
}

/// Number of machine registers that the statements set.
pub(super) fn registers_set(kernel: &Kernel, stmts: &[StmtId], machine: &Machine) -> usize {
    let mut set = HashSet::<LocalId, FxBuild>::default();
    set.extend(stmts.iter().filter_map(|&s| match kernel.stmts.get(s) {
        Stmt::Set { local, .. } => Some(local),
        _ => None,
    }));
    let registers = |l: &LocalId| kernel.arena.local(*l).ty.bytes().div_ceil(machine.vectors.bytes);
    set.iter().map(registers).sum()
}
