//! Splits a text into tokens.
//!
//! Inside brackets, ends of lines are white space; elsewhere the lexer makes [`Kind::Newline`], and [`Kind::Indent`]
//! and [`Kind::Dedent`] where the indentation changes. Comments are no tokens, but are kept. A formatted string becomes
//! [`Kind::FormatStart`], its texts and the tokens of its replacement fields in braces, and [`Kind::FormatEnd`].
//!
//! Mistakes are collected, and lexing goes on behind them.

use super::number::number;
use super::token::{Kind, Token, operator};
use super::{Mistake, MistakeKind};
use crate::diagnostic::Span;
use std::ops::Range;

/// The tokens of a text, its comments and the mistakes in them.
#[derive(Default)]
pub(super) struct Lexed {
    pub tokens: Vec<Token>,
    pub comments: Vec<Span>,
    pub mistakes: Vec<Mistake>,
}

/// The lexer of a range of a text.
struct Lexer<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    lexed: Lexed,
    /// The number of open brackets, with those of replacement fields.
    depth: usize,
    indents: Vec<Indent>,
    formats: Vec<Format>,
}

/// The width of an indentation.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Indent {
    /// Where a tab goes to the next multiple of eight.
    wide: usize,
    /// Where a tab counts as one: two indentations are compared only if both widths compare alike.
    narrow: usize,
}

/// A formatted string that is being read.
struct Format {
    quote: u8,
    triple: bool,
    raw: bool,
    /// The number of open brackets around it.
    depth: usize,
    /// The replacement fields that are open.
    fields: Vec<Field>,
}

/// An open replacement field.
struct Field {
    /// The number of open brackets inside it.
    depth: usize,
    /// Whether the colon before the format specification was read.
    in_specification: bool,
}

/// The tokens of a text; those of a range, as if it stood in parentheses, where there is one.
pub(super) fn lex(text: &str, range: Option<Range<usize>>) -> Lexed {
    let whole = range.is_none();
    let range = range.unwrap_or(0..text.len());
    let text = text.get(..range.end).unwrap_or(text);
    let mut lexer = Lexer {
        bytes: text.as_bytes(),
        text,
        at: range.start.min(text.len()),
        lexed: Lexed::default(),
        depth: usize::from(!whole),
        indents: vec![Indent::default()],
        formats: Vec::new(),
    };
    lexer.lexed.tokens.reserve(range.len() / 4);
    if whole && text.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8();
    }
    lexer.run(whole);
    lexer.lexed
}

