//! Faults: errors during the execution of a function.

use crate::ir::buffer::BufferId;
use crate::ir::dtype::DType;
use crate::ir::expr::VarId;
use crate::ir::func::Func;
use crate::ir::scalar::Trap;
use crate::ir::stmt::StmtId;
use crate::ir::symbol::Symbol;

/// A fault and the statement that caused it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError {
    /// The innermost statement; `None` while arguments are bound.
    pub stmt: Option<StmtId>,
    /// The kind of fault.
    pub fault: Fault,
}

/// A kind of fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An access outside the buffer.
    OutOfBounds {
        /// The buffer.
        buffer: BufferId,
        /// The indices.
        indices: Vec<i64>,
        /// Extents of the buffer.
        shape: Vec<i64>,
    },
    /// A load of an element before the first store to it.
    Unwritten {
        /// The buffer.
        buffer: BufferId,
        /// The indices.
        indices: Vec<i64>,
    },
    /// An integer divided by zero.
    DivisionByZero,
    /// The smallest integer divided by -1.
    DivisionOverflow,
    /// A matched region that does not fit its view, or lies outside its source.
    View {
        /// The view.
        buffer: BufferId,
    },
    /// The wrong number of arguments.
    ArgumentCount {
        /// Number of parameters.
        expected: usize,
        /// Number of arguments.
        found: usize,
    },
    /// An argument that is a scalar instead of a tensor, or the reverse.
    ArgumentKind {
        /// Index of the parameter.
        param: usize,
    },
    /// An argument of the wrong element type.
    ArgumentType {
        /// Index of the parameter.
        param: usize,
        /// The parameter's type.
        expected: DType,
        /// The argument's type.
        found: DType,
    },
    /// An argument of the wrong shape or size.
    ArgumentShape {
        /// Index of the parameter.
        param: usize,
        /// The argument's shape.
        found: Vec<i64>,
    },
    /// A buffer with a negative extent, or too large for memory.
    Allocation {
        /// The buffer.
        buffer: BufferId,
    },
    /// A variable without a value: the function is not well-formed.
    Unbound {
        /// The variable.
        var: VarId,
    },
    /// A buffer without memory: the function is not well-formed.
    UnboundBuffer {
        /// The buffer.
        buffer: BufferId,
    },
    /// An operation on values of the wrong type: the function is not well-formed.
    IllTyped,
    /// A call of an unknown function.
    Unknown {
        /// Name of the function.
        name: Symbol,
    },
    /// Values of a type with which tvmr does not compute.
    UnknownType {
        /// Name of the type.
        name: &'static str,
    },
    /// An assertion of the program failed.
    Assertion {
        /// The Python exception of the assertion.
        kind: Symbol,
        /// Message of the assertion.
        message: String,
    },
    /// The limit of steps was reached.
    TooLong,
}

impl From<Trap> for Box<Fault> {
    #[cold]
    fn from(trap: Trap) -> Box<Fault> {
        Box::new(match trap {
            Trap::DivisionByZero => Fault::DivisionByZero,
            Trap::DivisionOverflow => Fault::DivisionOverflow,
            Trap::IllTyped => Fault::IllTyped,
        })
    }
}

impl RunError {
    /// The message, with the names of the function.
    pub fn message(&self, func: &Func) -> String {
        let name = |b: BufferId| func.arena.buffer(b).name;
        let what = match &self.fault {
            Fault::OutOfBounds { buffer, indices, shape } => {
                format!("access to `{}` at {indices:?} is out of bounds of its shape {shape:?}", name(*buffer))
            }
            Fault::Unwritten { buffer, indices } => {
                format!("load of `{}` at {indices:?}, which nothing was stored to", name(*buffer))
            }
            Fault::DivisionByZero => "integer division by zero".into(),
            Fault::DivisionOverflow => "the smallest integer is divided by -1".into(),
            Fault::View { buffer } => format!("view `{}` does not fit the region that it shows", name(*buffer)),
            Fault::ArgumentCount { expected, found } => format!("expected {expected} arguments, found {found}"),
            Fault::ArgumentKind { param } => match func.params.get(*param).and_then(|p| p.buffer) {
                Some(_) => format!("argument {param} must be a tensor"),
                None => format!("argument {param} must be a scalar"),
            },
            Fault::ArgumentType { param, expected, found } => {
                format!("argument {param} must be of type `{expected}`, found `{found}`")
            }
            Fault::ArgumentShape { param, found } => {
                let expected = match func.params.get(*param).and_then(|p| p.buffer) {
                    Some(b) => func.arena.brief_list(func.arena.buffer(b).shape).to_string(),
                    None => String::new(),
                };
                format!("argument {param} must be of shape [{expected}], found {found:?}")
            }
            Fault::Allocation { buffer } => format!("buffer `{}` cannot be allocated", name(*buffer)),
            Fault::Unbound { var } => format!("variable `{}` has no value", func.arena.var(*var).name),
            Fault::UnboundBuffer { buffer } => format!("buffer `{}` has no memory", name(*buffer)),
            Fault::IllTyped => "an operation on values of the wrong type".into(),
            Fault::Unknown { name } => format!("`{name}` is a function that is not known here"),
            Fault::UnknownType { name } => format!("values of type `{name}` cannot be computed with"),
            Fault::Assertion { kind, message } => format!("assertion failed: {kind}: {message}"),
            Fault::TooLong => "the limit of steps was reached".into(),
        };
        match self.stmt {
            Some(s) => format!("{}: {what}", func.brief_stmt(s)),
            None => what,
        }
    }
}
