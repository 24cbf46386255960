//! Iterator maps: index expressions seen as splits and fusions of loop iterators.
//!
//! `i * 8 + j` with `j` in `0 .. 8` is one iterator of extent `8 * extent(i)`, fused of two; `i // 8` and `i % 8` are
//! two splits of one. This view answers whether indices cover a space exactly once ([`detect_iter_map`]), writes them
//! simply ([`iter_map_simplify`]), divides them into an outer and an inner part ([`subspace_divide`]) and inverts them
//! ([`inverse_affine_iter_map`]).
//!
//! An [`IterMark`] is an iterator: a variable of the domain, or a fused sum. An [`IterSplit`] is a scaled part of one,
//! `(mark // lower_factor) % extent * scale`. An [`IterSum`] adds splits and a base that no iterator occurs in. Marks
//! have identity: splits belong together if they name one [`MarkId`].
//!
//! Follows TVM's `iter_affine_map.cc` (0.27). The parts, in the order in which an expression meets them: [`predicate`]
//! takes conditions apart, [`rewrite`] turns expressions into sums, [`fuse`] makes one iterator of a sum, [`split`] and
//! [`padding`] divide iterators, [`check`] looks at all splits together, [`to_expr`] goes back.

mod check;
mod divide;
mod fuse;
mod inverse;
mod padding;
mod predicate;
mod rewrite;
mod split;
mod to_expr;

pub use divide::{Part, subspace_divide};
pub use inverse::inverse_affine_iter_map;

use super::analyzer::Analyzer;
use super::int_set::uses_var;
use crate::ir::expr::{Arena, ExprId, VarId, id};
use rewrite::Rewriter;
use smallvec::SmallVec;

id! {
    /// An iterator of an [`IterMap`].
    pub MarkId
}

/// `var` runs over `min .. min + extent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VarRange {
    /// The variable.
    pub var: VarId,
    /// Its first value.
    pub min: ExprId,
    /// The number of its values.
    pub extent: ExprId,
}

/// The source of an iterator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MarkSource {
    /// A variable of the domain minus its minimum.
    Expr(ExprId),
    /// A fusion of other iterators.
    Sum(IterSum),
}

/// An iterator from 0 to `extent - 1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IterMark {
    /// The variable or sum that is iterated.
    pub source: MarkSource,
    /// Number of values of the iterator.
    pub extent: ExprId,
}

/// `(mark // lower_factor) % extent * scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IterSplit {
    /// The iterator that is split.
    pub mark: MarkId,
    /// Divisor of the iterator.
    pub lower_factor: ExprId,
    /// Number of values of the part.
    pub extent: ExprId,
    /// Factor of the part.
    pub scale: ExprId,
}

/// `args[0] + … + base`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IterSum {
    /// The parts of iterators, outermost first.
    pub args: SmallVec<[IterSplit; 2]>,
    /// The part of the sum in which no iterator occurs.
    pub base: ExprId,
}

impl IterSum {
    fn new(args: &[IterSplit], base: ExprId) -> IterSum {
        IterSum { args: SmallVec::from_slice(args), base }
    }
}

/// Requirement on how indices map the domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IterMapLevel {
    /// The indices meet every point of the index space exactly once, and use every iterator.
    Bijective,
    /// The indices meet every point of the index space.
    Surjective,
    /// Indices need only be splits and fusions.
    NoCheck,
}

/// Indices as sums of splits.
#[derive(Clone, Debug)]
pub struct IterMap {
    /// The iterators, by id.
    pub marks: Vec<IterMark>,
    /// One sum per index, each of at most one split.
    pub indices: Vec<IterSum>,
    /// Condition over the variables of the domain: true at points that were added to make a division exact.
    pub padding_predicate: ExprId,
}

impl IterMap {
    /// The iterator.
    pub fn mark(&self, m: MarkId) -> &IterMark {
        &self.marks[m.index()]
    }
}

/// The reason why indices are not an iterator map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IterMapError {
    /// The range of an iterator depends on another.
    #[error("the range of an iterator depends on another iterator")]
    DependentIterators,
    /// The predicate is no conjunction of comparisons.
    #[error("the predicate is not a conjunction of comparisons of iterators with bounds")]
    Predicate(ExprId),
    /// A comparison in the predicate bounds no fused iterator.
    #[error("a comparison in the predicate does not bound a fusion of iterators")]
    Constraint(ExprId),
    /// Constraints overlap in some of their iterators.
    #[error("constraints of the predicate overlap in some of their iterators")]
    OverlappingConstraints,
    /// An iterator occurs in an operation that neither splits nor fuses.
    #[error("an iterator occurs in an operation that neither splits nor fuses it")]
    NotAffine(ExprId),
    /// Two iterators are multiplied.
    #[error("two iterators are multiplied with each other")]
    Product(ExprId),
    /// The divisor of a division contains an iterator.
    #[error("the divisor is an iterator")]
    IteratorDivisor(ExprId),
    /// A sum of iterators is no fused iterator.
    #[error("a sum of iterators is not a fusion: scales and extents do not fit")]
    NotFused,
    /// The scale of an iterator and the divisor do not divide each other.
    #[error("the scale of an iterator and the divisor do not divide each other")]
    Scale {
        /// The scale.
        scale: ExprId,
        /// The divisor.
        divisor: ExprId,
    },
    /// Padding to make divisions come out even differs between uses of an iterator.
    #[error("divisions of one iterator need different padding")]
    Padding,
    /// Splits overlap, or leave gaps.
    #[error("the indices are not independent")]
    NotIndependent,
    /// Some iterator is not used exactly once.
    #[error("the indices do not form a bijection with the iterators")]
    NotBijective,
}

