//! The setting in which a command compiles and measures.

use super::args::{Global, Machine};
use super::console::Console;
use super::exit::Failure;
use crate::request::setting::{Threads, Wanted};
use crate::workload::Setting;

pub(super) use crate::request::program::{check_concrete, symbolic};

/// The setting that the options ask for.
pub(super) fn wanted(machine: &Machine, global: &Global, check: bool) -> Wanted {
    let threads = machine.threads.unwrap_or(Threads::Count(1));
    Wanted { threads, isa: global.isa, strict_fp: global.strict_fp, check }
}

/// The setting of this machine. Measurements are recorded for it, whatever machine the space is made for.
pub(super) fn here(machine: &Machine, global: &Global, check: bool, console: Console) -> Result<Setting, Failure> {
    Ok(wanted(machine, global, check).here(&console)?)
}
