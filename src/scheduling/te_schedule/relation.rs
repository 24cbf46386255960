//! What becomes of the axes of a stage: `split`, `fuse`, `reorder`.

use super::Mistake;
use super::axis::{Axis, AxisId, Size};
use super::stage::{StageId, Stages};
use crate::diagnostic::Span;
use crate::ir::IterKind;

/// A replacement of axes.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// An axis becomes several, outermost first. One may lack its size, which follows from the others.
    Split {
        /// The axis.
        parent: AxisId,
        /// What it becomes.
        parts: Vec<AxisId>,
        /// The numbers of their iterations.
        sizes: Vec<Option<Size>>,
    },
    /// Neighbouring axes become one.
    Fuse {
        /// The axes, outermost first.
        parts: Vec<AxisId>,
        /// What they become.
        fused: AxisId,
    },
    /// These axes take the places of one another.
    Reorder(Vec<AxisId>),
}

impl Relation {
    /// Whether the relation replaces or makes an axis.
    pub fn mentions(&self, axis: AxisId) -> bool {
        match self {
            Relation::Split { parent, parts, .. } => *parent == axis || parts.contains(&axis),
            Relation::Fuse { parts, fused } => *fused == axis || parts.contains(&axis),
            Relation::Reorder(axes) => axes.contains(&axis),
        }
    }

    /// The relation with other axes in the places of its axes.
    #[must_use]
    pub(super) fn map(&self, now: &impl Fn(AxisId) -> AxisId) -> Relation {
        let all = |axes: &[AxisId]| axes.iter().map(|&a| now(a)).collect();
        match self {
            Relation::Split { parent, parts, sizes } => {
                Relation::Split { parent: now(*parent), parts: all(parts), sizes: sizes.clone() }
            }
            Relation::Fuse { parts, fused } => Relation::Fuse { parts: all(parts), fused: now(*fused) },
            Relation::Reorder(axes) => Relation::Reorder(all(axes)),
        }
    }
}

impl Stages {
    /// The position of an axis among those that a stage has now.
    ///
    /// # Errors
    /// It has been replaced, or is another stage's.
    pub fn leaf(&self, stage: StageId, axis: AxisId) -> Result<usize, Mistake> {
        let s = self.stage(stage);
        if let Some(position) = s.leaves.iter().position(|&a| a == axis) {
            return Ok(position);
        }
        let name = &self.axis(axis).name;
        Err(match self.owner(axis) {
            Some((owner, _)) if owner == stage => {
                let replaced = |r: &Relation| match r {
                    Relation::Split { parent, .. } if *parent == axis => Some("split"),
                    Relation::Fuse { parts, .. } if parts.contains(&axis) => Some("fused"),
                    _ => None,
                };
                let how = s.relations.iter().find_map(|(r, _)| replaced(r)).unwrap_or("replaced");
                let leaves: Vec<&str> = s.leaves.iter().map(|&a| self.axis(a).name.as_str()).collect();
                Mistake::new(format!("the axis `{name}` of `{}` was {how}", s.name))
                    .help(format!("use one that it has now: `{}`", leaves.join("`, `")))
            }
            Some((owner, _)) => {
                let other = &self.stage(owner).name;
                Mistake::new(format!("`{name}` is an axis of `{other}`, not of `{}`", s.name))
                    .help(format!("take an axis of `s[{}].op.axis`, or one that a call on this stage returned", s.name))
            }
            None => Mistake::new(format!("`{}` has no axis `{name}`", s.name)),
        })
    }

