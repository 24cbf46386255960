//! Computes the instances of a block that provide a region: for each iteration variable, the values to iterate over.
//!
//! `compute_at` needs the instances of a producer that write the regions read by the consumers under a loop;
//! `reverse_compute_at` needs the instances of a consumer that read the regions written by the producers. The provided
//! region of an instance is given over its iteration variables, the required region over the enclosing loops. If the
//! provided indices are a one-to-one affine map of all variables, it is inverted; otherwise each dimension is solved
//! separately (TVM's `CalculateBlockVarDomain`, `src/s_tir/schedule/primitive/compute_at.cc`).

use crate::arith::int_set::{self, End, IntSet};
use crate::arith::iter_map::{IterMap, MarkId, MarkSource, inverse_affine_iter_map};
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map};
use crate::ir::{Arena, BinOp, BlockIter, BufferId, Expr, ExprId, VarId};

/// A set for each dimension of a buffer.
pub(crate) type NdSet = Vec<IntSet>;

/// The provided or required sets of each buffer, whose union counts.
pub(crate) type Regions = Vec<(BufferId, Vec<NdSet>)>;

/// The error that no domain was found, because no rule solves an index of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unsolved {
    /// The buffer.
    pub buffer: Option<BufferId>,
}

/// The values for an iteration variable: those of `dom` that lie in `bound`.
///
/// The intersection is not computed: values of `dom` outside `bound` are excluded by a predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IterDomain {
    /// The values to iterate over.
    pub dom: IntSet,
    /// Bounds that a predicate enforces; [`IntSet::NOTHING`] if there are none.
    pub bound: IntSet,
}

impl IterDomain {
    const UNKNOWN: IterDomain = IterDomain { dom: IntSet::NOTHING, bound: IntSet::NOTHING };

    fn union(self, a: &mut Arena, other: IterDomain) -> IterDomain {
        IterDomain {
            dom: int_set::union(a, &[self.dom, other.dom]),
            bound: int_set::union(a, &[self.bound, other.bound]),
        }
    }

    /// Removes the bound if it is implied, or intersects it if that gives constants.
    fn simplified(self, a: &mut Arena, analyzer: &mut Analyzer) -> IterDomain {
        if self.dom.is_nothing() {
            return match (self.bound.lower(), self.bound.upper()) {
                (Some(_), Some(_)) => IterDomain { dom: simplify_set(a, analyzer, self.bound), bound: IntSet::NOTHING },
                _ => self,
            };
        }
        let dom = simplify_set(a, analyzer, self.dom);
        let bound = simplify_set(a, analyzer, self.bound);
        if lies_inside(a, analyzer, dom, bound) {
            return IterDomain { dom, bound: IntSet::NOTHING };
        }
        let common = int_set::intersect(a, &[dom, bound]);
        let common = simplify_set(a, analyzer, common);
        let mut same = |a: &mut Arena, x: End, y: End| match (x, y) {
            (End::At(x), End::At(y)) => analyzer.can_prove_equal(a, x, y),
            _ => x == y,
        };
        let constant = |a: &Arena, end: End| end.value().is_some_and(|e| a.as_int(e).is_some());
        if same(a, dom.min, common.min) && same(a, dom.max, common.max) {
            IterDomain { dom, bound: IntSet::NOTHING }
        } else if same(a, bound.min, common.min) && same(a, bound.max, common.max) {
            IterDomain { dom: bound, bound: IntSet::NOTHING }
        } else if constant(a, common.min) && constant(a, common.max) {
            IterDomain { dom: common, bound: IntSet::NOTHING }
        } else {
            IterDomain { dom, bound }
        }
    }
}

