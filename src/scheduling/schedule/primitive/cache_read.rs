//! # `cache_read`
//!
//! Copies a buffer, and redirects its readers to the copy.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     sch.cache_read("B", 0, "local")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     A_local = T.sblock_alloc_buffer((30,), scope="local")
//!     for ax0 in range(30):
//!         with T.sblock("A_local"):
//!             v0 = T.axis.spatial(30, ax0)
//!             A_local[v0] = A[v0]
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A_local[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: at most one writer; no view.
//! * Errors: `BufferIndexOutOfRangeError`, `NotSingleWriteBlock`, `NotRegionCoverError`, `CopyOutOfOrderError`,
//!   `CopyOutOfBoundsError`.
//! * Handles: persists: all; created: the copy block, its loops.
//! * Unlike TVM: the copy follows blocks that write the buffer without declaring it (of `loop_partition`), where TVM
//!   copies first.
//! * Refused, though TVM accepts it: readers before the copy. If all `consumer_blocks` run before the only writer, the
//!   initial contents of the buffer are copied at the start of the scope.
//!
//! # Implementation
//!
//! Makes the readers of a buffer read a copy.
//!
//! ```text
//! for i, j in T.grid(128, 128):
//!     with T.block("B"): B[vi, vj] = A[vi, vj] * 2
//! # becomes, with storage scope "local"
//! A_local = T.alloc_buffer((128, 128), scope="local")
//! for ax0, ax1 in T.grid(128, 128):
//!     with T.block("A_local"): A_local[v0, v1] = A[v0, v1]
//! for i, j in T.grid(128, 128):
//!     with T.block("B"): B[vi, vj] = A_local[vi, vj] * 2
//! ```
//!
//! If no block of the scope writes the buffer, the region that the scope declares to read is copied (for `root`, the
//! whole buffer), at the start of the scope; likewise if all `consumer_blocks` precede the block that writes the
//! buffer. Otherwise the region is copied that the writer writes in an iteration of the innermost loop around it and
//! one of the readers, before that reader. All readers of the scope read the copy, or only those in `consumer_blocks`
//! and the blocks directly in these. Under a loop the new buffer has the shape of the old one; directly in the scope it
//! has the shape of the copied region.
//!
//! Requires: at most one block of the scope writes the buffer, and it writes all elements that the others read.
//! Preserves: all
//! loops and blocks. Returns: the copy block.
//!
//! If blocks store to the buffer without declaring it (those of `loop_partition`), the copy comes after them; TVM
//! copies first.
//!
//! TVM also accepts cases that change the result, which are refused here: a reader before the copy, and further blocks
//! that do not declare their stores to the buffer.
//!
//! Handles: all persist; created, the copy block and its loops.

use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::region_bound::{Ranges, relax_region};
use super::super::analysis::tree::require_scope;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::site::{Site, require_behind, require_no_store, touches};
use super::cache::stage::{self, Stage, Way, require_only_writer};
use crate::ir::{BlockId, BufferId, BufferRegion, Func, StmtId, Symbol};

/// `cache_read(block, read_buffer_index, storage_scope, consumer_blocks=None)`.
pub(crate) static CACHE_READ: Kind = Kind {
    name: "CacheRead",
    method: "cache_read",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("read_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
        Param::input("consumer_blocks", Ty::Blocks).or(Default::Empty),
    ],
    outputs: Outputs::Block,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    stage::run(call, Access::Read, check)
}

fn check(
    state: &mut State,
    block: BlockId,
    index: usize,
    storage: Symbol,
    consumers: &[BlockId],
) -> Result<Stage, ScheduleError> {
    require_storage_scope(storage)?;
    let scope = require_scope(state, block, false)?;
    let buffer = state.func.block(block).reads[index].buffer;
    require_region_cover(state, scope, buffer)?;
    let writer = require_only_writer(state, scope, buffer)?;
    if writer.is_some() {
        require_no_store(state, scope, buffer, writer.as_slice())?;
    }
    let redirected = readers(state, scope, buffer, writer, consumers);
    let (site, ranges) = match writer {
        Some(writer) if all_are_in_front(&state.func, scope, consumers, writer) => {
            (Site::first(scope), from_outside(state, scope, buffer))
        }
        Some(writer) => {
            let site = Site::behind(state, scope, writer, buffer, consumers)?;
            (site, written_below(state, writer, buffer, site))
        }
        None => (Site::first_behind_stores(&state.func, scope, buffer), from_outside(state, scope, buffer)),
    };
    require_behind(state, scope, site, buffer, &redirected)?;
    let mut stage = Stage { scope, site, buffer, ranges, storage, way: Way::In, redirected, filled: None };
    stage.keep_in_bounds(state)?;
    Ok(stage)
}

/// # Errors
///
/// If a block reads elements of the buffer that no block in the scope has written before.
fn require_region_cover(state: &State, scope: BlockId, buffer: BufferId) -> Result<(), ScheduleError> {
    let func = &state.func;
    for b in func.child_blocks(scope.stmt()) {
        let node = func.block(b);
        if node.reads.iter().any(|r| r.buffer == buffer) && !state.info(b).region_cover {
            return Err(state.error(ErrorKind::NotRegionCover { block: node.name }, b));
        }
    }
    Ok(())
}

/// The blocks whose accesses are redirected to the cache, without the writers.
fn readers(
    state: &State,
    scope: BlockId,
    buffer: BufferId,
    writer: Option<BlockId>,
    consumers: &[BlockId],
) -> Vec<StmtId> {
    let func = &state.func;
    let mut readers = match consumers {
        [] => func.child_blocks(scope.stmt()),
        _ => consumers.iter().copied().filter(|c| *c != scope && func.contains(scope.stmt(), c.stmt())).collect(),
    };
    // A block with undeclared stores continues to use the buffer.
    let stores = |b: BlockId| touches(func, b.stmt(), buffer).iter().any(|t| t.stores);
    readers.retain(|&b| Some(b) != writer && (writer.is_some() || !stores(b)));
    readers.into_iter().map(BlockId::stmt).collect()
}

/// Whether all given consumers precede the writer, so that they read the initial contents of the buffer.
fn all_are_in_front(func: &Func, scope: BlockId, consumers: &[BlockId], writer: BlockId) -> bool {
    let order = func.subtree(scope.stmt());
    let place = |b: BlockId| order.iter().position(|&s| s == b.stmt());
    // A loop around both would run the consumer again after the writer.
    let runs_once = |s: StmtId| func.as_loop(s).is_some_and(|l| func.arena.is_int(func.loop_(l).extent, 1));
    let is_in_front = |&c: &BlockId| {
        let shared = func.ancestors(c.stmt()).take_while(|&s| s != scope.stmt());
        let mut shared = shared.filter(|&s| func.contains(s, writer.stmt()));
        place(c).zip(place(writer)).is_some_and(|(c, w)| c < w)
            && !func.contains(c.stmt(), writer.stmt())
            && shared.all(runs_once)
    };
    !consumers.is_empty() && consumers.iter().all(is_in_front)
}

/// The part of the writer's region that is copied.
fn written_below(state: &mut State, writer: BlockId, buffer: BufferId, site: Site) -> Ranges {
    let region = state.func.block(writer).writes.iter().find(|w| w.buffer == buffer).copied();
    let region = region.expect("the writer writes the buffer");
    relax_region(&mut state.func, writer, &region, site.parent).0
}

/// The region of the buffer's initial contents that the scope reads.
fn from_outside(state: &mut State, scope: BlockId, buffer: BufferId) -> Ranges {
    let func = &mut state.func;
    let stated = func.block(scope).reads.iter().find(|r| r.buffer == buffer).copied();
    let region = stated.unwrap_or_else(|| BufferRegion::full(&mut func.arena, buffer));
    region.ranges(&func.arena).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::arg::Arg;
    use crate::schedule::error::ScheduleError;

    fn cache(
        name: &'static str,
        index: i64,
        consumers: &'static [&'static str],
    ) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block(name);
            let consumers = consumers.iter().map(|c| t.block(c).into()).collect();
            t.run("cache_read", vec![block.into(), index.into(), "local".into(), Arg::List(consumers)]).map(drop)
        }
    }

    const CHAIN: &str = r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + A[vi, vj]
