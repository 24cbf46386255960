//! Programs that combine the elements of windows of small planes, each window with a size of its own.

use super::{Generator, Program, c};
use crate::codegen::testing::below;

impl Generator {
    pub(super) fn planes(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float32", "int32", "int64", "float16"]);
        let op = self.pick(&["+", "+", "max", "min"]);
        let planes = 1 + below(&mut self.rng, 70);
        let (height, width) = (1 + below(&mut self.rng, 9), 1 + below(&mut self.rng, 14));
        let elements = height * width + below(&mut self.rng, 3);
        let windows = 1 + below(&mut self.rng, 8);
        // Some elements of the results stay what they were.
        let results = windows + below(&mut self.rng, 3);
        let outer = self.pick(&["independent", "independent", "independent", "parallel independent", ""]);
        let mut statements = String::new();
        for w in 0..windows {
            let (top, left) = (below(&mut self.rng, height), below(&mut self.rng, width));
            let (rows, columns) = (1 + below(&mut self.rng, height - top), 1 + below(&mut self.rng, width - left));
            let at = self.pick(&[w, w, w, windows - 1]);
            let result = format!("Y[c * {results} + {at}]");
            let element = format!("X[c * {elements} + r * {width} + s + {}]", top * width + left);
            let value = match op {
                "+" => format!("{result} + {element}"),
                _ => format!("{op}({result}, {element})"),
            };
            let start = match below(&mut self.rng, 5) {
                // What it was counts.
                0 => String::new(),
                1 => format!("if r == 0 {{ {result} = {} }}", c(dtype, 1.0)),
                _ => format!("if r == 0 && s == 0 {{ {result} = {} }}", c(dtype, 0.0)),
            };
            statements += &format!("for r in {rows} {{ for s in {columns} {{ {start} {result} = {value} }} }}\n");
        }
        let text = format!(
            "kernel @planes(X: in {dtype}[{}], Y: inout {dtype}[{}]) {{
  for c in {planes} {outer} {{ {statements} }}
}}
",
            planes * elements,
            planes * results
        );
        self.sums(text, dtype, height * width)
    }
}
