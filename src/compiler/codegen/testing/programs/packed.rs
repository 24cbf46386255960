//! Numbers of a few bits, several to a word, in sums of products and as elements.

use super::{Generator, Program};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    pub(super) fn packed(&mut self) -> Program {
        let word = self.pick(&["uint32", "uint32", "int32", "uint8"]);
        let bits = self.pick(&[4, 4, 2, 8]).min(if word == "uint8" { 4 } else { 8 });
        let per_word = if word == "uint8" { 8 } else { 32 } / bits;
        let group = per_word * self.pick(&[1, 2, 4, 16]);
        let n_groups = 1 + below(&mut self.rng, 5);
        let k = group * n_groups * self.pick(&[1, 1, 2, 4]);
        let (rows, columns) = (self.extent(3), self.extent(20));
        let dtype = self.pick(&["float32", "float32", "float64", "int32"]);
        let input = if dtype == "float32" { self.pick(&["float32", "float16"]) } else { dtype };
        // Words lie along the sum, across it, or along the results.
        let layout = below(&mut self.rng, 3);
        let (at, length, place) = match layout {
            0 => (format!("j * {} + k // {per_word}", k / per_word), columns * k / per_word, "k"),
            1 => (format!("k // {per_word} * {columns} + j"), columns * k / per_word, "k"),
            _ => {
                let words = columns.div_ceil(per_word);
                (format!("k * {words} + j // {per_word}"), k * words, "j")
            }
        };
        let shift = format!("cast({word}, cast(int32, {place} % {per_word} * {bits}))");
        // Masks may keep fewer bits, or none of the highest ones.
        let mask = (1u32 << self.pick(&[bits, bits, bits - 1])) - 1;
        let number = match below(&mut self.rng, 4) {
            0 => format!("bitwise_and({word}({mask}), shift_right(W[{at}], {shift}))"),
            // A shift that leaves nothing to mask is a number as it is.
            1 if layout == 0 => format!("shift_right(W[{at}], {word}({}))", per_word * bits - bits),
            _ => format!("bitwise_and(shift_right(W[{at}], {shift}), {word}({mask}))"),
        };
        let convert = |e: String| if input == dtype { e } else { format!("cast({dtype}, {e})") };
        let scale = convert(format!("S[j * {} + k // {group}]", k / group));
        let offset = if dtype == "int32" { "int32(7)".to_owned() } else { format!("{dtype}(7.0)") };
        // Terms are no larger than those of other sums, which may cancel as well.
        let small = match dtype {
            "int32" => String::new(),
            _ => format!(" * {dtype}({:?})", 1.0 / f64::from(1 << bits)),
        };
        let decoded = format!("(cast({dtype}, {number}) - {offset}) * {scale}{small}");
        let x = convert(format!("X[i * {k} + k]"));
        let (si, sj) = (self.space(), self.vector());
        let body = match below(&mut self.rng, 3) {
            // Elements, which a sum may read.
            0 => format!(
                "for j in {columns} {si} {{ for k in {k} {sj} {{ D[j * {k} + k] = {decoded} }} }}
  for i in {rows} {si} {{ for j in {columns} {sj} {{ Y[i * {columns} + j] = D[j * {k} + i % {k}] }} }}"
            ),
            _ => format!(
                "for i in {rows} {si} {{ for j in {columns} independent {{
    Y[i * {columns} + j] = {dtype}(0{})
    for k in {k} reduction {{ Y[i * {columns} + j] = Y[i * {columns} + j] + {x} * ({decoded}) }}
  }} }}",
                if dtype == "int32" { "" } else { ".0" }
            ),
        };
        let text = format!(
            "kernel @packed(X: in {input}[{}], W: in {word}[{length}], S: in {input}[{}], D: inout {dtype}[{}], Y: inout {dtype}[{}]) {{
  {body}
}}
",
            rows * k,
            columns * k / group,
            columns * k,
            rows * columns
        );
        let program = self.sums(text, dtype, k);
        if dtype == "int32" { Program { fast: Closeness::Exact, ..program } } else { program }
    }
}
