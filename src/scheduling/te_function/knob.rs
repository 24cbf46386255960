//! Templates of AutoTVM: `cfg.define_split(…)` and the like become sampling instructions.
//!
//! While a text is only read, each knob has its first candidate. While it is carried out, the schedule draws one: by
//! `sample_perfect_tile`, if the candidates are all divisions of a loop of the program, so that a search can change the sizes one by
//! one, and by `sample_categorical` otherwise.

use super::arguments::Bound;
use super::knob_space::{self, SplitPolicy};
use super::library::{Cause, Result, Run};
use super::scheduling::{axes_of, axis_of, stage_of, wrong};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::interpreter::Failure;
use crate::interpreter::call::Arguments;
use crate::interpreter::type_error;
use crate::ir::Symbol;
use crate::schedule::Schedule;
use crate::schedule::arg::Arg;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::render::of_error;
use crate::te_schedule::{Attach, Cache, Definition, LoopUse, Note, Size};
use std::rc::Rc;

/// A knob with the candidate that was chosen.
#[derive(Clone, Debug)]
pub(super) struct Knob {
    name: Rc<str>,
    entity: Rc<Entity>,
    /// What its definition returned.
    axes: Value,
}

/// A candidate of a knob: `cfg["tile_y"]`.
#[derive(Debug)]
pub(super) enum Entity {
    /// The sizes of an axis' inner parts.
    Split(Vec<Size>),
    /// An order of axes.
    Reorder(Vec<usize>),
    /// How loops run, or in which loops caches are computed.
    Annotate(Vec<Way>),
    /// A value.
    Other(Value),
}

/// What becomes of one axis, or the position of the loop for one cache.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// `none`, `unroll`, `vec`, `fuse` or a thread axis.
    Named(String),
    /// The position of a loop.
    At(usize),
}

/// The methods of a configuration, each with its parameters.
const METHODS: &[(&str, &str)] = &[
    (
        "define_split",
        "name, axis, policy='factors', num_outputs=None, max_factor=None, filter=None, no_tail=None, candidate=None",
    ),
    ("define_knob", "name, candidate"),
    ("define_reorder", "name, axes, policy, interval=None, candidate=None, spatial=None, reduce=None"),
    ("define_annotate", "name, axes, policy, num_anchor=None"),
    ("add_flop", "flop"),
    ("raise_error", "msg"),
    ("axis", "var"),
    ("reduce_axis", "var"),
];

/// A call of a method of a configuration or of a candidate; `None` if the receiver is neither.
pub(super) fn call(
    run: &mut Run<'_>,
    receiver: &Value,
    name: &str,
    name_span: Span,
    args: &Arguments<Own>,
    span: Span,
) -> Result<Option<Value>> {
    match receiver {
        Value::Own(Own::Config) => {
            let Some((_, params)) = METHODS.iter().find(|(m, _)| *m == name) else {
                let near = nearest(name, METHODS.iter().map(|(m, _)| *m)).map(|n| format!("did you mean `{n}`?"));
                let message = format!("the configuration has no method `{name}` here");
                return Err(Diagnostic::error_at("unknown-method", name_span, message).maybe_help(near).into());
            };
            let bound = Bound::of(format!("cfg.{name}"), params, args, span)?;
            match name {
                "define_split" => define_split(run, &bound),
                "define_knob" => define_knob(run, &bound),
                "define_reorder" => define_reorder(run, &bound),
                "define_annotate" => define_annotate(run, &bound),
                "axis" | "reduce_axis" => Ok(bound.get("var").0),
                "raise_error" => match run.library.scheduling.sampler {
                    Some(_) => Err(rejected(span, bound.text(run, "msg")?)),
                    None => Ok(Value::None),
                },
                // Operations are counted from the program.
                _ => Ok(Value::None),
            }
            .map(Some)
        }
        Value::Own(Own::Entity(entity)) => match (&**entity, name) {
            (Entity::Split(sizes), "apply") => {
                let bound = Bound::of("apply".to_owned(), "sch, op, axis", args, span)?;
                apply_split(run, sizes, &bound).map(Some)
            }
            (Entity::Reorder(order), "apply") => {
                let bound = Bound::of("apply".to_owned(), "sch, op, axes", args, span)?;
                apply_reorder(run, order, &bound).map(Some)
            }
            (Entity::Annotate(ways), "apply") => {
                const PARAMS: &str =
                    "sch, op, axes, axis_lens=None, max_unroll=None, vec_size=None, cfg=None, source=None";
                let bound = Bound::of("apply".to_owned(), PARAMS, args, span)?;
                apply_annotate(run, ways, &bound).map(Some)
            }
            _ => {
                let message = format!("this knob has no method `{name}`");
                Err(Diagnostic::error_at("unknown-method", name_span, message).into())
            }
        },
        _ => Ok(None),
    }
}

