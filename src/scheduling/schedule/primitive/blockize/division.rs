//! Divides the bindings and the predicate of a block between outer and inner loops.

use super::super::super::error::{ErrorKind, ScheduleError};
use super::super::super::state::State;
use crate::arith::Analyzer;
use crate::arith::implication::implies;
use crate::arith::iter_map::{IterMapLevel, Part, VarRange, subspace_divide};
use crate::ir::visit::uses_var;
use crate::ir::{Arena, Block, BlockId, CmpOp, ExprId, Func, IterKind, LoopId, VarId};
use smallvec::SmallVec;

/// A binding divided into an outer and an inner part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    pub outer: ExprId,
    pub outer_first: i64,
    pub outer_extent: ExprId,
    pub inner: ExprId,
    pub inner_extent: ExprId,
    /// The least value of the inner part, which includes the binding's offset.
    pub first: i64,
    /// The end of the domain, if the parts together exceed it.
    pub end: Option<ExprId>,
}

/// The result of the checks for one block.
pub(super) struct BlockizePlan {
    pub block: BlockId,
    /// The loops that become inner, outermost first.
    pub inner_loops: Vec<LoopId>,
    pub divisions: Vec<Division>,
    pub outer_predicate: ExprId,
    pub inner_predicate: ExprId,
    pub preserve_unit_iters: bool,
}

