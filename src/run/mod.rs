//! Running a function on arrays of the caller.
//!
//! ```
//! use tvmr::arrays::Array;
//! use tvmr::ir::DType;
//! use tvmr::run::Function;
//! use tvmr::script::{ParseOptions, parse};
//! use tvmr::workload::{Setting, Workload};
//!
//! let text = r#"
//! @T.prim_func
//! def double(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
//!     for i in range(2):
//!         with T.block("B"):
//!             vi = T.axis.spatial(2, i)
//!             B[vi] = A[vi] * 2
//! "#;
//! let module = parse(text, "double.tir", &ParseOptions::default()).map_err(|e| e.render(false))?.module;
//! let workload = Workload::of(&module, 0);
//! // As written; another version is the function of a schedule.
//! let double = Function::compile(&workload, workload.func(), &Setting::native())?;
//! let a = Array::new(DType::Int32, &[2], [1i32, 2].iter().flat_map(|v| v.to_le_bytes()).collect())?;
//! let outputs = double.run(vec![("A", a)])?;
//! assert_eq!(outputs[0].0, "B");
//! assert_eq!(outputs[0].1.data(), [2, 0, 0, 0, 4, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | content |
//! | --- | --- |
//! | [`function`] | compiling a function and calling it; start here |
//! | [`parameter`] | its parameters, and what it does with them |
//! | [`place`] | arrays in memory that a program lays out otherwise |
//! | [`mod@compare`] | comparing outputs with expected arrays |
//! | [`error`] | errors |
//!
//! # Invariants
//! * Values have the type and the shape of their parameter; nothing is converted.
//! * A parameter that is read has a value of the caller, unless the caller asks for random ones.
//! * Calls start from the values that were bound: a function that adds to its output may be called again.
//!
//! [`crate::callable`], which comes before, runs functions on memory of the caller. Here values are owned, have any layout that a
//! program asks for, and may be random.

mod compare;
mod error;
mod function;
mod parameter;
mod place;
#[cfg(test)]
mod tests;

pub use compare::{Comparison, Different, compare};
pub use error::RunError;
pub use function::{Call, Function, Unset};
pub use parameter::{Parameter, Role};
