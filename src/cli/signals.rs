//! Ctrl-C and its like: the first one ends a run in good order, a second one at once.
//!
//! Only `tune` has something to bring to a good end; every other command ends as the system ends processes.

#![expect(clippy::disallowed_methods, reason = "a second signal ends the process at once")]

use super::console::Console;
use crate::tune::Interrupt;

/// A run that has not noticed a signal by then is ended all the same: what it is busy with cannot be stopped, and all
/// records but those of the last moment are on disk.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(300);

/// Raises `interrupt` when the process is told to end.
#[cfg(unix)]
pub(super) fn watch(interrupt: &Interrupt, console: Console) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Whoever starts a process with a signal ignored (`nohup`) wants it to go on.
        if is_ignored(signal) {
            continue;
        }
        // Where the system refuses a pipe or a thread, the signal ends the process as it always did; what was measured
        // is in the database but for the last moment's.
        let Ok((mut read, write)) = UnixStream::pair() else { continue };
        let interrupt = interrupt.clone();
        let wait = move || {
            let mut byte = [0];
            if read.read_exact(&mut byte).is_ok() {
                interrupt.raise(signal);
            }
            // Without a time limit, a second signal is waited for, as long as it takes.
            let _ = read.set_read_timeout(Some(PATIENCE));
            loop {
                match read.read_exact(&mut byte) {
                    Ok(()) => {
                        // It returns only if the signal does not end the process, which these do.
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                        return;
                    }
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        if !interrupt.is_ending() {
                            console.note("interrupted; the same command goes on from what was recorded");
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

/// Was the process started with this signal ignored? As far as the system tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Makes a write beyond the largest size that files may have (`ulimit -f`) an error, like one on a full disk, instead of
/// the end of the process.
#[cfg(unix)]
pub(super) fn survive_file_size_limit() {
    // A handler that does nothing but set a flag nobody looks at; without one the signal would kill, as it always did.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

/// Raises `interrupt` when the process is told to end: not on this system.
#[cfg(not(unix))]
pub fn watch(_interrupt: &Interrupt, _console: Console) {}

/// Nothing to do on this system.
#[cfg(not(unix))]
pub fn survive_file_size_limit() {}
