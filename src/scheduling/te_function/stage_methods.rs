//! The methods of schedules of tensor expressions and of their stages.

use super::arguments::Bound;
use super::library::{Result, Run};
use super::scheduling::{axes_of, axis_of, new_tensor, stage_of, wrong};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::interpreter::call::Arguments;
use crate::interpreter::type_error;
use crate::ir::IterKind;
use crate::schedule::arg::Arg;
use crate::te_schedule::{Attach, AxisId, LoopUse, Mistake, Note, Size, StageId, Stages};

/// A method: its name, its parameters, and what it does.
struct Method {
    name: &'static str,
    params: &'static str,
    run: fn(&mut Run<'_>, Receiver, &Bound) -> Result<Value>,
}

/// The stage of a call; of a method of the schedule, any.
#[derive(Clone, Copy)]
struct Receiver {
    schedule: usize,
    stage: Option<StageId>,
}

/// The methods of stages: `s[C].split(…)`.
const OF_STAGES: &[Method] = &[
    Method { name: "split", params: "parent, factor=None, nparts=None, disable_predication=False", run: split },
    Method { name: "tile", params: "x_parent, y_parent, x_factor, y_factor", run: tile },
    Method { name: "fuse", params: "*args", run: fuse },
    Method { name: "reorder", params: "*args", run: reorder },
    Method { name: "vectorize", params: "var", run: |run, on, b| loop_use(run, on, b, LoopUse::Vectorize) },
    Method { name: "parallel", params: "var", run: |run, on, b| loop_use(run, on, b, LoopUse::Parallel) },
    Method { name: "unroll", params: "var", run: |run, on, b| loop_use(run, on, b, LoopUse::Unroll) },
    Method { name: "bind", params: "ivar, thread_ivar", run: bind },
    Method { name: "compute_at", params: "parent, scope", run: compute_at },
    Method { name: "compute_inline", params: "", run: |run, on, b| attach(run, on, b, Attach::Inline) },
    Method { name: "compute_root", params: "", run: |run, on, b| attach(run, on, b, Attach::Root) },
    Method { name: "pragma", params: "var, pragma_type, pragma_value=None", run: pragma },
    Method { name: "storage_align", params: "axis, factor, offset", run: storage_align },
    Method { name: "set_scope", params: "scope", run: set_scope },
    Method { name: "tensorize", params: "var, tensor_intrin", run: tensorize },
];

/// The methods of schedules: `s.cache_read(…)`.
const OF_SCHEDULES: &[Method] = &[
    Method { name: "cache_read", params: "tensor, scope, readers", run: cache_read },
    Method { name: "cache_write", params: "tensor, scope", run: cache_write },
    Method { name: "rfactor", params: "tensor, axis, factor_axis=0", run: rfactor },
    // Ranges begin at 0 here anyway.
    Method { name: "normalize", params: "", run: |_, on, _| Ok(Value::Own(Own::Schedule(on.schedule))) },
];

/// Methods that are refused, each with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("prefetch", "is not taken over: the code generator places prefetches itself; leave the call out"),
    ("double_buffer", "is for GPUs and accelerators; leave it out on a CPU"),
    ("rolling_buffer", "is not supported for tensor expressions; use `sch.rolling_buffer` of a schedule function"),
    ("set_store_predicate", "is for reductions over the threads of a GPU; leave it out on a CPU"),
    ("env_threads", "is for GPUs; leave it out on a CPU"),
    ("transform_layout", "is not supported for tensor expressions; use `sch.transform_layout` of a schedule function"),
    ("create_group", "is not supported: attach each stage by `compute_at`"),
];

/// A call of a method of a schedule or stage; `None` if the receiver is neither.
pub(super) fn call(
    run: &mut Run<'_>,
    receiver: &Value,
    name: &str,
    name_span: Span,
    args: &Arguments<Own>,
    span: Span,
) -> Result<Option<Value>> {
    let (methods, on, prefix, what) = match receiver {
        Value::Own(Own::Schedule(s)) => (OF_SCHEDULES, Receiver { schedule: *s, stage: None }, "s", "a schedule"),
        Value::Own(Own::Stage(s, stage)) => {
            (OF_STAGES, Receiver { schedule: *s, stage: Some(*stage) }, "s[…]", "a stage")
        }
        _ => return Ok(None),
    };
    if let Some(method) = methods.iter().find(|m| m.name == name) {
        let bound = Bound::of(format!("{prefix}.{name}"), method.params, args, span)?;
        return (method.run)(run, on, &bound).map(Some);
    }
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(Diagnostic::error_at("unsupported", name_span, format!("`{name}` {why}")).into());
    }
    let near = nearest(name, methods.iter().map(|m| m.name)).map(|n| format!("did you mean `{n}`?"));
    let d = Diagnostic::error_at("unknown-method", name_span, format!("{what} has no method `{name}`"));
    Err(d.maybe_help(near).into())
}

