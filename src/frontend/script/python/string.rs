//! Parses literals of texts: escapes, adjacent strings, and the replacement fields of formatted strings.

use super::parser::{Failed, Parsed, Parser};
use super::token::Kind;
use super::{Expr, ExprKind};
use crate::diagnostic::Span;
use std::borrow::Cow;

/// A literal among adjacent ones.
enum Piece<'a> {
    /// A text, with its place.
    Text(Expr<'a>),
    Bytes,
    /// A formatted string: its texts and values; `None` if a value is formatted in a way that has no translation.
    Format(Option<Vec<Expr<'a>>>),
    Template,
}

/// The prefix of a literal.
#[derive(Clone, Copy)]
struct Prefix {
    raw: bool,
    bytes: bool,
    template: bool,
    /// The length of the prefix and of the opening quotes.
    len: (usize, usize),
}

impl Prefix {
    fn of(literal: &str) -> Prefix {
        let len = literal.find(['"', '\'']).unwrap_or(0);
        let has = |letter: char| literal[..len].contains([letter, letter.to_ascii_uppercase()]);
        let quoted = &literal[len..];
        let quotes = if quoted.starts_with("\"\"\"") || quoted.starts_with("'''") { 3 } else { 1 };
        Prefix { raw: has('r'), bytes: has('b'), template: has('t'), len: (len, quotes) }
    }
}

impl<'a> Parser<'a> {
    /// One string, or adjacent ones, which are one.
    pub(super) fn strings(&mut self) -> Parsed<Expr<'a>> {
        let start = self.start();
        let first = self.piece()?;
        if !matches!(self.kind(), Kind::Str | Kind::FormatStart) {
            return Ok(Expr { kind: joined(vec![first]), span: self.since(start) });
        }
        let mut pieces = vec![first];
        while matches!(self.kind(), Kind::Str | Kind::FormatStart) {
            pieces.push(self.piece()?);
        }
        let all = |is: fn(&Piece<'_>) -> bool| pieces.iter().all(is) || !pieces.iter().any(is);
        let span = self.since(start);
        if !all(|p| matches!(p, Piece::Bytes)) {
            self.mistake(span, "bytes and other strings cannot stand side by side");
        } else if !all(|p| matches!(p, Piece::Template)) {
            self.mistake(span, "template strings and other strings cannot stand side by side");
        }
        Ok(Expr { kind: joined(pieces), span })
    }

    fn piece(&mut self) -> Parsed<Piece<'a>> {
        let token = self.bump();
        let literal = self.slice(token.span);
        let prefix = Prefix::of(literal);
        if token.kind == Kind::FormatStart {
            let elements = self.nested(|p| p.format_elements(prefix, Kind::FormatEnd))?;
            return Ok(if prefix.template { Piece::Template } else { Piece::Format(elements) });
        }
        let (letters, quotes) = prefix.len;
        let begin = letters + quotes;
        let content = literal.get(begin..literal.len() - quotes).unwrap_or_default();
        let at = token.span.start as usize + begin;
        if prefix.bytes
            && let Some(i) = content.find(|c: char| !c.is_ascii())
        {
            let len = content[i..].chars().next().map_or(1, char::len_utf8);
            self.mistake(Span::new(at + i, at + i + len), "bytes can only contain ASCII characters");
        }
        let text = if prefix.raw { content.into() } else { self.unescaped(content, at, prefix.bytes) };
        if prefix.bytes {
            return Ok(Piece::Bytes);
        }
        Ok(Piece::Text(Expr { kind: ExprKind::Str(text.into()), span: token.span }))
    }

    /// A literal's content with its escapes replaced. `at` is its place in the text.
    fn unescaped(&mut self, content: &'a str, at: usize, bytes: bool) -> Cow<'a, str> {
        if !content.contains('\\') {
            return content.into();
        }
        let mut text = String::with_capacity(content.len());
        let mut rest = content;
        while let Some(i) = rest.find('\\') {
            text.push_str(&rest[..i]);
            rest = &rest[i..];
            let from = at + content.len() - rest.len();
            let escape = escape(rest, bytes);
            match escape.value {
                Value::Char(c) => text.push(c),
                Value::Nothing => {}
                Value::Itself => text.push_str(&rest[..escape.len]),
                Value::Mistake(message) => self.mistake(Span::new(from, from + escape.len), message),
            }
            rest = &rest[escape.len..];
        }
        text.push_str(rest);
        text.into()
    }

    /// Texts and replacement fields up to a token, which is passed.
    fn format_elements(&mut self, prefix: Prefix, end: Kind) -> Parsed<Option<Vec<Expr<'a>>>> {
        let mut elements = Some(Vec::new());
        loop {
            let token = self.token();
            let element = match token.kind {
                Kind::FormatText => {
                    self.bump();
                    Some(self.format_text(prefix, token.span, end == Kind::FormatEnd))
                }
                Kind::LeftBrace => self.nested(|p| p.field(prefix))?,
                kind if kind == end => {
                    self.bump();
                    return Ok(elements);
                }
                // The lexer has said what is wrong.
                Kind::FormatEnd | Kind::End => return Err(Failed),
                _ => return self.expected("`}`"),
            };
            elements = elements.zip(element).map(|(mut all, e)| {
                all.push(e);
                all
            });
        }
    }

    fn format_text(&mut self, prefix: Prefix, span: Span, doubled: bool) -> Expr<'a> {
        let mut text = String::new();
        let mut rest = self.slice(span);
        let mut at = span.start as usize;
        // Doubled braces stand for one, except in the name of a character.
        while let Some(i) = if doubled { rest.find(['{', '}']) } else { None } {
            let is_name = !prefix.raw && ends_with_name(&rest[..i]);
            let end = if is_name { rest.find('}').map_or(rest.len(), |i| i + 1) } else { i + 1 };
            self.push_format_text(&mut text, &rest[..end], at, prefix);
            let passed = if is_name { end } else { end + 1 };
            at += passed;
            rest = rest.get(passed..).unwrap_or_default();
        }
        self.push_format_text(&mut text, rest, at, prefix);
        Expr { kind: ExprKind::Str(text.into()), span }
    }

    fn push_format_text(&mut self, text: &mut String, part: &'a str, at: usize, prefix: Prefix) {
        if prefix.raw { text.push_str(part) } else { text.push_str(&self.unescaped(part, at, false)) }
    }

    /// `{value=!r:specification}`; `None` if there is more than the value.
    fn field(&mut self, prefix: Prefix) -> Parsed<Option<Expr<'a>>> {
        self.expect(Kind::LeftBrace)?;
        if matches!(self.kind(), Kind::RightBrace | Kind::Colon | Kind::Exclamation | Kind::Equal) {
            return self.expected("an expression");
        }
        let value = self.yield_or_expressions()?;
        let mut plain = !self.eat(Kind::Equal);
        if self.at(Kind::Exclamation) {
            plain = false;
            self.conversion()?;
        }
        if self.eat(Kind::Colon) {
            self.format_elements(prefix, Kind::RightBrace)?;
            return Ok(None);
        }
        self.expect(Kind::RightBrace)?;
        Ok(plain.then_some(value))
    }

    /// `!r`, `!s` or `!a`
    fn conversion(&mut self) -> Parsed<()> {
        let sign = self.bump();
        let token = self.token();
        if token.kind != Kind::Name || !matches!(self.slice(token.span), "r" | "s" | "a") {
            return self.expected("`r`, `s` or `a` after `!`");
        }
        if token.span.start != sign.span.end {
            return self.fail(token.span, "the conversion must follow `!` directly");
        }
        self.bump();
        Ok(())
    }
}

