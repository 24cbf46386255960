//! Division of indices into an outer and an inner part.
//!
//! Given loops, some of which are inner, an index is written as `outer * inner_extent + inner`, with `outer` over the
//! outer loops and `inner` over the inner ones. Blockizing a loop nest needs this form.

use super::check::collect_splits;
use super::{
    IterMap, IterMapLevel, IterMark, IterSplit, IterSum, MarkId, MarkSource, VarRange, detect_iter_map, to_expr,
};
use crate::arith::analyzer::Analyzer;
use crate::ir::expr::{Arena, ExprId, VarId};

/// A side of a division.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A part of one iterator.
    Split(IterSplit),
    /// A sum.
    Sum(IterSum),
}

/// One index as `outer * inner_extent + inner`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Division {
    /// Over the outer loops.
    pub outer: Part,
    /// The number of values of `outer`.
    pub outer_extent: ExprId,
    /// Over the inner loops.
    pub inner: Part,
    /// The number of values of `inner`.
    pub inner_extent: ExprId,
}

/// The indices after the division.
#[derive(Clone, Debug)]
pub struct Subspaces {
    /// The iterators that the parts refer to.
    pub marks: Vec<IterMark>,
    /// One per index.
    pub divisions: Vec<Division>,
    /// The part of the predicate over the outer loops.
    pub outer_predicate: ExprId,
    /// The part of the predicate over the inner loops.
    pub inner_predicate: ExprId,
}

impl Subspaces {
    /// The expression of a part.
    pub fn to_expr(&self, a: &mut Arena, analyzer: &mut Analyzer, part: &Part) -> ExprId {
        match part {
            Part::Split(split) => to_expr::split_to_expr(a, analyzer, &self.marks, split),
            Part::Sum(sum) => to_expr::sum_to_expr(a, analyzer, &self.marks, sum),
        }
    }
}

/// Divides indices over a domain by which loops are inner. `None` where they are no iterator map or do not divide.
#[expect(clippy::too_many_arguments, reason = "the arguments of TVM's `SubspaceDivide`")]
pub fn subspace_divide(
    a: &mut Arena,
    indices: &[ExprId],
    domain: &[VarRange],
    inner_vars: &[VarId],
    predicate: ExprId,
    level: IterMapLevel,
    analyzer: &mut Analyzer,
    simplify_trivial_iterators: bool,
) -> Option<Subspaces> {
    let map = detect_iter_map(a, indices, domain, predicate, level, analyzer, simplify_trivial_iterators).ok()?;
    let IterMap { marks, indices, .. } = map;
    let splits = collect_splits(&marks, &indices);
    let always = a.bool(true);
    let mut divider = Divider {
        a,
        analyzer,
        marks,
        splits,
        inner_vars,
        known: Vec::new(),
        outer_predicate: always,
        inner_predicate: always,
    };
    let mut divisions = Vec::with_capacity(indices.len());
    for sum in &indices {
        let zero = divider.a.int(0, divider.a.dtype(sum.base));
        let Divided { outer, outer_extent, inner, inner_extent, .. } = divider.divide_sum(sum, zero)?;
        divisions.push(Division { outer, outer_extent, inner, inner_extent });
    }
    let Divider { marks, outer_predicate, inner_predicate, .. } = divider;
    Some(Subspaces { marks, divisions, outer_predicate, inner_predicate })
}

/// The side on which a divided part lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Inner,
    Outer,
    Both,
}

#[derive(Clone, Debug)]
struct Divided {
    outer: Part,
    outer_extent: ExprId,
    inner: Part,
    inner_extent: ExprId,
    side: Side,
}

struct Divider<'a> {
    a: &'a mut Arena,
    analyzer: &'a mut Analyzer,
    marks: Vec<IterMark>,
    splits: Vec<(MarkId, Vec<IterSplit>)>,
    inner_vars: &'a [VarId],
    known: Vec<(IterSplit, Divided)>,
    outer_predicate: ExprId,
    inner_predicate: ExprId,
}

