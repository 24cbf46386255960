//! Ranges of loops and block iterations: steps, starts, types, empty ranges.

use super::{A, N, check, execute, interpret, program, read, refused};
use tvmr::codegen::RuntimeFailure;
use tvmr::ir::interp::Fault;
use tvmr::script::{Dialect, ParseOptions, parse};

/// Bodies of the current dialect, and the final contents of `B`.
const RANGES: &[(&str, &str, [f64; 8])] = &[
    (
        "steps",
        r#"
for i in range(0, 8, 3):
    B[i] = A[i]
for i in T.serial(1, 6, step=2, annotations={"k": 1}):
    B[i] = B[i] + T.float32(10)
"#,
        [0.5, 10.0, 0.0, 13.25, 0.0, 10.0, 6.5, 0.0],
    ),
    (
        "steps_of_all_kinds",
        r#"
for i in T.parallel(0, 8, step=2):
    B[i] = A[i]
for i in T.vectorized(1, 8, step=4):
    B[i] = A[i]
for i in T.unroll(3, 8, step=4):
    B[i] = A[i] * T.float32(2)
"#,
        [0.5, -1.0, 2.0, 6.5, -4.0, 5.0, 6.5, -1.5],
    ),
    (
        "step_beyond_the_end",
        r#"
for i in range(2, 4, 100):
    B[i] = A[i]
"#,
        [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ),
    (
        "steps_that_are_computed",
        r#"
for k in range(2):
    for i in range(k, 8, k + 3):
        B[i] = B[i] + T.float32(1)
"#,
        [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
    ),
    (
        "blocks_below_a_step",
        r#"
for i in range(0, 8, 4):
    for j in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i + j)
            B[vi] = A[vi] + T.float32(1)
"#,
        [1.5, 0.0, 3.0, 4.25, -3.0, 6.0, 7.5, 0.25],
    ),
    (
        "reduction_with_a_step",
        r#"
for i, k in T.grid(8, 1):
    for k2 in range(0, 8, 3):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, k2)
            with T.init():
                B[vi] = T.float32(1)
            B[vi] = B[vi] + A[vk]
"#,
        [11.25, 11.25, 11.25, 11.25, 11.25, 11.25, 11.25, 11.25],
    ),
    (
        "jumps_below_a_step",
        r#"
for i in range(0, 8, 3):
    if i == 3:
        continue
    B[i] = A[i]
"#,
        [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 6.5, 0.0],
    ),
    (
        "starts_below_zero",
        r#"
for i in range(-3, 5):
    B[i + 3] = A[i + 3]
for i, j in T.grid((-1, 2), (2, 2)):
    B[i + 1] = B[i + 1] + T.Cast("float32", j)
"#,
        [5.5, 4.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "starts_that_are_computed",
        r#"
for i in range(4):
    for j in T.serial(i * 2, i * 2 + 2):
        B[j] = A[j] + T.Cast("float32", i)
"#,
        [0.5, -1.0, 3.0, 4.25, -2.0, 7.0, 9.5, 2.25],
    ),
    (
        "nothing",
        r#"
for i in range(0):
    B[i] = A[i]
for i in range(5, 3):
    B[i] = A[i]
for i, j in T.grid(0, 4):
    B[j] = A[j]
for i in range(4):
    with T.sblock("B"):
        vi = T.axis.spatial(0, i)
        B[vi] = A[vi]
"#,
        [0.0; 8],
    ),
    (
        "unsigned_and_narrow_loops",
        r#"
for i in range(T.uint32(4)):
    B[i] = A[i]
for i in T.serial(T.uint8(4), T.uint8(6)):
    B[i] = A[i] + T.Cast("float32", i)
for i in T.grid(T.int16(2)):
    B[i + T.int16(6)] = T.Cast("float32", i)
"#,
        [0.5, -1.0, 2.0, 3.25, 0.0, 10.0, 0.0, 1.0],
    ),
    (
        "wide_bindings",
        r#"
for i in range(T.int64(8)):
    with T.sblock("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.Cast("float32", N[vi])
"#,
        [3.5, -3.0, 2.0, 10.25, -3.0, 0.0, 10.5, 1.25],
    ),
    (
        "narrow_bindings",
        r#"
for i, k in T.grid(4, T.int64(2)):
    with T.sblock("B"):
        vi = T.axis.spatial(T.int64(8), i)
        vk = T.axis.reduce(2, k)
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi * T.int64(2) + vk]
"#,
        [-0.5, 5.25, 1.0, 5.75, 0.0, 0.0, 0.0, 0.0],
    ),
    (
        "unsigned_bindings",
        r#"
for i in range(T.uint32(8)):
    with T.sblock("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi]
"#,
        A,
    ),
];

#[test]
fn loops_run_through_their_ranges() {
    for (name, body, expected) in RANGES {
        check(name, &program(Dialect::Current, body), *expected);
    }
}

#[test]
fn a_step_is_positive() {
    refused(&program(Dialect::Current, "for i in range(8, 0, -2):\n    B[i] = A[i]"), "loop-step");
    refused(&program(Dialect::Current, "for i in range(0, 8, 0):\n    B[i] = A[i]"), "loop-step");
    // A computed step is checked when the loop is entered: `N[1]` is -2.
    let text = program(Dialect::Current, "for i in range(0, 8, N[1]):\n    B[i] = A[i]");
    const { assert!(N[1] < 0.0) };
    let func = read(&text);
    let message = "the step of loop `i` must be positive";
    assert_eq!(interpret(&func), Err(Fault::Assertion { kind: "ValueError".into(), message: message.into() }));
    assert_eq!(execute(&func, 1), Err(RuntimeFailure::Assertion { index: 0 }));
}

#[test]
fn blocks_need_not_list_what_they_access() {
    let body = r#"
for i in range(8):
    with T.sblock("B"):
        vi = T.axis.spatial(8, i)
        T.reads()
        T.writes(B[vi])
        B[vi] = A[vi]
for i in range(8):
    with T.sblock("N"):
        vi = T.axis.spatial(8, i)
        T.reads(B[vi])
        T.writes(N[vi])
        B[vi] = B[vi] + T.Cast("float32", N[vi])
"#;
    let parsed = parse(&program(Dialect::Current, body), "test", &ParseOptions::default()).expect("reads");
    let codes: Vec<&str> = parsed.warnings.iter().map(|w| w.code).collect();
    assert_eq!(codes, ["unlisted-read", "unlisted-write"]);
    let func = &parsed.module.funcs[0];
    let expected = [3.5, -3.0, 2.0, 10.25, -3.0, 0.0, 10.5, 1.25];
    assert_eq!(interpret(func).as_deref(), Ok(&expected[..]));
    assert_eq!(execute(func, 1).as_deref(), Ok(&expected[..]));
}