    /// Splits an axis into parts of these sizes, outermost first, one of which may follow from the others.
    ///
    /// # Errors
    /// The axis is not one of the stage's, or sizes are not possible.
    pub fn split(
        &mut self,
        stage: StageId,
        axis: AxisId,
        sizes: Vec<Option<Size>>,
        at: Span,
    ) -> Result<Vec<AxisId>, Mistake> {
        let position = self.leaf(stage, axis)?;
        if let Some(size) = sizes.iter().flatten().find(|s| s.value < 1) {
            return Err(Mistake::new(format!("cannot split into parts of {} iterations", size.value)));
        }
        if sizes.iter().filter(|s| s.is_none()).count() > 1 {
            return Err(Mistake::new("one size at most can follow from the others"));
        }
        let parent = self.axis(axis).clone();
        let known = sizes.iter().flatten().try_fold(1i64, |product, s| product.checked_mul(s.value));
        let rest = || Some(parent.extent?.max(0).div_ceil_of(known?));
        let names: Vec<String> = match sizes.len() {
            2 => vec![format!("{}.outer", parent.name), format!("{}.inner", parent.name)],
            n => (0..n).map(|i| format!("{}.{i}", parent.name)).collect(),
        };
        let extents: Vec<Option<i64>> = sizes.iter().map(|s| s.as_ref().map_or_else(rest, |s| Some(s.value))).collect();
        let parts: Vec<AxisId> = (names.into_iter().zip(extents))
            .map(|(name, extent)| self.add_axis(Axis { name, kind: parent.kind, extent, var: None }))
            .collect();
        self.replace(stage, position, Relation::Split { parent: axis, parts: parts.clone(), sizes }, at);
        Ok(parts)
    }

    /// Replaces axes from a position on, as a split or a fusion says.
    pub(super) fn replace(&mut self, stage: StageId, position: usize, relation: Relation, at: Span) {
        let s = self.stage_mut(stage);
        match &relation {
            Relation::Split { parts, .. } => drop(s.leaves.splice(position..=position, parts.iter().copied())),
            Relation::Fuse { parts, fused } => drop(s.leaves.splice(position..position + parts.len(), [*fused])),
            Relation::Reorder(_) => {}
        }
        s.relations.push((relation, at));
    }

    /// Fuses neighbouring axes.
    ///
    /// # Errors
    /// They are not axes of the stage, no neighbours, or of both kinds.
    pub fn fuse(&mut self, stage: StageId, axes: &[AxisId], at: Span) -> Result<AxisId, Mistake> {
        let [first, rest @ ..] = axes else { return Err(Mistake::new("there is no axis to fuse")) };
        if rest.is_empty() {
            return Ok(*first);
        }
        let position = self.leaf(stage, *first)?;
        for (i, &axis) in axes.iter().enumerate() {
            if self.leaf(stage, axis)? != position + i {
                let names: Vec<&str> = axes.iter().map(|&a| self.axis(a).name.as_str()).collect();
                let message = format!("the axes `{}` do not follow on each other", names.join("`, `"));
                return Err(Mistake::new(message)
                    .help("call `reorder` first, so that each stands directly inside the one before"));
            }
        }
        let parts: Vec<&Axis> = axes.iter().map(|&a| self.axis(a)).collect();
        let kind = parts[0].kind;
        if parts.iter().any(|a| a.kind != kind) {
            return Err(Mistake::new("an axis that is reduced cannot be fused with one that is not"));
        }
        let name = parts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(".") + ".fused";
        let extent = parts.iter().try_fold(1i64, |product, a| product.checked_mul(a.extent?));
        let fused = self.add_axis(Axis { name, kind, extent, var: None });
        self.replace(stage, position, Relation::Fuse { parts: axes.to_vec(), fused }, at);
        Ok(fused)
    }

    /// Puts axes into this order; the others keep their places.
    ///
    /// # Errors
    /// They are not axes of the stage, or one is given twice.
    pub fn reorder(&mut self, stage: StageId, axes: &[AxisId], at: Span) -> Result<(), Mistake> {
        let mut places = Vec::with_capacity(axes.len());
        for &axis in axes {
            let place = self.leaf(stage, axis)?;
            if places.contains(&place) {
                return Err(Mistake::new(format!("the axis `{}` is given twice", self.axis(axis).name)));
            }
            places.push(place);
        }
        if axes.len() < 2 {
            return Ok(());
        }
        let s = self.stage_mut(stage);
        permute(&mut s.leaves, axes);
        s.relations.push((Relation::Reorder(axes.to_vec()), at));
        Ok(())
    }

