//! From programs to machine code: the loop IR, lowering, and the code generator.
//!
//! It knows programs (`tvmr-program`), but no schedules. docs/architecture.md lists its modules.

// Paths of modules are the same in all crates of tvmr.
use tvmr_program::{ir, machine, stop};

pub mod codegen;
pub mod loopir;
pub mod lower;
