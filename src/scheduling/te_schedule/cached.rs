//! Stages that calls make: copies of tensors, and partial results of reductions.

use super::Mistake;
use super::attach::Attach;
use super::axis::{Axis, AxisId};
use super::relation::Relation;
use super::stage::{Definition, Stage, StageId, Stages};
use crate::diagnostic::Span;
use crate::ir::IterKind;

/// A stage that a call made.
#[derive(Clone, PartialEq, Debug)]
pub enum Cache {
    /// A copy of a stage's tensor, which these stages read instead.
    Read {
        /// The stage that is copied.
        of: StageId,
        /// The memory of the copy.
        scope: String,
        /// The stages that read the copy.
        readers: Vec<StageId>,
        /// The call.
        at: Span,
    },
    /// It computes what another stage computed, which is a copy of it now.
    Write {
        /// The stage that is a copy now.
        of: StageId,
        /// The memory in which this stage computes.
        scope: String,
        /// The call.
        at: Span,
    },
    /// The partial results of a reduction.
    Factor(Box<Factor>),
}

/// Partial results of a reduction, one for each iteration of an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Factor {
    /// The reduction, which combines the partial results now.
    pub of: StageId,
    /// The axis of the reduction.
    pub axis: AxisId,
    /// The axis over which the reduction combines the partial results.
    pub combined: AxisId,
    /// The dimension of the partial results that the axis becomes.
    pub dimension: usize,
    /// What had become of the reduction's axes at the call.
    pub relations: Vec<(Relation, Span)>,
    /// Its axes as defined, at the call.
    pub axes: Vec<AxisId>,
    /// Its axes in their order at the call.
    pub leaves: Vec<AxisId>,
    /// The call.
    pub at: Span,
}

impl Stages {
    /// Copies the tensor of a stage for some of the stages that read it.
    ///
    /// # Errors
    /// A reader does not read the stage.
    pub fn cache_read(&mut self, of: StageId, scope: &str, readers: &[StageId], at: Span) -> Result<StageId, Mistake> {
        let name = self.stage(of).name.clone();
        if readers.is_empty() {
            return Err(Mistake::new(format!("no stage is named that reads the copy of `{name}`"))
                .help("name the stages that read it: `s.cache_read(A, \"local\", [C])`"));
        }
        for &reader in readers {
            let reader = self.stage(reader);
            if !reader.reads.contains(&of) {
                let mut d = Mistake::new(format!("`{}` does not read `{name}`", reader.name));
                let all: Vec<&str> = self.readers(of).into_iter().map(|r| self.stage(r).name.as_str()).collect();
                if !all.is_empty() {
                    d = d.help(format!("it is read by `{}`", all.join("`, `")));
                }
                return Err(d);
            }
        }
        let axes = match self.stage(of).definition {
            // An input has no axes: they are those of its dimensions, which its first reader need not have.
            Definition::Input(_) => self.stage(of).axes.clone(),
            _ => self.axes_of(of, IterKind::Spatial),
        };
        let axes = axes.into_iter().enumerate().map(|(i, a)| Axis {
            name: format!("ax{i}"),
            var: None,
            ..self.axis(a).clone()
        });
        let axes = axes.collect();
        let cache = Cache::Read { of, scope: scope.to_owned(), readers: readers.to_vec(), at };
        let copy = self.add(&format!("{name}.{scope}"), Definition::Cache(cache), axes, vec![of]);
        for &reader in readers {
            self.stage_mut(reader).reads.iter_mut().filter(|r| **r == of).for_each(|r| *r = copy);
        }
        Ok(copy)
    }

