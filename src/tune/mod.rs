//! The driver: trials, budgets, resumption.
//!
//! It is the only module that sees search, code generation, measurement and the database together; `cli` presents what
//! it reports.

pub mod best;
pub mod workload;
