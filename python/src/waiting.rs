//! Waiting for long work: on a thread of its own, with the interpreter released, and open to Ctrl-C.

#![expect(clippy::disallowed_methods, reason = "work that was interrupted is waited for only so long")]

use super::errors;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tvmr::search::isolated;
use tvmr::tune::Interrupt;

/// The interval at which signals are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Work that has not ended this long after an interrupt is left behind; what was measured is recorded already.
const PATIENCE: Duration = Duration::from_secs(1);
/// The stack size of the main thread: programs may be nested deeply.
const STACK: usize = 8 << 20;
/// The number of Ctrl-C's signal.
const SIGINT: i32 = 2;

/// What the work says.
enum Message<M, T> {
    /// Something to tell meanwhile.
    Told(M),
    /// Its result, or the text of a panic.
    Done(Result<T, String>),
}

/// The work's way to tell something meanwhile.
pub(crate) struct Teller<M, T>(Sender<Message<M, T>>);

impl<M, T> Teller<M, T> {
    /// Tells it; nothing happens if nobody waits any more.
    pub(crate) fn tell(&self, message: M) {
        let _ = self.0.send(Message::Told(message));
    }
}

/// Does `work` and returns its result. What it tells meanwhile is passed to `hear`. An exception there, or one of a signal
/// handler such as that of Ctrl-C, raises `interrupt` and is returned once the work has ended.
pub(crate) fn wait<M: Send + 'static, T: Send + 'static>(
    py: Python<'_>,
    interrupt: &Interrupt,
    mut hear: impl FnMut(M) -> PyResult<()>,
    work: impl FnOnce(&Teller<M, T>) -> T + Send + 'static,
) -> PyResult<T> {
    let (send, receive) = channel();
    // A receiver is not shared among threads, but waited for by one that is detached.
    let receive = Mutex::new(receive);
    let run = move || {
        let teller = Teller(send);
        let result = isolated(|| work(&teller));
        let _ = teller.0.send(Message::Done(result));
    };
    std::thread::Builder::new()
        .name("tvmr".into())
        .stack_size(STACK)
        .spawn(run)
        .map_err(|e| errors::machine(py, format!("cannot start threads: {e}")))?;
    loop {
        let heard = match next(py, &receive, LOOK) {
            Ok(Message::Told(message)) => hear(message),
            Ok(Message::Done(result)) => return result.map_err(|text| errors::general(py, text)),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(errors::general(py, "the work ended early".into())),
        };
        if let Err(exception) = heard.and_then(|()| py.check_signals()) {
            interrupt.raise(SIGINT);
            let end = Instant::now() + PATIENCE;
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                if !matches!(next(py, &receive, left), Ok(Message::Told(_))) {
                    break;
                }
            }
            return Err(exception);
        }
    }
}

fn next<M: Send, T: Send>(
    py: Python<'_>,
    receive: &Mutex<Receiver<Message<M, T>>>,
    limit: Duration,
) -> Result<Message<M, T>, RecvTimeoutError> {
    py.detach(|| receive.lock().map_or(Err(RecvTimeoutError::Disconnected), |r| r.recv_timeout(limit)))
}
