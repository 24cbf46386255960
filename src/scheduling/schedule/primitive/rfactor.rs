//! # `rfactor`
//!
//! Splits a reduction into partial results and their combination.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 32)), B: T.Buffer(4)):
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("B"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 B[vi] = 0.0
//!             B[vi] = B[vi] + A[vi, vk]
//!
//! def steps(sch):
//!     i, k = sch.get_loops("B")
//!     k_0, k_1 = sch.split(k, [None, 8])
//!     sch.rfactor(k_1, 0)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 32)), B: T.Buffer((4,))):
//!     B_rf = T.sblock_alloc_buffer((8, 4))
//!     for i, k_0, k_1 in T.grid(4, 4, 8):
//!         with T.sblock("B_rf"):
//!             vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
//!             with T.init():
//!                 B_rf[vk_1, vi] = T.float32(0.0)
//!             B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 8 + vk_1]
//!     for i, k_1 in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vk_1, vi = T.axis.remap("RS", [k_1, i])
//!             with T.init():
//!                 B[vi] = T.float32(0.0)
//!             B[vi] = B[vi] + B_rf[vk_1, vi]
//! ```
//!
//! * Requires: a reduction block with a known operation; a serial loop that only reduction bindings use; a valid axis.
//! * Errors: `NotReductionBlockError`, `NotSerialLoopKindError`, `LoopPropertyError`, `NoMatchedReducerError`,
//!   `RFactorNotApplicableError`, `FactorAxisOutOfRangeError`, `RFactorUncoveredError`.
//! * Handles: dies: reduction loops but the factored one; persists: the block (as the final reduction), other loops;
//!   created: the block of partial results, its loops.
//! * Refused, though TVM accepts it: loops that no binding uses; predicates that may leave partial results unwritten;
//!   reductions that start later than their domains, so that the init never runs. The final block keeps the predicate's
//!   conditions on spatial loops; TVM's exceeds the output.
//!
//! # Implementation
//!
//! Factors a reduction along a loop: partial results per iteration of the loop, then a reduction of the partial
//! results.
//!
//! ```text
//! for i, k_0, k_1 in T.grid(m, 4, 8):
//!     with T.block("B"): B[vi] = B[vi] + A[vi, vk]      # vk = k_0 * 8 + k_1
//! # becomes, at k_1 with factor_axis 0
//! for i, k_0, k_1 in T.grid(m, 4, 8):
//!     with T.block("B_rf"):                             # vk_1 spatial, vi, vk_0 reduction
//!         B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 8 + vk_1]
//! for i, k_1 in T.grid(m, 8):
//!     with T.block("B"):                                # vk_1 reduction, vi
//!         B[vi] = B[vi] + B_rf[vk_1, vi]
//! ```
//!
//! Requires: one block below the loop, a reduction block of a stage pipeline; the loop is serial and drives only
//! reduction iteration variables; no loop drives both kinds; the block is first in its outermost loop and alone in its
//! outermost reduction loop; one of the known reductions ([`super::super::analysis::reducer`]). Preserves: the result,
//! up to the order of the operations. Returns: the block of the partial results.
//!
//! TVM accepts two uses that change the result, which are refused here: a loop that drives no iteration variable (its
//! iterations would be summed), and a predicate that may leave partial results unwritten. The final block keeps the
//! conditions on spatial loops that do not follow from the domains of the spatial variables; TVM drops them too.
//!
//! Handles: dies, the reduction loops other than the given one; persists, the block (as the final reduction) and the
//! other loops; created, the block of partial results and its loops.

use super::super::analysis::block_class::require_reduction;
use super::super::analysis::guard::{inside_domains, reductions_begin};
use super::super::analysis::reducer::{self, NotRecognised, Reduction, Tuple};
use super::super::analysis::tree::require_scope;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::{BlockInfo, State};
use crate::arith::Analyzer;
use crate::arith::implication::{conjuncts, implies};
use crate::ir::visit::{uses_var, vars_of};
use crate::ir::{
    Block, BlockId, BlockIter, Body, Buffer, BufferId, BufferRegion, ExprId, ExprList, Func, IterKind, Loop, LoopId,
    LoopKind, Stmt, StmtId, Substitution, VarId,
};
use smallvec::SmallVec;

/// `rfactor(loop, factor_axis)`.
pub(crate) static RFACTOR: Kind = Kind {
    name: "RFactor",
    method: "rfactor",
    classic: None,
    positional: false,
    params: &[Param::input("loop", Ty::Loop), Param::attr("factor_axis", Ty::Int)],
    outputs: Outputs::Block,
    samples: false,
    run,
};

/// The result of the checks.
struct FactorPlan {
    block: BlockId,
    scope: BlockId,
    /// The factored loop.
    at: LoopId,
    /// All loops around the block, outermost first.
    loops: Vec<LoopId>,
    /// Whether each loop drives reduction iteration variables.
    reduces: Vec<bool>,
    reduction: Reduction,
    axis: usize,
    /// Predicate of the final block.
    predicate: ExprId,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, at) = call.loop_(0)?;
    let axis = call.int(1)?;
    let state = call.state(func);
    let plan = check(state, at, axis)?;
    let partial = apply(state, plan);
    Ok(Outcome { outputs: vec![RvValue::Block(func, partial)], decision: None })
}

