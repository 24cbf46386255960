//! Fuses loops that read the same and do not depend on each other.
//!
//!     for k in 12 reduction: s = s + X[k * 64; 64]
//!     S[0] = reduce(add, s)
//!     q = splat(0.0, 64)
//!     for k in 12 reduction: q = fma(X[k * 64; 64], X[k * 64; 64], q)
//!     // becomes
//!     q = splat(0.0, 64)
//!     for k in 12 reduction:
//!       s = s + X[k * 64; 64]
//!       q = fma(X[k * 64; 64], X[k * 64; 64], q)
//!     S[0] = reduce(add, s)
//!
//! Such as sums of a row and of its squares: what both read is loaded once. Nests are fused level by level, down to their
//! innermost loops, or not at all. Statements between the loops move before or behind them. Loops that need many registers
//! stay apart. Comes after registers have been introduced: loops that became vectors of different sizes read differently.

use super::machine::Machine;
use crate::codegen::facts::can_fail;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{Body, BufferId, Expr, ExprId, For, Kernel, LocalId, LoopKind, Stmt, StmtId, VarId};
use hashbrown::HashSet;

/// Statements of a fused innermost loop, at most.
const MOST_STATEMENTS: usize = 16;

/// Fuses loops of the kernel.
pub fn fuse(kernel: &mut Kernel, machine: &Machine) {
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
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => stmt,
        };
        if new != stmt {
            *s = kernel.stmts.push(new);
        }
    }
    if kernel.stmts.list(old) == list { old } else { kernel.stmts.body(&list) }
}

/// The statements with the first two loops fused that can be.
fn fuse_neighbours(kernel: &mut Kernel, list: &[StmtId], machine: &Machine) -> Option<Vec<StmtId>> {
    let loops: Vec<usize> = (0..list.len()).filter(|&i| matches!(kernel.stmts.get(list[i]), Stmt::For(_))).collect();
    loops.windows(2).find_map(|pair| fuse_pair(kernel, list, pair[0], pair[1], machine))
}

/// The statements with the loops at two places fused, between which there is no other.
fn fuse_pair(kernel: &mut Kernel, list: &[StmtId], p: usize, q: usize, machine: &Machine) -> Option<Vec<StmtId>> {
    let (Stmt::For(first), Stmt::For(second)) = (kernel.stmts.get(list[p]), kernel.stmts.get(list[q])) else {
        return None;
    };
    let alike = |l: &For| (l.extent, l.kind, l.iterations);
    if alike(&first) != alike(&second) || first.kind != LoopKind::Serial {
        return None;
    }
    let inner = |l: &For| {
        let stmts = kernel.stmts.list(l.body).iter().map(|&s| kernel.stmts.get(s));
        stmts.filter(|s| matches!(s, Stmt::For(_))).count()
    };
    let depth = inner(&first);
    if depth > 1 || inner(&second) != depth {
        return None;
    }
    let (before, behind) = (Effects::of(kernel, list[p])?, Effects::of(kernel, list[q])?);
    if before.meets(&behind) {
        return None;
    }
    let (early, late) = divide(kernel, &list[p + 1..q], &before, &behind)?;
    let counter = kernel.arena.var_expr(first.var);
    let moved = Substitution::of(second.var, counter).copy(kernel, second.body);
    let (ours, theirs) = (kernel.stmts.list(first.body).to_vec(), kernel.stmts.list(moved).to_vec());
    let both = [ours.as_slice(), theirs.as_slice()].concat();
    let stmts = if depth == 1 {
        let is_loop = |&i: &usize| matches!(kernel.stmts.get(both[i]), Stmt::For(_));
        let loops: Vec<usize> = (0..both.len()).filter(is_loop).collect();
        fuse_pair(kernel, &both, loops[0], loops[1], machine)?
    } else if both.len() <= MOST_STATEMENTS && share(kernel, first.var, &ours, &theirs) && fit(kernel, &both, machine) {
        both
    } else {
        return None;
    };
    let fused = Stmt::For(For { body: kernel.stmts.body(&stmts), ..first });
    let fused = kernel.stmts.push(fused);
    Some([&list[..p], &early, &[fused], &late, &list[q + 1..]].concat())
}

/// The statements between two loops: those that can run before both, and those that can run after both.
fn divide(
    kernel: &Kernel,
    between: &[StmtId],
    before: &Effects,
    behind: &Effects,
) -> Option<(Vec<StmtId>, Vec<StmtId>)> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    // What runs later than it did: the first loop, and what has to stay behind it.
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

/// Do statements on both sides load the same, another in each iteration?
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

/// Do the registers that the statements set leave half of the machine's for what is computed?
fn fit(kernel: &Kernel, stmts: &[StmtId], machine: &Machine) -> bool {
    let mut set = HashSet::<LocalId, FxBuild>::default();
    set.extend(stmts.iter().filter_map(|&s| match kernel.stmts.get(s) {
        Stmt::Set { local, .. } => Some(local),
        _ => None,
    }));
    let registers = |l: &LocalId| kernel.arena.local(*l).ty.bytes().div_ceil(machine.vector_bytes);
    set.iter().map(registers).sum::<usize>() <= machine.registers / 2
}

/// What statements may touch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Buffer(BufferId),
    Local(LocalId),
    Var(VarId),
}

/// What statements touch.
#[derive(Clone, Default)]
struct Effects {
    reads: HashSet<Place, FxBuild>,
    writes: HashSet<Place, FxBuild>,
}

impl Effects {
    /// Those of a statement with all inside; `None` if it may end the kernel, which must happen where it does.
    fn of(kernel: &Kernel, s: StmtId) -> Option<Effects> {
        let mut effects = Effects::default();
        effects.note(kernel, s).then_some(effects)
    }

    fn note(&mut self, kernel: &Kernel, s: StmtId) -> bool {
        let (arena, stmt) = (&kernel.arena, kernel.stmts.get(s));
        let mut fails = false;
        for_each_operand(stmt, |e| {
            for_each_expr(arena, e, &mut |e| {
                fails |= can_fail(arena, e);
                match arena.expr(e) {
                    Expr::Load(b, _) => drop(self.reads.insert(Place::Buffer(b))),
                    Expr::Local(l) => drop(self.reads.insert(Place::Local(l))),
                    Expr::Var(v) => drop(self.reads.insert(Place::Var(v))),
                    _ => {}
                }
            });
        });
        match stmt {
            Stmt::Store { buffer, .. } => drop(self.writes.insert(Place::Buffer(buffer))),
            Stmt::Set { local, .. } => drop(self.writes.insert(Place::Local(local))),
            Stmt::Let { var, .. } => drop(self.writes.insert(Place::Var(var))),
            Stmt::Check { .. } => fails = true,
            Stmt::For(_) | Stmt::If { .. } => {}
        }
        let inside = stmt.bodies();
        !fails && inside.into_iter().all(|b| kernel.stmts.list(b).iter().all(|&s| self.note(kernel, s)))
    }

    fn add(&mut self, other: &Effects) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
    }

    /// Does one write what the other one touches?
    fn meets(&self, other: &Effects) -> bool {
        let touches = |e: &Effects, place: &Place| e.reads.contains(place) || e.writes.contains(place);
        self.writes.iter().any(|w| touches(other, w)) || other.writes.iter().any(|w| touches(self, w))
    }
}
