//! Recorded decisions: a comment in the text holds the decisions with which a schedule function was found fast.
//!
//! ```text
//! # decisions: [[4, 32], 1, [8, 16]]
//! def tiles(sch):
//!     …
//! ```
//!
//! The items have the form of a trace's JSON: a list of tile sizes, or the position of a candidate or of a loop. Each
//! sampling call without a `decision=` takes the next item. It is an error if the item does not fit as it is, for it was
//! then recorded for another program or an earlier version of the function.

use super::FunctionError;
use crate::diagnostic::{Diagnostic, Label, Span};
use crate::schedule::arg::Decision;

const MARK: &str = "decisions:";
const FORM: &str =
    "it is written as `# decisions: [[4, 32], 1]`: one item for each sampling instruction, as in a trace's JSON";

/// Recorded decisions, and the number of those that have been taken.
#[derive(Debug)]
pub(super) struct Decisions {
    items: Vec<(Decision, Span)>,
    /// The list.
    list: Span,
    taken: usize,
}

impl Decisions {
    /// Reads the decisions of a text, if it has a line of them.
    ///
    /// # Errors
    /// The line is not a list of decisions, or there is a second one.
    pub(super) fn read(text: &str) -> Result<Option<Decisions>, Diagnostic> {
        let mut found: Option<Decisions> = None;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let comment = line.trim_start().strip_prefix('#').map(str::trim_start);
            if let Some(rest) = comment.and_then(|c| c.strip_prefix(MARK)) {
                let from = start + line.len() - rest.len();
                let decisions = Reader { text: &text[..start + line.trim_end().len()], at: from }.decisions()?;
                if let Some(first) = &found {
                    return Err(Diagnostic::error_at(
                        "decisions",
                        decisions.list,
                        "expected one line of decisions, found two",
                    )
                    .label(first.list, "the first one is here")
                    .help("keep the line that belongs to the schedule function, and remove the other"));
                }
                found = Some(decisions);
            }
            start += line.len();
        }
        Ok(found)
    }

    /// The decision for the call at `call`.
    ///
    /// # Errors
    /// All have been taken.
    pub(super) fn take(&mut self, call: Span) -> Result<Decision, FunctionError> {
        let n = self.items.len();
        let Some((decision, _)) = self.items.get(self.taken) else {
            let message = format!("expected a decision for every sampling instruction, found {n}");
            return Err(Diagnostic::error_at("decisions", self.list, message)
                .label(call, "this one is left without")
                .help("add its decision to the line, or remove the line to have all drawn")
                .into());
        };
        self.taken += 1;
        Ok(decision.clone())
    }

    /// Checks that the instruction at `call` has used the decision that was taken last without a change.
    ///
    /// # Errors
    /// The decision was changed to fit, for example because tile sizes do not multiply to the extent.
    pub(super) fn check_used(&self, used: Option<&Decision>, call: Span) -> Result<(), FunctionError> {
        let Some((given, span)) = self.taken.checked_sub(1).and_then(|i| self.items.get(i)) else { return Ok(()) };
        let Some(used) = used.filter(|used| *used != given) else { return Ok(()) };
        let (message, help) = match (given, used) {
            (Decision::Ints(given), Decision::Ints(used)) => {
                let product = |sizes: &[i64]| sizes.iter().fold(1i64, |p, s| p.saturating_mul(*s));
                let (extent, found) = (product(used), product(given));
                let message = if extent == found || used.contains(&-1) {
                    "expected tile sizes that the loop can have".to_owned()
                } else {
                    format!("expected tile sizes with the product {extent}, found {found}")
                };
                (message, format!("nearest that fits: {}", show(&Decision::Ints(used.clone()))))
            }
            (given, used) => {
                let message = format!("expected a decision that is possible here, found {}", show(given));
                (message, format!("nearest that is possible: {}", show(used)))
            }
        };
        Err(Diagnostic::error_at("decisions", *span, message).label(call, "taken here").help(help).into())
    }

    /// Adds the place of the decision that was taken last to an error of the instruction at `call`.
    pub(super) fn blame(&self, mut error: FunctionError, call: Span) -> FunctionError {
        if let Some((_, span)) = self.taken.checked_sub(1).and_then(|i| self.items.get(i)) {
            let labels = &mut error.diagnostic.labels;
            labels.clear();
            labels.push(Label { span: *span, text: String::new() });
            labels.push(Label { span: call, text: "taken here".to_owned() });
            error.diagnostic.help =
                Some("correct the recorded decision, or remove the line to have all drawn".to_owned());
        }
        error
    }

    /// Checks that all decisions have been taken.
    ///
    /// # Errors
    /// Some are left.
    pub(super) fn check_all_taken(&self) -> Result<(), FunctionError> {
        let Some((_, span)) = self.items.get(self.taken) else { return Ok(()) };
        let (n, found) = (self.taken, self.items.len());
        let s = if n == 1 { "" } else { "s" };
        let message = format!("expected {n} decision{s}, one for each sampling instruction, found {found}");
        Err(Diagnostic::error_at("decisions", *span, message).help("remove this one and those behind it").into())
    }
}

