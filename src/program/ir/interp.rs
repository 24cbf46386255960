//! A simple interpreter, which defines the meaning of functions.
//!
//! [`run()`] executes a whole function statement by statement, as the docs of `expr` and `stmt` define it: a block
//! binds its iteration variables, tests its predicate, runs `init` if all reduction iterations are at the first value
//! of their domain, then runs its body; loops of all kinds run serially; each instance of a block has fresh
//! allocations; views are windows into their sources. Every access is checked against the extents of the buffer, and
//! every division for undefined results; a fault names the statement.
//!
//! [`Points`] computes single elements of the results of large functions, on demand from the blocks that produce them.
//!
//! Tests compare the code generator with both, so neither shares code with it. Functions are verified before they are
//! interpreted.

mod eval;
mod fault;
mod layout;
mod point;
mod precision;
mod run;
mod tensor;
mod value_at;

pub use fault::{Fault, RunError};
pub use point::Points;
pub use run::run;

pub use tensor::{Tensor, TensorRef};
pub use value_at::value_at;

/// A scalar. Floats are numbers of their type, except with [`Precision::Wide`].
pub use crate::ir::expr::Const as Value;

/// Rounding of floating-point values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// Every operation is rounded to its type.
    Exact,
    /// All values are `float64`, and are rounded when a function's outputs are read: for reference values.
    Wide,
    /// Like `Wide`, but each result that an operation would round is changed, up or down, by the maximum error of a
    /// correct implementation. Runs with several seeds show how far correct results differ (Monte Carlo arithmetic:
    /// Stott Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic", 1997).
    Perturbed {
        /// Seed of the directions. A direction is a function of the seed and the rounded value: the same operation on
        /// the same values gives the same result throughout a run.
        seed: u64,
        /// Factor by which the errors are enlarged.
        scale: u32,
    },
}

/// Contents of memory before the first store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fresh {
    /// A NaN, or the integer of bytes `0xa5`: garbage that is easy to see.
    Poison,
    /// Loading it is a fault.
    Checked,
}

/// Options of the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Rounding of floats.
    pub precision: Precision,
    /// Contents of fresh allocations.
    pub fresh: Fresh,
    /// The run ends with [`Fault::TooLong`] after this many stores.
    pub max_steps: u64,
}

impl Default for Options {
    /// Exact rounding, poisoned memory, no limit.
    fn default() -> Self {
        Options { precision: Precision::Exact, fresh: Fresh::Poison, max_steps: u64::MAX }
    }
}

/// An argument of a function.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// Argument for a buffer parameter; it receives results.
    Tensor(Tensor),
    /// Argument for a scalar parameter.
    Scalar(Value),
}

impl Arg {
    /// The tensor of a buffer parameter.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Arg::Tensor(t) => Some(t),
            Arg::Scalar(_) => None,
        }
    }

    /// A borrowed view of the argument.
    pub fn view(&self) -> ArgRef<'_> {
        match self {
            Arg::Tensor(t) => ArgRef::Tensor(t.view()),
            Arg::Scalar(v) => ArgRef::Scalar(*v),
        }
    }
}

/// A read-only argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArgRef<'a> {
    /// For a buffer parameter.
    Tensor(TensorRef<'a>),
    /// For a scalar parameter.
    Scalar(Value),
}
