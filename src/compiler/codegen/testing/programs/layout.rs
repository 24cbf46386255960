//! Programs with special layouts: copies, bounds, strides, and rows with several passes.

use super::{ALL, Generator, Program, c, is_float};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    pub(super) fn copy(&mut self) -> Program {
        let dtype =
            self.pick(&["float32", "float32", "float64", "int32", "int8", "uint8", "int16", "float16", "bfloat16"]);
        let (n, m) = (self.extent(50), self.extent(66));
        let value = |x: String, g: &mut Self| match below(&mut g.rng, 4) {
            0 => format!("max({x}, W[0])"),
            _ => x,
        };
        let (si, sj) = (self.space(), self.vector());
        let (body, from, to) = match below(&mut self.rng, 6) {
            // A transpose of a part of wider rows, now and then so wide that they are not loaded chunk by chunk.
            0 | 1 => {
                let (pad, slack) = (below(&mut self.rng, 3), below(&mut self.rng, 4));
                let (wide, tall) = (m + pad + self.pick(&[0, 0, 0, 1500]), n + slack);
                let (outer, inner) = if self.chance(2) { (("i", n), ("j", m)) } else { (("j", m), ("i", n)) };
                let x = value(format!("X[i * {wide} + j + {pad}]"), self);
                let body = format!(
                    "for {} in {} {si} {{ for {} in {} {sj} {{ Y[j * {tall} + i] = {x} }} }}",
                    outer.0, outer.1, inner.0, inner.1
                );
                (body, n * wide + pad, m * tall)
            }
            // A transpose in a loop that continues the rows of the result, or the columns that are read; not always evenly.
            4 | 5 => {
                let (b, slack) = (1 + below(&mut self.rng, 20), self.pick(&[0, 0, 3]));
                let inner = match self.chance(2) {
                    true => format!("for j in {m} {si} {{ for i in {n} {sj}"),
                    false => format!("for i in {n} {si} {{ for j in {m} {sj}"),
                };
                let (x, y, from, to) = match self.chance(2) {
                    true => {
                        let (plane, tall) = (n * m + slack, b * n + slack);
                        (format!("b * {plane} + i * {m} + j"), format!("j * {tall} + b * {n} + i"), b * plane, m * tall)
                    }
                    false => {
                        let wide = b * m + slack;
                        (format!("i * {wide} + b * {m} + j"), format!("(b * {m} + j) * {n} + i"), n * wide, b * m * n)
                    }
                };
                let x = value(format!("X[{x}]"), self);
                (format!("for b in {b} {si} {{ {inner} {{ Y[{y}] = {x} }} }} }}"), from, to)
            }
            // Panels: blocks of columns, one after the other; and the inverse copy.
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
            // The rows of one buffer in the order of another.
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

    pub(super) fn tail(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let n = self.extent(120);
        let width = self.pick(&[4, 8, 16, 32]);
        let blocks = n.div_ceil(width);
        let rows = self.extent(5);
        // The bound may depend on the row itself.
        let is_said = self.chance(6);
        let at = format!("o * {width} + v");
        let value = match below(&mut self.rng, 3) {
            0 => format!("X[r * {n} + ({at})]"),
            1 => format!("X[r * {n} + ({at})] * W[0] + Y[r * {n} + ({at})]"),
            _ => format!("X[r * {n} + ({at})] + X[{at}]"),
        };
        let sv = self.vector();
        let (sr, said, cut) = match is_said {
            true => ("parallel independent", "N[r] = V[r]", format!("cast(int64, N[r]) < 255 && {at} < {n}")),
            false => ("independent", "", format!("{at} < {n}")),
        };
        let text = format!(
            "kernel @tail(X: in {dtype}[{}], W: in {dtype}[1], Y: inout {dtype}[{}], V: in uint8[{rows}], N: inout uint8[{rows}]) {{
  for r in {rows} {sr} {{ {said} for o in {blocks} independent {{ for v in {width} {sv} {{
    if {cut} {{ Y[r * {n} + ({at})] = {value} }}
  }} }} }}
}}
",
            rows * n,
            rows * n
        );
        let fast = if is_float(dtype) { Closeness::Ulps(8.0) } else { Closeness::Exact };
        Program { text, fast, strict: Closeness::Exact, specials: false }
    }

    pub(super) fn strided(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let (n, m) = (self.extent(6), self.extent(80));
        let (stride, offset) = (self.pick(&[1, 2, 3, 4, 17]), below(&mut self.rng, 20));
        let len = 16 * 20 + (n + 1) * m * stride + offset;
        let (x, z) = match below(&mut self.rng, 4) {
            // Backwards.
            0 => (format!("X[{} - j]", offset + m - 1), format!("X[j * {stride} + i + {offset}]")),
            // Overlapping windows.
            1 => (format!("X[i + j + {offset}]"), format!("X[i + j + {}]", offset + 1)),
            // Rows at loaded indices.
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

    pub(super) fn several(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float64", "int32", "float16", "bfloat16", "int8"]);
        let (n, m) = (self.extent(5), self.extent(90));
        let (zero, one) = (c(dtype, 0.0), c(dtype, 1.0));
        let at = format!("i * {m} + j");
        let (sj, sk) = (self.vector(), self.pick(&["reduction", "reduction vector"]));
        let is_f32 = dtype == "float32";
        let cursor = format!("i * {m} + min(max(Q[0], 0), {})", m - 1);
        let body = match below(&mut self.rng, 6) {
            // An index that is loaded from memory and updated.
            5 => {
                let (steps, back) = (2 + below(&mut self.rng, 4), below(&mut self.rng, 3));
                let value = self.pick(&["Y[{cursor}]", "W[i]"]).replace("{cursor}", &cursor);
                format!(
                    "Q[0] = {back}
    for j in {m} {sj} {{ Y[{at}] = X[{at}] + W[i] }}
    for t in {steps} unroll {{ Y[{cursor}] = X[i * {m} + min(t, {})] Q[0] = Q[0] + 1 }}
    Y[{cursor}] = {one} Q[0] = cast(int64, P[i]) / 16
    Z[{cursor}] = {value}
    for j in {m} {sj} {{ Y[{at}] = Y[{at}] * X[{at}] }}",
                    m - 1
                )
            }
            // A value that a row keeps for the next one.
            4 => format!(
                "if i > 0 {{ for j in {m} {sj} {{ Y[{at}] = max(T[j], X[{at}]) }} }}
    for j in {m} {sj} {{ T[j] = X[{at}] + W[i] }}
    for j in {m} {sj} {{ Z[{at}] = T[j] * X[j] }}"
            ),
            // Softmax and similar programs.
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
            // Several passes over the same elements.
            2 => format!(
                "for j in {m} {sj} {{ Y[{at}] = X[{at}] + W[i] }}
    for j in {m} {sj} {{ Z[{at}] = Y[{at}] * Y[{at}] }}
    for j in {m} {sj} {{ Y[{at}] = Z[{at}] - X[{at}] }}"
            ),
            // Each row depends on the one before.
            _ => format!(
                "for j in {m} {sj} {{ T[j] = select(i == 0, X[j], max(Z[j], X[{at}])) }}
    for j in {m} {sj} {{ Z[j] = T[j] Y[{at}] = T[j] + W[i] }}"
            ),
        };
        let is_kept = body.starts_with("if");
        let si = if is_kept || body.contains("Z[j]") || body.contains("Q[0]") { "" } else { "independent" };
        // Scratch may be computed in the memory of results that are not read.
        let z = if is_kept { "out" } else { "inout" };
        let text = format!(
            "kernel @several(X: in {dtype}[{l}], W: in {dtype}[{n}], Y: inout {dtype}[{l}], Z: {z} {dtype}[{l}], P: in uint8[{n}], Q: inout int64[1]) {{
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
