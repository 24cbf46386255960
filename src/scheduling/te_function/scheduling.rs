//! Schedules of tensor expressions in texts: `te.create_schedule`, `s[C]`, the axes of stages.

use super::arguments::Bound;
use super::library::{Result, Run, count_tensors};
use super::value::{Own, Value, tensor};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::interpreter::Failure;
use crate::interpreter::type_error;
use crate::ir::{IterKind, Symbol};
use crate::schedule::Schedule;
use crate::schedule::arg::Rv;
use crate::te::Tensor;
use crate::te_schedule::{Axis, AxisId, Definition, Mistake, StageId, Stages};
use std::rc::Rc;

/// The schedules of a run.
#[derive(Default)]
pub(super) struct Scheduling {
    /// Those that the text created.
    pub created: Vec<Created>,
    /// The stages of a program that was given, instead of being defined by the text.
    pub given: Option<Created>,
    /// Where the program has the tensors of the text, in the order in which they are defined.
    pub places: Rc<[Definition]>,
    /// The schedule that draws the decisions of a template, if the text is carried out and not only read.
    pub sampler: Option<Schedule>,
    /// The candidates that knobs are given; `None` if they are drawn.
    pub presets: Option<Rc<[(String, super::knob::Preset)]>>,
    /// The knobs of a template.
    pub knobs: Vec<super::knob::Knob>,
    /// The loops of blocks that knobs have looked up.
    pub loops: Vec<(Symbol, Vec<Rv>)>,
}

/// A schedule of a text.
#[derive(Clone, Default)]
pub(super) struct Created {
    /// What the text said of the stages.
    pub stages: Stages,
    /// The stages of tensors.
    pub tensors: Vec<(Tensor, StageId)>,
}

impl Created {
    /// The stage of a tensor.
    pub(super) fn stage_of(&self, tensor: Tensor) -> Option<StageId> {
        self.tensors.iter().find(|(t, _)| *t == tensor).map(|(_, s)| *s)
    }

    /// The tensor of a stage.
    pub(super) fn tensor_of(&self, stage: StageId) -> Option<Tensor> {
        self.tensors.iter().find(|(_, s)| *s == stage).map(|(t, _)| *t)
    }
}

impl Scheduling {
    /// The stage of a tensor that is no definition of the text: a schedule made it, or it is one of a given program.
    fn foreign(&self, tensor: Tensor) -> Option<(&Created, StageId)> {
        let with = |c: &'_ Created| c.stage_of(tensor);
        self.created.iter().rev().chain(&self.given).find_map(|c| Some((c, with(c)?)))
    }
}

/// The error of a call that does not fit.
pub(super) fn wrong(span: Span, mistake: Mistake) -> Failure<super::library::Cause> {
    let help = (!mistake.help.is_empty()).then_some(mistake.help);
    Diagnostic::error_at("schedule", span, mistake.message).maybe_help(help).into()
}

/// `te.create_schedule(ops)`
pub(super) fn create(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let (ops, at) = bound.get("ops");
    let items = match &ops {
        Value::Sequence(s) => s.items.clone(),
        one => vec![one.clone()],
    };
    let mut outputs = Vec::with_capacity(items.len());
    for item in &items {
        match item {
            Value::Own(Own::Tensor(t) | Own::Operation(t)) => outputs.push(*t),
            _ => return bound.wrong(run, "ops", "an operation such as `C.op`, or a list of them"),
        }
    }
    if run.library.scheduling.created.len() >= 64 {
        return Err(Diagnostic::error_at("limit", at, "gave up after 64 schedules").into());
    }
    let created = match run.library.scheduling.given.clone() {
        Some(given) => given,
        None => {
            let mut created = Created::default();
            for &t in &outputs {
                add_stage(run, t, &mut created);
                if let Some(stage) = created.stage_of(t) {
                    created.stages.set_output(stage);
                }
            }
            run.step(created.tensors.len(), at)?;
            created
        }
    };
    run.library.scheduling.created.push(created);
    Ok(Value::Own(Own::Schedule(run.library.scheduling.created.len() - 1)))
}

