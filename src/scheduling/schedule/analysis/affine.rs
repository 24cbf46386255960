//! Decides whether the bindings of a block are quasi-affine and independent, and finds their canonical form.
//!
//! Iterator maps ([`crate::arith`]) solve the general case. Nearly all bindings of schedules over constant extents are
//! mixed-radix sums such as `i_0 * 64 + i_1 * 8 + i_2`, each over its own loops; these are handled here at a fraction
//! of the cost. Both methods must agree.

use super::super::error::{ErrorKind, ScheduleError};
use super::super::state::State;
use super::linear::Linear;
use super::tree;
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map, iter_map_simplify};
use crate::ir::{Arena, BinOp, BlockId, Expr, ExprId, Func, LoopId, Stmt, StmtId, VarId};
use smallvec::SmallVec;

/// The range of a loop's variable.
pub(crate) fn domain(func: &Func, l: LoopId) -> VarRange {
    let node = func.loop_(l);
    VarRange { var: node.var, min: node.min, extent: node.extent }
}

/// Whether the bindings of a block, over these loops, are independent affine maps that reach every combination of their
/// values (TVM's `IsAffineBinding`).
pub(crate) fn is_affine_binding(func: &mut Func, b: BlockId, loops: &[LoopId]) -> bool {
    if loops.is_empty() {
        return true;
    }
    let domains: SmallVec<[VarRange; 12]> = loops.iter().map(|&l| domain(func, l)).collect();
    let block = func.block(b);
    let values: SmallVec<[ExprId; 8]> = block.iters.iter().map(|i| i.value).collect();
    let predicate = block.predicate;
    are_affine(&mut func.arena, &values, &domains, predicate)
}

/// Whether the values are independent affine maps of the loops that reach all their combinations where the predicate
/// holds.
pub(crate) fn are_affine(arena: &mut Arena, values: &[ExprId], domains: &[VarRange], predicate: ExprId) -> bool {
    if domains.is_empty() || mixed_radix(arena, values, domains, predicate, true).is_some() {
        return true;
    }
    let analyzer = &mut Analyzer::new();
    let level = IterMapLevel::Surjective;
    match detect_iter_map(arena, values, domains, predicate, level, analyzer, false) {
        Ok(map) => map.indices.iter().all(|sum| sum.args.first().is_none_or(|first| arena.is_int(first.scale, 1))),
        Err(_) => false,
    }
}

/// Whether several iterations of these loops give the same values; false if unknown.
pub(crate) fn repeat(arena: &mut Arena, values: &[ExprId], domains: &[VarRange], predicate: ExprId) -> bool {
    let is = |arena: &mut Arena, level: IterMapLevel| {
        detect_iter_map(arena, values, domains, predicate, level, &mut Analyzer::new(), false).is_ok()
    };
    is(arena, IterMapLevel::Surjective) && !is(arena, IterMapLevel::Bijective)
}

/// # Errors
///
/// If the bindings of a block are affine neither in all loops around it nor in the loops below `high`.
pub(crate) fn require_partial_affine_binding(
    state: &mut State,
    b: BlockId,
    high: Option<StmtId>,
) -> Result<(), ScheduleError> {
    if state.info(b).affine_binding {
        return Ok(());
    }
    if let (Some(high), Some(parent)) = (high, tree::parent(&state.func, b)) {
        let loops = tree::loop_path(&state.func, parent, Some(high), None);
        if is_affine_binding(&mut state.func, b, &loops) {
            return Ok(());
        }
    }
    Err(state.error(ErrorKind::NotAffineBinding, b))
}

/// Brings the bindings of the blocks in a subtree into the canonical form of iterator maps. Blocks inside a block are
/// visited only if that block has no bindings, since the loops are out of scope in the others.
pub(crate) fn simplify_bindings(func: &mut Func, s: StmtId, preserve_unit_iters: bool) {
    let mut domains: SmallVec<[VarRange; 12]> = func.loops_above(s).into_iter().map(|l| domain(func, l)).collect();
    simplify_below(func, s, &mut domains, preserve_unit_iters);
}

