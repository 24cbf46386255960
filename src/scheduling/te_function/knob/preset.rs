//! Candidates that knobs are given, instead of drawing them: those that a log of AutoTVM names.

use super::super::library::{Result, Run};
use super::super::value::Value;
use super::{Way, rejected};
use crate::diagnostic::Span;

/// The candidate of a knob.
#[derive(Clone, PartialEq, Debug)]
pub enum Preset {
    /// The sizes of the parts of an axis, outermost first; -1 follows from the others.
    Split(Vec<i64>),
    /// The positions of axes, in their new order.
    Reorder(Vec<usize>),
    /// How the loop of each axis runs, or the position of the loop for each cache.
    Annotate(Vec<Literal>),
    /// A value.
    Other(Literal),
}

/// A value that stands in a log.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list or tuple.
    List(Vec<Literal>),
}

impl Literal {
    /// Whether a value of a text is this one.
    pub(super) fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Literal::None, Value::None) => true,
            (Literal::Bool(a), Value::Bool(b)) => a == b,
            (Literal::Int(a), Value::Int(b)) => a == b,
            (Literal::Float(a), Value::Float(b)) => a == b,
            (Literal::Text(a), Value::Str(b)) => **a == **b,
            (Literal::List(a), Value::Sequence(b)) => {
                a.len() == b.items.len() && a.iter().zip(b.items.iter()).all(|(a, b)| a.is(b))
            }
            _ => false,
        }
    }
}

impl Preset {
    /// Whether these are the sizes of the inner parts.
    pub(super) fn splits_into(&self, inner: &[i64]) -> bool {
        matches!(self, Preset::Split(sizes) if sizes.len() == inner.len() + 1 && sizes[1..] == *inner)
    }

    /// The sizes of `n` parts of an axis, the first of which may follow from the others, if their product is the extent.
    pub(super) fn tiles(&self, extent: i64, n: usize) -> Option<Vec<i64>> {
        let Preset::Split(sizes) = self else { return None };
        let (&first, inner) = sizes.split_first()?;
        let product = inner.iter().try_fold(1i64, |product, &s| if s > 0 { product.checked_mul(s) } else { None })?;
        let outer = extent / product;
        let fits = sizes.len() == n && outer * product == extent && (first == -1 || first == outer);
        fits.then(|| [&[outer], inner].concat())
    }

    /// Whether these are the ways of all axes.
    pub(super) fn annotates(&self, ways: &[Way]) -> bool {
        let is = |(literal, way): (&Literal, &Way)| match (literal, way) {
            (Literal::Text(a), Way::Named(b)) => a == b,
            (Literal::Int(a), Way::At(b)) => usize::try_from(*a) == Ok(*b),
            _ => false,
        };
        matches!(self, Preset::Annotate(all) if all.len() == ways.len() && all.iter().zip(ways).all(is))
    }
}

/// What a knob was given; `None` if it draws its candidate.
///
/// # Errors
/// Other knobs were given candidates, and this one was not.
pub(super) fn of(run: &Run<'_>, name: &str, span: Span) -> Result<Option<Preset>> {
    let Some(all) = &run.library.scheduling.presets else { return Ok(None) };
    match all.iter().find(|(knob, _)| knob == name) {
        Some((_, preset)) => Ok(Some(preset.clone())),
        None => Err(rejected(span, format!("there is no candidate for the knob `{name}`"))),
    }
}

/// The position among candidates of the one that a knob was given; `None` if it draws one.
///
/// # Errors
/// It is none of them.
pub(super) fn position<T>(
    run: &Run<'_>,
    name: &str,
    candidates: &[T],
    is: impl Fn(&Preset, &T) -> bool,
    span: Span,
) -> Result<Option<usize>> {
    let Some(preset) = of(run, name, span)? else { return Ok(None) };
    match candidates.iter().position(|c| is(&preset, c)) {
        Some(position) => Ok(Some(position)),
        None => Err(foreign(name, span)),
    }
}

/// The error of a candidate that is none of a knob's.
pub(super) fn foreign(name: &str, span: Span) -> crate::interpreter::Failure<super::super::library::Cause> {
    rejected(span, format!("the knob `{name}` has no such candidate"))
}