/// Adds the stage of a tensor, after those that it reads.
fn add_stage(run: &Run<'_>, output: Tensor, created: &mut Created) {
    let te = &run.library.te;
    let mut open = vec![(output, false)];
    while let Some((t, ready)) = open.pop() {
        if created.stage_of(t).is_some() {
            continue;
        }
        let producers = te.producers(t);
        if !ready {
            open.push((t, true));
            open.extend(producers.iter().rev().map(|&p| (p, false)));
            continue;
        }
        let name = te.buffer_name(t);
        let reads = producers.iter().filter_map(|&p| created.stage_of(p)).collect();
        let place = run.library.scheduling.places.get(te.position(t)).cloned();
        let (definition, axes) = if te.is_computed(t) {
            let axis = |(a, reduced): (crate::te::DefinitionAxis, bool)| Axis {
                name: te.var(a.var).name.to_string(),
                kind: if reduced { IterKind::Reduce } else { IterKind::Spatial },
                extent: te.as_int(a.extent),
                var: Some(a.var),
            };
            (place.unwrap_or(Definition::Unplaced), te.stage_axes(t).into_iter().map(axis).collect())
        } else {
            let axis = |(i, &extent): (usize, &crate::ir::ExprId)| Axis {
                name: format!("ax{i}"),
                kind: IterKind::Spatial,
                extent: te.as_int(extent),
                var: None,
            };
            let axes = te.shape(t).iter().enumerate().map(axis).collect();
            (place.unwrap_or(Definition::Input(0)), axes)
        };
        let stage = created.stages.add(name.as_str(), definition, axes, reads);
        created.tensors.extend(te.computed_with(t).into_iter().map(|t| (t, stage)));
    }
}

/// `s[C]`
pub(super) fn index(run: &Run<'_>, schedule: usize, at: &Value, span: Span) -> Result<Value> {
    let stage = stage_of(run, schedule, at, span)?;
    Ok(Value::Own(Own::Stage(schedule, stage)))
}

/// The stage that a tensor, an operation or a stage stands for.
pub(super) fn stage_of(run: &Run<'_>, schedule: usize, value: &Value, span: Span) -> Result<StageId> {
    let created = &run.library.scheduling.created[schedule];
    match value {
        Value::Own(Own::Tensor(t) | Own::Operation(t)) => created.stage_of(*t).ok_or_else(|| {
            let name = run.library.te.buffer_name(*t);
            let known: Vec<String> =
                created.stages.ids().map(|s| format!("`{}`", created.stages.stage(s).name)).collect();
            let d = Diagnostic::error_at("schedule", span, format!("`{name}` is no stage of this schedule"));
            d.help(format!("its stages are {}", known.join(", "))).into()
        }),
        Value::Own(Own::Stage(s, stage) | Own::StageOperation(s, stage)) if *s == schedule => Ok(*stage),
        other => {
            let found = other.describe(&run.library);
            Err(type_error(span, format!("expected a tensor or an operation, found {found}")))
        }
    }
}

/// The axis of a stage that a value stands for.
pub(super) fn axis_of(run: &Run<'_>, schedule: usize, stage: StageId, value: &Value, span: Span) -> Result<AxisId> {
    let stages = &run.library.scheduling.created[schedule].stages;
    match value {
        Value::Own(Own::StageAxis(s, axis)) if *s == schedule => Ok(*axis),
        Value::Own(Own::Axis(axis)) => stages.axis_with(stage, axis.var).ok_or_else(|| {
            let (name, stage) = (run.library.te.var(axis.var).name, &stages.stage(stage).name);
            wrong(
                span,
                Mistake::new(format!("`{name}` is no axis of `{stage}`"))
                    .help("take one of `s[C].op.axis` or `s[C].op.reduce_axis`"),
            )
        }),
        Value::Sequence(_) => {
            let d = Diagnostic::error_at("type", span, "expected an axis, found several");
            Err(d.help("take one of them, such as `s[C].op.axis[0]`").into())
        }
        other => {
            let found = other.describe(&run.library);
            Err(type_error(span, format!("expected an axis, found {found}")))
        }
    }
}

/// The axes that values stand for; lists are spread.
pub(super) fn axes_of(
    run: &Run<'_>,
    schedule: usize,
    stage: StageId,
    values: &[Value],
    span: Span,
) -> Result<Vec<AxisId>> {
    let mut axes = Vec::with_capacity(values.len());
    for value in values {
        match value {
            Value::Sequence(s) => axes.extend(axes_of(run, schedule, stage, &s.items, span)?),
            one => axes.push(axis_of(run, schedule, stage, one, span)?),
        }
    }
    Ok(axes)
}

/// A tensor that a schedule made, as a value.
pub(super) fn new_tensor(
    run: &mut Run<'_>,
    schedule: usize,
    stage: StageId,
    like: Tensor,
    more: Option<i64>,
    span: Span,
) -> Result<Value> {
    count_tensors(run, 1, span)?;
    let te = &mut run.library.te;
    let mut shape = te.shape(like).to_vec();
    if let Some(extent) = more {
        let extent = te.extent(extent);
        shape.insert(0, extent);
    }
    let dtype = te.element_type(like);
    let created = &mut run.library.scheduling.created[schedule];
    let name = created.stages.stage(stage).name.clone();
    let made = run.library.te.placeholder(&name, dtype, &shape);
    created.tensors.push((made, stage));
    Ok(tensor(made))
}

