//! # `cache_index`
//!
//! Precomputes index expressions of a block in buffers that it then reads.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((8, 16)), C: T.Buffer((16, 16))):
//!     for i, j in T.grid(16, 16):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             C[vi, vj] = A[vi // 2, vj * 3 % 16]
//!
//! def steps(sch):
//!     sch.cache_index("C", "global", 0)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((8, 16), "float32"), C: T.Buffer((16, 16), "float32")):
//!     # with T.sblock("root"):
//!     index_var_0 = T.sblock_alloc_buffer((16,), "int32", strides=(1,))
//!     index_var_1 = T.sblock_alloc_buffer((16,), "int32", strides=(1,))
//!     for ax0 in range(16):
//!         with T.sblock("index_0"):
//!             v0 = T.axis.spatial(16, ax0)
//!             T.reads()
//!             T.writes(index_var_0[v0])
//!             index_var_0[v0] = v0 * 3 % 16
//!     for ax0 in range(16):
//!         with T.sblock("index_1"):
//!             v0 = T.axis.spatial(16, ax0)
//!             T.reads()
//!             T.writes(index_var_1[v0])
//!             index_var_1[v0] = v0 // 2
//!     for i, j in T.grid(16, 16):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             T.reads(A[vi // 2, vj * 3 % 16], index_var_0[vj], index_var_1[vi])
//!             T.writes(C[vi, vj])
//!             C[vi, vj] = A[index_var_1[vi], index_var_0[vj]]
//! ```
//!
//! It takes the largest parts of the stored values that read no buffer; one that occurs less than `cse_thresh` times is
//! replaced by its parts. The more complex ones come first.
//!
//! * Requires: a leaf block; at least two such expressions; over iteration variables that are bound to loops of the
//!   scope, each loop to one of them.
//! * Errors: `RootBlockError`, `InvalidStorageScopeError`, `NotLeafBlockError`, `TooFewIndicesError`,
//!   `IndexNotCachableError`.
//! * Handles: persists: all; created: the computing blocks, their loops.
//! * Unlike TVM: after a `split`, TVM computes only a part of a buffer, tvmr all of it. The block declares that it
//!   reads the buffers.
//!
//! # Implementation
//!
//! Precomputes the index expressions of a block in buffers that it then reads.
//!
//! ```text
//! for i, j in T.grid(16, 32):
//!     with T.block("C"): C[vi, vj] = A[vi // 2, vj * 3 % 16]
//! # becomes
//! index_var_0 = T.alloc_buffer((32,), "int32")
//! index_var_1 = T.alloc_buffer((16,), "int32")
//! for ax0 in range(32):
//!     with T.block("index_0"): index_var_0[v0] = v0 * 3 % 16
//! for ax0 in range(16):
//!     with T.block("index_1"): index_var_1[v0] = v0 // 2
//! for i, j in T.grid(16, 32):
//!     with T.block("C"): C[vi, vj] = A[index_var_1[vi], index_var_0[vj]]
//! ```
//!
//! The largest parts of the stored values that read no buffer are chosen, the more complex ones first. One that occurs
//! less than `cse_thresh` times is replaced by its parts. Each gets a buffer over the iteration variables of the block
//! that it uses, in the order of their use, and a nest over the loops that drive them, before the scope's statement
//! that contains the block.
//!
//! TVM uses the extent of the first of these loops as the domain of an iteration variable, so that after a `split` most
//! of the buffer is not computed, and does not declare that the block reads the buffers. tvmr uses the domain of the
//! block, and declares the reads.
//!
//! Requires: a leaf block; at least two expressions, as in TVM, over variables of the block that are bound to loops of
//! its scope, each loop for one variable. Preserves: all loops and blocks. Returns: the computing blocks.
//!
//! Divisions by non-constants stay in the block, whose conditions may prevent divisions by zero.
//!
//! Handles: all persist; created, the blocks and their loops.

use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::shared_computations::{Computation, is_computation, key_of, shared_computations};
use super::super::analysis::tree::require_scope;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::access::require_in_bounds;
use super::cache::site::Site;
use super::cache::stage::set_copy_info;
use crate::ir::visit::{uses_var, vars_of, walk_rewrite};
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, Buffer, BufferId, BufferRegion, Expr, ExprId, Func, IterKind, LoopId,
    Rewriter, Stmt, StmtId, Substitution, Symbol,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// `cache_index(block, storage_scope, cse_thresh=0)`.
pub(crate) static CACHE_INDEX: Kind = Kind {
    name: "CacheIndex",
    method: "cache_index",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("storage_scope", Ty::Str),
        Param::attr("cse_thresh", Ty::Int).or(Default::Int(0)),
    ],
    outputs: Outputs::Blocks,
    samples: false,
    run,
};

