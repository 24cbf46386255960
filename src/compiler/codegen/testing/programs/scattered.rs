//! Programs that read elements at any indices, and at indices that follow from the counter of a loop alone.

use super::{ALL, Generator, Program};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Elements at loaded or computed indices: clamped, under conditions, or behind checks that hold.
    pub(super) fn scattered(&mut self) -> Program {
        if self.chance(5) {
            return self.samples();
        }
        if self.chance(8) {
            return self.points();
        }
        let dtype = self.pick(&["float32", "float32", "int32", "int64", "float64", "uint8"]);
        let long = self.pick(&["int32", "int64"]);
        let (n, m, len) = (self.extent(5), self.extent(90), 1 + self.extent(70));
        let sj = self.pick(&["independent", "independent", "vector independent", ""]);
        let at = format!("i * {m} + j");
        let zero = if dtype.contains("float") { format!("{dtype}(0.0)") } else { format!("{dtype}(0)") };
        let last = len - 1;
        let position = match below(&mut self.rng, 4) {
            0 => format!("cast(int32, floor(F[{at}]))"),
            1 => format!("cast(int32, F[j] * {:?})", 1.5),
            _ => format!("I[{at}]"),
        };
        let index = self.pick(&["cast(int64, {p})", "cast(int64, {p}) * 2 - 1", "{r} + cast(int64, {p})"]);
        let index = index.replace("{p}", &position).replace("{r}", self.pick(&["i", "j // 2", "0"]));
        let element = |index: &str| format!("X[max(min({index}, {last}), 0)]");
        let value = match below(&mut self.rng, 5) {
            0 => element(&index),
            1 => format!("{} + {}", element(&index), element(&format!("cast(int64, I[{at}])"))),
            // Only some elements exist.
            2 => format!("if_then_else({index} >= 0 && {index} < {len}, X[{index}], {zero})"),
            3 => {
                let p = format!("I[{at}]");
                format!("if_then_else({long}(0) <= {p} && {p} < {long}({len}), X[cast(int64, {p})], {zero})")
            }
            // Functions of the counter.
            _ => {
                let scale = self.pick(&[0.5, 0.7, 1.3, 1.9]);
                let shift = below(&mut self.rng, 4);
                let from = format!("cast(int64, floor(cast(float32, cast(int32, j)) * {scale:?} + {shift}.25))");
                let row = if self.chance(2) { "X[i + ".to_string() } else { "X[".to_string() };
                let element = format!("{row}max(min({from}, {last}), 0)]");
                let turned = format!("{row}max(min(if_then_else(j < 3, 3 - j, j - 3), {last}), 0)]");
                let f = self.pick(&["{a}", "{a} + {b}", "{b}"]);
                f.replace("{a}", &element).replace("{b}", &turned)
            }
        };
        // A check that always holds, but has to be evaluated.
        let check = match below(&mut self.rng, 3) {
            0 => format!("check cast(int64, I[{at}]) < 1000000 || I[{at}] > {long}(0) else out_of_bounds(X)"),
            _ => String::new(),
        };
        let (all, x) = (n * m, len + n);
        let text = format!(
            "kernel @scattered(X: in {dtype}[{x}], I: in {long}[{all}], F: in float32[{all}], Y: inout {dtype}[{all}]) {{
  for i in {n} independent {{ for j in {m} {sj} {{ {check} Y[{at}] = {value} }} }}
}}
"
        );
        let closeness = Closeness::Exact;
        Program { text, fast: closeness, strict: closeness, specials: false }
    }

    /// Channels of points that a function of the counter takes from a row, and a value for each point or channel.
    fn points(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let (n, m, channels) = (self.extent(4), self.extent(90), self.pick(&[2, 3, 4, 5, 7]));
        let points = self.extent(60);
        let scale = self.pick(&[0.5, 0.7, 1.3, 2.1, 5.3]);
        let from = format!("cast(int64, cast(int32, floor(cast(float32, cast(int32, j)) * {scale:?} + 0.25)))");
        let element = format!("X[i * {} + max(min({from}, {}), 0) * {channels} + q]", points * channels, points - 1);
        let by = self.pick(&["A[j]", "A[q]", "A[i]"]);
        let value = if self.chance(2) { element } else { format!("max({element}, {by})") };
        let (sj, sq) = (self.pick(&["independent", "independent", ""]), self.vector());
        let text = format!(
            "kernel @points(X: in {dtype}[{}], A: in {dtype}[100], Y: inout {dtype}[{y}]) {{
  for i in {n} independent {{ for j in {m} {sj} {{ for q in {channels} {sq} {{
    Y[(i * {m} + j) * {channels} + q] = {value}
  }} }} }}
}}
",
            n * points * channels,
            y = n * m * channels
        );
        let closeness = Closeness::Exact;
        Program { text, fast: closeness, strict: closeness, specials: false }
    }

    /// Elements of rows whose numbers are checked where a condition holds.
    fn samples(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "int32", "float64"]);
        let long = self.pick(&["int32", "int64"]);
        let (n, m, len) = (self.extent(5), self.extent(40), self.pick(&[1, 2, 5, 30]));
        let sj = self.pick(&["independent", "independent", "vector independent", ""]);
        let (all, x) = (n * m, len * 4);
        let (at, row) = (format!("i * {m} + j"), format!("I[i * {m}]"));
        let is_row = format!("{long}(0) <= {row} && {row} < {long}({len})");
        let (condition, column) = match below(&mut self.rng, 3) {
            0 => (format!("F[{at}] > 0.0 && ({is_row})"), "j % 4".to_string()),
            1 => (format!("{is_row} && F[j] > 0.0"), format!("max(min(cast(int64, I[{at}]), 3), 0)")),
            _ => (format!("{is_row} && F[{at}] > 0.0"), "max(min(cast(int64, floor(F[j])), 3), 0)".to_string()),
        };
        let zero = if dtype.contains("float") { format!("{dtype}(0.0)") } else { format!("{dtype}(0)") };
        let text = format!(
            "kernel @samples(X: in {dtype}[{x}], I: in {long}[{all}], F: in float32[{all}], Y: inout {dtype}[{}]) {{
  for i in {n} independent {{ for c in 3 independent {{ for j in {m} {sj} {{
    check !({condition}) || cast(int64, {row}) >= 0 && cast(int64, {row}) < {len} else out_of_bounds(X)
    Y[c * {all} + {at}] = if_then_else({condition}, X[cast(int64, {row}) * 4 + {column}], {zero})
  }} }} }}
}}
",
            3 * all
        );
        let closeness = Closeness::Exact;
        Program { text, fast: closeness, strict: closeness, specials: false }
    }
}
