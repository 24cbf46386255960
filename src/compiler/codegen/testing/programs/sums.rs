//! Sums: contractions, dot products, reductions of one value and of several.

use super::{Generator, Program, c, is_float, is_half};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    pub(super) fn contraction(&mut self) -> Program {
        // Types of inputs and of sums.
        let (input, sum) = self.pick(&[
            ("float32", "float32"),
            ("float32", "float32"),
            ("float64", "float64"),
            ("int32", "int32"),
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float16", "float16"),
            ("bfloat16", "bfloat16"),
            ("int8", "int32"),
            ("int16", "int32"),
            ("uint8", "int32"),
            ("int16", "int16"),
        ]);
        let (ni, nj) = (self.extent(9), self.extent(66));
        let (n0, n1) = (1 + below(&mut self.rng, 3), self.extent(12));
        let nk = n0 * n1;
        let k = format!("(k0 * {n1} + k1)");
        // Either matrix may be transposed, and a window may slide.
        let slides = self.chance(5);
        let a = match below(&mut self.rng, 3) {
            _ if slides => format!("A[i * {nk} + k0 + k1]"),
            0 => format!("A[{k} * {ni} + i]"),
            _ => format!("A[i * {nk} + {k}]"),
        };
        let b = match below(&mut self.rng, 4) {
            0 => format!("B[j * {nk} + {k}]"),
            _ => format!("B[{k} * {nj} + j]"),
        };
        let cast = |e: String| if input == sum { e } else { format!("cast({sum}, {e})") };
        let (a, b) = (cast(a), cast(b));
        let at = format!("C[i * {nj} + j]");
        let first = self.pick(&[0.0, 0.0, 1.0]);
        let first = c(sum, first);
        let (si, sj) = (self.space(), self.vector());
        let init = below(&mut self.rng, 4);
        // The initialisation of an element may depend on the first element.
        let asks = init == 0 && self.chance(4);
        let (si, sj) = if asks { ("", "") } else { (si, sj) };
        let asked = if asks { format!(" && C[0] < {first}") } else { String::new() };
        let guard =
            if init == 0 { format!("if k0 == 0 && k1 == 0{asked} {{ {at} = {first} }}") } else { String::new() };
        let update = format!("{guard} {at} = {at} + {a} * {b}");
        let before = match init {
            1 => format!("for i in {ni} {{ for j in {nj} {sj} {{ {at} = {first} }} }}"),
            _ => String::new(),
        };
        let inside =
            if init == 2 { format!("for jj in {nj} {sj} {{ C[i * {nj} + jj] = {first} }}") } else { String::new() };
        let (k0, k1, li, lj) = (
            format!("for k0 in {n0} reduction"),
            format!("for k1 in {n1} reduction"),
            format!("for i in {ni} {si}"),
            format!("for j in {nj} {sj}"),
        );
        // The initialisation of a row comes before the loops inside it.
        let nest = match below(&mut self.rng, 3) {
            0 if init != 2 => format!("{k0} {{ {li} {{ {k1} {{ {lj} {{ {update} }} }} }} }}"),
            1 => format!("{li} {{ {inside} {lj} {{ {k0} {{ {k1} {{ {update} }} }} }} }}"),
            _ => format!("{li} {{ {inside} {k0} {{ {k1} {{ {lj} {{ {update} }} }} }} }}"),
        };
        let epilogue = match below(&mut self.rng, 4) {
            0 => format!(
                "for i in {ni} {{ for j in {nj} {sj} {{ D[i * {nj} + j] = max({at} + E[0], {}) }} }}",
                c(sum, 0.0)
            ),
            1 => format!("for i in {ni} {{ for j in {nj} {sj} {{ {at} = {at} * {} }} }}", c(sum, 2.0)),
            _ => String::new(),
        };
        let text = format!(
            "kernel @contraction(A: in {input}[{}], B: in {input}[{}], C: inout {sum}[{}], D: inout {sum}[{}], E: in {sum}[1]) {{
  {before}
  {nest}
  {epilogue}
}}
",
            ni * nk + nk,
            nk * nj,
            ni * nj,
            ni * nj
        );
        self.sums(text, sum, nk)
    }

    /// A program whose floats are sums of `n` terms.
    pub(super) fn sums(&mut self, text: String, dtype: &str, n: usize) -> Program {
        let fast = if is_float(dtype) { Closeness::Ulps(16.0 + 2.0 * n as f64) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    pub(super) fn dot(&mut self) -> Program {
        let (a, b) = (self.pick(&["uint8", "int8"]), self.pick(&["int8", "uint8", "int8"]));
        let (ni, nj, nk) = (self.extent(6), self.extent(50), self.extent(6));
        let (first, sj) = (self.pick(&["int32(0)", "int32(7)"]), self.vector());
        let at = format!("C[i * {nj} + j]");
        // The sum may determine the index of the bytes.
        let found = if self.chance(6) { format!(" + min(max(cast(int64, {at}), 0), 3)") } else { String::new() };
        let product = |a: String, b: String| format!("cast(int32, A[{a}{found}]) * cast(int32, {b})");
        let (body, la, lb) = match below(&mut self.rng, 3) {
            // Packed in groups of four, as the instruction requires.
            0 => {
                let product = product(format!("i * {} + k * 4 + q", 4 * nk), format!("B[(k * {nj} + j) * 4 + q]"));
                (
                    format!(
                        "for i in {ni} independent {{
    for jj in {nj} {sj} {{ C[i * {nj} + jj] = {first} }}
    for k in {nk} reduction {{ for j in {nj} {sj} {{ for q in 4 reduction {{ {at} = {at} + {product} }} }} }}
  }}"
                    ),
                    ni * nk * 4,
                    nk * nj * 4,
                )
            }
            // Along the rows of both.
            1 => {
                let nk = if self.chance(3) { nk } else { nk * 16 + self.pick(&[0, 4, 12]) };
                let product = product(format!("i * {nk} + k"), format!("B[j * {nk} + k]"));
                (
                    format!(
                        "for i in {ni} independent {{ for j in {nj} independent {{
    {at} = {first}
    for k in {nk} reduction {{ {at} = {at} + {product} }}
  }} }}"
                    ),
                    ni * nk,
                    nj * nk,
                )
            }
            // As written by hand.
            _ => {
                let product = product(format!("i * {nk} + k"), format!("B[k * {nj} + j]"));
                (
                    format!(
                        "for i in {ni} independent {{
    for jj in {nj} {sj} {{ C[i * {nj} + jj] = {first} }}
    for k in {nk} reduction {{ for j in {nj} {sj} {{ {at} = {at} + {product} }} }}
  }}"
                    ),
                    ni * nk,
                    nk * nj,
                )
            }
        };
        let text = format!(
            "kernel @dot(A: in {a}[{}], B: in {b}[{lb}], C: inout int32[{}]) {{\n  {body}\n}}\n",
            la + 3,
            ni * nj
        );
        self.sums(text, "int32", nk)
    }

    pub(super) fn reduction(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32", "float16", "bfloat16", "int16", "int8"]);
        // Narrow elements may be summed in wider ones.
        let input = match dtype {
            "float32" => self.pick(&[dtype, dtype, "float16", "bfloat16", "uint8"]),
            "int32" => self.pick(&[dtype, "int16", "uint16", "int8", "uint8"]),
            _ => dtype,
        };
        let (n, m) = (self.extent(6), self.extent(100));
        let columns = self.chance(3);
        let x = if columns { format!("X[k * {n} + i]") } else { format!("X[i * {m} + k]") };
        let x = if input == dtype { x } else { format!("cast({dtype}, {x})") };
        let x = match below(&mut self.rng, 4) {
            0 => format!("{x} * {x}"),
            1 => format!("max({x}, {})", c(dtype, 0.25)),
            _ => x,
        };
        let (mut first, update) = match below(&mut self.rng, 5) {
            0 => (c(dtype, 5.0), format!("min(Y[i], {x})")),
            1 => (c(dtype, -5.0), format!("max(Y[i], {x})")),
            // Products of many bytes as they are would overflow in one order and not in another.
            2 if dtype == "float32" && input == "uint8" => {
                (c(dtype, 1.0), format!("Y[i] * min(max({x} * 0.0078125, 0.5), 2.0)"))
            }
            2 if dtype != "float16" => (c(dtype, 1.0), format!("Y[i] * ({x})")),
            _ => (c(dtype, 0.0), format!("Y[i] + {x}")),
        };
        let is_exact = update.starts_with("min(") || update.starts_with("max(");
        if self.chance(4) {
            first = "Y[i]".into();
        }
        let kind = self.pick(&["reduction", "reduction vector"]);
        let body = if columns {
            format!(
                "for i in {n} independent {{ Y[i] = {first} }}
  for k in {m} reduction {{ for i in {n} independent {{ Y[i] = {update} }} }}"
            )
        } else {
            format!("for i in {n} independent {{ Y[i] = {first} for k in {m} {kind} {{ Y[i] = {update} }} }}")
        };
        let text = format!("kernel @reduction(X: in {input}[{}], Y: inout {dtype}[{n}]) {{\n  {body}\n}}\n", n * m);
        let program = self.sums(text, dtype, m);
        // Strict half-precision squares are rounded before they are compared.
        if is_exact && !is_half(dtype) { Program { fast: Closeness::Exact, ..program } } else { program }
    }

    pub(super) fn tuple(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32"]);
        let input = if dtype == "float32" { self.pick(&[dtype, dtype, "float16", "uint8"]) } else { dtype };
        let (n, rows) = (self.extent(6), self.pick(&[1, 1, 3]));
        let m = self.extent(80) * self.pick(&[1, 1, 4]);
        let (row, length) = if rows > 1 { (format!("q * {m} + "), rows * m) } else { (String::new(), m) };
        let x = format!("X[i * {length} + {row}k]");
        let x = if input == dtype { x } else { format!("cast({dtype}, {x})") };
        let op = self.pick(&["<", ">", "<=", ">="]);
        let (zero, far) = (c(dtype, 0.0), if op.starts_with('<') { c(dtype, 100.0) } else { c(dtype, 0.0) });
        // Two results that do not depend on each other, or that the second one does.
        let pair = |generator: &mut Generator, first: String, second: String| {
            if generator.chance(2) {
                return format!("V[i] = {first} U[i] = {second}");
            }
            format!("let v: {dtype} = {first} let u: {dtype} = {second} V[i] = v U[i] = u")
        };
        let (start, step) = match below(&mut self.rng, 4) {
            // The maximum and its index.
            0 => (
                format!("V[i] = {far} P[i] = int32(0)"),
                format!(
                    "let better: bool = {x} {op} V[i]
      let place: int32 = select(better, cast(int32, k), P[i])
      let value: {dtype} = select(better, {x}, V[i])
      P[i] = place V[i] = value"
                ),
            ),
            // A sum and a maximum.
            1 => (
                format!("V[i] = {zero} U[i] = {zero} P[i] = int32(3)"),
                pair(self, format!("V[i] + {x}"), format!("max(U[i], {x})")),
            ),
            // Moments.
            2 => (
                format!("V[i] = {zero} U[i] = {zero} P[i] = int32(4)"),
                pair(self, format!("V[i] + {x}"), format!("U[i] + {x} * {x}")),
            ),
            // A maximum of maxima so far.
            _ => (
                format!("V[i] = {zero} U[i] = {zero} P[i] = int32(5)"),
                pair(self, format!("max(V[i], {x})"), "min(U[i], V[i])".to_string()),
            ),
        };
        let loops = match rows {
            1 => format!("for k in {m} reduction {{ {step} }}"),
            _ => format!("for q in {rows} reduction {{ for k in {m} reduction {{ {step} }} }}"),
        };
        let text = format!(
            "kernel @tuple(X: in {input}[{}], V: inout {dtype}[{n}], U: inout {dtype}[{n}], P: inout int32[{n}]) {{
  for i in {n} independent {{
    {start}
    {loops}
  }}
}}
",
            n * length
        );
        self.sums(text, dtype, length)
    }
}
