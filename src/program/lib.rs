//! Programs: what they are, what can be proved about them, and the machines they run on.
//!
//! The first of the crates of tvmr. Nothing in it knows of schedules or machine code. docs/architecture.md lists its modules.

pub mod arith;
pub mod diagnostic;
pub mod files;
pub mod ir;
pub mod machine;
pub mod stop;