/// A candidate that the template itself rejects.
fn rejected(span: Span, message: String) -> Failure<Cause> {
    let diagnostic = Diagnostic::error_at("schedule", span, message.clone());
    let error = ScheduleError::from(ErrorKind::Argument { message });
    Failure { diagnostic: Box::new(diagnostic), refused: Some(Box::new(error)) }
}

/// `cfg["name"]`
pub(super) fn index(run: &Run<'_>, at: &Value, span: Span) -> Result<Value> {
    let knobs = &run.library.scheduling.knobs;
    let name = match at {
        Value::Str(s) => s,
        other => {
            let found = other.describe(&run.library);
            return Err(type_error(span, format!("expected the name of a knob, found {found}")));
        }
    };
    match knobs.iter().find(|k| *k.name == **name) {
        Some(knob) => Ok(Value::Own(Own::Entity(Rc::clone(&knob.entity)))),
        None => {
            let d = Diagnostic::error_at("unknown-knob", span, format!("the template has defined no knob `{name}`"));
            let near = nearest(name, knobs.iter().map(|k| &*k.name)).map(|n| format!("did you mean `{n}`?"));
            Err(d.help("define it before: `cfg.define_split(…)`, `cfg.define_knob(…)`").maybe_help(near).into())
        }
    }
}

/// `.size`, `.val` and the like of a candidate, and attributes of the configuration; `None` if the value is neither.
pub(super) fn attribute(run: &mut Run<'_>, of: &Value, name: &str, span: Span) -> Result<Option<Value>> {
    let entity = match of {
        Value::Own(Own::Config) if name == "is_fallback" => return Ok(Some(Value::Bool(false))),
        Value::Own(Own::Entity(entity)) => Rc::clone(entity),
        _ => return Ok(None),
    };
    let items = match (&*entity, name) {
        (Entity::Split(sizes), "size") => {
            std::iter::once(-1).chain(sizes.iter().map(|s| s.value)).map(Value::Int).collect()
        }
        (Entity::Reorder(order), "perm") => order.iter().map(|&i| Value::Int(i as i64)).collect(),
        (Entity::Annotate(ways), "anns") => (ways.iter())
            .map(|w| match w {
                Way::Named(name) => Value::Str(name.as_str().into()),
                Way::At(i) => Value::Int(*i as i64),
            })
            .collect(),
        (Entity::Other(value), "val") => return Ok(Some(value.clone())),
        (known, _) => {
            let has = match known {
                Entity::Split(_) => "size",
                Entity::Reorder(_) => "perm",
                Entity::Annotate(_) => "anns",
                Entity::Other(_) => "val",
            };
            let d = Diagnostic::error_at("unknown-attribute", span, format!("this knob has no attribute `{name}`"));
            return Err(d.help(format!("it has `{has}`")).into());
        }
    };
    run.list(items, false, span).map(Some)
}

/// What the definition of a knob of this name returned, if it was defined before: the first definition counts.
fn defined(run: &Run<'_>, name: &str) -> Option<Value> {
    run.library.scheduling.knobs.iter().find(|k| *k.name == *name).map(|k| k.axes.clone())
}

