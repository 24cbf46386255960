//! Limits that are checked before parsing.

use super::{MAX_BYTES, MAX_INDENT, MAX_NESTING};
use crate::diagnostic::{Diagnostic, Span};

/// An open bracket level, with the number of operators around the next operand.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Operators since the last comma.
    operators: usize,
    /// Attribute accesses, calls and subscripts since the last operator.
    suffixes: usize,
    /// Lambdas since the level was opened: their bodies extend across commas.
    lambdas: usize,
    /// The position of the bracket.
    opened: usize,
}

impl Level {
    fn depth(self) -> usize {
        1 + self.operators + self.suffixes + self.lambdas
    }
}

/// Rejects texts that would overflow the stack of the parser, or of a recursive walk over its tree. The count is an
/// upper bound of the tree's depth, computed from the text without strings and comments. Returns the last unclosed
/// bracket.
pub(super) fn check_text(text: &str) -> Result<Option<Span>, Vec<Diagnostic>> {
    if text.len() > MAX_BYTES {
        let message = format!("the text has {} bytes, more than the {MAX_BYTES} that are read", text.len());
        return Err(vec![Diagnostic::error("too-long", message)]);
    }
    if let Some(at) = text.bytes().position(|b| b == 0) {
        let d = Diagnostic::error_at("syntax", Span::new(at, at + 1), "the text contains a NUL byte");
        return Err(vec![d.help("save the file as plain UTF-8 text")]);
    }
    let bytes = text.as_bytes();
    let mut levels = vec![Level::default()];
    let mut total = 0;
    let mut indents: Vec<usize> = Vec::new();
    let mut line_start = true;
    let mut i = 0;
    while i < bytes.len() {
        if line_start && levels.len() == 1 {
            line_start = false;
            let width = bytes[i..].iter().take_while(|&&b| b == b' ' || b == b'\t').count();
            i += width;
            if !matches!(bytes.get(i), None | Some(b'\n' | b'\r' | b'#')) {
                indents.retain(|&w| w < width);
                indents.push(width);
                if indents.len() > MAX_INDENT + 1 {
                    let d = Diagnostic::error_at(
                        "nesting",
                        Span::new(i, i + 1),
                        format!("statements are nested more than {MAX_INDENT} levels deep"),
                    );
                    return Err(vec![d]);
                }
            }
            continue;
        }
        let start = i;
        let level = levels.last_mut().expect("the outermost level is never closed");
        let before = level.depth();
        match bytes[i] {
            b'#' => {
                i += bytes[i..].iter().take_while(|&&b| b != b'\n').count();
                continue;
            }
            b'\\' => {
                i += 2;
                continue;
            }
            quote @ (b'"' | b'\'') => {
                i = skip_string(bytes, i, quote);
                continue;
            }
            b'\n' => {
                line_start = true;
                if levels.len() == 1 {
                    levels[0] = Level::default();
                    total = 1;
                }
                i += 1;
                continue;
            }
            b'(' | b'[' | b'{' => {
                levels.push(Level { opened: i, ..Level::default() });
                total += 1;
            }
            b')' | b']' | b'}' => {
                if levels.len() > 1 {
                    total -= before;
                    levels.pop();
                }
                let outer = levels.last_mut().expect("the outermost level is never closed");
                outer.suffixes += 1;
                total += 1;
            }
            b',' | b';' => {
                (level.operators, level.suffixes) = (0, 0);
                total = total + level.depth() - before;
            }
            b'.' => {
                level.suffixes += 1;
                total += 1;
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'~' | b'<' | b'>' | b'@' | b'=' | b'!' => {
                // A run such as `//` or `- -` is counted by its characters, which may overestimate.
                level.operators += 1;
                level.suffixes = 0;
                total = total + level.depth() - before;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                let end = i + bytes[i..].iter().take_while(|&&b| is_word(b)).count();
                match &bytes[i..end] {
                    b"lambda" => level.lambdas += 1,
                    b"not" | b"and" | b"or" | b"if" | b"else" | b"in" | b"is" | b"await" | b"yield" | b"for" => {
                        level.operators += 1;
                        level.suffixes = 0;
                    }
                    _ => {}
                }
                total = total + level.depth() - before;
                i = end - 1;
            }
            _ => {}
        }
        i += 1;
        if total > MAX_NESTING {
            let d = Diagnostic::error_at(
                "nesting",
                Span::new(start, start + 1),
                format!("the expression is nested more than {MAX_NESTING} levels deep"),
            );
            return Err(vec![d.help("split it up with `T.let` variables")]);
        }
    }
    Ok(levels.get(1..).and_then(|open| open.last()).map(|l| Span::new(l.opened, l.opened + 1)))
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

/// The position after the string that begins at `i`; after the opening quote for a string that can contain expressions,
/// so that its contents are counted.
fn skip_string(bytes: &[u8], i: usize, quote: u8) -> usize {
    let triple = bytes[i..].starts_with(&[quote; 3]);
    let prefix = bytes[..i].iter().rev().take_while(|&&b| is_word(b)).take(2);
    if prefix.clone().any(|b| matches!(b, b'f' | b'F' | b't' | b'T')) {
        return i + if triple { 3 } else { 1 };
    }
    let mut j = i + if triple { 3 } else { 1 };
    while j < bytes.len() {
        match bytes[j] {
            b'\\' => j += 2,
            b'\n' if !triple => return j,
            b if b == quote && !triple => return j + 1,
            b if b == quote && bytes[j..].starts_with(&[quote; 3]) => return j + 3,
            _ => j += 1,
        }
    }
    bytes.len()
}
