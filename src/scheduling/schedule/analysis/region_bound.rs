//! Bounds the union of a block's accesses: regions relaxed over loops.
//!
//! If the bounds of a region are independent affine maps of the loops, the union of the iterations' boxes is exactly
//! one box, and a predicate is considered; otherwise the box is an upper bound (TVM's `EstimateRegionStrictBound` and
//! `EstimateRegionUpperBound`, `src/arith/int_set.cc`).

use super::affine::domain;
use super::digit_bound::digit_bound;
use super::guard::with_domains;
use super::tree;
use crate::arith::int_set::{self, IntSet};
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map};
use crate::ir::visit::for_each_subexpr;
use crate::ir::{Arena, BinOp, BlockId, BufferRegion, CmpOp, Expr, ExprId, Func, StmtId, Substitution, VarId};
use smallvec::SmallVec;

/// First element and number of elements in each dimension.
pub(crate) type Ranges = SmallVec<[(ExprId, ExprId); 4]>;

/// The box that the ranges cover over a domain where `predicate` holds; `None` if they need not cover one.
pub(crate) fn strict_bound(
    a: &mut Arena,
    ranges: &[(ExprId, ExprId)],
    domain: &[VarRange],
    predicate: ExprId,
) -> Option<Vec<IntSet>> {
    digit_bound(a, ranges, domain, predicate).or_else(|| general_bound(a, ranges, domain, predicate))
}

/// [`strict_bound`] by iterator maps.
pub(super) fn general_bound(
    a: &mut Arena,
    ranges: &[(ExprId, ExprId)],
    domain: &[VarRange],
    predicate: ExprId,
) -> Option<Vec<IntSet>> {
    if ranges.iter().any(|&(_, extent)| a.as_int(extent).is_none()) {
        return None;
    }
    let mins: SmallVec<[ExprId; 4]> = ranges.iter().map(|r| r.0).collect();
    let predicate = without_parts_of_loops(a, domain, predicate);
    let analyzer = &mut Analyzer::new();
    let map = detect_iter_map(a, &mins, domain, predicate, IterMapLevel::Surjective, analyzer, true).ok()?;
    let mut sets = Vec::with_capacity(ranges.len());
    for (sum, &(_, extent)) in map.indices.iter().zip(ranges) {
        let Some(split) = sum.args.first() else {
            sets.push(IntSet::from_range(a, sum.base, extent));
            continue;
        };
        // A stride longer than the access of one iteration leaves gaps.
        let dense = a.compare(CmpOp::Ge, extent, split.scale);
        if !analyzer.can_prove(a, dense) {
            return None;
        }
        let steps = a.add_const(split.extent, -1);
        let length = a.mul(steps, split.scale);
        let zero = a.int(0, a.dtype(split.scale));
        let backwards = a.lt(split.scale, zero);
        let (min, extent) = match analyzer.can_prove(a, backwards) {
            true => (a.add(sum.base, length), a.sub(extent, length)),
            false => (sum.base, a.add(extent, length)),
        };
        sets.push(IntSet::from_range(a, min, extent));
    }
    Some(sets)
}

/// Rewrites a predicate on quotients and remainders of loops as one on the loops themselves, if these parts add up to
/// them: iterator maps recognise such a bound only in this form.
fn without_parts_of_loops(a: &mut Arena, domain: &[VarRange], predicate: ExprId) -> ExprId {
    let mut has_remainder = false;
    for_each_subexpr(a, predicate, &mut |e| has_remainder |= matches!(a.expr(e), Expr::Binary(BinOp::FloorMod, ..)));
    if !has_remainder {
        return predicate;
    }
    let mut analyzer = Analyzer::new();
    for d in domain {
        analyzer.bind(a, d.var, d.min, d.extent);
    }
    analyzer.simplify(a, predicate)
}

/// A box that contains the ranges over a domain where `predicate` holds, and whether they cover it.
pub(crate) fn upper_bound(
    a: &mut Arena,
    ranges: &[(ExprId, ExprId)],
    domain: &[VarRange],
    predicate: ExprId,
) -> (Vec<IntSet>, bool) {
    if let Some(sets) = strict_bound(a, ranges, domain, predicate) {
        return (sets, true);
    }
    let sets: Vec<(VarId, IntSet)> = domain.iter().map(|r| (r.var, IntSet::from_range(a, r.min, r.extent))).collect();
    let each = |&(min, extent): &(ExprId, ExprId)| match strict_bound(a, &[(min, extent)], domain, predicate) {
        Some(found) => found[0],
        None => int_set::eval_range(a, min, extent, &sets),
    };
    (ranges.iter().map(each).collect(), false)
}

/// A region of a block, stated over its iteration variables, over all its instances below `high`: a box over the outer
/// variables, and whether the instances cover it (TVM's `RelaxBufferRegion`).
pub(crate) fn relax_region(func: &mut Func, b: BlockId, region: &BufferRegion, high: StmtId) -> (Ranges, bool) {
    let storage = func.arena.buffer(region.buffer).scope;
    let domains: SmallVec<[VarRange; 8]> = match tree::parent(func, b) {
        Some(low) => {
            tree::loop_path(func, low, Some(high), Some(storage)).into_iter().map(|l| domain(func, l)).collect()
        }
        None => SmallVec::new(),
    };
    let runs = with_domains(func, b);
    let node = func.block(b);
    let predicate = node.predicate;
    let mut bindings = Substitution::of_vars(node.iters.iter().map(|i| (i.var, i.value)));
    let a = &mut func.arena;
    let region = bindings.apply_region(a, region);
    let ranges: Ranges = region.ranges(a).collect();
    let (sets, mut fills) = upper_bound(a, &ranges, &domains, predicate);
    let shape: SmallVec<[ExprId; 4]> = a.list(a.buffer(region.buffer).shape).iter().copied().collect();
    if fills && runs != predicate {
        // The box may exceed the block's accesses inside the domains of its iteration variables. Elements outside the
        // buffer do not count.
        let inside = |(&set, &extent): (&IntSet, &ExprId)| {
            let zero = a.int(0, a.dtype(extent));
            let whole = IntSet::from_range(a, zero, extent);
            int_set::intersect(a, &[set, whole])
        };
        let inside: Vec<IntSet> = sets.iter().zip(&shape).map(inside).collect();
        fills = strict_bound(a, &ranges, &domains, runs).is_some_and(|exact| exact == sets || exact == inside);
    }
    let boxes = sets.iter().zip(shape).map(|(set, extent)| {
        let zero = a.int(0, a.dtype(extent));
        set.cover_range(a, (zero, extent))
    });
    (boxes.collect(), fills)
}
