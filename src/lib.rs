//! `tvmr`: an auto-tuner for tensor programs.
//!
//! Data flows through the modules in one direction, and an earlier module never knows a later one:
//!
//! ```text
//! script → ir → schedule / space → search → lower → codegen → measure → database
//! ```
//!
//! `tune` drives the loop, `cli` presents it. docs/architecture.md is the map, docs/library.md a walk through the library for its
//! users.
//!
//! ```
//! use tvmr::schedule::{Schedule, arg::Arg};
//! use tvmr::script::{Dialect, ParseOptions, parse, print_module};
//!
//! let text = r#"
//! @T.prim_func
//! def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
//!     for i in range(128):
//!         with T.block("B"):
//!             vi = T.axis.spatial(128, i)
//!             B[vi] = A[vi] * T.float32(2)
//! "#;
//! let module = parse(text, "double.tir", &ParseOptions::default()).map_err(|e| e.render(false))?.module;
//! let mut schedule = Schedule::new(&module, 0);
//! let block = schedule.get_block("B", "main")?;
//! let i = schedule.get_loops(block)?[0];
//! let parts = schedule.split(i, vec![Arg::Int(8), Arg::Int(16)])?;
//! schedule.vectorize(parts[1])?;
//! assert!(print_module(&schedule.module(), Dialect::Current).contains("T.vectorized(16)"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(inline)]
pub use tvmr_compiler::{codegen, loopir, lower, measure};
#[doc(inline)]
pub use tvmr_frontend::{graph, lint, onnx, script, te, topi};
#[doc(inline)]
pub use tvmr_program::{arith, diagnostic, ir, machine, stop};
#[doc(inline)]
pub use tvmr_scheduling::{interpreter, schedule, schedule_function, search, space, te_function, te_schedule, tvm_log};

use tvmr_program::files;

pub mod arrays;
pub mod callable;
mod check;
pub mod cli;
pub mod database;
pub mod export;
mod foreign;
pub mod model;
pub mod perf;
pub mod request;
pub mod run;
pub mod tune;
pub mod workload;
