//! Traversals, and ways to make loops, that passes share.

use crate::loopir::{Body, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, VarId};

/// Emits the replacement of a loop, which is given with its statement.
pub(super) type OnLoop<'a> = dyn FnMut(&mut Kernel, StmtId, For, &mut Vec<StmtId>) + 'a;

/// Emits the replacement of a loop and of statements behind it, and returns the number of these. The loop is given with its
/// statement, the body that contains it, and the position in the body that follows it.
pub(super) type OnLoopAndNext<'a> = dyn FnMut(&mut Kernel, StmtId, For, (Body, usize), &mut Vec<StmtId>) -> usize + 'a;

/// Replaces each outermost loop of a body by what `on_loop` emits. The traversal enters `if`s; unchanged statements
/// keep their ids.
pub(super) fn replace_loops(kernel: &mut Kernel, old: Body, on_loop: &mut OnLoop<'_>) -> Body {
    replace_loops_and_next(kernel, old, &mut |kernel, s, l, _, out| {
        on_loop(kernel, s, l, out);
        0
    })
}

/// As [`replace_loops`], where `on_loop` may replace statements behind a loop as well.
pub(super) fn replace_loops_and_next(kernel: &mut Kernel, old: Body, on_loop: &mut OnLoopAndNext<'_>) -> Body {
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    let mut next = 0;
    while next < old.len() {
        let s = kernel.stmts.list(old)[next];
        next += 1;
        match kernel.stmts.get(s) {
            Stmt::For(l) => next += on_loop(kernel, s, l, (old, next), &mut out),
            Stmt::If { condition, then, otherwise } => {
                let yes = replace_loops_and_next(kernel, then, on_loop);
                let no = replace_loops_and_next(kernel, otherwise, on_loop);
                let same = (yes, no) == (then, otherwise);
                let new = Stmt::If { condition, then: yes, otherwise: no };
                out.push(if same { s } else { kernel.stmts.push(new) });
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {
                out.push(s)
            }
        }
    }
    if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
}

/// Emits the replacement of a loop or nest with a placement, if it has one: returns whether it does.
pub(super) type OnNest<'a> = dyn FnMut(&mut Kernel, &For, Placement, &mut Vec<StmtId>) -> bool + 'a;

/// Replaces loops by what `on_nest` emits, from the outside in: those inside a loop that is not replaced as well. `placement` is that of
/// scratch buffers around the body.
pub(super) fn replace_nests(kernel: &mut Kernel, old: Body, placement: Placement, on_nest: &mut OnNest<'_>) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if on_nest(kernel, &l, placement, out) {
            return;
        }
        let inner = replace_nests(kernel, l.body, placement_inside(&l, placement), on_nest);
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// The placement of scratch buffers inside a loop, given that around it.
pub(super) fn placement_inside(l: &For, around: Placement) -> Placement {
    if l.kind == LoopKind::Parallel { Placement::PerWorker } else { around }
}

/// A statement replaced by what `f` makes of it; unchanged, it keeps its id.
pub(super) fn map_stmt(kernel: &mut Kernel, s: StmtId, f: &mut dyn FnMut(&mut Kernel, Stmt) -> Stmt) -> StmtId {
    let old = kernel.stmts.get(s);
    let new = f(kernel, old);
    if new == old { s } else { kernel.stmts.push(new) }
}

/// A body with each of its statements replaced by [`map_stmt`]. `f` decides which bodies inside are mapped.
pub(super) fn map_body(kernel: &mut Kernel, body: Body, f: &mut dyn FnMut(&mut Kernel, Stmt) -> Stmt) -> Body {
    let old: Vec<StmtId> = kernel.stmts.list(body).to_vec();
    let new: Vec<StmtId> = old.iter().map(|&s| map_stmt(kernel, s, f)).collect();
    if new == old { body } else { kernel.stmts.body(&new) }
}

/// A loop over independent iterations, without a body yet, and its variable.
pub(super) fn counted(kernel: &mut Kernel, name: &str, n: i64) -> (VarId, For, ExprId) {
    let (var, e) = kernel.arena.new_index(name);
    let extent = kernel.arena.index(n);
    let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
    (var, For { var, extent, kind, iterations, hints: Hints::default(), body: Body::EMPTY }, e)
}

/// A loop around statements.
pub(super) fn around(kernel: &mut Kernel, l: For, stmts: &[StmtId]) -> StmtId {
    let body = kernel.stmts.body(stmts);
    kernel.stmts.push(Stmt::For(For { body, ..l }))
}

/// A loop that runs as the loop that it replaces: in parallel, if that did.
pub(super) fn as_first(kernel: &mut Kernel, s: StmtId, replaced: &For) -> StmtId {
    match kernel.stmts.get(s) {
        Stmt::For(l) if replaced.kind == LoopKind::Parallel => {
            kernel.stmts.push(Stmt::For(For { kind: LoopKind::Parallel, ..l }))
        }
        _ => s,
    }
}