/// Whether the first set, by constant bounds, lies between the constant ends of the second. This is the most frequent
/// case, and is answered without computing the intersection.
fn lies_inside(a: &mut Arena, analyzer: &mut Analyzer, set: IntSet, bound: IntSet) -> bool {
    let (Some(low), Some(high)) = (set.lower(), set.upper()) else { return false };
    let constant = |e: Option<ExprId>| e.filter(|&e| a.dtype(e) == a.dtype(low)).and_then(|e| a.as_int(e));
    let (Some(first), Some(last)) = (constant(bound.lower()), constant(bound.upper())) else { return false };
    if a.dtype(low) != a.dtype(high)
        || analyzer.const_int_bound(a, low).min < first
        || analyzer.const_int_bound(a, high).max > last
    {
        return false;
    }
    // An intersection that may be empty is a different case.
    let span = a.sub(high, low);
    let span = analyzer.canonical_simplify(a, span);
    analyzer.const_int_bound(a, span).min >= 0
}

fn simplify_set(a: &mut Arena, analyzer: &mut Analyzer, set: IntSet) -> IntSet {
    let mut end = |a: &mut Arena, end: End| match end {
        End::At(e) => End::At(analyzer.simplify(a, e)),
        End::NegInf | End::PosInf => end,
    };
    IntSet { min: end(a, set.min), max: end(a, set.max) }
}

/// The domain of each of the block's iteration variables.
///
/// # Errors
///
/// If a provided index has no form that can be solved.
pub(crate) fn iter_domains(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    iters: &[BlockIter],
    provided: &Regions,
    required: &Regions,
) -> Result<Vec<IterDomain>, Unsolved> {
    let mut domains: Vec<(VarId, IterDomain)> = iters.iter().map(|i| (i.var, IterDomain::UNKNOWN)).collect();
    for (buffer, sets) in provided {
        let Some((_, needed)) = required.iter().find(|(b, sets)| b == buffer && !sets.is_empty()) else { continue };
        let needed = union_regions(a, needed);
        let sets = union_regions(a, sets);
        if !solve_affine(a, analyzer, iters, *buffer, &sets, &needed, &mut domains) {
            solve_dimensions(a, analyzer, *buffer, &sets, &needed, &mut domains)
                .ok_or(Unsolved { buffer: Some(*buffer) })?;
        }
    }
    iters
        .iter()
        .zip(domains)
        .map(|(iter, (_, mut domain))| {
            let whole = IntSet::from_range(a, iter.min, iter.extent);
            domain.bound = match domain.bound.is_nothing() {
                true => whole,
                false => int_set::intersect(a, &[domain.bound, whole]),
            };
            let domain = domain.simplified(a, analyzer);
            if domain.dom.is_nothing() { Err(Unsolved { buffer: None }) } else { Ok(domain) }
        })
        .collect()
}

/// The union of regions, dimension by dimension.
pub(crate) fn union_regions(a: &mut Arena, regions: &[NdSet]) -> NdSet {
    let rank = regions.first().map_or(0, Vec::len);
    (0..rank)
        .map(|d| {
            let sets: Vec<IntSet> = regions.iter().map(|r| r[d]).collect();
            int_set::union(a, &sets)
        })
        .collect()
}

fn last_index(a: &mut Arena, extent: ExprId) -> ExprId {
    let last = a.add_const(extent, -1);
    let zero = a.int(0, a.dtype(last));
    a.max(last, zero)
}

