//! Diagnostics: mistakes in a text, with their place and a suggestion.
//!
//! The parser collects them for a user's file; `schedule` makes them for a function that it has printed, with places in
//! the printed text. A [`Diagnostic`] is plain data with byte ranges; only rendering needs the text. Whether the output
//! is coloured is an argument, never global state.
//!
//! House style of the texts: lower case, no final period, code in backticks, expected before found; `help` is an
//! action.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A range of bytes in a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// The bytes from `start` up to, not including, `end`.
    pub fn new(start: usize, end: usize) -> Span {
        // Larger texts are refused when they are read, so nothing is lost here.
        Span { start: start.min(u32::MAX as usize) as u32, end: end.min(u32::MAX as usize) as u32 }
    }

    /// The span from the start of this one to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// The span as a range of indices.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl From<Range<usize>> for Span {
    fn from(r: Range<usize>) -> Span {
        Span::new(r.start, r.end)
    }
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The text cannot be used.
    Error,
    /// The text can be used, but probably does not express the intention.
    Warning,
}

/// A place in the text with a remark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The remark; may be empty for a bare caret.
    pub text: String,
}

/// A mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Short stable name of the kind of mistake, such as `unknown-name`.
    pub code: &'static str,
    /// One-line description.
    pub message: String,
    /// Places: the first is that of the mistake, others give context. If empty, the whole text is meant.
    pub labels: Vec<Label>,
    /// Suggested action.
    pub help: Option<String>,
    /// Additional facts, one line each.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            labels: Vec::new(),
            help: None,
            notes: Vec::new(),
        }
    }

    /// An error at a place.
    pub fn error_at(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, message).label(span, "")
    }

    /// Adds a place; the first one added is the main one.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Sets the remark at the main place.
    pub fn mark(mut self, text: impl Into<String>) -> Diagnostic {
        if let Some(first) = self.labels.first_mut() {
            first.text = text.into();
        }
        self
    }

    /// Sets the help.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// Sets the help, if there is one.
    pub fn maybe_help(mut self, text: Option<String>) -> Diagnostic {
        self.help = text.or(self.help);
        self
    }

    /// Renders the diagnostic with the source lines that it points to, without a final newline.
    pub fn render(&self, source: Source<'_>, color: bool) -> String {
        self.render_in(source, &Lines::of(source.text), &[], color)
    }

    /// Renders the diagnostic, also showing places in other texts.
    pub fn render_with(&self, source: Source<'_>, also: &[(Source<'_>, &Label)], color: bool) -> String {
        self.render_in(source, &Lines::of(source.text), also, color)
    }

    fn render_in(&self, source: Source<'_>, lines: &Lines, also: &[(Source<'_>, &Label)], color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let text = source.text;
        let mut group = Group::with_title(level.primary_title(self.message.as_str()).id(self.code));
        if self.labels.is_empty() {
            // Without a snippet, the file must be named explicitly.
            group = group.element(annotate_snippets::Origin::path(source.name));
        } else {
            let spans: Vec<Range<usize>> = self.labels.iter().map(|label| clamp(text, label.span)).collect();
            let all: Vec<(usize, &Label, Range<usize>)> =
                self.labels.iter().zip(spans).enumerate().map(|(i, (label, span))| (i, label, span)).collect();
            // Distant places are shown as separate snippets, so that the text between them is not processed.
            let is_far = all.iter().any(|(.., span)| lines.are_far(all[0].2.start, span.end));
            for shown in all.chunks(if is_far { 1 } else { all.len() }) {
                let (first_line, part) = lines.around(text, shown.iter().map(|(.., span)| span));
                let annotations = shown.iter().map(|(i, label, span)| {
                    let kind = if *i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                    let remark = (!label.text.is_empty()).then_some(label.text.as_str());
                    kind.span(span.start - part.start..span.end - part.start).label(remark)
                });
                let snippet = Snippet::source(&text[part.clone()]).line_start(first_line).path(source.name);
                group = group.element(snippet.annotations(annotations));
            }
        }
        for (other, label) in also {
            let remark = (!label.text.is_empty()).then_some(label.text.as_str());
            let annotation = AnnotationKind::Context.span(clamp(other.text, label.span)).label(remark);
            group = group.element(Snippet::source(other.text).path(other.name).annotation(annotation));
        }
        let notes = self.notes.iter().map(|n| Level::NOTE.message(n.as_str()));
        let help = self.help.iter().map(|h| Level::HELP.message(h.as_str()));
        renderer.render(&[group.elements(notes).elements(help)])
    }
}

