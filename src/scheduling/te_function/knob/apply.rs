//! What the chosen candidate of a knob does to a stage.

use super::super::arguments::Bound;
use super::super::library::{Result, Run};
use super::super::scheduling::{axes_of, axis_of, stage_of, wrong};
use super::super::value::{Own, Value};
use super::{Way, rejected};
use crate::ir::Symbol;
use crate::te_schedule::{Attach, LoopUse, Note, Size, StageId};

/// The schedule and the stage of an `apply`.
fn target(run: &Run<'_>, bound: &Bound) -> Result<(usize, StageId)> {
    let Value::Own(Own::Schedule(schedule)) = bound.get("sch").0 else {
        return bound.wrong(run, "sch", "the schedule");
    };
    let (op, at) = bound.get("op");
    Ok((schedule, stage_of(run, schedule, &op, at)?))
}

pub(super) fn split(run: &mut Run<'_>, sizes: &[Size], bound: &Bound) -> Result<Value> {
    let (schedule, stage) = target(run, bound)?;
    let (axis, at) = bound.get("axis");
    let axis = axis_of(run, schedule, stage, &axis, at)?;
    let stages = &mut run.library.scheduling.created[schedule].stages;
    let parts = match sizes {
        [] => vec![axis],
        _ => {
            let sizes = std::iter::once(None).chain(sizes.iter().cloned().map(Some)).collect();
            stages.split(stage, axis, sizes, bound.span).map_err(|m| wrong(bound.span, m))?
        }
    };
    run.list(parts.into_iter().map(|a| Value::Own(Own::StageAxis(schedule, a))).collect(), false, bound.span)
}

pub(super) fn reorder(run: &mut Run<'_>, order: &[usize], bound: &Bound) -> Result<Value> {
    let (schedule, stage) = target(run, bound)?;
    let (axes, at) = bound.get("axes");
    let axes = axes_of(run, schedule, stage, &[axes], at)?;
    let new: Vec<_> = order.iter().filter_map(|&i| axes.get(i).copied()).collect();
    let stages = &mut run.library.scheduling.created[schedule].stages;
    stages.reorder(stage, &new, bound.span).map_err(|m| wrong(bound.span, m))?;
    run.list(new.into_iter().map(|a| Value::Own(Own::StageAxis(schedule, a))).collect(), false, bound.span)
}

pub(super) fn annotate(run: &mut Run<'_>, ways: &[Way], bound: &Bound) -> Result<Value> {
    let (schedule, stage) = target(run, bound)?;
    let (axes, at) = bound.get("axes");
    let mut axes = axes_of(run, schedule, stage, &[axes], at)?;
    let ints = |run: &mut Run<'_>, name: &str| -> Result<Option<Vec<i64>>> {
        match bound.get(name) {
            (Value::None, _) => Ok(None),
            (value, at) => Ok(run.iterate(value, at)?.iter().map(|v| v.int(&run.library)).collect()),
        }
    };
    let (lengths, lanes) = (ints(run, "axis_lens")?, ints(run, "vec_size")?);
    let max_unroll = bound.get("max_unroll").0.int(&run.library).filter(|&m| m > 0);
    let length = |i: usize| lengths.as_ref().and_then(|l| l.get(i)).copied();
    let is_drawn = run.library.scheduling.sampler.is_some();
    let sources = match bound.get("source") {
        (Value::None, _) => None,
        (value, at) => Some((run.iterate(value, at)?, at)),
    };
    if let Some((sources, at)) = sources {
        for (source, way) in sources.into_iter().zip(ways) {
            let Way::At(to) = way else { continue };
            let Some(&axis) = axes.get(*to) else { return bound.wrong(run, "axes", "as many axes as the knob has") };
            for tensor in run.iterate(source, at)? {
                let moved = stage_of(run, schedule, &tensor, at)?;
                let stages = &mut run.library.scheduling.created[schedule].stages;
                stages.attach(moved, Attach::At(stage, axis), bound.span).map_err(|m| wrong(bound.span, m))?;
            }
        }
    } else {
        for (i, way) in ways.iter().enumerate() {
            let Way::Named(way) = way else { continue };
            let Some(&axis) = axes.get(i) else { return bound.wrong(run, "axes", "as many axes as the knob has") };
            let how = match way.as_str() {
                "none" => continue,
                "unroll" => {
                    if is_drawn && matches!((length(i), max_unroll), (Some(n), Some(max)) if n > max) {
                        return Err(rejected(bound.span, "too many iterations to unroll".to_owned()));
                    }
                    LoopUse::Unroll
                }
                "vec" => {
                    if is_drawn && matches!((length(i), &lanes), (Some(n), Some(lanes)) if !lanes.contains(&n)) {
                        return Err(rejected(bound.span, "no number of lanes of a vector".to_owned()));
                    }
                    LoopUse::Vectorize
                }
                "fuse" => {
                    let Some(&next) = axes.get(i + 1) else { continue };
                    let stages = &mut run.library.scheduling.created[schedule].stages;
                    axes[i + 1] = stages.fuse(stage, &[axis, next], bound.span).map_err(|m| wrong(bound.span, m))?;
                    continue;
                }
                thread => LoopUse::Bind(Symbol::new(thread)),
            };
            let stages = &mut run.library.scheduling.created[schedule].stages;
            stages.note(stage, Note::Loop(axis, how), bound.span).map_err(|m| wrong(bound.span, m))?;
        }
    }
    run.list(axes.into_iter().map(|a| Value::Own(Own::StageAxis(schedule, a))).collect(), false, bound.span)
}