/// The result of the checks.
struct IndexPlan {
    block: BlockId,
    scope: BlockId,
    stores: Vec<StmtId>,
    indices: Vec<Index>,
    storage: Symbol,
}

/// A computation that gets a buffer.
struct Index {
    computation: Computation,
    /// The iteration variables that it uses, each with the loops that drive it.
    iters: Vec<(BlockIter, Vec<LoopId>)>,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let storage = call.str(1)?;
    let threshold = call.int(2)?;
    let state = call.state(func);
    let plan = check(state, block, storage, threshold)?;
    let blocks = apply(state, plan);
    Ok(Outcome { outputs: blocks.into_iter().map(|b| RvValue::Block(func, b)).collect(), decision: None })
}

fn check(state: &mut State, block: BlockId, storage: Symbol, threshold: i64) -> Result<IndexPlan, ScheduleError> {
    require_storage_scope(storage)?;
    let scope = require_scope(state, block, false)?;
    let Ok(threshold) = usize::try_from(threshold) else {
        return Err(ErrorKind::Argument { message: "`cse_thresh` must not be negative".to_string() }.into());
    };
    let func = &mut state.func;
    let node = func.block(block);
    let name = node.name;
    let inside: Vec<StmtId> = node.body.iter().flat_map(|&s| func.subtree(s)).collect();
    if inside.iter().any(|&s| func.as_block(s).is_some()) {
        return Err(state.error(ErrorKind::NotLeafBlock { block: name }, block));
    }
    // With indices from memory, the block would no longer be a plain copy, which skips elements outside the buffer.
    let node = func.block(block);
    if let Some((source, at)) = func.copied(node) {
        let at = func.arena.list(at).to_vec();
        require_in_bounds(state, block, source, &at)?;
    }
    let mut stores = Vec::new();
    let mut indices = Vec::new();
    for s in inside {
        let Stmt::Store { value, .. } = *state.func.get(s) else { continue };
        stores.push(s);
        for computation in shared_computations(&mut state.func.arena, value, threshold) {
            indices.push(Index { computation, iters: driven_iters(state, block, computation.value)? });
        }
    }
    if indices.len() < 2 {
        return Err(state.error(ErrorKind::TooFewIndices { block: name, found: indices.len() }, block));
    }
    Ok(IndexPlan { block, scope, stores, indices, storage })
}

/// The iteration variables that an expression uses, in the order of use, with the loops that drive them.
///
/// # Errors
///
/// If it uses other variables, or the loops do not drive the iteration variables independently of each other.
fn driven_iters(state: &State, block: BlockId, value: ExprId) -> Result<Vec<(BlockIter, Vec<LoopId>)>, ScheduleError> {
    let func = &state.func;
    let fail = |why| Err(state.error(ErrorKind::IndexNotCachable { block: func.block(block).name, why }, block));
    let loops = func.loops_above(block.stmt());
    let mut iters: Vec<(BlockIter, Vec<LoopId>)> = Vec::new();
    for var in vars_of(&func.arena, value) {
        let Some(iter) = func.block(block).iters.iter().find(|i| i.var == var) else {
            return fail("other variables than the block's iteration variables");
        };
        let is_driving = |l: &LoopId| uses_var(&func.arena, iter.value, &mut |v| v == func.loop_(*l).var);
        let driving: Vec<LoopId> = loops.iter().copied().filter(is_driving).collect();
        let is_known = |v| driving.iter().any(|&l| func.loop_(l).var == v);
        let bounds = driving.iter().flat_map(|&l| [func.loop_(l).min, func.loop_(l).extent]);
        if bounds.chain([iter.value]).any(|e| uses_var(&func.arena, e, &mut |v| !is_known(v))) {
            return fail("iteration variables that are bound to more than loops of the scope");
        }
        if iters.iter().any(|(_, others)| others.iter().any(|l| driving.contains(l))) {
            return fail("iteration variables that share a loop");
        }
        iters.push((*iter, driving));
    }
    Ok(iters)
}

