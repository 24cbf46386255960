//! Region code against the evaluator, over row lengths with every kind of tail.

use super::plan;
use crate::codegen::CodegenOptions;
use crate::codegen::opt;
use crate::codegen::testing::{Closeness, check, wide_sets};
use crate::loopir::Kernel;
use crate::loopir::parse::parse;

fn kernel(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
}

/// Compares machine code with the evaluator for all wide instruction sets, and returns the number of regions.
pub(super) fn check_text(text: &str, seed: u64, closeness: Closeness) -> usize {
    let kernel = kernel(text);
    let mut regions = 0;
    for options in wide_sets() {
        let mut optimized = opt::optimize(kernel.clone(), &options);
        regions += plan(&mut optimized, &options).regions.len();
        check(&kernel, &options, seed, closeness);
    }
    regions
}

#[test]
fn contractions_of_all_row_lengths() {
    for (dtype, zero, closeness) in [
        ("float32", "0.0", Closeness::Ulps(64.0)),
        ("float64", "float64(0.0)", Closeness::Ulps(64.0)),
        ("int32", "int32(0)", Closeness::Exact),
    ] {
        for n in (1..=40).chain([48, 63, 64, 65, 96]) {
            let text = format!(
                "kernel @f(A: in {dtype}[35], B: in {dtype}[{b}], C: out {dtype}[{c}]) {{
  for i in 5 independent {{
    for j0 in {n} independent vector {{
      C[i * {n} + j0] = {zero}
    }}
    for k in 7 reduction {{
      for j in {n} independent vector {{
        C[i * {n} + j] = C[i * {n} + j] + A[i * 7 + k] * B[k * {n} + j]
      }}
    }}
  }}
}}
",
                b = 7 * n,
                c = 5 * n
            );
            let regions = check_text(&text, n, closeness);
            // Rows of one element have no vectors.
            assert!(n == 1 || regions >= wide_sets().len(), "no region for rows of {n} {dtype}");
        }
    }
}

#[test]
fn elementwise_operations_of_all_row_lengths() {
    for n in (1..=40).chain([100, 257]) {
        for (dtype, value) in [
            ("float32", "max(X[i] - 0.25, Z[0]) * X[i] + min(X[i], 0.5) / (X[i] * X[i] + 1.5)"),
            ("float32", "sqrt(X[i] * X[i] + 2.0) - Z[0]"),
            (
                "float64",
                "max(X[i] - float64(0.25), Z[0]) * X[i] + min(X[i], float64(0.5)) / (X[i] * X[i] + float64(1.5))",
            ),
            ("int32", "max(X[i] - int32(3), Z[0]) * X[i] + min(X[i], int32(5))"),
        ] {
            let text = format!(
                "kernel @f(X: in {dtype}[{n}], Z: in {dtype}[1], Y: out {dtype}[{n}]) {{
  for i in {n} independent vector {{
    Y[i] = {value}
  }}
}}
"
            );
            check_text(&text, n, if dtype == "int32" { Closeness::Exact } else { Closeness::Ulps(64.0) });
        }
    }
}

#[test]
fn conditions_and_functions_of_all_row_lengths() {
    for n in (1..=34).chain([64, 99]) {
        for (dtype, value) in [
            ("float32", "select(X[i] < Z[0] && X[i] > -0.5 || X[i] >= 0.75, X[i] * 2.0, Z[0])"),
            ("float32", "select(!(X[i] <= 0.25) && X[i] != 0.5, abs(X[i]), copysign(Z[0], X[i]))"),
            ("float32", "floor(X[i] * 9.0) + ceil(X[i] * 7.0) + trunc(X[i] * 5.0) + nearbyint(X[i] * 3.0)"),
            ("float32", "select(isnan(X[i] / (X[i] - X[i])), Z[0], X[i])"),
            ("float32", "reinterpret(float32, bitwise_and(reinterpret(int32, X[i]), int32(-4096)))"),
            ("float64", "select(X[i] == Z[0] || !(X[i] > float64(0.5)), X[i], floor(X[i] * float64(8.0)))"),
            ("float64", "select(X[i] < Z[0] && X[i] > float64(-0.5), abs(X[i]), copysign(Z[0], X[i]))"),
            ("int32", "select(X[i] <= Z[0] && X[i] >= int32(-5) || X[i] == int32(7), X[i], int32(3) - X[i])"),
            (
                "int32",
                "select(X[i] != Z[0] && !(X[i] < int32(2)), X[i], shift_right(shift_left(X[i], int32(7)), int32(5)))",
            ),
            ("int32", "select(X[i] > Z[0], bitwise_or(X[i], int32(9)), bitwise_xor(X[i], int32(5)))"),
            // Counts that are negative or too large shift everything out.
            ("int32", "shift_left(Z[0], X[i]) + shift_right(X[i] * int32(1000), X[i]) - shift_right(X[i], Z[0])"),
            ("int32", "shift_left(X[i], X[i] * int32(8)) + shift_right(X[i], X[i] * int32(16))"),
        ] {
            let text = format!(
                "kernel @f(X: in {dtype}[{n}], Z: in {dtype}[1], Y: out {dtype}[{n}]) {{
  for i in {n} independent vector {{
    Y[i] = {value}
  }}
}}
"
            );
            check_text(&text, n, Closeness::Exact);
        }
    }
    let text = "kernel @f(X: in float32[256], Y: out float32[256]) {
  for i in 256 independent { Y[i] = select(X[i] > 0.0 && X[i] < 0.5, tanh(X[i]), floor(X[i])) }
}
";
    assert!(wide_sets().is_empty() || check_text(text, 1, Closeness::Ulps(4.0)) == wide_sets().len(), "no region");
}

