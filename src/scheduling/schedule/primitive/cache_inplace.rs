//! # `cache_inplace`
//!
//! Copies a buffer that a block both reads and writes in and out.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32)):
//!     for i in range(32):
//!         with T.sblock("A"):
//!             vi = T.axis.spatial(32, i)
//!             A[vi] = A[vi] + 1.0
//!
//! def steps(sch):
//!     sch.cache_inplace("A", 0, "local")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,))):
//!     A_local = T.sblock_alloc_buffer((32,), scope="local")
//!     for i in range(32):
//!         for ax0 in range(1):
//!             with T.sblock("A_local"):
//!                 v0 = T.axis.spatial(32, i + ax0)
//!                 A_local[v0] = A[v0]
//!         with T.sblock("A"):
//!             vi = T.axis.spatial(32, i)
//!             A_local[vi] = A_local[vi] + T.float32(1.0)
//!         for ax0 in range(1):
//!             with T.sblock("A_local"):
//!                 v0 = T.axis.spatial(32, i + ax0)
//!                 A[v0] = A_local[v0]
//! ```
//!
//! * Requires: the block reads and writes the buffer.
//! * Errors: `NotSingleReadWriteBuffer`.
//! * Handles: persists: all; created: both copy blocks, their loops.
//!
//! # Implementation
//!
//! Makes a block that updates a buffer in place work on a copy.
//!
//! ```text
//! for i, j in T.grid(16, 8):
//!     with T.block("A"): A[vi, vj] = A[vi, vj] + 1
//! # becomes, with storage scope "local"
//! A_local = T.alloc_buffer((16, 8), scope="local")
//! for i, j in T.grid(16, 8):
//!     for ax0, ax1 in T.grid(1, 1):
//!         with T.block("A_local"): A_local[v0, v1] = A[v0, v1]
//!     with T.block("A"): A_local[vi, vj] = A_local[vi, vj] + 1
//!     for ax0, ax1 in T.grid(1, 1):
//!         with T.block("A_local"): A[v0, v1] = A_local[v0, v1]
//! ```
//!
//! Each instance's part is copied in directly before it and copied out directly after it, under the block's predicate.
//! TVM leaves the block's iteration variables in the bindings of the copies, where they are out of scope; tvmr replaces
//! them by their values.
//!
//! Requires: the block reads and writes the same part of the buffer, inside it. Preserves: all loops and blocks.
//! Returns: the two copy blocks.
//!
//! Handles: all persist; created, the copy blocks and their loops.

use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::region_bound::Ranges;
use super::super::analysis::tree::{parent, require_scope};
use super::super::arg::RvValue;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::access::require_in_bounds;
use super::cache::nest::{CopyBox, copy_nest};
use super::cache::redirect::Redirect;
use super::cache::stage::set_copy_info;
use crate::arith::Analyzer;
use crate::ir::{BlockId, BufferRegion, ExprId, Substitution, Symbol};
use smallvec::SmallVec;

/// `cache_inplace(block, read_buffer_index, storage_scope)`.
pub(crate) static CACHE_INPLACE: Kind = Kind {
    name: "CacheInplace",
    method: "cache_inplace",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("read_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
    ],
    outputs: Outputs::Blocks,
    samples: false,
    run,
};

/// The result of the checks.
struct CachePlan {
    block: BlockId,
    scope: BlockId,
    region: BufferRegion,
    /// The region over the loops around the block.
    ranges: Ranges,
    storage: Symbol,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let index = call.buffer_index(1, func, block, Access::Read)?;
    let storage = call.str(2)?;
    let state = call.state(func);
    let plan = check(state, block, index, storage)?;
    let copies = apply(state, plan);
    Ok(Outcome { outputs: copies.into_iter().map(|b| RvValue::Block(func, b)).collect(), decision: None })
}

