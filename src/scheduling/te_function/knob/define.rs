//! Definitions of knobs: which candidates there are, and which one is chosen.

use super::super::arguments::Bound;
use super::super::library::{Result, Run};
use super::super::value::{Own, Value};
use super::preset::{self, Preset};
use super::space::{self, SplitPolicy};
use super::{Entity, Way, add, chosen, chosen_value, defined, sampled};
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::call::Arguments;
use crate::interpreter::type_error;
use crate::ir::Symbol;
use crate::schedule::arg::Arg;
use crate::schedule::error::ErrorKind;
use crate::te_schedule::{Cache, Definition, Size};
use std::rc::Rc;

/// Checks the number of candidates.
fn some<T>(all: Option<Vec<T>>, bound: &Bound) -> Result<Vec<T>> {
    let n = space::MAX_CANDIDATES;
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

pub(super) fn split(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
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
    let Some(n) = int(run, "num_outputs")?.and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=16).contains(n))
    else {
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
        let known = run.library.scheduling.loops.iter().find(|(b, _)| *b == block).map(|(_, l)| l.clone());
        let loops = match known {
            Some(loops) => Some(loops),
            None => sampled(run, bound.span, |sch| {
                let func = sch.implied_func().map_or(Symbol::new("main"), |f| sch.func(f).name);
                let block = sch.get_block(block.as_str(), func.as_str())?;
                sch.get_loops(block)
            })?,
        }
        .unwrap_or_default();
        run.library.scheduling.loops.push((block, loops.clone()));
        let given = match preset::of(run, &name, bound.span)? {
            Some(preset) => Some(preset.tiles(extent, n).ok_or_else(|| preset::foreign(&name, bound.span))?),
            None => None,
        };
        let sizes = sampled(run, bound.span, |sch| {
            let Some(&loop_) = loops.get(position) else {
                return Err(ErrorKind::Argument { message: "the axis has no loop".to_owned() }.into());
            };
            let sizes = match given {
                Some(sizes) => sch.choose_tile(loop_, limit, sizes)?,
                None => sch.sample_perfect_tile(loop_, n as i64, limit)?,
            };
            Ok(sizes
                .iter()
                .map(|&s| Size { value: sch.int_value(s).unwrap_or(1), arg: Arg::Rv(s) })
                .collect::<Vec<_>>())
        })?;
        let inner = sizes.map_or_else(|| vec![Size::from(1); n - 1], |all| all[1..].to_vec());
        return add(run, &name, Entity::Split(inner), axes, bound.span);
    }
    let mut candidates: Vec<Vec<i64>> = match policy {
        Some(policy) => some(space::splits(extent, n, policy, max_factor, no_tail), bound)?,
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
    let given = preset::position(run, &name, &candidates, |p, c| p.splits_into(c), bound.span)?;
    let which = chosen(run, candidates.len(), given, bound.span)?;
    let sizes = candidates[which].iter().map(|&v| Size::from(v)).collect();
    add(run, &name, Entity::Split(sizes), axes, bound.span)
}

/// Axes that stand for those that a knob will make.
fn new_axes(run: &mut Run<'_>, n: usize, span: Span) -> Result<Value> {
    let first = run.library.scheduling.knobs.len() * 100;
    run.list((0..n).map(|i| Value::Own(Own::KnobAxis(first + i))).collect(), false, span)
}

pub(super) fn knob(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
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
    let is = |p: &Preset, c: &Value| matches!(p, Preset::Other(literal) if literal.is(c));
    let given = preset::position(run, &name, &candidates, is, bound.span)?;
    let value = match ints {
        Some(ints) => chosen_value(run, &ints, given, bound.span)?.unwrap_or(ints[0]),
        None => {
            let which = chosen(run, candidates.len(), given, bound.span)?;
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

pub(super) fn reorder(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
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
        "all" => space::orders(n, 0..n),
        "interval_all" => match &bound.get("interval").0 {
            Value::Sequence(s) => {
                match s.items.iter().map(|v| v.int(&run.library)).collect::<Option<Vec<_>>>().as_deref() {
                    Some(&[begin, end]) if 0 <= begin && begin <= end && end <= n as i64 => {
                        space::orders(n, begin as usize..end as usize)
                    }
                    _ => return bound.wrong(run, "interval", "two positions among the axes"),
                }
            }
            _ => return bound.wrong(run, "interval", "two positions among the axes"),
        },
        "candidate" => Some(chains(run, "candidate")?),
        "interleave" => {
            let (spatial, reduced) = (chains(run, "spatial")?, chains(run, "reduce")?);
            Some(vec![space::interleaved(&spatial, &reduced)])
        }
        _ => return bound.wrong(run, "policy", "`identity`, `all`, `interval_all`, `candidate` or `interleave`"),
    };
    let all = some(all, bound)?;
    let is = |p: &Preset, c: &Vec<usize>| matches!(p, Preset::Reorder(order) if order == c);
    let given = preset::position(run, &name, &all, is, bound.span)?;
    let which = chosen(run, all.len(), given, bound.span)?;
    let order = all[which].clone();
    let mut result = Vec::with_capacity(n);
    for &i in &order {
        result.push(axes[i].clone());
    }
    let result = run.list(result, false, bound.span)?;
    add(run, &name, Entity::Reorder(order), result, bound.span)
}

pub(super) fn annotate(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
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
        "bind_gpu" | "bind_gpu_virtual" => match space::gpu_threads(axes.len(), policy == "bind_gpu_virtual") {
            Some(threads) => Some(named(vec![threads])),
            None => return bound.wrong(run, "axes", "more axes"),
        },
        "locate_cache" => {
            let anchors = bound.get("num_anchor").0.int(&run.library).and_then(|n| usize::try_from(n).ok());
            let Some(k) = anchors.filter(|&k| k <= axes.len()) else {
                return bound.wrong(run, "num_anchor", "a number of loops");
            };
            let all = space::combinations(axes.len(), k);
            all.map(|all| all.into_iter().map(|c| c.into_iter().map(Way::At).collect()).collect())
        }
        _ => {
            let ways: Vec<String> = policy.split('_').map(|w| w.replace("try", "none")).collect();
            if ways.iter().any(|w| !matches!(w.as_str(), "none" | "unroll" | "vec")) {
                return bound.wrong(run, "policy", "`try_unroll`, `try_vec`, `try_unroll_vec` or `locate_cache`");
            }
            space::annotations(axes.len(), &ways).map(named)
        }
    };
    let all = some(all, bound)?;
    let given = preset::position(run, &name, &all, |p, c| p.annotates(c), bound.span)?;
    let which = chosen(run, all.len(), given, bound.span)?;
    let axes = run.list(axes, false, bound.span)?;
    add(run, &name, Entity::Annotate(all[which].clone()), axes, bound.span)
}