fn simplify_below(func: &mut Func, s: StmtId, domains: &mut SmallVec<[VarRange; 12]>, preserve_unit_iters: bool) {
    match func.get(s) {
        Stmt::Loop(_) => {
            domains.extend(func.as_loop(s).map(|l| domain(func, l)));
            for child in func.scheduled_children(s) {
                simplify_below(func, child, domains, preserve_unit_iters);
            }
            domains.pop();
        }
        Stmt::Block(block) if !block.iters.is_empty() => {
            let values: SmallVec<[ExprId; 8]> = block.iters.iter().map(|i| i.value).collect();
            let predicate = block.predicate;
            let simple = simplified(&mut func.arena, &values, domains, predicate, preserve_unit_iters);
            let b = func.as_block(s).expect("matched as a block");
            for (iter, value) in func.block_mut(b).iters.iter_mut().zip(simple) {
                iter.value = value;
            }
        }
        Stmt::Block(_) | Stmt::If { .. } | Stmt::Let { .. } | Stmt::While { .. } | Stmt::Attr(_) => {
            for child in func.scheduled_children(s) {
                simplify_below(func, child, domains, preserve_unit_iters);
            }
        }
        Stmt::Store { .. }
        | Stmt::Evaluate(_)
        | Stmt::Alloc { .. }
        | Stmt::Declare { .. }
        | Stmt::Break
        | Stmt::Continue
        | Stmt::Return(_)
        | Stmt::Assert(_) => {}
    }
}

fn simplified(
    arena: &mut Arena,
    values: &[ExprId],
    domains: &[VarRange],
    predicate: ExprId,
    preserve_unit_iters: bool,
) -> SmallVec<[ExprId; 8]> {
    match mixed_radix(arena, values, domains, predicate, preserve_unit_iters) {
        Some(sums) => values.iter().zip(sums).map(|(&value, sum)| sum_expr(arena, value, &sum)).collect(),
        None => {
            let level = IterMapLevel::Surjective;
            let analyzer = &mut Analyzer::new();
            let simple = iter_map_simplify(arena, values, domains, predicate, level, analyzer, !preserve_unit_iters);
            simple.into_iter().collect()
        }
    }
}

/// The values as mixed-radix sums: each is a constant, or a sum of loop variables in which the factor of a variable is
/// the product of the extents of the following ones. The loops start at 0 and have constant extents, each occurs once
/// in all the values, and there is no predicate. `None` in other cases.
fn mixed_radix(
    arena: &Arena,
    values: &[ExprId],
    domains: &[VarRange],
    predicate: ExprId,
    preserve_unit_iters: bool,
) -> Option<SmallVec<[Linear; 8]>> {
    if !arena.is_int(predicate, 1) {
        return None;
    }
    let mut used: SmallVec<[VarId; 12]> = SmallVec::new();
    let mut sums = SmallVec::new();
    for &value in values {
        let mut sum = Linear::of(arena, value)?;
        if sum.terms.is_empty() {
            sums.push(sum);
            continue;
        }
        let mut expected = 1;
        for &(var, coeff) in sum.terms.iter().rev() {
            let &VarRange { min, extent, .. } = domains.iter().find(|d| d.var == var)?;
            if !arena.is_int(min, 0) || coeff != expected || used.contains(&var) {
                return None;
            }
            let extent = arena.as_int(extent).filter(|&e| e > 0)?;
            expected = expected.checked_mul(extent)?;
            used.push(var);
        }
        if sum.constant != 0 {
            return None;
        }
        if !preserve_unit_iters {
            sum.terms.retain(|(var, _)| domains.iter().any(|d| d.var == *var && !arena.is_int(d.extent, 1)));
        }
        sums.push(sum);
    }
    Some(sums)
}

/// A mixed-radix sum as an expression of `value`'s type; `value` itself if it has that form already.
fn sum_expr(arena: &mut Arena, value: ExprId, sum: &Linear) -> ExprId {
    if is_written_so(arena, value, sum) {
        return value;
    }
    let dtype = arena.dtype(value);
    let mut result = arena.int(sum.constant, dtype);
    for &(var, coeff) in &sum.terms {
        let var = arena.var_expr(var);
        let var = arena.cast(dtype, var);
        let term = arena.mul_const(var, coeff);
        result = arena.add(result, term);
    }
    result
}

/// Whether the value is written exactly as [`sum_expr`] writes the sum.
fn is_written_so(arena: &Arena, value: ExprId, sum: &Linear) -> bool {
    let Some((&first, others)) = sum.terms.split_first() else { return arena.is_int(value, sum.constant) };
    let is_term = |e: ExprId, (var, coeff): (VarId, i64)| match arena.expr(e) {
        Expr::Binary(BinOp::Mul, x, y) => coeff != 1 && arena.as_var(x) == Some(var) && arena.is_int(y, coeff),
        other => coeff == 1 && other == Expr::Var(var),
    };
    let mut rest = value;
    for &term in others.iter().rev() {
        match arena.expr(rest) {
            Expr::Binary(BinOp::Add, x, y) if is_term(y, term) => rest = x,
            _ => return false,
        }
    }
    sum.constant == 0 && is_term(rest, first)
}
