//! Index maps: functions of indices, which change layouts (TVM's `src/tir/ir/index_map.cc`).
//!
//! `lambda i, j: (i, j // 7, j % 7)` maps the indices of an element to its indices in the new layout. Over constant
//! extents such a map gives the new shape ([`IndexMap::map_shape`]) and, as an iterator map, the inverse
//! ([`IndexMap::inverse`]) with the condition under which a new position has no element: the padding.

use super::int_set::{self, IntSet};
use super::iter_map::inverse_affine_iter_map;
use super::{Analyzer, IterMapLevel, VarRange, detect_iter_map, iter_map_simplify};
use crate::ir::{Arena, DType, ExprId, Substitution, VarId};
use smallvec::SmallVec;

/// A list of indices or extents.
pub type Indices = SmallVec<[ExprId; 4]>;

/// A function of indices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexMap {
    /// Its parameters.
    pub params: SmallVec<[VarId; 4]>,
    /// Its results, over the parameters.
    pub results: Indices,
    /// The positions of axis separators among the results (`IndexMap.AXIS_SEPARATOR`).
    pub separators: Vec<u32>,
}

/// The inverse of an [`IndexMap`] over a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inverse {
    /// The map from new indices to old ones; its parameters are called `axis0` and so on.
    pub map: IndexMap,
    /// Condition over its parameters: holds at positions without an old element.
    pub padding: ExprId,
}

impl IndexMap {
    /// The new indices of the element at `indices`, simplified.
    pub fn apply(&self, a: &mut Arena, analyzer: &mut Analyzer, indices: &[ExprId]) -> Indices {
        let mut by: Substitution = self.substitution(a, indices);
        self.results
            .iter()
            .map(|&r| {
                let e = by.apply(a, r);
                analyzer.simplify(a, e)
            })
            .collect()
    }

    fn substitution(&self, a: &mut Arena, indices: &[ExprId]) -> Substitution {
        let values: Indices = self.params.iter().zip(indices).map(|(&p, &i)| a.cast(a.var(p).dtype, i)).collect();
        Substitution::of_vars(self.params.iter().copied().zip(values))
    }

    /// Each parameter with the range of its values, for elements of this shape.
    pub fn domain(&self, a: &mut Arena, extents: &[ExprId]) -> SmallVec<[VarRange; 4]> {
        self.params
            .iter()
            .zip(extents)
            .map(|(&var, &extent)| {
                let dtype = a.var(var).dtype;
                VarRange { var, min: a.int(0, dtype), extent: a.cast(dtype, extent) }
            })
            .collect()
    }

    /// The new shape of a buffer with this shape. `None` if an index could be negative.
    pub fn map_shape(&self, a: &mut Arena, shape: &[ExprId]) -> Option<Indices> {
        let domain = self.domain(a, shape);
        let dtype = widest(&shape.iter().map(|&e| a.dtype(e)).collect::<Vec<_>>());
        let mut analyzer = Analyzer::new();
        let always = a.bool(true);
        let found = detect_iter_map(a, &self.results, &domain, always, IterMapLevel::NoCheck, &mut analyzer, false);
        let ranges: SmallVec<[(ExprId, ExprId); 4]> = match found {
            Ok(map) => map
                .indices
                .iter()
                .map(|sum| {
                    // The parts are digits, so the largest is the whole.
                    let largest = sum.args.iter().map(|s| a.mul(s.extent, s.scale)).collect::<Indices>();
                    let extent = largest.into_iter().reduce(|x, y| a.max(x, y));
                    (sum.base, extent.unwrap_or_else(|| a.int(1, a.dtype(sum.base))))
                })
                .collect(),
            Err(_) => {
                let sets: Vec<(VarId, IntSet)> =
                    domain.iter().map(|r| (r.var, IntSet::from_range(a, r.min, r.extent))).collect();
                self.results
                    .iter()
                    .map(|&r| {
                        let set = int_set::eval_set(a, r, &sets);
                        let (low, high) = (set.lower()?, set.upper()?);
                        let length = a.sub(high, low);
                        let length = a.add_const(length, 1);
                        Some((analyzer.simplify(a, low), analyzer.simplify(a, length)))
                    })
                    .collect::<Option<_>>()?
            }
        };
        ranges.into_iter().map(|(min, extent)| a.is_int(min, 0).then(|| a.cast(dtype, extent))).collect()
    }

