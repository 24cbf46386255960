//! # `loop_partition`
//!
//! Splits the iterations of a loop into consecutive ranges, each with a copy of the body (index-set splitting).
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
//!     (i,) = sch.get_loops("B")
//!     sch.loop_partition(i, [8, None])
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
//!     with T.sblock("root"):
//!         T.reads()
//!         T.writes()
//!         with T.sblock("B_i_common"):
//!             T.reads()
//!             T.writes()
//!             with T.sblock("B_i0_partition"):
//!                 T.reads()
//!                 T.writes()
//!                 for i0 in range(8):
//!                     with T.sblock("B_i0"):
//!                         vi = T.axis.spatial(8, i0)
//!                         T.reads(A[0:8])
//!                         T.writes(B[0:8])
//!                         B[vi] = A[vi] * T.float32(2.0)
//!             with T.sblock("B_i1_partition"):
//!                 T.reads()
//!                 T.writes()
//!                 for i1 in range(8, 30):
//!                     with T.sblock("B_i1"):
//!                         vi = T.axis.spatial((8, 30), i1)
//!                         T.reads(A[8:30])
//!                         T.writes(B[8:30])
//!                         B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: constant bounds from 0; lengths whose sum is less than the extent; one block below.
//! * Errors: `SymbolicShapeError`, `NotSingleInferFactorError`, `NonPositiveFactorError`, `WrongFactorError`,
//!   `HasAnnotationOrThreadBindingError`, `LoopNotStartWithZeroError`, `NonSingleChildBlockError`,
//!   `PartitionedReductionError`.
//! * Handles: dies: the loop, all loops and blocks inside; persists: what is outside; created: the loops and blocks of
//!   the parts.
//! * Refused, though TVM accepts it: parts of a reduction with its init, each of which would discard the sum of the
//!   others. As in TVM, the blocks around the parts do not declare their accesses: later primitives do not see these
//!   dependences.
//!
//! # Implementation
//!
//! `loop_partition`: partitions the iterations of a loop into consecutive ranges, each with a copy of the body.
//!
//! ```text
//! for i in range(27):
//!     with T.sblock("C"): S(i)
//! // becomes, with factors=[8, None]
//! with T.sblock("C_i_common"):
//!     with T.sblock("C_i0_partition"):
//!         for i0 in range(8):
//!             with T.sblock("C_i0"): S(i0)
//!     with T.sblock("C_i1_partition"):
//!         for i1 in range(8, 27):
//!             with T.sblock("C_i1"): S(i1)
//! ```
//!
//! The factors are lengths; the rest of the loop is a last part, unless one factor is `None` and takes it. As in TVM,
//! the outer blocks declare no accesses, which hides dependences from later primitives. An iteration variable bound to
//! the bare loop variable gets the part as its domain, and regions are extended to the accesses over the whole domain.
//!
//! Requires: constant bounds, first value 0 (TVM partitions other loops at wrong places); lengths whose sum is less
//! than the extent; no annotations, no thread binding; one block below, and no init that would run once per part (in
//! TVM each part of a reduction discards the sum of the others). Preserves: instances and their order. Returns: the
//! loops of the parts. Handles: the loop dies with all loops and blocks inside.

use super::super::analysis::update_scope_info;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::split::check_loop;
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{
    Block, BlockId, Body, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, IterKind, LoopId, Stmt, StmtId,
    Substitution, Symbol, VarId,
};

/// `loop_partition(loop, factors, preserve_unit_iters=True)`. The last argument has no effect, as in TVM.
pub(crate) static LOOP_PARTITION: Kind = Kind {
    name: "LoopPartition",
    method: "loop_partition",
    classic: None,
    positional: false,
    params: &[
        Param::input("loop", Ty::Loop),
        Param::input("factors", Ty::Factors),
        Param::attr("preserve_unit_iters", Ty::Bool).or(Default::Bool(true)).as_int(),
    ],
    outputs: Outputs::Loops,
    samples: false,
    run: loop_partition,
};

fn loop_partition(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.loop_(0)?;
    let factors = call.factors(1)?;
    let state = call.state(func);
    let plan = check(state, target, &factors)?;
    let loops = apply(state, target, &plan);
    Ok(Outcome { outputs: loops.into_iter().map(|l| RvValue::Loop(func, l)).collect(), decision: None })
}

