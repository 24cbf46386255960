//! # `compute_at`
//!
//! Moves a producer under a loop of its consumers.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
//!     B = T.sblock_alloc_buffer((4, 8))
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * 2.0
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             C[vi, vj] = B[vi, vj] + 1.0
//!
//! def steps(sch):
//!     i, j = sch.get_loops("C")
//!     sch.compute_at("B", i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
//!     B = T.sblock_alloc_buffer((4, 8))
//!     for i in range(4):
//!         for ax0 in range(8):
//!             with T.sblock("B"):
//!                 vi, vj = T.axis.remap("SS", [i, ax0])
//!                 B[vi, vj] = A[vi, vj] * T.float32(2.0)
//!         for j in range(8):
//!             with T.sblock("C"):
//!                 vi, vj = T.axis.remap("SS", [i, j])
//!                 C[vi, vj] = B[vi, vj] + T.float32(1.0)
//! ```
//!
//! * Requires: a stage pipeline; a complete or reduction block, not an output; all consumers under the loop; a solvable
//!   region.
//! * Errors: `NotStagePipelineError`, `NotCompleteOrReductionBlockError`, `OutputBlockError`, `NotInSameScopeError`,
//!   `OnlyLeafError`, `NotAllRequiredBlocksAreVisitedError`, `InsertionPointNotFoundError`, `DependenceOrderError`,
//!   `ConditionalBlockError`, `LostPredicateError`, `RootBlockError`, `InternalError` (a position that is not possible),
//!   `ValueError` (a region that is not solvable).
//! * Handles: dies: loops left empty; persists: the block, other loops; created: the block's new loops.
//! * Refused, though TVM accepts it: moves past a block that depends on the moved one and is not under the loop.
//!
//! # Implementation
//!
//! `compute_at`: moves a producer under a loop of its consumers, where it computes the elements that they need.
//!
//! ```text
//! for i, j in T.grid(128, 128): B[i, j] = A[i, j] * 2
//! for i, j in T.grid(128, 128): C[i, j] = B[i, j] + 1
//! // becomes, with sch.compute_at(block=B, loop=i of C)
//! for i in range(128):
//!     for ax0 in range(128): B[i, ax0] = A[i, ax0] * 2
//!     for j in range(128): C[i, j] = B[i, j] + 1
//! ```
//!
//! The block gets new loops, `ax0` and so on, over the instances that cover the reads of the consumers under the loop;
//! instances that may be outside the domain of an iteration variable are excluded by a predicate. Without
//! `preserve_unit_loops`, a variable with one value gets no loop. `index` is the position among the statements under
//! the loop: -1 is the last possible one, -2 the first.
//!
//! The loop may be a result of `sample_compute_location`: "root" leaves the block in place, "inline" inlines it.
//!
//! Requires: the scope is a stage pipeline, in which the block is a complete or reduction block and not an output; the
//! loop is in the same scope and not around the block; all consumers are under the loop, and no producer comes after
//! them (TVM considers only those under the loop); the block is not alone in its scope, and is not under an `if` or
//! `let`. Preserves: the elements that consumers read. Handles: the block persists, loops that become empty die, new
//! loops are made.

use super::super::analysis::affine::is_affine_binding;
use super::super::analysis::block_class::{require_complete_or_reduction, require_not_output};
use super::super::analysis::dependence::Scope;
use super::super::analysis::guard::can_lose_predicate;
use super::super::analysis::insertion::ProducerConsumerSplit;
use super::super::analysis::iter_domain::{IterDomain, NdSet, Regions, iter_domains};
use super::super::analysis::moved_consumer::MovedConsumer;
use super::super::analysis::tree;
use super::super::call::{Call, LoopOrSpecial};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::{compute_inline, reverse_compute_inline};
use crate::arith::int_set::{self, IntSet};
use crate::arith::{Analyzer, Strength};
use crate::ir::{BlockId, Body, BufferRegion, CmpOp, DType, ExprId, Func, LoopId, Stmt, StmtId, Substitution, VarId};

/// The direction in which a block moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// A producer moves to its consumers.
    ToConsumers,
    /// A consumer moves to its producers.
    ToProducers,
}

/// The parameters of both primitives that move blocks.
pub(super) const PARAMS: &[Param] = &[
    Param::input("block", Ty::Block),
    Param::input("loop", Ty::Loop),
    Param::attr("preserve_unit_loops", Ty::Bool).or(Default::Bool(false)).as_int(),
    Param::attr("index", Ty::Int).or(Default::Int(-1)),
];

