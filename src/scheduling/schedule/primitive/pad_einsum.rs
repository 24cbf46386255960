//! # `pad_einsum`
//!
//! Pads the iteration domains of a reduction to multiples, with padded copies of the buffers.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((30, 32)), x: T.Buffer(32), y: T.Buffer(30)):
//!     for i, k in T.grid(30, 32):
//!         with T.sblock("y"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 y[vi] = 0.0
//!             y[vi] = y[vi] + A[vi, vk] * x[vk]
//!
//! def steps(sch):
//!     sch.pad_einsum("y", [16, 1])
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30, 32)), x: T.Buffer((32,)), y: T.Buffer((30,))):
//!     A_pad = T.sblock_alloc_buffer((32, 32))
//!     y_pad = T.sblock_alloc_buffer((32,))
//!     for i0, i1 in T.grid(32, 32):
//!         with T.sblock("A_pad"):
//!             v0, v1 = T.axis.remap("SS", [i0, i1])
//!             A_pad[v0, v1] = T.if_then_else(v0 < 30, A[v0, v1], T.float32(0.0))
//!     for i, k in T.grid(32, 32):
//!         with T.sblock("y"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 y_pad[vi] = T.float32(0.0)
//!             y_pad[vi] = y_pad[vi] + A_pad[vi, vk] * x[vk]
//!     for i0 in range(30):
//!         with T.sblock("y_pad"):
//!             v0 = T.axis.spatial(30, i0)
//!             y[v0] = y_pad[v0]
//! ```
//!
//! * Requires: each buffer is accessed once, at plain iteration variables; a positive padding for each of them.
//! * Errors: `NotStagePipelineError`, `InvalidPaddingError`, `NonEinsumError`, `UnsoundPaddingError`,
//!   `ExtentOverflowError`.
//! * Handles: persists: all; created: the copy blocks, their loops.
//! * Unlike TVM, which always pads with zeros: a product, maximum, minimum or `argmax` of loaded values is padded with
//!   the identity of the reduction.
//! * Refused, though TVM accepts it: reductions to which the padding contributes (a sum of exponentials), and other
//!   blocks in the nest that would run too far or see unwritten elements.
//!
//! # Implementation
//!
//! Extends the iteration domains of a reduction to multiples of given numbers, over padded copies: with zeros for a sum
//! of products, with the identity for other reductions.
//!
//! ```text
//! for i, k in T.grid(27, 21):
//!     with T.block("C"): C[vi] = C[vi] + A[vi, vk] * B[vk]
//! # becomes, with padding [8, 8]
//! for i0, i1 in T.grid(32, 24):
//!     with T.block("A_pad"): A_pad[v0, v1] = T.if_then_else(v0 < 27 and v1 < 21, A[v0, v1], 0)
//! … # B_pad likewise
//! for i, k in T.grid(32, 24):
//!     with T.block("C"): C_pad[vi] = C_pad[vi] + A_pad[vi, vk] * B_pad[vk]
//! for i0 in range(27):
//!     with T.block("C_pad"): C[v0] = C_pad[v0]
//! ```
//!
//! Requires: a block of a stage pipeline that accesses every buffer once, at iteration variables and constants only; a
//! positive number for each iteration variable. Preserves: all loops and blocks. Returns: nothing.
//!
//! TVM pads every such block, always with zeros. If zeros would change the result, tvmr pads with the identity of the
//! reduction (1 for a product, the least value for a maximum, the pair that loses for `argmax`). Refused are: a padded
//! reduction whose terms are computed from the loaded values (a sum of exponentials); a padded loop that other blocks
//! or iteration variables use; a padded buffer that other blocks in the same nest write, or read at elements that the
//! block has not written; a buffer that is read at a constant other than 0; a buffer that the block writes only
//! partially.
//!
//! Handles: persist; created, the blocks and loops of the copies (not returned).