fn add(run: &mut Run<'_>, name: &str, entity: Entity, axes: Value, span: Span) -> Result<Value> {
    let knobs = &mut run.library.scheduling.knobs;
    if knobs.len() >= 500 {
        return Err(Diagnostic::error_at("limit", span, "gave up after 500 knobs").into());
    }
    knobs.push(Knob { name: name.into(), entity: Rc::new(entity), axes: axes.clone() });
    Ok(axes)
}

/// An instruction of the schedule that draws decisions; `None` while the text is only read.
fn sampled<T>(
    run: &mut Run<'_>,
    span: Span,
    sample: impl FnOnce(&mut Schedule) -> std::result::Result<T, ScheduleError>,
) -> Result<Option<T>> {
    let Some(sampler) = &mut run.library.scheduling.sampler else { return Ok(None) };
    sample(sampler).map(Some).map_err(|e| {
        let diagnostic = of_error(&e).label(span, "");
        Failure { diagnostic: Box::new(diagnostic), refused: Some(Box::new(e)) }
    })
}

/// The position of the chosen one of `n` candidates; the first while the text is only read.
fn chosen(run: &mut Run<'_>, n: usize, span: Span) -> Result<usize> {
    let all: Vec<i64> = (0..n as i64).collect();
    Ok(chosen_value(run, &all, span)?.map_or(0, |v| v as usize))
}

fn chosen_value(run: &mut Run<'_>, all: &[i64], span: Span) -> Result<Option<i64>> {
    let probabilities = vec![1.0 / all.len() as f64; all.len()];
    sampled(run, span, |sch| {
        let rv = sch.sample_categorical(all, &probabilities)?;
        Ok(sch.int_value(rv).unwrap_or_default())
    })
}

/// Checks the number of candidates.
fn some<T>(all: Option<Vec<T>>, bound: &Bound) -> Result<Vec<T>> {
    let n = knob_space::MAX_CANDIDATES;
    let fail = |message: String, help: &str| Err(Diagnostic::error_at("knob", bound.span, message).help(help).into());
    match all {
        None => fail(format!("the knob has more than {n} candidates"), "limit them, for example by `max_factor`"),
        Some(all) if all.is_empty() => fail("the knob has no candidate".to_owned(), "allow at least one"),
        Some(all) => Ok(all),
    }
}

/// The extent of an axis, and the position of its loop among those of a block of the program, if it is one.
fn axis_extent(run: &mut Run<'_>, bound: &Bound) -> Result<(i64, Option<(Symbol, usize)>)> {
    let (axis, _) = bound.get("axis");
    // An axis of a definition is that of the stage that has it.
    let of_stage = |axis: &crate::te::DefinitionAxis| {
        let schedule = run.library.scheduling.created.len().checked_sub(1)?;
        let stages = &run.library.scheduling.created[schedule].stages;
        Some((schedule, stages.ids().find_map(|s| stages.axis_with(s, axis.var))?))
    };
    let of_stage = match &axis {
        Value::Own(Own::Axis(axis)) => of_stage(axis),
        Value::Own(Own::StageAxis(schedule, axis)) => Some((*schedule, *axis)),
        _ => None,
    };
    let known = match (&axis, of_stage) {
        (_, Some((schedule, axis))) => match run.library.scheduling.created.get(schedule) {
            Some(created) => {
                let stages = &created.stages;
                let place = stages.owner(axis).and_then(|(stage, position)| {
                    let position = position?;
                    let block = match &stages.stage(stage).definition {
                        Definition::Block(block) => *block,
                        Definition::Cache(Cache::Write { of, .. }) => match stages.stage(*of).definition {
                            Definition::Block(block) => block,
                            _ => return None,
                        },
                        _ => return None,
                    };
                    Some((block, position))
                });
                (stages.axis(axis).extent, place)
            }
            None => (None, None),
        },
        (Value::Own(Own::Axis(axis)), None) => (run.library.te.as_int(axis.extent), None),
        (other, None) => (other.int(&run.library), None),
    };
    match known {
        (Some(extent), place) if extent > 0 => Ok((extent, place)),
        _ => bound.wrong(run, "axis", "an axis of a constant number of iterations"),
    }
}