/// `compute_at(block, loop, preserve_unit_loops=False, index=-1)`.
pub(crate) static COMPUTE_AT: Kind = Kind {
    name: "ComputeAt",
    method: "compute_at",
    classic: None,
    positional: false,
    params: PARAMS,
    outputs: Outputs::None,
    samples: false,
    run: |call| run(call, Direction::ToConsumers),
};

pub(super) fn run(call: &mut Call<'_>, direction: Direction) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let target = call.loop_or_special(1)?;
    let (preserve_unit_loops, index) = (call.bool(2)?, call.int(3)?);
    let state = call.state(func);
    match target {
        LoopOrSpecial::AtRoot => {}
        LoopOrSpecial::Inlined => match direction {
            Direction::ToConsumers => compute_inline::inline(state, block)?,
            Direction::ToProducers => reverse_compute_inline::inline(state, block)?,
        },
        LoopOrSpecial::Loop(other, target) => {
            if other != func {
                let message = "the block and the loop are of different functions".to_string();
                return Err(state.error(ErrorKind::Argument { message }, block));
            }
            let plan = check(state, block, target, direction, preserve_unit_loops, index)?;
            apply(state, plan);
        }
    }
    Ok(Outcome::none())
}

/// Whether `compute_at` accepts the block and the loop.
pub(crate) fn can_compute_at(state: &mut State, block: BlockId, target: LoopId, preserve_unit_loops: bool) -> bool {
    check(state, block, target, Direction::ToConsumers, preserve_unit_loops, -1).is_ok()
}

/// The new position of the block under the loop.
struct MovePlan {
    block: BlockId,
    target: LoopId,
    position: usize,
    /// The outermost statement that contains the block and no other.
    old: StmtId,
    /// The new loops, outermost first.
    loops: Vec<(VarId, ExprId)>,
    values: Vec<ExprId>,
    predicate: ExprId,
    analyzer: Analyzer,
}

fn check(
    state: &mut State,
    block: BlockId,
    target: LoopId,
    direction: Direction,
    preserve_unit_loops: bool,
    index: i64,
) -> Result<MovePlan, ScheduleError> {
    let scope = tree::require_scope(state, block, true)?;
    let mut analyzer = Analyzer::new();
    bind_shapes(&mut state.func, &mut analyzer);
    let deps = Scope::of(&state.func, scope);
    let (producers, consumers) = (deps.producers(&state.func, block), deps.consumers(&state.func, block));
    require_complete_or_reduction(state, block, scope)?;
    require_same_scope(state, block, target, scope)?;
    let path = tree::loop_path(&state.func, target.stmt(), None, None);
    for l in path {
        let Func { arena, stmts, .. } = &mut state.func;
        let node = stmts.loop_(l);
        analyzer.bind(arena, node.var, node.min, node.extent);
    }
    if direction == Direction::ToConsumers {
        require_not_output(state, block, scope)?;
    }
    let old = removal(state, block)?;
    let list = &state.func.loop_(target).body;
    let split = ProducerConsumerSplit::find(state, target.stmt(), list, &producers, &consumers)?;
    let (needed, others, n_found) = match direction {
        Direction::ToConsumers => ("consumer", &consumers, split.n_consumers),
        Direction::ToProducers => ("producer", &producers, split.n_producers),
    };
    if n_found < others.len() {
        let missing = others.iter().find(|b| !state.func.contains(target.stmt(), b.stmt())).unwrap_or(&others[0]);
        let missing = state.func.block(*missing).name;
        return Err(state.error(ErrorKind::NotAllRequiredBlocksAreVisited { needed, missing }, target));
    }
    require_order(state, &deps, block, target)?;
    let position = split.position(state, target, index)?;
    let func = &mut state.func;
    let (provided, required) = regions(func, block, target, others, direction);
    let iters = func.block(block).iters.clone();
    let domains = iter_domains(&mut func.arena, &mut analyzer, &iters, &provided, &required).map_err(|unsolved| {
        let buffer = unsolved.buffer.map_or(state.func.block(block).name, |b| state.func.arena.buffer(b).name);
        state.error(ErrorKind::UnsolvedRegion { buffer }, block)
    })?;
    let mut plan = MovePlan {
        block,
        target,
        position,
        old,
        loops: Vec::with_capacity(domains.len()),
        values: Vec::with_capacity(domains.len()),
        predicate: state.func.arena.bool(true),
        analyzer,
    };
    plan.make_loops(&mut state.func, &domains, preserve_unit_loops);
    if !can_lose_predicate(&mut state.func, block) {
        return Err(state.error(ErrorKind::LostPredicate { block: state.func.block(block).name }, block));
    }
    if direction == Direction::ToProducers {
        let moved = MovedConsumer {
            block,
            target,
            values: &plan.values,
            predicate: plan.predicate,
            loops: &plan.loops,
            domains: &domains,
            required: &required,
            producers: others,
        };
        moved.check(state, scope)?;
    }
    Ok(plan)
}