impl Lexer<'_> {
    fn run(&mut self, whole: bool) {
        let mut line_start = whole;
        loop {
            if line_start && self.depth == 0 {
                self.indentation();
            }
            line_start = false;
            if self.in_literal() {
                self.format_text();
                continue;
            }
            self.skip_blanks();
            let Some(&byte) = self.bytes.get(self.at) else { break };
            match byte {
                b'\n' | b'\r' => {
                    let start = self.at;
                    self.at = self.after_line_end(start);
                    if self.depth == 0 {
                        self.end_line(start);
                        line_start = true;
                    }
                }
                b'#' => self.comment(),
                b'0'..=b'9' => self.number(),
                b'.' if matches!(self.bytes.get(self.at + 1), Some(b'0'..=b'9')) => self.number(),
                b'"' | b'\'' => self.string(self.at),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word(),
                _ => self.operator(),
            }
        }
        self.finish();
    }

    fn push(&mut self, kind: Kind, start: usize) {
        self.lexed.tokens.push(Token { kind, span: Span::new(start, self.at) });
    }

    fn mistake(&mut self, range: Range<usize>, message: impl Into<String>) {
        let kind = MistakeKind::Syntax(message.into());
        self.lexed.mistakes.push(Mistake { span: range.into(), kind });
    }

    /// The position behind the end of line at a position.
    fn after_line_end(&self, at: usize) -> usize {
        if self.bytes[at..].starts_with(b"\r\n") { at + 2 } else { at + 1 }
    }

    /// Skips white space inside of a line, with line ends behind a backslash.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\x0c' => self.at += 1,
                b'\\' => self.joined_line(),
                _ => break,
            }
        }
    }

    /// Skips a backslash and the end of line that must follow.
    fn joined_line(&mut self) {
        let start = self.at;
        self.at += 1;
        if !matches!(self.bytes.get(self.at), Some(b'\n' | b'\r')) {
            self.mistake(start..start + 1, "expected the end of the line after `\\`");
            return;
        }
        self.at = self.after_line_end(self.at);
        if self.at == self.bytes.len() {
            self.mistake(start..start + 1, "expected a line after `\\`, found the end of the text");
        }
    }

    /// Ends a logical line, unless nothing is on it.
    fn end_line(&mut self, start: usize) {
        if self.lexed.tokens.last().is_some_and(|t| !matches!(t.kind, Kind::Newline | Kind::Indent | Kind::Dedent)) {
            self.push(Kind::Newline, start);
        }
    }

    /// Reads the white space at the start of a line, and compares it with that of the lines before.
    fn indentation(&mut self) {
        let start = self.at;
        let mut indent = Indent::default();
        loop {
            match self.bytes.get(self.at) {
                Some(b' ') => indent = Indent { wide: indent.wide + 1, narrow: indent.narrow + 1 },
                Some(b'\t') => indent = Indent { wide: (indent.wide / 8 + 1) * 8, narrow: indent.narrow + 1 },
                Some(b'\x0c') => indent = Indent::default(),
                Some(b'\\') => {
                    self.joined_line();
                    // The white space before the first backslash is the indentation.
                    if indent != Indent::default() {
                        self.skip_blanks();
                        break;
                    }
                    continue;
                }
                _ => break,
            }
            self.at += 1;
        }
        if !matches!(self.bytes.get(self.at), None | Some(b'\n' | b'\r' | b'#')) {
            self.compare_indentation(start, indent);
        }
    }

    fn compare_indentation(&mut self, start: usize, indent: Indent) {
        let mut top = *self.indents.last().expect("the outermost indentation stays");
        if indent.wide > top.wide {
            self.indents.push(indent);
            self.push(Kind::Indent, start);
            if indent.narrow <= top.narrow {
                self.inconsistent(start);
            }
            return;
        }
        while indent.wide < top.wide {
            let below = self.indents[self.indents.len() - 2];
            if indent.wide > below.wide {
                // The line belongs to no block; the innermost one that could be meant goes on with it.
                *self.indents.last_mut().expect("there are two") = indent;
                return self.inconsistent(start);
            }
            self.indents.pop();
            self.lexed.tokens.push(Token { kind: Kind::Dedent, span: Span::new(self.at, self.at) });
            top = below;
        }
        if indent.narrow != top.narrow {
            self.inconsistent(start);
        }
    }

    fn inconsistent(&mut self, start: usize) {
        let span = Span::new(start, self.at);
        self.lexed.mistakes.push(Mistake { span, kind: MistakeKind::Indentation });
    }

    fn comment(&mut self) {
        let start = self.at;
        self.at += self.bytes[start..].iter().take_while(|b| !matches!(b, b'\n' | b'\r')).count();
        self.lexed.comments.push(Span::new(start, self.at));
    }

    fn number(&mut self) {
        let start = self.at;
        let number = number(&self.bytes[start..]);
        self.at += number.len;
        if let Some(message) = number.mistake {
            self.mistake(start..self.at, message);
        }
        self.push(number.kind, start);
    }

    /// Reads a name, a keyword, or a string with a prefix.
    fn word(&mut self) {
        let start = self.at;
        let rest = &self.text[start..];
        let ascii = rest.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
        let mut len = ascii;
        if rest.as_bytes().get(ascii).is_some_and(|b| !b.is_ascii()) {
            let first =
                if ascii == 0 { rest.chars().next().filter(|&c| !unicode_ident::is_xid_start(c)) } else { None };
            if let Some(c) = first {
                self.at += c.len_utf8();
                return self.unknown(start, c);
            }
            len = rest.find(|c: char| !unicode_ident::is_xid_continue(c)).unwrap_or(rest.len());
        }
        self.at += len;
        if len <= 2 && matches!(self.bytes.get(self.at), Some(b'"' | b'\'')) && is_prefix(&rest[..len]) {
            return self.string(start);
        }
        self.push(Kind::keyword(&rest[..len]).unwrap_or(Kind::Name), start);
    }

    fn unknown(&mut self, start: usize, c: char) {
        self.mistake(start..self.at, format!("the character `{}` is not expected here", c.escape_debug()));
        self.push(Kind::Unknown, start);
    }

    fn operator(&mut self) {
        let start = self.at;
        let Some((mut kind, mut len)) = operator(&self.bytes[start..]) else {
            let c = self.text[start..].chars().next().unwrap_or_default();
            self.at += c.len_utf8();
            return self.unknown(start, c);
        };
        let directly_in_field = self.field().is_some_and(|f| f.depth == self.depth);
        match kind {
            Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace => self.depth += 1,
            Kind::RightBrace => self.close(),
            // A bracket that closes nothing in a replacement field does not end it.
            Kind::RightParen | Kind::RightBracket if directly_in_field => {}
            Kind::RightParen | Kind::RightBracket => self.depth = self.depth.saturating_sub(1),
            Kind::Colon | Kind::Walrus if directly_in_field => {
                (kind, len) = (Kind::Colon, 1);
                if let Some(field) = self.formats.last_mut().and_then(|f| f.fields.last_mut()) {
                    field.in_specification = true;
                }
            }
            _ => {}
        }
        self.at += len;
        self.push(kind, start);
    }

    /// Counts a closing brace, which may end a replacement field.
    fn close(&mut self) {
        if let Some(format) = self.formats.last_mut()
            && format.fields.last().is_some_and(|f| f.depth == self.depth)
        {
            format.fields.pop();
        }
        self.depth = self.depth.saturating_sub(1);
    }

    /// The innermost open replacement field.
    fn field(&self) -> Option<&Field> {
        self.formats.last().and_then(|f| f.fields.last())
    }

    /// Whether the text here is that of a formatted string.
    fn in_literal(&self) -> bool {
        match self.formats.last() {
            None => false,
            Some(format) => format.fields.last().is_none_or(|f| f.in_specification && f.depth == self.depth),
        }
    }

    /// Reads a string whose prefix begins at `start`, and whose quote is here.
    fn string(&mut self, start: usize) {
        let quote = self.bytes[self.at];
        let triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        let prefix = &self.bytes[start..self.at];
        let has = |letter: u8| prefix.iter().any(|b| b.to_ascii_lowercase() == letter);
        if has(b'f') || has(b't') {
            let raw = has(b'r');
            self.push(Kind::FormatStart, start);
            self.formats.push(Format { quote, triple, raw, depth: self.depth, fields: Vec::new() });
            return;
        }
        loop {
            match self.bytes.get(self.at) {
                Some(b'\\') => self.skip_escaped(),
                Some(&b) if b == quote && !triple => {
                    self.at += 1;
                    break;
                }
                Some(&b) if b == quote && self.bytes[self.at..].starts_with(&[quote; 3]) => {
                    self.at += 3;
                    break;
                }
                None => return self.unterminated(start),
                Some(b'\n' | b'\r') if !triple => return self.unterminated(start),
                Some(_) => self.at += 1,
            }
        }
        self.push(Kind::Str, start);
    }

    /// Skips a backslash and what it escapes, of which an end of line can have two bytes.
    fn skip_escaped(&mut self) {
        self.at += 1;
        self.at = match self.bytes.get(self.at) {
            Some(b'\r') => self.after_line_end(self.at),
            Some(_) => self.at + 1,
            None => self.at,
        };
    }

    fn unterminated(&mut self, start: usize) {
        self.mistake(start..self.at, "missing closing quote in string literal");
        self.push(Kind::Unknown, start);
    }

    /// Reads the text of a formatted string up to the next brace or its end, and that.
    fn format_text(&mut self) {
        let Some(Format { quote, triple, raw, fields, .. }) = self.formats.last() else { return };
        let (quote, triple, raw, in_specification) = (*quote, *triple, *raw, !fields.is_empty());
        let start = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            match rest {
                [] => return self.unterminated_format(start),
                [b'\n' | b'\r', ..] if !triple => return self.unterminated_format(start),
                [b, ..] if *b == quote && (!triple || rest.starts_with(&[quote; 3])) => break,
                // Braces are doubled to stand for themselves, but not in a specification.
                [b'{', b'{', ..] | [b'}', b'}', ..] if !in_specification => self.at += 2,
                [b'{' | b'}', ..] => break,
                // The name of a character has braces, too.
                [b'\\', b'N', b'{', ..] if !raw => self.skip_name(),
                [b'\\', b'{' | b'}', ..] => self.at += 1,
                [b'\\', ..] => self.skip_escaped(),
                _ => self.at += 1,
            }
        }
        if self.at > start {
            self.push(Kind::FormatText, start);
        }
        self.end_format_text(in_specification);
    }

    /// Skips `\N{…}`.
    fn skip_name(&mut self) {
        self.at += 3;
        self.at +=
            self.bytes[self.at..].iter().take_while(|&&b| b.is_ascii_alphanumeric() || b == b' ' || b == b'-').count();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
        }
    }

    /// Reads the brace or quote behind a text of a formatted string.
    fn end_format_text(&mut self, in_specification: bool) {
        let start = self.at;
        match self.bytes[start] {
            b'{' => {
                self.at += 1;
                self.depth += 1;
                let field = Field { depth: self.depth, in_specification: false };
                if let Some(format) = self.formats.last_mut() {
                    format.fields.push(field);
                }
                self.push(Kind::LeftBrace, start);
            }
            b'}' if in_specification => {
                self.at += 1;
                self.close();
                self.push(Kind::RightBrace, start);
            }
            b'}' => {
                self.at += 1;
                self.mistake(start..self.at, "a single `}` in a formatted string must be written `}}`");
            }
            _ => self.end_format(),
        }
    }

    /// Reads the closing quote of a formatted string.
    fn end_format(&mut self) {
        let start = self.at;
        if let Some(format) = self.formats.pop() {
            self.at += if format.triple { 3 } else { 1 };
            self.depth = format.depth;
            if !format.fields.is_empty() {
                self.mistake(start..self.at, "expected `}` before the end of the formatted string");
            }
        }
        self.push(Kind::FormatEnd, start);
    }

    fn unterminated_format(&mut self, start: usize) {
        if let Some(format) = self.formats.pop() {
            self.depth = format.depth;
        }
        self.mistake(start..self.at, "missing closing quote in formatted string");
        self.push(Kind::FormatEnd, self.at);
    }

    /// Ends the last line and all blocks.
    fn finish(&mut self) {
        if !self.formats.is_empty() {
            self.mistake(self.at..self.at, "missing `}` in formatted string");
        }
        if self.indents.len() > 1 || self.depth == 0 {
            self.end_line(self.at);
        }
        for _ in 1..self.indents.len() {
            self.push(Kind::Dedent, self.at);
        }
        self.push(Kind::End, self.at);
    }
}

/// Whether a word before a quote belongs to the string.
fn is_prefix(word: &str) -> bool {
    let lower = |b: &u8| b.to_ascii_lowercase();
    match word.as_bytes() {
        [] => true,
        [one] => matches!(lower(one), b'r' | b'u' | b'b' | b'f' | b't'),
        [one, two] => matches!((lower(one), lower(two)), (b'r', b'b' | b'f' | b't') | (b'b' | b'f' | b't', b'r')),
        _ => false,
    }
}