    /// The inverse for elements of this shape; without padding at the level [`IterMapLevel::Bijective`]. `None` if the
    /// map is not made of splits and fusions of its parameters.
    pub fn inverse(&self, a: &mut Arena, shape: &[ExprId], level: IterMapLevel) -> Option<Inverse> {
        let domain = self.domain(a, shape);
        let mut analyzer = Analyzer::new();
        let always = a.bool(true);
        let map = detect_iter_map(a, &self.results, &domain, always, level, &mut analyzer, false).ok()?;
        let mut params: SmallVec<[VarId; 4]> = SmallVec::new();
        let mut outputs = Indices::new();
        for (i, &r) in self.results.iter().enumerate() {
            let (var, e) = a.new_var_expr(format!("axis{i}").as_str(), a.dtype(r));
            params.push(var);
            outputs.push(e);
        }
        let found = inverse_affine_iter_map(a, &map, &outputs).ok()?;
        let mut results = Indices::new();
        for range in &domain {
            let e = match found.iter().find(|(v, _)| *v == range.var) {
                Some(&(_, e)) => e,
                None if a.is_int(range.extent, 1) => range.min,
                None => return None,
            };
            results.push(analyzer.simplify(a, e));
        }
        let new_shape = self.map_shape(a, shape)?;
        let mut analyzer = Analyzer::new();
        for (&var, &extent) in params.iter().zip(&new_shape) {
            let dtype = a.var(var).dtype;
            let (zero, extent) = (a.int(0, dtype), a.cast(dtype, extent));
            analyzer.bind(a, var, zero, extent);
        }
        let padding = Substitution::of_vars(found).apply(a, map.padding_predicate);
        let padding = analyzer.simplify_steps(a, padding, 10);
        Some(Inverse { map: IndexMap { params, results, separators: Vec::new() }, padding })
    }

    /// Whether different elements of this shape always have different positions. Proved by the iterator map, else by
    /// enumeration of all elements, if they are few.
    pub fn is_injective(&self, a: &mut Arena, shape: &[ExprId]) -> bool {
        /// Maximum number of enumerated elements.
        const LIMIT: i64 = 1 << 16;
        if let Some(inverse) = self.inverse(a, shape, IterMapLevel::NoCheck) {
            // The inverse must be an inverse: a map may also drop information.
            let params: Indices = self.params.iter().map(|&v| a.var_expr(v)).collect();
            let mut analyzer = Analyzer::new();
            for r in self.domain(a, shape) {
                analyzer.bind(a, r.var, r.min, r.extent);
            }
            let there = self.apply(a, &mut analyzer, &params);
            let back = inverse.map.apply(a, &mut analyzer, &there);
            if params.iter().zip(&back).all(|(&p, &b)| analyzer.can_prove_equal(a, p, b)) {
                return true;
            }
        }
        let Some(extents) = shape.iter().map(|&e| a.as_int(e)).collect::<Option<SmallVec<[i64; 4]>>>() else {
            return false;
        };
        let Some(count) = extents.iter().try_fold(1i64, |n, &e| n.checked_mul(e)).filter(|&n| n <= LIMIT) else {
            return false;
        };
        let mut seen = hashbrown::HashSet::new();
        (0..count).all(|mut n| {
            let mut at = Indices::new();
            for (&extent, &p) in extents.iter().zip(&self.params).rev() {
                at.push(a.int(n % extent, a.var(p).dtype));
                n /= extent;
            }
            at.reverse();
            let mut by = self.substitution(a, &at);
            let place: Option<SmallVec<[i64; 4]>> = self
                .results
                .iter()
                .map(|&r| {
                    let e = by.apply(a, r);
                    a.as_int(e)
                })
                .collect();
            place.is_some_and(|place| seen.insert(place))
        })
    }
}

/// The widest of the types of indices.
pub fn widest(types: &[DType]) -> DType {
    types.iter().copied().max_by_key(|t| t.bits()).unwrap_or(DType::Int32)
}

/// Simplifies index expressions as far as the iterator map over a domain allows. A variable with only one value stays
/// (TVM's `IterMapSimplifyWithContext`).
pub fn simplify_indices(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    indices: &[ExprId],
    domain: &[VarRange],
    condition: ExprId,
) -> Indices {
    let simple = iter_map_simplify(a, indices, domain, condition, IterMapLevel::Surjective, analyzer, true);
    indices
        .iter()
        .zip(simple)
        .map(|(&old, new)| if a.as_var(old).is_some() && a.as_int(new).is_some() { old } else { new })
        .collect()
}