struct PartitionPlan {
    /// End of each part.
    ends: Vec<i64>,
    /// Name of the first block below.
    block: Symbol,
}

fn check(state: &mut State, target: LoopId, factors: &[Option<i64>]) -> Result<PartitionPlan, ScheduleError> {
    let func = &state.func;
    let node = func.loop_(target);
    let (Some(_), Some(extent)) = (func.arena.as_int(node.min), func.arena.as_int(node.extent)) else {
        return Err(state.error(ErrorKind::SymbolicShape, target));
    };
    let mut missing = false;
    let mut sum: i64 = 0;
    for (position, factor) in factors.iter().enumerate() {
        match *factor {
            None if missing => return Err(state.error(ErrorKind::NotSingleInferFactor, target)),
            None => missing = true,
            Some(factor) if factor <= 0 => {
                return Err(state.error(ErrorKind::NonPositiveFactor { factor, position }, target));
            }
            Some(factor) => sum = sum.saturating_add(factor),
        }
    }
    if sum >= extent {
        return Err(state.error(ErrorKind::WrongFactorSum { sum, extent }, target));
    }
    check_loop(state, target)?;
    let func = &state.func;
    let mut ends: Vec<i64> = Vec::with_capacity(factors.len() + 1);
    for factor in factors {
        ends.push(ends.last().unwrap_or(&0) + factor.unwrap_or(extent - sum));
    }
    if !missing {
        ends.push(extent);
    }
    let block = single_block(func, target.stmt()).ok_or_else(|| {
        let count = func.child_blocks(target.stmt()).len();
        state.error(ErrorKind::NonSingleChildBlock { what: "loop", count }, target)
    })?;
    if ends.len() > 1
        && let Some(b) = block_reset_by_parts(func, target)
    {
        return Err(state.error(ErrorKind::PartitionedReduction { block: func.block(b).name }, b));
    }
    Ok(PartitionPlan { ends, block: func.block(block).name })
}

/// The block at the end of a chain of loops.
fn single_block(func: &Func, s: StmtId) -> Option<BlockId> {
    let Some(l) = func.as_loop(s) else { return func.as_block(s) };
    match func.loop_(l).body[..] {
        [one] => single_block(func, one),
        _ => None,
    }
}

/// A block with an init and a reduction variable that is bound to the loop: the init runs at the variable's first
/// value, and each part has its own first value.
fn block_reset_by_parts(func: &Func, target: LoopId) -> Option<BlockId> {
    let var = func.loop_(target).var;
    func.child_blocks(target.stmt()).into_iter().find(|&b| {
        let block = func.block(b);
        block.init.is_some()
            && block.iters.iter().any(|i| i.kind != IterKind::Spatial && func.arena.as_var(i.value) == Some(var))
    })
}

fn apply(state: &mut State, target: LoopId, plan: &PartitionPlan) -> Vec<LoopId> {
    let func = &mut state.func;
    let node = func.loop_(target);
    let (old, body) = (node.var, node.body.clone());
    let v = func.arena.var(old);
    let (name, dtype) = (v.name, v.dtype);
    let common = format!("{}_{name}", plan.block);
    let mut start = 0;
    let mut loops = Vec::with_capacity(plan.ends.len());
    let mut parts = Body::new();
    for (i, &end) in plan.ends.iter().enumerate() {
        let (var, value) = func.arena.new_var_expr(name.with_suffix(&i.to_string()), dtype);
        let (min, extent) = (func.arena.int(start, dtype), func.arena.int(end - start, dtype));
        let copies: Body =
            body.iter().map(|&s| func.copy_subtree(s, &mut Substitution::of_vars([(old, value)]))).collect();
        for &s in &copies {
            restrict_blocks(func, s, var, min, extent);
        }
        let part = func.make_loop(var, extent, copies);
        func.loop_mut(part).min = min;
        loops.push(part);
        parts.push(opaque_block(func, &format!("{common}{i}_partition"), Body::from_slice(&[part.stmt()])));
        start = end;
    }
    let common = opaque_block(func, &format!("{common}_common"), parts);
    func.replace(target.stmt(), &[common]);
    let scope = func.block_above(common).expect("a new block stands in the scope of the loop it replaces");
    let affine_binding = state.info(scope).affine_binding;
    update_scope_info(state, scope);
    state.update_info(scope, |info| info.affine_binding = affine_binding);
    loops
}

