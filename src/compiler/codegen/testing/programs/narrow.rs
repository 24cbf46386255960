//! Programs that only move elements of 8 and 16 bits, compare them and shift their bits.

use super::{Generator, Program, c};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Rows of such elements: limited, padded, joined, reversed, shifted, interleaved, pooled, and reduced to extremes.
    pub(super) fn narrow(&mut self) -> Program {
        let dtype = self.pick(&["float16", "float16", "bfloat16", "bfloat16", "int16", "uint16", "int8", "uint8"]);
        let (n, m) = (self.extent(5), self.extent(150));
        if self.chance(3) {
            return self.extremes(dtype, n, m);
        }
        if self.chance(4) {
            return self.interleaved(dtype, n, m);
        }
        let sj = self.vector();
        let (f, g) = (self.pick(&["max", "min"]), self.pick(&["max", "min"]));
        let (before, behind, stride) = (below(&mut self.rng, 4), below(&mut self.rng, 4), self.pick(&[2, 2, 3]));
        let there = m.saturating_sub(before + behind).max(1);
        let (low, high) = (before, before + there);
        let other = c(dtype, self.pick(&[0.0, 0.0, 1.5, 6.0]));
        let rows = n.saturating_sub(before).max(1);
        let (value, len) = match below(&mut self.rng, 9) {
            0 => {
                let least: &[f64] = if dtype.starts_with('u') { &[0.0, 6.0] } else { &[0.0, 6.0, 1.5, -1.0] };
                let [first, second] = [self.pick(least), self.pick(least)].map(|limit| c(dtype, limit));
                let limited = format!("{g}(X[i * {m} + j], {first})");
                (if self.chance(3) { limited } else { format!("{f}({limited}, {second})") }, n * m)
            }
            1 => (format!("{f}(X[i * {m} + j], {g}(Z[i * {m} + j], W[0]))"), n * m),
            2 => (format!("{f}(W[i], X[i * {m} + j])"), n * m),
            3 => {
                let condition = format!("{low} <= j && j < {high}");
                (format!("if_then_else({condition}, X[i * {there} + j - {low}], {other})"), n * there)
            }
            4 => {
                let condition = format!("{before} <= i && i < {}", before + rows);
                (format!("if_then_else({condition}, X[(i - {before}) * {m} + j], {other})"), rows * m)
            }
            5 => {
                let at = |phase| format!("X[(i * {m} + j) * {stride} + {phase}]");
                (format!("{f}({}, {g}({}, {}))", at(0), at(1), at(stride - 1)), n * m * stride)
            }
            6 if !dtype.ends_with("int16") || self.chance(2) => (format!("X[i * {m} + {} - j]", m - 1), n * m),
            6 => {
                let f = self.pick(&["shift_left", "shift_right"]);
                (format!("{f}(X[i * {m} + j], bitwise_and(Z[i * {m} + j], {}))", c(dtype, 17.0)), n * m)
            }
            7 => (format!("if_then_else(j < {low}, X[i * {m} + j], Z[i * {m} + j])"), n * m),
            _ => (format!("X[i + j * {n}]"), n * m),
        };
        let text = format!(
            "kernel @narrow(X: in {dtype}[{len}], Z: in {dtype}[{}], W: in {dtype}[{n}], Y: out {dtype}[{}]) {{
  for i in {n} independent {{ for j in {m} {sj} {{ Y[i * {m} + j] = {value} }} }}
}}
",
            n * m,
            n * m
        );
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: true }
    }

    /// Elements of several rows by turns.
    fn interleaved(&mut self, dtype: &str, n: usize, m: usize) -> Program {
        let (k, step) = (self.pick(&[2, 3, 4]), self.pick(&[1, 1, 1, 2]));
        let element = format!("X[((i * {k} + k) * {m} + j) * {step}]");
        let value = match below(&mut self.rng, 3) {
            0 => format!("max({element}, {})", c(dtype, 1.0)),
            _ => element,
        };
        let text = format!(
            "kernel @interleaved(X: in {dtype}[{}], Y: out {dtype}[{}]) {{
  for i in {n} independent {{
    for j in {m} independent {{ for k in {k} independent {{ Y[(i * {m} + j) * {k} + k] = {value} }} }}
  }}
}}
",
            n * m * k * step,
            n * m * k
        );
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: true }
    }

    /// The largest or smallest element of rows, or of the columns of some rows.
    fn extremes(&mut self, dtype: &str, n: usize, m: usize) -> Program {
        let (f, k) = (self.pick(&["max", "min"]), self.extent(4));
        let first = c(dtype, self.pick(&[0.0, 2.0]));
        let element = format!("X[(i * {k} + k) * {m} + j]");
        let (body, len) = match self.chance(2) {
            true => {
                let store = format!("Y[i] = {f}(Y[i], {element})");
                (format!("Y[i] = {first} for k in {k} reduction {{ for j in {m} reduction {{ {store} }} }}"), n)
            }
            false => {
                let y = format!("Y[i * {m} + j]");
                let store = format!("{y} = {f}({y}, {element})");
                let init = format!("for j in {m} independent {{ {y} = {first} }}");
                (format!("{init} for k in {k} reduction {{ for j in {m} independent {{ {store} }} }}"), n * m)
            }
        };
        let text = format!(
            "kernel @extremes(X: in {dtype}[{}], Y: out {dtype}[{len}]) {{\n  for i in {n} independent {{ {body} }}\n}}\n",
            n * m * k
        );
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: false }
    }
}
