//! # `cache_write`
//!
//! Redirects a block's stores to a new buffer, which is then copied out.
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
//!     sch.cache_write("B", 0, "local")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     B_local = T.sblock_alloc_buffer((30,), scope="local")
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B_local[vi] = A[vi] * T.float32(2.0)
//!     for ax0 in range(30):
//!         with T.sblock("B_local"):
//!             v0 = T.axis.spatial(30, ax0)
//!             B[v0] = B_local[v0]
//! ```
//!
//! * Requires: the only writer; no view.
//! * Errors: `BufferIndexOutOfRangeError`, `NotSingleWriteBlock`, `CachedBufferIsReadError`, `CopyOutOfOrderError`,
//!   `CopyOutOfBoundsError`, `UncoveredCopyError`.
//! * Handles: persists: all; created: the copy block, the block that fills, their loops.
//! * Unlike TVM: if the block uses elements of the buffer that neither its init nor a block inside has set before, or
//!   writes it only partially, the cache is filled first; in TVM it starts uninitialised.
//! * Refused, though TVM accepts it: blocks that read more of the buffer than they write; copies of more than the block
//!   writes, if enclosing iterations run in parallel.
//!
//! # Implementation
//!
//! Makes a block write to a new buffer, which is copied to the old one.
//!
//! ```text
//! for i, j in T.grid(128, 128):
//!     with T.block("B"): B[vi, vj] = A[vi, vj] * 2
//! # becomes, with storage scope "local"
//! B_local = T.alloc_buffer((128, 128), scope="local")
//! for i, j in T.grid(128, 128):
//!     with T.block("B"): B_local[vi, vj] = A[vi, vj] * 2
//! for ax0, ax1 in T.grid(128, 128):
//!     with T.block("B_local"): B[v0, v1] = B_local[v0, v1]
//! ```
//!
//! The copy is placed in the innermost loop around the block that also contains a reader of the buffer, before the
//! first reader there, and copies the region that the block writes in an iteration of that loop; without readers, it is
//! placed at the end of the scope. The blocks of `consumer_blocks` read the new buffer, and do not affect the position
//! of the copy. Under a loop the new buffer has the shape of the old one; directly in the scope it has the shape of the
//! copied region.
//!
//! Requires: the only block of its scope that writes the buffer. Preserves: all loops and blocks. Returns: the copy
//! block.
//!
//! If the block uses values of the buffer that its init has not set, or leaves parts of the copied region unwritten,
//! TVM copies uninitialised memory back. tvmr fills the cache first:
//!
//! ```text
//! for ax0, ax1 in T.grid(128, 128):
//!     with T.block("B_local_fill"): B_local[v0, v1] = B[v0, v1]
//! for i, j in T.grid(128, 128):
//!     with T.block("B"): B_local[vi, vj] = B_local[vi, vj] + 1
//! for ax0, ax1 in T.grid(128, 128):
//!     with T.block("B_local"): B[v0, v1] = B_local[v0, v1]
//! ```
//!
//! TVM also accepts cases that change the result, which are refused here: a block that reads more of the buffer than it
//! writes; a copy of more than the block writes, if enclosing iterations may run at the same time; blocks that do not
//! declare an access to the buffer, or read it in a later iteration, before the copy.
//!
//! Handles: all persist; created, the copy block, the block that fills the cache, and their loops.

use super::super::analysis::access::accesses_of;
use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::filled::fills_its_region;
use super::super::analysis::guard::bound_around;
use super::super::analysis::region_bound::relax_region;
use super::super::analysis::tree::require_scope;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::output::{Output, check_output, runs_in_parallel};
use super::cache::stage::{self, Stage, Way};
use crate::ir::{BlockId, CmpOp, Symbol};

/// `cache_write(block, write_buffer_index, storage_scope, consumer_blocks=None)`.
pub(crate) static CACHE_WRITE: Kind = Kind {
    name: "CacheWrite",
    method: "cache_write",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("write_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
        Param::input("consumer_blocks", Ty::Blocks).or(Default::Empty),
    ],
    outputs: Outputs::Block,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    stage::run(call, Access::Write, check)
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
    let region = state.func.block(block).writes[index];
    let buffer = region.buffer;
    let Output { site, redirected, reads } = check_output(state, scope, block, &region, consumers)?;
    let is_local = state.func.block(scope).allocs.contains(&buffer);
    let (ranges, is_exact) = relax_region(&mut state.func, block, &region, site.parent);
    let covers = is_local || is_exact && fills_its_region(&mut state.func, block, buffer);
    let filled = (reads || !covers).then_some(block);
    let mut stage = Stage { scope, site, buffer, ranges, storage, way: Way::Out, redirected, filled };
    stage.keep_in_bounds(state)?;
    if filled.is_some() {
        require_fillable(state, block, &stage, is_exact)?;
    }
    Ok(stage)
}

