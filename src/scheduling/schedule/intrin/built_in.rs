//! The built-in intrinsics: loops, which the code generator vectorises, and calls of instructions.
//!
//! The entries of [`DOTS`] that are named after an instruction set have the names and descriptions that TVM registers
//! for CPUs, so that its traces replay; those with [instructions](Way) also have TVM's implementations. They run on
//! every CPU, too: `ir::builtins` defines the instructions, and any loop over the same products
//! becomes the machine's best code.
//!
//! ```text
//! dot_16x4_vnni       c[i] += sum over 4 of a[k] * b[i, k]
//! outer_6x16_f32      c[i, j] += a[i] * b[j]
//! fma_16_f32          c[i] += b[0] * a[i]
//! matmul_4x16x4_f32   c[i, j] += sum over 4 of a[i, k] * b[k, j]
//! matmul_8x32x64_f32  the same as a register tile: 8 rows of two vectors over 64 terms
//! ```

use std::fmt::Write;

/// Dot products: name, rows, the types of `a`, `b` and `c`, and the implementation. All have [`TERMS`] terms.
const DOTS: [(&str, usize, [&str; 3], Way); 8] = [
    ("dot_16x4_vnni", 16, ["uint8", "int8", "int32"], Way::Vnni),
    // TVM's implementation saturates sums of two products, which its description does not.
    ("dot_16x4_avx512", 16, ["uint8", "int8", "int32"], Way::Loops),
    ("dot_4x4_i8i8s32_neon", 4, ["int8", "int8", "int32"], Way::Loops),
    ("dot_4x4_i8i8s32_sdot", 4, ["int8", "int8", "int32"], Way::ArmDot("sdot")),
    ("dot_4x4_u8u8u32_udot", 4, ["uint8", "uint8", "uint32"], Way::ArmDot("udot")),
    ("dot_4x4_u8u8i32_hdot", 4, ["uint8", "uint8", "int32"], Way::ArmDot("udot")),
    ("dot_8x4_u8s8s32", 8, ["uint8", "int8", "int32"], Way::Loops),
    ("dot_16x4_s8s8s32", 16, ["int8", "int8", "int32"], Way::Loops),
];

/// Terms of a dot product.
const TERMS: usize = 4;