    /// Puts all axes of a stage into this order; only those between the first and the last that move are mentioned.
    ///
    /// # Errors
    /// They are not the axes of the stage.
    pub(super) fn arrange(&mut self, stage: StageId, wanted: &[AxisId], at: Span) -> Result<(), Mistake> {
        let leaves = &self.stage(stage).leaves;
        let differs = |i: &usize| leaves.get(*i) != wanted.get(*i);
        let Some(first) = (0..wanted.len()).find(differs) else { return Ok(()) };
        let last = (0..wanted.len()).rev().find(differs).unwrap_or(first);
        self.reorder(stage, &wanted[first..=last], at)
    }

    /// Makes one new order of those that follow on each other without a split or a fusion between them.
    ///
    /// # Errors
    /// None that the calls have not found before.
    pub(super) fn merge_orders(&mut self, stage: StageId) -> Result<(), Mistake> {
        let s = self.stage_mut(stage);
        let relations = std::mem::take(&mut s.relations);
        s.leaves = s.axes.clone();
        let mut wanted: Option<(Vec<AxisId>, Span)> = None;
        for (relation, at) in relations {
            if let Relation::Reorder(axes) = &relation {
                let (order, _) = wanted.get_or_insert_with(|| (self.stage(stage).leaves.clone(), at));
                permute(order, axes);
                continue;
            }
            if let Some((order, at)) = wanted.take() {
                self.arrange(stage, &order, at)?;
            }
            self.repeat(stage, &relation, at)?;
        }
        match wanted {
            Some((order, at)) => self.arrange(stage, &order, at),
            None => Ok(()),
        }
    }

    /// Replaces axes of a stage as it was done before: the new axes are the same.
    pub(super) fn repeat(&mut self, stage: StageId, relation: &Relation, at: Span) -> Result<(), Mistake> {
        let first = match relation {
            Relation::Split { parent, .. } => *parent,
            Relation::Fuse { parts, .. } => {
                self.bring_together(stage, parts, at)?;
                parts[0]
            }
            Relation::Reorder(axes) => return self.reorder(stage, axes, at),
        };
        let position = self.leaf(stage, first)?;
        self.replace(stage, position, relation.clone(), at);
        Ok(())
    }

    /// Reorders axes so that these follow on each other, as they must to be fused.
    pub(super) fn bring_together(&mut self, stage: StageId, axes: &[AxisId], at: Span) -> Result<(), Mistake> {
        let Some((first, others)) = axes.split_first() else { return Ok(()) };
        let mut wanted = Vec::new();
        for &leaf in &self.stage(stage).leaves {
            if leaf == *first {
                wanted.extend_from_slice(axes);
            } else if !others.contains(&leaf) {
                wanted.push(leaf);
            }
        }
        self.arrange(stage, &wanted, at)
    }

    /// Whether axes that are not reduced were split or fused.
    pub(super) fn has_changed_spatial(&self, stage: StageId) -> bool {
        let is_spatial = |a: &AxisId| self.axis(*a).kind != IterKind::Reduce;
        self.stage(stage).relations.iter().any(|(r, _)| match r {
            Relation::Split { parent, .. } => is_spatial(parent),
            Relation::Fuse { fused, .. } => is_spatial(fused),
            Relation::Reorder(_) => false,
        })
    }
}

/// Puts axes into this order, in the places that they have among all.
fn permute(all: &mut [AxisId], axes: &[AxisId]) {
    let places: Vec<usize> = (0..all.len()).filter(|&i| axes.contains(&all[i])).collect();
    for (place, &axis) in places.into_iter().zip(axes) {
        all[place] = axis;
    }
}

/// Division that rounds up.
trait DivCeil {
    fn div_ceil_of(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_of(self, by: i64) -> i64 {
        self / by + i64::from(self % by != 0)
    }
}
