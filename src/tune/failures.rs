//! Counts the reasons why candidates fail, over all of them and for each sketch.

use crate::database::Failure;
use crate::space::Rejection;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A reason of failures, with its count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FailureCount {
    /// The stage: `schedule`, `postproc`, `lower`, `codegen`, `check`, `run`.
    pub stage: String,
    /// The primitive, postprocessor or kind of failure.
    pub by: String,
    /// The message; if several differ in numbers only, the first one.
    pub message: String,
    /// The number of failures.
    pub count: u64,
}

/// A histogram of reasons. Messages that differ in their numbers only are one reason.
#[derive(Clone, Default, Debug)]
pub(super) struct Failures {
    counts: Vec<FailureCount>,
    place: HashMap<(String, String, String), usize>,
}

impl Failures {
    /// Counts the failure of a candidate that was sent to the compiler.
    pub(super) fn note(&mut self, failure: &Failure) {
        let by = failure.primitive.as_deref().unwrap_or(failure.kind.name());
        self.add(&failure.stage, by, &failure.message);
    }

    /// Counts a candidate that the space refused.
    pub(super) fn note_rejection(&mut self, rejection: &Rejection) {
        self.add(rejection.stage.name(), &rejection.by, &rejection.message);
    }

    fn add(&mut self, stage: &str, by: &str, message: &str) {
        let key = (stage.to_owned(), by.to_owned(), without_numbers(message));
        let i = *self.place.entry(key).or_insert_with(|| {
            let (stage, by, message) = (stage.to_owned(), by.to_owned(), message.to_owned());
            self.counts.push(FailureCount { stage, by, message, count: 0 });
            self.counts.len() - 1
        });
        self.counts[i].count += 1;
    }

    /// The reasons, the most frequent first; equally frequent ones in order of appearance.
    pub(super) fn sorted(&self) -> Vec<FailureCount> {
        let mut all = self.counts.clone();
        all.sort_by_key(|f| std::cmp::Reverse(f.count));
        all
    }
}

/// The candidates of a sketch, with counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SketchCount {
    /// The number of the sketch, from 1; `None` for candidates that were not sampled, such as replayed traces.
    pub sketch: Option<u64>,
    /// Candidates that were sent to the compiler.
    pub tried: u64,
    /// Candidates among them that failed.
    pub failed: u64,
    /// Candidates that the space refused.
    pub refused: u64,
    /// The most frequent reason of failures and refusals.
    pub reason: Option<FailureCount>,
}

/// The fates of the candidates of a task.
#[derive(Clone, Default, Debug)]
pub(super) struct Fates {
    all: Failures,
    sketches: BTreeMap<Option<usize>, (SketchTally, Failures)>,
}

#[derive(Clone, Copy, Default, Debug)]
struct SketchTally {
    tried: u64,
    failed: u64,
    refused: u64,
}

impl Fates {
    /// Counts a candidate that is sent to the compiler.
    pub(super) fn note_trial(&mut self, sketch: Option<usize>) {
        self.sketches.entry(sketch).or_default().0.tried += 1;
    }

    /// Withdraws a candidate that was counted as tried.
    pub(super) fn forget_trial(&mut self, sketch: Option<usize>) {
        let tried = &mut self.sketches.entry(sketch).or_default().0.tried;
        *tried = tried.saturating_sub(1);
    }

    /// Counts the failure of a candidate that was sent to the compiler.
    pub(super) fn note_failure(&mut self, sketch: Option<usize>, failure: &Failure) {
        let (tally, reasons) = self.sketches.entry(sketch).or_default();
        tally.failed += 1;
        reasons.note(failure);
        self.all.note(failure);
    }

    /// Counts a candidate that the space refused.
    pub(super) fn note_rejection(&mut self, rejection: &Rejection) {
        let (tally, reasons) = self.sketches.entry(rejection.sketch).or_default();
        tally.refused += 1;
        reasons.note_rejection(rejection);
        self.all.note_rejection(rejection);
    }

    /// The reasons over all sketches, the most frequent first.
    pub(super) fn reasons(&self) -> Vec<FailureCount> {
        self.all.sorted()
    }

    /// The sketches that candidates came from, in their order.
    pub(super) fn sketches(&self) -> Vec<SketchCount> {
        let count = |(sketch, (tally, reasons)): (&Option<usize>, &(SketchTally, Failures))| SketchCount {
            sketch: sketch.map(|s| s as u64 + 1),
            tried: tally.tried,
            failed: tally.failed,
            refused: tally.refused,
            reason: reasons.sorted().into_iter().next(),
        };
        self.sketches.iter().map(count).collect()
    }
}

/// A message without the facts of the single case, which are numbers and the text after a semicolon.
fn without_numbers(message: &str) -> String {
    let message = message.split(';').next().unwrap_or_default();
    let mut key = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '0'..='9' if key.ends_with('#') => {}
            '0'..='9' => key.push('#'),
            c => key.push(c),
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Stage;

    #[test]
    fn numbers_make_no_difference() {
        let mut failures = Failures::default();
        let rejection = |message: &str| Rejection {
            sketch: None,
            stage: Stage::Schedule,
            by: "split".into(),
            message: message.into(),
        };
        failures.note_rejection(&rejection("a block is missing"));
        failures.note_rejection(&rejection("factors cover 96 of 128"));
        failures.note_rejection(&rejection("factors cover 7 of 1280"));
        let sorted = failures.sorted();
        assert_eq!(sorted.len(), 2);
        assert_eq!((sorted[0].count, sorted[0].message.as_str()), (2, "factors cover 96 of 128"));
    }

    #[test]
    fn every_sketch_has_its_own_reason() {
        let mut fates = Fates::default();
        let rejection = |sketch, message: &str| Rejection {
            sketch: Some(sketch),
            stage: Stage::Schedule,
            by: "fuse".into(),
            message: message.into(),
        };
        fates.note_rejection(&rejection(1, "they are not neighbours"));
        fates.note_rejection(&rejection(1, "they are not neighbours"));
        fates.note_rejection(&rejection(0, "another kind of loop"));
        fates.note_trial(Some(0));
        let sketches = fates.sketches();
        let counts: Vec<_> = sketches.iter().map(|s| (s.sketch, s.tried, s.failed, s.refused)).collect();
        assert_eq!(counts, [(Some(1), 1, 0, 1), (Some(2), 0, 0, 2)]);
        assert_eq!(sketches[1].reason.as_ref().map(|r| r.count), Some(2));
        assert_eq!(fates.reasons().len(), 2);
    }
}
