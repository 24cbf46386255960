//! Programs that read padded rows under conditions on loop variables.

use super::{Generator, Program, c, is_float};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Copies and windows of padded rows. The rows that exist end where their buffer does.
    pub(super) fn padded(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32"]);
        let (n, m) = (1 + below(&mut self.rng, 6), self.extent(90));
        let (before, behind) = (below(&mut self.rng, 3), below(&mut self.rng, 3));
        let (r, stride) = (1 + below(&mut self.rng, 3), self.pick(&[1, 1, 1, 2]));
        let sj = self.vector();
        // Windows extend over the padding on both sides.
        let rows = n + r - 1;
        let there = rows.saturating_sub(before + behind).max(1);
        let (low, high) = (before, before + there);
        let row = "(i + r)";
        let condition = match below(&mut self.rng, 3) {
            0 => format!("{low} <= {row} && {row} < {high}"),
            1 => format!("{row} > {low} - 1 && {high} > {row}"),
            _ => format!("{row} >= {low} && {row} <= {high} - 1"),
        };
        let at = format!("X[({row} - {low}) * {} + j * {stride}]", m * stride);
        let (value, other) = match below(&mut self.rng, 4) {
            0 => (at, c(dtype, 0.0)),
            1 => (at, c(dtype, 1.5)),
            2 => (format!("{at} * W[r]"), c(dtype, 0.0)),
            _ => (format!("max({at}, X[{row} - {low}])"), "W[0]".into()),
        };
        let other = if other == "W[0]" { c(dtype, 2.0) } else { other };
        let choice = format!("if_then_else({condition}, {value}, {other})");
        let (y, sum) = (format!("Y[i * {m} + j]"), self.pick(&["max({y}, {x})", "{y} + {x} * W[r]"]));
        let update = format!("{y} = {}", sum.replace("{y}", &y).replace("{x}", &choice));
        let init = format!("if r == 0 {{ {y} = {} }}", c(dtype, 0.0));
        let body = match below(&mut self.rng, 3) {
            0 => format!("for j in {m} {sj} {{ for r in {r} reduction {{ {init} {update} }} }}"),
            1 => format!("for r in {r} reduction {{ for j in {m} {sj} {{ {init} {update} }} }}"),
            _ => format!("for j in {m} {sj} {{ {y} = {} }}", choice.replace("(i + r)", "i").replace("[r]", "[0]")),
        };
        let text = format!(
            "kernel @padded(X: in {dtype}[{}], W: in {dtype}[{r}], Y: inout {dtype}[{}]) {{
  for i in {n} independent {{ {body} }}
}}
",
            there * m * stride,
            n * m
        );
        let fast = if is_float(dtype) { Closeness::Ulps(32.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    /// Vectorised copies and windows of rows that are padded at their ends: whole rows, or pieces.
    pub(super) fn window(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32"]);
        let (n, m) = (1 + below(&mut self.rng, 4), self.extent(90));
        let (before, behind) = (below(&mut self.rng, 4), below(&mut self.rng, 4));
        let s = 1 + below(&mut self.rng, 4);
        let stride = self.pick(&[1, 1, 2, 3, 4]);
        let there = ((m - 1) * stride + s).saturating_sub(before + behind).max(1);
        let (low, high) = (before, before + there);
        let piece = self.extent(40).min(m);
        let is_whole = self.chance(2);
        let column = if is_whole {
            format!("(j * {stride} + s)")
        } else {
            format!("(jo * {} + j * {stride} + s)", piece * stride)
        };
        let mut conditions = vec![match below(&mut self.rng, 3) {
            0 => format!("{low} <= {column} && {column} < {high}"),
            1 => format!("{column} > {low} - 1 && {high} > {column}"),
            _ => format!("{column} >= {low} && {column} <= {high} - 1"),
        }];
        if self.chance(3) {
            conditions.push(format!("i < {}", n - n / 2));
        }
        let other = c(dtype, self.pick(&[0.0, 0.0, 1.5]));
        let at = format!("X[i * {there} + {column} - {low}]");
        let choice = format!("if_then_else({}, {at}, {other})", conditions.join(" && "));
        let place = if is_whole { format!("i * {m} + j") } else { format!("i * {m} + jo * {piece} + j") };
        let y = format!("Y[{place}]");
        let sum = self.pick(&["max({y}, {x})", "{y} + {x} * W[s]", "{y} + {x} * W[s]"]);
        let update = format!("{y} = {}", sum.replace("{y}", &y).replace("{x}", &choice));
        let init = format!("if s == 0 {{ {y} = {} }}", c(dtype, 0.0));
        let kind = self.pick(&["reduction", "reduction unroll"]);
        let lanes = |body: String, length: usize| format!("for j in {length} independent vector {{ {body} }}");
        let within = |body: String| match is_whole || m % piece == 0 {
            true => body,
            false => format!("if jo * {piece} + j < {m} {{ {body} }}"),
        };
        let length = if is_whole { m } else { piece };
        let body = match below(&mut self.rng, 3) {
            0 => lanes(within(format!("{y} = {}", choice.replace(" + s)", ")"))), length),
            _ => format!("for s in {s} {kind} {{ {} }}", lanes(within(format!("{init} {update}")), length)),
        };
        let body = match is_whole {
            true => body,
            false => format!("for jo in {} independent {{ {body} }}", m.div_ceil(piece)),
        };
        let text = format!(
            "kernel @window(X: in {dtype}[{}], W: in {dtype}[{s}], Y: inout {dtype}[{}]) {{
  for i in {n} independent {{ {body} }}
}}
",
            there * n,
            n * m
        );
        let fast = if is_float(dtype) { Closeness::Ulps(32.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }
}