/// The implementation of a dot product.
#[derive(Clone, Copy)]
enum Way {
    /// A loop over the rows.
    Loops,
    /// `vpdpbusd` of x86, on sixteen rows.
    Vnni,
    /// `sdot` or `udot` of Arm, on four rows.
    ArmDot(&'static str),
}

/// Outer products of a column and a row of floats: rows and columns. The larger ones fill the registers of AVX2 and of
/// AVX-512 (12 and 24 accumulators), and leave some for operands.
const OUTERS: [(usize, usize); 5] = [(4, 4), (4, 8), (4, 16), (6, 16), (12, 32)];

/// Rows of floats that are scaled and added.
const FMAS: [usize; 3] = [4, 8, 16];

/// Products of small matrices of floats: rows, columns and terms. The larger ones are micro-kernels: their results fill the
/// registers of AVX2 (6x16) and of AVX-512 (8x32, 4x64) over enough terms to pay for loading and storing them.
const MATMULS: [(usize, usize, usize); 5] = [(4, 4, 4), (4, 16, 4), (6, 16, 64), (8, 32, 64), (4, 64, 64)];

/// The text of all intrinsics.
pub(super) fn text() -> String {
    let mut text = String::new();
    for (name, rows, types, way) in DOTS {
        dot(&mut text, name, rows, types, way);
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
@T.prim_func(s_tir=True)
def dot_4_i8_desc(a: T.Buffer((4,), "uint8"), b: T.Buffer((4,), "int8"), c: T.Buffer((1,), "int32")):
    for k in range(4):
        with T.sblock("dot"):
            vk = T.axis.reduce(4, k)
            c[0] = c[0] + T.Cast("int32", a[vk]) * T.Cast("int32", b[vk])

@T.prim_func(s_tir=True)
def dot_4_i8_impl(a: T.Buffer((4,), "uint8"), b: T.Buffer((4,), "int8"), c: T.Buffer((1,), "int32")):
    c[0] = c[0] + (T.Cast("int32", a[0]) * T.Cast("int32", b[0]) + T.Cast("int32", a[1]) * T.Cast("int32", b[1]) + T.Cast("int32", a[2]) * T.Cast("int32", b[2]) + T.Cast("int32", a[3]) * T.Cast("int32", b[3]))
"#;

/// An intrinsic: its parameters, and the bodies of both functions, indented by four.
fn add(text: &mut String, name: &str, params: &str, description: &str, implementation: &str) {
    for (suffix, body) in [("desc", description), ("impl", implementation)] {
        // Writing to a string cannot fail.
        let _ = write!(text, "@T.prim_func(s_tir=True)\ndef {name}_{suffix}({params}):\n{body}\n");
    }
}

fn dot(text: &mut String, name: &str, rows: usize, [a, b, c]: [&str; 3], way: Way) {
    let bytes = rows * TERMS;
    // The views made by `tensorize` have an `offset_factor` if TVM's have.
    let anywhere = if matches!(way, Way::Loops) { "" } else { ", offset_factor=1" };
    let params = format!(
        "a: T.Buffer(({TERMS},), \"{a}\"{anywhere}), b: T.Buffer(({rows}, {TERMS}), \"{b}\"{anywhere}), \
         c: T.Buffer(({rows},), \"{c}\"{anywhere})"
    );
    let description = format!(
        r#"    for i, k in T.grid({rows}, {TERMS}):
        with T.sblock("update"):
            vi, vk = T.axis.remap("SR", [i, k])
            c[vi] = c[vi] + T.Cast("{c}", a[vk]) * T.Cast("{c}", b[vi, vk])
"#
    );
    let implementation = match way {
        Way::Loops => {
            let product = |k| format!("T.Cast(\"{c}\", a[{k}]) * T.Cast(\"{c}\", b[vi, {k}])");
            let sum = (0..TERMS).map(product).collect::<Vec<_>>().join(" + ");
            format!(
                r#"    for i in T.vectorized({rows}):
        with T.sblock("dot"):
            vi = T.axis.spatial({rows}, i)
            c[vi] = c[vi] + ({sum})
"#
            )
        }
        Way::Vnni => format!(
            r#"    a_bytes: T.uint8x{TERMS} = a[T.Ramp(0, 1, {TERMS})]
    a_word: T.int32 = T.reinterpret("int32", a_bytes)
    b_bytes: T.int8x{bytes} = b[0, T.Ramp(0, 1, {bytes})]
    b_words: T.int32x{rows} = T.reinterpret("int32x{rows}", b_bytes)
    sums: T.int32x{rows} = c[T.Ramp(0, 1, {rows})]
    c[T.Ramp(0, 1, {rows})] = T.call_llvm_pure_intrin("int32x{rows}", "llvm.x86.avx512.vpdpbusd.512", sums, T.Broadcast(a_word, {rows}), b_words)
"#
        ),
        Way::ArmDot(instruction) => format!(
            r#"    a_bytes: T.{a}x{TERMS} = a[T.Ramp(0, 1, {TERMS})]
    a_word: T.{c} = T.reinterpret("{c}", a_bytes)
    a_words: T.{c}x{rows} = T.Broadcast(a_word, {rows})
    a_all: T.{a}x{bytes} = T.reinterpret("{a}x{bytes}", a_words)
    b_all: T.{b}x{bytes} = b[0, T.Ramp(0, 1, {bytes})]
    sums: T.{c}x{rows} = c[T.Ramp(0, 1, {rows})]
    c[T.Ramp(0, 1, {rows})] = T.call_llvm_pure_intrin("{c}x{rows}", "llvm.aarch64.neon.{instruction}", sums, a_all, b_all)
"#
        ),
    };
    add(text, name, &params, &description, &implementation);
}

fn outer(text: &mut String, rows: usize, columns: usize) {
    let params = format!(
        "a: T.Buffer(({rows},), \"float32\"), b: T.Buffer(({columns},), \"float32\"), c: T.Buffer(({rows}, {columns}), \"float32\")"
    );
    let description = format!(
        r#"    for i, j in T.grid({rows}, {columns}):
        with T.sblock("update"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = c[vi, vj] + a[vi] * b[vj]
"#
    );
    let implementation = format!(
        r#"    for i in T.unroll({rows}):
        for j in T.vectorized({columns}):
            with T.sblock("outer"):
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
        with T.sblock("fma"):
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
        with T.sblock("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
"#
    );
    let implementation = format!(
        r#"    for k in range({terms}):
        for i in T.unroll({rows}):
            for j in T.vectorized({columns}):
                with T.sblock("matmul"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
"#
    );
    add(text, &format!("matmul_{rows}x{columns}x{terms}_f32"), &params, &description, &implementation);
}
