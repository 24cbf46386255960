//! The front end: tensor expressions, graphs of operators, the text of programs, and hints on it.
//!
//! It makes programs (`tvmr-program`) and prints them. docs/architecture.md lists its modules.

// Paths of modules are the same in all crates of tvmr.
use tvmr_program::{arith, diagnostic, ir};

pub mod graph;
pub mod lint;
pub mod onnx;
pub mod script;
pub mod te;
pub mod topi;
