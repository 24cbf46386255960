//! Values of expressions in the text: Python values, or parts of the program.

use super::refused;
use crate::ir::{BufferId, ExprId, ObjectKind, Pointee, Ty};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A Python integer, whose type depends on the other operand.
    Int(i128),
    /// A Python float.
    Float(f64),
    /// A Python boolean.
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
    /// `T.int32()`: a variable that is named by its assignment.
    Fresh(Ty),
    /// `T.handle("float32")`: a typed handle that is named by its assignment.
    FreshPointer(Pointee),
    /// A scalar variable: a buffer with one element, read by its name.
    Scalar(BufferId),
    /// The memory of a `T.allocate`, by number.
    Memory(usize),
    /// `T.target(…)`
    Target(Box<Value>),
    /// A TVM object in an attribute.
    Object(ObjectKind, Vec<Value>),
    /// `T.index_map(lambda i, j: (j, i))`: its variables and the expressions to which they are mapped.
    IndexMap(Vec<ExprId>, Vec<ExprId>),
    /// `T.float32`: a data type.
    Type(Ty),
    /// `TypeVar("n")` at module level: a symbolic extent of type `int64`, one for each function that mentions it.
    TypeVar,
    /// A module or a part of one.
    Namespace(Namespace),
    /// A name whose definition had a mistake: its uses are not reported.
    Poison,
}

impl Value {
    /// A description of the value, for messages.
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

/// A module to which names of the text can refer.
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
    /// A part of `T` whose members are all refused, with the reason.
    Refused(&'static str),
    /// The current module, by the name of its class.
    Module,
    /// Any other module, whose contents are unknown.
    Foreign,
}

impl Namespace {
    /// The module with a dotted path.
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
