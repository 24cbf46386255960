//! Programs: what they are, what can be proved about them, and their text.
//!
//! The first of the crates of tvmr. Nothing in it knows of schedules or machine code. docs/architecture.md lists its modules.

pub mod arith;
pub mod diagnostic;
pub mod files;
pub mod graph;
pub mod ir;
pub mod lint;
pub mod machine;
pub mod script;
pub mod stop;
pub mod te;