/// Inverts the map from the iteration variables to the provided element; false if it is not one-to-one and affine.
fn solve_affine(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    iters: &[BlockIter],
    buffer: BufferId,
    provided: &NdSet,
    required: &NdSet,
    domains: &mut [(VarId, IterDomain)],
) -> bool {
    if !provided.iter().all(|set| set.can_prove_point(a, analyzer)) {
        return false;
    }
    let indices: Vec<ExprId> = provided.iter().filter_map(|set| set.lower()).collect();
    let vars: Vec<VarRange> = iters.iter().map(|i| VarRange { var: i.var, min: i.min, extent: i.extent }).collect();
    let always = a.bool(true);
    let level = IterMapLevel::Bijective;
    let Ok(map) = detect_iter_map(a, &indices, &vars, always, level, analyzer, false) else { return false };
    let shape = a.list(a.buffer(buffer).shape).to_vec();
    let whole: NdSet = shape
        .iter()
        .map(|&extent| {
            let zero = a.int(0, a.dtype(extent));
            IntSet::interval(zero, last_index(a, extent))
        })
        .collect();
    let (Some(doms), Some(bounds)) = (inverse(a, analyzer, &map, required), inverse(a, analyzer, &map, &whole)) else {
        return false;
    };
    let mut whole_vars: Vec<VarId> = Vec::new();
    for (sum, set) in map.indices.iter().zip(required) {
        if !set.can_prove_point(a, analyzer) {
            for arg in &sum.args {
                loose_digits(a, analyzer, &map, arg.mark, &doms, &mut whole_vars);
            }
        }
    }
    for (var, mut dom) in doms {
        if whole_vars.contains(&var)
            && let Some(iter) = iters.iter().find(|i| i.var == var)
        {
            dom = IntSet::from_range(a, iter.min, iter.extent);
        }
        let bound = bounds.iter().find(|(v, _)| *v == var).map_or(IntSet::NOTHING, |(_, bound)| *bound);
        if let Some((_, domain)) = domains.iter_mut().find(|(v, _)| *v == var) {
            *domain = domain.union(a, IterDomain { dom, bound });
        }
    }
    true
}

/// The digits of a fused index that take all their values while an index runs through a range: those after the first
/// one that changes. (TVM uses the ends of the range for them.)
fn loose_digits(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    map: &IterMap,
    mark: MarkId,
    doms: &[(VarId, IntSet)],
    found: &mut Vec<VarId>,
) {
    let MarkSource::Sum(sum) = &map.mark(mark).source else { return };
    let mut loose = false;
    for arg in &sum.args {
        let vars = vars_below(a, map, arg.mark);
        if loose {
            found.extend(vars);
            continue;
        }
        let fixed = vars
            .iter()
            .all(|v| doms.iter().find(|(w, _)| w == v).is_some_and(|(_, dom)| dom.can_prove_point(a, analyzer)));
        if !fixed {
            loose_digits(a, analyzer, map, arg.mark, doms, found);
            loose = true;
        }
    }
}

/// The variables of an iterator.
fn vars_below(a: &Arena, map: &IterMap, mark: MarkId) -> Vec<VarId> {
    match &map.mark(mark).source {
        MarkSource::Expr(e) => crate::ir::visit::vars_of(a, *e),
        MarkSource::Sum(sum) => sum.args.iter().flat_map(|arg| vars_below(a, map, arg.mark)).collect(),
    }
}

/// The values of the variables at the least and at the greatest corner of the outputs, as sets.
fn inverse(a: &mut Arena, analyzer: &mut Analyzer, map: &IterMap, outputs: &NdSet) -> Option<Vec<(VarId, IntSet)>> {
    let least: Vec<ExprId> = outputs.iter().map(|set| set.lower()).collect::<Option<_>>()?;
    let greatest: Vec<ExprId> = outputs.iter().map(|set| set.upper()).collect::<Option<_>>()?;
    let at_least = inverse_affine_iter_map(a, map, &least).ok()?;
    let at_greatest = inverse_affine_iter_map(a, map, &greatest).ok()?;
    let mut sets = Vec::with_capacity(at_least.len());
    for (var, x) in at_least {
        let (_, y) = *at_greatest.iter().find(|(v, _)| *v == var)?;
        let (low, high) = (a.min(x, y), a.max(x, y));
        let (low, high) = (analyzer.simplify(a, low), analyzer.simplify(a, high));
        sets.push((var, IntSet::interval(low, high)));
    }
    Some(sets)
}