fn check(state: &mut State, block: BlockId, index: usize, storage: Symbol) -> Result<CachePlan, ScheduleError> {
    require_storage_scope(storage)?;
    let scope = require_scope(state, block, false)?;
    let node = state.func.block(block);
    let region = node.reads[index];
    let same = |regions: &[BufferRegion]| regions.iter().all(|r| r.buffer != region.buffer || *r == region);
    let writes_it = node.writes.iter().any(|w| w.buffer == region.buffer);
    if !writes_it || !same(&node.writes) || !same(&node.reads) {
        let buffer = state.func.arena.buffer(region.buffer).name;
        return Err(state.error(ErrorKind::NotReadWrite { block: node.name, buffer }, block));
    }
    let a = &mut state.func.arena;
    let ends: SmallVec<[ExprId; 4]> = region
        .ranges(a)
        .collect::<Ranges>()
        .into_iter()
        .map(|(min, extent)| {
            let end = a.add(min, extent);
            a.add_const(end, -1)
        })
        .collect();
    let mins: SmallVec<[ExprId; 4]> = state.func.arena.list(region.mins).iter().copied().collect();
    require_in_bounds(state, block, region.buffer, &mins)?;
    require_in_bounds(state, block, region.buffer, &ends)?;

    let node = state.func.stmts.block(block);
    let mut bindings = Substitution::of_vars(node.iters.iter().map(|i| (i.var, i.value)));
    let a = &mut state.func.arena;
    let mut analyzer = Analyzer::new();
    let bound = bindings.apply_region(a, &region);
    let ranges = bound
        .ranges(a)
        .collect::<Ranges>()
        .into_iter()
        .map(|(min, extent)| (min, analyzer.simplify(a, extent)))
        .collect();
    Ok(CachePlan { block, scope, region, ranges, storage })
}

fn apply(state: &mut State, plan: CachePlan) -> [BlockId; 2] {
    let CachePlan { block, scope, region, ranges, storage } = plan;
    let func = &mut state.func;
    let buffer = region.buffer;
    // As for other caches, a cache directly in the scope has only the size of the part.
    let compact = parent(func, block) == Some(scope.stmt());
    let mut cache = func.arena.buffer(buffer).clone();
    cache.name = cache.name.with_suffix(&format!("_{storage}"));
    cache.scope = storage;
    if compact {
        let extents: SmallVec<[ExprId; 4]> = ranges.iter().map(|r| r.1).collect();
        cache.shape = func.arena.new_list(&extents);
        cache.strides = None;
    }
    let name = cache.name;
    let cache = func.arena.new_buffer(cache);
    let offsets = compact.then(|| func.arena.list(region.mins).iter().copied().collect());
    Redirect::new(buffer, cache, offsets).subtree(func, block.stmt());
    let predicate = func.block(block).predicate;
    let mut copies = [block; 2];
    for (n, (from, to)) in [(buffer, cache), (cache, buffer)].into_iter().enumerate() {
        let (copy, nest) = copy_nest(func, &CopyBox { name, from, to, buffer, ranges: &ranges, compact });
        func.block_mut(copy).predicate = predicate;
        let mut place = func.place(block.stmt()).expect("the block stands in its scope");
        place.position += n;
        func.insert_at(place, &[nest]);
        copies[n] = copy;
    }
    func.block_mut(scope).allocs.push(cache);
    for copy in copies {
        set_copy_info(state, copy);
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::error::ScheduleError;

    fn cache(t: &mut Test) -> Result<(), ScheduleError> {
        let block = t.block("A");
        t.run("cache_inplace", vec![block.into(), 0.into(), "local".into()]).map(drop)
    }

    const UPDATE: &str = r#"
def main(A: T.Buffer((16, 8))):
    for i, j in T.grid(16, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)
"#;

    #[test]
    fn each_instance_works_on_a_copy() {
        check(
            UPDATE,
            cache,
            r#"
def main(A: T.Buffer((16, 8))):
    A_local = T.alloc_buffer((16, 8), scope="local")
    for i, j in T.grid(16, 8):
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(16, i + ax0)
                v1 = T.axis.spatial(8, j + ax1)
                T.reads(A[v0, v1])
                T.writes(A_local[v0, v1])
                A_local[v0, v1] = A[v0, v1]
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A_local[vi, vj])
            T.writes(A_local[vi, vj])
            A_local[vi, vj] = A_local[vi, vj] + T.float32(1)
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(16, i + ax0)
                v1 = T.axis.spatial(8, j + ax1)
                T.reads(A_local[v0, v1])
                T.writes(A[v0, v1])
                A[v0, v1] = A_local[v0, v1]
"#,
        );
    }

    #[test]
    fn refusals() {
        let elsewhere = UPDATE.replace("= A[vi, vj]", "= A[15 - vi, vj]");
        refuse(&elsewhere, cache, "NotReadWriteError");
        let outside = UPDATE.replace("A[vi, vj]", "A[vi * 2, vj]");
        let outside =
            outside.replace("A[vi * 2, vj] + T.float32(1)", "T.if_then_else(vi < 8, A[vi * 2, vj], T.float32(1))");
        refuse(&outside, cache, "CopyOutOfBoundsError");
    }
}
