//! Programs that combine all elements up to each, along rows, columns, or the only row.

use super::{ALL, Generator, Program, c, is_float};
use crate::codegen::testing::below;

impl Generator {
    pub(super) fn scans(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let op = self.pick(&["+", "+", "*", "max", "min"]);
        let rows = if self.chance(3) { 1 } else { self.extent(70) };
        // Products of many floats vanish.
        let most = if op == "*" && is_float(dtype) { 40 } else { 600 };
        let steps = 1 + below(&mut self.rng, most);
        let outer = self.pick(&["independent", "independent", "parallel independent", ""]);
        // The first element of a row, and the distance of its elements.
        let width = self.extent(40);
        let (n_rows, first, stride) = match below(&mut self.rng, 4) {
            0 => (rows, "v".to_string(), rows),
            1 => (rows * width, format!("v // {width} * {} + v % {width}", width * (steps + 1)), width),
            _ => (rows, format!("v * {}", steps + 1), 1),
        };
        let at = |k: &str| format!("{first} + {k} * {stride}");
        let next = format!("{first} + k * {stride} + {stride}");
        let element = match below(&mut self.rng, 3) {
            0 => format!("X[{next}] * {}", c(dtype, 2.0)),
            _ => format!("X[{next}]"),
        };
        let swapped = self.chance(4);
        let combined = |old: &str| {
            let (a, b) = if swapped { (element.as_str(), old) } else { (old, element.as_str()) };
            match op {
                "max" | "min" => format!("{op}({a}, {b})"),
                _ => format!("{a} {op} {b}"),
            }
        };
        let start = match below(&mut self.rng, 3) {
            0 => c(dtype, 1.0),
            _ => format!("X[{}]", at("0")),
        };
        let inside = match below(&mut self.rng, 3) {
            // In the result.
            0 | 1 => {
                let value = combined(&format!("Y[{}]", at("k")));
                format!("Y[{}] = {start} for k in {steps} {{ Y[{next}] = {value} }}", at("0"))
            }
            // In a scratch buffer; the result may be the value before the element.
            _ => {
                let value = combined("s[0]");
                let result = if self.chance(2) { "s[0]" } else { value.as_str() };
                format!("s[0] = {start} for k in {steps} {{ Y[{next}] = {result} s[0] = {value} }}")
            }
        };
        let per = if outer.starts_with("parallel") { " per_worker" } else { "" };
        let scratch = if inside.contains("s[0]") { format!("scratch s: {dtype}[1]{per}") } else { String::new() };
        let text = format!(
            "kernel @scans(X: in {dtype}[{l}], Y: inout {dtype}[{l}]) {{
  {scratch}
  for v in {n_rows} {outer} {{ {inside} }}
}}
",
            l = n_rows * (steps + 1)
        );
        self.sums(text, dtype, steps)
    }
}
