//! A slow, obvious interpreter: what a function means.
//!
//! [`run()`] executes a whole function statement by statement, as `expr`'s and `stmt`'s docs say it: blocks bind their
//! iterations, test their predicate, run `init` where all reduction iterations are at the first value of their
//! domain, then the body; loops of every kind run serially; allocations are fresh for every instance of their block;
//! views are windows into what they show. Every access is checked against the extents of the buffer, every division
//! against what it cannot do; a fault names the statement.
//!
//! [`Points`] recomputes chosen elements of large functions without running them, on demand from the blocks that
//! produce them.
//!
//! The code generator is judged by both, so neither shares anything with it. Functions are verified before they are
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

/// A scalar. Floats are numbers of their type unless they are carried wide.
pub use crate::ir::expr::Const as Value;

/// How floating-point values are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// Every operation is rounded to its type.
    Exact,
    /// Everything is carried as `float64` and rounded when a function's outputs are read: for reference values.
    Wide,
    /// The same, but what an operation would round is moved by as much as a right implementation may be off, one way or
    /// the other. Runs of several seeds show how far right results are from one another (Monte Carlo arithmetic: Stott
    /// Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic", 1997).
    Perturbed {
        /// Which way each goes follows from the seed and from what is rounded: the same operation on the same values
        /// gives the same result throughout a run.
        seed: u64,
        /// The roundings are taken to be so many times as large as they are.
        scale: u32,
    },
}

/// What is in memory that nothing has been stored to.
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
    /// How floats are carried.
    pub precision: Precision,
    /// What fresh allocations hold.
    pub fresh: Fresh,
    /// The run ends with [`Fault::TooLong`] after this many stores.
    pub max_steps: u64,
}

impl Default for Options {
    /// Exact, poisoned, without limit.
    fn default() -> Self {
        Options { precision: Precision::Exact, fresh: Fresh::Poison, max_steps: u64::MAX }
    }
}

/// An argument of a function.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// For a buffer parameter; results are stored here.
    Tensor(Tensor),
    /// For a scalar parameter.
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

    /// The argument without its ownership.
    pub fn view(&self) -> ArgRef<'_> {
        match self {
            Arg::Tensor(t) => ArgRef::Tensor(t.view()),
            Arg::Scalar(v) => ArgRef::Scalar(*v),
        }
    }
}

/// An argument that is only read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArgRef<'a> {
    /// For a buffer parameter.
    Tensor(TensorRef<'a>),
    /// For a scalar parameter.
    Scalar(Value),
}
