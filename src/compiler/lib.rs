//! From programs to machine code that is timed: the loop IR, lowering, the code generator, and measurement.
//!
//! It knows programs (`tvmr-program`), but no schedules. docs/architecture.md lists its modules.

// Paths of modules are the same in all crates of tvmr.
use tvmr_program::{ir, machine, stop};

pub mod codegen;
pub mod loopir;
pub mod lower;
pub mod measure;