fn define_split(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let name = bound.text(run, "name")?;
    if let Some(axes) = defined(run, &name) {
        return Ok(axes);
    }
    let int = |run: &Run<'_>, name: &str| -> Result<Option<i64>> {
        match bound.get(name).0 {
            Value::None => Ok(None),
            value => match value.int(&run.library) {
                Some(v) => Ok(Some(v)),
                None => bound.wrong(run, name, "an integer"),
            },
        }
    };
    let Some(n) = int(run, "num_outputs")?.and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=16).contains(n)) else {
        return bound.wrong(run, "num_outputs", "a number from 1 to 16");
    };
    let (extent, place) = axis_extent(run, bound)?;
    let max_factor = int(run, "max_factor")?.unwrap_or(i64::MAX).max(1);
    let axes = new_axes(run, n, bound.span)?;
    let policy = match bound.text(run, "policy")?.as_str() {
        "factors" => Some(SplitPolicy::Factors),
        "power2" => Some(SplitPolicy::Power2),
        "verbose" => Some(SplitPolicy::Verbose),
        "candidate" => None,
        _ => return bound.wrong(run, "policy", "`factors`, `power2`, `verbose` or `candidate`"),
    };
    let filter = bound.get("filter").0;
    let no_tail = match bound.get("no_tail").0 {
        Value::None => policy == Some(SplitPolicy::Factors),
        value => run.truth(&value, bound.span)?,
    };
    let is_divided = policy == Some(SplitPolicy::Factors) && no_tail && matches!(filter, Value::None);
    if is_divided
        && n > 1
        && (max_factor >= extent || n == 2)
        && let Some((block, position)) = place
    {
        let limit = max_factor.min(extent);
        let sizes = sampled(run, bound.span, |sch| {
            let func = sch.implied_func().map_or(Symbol::new("main"), |f| sch.func(f).name);
            let block = sch.get_block(block.as_str(), func.as_str())?;
            let loops = sch.get_loops(block)?;
            let Some(&loop_) = loops.get(position) else {
                return Err(ErrorKind::Argument { message: "the axis has no loop".to_owned() }.into());
            };
            let sizes = sch.sample_perfect_tile(loop_, n as i64, limit)?;
            Ok(sizes.iter().map(|&s| Size { value: sch.int_value(s).unwrap_or(1), arg: Arg::Rv(s) }).collect::<Vec<_>>())
        })?;
        let inner = sizes.map_or_else(|| vec![Size::from(1); n - 1], |all| all[1..].to_vec());
        return add(run, &name, Entity::Split(inner), axes, bound.span);
    }
    let mut candidates: Vec<Vec<i64>> = match policy {
        Some(policy) => some(knob_space::splits(extent, n, policy, max_factor, no_tail), bound)?,
        None => {
            let rows = |run: &Run<'_>, value: &Value| -> Option<Vec<Vec<i64>>> {
                let Value::Sequence(all) = value else { return None };
                let row = |v: &Value| match v {
                    Value::Sequence(s) if s.items.len() == n => {
                        s.items.iter().skip(1).map(|v| v.int(&run.library).filter(|&v| v > 0)).collect()
                    }
                    _ => None,
                };
                all.items.iter().map(row).collect()
            };
            match rows(run, &bound.get("candidate").0) {
                Some(all) => all,
                None => return bound.wrong(run, "candidate", "a list of as many sizes as there are outputs, each"),
            }
        }
    };
    if !matches!(filter, Value::None) {
        let mut kept = Vec::new();
        for candidate in candidates {
            let entity = Entity::Split(candidate.iter().map(|&v| Size::from(v)).collect());
            let args = Arguments::positional(vec![Value::Own(Own::Entity(Rc::new(entity)))], bound.span);
            let fits = run.call_value(&filter, args, bound.get("filter").1, bound.span)?;
            if run.truth(&fits, bound.span)? {
                kept.push(candidate);
            }
        }
        candidates = kept;
    }
    let candidates = some(Some(candidates), bound)?;
    let which = chosen(run, candidates.len(), bound.span)?;
    let sizes = candidates[which].iter().map(|&v| Size::from(v)).collect();
    add(run, &name, Entity::Split(sizes), axes, bound.span)
}

