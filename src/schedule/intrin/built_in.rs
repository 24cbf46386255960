//! The table of built-in intrinsics: portable loops, which the code generator turns into vector code.
//!
//! Names and descriptions of those in [`DOTS`] that end in an instruction set are the ones that TVM registers for CPUs,
//! so that its traces replay; the implementations are ours, and run on every CPU.
//!
//!     dot_16x4_vnni       c[i] += sum over 4 of a[k] * b[i, k]
//!     outer_6x16_f32      c[i, j] += a[i] * b[j]
//!     fma_16_f32          c[i] += b[0] * a[i]
//!     matmul_4x16x4_f32   c[i, j] += sum over 4 of a[i, k] * b[k, j]
//!     matmul_8x32x64_f32  the same as a register tile: 8 rows of two vectors over 64 terms

use std::fmt::Write;

/// Dot products: name, rows, terms, and the types of `a`, `b` and `c`.
const DOTS: [(&str, usize, usize, [&str; 3]); 8] = [
    ("dot_16x4_vnni", 16, 4, ["uint8", "int8", "int32"]),
    ("dot_16x4_avx512", 16, 4, ["uint8", "int8", "int32"]),
    ("dot_4x4_i8i8s32_neon", 4, 4, ["int8", "int8", "int32"]),
    ("dot_4x4_i8i8s32_sdot", 4, 4, ["int8", "int8", "int32"]),
    ("dot_4x4_u8u8u32_udot", 4, 4, ["uint8", "uint8", "uint32"]),
    ("dot_4x4_u8u8i32_hdot", 4, 4, ["uint8", "uint8", "int32"]),
    ("dot_8x4_u8s8s32", 8, 4, ["uint8", "int8", "int32"]),
    ("dot_16x4_s8s8s32", 16, 4, ["int8", "int8", "int32"]),
];

/// Outer products of a column and a row of floats: rows and columns. The larger ones fill the registers of AVX2 and of
/// AVX-512 (12 and 24 accumulators), and leave some for what is loaded.
const OUTERS: [(usize, usize); 5] = [(4, 4), (4, 8), (4, 16), (6, 16), (12, 32)];

/// Rows of floats that are scaled and added.
const FMAS: [usize; 3] = [4, 8, 16];

/// Products of small matrices of floats: rows, columns and terms. The larger ones are micro-kernels: their results fill the
/// registers of AVX2 (6x16) and of AVX-512 (8x32, 4x64) over enough terms to pay for loading and storing them.
const MATMULS: [(usize, usize, usize); 5] = [(4, 4, 4), (4, 16, 4), (6, 16, 64), (8, 32, 64), (4, 64, 64)];

/// The text of all of them.
pub(super) fn text() -> String {
    let mut text = String::new();
    for (name, rows, terms, types) in DOTS {
        dot(&mut text, name, rows, terms, types);
    }
    for (rows, columns) in OUTERS {
        outer(&mut text, rows, columns);
    }
    for n in FMAS {
        fma(&mut text, n);
    }
    for (rows, columns, terms) in MATMULS {
        matmul(&mut text, rows, columns, terms);
    }
    text.push_str(DOT_OF_ONE);
    text
}

/// A single dot product of bytes.
const DOT_OF_ONE: &str = r#"
@T.prim_func
def dot_4_i8_desc(a: T.Buffer((4,), "uint8"), b: T.Buffer((4,), "int8"), c: T.Buffer((1,), "int32")):
    for k in range(4):
        with T.block("dot"):
            vk = T.axis.reduce(4, k)
            c[0] = c[0] + T.Cast("int32", a[vk]) * T.Cast("int32", b[vk])

