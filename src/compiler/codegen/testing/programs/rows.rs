//! Programs whose rows end with a nest that scales function values, one or several rows at a time.

use super::{Generator, Program};
use crate::codegen::testing::below;

impl Generator {
    pub(super) fn rows(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float32", "float16"]);
        let (n, at_once) = (3 + below(&mut self.rng, 5), self.pick(&[1, 1, 2, 3]));
        // Rows are long enough for their loops to remain loops, mostly of whole vectors.
        let long = self.pick(&[256, 320, 512, 640, 1024, 1000, 777]);
        let m = if self.chance(4) { self.extent(200) } else { long };
        let apart = self.pick(&[0, 0, 0, 5]);
        let rows = n * at_once;
        // Rows may be apart, or be columns.
        let (at, l) = match self.chance(12) {
            true => (format!("j * {rows} + i * {at_once} + r"), rows * m),
            false => (format!("(i * {at_once} + r) * {} + j", m + apart), rows * (m + apart)),
        };
        // The index of a row's statistics: for this row alone, for the current rows in some order, or for all.
        let one_row = ["0", "i", "i", "i"];
        let some_rows = ["r", "r", "i * {at_once} + r", "{at_once} - 1 - r", "r * 2"];
        let place = |g: &mut Generator| {
            let place = if at_once == 1 { g.pick(&one_row) } else { g.pick(&some_rows) };
            place.replace("{at_once}", &at_once.to_string())
        };
        let (most, sum, other) = (place(self), place(self), place(self));
        // Iterations over rows stay independent.
        let other = if at_once == 1 { other } else { most.clone() };
        // Only elements that were written are read, perhaps for another row.
        let read = if self.chance(2) && at_once > 1 && !sum.contains('i') {
            format!("{at_once} - 1 - r")
        } else {
            sum.clone()
        };
        let read = if sum == "r * 2" { sum.clone() } else { read };
        let function = self.pick(&["exp({x})", "exp({x})", "tanh({x})", "sigmoid({x}) * {x}", "{x} * {x}"]);
        let made = match below(&mut self.rng, 4) {
            0 => format!("T[r * {m} + j]"),
            1 => format!("Z[{at}]"),
            _ => format!("Y[{at}]"),
        };
        let (sj, sk) = (self.vector(), self.pick(&["reduction", "reduction vector"]));
        let over_rows = |body: String| match at_once {
            1 => body,
            _ => format!("for r in {at_once} independent {{ {body} }}"),
        };
        let head = match below(&mut self.rng, 3) {
            0 => over_rows(format!("M[{most}] = W[i]")),
            _ => over_rows(format!(
                "M[{most}] = {dtype}(0.0) for j in {m} {sk} {{ M[{most}] = max(M[{most}], X[{at}]) }}"
            )),
        };
        let x = format!("(X[{at}] - M[{most}])");
        let add = format!("S[{sum}] = S[{sum}] + {made}");
        let value = function.replace("{x}", &x);
        let first = match self.chance(4) {
            true => over_rows(format!("S[{sum}] = {dtype}(0.0) for j in {m} {sk} {{ {made} = {value} {add} }}")),
            false => {
                let made = over_rows(format!("for j in {m} {sj} {{ {made} = {value} }}"));
                made + &over_rows(format!(" S[{sum}] = {dtype}(0.0) for j in {m} {sk} {{ {add} }}"))
            }
        };
        let scaled = match below(&mut self.rng, 6) {
            0 => format!("{made} * S[{read}] + M[{most}]"),
            1 => format!("{made} + X[{at}] * S[{read}]"),
            2 => format!("max({made}, X[{at}])"),
            _ => format!("{made} / (S[{read}] * S[{read}] + {dtype}(1.0))"),
        };
        if at_once > 1 && self.chance(3) {
            return self.summed_rows(dtype, n, at_once, m + apart);
        }
        let extra = match below(&mut self.rng, 8) {
            0 if read == sum => format!(" S[{sum}] = W[i]"),
            1 => format!(" V[i * {at_once} + r] = S[{sum}]"),
            2 => format!(" M[{other}] = X[{at}]").replace("+ j", "+ 0").replace("j *", "0 *"),
            _ => String::new(),
        };
        let last = over_rows(format!("for j in {m} {sj} {{ Y[{at}] = {scaled} }}{extra}"));
        let mut body = format!("{head}\n    {first}\n    {last}");
        if at_once == 1 {
            // Without a loop over rows, there is one row.
            body = replace_name(&body, 'r', "0");
        }
        let text = format!(
            "kernel @rows(X: in {dtype}[{l}], W: in {dtype}[{n}], Y: inout {dtype}[{l}], Z: inout {dtype}[{l}], V: inout {dtype}[{rows}]) {{
  scratch T: {dtype}[{}]
  scratch M: {dtype}[{}]
  scratch S: {dtype}[{}]
  for i in {n} independent {{
    {body}
  }}
}}
",
            at_once * m,
            rows + 6,
            rows + 6
        );
        let program = self.sums(text, dtype, m);
        Program { strict: program.fast, specials: false, ..program }
    }

    /// Sums several rows, then scales all of them, some columns at a time.
    fn summed_rows(&mut self, dtype: &str, n: usize, at_once: usize, row: usize) -> Program {
        let (width, sk) = (self.pick(&[8, 16, 32]), self.pick(&["reduction", "reduction vector"]));
        let columns = (row / width).max(1);
        let m = columns * width;
        let row = row.max(m);
        let at = format!("(i * {at_once} + r) * {row} + j");
        let beside = format!("(i * {at_once} + r) * {row} + k * {width} + l");
        // The statistics of a row may be read for another row, or belong to all rows.
        let place = self.pick(&["r", "r", "i * {n} + r", "r * 3"]).replace("{n}", &at_once.to_string());
        let read = if self.chance(4) { format!("{at_once} - 1 - r") } else { place.clone() };
        let read = if place == "r" { read } else { place.clone() };
        let sums = below(&mut self.rng, 2) + 1;
        // Rows may begin with a scratch value that all of them use.
        let kept = format!("T[0] = X[(i * {at_once} + r) * {row}] T[1] = T[0] ");
        let (begin, end) = if self.chance(2) { (kept.as_str(), " + T[cast(int64, P[i]) % 2]") } else { ("", "") };
        let sum = |name: &str, term: &str| {
            let own = format!("{name}[{place}]");
            format!(
                "for r in {at_once} independent {{ {begin}{own} = {dtype}(0.0) for j in {m} {sk} {{ {own} = {own} + {term} }} {own} = {own}{end} }}"
            )
        };
        let x = format!("X[{at}]");
        let other = self.pick(&["{x} * {x}", "Y[{at}]", "max({x}, {x})"]).replace("{x}", &x).replace("{at}", &at);
        let mut body = sum("S", &x);
        if sums > 1 {
            body = format!("{body}\n    {}", sum("M", &other));
        }
        let scale = if sums > 1 { format!("S[{read}] + M[{read}]") } else { format!("S[{read}]") };
        let value = self.pick(&["(X[{at}] - {s}) * W[i]", "X[{at}] * {s} + Y[{at}]", "max(X[{at}], {s})"]);
        let value = value.replace("{at}", &beside).replace("{s}", &format!("({scale})"));
        let text = format!(
            "kernel @rows(X: in {dtype}[{l}], W: in {dtype}[{n}], Y: inout {dtype}[{l}], P: in uint8[{n}]) {{
  scratch M: {dtype}[{rows}]
  scratch S: {dtype}[{rows}]
  scratch T: {dtype}[2]
  for i in {n} independent {{
    {body}
    for k in {columns} independent {{ for r in {at_once} independent {{ for l in {width} independent vector {{ Y[{beside}] = {value} }} }} }}
  }}
}}
",
            l = n * at_once * row,
            rows = n * at_once + 6
        );
        let program = self.sums(text, dtype, m);
        Program { strict: program.fast, specials: false, ..program }
    }
}

/// Replaces a name of one letter in a text.
fn replace_name(text: &str, name: char, by: &str) -> String {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (k, &c) in chars.iter().enumerate() {
        let before = k.checked_sub(1).and_then(|k| chars.get(k).copied());
        if c == name && !is_letter(before) && !is_letter(chars.get(k + 1).copied()) {
            out.push_str(by);
        } else {
            out.push(c);
        }
    }
    out
}