fn opaque_block(func: &mut Func, name: &str, body: Body) -> StmtId {
    let predicate = func.arena.bool(true);
    func.add_block(Block { body, ..Block::new(name, predicate) }).stmt()
}

/// Renames the blocks below and narrows the domain of the iteration variable that is bound to `var`.
fn restrict_blocks(func: &mut Func, s: StmtId, var: VarId, min: ExprId, extent: ExprId) {
    if let Some(b) = func.as_block(s) {
        let block = func.block(b);
        let suffix = format!("_{}", func.arena.var(var).name);
        let name = block.name.with_suffix(&suffix);
        let bound = block.iters.iter().position(|i| func.arena.as_var(i.value) == Some(var));
        func.block_mut(b).name = name;
        if let Some(i) = bound {
            let dtype = func.arena.var(func.block(b).iters[i].var).dtype;
            let (min, extent) = (func.arena.cast(dtype, min), func.arena.cast(dtype, extent));
            let iter = &mut func.block_mut(b).iters[i];
            (iter.min, iter.extent) = (min, extent);
            widen_regions(func, b);
        }
    }
    for child in func.get(s).children() {
        restrict_blocks(func, child, var, min, extent);
    }
}

/// Extends the regions of buffers that are indexed by bare iteration variables to the accesses over the whole domains.
fn widen_regions(func: &mut Func, b: BlockId) {
    let accesses = first_plain_accesses(func, b);
    let widen = |func: &mut Func, region: &BufferRegion| -> BufferRegion {
        let Some(&(_, indices)) = accesses.iter().find(|(buffer, _)| *buffer == region.buffer) else { return *region };
        let ranges: Option<Vec<(ExprId, ExprId)>> = func
            .arena
            .list(indices)
            .iter()
            .map(|&i| func.block(b).iters.iter().find(|iter| func.arena.as_var(i) == Some(iter.var)))
            .map(|iter| iter.map(|iter| (iter.min, iter.extent)))
            .collect();
        match ranges {
            Some(ranges) => BufferRegion::new(&mut func.arena, region.buffer, &ranges),
            None => *region,
        }
    };
    let block = func.block(b);
    let (reads, writes) = (block.reads.clone(), block.writes.clone());
    let reads = reads.iter().map(|r| widen(func, r)).collect();
    let writes = writes.iter().map(|r| widen(func, r)).collect();
    let block = func.block_mut(b);
    (block.reads, block.writes) = (reads, writes);
}

/// For each buffer, the indices of its first access in the block whose indices are all variables; stores come before
/// the loads of their values.
fn first_plain_accesses(func: &Func, b: BlockId) -> Vec<(BufferId, ExprList)> {
    let mut found: Vec<(BufferId, ExprList)> = Vec::new();
    let mut note = |buffer: BufferId, indices: ExprList| {
        let plain = func.arena.list(indices).iter().all(|&i| func.arena.as_var(i).is_some());
        if plain && found.iter().all(|(known, _)| *known != buffer) {
            found.push((buffer, indices));
        }
    };
    let visit_expr = |e: ExprId, note: &mut dyn FnMut(BufferId, ExprList)| {
        for_each_subexpr(&func.arena, e, &mut |e| {
            if let Expr::Load(buffer, indices) = func.arena.expr(e) {
                note(buffer, indices);
            }
        });
    };
    for &s in &func.block(b).body {
        for s in func.subtree(s) {
            match func.get(s) {
                Stmt::Store { buffer, indices, value } => {
                    note(*buffer, *indices);
                    for &i in func.arena.list(*indices) {
                        visit_expr(i, &mut note);
                    }
                    visit_expr(*value, &mut note);
                }
                Stmt::If { condition: e, .. } | Stmt::Let { value: e, .. } | Stmt::Evaluate(e) => {
                    visit_expr(*e, &mut note)
                }
                Stmt::Loop(_) | Stmt::Block(_) => {}
                Stmt::While { .. }
                | Stmt::Attr(_)
                | Stmt::Alloc { .. }
                | Stmt::Declare { .. }
                | Stmt::Break
                | Stmt::Continue
                | Stmt::Return(_)
                | Stmt::Assert(_) => {
                    for_each_own_expr(func, s, &mut |e| visit_expr(e, &mut note));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
