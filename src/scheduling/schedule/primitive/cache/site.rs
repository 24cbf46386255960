//! Finds the position of a copy: between a writer and the first block that needs the copy, as far inside as possible.

use crate::ir::{BlockId, BufferId, Expr, Func, Stmt, StmtId, visit};
use crate::schedule::analysis::alloc_site::views_below;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::analysis::tree;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::state::State;

/// A position among the statements of a loop or block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Site {
    /// The loop or block.
    pub parent: StmtId,
    /// Index of the statement in its body before which the position is.
    pub position: usize,
}

impl Site {
    /// The start of the scope.
    pub(crate) fn first(scope: BlockId) -> Site {
        Site { parent: scope.stmt(), position: 0 }
    }

    /// The start of the scope, but after undeclared stores to the buffer, as `loop_partition` leaves them.
    pub(crate) fn first_behind_stores(func: &Func, scope: BlockId, buffer: BufferId) -> Site {
        let stores = |&s: &StmtId| touches(func, s, buffer).iter().any(|t| t.stores);
        let position = body(func, scope.stmt()).iter().rposition(stores).map_or(0, |last| last + 1);
        Site { position, ..Site::first(scope) }
    }

    /// The end of the scope.
    pub(crate) fn last(func: &Func, scope: BlockId) -> Site {
        Site { parent: scope.stmt(), position: func.block(scope).body.len() }
    }

    /// The position in the innermost loop or block around the writer that contains a later related block: directly
    /// before the statement of the first such block. `None` if there is no later related block.
    pub(crate) fn between(func: &Func, scope: BlockId, writer: BlockId, related: &[BlockId]) -> Option<Site> {
        let mut inside = writer.stmt();
        while inside != scope.stmt() {
            let parent = tree::parent(func, inside)?;
            let list = body(func, parent);
            // The statement of the list that contains the writer; an `if` may be in between.
            let position = list.iter().position(|&s| func.contains(s, inside))?;
            let needs_it = |&s: &StmtId| related.iter().any(|r| func.contains(s, r.stmt()));
            if let Some(n) = list[position + 1..].iter().position(needs_it) {
                return Some(Site { parent, position: position + 1 + n });
            }
            inside = parent;
        }
        None
    }

    /// The position at which the readers of a block's output can be given a copy: all in the scope, or the given
    /// consumers.
    ///
    /// # Errors
    ///
    /// If no consumer comes after the writer.
    pub(crate) fn behind(
        state: &State,
        scope: BlockId,
        writer: BlockId,
        buffer: BufferId,
        consumers: &[BlockId],
    ) -> Result<Site, ScheduleError> {
        let func = &state.func;
        let related: Vec<BlockId> = match consumers {
            [] => Scope::of(func, scope).later_readers(func, writer),
            _ => consumers.to_vec(),
        };
        match Site::between(func, scope, writer, &related) {
            Some(site) => Ok(site),
            None if related.is_empty() => Ok(Site::last(func, scope)),
            None => Err(out_of_order(state, writer.stmt(), buffer)),
        }
    }

    /// The position in the same list before the statement that contains `s`.
    pub(crate) fn in_front_of(self, func: &Func, s: StmtId) -> Site {
        let list = body(func, self.parent);
        let position = list.iter().position(|&child| func.contains(child, s)).expect("the list holds the statement");
        Site { position, ..self }
    }

    /// Inserts a statement at this position.
    pub(crate) fn insert(self, func: &mut Func, s: StmtId) {
        let list = body_index(func, self.parent);
        func.insert(self.parent, list, self.position, &[s]);
    }
}

/// The statements of a loop or block, without a block's init.
pub(in super::super) fn body(func: &Func, s: StmtId) -> &[StmtId] {
    func.body_at(s, body_index(func, s))
}

fn body_index(func: &Func, s: StmtId) -> usize {
    usize::from(matches!(func.get(s), Stmt::Block(b) if b.init.is_some()))
}

/// An access of a statement itself to a buffer, without its children; accesses to views of the buffer count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Touch {
    /// The statement.
    pub stmt: StmtId,
    /// Whether it is a store.
    pub stores: bool,
}

/// The loads and stores of a buffer below a statement, in text order.
pub(in super::super) fn touches(func: &Func, below: StmtId, buffer: BufferId) -> Vec<Touch> {
    let mut buffers = views_below(func, below, buffer);
    buffers.push(buffer);
    let mut found = Vec::new();
    for stmt in func.subtree(below) {
        let stores = matches!(func.get(stmt), Stmt::Store { buffer, .. } if buffers.contains(buffer));
        let mut loads = false;
        for_each_expr(func, stmt, &mut |e| {
            visit::for_each_subexpr(&func.arena, e, &mut |e| {
                loads |= matches!(func.arena.expr(e), Expr::Load(b, _) if buffers.contains(&b));
            });
        });
        if stores || loads {
            found.push(Touch { stmt, stores });
        }
    }
    found
}

/// The expressions that a statement itself evaluates.
fn for_each_expr(func: &Func, s: StmtId, f: &mut impl FnMut(crate::ir::ExprId)) {
    // Annotations and stated regions are not evaluated.
    if let Some(l) = func.as_loop(s) {
        let l = func.loop_(l);
        [l.min, l.extent].into_iter().for_each(f);
    } else if let Some(b) = func.as_block(s) {
        let b = func.block(b);
        b.iters.iter().map(|i| i.value).chain([b.predicate]).for_each(f);
    } else {
        visit::for_each_own_expr(func, s, f);
    }
}

/// # Errors
///
/// If a statement in the scope's body, outside the blocks `except`, stores to the buffer.
pub(in super::super) fn require_no_store(
    state: &State,
    scope: BlockId,
    buffer: BufferId,
    except: &[BlockId],
) -> Result<(), ScheduleError> {
    let func = &state.func;
    let inside = |s: StmtId| except.iter().any(|b| func.contains(b.stmt(), s));
    let mut all = body(func, scope.stmt()).iter().flat_map(|&s| touches(func, s, buffer));
    match all.find(|t| t.stores && !inside(t.stmt)) {
        Some(touch) => Err(out_of_order(state, touch.stmt, buffer)),
        None => Ok(()),
    }
}

/// # Errors
///
/// If one of the statements accesses the buffer before the site.
pub(in super::super) fn require_behind(
    state: &State,
    scope: BlockId,
    site: Site,
    buffer: BufferId,
    readers: &[StmtId],
) -> Result<(), ScheduleError> {
    let func = &state.func;
    let Some(last) = site.position.checked_sub(1).map(|n| body(func, site.parent)[n]) else { return Ok(()) };
    let order = func.subtree(scope.stmt());
    let inside = func.subtree(last).len();
    let end = order.iter().position(|&s| s == last).map_or(0, |n| n + inside);
    for &reader in readers {
        let early = order[..end].contains(&reader);
        if early && let Some(touch) = touches(func, reader, buffer).first() {
            return Err(out_of_order(state, touch.stmt, buffer));
        }
    }
    Ok(())
}

/// The error that a statement would access a buffer, or its copy, at the wrong time.
pub(in super::super) fn out_of_order(state: &State, s: StmtId, buffer: BufferId) -> ScheduleError {
    let func = &state.func;
    let block = func.as_block(s).or_else(|| func.block_above(s)).unwrap_or(func.root);
    let kind = ErrorKind::CopyOutOfOrder { buffer: func.arena.buffer(buffer).name, block: func.block(block).name };
    state.error(kind, block)
}