/// Recognises indices over a domain as an iterator map, where `predicate` restricts the domain. With
/// `simplify_trivial_iterators`, iterators of extent 1 are replaced by their value.
///
/// # Errors
///
/// If the indices are not an iterator map, or do not map as `level` requires.
pub fn detect_iter_map(
    a: &mut Arena,
    indices: &[ExprId],
    domain: &[VarRange],
    predicate: ExprId,
    level: IterMapLevel,
    analyzer: &mut Analyzer,
    simplify_trivial_iterators: bool,
) -> Result<IterMap, IterMapError> {
    check_domain(a, domain)?;
    let mut domain: SmallVec<[VarRange; 8]> = SmallVec::from_slice(domain);
    let mut constraints = Vec::new();
    if !a.is_int(predicate, 1) {
        predicate::match_constraints(a, predicate, &mut domain, &mut constraints)?;
    }
    // Constraints on parts come before constraints on what the parts are fused into.
    constraints.sort_by_key(|c| c.size);
    let mut rewriter = Rewriter::new(a, analyzer, &domain, level, simplify_trivial_iterators);
    for c in &constraints {
        rewriter.rewrite_constraint(c)?;
    }
    if !rewriter.constraints_nest() {
        return Err(IterMapError::OverlappingConstraints);
    }
    // The first round learns how much padding is needed; the second one uses the same padding for all uses.
    let mut sums = Vec::with_capacity(indices.len());
    let pads = level != IterMapLevel::Bijective;
    if pads {
        rewriter.collects_padding = true;
        for &e in indices {
            sums.push(rewriter.rewrite(e)?);
        }
        rewriter.collects_padding = false;
    }
    if !pads || rewriter.requires_padding {
        sums.clear();
        for &e in indices {
            sums.push(rewriter.rewrite(e)?);
        }
    }
    rewriter.check_mapping(&sums, level)?;
    Ok(IterMap { indices: sums, padding_predicate: rewriter.padding_predicate, marks: rewriter.marks })
}

/// The indices written as simply as their iterator map allows; unchanged if they are not an iterator map.
pub fn iter_map_simplify(
    a: &mut Arena,
    indices: &[ExprId],
    domain: &[VarRange],
    predicate: ExprId,
    level: IterMapLevel,
    analyzer: &mut Analyzer,
    simplify_trivial_iterators: bool,
) -> Vec<ExprId> {
    let mut map = detect_iter_map(a, indices, domain, predicate, level, analyzer, simplify_trivial_iterators);
    if map.is_err() && !a.is_int(predicate, 1) && level != IterMapLevel::Bijective {
        // A fact about the whole domain holds for a part of it too.
        let whole = a.bool(true);
        map = detect_iter_map(a, indices, domain, whole, level, analyzer, simplify_trivial_iterators);
    }
    match map {
        Ok(map) => map.indices.iter().map(|sum| to_expr::sum_to_expr(a, analyzer, &map.marks, sum)).collect(),
        Err(_) => indices.to_vec(),
    }
}

/// An index as a sum of splits by descending scale. The base contains the parts that are not splits (TVM's
/// `NormalizeToIterSum`).
///
/// # Errors
///
/// If the range of an iterator depends on another.
#[cfg(test)]
pub fn normalize_to_iter_sum(
    a: &mut Arena,
    index: ExprId,
    domain: &[VarRange],
    analyzer: &mut Analyzer,
) -> Result<IterMap, IterMapError> {
    check_domain(a, domain)?;
    let mut rewriter = Rewriter::new(a, analyzer, domain, IterMapLevel::NoCheck, true);
    let sum = rewriter.rewrite_to_normal_sum(index);
    let padding_predicate = rewriter.padding_predicate;
    Ok(IterMap { marks: rewriter.marks, indices: vec![sum], padding_predicate })
}

fn check_domain(a: &Arena, domain: &[VarRange]) -> Result<(), IterMapError> {
    let mut is_iterator = |v: VarId| domain.iter().any(|r| r.var == v);
    let dependent =
        domain.iter().any(|r| uses_var(a, r.min, &mut is_iterator) || uses_var(a, r.extent, &mut is_iterator));
    if dependent { Err(IterMapError::DependentIterators) } else { Ok(()) }
}