fn stages<'r>(run: &'r mut Run<'_>, on: Receiver) -> &'r mut Stages {
    &mut run.library.scheduling.created[on.schedule].stages
}

/// The stage of a call and an argument that is one of its axes.
fn axis(run: &Run<'_>, on: Receiver, bound: &Bound, name: &str) -> Result<(StageId, AxisId)> {
    let (value, at) = bound.get(name);
    let stage = stage(on, at)?;
    Ok((stage, axis_of(run, on.schedule, stage, &value, at)?))
}

fn stage(on: Receiver, span: Span) -> Result<StageId> {
    on.stage.ok_or_else(|| type_error(span, "expected a stage"))
}

fn axis_value(on: Receiver, axis: AxisId) -> Value {
    Value::Own(Own::StageAxis(on.schedule, axis))
}

/// A size that is given, if it is.
fn size(run: &Run<'_>, bound: &Bound, name: &str) -> Result<Option<Size>> {
    match bound.get(name) {
        (Value::None, _) => Ok(None),
        (value, _) => match value.int(&run.library) {
            Some(v) => Ok(Some(Size::from(v))),
            None => bound.wrong(run, name, "an integer"),
        },
    }
}

fn split(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axis) = axis(run, on, bound, "parent")?;
    let sizes = match (size(run, bound, "factor")?, size(run, bound, "nparts")?) {
        (Some(factor), None) => vec![None, Some(factor)],
        (None, Some(parts)) => vec![Some(parts), None],
        _ => {
            let d = Diagnostic::error_at("schedule", bound.span, "`split` takes either `factor` or `nparts`");
            return Err(d
                .help("`factor` is the number of iterations of the inner axis, `nparts` that of the outer one")
                .into());
        }
    };
    let parts = stages(run, on).split(stage, axis, sizes, bound.span).map_err(|m| wrong(bound.span, m))?;
    run.list(parts.into_iter().map(|a| axis_value(on, a)).collect(), true, bound.span)
}

fn tile(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let ((stage, x), (_, y)) = (axis(run, on, bound, "x_parent")?, axis(run, on, bound, "y_parent")?);
    let (Some(nx), Some(ny)) = (size(run, bound, "x_factor")?, size(run, bound, "y_factor")?) else {
        return bound.wrong(run, "x_factor", "an integer");
    };
    let all = (|| {
        let stages = stages(run, on);
        let x = stages.split(stage, x, vec![None, Some(nx)], bound.span)?;
        let y = stages.split(stage, y, vec![None, Some(ny)], bound.span)?;
        let all = [x[0], y[0], x[1], y[1]];
        stages.reorder(stage, &all, bound.span)?;
        Ok(all)
    })()
    .map_err(|m| wrong(bound.span, m))?;
    run.list(all.into_iter().map(|a| axis_value(on, a)).collect(), true, bound.span)
}

/// The axes of `*args`.
fn rest(run: &Run<'_>, on: Receiver, bound: &Bound) -> Result<(StageId, Vec<AxisId>)> {
    let (value, at) = bound.get("args");
    let stage = stage(on, at)?;
    Ok((stage, axes_of(run, on.schedule, stage, &[value], at)?))
}

fn fuse(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axes) = rest(run, on, bound)?;
    let fused = stages(run, on).fuse(stage, &axes, bound.span).map_err(|m| wrong(bound.span, m))?;
    Ok(axis_value(on, fused))
}

fn reorder(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axes) = rest(run, on, bound)?;
    stages(run, on).reorder(stage, &axes, bound.span).map_err(|m| wrong(bound.span, m))?;
    Ok(Value::None)
}

fn note(run: &mut Run<'_>, on: Receiver, stage: StageId, note: Note, bound: &Bound) -> Result<Value> {
    stages(run, on).note(stage, note, bound.span).map_err(|m| wrong(bound.span, m))?;
    Ok(Value::None)
}

fn loop_use(run: &mut Run<'_>, on: Receiver, bound: &Bound, how: LoopUse) -> Result<Value> {
    let (stage, axis) = axis(run, on, bound, "var")?;
    note(run, on, stage, Note::Loop(axis, how), bound)
}

fn bind(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axis) = axis(run, on, bound, "ivar")?;
    let thread = match bound.get("thread_ivar").0 {
        Value::Own(Own::Thread(name)) => name,
        Value::Str(name) => crate::ir::Symbol::new(&name),
        _ => return bound.wrong(run, "thread_ivar", "a thread axis such as `te.thread_axis(\"threadIdx.x\")`"),
    };
    note(run, on, stage, Note::Loop(axis, LoopUse::Bind(thread)), bound)
}

