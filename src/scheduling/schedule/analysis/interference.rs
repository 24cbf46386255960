//! Decides whether two nests may run interleaved: dependences between iterations, by intervals of linear indices.
//!
//! An [`Access`] is a block's access to a buffer, over the loops around it. Two accesses interfere if they may access
//! the same element and one of them writes. The analysis is conservative: a nonlinear index may have any value.

use super::affine::domain;
use super::linear::Linear;
use crate::arith::int_set::{self, IntSet};
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map};
use crate::ir::{BinOp, BlockId, BufferId, CmpOp, ExprId, Func, Loop, LoopId, Stmt, StmtId, Substitution, VarId};
use smallvec::SmallVec;

/// A block's access to a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// Whether the access is a write.
    pub write: bool,
    /// First element and number of elements in each dimension, over the enclosing loops.
    ranges: SmallVec<[(ExprId, ExprId); 4]>,
    /// The loops between the common loops and the block, which take all their values.
    inner: SmallVec<[LoopId; 8]>,
}

/// All accesses of a statement; `None` if it may have accesses that no block declares.
pub(crate) fn accesses(func: &mut Func, s: StmtId) -> Option<Vec<Access>> {
    let mut found = Vec::new();
    collect(func, s, &mut SmallVec::new(), &mut found).then_some(found)
}

fn collect(func: &mut Func, s: StmtId, inner: &mut SmallVec<[LoopId; 8]>, found: &mut Vec<Access>) -> bool {
    match func.get(s) {
        Stmt::Loop(_) => {
            inner.extend(func.as_loop(s));
            let body = func.scheduled_children(s);
            let known = body.into_iter().all(|c| collect(func, c, inner, found));
            inner.pop();
            known
        }
        Stmt::Block(b) if b.iters.is_empty() && b.reads.is_empty() && b.writes.is_empty() && b.init.is_none() => {
            // A block without a signature, as `loop_partition` makes it: its contents count.
            func.scheduled_children(s).into_iter().all(|c| collect(func, c, inner, found))
        }
        Stmt::Block(_) => {
            collect_block(func, func.as_block(s).expect("matched as a block"), inner, found);
            true
        }
        Stmt::If { .. } | Stmt::Attr(_) => {
            func.scheduled_children(s).into_iter().all(|c| collect(func, c, inner, found))
        }
        Stmt::Let { .. }
        | Stmt::Store { .. }
        | Stmt::Evaluate(_)
        | Stmt::While { .. }
        | Stmt::Alloc { .. }
        | Stmt::Declare { .. }
        | Stmt::Break
        | Stmt::Continue
        | Stmt::Return(_)
        | Stmt::Assert(_) => false,
    }
}

fn collect_block(func: &mut Func, b: BlockId, inner: &[LoopId], found: &mut Vec<Access>) {
    let block = func.block(b).clone();
    let mut bindings = Substitution::of_vars(block.iters.iter().map(|i| (i.var, i.value)));
    for (region, write) in block.reads.iter().map(|r| (r, false)).chain(block.writes.iter().map(|r| (r, true))) {
        let region = bindings.apply_region(&mut func.arena, region);
        let ranges = region.ranges(&func.arena).collect();
        found.push(Access { buffer: region.buffer, write, ranges, inner: inner.into() });
    }
}

/// Whether two accesses are to the same buffer, and one of them writes.
fn may_interfere(x: &Access, y: &Access) -> bool {
    x.buffer == y.buffer && (x.write || y.write)
}

/// Whether an order between statements with these accesses must be preserved.
pub(crate) fn conflict_across(x: &[Access], y: &[Access]) -> bool {
    x.iter().any(|a| y.iter().any(|b| may_interfere(a, b)))
}

