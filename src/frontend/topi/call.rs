//! The arguments of a call.

use crate::graph::OpError;
use crate::graph::apply::{Given, apply};
use crate::ir::{AttrValue, DType, ExprId, Symbol};
use crate::te::{Te, Tensor};

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// `None`
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(Symbol),
    /// A scalar expression.
    Expr(ExprId),
    /// A tensor.
    Tensor(Tensor),
    /// A list or tuple.
    List(Vec<Argument>),
}

impl Argument {
    /// A description for messages, with an article.
    pub fn describe(&self) -> &'static str {
        match self {
            Argument::None => "`None`",
            Argument::Bool(_) => "a truth value",
            Argument::Int(_) => "an integer",
            Argument::Float(_) => "a float",
            Argument::Str(_) => "a text",
            Argument::Expr(_) => "a scalar expression",
            Argument::Tensor(_) => "a tensor",
            Argument::List(_) => "a list",
        }
    }
}

/// Why arguments do not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopiError {
    /// The parameter whose argument is wrong, if it is one.
    pub argument: Option<&'static str>,
    /// What is wrong.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<String>,
}

impl TopiError {
    /// An error of several arguments.
    pub fn new(message: impl Into<String>) -> TopiError {
        TopiError { argument: None, message: message.into(), help: None }
    }
}

impl From<OpError> for TopiError {
    fn from(error: OpError) -> TopiError {
        TopiError { argument: None, message: error.reason, help: error.help }
    }
}

/// A call: the stages so far, and the arguments by the names of parameters.
pub struct Call<'a> {
    /// The stages.
    pub te: &'a mut Te,
    /// Tensors whose layout is free.
    pub layout_free: Vec<Tensor>,
    args: Vec<(&'static str, Argument)>,
}

