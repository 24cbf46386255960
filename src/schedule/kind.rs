//! What an instruction is: its names, parameters and results, and the function that carries it out.
//!
//! One [`Kind`] per primitive, declared in the primitive's file and listed in [`super::primitive::ALL`], is all there
//! is: the trace's Python text and JSON, the reading of both, calls from schedule functions and replay follow from it.

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
    /// A list of numbers, random variables and `None`s; in JSON spread over the inputs.
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
    /// `("read", 0)`, `("write", 0)` or a buffer's name: which buffer of a block. In JSON two attributes: the index,
    /// then 0 for reads and 1 for writes.
    Buffer,
    /// A number or a buffer's name: which of the buffers that a block reads, or of those that it writes.
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

/// Where TVM's JSON holds an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Among the inputs.
    Input,
    /// Among the attributes.
    Attr,
    /// Among the attributes, booleans as 0 and 1.
    AttrAsInt,
}

/// What an argument is where it is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default {
    /// It must be given.
    Required,
    /// `None`.
    None,
    /// This number.
    Int(i64),
    /// This truth value.
    Bool(bool),
    /// This text.
    Str(&'static str),
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
    /// Its place in JSON.
    pub slot: Slot,
    /// What it is where it is left out.
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

    /// The parameter with a value for where it is left out.
    pub const fn or(mut self, default: Default) -> Param {
        self.default = default;
        self
    }

    /// The parameter with its truth value written as a number in JSON.
    pub const fn as_int(mut self) -> Param {
        self.slot = Slot::AttrAsInt;
        self
    }
}

/// What the results are, and how they appear in Python.
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
    /// The letter that begins the results' names in a trace.
    pub fn letter(self) -> char {
        match self {
            Outputs::None | Outputs::Block | Outputs::Blocks => 'b',
            Outputs::Loop | Outputs::Loops => 'l',
            Outputs::Number | Outputs::Numbers => 'v',
        }
    }

    /// Is the result a list?
    pub fn is_list(self) -> bool {
        match self {
            Outputs::Blocks | Outputs::Loops | Outputs::Numbers => true,
            Outputs::None | Outputs::Block | Outputs::Loop | Outputs::Number => false,
        }
    }
}

/// What carrying out an instruction gave.
#[derive(Default)]
pub struct Outcome {
    /// The results, in order.
    pub outputs: Vec<RvValue>,
    /// The decision, of a sampling instruction: the one given, repaired, or the one drawn.
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
    /// Are arguments printed without their keywords?
    pub positional: bool,
    /// The parameters, in the order of Python's positional arguments.
    pub params: &'static [Param],
    /// The results.
    pub outputs: Outputs,
    /// Does it draw a decision?
    pub samples: bool,
    /// Carries it out; all of it or, on an error, nothing.
    pub run: fn(&mut Call<'_>) -> Result<Outcome, ScheduleError>,
}

impl Kind {
    /// May instructions of this kind change the program? Those that look something up or draw a decision do not.
    pub fn may_change_program(&self) -> bool {
        !self.samples && !self.name.starts_with("Get")
    }

    /// The declaration of the method as Python would write it: `fuse(*loops, preserve_unit_iters=True)`.
    pub fn signature(&self) -> String {
        let params = self.params.iter().map(|p| {
            let name = if p.ty == Ty::Loops { format!("*{}", p.name) } else { p.name.to_string() };
            match p.default {
                Default::Required => name,
                Default::None | Default::Empty => format!("{name}=None"),
                Default::Int(v) => format!("{name}={v}"),
                Default::Bool(v) => format!("{name}={}", if v { "True" } else { "False" }),
                Default::Str(v) => format!("{name}=\"{v}\""),
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

/// The value a parameter takes where it is left out; `None` if it is required.
pub fn default_arg(param: &Param) -> Option<Arg> {
    match param.default {
        Default::Required => None,
        Default::None => Some(Arg::None),
        Default::Int(v) => Some(Arg::Int(v)),
        Default::Bool(v) => Some(Arg::Bool(v)),
        Default::Str(v) => Some(v.into()),
        Default::Empty => Some(Arg::List(Vec::new())),
    }
}
