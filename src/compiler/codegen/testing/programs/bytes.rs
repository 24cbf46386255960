//! Programs on bytes and truth values alone.

use super::{Generator, Program};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Rows of bytes or truth values: connectives, sums that wrap, extremes, neighbours, and one result for a row.
    pub(super) fn bytes(&mut self) -> Program {
        let dtype = self.pick(&["bool", "bool", "int8", "uint8"]);
        let (n, m) = (self.extent(5), self.extent(150));
        let sj = self.vector();
        let stride = self.pick(&[1, 1, 1, 2, 3]);
        let (x, z) = (format!("X[(i * {m} + j) * {stride}]"), format!("Z[i * {m} + j]"));
        let value = match (dtype, below(&mut self.rng, 9)) {
            ("bool", 0) => format!("!({x} && {z})"),
            ("bool", 1) => format!("bitwise_or({x}, !{z})"),
            ("bool", 2) => format!("{x} || {z} && W[0]"),
            ("bool", 3) => {
                self.pick(&["{x} != {z}", "{x} == {z}", "({x} == {z}) != W[0]"]).replace("{x}", &x).replace("{z}", &z)
            }
            ("bool", _) => format!("bitwise_xor({x}, {z})"),
            (_, 0) => format!("max({x}, {z})"),
            (_, 1) => format!("min({x} + {z}, W[0])"),
            (_, 2) => format!("{x} - {z}"),
            (_, 4) => format!("{x} * {z}"),
            (_, 5) => format!("{x} * {z} - {z} * W[0]"),
            (_, 6) => {
                let (f, most) = (self.pick(&["shift_left", "shift_right"]), self.pick(&[7, 15, 127]));
                format!("{f}({x}, bitwise_and({z}, {dtype}({most})))")
            }
            (_, 7) => {
                let (f, by) = (self.pick(&["shift_left", "shift_right"]), below(&mut self.rng, 10));
                format!("{f}({x}, {dtype}({by})) + bitwise_not(shift_right({z}, W[0]))")
            }
            (_, 3) => format!("X[i * {m} + {} - j]", m - 1),
            _ => format!("max({x}, {dtype}(0))"),
        };
        let combined = match dtype {
            "bool" => self.pick(&["bitwise_and(R[i], {z})", "bitwise_or(R[i], {z})"]),
            _ => self.pick(&["max(R[i], {z})", "min(R[i], {z})", "R[i] + {z}"]),
        };
        let combined = combined.replace("{z}", &z);
        let (all, len) = (n * m, n * m * stride);
        let text = format!(
            "kernel @bytes(X: in {dtype}[{len}], Z: in {dtype}[{all}], W: in {dtype}[1], Y: out {dtype}[{all}], R: inout {dtype}[{n}]) {{
  for i in {n} independent {{
    for j in {m} {sj} {{ Y[i * {m} + j] = {value} }}
    for j in {m} reduction {{ R[i] = {combined} }}
  }}
}}
"
        );
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: false }
    }
}