use super::super::analysis::dependence::Scope;
use super::super::analysis::extent;
use super::super::analysis::guard::{may_cover_domains, predicate_follows};
use super::super::analysis::reducer::{NotRecognised, Reducer, Reduction, recognise};
use super::super::analysis::tree::require_scope;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::{BlockInfo, State};
use crate::arith::Analyzer;
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, BinOp, Block, BlockId, BlockIter, Body, Buffer, BufferId, BufferRegion, DType, Expr, ExprId, Func, IterKind,
    LoopId, Stmt, StmtId, Substitution, VarId,
};
use smallvec::SmallVec;

/// `pad_einsum(block, padding)`.
pub(crate) static PAD_EINSUM: Kind = Kind {
    name: "PadEinsum",
    method: "pad_einsum",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::attr("padding", Ty::Ints)],
    outputs: Outputs::None,
    samples: false,
    run,
};

/// The result of the checks.
struct PaddingPlan {
    block: BlockId,
    scope: BlockId,
    /// The statement of the scope that contains the block.
    nest: StmtId,
    /// Iteration variables by position, with their new extents.
    iters: Vec<(usize, ExprId)>,
    /// Loops with their new extents.
    loops: Vec<(LoopId, ExprId)>,
    /// Regions with the shapes of the padded buffers: first those read, then those written.
    reads: Vec<(BufferRegion, SmallVec<[ExprId; 4]>)>,
    writes: Vec<(BufferRegion, SmallVec<[ExprId; 4]>)>,
    /// The padding of the copies of these buffers, if it is not zero.
    fills: Fills,
}

type Fills = SmallVec<[(BufferId, ExprId); 2]>;

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let padding = call.ints(1)?;
    let state = call.state(func);
    let plan = check(state, block, &padding)?;
    apply(state, plan);
    Ok(Outcome::none())
}

fn check(state: &mut State, block: BlockId, padding: &[i64]) -> Result<PaddingPlan, ScheduleError> {
    let scope = require_scope(state, block, true)?;
    let n = state.func.block(block).iters.len();
    if padding.len() != n || padding.iter().any(|&p| p <= 0) {
        return Err(state.error(ErrorKind::InvalidPadding { padding: format!("{padding:?}"), n }, block));
    }
    require_einsum(state, block)?;
    let nest = std::iter::once(block.stmt())
        .chain(state.func.ancestors(block.stmt()))
        .find(|&s| state.func.parent(s) == Some(scope.stmt()))
        .expect("a block stands below a statement of its scope");

    let index = state.index();
    let Func { arena, stmts, .. } = &mut state.func;
    let node = stmts.block(block);
    let mut analyzer = Analyzer::new();
    let mut iters: Vec<(usize, ExprId)> = Vec::new();
    for (i, iter) in node.iters.iter().enumerate() {
        let padded = padded_extent(arena, &mut analyzer, iter.extent, padding[i]);
        let padded = padded.map_err(|kind| ScheduleError::new(kind).at(index, block))?;
        if !analyzer.can_prove_equal(arena, padded, iter.extent) {
            iters.push((i, padded));
        }
    }
    let loops: Vec<(LoopId, ExprId)> = state
        .func
        .loops_above(block.stmt())
        .into_iter()
        .filter_map(|l| {
            let var = state.func.loop_(l).var;
            let bound = |&&(i, _): &&(usize, ExprId)| {
                state.func.arena.as_var(state.func.block(block).iters[i].value) == Some(var)
            };
            // The last iteration variable bound to a loop determines the extent, as in TVM.
            iters.iter().rev().find(bound).map(|&(_, extent)| (l, extent))
        })
        .collect();
    let shapes = |func: &mut Func, regions: &[BufferRegion]| -> Vec<(BufferRegion, SmallVec<[ExprId; 4]>)> {
        regions.iter().filter_map(|r| padded_shape(func, block, &iters, r).map(|shape| (*r, shape))).collect()
    };
    let (read, written) = (state.func.block(block).reads.clone(), state.func.block(block).writes.clone());
    let reads = shapes(&mut state.func, &read);
    let writes = shapes(&mut state.func, &written);
    let mut plan = PaddingPlan { block, scope, nest, iters, loops, reads, writes, fills: Fills::new() };
    plan.fills = require_sound(state, &plan)?;
    Ok(plan)
}

