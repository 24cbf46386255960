//! `tvmr`: an auto-tuner for tensor programs.
//!
//! Data flows through the modules in one direction, and an earlier module never knows a later one:
//!
//! ```text
//! script → ir → schedule / space → search → lower → codegen → measure → database
//! ```
//!
//! `tune` drives the loop, `cli` presents it. docs/architecture.md is the map.

pub mod arith;
mod check;
pub mod cli;
pub mod codegen;
pub mod database;
pub mod diagnostic;
pub mod ir;
pub mod lint;
pub mod loopir;
pub mod lower;
pub mod machine;
pub mod measure;
pub mod perf;
pub mod schedule;
pub mod schedule_function;
pub mod script;
pub mod search;
pub mod space;
pub mod stop;
pub mod tune;
pub mod workload;