/// `of.name` of schedules, stages and their operations; `None` if the value is none of these.
pub(super) fn attribute(run: &mut Run<'_>, of: &Value, name: &str, span: Span) -> Result<Option<Value>> {
    let (schedule, stage) = match of {
        Value::Own(Own::Schedule(_)) => {
            let d =
                Diagnostic::error_at("unknown-attribute", span, format!("a schedule has no attribute `{name}` here"));
            return Err(d.help("its stages are `s[C]`, for each tensor `C`").into());
        }
        Value::Own(Own::Stage(schedule, stage)) => match name {
            "op" | "origin_op" => return Ok(Some(Value::Own(Own::StageOperation(*schedule, *stage)))),
            "leaf_iter_vars" => {
                let leaves = run.library.scheduling.created[*schedule].stages.stage(*stage).leaves.clone();
                return Ok(Some(axes_value(*schedule, leaves)));
            }
            _ => {
                let near = nearest(name, ["op", "leaf_iter_vars"]).map(|n| format!("did you mean `{n}`?"));
                let d =
                    Diagnostic::error_at("unknown-attribute", span, format!("a stage has no attribute `{name}` here"));
                return Err(d.maybe_help(near).into());
            }
        },
        Value::Own(Own::StageOperation(schedule, stage)) => (*schedule, *stage),
        // A tensor that no definition gives has the axes and producers of its stage.
        Value::Own(Own::Operation(t)) if !run.library.te.is_computed(*t) => match run.library.scheduling.foreign(*t) {
            Some((created, stage)) => {
                let is_known = |c: &Created| std::ptr::eq(c, created);
                let schedule = run.library.scheduling.created.iter().position(is_known).unwrap_or(0);
                let found = of_stage(run, created, schedule, stage, name);
                return Ok(found);
            }
            None => return Ok(None),
        },
        Value::Own(Own::StageAxis(schedule, axis)) => {
            let axis = run.library.scheduling.created.get(*schedule).map(|c| c.stages.axis(*axis).clone());
            let Some(axis) = axis else { return Ok(None) };
            return match name {
                "dom" => {
                    let items = vec![Value::Int(0), axis.extent.map_or(Value::None, Value::Int)];
                    run.list(items, true, span).map(Some)
                }
                _ => Ok(None),
            };
        }
        _ => return Ok(None),
    };
    let created = &run.library.scheduling.created[schedule];
    match of_stage(run, created, schedule, stage, name) {
        Some(value) => Ok(Some(value)),
        None => {
            let near =
                nearest(name, ["axis", "reduce_axis", "input_tensors", "name"]).map(|n| format!("did you mean `{n}`?"));
            let d = Diagnostic::error_at("unknown-attribute", span, format!("an operation has no attribute `{name}`"));
            Err(d.maybe_help(near).into())
        }
    }
}

fn axes_value(schedule: usize, axes: Vec<AxisId>) -> Value {
    Value::list_of(axes.into_iter().map(|a| Own::StageAxis(schedule, a)))
}

fn of_stage(_: &Run<'_>, created: &Created, schedule: usize, stage: StageId, name: &str) -> Option<Value> {
    let s = created.stages.stage(stage);
    let is_input = matches!(s.definition, Definition::Input(_));
    Some(match name {
        "axis" | "reduce_axis" if is_input => Value::list_of(std::iter::empty()),
        "axis" => axes_value(schedule, created.stages.axes_of(stage, IterKind::Spatial)),
        "reduce_axis" => axes_value(schedule, created.stages.axes_of(stage, IterKind::Reduce)),
        "input_tensors" => Value::list_of(s.reads.iter().filter_map(|&r| created.tensor_of(r)).map(Own::Tensor)),
        "name" => Value::Str(s.name.as_str().into()),
        "tag" => Value::Str("".into()),
        _ => return None,
    })
}

/// A thread axis: `te.thread_axis("threadIdx.x")`, `te.thread_axis((0, 64), "threadIdx.x")`.
pub(super) fn thread_axis(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let (dom, _) = bound.get("dom");
    let (tag, at) = match (&dom, bound.get("tag")) {
        (Value::Str(_), (_, at)) => (dom.clone(), at),
        (_, (tag, at)) => (tag, at),
    };
    match tag {
        Value::Str(name) if !name.is_empty() => Ok(Value::Own(Own::Thread(Symbol::new(&name)))),
        _ => {
            let _ = run;
            Err(type_error(at, "expected the name of a thread axis, such as `\"threadIdx.x\"`"))
        }
    }
}