fn single_block(state: &State, at: LoopId) -> Result<BlockId, ScheduleError> {
    match state.func.child_blocks(at.stmt())[..] {
        [block] => Ok(block),
        ref blocks => Err(state.error(ErrorKind::NonSingleChildBlock { what: "loop", count: blocks.len() }, at)),
    }
}

fn check(state: &mut State, at: LoopId, axis: i64) -> Result<FactorPlan, ScheduleError> {
    let block = single_block(state, at)?;
    let scope = require_scope(state, block, true)?;
    require_reduction(state, block, scope)?;
    if !reductions_begin(&mut state.func, block) {
        let name = state.func.block(block).name;
        return Err(state.error(ErrorKind::LateInit { block: name }, block));
    }
    let func = &state.func;
    let kind = match func.loop_(at).kind {
        LoopKind::Serial => None,
        LoopKind::Parallel => Some("parallel"),
        LoopKind::Vectorized => Some("vectorized"),
        LoopKind::Unrolled => Some("unrolled"),
        LoopKind::ThreadBinding(_) => Some("bound to a thread axis"),
    };
    if let Some(kind) = kind {
        return Err(state.error(ErrorKind::NotSerialLoopKind { kind }, at));
    }
    let loops = func.loops_above(block.stmt());
    let reduces = check_loops(state, block, at, &loops)?;

    let node = state.func.block(block).clone();
    let reduction = reducer::recognise(&mut state.func, &node).map_err(|why| match why {
        NotRecognised::Form(why) => state.error(ErrorKind::RFactorNotApplicable { why }, block),
        NotRecognised::Operation => state.error(ErrorKind::NoMatchedReducer, block),
    })?;
    let predicate = final_predicate(state, block, at, &loops, &reduces)?;
    let rank = state.func.arena.list(reduction.updates[0].indices).len();
    let from_end = if axis < 0 { axis + rank as i64 + 1 } else { axis };
    let Some(axis) = usize::try_from(from_end).ok().filter(|&a| a <= rank) else {
        return Err(state.error(ErrorKind::FactorAxisOutOfRange { axis, rank }, block));
    };
    Ok(FactorPlan { block, scope, at, loops, reduces, reduction, axis, predicate })
}

/// The predicate of the final block: the conditions on spatial loops alone that do not follow from the domains, which
/// TVM drops.
///
/// # Errors
///
/// If the remaining conditions may fail where a partial result begins, which then would not be set.
fn final_predicate(
    state: &mut State,
    block: BlockId,
    at: LoopId,
    loops: &[LoopId],
    reduces: &[bool],
) -> Result<ExprId, ScheduleError> {
    let predicate = state.func.block(block).predicate;
    let func = &mut state.func;
    let mut kept = func.arena.bool(true);
    if func.arena.is_int(predicate, 1) {
        return Ok(kept);
    }
    let mut analyzer = Analyzer::new();
    let spatial: Vec<BlockIter> =
        func.block(block).iters.iter().filter(|i| i.kind == IterKind::Spatial).copied().collect();
    let inside = inside_domains(&mut func.arena, &spatial);
    let mut first = Substitution::default();
    let mut reduction_vars: SmallVec<[VarId; 4]> = SmallVec::new();
    for (&l, &reduces) in loops.iter().zip(reduces) {
        let Func { arena, stmts, .. } = &mut *func;
        let node = stmts.loop_(l);
        analyzer.bind(arena, node.var, node.min, node.extent);
        if reduces {
            reduction_vars.push(node.var);
        }
        if reduces && l != at {
            first.add_var(node.var, node.min);
        }
    }
    for e in conjuncts(&func.arena, predicate) {
        let a = &mut func.arena;
        if !uses_var(a, e, &mut |v| reduction_vars.contains(&v)) {
            if !implies(a, &mut analyzer, inside, e) {
                kept = a.and(kept, e);
            }
            continue;
        }
        let at_first = first.apply(a, e);
        if !analyzer.can_prove(a, at_first) {
            return Err(state.error(ErrorKind::RFactorUncovered, block));
        }
    }
    Ok(kept)
}