fn apply(state: &mut State, plan: IndexPlan) -> Vec<BlockId> {
    let IndexPlan { block, scope, stores, indices, storage } = plan;
    let func = &mut state.func;
    let mut site = Site::first(scope).in_front_of(func, block.stmt());
    let mut replace = Replace::default();
    let mut blocks = Vec::with_capacity(indices.len());
    let mut loads: Vec<ExprId> = Vec::with_capacity(indices.len());
    for (n, index) in indices.iter().enumerate() {
        let buffer = new_buffer(&mut func.arena, n, index, storage);
        let (computing, nest) = nest(func, n, index, buffer);
        site.insert(func, nest);
        site.position += 1;
        func.block_mut(scope).allocs.push(buffer);
        let a = &mut func.arena;
        let at: SmallVec<[ExprId; 4]> = index.iters.iter().map(|(i, _)| a.var_expr(i.var)).collect();
        let load = a.load(buffer, &at);
        // If several stores have equal computations, all read the first.
        replace.by.entry(index.computation.key).or_insert(load);
        loads.push(load);
        blocks.push(computing);
    }
    for s in stores {
        let Stmt::Store { value, .. } = *func.get(s) else { continue };
        let new = replace.rewrite_expr(&mut func.arena, value);
        if let Stmt::Store { value, .. } = func.stmt_mut(s) {
            *value = new;
        }
    }
    for load in loads.into_iter().filter(|l| replace.used.contains(l)) {
        let Expr::Load(buffer, at) = func.arena.expr(load) else { continue };
        let region = BufferRegion::point(&mut func.arena, buffer, at);
        func.block_mut(block).reads.push(region);
    }
    for &b in &blocks {
        set_copy_info(state, b);
    }
    blocks
}

fn new_buffer(a: &mut Arena, n: usize, index: &Index, storage: Symbol) -> BufferId {
    let shape: SmallVec<[ExprId; 4]> = index.iters.iter().map(|(i, _)| a.add(i.min, i.extent)).collect();
    let (shape, dtype) = (a.new_list(&shape), a.dtype(index.computation.value));
    // TVM states the stride of one dimension, whatever the rank; this is valid only for one dimension.
    let strides = (index.iters.len() == 1).then(|| {
        let one = a.int32(1);
        a.new_list(&[one])
    });
    let buffer = Buffer { scope: storage, strides, ..Buffer::new(format!("index_var_{n}").as_str(), dtype, shape) };
    a.new_buffer(buffer)
}

/// The block that computes the n-th index, and its loops.
fn nest(func: &mut Func, n: usize, index: &Index, buffer: BufferId) -> (BlockId, StmtId) {
    let mut renamed = Substitution::default();
    let mut loops = Vec::new();
    let mut iters = Vec::new();
    let mut at: SmallVec<[ExprId; 4]> = SmallVec::new();
    for (iter, driving) in &index.iters {
        for &l in driving {
            let Func { arena, stmts, .. } = &mut *func;
            let node = stmts.loop_(l);
            let extent = renamed.apply(arena, node.extent);
            let (var, e) = arena.new_var_expr(format!("ax{}", loops.len()).as_str(), arena.dtype(extent));
            let min = renamed.apply(arena, node.min);
            let value = arena.add(min, e);
            renamed.add_var(node.var, value);
            loops.push((var, extent));
        }
        let a = &mut func.arena;
        let value = renamed.apply(a, iter.value);
        let (var, v) = a.new_var_expr(format!("v{}", iters.len()).as_str(), a.var(iter.var).dtype);
        renamed.add_var(iter.var, v);
        iters.push(BlockIter { var, value, kind: IterKind::Spatial, ..*iter });
        at.push(v);
    }
    let a = &mut func.arena;
    let value = renamed.apply(a, index.computation.value);
    let (indices, always) = (a.new_list(&at), a.bool(true));
    let writes = vec![BufferRegion::point(a, buffer, indices)];
    let store = func.add(Stmt::Store { buffer, indices, value });
    let body = Body::from_slice(&[store]);
    let name = Symbol::new(&format!("index_{n}"));
    let block = func.add_block(Block { iters, writes, body, ..Block::new(name, always) });
    let mut nest = block.stmt();
    for &(var, extent) in loops.iter().rev() {
        nest = func.make_loop(var, extent, Body::from_slice(&[nest])).stmt();
    }
    (block, nest)
}

/// Replaces computations by loads.
#[derive(Default)]
struct Replace {
    /// The replacement of each computation, by its simplified form.
    by: HashMap<ExprId, ExprId>,
    used: Vec<ExprId>,
}

impl Rewriter for Replace {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if is_computation(arena, e) {
            let key = key_of(arena, e);
            if let Some(&load) = self.by.get(&key) {
                self.used.push(load);
                return load;
            }
        }
        walk_rewrite(self, arena, e)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::error::ScheduleError;

