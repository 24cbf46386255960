//! Errors as JSON, for `--format json`. Field names are interface, listed in docs/tuning.md.

use super::exit::Failure;
use crate::diagnostic::{Diagnostic, Diagnostics, Lines, Severity, Source, Span};
use serde_json::{Value, json};

/// Whether the arguments ask for JSON. Read before parsing, which may itself fail.
pub(super) fn is_wanted(args: &[std::ffi::OsString]) -> bool {
    let args: Vec<_> = args.iter().map(|a| a.to_string_lossy()).collect();
    let options = args.iter().position(|a| a == "--").map_or(&args[..], |end| &args[..end]);
    options.iter().any(|a| a == "--format=json") || options.windows(2).any(|w| w[0] == "--format" && w[1] == "json")
}

/// The document of a command that failed before it wrote a result.
pub(super) fn document(failure: &Failure) -> Value {
    json!({"exit_code": failure.code(), "diagnostics": of_failure(failure)})
}

/// The diagnostics of a failure, one object for each.
pub(super) fn of_failure(failure: &Failure) -> Vec<Value> {
    match failure {
        Failure::Input(found) => of_diagnostics(found),
        Failure::Shown(_, found) => of_diagnostics(found),
        Failure::Usage(message, help) => vec![without_place("usage", message, help)],
        Failure::Machine(message, help) => vec![without_place("machine", message, help)],
        Failure::Negative(message) => vec![without_place("negative", message, "")],
        Failure::Interrupted(_, message) => vec![without_place("interrupted", message, "")],
        Failure::Told(_) | Failure::ClosedPipe => Vec::new(),
    }
}

/// The diagnostic of a usage error.
pub(super) fn of_usage(message: &str) -> Value {
    json!({"exit_code": 2, "diagnostics": [without_place("usage", message, "")]})
}

fn without_place(code: &str, message: &str, help: &str) -> Value {
    json!({
        "code": code, "severity": "error", "message": message, "file": null, "line": null, "column": null, "end": null,
        "label": null, "help": (!help.is_empty()).then_some(help), "notes": [], "related": [],
    })
}

/// The diagnostics of a text.
pub(super) fn of_diagnostics(found: &Diagnostics) -> Vec<Value> {
    let lines = found.lines();
    found.items.iter().map(|d| of_diagnostic(d, found.source(), &lines)).collect()
}

fn of_diagnostic(d: &Diagnostic, source: Source<'_>, lines: &Lines) -> Value {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let first = d.labels.first();
    let related = d.labels.iter().skip(1).map(|l| {
        let (start, end) = places(source, lines, l.span);
        json!({"message": l.text, "line": start.0, "column": start.1, "end": {"line": end.0, "column": end.1}})
    });
    let place = first.map(|l| places(source, lines, l.span));
    json!({
        "code": d.code,
        "severity": match d.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "message": d.message,
        "file": source.name,
        "line": place.map(|(start, _)| start.0),
        "column": place.map(|(start, _)| start.1),
        "end": place.map(|(_, end)| json!({"line": end.0, "column": end.1})),
        "label": first.and_then(|l| some(&l.text)),
        "help": d.help,
        "notes": d.notes,
        "related": related.collect::<Vec<_>>(),
    })
}

/// Line and column of a span's first byte and of the byte after its last.
fn places(source: Source<'_>, lines: &Lines, span: Span) -> ((usize, usize), (usize, usize)) {
    let place = |byte: u32| lines.line_column(source.text, byte as usize);
    (place(span.start), place(span.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_an_option() {
        let asks = |args: &[&str]| is_wanted(&args.iter().map(std::ffi::OsString::from).collect::<Vec<_>>());
        assert!(asks(&["tvmr", "check", "--format", "json"]) && asks(&["tvmr", "--format=json"]));
        assert!(!asks(&["tvmr", "check", "--format", "human"]) && !asks(&["tvmr", "check", "json"]));
        assert!(!asks(&["tvmr", "check", "--", "--format=json"]));
    }

    #[test]
    fn a_diagnostic_has_all_of_its_fields() {
        let source = Source { name: "a.tir", text: "one\ntwo three\n" };
        let d = Diagnostic::error_at("some-code", Span::new(8, 13), "wrong").mark("here").label(Span::new(4, 7), "see");
        let value = of_diagnostic(&d.help("mend it"), source, &Lines::of(source.text));
        let expected = json!({
            "code": "some-code", "severity": "error", "message": "wrong", "file": "a.tir", "line": 2, "column": 5,
            "end": {"line": 2, "column": 10}, "label": "here", "help": "mend it", "notes": [],
            "related": [{"message": "see", "line": 2, "column": 1, "end": {"line": 2, "column": 4}}],
        });
        assert_eq!(value, expected);
    }
}
