//! The ways in which candidates fail, counted.

use crate::database::Failure;
use crate::space::Rejection;
use serde::Serialize;
use std::collections::HashMap;

/// A way to fail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FailureCount {
    /// The stage: `schedule`, `postproc`, `lower`, `codegen`, `check`, `run`.
    pub stage: String,
    /// The primitive, postprocessor or kind of failure.
    pub by: String,
    /// What it said; of several that differ in numbers only, the first.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// A histogram of reasons. Messages that differ in their numbers only are one reason.
#[derive(Clone, Default, Debug)]
pub struct Failures {
    counts: Vec<FailureCount>,
    place: HashMap<(String, String, String), usize>,
}

impl Failures {
    /// Counts a candidate that was sent to the compiler.
    pub fn note(&mut self, failure: &Failure) {
        let by = failure.primitive.as_deref().unwrap_or(failure.kind.name());
        self.add(&failure.stage, by, &failure.message);
    }

    /// Counts a candidate that the space refused.
    pub fn note_rejection(&mut self, rejection: &Rejection) {
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

    /// The reasons, the most frequent first; of equal ones, the earlier.
    pub fn sorted(&self) -> Vec<FailureCount> {
        let mut all = self.counts.clone();
        all.sort_by_key(|f| std::cmp::Reverse(f.count));
        all
    }
}

/// What a message says, without the facts of the single case: its numbers, and what follows a semicolon.
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
        let rejection =
            |message: &str| Rejection { stage: Stage::Schedule, by: "split".into(), message: message.into() };
        failures.note_rejection(&rejection("a block is missing"));
        failures.note_rejection(&rejection("factors cover 96 of 128"));
        failures.note_rejection(&rejection("factors cover 7 of 1280"));
        let sorted = failures.sorted();
        assert_eq!(sorted.len(), 2);
        assert_eq!((sorted[0].count, sorted[0].message.as_str()), (2, "factors cover 96 of 128"));
    }
}
