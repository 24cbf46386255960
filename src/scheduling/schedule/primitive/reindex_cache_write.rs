//! # `reindex_cache_write`
//!
//! Redirects a block's stores to a buffer whose layout the map determines, which is then copied out.
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
//!     sch.reindex_cache_write("B", 0, "local", lambda vi, vj: (vj, vi))
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     B_local = T.sblock_alloc_buffer((8, 4), scope="local")
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B_local[vj, vi] = A[vi, vj] * T.float32(2.0)
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B_local"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = B_local[vj, vi]
//! ```
//!
//! * Requires: as `reindex_cache_read`.
//! * Errors: as `reindex_cache_read`.
//! * Handles: persists: all; created: the copy block, the block that fills, their loops.
//! * Unlike TVM: the copy keeps the block's predicate, as far as that does not follow from the domains; the cache is
//!   filled first as in `cache_write`.
//! * Refused, though TVM accepts it: maps that send different elements to one place; predicates that relate loops of
//!   the copy to others.
//!
//! # Implementation
//!
//! Makes a block write to a new buffer with a layout given by an index map of the block's iteration variables, which is
//! copied to the old buffer.
//!
//! ```text
//! for i, j in T.grid(32, 32):
//!     with T.block("C"): C[vi, vj] = A[vi, vj]
//! # becomes, with storage scope "shared" and index_map=lambda i, j: (j, i)
//! for i, j in T.grid(32, 32):
//!     with T.block("C"): C_shared[vj, vi] = A[vi, vj]
//! for i, j in T.grid(32, 32):
//!     with T.block("C_shared"): C[vi, vj] = C_shared[vj, vi]
//! ```
//!
//! The copy's loops are copies of those loops that drive the used iteration variables and are not around the copy. It
//! is placed as by `cache_write`. As in TVM it has no predicate, if that of the block follows from the domains of these
//! iteration variables; otherwise, unlike in TVM, it has the block's predicate, so that it writes no more than the
//! block. If the block also reads the buffer, or does not always write, the cache is filled first, by a block
//! `C_shared_fill`.
//!
//! Requires: a stage pipeline; the block writes one element of the buffer per instance; the map uses the same iteration
//! variables as the buffer's indices; no other block of the scope writes the buffer. Preserves: all loops and blocks.
//! Returns: the copy block.
//!
//! TVM also accepts cases that change the result, which are refused here: a map that sends different elements to the
//! same position; a predicate that relates loops of the copy to others; and the cases that `cache_write` refuses.
//!
//! Handles: all persist; created, the copy block, the block that fills the cache, and their loops.

use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::filled::fills_its_region;
use super::super::analysis::tree::require_scope;
use super::super::arg::Lambda;
use super::super::call::{Access, Call};
use super::super::error::ScheduleError;
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::output::{Output, check_output};
use super::cache::reindexed::{self, Layout, Planned};
use super::cache::stage::{Way, require_only_writer};
use crate::ir::{BlockId, Symbol};

/// `reindex_cache_write(block, write_buffer_index, storage_scope, index_map)`.
pub(crate) static REINDEX_CACHE_WRITE: Kind = Kind {
    name: "ReindexCacheWrite",
    method: "reindex_cache_write",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("write_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
        Param::input("index_map", Ty::IndexMap),
    ],
    outputs: Outputs::Block,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    reindexed::run(call, Access::Write, Way::Out, check)
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
    let region = state.func.block(block).writes[index];
    let buffer = region.buffer;
    require_only_writer(state, scope, buffer)?;
    let mut layout = Layout::check(state, block, &region, Access::Write, map)?;
    let Output { site, reads, .. } = check_output(state, scope, block, &region, &[])?;
    layout.keep_predicate(state, site)?;
    let is_local = state.func.block(scope).allocs.contains(&buffer);
    if reads || !is_local && !fills_its_region(&mut state.func, block, buffer) {
        layout.require_filled(state)?;
    }
    Ok((scope, site, layout))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::ir::BinOp;
    use crate::schedule::arg::{Arg, Lambda, LambdaExpr};
    use crate::schedule::error::ScheduleError;
    use std::sync::Arc;

    fn cache(results: Vec<LambdaExpr>) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block("C");
            let params = ["i", "j"].map(Into::into).to_vec();
            let map = Arg::Lambda(Arc::new(Lambda { params, results, scalar: false, ranges: false }));
            t.run("reindex_cache_write", vec![block.into(), 0.into(), "local".into(), map]).map(drop)
        }
    }

    const COPY: &str = r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"#;

    #[test]
    fn the_map_lays_the_cache_out() {
        check(
            COPY,
            cache(vec![LambdaExpr::Param(1), LambdaExpr::Param(0)]),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    C_local = T.alloc_buffer((4, 8), scope="local")
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C_local[vj, vi] = A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("C_local"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C_local[vj, vi]
"#,
        );
    }

    fn as_it_is() -> Vec<LambdaExpr> {
        vec![LambdaExpr::Param(0), LambdaExpr::Param(1)]
    }

    #[test]
    fn a_predicate_that_the_domains_imply_is_not_copied() {
        let split = |where_: &str, block: &str, store: &str| {
            format!(
                r#"
    for i_0, i_1, j in T.grid(3, 3, 4):
        with T.block("{block}"):
            vi = T.axis.spatial(8, i_0 * 3 + i_1)
            vj = T.axis.spatial(4, j)
            {where_}
            {store}
"#
            )
        };
        let program = |parts: &[String]| {
            let body: Vec<&str> = parts.iter().map(|p| p.trim_matches('\n')).collect();
            format!("def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):\n{}\n", body.join("\n"))
        };
        let cases = [
            ("T.where(i_0 * 3 + i_1 < 8)", "T.where(True)"),
            ("T.where(i_0 * 3 + i_1 < 7)", "T.where(i_0 * 3 + i_1 < 7)"),
        ];
        for (before, after) in cases {
            let alloc = "    C_local = T.alloc_buffer((8, 4), scope=\"local\")".to_string();
            check(
                &program(&[split(before, "C", "C[vi, vj] = A[vi, vj]")]),
                cache(as_it_is()),
                &program(&[
                    alloc,
                    split(before, "C", "C_local[vi, vj] = A[vi, vj]"),
                    split(after, "C_local", "C[vi, vj] = C_local[vi, vj]"),
                ]),
            );
        }
    }

    #[test]
    fn what_the_block_reads_is_in_the_cache() {
        check(
            &COPY.replace("= A", "= C[vi, vj] + A"),
            cache(as_it_is()),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    C_local = T.alloc_buffer((8, 4), scope="local")
    for i, j in T.grid(8, 4):
        with T.block("C_local_fill"):
            vi, vj = T.axis.remap("SS", [i, j])
            C_local[vi, vj] = C[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C_local[vi, vj] = C_local[vi, vj] + A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("C_local"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C_local[vi, vj]
"#,
        );
    }

    #[test]
    fn refusals() {
        let sum = LambdaExpr::Binary(BinOp::Add, Box::new(LambdaExpr::Param(0)), Box::new(LambdaExpr::Param(1)));
        refuse(COPY, cache(vec![sum]), "ReindexCacheOverlapError");
        let pairs = COPY.replace("C[vi, vj] =", "C[vi // 2, vj] = C[vi // 2, vj] +");
        refuse(&pairs, cache(as_it_is()), "CachedBufferIsReadError");
        let twice = COPY.replace("C[vi, vj] =", "C[vi, vj] = T.float32(0)\n            C[7 - vi, vj] =");
        refuse(&twice, cache(as_it_is()), "NotSinglePointAccess");
    }
}