impl<'a> Call<'a> {
    pub(super) fn new(te: &'a mut Te, args: Vec<(&'static str, Argument)>) -> Call<'a> {
        Call { te, layout_free: Vec::new(), args }
    }

    /// Indices have the type of the tensors' extents: `int64` if one has it.
    pub(super) fn choose_index_type(&mut self) {
        fn tensors(arg: &Argument, all: &mut Vec<Tensor>) {
            match arg {
                Argument::Tensor(t) => all.push(*t),
                Argument::List(items) => items.iter().for_each(|a| tensors(a, all)),
                _ => {}
            }
        }
        let mut all = Vec::new();
        self.args.iter().for_each(|(_, a)| tensors(a, &mut all));
        let is_wide = |&t: &Tensor| self.te.shape(t).iter().any(|&e| self.te.dtype(e) == DType::Int64);
        if all.iter().any(is_wide) {
            self.te.set_index_type(DType::Int64);
        }
    }

    /// The argument of a parameter.
    pub(super) fn get(&self, name: &'static str) -> &Argument {
        self.args.iter().find(|(n, _)| *n == name).map_or(&Argument::None, |(_, a)| a)
    }

    /// The error of an argument.
    pub(super) fn wrong<T>(&self, name: &'static str, expected: &str) -> Result<T, TopiError> {
        let found = self.get(name).describe();
        let message = format!("expected {expected} for `{name}`, found {found}");
        Err(TopiError { argument: Some(name), message, help: None })
    }

    pub(super) fn tensor(&self, name: &'static str) -> Result<Tensor, TopiError> {
        match self.get(name) {
            Argument::Tensor(t) => Ok(*t),
            _ => self.wrong(name, "a tensor"),
        }
    }

    pub(super) fn opt_tensor(&self, name: &'static str) -> Result<Option<Tensor>, TopiError> {
        match self.get(name) {
            Argument::None => Ok(None),
            _ => self.tensor(name).map(Some),
        }
    }

    pub(super) fn tensors(&self, name: &'static str) -> Result<Vec<Tensor>, TopiError> {
        let tensor = |a: &Argument| match a {
            Argument::Tensor(t) => Some(*t),
            _ => None,
        };
        match self.get(name) {
            Argument::List(items) => match items.iter().map(tensor).collect() {
                Some(all) => Ok(all),
                None => self.wrong(name, "tensors"),
            },
            Argument::Tensor(t) => Ok(vec![*t]),
            _ => self.wrong(name, "a list of tensors"),
        }
    }

    /// A known integer. Very large ones, which stand for "to the end", become as large as sums of them allow.
    fn known_int(&self, arg: &Argument) -> Option<i64> {
        const MOST: i64 = 1 << 40;
        self.any_int(arg).map(|v| v.clamp(-MOST, MOST))
    }

    fn any_int(&self, arg: &Argument) -> Option<i64> {
        match arg {
            Argument::Int(v) => Some(*v),
            Argument::Bool(v) => Some(*v as i64),
            Argument::Expr(e) => self.te.as_int(*e),
            Argument::Float(v) if v.fract() == 0.0 && v.abs() < 1e15 => Some(*v as i64),
            _ => None,
        }
    }

    pub(super) fn int(&self, name: &'static str) -> Result<i64, TopiError> {
        match self.known_int(self.get(name)) {
            Some(v) => Ok(v),
            None => self.wrong(name, "an integer"),
        }
    }

    pub(super) fn opt_int(&self, name: &'static str) -> Result<Option<i64>, TopiError> {
        match self.get(name) {
            Argument::None => Ok(None),
            _ => self.int(name).map(Some),
        }
    }

    /// Integers; one is a list of one.
    pub(super) fn ints(&self, name: &'static str) -> Result<Vec<i64>, TopiError> {
        let all = match self.get(name) {
            Argument::List(items) => items.iter().map(|a| self.known_int(a)).collect(),
            one => self.known_int(one).map(|v| vec![v]),
        };
        match all {
            Some(all) => Ok(all),
            None => self.wrong(name, "integers"),
        }
    }

    pub(super) fn opt_ints(&self, name: &'static str) -> Result<Option<Vec<i64>>, TopiError> {
        match self.get(name) {
            Argument::None => Ok(None),
            _ => self.ints(name).map(Some),
        }
    }

    pub(super) fn float(&self, name: &'static str) -> Result<f64, TopiError> {
        match self.get(name) {
            Argument::Float(v) => Ok(*v),
            Argument::Expr(e) => match self.te.as_const(*e) {
                Some(c) => Ok(c.as_f64()),
                None => self.wrong(name, "a constant number"),
            },
            other => match self.known_int(other) {
                Some(v) => Ok(v as f64),
                None => self.wrong(name, "a number"),
            },
        }
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<bool, TopiError> {
        match self.get(name) {
            Argument::Bool(v) => Ok(*v),
            Argument::Int(v) => Ok(*v != 0),
            Argument::None => Ok(false),
            _ => self.wrong(name, "`True` or `False`"),
        }
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Symbol, TopiError> {
        match self.get(name) {
            Argument::Str(s) => Ok(*s),
            _ => self.wrong(name, "a text"),
        }
    }

    /// An element type.
    pub(super) fn dtype(&self, name: &'static str) -> Result<DType, TopiError> {
        match self.text(name)?.as_str().parse::<DType>() {
            Ok(dtype) if !matches!(dtype, DType::Str | DType::Handle) => Ok(dtype),
            _ => self.wrong(name, "a data type"),
        }
    }

    pub(super) fn opt_dtype(&self, name: &'static str) -> Result<Option<DType>, TopiError> {
        match self.get(name) {
            Argument::None => Ok(None),
            _ => self.dtype(name).map(Some),
        }
    }

    /// Extents or indices, perhaps symbolic.
    pub(super) fn extents(&mut self, name: &'static str) -> Result<Vec<ExprId>, TopiError> {
        let items = match self.get(name) {
            Argument::List(items) => items.clone(),
            one => vec![one.clone()],
        };
        let mut all = Vec::with_capacity(items.len());
        for item in &items {
            all.push(match (item, self.known_int(item)) {
                (_, Some(v)) if i32::try_from(v).is_ok() => self.te.extent(v),
                (_, Some(v)) => self.te.int(v, DType::Int64),
                (Argument::Expr(e), _) if self.te.dtype(*e).is_index() => *e,
                _ => return self.wrong(name, "integers"),
            });
        }
        Ok(all)
    }

    /// The element type of a tensor.
    pub(super) fn type_of(&self, t: Tensor) -> DType {
        self.te.element_type(t)
    }

    /// The number of dimensions of a tensor.
    pub(super) fn rank(&self, t: Tensor) -> usize {
        self.te.shape(t).len()
    }

    /// The stages of an operator of graphs.
    pub(super) fn operator(
        &mut self,
        name: &'static str,
        given: Vec<(&'static str, Given)>,
    ) -> Result<Vec<Tensor>, TopiError> {
        Ok(apply(self.te, name, given)?)
    }
}

/// Integers as an attribute.
pub(super) fn ints(all: &[i64]) -> Given {
    Given::Attr(AttrValue::List(all.iter().map(|&v| AttrValue::Int(v)).collect()))
}

/// An integer as an attribute.
pub(super) fn int(v: i64) -> Given {
    Given::Attr(AttrValue::Int(v))
}

/// Integers or `None` as an attribute.
pub(super) fn opt_ints(all: Option<&[i64]>) -> Given {
    all.map_or(Given::Attr(AttrValue::None), ints)
}

/// A truth value as an attribute.
pub(super) fn flag(v: bool) -> Given {
    Given::Attr(AttrValue::Bool(v))
}

/// A float as an attribute.
pub(super) fn float(v: f64) -> Given {
    Given::Attr(AttrValue::Float(v))
}

/// A text as an attribute.
pub(super) fn text(v: &str) -> Given {
    Given::Attr(AttrValue::Str(v.into()))
}
