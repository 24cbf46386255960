//! Literals of numbers.

use super::ExprKind;
use super::token::Kind;

/// A number at the start of a text.
pub(super) struct Number {
    pub kind: Kind,
    /// Bytes of the literal.
    pub len: usize,
    pub mistake: Option<&'static str>,
}

/// The number that a text begins with.
pub(super) fn number(text: &[u8]) -> Number {
    if let [b'0', base, ..] = text
        && let Some(radix) = radix(*base)
    {
        let digits = run(&text[2..], radix, true);
        let mistake = (digits == 0).then_some("expected digits after the base of the number");
        return Number { kind: Kind::Int, len: 2 + digits, mistake };
    }
    let whole = run(text, 10, false);
    let mut len = whole;
    let mut kind = Kind::Int;
    if text.get(len) == Some(&b'.') {
        kind = Kind::Float;
        len += 1 + run(&text[len + 1..], 10, false);
    }
    if let Some(b'e' | b'E') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let digits = run(&text[len + 1 + sign..], 10, false);
        if digits > 0 {
            kind = Kind::Float;
            len += 1 + sign + digits;
        }
    }
    if let Some(b'j' | b'J') = text.get(len) {
        return Number { kind: Kind::Complex, len: len + 1, mistake: None };
    }
    let padded = kind == Kind::Int && text[0] == b'0' && text[..len].iter().any(|b| matches!(b, b'1'..=b'9'));
    let mistake = padded.then_some("a decimal number must not begin with `0`");
    Number { kind, len, mistake }
}

/// The base that a letter behind a zero stands for.
fn radix(letter: u8) -> Option<u32> {
    match letter {
        b'x' | b'X' => Some(16),
        b'o' | b'O' => Some(8),
        b'b' | b'B' => Some(2),
        _ => None,
    }
}

/// The length of digits with single underscores between them; also before them behind the letter of a base.
fn run(text: &[u8], radix: u32, behind_letter: bool) -> usize {
    let is_digit = |i: usize| text.get(i).is_some_and(|&b| char::from(b).is_digit(radix));
    let mut len = 0;
    loop {
        if is_digit(len) {
            len += 1;
        } else if text.get(len) == Some(&b'_') && (len > 0 || behind_letter) && is_digit(len + 1) {
            len += 2;
        } else {
            return len;
        }
    }
}

/// The value of an integer literal.
pub(super) fn int(literal: &str) -> ExprKind<'static> {
    let base = literal.as_bytes().get(1).and_then(|&b| radix(b));
    let digits = if base.is_some() { &literal[2..] } else { literal };
    let mut value = Some(0_u64);
    for digit in digits.bytes().filter_map(|b| char::from(b).to_digit(base.unwrap_or(10))) {
        value = value.and_then(|v| v.checked_mul(base.unwrap_or(10).into())?.checked_add(digit.into()));
    }
    ExprKind::Int(value)
}

/// The value of a float literal.
pub(super) fn float(literal: &str) -> ExprKind<'static> {
    let value = if literal.contains('_') { literal.replace('_', "").parse() } else { literal.parse() };
    ExprKind::Float(value.unwrap_or(f64::NAN))
}
