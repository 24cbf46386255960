//! Random programs of each kind that regions are made for, as texts.
//!
//! Unlike [`super::random`], which tries what the loop IR allows, these are what schedules leave: nests over whole
//! buffers, at lengths and strides that make vectors end where nothing is even.

use super::{Closeness, below, rng};
use rand_chacha::ChaCha8Rng;

/// What a program is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Matrix products and convolutions: initialisation in several ways, split reductions, epilogues.
    Contraction,
    /// Arithmetic of one type over up to three loops, operands broadcast along some.
    Elementwise,
    /// Choices and functions that are exact.
    Condition,
    /// From one type to another.
    Conversion,
    /// Functions that are computed by polynomials.
    Function,
    /// Sums, products, minima and maxima along rows or columns.
    Reduction,
    /// Several results of one pass, such as a maximum with its place.
    Tuple,
    /// Transposes, packing and unpacking.
    Copy,
    /// Sums of products of bytes.
    Dot,
    /// Loops cut by a bound.
    Tail,
    /// Accesses at strides and offsets, rows found by an index.
    Strided,
    /// Rows worked on several times, with scalars from outside: softmax, normalisation.
    Several,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Contraction,
        Kind::Elementwise,
        Kind::Condition,
        Kind::Conversion,
        Kind::Function,
        Kind::Reduction,
        Kind::Tuple,
        Kind::Copy,
        Kind::Dot,
        Kind::Tail,
        Kind::Strided,
        Kind::Several,
    ];
}

/// A program and what is expected of it.
pub(crate) struct Program {
    pub text: String,
    /// How close fast floats come to the evaluator.
    pub fast: Closeness,
    /// The same of strict floats.
    pub strict: Closeness,
    /// May inputs be infinite, NaN or out of range? Not where the result depends on the order of operations.
    pub specials: bool,
}

/// The program of a seed.
pub(crate) fn program(kind: Kind, seed: u64) -> Program {
    let mut g = Generator { rng: rng(seed ^ (kind as u64) << 56) };
    match kind {
        Kind::Contraction => g.contraction(),
        Kind::Elementwise => g.elementwise(),
        Kind::Condition => g.condition(),
        Kind::Conversion => g.conversion(),
        Kind::Function => g.function(),
        Kind::Reduction => g.reduction(),
        Kind::Tuple => g.tuple(),
        Kind::Copy => g.copy(),
        Kind::Dot => g.dot(),
        Kind::Tail => g.tail(),
        Kind::Strided => g.strided(),
        Kind::Several => g.several(),
    }
}

const NARROW: [&str; 4] = ["int8", "uint8", "int16", "uint16"];
const ALL: [&str; 9] = ["float32", "float32", "float64", "int32", "float16", "bfloat16", "int8", "uint8", "int16"];

fn is_float(dtype: &str) -> bool {
    dtype.contains("float")
}

fn is_half(dtype: &str) -> bool {
    dtype.ends_with("float16")
}

/// A constant of a type.
fn c(dtype: &str, v: f64) -> String {
    if is_float(dtype) { format!("{dtype}({v:?})") } else { format!("{dtype}({})", v.abs() as i64) }
}

struct Generator {
    rng: ChaCha8Rng,
}

impl Generator {
    fn chance(&mut self, one_in: usize) -> bool {
        below(&mut self.rng, one_in) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[below(&mut self.rng, from.len())]
    }

    /// A length: short and odd, a round one, or one beside it.
    fn extent(&mut self, most: usize) -> usize {
        let n = match below(&mut self.rng, 4) {
            0 => self.pick(&[1, 2, 3, 4, 5, 7]),
            1 => self.pick(&[8, 16, 24, 32, 48, 64]),
            2 => self.pick(&[8, 16, 32, 64]) + self.pick(&[1, 2, 3]) - 2,
            _ => 1 + below(&mut self.rng, 40),
        };
        n.min(most)
    }

