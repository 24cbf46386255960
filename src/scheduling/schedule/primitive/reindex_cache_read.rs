//! # `reindex_cache_read`
//!
//! Copies what a block reads into a buffer whose layout the map determines.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * 2.0
//!
//! def steps(sch):
//!     sch.reindex_cache_read("B", 0, "local", lambda vi, vj: (vj, vi))
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     A_local = T.sblock_alloc_buffer((8, 4), scope="local")
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("A_local"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             A_local[vj, vi] = A[vi, vj]
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A_local[vj, vi] * T.float32(2.0)
//! ```
//!
//! * Requires: single-element accesses; equal iteration variables.
//! * Errors: `NotSinglePointAccess`, `ReindexCacheReadWriteNotMatchError`, `ReindexCacheOverlapError`,
//!   `ExtentOverflowError`, `CachedBufferIsReadError`, `CopyOutOfOrderError`, `GuardedBlockError`.
//! * Handles: persists: all; created: the copy block, its loops.
//! * Unlike TVM: a copy of elements that the block reads under a condition tests the bounds (`T.if_then_else`); under a
//!   loop around the block too, the copy keeps the block's predicate, as far as that does not follow from the domains.
//! * Refused, though TVM accepts it: maps that send different elements to one place; blocks that also write the buffer.
//!
//! # Implementation
//!
//! Makes a block read a copy of a buffer with a layout given by an index map of the block's iteration variables.
//!
//! ```text
//! for i, j, k in T.grid(32, 32, 32):
//!     with T.block("C"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//! # becomes, for B with storage scope "shared" and index_map=lambda i, j, k: (j, k)
//! for j, k in T.grid(32, 32):
//!     with T.block("B_shared"): B_shared[vj, vk] = B[vk, vj]
//! for i, j, k in T.grid(32, 32, 32):
//!     with T.block("C"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B_shared[vj, vk]
//! ```
//!
//! The copy's loops are copies of those loops that drive the used iteration variables and are not around the copy. It
//! is placed as by `cache_read`. As in TVM it lacks the block's predicate, and may copy more than the block reads; but
//! under a loop that is also around the block, it keeps the conditions that do not follow from the domains of the
//! variables. If the block reads under a condition without which it would read outside the buffer, the copy tests the
//! bounds (`T.if_then_else(1 <= vi, A[vi - 1], 0)`); TVM's does not.
//!
//! Requires: a stage pipeline; the block reads one element of the buffer per instance; the map uses the same iteration
//! variables as the buffer's indices; at most one block of the scope writes the buffer. Preserves: all loops and
//! blocks. Returns: the copy block.
//!
//! TVM also accepts cases that change the result, which are refused here: a map that sends different elements to the
//! same position; a block that also writes the buffer.
//!
//! Handles: all persist; created, the copy block and its loops.

use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::tree::require_scope;
use super::super::arg::Lambda;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::reindexed::{self, Layout, Planned, require_single_point};
use super::cache::site::{Site, require_behind, require_no_store};
use super::cache::stage::{Way, require_only_writer};
use crate::ir::{BlockId, Symbol};

/// `reindex_cache_read(block, read_buffer_index, storage_scope, index_map)`.
pub(crate) static REINDEX_CACHE_READ: Kind = Kind {
    name: "ReindexCacheRead",
    method: "reindex_cache_read",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("read_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
        Param::input("index_map", Ty::IndexMap),
    ],
    outputs: Outputs::Block,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    reindexed::run(call, Access::Read, Way::In, check)
}

fn check(
    state: &mut State,
    block: BlockId,
    index: usize,
    storage: Symbol,
    map: &Lambda,
) -> Result<Planned, ScheduleError> {
    require_storage_scope(storage)?;
    let scope = require_scope(state, block, true)?;
    let node = state.func.block(block);
    let region = node.reads[index];
    if node.writes.iter().any(|w| w.buffer == region.buffer) {
        let buffer = state.func.arena.buffer(region.buffer).name;
        return Err(state.error(ErrorKind::CachedBufferIsRead { buffer }, block));
    }
    require_single_point(state, block, &region, Access::Read)?;
    let writer = require_only_writer(state, scope, region.buffer)?;
    let site = match writer {
        Some(writer) => Site::behind(state, scope, writer, region.buffer, &[block])?,
        None => Site::first_behind_stores(&state.func, scope, region.buffer),
    };
    let mut layout = Layout::check(state, block, &region, Access::Read, map)?;
    if state.func.as_loop(site.parent).is_some() {
        // Elements for another iteration of the loop may not be written yet, and that iteration may run now.
        layout.keep_predicate(state, site)?;
    }
    if writer.is_some() {
        require_no_store(state, scope, region.buffer, writer.as_slice())?;
    }
    require_behind(state, scope, site, region.buffer, &[block.stmt()])?;
    Ok((scope, site, layout))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::arg::{Arg, Lambda, LambdaExpr};
    use crate::schedule::error::ScheduleError;
    use std::sync::Arc;

    fn cache(results: &'static [usize]) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block("C");
            let params = ["i", "j"].map(Into::into).to_vec();
            let results = results.iter().map(|&p| LambdaExpr::Param(p)).collect();
            let map = Arg::Lambda(Arc::new(Lambda { params, results, scalar: false, ranges: false }));
            t.run("reindex_cache_read", vec![block.into(), 0.into(), "local".into(), map]).map(drop)
        }
    }

    const COPY: &str = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj, vi]
"#;

    #[test]
    fn the_map_lays_the_copy_out() {
        check(
            COPY,
            cache(&[0, 1]),
            r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((8, 4))):
    A_local = T.alloc_buffer((8, 4), scope="local")
    for i, j in T.grid(8, 4):
        with T.block("A_local"):
            vi, vj = T.axis.remap("SS", [i, j])
            A_local[vi, vj] = A[vj, vi]
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A_local[vi, vj]
"#,
        );
    }

    #[test]
    fn a_padded_read_is_copied_where_it_exists() {
        let padded = |load: &str| format!("T.if_then_else(0 < vj, {load}, T.float32(0))");
        check(
            &COPY.replace("A[vj, vi]", &padded("A[vj - 1, vi]")),
            cache(&[0, 1]),
            &format!(
                r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((8, 4))):
    A_local = T.alloc_buffer((8, 4), scope="local")
    for i, j in T.grid(8, 4):
        with T.block("A_local"):
            vi, vj = T.axis.remap("SS", [i, j])
            A_local[vi, vj] = A[vj - 1, vi]
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {}
"#,
                padded("A_local[vi, vj]")
            ),
        );
    }

    #[test]
    fn refusals() {
        refuse(COPY, cache(&[0]), "ReindexCacheReadWriteNotMatchError");
        refuse(
            &COPY.replace("A[vj, vi]", "A[vj, vi] + C[vi, vj]").replace("C[vi, vj] =", "A[vj, vi] ="),
            cache(&[0, 1]),
            "CachedBufferIsReadError",
        );
    }
}