/// For each loop, whether it drives reduction iteration variables, if the loops meet the requirements of `rfactor`.
fn check_loops(state: &State, block: BlockId, at: LoopId, loops: &[LoopId]) -> Result<Vec<bool>, ScheduleError> {
    let func = &state.func;
    let error = |l: LoopId, problem: &'static str| Err(state.error(ErrorKind::LoopProperty { problem }, l));
    if func.child_blocks(loops[0].stmt()).first() != Some(&block) {
        return error(loops[0], "the block is not the first in the outermost loop around it");
    }
    let drives = |l: LoopId, kind: IterKind| {
        let var = func.loop_(l).var;
        let mut iters = func.block(block).iters.iter().filter(|i| i.kind == kind);
        iters.any(|i| uses_var(&func.arena, i.value, &mut |v| v == var))
    };
    let mut reduces = Vec::with_capacity(loops.len());
    for &l in loops {
        let (spatial, reduce) = (drives(l, IterKind::Spatial), drives(l, IterKind::Reduce));
        match (spatial, reduce) {
            (true, true) => return error(l, "the loop drives both spatial and reduction iteration variables"),
            (true, false) if l == at => return error(l, "the loop drives a spatial iteration variable"),
            (true, false) => {}
            (false, true) => {
                if !reduces.contains(&true) {
                    single_block(state, l)?;
                }
            }
            (false, false) => {
                let unit = func.arena.is_int(func.loop_(l).extent, 1);
                if !unit && (l == at || reduces.contains(&true)) {
                    return error(l, "the loop drives no iteration variable");
                }
            }
        }
        reduces.push(reduce);
    }
    if !func.arena.is_int(func.loop_(at).min, 0) {
        return Err(state.error(ErrorKind::LoopNotStartWithZero, at));
    }
    Ok(reduces)
}

/// The differences between the two new blocks.
struct Parts {
    iters: Vec<BlockIter>,
    /// Maps the variables of the old block to those of the new one.
    renamed: Substitution,
    /// The written buffers, in the order of the tuple.
    buffers: SmallVec<[BufferId; 2]>,
    /// The written indices, over the variables before renaming.
    indices: ExprList,
    /// The old values and the values combined with them, over the variables before renaming.
    lhs: Tuple,
    rhs: Tuple,
    reads: Vec<BufferRegion>,
    writes: Vec<BufferRegion>,
}

fn apply(state: &mut State, plan: FactorPlan) -> BlockId {
    let FactorPlan { block, scope, at, loops, reduces, reduction, axis, predicate } = plan;
    let func = &mut state.func;
    let old = func.block(block).clone();
    let at_node = func.loop_(at).clone();
    let at_var = func.arena.var(at_node.var).clone();
    let iter_name = format!("v{}", at_var.name);

    // The partial block: first the factored loop's iteration variable, then the old ones; a variable that the loop
    // drives is replaced by one for each of its other loops.
    let (factor, factor_expr) = func.arena.new_var_expr(iter_name.as_str(), at_var.dtype);
    let partials: SmallVec<[BufferId; 2]> =
        reduction.updates.iter().map(|u| partial_buffer(func, u.buffer, axis, at_node.extent)).collect();
    let partial = partial_parts(func, &old, &loops, &reduction, &partials, axis, (at, factor, factor_expr));
    let name = old.name.with_suffix("_rf");
    let node = make_block(func, &reduction, partial, Block { name, ..shell(&old, old.predicate) });
    let partial = func.add_block(node);
    let nest = copy_loops(func, &loops, partial);

    let last = final_parts(func, &old, &reduction, &partials, axis, (&at_node, &iter_name, factor_expr));
    let mut node = make_block(func, &reduction, last, shell(&old, predicate));
    let (init, body) = (node.init.take(), std::mem::take(&mut node.body));
    func.set_init(block, None);
    func.set_body(block.stmt(), Body::new());
    *func.block_mut(block) = node;
    func.set_init(block, init);
    func.set_body(block.stmt(), body);

    let is_kept = |(&l, &reduces): (&LoopId, &bool)| !reduces || l == at;
    for (&l, _) in loops.iter().zip(&reduces).rev().filter(|&pair| !is_kept(pair)) {
        let body = func.loop_(l).body.clone();
        func.set_body(l.stmt(), Body::new());
        func.replace(l.stmt(), &body);
    }
    let outermost = loops.iter().zip(&reduces).find(|&pair| is_kept(pair)).map_or(at, |(&l, _)| l);
    let place = func.place(outermost.stmt()).expect("the loops stand in the scope");
    func.insert_at(place, &[nest]);
    func.block_mut(scope).allocs.extend(partials);

    for b in [partial, block] {
        state.set_info(b, BlockInfo { affine_binding: true, region_cover: true, stage_pipeline: true });
    }
    partial
}

