//! Programs that divide rows by statistics of their columns, such as a softmax over an outer axis.

use super::{Generator, Program};
use crate::codegen::testing::below;

impl Generator {
    pub(super) fn columns(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64"]);
        let (rows, columns) = (1 + below(&mut self.rng, 9), self.extent(100));
        // All columns at once, or strips of some, which several threads may share.
        let (strips, strip) = match self.chance(2) {
            true => (1, columns),
            false => (1 + below(&mut self.rng, 4), columns),
        };
        let outer = self.pick(&["independent", "parallel", ""]);
        let n = strips * strip;
        let at = format!("i * {n} + c * {strip} + j");
        // A statistic of a strip, of all columns, or of a row and a column.
        let (own, len) = match below(&mut self.rng, 3) {
            0 if outer != "parallel" => ("j".to_string(), strip),
            0 => (format!("c * {strip} + {strip} - 1 - j"), n),
            _ => (format!("c * {strip} + j"), n),
        };
        let (sj, si) = (self.vector(), self.pick(&["independent", ""]));
        let term = self.pick(&["X[{at}] * X[{at}]", "max(X[{at}], 0.0)"]).replace("{at}", &at);
        let term = term.replace("0.0", &format!("{dtype}(0.0)"));
        let sum = format!(
            "for j in {strip} independent {{ S[{own}] = {dtype}(1.0) }}
    for i in {rows} {{ for j in {strip} independent {{ S[{own}] = S[{own}] + {term} }} }}"
        );
        // What the rows change, and what a condition guards, must be divided by as it is then.
        let value = match below(&mut self.rng, 5) {
            0 => format!("X[{at}] / (S[{own}] + W[i] * W[i])"),
            1 => format!("max(X[{at}] / S[{own}], W[i] / S[{own}])"),
            2 => format!("max({dtype}(2.0) / S[{own}], X[{at}])"),
            _ => format!("X[{at}] / S[{own}]"),
        };
        let store = format!("Y[{at}] = {value}");
        let changes = self.chance(5);
        let si = if changes { "" } else { si };
        let store = match below(&mut self.rng, 4) {
            _ if changes => format!("{store} S[{own}] = S[{own}] + W[i] * W[i]"),
            0 => format!("if j < {} {{ {store} }}", strip.div_ceil(2)),
            1 => format!("let x: {dtype} = W[i] + {dtype}(1.0) {store} + X[{at}] / (x * x + S[{own}])"),
            _ => store,
        };
        let text = format!(
            "kernel @columns(X: in {dtype}[{l}], W: in {dtype}[{rows}], Y: inout {dtype}[{l}]) {{
  scratch S: {dtype}[{len}]
  for c in {strips} {outer} {{
    {sum}
    for i in {rows} {si} {{ for j in {strip} {sj} {{ {store} }} }}
  }}
}}
",
            l = rows * n
        );
        self.sums(text, dtype, rows)
    }
}
