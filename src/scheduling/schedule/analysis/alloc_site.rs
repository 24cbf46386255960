//! Finds the allocation of a buffer.

use super::super::error::{ErrorKind, ScheduleError};
use super::super::state::State;
use crate::ir::{BlockId, BufferId, Func, Stmt, StmtId, Symbol};

/// The block that allocates the buffer, searched from a block outwards.
///
/// # Errors
///
/// If the buffer is a parameter or a view.
pub(crate) fn require_alloc_site(state: &State, from: BlockId, buffer: BufferId) -> Result<BlockId, ScheduleError> {
    let func = &state.func;
    std::iter::once(from.stmt())
        .chain(func.ancestors(from.stmt()))
        .filter_map(|s| func.as_block(s))
        .find(|&b| func.block(b).allocs.contains(&buffer))
        .ok_or_else(|| {
            let kind = ErrorKind::NonAllocatedBuffer { buffer: func.arena.buffer(buffer).name };
            state.error(kind, from)
        })
}

/// The views (`T.match_buffer`) of a buffer below a statement, and views of those.
pub(crate) fn views_below(func: &Func, s: StmtId, buffer: BufferId) -> Vec<BufferId> {
    let mut shown = vec![buffer];
    for s in func.subtree(s) {
        if let Stmt::Block(b) = func.get(s) {
            for m in &b.matches {
                if shown.contains(&m.source.buffer) {
                    shown.push(m.buffer);
                }
            }
        }
    }
    shown.remove(0);
    shown
}

/// # Errors
///
/// If there is no storage scope with this name (TVM's `StorageScope::Create`).
pub(crate) fn require_storage_scope(scope: Symbol) -> Result<(), ScheduleError> {
    const PREFIXES: [&str; 4] = ["global", "shared", "warp", "local"];
    const OTHERS: [&str; 9] = [
        "",
        "texture",
        "wmma.matrix_a",
        "wmma.matrix_b",
        "wmma.accumulator",
        "amx.tmm",
        "m16n8k8.matrixA",
        "m16n8k8.matrixB",
        "m16n8k8.matrixC",
    ];
    let name = scope.as_str();
    if PREFIXES.iter().any(|p| name.starts_with(p)) || OTHERS.contains(&name) || name == "metal.simdgroup" {
        return Ok(());
    }
    Err(ErrorKind::InvalidStorageScope { scope }.into())
}
