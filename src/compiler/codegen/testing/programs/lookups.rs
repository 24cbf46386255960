//! Programs whose rows are at places that a table has, or that follow from the counters of loops in ways that are not affine.

use super::{Generator, Program, c, is_float};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// Rows and blocks of rows at such places, with weights that the counters of loops decide.
    pub(super) fn lookups(&mut self) -> Program {
        if self.chance(3) {
            return self.repeated();
        }
        if self.chance(4) {
            return self.weighed();
        }
        let dtype = self.pick(&["float32", "float32", "float32", "int32", "float64", "float16", "uint8"]);
        let (n, m, width) = (self.extent(40), self.extent(12), self.extent(40));
        let (rows, blocks) = (self.extent(20), self.extent(6));
        let filled = (self.pick(&[1, 3, 5]), below(&mut self.rng, 7));
        let row = self.place("i", "T", rows);
        let block = self.pick(&["k", "i", "0"]);
        let block = if block == "0" { "0".to_string() } else { self.place(block, "S", blocks) };
        let strided = self.pick(&["j", "j", "j * 2"]);
        let (length, second) = (2 * width, self.place("i", "T", rows));
        let element = |row: &str| format!("X[({row}) * {} + ({block}) * {length} + {strided}]", blocks * length);
        let weight = match is_float(dtype) {
            true => {
                let by = self.pick(&["i", "k"]);
                let at = format!("(cast(float32, cast(int32, {by})) + 0.5) * {:?}", self.pick(&[0.5, 0.37, 1.6]));
                let weight = format!("({at} - floor({at}))");
                if dtype == "float32" { weight } else { format!("cast({dtype}, {weight})") }
            }
            false => format!("cast({dtype}, floor(cast(float32, cast(int32, i)) * 0.7))"),
        };
        let (first, other) = (element(&row), element(&second));
        let value = match below(&mut self.rng, 4) {
            0 => first,
            1 => format!("{first} * {weight}"),
            2 => format!("{first} + {other}"),
            _ => format!("{first} * {weight} + {other}"),
        };
        let at = format!("(i * {m} + k) * {width} + j");
        // As a sum over the loop in the middle, the rows of one result are read one after the other.
        let (store, kind) = match self.chance(4) {
            true => (format!("Y[i * {width} + j] = Y[i * {width} + j] + {value}"), ""),
            false => (format!("Y[{at}] = {value}"), "independent"),
        };
        let (all, x) = (n * m * width, rows * blocks * length);
        let text = format!(
            "kernel @lookups(X: in {dtype}[{x}], Y: inout {dtype}[{all}]) {{
  scratch T: int32[{n}]
  scratch S: int32[{n}]
  for t in {n} independent {{ T[t] = cast(int32, (t * {} + {}) % {rows}) S[t] = cast(int32, t * {} % {blocks}) }}
  for i in {n} independent {{ for k in {m} {kind} {{ for j in {width} independent {{ {store} }} }} }}
}}
",
            filled.0, filled.1, filled.0
        );
        self.sums(text, dtype, m)
    }

    /// Places and weights that depend on data and are the same in all iterations of a loop in the middle.
    fn repeated(&mut self) -> Program {
        let (n, m, width) = (self.extent(6), self.extent(12), self.extent(20));
        let (rows, inner) = (self.extent(30), self.pick(&["w", "k"]));
        // A product alone, which is rounded once however it is computed, so that no place is next to the right one.
        let product = |of: &str, by: &str| format!("B[i * 2 + {of}] * cast(float32, cast(int32, {by}))");
        let by = self.pick(&["w", "k", "w + k"]);
        let at = product("0", by);
        let place =
            format!("max(min(cast(int64, cast(int32, floor(abs({at})))) + {}, {}), 0)", self.pick(&[0, 1]), rows - 1);
        let other = product("1", inner);
        let element = format!("X[c * {rows} + {place}]");
        let weight = format!("({other} - floor({other}))");
        let value = match below(&mut self.rng, 4) {
            0 => element,
            1 => format!("{element} * {weight}"),
            2 => format!("if_then_else(abs({at}) < 2.5, {element} * {weight}, 1.0)"),
            _ => format!("if_then_else(floor(sqrt(abs({other}))) < 1.0, 0.5, {element})"),
        };
        let (store, kind) = match self.chance(3) {
            true => (format!("Y[(i * {m} + c) * {width} + w] = Y[(i * {m} + c) * {width} + w] + {value}"), ""),
            false => (format!("Y[((i * {m} + c) * {width} + w) * 4 + k] = {value}"), "independent"),
        };
        let text = format!(
            "kernel @repeated(X: in float32[{}], B: in float32[{}], Y: inout float32[{}]) {{
  for i in {n} independent {{ for c in {m} independent {{ for w in {width} independent {{ for k in 4 {kind} {{ {store} }} }} }} }}
}}
",
            m * rows,
            n * 2,
            n * m * width * 4
        );
        self.sums(text, "float32", 4)
    }

    /// Sums of some columns of some rows, with weights of the rows and of the columns.
    fn weighed(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64"]);
        let from = self.pick(&[dtype, dtype, "uint8", "float16"]);
        let (images, n, channels) = (self.extent(3), self.extent(9), self.pick(&[1, 1, 2, 3, 5, 8]));
        let m = if self.chance(8) { self.extent(50) * 13 } else { self.extent(50) };
        let (rows, columns) = (self.extent(7), self.extent(40));
        let place = |counter: &str, scale: f64, shift: usize, below_this: usize| {
            let at = format!("cast(int64, cast(int32, floor(cast(float32, cast(int32, {counter})) * {scale:?})))");
            format!("max(min({at} + {shift}, {}), 0)", below_this - 1)
        };
        // Places and weights are exact, so that no place is next to the right one.
        let (by_row, by_column) = (self.pick(&[0.5, 0.25, 1.5]), self.pick(&[0.5, 0.25, 0.75, 2.0]));
        let weight = |counter: &str, scale: f64| {
            let at = format!("cast(float32, cast(int32, {counter})) * {scale:?}");
            let weight = format!("({at} - floor({at}))");
            if dtype == "float32" { weight } else { format!("cast({dtype}, {weight})") }
        };
        let element = |row: usize, column: usize| {
            let (y, x) = (place("y", by_row, row, rows), place("x", by_column, column, columns));
            let element =
                format!("X[c * {} + {y} * {} + {x} * {channels} + q]", rows * columns * channels, columns * channels);
            if from == dtype { element } else { format!("cast({dtype}, {element})") }
        };
        let sign = self.pick(&["+", "+", "-"]);
        let row = |row: usize, n_columns: usize| {
            let first = format!("{} * {}", element(row, 0), weight("x", by_column));
            (1..n_columns)
                .fold(first, |sum, column| format!("{sum} {sign} {} * {}", element(row, column), c(dtype, 0.25)))
        };
        let (n_rows, n_columns) = (self.pick(&[2, 2, 3]), self.pick(&[2, 2, 4]));
        let first = format!("({}) * {}", row(0, n_columns), weight("y", by_row));
        let value = (1..n_rows).fold(first, |sum, r| format!("{sum} + ({}) * {}", row(r, n_columns), c(dtype, 0.75)));
        let value = if self.chance(3) { format!("max({value}, {})", c(dtype, 0.5)) } else { value };
        let kind = self.pick(&["independent", "independent", "parallel independent"]);
        let text = format!(
            "kernel @weighed(X: in {from}[{}], Y: inout {dtype}[{}]) {{
  for c in {images} {kind} {{ for y in {n} independent {{ for x in {m} independent {{ for q in {channels} independent {{
    Y[((c * {n} + y) * {m} + x) * {channels} + q] = {value}
  }} }} }} }}
}}
",
            images * rows * columns * channels,
            images * n * m * channels
        );
        let program = self.sums(text, dtype, n_rows * n_columns);
        // Differences of bytes, which are large numbers, may be small.
        if from == dtype { program } else { Program { fast: Closeness::Ulps(4096.0), ..program } }
    }

    /// An index below a number, which a table with one for each iteration of `i` or the counter of a loop decides.
    fn place(&mut self, counter: &str, table: &str, below_this: usize) -> String {
        if counter == "i" && self.chance(2) {
            return format!("cast(int64, {table}[i])");
        }
        let (scale, shift) = (self.pick(&[0.5, 0.31, 1.7]), self.pick(&[0.0, 0.25, -1.5]));
        let number = format!("cast(int32, floor(cast(float32, cast(int32, {counter})) * {scale:?} + {shift:?}))");
        format!("max(min(cast(int64, {number}) + {}, {}), 0)", below(&mut self.rng, 3), below_this - 1)
    }
}
