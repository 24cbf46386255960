//! Annotations of loops and blocks and attributes of functions.

use super::expr::ExprId;
use super::symbol::Symbol;

/// The value of an annotation. Numbers of different kinds are different values: `1`, `1.0` and `True` are not equal.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrValue {
    /// A plain integer.
    Int(i64),
    /// A plain float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Str(Symbol),
    /// `None`.
    None,
    /// A list or tuple.
    List(Vec<AttrValue>),
    /// A dictionary with text keys, sorted by key.
    Dict(Vec<(Symbol, AttrValue)>),
    /// An expression of the function's arena, such as `T.int64(4)`.
    Expr(ExprId),
    /// A buffer, named by the handle to its data.
    Buffer(ExprId),
    /// A box of a buffer, `A[0:4, i]`.
    Region {
        /// The handle to the data of the buffer.
        data: ExprId,
        /// First element and number of elements in each dimension.
        ranges: Vec<(ExprId, ExprId)>,
    },
    /// `T.target(value)`: a text or a dictionary.
    Target(Box<AttrValue>),
    /// An object of TVM: the function that makes it, and the arguments.
    Object(ObjectKind, Vec<AttrValue>),
    /// `T.index_map(lambda i, j: (j, i))`: its own variables, and the expressions to which they are mapped.
    IndexMap(Vec<ExprId>, Vec<ExprId>),
}

/// The function that makes a TVM object that occurs only in attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// `T.Range(begin, end)`
    Range,
    /// `T.iter_var(variable, range, kind, thread)`
    IterVar,
    /// `I.vdevice(target, number, scope)`
    VDevice,
    /// `I.dummy_global_info()`
    DummyGlobalInfo,
}

impl ObjectKind {
    /// All functions.
    pub const ALL: [ObjectKind; 4] =
        [ObjectKind::Range, ObjectKind::IterVar, ObjectKind::VDevice, ObjectKind::DummyGlobalInfo];

    /// The name of the function in texts.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Range => "T.Range",
            ObjectKind::IterVar => "T.iter_var",
            ObjectKind::VDevice => "I.vdevice",
            ObjectKind::DummyGlobalInfo => "I.dummy_global_info",
        }
    }

    /// The names of its parameters, and the number of required arguments.
    pub fn params(self) -> (&'static [&'static str], usize) {
        match self {
            ObjectKind::Range => (&["begin", "end"], 2),
            ObjectKind::IterVar => (&["v", "dom", "iter_type", "thread_tag"], 4),
            ObjectKind::VDevice => (&["target", "vdevice_id", "memory_scope"], 0),
            ObjectKind::DummyGlobalInfo => (&[], 0),
        }
    }
}

impl AttrValue {
    /// The value of a plain integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            AttrValue::Int(v) => Some(*v),
            _ => None,
        }
    }

    /// Calls `f` with each contained expression of the program. Index maps are skipped, since they have variables of
    /// their own.
    pub fn for_each_expr(&self, f: &mut impl FnMut(ExprId)) {
        match self {
            AttrValue::Expr(e) | AttrValue::Buffer(e) => f(*e),
            AttrValue::Region { data, ranges } => {
                f(*data);
                ranges.iter().for_each(|&(min, extent)| [min, extent].into_iter().for_each(&mut *f));
            }
            AttrValue::Target(target) => target.for_each_expr(f),
            AttrValue::List(items) | AttrValue::Object(_, items) => items.iter().for_each(|v| v.for_each_expr(f)),
            AttrValue::Dict(items) => items.iter().for_each(|(_, v)| v.for_each_expr(f)),
            AttrValue::Int(_) | AttrValue::Float(_) | AttrValue::Bool(_) | AttrValue::Str(_) | AttrValue::None => {}
            AttrValue::IndexMap(..) => {}
        }
    }

    /// Replaces each contained expression by the result of `f`.
    pub fn map_exprs(&mut self, f: &mut impl FnMut(ExprId) -> ExprId) {
        match self {
            AttrValue::Expr(e) | AttrValue::Buffer(e) => *e = f(*e),
            AttrValue::Region { data, ranges } => {
                *data = f(*data);
                ranges.iter_mut().for_each(|(min, extent)| (*min, *extent) = (f(*min), f(*extent)));
            }
            AttrValue::Target(target) => target.map_exprs(f),
            AttrValue::IndexMap(vars, results) => vars.iter_mut().chain(results).for_each(|e| *e = f(*e)),
            AttrValue::List(items) | AttrValue::Object(_, items) => items.iter_mut().for_each(|v| v.map_exprs(f)),
            AttrValue::Dict(items) => items.iter_mut().for_each(|(_, v)| v.map_exprs(f)),
            AttrValue::Int(_) | AttrValue::Float(_) | AttrValue::Bool(_) | AttrValue::Str(_) | AttrValue::None => {}
        }
    }
}

impl From<i64> for AttrValue {
    fn from(v: i64) -> Self {
        AttrValue::Int(v)
    }
}

impl From<&str> for AttrValue {
    fn from(v: &str) -> Self {
        AttrValue::Str(v.into())
    }
}

/// A map from keys to values, kept sorted by the text of the key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Annotations(Vec<(Symbol, AttrValue)>);

impl Annotations {
    /// No annotations.
    pub const fn new() -> Self {
        Annotations(Vec::new())
    }

    /// Whether there are no annotations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `key`.
    pub fn get(&self, key: impl Into<Symbol>) -> Option<&AttrValue> {
        let key = key.into();
        self.0.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// Sets the value of `key`, and returns the old one.
    pub fn insert(&mut self, key: impl Into<Symbol>, value: AttrValue) -> Option<AttrValue> {
        let key = key.into();
        match self.0.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(i) => Some(std::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    /// Removes `key`, and returns its value.
    pub fn remove(&mut self, key: impl Into<Symbol>) -> Option<AttrValue> {
        let key = key.into();
        let i = self.0.iter().position(|(k, _)| *k == key)?;
        Some(self.0.remove(i).1)
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Symbol, AttrValue)> {
        self.0.iter()
    }

    /// The values, as mutable references.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut AttrValue> {
        self.0.iter_mut().map(|(_, v)| v)
    }
}

impl FromIterator<(Symbol, AttrValue)> for Annotations {
    fn from_iter<I: IntoIterator<Item = (Symbol, AttrValue)>>(items: I) -> Self {
        let mut all = Annotations::new();
        for (k, v) in items {
            all.insert(k, v);
        }
        all
    }
}