/// Blocks on which the block depends must still precede it, and blocks that depend on it must follow it. Under the
/// loop, the position ensures this; TVM checks no more.
fn require_order(state: &State, deps: &Scope, block: BlockId, target: LoopId) -> Result<(), ScheduleError> {
    let func = &state.func;
    for d in deps.dependences_on_earlier(func, block).into_iter().chain(deps.dependences_of_later(func, block)) {
        let (other, first) = if d.dst == block { (d.src, true) } else { (d.dst, false) };
        if func.contains(target.stmt(), other.stmt()) {
            continue;
        }
        if tree::comes_before(func, other.stmt(), target.stmt()) != first {
            let kind = ErrorKind::DependenceOrder { block: func.block(block).name, other: func.block(other).name };
            return Err(state.error(kind, other));
        }
    }
    Ok(())
}

/// Symbolic extents of parameters are not negative.
fn bind_shapes(func: &mut Func, analyzer: &mut Analyzer) {
    for p in &func.params {
        let Some(buffer) = p.buffer else { continue };
        let shape = func.arena.buffer(buffer).shape;
        for i in 0..func.arena.list(shape).len() {
            let extent = func.arena.list(shape)[i];
            if func.arena.as_int(extent).is_none() {
                analyzer.mark_non_negative(&mut func.arena, extent);
            }
        }
    }
}

fn require_same_scope(state: &State, block: BlockId, target: LoopId, scope: BlockId) -> Result<(), ScheduleError> {
    let problem = if state.func.block_above(target.stmt()) != Some(scope) {
        "the block and the loop are in different scopes"
    } else if state.func.contains(target.stmt(), block.stmt()) {
        "the loop is around the block"
    } else {
        return Ok(());
    };
    Err(state.error(ErrorKind::NotInSameScope { problem }, block))
}

