//! Elementwise programs.

use super::{ALL, Generator, NARROW, Program, c, is_float, is_half};
use crate::codegen::testing::{Closeness, below};

impl Generator {
    /// An expression of one type over the given leaves; values stay small.
    pub(super) fn arithmetic(&mut self, dtype: &str, leaves: &[String], depth: usize) -> String {
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
            3 if !is_float(dtype) && self.chance(4) => format!("bitwise_not({a})"),
            3 if !is_float(dtype) => {
                let f = self.pick(&["bitwise_and", "bitwise_or", "bitwise_xor"]);
                format!("{f}({a}, {b})")
            }
            4 if dtype == "int32" && self.chance(3) => {
                let entries = self.pick(&[8, 16]);
                let table: String = (0..entries).map(|_| format!(", int32({})", below(&mut self.rng, 100))).collect();
                format!("lookup({a}{table})")
            }
            4 if !is_float(dtype) => {
                // Counts that are not constant may be negative, or larger than the width.
                let (f, by) = (self.pick(&["shift_left", "shift_right"]), below(&mut self.rng, 40));
                if self.chance(2) { format!("{f}({a}, {dtype}({by}))") } else { format!("{f}({a}, {b})") }
            }
            3 | 4 => format!("({a}) - ({b})"),
            5 => format!("({a}) * ({b})"),
            _ => format!("({a}) + ({b})"),
        }
    }

    pub(super) fn elementwise(&mut self) -> Program {
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

    pub(super) fn condition(&mut self) -> Program {
        let dtype = self.pick(&ALL);
        let mut value = String::from("X[i]");
        for _ in 0..1 + below(&mut self.rng, 3) {
            let condition = self.truth(dtype, 2);
            let other = match below(&mut self.rng, 8) {
                0 if is_float(dtype) => "abs(X[i])".into(),
                1 if is_float(dtype) => "copysign(W[0], Z[i])".into(),
                2 if matches!(dtype, "float32" | "float64") => {
                    let f = self.pick(&["floor", "ceil", "trunc", "nearbyint", "round"]);
                    format!("{f}(Z[i] * {})", c(dtype, 8.0))
                }
                3 if matches!(dtype, "float32" | "float64") => "sqrt(abs(Z[i]))".into(),
                4 => "W[0]".into(),
                5 if is_float(dtype) => "fmod(X[i], Z[i])".into(),
                6 if matches!(dtype, "float32" | "float64") => format!("fmod(X[i] * {}, W[0])", c(dtype, 4096.0)),
                _ => "Z[i]".into(),
            };
            value = format!("select({condition}, {value}, {other})");
        }
        let text = self.row(dtype, dtype, &value);
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: true }
    }

    pub(super) fn conversion(&mut self) -> Program {
        let all = ["float32", "int32", "int64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16"];
        let (from, to) = (self.pick(&all), self.pick(&all));
        let value = match below(&mut self.rng, 5) {
            // Powers of two are exact.
            4 if from == "float32" => {
                let (low, high) = (self.pick(&[-200.0, -90.0, 3.0]), self.pick(&[100.0, 255.0, 1e12]));
                format!("cast({to}, max(min(X[i] * 512.0, {high:?}), {low:?}))")
            }
            4 if from == "float16" => format!("cast({to}, nearbyint(X[i]))"),
            3 if from == "float32" && self.chance(2) => {
                let round = self.pick(&["round", "nearbyint"]);
                let (low, high) = (self.pick(&[-200.0, -128.0, 0.0, 2.5]), self.pick(&[127.0, 255.0, 1e12]));
                match self.chance(3) {
                    true => format!("cast({to}, {round}(X[i] * 1e4))"),
                    false => format!("cast({to}, max(min({round}(X[i] * 64.0), {high:?}), {low:?}))"),
                }
            }
            0 if from == "float32" => format!("cast({to}, X[i] * 65536.0)"),
            1 if from == "int32" => format!("cast({to}, X[i] * int32(1234567))"),
            2 => {
                let by = self.pick(&["float32", "int32"]);
                format!("cast({to}, cast({by}, X[i]))")
            }
            _ if NARROW.contains(&from) => format!("cast({to}, X[i] * X[i] - W[0])"),
            _ => format!("cast({to}, X[i])"),
        };
        if from == "float32" && is_half(to) && self.chance(2) {
            // Rounded to compute with it: fast code may keep the digits.
            let text = self.row(from, to, &format!("cast({to}, X[i] * 0.5) * cast({to}, Z[i]) - cast({to}, W[0])"));
            return Program { text, fast: Closeness::Ulps(16.0), strict: Closeness::Exact, specials: false };
        }
        let text = self.row(from, to, &value);
        Program { text, fast: Closeness::Exact, strict: Closeness::Exact, specials: is_float(from) }
    }

    pub(super) fn function(&mut self) -> Program {
        let dtype = self.pick(&["float32", "float32", "float16", "bfloat16"]);
        let one = |g: &mut Self, x: &str| {
            let f = g.pick(&["exp", "exp2", "sigmoid", "tanh", "erf", "exp10", "sin", "cos", "tan"]);
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
}
