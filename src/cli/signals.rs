//! Ctrl-C and its like: the first one ends a run in good order, a second one at once.

use crate::tune::Interrupt;

/// Raises `interrupt` when the process is told to end.
#[cfg(unix)]
pub fn watch(interrupt: &Interrupt) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    for signal in [SIGINT, SIGTERM] {
        // Where the system refuses a pipe or a thread, the signal ends the process as it always did; what was measured
        // is in the database but for the last moment's.
        let Ok((mut read, write)) = UnixStream::pair() else { continue };
        let interrupt = interrupt.clone();
        let wait = move || {
            let mut byte = [0];
            if read.read_exact(&mut byte).is_ok() {
                interrupt.raise(signal);
            }
            if read.read_exact(&mut byte).is_ok() {
                // It returns only if the signal does not end the process, which these do.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        if std::thread::Builder::new().name("tvmr-signals".into()).spawn(wait).is_ok() {
            let _ = signal_hook::low_level::pipe::register(signal, write);
        }
    }
}

/// Raises `interrupt` when the process is told to end: not on this system.
#[cfg(not(unix))]
pub fn watch(_interrupt: &Interrupt) {}