fn padded_extent(
    arena: &mut Arena,
    analyzer: &mut Analyzer,
    extent: ExprId,
    multiple: i64,
) -> Result<ExprId, ErrorKind> {
    let dtype = arena.dtype(extent);
    extent::product(dtype, [multiple])?;
    if let Some(n) = arena.as_int(extent) {
        let count = n.div_euclid(multiple) + i64::from(n.rem_euclid(multiple) != 0);
        return Ok(arena.int(extent::product(dtype, [count, multiple])?, dtype));
    }
    // The form of TVM's `ceildiv`.
    let more = arena.add_const(extent, multiple);
    let more = arena.add_const(more, -1);
    let multiple = arena.int(multiple, arena.dtype(extent));
    let count = arena.floor_div(more, multiple);
    let padded = arena.mul(count, multiple);
    Ok(analyzer.simplify(arena, padded))
}

/// Checks that the block accesses each buffer once, at variables and constants.
fn require_einsum(state: &State, block: BlockId) -> Result<(), ScheduleError> {
    let node = state.func.block(block);
    let arena = &state.func.arena;
    let mut seen: SmallVec<[BufferId; 4]> = SmallVec::new();
    for r in node.reads.iter().chain(&node.writes) {
        let trivial = |(min, extent): (ExprId, ExprId)| {
            arena.is_int(extent, 1) && (arena.as_int(min).is_some() || arena.as_var(min).is_some())
        };
        if seen.contains(&r.buffer) || !r.ranges(arena).all(trivial) {
            return Err(state.error(ErrorKind::NonEinsum { block: node.name }, block));
        }
        seen.push(r.buffer);
    }
    Ok(())
}

/// The shape of the padded copy of a region's buffer; `None` if the region is not padded.
fn padded_shape(
    func: &mut Func,
    block: BlockId,
    iters: &[(usize, ExprId)],
    region: &BufferRegion,
) -> Option<SmallVec<[ExprId; 4]>> {
    let Func { arena, stmts, .. } = func;
    let node = stmts.block(block);
    let padded = |arena: &Arena, min: ExprId| {
        let var = arena.as_var(min)?;
        iters.iter().find(|p| node.iters[p.0].var == var).map(|p| p.1)
    };
    let mins: SmallVec<[ExprId; 4]> = arena.list(region.mins).iter().copied().collect();
    if !mins.iter().any(|&m| padded(arena, m).is_some()) {
        return None;
    }
    let shape: SmallVec<[ExprId; 4]> = arena.list(arena.buffer(region.buffer).shape).iter().copied().collect();
    let extent = |(&min, extent): (&ExprId, ExprId)| match arena.as_int(min) {
        Some(_) => arena.int(1, arena.dtype(min)),
        None => padded(arena, min).unwrap_or(extent),
    };
    Some(mins.iter().zip(shape).map(extent).collect())
}

