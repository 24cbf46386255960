//! Steps of the auto-scheduler, carried out on the stages of a program.
//!
//! A step counts stages and axes as the steps before left them: `CHW`, `CHR` and `RF` insert a stage, `SP` and `FU` replace axes.

use super::Untranslated;
use super::stages::Numbered;
use super::step::{Annotation, Sizes, Step};
use crate::diagnostic::Span;
use crate::ir::Func;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, FuncIndex};
use crate::te_schedule::{Attach, AxisId, LoopUse, Mistake, Note, Refusal, RefusalCause, StageId, Stages, translate};

/// Carries out steps on a function of a program.
///
/// # Errors
/// A step does not fit the program, is for other devices, or an instruction is refused.
pub fn replay(steps: &[Step], schedule: &mut Schedule, func: FuncIndex) -> Result<(), Untranslated> {
    let stages = scheduled(steps, schedule.func(func))?;
    translate(&stages, schedule, func).map_err(|refusal| refused(steps, &refusal))
}

/// The stages of a function, with what steps say of them.
///
/// # Errors
/// A step does not fit the function, or is for other devices.
pub fn scheduled(steps: &[Step], func: &Func) -> Result<Stages, Untranslated> {
    let Numbered { stages, order } = Numbered::of(func)?;
    let mut state = State { stages, order };
    for (i, step) in steps.iter().enumerate() {
        // The text of a schedule is the list of its steps.
        let at = Span::new(i, i + 1);
        state.apply(step, steps, at).map_err(|why| match why {
            Wrong::Misfit(detail) => misfit(i, &detail),
            Wrong::Foreign(reason, detail) => Untranslated::new(reason, format!("step {i}: {detail}")),
        })?;
    }
    Ok(state.stages)
}

fn misfit(step: usize, detail: &str) -> Untranslated {
    Untranslated::new("a step does not fit the program", format!("step {step}: {detail}"))
}

fn refused(steps: &[Step], refusal: &Refusal) -> Untranslated {
    let step = refusal.at.range().start.min(steps.len());
    match &refusal.cause {
        RefusalCause::Mistake(m) => misfit(step, &m.message),
        RefusalCause::Schedule(e) => Untranslated::new("an instruction is refused", format!("step {step}: {e}")),
    }
}

