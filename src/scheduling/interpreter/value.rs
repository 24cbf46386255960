//! The values of a run.

use super::{Library, OwnValue};
use std::rc::Rc;
use std::sync::Arc;

/// The deepest nesting of values.
pub(crate) const MAX_DEPTH: usize = 60;

/// A value; `V` are those of a library.
#[derive(Clone, Debug)]
pub(crate) enum Value<V> {
    /// `None`
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(Arc<str>),
    /// A list or a tuple.
    Sequence(Rc<Sequence<V>>),
    /// `range(start, stop, step)`
    Range(i64, i64, i64),
    /// A dictionary with text keys.
    Dict(Rc<Vec<(Arc<str>, Value<V>)>>),
    /// A function.
    Function(Rc<Closure<V>>),
    /// A value of the library.
    Own(V),
}

/// A list or a tuple.
#[derive(Clone, Debug)]
pub(crate) struct Sequence<V> {
    /// The items.
    pub items: Vec<Value<V>>,
    /// Is it a tuple?
    pub tuple: bool,
    /// The depth of the nesting, with this level.
    pub depth: usize,
}

/// A function with the values of variables of functions around it.
#[derive(Clone, Debug)]
pub(crate) struct Closure<V> {
    /// Its position among the functions of the text.
    pub function: usize,
    /// Values of its variables.
    pub captured: Vec<(usize, Value<V>)>,
    /// The depth of the nesting, with this level.
    pub depth: usize,
}

impl<V: OwnValue> Value<V> {
    /// A list or a tuple; `None` if the nesting would be too deep.
    pub(crate) fn sequence(items: Vec<Value<V>>, tuple: bool) -> Option<Value<V>> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        (depth <= MAX_DEPTH).then(|| Value::Sequence(Rc::new(Sequence { items, tuple, depth })))
    }

    /// A list of values of the library.
    pub(crate) fn list_of(items: impl Iterator<Item = V>) -> Value<V> {
        let items: Vec<Value<V>> = items.map(Value::Own).collect();
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        Value::Sequence(Rc::new(Sequence { items, tuple: false, depth }))
    }

    /// The depth of the nesting.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Value::Sequence(s) => s.depth,
            Value::Dict(items) => 1 + items.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
            Value::Function(f) => f.depth,
            Value::Own(v) => v.depth(),
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Range(..) => 0,
        }
    }

    /// The integer value.
    pub(crate) fn int<L: Library<Value = V>>(&self, library: &L) -> Option<i64> {
        match self {
            Value::Int(v) => Some(*v),
            Value::Bool(v) => Some(*v as i64),
            Value::Own(v) => library.int(v),
            Value::None
            | Value::Float(_)
            | Value::Str(_)
            | Value::Sequence(_)
            | Value::Range(..)
            | Value::Dict(_)
            | Value::Function(_) => None,
        }
    }

    /// The numeric value.
    pub(crate) fn number<L: Library<Value = V>>(&self, library: &L) -> Option<f64> {
        match self {
            Value::Float(v) => Some(*v),
            _ => self.int(library).map(|v| v as f64),
        }
    }

    /// A description of the value for messages, with an article.
    pub(crate) fn describe<L: Library<Value = V>>(&self, library: &L) -> &'static str {
        match self {
            Value::None => "`None`",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Str(_) => "a text",
            Value::Sequence(s) if s.tuple => "a tuple",
            Value::Sequence(_) => "a list",
            Value::Range(..) => "a range",
            Value::Dict(_) => "a dictionary",
            Value::Function(_) => "a function",
            Value::Own(v) => library.describe(v),
        }
    }
}

/// The number of items of `range(start, stop, step)`; the step is not zero.
pub(crate) fn range_len(start: i64, stop: i64, step: i64) -> usize {
    let distance = if step > 0 { stop as i128 - start as i128 } else { start as i128 - stop as i128 };
    let step = (step as i128).abs();
    usize::try_from((distance.max(0) + step - 1) / step).unwrap_or(usize::MAX)
}

/// The items of `range(start, stop, step)`.
pub(crate) fn range_items(start: i64, stop: i64, step: i64) -> impl DoubleEndedIterator<Item = i64> {
    (0..range_len(start, stop, step) as i64).map(move |i| start + i * step)
}