/// For two nests over the same `extents`, one after the other: whether the first in a later iteration (by its
/// variables, outermost first) interferes with the second in an earlier one. Then they cannot become one nest.
pub(crate) fn conflict_between(
    func: &mut Func,
    extents: &[ExprId],
    first: (&[Access], &[VarId]),
    second: (&[Access], &[VarId]),
) -> bool {
    let ((first, first_vars), (second, second_vars)) = (first, second);
    first.iter().any(|x| {
        second.iter().any(|y| {
            may_interfere(x, y)
                && !(0..extents.len()).all(|level| disjoint(func, extents, level, (x, first_vars), (y, second_vars)))
                && !same_element_only_in_same_iteration(func, extents, (x, first_vars), (y, second_vars))
        })
    })
}

/// A buffer for which a block under the loop may read elements that another block writes in another iteration.
pub(crate) fn carried_buffer(func: &mut Func, l: LoopId) -> Option<BufferId> {
    let Loop { var, extent, ref body, .. } = *func.loop_(l);
    let mut all: Vec<Access> = Vec::new();
    for s in body.clone() {
        all.extend(accesses(func, s)?);
    }
    let around: SmallVec<[VarRange; 8]> =
        func.loops_above(l.stmt()).into_iter().chain([l]).map(|l| domain(func, l)).collect();
    let reads: Vec<&Access> = all.iter().filter(|x| !x.write).collect();
    reads.into_iter().find_map(|r| {
        let writes: Vec<&Access> = all.iter().filter(|w| w.write && w.buffer == r.buffer).collect();
        let apart = |func: &Func, w: &Access| {
            let (r, w) = ((r, &[var][..]), (w, &[var][..]));
            disjoint(func, &[extent], 0, r, w) && disjoint(func, &[extent], 0, w, r)
        };
        let carried = writes.iter().any(|w| !apart(func, w)) && !writes.iter().any(|w| covers(func, w, r, &around));
        carried.then_some(r.buffer)
    })
}

/// Whether the elements that `w` accesses in an iteration of the common loops include those that `r` accesses.
fn covers(func: &mut Func, w: &Access, r: &Access, around: &[VarRange]) -> bool {
    let mut relaxed = |x: &Access| {
        let Func { arena, stmts, .. } = &mut *func;
        let inner: Vec<(VarId, IntSet)> = (x.inner.iter().map(|&l| stmts.loop_(l)))
            .map(|l| (l.var, IntSet::from_range(arena, l.min, l.extent)))
            .collect();
        int_set::eval_region(arena, &x.ranges, &inner)
    };
    let (written, read) = (relaxed(w), relaxed(r));
    let shape = func.arena.list(func.arena.buffer(r.buffer).shape).to_vec();
    let a = &mut func.arena;
    let mut analyzer = Analyzer::new();
    for around in around {
        analyzer.bind(a, around.var, around.min, around.extent);
    }
    written.iter().zip(&read).zip(shape).all(|((w, r), extent)| {
        // No element beyond the buffer is read.
        let last = a.add_const(extent, -1);
        let zero = a.int(0, a.dtype(extent));
        let (Some(low), Some(high)) = (w.lower(), w.upper()) else { return false };
        let (from, to) = (r.lower().unwrap_or(zero), r.upper().unwrap_or(last));
        if [low, high, from, to].iter().any(|&e| a.dtype(e) != a.dtype(extent)) {
            return false;
        }
        if a.is_int(low, 0) && analyzer.can_prove_equal(a, high, last) {
            return true;
        }
        let (from, to) = (a.binary(BinOp::Max, from, zero), a.binary(BinOp::Min, to, last));
        let (starts, ends) = (a.compare(CmpOp::Ge, from, low), a.compare(CmpOp::Le, to, high));
        analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
    })
}