/// Why a step cannot be carried out.
enum Wrong {
    /// It does not fit what it is applied to.
    Misfit(String),
    /// It asks for something that does not exist here: the reason, and what it asks for.
    Foreign(&'static str, String),
}

impl From<Mistake> for Wrong {
    fn from(m: Mistake) -> Wrong {
        Wrong::Misfit(m.message)
    }
}

impl From<String> for Wrong {
    fn from(message: String) -> Wrong {
        Wrong::Misfit(message)
    }
}

struct State {
    stages: Stages,
    /// The stages as steps count them.
    order: Vec<StageId>,
}

impl State {
    fn apply(&mut self, step: &Step, steps: &[Step], at: Span) -> Result<(), Wrong> {
        match step {
            Step::Annotate { stage, axis, how } => {
                let (stage, axis) = self.axis(*stage, *axis)?;
                let how = match how {
                    Annotation::None => return Ok(()),
                    Annotation::Unroll => LoopUse::Unroll,
                    Annotation::Vectorize => LoopUse::Vectorize,
                    Annotation::Parallel => LoopUse::Parallel,
                    Annotation::Gpu(thread) => {
                        return Err(Wrong::Foreign("it is for GPUs", format!("binds a loop to `{thread}`")));
                    }
                    Annotation::Tensorize => {
                        let detail = "the log does not name the intrinsic".to_owned();
                        return Err(Wrong::Foreign("it uses an intrinsic", detail));
                    }
                };
                self.stages.note(stage, Note::Loop(axis, how), at)?;
            }
            Step::Fuse { stage, axes } => {
                let id = self.stage(*stage)?;
                let parts = axes.iter().map(|&a| Ok(self.axis(*stage, a)?.1)).collect::<Result<Vec<_>, Wrong>>()?;
                let fused = self.stages.fuse(id, &parts, at)?;
                // What is computed in the innermost of them is computed in the fused one.
                if let Some(&last) = parts.last() {
                    self.stages.move_attached(id, last, fused)?;
                }
            }
            Step::Pragma { stage, axis, pragma } => {
                let (stage, axis) = self.axis(*stage, *axis)?;
                let steps = pragma.strip_prefix("auto_unroll_max_step$").map(str::parse::<i64>);
                let Some(Ok(steps)) = steps else {
                    return Err(Wrong::Foreign(
                        "it has a pragma that is not known",
                        format!("the pragma is `{pragma}`"),
                    ));
                };
                // TVM's steps of this kind also ask for unrolled code, instead of leaving it to LLVM.
                for (key, value) in [("auto_unroll_max_step", steps), ("unroll_explicit", 1)] {
                    self.stages.note(stage, Note::Pragma(axis, key.to_owned(), Arg::Int(value)), at)?;
                }
            }
            Step::Reorder { stage, order } => {
                let id = self.stage(*stage)?;
                let n = self.stages.stage(id).leaves.len();
                if order.len() != n {
                    return Err(
                        format!("orders {} axes, and `{}` has {n}", order.len(), self.stages.stage(id).name).into()
                    );
                }
                let axes = order.iter().map(|&a| Ok(self.axis(*stage, a)?.1)).collect::<Result<Vec<_>, Wrong>>()?;
                self.stages.reorder(id, &axes, at)?;
            }
            Step::Split { stage, axis, extent, sizes, given } => {
                let (_, id) = self.axis(*stage, *axis)?;
                let known = self.stages.axis(id);
                if let (Some(expected), Some(found)) = (extent, known.extent)
                    && *expected != found
                    && self.has_extents(*stage)?
                {
                    let detail = format!("splits an axis of {expected} iterations, and `{}` has {found}", known.name);
                    return Err(Wrong::Foreign("it is for another shape", detail));
                }
                self.split(*stage, *axis, sizes, *given, at)?;
            }
            Step::FollowSplit { stage, axis, source, parts } => {
                let sizes = sizes_of(steps, *source, at)?;
                if *parts == 0 || *parts > sizes.len() + 1 {
                    return Err(format!("cannot split like step {source} into {parts} parts").into());
                }
                // Those that are not taken one by one are the innermost part.
                let (taken, rest) = sizes.split_at((*parts - 1).min(sizes.len()));
                let rest = rest.iter().try_fold(1i64, |product, s| product.checked_mul(*s));
                let Some(rest) = rest else { return Err("the sizes are too large".to_owned().into()) };
                self.split(*stage, *axis, &[taken, &[rest]].concat(), Sizes::Inner, at)?;
            }
            Step::FollowFusedSplit { stage, axis, sources, level, given } => {
                let mut size = 1i64;
                for &source in sources {
                    let factor = sizes_of(steps, source, at)?.get(*level).copied();
                    let Some(product) = factor.and_then(|f| size.checked_mul(f)) else {
                        return Err(format!("step {source} has no size at level {level}").into());
                    };
                    size = product;
                }
                self.split(*stage, *axis, &[size], *given, at)?;
            }
            Step::StorageAlign { stage, axis, factor, offset } => {
                let (id, axis) = self.axis(*stage, *axis)?;
                let Some(dimension) = self.stages.stage(id).axes.iter().position(|&a| a == axis) else {
                    let detail = "the axis is no dimension of the tensor".to_owned();
                    return Err(Wrong::Foreign("it aligns parts of a dimension", detail));
                };
                self.stages.note(id, Note::StorageAlign(dimension, *factor, *offset), at)?;
            }
            Step::ComputeAt { stage, target, axis } => {
                let (id, (target, axis)) = (self.stage(*stage)?, self.axis(*target, *axis)?);
                self.stages.attach(id, Attach::At(target, axis), at)?;
            }
            Step::ComputeInline { stage } => {
                let id = self.stage(*stage)?;
                self.stages.attach(id, Attach::Inline, at)?;
            }
            Step::ComputeRoot { stage } => {
                let id = self.stage(*stage)?;
                self.stages.attach(id, Attach::Root, at)?;
            }
            Step::CacheRead { stage, scope, readers } => {
                let id = self.stage(*stage)?;
                let readers = readers.iter().map(|&r| self.stage(r)).collect::<Result<Vec<_>, Wrong>>()?;
                let copy = self.stages.cache_read(id, scope, &readers, at)?;
                self.order.insert(*stage + 1, copy);
            }
            Step::CacheWrite { stage, scope } => {
                let id = self.stage(*stage)?;
                let computing = self.stages.cache_write(id, scope, at)?;
                self.order.insert(*stage, computing);
            }
            Step::Rfactor { stage, axis, dimension } => {
                let (id, axis) = self.axis(*stage, *axis)?;
                let dimension = i64::try_from(*dimension).unwrap_or(i64::MAX);
                let partial = self.stages.rfactor(id, axis, dimension, at)?;
                self.order.insert(*stage, partial);
            }
        }
        Ok(())
    }

    fn stage(&self, position: usize) -> Result<StageId, Wrong> {
        let n = self.order.len();
        self.order.get(position).copied().ok_or_else(|| format!("names stage {position} of {n}").into())
    }

    fn axis(&self, stage: usize, position: usize) -> Result<(StageId, AxisId), Wrong> {
        let id = self.stage(stage)?;
        let s = self.stages.stage(id);
        match s.leaves.get(position) {
            Some(&axis) => Ok((id, axis)),
            None => Err(format!("names axis {position} of `{}`, which has {}", s.name, s.leaves.len()).into()),
        }
    }

    /// Whether the loops of a stage have the extents of its axes: in a loop of another stage, they may have less.
    fn has_extents(&self, stage: usize) -> Result<bool, Wrong> {
        let id = self.stage(stage)?;
        Ok(!matches!(self.stages.stage(id).attach.0, Attach::At(..)))
    }

    fn split(&mut self, stage: usize, axis: usize, sizes: &[i64], given: Sizes, at: Span) -> Result<(), Wrong> {
        let (id, axis) = self.axis(stage, axis)?;
        if sizes.is_empty() {
            return Ok(());
        }
        let sizes = sizes.iter().map(|&s| Some(s.into()));
        let sizes = match given {
            Sizes::Inner => std::iter::once(None).chain(sizes).collect(),
            Sizes::Outer => sizes.chain([None]).collect(),
        };
        let parts = self.stages.split(id, axis, sizes, at)?;
        // What is computed in an axis that is split is computed in its innermost part.
        if let Some(&inner) = parts.last() {
            self.stages.move_attached(id, axis, inner)?;
        }
        Ok(())
    }
}

/// The sizes of an earlier split.
fn sizes_of(steps: &[Step], source: usize, at: Span) -> Result<&[i64], Wrong> {
    let before = at.range().start;
    match steps.get(source) {
        Some(Step::Split { sizes, .. }) if source < before => Ok(sizes),
        _ => Err(format!("splits like step {source}, which is no earlier split").into()),
    }
}