/// The expression of adjacent literals.
fn joined(mut pieces: Vec<Piece<'_>>) -> ExprKind<'_> {
    if pieces.iter().any(|p| matches!(p, Piece::Bytes)) {
        return ExprKind::Other("a bytes literal");
    }
    if pieces.iter().any(|p| matches!(p, Piece::Template)) {
        return ExprKind::Other("a template string");
    }
    if let [Piece::Text(text)] = &mut pieces[..] {
        return std::mem::replace(&mut text.kind, ExprKind::None);
    }
    if pieces.iter().all(|p| matches!(p, Piece::Text(_))) {
        let texts = pieces.iter().filter_map(|p| match p {
            Piece::Text(Expr { kind: ExprKind::Str(text), .. }) => Some(&**text),
            _ => None,
        });
        return ExprKind::Str(texts.collect::<String>().into());
    }
    let mut elements = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => elements.push(text),
            Piece::Format(Some(more)) => elements.extend(more),
            _ => return ExprKind::Other("a format specification"),
        }
    }
    ExprKind::Format(elements)
}

/// Whether a text ends with the `\N` of a named character, whose backslash is not escaped itself.
fn ends_with_name(text: &str) -> bool {
    let Some(before) = text.strip_suffix("\\N") else { return false };
    let backslashes = before.bytes().rev().take_while(|&b| b == b'\\').count();
    backslashes.is_multiple_of(2)
}