/// Checks that padding does not change the result; returns the paddings of read buffers that are not zero.
fn require_sound(state: &mut State, plan: &PaddingPlan) -> Result<Fills, ScheduleError> {
    let iters = state.func.block(plan.block).iters.clone();
    let no_guard = predicate_follows(&mut state.func, plan.block);
    let covers = may_cover_domains(&mut state.func, plan.block, &iters);
    let func = &state.func;
    let deps = Scope::of(func, plan.scope);
    let node = func.block(plan.block);
    let unsound = |problem: &'static str| Err(state.error(ErrorKind::UnsoundPadding { problem }, plan.block));

    let others: Vec<BlockId> =
        func.subtree(plan.nest).into_iter().filter_map(|s| func.as_block(s)).filter(|&b| b != plan.block).collect();
    let is_padded = |r: &BufferRegion| plan.reads.iter().chain(&plan.writes).any(|p| p.0.buffer == r.buffer);
    let padded_vars: SmallVec<[VarId; 4]> = plan.loops.iter().map(|&(l, _)| func.loop_(l).var).collect();
    let uses_padded = |e: ExprId| uses_var(&func.arena, e, &mut |v| padded_vars.contains(&v));
    for &b in &others {
        let other = func.block(b);
        if other.iters.iter().any(|i| uses_padded(i.value)) {
            return unsound("another block runs in a loop that would be longer");
        }
        if other.writes.iter().any(is_padded) {
            return unsound("another block in the same nest writes a buffer that would be padded");
        }
        let reads_it = |p: &&(BufferRegion, SmallVec<[ExprId; 4]>)| other.reads.iter().any(|r| r.buffer == p.0.buffer);
        let same_rank_or_more = |p: &(BufferRegion, SmallVec<[ExprId; 4]>)| {
            let shape = func.arena.list(func.arena.buffer(p.0.buffer).shape);
            shape.iter().zip(&p.1).all(|(&old, &new)| old == new || func.arena.as_int(old) <= func.arena.as_int(new))
        };
        if plan.reads.iter().chain(&plan.writes).filter(reads_it).any(|p| !same_rank_or_more(p)) {
            return unsound("another block in the same nest reads a dimension that would be cut off");
        }
        // Elements that the block has not written are not in the padded output.
        let alone = |p: &(BufferRegion, SmallVec<[ExprId; 4]>)| deps.writers(p.0.buffer).eq([plan.block]);
        if plan.writes.iter().filter(reads_it).any(|p| !state.info(b).region_cover || !alone(p)) {
            return unsound("another block in the same nest reads elements that the block has not written");
        }
    }
    let is_extended = |i: usize| plan.iters.iter().any(|p| p.0 == i);
    if node.iters.iter().enumerate().any(|(i, iter)| !is_extended(i) && uses_padded(iter.value)) {
        return unsound("another iteration variable uses a loop that would be longer");
    }
    let values = plan.iters.iter().filter_map(|p| func.arena.as_var(node.iters[p.0].value));
    let mut seen: SmallVec<[VarId; 4]> = SmallVec::new();
    for v in values {
        if seen.contains(&v) {
            return unsound("two iteration variables are bound to one loop that would be longer");
        }
        seen.push(v);
    }
    for (r, shape) in plan.reads.iter().chain(&plan.writes) {
        for (&min, &extent) in func.arena.list(r.mins).iter().zip(shape) {
            let unit = func.arena.is_int(extent, 1);
            if unit && func.arena.as_int(min).is_some_and(|m| m != 0) {
                return unsound("a buffer that would be padded is read at a constant index");
            }
        }
    }
    if !no_guard {
        return unsound("the block has a predicate, and may write only a part of a buffer that would be padded");
    }
    if !covers {
        return unsound("the loops leave out a part of a buffer that would be padded");
    }
    // The whole padded output is copied back.
    for (r, _) in &plan.writes {
        let shape = func.arena.list(func.arena.buffer(r.buffer).shape);
        let whole = func.arena.list(r.mins).iter().zip(shape).all(|(&min, &extent)| {
            let own = func.arena.as_var(min).and_then(|v| node.iters.iter().find(|i| i.var == v));
            match own {
                Some(iter) => func.arena.is_int(iter.min, 0) && iter.extent == extent,
                None => func.arena.is_int(extent, 1),
            }
        });
        if !whole {
            return unsound("the block writes only a part of a buffer that would be padded");
        }
    }
    // An element would be written once more for each value of a variable that does not affect its index.
    let chooses = |v: VarId| {
        node.writes.iter().all(|w| func.arena.list(w.mins).iter().any(|&min| func.arena.as_var(min) == Some(v)))
    };
    if plan.iters.iter().map(|p| &node.iters[p.0]).any(|i| i.kind == IterKind::Spatial && !chooses(i.var)) {
        return unsound("a spatial iteration variable does not index the buffer that the block writes");
    }
    let reduce: SmallVec<[VarId; 4]> =
        plan.iters.iter().map(|p| &node.iters[p.0]).filter(|i| i.kind != IterKind::Spatial).map(|i| i.var).collect();
    if reduce.is_empty() {
        return Ok(Fills::new());
    }
    let node = node.clone();
    let fills = match recognise(&mut state.func, &node) {
        Ok(r)
            if matches!(r.reducer, Reducer::Sum | Reducer::SumPair)
                && r.rhs.iter().all(|&e| vanishes(&state.func.arena, e, &reduce)) =>
        {
            Some(Fills::new())
        }
        Ok(r) => identity_fills(&mut state.func.arena, &r, &reduce),
        Err(NotRecognised::Operation | NotRecognised::Form(_)) => {
            updates_vanish(&state.func, &node, &reduce).then(Fills::new)
        }
    };
    match fills {
        Some(fills) => Ok(fills),
        None => Err(state.error(
            ErrorKind::UnsoundPadding { problem: "the padded part of the reduction would not vanish" },
            plan.block,
        )),
    }
}