impl Divider<'_> {
    fn nothing(&mut self, like: ExprId) -> (Part, ExprId) {
        let dtype = self.a.dtype(like);
        let zero = self.a.int(0, dtype);
        (Part::Sum(IterSum::new(&[], zero)), self.a.int(1, dtype))
    }

    fn inner(&mut self, part: Part, extent: ExprId) -> Divided {
        let (outer, outer_extent) = self.nothing(extent);
        Divided { outer, outer_extent, inner: part, inner_extent: extent, side: Side::Inner }
    }

    fn outer(&mut self, part: Part, extent: ExprId) -> Divided {
        let (inner, inner_extent) = self.nothing(extent);
        Divided { outer: part, outer_extent: extent, inner, inner_extent, side: Side::Outer }
    }

    fn divide_sum(&mut self, sum: &IterSum, mark_extent: ExprId) -> Option<Divided> {
        let dtype = self.a.dtype(sum.base);
        let (zero, one) = (self.a.int(0, dtype), self.a.int(1, dtype));
        match sum.args.as_slice() {
            [] => {
                let (outer, outer_extent) = self.nothing(sum.base);
                let inner = Part::Sum(IterSum::new(&[], sum.base));
                return Some(Divided { outer, outer_extent, inner, inner_extent: one, side: Side::Both });
            }
            [split] => {
                if !self.a.is_int(split.scale, 1) {
                    return None;
                }
                let mut divided = self.divide_split(split)?;
                if !self.a.is_int(sum.base, 0) {
                    divided.inner = match divided.inner {
                        Part::Split(split) => Part::Sum(IterSum::new(&[split], sum.base)),
                        Part::Sum(inner) => Part::Sum(IterSum { base: self.a.add(inner.base, sum.base), ..inner }),
                    };
                }
                return Some(divided);
            }
            _ => {}
        }
        // All outer digits must precede the inner ones.
        let mut extent = one;
        let (mut outer_args, mut inner_args) = (Vec::new(), Vec::new());
        let mut still_inner = true;
        for split in sum.args.iter().rev() {
            let divided = self.divide_split(split)?;
            if divided.side == Side::Outer && !self.is_zero(&divided.inner) {
                // The division would lose the offset of an outer digit.
                return None;
            }
            let (part, part_extent, args) = match divided.side {
                Side::Inner if still_inner => (divided.inner, divided.inner_extent, &mut inner_args),
                Side::Outer => {
                    still_inner = false;
                    (divided.outer, divided.outer_extent, &mut outer_args)
                }
                Side::Inner | Side::Both => return None,
            };
            let part = match part {
                Part::Split(split) => split,
                Part::Sum(sum) => {
                    self.marks.push(IterMark { source: MarkSource::Sum(sum), extent: part_extent });
                    let mark = MarkId(self.marks.len() as u32 - 1);
                    IterSplit { mark, lower_factor: one, extent: part_extent, scale: one }
                }
            };
            // Digits that overlap or leave gaps cannot be renumbered, although TVM does so.
            if !self.analyzer.can_prove_equal(self.a, split.scale, extent) {
                return None;
            }
            extent = self.a.mul(extent, part.extent);
            args.push(part);
        }
        let (outer, outer_extent) = self.digits(&outer_args, zero);
        let (inner, inner_extent) = self.digits(&inner_args, sum.base);
        if !self.analyzer.can_prove_equal(self.a, extent, mark_extent) {
            // The sum is constrained: it must lie on one side as a whole, and the constraint goes with it.
            if inner_args.is_empty() && self.a.is_int(sum.base, 0) {
                let bound = self.below(&outer, mark_extent);
                self.outer_predicate = self.a.and(self.outer_predicate, bound);
                return Some(self.outer(Part::Sum(outer), mark_extent));
            }
            if outer_args.is_empty() {
                let bound = self.below(&inner, mark_extent);
                self.inner_predicate = self.a.and(self.inner_predicate, bound);
                return Some(self.inner(Part::Sum(inner), mark_extent));
            }
            return None;
        }
        Some(Divided { outer: Part::Sum(outer), outer_extent, inner: Part::Sum(inner), inner_extent, side: Side::Both })
    }

    fn below(&mut self, sum: &IterSum, extent: ExprId) -> ExprId {
        let e = to_expr::sum_to_expr(self.a, self.analyzer, &self.marks, sum);
        self.a.lt(e, extent)
    }

    /// The sum of digits, given from the innermost on, and its number of values.
    fn digits(&mut self, args: &[IterSplit], base: ExprId) -> (IterSum, ExprId) {
        let mut extent = self.a.int(1, self.a.dtype(base));
        let mut digits = Vec::with_capacity(args.len());
        for &arg in args {
            digits.push(IterSplit { scale: extent, ..arg });
            extent = self.a.mul(extent, arg.extent);
        }
        digits.reverse();
        (IterSum::new(&digits, base), extent)
    }

    fn divide_split(&mut self, split: &IterSplit) -> Option<Divided> {
        if let Some((_, known)) = self.known.iter().find(|k| k.0 == *split) {
            return Some(known.clone());
        }
        let splits = self.splits.iter().find(|s| s.0 == split.mark)?.1.clone();
        let IterMark { source, extent } = self.marks[split.mark.index()].clone();
        match source {
            MarkSource::Expr(e) => {
                let v = self.a.as_var(e)?;
                let is_inner = self.inner_vars.contains(&v);
                for s in splits {
                    let divided = if is_inner {
                        self.inner(Part::Split(s), s.extent)
                    } else {
                        self.outer(Part::Split(s), s.extent)
                    };
                    self.known.push((s, divided));
                }
            }
            MarkSource::Sum(sum) => {
                // source = Y * E + X: the splits must have a boundary where X ends.
                let whole = self.divide_sum(&sum, extent)?;
                if splits.len() == 1 {
                    let covers = self.a.is_int(split.lower_factor, 1)
                        && self.analyzer.can_prove_equal(self.a, split.extent, extent);
                    return if covers { Some(whole) } else { self.part_of_side(split, whole) };
                }
                let (Part::Sum(outer), Part::Sum(inner)) = (&whole.outer, &whole.inner) else { return None };
                let outer_mark = self.new_mark(outer.clone(), whole.outer_extent);
                let inner_mark = self.new_mark(inner.clone(), whole.inner_extent);
                if whole.side == Side::Outer && !self.is_zero(&whole.inner) {
                    return None;
                }
                let (mut outers, mut inners) = (Vec::new(), Vec::new());
                let mut beyond = whole.side == Side::Outer;
                let mut used = vec![false; splits.len()];
                let mut lower = self.a.int(1, self.a.dtype(sum.base));
                for _ in &splits {
                    let next = (0..splits.len())
                        .find(|&j| !used[j] && self.analyzer.can_prove_equal(self.a, splits[j].lower_factor, lower))?;
                    used[next] = true;
                    if beyond { &mut outers } else { &mut inners }.push(splits[next]);
                    lower = self.a.mul(lower, splits[next].extent);
                    beyond = beyond || self.analyzer.can_prove_equal(self.a, lower, whole.inner_extent);
                }
                if !beyond {
                    return None;
                }
                for s in inners {
                    let part = Part::Split(IterSplit { mark: inner_mark, ..s });
                    let divided = self.inner(part, s.extent);
                    self.known.push((s, divided));
                }
                let first = outers.first().map(|s| s.lower_factor);
                for s in outers {
                    let lower_factor = self.a.floor_div(s.lower_factor, first?);
                    let part = Part::Split(IterSplit { mark: outer_mark, lower_factor, ..s });
                    let divided = self.outer(part, s.extent);
                    self.known.push((s, divided));
                }
            }
        }
        self.known.iter().find(|k| k.0 == *split).map(|k| k.1.clone())
    }

    fn is_zero(&self, part: &Part) -> bool {
        matches!(part, Part::Sum(sum) if sum.args.is_empty() && self.a.is_int(sum.base, 0))
    }

    /// Divides a split that covers a part of its iterator, which must lie on one side.
    fn part_of_side(&mut self, split: &IterSplit, whole: Divided) -> Option<Divided> {
        match (whole.side, whole.outer, whole.inner) {
            (Side::Outer, Part::Sum(outer), inner) if self.is_zero(&inner) => {
                let mark = self.new_mark(outer, whole.outer_extent);
                Some(self.outer(Part::Split(IterSplit { mark, ..*split }), split.extent))
            }
            (Side::Inner, _, Part::Sum(inner)) => {
                let mark = self.new_mark(inner, whole.inner_extent);
                Some(self.inner(Part::Split(IterSplit { mark, ..*split }), split.extent))
            }
            _ => None,
        }
    }

    fn new_mark(&mut self, sum: IterSum, extent: ExprId) -> MarkId {
        self.marks.push(IterMark { source: MarkSource::Sum(sum), extent });
        MarkId(self.marks.len() as u32 - 1)
    }
}