/// Limits the range to the text and to character boundaries, so that a wrong span cannot cause a panic.
fn clamp(text: &str, span: Span) -> Range<usize> {
    let floor = |i: usize| (0..=i.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let start = floor(span.start as usize);
    start..floor(span.end as usize).max(start)
}

/// A text with a name for display.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Path, or an artificial name such as `<printed>`.
    pub name: &'a str,
    /// The text that spans point into.
    pub text: &'a str,
}

impl Source<'_> {
    /// Line and column (in characters) of a byte, both from 1. For many places, use [`Lines`].
    pub fn line_column(&self, byte: usize) -> (usize, usize) {
        Lines::of(self.text).line_column(self.text, byte)
    }
}

/// Line starts of a text, for fast lookup of many places.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Offset of the first byte of each line, ascending; there is at least one line.
    starts: Vec<usize>,
}

impl Lines {
    /// The lines of a text.
    pub fn of(text: &str) -> Lines {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Lines { starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        self.starts.partition_point(|&start| start <= byte)
    }

    /// Line and column (in characters) of a byte, both from 1.
    pub fn line_column(&self, text: &str, byte: usize) -> (usize, usize) {
        let byte = clamp(text, Span::new(byte, byte)).start;
        let line = self.line(byte);
        (line, text[self.starts[line - 1]..byte].chars().count() + 1)
    }

    /// Whether two bytes are too many lines apart to be shown in one snippet.
    fn are_far(&self, a: usize, b: usize) -> bool {
        const FAR: usize = 500;
        self.line(a).abs_diff(self.line(b)) > FAR
    }

    /// The part of the text around some places, with the number of its first line.
    fn around<'a>(&self, text: &str, places: impl Iterator<Item = &'a Range<usize>> + Clone) -> (usize, Range<usize>) {
        /// Number of lines before and after the places, so that the rendering is the same as with the whole text.
        const MARGIN: usize = 2;
        let first = places.clone().map(|p| self.line(p.start)).min().unwrap_or(1).saturating_sub(MARGIN).max(1);
        let last = places.map(|p| self.line(p.end)).max().unwrap_or(1).saturating_add(MARGIN);
        let end = self.starts.get(last).copied().unwrap_or(text.len());
        (first, self.starts[first - 1]..end)
    }
}

/// All mistakes of a text, with the text.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// Path, or an artificial name.
    pub name: Arc<str>,
    /// The text that spans point into.
    pub text: Arc<str>,
    /// The mistakes, sorted by place.
    pub items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// The mistakes of a text, sorted by place; those without a place come first.
    pub fn new(source: Source<'_>, mut items: Vec<Diagnostic>) -> Diagnostics {
        items.sort_by_key(|d| d.labels.first().map_or(0, |l| l.span.start));
        Diagnostics { name: source.name.into(), text: source.text.into(), items }
    }

    /// The text.
    pub fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text }
    }

    /// The lines of the text.
    pub fn lines(&self) -> Lines {
        Lines::of(&self.text)
    }

    /// Renders all diagnostics, separated by blank lines.
    pub fn render(&self, color: bool) -> String {
        let lines = self.lines();
        let all: Vec<String> = self.items.iter().map(|d| d.render_in(self.source(), &lines, &[], color)).collect();
        all.join("\n\n")
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// The most names that a message lists.
const LISTED: usize = 12;

/// Names for a message, in backquotes: the first ones, and how many others there are.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut text = names.by_ref().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let others = names.count();
    if others > 0 {
        text.push_str(&format!(" and {others} {}", if others == 1 { "other" } else { "others" }));
    }
    text
}

/// The candidate nearest to a misspelt name: at most a third of its letters (but one, at least) changed, added, omitted
/// or swapped with a neighbour, and some letter kept; the first one if there is a tie.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == name {
            continue;
        }
        let distance = if candidate.eq_ignore_ascii_case(name) { 0 } else { edit_distance(name, candidate, limit) };
        let kept = distance < name.chars().count().max(candidate.chars().count());
        if distance <= limit && kept && best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, c)| c)
}