/// An escape sequence: its value and its length.
struct Escape {
    value: Value,
    len: usize,
}

enum Value {
    Char(char),
    /// A joined line.
    Nothing,
    /// No escape: the backslash stays.
    Itself,
    Mistake(String),
}

/// The escape sequence that a text begins with, behind its backslash.
fn escape(text: &str, bytes: bool) -> Escape {
    let short = |c| Escape { value: Value::Char(c), len: 2 };
    let Some(c) = text[1..].chars().next() else { return Escape { value: Value::Itself, len: 1 } };
    match c {
        '\\' | '\'' | '"' => short(c),
        'a' => short('\x07'),
        'b' => short('\x08'),
        'f' => short('\x0c'),
        'n' => short('\n'),
        'r' => short('\r'),
        't' => short('\t'),
        'v' => short('\x0b'),
        '\n' => Escape { value: Value::Nothing, len: 2 },
        '\r' => Escape { value: Value::Nothing, len: if text[2..].starts_with('\n') { 3 } else { 2 } },
        '0'..='7' => octal(text),
        'x' => hexadecimal(text, 2),
        'u' if !bytes => hexadecimal(text, 4),
        'U' if !bytes => hexadecimal(text, 8),
        'N' if !bytes => Escape {
            value: Value::Mistake(
                "names of characters are not supported: write the character, or `\\u` and its number".into(),
            ),
            len: text.find('}').map_or(2, |i| i + 1),
        },
        _ => Escape { value: Value::Itself, len: 1 + c.len_utf8() },
    }
}

fn octal(text: &str) -> Escape {
    let len = 1 + text[1..].bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
    let code = u32::from_str_radix(&text[1..len], 8).unwrap_or_default();
    Escape { value: Value::Char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)), len }
}

fn hexadecimal(text: &str, digits: usize) -> Escape {
    let found = text[2..].bytes().take(digits).take_while(u8::is_ascii_hexdigit).count();
    let len = 2 + found;
    if found < digits {
        let message = format!("`{}` must be followed by {digits} hexadecimal digits", &text[..2]);
        return Escape { value: Value::Mistake(message), len };
    }
    let value = match u32::from_str_radix(&text[2..len], 16) {
        // Halves of surrogate pairs are no characters.
        Ok(0xd800..=0xdfff) => Value::Char(char::REPLACEMENT_CHARACTER),
        Ok(code) => match char::from_u32(code) {
            Some(c) => Value::Char(c),
            None => Value::Mistake(format!("there is no character with the number {code:#x}")),
        },
        Err(_) => Value::Itself,
    };
    Escape { value, len }
}