/// The outermost statement of the scope that is removed with the block (TVM's `LeafBlockRemovalPlan`).
fn removal(state: &State, block: BlockId) -> Result<StmtId, ScheduleError> {
    let func = &state.func;
    let name = func.block(block).name;
    let mut at = block.stmt();
    loop {
        let place = func.place(at).expect("a block inside a scope has a statement around it");
        let alone = func.body_at(place.parent, place.body).len() == 1;
        match func.get(place.parent) {
            Stmt::Loop(_) if alone => at = place.parent,
            Stmt::Block(_) if alone => return Err(state.error(ErrorKind::OnlyLeaf { block: name }, block)),
            Stmt::Loop(_) | Stmt::Block(_) => break,
            Stmt::If { .. } | Stmt::Let { .. } | Stmt::While { .. } | Stmt::Attr(_) => {
                return Err(state.error(ErrorKind::Conditional { block: name }, block));
            }
            Stmt::Store { .. }
            | Stmt::Evaluate(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => unreachable!("a store holds no block"),
        }
    }
    // The remaining ancestors must not be conditional either.
    for p in func.ancestors(at) {
        match func.get(p) {
            Stmt::Block(_) => break,
            Stmt::If { .. } | Stmt::Let { .. } | Stmt::While { .. } | Stmt::Attr(_) => {
                return Err(state.error(ErrorKind::Conditional { block: name }, block));
            }
            Stmt::Loop(_)
            | Stmt::Store { .. }
            | Stmt::Evaluate(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => {}
        }
    }
    Ok(at)
}

/// The regions that one instance of the block provides, and the regions that the others require under the loop.
fn regions(
    func: &mut Func,
    block: BlockId,
    target: LoopId,
    others: &[BlockId],
    direction: Direction,
) -> (Regions, Regions) {
    let node = func.block(block);
    let own = match direction {
        Direction::ToConsumers => node.writes.clone(),
        Direction::ToProducers => node.reads.clone(),
    };
    let mut provided: Regions = Vec::with_capacity(own.len());
    for region in &own {
        let set = region_set(func, region);
        match provided.iter_mut().find(|(b, _)| *b == region.buffer) {
            Some((_, sets)) => sets.push(set),
            None => provided.push((region.buffer, vec![set])),
        }
    }
    let mut required: Regions = provided.iter().map(|(b, _)| (*b, Vec::new())).collect();
    for &other in others {
        let node = func.block(other);
        let theirs = match direction {
            Direction::ToConsumers => node.reads.clone(),
            Direction::ToProducers => node.writes.clone(),
        };
        let mut bindings = Substitution::of_vars(node.iters.iter().map(|i| (i.var, i.value)));
        let low = tree::parent(func, other).expect("a block under a loop has a parent");
        for region in &theirs {
            let Some((_, sets)) = required.iter_mut().find(|(b, _)| *b == region.buffer) else { continue };
            let storage = (direction == Direction::ToConsumers).then(|| func.arena.buffer(region.buffer).scope);
            let loops = tree::loop_path(func, low, Some(target.stmt()), storage);
            let Func { arena, stmts, .. } = &mut *func;
            let domains: Vec<(VarId, IntSet)> = loops
                .iter()
                .map(|&l| {
                    let node = stmts.loop_(l);
                    (node.var, IntSet::from_range(arena, node.min, node.extent))
                })
                .collect();
            let region = bindings.apply_region(arena, region);
            let ranges: Vec<(ExprId, ExprId)> = region.ranges(arena).collect();
            sets.push(int_set::eval_region(arena, &ranges, &domains));
        }
    }
    (provided, required)
}

fn region_set(func: &mut Func, region: &BufferRegion) -> NdSet {
    let ranges: Vec<(ExprId, ExprId)> = region.ranges(&func.arena).collect();
    ranges.into_iter().map(|(min, extent)| IntSet::from_range(&mut func.arena, min, extent)).collect()
}

impl MovePlan {
    /// Loops over the domains, with the resulting bindings and predicate.
    fn make_loops(&mut self, func: &mut Func, domains: &[IterDomain], preserve_unit_loops: bool) {
        let iters = func.block(self.block).iters.clone();
        for (domain, iter) in domains.iter().zip(&iters) {
            let a = &mut func.arena;
            let (min, extent) = domain.dom.cover_range(a, (iter.min, iter.extent));
            let value = if preserve_unit_loops || !a.is_int(extent, 1) {
                let dtype = wider(a.dtype(min), a.dtype(extent));
                let (var, value) = a.new_var_expr(format!("ax{}", self.loops.len()).as_str(), dtype);
                let (min, extent) = (a.cast(dtype, min), a.cast(dtype, extent));
                let simple = self.analyzer.simplify(a, extent);
                self.loops.push((var, simple));
                let zero = a.int(0, dtype);
                self.analyzer.bind(a, var, zero, extent);
                a.add(min, value)
            } else {
                min
            };
            // The type of loops may differ from the type of the iterations that they drive.
            let value = func.arena.cast(func.arena.var(iter.var).dtype, value);
            self.values.push(value);
            if domain.bound.is_nothing() {
                continue;
            }
            if let Some(low) = domain.bound.lower() {
                self.guard(func, CmpOp::Ge, value, low);
            }
            if let Some(high) = domain.bound.upper() {
                let end = func.arena.add_const(high, 1);
                self.guard(func, CmpOp::Lt, value, end);
            }
        }
        self.predicate = self.analyzer.simplify(&mut func.arena, self.predicate);
    }

    fn guard(&mut self, func: &mut Func, op: CmpOp, value: ExprId, limit: ExprId) {
        let a = &mut func.arena;
        let dtype = wider(a.dtype(value), a.dtype(limit));
        let (value, limit) = (a.cast(dtype, value), a.cast(dtype, limit));
        let condition = a.compare(op, value, limit);
        if !self.analyzer.can_prove_with(a, condition, Strength::SymbolicBound) {
            self.predicate = a.and(self.predicate, condition);
        }
    }
}

fn wider(x: DType, y: DType) -> DType {
    if y.bits() > x.bits() { y } else { x }
}

fn apply(state: &mut State, plan: MovePlan) {
    let func = &mut state.func;
    let block = plan.block.stmt();
    func.cut(plan.old);
    if plan.old != block {
        func.cut(block);
    }
    let node = func.block_mut(plan.block);
    node.predicate = plan.predicate;
    for (iter, &value) in node.iters.iter_mut().zip(&plan.values) {
        iter.value = value;
    }
    let mut inside = block;
    for &(var, extent) in plan.loops.iter().rev() {
        inside = func.make_loop(var, extent, Body::from_slice(&[inside])).stmt();
    }
    func.insert(plan.target.stmt(), 0, plan.position, &[inside]);
    let loops = func.loops_above(block);
    let affine_binding = is_affine_binding(func, plan.block, &loops);
    state.update_info(plan.block, |info| info.affine_binding = affine_binding);
}

#[cfg(test)]
mod tests;