    /// What a loop says besides its extent.
    fn vector(&mut self) -> &'static str {
        self.pick(&["independent", "independent", "independent vector", ""])
    }

    fn space(&mut self) -> &'static str {
        self.pick(&["independent", "independent", "independent unroll", ""])
    }

    // ---- contractions --------------------------------------------------------------------------------------

    fn contraction(&mut self) -> Program {
        // Of inputs and of sums.
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
        // Rows of one matrix or the other may be columns, and a window slides.
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
        let guard = if init == 0 { format!("if k0 == 0 && k1 == 0 {{ {at} = {first} }}") } else { String::new() };
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
        // The initialisation of a row stands before what is inside of its loop.
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

    /// A program whose floats are sums of so many terms.
    fn sums(&mut self, text: String, dtype: &str, n: usize) -> Program {
        let fast = if is_float(dtype) { Closeness::Ulps(16.0 + 2.0 * n as f64) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    fn dot(&mut self) -> Program {
        let (a, b) = (self.pick(&["uint8", "int8"]), self.pick(&["int8", "uint8", "int8"]));
        let (ni, nj, nk) = (self.extent(6), self.extent(50), self.extent(6));
        let (first, sj) = (self.pick(&["int32(0)", "int32(7)"]), self.vector());
        let product = |a: String, b: String| format!("cast(int32, {a}) * cast(int32, {b})");
        let at = format!("C[i * {nj} + j]");
        let (body, la, lb) = match below(&mut self.rng, 3) {
            // Packed by fours, as the instruction wants it.
            0 => {
                let product = product(format!("A[i * {} + k * 4 + q]", 4 * nk), format!("B[(k * {nj} + j) * 4 + q]"));
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
            // Along rows of both.
            1 => {
                let nk = if self.chance(3) { nk } else { nk * 16 + self.pick(&[0, 4, 12]) };
                let product = product(format!("A[i * {nk} + k]"), format!("B[j * {nk} + k]"));
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
                let product = product(format!("A[i * {nk} + k]"), format!("B[k * {nj} + j]"));
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
        let text =
            format!("kernel @dot(A: in {a}[{la}], B: in {b}[{lb}], C: inout int32[{}]) {{\n  {body}\n}}\n", ni * nj);
        self.sums(text, "int32", nk)
    }

    // ---- lane by lane --------------------------------------------------------------------------------------

    /// An expression of one type over leaves that are given; values stay small.
    fn arithmetic(&mut self, dtype: &str, leaves: &[String], depth: usize) -> String {
        if depth == 0 || self.chance(6) {
            if self.chance(5) {
                let v = self.pick(&[0.5, -0.25, 1.0, 2.0, 3.0, -1.0]);
                return c(dtype, v);
            }
            return leaves[below(&mut self.rng, leaves.len())].clone();
        }
        let a = self.arithmetic(dtype, leaves, depth - 1);
        let b = self.arithmetic(dtype, leaves, depth - 1);
        match below(&mut self.rng, 8) {
            0 => format!("max({a}, {b})"),
            1 => format!("min({a}, {b})"),
            2 if is_float(dtype) => {
                let x = &leaves[0];
                format!("({a}) / ({x} * {x} + {})", c(dtype, 1.5))
            }
            3 if dtype == "int32" => {
                let f = self.pick(&["bitwise_and", "bitwise_or", "bitwise_xor"]);
                format!("{f}({a}, {b})")
            }
            4 if dtype == "int32" => {
                let (f, by) = (self.pick(&["shift_left", "shift_right"]), below(&mut self.rng, 32));
                format!("{f}({a}, int32({by}))")
            }
            3 | 4 => format!("({a}) - ({b})"),
            5 => format!("({a}) * ({b})"),
            _ => format!("({a}) + ({b})"),
        }
    }

    fn elementwise(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let ext = [self.extent(4), self.extent(6), self.extent(150)];
        let n: usize = ext.iter().product();
        // Each operand is broadcast along some loops.
        let strides = |keep: [bool; 3]| {
            let mut at = Vec::new();
            let mut stride = 1;
            for d in (0..3).rev() {
                if keep[d] {
                    at.push(format!("{} * {stride}", ["a", "b", "c"][d]));
                    stride *= ext[d];
                }
            }
            (if at.is_empty() { "0".into() } else { at.join(" + ") }, stride)
        };
        let mut operands = Vec::new();
        let mut params = String::new();
        for name in ["X", "Z", "W"] {
            let keep = match below(&mut self.rng, 3) {
                0 => [true; 3],
                _ => [self.chance(2), self.chance(2), self.chance(2)],
            };
            let (at, len) = strides(keep);
            operands.push(format!("{name}[{at}]"));
            params.push_str(&format!("{name}: in {dtype}[{len}], "));
        }
        let depth = 1 + below(&mut self.rng, 3);
        let value = self.arithmetic(dtype, &operands, depth);
        let at = strides([true; 3]).0;
        let (sa, sc) = (self.space(), self.vector());
        let text = format!(
            "kernel @elementwise({params}Y: out {dtype}[{n}]) {{
  for a in {} {sa} {{ for b in {} independent {{ for c in {} {sc} {{ Y[{at}] = {value} }} }} }}
}}
",
            ext[0], ext[1], ext[2]
        );
        let fast = if is_float(dtype) { Closeness::Ulps(64.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    /// A loop over elements.
    fn row(&mut self, from: &str, to: &str, value: &str) -> String {
        let n = self.extent(64) * self.pick(&[1, 1, 4, 9]);
        let s = self.vector();
        format!(
            "kernel @row(X: in {from}[{n}], Z: in {from}[{n}], W: in {from}[1], Y: out {to}[{n}]) {{
  for i in {n} {s} {{ Y[i] = {value} }}
}}
"
        )
    }

    /// A condition on loaded values.
    fn truth(&mut self, dtype: &str, depth: usize) -> String {
        if depth > 0 {
            let (a, b) = (self.truth(dtype, depth - 1), self.truth(dtype, depth - 1));
            match below(&mut self.rng, 4) {
                0 => return format!("({a}) && ({b})"),
                1 => return format!("({a}) || ({b})"),
                2 => return format!("!({a})"),
                _ => {}
            }
        }
        let op = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
        let right = match below(&mut self.rng, 3) {
            0 => "W[0]".to_string(),
            1 => "Z[i]".to_string(),
            _ => c(dtype, self.pick(&[0.0, 0.25, 3.0])),
        };
        match below(&mut self.rng, 6) {
            0 if is_float(dtype) => "isnan(X[i])".into(),
            _ => format!("X[i] {op} {right}"),
        }
    }

    fn condition(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let mut value = String::from("X[i]");
        for _ in 0..1 + below(&mut self.rng, 3) {
            let condition = self.truth(dtype, 2);
            let other = match below(&mut self.rng, 6) {
                0 if is_float(dtype) => "abs(X[i])".into(),
                1 if is_float(dtype) => "copysign(W[0], Z[i])".into(),
                2 if matches!(dtype, "float32" | "float64") => {
                    let f = self.pick(&["floor", "ceil", "trunc", "nearbyint", "round"]);
                    format!("{f}(Z[i] * {})", c(dtype, 8.0))
                }
                3 if matches!(dtype, "float32" | "float64") => "sqrt(abs(Z[i]))".into(),
                4 => "W[0]".into(),
                _ => "Z[i]".into(),
            };
            value = format!("select({condition}, {value}, {other})");
        }
        let text = self.row(dtype, dtype, &value);
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: true }
    }

    fn conversion(&mut self) -> Program {
        let from = self.pick(&["float32", "int32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16"]);
        let to = self.pick(&["float32", "int32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16"]);
        let value = match below(&mut self.rng, 4) {
            // Powers of two are exact.
            0 if from == "float32" => format!("cast({to}, X[i] * 65536.0)"),
            1 if from == "int32" => format!("cast({to}, X[i] * int32(1234567))"),
            2 => {
                let by = self.pick(&["float32", "int32"]);
                format!("cast({to}, cast({by}, X[i]))")
            }
            _ if NARROW.contains(&from) => format!("cast({to}, X[i] * X[i] - W[0])"),
            _ => format!("cast({to}, X[i])"),
        };
        let text = self.row(from, to, &value);
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: is_float(from) }
    }

    fn function(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float16", "bfloat16"]);
        let one = |g: &mut Self, x: &str| {
            let f = g.pick(&["exp", "exp2", "sigmoid", "tanh", "erf", "exp10"]);
            match g.pick(&["plain", "plain", "log", "root", "pow"]) {
                "log" => format!("{}({x} * {x} + {})", g.pick(&["log", "log2", "log10", "log1p"]), c(dtype, 0.5)),
                "root" => format!("{}({x} * {x} + {})", g.pick(&["sqrt", "rsqrt"]), c(dtype, 0.5)),
                "pow" => format!("pow(abs({x}) + {}, Z[i])", c(dtype, 0.5)),
                _ => format!("{f}({x})"),
            }
        };
        let (a, b) = (one(self, "X[i]"), one(self, "Z[i]"));
        let value = match below(&mut self.rng, 3) {
            0 => a,
            1 => format!("{a} + {b}"),
            _ => format!("select(X[i] < W[0], {a}, {b})"),
        };
        let text = self.row(dtype, dtype, &value);
        Program { text, fast: Closeness::Ulps(64.0), strict: Closeness::Ulps(64.0), specials: false }
    }

    // ---- along loops ---------------------------------------------------------------------------------------

    fn reduction(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32", "float16", "bfloat16", "int16", "int8"]);
        let (n, m) = (self.extent(6), self.extent(100));
        let columns = self.chance(3);
        let x = if columns { format!("X[k * {n} + i]") } else { format!("X[i * {m} + k]") };
        let x = match below(&mut self.rng, 4) {
            0 => format!("{x} * {x}"),
            1 => format!("max({x}, {})", c(dtype, 0.25)),
            _ => x,
        };
        let (mut first, update) = match below(&mut self.rng, 5) {
            0 => (c(dtype, 5.0), format!("min(Y[i], {x})")),
            1 => (c(dtype, -5.0), format!("max(Y[i], {x})")),
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
        let text = format!("kernel @reduction(X: in {dtype}[{}], Y: inout {dtype}[{n}]) {{\n  {body}\n}}\n", n * m);
        let program = self.sums(text, dtype, m);
        // Squares are rounded before they are compared when halves are strict.
        if is_exact && !is_half(dtype) { Program { fast: Closeness::Exact, ..program } } else { program }
    }

    fn tuple(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32"]);
        let (n, m) = (self.extent(6), self.extent(80));
        let x = format!("X[i * {m} + k]");
        let op = self.pick(&["<", ">", "<=", ">="]);
        let (zero, far) = (c(dtype, 0.0), if op.starts_with('<') { c(dtype, 100.0) } else { c(dtype, 0.0) });
        let body = match below(&mut self.rng, 3) {
            // The best and its place.
            0 => format!(
                "V[i] = {far} P[i] = int32(0)
    for k in {m} reduction {{
      let better: bool = {x} {op} V[i]
      let place: int32 = select(better, cast(int32, k), P[i])
      let value: {dtype} = select(better, {x}, V[i])
      P[i] = place V[i] = value
    }}"
            ),
            // A sum and a maximum.
            1 => format!(
                "V[i] = {zero} U[i] = {zero} P[i] = int32(3)
    for k in {m} reduction {{ V[i] = V[i] + {x} U[i] = max(U[i], {x}) }}"
            ),
            // Moments.
            _ => format!(
                "V[i] = {zero} U[i] = {zero} P[i] = int32(4)
    for k in {m} reduction {{ V[i] = V[i] + {x} U[i] = U[i] + {x} * {x} }}"
            ),
        };
        let text = format!(
            "kernel @tuple(X: in {dtype}[{}], V: inout {dtype}[{n}], U: inout {dtype}[{n}], P: inout int32[{n}]) {{
  for i in {n} independent {{
    {body}
  }}
}}
",
            n * m
        );
        self.sums(text, dtype, m)
    }

    fn copy(&mut self) -> Program {
        let dtype =
            self.pick(&["float32", "float32", "float64", "int32", "int8", "uint8", "int16", "float16", "bfloat16"]);
        let (n, m) = (self.extent(50), self.extent(66));
        let value = |x: String, g: &mut Self| match below(&mut g.rng, 4) {
            0 => format!("max({x}, W[0])"),
            _ => x,
        };
        let (si, sj) = (self.space(), self.vector());
        let (body, from, to) = match below(&mut self.rng, 4) {
            // A transpose, of a part of wider rows.
            0 | 1 => {
                let (pad, slack) = (below(&mut self.rng, 3), below(&mut self.rng, 4));
                let (wide, tall) = (m + pad, n + slack);
                let (outer, inner) = if self.chance(2) { (("i", n), ("j", m)) } else { (("j", m), ("i", n)) };
                let x = value(format!("X[i * {wide} + j + {pad}]"), self);
                let body = format!(
                    "for {} in {} {si} {{ for {} in {} {sj} {{ Y[j * {tall} + i] = {x} }} }}",
                    outer.0, outer.1, inner.0, inner.1
                );
                (body, n * wide + pad, m * tall)
            }
            // Panels: blocks of columns, one after the other; and back.
            2 => {
                let width = self.pick(&[4, 8, 16, 32, 5]);
                let blocks = m.div_ceil(width);
                let (flat, panel) =
                    (format!("i * {} + b * {width} + j", blocks * width), format!("(b * {n} + i) * {width} + j"));
                let (x, y) = if self.chance(2) { (flat, panel) } else { (panel, flat) };
                let x = value(format!("X[{x}]"), self);
                let body =
                    format!("for b in {blocks} {{ for i in {n} {si} {{ for j in {width} {sj} {{ Y[{y}] = {x} }} }} }}");
                (body, n * blocks * width, n * blocks * width)
            }
            // Rows of one in the order of another.
            _ => {
                let k = self.pick(&[2, 3, 4]);
                let x = value(format!("X[(i * {k} + k) * {m} + j]"), self);
                let body = format!(
                    "for k in {k} {{ for i in {n} {si} {{ for j in {m} {sj} {{ Y[(k * {n} + i) * {m} + j] = {x} }} }} }}"
                );
                (body, n * m * k, n * m * k)
            }
        };
        let text =
            format!("kernel @copy(X: in {dtype}[{from}], W: in {dtype}[1], Y: inout {dtype}[{to}]) {{\n  {body}\n}}\n");
        let specials = !text.contains("max(");
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials }
    }

    fn tail(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let n = self.extent(120);
        let width = self.pick(&[4, 8, 16, 32]);
        let blocks = n.div_ceil(width);
        let rows = self.extent(5);
        let at = format!("o * {width} + v");
        let value = match below(&mut self.rng, 3) {
            0 => format!("X[r * {n} + ({at})]"),
            1 => format!("X[r * {n} + ({at})] * W[0] + Y[r * {n} + ({at})]"),
            _ => format!("X[r * {n} + ({at})] + X[{at}]"),
        };
        let sv = self.vector();
        let text = format!(
            "kernel @tail(X: in {dtype}[{}], W: in {dtype}[1], Y: inout {dtype}[{}]) {{
  for r in {rows} independent {{ for o in {blocks} independent {{ for v in {width} {sv} {{
    if {at} < {n} {{ Y[r * {n} + ({at})] = {value} }}
  }} }} }}
}}
",
            rows * n,
            rows * n
        );
        let fast = if is_float(dtype) { Closeness::Ulps(8.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    fn strided(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let (n, m) = (self.extent(6), self.extent(80));
        let (stride, offset) = (self.pick(&[1, 2, 3, 4, 17]), below(&mut self.rng, 20));
        let len = 16 * 20 + (n + 1) * m * stride + offset;
        let (x, z) = match below(&mut self.rng, 4) {
            // Backwards.
            0 => (format!("X[{} - j]", offset + m - 1), format!("X[j * {stride} + i + {offset}]")),
            // Windows that overlap.
            1 => (format!("X[i + j + {offset}]"), format!("X[i + j + {}]", offset + 1)),
            // Rows at places found elsewhere.
            2 => (format!("X[p * 16 + j + {offset}]"), format!("X[j * {stride}]")),
            _ => (format!("X[(i * {m} + j) * {stride}]"), format!("X[i * {m} + j + {offset}]")),
        };
        let (f, sj) = (self.pick(&["max({x}, {z})", "{x} + {z}", "{x}", "{x} * {z} - {x}"]), self.vector());
        let value = f.replace("{x}", &x).replace("{z}", &z);
        let (step, skip) = (self.pick(&[1, 1, 1, 2, 3]), below(&mut self.rng, 5));
        let text = format!(
            "kernel @strided(X: in {dtype}[{len}], P: in uint8[{n}], Y: inout {dtype}[{}]) {{
  for i in {n} independent {{
    let p: int64 = cast(int64, P[i]) / 16
    for j in {m} {sj} {{ Y[(i * {m} + j) * {step} + {skip}] = {value} }}
  }}
}}
",
            n * m * step + skip
        );
        let fast = if is_float(dtype) { Closeness::Ulps(8.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    fn several(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32", "float16", "bfloat16", "int8"]);
        let (n, m) = (self.extent(5), self.extent(90));
        let (zero, one) = (c(dtype, 0.0), c(dtype, 1.0));
        let at = format!("i * {m} + j");
        let (sj, sk) = (self.vector(), self.pick(&["reduction", "reduction vector"]));
        let is_f32 = dtype == "float32";
        let body = match below(&mut self.rng, 4) {
            // Softmax and what is like it.
            0 => {
                let e = if is_f32 { format!("exp(X[{at}] - M[0])") } else { format!("X[{at}] - M[0]") };
                let quotient = if is_float(dtype) { "S[0] * S[0] + " } else { "" };
                let end = if is_float(dtype) { format!("/ ({quotient}{one})") } else { "* S[0]".into() };
                format!(
                    "M[0] = {zero}
    for j in {m} {sk} {{ M[0] = max(M[0], X[{at}]) }}
    for j in {m} {sj} {{ T[j] = {e} }}
    S[0] = {zero}
    for j in {m} {sk} {{ S[0] = S[0] + T[j] }}
    for j in {m} {sj} {{ Y[{at}] = T[j] {end} }}"
                )
            }
            // Scalars from outside.
            1 => format!(
                "let s: {dtype} = W[i] * {one} + W[0]
    let t: {dtype} = max(s, {zero})
    for j in {m} {sj} {{ Y[{at}] = X[{at}] * s + t Z[{at}] = max(X[{at}], t) }}"
            ),
            // One after the other, over the same elements.
            2 => format!(
                "for j in {m} {sj} {{ Y[{at}] = X[{at}] + W[i] }}
    for j in {m} {sj} {{ Z[{at}] = Y[{at}] * Y[{at}] }}
    for j in {m} {sj} {{ Y[{at}] = Z[{at}] - X[{at}] }}"
            ),
            // Each row from the one before.
            _ => format!(
                "for j in {m} {sj} {{ T[j] = select(i == 0, X[j], max(Z[j], X[{at}])) }}
    for j in {m} {sj} {{ Z[j] = T[j] Y[{at}] = T[j] + W[i] }}"
            ),
        };
        let carries = body.contains("Z[j]");
        let si = if carries { "" } else { "independent" };
        let text = format!(
            "kernel @several(X: in {dtype}[{l}], W: in {dtype}[{n}], Y: inout {dtype}[{l}], Z: inout {dtype}[{l}]) {{
  scratch T: {dtype}[{m}]
  scratch M: {dtype}[1]
  scratch S: {dtype}[1]
  for i in {n} {si} {{
    {body}
  }}
}}
",
            l = n * m
        );
        let program = self.sums(text, dtype, m);
        let strict = if program.text.contains("exp(") { program.fast } else { program.strict };
        Program { strict, ..program }
    }
}
