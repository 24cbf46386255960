//! The records of a task that are not in the database yet.
//!
//! A record first waits for its verdict, unless it has one at once. With a verdict, right or failed, it can be written.

use crate::database::{Role, TuningRecord};
use crate::measure::Ticket;
use std::collections::HashSet;

/// The records of one task.
#[derive(Default)]
pub(super) struct Records {
    waiting: Vec<Waiting>,
    unwritten: Vec<TuningRecord>,
    /// The programs that were measured in this run.
    own: HashSet<u64>,
}

/// A record whose result was not compared with the reference yet.
pub(super) struct Waiting {
    ticket: Ticket,
    pub record: TuningRecord,
    /// The sketch of the candidate.
    pub sketch: Option<usize>,
}

impl Records {
    /// Adds the record of a program measured in this run; with a ticket, it waits for the verdict.
    pub(super) fn add(&mut self, record: TuningRecord, ticket: Option<Ticket>, sketch: Option<usize>) {
        self.own.extend(record.context.program);
        match ticket {
            Some(ticket) => self.waiting.push(Waiting { ticket, record, sketch }),
            None => self.unwritten.push(record),
        }
    }

    /// Adds records that are to be written, of programs that may be those of earlier runs.
    pub(super) fn write(&mut self, records: impl IntoIterator<Item = TuningRecord>) {
        self.unwritten.extend(records);
    }

    /// Does any record wait for its verdict?
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes out the record that waits with this ticket.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        let at = self.waiting.iter().position(|w| w.ticket == ticket)?;
        Some(self.waiting.remove(at))
    }

    /// Takes out all records that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes out the records to write.
    pub(super) fn take_unwritten(&mut self) -> Vec<TuningRecord> {
        std::mem::take(&mut self.unwritten)
    }

    /// The number of trials that the database does not have yet.
    pub(super) fn pending_trials(&self) -> u64 {
        self.pending().filter(|r| r.context.role == Role::Trial).count() as u64
    }

    /// The times of all records.
    pub(super) fn times(&self) -> impl Iterator<Item = f64> {
        self.pending().filter_map(TuningRecord::secs)
    }

    /// Was the program measured in this run?
    pub(super) fn is_own(&self, program: u64) -> bool {
        self.own.contains(&program)
    }

    fn pending(&self) -> impl Iterator<Item = &TuningRecord> {
        self.waiting.iter().map(|w| &w.record).chain(&self.unwritten)
    }
}
