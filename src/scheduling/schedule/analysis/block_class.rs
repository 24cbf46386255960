//! Complete, reduction and output blocks, and compact data flow (TVM's `src/s_tir/schedule/analysis/analysis.cc`).
//!
//! Both classes are relative to a root: the scope of the block, or a loop in that scope. A *complete* block computes
//! each element of its outputs once, from other buffers. A *reduction* block combines values into elements that its
//! init has set. Other blocks must not be moved or run in parallel.

use super::super::error::{ErrorKind, ScheduleError};
use super::super::state::State;
use super::dependence::{Scope, few_users};
use super::tree;
use crate::ir::visit::uses_var;
use crate::ir::{BlockId, BufferId, Func, IterKind, Stmt, StmtId, VarId};
use smallvec::SmallVec;

/// The reason why a block is not complete: the first violated condition, in TVM's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotComplete {
    /// An iteration variable is not spatial.
    NotSpatial,
    /// Another block writes one of its outputs.
    NotDominant,
    /// It reads a buffer that it writes.
    ReadsItsOutput,
}

impl NotComplete {
    /// A description of the reason.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            NotComplete::NotSpatial => "an iteration variable is not spatial",
            NotComplete::NotDominant => "another block writes its output too",
            NotComplete::ReadsItsOutput => "it reads a buffer that it writes",
        }
    }
}

/// The reason why a block is not a reduction block: the first violated condition, in TVM's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotReduction {
    /// It has no init.
    NoInit,
    /// The bindings are not affine.
    NotAffine,
    /// An iteration variable is neither spatial nor reduction.
    OtherIters,
    /// Another block writes one of its outputs.
    NotDominant,
    /// A store inside is indexed by a reduction variable, or writes a buffer that the block does not list.
    IndexesOutput,
}

impl NotReduction {
    /// A description of the reason.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            NotReduction::NoInit => "it has no init",
            NotReduction::NotAffine => "its bindings are not affine in the loops",
            NotReduction::OtherIters => "an iteration variable is neither spatial nor reduction",
            NotReduction::NotDominant => "another block writes its output too",
            NotReduction::IndexesOutput => "a reduction variable indexes its output",
        }
    }
}

/// Whether the block is the only writer of its outputs below `root`.
///
/// As in TVM, a scope considers its own blocks, but a loop only the contents of the blocks below it.
fn is_dominant(state: &State, b: BlockId, root: StmtId) -> bool {
    let func = &state.func;
    let count = |blocks: &[BlockId], buffer: BufferId| -> usize {
        blocks.iter().flat_map(|&w| &func.block(w).writes).filter(|r| r.buffer == buffer).count()
    };
    if let Some(scope) = func.as_block(root) {
        return func.block(b).writes.iter().all(|w| {
            if let Some(blocks) = few_users(state, scope, w.buffer) {
                return count(&blocks, w.buffer) <= 1;
            }
            let scope = Scope::of(func, scope);
            let mut writers = scope.writers(w.buffer);
            match (writers.next(), writers.next()) {
                (Some(only), None) => count(&[only], w.buffer) <= 1,
                (None, _) => true,
                (Some(_), Some(_)) => false,
            }
        });
    }
    let children = func.child_blocks(root);
    let writers = |buffer: BufferId| -> usize {
        let inner = children.iter().map(|c| count(&func.child_blocks(c.stmt()), buffer));
        inner.into_iter().find(|&n| n > 0).unwrap_or(0)
    };
    func.block(b).writes.iter().all(|w| writers(w.buffer) <= 1)
}

/// Checks that the block is complete below `root`.
///
/// # Errors
///
/// The first violated condition.
pub(crate) fn check_complete(state: &State, b: BlockId, root: StmtId) -> Result<(), NotComplete> {
    let block = state.func.block(b);
    if block.iters.iter().any(|i| i.kind != IterKind::Spatial) {
        return Err(NotComplete::NotSpatial);
    }
    if !is_dominant(state, b, root) {
        return Err(NotComplete::NotDominant);
    }
    if block.reads.iter().any(|r| block.writes.iter().any(|w| w.buffer == r.buffer)) {
        return Err(NotComplete::ReadsItsOutput);
    }
    Ok(())
}

/// Checks that the block is a reduction block below `root`.
///
/// # Errors
///
/// The first violated condition.
pub(crate) fn check_reduction(state: &State, b: BlockId, root: StmtId) -> Result<(), NotReduction> {
    let func = &state.func;
    let block = func.block(b);
    if block.init.is_none() {
        return Err(NotReduction::NoInit);
    }
    if !state.info(b).affine_binding {
        return Err(NotReduction::NotAffine);
    }
    if !block.iters.iter().all(|i| matches!(i.kind, IterKind::Spatial | IterKind::Reduce)) {
        return Err(NotReduction::OtherIters);
    }
    if !is_dominant(state, b, root) {
        return Err(NotReduction::NotDominant);
    }
    if !stores_elsewhere_than_reduction(func, b) {
        return Err(NotReduction::IndexesOutput);
    }
    Ok(())
}