/// A block with the annotations of the old one and no contents.
fn shell(old: &Block, predicate: ExprId) -> Block {
    Block { annotations: old.annotations.clone(), ..Block::new(old.name, predicate) }
}

fn partial_parts(
    func: &mut Func,
    old: &Block,
    loops: &[LoopId],
    reduction: &Reduction,
    partials: &[BufferId],
    axis: usize,
    (at, factor, factor_expr): (LoopId, VarId, ExprId),
) -> Parts {
    let at_var = func.loop_(at).var;
    let mut iters = vec![loop_iter(func, at, factor, IterKind::Spatial)];
    let mut by_loop = Substitution::of_vars([(at_var, factor_expr)]);
    let mut renamed = Substitution::default();
    for iter in &old.iters {
        if iter.kind != IterKind::Reduce || !uses_var(&func.arena, iter.value, &mut |v| v == at_var) {
            copy_iter(func, iter, &mut iters, &mut renamed);
            continue;
        }
        for var in vars_of(&func.arena, iter.value) {
            if let Some(&l) = loops.iter().find(|&&l| func.loop_(l).var == var)
                && by_loop.var(var).is_none()
            {
                let known = func.arena.var(var).clone();
                let (new, e) = func.arena.new_var_expr(format!("v{}", known.name).as_str(), known.dtype);
                iters.push(loop_iter(func, l, new, IterKind::Reduce));
                by_loop.add_var(var, e);
            }
        }
        let value = by_loop.apply(&mut func.arena, iter.value);
        renamed.add_var(iter.var, value);
    }
    let indices = with_axis(func, reduction.updates[0].indices, axis, factor_expr);
    let one = func.arena.int(1, func.arena.dtype(factor_expr));
    let writes = old
        .writes
        .iter()
        .map(|w| {
            let output = reduction.updates.iter().position(|u| u.buffer == w.buffer);
            let buffer = partials[output.expect("a reduction block writes what it reduces")];
            let mins = with_axis(func, w.mins, axis, factor_expr);
            let extents = with_axis(func, w.extents, axis, one);
            renamed.apply_region(&mut func.arena, &BufferRegion { buffer, mins, extents })
        })
        .collect();
    let reads = old.reads.iter().map(|r| renamed.apply_region(&mut func.arena, r)).collect();
    let lhs = partials.iter().map(|&b| load(func, b, indices)).collect();
    Parts { iters, renamed, buffers: partials.into(), indices, lhs, rhs: reduction.rhs.clone(), reads, writes }
}

fn final_parts(
    func: &mut Func,
    old: &Block,
    reduction: &Reduction,
    partials: &[BufferId],
    axis: usize,
    (at, iter_name, factor_expr): (&Loop, &str, ExprId),
) -> Parts {
    let dtype = func.arena.dtype(factor_expr);
    let (var, e) = func.arena.new_var_expr(iter_name, dtype);
    let value = func.arena.var_expr(at.var);
    let mut iters = vec![BlockIter { var, min: at.min, extent: at.extent, kind: IterKind::Reduce, value }];
    let mut renamed = Substitution::default();
    for iter in old.iters.iter().filter(|i| i.kind == IterKind::Spatial) {
        copy_iter(func, iter, &mut iters, &mut renamed);
    }
    let output_indices = reduction.updates[0].indices;
    let partial_indices = with_axis(func, output_indices, axis, e);
    let mut point = |func: &mut Func, buffer: BufferId, indices: ExprList| {
        let indices = func.arena.map_list(indices, |a, e| renamed.apply(a, e));
        BufferRegion::point(&mut func.arena, buffer, indices)
    };
    let reads = partials.iter().map(|&b| point(func, b, partial_indices)).collect();
    let writes = reduction.updates.iter().map(|u| point(func, u.buffer, output_indices)).collect();
    let rhs = partials.iter().map(|&b| load(func, b, partial_indices)).collect();
    let buffers = reduction.updates.iter().map(|u| u.buffer).collect();
    Parts { iters, renamed, buffers, indices: output_indices, lhs: reduction.lhs.clone(), rhs, reads, writes }
}