/// The padding of the buffers for which the padded terms are the identity of the reduction.
fn identity_fills(arena: &mut Arena, r: &Reduction, reduce: &[VarId]) -> Option<Fills> {
    let types: SmallVec<[DType; 2]> = r.rhs.iter().map(|&e| arena.dtype(e)).collect();
    let identity = r.reducer.identity(arena, &types);
    let mut fills = Fills::new();
    for (&term, &value) in r.rhs.iter().zip(&identity) {
        let mut terms: SmallVec<[ExprId; 4]> = SmallVec::from_slice(&[term]);
        while let Some(e) = terms.pop() {
            match arena.expr(e) {
                Expr::Load(b, at) => {
                    let reaches = arena.list(at).iter().any(|&i| arena.as_var(i).is_some_and(|v| reduce.contains(&v)));
                    if !reaches || fills.iter().any(|&(known, with)| known == b && with != value) {
                        return None;
                    }
                    fills.push((b, value));
                }
                // The product of ones is one.
                Expr::Binary(BinOp::Mul, x, y) if r.reducer == Reducer::Product => terms.extend([x, y]),
                _ => return None,
            }
        }
    }
    Some(fills)
}

/// For a block without init (after `decompose_reduction`), whether its single store adds a value that vanishes.
fn updates_vanish(func: &Func, node: &Block, reduce: &[VarId]) -> bool {
    let [s] = node.body[..] else { return false };
    let Stmt::Store { buffer, indices, value } = *func.get(s) else { return false };
    let Expr::Binary(BinOp::Add, old, term) = func.arena.expr(value) else { return false };
    matches!(func.arena.expr(old), Expr::Load(b, at) if b == buffer && at == indices)
        && vanishes(&func.arena, term, reduce)
}

/// Whether the expression is zero wherever all loads at one of the variables are zero.
fn vanishes(arena: &Arena, e: ExprId, at: &[VarId]) -> bool {
    match arena.expr(e) {
        Expr::Int(v) => v == 0,
        Expr::Float(bits) => f64::from_bits(bits) == 0.0,
        Expr::Load(_, indices) => arena.list(indices).iter().any(|&i| arena.as_var(i).is_some_and(|v| at.contains(&v))),
        Expr::Binary(BinOp::Mul, a, b) => vanishes(arena, a, at) || vanishes(arena, b, at),
        Expr::Binary(BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max, a, b) => {
            vanishes(arena, a, at) && vanishes(arena, b, at)
        }
        Expr::Cast(a) => vanishes(arena, a, at),
        Expr::Select(_, a, b) | Expr::IfThenElse(_, a, b) => vanishes(arena, a, at) && vanishes(arena, b, at),
        Expr::Let(_, _, body) => vanishes(arena, body, at),
        Expr::Broadcast(value) => vanishes(arena, value, at),
        Expr::Binary(..) | Expr::Compare(..) | Expr::Not(_) | Expr::Str(_) | Expr::Var(_) | Expr::Call(..) => false,
        Expr::Ramp(..) | Expr::Shuffle(..) | Expr::Builtin(..) | Expr::BufferData(_) => false,
    }
}