"#;

    #[test]
    fn all_readers_of_an_input_read_the_copy() {
        check(
            CHAIN,
            cache("B", 0, &[]),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    A_local = T.alloc_buffer((8, 4), scope="local")
    for ax0, ax1 in T.grid(8, 4):
        with T.block("A_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_local[v0, v1] = A[v0, v1]
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A_local[vi, vj]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + A_local[vi, vj]
"#,
        );
    }

    #[test]
    fn chosen_readers_of_what_the_scope_writes() {
        check(
            CHAIN,
            cache("D", 0, &["D"]),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    B_local = T.alloc_buffer((8, 4), scope="local")
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
    for ax0, ax1 in T.grid(8, 4):
        with T.block("B_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B_local[v0, v1] = B[v0, v1]
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B_local[vi, vj] + A[vi, vj]
"#,
        );
    }

    #[test]
    fn the_copy_goes_behind_parts_that_hide_their_stores() {
        check(
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"#,
            |t| {
                t.python(
                    "sch.loop_partition(sch.get_loops(sch.get_block('B', 'main'))[0], [3, None])
                    sch.cache_read(sch.get_block('C', 'main'), 0, 'local')",
                )
            },
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_local = T.alloc_buffer((8,), scope="local")
    with T.block("B_i_common"):
        T.reads()
        T.writes()
        with T.block("B_i0_partition"):
            T.reads()
            T.writes()
            for i0 in range(3):
                with T.block("B_i0"):
                    vi = T.axis.spatial(3, i0)
                    T.reads(A[0:3])
                    T.writes(B[0:3])
                    B[vi] = A[vi]
        with T.block("B_i1_partition"):
            T.reads()
            T.writes()
            for i1 in range(3, 8):
                with T.block("B_i1"):
                    vi = T.axis.spatial((3, 8), i1)
                    T.reads(A[3:8])
                    T.writes(B[3:8])
                    B[vi] = A[vi]
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B_local[v0] = B[v0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B_local[vi]
"#,
        );
    }

    #[test]
    fn refusals() {
        refuse(CHAIN, cache("D", 2, &[]), "BufferIndexOutOfRangeError");
        let half = CHAIN.replace(
            "for j in range(4):\n            with T.block(\"B\")",
            "for j in range(2):\n            with T.block(\"B\")",
        );
        refuse(&half, cache("C", 0, &[]), "NotRegionCoverError");
        let twice = CHAIN.replace("D[vi, vj] = B[vi, vj] + A", "B[vi, vj] = A");
        refuse(&twice, cache("C", 0, &[]), "NotSingleWriteBlock");
        let before = CHAIN.replace("B[vi, vj] = A[vi, vj]", "B[vi, vj] = D[vi, vj]");
        refuse(&before, cache("B", 0, &[]), "CopyOutOfOrderError");
    }
}