#[test]
fn rows_read_backwards() {
    for n in (1..=70).chain([128, 200]) {
        for (dtype, value) in [
            ("float32", "X[M - i] * 2.0"),
            ("int32", "X[M - i] - X[i]"),
            ("float64", "max(X[M - i], X[M - i] * float64(3.0))"),
            ("float16", "X[M - i]"),
            ("float32", "X[2 * M - 2 * i] + X[2 * M - 2 * i + 1]"),
        ] {
            let value = value.replace('M', &(n - 1).to_string());
            let text = format!(
                "kernel @f(X: in {dtype}[{}], Y: out {dtype}[{n}]) {{
  for i in {n} independent {{ Y[i] = {value} }}
}}
",
                2 * n
            );
            check_text(&text, n, Closeness::Exact);
        }
    }
}

/// A loop over elements of some types.
fn elementwise(n: u64, from: &str, to: &str, value: &str) -> String {
    format!(
        "kernel @f(X: in {from}[{n}], Z: in {from}[1], Y: out {to}[{n}]) {{
  for i in {n} independent vector {{
    Y[i] = {value}
  }}
}}
"
    )
}

#[test]
fn narrow_elements_of_all_row_lengths() {
    let ints = ["uint8", "int8", "uint16", "int16"];
    let halves = ["float16", "bfloat16"];
    for n in (1..=34).chain([48, 64, 65, 130, 512]) {
        let mut texts = Vec::new();
        for narrow in ints {
            texts.push(elementwise(n, narrow, "int32", "cast(int32, X[i]) * int32(1000) - cast(int32, Z[0])"));
            texts.push(elementwise(n, narrow, "float32", "cast(float32, X[i]) * 0.5"));
            texts.push(elementwise(n, "int32", narrow, &format!("cast({narrow}, X[i] * int32(12345) + Z[0])")));
            texts.push(elementwise(n, "float32", narrow, &format!("cast({narrow}, X[i] * 100000.0)")));
            texts.push(elementwise(n, narrow, narrow, "X[i] * X[i] * X[i] - Z[0]"));
            texts.push(elementwise(n, narrow, narrow, "select(X[i] < Z[0], X[i] + Z[0], max(X[i], Z[0]))"));
            texts.push(elementwise(n, narrow, "int32", "cast(int32, X[i] * X[i] * X[i])"));
            for other in ints {
                texts.push(elementwise(n, narrow, other, &format!("cast({other}, X[i] - Z[0])")));
            }
        }
        for half in halves {
            texts.push(elementwise(n, half, "float32", "cast(float32, X[i]) * 3.0 + cast(float32, Z[0])"));
            texts.push(elementwise(n, "float32", half, &format!("cast({half}, X[i] * 3.1)")));
            texts.push(elementwise(n, half, "int32", "cast(int32, max(X[i], Z[0]))"));
            texts.push(elementwise(n, "int32", half, &format!("cast({half}, X[i] * int32(77))")));
            texts.push(elementwise(n, "float32", "float32", &format!("cast(float32, cast({half}, X[i] * 3.1))")));
        }
        texts.push(elementwise(n, "float32", "int32", "cast(int32, X[i] * 3.0e9)"));
        texts.push(elementwise(n, "float32", "int32", "cast(int32, (X[i] - X[i]) / (X[i] - X[i]))"));
        for text in texts {
            let regions = check_text(&text, n, Closeness::Exact);
            // If all elements are narrow, Cranelift has the same number of lanes.
            let is_narrow = !text.contains("t32[512]");
            assert!(is_narrow || wide_sets().is_empty() || regions == wide_sets().len(), "{regions} regions\n{text}");
        }
    }
}

/// Products of bytes over their whole range, added to values near the largest number.
fn dot_nest(a: &str, b: &str, n: u64) -> String {
    format!(
        "kernel @f(A: in {a}[60], B: in {b}[{size}], C: out int32[{c}]) {{
  for i in 5 independent {{
    for j0 in {n} independent vector {{ C[i * {n} + j0] = int32(2147480000) }}
    for k in 3 reduction {{
      for j in {n} independent vector {{
        for q in 4 reduction {{
          C[i * {n} + j] = C[i * {n} + j] + cast(int32, A[i * 12 + k * 4 + q]) * cast(int32, B[(k * {n} + j) * 4 + q])
        }}
      }}
    }}
  }}
}}
",
        size = 12 * n,
        c = 5 * n,
    )
}