fn apply(state: &mut State, plan: PaddingPlan) {
    let PaddingPlan { block, scope, nest, iters, loops, reads, writes, fills } = plan;
    let func = &mut state.func;
    for (i, extent) in iters {
        func.block_mut(block).iters[i].extent = extent;
    }
    for (l, extent) in loops {
        func.loop_mut(l).extent = extent;
    }
    let mut padded = Substitution::default();
    let mut copies: Vec<BlockId> = Vec::new();
    let mut nests: [SmallVec<[StmtId; 4]>; 2] = Default::default();
    for (write, regions) in [(false, reads), (true, writes)] {
        for (region, shape) in regions {
            let old = func.arena.buffer(region.buffer).clone();
            let new = Buffer::new(old.name.with_suffix("_pad"), old.dtype, func.arena.new_list(&shape));
            let new = func.arena.new_buffer(Buffer { scope: old.scope, ..new });
            padded.add_buffer(region.buffer, new);
            func.block_mut(scope).allocs.push(new);
            let fill = fills.iter().find(|f| f.0 == region.buffer).map(|f| f.1);
            let (copy, copy_nest) = copy_nest(func, region.buffer, new, write, fill);
            copies.push(copy);
            nests[usize::from(write)].push(copy_nest);
        }
    }
    func.rewrite_subtree(nest, &mut padded);
    let mut place = func.place(nest).expect("the nest stands in the scope");
    func.insert_at(place, &nests[0]);
    place.position += nests[0].len() + 1;
    func.insert_at(place, &nests[1]);
    for b in copies {
        state.set_info(b, BlockInfo { affine_binding: true, region_cover: true, stage_pipeline: true });
    }
}

