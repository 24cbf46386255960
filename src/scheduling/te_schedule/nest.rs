//! Instructions on nests of loops that have been changed, as calls that come before those changes.
//!
//! In a schedule of tensor expressions `cache_write`, `rfactor` and `compute_at` come before what is said of a stage's axes: the stage
//! gets them anew. Instructions find loops that were split before, and keep them or drop them. So the earlier calls are moved here.

use super::Mistake;
use super::attach::Attach;
use super::axis::AxisId;
use super::cached::Cache;
use super::relation::Relation;
use super::stage::{Definition, StageId, Stages};
use crate::diagnostic::Span;
use hashbrown::HashMap;

/// Partial results of a reduction whose axes were replaced before.
pub(super) struct FactoredNest {
    /// The stage of the partial results.
    pub(super) partial: StageId,
    /// Its axis over which the reduction combines them.
    pub(super) factored: AxisId,
    /// The axis of the reduction that combines them.
    pub(super) combined: AxisId,
}

impl Stages {
    /// Forgets what became of the axes of a stage, whose loops are made anew.
    ///
    /// # Errors
    /// Another stage is computed in its loops.
    pub(super) fn forget_nest(&mut self, stage: StageId) -> Result<(), Mistake> {
        let is_attached = |s: StageId| matches!(self.stage(s).attach.0, Attach::At(parent, _) if parent == stage);
        if let Some(other) = self.ids().find(|&s| is_attached(s)) {
            let (name, other) = (&self.stage(stage).name, &self.stage(other).name);
            return Err(Mistake::new(format!("`{name}` shares its loops with `{other}`")));
        }
        let s = self.stage_mut(stage);
        (s.leaves, s.relations) = (s.axes.clone(), Vec::new());
        s.notes.retain(|(note, _)| note.axis().is_none());
        Ok(())
    }

    /// As [`Stages::cache_write`], of a stage whose axes may have been replaced: the calls on them are calls on the new stage, which
    /// has its loops. An instruction does this; a call of a schedule of tensor expressions comes first.
    ///
    /// # Errors
    /// The stage is an input, or computed in a loop of another stage.
    pub(super) fn cache_write_of_nest(&mut self, of: StageId, scope: &str, at: Span) -> Result<StageId, Mistake> {
        let before = self.stage(of).clone();
        let s = self.stage_mut(of);
        (s.leaves, s.relations, s.notes) = (s.axes.clone(), Vec::new(), Vec::new());
        let copy = self.cache_write(of, scope, at)?;
        let of_copy = self.stage(copy).axes.clone();
        let now = |axis: AxisId| before.axes.iter().position(|&a| a == axis).map_or(axis, |p| of_copy[p]);
        let relations = before.relations.iter().map(|(r, at)| (r.map(&now), *at)).collect();
        let (of_loops, of_tensor): (Vec<_>, Vec<_>) = before.notes.into_iter().partition(|(n, _)| n.axis().is_some());
        let of_loops = of_loops.into_iter().map(|(n, at)| (n.axis().map(now).map_or(n.clone(), |a| n.of_axis(a)), at));
        let of_loops = of_loops.collect();
        let s = self.stage_mut(copy);
        (s.leaves, s.relations, s.notes) = (before.leaves.iter().map(|&a| now(a)).collect(), relations, of_loops);
        self.stage_mut(of).notes = of_tensor;
        for id in self.ids() {
            if let (Attach::At(parent, axis), at) = self.stage(id).attach
                && parent == of
            {
                self.attach(id, Attach::At(copy, now(axis)), at)?;
            }
        }
        Ok(copy)
    }

    /// As [`Stages::rfactor`], of a reduction whose other axes may have been replaced: both stages have the loops that it had.
    ///
    /// # Errors
    /// Those of [`Stages::rfactor`], except that the others may have been replaced.
    pub(super) fn rfactor_of_nest(
        &mut self,
        of: StageId,
        axis: AxisId,
        dimension: i64,
        at: Span,
    ) -> Result<FactoredNest, Mistake> {
        let before = self.stage(of).clone();
        let s = self.stage_mut(of);
        (s.leaves, s.relations) = (s.axes.clone(), Vec::new());
        let (of_reduced, of_spatial): (Vec<_>, Vec<_>) = (before.relations.iter())
            .filter(|(r, _)| !matches!(r, Relation::Reorder(_)))
            .partition(|(r, _)| matches!(r, Relation::Split { parent: a, .. } | Relation::Fuse { fused: a, .. } if self.axis(*a).is_reduced()));
        for (relation, at) in of_reduced {
            self.repeat(of, relation, *at)?;
        }
        let partial = self.rfactor(of, axis, dimension, at)?;
        let Definition::Cache(Cache::Factor(factor)) = self.stage(partial).definition.clone() else {
            return Err(Mistake::new("the partial results have no stage"));
        };
        // The axes of the partial results, for those of the reduction.
        let mut made = self.stage(partial).axes.clone();
        let factored = made.remove(factor.dimension);
        let is_reduced = |a: &AxisId| self.axis(*a).is_reduced();
        let spatial = before.axes.iter().filter(|a| !is_reduced(a));
        let reduced = factor.leaves.iter().filter(|a| **a != axis && is_reduced(a));
        let mut now: HashMap<AxisId, AxisId> = spatial.chain(reduced).copied().zip(made).collect();
        now.insert(axis, factored);
        for (relation, at) in of_spatial {
            self.repeat(of, relation, *at)?;
            let image = |a: &AxisId| now.get(a).copied().unwrap_or(*a);
            match relation {
                Relation::Split { parent, parts, sizes } => {
                    let made = self.split(partial, image(parent), sizes.clone(), *at)?;
                    now.extend(parts.iter().copied().zip(made));
                }
                Relation::Fuse { parts, fused } => {
                    let parts: Vec<AxisId> = parts.iter().map(image).collect();
                    self.bring_together(partial, &parts, *at)?;
                    let made = self.fuse(partial, &parts, *at)?;
                    now.insert(*fused, made);
                }
                Relation::Reorder(_) => {}
            }
        }
        let of_partial: Vec<AxisId> = before.leaves.iter().filter_map(|a| now.get(a).copied()).collect();
        let stays = |a: &&AxisId| **a == axis || !self.axis(**a).is_reduced();
        let of_result: Vec<AxisId> =
            (before.leaves.iter().filter(stays)).map(|&a| if a == axis { factor.combined } else { a }).collect();
        self.arrange(partial, &of_partial, at)?;
        self.arrange(of, &of_result, at)?;
        Ok(FactoredNest { partial, factored, combined: factor.combined })
    }
}
