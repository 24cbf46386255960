//! Enforces `--max-seconds` from outside when a run cannot end itself.
//!
//! A run checks the time during all long work, ends its search early enough for the finals, and reports the result.
//! Some steps cannot be interrupted: reading, checking and storing a program of a hundred thousand lines. If the run is
//! in one of them when its time is up, a watcher ends the process. No record is lost, since these steps measure
//! nothing.

#![expect(clippy::disallowed_methods, reason = "what cannot look at the flag is ended with the process")]

use super::console::Console;
use super::exit::Failure;
use super::json;
use crate::tune::Interrupt;
use std::time::Duration;

/// Delay after the limit, before a run that has not started to search is ended: it has nothing to report. The rest of a
/// second is for the process to free its memory, which may be a gigabyte.
const PATIENCE: Duration = Duration::from_millis(500);
/// Additional time for a run that searches to notice the limit: the shortest final ends within it.
const NOTICE: Duration = Duration::from_millis(330);

/// Ends the process soon after `limit`, counted from now, unless the run is finishing by itself.
pub(super) fn watch(limit: Duration, interrupt: &Interrupt, wants_json: bool, console: Console) {
    let interrupt = interrupt.clone();
    let wait = move || {
        std::thread::sleep(limit.saturating_add(PATIENCE));
        if interrupt.is_searching() {
            std::thread::sleep(NOTICE);
        }
        if interrupt.is_finishing() {
            return;
        }
        let what =
            "the time was up before the program was read and measuring could start; earlier measurements are kept"
                .to_string();
        let failure = Failure::Negative(what);
        console.failure(&failure);
        if wants_json && !Console::has_result() {
            // The exit code tells this as well.
            let _ = console.result(&format!("{:#}\n", json::document(&failure)));
        }
        std::process::exit(i32::from(failure.code()));
    };
    // If the system refuses a thread, the run ends late.
    let _ = std::thread::Builder::new().name("tvmr-limit".into()).spawn(wait);
}
