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
//! Such as sums of a row and of its squares: what both read is loaded once. Or the second one reads what the first one wrote
//! in the same iteration, as the sum of what a loop computes; that loop may then have some iterations for each of the sum's:
//!
//!     for k in 32: E[k * 32] = exp(X[k * 32; 32])
//!     for k in 16 reduction: s = s + E[k * 64; 64]
//!     // becomes
//!     for k in 16 reduction:
//!       E[k * 64] = exp(X[k * 64; 32])
//!       E[k * 64 + 32] = exp(X[k * 64 + 32; 32])
//!       s = s + E[k * 64; 64]
//!
//! Nests are fused level by level, down to their innermost loops, or not at all. Statements between the loops move before or
//! behind them. Loops that need many registers stay apart. Comes after registers have been introduced: loops that became
//! vectors of different sizes read differently.

use super::machine::Machine;
use crate::codegen::facts::{can_fail, reads_state};
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LocalId, LoopKind, Stmt, StmtId, VarId,
};
use hashbrown::HashSet;

/// Statements of a fused innermost loop, at most.
const MOST_STATEMENTS: usize = 24;
/// Iterations of one loop for one of the other, at most.
const MOST_AT_ONCE: i64 = 4;

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
    let (n, m) = (kernel.arena.as_int(first.extent)?, kernel.arena.as_int(second.extent)?);
    let is_plain = |l: &For| l.kind == LoopKind::Serial && l.iterations != Iterations::Unknown;
    if !is_plain(&first) || !is_plain(&second) || n.min(m) < 1 {
        return None;
    }
    let inner = |l: &For| {
        let stmts = kernel.stmts.list(l.body).iter().map(|&s| kernel.stmts.get(s));
        stmts.filter(|s| matches!(s, Stmt::For(_))).count()
    };
    let depth = inner(&first);
    let at_once = n.max(m) / n.min(m);
    if depth > 1 || inner(&second) != depth || n.max(m) % n.min(m) != 0 || at_once > MOST_AT_ONCE {
        return None;
    }
    if at_once > 1 && depth > 0 {
        return None;
    }
    let (before, behind) = (Effects::of(kernel, list[p])?, Effects::of(kernel, list[q])?);
    let flow = before.flow_to(&behind)?;
    let (early, late) = divide(kernel, &list[p + 1..q], &before, &behind)?;
    let (var, counter) = kernel.arena.new_index(kernel.arena.var(first.var).name);
    let ours = iterations(kernel, &first, counter, n / n.min(m));
    let theirs = iterations(kernel, &second, counter, m / n.min(m));
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
    let reduces = [&first, &second].iter().any(|l| l.iterations == Iterations::Reduction);
    let iterations = if reduces { Iterations::Reduction } else { Iterations::Independent };
    let extent = kernel.arena.index(n.min(m));
    let fused = Stmt::For(For { var, extent, iterations, body: kernel.stmts.body(&stmts), ..first });
    let fused = kernel.stmts.push(fused);
    Some([&list[..p], &early, &[fused], &late, &list[q + 1..]].concat())
}

/// So many iterations of a loop for each of another counter.
fn iterations(kernel: &mut Kernel, l: &For, counter: ExprId, at_once: i64) -> Vec<StmtId> {
    let mut all = Vec::new();
    for part in 0..at_once {
        let first = kernel.arena.mul_const(counter, at_once);
        let own = kernel.arena.add_const(first, part);
        let body = Substitution::of(l.var, own).copy(kernel, l.body);
        all.extend_from_slice(kernel.stmts.list(body));
    }
    all
}

/// Is what an iteration of the second loop reads of a buffer written by the same iteration of the first, if at all?
fn stays_within(kernel: &Kernel, buffer: BufferId, counter: VarId, ours: &[StmtId], theirs: &[StmtId]) -> bool {
    let (mut stores, mut loads) = (Vec::new(), Vec::new());
    accesses(kernel, ours, buffer, &mut Vec::new(), &mut |a, is_store| {
        if is_store {
            stores.push(a)
        }
    });
    accesses(kernel, theirs, buffer, &mut Vec::new(), &mut |a, is_store| {
        if !is_store {
            loads.push(a)
        }
    });
    let is_between = |load: &At, store: &At| {
        let (Some((from, to)), Some(written)) = (load.distance(kernel, store), store.span(kernel)) else {
            return false;
        };
        // From the end of what the iteration before writes to the first element of the next one.
        let next = store.index.coefficient_of(&kernel.arena, counter);
        from >= written - next && to <= next
    };
    loads.iter().chain(&stores).all(|a| a.is_linear(&kernel.arena, counter))
        && loads.iter().all(|load| stores.iter().all(|store| is_between(load, store)))
}

