//! Handles Ctrl-C and similar signals: the first one stops a run in an orderly way, a second one at once.
//!
//! Only `tune` needs this; other commands keep the system's default action.

#![expect(clippy::disallowed_methods, reason = "a second signal ends the process at once")]

use super::console::Console;
use crate::tune::Interrupt;

/// A run that has not reacted to a signal by then is ended: its current work cannot be stopped, and all records but the
/// latest are on disk.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(300);

/// Raises `interrupt` at the first signal.
#[cfg(unix)]
pub(super) fn watch(interrupt: &Interrupt, console: Console) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A process started with the signal ignored (`nohup`) keeps running.
        if is_ignored(signal) {
            continue;
        }
        // If the system refuses a pipe or a thread, the default action remains; all records but the latest are on disk.
        let Ok((mut read, write)) = UnixStream::pair() else { continue };
        let interrupt = interrupt.clone();
        let wait = move || {
            let mut byte = [0];
            if read.read_exact(&mut byte).is_ok() {
                interrupt.raise(signal);
            }
            // If the timeout cannot be set, only a second signal ends the process.
            let _ = read.set_read_timeout(Some(PATIENCE));
            loop {
                match read.read_exact(&mut byte) {
                    Ok(()) => {
                        // Returns only if the signal does not end the process, which these do.
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                        return;
                    }
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        if !interrupt.is_ending() {
                            console.note("interrupted; the same command resumes from the recorded trials");
                            std::process::exit(128 + signal);
                        }
                    }
                    Err(_) => return,
                }
            }
        };
        if std::thread::Builder::new().name("tvmr-signals".into()).spawn(wait).is_ok() {
            let _ = signal_hook::low_level::pipe::register(signal, write);
        }
    }
}

/// Whether the process was started with this signal ignored, as far as the system tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Makes a write beyond the file size limit (`ulimit -f`) an error, like a full disk, instead of ending the process.
#[cfg(unix)]
pub(super) fn survive_file_size_limit() {
    // Any handler replaces the default action, which would end the process; nobody reads the flag.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

/// Signals are not handled on this system.
#[cfg(not(unix))]
pub fn watch(_interrupt: &Interrupt, _console: Console) {}

/// Nothing to do on this system.
#[cfg(not(unix))]
pub fn survive_file_size_limit() {}
