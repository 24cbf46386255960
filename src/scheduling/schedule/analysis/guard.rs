//! Compares predicates of blocks with the domains of their iteration variables, outside which no instance exists.

use super::affine::domain;
use super::linear::Linear;
use super::region_bound::strict_bound;
use crate::arith::implication::{conjuncts, implies};
use crate::arith::int_set::{self, IntSet};
use crate::arith::{Analyzer, VarRange};
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, BlockId, BlockIter, BufferRegion, CmpOp, ExprId, Func, IterKind, Loop, LoopId, StmtId, Substitution, VarId,
};
use smallvec::SmallVec;

/// An analyzer with the ranges of the loops around a block, and of the iteration variables of the enclosing blocks.
pub(crate) fn knowing_loops(func: &mut Func, block: BlockId) -> Analyzer {
    match func.parent(block.stmt()) {
        Some(parent) => bound_around(func, parent),
        None => Analyzer::new(),
    }
}

/// An analyzer with the ranges of the loops and iteration variables around a statement, including its own.
pub(crate) fn bound_around(func: &mut Func, s: StmtId) -> Analyzer {
    let mut analyzer = Analyzer::new();
    let around: SmallVec<[StmtId; 16]> = std::iter::once(s).chain(func.ancestors(s)).collect();
    for s in around.into_iter().rev() {
        if let Some(l) = func.as_loop(s) {
            let d = domain(func, l);
            analyzer.bind(&mut func.arena, d.var, d.min, d.extent);
        }
        if let Some(b) = func.as_block(s) {
            for i in func.block(b).iters.clone() {
                analyzer.bind(&mut func.arena, i.var, i.min, i.extent);
            }
        }
    }
    analyzer
}

/// The condition that the bindings lie in their domains.
pub(crate) fn inside_domains<'a>(a: &mut Arena, iters: impl IntoIterator<Item = &'a BlockIter>) -> ExprId {
    let mut inside = a.bool(true);
    for i in iters {
        let end = a.add(i.min, i.extent);
        let (starts, ends) = (a.compare(CmpOp::Ge, i.value, i.min), a.lt(i.value, end));
        let both = a.and(starts, ends);
        inside = a.and(inside, both);
    }
    inside
}

/// Whether the predicate is redundant: it must follow from the domains of all iteration variables, or restrict only
/// loops that drive none of them, and hold in their first iterations: then it only prevents repeated instances.
pub(crate) fn predicate_follows(func: &mut Func, block: BlockId) -> bool {
    let node = func.block(block);
    let (predicate, iters) = (node.predicate, node.iters.clone());
    if func.arena.is_int(predicate, 1) {
        return true;
    }
    let mut analyzer = knowing_loops(func, block);
    let mut at_first = Substitution::default();
    for l in func.loops_above(block.stmt()) {
        let Loop { var, min, .. } = *func.loop_(l);
        if !iters.iter().any(|i| uses_var(&func.arena, i.value, &mut |v| v == var)) {
            at_first.add_var(var, min);
        }
    }
    let a = &mut func.arena;
    let inside = inside_domains(a, &iters);
    conjuncts(a, predicate).into_iter().all(|e| {
        let only_repeats = !uses_var(a, e, &mut |v| at_first.var(v).is_none());
        let wanted = if only_repeats { at_first.apply(a, e) } else { e };
        implies(a, &mut analyzer, inside, wanted)
    })
}

/// The conjuncts of the block's predicate, in order, that do not follow from the domains of `iters` (some of the
/// block's iteration variables).
pub(crate) fn beyond_domains(func: &mut Func, b: BlockId, iters: &[BlockIter]) -> Vec<ExprId> {
    let predicate = func.block(b).predicate;
    let mut analyzer = knowing_loops(func, b);
    let a = &mut func.arena;
    let inside = inside_domains(a, iters);
    let mut left = conjuncts(a, predicate).into_vec();
    left.retain(|&e| !implies(a, &mut analyzer, inside, e));
    left
}

/// Whether the value is a sum of variables of loops and enclosing blocks with constant ranges, and never leaves its
/// domain. The proof by the analyzer costs a hundred times as much.
fn stays_inside(func: &Func, block: BlockId, iter: &BlockIter, loops: &[LoopId]) -> bool {
    let Func { arena: a, stmts, .. } = func;
    let of_loops = |var| {
        let node = loops.iter().map(|&l| stmts.loop_(l)).find(|node| node.var == var)?;
        Some((node.min, node.extent))
    };
    let of_blocks = |var| {
        let around = stmts.ancestors(block.stmt()).filter_map(|s| stmts.as_block(s));
        let node = around.flat_map(|b| &stmts.block(b).iters).find(|i| i.var == var)?;
        Some((node.min, node.extent))
    };
    let range = |var| {
        let (min, extent) = of_loops(var).or_else(|| of_blocks(var))?;
        let (min, n) = (a.as_int(min)?, a.as_int(extent).filter(|&n| n > 0)?);
        Some((min, min.checked_add(n - 1)?))
    };
    let inside = || {
        let (first, n) = (a.as_int(iter.min)?, a.as_int(iter.extent)?);
        let (min, max) = Linear::of(a, iter.value)?.bounds(range)?;
        Some(first as i128 <= min && max < first as i128 + n as i128)
    };
    inside().unwrap_or(false)
}