/// Whether the stores inside the block write only its stated outputs, at indices without reduction variables.
fn stores_elsewhere_than_reduction(func: &Func, b: BlockId) -> bool {
    let block = func.block(b);
    let reduce: SmallVec<[VarId; 4]> =
        block.iters.iter().filter(|i| i.kind == IterKind::Reduce).map(|i| i.var).collect();
    let mut known: SmallVec<[BufferId; 4]> =
        block.writes.iter().map(|w| w.buffer).chain(block.allocs.iter().copied()).collect();
    let views = |known: &mut SmallVec<[BufferId; 4]>, b: BlockId| {
        for m in &func.block(b).matches {
            if block.writes.iter().any(|w| w.buffer == m.source.buffer) {
                known.push(m.buffer);
            }
        }
    };
    views(&mut known, b);
    let mut todo: SmallVec<[StmtId; 8]> = block.body.iter().rev().copied().collect();
    while let Some(s) = todo.pop() {
        if let Some(inner) = func.as_block(s) {
            views(&mut known, inner);
        }
        if let Stmt::Store { buffer, indices, .. } = func.get(s) {
            let chosen = |&i| uses_var(&func.arena, i, &mut |v| reduce.contains(&v));
            if !known.contains(buffer) || func.arena.list(*indices).iter().any(chosen) {
                return false;
            }
        }
        todo.extend(func.get(s).children().into_iter().rev());
    }
    true
}

/// Whether the block is a reduction block of its scope.
pub(crate) fn is_reduction_block(state: &State, b: BlockId, scope: BlockId) -> bool {
    check_reduction(state, b, scope.stmt()).is_ok()
}

/// # Errors
///
/// If the block is not complete in its scope.
pub(crate) fn require_complete(state: &State, b: BlockId, scope: BlockId) -> Result<(), ScheduleError> {
    check_complete(state, b, scope.stmt()).map_err(|why| {
        let block = state.func.block(b).name;
        state.error(ErrorKind::IncompleteBlock { block, why: why.reason() }, b)
    })
}

/// # Errors
///
/// If the block is not a reduction block of its scope.
pub(crate) fn require_reduction(state: &State, b: BlockId, scope: BlockId) -> Result<(), ScheduleError> {
    check_reduction(state, b, scope.stmt()).map_err(|why| {
        let block = state.func.block(b).name;
        state.error(ErrorKind::NotReductionBlock { block, why: why.reason() }, b)
    })
}

/// # Errors
///
/// If the block is neither a complete nor a reduction block of its scope.
pub(crate) fn require_complete_or_reduction(state: &State, b: BlockId, scope: BlockId) -> Result<(), ScheduleError> {
    let Err(complete) = check_complete(state, b, scope.stmt()) else { return Ok(()) };
    let Err(reduction) = check_reduction(state, b, scope.stmt()) else { return Ok(()) };
    let kind = ErrorKind::NotCompleteOrReductionBlock {
        block: state.func.block(b).name,
        complete: complete.reason(),
        reduction: reduction.reason(),
    };
    Err(state.error(kind, b))
}

/// Checks that every block directly below `root` is complete or a reduction block with respect to it (TVM's
/// `CheckSubtreeCompactDataflow`).
///
/// # Errors
///
/// At the first block that is neither.
pub(crate) fn require_compact_data_flow(state: &State, root: impl Into<StmtId>) -> Result<(), ScheduleError> {
    let root = root.into();
    for b in state.func.child_blocks(root) {
        if check_complete(state, b, root).is_err() && check_reduction(state, b, root).is_err() {
            return Err(state.error(ErrorKind::NotCompactDataFlow { block: state.func.block(b).name }, b));
        }
    }
    Ok(())
}

/// Whether the block writes a buffer that its scope does not allocate.
pub(crate) fn is_output_block(func: &Func, b: BlockId, scope: BlockId) -> bool {
    func.block(b).writes.iter().any(|w| !func.block(scope).allocs.contains(&w.buffer))
}

/// # Errors
///
/// If the block writes a buffer that its scope does not allocate.
pub(crate) fn require_not_output(state: &State, b: BlockId, scope: BlockId) -> Result<(), ScheduleError> {
    if is_output_block(&state.func, b, scope) {
        return Err(state.error(ErrorKind::OutputBlock { block: state.func.block(b).name }, b));
    }
    Ok(())
}

/// The scope of a block, and the dependences in it.
///
/// # Errors
///
/// For the root block.
pub(crate) fn scope_dependences(state: &State, b: BlockId) -> Result<(BlockId, Scope), ScheduleError> {
    let scope = tree::require_scope(state, b, false)?;
    Ok((scope, Scope::of(&state.func, scope)))
}