/// Solves each dimension separately.
fn solve_dimensions(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    buffer: BufferId,
    provided: &NdSet,
    required: &NdSet,
    domains: &mut [(VarId, IterDomain)],
) -> Option<()> {
    let shape = a.list(a.buffer(buffer).shape).to_vec();
    for ((&given, &needed), extent) in provided.iter().zip(required).zip(shape) {
        let constant = given.lower().filter(|&e| a.as_int(e).is_some());
        if let Some(at) = constant.filter(|_| given.can_prove_point(a, analyzer)) {
            let same = needed.can_prove_point(a, analyzer)
                && needed.lower().is_some_and(|e| analyzer.can_prove_equal(a, at, e));
            same.then_some(())?;
            continue;
        }
        let last = last_index(a, extent);
        let (var, solved) = solve_dimension(a, analyzer, given, needed, last)?;
        match domains.iter_mut().find(|(v, _)| *v == var) {
            Some((_, domain)) => *domain = domain.union(a, solved),
            None => {
                // A variable of an enclosing block: both sides must agree in it.
                let mut equal = |x: Option<ExprId>, y: Option<ExprId>| {
                    x.zip(y).is_some_and(|(x, y)| analyzer.can_prove_equal(a, x, y))
                };
                (equal(given.lower(), needed.lower()) && equal(given.upper(), needed.upper())).then_some(())?;
            }
        }
    }
    Some(())
}

/// The variable of the provided index, and its values for which the index is in the required set, given that the index
/// is at most `last`.
fn solve_dimension(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    provided: IntSet,
    required: IntSet,
    last: ExprId,
) -> Option<(VarId, IterDomain)> {
    let given = simplify_set(a, analyzer, provided);
    let needed = simplify_set(a, analyzer, required);
    let (low, high) = (given.lower()?, given.upper()?);
    let zero = a.int(0, a.dtype(last));
    let map = |a: &mut Arena, end: End, f: &mut dyn FnMut(&mut Arena, ExprId) -> ExprId| match end {
        End::At(e) => End::At(f(a, e)),
        End::NegInf | End::PosInf => end,
    };
    // var * scale: the values whose multiples reach the ends.
    if let Expr::Binary(BinOp::Mul, x, y) = a.expr(low)
        && let Some((var, scale)) = a.as_var(x).map(|v| (v, y)).or_else(|| a.as_var(y).map(|v| (v, x)))
    {
        let mut divide = |a: &mut Arena, e: ExprId| a.floor_div(e, scale);
        let dom = IntSet { min: map(a, needed.min, &mut divide), max: map(a, needed.max, &mut divide) };
        let bound = IntSet::interval(zero, a.floor_div(last, scale));
        return Some((var, IterDomain { dom, bound }));
    }
    if !analyzer.can_prove_equal(a, low, high) {
        return None;
    }
    match a.expr(low) {
        Expr::Var(var) => Some((var, IterDomain { dom: needed, bound: IntSet::interval(zero, last) })),
        Expr::Binary(BinOp::FloorDiv, x, factor) if analyzer.can_prove_greater_equal(a, factor, 1) => {
            // p <= x // f <= q  iff  p * f <= x <= q * f + f - 1
            let mut first = |a: &mut Arena, e: ExprId| a.mul(e, factor);
            let mut last_of = |a: &mut Arena, e: ExprId| {
                let end = a.mul(e, factor);
                let end = a.add(end, factor);
                let last = a.add_const(end, -1);
                analyzer.simplify(a, last)
            };
            let dom = IntSet { min: map(a, needed.min, &mut first), max: map(a, needed.max, &mut last_of) };
            match a.as_var(x) {
                Some(var) => {
                    let bound = IntSet::interval(zero, last_of(a, last));
                    Some((var, IterDomain { dom, bound }))
                }
                None => solve_dimension(a, analyzer, IntSet::point(x), dom, last),
            }
        }
        Expr::Binary(BinOp::FloorMod, x, factor) => match a.as_var(x) {
            // A remainder does not restrict its variable.
            Some(var) => Some((var, IterDomain::UNKNOWN)),
            None => {
                let positive = analyzer.can_prove_greater_equal(a, x, 1)
                    && analyzer.can_prove_greater_equal(a, factor, 1)
                    && needed.lower().is_some_and(|e| analyzer.can_prove_greater_equal(a, e, 0));
                positive.then_some(())?;
                let above = IntSet { min: needed.min, max: End::PosInf };
                solve_dimension(a, analyzer, IntSet::point(x), above, last)
            }
        },
        _ => None,
    }
}
