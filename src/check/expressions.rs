//! Vectors and builtins: the interpreter and compiled code, on every instruction set, give the numbers that TVM gives.
#![expect(clippy::excessive_precision, reason = "the numbers are as TVM printed them")]

use crate::codegen::testing::{memory::Flush, run_compiled, wide_sets};
use crate::codegen::{self, CodegenOptions, RunContext};
use crate::ir::interp::{self, Arg, Options, Tensor, Value};
use crate::ir::{Const, DType, Equality, Func};
use crate::loopir::eval::{self, Memory, memory_of};
use crate::lower::{lower, lower_reference};
use crate::machine::Isa;
use crate::script::{Dialect, ParseOptions, parse, print_func};

/// The body of a function, and the values that it stores to `B` and `D`, which hold -1 before. An empty list stands for a
/// buffer that it does not store to.
struct Case {
    name: &'static str,
    body: &'static str,
    b: &'static [f32],
    d: &'static [i32],
}

const HEAD: &str = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((64,), \"float32\"), C: T.Buffer((64,), \"int32\"), X: T.Buffer((64,), \"uint8\"), \
Y: T.Buffer((64,), \"int8\"), B: T.Buffer((16,), \"float32\"), D: T.Buffer((16,), \"int32\")):";

fn read(text: &str) -> Func {
    let module =
        parse(text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{}", e.render(false))).module;
    module.funcs[0].clone()
}

fn arguments() -> Vec<Tensor> {
    let ints = |dtype, f: fn(i64) -> i64| Tensor::from_values(dtype, &[64], (0..64).map(|i| Value::Int(f(i))));
    let floats = (0..64).map(|i| Value::Float(((i * 37 + 11) % 64 - 32) as f64 / 8.0));
    vec![
        Tensor::from_values(DType::Float32, &[64], floats),
        ints(DType::Int32, |i| (i * 73 + 5) % 256 - 128),
        ints(DType::UInt8, |i| (i * 91 + 7) % 256),
        ints(DType::Int8, |i| (i * 53 + 3) % 256 - 128),
        Tensor::from_values(DType::Float32, &[16], std::iter::repeat_n(Value::Float(-1.0), 16)),
        Tensor::from_values(DType::Int32, &[16], std::iter::repeat_n(Value::Int(-1), 16)),
    ]
}

fn memory(t: &Tensor) -> Memory {
    memory_of((0..t.n_elements()).map(|i| match t.get(i) {
        Value::Int(v) => Const::Int(v),
        Value::Float(v) => Const::Float(v),
    }))
}

/// Compares the stored values with the expected ones, bit for bit if `exact`.
fn compare(case: &Case, found: &[Memory], exact: bool, how: &str) {
    let filled = |n: usize, v: Const| vec![v; n];
    let b = match case.b {
        [] => filled(16, Const::Float(-1.0)),
        b => b.iter().map(|&v| Const::Float(v.into())).collect(),
    };
    let d = match case.d {
        [] => filled(16, Const::Int(-1)),
        d => d.iter().map(|&v| Const::Int(v.into())).collect(),
    };
    for (name, expected, found) in [("B", b, &found[4]), ("D", d, &found[5])] {
        for (i, (&e, f)) in expected.iter().zip(found).enumerate() {
            let right = match (e, *f) {
                (Const::Float(e), Some(Const::Float(f))) if !exact => (e - f).abs() <= 1e-6 * e.abs(),
                (e, f) => f == Some(e),
            };
            assert!(right, "{}, {how}: {name}[{i}] is {f:?}, expected {e:?}", case.name);
        }
    }
}

fn check(case: &Case) {
    let func = read(&format!("{HEAD}{}", case.body));
    for dialect in [Dialect::Current, Dialect::Classic] {
        let text = print_func(&func, dialect);
        let again = read(&text);
        Equality::default().funcs(&func, &again).unwrap_or_else(|d| panic!("{}: {d}\n{text}", case.name));
        assert_eq!(print_func(&again, dialect), text, "{}", case.name);
    }
    let before = arguments();
    let mut args: Vec<Arg> = before.iter().cloned().map(Arg::Tensor).collect();
    interp::run(&func, &mut args, Options::default()).unwrap_or_else(|e| panic!("{}: {}", case.name, e.message(&func)));
    let after: Vec<Memory> = args.iter().filter_map(Arg::tensor).map(memory).collect();
    compare(case, &after, true, "interpreted");

    let params: Vec<Memory> = before.iter().map(memory).collect();
    let kernel = lower(&func).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut found = params.clone();
    eval::run(&kernel, &mut found).unwrap_or_else(|e| panic!("{}: {e:?}", case.name));
    compare(case, &found, true, "evaluated");
    let portable = CodegenOptions { isa: Isa::Portable, ..CodegenOptions::default() };
    // The conversions of 8 bits are long, and one instruction set shows them.
    let sets = if case.name.starts_with("float8") { Vec::new() } else { wide_sets() };
    for options in std::iter::once(portable).chain(sets) {
        let compiled = codegen::compile(&kernel, &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let found = run_compiled(&compiled, &params, Flush::Start, &mut RunContext::serial());
        let found = found.unwrap_or_else(|e| panic!("{}, {:?}: {e:?}", case.name, options.isa));
        compare(case, &found, false, &format!("{:?}", options.isa));
    }
    // The reference carries floats as `float64`.
    lower_reference(&func).unwrap_or_else(|e| panic!("{}: {e}", case.name));
}

#[test]
fn results_are_those_of_tvm() {
    for case in CASES {
        check(case);
    }
}

#[test]
fn any_value_is_what_is_there() {
    let body = "
    for i in range(16):
        D[i] = C[i]
    for i in range(8):
        D[i] = T.undef()
";
    let d: &[i32] = &[-123, -50, 23, 96, -87, -14, 59, -124, -51, 22, 95, -88, -15, 58, -125, -52];
    check(&Case { name: "undefined", body, b: &[], d });
}

#[test]
fn lanes_go_on_in_the_next_row() {
    let body = "
    M = T.sblock_alloc_buffer((4, 4), \"float32\")
    for i, j in T.grid(4, 4):
        M[i, j] = A[i * 4 + j]
    B[0:16] = M[0, T.Ramp(0, 1, 16)]
";
    let b: Vec<f32> = (0..16).map(|i| ((i * 37 + 11) % 64 - 32) as f32 / 8.0).collect();
    check(&Case { name: "rows", body, b: b.leak(), d: &[] });
}

#[test]
fn floats_of_8_bits() {
    // The values that `ml_dtypes` gives.
    for (name, b) in FLOAT8 {
        let body = format!(
            "
    E = T.sblock_alloc_buffer((16,), \"{name}\")
    for i in range(16):
        E[i] = T.Cast(\"{name}\", A[i]) * T.Cast(\"{name}\", A[i + 16])
    for i in range(16):
        B[i] = T.Cast(\"float32\", E[i] + T.Cast(\"{name}\", A[i + 32]))
        D[i] = T.Cast(\"int32\", T.reinterpret(\"uint8\", E[i]))
"
        );
        let d = &b.1;
        check(&Case { name, body: body.leak(), b: &b.0, d });
    }
}

#[test]
fn elements_of_vectors_have_their_lanes_together() {
    let body = "
    V = T.sblock_alloc_buffer((4,), \"float32x4\")
    V[0:2] = A[T.Ramp(0, 1, 8)]
    V[2:4] = A[T.Ramp(8, 1, 8)]
    B[0:8] = V[T.Ramp(1, 2, 2)]
    B[8:12] = V[2]
    B[12:16] = V[1]
";
    let a: Vec<f32> = (0..16).map(|i| ((i * 37 + 11) % 64 - 32) as f32 / 8.0).collect();
    let b: Vec<f32> = [&a[4..8], &a[12..16], &a[8..12], &a[4..8]].concat();
    check(&Case { name: "vectors_of_vectors", body, b: b.leak(), d: &[] });
}

const CASES: &[Case] = &[
    Case {
        name: "slices_and_broadcasts",
        body: r#"
    for i in range(2):
        B[i * 8:i * 8 + 8] = A[T.Ramp(i * 8, 1, 8)] * T.float32(2) + A[i]
"#,
        b: &[
            -7.875, 1.375, -5.375, 3.875, -2.875, -9.625, -0.375, -7.125, 6.75, 0.0, 9.25, 2.5, -4.25, 5.0, -1.75, 7.5,
        ],
        d: &[],
    },
    Case {
        name: "strides",
        body: r#"
    B[0:16] = A[T.Ramp(3, 3, 16)]
    D[T.Ramp(15, -1, 16)] = C[T.Ramp(0, 4, 16)]
"#,
        b: &[3.25, 1.125, -1.0, -3.125, 2.75, 0.625, -1.5, -3.625, 2.25, 0.125, -2.0, 3.875, 1.75, -0.375, -2.5, 3.375],
        d: &[-95, 125, 89, 53, 17, -19, -55, -91, -127, 93, 57, 21, -15, -51, -87, -123],
    },
    Case {
        name: "gathers",
        body: r#"
    B[0:16] = A[T.bitwise_and(C[T.Ramp(0, 1, 16)], 63)]
"#,
        b: &[
            -3.5, -1.875, -0.25, 1.375, 3.0, -3.375, -1.75, -0.125, 1.5, 3.125, -3.25, -1.625, 0.0, 1.625, 3.25, -3.125,
        ],
        d: &[],
    },
    Case {
        name: "scatters",
        body: r#"
    D[0:16] = T.Broadcast(0, 16)
    D[T.bitwise_and(C[T.Ramp(0, 1, 16)], 15)] = T.Ramp(1, 1, 16)
"#,
        b: &[],
        d: &[4, 13, 6, 15, 8, 1, 10, 3, 12, 5, 14, 7, 16, 9, 2, 11],
    },
    Case {
        name: "shifted_store",
        body: r#"
    D[0:16] = C[T.Ramp(0, 1, 16)]
    D[T.Ramp(1, 1, 8)] = D[T.Ramp(0, 1, 8)] + 1
"#,
        b: &[],
        d: &[-123, -122, -49, 24, 97, -86, -13, 60, -123, 22, 95, -88, -15, 58, -125, -52],
    },
    Case {
        name: "selection",
        body: r#"
    B[0:16] = T.Select(A[T.Ramp(0, 1, 16)] > T.float32(0), A[T.Ramp(0, 1, 16)], T.Broadcast(T.float32(-1), 16))
    D[0:16] = T.Select(C[0] > 0, C[T.Ramp(0, 1, 16)], C[T.Ramp(16, 1, 16)])
"#,
        b: &[-1.0, 2.0, -1.0, 3.25, -1.0, -1.0, 1.125, -1.0, 2.375, -1.0, 3.625, 0.25, -1.0, 1.5, -1.0, 2.75],
        d: &[21, 94, -89, -16, 57, -126, -53, 20, 93, -90, -17, 56, -127, -54, 19, 92],
    },
    Case {
        name: "comparison",
        body: r#"
    D[0:16] = T.Cast("int32x16", A[T.Ramp(0, 1, 16)] < A[T.Ramp(16, 1, 16)])
"#,
        b: &[],
        d: &[1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0],
    },
    Case {
        name: "functions",
        body: r#"
    B[0:16] = T.max(T.fabs(A[T.Ramp(0, 1, 16)]), T.floor(A[T.Ramp(16, 1, 16)])) + T.sqrt(T.fabs(A[T.Ramp(32, 1, 16)]))
    D[0:16] = T.popcount(C[T.Ramp(0, 1, 16)]) + (C[T.Ramp(0, 1, 16)] >> 2) - (C[T.Ramp(16, 1, 16)] << 3)
"#,
        b: &[
            3.7976040840148926,
            3.4142136573791504,
            2.995185136795044,
            4.116025447845459,
            2.9685020446777344,
            4.207106590270996,
            4.695582389831543,
            3.572875499725342,
            3.6497550010681152,
            2.732050895690918,
            4.237372398376465,
            3.9364917278289795,
            4.0604143142700195,
            4.581138610839844,
            3.332737922668457,
            3.8680338859558105,
        ],
        d: &[-172, -736, 721, 154, -450, 1033, 443, -165, -728, 728, 165, -443, 1041, 450, -157, -721],
    },
    Case {
        name: "integers",
        body: r#"
    D[0:16] = C[T.Ramp(0, 1, 16)] // 7 * 100 + C[T.Ramp(0, 1, 16)] % 7 + T.truncdiv(C[T.Ramp(16, 1, 16)], 5) - T.truncmod(C[T.Ramp(16, 1, 16)], T.Broadcast(5, 16))
"#,
        b: &[],
        d: &[-1794, -780, 289, 1303, -1287, -224, 796, -1794, -780, 283, 1303, -1287, -317, 796, -1800, -780],
    },
    Case {
        name: "conversions",
        body: r#"
    B[0:16] = T.Cast("float32x16", X[T.Ramp(0, 1, 16)]) + T.Cast("float32x16", Y[T.Ramp(0, 1, 16)])
    D[0:16] = T.Cast("int32x16", T.Cast("uint8x16", C[T.Ramp(0, 1, 16)]))
"#,
        b: &[-118.0, 26.0, 170.0, 58.0, 202.0, 90.0, -22.0, 122.0, 266.0, 154.0, 42.0, 186.0, 74.0, 218.0, 106.0, -6.0],
        d: &[133, 206, 23, 96, 169, 242, 59, 132, 205, 22, 95, 168, 241, 58, 131, 204],
    },
    Case {
        name: "lets",
        body: r#"
    v = T.float32x16()
    B[0:16] = T.Let(v * v + v, where={v: A[T.Ramp(0, 1, 16)]})
"#,
        b: &[
            4.265625, 6.0, 0.515625, 13.8125, -0.109375, 8.75, 2.390625, 2.8125, 8.015625, 0.0, 16.765625, 0.3125,
            6.640625, 3.75, 1.640625, 10.3125,
        ],
        d: &[],
    },
    Case {
        name: "shuffles",
        body: r#"
    B[0:8] = T.Shuffle([A[T.Ramp(0, 1, 4)], A[T.Ramp(8, 1, 4)]], [7, 0, 6, 1, 5, 2, 4, 3])
    B[8:12] = T.Shuffle([A[0], A[1], A[2], A[3]], [3, 3, 0, 1])
    B[12] = T.Shuffle([A[T.Ramp(0, 1, 8)]], [5])
"#,
        b: &[0.25, -2.625, 3.625, 2.0, -1.0, -1.375, 2.375, 3.25, 3.25, 3.25, -2.625, 2.0, -3.5, -1.0, -1.0, -1.0],
        d: &[],
    },
    Case {
        name: "halves",
        body: r#"
    B[0:4] = T.vectorhigh("float32x4", A[T.Ramp(0, 1, 8)])
    B[4:8] = T.vectorlow("float32x4", A[T.Ramp(0, 1, 8)])
    B[8:16] = T.vectorcombine("float32x8", A[T.Ramp(16, 1, 4)], A[T.Ramp(0, 1, 4)])
"#,
        b: &[
            -0.125, -3.5, 1.125, -2.25, -2.625, 2.0, -1.375, 3.25, -0.625, -4.0, 0.625, -2.75, -2.625, 2.0, -1.375,
            3.25,
        ],
        d: &[],
    },
    Case {
        name: "reinterpretation",
        body: r#"
    D[0:16] = T.reinterpret("int32x16", A[T.Ramp(0, 1, 16)])
    B[0] = T.reinterpret("float32", 1078530011)
"#,
        b: &[
            3.1415927410125732,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
            -1.0,
        ],
        d: &[
            -1071120384,
            1073741824,
            -1078984704,
            1078984704,
            -1107296256,
            -1067450368,
            1066401792,
            -1072693248,
            1075314688,
            -1082130432,
            1080557568,
            1048576000,
            -1069023232,
            1069547520,
            -1074790400,
            1076887552,
        ],
    },
    Case {
        name: "narrow_to_wide",
        body: r#"
    D[0:16] = T.reinterpret("int32x16", X[T.Ramp(0, 1, 64)])
"#,
        b: &[],
        d: &[
            415064583,
            -2077634957,
            -258655521,
            1543611979,
            -932375881,
            886668835,
            -1606030705,
            212948731,
            2015216231,
            -460771629,
            1358273087,
            -1134491989,
            684552727,
            -1808146813,
            10832623,
            1813100123,
        ],
    },
    Case {
        name: "wide_to_narrow",
        body: r#"
    D[0:16] = T.Cast("int32x16", T.reinterpret("int8x16", C[T.Ramp(0, 1, 4)]))
"#,
        b: &[],
        d: &[-123, -1, -1, -1, -50, -1, -1, -1, 23, 0, 0, 0, 96, 0, 0, 0],
    },
    Case {
        name: "floats_to_halves",
        body: r#"
    D[0:16] = T.Cast("int32x16", T.reinterpret("uint16x16", A[T.Ramp(0, 1, 8)]))
"#,
        b: &[],
        d: &[0, 49192, 0, 16384, 0, 49072, 0, 16464, 0, 48640, 0, 49248, 0, 16272, 0, 49168],
    },
    Case {
        name: "dot_by_hand",
        body: r#"
    D[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.pmaddw.d.512", T.call_llvm_pure_intrin("int16x32", "llvm.x86.avx512.pmaddubs.w.512", X[T.Ramp(0, 1, 64)], Y[T.Ramp(0, 1, 64)]), T.Broadcast(T.int16(1), 32))
"#,
        b: &[],
        d: &[
            -10706, -17794, -13746, -354, 21358, -322, 1166, -3618, 9902, -10754, 18126, -4322, -13842, 24416, -7922,
            -5794,
        ],
    },
    Case {
        name: "dot_of_bytes",
        body: r#"
    D[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", C[T.Ramp(0, 1, 16)], X[T.Ramp(0, 1, 64)], Y[T.Ramp(0, 1, 64)])
"#,
        b: &[],
        d: &[
            -10829, -17844, -13723, -258, 21271, -336, 1225, -3742, 9851, -10732, 18221, -4410, -13857, 28536, -8047,
            -5846,
        ],
    },
    Case {
        name: "dot_of_named_bytes",
        body: r#"
    x: T.let[T.int32x16] = T.reinterpret("int32x16", X[T.Ramp(0, 1, 64)])
    y: T.int8x64 = Y[T.Ramp(0, 1, 64)]
    words: T.int32x16 = T.reinterpret("int32x16", y)
    sums: T.int32x16 = C[T.Ramp(0, 1, 16)]
    D[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", sums, x, words)
"#,
        b: &[],
        d: &[
            -10829, -17844, -13723, -258, 21271, -336, 1225, -3742, 9851, -10732, 18221, -4410, -13857, 28536, -8047,
            -5846,
        ],
    },
    Case {
        name: "dot_in_steps",
        body: r#"
    y: T.int8x64 = Y[T.Ramp(0, 1, 64)]
    low: T.int8x32 = T.vectorlow("int8x32", y)
    first: T.int16x32 = T.call_llvm_pure_intrin("int16x32", "llvm.aarch64.neon.smull.v32i16", low, T.vectorhigh("int8x32", y))
    second: T.int16x32 = T.call_llvm_pure_intrin("int16x32", "llvm.aarch64.neon.smull", Y[T.Ramp(16, 1, 32)], low)
    D[0:16] = C[T.Ramp(0, 1, 16)] + T.call_llvm_pure_intrin("int32x16", "llvm.aarch64.neon.addp", T.call_llvm_pure_intrin("int32x16", "llvm.aarch64.neon.saddlp", first), T.call_llvm_pure_intrin("int32x16", "llvm.aarch64.neon.saddlp", second))
"#,
        b: &[],
        d: &[
            -10757, -10988, -13651, -7226, -6049, -13960, -1519, -10198, 7715, -5316, -811, -12306, -14969, -6496,
            -5319, -4014,
        ],
    },
    Case {
        name: "names_of_what_is_written",
        body: r#"
    for step in range(2):
        old: T.let[T.int32x15] = D[T.Ramp(0, 1, 15)]
        D[1:16] = old + C[T.Ramp(0, 1, 15)]
"#,
        b: &[],
        d: &[-1, -124, -174, -28, 118, 8, -102, 44, -66, -176, -30, 116, 6, -104, 42, -68],
    },
    Case {
        name: "names_used_twice",
        body: r#"
    product: T.int32x16 = C[T.Ramp(0, 1, 16)] * C[T.Ramp(16, 1, 16)]
    low: T.int32x8 = T.vectorlow("int32x8", product)
    D[0:16] = product + T.Shuffle([low], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7])
"#,
        b: &[],
        d: &[
            -5166, -7283, -6747, -6236, -7006, -283, -4663, -4016, -9702, -6939, 149, -3164, -1222, -6259, -4855, -7264,
        ],
    },
    Case {
        name: "fixed_point",
        body: r#"
    for i in range(16):
        D[i] = T.q_multiply_shift(C[i] * 1000, 1395864371, 31, -2)
"#,
        b: &[],
        d: &[
            -19987, -8125, 3737, 15600, -14137, -2275, 9587, -20150, -8287, 3575, 15437, -14300, -2437, 9425, -20312,
            -8450,
        ],
    },
    Case {
        name: "fixed_point_left",
        body: r#"
    for i in range(16):
        D[i] = T.q_multiply_shift(C[i], 1610612736, 31, 3)
"#,
        b: &[],
        d: &[-738, -300, 138, 576, -522, -84, 354, -744, -306, 132, 570, -528, -90, 348, -750, -312],
    },
    Case {
        name: "fixed_point_half",
        body: r#"
    for i in range(16):
        D[i] = T.q_multiply_shift(C[i], 1073741824, 31, -1)
"#,
        b: &[],
        d: &[-31, -12, 6, 24, -22, -3, 15, -31, -13, 6, 24, -22, -4, 15, -31, -13],
    },
    Case {
        name: "fixed_point_per_axis",
        body: r#"
    for i in range(16):
        D[i] = T.q_multiply_shift_per_axis(C[i] * 1000, C[i + 16] * 8000000, 1, 2, 31, T.bool(True), T.bool(True))
"#,
        b: &[],
        d: &[
            -4811, -8754, -3813, -2861, -9237, 3286, -5824, -4619, -8835, -3688, -3008, -9179, 3548, -5834, -4424,
            -8911,
        ],
    },
    Case {
        name: "neighbours",
        body: r#"
    for i in range(16):
        B[i] = T.nextafter(A[i], A[i + 16])
"#,
        b: &[
            -2.624999761581421,
            1.9999998807907104,
            -1.3749998807907104,
            3.249999761581421,
            -0.1249999925494194,
            -3.499999761581421,
            1.1250001192092896,
            -2.249999761581421,
            2.374999761581421,
            -0.9999999403953552,
            3.624999761581421,
            0.2500000298023224,
            -3.124999761581421,
            1.5000001192092896,
            -1.8749998807907104,
            2.749999761581421,
        ],
        d: &[],
    },
    Case {
        name: "powers",
        body: r#"
    for i in range(16):
        B[i] = T.ldexp(A[i], C[i] // 8)
"#,
        b: &[
            -4.00543212890625e-05,
            0.015625,
            -5.5,
            13312.0,
            -6.103515625e-05,
            -0.875,
            144.0,
            -3.4332275390625e-05,
            0.0185546875,
            -4.0,
            7424.0,
            0.0001220703125,
            -0.78125,
            192.0,
            -2.86102294921875e-05,
            0.021484375,
        ],
        d: &[],
    },
    Case {
        name: "remainders",
        body: r#"
    for i in range(16):
        B[i] = T.truncmod(A[i], A[i + 16] + T.float32(0.0625))
"#,
        b: &[-0.375, 2.0, -0.0, 0.5625, -0.125, -0.625, 1.125, -0.0, 2.375, -1.0, 1.3125, 0.25, -1.0, 1.5, -0.0, 2.75],
        d: &[],
    },
    Case {
        name: "c_functions",
        body: r#"
    for i in range(16):
        B[i] = T.call_pure_extern("float32", "fmaf", A[i], A[i + 1], T.call_pure_extern("float32", "roundf", A[i + 2])) + T.call_pure_extern("float32", "fmaxf", A[i], A[i + 3])
"#,
        b: &[
            -3.0, 2.25, -5.84375, -1.15625, 1.3125, -3.5625, 0.59375, -2.71875, 4.0, -4.625, 1.53125, 1.46875, -3.9375,
            1.6875, -8.03125, -2.96875,
        ],
        d: &[],
    },
    Case {
        name: "llvm_functions",
        body: r#"
    for i in range(16):
        D[i] = T.call_llvm_pure_intrin("int32", "llvm.ctpop.i32", C[i])
    B[0:16] = T.call_llvm_pure_intrin("float32x16", "llvm.fabs.v16f32", A[T.Ramp(0, 1, 16)])
"#,
        b: &[2.625, 2.0, 1.375, 3.25, 0.125, 3.5, 1.125, 2.25, 2.375, 1.0, 3.625, 0.25, 3.125, 1.5, 1.875, 2.75],
        d: &[27, 29, 4, 2, 28, 29, 5, 26, 29, 3, 6, 27, 29, 4, 27, 28],
    },
    Case {
        name: "llvm_integers",
        body: r#"
    D[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.smax.v16i32", C[T.Ramp(0, 1, 16)], C[T.Ramp(16, 1, 16)]) + T.call_llvm_pure_intrin("int32x16", "llvm.umin.v16i32", C[T.Ramp(0, 1, 16)], C[T.Ramp(16, 1, 16)])
"#,
        b: &[],
        d: &[42, 188, 46, 192, 114, -140, 118, 40, 186, 44, 190, 112, -142, 116, 38, 184],
    },
    Case {
        name: "saturating",
        body: r#"
    D[0:16] = T.Cast("int32x16", T.call_llvm_pure_intrin("int8x16", "llvm.sadd.sat.v16i8", Y[T.Ramp(0, 1, 16)], Y[T.Ramp(16, 1, 16)])) + T.Cast("int32x16", T.call_llvm_pure_intrin("uint8x16", "llvm.usub.sat.v16i8", X[T.Ramp(0, 1, 16)], X[T.Ramp(16, 1, 16)]))
"#,
        b: &[],
        d: &[-128, 16, 122, 127, 78, -48, -46, 140, 207, 16, -48, 52, 78, 8, 34, -36],
    },
    Case {
        name: "float_ramp",
        body: r#"
    B[0:16] = T.Ramp(A[0], A[1], 16)
"#,
        b: &[
            -2.625, -0.625, 1.375, 3.375, 5.375, 7.375, 9.375, 11.375, 13.375, 15.375, 17.375, 19.375, 21.375, 23.375,
            25.375, 27.375,
        ],
        d: &[],
    },
    Case {
        name: "conditional_lanes",
        body: r#"
    B[0:16] = T.if_then_else(C[0] < 0, A[T.Ramp(0, 1, 16)], A[T.Ramp(16, 1, 16)])
"#,
        b: &[
            -2.625, 2.0, -1.375, 3.25, -0.125, -3.5, 1.125, -2.25, 2.375, -1.0, 3.625, 0.25, -3.125, 1.5, -1.875, 2.75,
        ],
        d: &[],
    },
    Case {
        name: "buffer_of_vectors",
        body: r#"
    V = T.sblock_alloc_buffer((4,), "float32x4")
    for i in range(4):
        V[i] = A[T.Ramp(i * 4, 1, 4)] + T.Broadcast(A[i], 4)
    for i in range(4):
        B[i * 4:i * 4 + 4] = V[3 - i]
"#,
        b: &[0.125, 4.75, 1.375, 6.0, 1.0, -2.375, 2.25, -1.125, 1.875, -1.5, 3.125, -0.25, -5.25, -0.625, -4.0, 0.625],
        d: &[],
    },
    Case {
        name: "argsort",
        body: r#"
    S = T.sblock_alloc_buffer((16,), "int32")
    for i in range(16):
        S[i] = C[i] % 7
    T.call_packed("tvm.contrib.sort.argsort", T.tvm_stack_make_array(S.data, T.tvm_stack_make_shape(16), 0, 1, 0, 0), T.tvm_stack_make_array(D.data, T.tvm_stack_make_shape(16), 0, 1, 0, 0), 0, T.bool(True))
"#,
        b: &[],
        d: &[5, 9, 14, 2, 7, 13, 0, 6, 11, 4, 10, 15, 3, 8, 1, 12],
    },
    Case {
        name: "argsort_of_rows",
        body: r#"
    S = T.sblock_alloc_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        S[i, j] = A[i * 4 + j]
    R = T.sblock_alloc_buffer((4, 4), "int32")
    T.call_packed("tvm.contrib.sort.argsort", T.tvm_stack_make_array(S.data, T.tvm_stack_make_shape(4, 4), 0, 2, T.float32(0.0), 0), T.tvm_stack_make_array(R.data, T.tvm_stack_make_shape(4, 4), 0, 2, 0, 0), -1, T.bool(False))
    for i, j in T.grid(4, 4):
        D[i * 4 + j] = R[i, j]
"#,
        b: &[],
        d: &[3, 1, 2, 0, 2, 0, 3, 1, 2, 0, 3, 1, 3, 1, 2, 0],
    },
    Case {
        name: "sort",
        body: r#"
    S = T.sblock_alloc_buffer((16,), "float32")
    for i in range(16):
        S[i] = A[i]
    T.call_packed("tvm.contrib.sort.sort", T.tvm_stack_make_array(S.data, T.tvm_stack_make_shape(16), 0, 1, T.float32(0.0), 0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(16), 0, 1, T.float32(0.0), 0), 0, T.bool(False))
"#,
        b: &[
            3.625, 3.25, 2.75, 2.375, 2.0, 1.5, 1.125, 0.25, -0.125, -1.0, -1.375, -1.875, -2.25, -2.625, -3.125, -3.5,
        ],
        d: &[],
    },
    Case {
        name: "topk",
        body: r#"
    S = T.sblock_alloc_buffer((64,), "float32")
    for i in range(64):
        S[i] = A[i] * A[i]
    T.call_packed("tvm.contrib.sort.topk", T.tvm_stack_make_array(S.data, T.tvm_stack_make_shape(64), 0, 1, T.float32(0.0), 0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(16), 0, 1, T.float32(0.0), 0), T.tvm_stack_make_array(D.data, T.tvm_stack_make_shape(16), 0, 1, 0, 0), 16, 0, "both", T.bool(False))
"#,
        b: &[
            16.0, 15.015625, 15.015625, 14.0625, 14.0625, 13.140625, 13.140625, 12.25, 12.25, 11.390625, 11.390625,
            10.5625, 10.5625, 9.765625, 9.765625, 9.0,
        ],
        d: &[17, 36, 62, 43, 55, 10, 24, 5, 29, 48, 50, 3, 31, 12, 22, 41],
    },
];

/// The products and sums of floats of 8 bits, and the bits of the products.
type Float8Results = ([f32; 16], [i32; 16]);

const FLOAT8: &[(&str, Float8Results)] = &[
    (
        "float8_e3m4",
        (
            [3.0, -10.0, 1.75, -10.0, 3.625, 5.75, 0.625, 2.25, -10.0, 2.0, -9.0, -3.25, 4.5, 2.75, 1.875, -10.0],
            [58, 224, 172, 226, 143, 85, 76, 34, 225, 176, 225, 34, 76, 85, 143, 226],
        ),
    ),
    (
        "float8_e4m3",
        (
            [3.0, -10.0, 1.625, -10.0, 3.75, 5.5, 0.5, 2.25, -11.0, 2.0, -9.0, -3.25, 4.5, 2.5, 1.75, -10.0],
            [60, 208, 182, 209, 167, 74, 70, 49, 209, 184, 209, 49, 70, 74, 167, 209],
        ),
    ),
    (
        "float8_e4m3b11fnuz",
        (
            [3.0, -10.0, 1.625, -10.0, 3.75, 5.5, 0.5, 2.25, -11.0, 2.0, -9.0, -3.25, 4.5, 2.5, 1.75, -10.0],
            [92, 240, 214, 241, 199, 106, 102, 81, 241, 216, 241, 81, 102, 106, 199, 241],
        ),
    ),
    (
        "float8_e4m3fn",
        (
            [3.0, -10.0, 1.625, -10.0, 3.75, 5.5, 0.5, 2.25, -11.0, 2.0, -9.0, -3.25, 4.5, 2.5, 1.75, -10.0],
            [60, 208, 182, 209, 167, 74, 70, 49, 209, 184, 209, 49, 70, 74, 167, 209],
        ),
    ),
    (
        "float8_e4m3fnuz",
        (
            [3.0, -10.0, 1.625, -10.0, 3.75, 5.5, 0.5, 2.25, -11.0, 2.0, -9.0, -3.25, 4.5, 2.5, 1.75, -10.0],
            [68, 216, 190, 217, 175, 82, 78, 57, 217, 192, 217, 57, 78, 82, 175, 217],
        ),
    ),
    (
        "float8_e5m2",
        (
            [3.0, -10.0, 1.5, -8.0, 4.0, 6.0, 0.0, 2.0, -10.0, 2.0, -8.0, -3.5, 4.0, 2.5, 1.75, -10.0],
            [62, 200, 188, 200, 180, 69, 66, 56, 200, 188, 200, 56, 66, 69, 180, 200],
        ),
    ),
    (
        "float8_e5m2fnuz",
        (
            [3.0, -10.0, 1.5, -8.0, 4.0, 6.0, 0.0, 2.0, -10.0, 2.0, -8.0, -3.5, 4.0, 2.5, 1.75, -10.0],
            [66, 204, 192, 204, 184, 73, 70, 60, 204, 192, 204, 60, 70, 73, 184, 204],
        ),
    ),
];
