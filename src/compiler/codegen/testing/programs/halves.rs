//! Programs that compute with rows of bfloat16 lane by lane, and reduce them.

use super::{Generator, Program, c};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Rows of bfloat16, some with operands or results of `float32`: single operations, formulas, several results, and sums.
    pub(super) fn halves(&mut self) -> Program {
        let n = self.extent(6);
        let m = match below(&mut self.rng, 4) {
            0 => self.extent(64),
            1 => 16 * self.extent(9),
            _ => self.pick(&[32, 64, 96, 128, 192]) + self.extent(64),
        };
        match below(&mut self.rng, 7) {
            0 => self.row_sums(n, m),
            1 => self.column_sums(n, m),
            2 => self.windows(n, m),
            3 | 4 => self.single_operation(n, m),
            _ => self.formulas(n, m),
        }
    }

    /// An operation whose result is rounded once, so that it is exact.
    fn single_operation(&mut self, n: usize, m: usize) -> Program {
        let dtype = "bfloat16";
        let (x, z) = (format!("X[i * {m} + j]"), format!("Z[i * {m} + j]"));
        let other = match below(&mut self.rng, 4) {
            0 => "W[i]".into(),
            1 => "V[j]".into(),
            2 => c(dtype, self.pick(&[0.5, 3.0, -1.0])),
            _ => z.clone(),
        };
        let (a, b) = if self.chance(3) { (&other, &x) } else { (&x, &other) };
        let (value, to) = match below(&mut self.rng, 9) {
            0 | 1 => (format!("{a} + {b}"), dtype),
            2 => (format!("{a} - {b}"), dtype),
            3 | 4 => (format!("{a} * {b}"), dtype),
            5 => (format!("select({a} < {b}, {z}, {x})"), dtype),
            6 => (format!("select(isnan({x}), {other}, {x} + {z})"), dtype),
            7 => (format!("cast(float32, {a}) + cast(float32, {b})"), "float32"),
            _ => (format!("cast({dtype}, cast(float32, {a}) * cast(float32, {b}))"), dtype),
        };
        let sj = self.vector();
        let body = format!("for j in {m} {sj} {{ Y[i * {m} + j] = {value} }}");
        let text = Self::rows_of_halves(n, m, to, &body);
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: true }
    }

    /// One or two formulas, of which the second may read the first one's result.
    fn formulas(&mut self, n: usize, m: usize) -> Program {
        let dtype = "bfloat16";
        let at = format!("[i * {m} + j]");
        let mut leaves = vec![format!("X{at}"), format!("Z{at}"), "W[i]".to_string(), "V[j]".to_string()];
        if self.chance(3) {
            leaves.push(format!("cast({dtype}, F{at})"));
        }
        let (depth, sj) = (1 + below(&mut self.rng, 3), self.vector());
        let value = self.arithmetic(dtype, &leaves, depth);
        let mut body = format!("for j in {m} {sj} {{ U{at} = {value} }}");
        let to = self.pick(&[dtype, dtype, dtype, "float32"]);
        let second = if to == dtype {
            leaves.push(format!("U{at}"));
            self.arithmetic(dtype, &leaves, 1)
        } else {
            // Only elements have all digits of `float32`.
            let element = leaves[below(&mut self.rng, 4)].clone();
            format!("cast({to}, {element}) * F{at}")
        };
        if self.chance(2) {
            body.push_str(&format!(" for j in {m} {sj} {{ Y{at} = {second} }}"));
        } else {
            body = format!("for j in {m} {sj} {{ U{at} = {value} Y{at} = {second} }}");
        }
        let text = Self::rows_of_halves(n, m, to, &body);
        Program { text, fast: Closeness::Ulps(64.0), strict: Closeness::Exact, specials: false }
    }

    /// The kernel whose rows a body computes.
    fn rows_of_halves(n: usize, m: usize, to: &str, body: &str) -> String {
        let all = n * m;
        format!(
            "kernel @halves(X: in bfloat16[{all}], Z: in bfloat16[{all}], W: in bfloat16[{n}], V: in bfloat16[{m}], F: in float32[{all}],
  U: inout bfloat16[{all}], Y: inout {to}[{all}]) {{
  for i in {n} independent {{ {body} }}
}}
"
        )
    }

    /// The terms of a sum of halves, and the types of halves and sums.
    fn terms(&mut self, at: &str, other: &str) -> (String, &'static str) {
        let (x, z) = (format!("X[{at}]"), format!("Z[{at}]"));
        match below(&mut self.rng, 6) {
            0 => (format!("cast(float32, {x})"), "float32"),
            1 => (format!("cast(float32, {x}) * cast(float32, {z})"), "float32"),
            2 => (format!("{x} * {other}"), "bfloat16"),
            3 => (format!("max({x}, {z})"), "bfloat16"),
            _ => (x, "bfloat16"),
        }
    }

    /// Extremes and sums of windows with a stride, of which each row has as many as half its elements.
    fn windows(&mut self, n: usize, m: usize) -> Program {
        let (m, stride) = (1 + m / 2, self.pick(&[2, 2, 2, 1, 3]));
        let (rows, columns) = (self.pick(&[1, 2, 3]), self.pick(&[2, 3, 3, 5]));
        let width = stride * m + columns;
        let (x, y) = (format!("X[(i * {stride} + p) * {width} + j * {stride} + q]"), format!("Y[i * {m} + j]"));
        let value = match below(&mut self.rng, 4) {
            0 => format!("{y} + {x}"),
            1 => format!("min({y}, {x})"),
            _ => format!("max({y}, {x})"),
        };
        let sj = self.vector();
        let text = format!(
            "kernel @windows(X: in bfloat16[{}], Y: out bfloat16[{}]) {{
  for i in {n} independent {{ for j in {m} {sj} {{
    {y} = {}
    for p in {rows} reduction {{ for q in {columns} reduction {{ {y} = {value} }} }}
  }} }}
}}
",
            (stride * n + rows) * width,
            n * m,
            c("bfloat16", 0.0)
        );
        self.sums(text, "bfloat16", rows * columns)
    }

    fn row_sums(&mut self, n: usize, m: usize) -> Program {
        let (term, sum) = self.terms(&format!("i * {m} + j"), "W[i]");
        let first = c(sum, self.pick(&[0.0, 0.0, 1.0]));
        let text = format!(
            "kernel @row_sums(X: in bfloat16[{0}], Z: in bfloat16[{0}], W: in bfloat16[{n}], Y: out {sum}[{n}]) {{
  for i in {n} independent {{ Y[i] = {first} for j in {m} reduction {{ Y[i] = Y[i] + {term} }} }}
}}
",
            n * m
        );
        self.sums(text, sum, m)
    }

    fn column_sums(&mut self, n: usize, m: usize) -> Program {
        let n = n * self.pick(&[1, 1, 3]);
        let (term, sum) = self.terms(&format!("k * {m} + j"), "W[k]");
        let first = c(sum, self.pick(&[0.0, 0.0, 1.0]));
        let sj = self.vector();
        let text = format!(
            "kernel @column_sums(X: in bfloat16[{0}], Z: in bfloat16[{0}], W: in bfloat16[{n}], Y: out {sum}[{m}]) {{
  for j in {m} {sj} {{ Y[j] = {first} }}
  for k in {n} reduction {{ for j in {m} {sj} {{ Y[j] = Y[j] + {term} }} }}
}}
",
            n * m
        );
        self.sums(text, sum, n)
    }
}