/// The number of edits between two words (optimal string alignment); anything above `limit` may come out as
/// `limit + 1`.
fn edit_distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = previous[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(previous[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_or_none() {
        let names = ["grid", "serial", "parallel", "vectorized", "unroll"];
        assert_eq!(nearest("paralel", names), Some("parallel"));
        assert_eq!(nearest("girdd", names), None);
        assert_eq!(nearest("gird", names), Some("grid"));
        assert_eq!(nearest("Grid", names), Some("grid"));
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(nearest("é", ["e", "ö"]), None);
        assert_eq!(nearest("C", ["A", "c"]), Some("c"));
    }

    #[test]
    fn messages_list_some_names() {
        assert_eq!((listed([]), listed(["f"]), listed(["f", "g"])), ("".into(), "`f`".into(), "`f`, `g`".into()));
        let names: Vec<String> = (0..14).map(|i| format!("f{i}")).collect();
        let text = listed(names.iter().map(String::as_str));
        assert!(text.starts_with("`f0`, ") && text.ends_with("`f11` and 2 others"), "{text}");
    }

    #[test]
    fn rendering_shows_the_line_with_a_caret() {
        let text = "one\nfor i in T.serial(128):\n";
        let d = Diagnostic::error("split-extent", "factors cover 96 of the 128 iterations of loop `i`")
            .label(Span::new(8, 9), "extent is 128")
            .help("make the factors multiply to 128, or leave one as `None`");
        let expected = "\
error[split-extent]: factors cover 96 of the 128 iterations of loop `i`
 --> matmul.tir:2:5
  |
2 | for i in T.serial(128):
  |     ^ extent is 128
  |
  = help: make the factors multiply to 128, or leave one as `None`";
        assert_eq!(d.render(Source { name: "matmul.tir", text }, false), expected);
        assert!(d.render(Source { name: "matmul.tir", text }, true).contains("\u{1b}["));
    }

    #[test]
    fn only_the_lines_around_a_place_matter() {
        let text: String = (1..=60).map(|n| format!("line {n}: äöü\n")).collect();
        let lines = Lines::of(&text);
        let at = |line: usize| text.find(&format!("line {line}:")).expect("the line");
        let mut rendered = 0;
        for (first, second) in [(1, 1), (1, 2), (1, 3), (2, 5), (30, 32), (32, 30), (10, 50), (59, 60), (60, 60)] {
            let d = Diagnostic::error_at("x", Span::new(at(first), at(first) + 4), "y")
                .mark("here")
                .label(Span::new(at(second) + 5, at(second) + 7), "there");
            let source = Source { name: "f", text: &text };
            // A place in the first line and one in the last make this part the whole text.
            let whole = Lines { starts: vec![0] };
            let (_, part) = whole.around(&text, std::iter::once(&(at(first)..at(first))));
            assert_eq!(part, 0..text.len());
            assert_eq!(d.render(source, false), d.render_in(source, &whole, &[], false), "{first} {second}");
            assert_eq!(lines.line_column(&text, at(second) + 5), (second, 6));
            rendered += 1;
        }
        assert_eq!(rendered, 9);
        let umlaut = text.find('ö').expect("it is in every line");
        assert_eq!(lines.line_column(&text, umlaut), (1, 10));
        // After the last newline.
        let end = Diagnostic::error_at("x", Span::new(text.len(), text.len()), "y");
        let source = Source { name: "f", text: &text };
        assert_eq!(end.render(source, false), end.render_in(source, &Lines { starts: vec![0] }, &[], false));
        assert_eq!(lines.line_column(&text, text.len()), (61, 1));
    }

    #[test]
    fn wrong_spans_do_not_panic() {
        let text = "é";
        let d = Diagnostic::error_at("x", Span::new(1, 99), "y");
        assert!(d.render(Source { name: "f", text }, false).contains("error[x]: y"));
        assert!(d.render(Source { name: "f", text: "" }, false).contains("error[x]: y"));
    }
}