/// Puts iteration variables, regions, init and body into `shell`. Without a reduction variable, the combined values are
/// stored directly.
fn make_block(func: &mut Func, reduction: &Reduction, parts: Parts, shell: Block) -> Block {
    let Parts { iters, mut renamed, buffers, indices, lhs, rhs, reads, writes } = parts;
    let arena = &mut func.arena;
    let indices = arena.map_list(indices, |a, e| renamed.apply(a, e));
    let mut rename = |values: &Tuple| -> Tuple { values.iter().map(|&v| renamed.apply(arena, v)).collect() };
    let (lhs, rhs) = (rename(&lhs), rename(&rhs));
    let stores = |func: &mut Func, values: &[ExprId]| -> Body {
        let stores = buffers.iter().zip(values);
        stores.map(|(&buffer, &value)| func.add(Stmt::Store { buffer, indices, value })).collect()
    };
    if iters.iter().all(|i| i.kind != IterKind::Reduce) {
        let body = stores(func, &rhs);
        return Block { iters, reads, writes, body, ..shell };
    }
    let types: SmallVec<[_; 2]> = rhs.iter().map(|&v| func.arena.dtype(v)).collect();
    let identity = reduction.reducer.identity(&mut func.arena, &types);
    let init = Some(stores(func, &identity));
    let values = reduction.reducer.combine(&mut func.arena, &lhs, &rhs);
    let body = if values.len() == 1 {
        stores(func, &values)
    } else {
        // All new values are computed before any is stored.
        let lets: SmallVec<[(VarId, ExprId); 2]> = buffers
            .iter()
            .zip(&types)
            .map(|(&b, &dtype)| {
                let name = format!("v_{}", func.arena.buffer(b).name);
                func.arena.new_var_expr(name.as_str(), dtype)
            })
            .collect();
        let stored: Tuple = lets.iter().map(|l| l.1).collect();
        let mut body = stores(func, &stored);
        for (&(var, _), &value) in lets.iter().zip(&values).rev() {
            body = Body::from_slice(&[func.add(Stmt::Let { var, value, body })]);
        }
        body
    };
    Block { iters, reads, writes, init, body, ..shell }
}

/// The buffer of partial results: the output with the factored loop as a further dimension.
fn partial_buffer(func: &mut Func, output: BufferId, axis: usize, extent: ExprId) -> BufferId {
    let output = func.arena.buffer(output).clone();
    let shape = with_axis(func, output.shape, axis, extent);
    // TVM's name, which prints as `B_rf`; names derived from it are visible to later queries.
    let name = output.name.with_suffix(".rf");
    let partial = Buffer { name, strides: None, ..output.with_shape(&mut func.arena, shape) };
    func.arena.new_buffer(partial)
}

/// The list with an item inserted.
fn with_axis(func: &mut Func, list: ExprList, axis: usize, item: ExprId) -> ExprList {
    let mut items: SmallVec<[ExprId; 8]> = func.arena.list(list).iter().copied().collect();
    items.insert(axis, item);
    func.arena.new_list(&items)
}

fn load(func: &mut Func, buffer: BufferId, indices: ExprList) -> ExprId {
    let indices: SmallVec<[ExprId; 8]> = func.arena.list(indices).iter().copied().collect();
    func.arena.load(buffer, &indices)
}

/// An iteration variable over the values of a loop, bound to it.
fn loop_iter(func: &mut Func, l: LoopId, var: VarId, kind: IterKind) -> BlockIter {
    let node = func.loop_(l);
    let (loop_var, min, extent) = (node.var, node.min, node.extent);
    BlockIter { var, min, extent, kind, value: func.arena.var_expr(loop_var) }
}

