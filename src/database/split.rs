//! Splits a line of the record table into its parts without parsing them.
//!
//! A query needs a few numbers of a line of several kilobytes; the trace, which is most of it, is skipped. Skipping
//! looks only at brackets and quotes, so it accepts lines whose trace is damaged inside. Reading the trace shows that,
//! in a query that returns the record or in `verify`.

use super::Reason;
use std::ops::Range;

/// The parts of a line `[workload, [trace, run_secs, target, args_info], extra]`, as byte ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    /// The workload index.
    pub workload: Range<usize>,
    /// The trace: `[instructions, decisions]`.
    pub trace: Range<usize>,
    /// A list of numbers, or `null`.
    pub run_secs: Range<usize>,
    /// TVM's target object, or `null`.
    pub target: Range<usize>,
    /// TVM's argument list, or `null`.
    pub args_info: Range<usize>,
    /// The rest up to the last bracket, which should be our own object; parsing it shows whether it is a single value.
    /// Lines written by TVM have none.
    pub extra: Option<Range<usize>>,
}

/// The position where a line is not a record, and what was expected there.
pub(super) type SplitError = (usize, &'static str);

/// The reason to report.
pub(super) fn malformed((at, expected): SplitError) -> Reason {
    Reason::Malformed(format!("expected {expected} at byte {at}"))
}

/// Splits a line, without its line break.
pub(super) fn split(line: &[u8]) -> Result<Parts, SplitError> {
    let mut cursor = Cursor { line, at: 0 };
    cursor.expect(b'[', "`[`")?;
    let workload = cursor.value("a workload index")?;
    cursor.expect(b',', "`,`")?;
    cursor.expect(b'[', "`[trace, run_secs, target, args_info]`")?;
    let trace = cursor.value("a trace")?;
    cursor.expect(b',', "`,`")?;
    let run_secs = cursor.value("run times")?;
    cursor.expect(b',', "`,`")?;
    let target = cursor.value("a target")?;
    cursor.expect(b',', "`,`")?;
    let args_info = cursor.value("an argument list")?;
    cursor.expect(b']', "`]` after four parts")?;
    let rest = line.len() - line.iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
    let end = rest.checked_sub(1).filter(|&i| i >= cursor.at && line[i] == b']');
    let end = end.ok_or((line.len(), "`]` at the end"))?;
    let extra = match cursor.peek() {
        Some(b',') => Some(cursor.at + 1..end),
        _ if cursor.at == end => None,
        _ => return Err((cursor.at, "`]` or an object")),
    };
    Ok(Parts { workload, trace, run_secs, target, args_info, extra })
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b) = self.line.get(self.at) {
            if !matches!(b, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(*b);
            }
            self.at += 1;
        }
        None
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), SplitError> {
        if self.peek() != Some(byte) {
            return Err((self.at, expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips one JSON value and returns its range.
    fn value(&mut self, expected: &'static str) -> Result<Range<usize>, SplitError> {
        let first = self.peek().ok_or((self.at, expected))?;
        let start = self.at;
        let end = match first {
            b'[' | b'{' => skip_nested(self.line, start).ok_or((self.line.len(), "closing brackets"))?,
            b'"' => skip_string(self.line, start).ok_or((self.line.len(), "a closing quote"))?,
            b',' | b']' | b'}' | b':' => return Err((start, expected)),
            _ => {
                let rest = &self.line[start..];
                start + rest.iter().position(|b| b",]} \t\r\n".contains(b)).unwrap_or(rest.len())
            }
        };
        self.at = end;
        Ok(start..end)
    }
}

/// The end of the string that starts at `at`.
fn skip_string(line: &[u8], at: usize) -> Option<usize> {
    let mut i = at + 1;
    loop {
        match *line.get(i)? {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
}

/// The end of the array or object that starts at `at`.
///
/// Most of a table is skipped here, so this handles 64 bytes at a time: it computes bit masks of quotes and brackets,
/// finds the bytes inside strings by the parity of preceding quotes, and then visits the brackets outside strings one
/// by one.
fn skip_nested(line: &[u8], at: usize) -> Option<usize> {
    let mut nesting = Nesting::default();
    let (blocks, rest) = line[at..].as_chunks::<64>();
    for (i, block) in blocks.iter().enumerate() {
        if let Some(end) = nesting.advance(block) {
            return Some(at + i * 64 + end);
        }
    }
    // Pads with spaces, which have no effect.
    let mut last = [b' '; 64];
    last[..rest.len()].copy_from_slice(rest);
    nesting.advance(&last).map(|end| at + blocks.len() * 64 + end)
}

/// State of the scan between two blocks.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    /// Whether a backslash escapes the next byte.
    escaped: bool,
}

impl Nesting {
    /// Scans a block; returns the position after the bracket that closes the first one, if it is in this block.
    fn advance(&mut self, block: &[u8; 64]) -> Option<usize> {
        let masks = Masks::of(block);
        if self.escaped || masks.backslash != 0 {
            return self.advance_slowly(block);
        }
        let inside = parity(masks.quote) ^ if self.in_string { u64::MAX } else { 0 };
        self.in_string = inside >> 63 == 1;
        let (open, close) = (masks.open & !inside, masks.close & !inside);
        let mut brackets = open | close;
        while brackets != 0 {
            let i = brackets.trailing_zeros();
            brackets &= brackets - 1;
            if open >> i & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(i as usize + 1);
                }
            }
        }
        None
    }

    /// Scans a block byte by byte, for blocks with backslashes.
    fn advance_slowly(&mut self, block: &[u8; 64]) -> Option<usize> {
        for (i, &b) in block.iter().enumerate() {
            if std::mem::take(&mut self.escaped) {
                continue;
            }
            match b {
                b'"' => self.in_string = !self.in_string,
                b'\\' if self.in_string => self.escaped = true,
                b'[' | b'{' if !self.in_string => self.depth += 1,
                b']' | b'}' if !self.in_string => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(i + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// For each kind of byte, a mask of its positions in a block, the first in the lowest bit.
struct Masks {
    quote: u64,
    backslash: u64,
    open: u64,
    close: u64,
}

impl Masks {
    fn of(block: &[u8; 64]) -> Masks {
        // Setting bit 5 maps both opening brackets to one byte, and both closing ones to another.
        let mut folded = *block;
        folded.iter_mut().for_each(|b| *b |= 0x20);
        Masks {
            quote: equal(block, b'"'),
            backslash: equal(block, b'\\'),
            open: equal(&folded, b'{'),
            close: equal(&folded, b'}'),
        }
    }
}

/// Mask of the bytes that equal `byte`, found in eight bytes at a time: quick without optimisation, too, as tests are compiled.
fn equal(block: &[u8; 64], byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let wanted = u64::from(byte) * 0x0101_0101_0101_0101;
    let mut mask = 0;
    for (i, word) in block.as_chunks::<8>().0.iter().enumerate() {
        let difference = u64::from_le_bytes(*word) ^ wanted;
        // The top bit of each byte: set where its other bits are not all zero. No carry leaves a byte.
        let low = (difference & LOW) + LOW;
        let ones = !(low | difference | LOW) >> 7;
        // The multiplication gathers eight bytes of 0 or 1 as bits of the top byte.
        mask |= (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    mask
}

/// In each bit, the parity of that bit and those below it.
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<[&str; 6], SplitError>) {
        let found = split(line.as_bytes()).map(|p| {
            let text = |r: Range<usize>| &line[r];
            let extra = p.extra.map_or("", text);
            [text(p.workload), text(p.trace), text(p.run_secs), text(p.target), text(p.args_info), extra]
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn parts_are_found() {
        check(
            r#"[3,[[[["A",["]"],[],[]]],[[0,1]]],[1e-5],{"kind":"llvm"},[["TENSOR"]]],{"a":"\"}"}]"#,
            Ok([
                "3",
                r#"[[["A",["]"],[],[]]],[[0,1]]]"#,
                "[1e-5]",
                r#"{"kind":"llvm"}"#,
                r#"[["TENSOR"]]"#,
                r#"{"a":"\"}"}"#,
            ]),
        );
        check(" [ 0 , [ [] , null , null , null ] ] \r", Ok(["0", "[]", "null", "null", "null", ""]));
    }

    #[test]
    fn mistakes_are_placed() {
        check("", Err((0, "`[`")));
        check("{}", Err((0, "`[`")));
        check("[1]", Err((2, "`,`")));
        check("[1,[[],null]]", Err((11, "`,`")));
        check("[1,[[],null,null,null,null]]", Err((21, "`]` after four parts")));
        check("[1,[[],null,null,null]]x", Err((24, "`]` at the end")));
        check("[1,[[],null,null,null]", Err((22, "`]` at the end")));
        check("[1,[[],null,null,null]x]", Err((22, "`]` or an object")));
        check("[1,[\"a]", Err((7, "a closing quote")));
        check("[1,[\"a\\\"]", Err((9, "a closing quote")));
        check("[1,[[\"a]", Err((8, "closing brackets")));
        check("[1,[[[]", Err((7, "closing brackets")));
        check("[1,[,", Err((4, "a trace")));
        check("[1,[", Err((4, "a trace")));
    }

    /// A simple version of [`skip_nested`], for comparison.
    fn skip_plainly(line: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
        for (i, &b) in line.iter().enumerate() {
            match b {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => depth += 1,
                b']' | b'}' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    proptest::proptest! {
        #[test]
        fn blocks_agree_with_bytes(bytes in proptest::collection::vec(
            proptest::prop_oneof![
                4 => proptest::sample::select(&b"aaaaa[[]{}\"\" ,1"[..]),
                1 => proptest::prelude::any::<u8>(),
            ], 0..400), slashes in proptest::collection::vec(0usize..400, 0..3)) {
            let mut line = [b"[[[[".as_slice(), &bytes].concat();
            for i in slashes {
                if let Some(b) = line.get_mut(i.max(1)) {
                    *b = b'\\';
                }
            }
            proptest::prop_assert_eq!(skip_nested(&line, 0), skip_plainly(&line));
        }
    }
}
