//! Decides whether a consumer reads only elements that its producers have written before (TVM's
//! `CheckRegionCoverAndStagePipeline`, `src/s_tir/schedule/state.cc`).
//!
//! For each loop or block around a consumer, the producers that it meets there are considered together. Their writes
//! during one execution of that loop or block are bounded from below, the consumer's reads from above; the former must
//! contain the latter, as far as they are inside the buffer.

use super::super::state::State;
use super::dependence::Scope;
use super::guard::with_domains;
use super::iter_domain::NdSet;
use super::linear::Linear;
use super::region_bound::{self, strict_bound};
use super::tree;
use crate::arith::int_set::{End, IntSet, intersect, union_lower_bound};
use crate::arith::{Analyzer, VarRange};
use crate::ir::{Arena, BlockId, BufferId, BufferRegion, CmpOp, ExprId, Func, StmtId, Substitution};
use smallvec::SmallVec;

/// Whether the producers in the scope cover all reads of the block.
pub(crate) fn is_covered(state: &mut State, scope: &Scope, consumer: BlockId) -> bool {
    let func = &mut state.func;
    let producers = scope.earlier_writers_of_reads(func, consumer);
    // The producers, grouped by the place where they meet the consumer.
    let mut meetings: SmallVec<[(StmtId, SmallVec<[BlockId; 2]>); 4]> = SmallVec::new();
    for p in producers {
        let Some(place) = tree::common_ancestor(func, &[p.stmt(), consumer.stmt()]) else { return false };
        match meetings.iter_mut().find(|m| m.0 == place) {
            Some((_, list)) => list.push(p),
            None => meetings.push((place, SmallVec::from_slice(&[p]))),
        }
    }
    meetings.iter().all(|(place, producers)| covers_at(func, *place, producers, consumer))
}

/// Whether the producers cover the consumer at the place where they meet.
fn covers_at(func: &mut Func, place: StmtId, producers: &[BlockId], consumer: BlockId) -> bool {
    let reads = bound_regions(func, consumer, false);
    let mut written: SmallVec<[(BufferId, Vec<NdSet>); 4]> = SmallVec::new();
    for &p in producers {
        for region in bound_regions(func, p, true) {
            if !reads.iter().any(|r| r.buffer == region.buffer) {
                continue;
            }
            let touched = lower_bound(func, p, place, &region);
            match written.iter_mut().find(|w| w.0 == region.buffer) {
                Some((_, all)) => all.push(touched),
                None => written.push((region.buffer, vec![touched])),
            }
        }
    }
    reads.iter().all(|region| {
        let Some((_, sets)) = written.iter().find(|w| w.0 == region.buffer) else { return true };
        let produced: NdSet = (0..sets[0].len())
            .map(|d| {
                let parts: SmallVec<[IntSet; 4]> = sets.iter().map(|s| s[d]).collect();
                union_lower_bound(&mut func.arena, &parts)
            })
            .collect();
        // Bounding the reads is the most expensive part, and whole buffers need no bound.
        let shape = func.arena.list(func.arena.buffer(region.buffer).shape);
        if produced.iter().zip(shape).all(|(&set, &extent)| is_whole(&func.arena, set, extent)) {
            return true;
        }
        let consumed = upper_bound(func, consumer, place, region);
        holds(&mut func.arena, region.buffer, &produced, &consumed)
    })
}

/// The regions that a block reads or writes, over the loops around it.
fn bound_regions(func: &mut Func, b: BlockId, writes: bool) -> Vec<BufferRegion> {
    let block = func.stmts.block(b);
    let mut bindings = Substitution::of_vars(block.iters.iter().map(|i| (i.var, i.value)));
    let regions = if writes { &block.writes } else { &block.reads };
    regions.iter().map(|r| bindings.apply_region(&mut func.arena, r)).collect()
}

/// The loops between a block and the place over whose variables a region is relaxed.
fn domain(func: &Func, b: BlockId, place: StmtId, region: &BufferRegion) -> SmallVec<[VarRange; 8]> {
    let Some(low) = tree::parent(func, b) else { return SmallVec::new() };
    let storage = func.arena.buffer(region.buffer).scope;
    tree::loop_path(func, low, Some(place), Some(storage)).into_iter().map(|l| super::affine::domain(func, l)).collect()
}

