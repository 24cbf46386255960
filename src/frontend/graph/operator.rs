//! What an operator is.
//!
//! An [`Operator`] is a constant in a table: its name and parameters, as in Python (`R.nn.conv2d(data, weight, strides=(1, 1),
//! …)`), its shape rule and its lowering. A call has one argument for each parameter, in that order.

use super::constant::Constant;
use super::function::Arg;
use super::infer::{Args, Infer};
use super::lower::Lower;
use super::ty::Type;
use crate::ir::{Arena, AttrValue, ExprId};
use crate::te::{Te, Tensor};
use std::fmt;

/// An operator.
pub struct Operator {
    /// The name after `R.`.
    pub name: &'static str,
    /// The parameters.
    pub params: &'static [Param],
    /// The type of the result.
    pub infer: fn(&mut Infer<'_>) -> Result<Type, OpError>,
    /// The computation.
    pub lower: Lowering,
    /// What it computes, in one sentence.
    pub doc: &'static str,
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Operator {
    /// The position of a parameter.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }
}

/// How an operator is computed.
#[derive(Clone, Copy)]
pub enum Lowering {
    /// Each element of the result is this function of the elements of the operands at its indices; operands of smaller shapes are
    /// broadcast. With the name of the stage.
    Elementwise(&'static str, fn(&mut Te, &[ExprId]) -> ExprId),
    /// By tensor expressions: one tensor for each tensor of the result.
    Stages(fn(&mut Lower<'_>) -> Result<Vec<Tensor>, OpError>),
    /// It is not computed: the result has the memory of its operand, by another shape.
    Reshape,
    /// Its operands are known, and so are its results: constants, one for each tensor. The arena owns the extents of the function.
    Known(fn(&Args<'_>, &Arena) -> Result<Vec<Constant>, OpError>),
}

/// A parameter of an operator.
pub struct Param {
    /// The name in Python.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is without an argument.
    pub default: Default,
}

/// What a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A tensor whose elements follow from constants, because the shape of the result depends on them.
    Constant,
    /// A tensor or nothing.
    OptTensor,
    /// Several tensors.
    Tensors,
    /// Extents.
    Shape,
    /// A number, perhaps symbolic.
    Prim,
    /// Several numbers, perhaps symbolic.
    Prims,
    /// An integer.
    Int,
    /// An integer or `None`.
    OptInt,
    /// Integers; one is a list of one.
    Ints,
    /// Integers or `None`.
    OptInts,
    /// An integer or integers, which differ.
    IntOrInts,
    /// A float; integers are converted.
    Float,
    /// A float or `None`.
    OptFloat,
    /// A number or `None`; integers stay integers.
    OptNumber,
    /// Floats or `None`.
    OptFloats,
    /// A truth value.
    Bool,
    /// A text.
    Str,
    /// A text or `None`.
    OptStr,
    /// An element type.
    DType,
    /// An element type or `None`.
    OptDType,
    /// `T.index_map(…)`
    IndexMap,
}

impl Kind {
    /// Whether the argument is an attribute; others are values and numbers, which print by position.
    pub fn is_attribute(self) -> bool {
        match self {
            Kind::Tensor
            | Kind::Constant
            | Kind::OptTensor
            | Kind::Tensors
            | Kind::Shape
            | Kind::Prim
            | Kind::Prims => false,
            Kind::Int
            | Kind::OptInt
            | Kind::Ints
            | Kind::OptInts
            | Kind::IntOrInts
            | Kind::Float
            | Kind::OptFloat
            | Kind::OptNumber
            | Kind::OptFloats
            | Kind::Bool
            | Kind::Str
            | Kind::OptStr
            | Kind::DType
            | Kind::OptDType
            | Kind::IndexMap => true,
        }
    }

    /// What is expected, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Kind::Tensor => "a tensor",
            Kind::Constant => "a tensor that follows from constants",
            Kind::OptTensor => "a tensor or nothing",
            Kind::Tensors => "a tuple of tensors",
            Kind::Shape => "a shape",
            Kind::Prim => "a number",
            Kind::Prims => "numbers",
            Kind::Int => "an integer",
            Kind::OptInt => "an integer or `None`",
            Kind::Ints => "integers",
            Kind::OptInts => "integers or `None`",
            Kind::IntOrInts => "an integer or integers",
            Kind::Float => "a float",
            Kind::OptFloat => "a float or `None`",
            Kind::OptNumber => "a number or `None`",
            Kind::OptFloats => "floats or `None`",
            Kind::Bool => "`True` or `False`",
            Kind::Str => "a text",
            Kind::OptStr => "a text or `None`",
            Kind::DType => "a data type",
            Kind::OptDType => "a data type or `None`",
            Kind::IndexMap => "an index map",
        }
    }
}

/// The value of a parameter without an argument.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// It must be given.
    Required,
    /// Nothing: an absent tensor or number.
    Absent,
    /// `None`
    None,
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(&'static [i64]),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text or the name of a data type.
    Str(&'static str),
}

impl Default {
    /// The argument; [`Arg::Missing`] for what must be given.
    pub fn arg(self) -> Arg {
        Arg::Attr(match self {
            Default::Required | Default::Absent => return Arg::Missing,
            Default::None => AttrValue::None,
            Default::Int(v) => AttrValue::Int(v),
            Default::Ints(all) => AttrValue::List(all.iter().map(|&v| AttrValue::Int(v)).collect()),
            Default::Float(v) => AttrValue::Float(v),
            Default::Bool(v) => AttrValue::Bool(v),
            Default::Str(v) => AttrValue::Str(v.into()),
        })
    }
}

/// A parameter that must be given.
pub const fn required(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, default: Default::Required }
}

/// A parameter with a default.
pub const fn optional(name: &'static str, kind: Kind, default: Default) -> Param {
    Param { name, kind, default }
}

/// Why arguments do not fit an operator.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`R.{operator}`: {reason}")]
pub struct OpError {
    /// The operator.
    pub operator: &'static str,
    /// What is wrong: what was expected and what was found.
    pub reason: String,
    /// What to do, if that is known.
    pub help: Option<String>,
}
