//! Checks whether the splits of all indices together are a map of the requested kind.

use super::rewrite::Rewriter;
use super::{IterMapError, IterMapLevel, IterMark, IterSplit, IterSum, MarkId, MarkSource};
use crate::ir::expr::ExprId;
use crate::ir::op::CmpOp;

/// All iterators that sums refer to, and the splits of each, in order of occurrence.
pub(super) fn collect_splits(marks: &[IterMark], sums: &[IterSum]) -> Vec<(MarkId, Vec<IterSplit>)> {
    let mut found = Vec::new();
    for sum in sums {
        collect(marks, sum, &mut found);
    }
    found
}

fn collect(marks: &[IterMark], sum: &IterSum, found: &mut Vec<(MarkId, Vec<IterSplit>)>) {
    for split in &sum.args {
        let at = match found.iter().position(|f| f.0 == split.mark) {
            Some(at) => at,
            None => {
                found.push((split.mark, Vec::new()));
                let at = found.len() - 1;
                if let MarkSource::Sum(source) = &marks[split.mark.index()].source {
                    collect(marks, source, found);
                }
                at
            }
        };
        found[at].1.push(*split);
    }
}

impl Rewriter<'_> {
    /// Checks that the splits of each iterator do not overlap, and for a bijection that they cover all iterators.
    pub(super) fn check_mapping(&mut self, sums: &[IterSum], level: IterMapLevel) -> Result<(), IterMapError> {
        let error = match level {
            IterMapLevel::Bijective => IterMapError::NotBijective,
            IterMapLevel::Surjective | IterMapLevel::NoCheck => IterMapError::NotIndependent,
        };
        let found = collect_splits(&self.marks, sums);
        for (mark, splits) in &found {
            if !self.splits_fit(*mark, splits, level) {
                return Err(error);
            }
        }
        if level == IterMapLevel::Bijective {
            let unused =
                |m: &MarkId| !found.iter().any(|f| f.0 == *m) && !self.a.is_int(self.marks[m.index()].extent, 1);
            if self.inputs.iter().any(unused) {
                return Err(error);
            }
        }
        Ok(())
    }

    fn splits_fit(&mut self, mark: MarkId, splits: &[IterSplit], level: IterMapLevel) -> bool {
        let extent = self.marks[mark.index()].extent;
        // From the innermost on, each split must start where the last one ended. If not all iterations must be covered,
        // some may be left out.
        let mut used = vec![false; splits.len()];
        let mut lower = self.a.int(1, self.mark_dtype(mark));
        for _ in splits {
            let next = (0..splits.len()).find(|&j| !used[j] && self.equal(splits[j].lower_factor, lower));
            let next = match next {
                Some(j) => j,
                None if level == IterMapLevel::Bijective => return false,
                None => match self.next_beyond(splits, &used, lower) {
                    Some(j) => j,
                    None => return false,
                },
            };
            used[next] = true;
            lower = self.a.mul(splits[next].lower_factor, splits[next].extent);
        }
        let original = self.padded_from.iter().find(|p| p.0 == mark).map(|p| self.marks[p.1.index()].extent);
        let covers_all = self.equal(lower, extent);
        let divides = covers_all || self.divides(lower, extent);
        match (level, original) {
            (IterMapLevel::Bijective, original) => original.is_none() && covers_all,
            (_, None) => divides,
            (IterMapLevel::NoCheck, Some(_)) => true,
            (IterMapLevel::Surjective, Some(original)) => {
                let long_enough = |r: &mut Self| r.proves(CmpOp::Ge, original, lower);
                if covers_all {
                    // Padding may be hidden in the outermost part of a single split.
                    splits.len() == 1 && (!self.equal(splits[0].extent, lower) || long_enough(self))
                } else {
                    divides && long_enough(self)
                }
            }
        }
    }

    /// The unused split with the smallest lower factor, if all unused ones start at multiples of `lower`.
    fn next_beyond(&mut self, splits: &[IterSplit], used: &[bool], lower: ExprId) -> Option<usize> {
        let mut best: Option<usize> = None;
        for i in 0..splits.len() {
            if used[i] {
                continue;
            }
            if !self.divides(lower, splits[i].lower_factor) {
                return None;
            }
            if best.is_none_or(|b| self.divides(splits[i].lower_factor, splits[b].lower_factor)) {
                best = Some(i);
            }
        }
        best
    }
}
