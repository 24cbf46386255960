//! Single-element accesses of a block to a buffer: finds their indices, and redirects them.

use crate::arith::Analyzer;
use crate::ir::visit::{self, walk_rewrite};
use crate::ir::{
    Arena, BlockId, BufferId, BufferRegion, CmpOp, Expr, ExprId, ExprList, Func, Rewriter, Stmt, StmtId, VarId,
};
use crate::schedule::analysis::guard::bound_around;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::state::State;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// The indices at which a leaf block accesses the buffer, in its body and its init.
///
/// # Errors
///
/// If the block contains other blocks, or the indices are not the same everywhere, or change within an instance.
pub(in super::super) fn the_indices(
    state: &State,
    block: BlockId,
    buffer: BufferId,
) -> Result<SmallVec<[ExprId; 4]>, ScheduleError> {
    let func = &state.func;
    let node = func.block(block);
    let error = |how: &'static str| {
        state.error(ErrorKind::InvalidBufferAccess { buffer: func.arena.buffer(buffer).name, how }, block)
    };
    let below: Vec<StmtId> = node.body.iter().flat_map(|&s| func.subtree(s)).collect();
    if below.iter().any(|&s| func.as_block(s).is_some()) {
        return Err(state.error(ErrorKind::NotLeafBlock { block: node.name }, block));
    }
    if node.matches.iter().any(|m| m.source.buffer == buffer) {
        return Err(error("through a view"));
    }
    let mut found: SmallVec<[ExprList; 2]> = SmallVec::new();
    let init = node.init.iter().flatten().flat_map(|&s| func.subtree(s));
    for s in below.iter().copied().chain(init) {
        if let Stmt::Store { buffer: b, indices, .. } = func.get(s)
            && *b == buffer
        {
            found.push(*indices);
        }
        for_each_expr(func, s, &mut |e| {
            if let Expr::Load(b, indices) = func.arena.expr(e)
                && b == buffer
            {
                found.push(indices);
            }
        });
    }
    let Some(&first) = found.first() else { return Err(error("nowhere")) };
    let bound_inside = |v: VarId| {
        below.iter().any(|&s| match func.get(s) {
            Stmt::Loop(l) => l.var == v,
            Stmt::Let { var, .. } => *var == v,
            _ => false,
        })
    };
    let changes = |&e: &ExprId| visit::uses_var(&func.arena, e, &mut |v| bound_inside(v));
    if found.iter().any(|&l| l != first) || func.arena.list(first).iter().any(changes) {
        return Err(error("at several places"));
    }
    Ok(func.arena.list(first).iter().copied().collect())
}

fn for_each_expr(func: &Func, s: StmtId, f: &mut impl FnMut(ExprId)) {
    struct Each<'a, F>(&'a mut F);
    impl<F: FnMut(ExprId)> visit::Visitor for Each<'_, F> {
        fn visit_stmt(&mut self, _: &Func, _: StmtId) {}

        fn visit_expr(&mut self, func: &Func, e: ExprId) {
            visit::for_each_subexpr(&func.arena, e, self.0);
        }
    }
    visit::walk_stmt(&mut Each(f), func, s);
}

/// # Errors
///
/// If the indices, over the domains of the block's iteration variables, may be outside the buffer: the block may test a
/// condition, but the copy does not.
pub(in super::super) fn require_in_bounds(
    state: &mut State,
    block: BlockId,
    buffer: BufferId,
    indices: &[ExprId],
) -> Result<(), ScheduleError> {
    let mut analyzer = bound_around(&mut state.func, block.stmt());
    let a = &mut state.func.arena;
    let list = a.new_list(indices);
    match bounds_to_check(a, &mut analyzer, buffer, list) {
        None => Ok(()),
        Some(_) => Err(out_of_bounds(state, block, buffer)),
    }
}

/// A copy of an element outside the buffer has no effect (see [`Func::copied`]), and a block may read under a
/// condition; but only if that does not depend on the contents of memory.
///
/// # Errors
///
/// If the indices, over the domains of the block's iteration variables, may be outside the buffer and depend on memory.
pub(in super::super) fn require_readable(
    state: &mut State,
    block: BlockId,
    buffer: BufferId,
    indices: &[ExprId],
) -> Result<(), ScheduleError> {
    let a = &state.func.arena;
    let mut loads = false;
    for &e in indices {
        visit::for_each_subexpr(a, e, &mut |e| loads |= matches!(a.expr(e), Expr::Load(..)));
    }
    if loads { require_in_bounds(state, block, buffer, indices) } else { Ok(()) }
}

/// The bounds of the buffer that the indices may violate.
pub(in super::super) fn bounds_to_check(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    buffer: BufferId,
    indices: ExprList,
) -> Option<ExprId> {
    let indices = a.list(indices).to_vec();
    let shape = a.list(a.buffer(buffer).shape).to_vec();
    let mut left: Option<ExprId> = None;
    for (index, extent) in indices.into_iter().zip(shape) {
        let zero = a.int(0, a.dtype(index));
        let extent = a.cast(a.dtype(index), extent);
        for bound in [a.compare(CmpOp::Le, zero, index), a.lt(index, extent)] {
            if !analyzer.can_prove(a, bound) {
                let bound = analyzer.simplify(a, bound);
                left = Some(left.map_or(bound, |all| a.and(all, bound)));
            }
        }
    }
    left
}

fn out_of_bounds(state: &State, block: BlockId, buffer: BufferId) -> ScheduleError {
    let kind = ErrorKind::CopyOutOfBounds { buffer: state.func.arena.buffer(buffer).name };
    state.error(kind, block)
}

/// The accesses to redirect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Redirected {
    /// Loads and stores.
    All,
    /// Loads; the block continues to store to the old buffer.
    Loads,
}

/// Redirects accesses of a block from a buffer to the element at `indices` of another one; with `chosen` also accesses
/// in the stated regions of other buffers, whose bounds may depend on elements of the buffer.
pub(in super::super) fn redirect_to(
    func: &mut Func,
    block: BlockId,
    from: BufferId,
    (to, indices): (BufferId, &[ExprId]),
    which: Redirected,
    chosen: bool,
) {
    let list = func.arena.new_list(indices);
    let region = BufferRegion::point(&mut func.arena, to, list);
    let mut redirect = ToElement { from, to, indices: SmallVec::from_slice(indices), done: HashMap::new() };
    let inside = func.subtree(block.stmt());
    for &s in &inside[1..] {
        func.rewrite_stmt(s, &mut redirect);
        if let Stmt::Store { buffer, indices, .. } = func.stmt_mut(s)
            && *buffer == from
            && which == Redirected::All
        {
            *buffer = to;
            *indices = list;
        }
    }
    let Func { arena, stmts, .. } = func;
    let node = stmts.block_mut(block);
    for (r, goes) in
        node.reads.iter_mut().map(|r| (r, true)).chain(node.writes.iter_mut().map(|r| (r, which == Redirected::All)))
    {
        match r.buffer == from {
            true if goes => *r = region,
            true => {}
            false if chosen => *r = visit::rewrite_region(&mut redirect, arena, r),
            false => {}
        }
    }
}

struct ToElement {
    from: BufferId,
    to: BufferId,
    indices: SmallVec<[ExprId; 4]>,
    done: HashMap<ExprId, ExprId>,
}

impl Rewriter for ToElement {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) => return e,
            Expr::Load(buffer, _) if buffer == self.from => return arena.load(self.to, &self.indices),
            _ => {}
        }
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let new = walk_rewrite(self, arena, e);
        self.done.insert(e, new);
        new
    }
}
