//! Schedules of programs, spaces of schedules, and the search in them.
//!
//! It knows programs (`tvmr-program`) and their text (`tvmr-frontend`), but no machine code and no measurements. docs/architecture.md lists its modules.

// Paths of modules are the same in all crates of tvmr.
use tvmr_frontend::{script, te, topi};
use tvmr_program::{arith, diagnostic, ir, machine, stop};

pub mod interpreter;
pub mod schedule;
pub mod schedule_function;
pub mod search;
pub mod space;
pub mod te_function;
pub mod te_schedule;
pub mod tvm_log;
