//! What long work tells the thread that waits: progress, notes and warnings.

use super::waiting::Teller;
use pyo3::prelude::*;
use tvmr::diagnostic::Diagnostics;
use tvmr::request::{Notices, Status};
use tvmr::tune::events::{Event, Observer};

/// What a run tells while it goes on.
pub(crate) enum Message {
    /// Trials done, trials wanted, and the status line.
    Progress(u64, u64, String),
    Note(String),
    Warning(String),
}

/// Sends a run's notices and events to the thread that waits.
pub(crate) struct Sender<'a, T> {
    pub teller: &'a Teller<Message, T>,
    pub status: Status,
}

impl<T> Notices for Sender<'_, T> {
    fn note(&self, text: &str) {
        self.teller.tell(Message::Note(text.to_owned()));
    }

    fn warn(&self, text: &str) {
        self.teller.tell(Message::Warning(text.to_owned()));
    }

    fn diagnostics(&self, found: &Diagnostics) {
        self.teller.tell(Message::Warning(found.render(false).trim_end().to_owned()));
    }
}

impl<T> Observer for Sender<'_, T> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Note(text) => self.note(text),
            Event::Warning(text) => self.warn(text),
            Event::Baseline { task, result: Err(failure) } => {
                let name = self.status.name(*task);
                self.warn(&format!("`{name}` as written: {} ({}): {}", failure.kind, failure.stage, failure.message));
            }
            _ => {
                let text = self.status.follow(event).unwrap_or_default();
                let is_news = !text.is_empty() || matches!(event, Event::Opened { .. });
                if is_news {
                    self.teller.tell(Message::Progress(self.status.done(), self.status.wanted(), text));
                }
            }
        }
    }
}

impl Message {
    /// Passes it to a function of Python, as `("progress", done, wanted, text)`, `("note", 0, 0, text)` or `("warning", 0, 0, text)`.
    ///
    /// # Errors
    /// The function raises an exception.
    pub(crate) fn pass_to(self, hear: &Bound<'_, PyAny>) -> PyResult<()> {
        let (kind, done, wanted, text) = match self {
            Message::Progress(done, wanted, text) => ("progress", done, wanted, text),
            Message::Note(text) => ("note", 0, 0, text),
            Message::Warning(text) => ("warning", 0, 0, text),
        };
        hear.call1((kind, done, wanted, text)).map(drop)
    }
}