@T.prim_func
def dot_4_i8_impl(a: T.Buffer((4,), "uint8"), b: T.Buffer((4,), "int8"), c: T.Buffer((1,), "int32")):
    c[0] = c[0] + (T.Cast("int32", a[0]) * T.Cast("int32", b[0]) + T.Cast("int32", a[1]) * T.Cast("int32", b[1]) + T.Cast("int32", a[2]) * T.Cast("int32", b[2]) + T.Cast("int32", a[3]) * T.Cast("int32", b[3]))
"#;

/// An intrinsic: its parameters, and the bodies of both functions, indented by four.
fn add(text: &mut String, name: &str, params: &str, description: &str, implementation: &str) {
    for (suffix, body) in [("desc", description), ("impl", implementation)] {
        // Writing to a string cannot fail.
        let _ = write!(text, "@T.prim_func\ndef {name}_{suffix}({params}):\n{body}\n");
    }
}

fn dot(text: &mut String, name: &str, rows: usize, terms: usize, [a, b, c]: [&str; 3]) {
    let params = format!(
        "a: T.Buffer(({terms},), \"{a}\"), b: T.Buffer(({rows}, {terms}), \"{b}\"), c: T.Buffer(({rows},), \"{c}\")"
    );
    let description = format!(
        r#"    for i, k in T.grid({rows}, {terms}):
        with T.block("update"):
            vi, vk = T.axis.remap("SR", [i, k])
            c[vi] = c[vi] + T.Cast("{c}", a[vk]) * T.Cast("{c}", b[vi, vk])
"#
    );
    let products: Vec<String> =
        (0..terms).map(|k| format!("T.Cast(\"{c}\", a[{k}]) * T.Cast(\"{c}\", b[vi, {k}])")).collect();
    let sum = products.join(" + ");
    let implementation = format!(
        r#"    for i in T.vectorized({rows}):
        with T.block("dot"):
            vi = T.axis.spatial({rows}, i)
            c[vi] = c[vi] + ({sum})
"#
    );
    add(text, name, &params, &description, &implementation);
}

fn outer(text: &mut String, rows: usize, columns: usize) {
    let params = format!(
        "a: T.Buffer(({rows},), \"float32\"), b: T.Buffer(({columns},), \"float32\"), c: T.Buffer(({rows}, {columns}), \"float32\")"
    );
    let description = format!(
        r#"    for i, j in T.grid({rows}, {columns}):
        with T.block("update"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = c[vi, vj] + a[vi] * b[vj]
"#
    );
    let implementation = format!(
        r#"    for i in T.unroll({rows}):
        for j in T.vectorized({columns}):
            with T.block("outer"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = c[vi, vj] + a[vi] * b[vj]
"#
    );
    add(text, &format!("outer_{rows}x{columns}_f32"), &params, &description, &implementation);
}

fn fma(text: &mut String, n: usize) {
    let params =
        format!("a: T.Buffer(({n},), \"float32\"), b: T.Buffer((1,), \"float32\"), c: T.Buffer(({n},), \"float32\")");
    let body = |kind: &str| {
        format!(
            r#"    for i in {kind}({n}):
        with T.block("fma"):
            vi = T.axis.spatial({n}, i)
            c[vi] = c[vi] + b[0] * a[vi]
"#
        )
    };
    add(text, &format!("fma_{n}_f32"), &params, &body("range"), &body("T.vectorized"));
}

fn matmul(text: &mut String, rows: usize, columns: usize, terms: usize) {
    let params = format!(
        "a: T.Buffer(({rows}, {terms}), \"float32\"), b: T.Buffer(({terms}, {columns}), \"float32\"), c: T.Buffer(({rows}, {columns}), \"float32\")"
    );
    let description = format!(
        r#"    for i, j, k in T.grid({rows}, {columns}, {terms}):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
"#
    );
    let implementation = format!(
        r#"    for k in range({terms}):
        for i in T.unroll({rows}):
            for j in T.vectorized({columns}):
                with T.block("matmul"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
"#
    );
    add(text, &format!("matmul_{rows}x{columns}x{terms}_f32"), &params, &description, &implementation);
}
