//! What an expression of the text evaluates to: a Python value, or a piece of the program.

use crate::ir::{BufferId, ExprId, Pointee, Ty};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A Python integer, typed only by what it meets.
    Int(i128),
    /// A Python float.
    Float(f64),
    /// A Python truth value.
    Bool(bool),
    /// A text.
    Str(Box<str>),
    /// `None`.
    None,
    /// A list or tuple.
    Seq(Vec<Value>),
    /// A dictionary with text keys.
    Dict(Vec<(Box<str>, Value)>),
    /// An expression of the program.
    Expr(ExprId),
    /// A buffer.
    Buffer(BufferId),
    /// `T.int32()`: a variable that gets its name where it is assigned.
    Fresh(Ty),
    /// `T.handle("float32")`: a typed handle, likewise.
    FreshPointer(Pointee),
    /// A scalar variable: a buffer with one element, which is read by its name.
    Scalar(BufferId),
    /// What `T.allocate` gives, by number.
    Memory(usize),
    /// `T.target(…)`
    Target(Box<Value>),
    /// `T.float32`: a data type.
    Type(Ty),
    /// `TypeVar("n")` at module level: a symbolic extent of type `int64`, one for each function that mentions it.
    TypeVar,
    /// A module or a part of one.
    Namespace(Namespace),
    /// A name whose definition was wrong: using it is no further mistake.
    Poison,
}

impl Value {
    /// What it is, for a message.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a truth value",
            Value::Str(_) => "a text",
            Value::None => "`None`",
            Value::Seq(_) => "a list",
            Value::Dict(_) => "a dictionary",
            Value::Expr(_) => "an expression",
            Value::Buffer(_) => "a buffer",
            Value::Fresh(_) | Value::FreshPointer(_) => "a new variable",
            Value::Scalar(_) => "a variable",
            Value::Memory(_) => "memory",
            Value::Target(_) => "a target",
            Value::Type(_) => "a data type",
            Value::TypeVar => "a symbol",
            Value::Namespace(_) => "a module",
            Value::Poison => "something undefined",
        }
    }
}

/// A module that names of the text can lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Namespace {
    /// `tvm`
    Tvm,
    /// `tvm.script`
    Script,
    /// `T`: `tvm.script.tir` or `tvm.script.tirx`
    Tir,
    /// `I`: `tvm.script.ir`
    Ir,
    /// `R`: `tvm.script.relax`
    Relax,
    /// `T.axis`
    Axis,
    /// Any other module; nothing of it is known.
    Foreign,
}

impl Namespace {
    /// The module that a dotted path names.
    pub(super) fn of_path(path: &str) -> Namespace {
        match path {
            "tvm" => Namespace::Tvm,
            "tvm.script" => Namespace::Script,
            "tvm.script.tir" | "tvm.script.tirx" => Namespace::Tir,
            "tvm.script.ir" => Namespace::Ir,
            "tvm.script.relax" => Namespace::Relax,
            _ => Namespace::Foreign,
        }
    }

    /// A module inside this one.
    pub(super) fn member(self, name: &str) -> Option<Namespace> {
        match (self, name) {
            (Namespace::Tvm, "script") => Some(Namespace::Script),
            (Namespace::Script, "tir" | "tirx") => Some(Namespace::Tir),
            (Namespace::Script, "ir") => Some(Namespace::Ir),
            (Namespace::Script, "relax") => Some(Namespace::Relax),
            (Namespace::Tir, "axis") => Some(Namespace::Axis),
            (Namespace::Foreign, _) => Some(Namespace::Foreign),
            _ => None,
        }
    }
}