/// An access: its index, the loops inside of the fused one with their extents, and its lanes.
struct At {
    index: Affine,
    loops: Vec<(VarId, Option<i64>)>,
    lanes: i64,
}

impl At {
    /// Does the index grow by the same with each step of the counter and of the loops inside? What else it is made of
    /// must not change.
    fn is_linear(&self, arena: &Arena, counter: VarId) -> bool {
        let is_counted = |v| v == counter || self.loops.iter().any(|l| l.0 == v);
        let is_steady = |atom| !reads_state(arena, atom) && !mentions_var(arena, atom, &mut { is_counted });
        self.index.terms.iter().all(|t| arena.as_var(t.0).is_some() || is_steady(t.0))
    }

    /// How many elements lie from the first to the last of an iteration.
    fn span(&self, kernel: &Kernel) -> Option<i64> {
        self.loops.iter().try_fold(self.lanes, |span, &(v, extent)| {
            let c = self.index.coefficient_of(&kernel.arena, v);
            if c == 0 { Some(span) } else { c.abs().checked_mul(extent? - 1)?.checked_add(span) }
        })
    }

    /// Where a load is, its elements from the first to behind the last, seen from the first that a store writes in the same
    /// iteration.
    fn distance(&self, kernel: &Kernel, store: &At) -> Option<(i64, i64)> {
        let distance = self.index.minus(&store.index);
        let (mut from, mut to) = (distance.constant, distance.constant + self.lanes);
        // The counter is none of the loops inside, and has to cancel out.
        for &(atom, c) in &distance.terms {
            let v = kernel.arena.as_var(atom)?;
            let span =
                |loops: &[(VarId, Option<i64>)]| loops.iter().find(|l| l.0 == v).map(|&(_, n)| c.checked_mul(n? - 1));
            match (span(&self.loops), span(&store.loops)) {
                (Some(own), _) => {
                    from += own?.min(0);
                    to += own?.max(0);
                }
                (None, Some(others)) => {
                    from += others?.max(0);
                    to += others?.max(0);
                }
                (None, None) => return None,
            }
        }
        Some((from, to))
    }
}

/// Calls `f` with the accesses of a buffer, and whether they are stores.
fn accesses(
    kernel: &Kernel,
    stmts: &[StmtId],
    buffer: BufferId,
    loops: &mut Vec<(VarId, Option<i64>)>,
    f: &mut impl FnMut(At, bool),
) {
    let arena = &kernel.arena;
    for &s in stmts {
        let stmt = kernel.stmts.get(s);
        let mut note = |index, lanes: u16, is_store| {
            f(At { index: Affine::of(arena, index), loops: loops.clone(), lanes: i64::from(lanes) }, is_store);
        };
        for_each_operand(stmt, |e| {
            for_each_expr(arena, e, &mut |e| match arena.expr(e) {
                Expr::Load(b, index) if b == buffer => note(index, arena.lanes(e), false),
                _ => {}
            });
        });
        if let Stmt::Store { buffer: b, index, value } = stmt
            && b == buffer
        {
            note(index, arena.lanes(value), true);
        }
        if let Stmt::For(l) = stmt {
            loops.push((l.var, arena.as_int(l.extent)));
        }
        for body in stmt.bodies() {
            accesses(kernel, kernel.stmts.list(body), buffer, loops, f);
        }
        if matches!(stmt, Stmt::For(_)) {
            loops.pop();
        }
    }
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

    /// The buffers that the other one reads and this one writes, if nothing else keeps them in order.
    fn flow_to(&self, other: &Effects) -> Option<Vec<BufferId>> {
        if other.writes.iter().any(|w| self.reads.contains(w) || self.writes.contains(w)) {
            return None;
        }
        let flow = self.writes.iter().filter(|w| other.reads.contains(*w));
        flow.map(|w| if let Place::Buffer(b) = *w { Some(b) } else { None }).collect()
    }

    /// Does one write what the other one touches?
    fn meets(&self, other: &Effects) -> bool {
        let touches = |e: &Effects, place: &Place| e.reads.contains(place) || e.writes.contains(place);
        self.writes.iter().any(|w| touches(other, w)) || other.writes.iter().any(|w| touches(self, w))
    }
}
