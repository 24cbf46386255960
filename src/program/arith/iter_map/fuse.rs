//! Fuses a sum of splits into one iterator.

use super::rewrite::{Fused, Rewriter};
use super::{IterMapLevel, IterSplit, IterSum, MarkId, MarkSource};
use crate::arith::canonical::{collect_factors, mul_and_normalize};
use crate::ir::expr::ExprId;
use crate::ir::op::{BinOp, CmpOp};
use smallvec::{SmallVec, smallvec};

/// Whether both splits are the same part of the same iterator.
pub(super) fn same_part(x: &IterSplit, y: &IterSplit) -> bool {
    x.mark == y.mark && x.lower_factor == y.lower_factor && x.extent == y.extent
}

impl Rewriter<'_> {
    /// A sum as `mark * scale + base`, if its splits are digits of one number: from the smallest scale on, the next
    /// scale is the product of the last one and its extent.
    ///
    /// With `may_skip`, a sum that merges to a single split is returned without making a new iterator of it.
    pub(super) fn try_fuse(&mut self, sum: &IterSum, level: IterMapLevel, may_skip: bool) -> Option<IterSum> {
        let merged = self.merge_same_source(sum);
        if let Some(merged) = &merged
            && merged.args.len() <= 1
            && may_skip
        {
            return Some(merged.clone());
        }
        let sum = merged.as_ref().unwrap_or(sum);
        let args = &sum.args;
        let mut visited: SmallVec<[bool; 8]> = smallvec![false; args.len()];
        let base_index = self.smallest(args, &visited, None, args.len())?;
        let base_scale = args[base_index].scale;
        let zero = self.zero_like(sum.base);
        let (mut extra_base, mut tail_extent) = (zero, zero);
        let mut expected_scale = base_scale;
        let (mut flat, mut grouped): (SmallVec<[IterSplit; 4]>, SmallVec<[IterSplit; 4]>) = Default::default();
        let unit = self.first_unit(args);
        let mut n_matched = 0;
        while n_matched < args.len() {
            let exact = if n_matched == 0 {
                Some(base_index)
            } else {
                self.with_scale(args, &visited, expected_scale, None, args.len(), unit)
            };
            let (at, matched_scale) = match exact {
                Some(at) => (at, expected_scale),
                None if level != IterMapLevel::Bijective && self.a.is_int(base_scale, 1) => {
                    self.closest_below(args, &visited, expected_scale)?
                }
                None => return None,
            };
            // Gaps between digits count as values of the last one.
            if exact.is_none() {
                let gap = self.a.sub(expected_scale, matched_scale);
                tail_extent = self.a.add(tail_extent, gap);
            }
            if let Some(constraint) = self.longest_constraint(&args[at]) {
                // The constrained digits are one digit, with the extent that the constraint leaves.
                for part in constraint.args.iter().rev() {
                    let scale = self.a.mul(part.scale, matched_scale);
                    let k = (0..args.len())
                        .find(|&k| !visited[k] && same_part(&args[k], part) && self.equal(scale, args[k].scale))?;
                    visited[k] = true;
                    flat.push(args[k]);
                }
                let fused = self.fused_of(&constraint)?;
                let scale = self.a.floor_div(matched_scale, base_scale);
                let mut whole = self.whole(fused.mark);
                whole.scale = scale;
                grouped.push(whole);
                let shift = self.a.mul(fused.offset, matched_scale);
                extra_base = self.a.add(extra_base, shift);
                expected_scale = mul_and_normalize(self.a, whole.extent, matched_scale);
                n_matched += constraint.args.len();
            } else {
                visited[at] = true;
                let scale = self.a.floor_div(args[at].scale, base_scale);
                let digit = IterSplit { scale: self.analyzer.simplify(self.a, scale), ..args[at] };
                flat.push(digit);
                grouped.push(digit);
                expected_scale = mul_and_normalize(self.a, args[at].extent, matched_scale);
                n_matched += 1;
            }
        }
        flat.reverse();
        grouped.reverse();
        let flat = IterSum { args: SmallVec::from_slice(&flat), base: zero };
        let structured = IterSum { args: SmallVec::from_slice(&grouped), base: zero };
        let base = self.a.add(sum.base, extra_base);
        let mark = match self.fused_of(&flat) {
            Some(known) => {
                // A constraint learnt meanwhile may have moved the start.
                let shift = self.a.mul(known.offset, base_scale);
                if !self.equal(extra_base, shift) {
                    return None;
                }
                known.mark
            }
            None => {
                let extent = self.a.binary(BinOp::Div, expected_scale, base_scale);
                let extent = self.a.add(extent, tail_extent);
                let mark = self.new_mark(MarkSource::Sum(structured.clone()), extent);
                self.fused.push((flat.clone(), Fused { mark, offset: extra_base }));
                self.set_flat(structured, flat);
                mark
            }
        };
        let mut whole = self.whole(mark);
        whole.scale = base_scale;
        Some(IterSum::new(&[whole], base))
    }

    /// Learns that `lower <= sum < upper`; `None` where the sum is no fused iterator.
    pub(super) fn constrain(&mut self, mut sum: IterSum, lower: Option<ExprId>, upper: Option<ExprId>) -> Option<()> {
        let base = sum.base;
        let shifted = |r: &mut Self, end: Option<ExprId>| {
            if r.a.is_int(base, 0) { end } else { end.map(|e| r.a.sub(e, base)) }
        };
        let (lower, upper) = (shifted(self, lower), shifted(self, upper));
        sum.base = self.zero_like(base);
        if sum.args.is_empty() {
            return None;
        }
        let level = self.level;
        let fused = self.try_fuse(&sum, level, false)?;
        let &[split] = fused.args.as_slice() else { return None };
        if !self.a.is_int(split.scale, 1) {
            return None;
        }
        let MarkSource::Sum(mut structured) = self.marks[split.mark.index()].source.clone() else { return None };
        let flat = self.flat.iter().find(|x| x.0 == structured).map(|x| x.1.clone())?;
        let known = self.fused_of(&flat)?;
        let extent = self.marks[known.mark.index()].extent;
        let mut min = known.offset;
        let mut max = self.a.add(min, extent);
        if let Some(lower) = lower {
            let raised = self.a.max(lower, min);
            let delta = self.a.sub(raised, min);
            min = raised;
            if !self.a.is_int(delta, 0) {
                self.flat.retain(|x| x.0 != structured);
                structured.base = self.a.sub(structured.base, delta);
                self.set_flat(structured.clone(), flat.clone());
            }
        }
        if let Some(upper) = upper {
            // A predicate is meant to constrain: its bound is preferred if that is provably no loss.
            max = if self.proves(CmpOp::Le, upper, max) { upper } else { self.a.min(upper, max) };
        }
        let extent = self.a.sub(max, min);
        let mark = self.new_mark(MarkSource::Sum(structured), extent);
        let entry = Fused { mark, offset: min };
        match self.fused.iter_mut().find(|x| x.0 == flat) {
            Some(known) => known.1 = entry,
            None => self.fused.push((flat.clone(), entry)),
        }
        self.constrained.push(flat);
        Some(())
    }

    /// The sum with each scale written as symbols times a constant, by descending constant, then number of symbols.
    #[cfg(test)]
    pub(super) fn normal_sum(&mut self, sum: IterSum) -> IterSum {
        if sum.args.is_empty() {
            return sum;
        }
        let sum = self.merge_same_source(&sum).unwrap_or(sum);
        let mut items: Vec<(i64, usize, IterSplit)> = Vec::new();
        for &split in &sum.args {
            let mut factors = Vec::new();
            collect_factors(self.a, split.scale, &mut factors);
            let constant = factors.iter().filter_map(|&f| self.a.as_int(f)).fold(1i64, i64::saturating_mul);
            let n_symbols = factors.iter().filter(|&&f| self.a.as_int(f).is_none()).count();
            let one = self.a.int(1, self.a.dtype(split.scale));
            let scale = mul_and_normalize(self.a, split.scale, one);
            items.push((constant, n_symbols, IterSplit { scale, ..split }));
        }
        items.sort_by_key(|&(constant, n_symbols, _)| std::cmp::Reverse((constant, n_symbols)));
        IterSum { args: items.into_iter().map(|x| x.2).collect(), base: sum.base }
    }

    /// Whether any two constraints either share no iterator or are nested.
    pub(super) fn constraints_nest(&self) -> bool {
        let all = &self.constrained;
        (0..all.len()).all(|i| {
            all[i + 1..].iter().all(|longer| {
                let found = |x: &IterSplit| longer.args.iter().any(|y| x == y);
                let n = all[i].args.iter().filter(|x| found(x)).count();
                n == 0 || n == all[i].args.len()
            })
        })
    }

    fn fused_of(&self, flat: &IterSum) -> Option<Fused> {
        self.fused.iter().find(|x| x.0 == *flat).map(|x| x.1)
    }

    fn set_flat(&mut self, structured: IterSum, flat: IterSum) {
        match self.flat.iter_mut().find(|x| x.0 == structured) {
            Some(known) => known.1 = flat,
            None => self.flat.push((structured, flat)),
        }
    }

    /// The longest constrained sum that has this split as its innermost part.
    fn longest_constraint(&self, split: &IterSplit) -> Option<IterSum> {
        let mut best: Option<&IterSum> = None;
        for sum in &self.constrained {
            let ends_here = sum.args.last().is_some_and(|last| same_part(split, last));
            if ends_here && best.is_none_or(|b| b.args.len() < sum.args.len()) {
                best = Some(sum);
            }
        }
        best.cloned()
    }

    /// Merges adjacent splits of one iterator: `((x // (c*s)) % m) * s + (x // c) % s` becomes `(x // c) % (m*s)`.
    /// `None` if no two splits share an iterator.
    fn merge_same_source(&mut self, sum: &IterSum) -> Option<IterSum> {
        let args = &sum.args;
        let n_of = |mark: MarkId| args.iter().filter(|x| x.mark == mark).count();
        if args.iter().all(|x| n_of(x.mark) == 1) {
            return None;
        }
        let mut visited: SmallVec<[bool; 8]> = smallvec![false; args.len()];
        let mut reversed: SmallVec<[IterSplit; 4]> = SmallVec::new();
        let unit = self.first_unit(args);
        for last in (0..args.len()).rev() {
            while !visited[last] {
                if n_of(args[last].mark) == 1 {
                    visited[last] = true;
                    reversed.push(args[last]);
                    continue;
                }
                let source = Some(args[last].mark);
                let at = self.smallest(args, &visited, source, last + 1)?;
                visited[at] = true;
                let mut right = args[at];
                loop {
                    let scale = mul_and_normalize(self.a, right.extent, right.scale);
                    let Some(at) = self.with_scale(args, &visited, scale, Some(right.mark), last + 1, unit) else {
                        break;
                    };
                    let left = args[at];
                    let lower = mul_and_normalize(self.a, right.lower_factor, right.extent);
                    if !self.equal(left.lower_factor, lower) {
                        break;
                    }
                    visited[at] = true;
                    right.extent = mul_and_normalize(self.a, left.extent, right.extent);
                }
                reversed.push(right);
            }
        }
        reversed.reverse();
        Some(IterSum { args: SmallVec::from_slice(&reversed), base: sum.base })
    }

    /// The split with the smallest scale among the first `end`: constants before symbols, then fewer factors before
    /// more. A split of extent 1 wins ties.
    fn smallest(&self, args: &[IterSplit], skip: &[bool], source: Option<MarkId>, end: usize) -> Option<usize> {
        let candidates = || (0..end).rev().filter(|&i| !skip[i] && source.is_none_or(|m| m == args[i].mark));
        let is_unit = |i: usize| self.a.is_int(args[i].extent, 1);
        let mut best: Option<(usize, i64)> = None;
        for i in candidates() {
            let Some(scale) = self.a.as_int(args[i].scale) else { continue };
            let better = match best {
                None => true,
                Some((b, least)) => scale < least || (scale == least && is_unit(i) && !is_unit(b)),
            };
            if better {
                best = Some((i, scale));
            }
        }
        if let Some((i, _)) = best {
            return Some(i);
        }
        let n_factors = |i: usize| {
            let mut factors = Vec::new();
            collect_factors(self.a, args[i].scale, &mut factors);
            factors.len()
        };
        let mut best: Option<(usize, usize)> = None;
        for i in candidates() {
            let n = n_factors(i);
            if best.is_none_or(|b| n < b.1) {
                best = Some((i, n));
            }
        }
        best.map(|b| b.0)
    }

    fn first_unit(&self, args: &[IterSplit]) -> usize {
        args.iter().position(|x| self.a.is_int(x.extent, 1)).unwrap_or(args.len())
    }

    /// A split with this scale among the first `end`; one of extent 1 is preferred. No split before position `unit` has
    /// extent 1.
    fn with_scale(
        &mut self,
        args: &[IterSplit],
        skip: &[bool],
        scale: ExprId,
        source: Option<MarkId>,
        end: usize,
        unit: usize,
    ) -> Option<usize> {
        let mut found = None;
        for j in (0..end).rev() {
            if skip[j] || source.is_some_and(|m| m != args[j].mark) || !self.equal(args[j].scale, scale) {
                continue;
            }
            if self.a.is_int(args[j].extent, 1) {
                return Some(j);
            }
            found = found.or(Some(j));
            if j <= unit {
                return found;
            }
        }
        found
    }

    /// The split with the largest scale that is at most `scale`.
    fn closest_below(&mut self, args: &[IterSplit], skip: &[bool], scale: ExprId) -> Option<(usize, ExprId)> {
        let mut best: Option<(usize, ExprId)> = None;
        for j in (0..args.len()).rev() {
            if skip[j] {
                continue;
            }
            let candidate = args[j].scale;
            let room = self.a.sub(scale, candidate);
            if !self.analyzer.can_prove_greater_equal(self.a, room, 0)
                || !self.analyzer.can_prove_greater_equal(self.a, candidate, 0)
            {
                continue;
            }
            let better = match best {
                None => true,
                Some((_, known)) => {
                    let difference = self.a.sub(known, candidate);
                    self.analyzer.can_prove_less(self.a, difference, 0)
                }
            };
            if better {
                best = Some((j, candidate));
            }
        }
        best
    }
}
