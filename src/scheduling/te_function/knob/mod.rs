//! Templates of AutoTVM: `cfg.define_split(…)` and the like become sampling instructions.
//!
//! While a text is only read, each knob has its first candidate. While it is carried out, the schedule draws one: by
//! `sample_perfect_tile`, if the candidates are all divisions of a loop of the program, so that a search can change the sizes one by
//! one, and by `sample_categorical` otherwise.
//!
//! | file | content |
//! | --- | --- |
//! | [`space`] | the candidates of knobs |
//! | [`define`] | `cfg.define_split(…)` and the like |
//! | [`apply`] | `cfg["tile_y"].apply(…)` |
//! | [`preset`] | candidates that a log names |

mod apply;
mod define;
mod preset;
mod space;

pub use preset::{Literal, Preset};

use super::arguments::Bound;
use super::library::{Cause, Result, Run};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::interpreter::Failure;
use crate::interpreter::call::Arguments;
use crate::interpreter::type_error;
use crate::schedule::Schedule;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::render::of_error;
use crate::te_schedule::Size;
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
                "define_split" => define::split(run, &bound),
                "define_knob" => define::knob(run, &bound),
                "define_reorder" => define::reorder(run, &bound),
                "define_annotate" => define::annotate(run, &bound),
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
                apply::split(run, sizes, &bound).map(Some)
            }
            (Entity::Reorder(order), "apply") => {
                let bound = Bound::of("apply".to_owned(), "sch, op, axes", args, span)?;
                apply::reorder(run, order, &bound).map(Some)
            }
            (Entity::Annotate(ways), "apply") => {
                const PARAMS: &str =
                    "sch, op, axes, axis_lens=None, max_unroll=None, vec_size=None, cfg=None, source=None";
                let bound = Bound::of("apply".to_owned(), PARAMS, args, span)?;
                apply::annotate(run, ways, &bound).map(Some)
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

/// The position of the chosen one of `n` candidates, which is `given` if there is one; the first while the text is only read.
fn chosen(run: &mut Run<'_>, n: usize, given: Option<usize>, span: Span) -> Result<usize> {
    let all: Vec<i64> = (0..n as i64).collect();
    Ok(chosen_value(run, &all, given, span)?.map_or(0, |v| v as usize))
}

fn chosen_value(run: &mut Run<'_>, all: &[i64], given: Option<usize>, span: Span) -> Result<Option<i64>> {
    let probabilities = vec![1.0 / all.len() as f64; all.len()];
    sampled(run, span, |sch| {
        let rv = match given {
            Some(position) => sch.choose_among(all, position)?,
            None => sch.sample_categorical(all, &probabilities)?,
        };
        Ok(sch.int_value(rv).unwrap_or_default())
    })
}
