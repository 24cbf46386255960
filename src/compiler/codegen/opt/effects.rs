//! The memory accesses of statements, for passes that fuse loops.

use crate::codegen::facts::{can_fail, reads_state};
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{Affine, Arena, BufferId, Expr, Kernel, LocalId, Stmt, StmtId, VarId};
use hashbrown::HashSet;

/// Memory or a register that statements access.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Buffer(BufferId),
    Local(LocalId),
    Var(VarId),
}

/// The reads and writes of statements.
#[derive(Clone, Default)]
pub(super) struct Effects {
    pub reads: HashSet<Place, FxBuild>,
    pub writes: HashSet<Place, FxBuild>,
}

impl Effects {
    /// The effects of a statement, including nested ones; `None` if it may stop the kernel, so that it must not move.
    pub(super) fn of(kernel: &Kernel, s: StmtId) -> Option<Effects> {
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
            Stmt::Check { .. } | Stmt::While { .. } => fails = true,
            Stmt::For(_) | Stmt::If { .. } => {}
        }
        let inside = stmt.bodies();
        !fails && inside.into_iter().all(|b| kernel.stmts.list(b).iter().all(|&s| self.note(kernel, s)))
    }

    pub(super) fn add(&mut self, other: &Effects) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
    }

    /// The buffers that `self` writes and `other` reads, if there is no other dependence between them.
    pub(super) fn flow_to(&self, other: &Effects) -> Option<Vec<BufferId>> {
        if other.writes.iter().any(|w| self.reads.contains(w) || self.writes.contains(w)) {
            return None;
        }
        let flow = self.writes.iter().filter(|w| other.reads.contains(*w));
        flow.map(|w| if let Place::Buffer(b) = *w { Some(b) } else { None }).collect()
    }

    /// Whether one writes a place that the other accesses.
    pub(super) fn meets(&self, other: &Effects) -> bool {
        self.writes.iter().any(|w| other.touches(w)) || other.writes.iter().any(|w| self.touches(w))
    }

    pub(super) fn touches(&self, place: &Place) -> bool {
        self.reads.contains(place) || self.writes.contains(place)
    }
}

/// An access: its index, the extents of the loops inside the fused one, and its lanes.
pub(super) struct At {
    pub index: Affine,
    pub loops: Vec<(VarId, Option<i64>)>,
    pub lanes: i64,
}

impl At {
    /// Whether the index is affine in the counter and the inner loops, and otherwise invariant.
    pub(super) fn is_linear(&self, arena: &Arena, counter: VarId) -> bool {
        let is_counted = |v| v == counter || self.loops.iter().any(|l| l.0 == v);
        let is_steady = |atom| !reads_state(arena, atom) && !mentions_var(arena, atom, &mut { is_counted });
        self.index.terms.iter().all(|t| arena.as_var(t.0).is_some() || is_steady(t.0))
    }

    /// The distance between the first and last element that an iteration accesses.
    pub(super) fn span(&self, kernel: &Kernel) -> Option<i64> {
        self.loops.iter().try_fold(self.lanes, |span, &(v, extent)| {
            let c = self.index.coefficient_of(&kernel.arena, v);
            if c == 0 { Some(span) } else { c.abs().checked_mul(extent? - 1)?.checked_add(span) }
        })
    }

    /// The range of elements of a load, from the first to after the last, relative to the first element that a store
    /// writes in the same iteration.
    pub(super) fn distance(&self, kernel: &Kernel, store: &At) -> Option<(i64, i64)> {
        let distance = self.index.minus(&store.index);
        let (mut from, mut to) = (distance.constant, distance.constant + self.lanes);
        // The counter is not among the inner loops, so it must cancel out.
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

/// Calls `f` with each access of a buffer, and whether it is a store.
pub(super) fn accesses(kernel: &Kernel, stmts: &[StmtId], buffer: BufferId, f: &mut impl FnMut(At, bool)) {
    accesses_inside(kernel, stmts, buffer, &mut Vec::new(), f);
}

fn accesses_inside(
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
            accesses_inside(kernel, kernel.stmts.list(body), buffer, loops, f);
        }
        if matches!(stmt, Stmt::For(_)) {
            loops.pop();
        }
    }
}
