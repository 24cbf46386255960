//! Kinds of instructions: names, parameters, results, and the function that executes them.
//!
//! Each primitive declares one [`Kind`] in its file, listed in [`super::primitive::ALL`]. The trace's Python text and
//! JSON, the parsing of both, calls from schedule functions and replay follow from it.

use super::arg::{Arg, Decision, RvValue};
use super::call::Call;
use super::error::ScheduleError;

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    /// A block.
    Block,
    /// A loop.
    Loop,
    /// A block or a loop.
    BlockOrLoop,
    /// Any number of loops, positional in Python (`sch.reorder(l1, l2)`).
    Loops,
    /// A list of blocks.
    Blocks,
    /// A block, a loop, or a list of blocks (`blockize`).
    Target,
    /// A list of numbers, random variables and `None`s; in JSON several inputs.
    Factors,
    /// An integer.
    Int,
    /// A boolean.
    Bool,
    /// A text.
    Str,
    /// A list of integers.
    Ints,
    /// A list of floats.
    Floats,
    /// A buffer of a block: `("read", 0)`, `("write", 0)` or its name. In JSON two attributes: the index, then 0 for
    /// reads and 1 for writes.
    Buffer,
    /// A number or a buffer's name: a buffer among those that a block reads, or among those that it writes.
    BufferIndex,
    /// An index map.
    IndexMap,
    /// A function from indices to ranges of indices.
    Ranges,
    /// A value to pad with: a number, a typed constant, a function of indices, or `None`.
    PadValue,
    /// Any value.
    Value,
}

/// The position of an argument in TVM's JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// An input.
    Input,
    /// An attribute.
    Attr,
    /// An attribute, with booleans as 0 and 1.
    AttrAsInt,
}

/// The value of an omitted argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default {
    /// None: the argument is required.
    Required,
    /// `None`.
    None,
    /// This number.
    Int(i64),
    /// This boolean.
    Bool(bool),
    /// The empty list; such an argument is not printed.
    Empty,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The keyword in Python.
    pub name: &'static str,
    /// Its type.
    pub ty: Ty,
    /// Its position in JSON.
    pub slot: Slot,
    /// Its value if omitted.
    pub default: Default,
}

impl Param {
    /// A required input.
    pub const fn input(name: &'static str, ty: Ty) -> Param {
        Param { name, ty, slot: Slot::Input, default: Default::Required }
    }

    /// A required attribute.
    pub const fn attr(name: &'static str, ty: Ty) -> Param {
        Param { name, ty, slot: Slot::Attr, default: Default::Required }
    }

    /// The parameter with a default.
    pub const fn or(mut self, default: Default) -> Param {
        self.default = default;
        self
    }

    /// The parameter with its boolean written as a number in JSON.
    pub const fn as_int(mut self) -> Param {
        self.slot = Slot::AttrAsInt;
        self
    }
}

/// The type of the results, and their form in Python.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outputs {
    /// No result.
    None,
    /// One block: `b0 = sch.…`.
    Block,
    /// A list of blocks, whatever its length: `b1, = sch.…`, `b1, b2 = sch.…`.
    Blocks,
    /// One loop.
    Loop,
    /// A list of loops.
    Loops,
    /// One number.
    Number,
    /// A list of numbers.
    Numbers,
}

impl Outputs {
    /// The first letter of the results' names in a trace.
    pub fn letter(self) -> char {
        match self {
            Outputs::None | Outputs::Block | Outputs::Blocks => 'b',
            Outputs::Loop | Outputs::Loops => 'l',
            Outputs::Number | Outputs::Numbers => 'v',
        }
    }

    /// Whether the result is a list.
    pub fn is_list(self) -> bool {
        match self {
            Outputs::Blocks | Outputs::Loops | Outputs::Numbers => true,
            Outputs::None | Outputs::Block | Outputs::Loop | Outputs::Number => false,
        }
    }
}

/// The result of an execution.
#[derive(Default)]
pub struct Outcome {
    /// The results, in order.
    pub outputs: Vec<RvValue>,
    /// The decision of a sampling instruction: the given one, corrected if necessary, or a drawn one.
    pub decision: Option<Decision>,
}

impl Outcome {
    /// No result.
    pub fn none() -> Self {
        Self::default()
    }
}

/// A kind of instruction.
pub struct Kind {
    /// Name in JSON.
    pub name: &'static str,
    /// Name of the method in Python.
    pub method: &'static str,
    /// Older names in JSON and Python, still read (and printed in the classic dialect).
    pub classic: Option<(&'static str, &'static str)>,
    /// Whether arguments are printed without their keywords.
    pub positional: bool,
    /// The parameters, in the order of Python's positional arguments.
    pub params: &'static [Param],
    /// The results.
    pub outputs: Outputs,
    /// Whether it draws a decision.
    pub samples: bool,
    /// Executes the instruction; on an error, the program is unchanged.
    pub run: fn(&mut Call<'_>) -> Result<Outcome, ScheduleError>,
}

impl Kind {
    /// Whether instructions of this kind may change the program. Queries and samplings do not.
    pub fn may_change_program(&self) -> bool {
        !self.samples && !self.name.starts_with("Get")
    }

    /// The declaration of the method in Python syntax: `fuse(*loops, preserve_unit_iters=True)`.
    pub fn signature(&self) -> String {
        let params = self.params.iter().map(|p| {
            let name = if p.ty == Ty::Loops { format!("*{}", p.name) } else { p.name.to_string() };
            match p.default {
                Default::Required => name,
                Default::None | Default::Empty => format!("{name}=None"),
                Default::Int(v) => format!("{name}={v}"),
                Default::Bool(v) => format!("{name}={}", if v { "True" } else { "False" }),
            }
        });
        format!("{}({})", self.method, params.collect::<Vec<_>>().join(", "))
    }

    /// The position of a parameter.
    pub fn param(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The value of an omitted argument; `None` if it is required.
pub fn default_arg(param: &Param) -> Option<Arg> {
    match param.default {
        Default::Required => None,
        Default::None => Some(Arg::None),
        Default::Int(v) => Some(Arg::Int(v)),
        Default::Bool(v) => Some(Arg::Bool(v)),
        Default::Empty => Some(Arg::List(Vec::new())),
    }
}
