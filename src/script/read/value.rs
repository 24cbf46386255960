//! What an expression of the text evaluates to: a Python value, or a piece of the program.

use super::refused;
use crate::ir::{BufferId, ExprId, ObjectKind, Pointee, Ty};

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
    /// An object of TVM's that attributes hold.
    Object(ObjectKind, Vec<Value>),
    /// `T.index_map(lambda i, j: (j, i))`: its variables and what they are mapped to.
    IndexMap(Vec<ExprId>, Vec<ExprId>),
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
            Value::Object(kind, _) => match kind {
                ObjectKind::Range => "a range",
                ObjectKind::IterVar => "an iteration variable",
                ObjectKind::VDevice => "a device",
                ObjectKind::DummyGlobalInfo => "information",
            },
            Value::IndexMap(..) => "an index map",
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
    /// A part of `T` whose members are refused, for this reason.
    Refused(&'static str),
    /// The module that is being read, by the name of its class.
    Module,
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
            _ => {
                let of_tir = |p: &'static str| path.strip_prefix(p).and_then(|name| Namespace::Tir.member(name));
                of_tir("tvm.script.tirx.").or_else(|| of_tir("tvm.script.tir.")).unwrap_or(Namespace::Foreign)
            }
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
            (Namespace::Tir, name) if refused::is_namespace(name) => refused::reason(name).map(Namespace::Refused),
            (Namespace::Refused(why), _) => Some(Namespace::Refused(why)),
            (Namespace::Foreign, _) => Some(Namespace::Foreign),
            _ => None,
        }
    }
}