fn show(decision: &Decision) -> String {
    match decision {
        Decision::Int(v) => format!("`{v}`"),
        Decision::Ints(v) => format!("`{v:?}`"),
    }
}

/// Reads the list from the end of one line.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn decisions(mut self) -> Result<Decisions, Diagnostic> {
        self.next_is(b' ');
        let start = self.at;
        let mut items = Vec::new();
        self.expect(b'[', "a list of decisions")?;
        while !self.next_is(b']') {
            if !items.is_empty() {
                self.expect(b',', "`,` or `]`")?;
            }
            items.push(self.decision()?);
        }
        let list = Span::new(start, self.at);
        // A remark may follow.
        if !self.next_is(b'#') && self.at < self.text.len() {
            return Err(self.expected("the end of the line"));
        }
        Ok(Decisions { items, list, taken: 0 })
    }

    fn decision(&mut self) -> Result<(Decision, Span), Diagnostic> {
        self.blanks();
        let start = self.at;
        let decision = if self.next_is(b'[') {
            let mut sizes = Vec::new();
            while !self.next_is(b']') {
                if !sizes.is_empty() {
                    self.expect(b',', "`,` or `]`")?;
                }
                sizes.push(self.integer("an integer")?);
            }
            Decision::Ints(sizes)
        } else {
            Decision::Int(self.integer("an integer or a list of integers")?)
        };
        Ok((decision, Span::new(start, self.at)))
    }

    fn integer(&mut self, what: &str) -> Result<i64, Diagnostic> {
        self.blanks();
        let rest = &self.text[self.at..];
        let digits = rest.len() - rest.trim_start_matches('-').trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let value = rest[..digits].parse().map_err(|_| self.expected(what))?;
        self.at += digits;
        Ok(value)
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Skips a character if it comes next.
    fn next_is(&mut self, c: u8) -> bool {
        self.blanks();
        let is = self.text.as_bytes().get(self.at) == Some(&c);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, c: u8, what: &str) -> Result<(), Diagnostic> {
        if self.next_is(c) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let rest = &self.text[self.at..];
        let found = match rest.chars().next() {
            None => "the end of the line".to_owned(),
            Some(c) if c.is_alphanumeric() => {
                let word = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                format!("`{word}`")
            }
            Some(c) => format!("`{c}`"),
        };
        let end = self.at + rest.chars().next().map_or(0, char::len_utf8);
        Diagnostic::error_at("decisions", Span::new(self.at, end), format!("expected {what}, found {found}")).help(FORM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<Decision> {
        let read = Decisions::read(text).unwrap_or_else(|d| panic!("{}", d.message));
        read.map_or(Vec::new(), |d| d.items.into_iter().map(|(decision, _)| decision).collect())
    }

    #[test]
    fn a_comment_line_holds_them() {
        let both = [Decision::Ints(vec![4, 32]), Decision::Int(-1)];
        assert_eq!(items("# a matmul\n# decisions: [[4, 32], -1]\ndef f(sch):\n    pass\n"), both);
        assert_eq!(items("def f(sch):\n    pass\n    #decisions:[ [4,32] ,-1 ]  # found in 64 trials"), both);
        assert_eq!(items("# decisions: []"), []);
        assert_eq!(items("# decisions that were good: [1]\ndecisions = 1"), []);
    }

    #[test]
    fn mistakes_have_places() {
        for (text, message, place) in [
            ("# decisions:", "expected a list of decisions, found the end of the line", 12),
            ("# decisions: [1, two]\n", "expected an integer or a list of integers, found `two`", 17),
            ("# decisions: [[1, 2.5]]", "expected `,` or `]`, found `.`", 19),
            ("# decisions: [[1 2]]", "expected `,` or `]`, found `2`", 17),
            ("# decisions: [1, [2, 3]\nx = 1", "expected `,` or `]`, found the end of the line", 23),
            ("# decisions: [1] [2]", "expected the end of the line, found `[`", 17),
            ("# decisions: [1]\n# decisions: [2]", "expected one line of decisions, found two", 30),
            ("# decisions: [é]", "expected an integer or a list of integers, found `é`", 14),
        ] {
            let d = Decisions::read(text).expect_err("a mistake");
            assert_eq!((&*d.message, d.labels[0].span.start), (message, place), "{text}");
        }
    }
}
