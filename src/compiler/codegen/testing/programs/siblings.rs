//! Consecutive loops over the same extents: some read the same data, some need results of others.

use super::{Generator, Program, c, is_float};
use crate::codegen::testing::below;

impl Generator {
    pub(super) fn siblings(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32", "bfloat16"]);
        let (n, m) = (self.extent(5), self.extent(200));
        // Elements may be in an order of their own, and adjacent ones be read.
        let (row, at) = match self.pick(&[0, 0, 1, 3, 4, 5]) {
            0 => (m, format!("i * {m} + j")),
            apart => (2 * m + 6, format!("i * {} + j * 2 + j % 2 * {apart}", 2 * m + 6)),
        };
        let most_beside = usize::from(row > m);
        let has_own_rows = self.chance(2);
        let (sj, sk) = (self.vector(), self.pick(&["reduction", "reduction vector"]));
        let mut body = String::new();
        let (mut scratch, mut sums) = (String::new(), Vec::new());
        let n_loops = 2 + below(&mut self.rng, 3);
        for number in 0..n_loops {
            let (to, other) = self.pick(&[("Y", "Z"), ("Z", "Y")]);
            let mut leaves = vec![format!("X[{at}]"), format!("X[{at}]"), "W[j]".to_owned()];
            // A loop reads only the same element of a buffer that it writes, so that its iterations stay independent.
            leaves.push(format!("{to}[{at}]"));
            leaves.extend([0, most_beside, most_beside].map(|beside| format!("{other}[{at} + {beside}]")));
            leaves.extend(sums.iter().map(|s| format!("{s}[i]")));
            let (a, b) = (self.pick_of(&leaves), self.pick_of(&leaves));
            // Sums stay small, so that reordering changes little.
            let term = match below(&mut self.rng, 4) {
                0 => a.clone(),
                1 => format!("{a} * {}", c(dtype, 0.5)),
                _ => format!("min(max({a}, {}), {b})", c(dtype, -1.0)),
            };
            let inner = if self.chance(2) {
                let name = format!("S{number}");
                scratch.push_str(&format!("  scratch {name}: {dtype}[{n}]\n"));
                let sum = format!("{name}[i]");
                let (first, next) = match below(&mut self.rng, 3) {
                    0 => (c(dtype, -100.0), format!("max({sum}, {term})")),
                    _ => (c(dtype, 0.0), format!("{sum} + {term}")),
                };
                sums.push(name);
                let kept = if self.chance(3) { "V[i]".to_owned() } else { format!("U[i * {n_loops} + {number}]") };
                format!("{sum} = {first} for j in {m} {sk} {{ {sum} = {next} }} {kept} = {sum}")
            } else {
                format!("for j in {m} {sj} {{ {to}[{at}] = {term} }}")
            };
            body.push_str(&if has_own_rows {
                format!("  for i in {n} independent {{ {inner} }}\n")
            } else {
                format!("    {inner}\n")
            });
        }
        if !has_own_rows {
            body = format!("  for i in {n} independent {{\n{body}  }}\n");
        }
        let text = format!(
            "kernel @siblings(X: in {dtype}[{l}], W: in {dtype}[{m}], Y: inout {dtype}[{l}], Z: inout {dtype}[{l}], V: inout {dtype}[{n}], U: inout {dtype}[{}]) {{
{scratch}{body}}}
",
            n * n_loops,
            l = n * row
        );
        let program = self.sums(text, dtype, m * if is_float(dtype) { n_loops } else { 1 });
        Program { specials: false, ..program }
    }

    fn pick_of(&mut self, from: &[String]) -> String {
        from[below(&mut self.rng, from.len())].clone()
    }
}