    /// Makes a stage that computes what `of` computes; `of` becomes the copy of its tensor.
    ///
    /// # Errors
    /// The stage is an input, or its axes have been replaced.
    pub fn cache_write(&mut self, of: StageId, scope: &str, at: Span) -> Result<StageId, Mistake> {
        let stage = self.stage(of).clone();
        self.require_untouched(&stage, "cache_write")?;
        let axes: Vec<Axis> = stage.axes.iter().map(|&a| self.axis(a).clone()).collect();
        let cache = Cache::Write { of, scope: scope.to_owned(), at };
        let name = format!("{}.{scope}", stage.name);
        let copy = self.add(&name, Definition::Cache(cache), axes, stage.reads);
        let kept = self.axes_of(of, IterKind::Spatial);
        let s = self.stage_mut(of);
        (s.axes, s.leaves, s.reads) = (kept.clone(), kept, vec![copy]);
        Ok(copy)
    }

    /// Makes a stage of the partial results of a reduction, one for each iteration of an axis. Its axes are that one at the
    /// position `dimension` (-1 is the last), those of the reduction's tensor, and what else is reduced.
    ///
    /// # Errors
    /// The stage is no reduction, the axis is not reduced, or other axes have been replaced.
    pub fn rfactor(&mut self, of: StageId, axis: AxisId, dimension: i64, at: Span) -> Result<StageId, Mistake> {
        let stage = self.stage(of).clone();
        self.leaf(of, axis)?;
        if !self.axis(axis).is_reduced() {
            return Err(Mistake::new(format!("the axis `{}` is not reduced", self.axis(axis).name))
                .help(format!("take one of `s[{0}].op.reduce_axis`, or a part of it", stage.name)));
        }
        if self.has_changed_spatial(of) {
            return Err(Mistake::new(format!(
                "`rfactor` comes before axes of `{}` that are not reduced are split",
                stage.name
            ))
            .help("split the others after `rfactor`: the stage gets its axes anew"));
        }
        if !stage.notes.is_empty() || stage.attach.0 != Attach::Root {
            return Err(Mistake::new(format!(
                "`rfactor` comes before what is said of loops and place of `{}`",
                stage.name
            ))
            .help("call it first: the stage gets its axes anew"));
        }
        let spatial = self.axes_of(of, IterKind::Spatial);
        let n = spatial.len() as i64 + 1;
        let position = if dimension < 0 { dimension + n } else { dimension };
        let Some(position) = usize::try_from(position).ok().filter(|&p| p < n as usize) else {
            return Err(Mistake::new(format!(
                "the partial results have {n} dimensions, found `factor_axis` {dimension}"
            )));
        };
        let mut axes: Vec<Axis> = spatial.iter().map(|&a| self.axis(a).clone()).collect();
        axes.insert(position, Axis { kind: IterKind::Spatial, ..self.axis(axis).clone() });
        let others = stage.leaves.iter().filter(|&&a| a != axis && self.axis(a).is_reduced());
        axes.extend(others.map(|&a| self.axis(a).clone()));
        let factored = self.axis(axis).clone();
        let combined = self.add_axis(Axis { name: format!("{}.v", factored.name), var: None, ..factored });
        let factor = Factor {
            of,
            axis,
            combined,
            dimension: position,
            relations: stage.relations,
            axes: stage.axes,
            leaves: stage.leaves,
            at,
        };
        let definition = Definition::Cache(Cache::Factor(Box::new(factor)));
        let partial = self.add(&format!("{}.rf", stage.name), definition, axes, stage.reads);
        let s = self.stage_mut(of);
        s.axes = spatial;
        s.axes.push(combined);
        (s.leaves, s.relations, s.reads) = (s.axes.clone(), Vec::new(), vec![partial]);
        Ok(partial)
    }

    /// Refuses a call that makes a stage anew after calls on its axes.
    fn require_untouched(&self, stage: &Stage, call: &str) -> Result<(), Mistake> {
        let name = &stage.name;
        if matches!(stage.definition, Definition::Input(_)) {
            return Err(Mistake::new(format!("`{name}` is an input, which is not computed"))
                .help("copy it by `s.cache_read(…)`"));
        }
        if stage.relations.is_empty() && stage.notes.is_empty() && stage.attach.0 == Attach::Root {
            return Ok(());
        }
        Err(Mistake::new(format!("`{call}` comes before other calls on `{name}`"))
            .help("call it first: the stage gets its axes anew"))
    }
}