/// # Errors
///
/// If the fill would miss elements that the block reads, or if the copy out would write old values of elements that
/// another iteration may write at the same time.
fn require_fillable(state: &mut State, block: BlockId, stage: &Stage, is_exact: bool) -> Result<(), ScheduleError> {
    let name = state.func.arena.buffer(stage.buffer).name;
    let stated = state.func.block(block).reads.clone();
    let found = accesses_of(&mut state.func, block).reads;
    let mut analyzer = bound_around(&mut state.func, stage.site.parent);
    for read in stated.iter().chain(&found).filter(|r| r.buffer == stage.buffer) {
        let (read, _) = relax_region(&mut state.func, block, read, stage.site.parent);
        let a = &mut state.func.arena;
        let is_held = read.iter().zip(&stage.ranges).all(|(&(min, extent), &(first, length))| {
            let (end, last) = (a.add(min, extent), a.add(first, length));
            let (starts, ends) = (a.compare(CmpOp::Le, first, min), a.compare(CmpOp::Le, end, last));
            analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
        });
        if !is_held {
            return Err(state.error(ErrorKind::CachedBufferIsRead { buffer: name }, block));
        }
    }
    let at_scope = stage.site.parent == stage.scope.stmt();
    if is_exact || at_scope && !runs_in_parallel(&state.func, stage.scope.stmt()) {
        return Ok(());
    }
    let block_name = state.func.block(block).name;
    Err(state.error(ErrorKind::UncoveredCopy { block: block_name, buffer: name }, block))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::arg::Arg;
    use crate::schedule::error::ScheduleError;

    fn cache(
        name: &'static str,
        consumers: &'static [&'static str],
    ) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block(name);
            let consumers = consumers.iter().map(|c| t.block(c).into()).collect();
            t.run("cache_write", vec![block.into(), 0.into(), "local".into(), Arg::List(consumers)]).map(drop)
        }
    }

    const CHAIN: &str = r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi]
"#;

    #[test]
    fn consumers_read_the_cache() {
        check(
            CHAIN,
            cache("B", &["C"]),
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_local = T.alloc_buffer((8,), scope="local")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_local[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B_local[vi]
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B[v0] = B_local[v0]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi]
"#,
        );
    }

    #[test]
    fn the_copy_goes_inside_common_loops() {
        check(
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
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
"#,
            cache("B", &[]),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    B_local = T.alloc_buffer((8, 4), scope="local")
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vi, vj] = A[vi, vj]
        for ax0, ax1 in T.grid(1, 4):
            with T.block("B_local"):
                v0 = T.axis.spatial(8, i + ax0)
                v1 = T.axis.spatial(4, ax1)
                B[v0, v1] = B_local[v0, v1]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
"#,
        );
    }

    #[test]
    fn the_cache_holds_what_is_written() {
        check(
            r#"
def main(A: T.Buffer((8,)), B: T.Buffer((20,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi + 5] = A[vi]
"#,
            cache("B", &[]),
            r#"
def main(A: T.Buffer((8,)), B: T.Buffer((20,))):
    B_local = T.alloc_buffer((8,), scope="local")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_local[vi] = A[vi]
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B[5 + v0] = B_local[v0]
"#,
        );
    }

    /// Checks a block that does not set the whole buffer by itself.
    fn check_filled(store: &str, cached: &str) {
        let program = |blocks: &str| {
            format!("def main(A: T.Buffer((8,)), C: T.Buffer((8,))):\n{}", blocks.trim_start_matches('\n'))
        };
        let before = program(&format!(
            r#"
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            {store}
"#
        ));
        let after = program(&format!(
            r#"
    C_local = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("C_local_fill"):
            v0 = T.axis.spatial(8, ax0)
            C_local[v0] = C[v0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            {cached}
    for ax0 in range(8):
        with T.block("C_local"):
            v0 = T.axis.spatial(8, ax0)
            C[v0] = C_local[v0]
"#
        ));
        check(&before, cache("C", &[]), &after);
    }

    #[test]
    fn the_cache_is_filled_where_the_block_does_not() {
        check_filled("C[vi] = C[vi] + A[vi]", "C_local[vi] = C_local[vi] + A[vi]");
        let conditional = |c: &str| format!("if A[vi] > T.float32(0):\n                {c}[vi] = A[vi]");
        check_filled(&conditional("C"), &conditional("C_local"));
    }

    #[test]
    fn refusals() {
        let elsewhere = CHAIN.replace("C[vi] = B[vi]", "C[vi // 2] = C[7 - vi // 2] + B[vi]");
        refuse(&elsewhere, cache("C", &[]), "CachedBufferIsReadError");
        let twice = CHAIN.replace("D[vi] = B[vi]", "B[vi] = A[vi]");
        refuse(&twice, cache("B", &[]), "NotSingleWriteBlock");
        refuse(
            CHAIN,
            |t| {
                let block = t.block("B");
                t.run("cache_write", vec![block.into(), 1.into(), "local".into()]).map(drop)
            },
            "BufferIndexOutOfRangeError",
        );
    }

    #[test]
    fn a_reader_in_the_next_iteration_would_come_too_early() {
        refuse(
            r#"
def main(A: T.Buffer((9,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((9,))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi + 1] = A[vi]
"#,
            cache("B", &[]),
            "CopyOutOfOrderError",
        );
    }
}