    fn cache(threshold: i64) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block("C");
            t.run("cache_index", vec![block.into(), "global".into(), threshold.into()]).map(drop)
        }
    }

    fn program(value: &str) -> String {
        format!(
            r#"
def main(A: T.Buffer((64, 64)), C: T.Buffer((16, 32))):
    for i, j in T.grid(16, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:64, 0:64])
            C[vi, vj] = {value}
"#
        )
    }

    /// The program that computes these buffers first: the letters of their variables, and their values.
    fn cached(indices: &[(&str, &str)], value: &str) -> String {
        let (mut nests, mut reads) = (String::new(), "T.reads(A[0:64, 0:64]".to_string());
        for (n, (vars, index)) in indices.iter().enumerate() {
            let extents: Vec<&str> = vars.chars().map(|v| if v == 'i' { "16" } else { "32" }).collect();
            let strides = if extents.len() == 1 { ", strides=(1,)" } else { "" };
            nests += &format!("    index_var_{n} = T.alloc_buffer(({},), \"int32\"{strides})\n", extents.join(", "));
            let used: Vec<String> = vars.chars().map(|v| format!("v{v}")).collect();
            reads += &format!(", index_var_{n}[{}]", used.join(", "));
            let axes: Vec<String> = (0..extents.len()).map(|d| format!("ax{d}")).collect();
            let mut indent = "    ".to_string();
            for (axis, extent) in axes.iter().zip(&extents) {
                nests += &format!("{indent}for {axis} in range({extent}):\n");
                indent += "    ";
            }
            nests += &format!("{indent}with T.block(\"index_{n}\"):\n");
            let mut at = Vec::new();
            for (d, (axis, extent)) in axes.iter().zip(&extents).enumerate() {
                nests += &format!("{indent}    v{d} = T.axis.spatial({extent}, {axis})\n");
                at.push(format!("v{d}"));
            }
            nests += &format!("{indent}    index_var_{n}[{}] = {index}\n", at.join(", "));
        }
        let (allocs, nests): (Vec<&str>, Vec<&str>) = nests.lines().partition(|l| l.contains("alloc_buffer"));
        let before = program(value).replace("T.reads(A[0:64, 0:64]", &reads);
        let (head, body) = before.split_once("    for i, j").expect("the program has loops");
        format!("{head}{}\n{}\n    for i, j{body}", allocs.join("\n"), nests.join("\n"))
    }

    #[test]
    fn each_index_gets_a_buffer() {
        check(
            &program("A[vi // 2, vj * 3 % 16]"),
            cache(0),
            &cached(&[("j", "v0 * 3 % 16"), ("i", "v0 // 2")], "A[index_var_1[vi], index_var_0[vj]]"),
        );
        check(
            &program("A[vi + 1, vj // 2 + vi]"),
            cache(0),
            &cached(&[("ji", "v0 // 2 + v1"), ("i", "v0 + 1")], "A[index_var_1[vi], index_var_0[vj, vi]]"),
        );
    }

    #[test]
    fn what_comes_up_too_rarely_makes_way_for_its_parts() {
        let value = "A[(vi * 2 + vj) // 4, (vi * 2 + vj) % 16] + A[(vi * 2 + vj) // 4 + 1, (vi * 2 + vj) // 9]";
        check(
            &program(value),
            cache(2),
            &cached(
                &[("ij", "(v0 * 2 + v1) // 4"), ("ij", "v0 * 2 + v1")],
                "A[index_var_0[vi, vj], index_var_1[vi, vj] % 16] + A[index_var_0[vi, vj] + 1, index_var_1[vi, vj] // 9]",
            ),
        );
    }

    #[test]
    fn divisions_by_variables_stay() {
        check(
            &program("A[vi + 1, vj // 2] + A[vi, 32 // (32 - vj)]"),
            cache(0),
            &cached(
                &[("i", "v0 + 1"), ("j", "v0 // 2"), ("j", "32 - v0")],
                "A[index_var_0[vi], index_var_1[vj]] + A[vi, 32 // index_var_2[vj]]",
            ),
        );
    }

    #[test]
    fn refusals() {
        refuse(&program("A[vi, vj]"), cache(0), "TooFewIndicesError");
        refuse(&program("A[vi // 2, vj]"), cache(0), "TooFewIndicesError");
        refuse(&program("A[vi // 2, vj // 2]"), cache(-1), "ValueError");
        let fused = program("A[vi + vj, vj // 2]").replace("i, j in T.grid(16, 32)", "f in range(512)").replace(
            "vi, vj = T.axis.remap(\"SS\", [i, j])",
            "vi = T.axis.spatial(16, f // 32)\n            vj = T.axis.spatial(32, f % 32)",
        );
        refuse(&fused, cache(0), "IndexNotCachableError");
    }
}