/// Divides the bindings of a block between the loops before and from position `first` on.
pub(super) fn divide(
    state: &mut State,
    block: BlockId,
    loops: &[LoopId],
    first: usize,
    preserve_unit_iters: bool,
) -> Result<BlockizePlan, ScheduleError> {
    let Func { arena, stmts, .. } = &mut state.func;
    let node = stmts.block(block);
    let domain: SmallVec<[VarRange; 8]> = loops
        .iter()
        .map(|&l| {
            let node = stmts.loop_(l);
            VarRange { var: node.var, min: node.min, extent: node.extent }
        })
        .collect();
    let inner_vars: SmallVec<[VarId; 8]> = domain[first..].iter().map(|r| r.var).collect();
    let values: SmallVec<[ExprId; 8]> = node.iters.iter().map(|i| i.value).collect();
    let level = IterMapLevel::Surjective;
    let mut analyzer = Analyzer::new();
    let divided = subspace_divide(
        arena,
        &values,
        &domain,
        &inner_vars,
        node.predicate,
        level,
        &mut analyzer,
        !preserve_unit_iters,
    );
    let always = arena.bool(true);
    let (divisions, outer_predicate, inner_predicate) = match divided {
        Some(d) => {
            let divisions = d
                .divisions
                .iter()
                .map(|part| {
                    let first = match &part.inner {
                        Part::Split(_) => 0,
                        Part::Sum(sum) => arena.as_int(sum.base)?,
                    };
                    Some(Division {
                        outer: d.to_expr(arena, &mut analyzer, &part.outer),
                        outer_first: 0,
                        outer_extent: part.outer_extent,
                        inner: d.to_expr(arena, &mut analyzer, &part.inner),
                        inner_extent: part.inner_extent,
                        first,
                        end: None,
                    })
                })
                .collect();
            (divisions, d.outer_predicate, d.inner_predicate)
        }
        None => {
            let outer_vars: SmallVec<[VarId; 8]> = domain[..first].iter().map(|r| r.var).collect();
            (divide_trivially(arena, node, &outer_vars, &inner_vars), always, always)
        }
    };
    let Some(mut divisions) = divisions else {
        let kind = ErrorKind::SubspaceNotDivisible { block: node.name };
        return Err(state.error(kind, block));
    };
    // The outer block must not mention loops inside it.
    let mentions = |e: ExprId| uses_var(arena, e, &mut |v| inner_vars.contains(&v));
    if divisions.iter().any(|d| mentions(d.outer_extent) || mentions(d.inner_extent)) {
        let kind = ErrorKind::SubspaceNotDivisible { block: node.name };
        return Err(state.error(kind, block));
    }
    // The init moves out of the inner loops; a loop that drives nothing would then repeat only the updates.
    if node.init.is_some() && node.iters.iter().any(|i| i.kind == IterKind::Reduce) {
        let drives = |v: VarId| node.iters.iter().any(|i| uses_var(arena, i.value, &mut |u| u == v));
        let idle = domain[first..].iter().any(|r| !arena.is_int(r.extent, 1) && !drives(r.var));
        if idle {
            let kind = ErrorKind::RepeatedReduction { block: node.name };
            return Err(state.error(kind, block));
        }
    }
    // The parts must contain all conditions of the bindings and the predicate. TVM loses a bound on a single loop, and
    // does not consider loops around a block without iteration variables.
    let known = |v: VarId| domain.iter().any(|r| r.var == v);
    let all_known = values.iter().chain([&node.predicate]).all(|&e| !uses_var(arena, e, &mut |v| !known(v)));
    let kept = arena.and(outer_predicate, inner_predicate);
    let predicate = node.predicate;
    let mut analyzer = Analyzer::new();
    for r in &domain {
        analyzer.bind(arena, r.var, r.min, r.extent);
    }
    let mut inside = kept;
    for (iter, d) in node.iters.iter().zip(&mut divisions) {
        let dtype = arena.dtype(iter.value);
        let end = arena.add(iter.min, iter.extent);
        let below = arena.lt(iter.value, end);
        let (outer, inner) = (arena.cast(dtype, d.outer_extent), arena.cast(dtype, d.inner_extent));
        let reached = arena.mul(outer, inner);
        let reached = arena.add_const(reached, d.first + d.outer_first);
        let fits = arena.compare(CmpOp::Le, reached, end);
        if !analyzer.can_prove(arena, fits) && !implies(arena, &mut analyzer, kept, below) {
            d.end = Some(end);
        }
        inside = arena.and(inside, below);
        // The domains of the new variables.
        let outer_end = arena.add_const(d.outer_extent, d.outer_first);
        let inner_end = arena.add_const(d.inner_extent, d.first);
        for (part, extent) in [(d.outer, outer_end), (d.inner, inner_end)] {
            if arena.dtype(part) == arena.dtype(extent) {
                let below = arena.lt(part, extent);
                inside = arena.and(inside, below);
            }
        }
    }
    if !all_known || !implies(arena, &mut analyzer, inside, predicate) {
        let kind = ErrorKind::SubspaceNotDivisible { block: state.func.block(block).name };
        return Err(state.error(kind, block));
    }
    let (mut outer_predicate, mut inner_predicate) = (outer_predicate, inner_predicate);
    // A bound on one side belongs to that side; others are stated when the outer variables exist.
    for d in &mut divisions {
        let arena = &mut state.func.arena;
        let Some(end) = d.end else { continue };
        let is_unit = |e: ExprId| arena.is_int(e, 1);
        let (one_sided, (value, predicate)) = match (is_unit(d.outer_extent), is_unit(d.inner_extent)) {
            (_, true) => (true, (arena.add_const(d.outer, d.first), &mut outer_predicate)),
            (true, false) => (true, (d.inner, &mut inner_predicate)),
            // A tile must begin inside the domain; otherwise its allocations have no elements.
            (false, false) => {
                let extent = arena.cast(arena.dtype(d.outer), d.inner_extent);
                let begin = arena.mul(d.outer, extent);
                (false, (arena.add_const(begin, d.first), &mut outer_predicate))
            }
        };
        let below = arena.lt(value, end);
        *predicate = arena.and(*predicate, below);
        if one_sided {
            d.end = None;
        }
    }
    let inner_loops = loops[first..].to_vec();
    Ok(BlockizePlan { block, inner_loops, divisions, outer_predicate, inner_predicate, preserve_unit_iters })
}

/// The division of bindings that each use only outer or only inner loops, in any form.
fn divide_trivially(arena: &mut Arena, node: &Block, outer: &[VarId], inner: &[VarId]) -> Option<Vec<Division>> {
    if !arena.is_int(node.predicate, 1) {
        return None;
    }
    node.iters
        .iter()
        .map(|iter| {
            let (zero, one) = (arena.int32(0), arena.int32(1));
            let in_outer = uses_var(arena, iter.value, &mut |v| outer.contains(&v));
            let in_inner = uses_var(arena, iter.value, &mut |v| inner.contains(&v));
            let whole = (iter.value, iter.extent);
            let ((outer, outer_extent), (inner, inner_extent)) = match (in_outer, in_inner) {
                (true, true) => return None,
                (true, false) => (whole, (zero, one)),
                (false, true) => ((zero, one), whole),
                (false, false) => ((zero, one), (zero, one)),
            };
            let min = arena.as_int(iter.min)?;
            let (outer_first, first) = match (in_outer, in_inner) {
                (true, _) => (min, 0),
                (_, true) => (0, min),
                _ => (0, 0),
            };
            Some(Division { outer, outer_first, outer_extent, inner, inner_extent, first, end: None })
        })
        .collect()
}