/// Appends a copy of an iteration variable under the same name.
fn copy_iter(func: &mut Func, iter: &BlockIter, iters: &mut Vec<BlockIter>, renamed: &mut Substitution) {
    let old = func.arena.var(iter.var).clone();
    let (var, e) = func.arena.new_var_expr(old.name, old.dtype);
    iters.push(BlockIter { var, ..*iter });
    renamed.add_var(iter.var, e);
}

/// Copies of the loops, with fresh variables, around the block.
fn copy_loops(func: &mut Func, loops: &[LoopId], block: BlockId) -> StmtId {
    let mut renamed = Substitution::default();
    let mut copies: Vec<Loop> = Vec::with_capacity(loops.len());
    for &l in loops {
        let node = func.loop_(l);
        let (var, min, extent, step, kind) = (node.var, node.min, node.extent, node.step, node.kind);
        let annotations = node.annotations.clone();
        let min = renamed.apply(&mut func.arena, min);
        let extent = renamed.apply(&mut func.arena, extent);
        let step = step.map(|step| renamed.apply(&mut func.arena, step));
        let known = func.arena.var(var).clone();
        let (new, e) = func.arena.new_var_expr(known.name, known.dtype);
        renamed.add_var(var, e);
        copies.push(Loop { var: new, min, extent, step, kind, annotations, body: Body::new() });
    }
    func.rewrite_stmt(block.stmt(), &mut renamed);
    let mut nest = block.stmt();
    for copy in copies.into_iter().rev() {
        nest = func.add_loop(Loop { body: Body::from_slice(&[nest]), ..copy }).stmt();
    }
    nest
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const ROW_SUM: &str = r#"
def main(A: T.Buffer((8, 4, 6)), B: T.Buffer((8,))):
    for i, k, l in T.grid(8, 4, 6):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(24, k * 6 + l)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk // 6, vk % 6]
"#;

    #[test]
    fn an_inner_loop() {
        check(
            ROW_SUM,
            |t| {
                let loops = t.loops("B");
                t.run("rfactor", vec![loops[2].into(), 1.into()]).map(drop)
            },
            r#"
def main(A: T.Buffer((8, 4, 6)), B: T.Buffer((8,))):
    B_rf = T.alloc_buffer((8, 6))
    for i, k, l in T.grid(8, 4, 6):
        with T.block("B_rf"):
            vl, vi, vk = T.axis.remap("SSR", [l, i, k])
            T.reads(A[vi, (vk * 6 + vl) // 6, (vk * 6 + vl) % 6])
            T.writes(B_rf[vi, vl])
            with T.init():
                B_rf[vi, vl] = T.float32(0)
            B_rf[vi, vl] = B_rf[vi, vl] + A[vi, (vk * 6 + vl) // 6, (vk * 6 + vl) % 6]
    for i, l in T.grid(8, 6):
        with T.block("B"):
            vl, vi = T.axis.remap("RS", [l, i])
            T.reads(B_rf[vi, vl])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + B_rf[vi, vl]
"#,
        );
    }

    #[test]
    fn a_partial_result_that_may_stay_unset_is_refused() {
        let split = "b = sch.get_block('B', 'main')\nl_0, l_1 = sch.split(sch.get_loops(b)[1], [3, 2])";
        let sum = r#"
def main(A: T.Buffer((8, 5)), B: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"#;
        // The last factor has none of the 4 * 2 iterations.
        let split = split.replace("[3, 2]", "[4, 2]");
        refuse(
            sum,
            |t| {
                t.python(&split)?;
                let loops = t.loops("B");
                t.run("rfactor", vec![loops[1].into(), 0.into()]).map(drop)
            },
            "RFactorUncoveredError",
        );
    }

    #[test]
    fn refusals() {
        let at = |l: usize, axis: i64| {
            move |t: &mut super::super::testing::Test| {
                let loops = t.loops("B");
                t.run("rfactor", vec![loops[l].into(), axis.into()]).map(drop)
            }
        };
        refuse(ROW_SUM, at(0, 0), "LoopPropertyError");
        refuse(ROW_SUM, at(1, 2), "FactorAxisOutOfRangeError");
        refuse(&ROW_SUM.replace("B[vi] + A", "B[vi] - A"), at(1, 0), "NoMatchedReducerError");
        refuse(&ROW_SUM.replace("T.float32(0)", "T.float32(1)"), at(1, 0), "NoMatchedReducerError");
        let unused = ROW_SUM.replace("k * 6 + l", "l").replace("reduce(24", "reduce(6");
        refuse(&unused, at(1, 0), "LoopPropertyError");
    }
}