fn attach(run: &mut Run<'_>, on: Receiver, bound: &Bound, how: Attach) -> Result<Value> {
    let stage = stage(on, bound.span)?;
    stages(run, on).attach(stage, how, bound.span).map_err(|m| wrong(bound.span, m))?;
    Ok(Value::None)
}

fn compute_at(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (parent, parent_at) = bound.get("parent");
    let parent = stage_of(run, on.schedule, &parent, parent_at)?;
    let (axis, at) = bound.get("scope");
    let axis = axis_of(run, on.schedule, parent, &axis, at)?;
    attach(run, on, bound, Attach::At(parent, axis))
}

fn pragma(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axis) = axis(run, on, bound, "var")?;
    let key = bound.text(run, "pragma_type")?;
    let value = match bound.get("pragma_value").0 {
        Value::None => Arg::Int(1),
        Value::Str(s) => Arg::Str(crate::ir::Symbol::new(&s)),
        value => match value.int(&run.library) {
            Some(v) => Arg::Int(v),
            None => return bound.wrong(run, "pragma_value", "a number or a text"),
        },
    };
    note(run, on, stage, Note::Pragma(axis, key, value), bound)
}

fn storage_align(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axis) = axis(run, on, bound, "axis")?;
    let (Some(factor), Some(offset)) = (size(run, bound, "factor")?, size(run, bound, "offset")?) else {
        return bound.wrong(run, "factor", "an integer");
    };
    let spatial = stages(run, on).axes_of(stage, IterKind::Spatial);
    let Some(dimension) = spatial.iter().position(|&a| a == axis) else {
        let why = Mistake::new("`storage_align` takes a dimension of the tensor");
        return Err(wrong(bound.span, why.help("take one of `s[C].op.axis`")));
    };
    note(run, on, stage, Note::StorageAlign(dimension, factor.value, offset.value), bound)
}

fn set_scope(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let scope = bound.text(run, "scope")?;
    let stage = stage(on, bound.span)?;
    note(run, on, stage, Note::Scope(scope), bound)
}

fn tensorize(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (stage, axis) = axis(run, on, bound, "var")?;
    let Value::Str(name) = bound.get("tensor_intrin").0 else {
        return bound.wrong(run, "tensor_intrin", "the name of an intrinsic, such as those of `--intrin`,");
    };
    note(run, on, stage, Note::Tensorize(axis, name.to_string()), bound)
}

/// The tensor of an argument, with its stage.
fn tensor_argument(run: &Run<'_>, on: Receiver, bound: &Bound) -> Result<(crate::te::Tensor, StageId)> {
    let (value, at) = bound.get("tensor");
    let one = match &value {
        Value::Sequence(s) if s.items.len() == 1 => &s.items[0],
        one => one,
    };
    match one {
        Value::Own(Own::Tensor(t)) => Ok((*t, stage_of(run, on.schedule, one, at)?)),
        _ => bound.wrong(run, "tensor", "a tensor"),
    }
}

fn cache_read(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (tensor, of) = tensor_argument(run, on, bound)?;
    let scope = bound.text(run, "scope")?;
    let (readers, at) = bound.get("readers");
    let items = match &readers {
        Value::Sequence(s) => s.items.clone(),
        one => vec![one.clone()],
    };
    let mut all = Vec::with_capacity(items.len());
    for item in &items {
        all.push(stage_of(run, on.schedule, item, at)?);
    }
    let copy = stages(run, on).cache_read(of, &scope, &all, bound.span).map_err(|m| wrong(bound.span, m))?;
    new_tensor(run, on.schedule, copy, tensor, None, bound.span)
}

fn cache_write(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (tensor, of) = tensor_argument(run, on, bound)?;
    let scope = bound.text(run, "scope")?;
    let cached = stages(run, on).cache_write(of, &scope, bound.span).map_err(|m| wrong(bound.span, m))?;
    let made = new_tensor(run, on.schedule, cached, tensor, None, bound.span)?;
    // A list gives a list.
    match bound.get("tensor").0 {
        Value::Sequence(_) => run.list(vec![made], false, bound.span),
        _ => Ok(made),
    }
}

fn rfactor(run: &mut Run<'_>, on: Receiver, bound: &Bound) -> Result<Value> {
    let (tensor, of) = tensor_argument(run, on, bound)?;
    let (axis, at) = bound.get("axis");
    let axis = axis_of(run, on.schedule, of, &axis, at)?;
    let dimension = bound.get("factor_axis").0.int(&run.library).unwrap_or(0);
    let extent = stages(run, on).axis(axis).extent;
    let partial = stages(run, on).rfactor(of, axis, dimension, bound.span).map_err(|m| wrong(bound.span, m))?;
    new_tensor(run, on.schedule, partial, tensor, Some(extent.unwrap_or(1)), bound.span)
}