/// Whether the elements of `x` and of `y` are disjoint whenever the iterations agree in the variables before `level`,
/// and `x` has a later iteration at `level`.
fn disjoint(func: &Func, extents: &[ExprId], level: usize, x: (&Access, &[VarId]), y: (&Access, &[VarId])) -> bool {
    let ((x, x_vars), (y, y_vars)) = (x, y);
    let Some(extents) = extents.iter().map(|&e| func.arena.as_int(e)).collect::<Option<SmallVec<[i64; 8]>>>() else {
        return false;
    };
    if extents[level] <= 1 {
        return true;
    }
    x.ranges.iter().zip(&y.ranges).any(|(&(x_min, x_extent), &(y_min, y_extent))| {
        let (Some(x_lin), Some(y_lin)) = (Linear::of(&func.arena, x_min), Linear::of(&func.arena, y_min)) else {
            return false;
        };
        let (Some(x_extent), Some(y_extent)) = (func.arena.as_int(x_extent), func.arena.as_int(y_extent)) else {
            return false;
        };
        // The least and the greatest difference of the first elements of x and y.
        let mut low = x_lin.constant as i128 - y_lin.constant as i128;
        let mut high = low;
        let mut add = |coeff: i64, (min, max): (i64, i64)| {
            let (p, q) = (coeff as i128 * min as i128, coeff as i128 * max as i128);
            low += p.min(q);
            high += p.max(q);
        };
        for (k, &extent) in extents.iter().enumerate() {
            let (c, d) = (x_lin.coeff(x_vars[k]), y_lin.coeff(y_vars[k]));
            let last = extent - 1;
            if k < level {
                add(c - d, (0, last));
            } else if k == level {
                add(c, (1, last));
                add(c - d, (0, last - 1));
            } else {
                add(c, (0, last));
                add(-d, (0, last));
            }
        }
        let mut bounded = true;
        for (linear, vars, access, sign) in [(&x_lin, x_vars, x, 1), (&y_lin, y_vars, y, -1)] {
            for &(var, coeff) in linear.terms.iter().filter(|(v, _)| !vars.contains(v)) {
                match inner_range(func, &access.inner, var) {
                    Some(range) => add(sign * coeff, range),
                    // An outer loop has one value for both.
                    None if x_lin.coeff(var) == y_lin.coeff(var) => {}
                    None => bounded = false,
                }
            }
        }
        bounded && (low >= y_extent as i128 || -high >= x_extent as i128)
    })
}

fn inner_range(func: &Func, inner: &[LoopId], var: VarId) -> Option<(i64, i64)> {
    let node = inner.iter().map(|&l| func.loop_(l)).find(|n| n.var == var)?;
    let (min, extent) = (func.arena.as_int(node.min)?, func.arena.as_int(node.extent)?);
    Some((min, min + extent.max(1) - 1))
}

/// Whether both access single elements, at equal indices that distinguish all iterations.
fn same_element_only_in_same_iteration(
    func: &mut Func,
    extents: &[ExprId],
    x: (&Access, &[VarId]),
    y: (&Access, &[VarId]),
) -> bool {
    let ((x, x_vars), (y, y_vars)) = (x, y);
    let arena = &mut func.arena;
    let renaming: Vec<(VarId, ExprId)> = y_vars.iter().zip(x_vars).map(|(&y, &x)| (y, arena.var_expr(x))).collect();
    let mut renaming = Substitution::of_vars(renaming);
    let mut equal: Vec<ExprId> = Vec::new();
    for (&(x_min, x_extent), &(y_min, y_extent)) in x.ranges.iter().zip(&y.ranges) {
        let point = arena.is_int(x_extent, 1) && arena.is_int(y_extent, 1);
        if point && x_min == renaming.apply(arena, y_min) {
            equal.push(x_min);
        }
    }
    let iters: Vec<VarRange> = x_vars
        .iter()
        .zip(extents)
        .map(|(&v, &extent)| {
            let zero = arena.int(0, arena.var(v).dtype);
            VarRange { var: v, min: zero, extent }
        })
        .collect();
    let always = arena.bool(true);
    detect_iter_map(arena, &equal, &iters, always, IterMapLevel::Bijective, &mut Analyzer::new(), false).is_ok()
}
