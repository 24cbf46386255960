//! Dependences between the iterations of loops, for code generation.
//!
//! Block iterations state what a schedule knows: a loop that drives spatial iterations writes other places in each
//! iteration, a loop that drives reductions combines values into the same places. Other cases (stores in loops without
//! blocks, and values passed from one statement to another) are decided by the indices.
//!
//! A loop that is marked parallel or vectorized, but whose iterations depend on each other, runs serially.

use super::blocks::{Draft, Role};
use super::place::{Extent, Use, Uses};
use super::view::{Digit, determine, digit};
use crate::loopir::rewrite::mentions_var;
use crate::loopir::{Affine, Body, ExprId, For, Iterations, LocalId, LoopKind, Stmt, VarId};
use smallvec::SmallVec;

/// Sets the kind of iterations of every loop of the draft.
pub(super) fn relate(draft: &mut Draft, uses: &mut Uses, extents: &[Extent]) {
    let body = draft.kernel.body;
    mark(draft, uses, extents, body);
}

fn mark(draft: &mut Draft, uses: &mut Uses, extents: &[Extent], body: Body) {
    for i in 0..body.len() {
        let s = draft.kernel.stmts.list(body)[i];
        match draft.kernel.stmts.get(s) {
            Stmt::For(l) => {
                // An iteration that sets registers affects the next one.
                let iterations = match sets_registers(draft, l.body) {
                    true => Iterations::Unknown,
                    false => relation(draft, uses, extents, l.var),
                };
                let kind = match (l.kind, iterations) {
                    (LoopKind::Parallel | LoopKind::Vector, Iterations::Unknown | Iterations::Reduction) => {
                        LoopKind::Serial
                    }
                    (kind, _) => kind,
                };
                uses.kinds.insert(l.var, kind);
                draft.kernel.stmts.replace(s, Stmt::For(For { iterations, kind, ..l }));
                mark(draft, uses, extents, l.body);
            }
            Stmt::If { then, otherwise, .. } => {
                mark(draft, uses, extents, then);
                mark(draft, uses, extents, otherwise);
            }
            Stmt::While { body, .. } => mark(draft, uses, extents, body),
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
        }
    }
}

/// Whether a register is set that is still in use after the iteration: one that is not set before it is read there.
fn sets_registers(draft: &Draft, body: Body) -> bool {
    let mut own: Vec<LocalId> = Vec::new();
    let mut found = false;
    draft.kernel.for_each_stmt(body, &mut |_, stmt| {
        if let Stmt::Set { local, value } = stmt {
            // Each loop with registers begins by setting them.
            if draft.kernel.arena.as_int(value) == Some(1) {
                own.push(local);
            } else {
                found |= !own.contains(&local);
            }
        }
    });
    found
}

fn relation(draft: &mut Draft, uses: &Uses, extents: &[Extent], v: VarId) -> Iterations {
    let mut iterations = Iterations::Independent;
    for (b, of) in uses.of.iter().enumerate() {
        // Scratch that is private to an iteration passes no values on.
        let is_private = extents[b].is_private_to(v);
        let inside: SmallVec<[&Use; 8]> = of.iter().map(|&u| &uses.all[u]).filter(|u| u.loops.contains(&v)).collect();
        let mut reduces = false;
        for (i, store) in inside.iter().enumerate().filter(|(_, u)| u.is_store) {
            let roles = draft.roles.get(&store.stmt);
            let role = roles.and_then(|r| r.iter().find(|(w, _)| *w == v)).map(|r| r.1);
            if is_private && role != Some(Role::Other) {
                reduces |= role == Some(Role::Reduce);
                continue;
            }
            match role {
                Some(Role::Other) => return Iterations::Unknown,
                Some(Role::Reduce) => {
                    reduces = true;
                    // Only the reduction itself may read partial results.
                    if inside.iter().any(|u| u.stmt != store.stmt) {
                        return Iterations::Unknown;
                    }
                    continue;
                }
                Some(Role::Spatial) => {}
                None if !are_apart(draft, uses, v, store, store) => return Iterations::Unknown,
                None => {}
            }
            let others = inside.iter().enumerate().filter(|(j, other)| !other.is_store || *j > i);
            for (_, other) in others {
                let same = other.token == store.token && role == Some(Role::Spatial);
                if !same && !are_apart(draft, uses, v, store, other) {
                    return Iterations::Unknown;
                }
            }
        }
        if reduces {
            iterations = Iterations::Reduction;
        }
    }
    iterations
}

/// Whether the accesses reach different elements in different iterations of `v`. Both are inside the loop.
///
/// True if parts of the counter of `v` that together determine it appear in dimensions of both accesses alike,
/// multiplied by more than the total range of the inner loops.
fn are_apart(draft: &mut Draft, uses: &Uses, v: VarId, a: &Use, b: &Use) -> bool {
    debug_assert!(uses.kinds.contains_key(&v));
    let outer: SmallVec<[VarId; 8]> = a.loops.iter().copied().take_while(|&w| w != v).collect();
    let mut told: SmallVec<[Digit; 4]> = SmallVec::new();
    let rank = draft.tokens[a.token].dims.len();
    for d in 0..rank {
        let sums = [a, b].map(|u| Affine::of(&draft.kernel.arena, draft.tokens[u.token].dims[d]));
        let [(x, own_x), (y, own_y)] = sums.map(|sum| take_terms_of(draft, sum, v));
        let [(atom, c)] = own_x[..] else { continue };
        if own_x != own_y {
            continue;
        }
        // The rests must differ by less than a step of `v`: outer loops have one value, inner ones take any two values.
        let arena = &draft.kernel.arena;
        let is_fixed = |e: ExprId| !mentions_var(arena, e, &mut |w| !outer.contains(&w)) && arena.as_int(e).is_none();
        let fixed = |sum: &Affine| {
            let mut part = Affine::default();
            sum.terms.iter().filter(|t| is_fixed(t.0)).for_each(|&(e, k)| part.add_term(e, k));
            part
        };
        if fixed(&x) != fixed(&y) {
            continue;
        }
        let (x, y) = (x.minus(&fixed(&x)), y.minus(&fixed(&y)));
        let (x, y) = (draft.ranges.of_affine(arena, &x), draft.ranges.of_affine(arena, &y));
        if x.size().is_none() || y.size().is_none() {
            continue;
        }
        let gap = x.plus(y.times(-1));
        if -c.abs() < gap.lo && gap.hi < c.abs() {
            told.extend(digit(&draft.kernel.arena, &draft.ranges, atom));
        }
    }
    determine(&draft.ranges, v, &told)
}

/// Terms of a sum: atoms with their coefficients.
type Terms = SmallVec<[(ExprId, i64); 2]>;

/// Splits a sum into the terms without `v` and the terms with it.
fn take_terms_of(draft: &Draft, sum: Affine, v: VarId) -> (Affine, Terms) {
    let mut rest = Affine::constant(sum.constant);
    let mut own = Terms::new();
    for &(atom, c) in &sum.terms {
        if mentions_var(&draft.kernel.arena, atom, &mut |w| w == v) {
            own.push((atom, c));
        } else {
            rest.add_term(atom, c);
        }
    }
    (rest, own)
}