/// Axes that stand for those that a knob will make.
fn new_axes(run: &mut Run<'_>, n: usize, span: Span) -> Result<Value> {
    let first = run.library.scheduling.knobs.len() * 100;
    run.list((0..n).map(|i| Value::Own(Own::KnobAxis(first + i))).collect(), false, span)
}

fn define_knob(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let name = bound.text(run, "name")?;
    if defined(run, &name).is_some() {
        return Ok(Value::None);
    }
    let (candidates, at) = bound.get("candidate");
    let candidates = run.iterate(candidates, at)?;
    let candidates = some(Some(candidates), bound)?;
    let ints: Option<Vec<i64>> = (candidates.iter())
        .map(|c| match c {
            Value::Int(v) => Some(*v),
            _ => None,
        })
        .collect();
    let value = match ints {
        Some(ints) => chosen_value(run, &ints, bound.span)?.unwrap_or(ints[0]),
        None => {
            let which = chosen(run, candidates.len(), bound.span)?;
            return add(run, &name, Entity::Other(candidates[which].clone()), Value::None, bound.span);
        }
    };
    add(run, &name, Entity::Other(Value::Int(value)), Value::None, bound.span)
}

/// The axes of a knob, and the positions that values have among them.
fn knob_axes(run: &mut Run<'_>, bound: &Bound) -> Result<Vec<Value>> {
    let (axes, at) = bound.get("axes");
    run.iterate(axes, at)
}

fn positions(run: &mut Run<'_>, axes: &[Value], of: &Value, span: Span) -> Result<Vec<usize>> {
    let mut all = Vec::new();
    for value in run.iterate(of.clone(), span)? {
        let mut found = None;
        for (i, axis) in axes.iter().enumerate() {
            if found.is_none() && run.equal(axis, &value, span)? {
                found = Some(i);
            }
        }
        match found {
            Some(i) => all.push(i),
            None => return Err(type_error(span, "expected the axes of the knob")),
        }
    }
    Ok(all)
}

fn define_reorder(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let name = bound.text(run, "name")?;
    if let Some(axes) = defined(run, &name) {
        return Ok(axes);
    }
    let axes = knob_axes(run, bound)?;
    let n = axes.len();
    let chains = |run: &mut Run<'_>, name: &str| -> Result<Vec<Vec<usize>>> {
        let (value, at) = bound.get(name);
        let mut all = Vec::new();
        for chain in run.iterate(value, at)? {
            all.push(positions(run, &axes, &chain, at)?);
        }
        Ok(all)
    };
    let policy = bound.text(run, "policy")?;
    let all = match policy.as_str() {
        "identity" => Some(vec![(0..n).collect()]),
        "all" => knob_space::orders(n, 0..n),
        "interval_all" => match &bound.get("interval").0 {
            Value::Sequence(s) => match s.items.iter().map(|v| v.int(&run.library)).collect::<Option<Vec<_>>>().as_deref() {
                Some(&[begin, end]) if 0 <= begin && begin <= end && end <= n as i64 => {
                    knob_space::orders(n, begin as usize..end as usize)
                }
                _ => return bound.wrong(run, "interval", "two positions among the axes"),
            },
            _ => return bound.wrong(run, "interval", "two positions among the axes"),
        },
        "candidate" => Some(chains(run, "candidate")?),
        "interleave" => {
            let (spatial, reduced) = (chains(run, "spatial")?, chains(run, "reduce")?);
            Some(vec![knob_space::interleaved(&spatial, &reduced)])
        }
        _ => return bound.wrong(run, "policy", "`identity`, `all`, `interval_all`, `candidate` or `interleave`"),
    };
    let all = some(all, bound)?;
    let which = chosen(run, all.len(), bound.span)?;
    let order = all[which].clone();
    let mut result = Vec::with_capacity(n);
    for &i in &order {
        result.push(axes[i].clone());
    }
    let result = run.list(result, false, bound.span)?;
    add(run, &name, Entity::Reorder(order), result, bound.span)
}