/// The nest that fills the padded buffer, with `fill` or zeros outside the old one, or that copies the inner part back.
fn copy_nest(
    func: &mut Func,
    buffer: BufferId,
    padded: BufferId,
    write: bool,
    fill: Option<ExprId>,
) -> (BlockId, StmtId) {
    let arena = &mut func.arena;
    let shape_of = |arena: &Arena, b: BufferId| -> SmallVec<[ExprId; 4]> {
        arena.list(arena.buffer(b).shape).iter().copied().collect()
    };
    let (inner, outer) = (shape_of(arena, buffer), shape_of(arena, padded));
    let mut analyzer = Analyzer::new();
    let mut iters: Vec<BlockIter> = Vec::with_capacity(inner.len());
    let mut loops: SmallVec<[(VarId, ExprId); 4]> = SmallVec::new();
    let mut indices: SmallVec<[ExprId; 4]> = SmallVec::new();
    let mut inside = arena.bool(true);
    for (n, (&small, &large)) in inner.iter().zip(&outer).enumerate() {
        let extent = if write { small } else { large };
        let dtype = arena.dtype(extent);
        let (loop_var, value) = arena.new_var_expr(format!("i{n}").as_str(), dtype);
        let (var, v) = arena.new_var_expr(format!("v{n}").as_str(), dtype);
        let min = arena.int(0, dtype);
        iters.push(BlockIter { var, min, extent, kind: IterKind::Spatial, value });
        loops.push((loop_var, extent));
        indices.push(v);
        if !analyzer.can_prove_equal(arena, small, large) {
            let below = arena.lt(v, small);
            inside = arena.and(inside, below);
        }
    }
    let list = arena.new_list(&indices);
    let (from, to) = if write { (padded, buffer) } else { (buffer, padded) };
    let mut value = arena.load(from, &indices);
    if !write {
        let fill = fill.unwrap_or_else(|| arena.constant(0, arena.dtype(value)));
        value = arena.if_then_else(inside, value, fill);
    }
    let reads = vec![BufferRegion::point(arena, from, list)];
    let writes = vec![BufferRegion::point(arena, to, list)];
    let (name, always) = (arena.buffer(padded).name, arena.bool(true));
    let store = func.add(Stmt::Store { buffer: to, indices: list, value });
    let body = Body::from_slice(&[store]);
    let copy = func.add_block(Block { iters, reads, writes, body, ..Block::new(name, always) });
    let mut nest = copy.stmt();
    for &(var, extent) in loops.iter().rev() {
        nest = func.make_loop(var, extent, Body::from_slice(&[nest])).stmt();
    }
    (copy, nest)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::arg::Arg;
    use crate::schedule::error::ScheduleError;

    const GEMV: &str = r#"
def main(A: T.Buffer((7, 5)), x: T.Buffer((5,)), y: T.Buffer((7,))):
    for i, k in T.grid(7, 5):
        with T.block("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A[vi, vk] * x[vk]
"#;

    fn pad(by: &'static [i64]) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block("y");
            t.run("pad_einsum", vec![block.into(), Arg::List(by.iter().map(|&p| p.into()).collect())]).map(drop)
        }
    }

    #[test]
    fn one_axis() {
        check(
            GEMV,
            pad(&[1, 4]),
            r#"
def main(A: T.Buffer((7, 5)), x: T.Buffer((5,)), y: T.Buffer((7,))):
    A_pad = T.alloc_buffer((7, 8))
    x_pad = T.alloc_buffer((8,))
    for i0, i1 in T.grid(7, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A[v0, v1])
            T.writes(A_pad[v0, v1])
            A_pad[v0, v1] = T.if_then_else(v1 < 5, A[v0, v1], T.float32(0))
    for i0 in range(8):
        with T.block("x_pad"):
            v0 = T.axis.spatial(8, i0)
            T.reads(x[v0])
            T.writes(x_pad[v0])
            x_pad[v0] = T.if_then_else(v0 < 5, x[v0], T.float32(0))
    for i, k in T.grid(7, 8):
        with T.block("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A_pad[vi, vk] * x_pad[vk]
"#,
        );
    }

    #[test]
    fn other_reductions_are_padded_with_their_identity() {
        let product = GEMV.replace("A[vi, vk] * x[vk]", "A[vi, vk]").replace("y[vi] + A", "y[vi] * A");
        check(
            &product.replace("y[vi] = T.float32(0)", "y[vi] = T.float32(1)"),
            pad(&[1, 4]),
            r#"
def main(A: T.Buffer((7, 5)), x: T.Buffer((5,)), y: T.Buffer((7,))):
    A_pad = T.alloc_buffer((7, 8))
    for i0, i1 in T.grid(7, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A[v0, v1])
            T.writes(A_pad[v0, v1])
            A_pad[v0, v1] = T.if_then_else(v1 < 5, A[v0, v1], T.float32(1))
    for i, k in T.grid(7, 8):
        with T.block("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(1)
            y[vi] = y[vi] * A_pad[vi, vk]
"#,
        );
    }

    #[test]
    fn what_padding_would_change_is_refused() {
        refuse(
            &GEMV.replace("y[vi] + A[vi, vk] * x[vk]", "T.max(y[vi], A[vi, vk])"),
            pad(&[1, 4]),
            "UnsoundPaddingError",
        );
        refuse(&GEMV.replace("A[vi, vk] * x[vk]", "T.exp(A[vi, vk])"), pad(&[1, 4]), "UnsoundPaddingError");
        refuse(GEMV, pad(&[1, 0]), "InvalidPaddingError");
        refuse(&GEMV.replace("x[vk]", "x[vk // 2]"), pad(&[1, 4]), "NonEinsumError");
    }
}
