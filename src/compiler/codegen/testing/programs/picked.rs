//! Programs whose vectors are gathered from contiguous memory, and divisions by constants.

use super::{ALL, Generator, NARROW, Program, c, is_float};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Points at a distance, and channels of points. Buffers end with the last accessed element.
    pub(super) fn picked(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let (n, m) = (self.extent(5), self.extent(90));
        let f = self.pick(&["max({a}, {b})", "{a} + {b}", "{a} * {b} - {a}"]);
        let both = |a: String, b: String| f.replace("{a}", &a).replace("{b}", &b);
        let (stride, sj) = (self.pick(&[2, 2, 3, 4]), self.vector());
        let (x, offset) = (n * m * stride, below(&mut self.rng, 3));
        let (body, x, a, y) = match below(&mut self.rng, 4) {
            // Combines neighbours.
            0 => {
                let at = |phase| format!("X[(i * {m} + j) * {stride} + {phase}]");
                let (first, second) = (below(&mut self.rng, stride), below(&mut self.rng, stride));
                let value = both(at(first), at(second));
                (
                    format!("for i in {n} independent {{ for j in {m} {sj} {{ Y[i * {m} + j] = {value} }} }}"),
                    x,
                    1,
                    n * m,
                )
            }
            // Windows.
            1 => {
                let (r, s) = (self.pick(&[1, 2, 3]), self.pick(&[1, 2, 3]));
                let row = (m - 1) * stride + s;
                let value = format!("max(Y[i * {m} + j], X[(i + r) * {row} + j * {stride} + s])");
                let (sr, ss) = (format!("for r in {r} reduction"), format!("for s in {s} reduction"));
                let init = format!("if r == 0 && s == 0 {{ Y[i * {m} + j] = {} }}", c(dtype, 0.0));
                let store = format!("{init} Y[i * {m} + j] = {value}");
                let body = if self.chance(2) {
                    format!("for i in {n} independent {{ {sr} {{ {ss} {{ for j in {m} {sj} {{ {store} }} }} }} }}")
                } else {
                    format!("for i in {n} independent {{ for j in {m} {sj} {{ {sr} {{ {ss} {{ {store} }} }} }} }}")
                };
                (body, (n + r - 1) * row, 1, n * m)
            }
            // Channels, with values per point and per channel.
            2 => {
                let k = self.pick(&[2, 3, 3, 4, 5]);
                let at = format!("((i * {m} + j) * {k} + q)");
                let by = self.pick(&["A[i * {m} + j + {o}]", "A[q + {o}]", "A[(i * {m} + j) * 2 + {o}]"]);
                let by = by.replace("{m}", &m.to_string()).replace("{o}", &offset.to_string());
                let value = both(format!("X[{at}]"), by);
                let body = format!(
                    "for i in {n} independent {{ for j in {m} {} {{ for q in {k} {sj} {{ Y[{at}] = {value} }} }} }}",
                    self.pick(&["independent", "independent", ""])
                );
                (body, n * m * k, (n * m * 2).max(k) + offset, n * m * k)
            }
            // Channels in a single loop.
            _ => {
                let k = self.pick(&[2, 3, 3, 4]);
                let at = format!("i * {} + f", m * k);
                let value = both(format!("X[{at}]"), format!("A[i * {m} + f // {k}]"));
                let body = format!("for i in {n} independent {{ for f in {} {sj} {{ Y[{at}] = {value} }} }}", m * k);
                (body, n * m * k, n * m, n * m * k)
            }
        };
        let text =
            format!("kernel @picked(X: in {dtype}[{x}], A: in {dtype}[{a}], Y: inout {dtype}[{y}]) {{\n  {body}\n}}\n");
        let fast = if is_float(dtype) { Closeness::Ulps(8.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    /// Quotients and remainders.
    pub(super) fn division(&mut self) -> Program {
        let (from, to) = (self.pick(&NARROW), self.pick(&["int32", "int32", "uint8", "int16"]));
        let n = self.extent(64) * self.pick(&[1, 1, 4, 9]);
        let d = match below(&mut self.rng, 4) {
            0 => 1 << (1 + below(&mut self.rng, 8)),
            1 => self.pick(&[3, 7, 10, 100, 255, 641, 65535]),
            _ => 2 + below(&mut self.rng, 1000),
        };
        let [x, z, w] = ["X[i]", "Z[i]", "W[0]"].map(|v| format!("cast(int32, {v})"));
        let (a, b) = (below(&mut self.rng, 2000), below(&mut self.rng, 300));
        let value = match below(&mut self.rng, 5) {
            0 => x,
            1 => format!("({x} * int32({b}) - int32({a}))"),
            2 => format!("({x} * {w} + {z} * (int32(255) - {w}) + int32({a}))"),
            3 => format!("(min({x}, {z}) + int32({a}) - {z} * int32({b}))"),
            // A product that overflows.
            _ => format!("({x} * {z} * int32({a}))"),
        };
        // Divisors that are not constant are neither 0 nor -1, for which a division may stop the kernel.
        let (value, by) = match below(&mut self.rng, 6) {
            0 if from.starts_with('u') => ("X[i]".to_owned(), format!("max(Z[i], {from}(2))")),
            0 => ("X[i]".to_owned(), format!("min(Z[i], {from}(-2))")),
            1 => (value, format!("max({z}, int32(3))")),
            2 => (value, format!("min({w} * int32({b}), int32(-2))")),
            _ => (value, format!("int32({d})")),
        };
        let quotient = match below(&mut self.rng, 4) {
            0 => format!("{value} // {by}"),
            1 => format!("{value} % {by}"),
            2 => format!("{value} / {by}"),
            _ => format!("mod({value}, {by})"),
        };
        let s = self.vector();
        // Rows may share their divisors.
        let rows = if self.chance(3) { 2 + below(&mut self.rng, 6) } else { 1 };
        let (quotient, all) = (quotient.replace("X[i]", &format!("X[r * {n} + i]")), rows * n);
        let text = format!(
            "kernel @division(X: in {from}[{all}], Z: in {from}[{n}], W: in {from}[1], Y: out {to}[{all}]) {{
  for r in {rows} independent {{ for i in {n} {s} {{ Y[r * {n} + i] = cast({to}, {quotient}) }} }}
}}
"
        );
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: false }
    }
}