fn define_annotate(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let name = bound.text(run, "name")?;
    if let Some(axes) = defined(run, &name) {
        return Ok(axes);
    }
    let axes = knob_axes(run, bound)?;
    let named = |all: Vec<Vec<String>>| -> Vec<Vec<Way>> {
        all.into_iter().map(|a| a.into_iter().map(Way::Named).collect()).collect()
    };
    let policy = bound.text(run, "policy")?;
    let all = match policy.as_str() {
        "bind_gpu" | "bind_gpu_virtual" => match knob_space::gpu_threads(axes.len(), policy == "bind_gpu_virtual") {
            Some(threads) => Some(named(vec![threads])),
            None => return bound.wrong(run, "axes", "more axes"),
        },
        "locate_cache" => {
            let anchors = bound.get("num_anchor").0.int(&run.library).and_then(|n| usize::try_from(n).ok());
            let Some(k) = anchors.filter(|&k| k <= axes.len()) else {
                return bound.wrong(run, "num_anchor", "a number of loops");
            };
            let all = knob_space::combinations(axes.len(), k);
            all.map(|all| all.into_iter().map(|c| c.into_iter().map(Way::At).collect()).collect())
        }
        _ => {
            let ways: Vec<String> = policy.split('_').map(|w| w.replace("try", "none")).collect();
            if ways.iter().any(|w| !matches!(w.as_str(), "none" | "unroll" | "vec")) {
                return bound.wrong(run, "policy", "`try_unroll`, `try_vec`, `try_unroll_vec` or `locate_cache`");
            }
            knob_space::annotations(axes.len(), &ways).map(named)
        }
    };
    let all = some(all, bound)?;
    let which = chosen(run, all.len(), bound.span)?;
    let axes = run.list(axes, false, bound.span)?;
    add(run, &name, Entity::Annotate(all[which].clone()), axes, bound.span)
}

/// The schedule and the stage of an `apply`.
fn target(run: &Run<'_>, bound: &Bound) -> Result<(usize, crate::te_schedule::StageId)> {
    let Value::Own(Own::Schedule(schedule)) = bound.get("sch").0 else {
        return bound.wrong(run, "sch", "the schedule");
    };
    let (op, at) = bound.get("op");
    Ok((schedule, stage_of(run, schedule, &op, at)?))
}

fn apply_split(run: &mut Run<'_>, sizes: &[Size], bound: &Bound) -> Result<Value> {
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

fn apply_reorder(run: &mut Run<'_>, order: &[usize], bound: &Bound) -> Result<Value> {
    let (schedule, stage) = target(run, bound)?;
    let (axes, at) = bound.get("axes");
    let axes = axes_of(run, schedule, stage, &[axes], at)?;
    let new: Vec<_> = order.iter().filter_map(|&i| axes.get(i).copied()).collect();
    let stages = &mut run.library.scheduling.created[schedule].stages;
    stages.reorder(stage, &new, bound.span).map_err(|m| wrong(bound.span, m))?;
    run.list(new.into_iter().map(|a| Value::Own(Own::StageAxis(schedule, a))).collect(), false, bound.span)
}

fn apply_annotate(run: &mut Run<'_>, ways: &[Way], bound: &Bound) -> Result<Value> {
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