/// The condition under which the block runs: its predicate and the domains of its iteration variables, without the
/// parts that follow from the predicate and the enclosing loops.
pub(crate) fn with_domains(func: &mut Func, b: BlockId) -> ExprId {
    let node = func.block(b);
    let (mut condition, iters) = (node.predicate, node.iters.clone());
    let loops = func.loops_above(b.stmt());
    let mut analyzer: Option<Analyzer> = None;
    for i in iters {
        let is_its_loop = |&l: &LoopId| {
            let node = func.loop_(l);
            func.arena.as_var(i.value) == Some(node.var) && (node.min, node.extent) == (i.min, i.extent)
        };
        if loops.iter().any(is_its_loop) || stays_inside(func, b, &i, &loops) {
            continue;
        }
        if analyzer.is_none() {
            analyzer = Some(knowing_loops(func, b));
        }
        let Some(analyzer) = &mut analyzer else { continue };
        let a = &mut func.arena;
        let end = a.add(i.min, i.extent);
        for bound in [a.compare(CmpOp::Le, i.min, i.value), a.lt(i.value, end)] {
            if !implies(a, analyzer, condition, bound) {
                condition = a.and(condition, bound);
            }
        }
    }
    condition
}

/// Whether the bindings take all values of the domains of these iterations where the predicate holds. True also if
/// unknown: predicates may cut domains in many ways.
pub(crate) fn may_cover_domains(func: &mut Func, block: BlockId, iters: &[BlockIter]) -> bool {
    let domains: Vec<VarRange> = func.loops_above(block.stmt()).into_iter().map(|l| domain(func, l)).collect();
    let predicate = func.block(block).predicate;
    let a = &mut func.arena;
    iters.iter().all(|i| {
        let one = a.int(1, a.dtype(i.value));
        let Some(sets) = strict_bound(a, &[(i.value, one)], &domains, predicate) else { return true };
        let whole = IntSet::from_range(a, i.min, i.extent);
        let ends = (sets[0].lower(), whole.lower(), sets[0].upper(), whole.upper());
        let (Some(low), Some(first), Some(high), Some(last)) = ends else { return true };
        let (first, last) = (a.cast(a.dtype(low), first), a.cast(a.dtype(high), last));
        let mut analyzer = Analyzer::new();
        let (starts, ends) = (a.compare(CmpOp::Le, low, first), a.compare(CmpOp::Ge, high, last));
        analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
    })
}

/// Whether the region is in the buffer for all values of the variables in their sets.
pub(crate) fn is_inside(a: &mut Arena, region: &BufferRegion, sets: &[(VarId, IntSet)]) -> bool {
    let ranges: Vec<(ExprId, ExprId)> = region.ranges(a).collect();
    let touched = int_set::eval_region(a, &ranges, sets);
    let shape = a.list(a.buffer(region.buffer).shape).to_vec();
    touched.iter().zip(shape).all(|(set, extent)| {
        let (Some(low), Some(high)) = (set.lower(), set.upper()) else { return false };
        let zero = a.int(0, a.dtype(low));
        let (starts, ends) = (a.compare(CmpOp::Ge, low, zero), a.lt(high, extent));
        let mut analyzer = Analyzer::new();
        analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
    })
}

/// Substitutes the first iteration of each loop that drives a reduction of the block.
fn at_first_reduction(func: &Func, block: BlockId) -> Substitution {
    let mut first = Substitution::default();
    for l in func.loops_above(block.stmt()) {
        let Loop { var, min, .. } = *func.loop_(l);
        let mut reduces = func.block(block).iters.iter().filter(|i| i.kind == IterKind::Reduce);
        if reduces.any(|i| uses_var(&func.arena, i.value, &mut |v| v == var)) {
            first.add_var(var, min);
        }
    }
    first
}

/// Whether all reductions of the block have the first value of their domain in the first iterations of the loops that
/// drive them. Otherwise an init never runs, or runs late.
pub(crate) fn reductions_begin(func: &mut Func, block: BlockId) -> bool {
    let mut first = at_first_reduction(func, block);
    let iters = func.block(block).iters.clone();
    let mut analyzer = knowing_loops(func, block);
    let a = &mut func.arena;
    iters.iter().filter(|i| i.kind == IterKind::Reduce).all(|i| {
        let value = first.apply(a, i.value);
        let equal = a.compare(CmpOp::Eq, value, i.min);
        analyzer.can_prove(a, equal)
    })
}

/// Whether the block's init runs before the block first accesses an element. Reductions must begin at the start of
/// their domains, and the predicate must not exclude these iterations.
pub(crate) fn init_comes_first(func: &mut Func, block: BlockId) -> bool {
    let mut first = at_first_reduction(func, block);
    let mut analyzer = knowing_loops(func, block);
    let predicate = func.block(block).predicate;
    let a = &mut func.arena;
    let keeps_them = conjuncts(a, predicate).into_iter().all(|e| {
        let at_first = first.apply(a, e);
        at_first == e || implies(a, &mut analyzer, predicate, at_first)
    });
    keeps_them && reductions_begin(func, block)
}

/// Whether the block's predicate can be dropped. The instances that it excluded must then be in their domains and
/// harmless: no steps of a reduction, no accesses outside a buffer.
pub(crate) fn can_lose_predicate(func: &mut Func, block: BlockId) -> bool {
    if predicate_follows(func, block) {
        return true;
    }
    let node = func.block(block).clone();
    let a = &mut func.arena;
    let whole: Vec<(VarId, IntSet)> =
        node.iters.iter().map(|i| (i.var, IntSet::from_range(a, i.min, i.extent))).collect();
    node.iters.iter().all(|i| i.kind == IterKind::Spatial)
        && node.reads.iter().chain(&node.writes).all(|r| is_inside(a, r, &whole))
}
