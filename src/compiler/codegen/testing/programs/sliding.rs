//! Programs whose windows slide over rows and columns, written out: depthwise convolution.

use super::{Generator, Program, c, is_float};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Sums over windows of padded data, from a copy that may have columns ordered by remainders, or under conditions.
    pub(super) fn sliding(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float16", "bfloat16", "int8", "uint8", "int32", "float64"]);
        let (n, m) = (1 + below(&mut self.rng, 7), self.extent(40));
        let (r, s) = (1 + below(&mut self.rng, 5), 1 + below(&mut self.rng, 5));
        let stride = self.pick(&[1, 1, 2, 2, 3]);
        let (above, before) = (below(&mut self.rng, 3), below(&mut self.rng, 3));
        let (height, width) = ((n - 1) * stride + r, (m - 1) * stride + s);
        // What exists, without the padding.
        let rows = height.saturating_sub(2 * above).max(1);
        let columns = width.saturating_sub(2 * before).max(1);
        let padded = |row: &str, column: &str| {
            let inside = format!(
                "{above} <= {row} && {row} < {} && {before} <= {column} && {column} < {}",
                above + rows,
                before + columns
            );
            let at = format!("X[({row} - {above}) * {columns} + {column} - {before}]");
            format!("if_then_else({inside}, {at}, {})", c(dtype, 0.0))
        };
        let part = width.div_ceil(stride);
        let sj = self.vector();
        let copy = format!(
            "for h in {height} independent {{ for q in {stride} independent {{ for j in {part} {sj} {{
    P[(h * {stride} + q) * {part} + j] = {}
  }} }} }}",
            padded("h", &format!("(j * {stride} + q)"))
        );
        let is_copied = self.chance(2);
        let (scratch, copy, x) = match is_copied {
            true => {
                let at = format!("((i * {stride} + r) * {stride} + s % {stride}) * {part} + j + s // {stride}");
                (format!("scratch P: {dtype}[{}]", height * stride * part), copy, format!("P[{at}]"))
            }
            false => {
                let (row, column) = (format!("(i * {stride} + r)"), format!("(j * {stride} + s)"));
                (String::new(), String::new(), padded(&row, &column))
            }
        };
        let y = format!("Y[i * {m} + j]");
        let sum =
            self.pick(&["{y} + {x} * W[r * {s} + s]", "{y} + {x} * W[r * {s} + s]", "max({y}, {x})", "{y} + {x}"]);
        let update = sum.replace("{y}", &y).replace("{x}", &x).replace("{s}", &s.to_string());
        let tile = |body: String| format!("for i in {n} independent {{ for j in {m} {sj} {{ {body} }} }}");
        let windows = match self.chance(2) {
            true => [("s", s), ("r", r)],
            false => [("r", r), ("s", s)],
        };
        let nest = windows.iter().fold(tile(format!("{y} = {update}")), |body, (name, extent)| {
            format!("for {name} in {extent} reduction unroll {{ {body} }}")
        });
        let text = format!(
            "kernel @sliding(X: in {dtype}[{}], W: in {dtype}[{}], Y: inout {dtype}[{}]) {{
  {scratch}
  {copy}
  {}
  {nest}
}}
",
            rows * columns,
            r * s,
            n * m,
            tile(format!("{y} = {}", c(dtype, 0.0)))
        );
        let fast = if is_float(dtype) { Closeness::Ulps(64.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }
}
