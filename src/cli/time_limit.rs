//! The end of `--max-seconds` where nothing else ends a run.
//!
//! A run looks at the time wherever it works for long, ends its search early enough for the finals, and says what it found.
//! Some steps cannot be looked into: reading, checking and storing a program of a hundred thousand lines. A run that has
//! not come to its end shortly after its time, because it is in one of those, is ended from outside. Every record is on
//! disk by then, since nothing is measured during these steps.

#![expect(clippy::disallowed_methods, reason = "what cannot look at the flag is ended with the process")]

use super::console::Console;
use super::exit::Failure;
use super::json;
use crate::tune::Interrupt;
use std::time::Duration;

/// A run that has not begun to search so long after its time is ended: there is nothing that it could still say. What is
/// left of a second is for the process to give its memory back, which may be a gigabyte.
const PATIENCE: Duration = Duration::from_millis(500);
/// So much longer a run that searches may take to notice that the time is up: the shortest final is over by then.
const NOTICE: Duration = Duration::from_millis(330);

/// Ends the process soon after `limit`, counted from now, unless the run is coming to its end by itself.
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
        let what = "the time was up before the program was read, and everything prepared that measuring it takes; \
                    whatever was measured before is kept"
            .to_string();
        let failure = Failure::Negative(what);
        console.failure(&failure);
        if wants_json && !Console::has_result() {
            // The code says it as well.
            let _ = console.result(&format!("{:#}\n", json::document(&failure)));
        }
        std::process::exit(i32::from(failure.code()));
    };
    // Where the system refuses a thread, the run ends later than it should.
    let _ = std::thread::Builder::new().name("tvmr-limit".into()).spawn(wait);
}
