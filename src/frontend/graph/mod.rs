//! Graphs of operators: functions over whole tensors, as frameworks and TVM's relax have them.
//!
//! A [`Function`] is a list of calls in the order in which they run. Operators are relax's: same names, attributes, defaults and
//! meaning. So a graph prints as a module that TVM reads, and every operator can be compared with TVM's.
//!
//! | file | content |
//! | --- | --- |
//! | [`function`] | functions, values, calls; start here |
//! | [`ty`] | types of values; shapes with symbolic extents |
//! | [`constant`] | tensors with known elements |
//! | [`distinct`] | such tensors, each content once |
//! | [`batch`] | whether samples of a batch are independent |
//! | [`constness`] | which values are the same in every call |
//! | [`operator`] | what an operator is: parameters, shape rule, lowering |
//! | [`op`] | the table of operators, one file for each group |
//! | [`infer`] | what shape rules are given |
//! | [`known`] | elements that follow from constants |
//! | [`libraries`] | libraries with functions that graphs call by name |
//! | [`lower`] | what lowerings are given; from operators to prim_funcs |
//! | [`pass`] | passes, one file each |
//! | [`specialize`] | prim_funcs with symbols, for the shapes of one call |
//! | [`program`] | a function as steps on places in memory |
//! | [`scheduled`] | such steps with kernels, whose preparations of weights are steps of their own |
//! | [`joined`] | concatenations whose parts are written where they belong |
//! | [`memory`] | where intermediate values lie |
//!
//! # Invariants
//! * A call reads values that were defined before it. Each value is defined once.
//! * The type of a value is that which the shape rule of its call gives, so every value has a known rank.
//! * Extents are expressions of the function's own arena, of type `int64`.
//!
//! `te`, which comes before, makes the prim_funcs of operators; `script` reads and prints graphs; `model` runs them.

pub mod apply;
pub mod batch;
pub mod constant;
pub mod constness;
pub mod distinct;
pub mod function;
pub mod infer;
pub mod joined;
pub mod known;
pub mod libraries;
pub mod lower;
pub mod memory;
pub mod op;
pub mod operator;
pub mod pass;
pub mod program;
pub mod scheduled;
pub mod specialize;
pub mod ty;

pub use constant::Constant;
pub use distinct::DistinctConstants;
pub use function::{Arg, Call, CallId, Callee, Function, Output, Value, ValueDef, ValueId};
pub use operator::{OpError, Operator};
pub use pass::GraphModule;
pub use ty::{TensorType, Type};