fn lower_bound(func: &mut Func, b: BlockId, place: StmtId, region: &BufferRegion) -> NdSet {
    let domain = domain(func, b, place, region);
    let runs = with_domains(func, b);
    let ranges: SmallVec<[(ExprId, ExprId); 4]> = region.ranges(&func.arena).collect();
    match strict_bound(&mut func.arena, &ranges, &domain, runs) {
        Some(sets) => sets,
        None => vec![IntSet::NOTHING; ranges.len()],
    }
}

fn upper_bound(func: &mut Func, b: BlockId, place: StmtId, region: &BufferRegion) -> NdSet {
    let domain = domain(func, b, place, region);
    let predicate = func.block(b).predicate;
    let a = &mut func.arena;
    let ranges: SmallVec<[(ExprId, ExprId); 4]> = region.ranges(a).collect();
    region_bound::upper_bound(a, &ranges, &domain, predicate).0
}

/// The elements of a region that a block accesses during one execution of `place`: exactly (`None` if they are not a
/// box without gaps), or an upper bound.
pub(crate) fn region_under(
    func: &mut Func,
    b: BlockId,
    place: StmtId,
    region: &BufferRegion,
    exact: bool,
) -> Option<NdSet> {
    let block = func.stmts.block(b);
    let mut bindings = Substitution::of_vars(block.iters.iter().map(|i| (i.var, i.value)));
    let region = bindings.apply_region(&mut func.arena, region);
    match exact {
        true => {
            let sets = lower_bound(func, b, place, &region);
            (!sets.iter().any(|s| s.is_nothing())).then_some(sets)
        }
        false => Some(upper_bound(func, b, place, &region)),
    }
}

/// Whether the first region contains the part of the second inside the buffer.
fn holds(a: &mut Arena, buffer: BufferId, produced: &NdSet, consumed: &NdSet) -> bool {
    let shape: SmallVec<[ExprId; 4]> = a.list(a.buffer(buffer).shape).iter().copied().collect();
    let mut analyzer = Analyzer::new();
    for &extent in &shape {
        if a.as_int(extent).is_none() {
            analyzer.mark_non_negative(a, extent);
        }
    }
    produced.iter().zip(consumed).zip(shape).all(|((&produced, &consumed), extent)| {
        if produced.is_nothing() {
            return false;
        }
        if is_same(a, produced, consumed) || is_whole(a, produced, extent) {
            return true;
        }
        let zero = a.int(0, a.dtype(extent));
        let whole = IntSet::from_range(a, zero, extent);
        let produced = intersect(a, &[produced, whole]);
        let consumed = intersect(a, &[consumed, whole]);
        let ends = (produced.lower(), consumed.lower(), produced.upper(), consumed.upper());
        let (Some(p_low), Some(c_low), Some(p_high), Some(c_high)) = ends else { return consumed.is_nothing() };
        not_after(a, &mut analyzer, p_low, c_low) && not_after(a, &mut analyzer, c_high, p_high)
    })
}

/// Whether the sets are the same: their ends are equal expressions, or sums of the same terms.
fn is_same(a: &Arena, x: IntSet, y: IntSet) -> bool {
    let same = |x: End, y: End| {
        x == y
            || x.value().zip(y.value()).is_some_and(|(x, y)| {
                a.dtype(x) == a.dtype(y) && Linear::of(a, x).zip(Linear::of(a, y)).is_some_and(|(x, y)| x.is_same(&y))
            })
    };
    same(x.min, y.min) && same(x.max, y.max)
}

/// Whether the set, by constants, covers a whole dimension.
fn is_whole(a: &Arena, set: IntSet, extent: ExprId) -> bool {
    let constant = |e: Option<ExprId>| e.and_then(|e| a.as_int(e));
    let ends = (constant(set.lower()), constant(set.upper()), a.as_int(extent));
    matches!(ends, (Some(..=0), Some(last), Some(n)) if last >= n - 1)
}

fn not_after(a: &mut Arena, analyzer: &mut Analyzer, x: ExprId, y: ExprId) -> bool {
    if x == y {
        return true;
    }
    let (p, q) = (a.dtype(x), a.dtype(y));
    let wide = if p.bits() >= q.bits() { p } else { q };
    let (x, y) = (a.cast(wide, x), a.cast(wide, y));
    let difference = a.sub(x, y);
    let difference = analyzer.canonical_simplify(a, difference);
    let zero = a.int(0, wide);
    let holds = a.compare(CmpOp::Le, difference, zero);
    analyzer.can_prove(a, holds)
}