#[test]
fn dot_products_of_all_row_lengths() {
    for n in (1..=40).chain([48, 64, 65]) {
        for (a, b) in [("uint8", "int8"), ("int8", "uint8"), ("int8", "int8"), ("uint8", "uint8")] {
            let text = dot_nest(a, b, n);
            let regions = check_text(&text, n, Closeness::Exact);
            assert!(wide_sets().is_empty() || n % 16 != 0 || regions > 0, "no region\n{text}");
            let kernel = kernel(&text);
            for options in [CodegenOptions::default()].into_iter().chain(wide_sets()) {
                check(&kernel, &CodegenOptions { dot_products: false, ..options }, n, Closeness::Exact);
            }
        }
    }
}

#[test]
fn dot_products_along_rows() {
    for n in [4, 8, 12, 32, 60, 64, 68, 128, 256, 300] {
        for (a, b) in [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")] {
            let text = format!(
                "kernel @f(A: in {a}[{n}], B: in {b}[{}], C: out int32[9]) {{
  for j in 9 independent {{
    C[j] = int32(0)
    for k in {n} reduction {{
      C[j] = C[j] + cast(int32, A[k]) * cast(int32, B[j * {n} + k])
    }}
  }}
}}
",
                9 * n
            );
            check_text(&text, n, Closeness::Exact);
            check(&kernel(&text), &CodegenOptions::default(), n, Closeness::Exact);
        }
    }
}

#[test]
fn reductions_of_all_row_lengths() {
    for n in (1..=70).chain([128, 255]) {
        for (dtype, start, value) in [
            ("float32", "0.0", "Y[i] + X[i * N + k]"),
            ("float64", "float64(0.0)", "Y[i] + X[i * N + k]"),
            ("float32", "float32(-100.0)", "max(Y[i], X[i * N + k])"),
            ("int32", "int32(0)", "Y[i] + X[i * N + k]"),
            ("int32", "int32(100)", "min(Y[i], X[i * N + k])"),
        ] {
            let value = value.replace('N', &n.to_string());
            let text = format!(
                "kernel @f(X: in {dtype}[{size}], Y: out {dtype}[3]) {{
  for i in 3 independent {{
    Y[i] = {start}
    for k in {n} reduction {{
      Y[i] = {value}
    }}
  }}
}}
",
                size = 3 * n
            );
            check_text(&text, n, if dtype == "int32" { Closeness::Exact } else { Closeness::Ulps(256.0) });
        }
    }
}

#[test]
fn short_rows_are_reduced_together() {
    // Rows of several lengths, in numbers that are no multiples of the lanes, with a start, and an epilogue with elements of its own.
    for n in [5, 9, 16, 23, 49, 64, 100, 127, 200] {
        for rows in [3, 8, 16, 37] {
            let x = format!("A[i * {n} + k]");
            for (start, combined) in [("0.0", format!("S[i] + {x}")), ("-1000.0", format!("max(S[i], {x})"))] {
                let text = format!(
                    "kernel @f(A: in float32[7400], B: in float32[37], Y: out float32[37]) {{
  scratch S: float32[37]
  for i in {rows} independent {{
    S[i] = {start}
    for k in {n} reduction {{
      S[i] = {combined}
    }}
  }}
  for j in {rows} independent {{
    Y[j] = S[j] * 0.5 + B[j]
  }}
}}
"
                );
                check_text(&text, n, Closeness::Ulps(64.0));
            }
        }
    }
}

#[test]
fn squares_are_transposed() {
    for (dtype, value, closeness) in [
        ("float32", "A[j * 64 + i]", Closeness::Exact),
        ("float32", "max(A[j * 64 + i], 0.25) * W[j] + A[j * 64 + i + 16] / W[i]", Closeness::Ulps(64.0)),
        ("float64", "A[j * 64 + i] + A[j * 65 + i * 1] * W[2]", Closeness::Ulps(64.0)),
        ("int32", "A[j * 64 + i] - W[i]", Closeness::Exact),
        ("uint8", "A[j * 64 + i]", Closeness::Exact),
        ("int8", "A[j * 64 + i]", Closeness::Exact),
        ("float16", "A[j * 64 + i]", Closeness::Exact),
        ("bfloat16", "A[j * 64 + i]", Closeness::Exact),
    ] {
        let divisible = [(8, 8), (16, 16), (16, 48), (32, 16), (32, 64)];
        for (n, m) in divisible.into_iter().chain([(12, 16), (24, 32), (28, 12), (9, 20), (17, 33), (31, 63)]) {
            for (outer, inner, of_outer, of_inner) in [("i", "j", n, m), ("j", "i", m, n)] {
                let text = format!(
                    "kernel @f(A: in {dtype}[4160], W: in {dtype}[64], B: out {dtype}[4096]) {{
  for t in 2 independent {{
    for {outer} in {of_outer} independent {{
      for {inner} in {of_inner} independent {{
        B[t * 2048 + i * 64 + j] = {value}
      }}
    }}
  }}
}}
"
                );
                let regions = check_text(&text, n, closeness);
                let is_square = n % 16 == 0 && m % 16 == 0;
                assert!(wide_sets().is_empty() || !is_square || regions > 0, "no region for {n} by {m} {dtype}");
            }
        }
    }
}
