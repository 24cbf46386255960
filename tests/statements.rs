//! Statements besides loops, blocks and stores: let bindings and variables, views, jumps, assertions.
//!
//! Each program runs in the interpreter, as loop IR after lowering, and as machine code; all must give the results
//! listed here, which are those of TVM 0.27 for the same text (or follow from its documentation where it does not
//! compile the text). The printed programs in both dialects must give the same results, and print the same again.

#[path = "statements/barriers.rs"]
mod barriers;
#[path = "statements/calls.rs"]
mod calls;
#[path = "statements/ranges.rs"]
mod ranges;

use std::collections::BTreeMap;
use tvmr::codegen::{CodegenOptions, RunContext, RuntimeFailure, compile, compile_plain};
use tvmr::ir::DType;
use tvmr::ir::Func;
use tvmr::ir::interp::{self, Arg, Fault, Options, Tensor, Value};
use tvmr::ir::verify::{Checks, verify};
use tvmr::lower::lower;
use tvmr::script::{Dialect, ParseOptions, parse, print_module};

const A: [f64; 8] = [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75];
const N: [f64; 8] = [3.0, -2.0, 0.0, 7.0, 1.0, -5.0, 4.0, 2.0];

/// Bodies over `A` (float32), `N` (int32) and `B` (float32), of 8 elements each, and what `B` holds at the end.
const CURRENT: &[(&str, &str, [f64; 8])] = &[
    (
        "annotated",
        r#"
for i in range(8):
    x: T.float32 = A[i]
    x = x + T.float32(1)
    B[i] = x
"#,
        [1.5, 0.0, 3.0, 4.25, -3.0, 6.0, 7.5, 0.25],
    ),
    (
        "plain",
        r#"
for i in range(8):
    x = A[i]
    A[i] = T.float32(9)
    B[i] = x
"#,
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "plain_updated_in_loop",
        r#"
x = A[0]
for i in range(8):
    x = x + A[i]
    B[i] = x
"#,
        [1.0, 0.0, 2.0, 5.25, 1.25, 6.25, 12.75, 12.0],
    ),
    (
        "constant",
        r#"
x = 3
for i in range(8):
    x = x + 1
    B[i] = T.Cast("float32", x)
"#,
        [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0],
    ),
    (
        "loop_variable",
        r#"
for i in range(8):
    x = i
    x = x * 2
    B[i] = T.Cast("float32", x)
"#,
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0],
    ),
    (
        "uninitialised",
        r#"
for i in range(8):
    u: T.int32
    u = N[i]
    u += 1
    B[i] = T.Cast("float32", u)
"#,
        [4.0, -1.0, 1.0, 8.0, 2.0, -4.0, 5.0, 3.0],
    ),
    (
        "let_is_read_once",
        r#"
for i in range(8):
    x: T.let[T.float32] = A[i]
    A[i] = T.float32(9)
    B[i] = x
"#,
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "meta_var_is_read_again",
        r#"
for i in range(8):
    x = T.meta_var(A[i])
    A[i] = T.float32(9)
    B[i] = x
"#,
        [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0],
    ),
    (
        "alias",
        r#"
Q = A
for i in range(8):
    Q[i] = Q[i] + T.float32(1)
    B[i] = A[i]
"#,
        [1.5, 0.0, 3.0, 4.25, -3.0, 6.0, 7.5, 0.25],
    ),
    (
        "tuple",
        r#"
for i in range(8):
    a, b = A[i], N[i]
    a = a + T.float32(1)
    b = b + 1
    B[i] = a * T.Cast("float32", b)
"#,
        [6.0, -0.0, 3.0, 34.0, -6.0, -24.0, 37.5, 0.75],
    ),
    (
        "bind",
        r#"
for i in range(8):
    x = T.bind(A[i])
    A[i] = T.float32(9)
    B[i] = x
"#,
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "updates",
        r#"
for i in range(8):
    x: T.int32 = N[i]
    x += 3
    x *= 2
    x -= 1
    B[i] = T.Cast("float32", x)
"#,
        [11.0, 1.0, 5.0, 19.0, 7.0, -5.0, 13.0, 9.0],
    ),
    (
        "in_branch",
        r#"
for i in range(8):
    x: T.float32 = T.float32(0)
    if N[i] > 0:
        x = A[i]
    else:
        x = x - T.float32(1)
    B[i] = x
"#,
        [0.5, -1.0, -1.0, 3.25, -4.0, -1.0, 6.5, -0.75],
    ),
    (
        "scope_ends",
        r#"
for i in range(8):
    x = A[i]
    B[i] = x
for i in range(8):
    x = N[i]
    B[i] = B[i] + T.Cast("float32", x)
"#,
        [3.5, -3.0, 2.0, 10.25, -3.0, 0.0, 10.5, 1.25],
    ),
    (
        "converted",
        r#"
for i in range(8):
    x: T.float32 = 1
    x = N[i]
    B[i] = x
"#,
        [3.0, -2.0, 0.0, 7.0, 1.0, -5.0, 4.0, 2.0],
    ),
    (
        "one_element_buffer",
        r#"
v = T.alloc_local((1,), "float32")
for i in range(8):
    v = A[i]
    B[i] = v[0] * T.float32(2)
"#,
        [1.0, -2.0, 4.0, 6.5, -8.0, 10.0, 13.0, -1.5],
    ),
    (
        "array",
        r#"
v: T.float32[2]
for i in range(8):
    v[0] = A[i]
    v[1] = v[0] + T.float32(1)
    B[i] = v[1]
"#,
        [1.5, 0.0, 3.0, 4.25, -3.0, 6.0, 7.5, 0.25],
    ),
    (
        "shared",
        r#"
x = T.shared_scalar("float32")
for i in range(8):
    x = A[i]
    B[i] = x
"#,
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "while",
        r#"
for i in range(8):
    n: T.int32 = 0
    while n * n < i:
        n = n + 1
    B[i] = T.Cast("float32", n)
"#,
        [0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0],
    ),
    (
        "while_integer",
        r#"
n: T.int32 = 8
while n:
    n = n - 1
    B[n] = T.Cast("float32", n)
"#,
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    ),
    (
        "break_for",
        r#"
for i in range(8):
    s: T.int32 = 0
    for k in range(8):
        if k > i:
            break
        s = s + N[k]
    B[i] = T.Cast("float32", s)
"#,
        [3.0, 1.0, 1.0, 8.0, 9.0, 4.0, 8.0, 10.0],
    ),
    (
        "continue_for",
        r#"
for i in range(8):
    s: T.int32 = 0
    for k in range(8):
        if N[k] < 0:
            continue
        s = s + N[k]
    B[i] = T.Cast("float32", s)
"#,
        [17.0, 17.0, 17.0, 17.0, 17.0, 17.0, 17.0, 17.0],
    ),
    (
        "break_while",
        r#"
for i in range(8):
    n: T.int32 = 0
    while n < 100:
        n = n + 1
        if n == 2:
            continue
        if n > i:
            break
        n = n + 1
    B[i] = T.Cast("float32", n)
"#,
        [1.0, 3.0, 3.0, 5.0, 5.0, 7.0, 7.0, 9.0],
    ),
    (
        "nested_breaks",
        r#"
for i in range(8):
    s: T.int32 = 0
    for j in range(4):
        for k in range(4):
            if k == j:
                break
            s = s + 1
        if j == i:
            break
    B[i] = T.Cast("float32", s)
"#,
        [0.0, 1.0, 3.0, 6.0, 6.0, 6.0, 6.0, 6.0],
    ),
    (
        "if_integer",
        r#"
for i in range(8):
    B[i] = T.float32(1)
    if N[i]:
        B[i] = A[i]
"#,
        [0.5, -1.0, 1.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "declared",
        r#"
V = T.decl_buffer((2, 2), "float32", data=A.data, elem_offset=2, strides=[2, 1])
for i in range(8):
    B[i] = V[i // 2 % 2, i % 2]
"#,
        [2.0, 3.25, -4.0, 5.0, 2.0, 3.25, -4.0, 5.0],
    ),
    (
        "view",
        r#"
V = A.view(2, 4)
W = B.view(4, 2)
for i in range(8):
    W[i // 2, i % 2] = V[i % 2, i // 2]
"#,
        [0.5, -4.0, -1.0, 5.0, 2.0, 6.5, 3.25, -0.75],
    ),
    (
        "view_of_view",
        r#"
V = A.view(2, 4).view(8)
for i in range(8):
    V[i] = V[i] + T.float32(1)
    B[i] = A[7 - i]
"#,
        [-0.75, 6.5, 5.0, -4.0, 4.25, 3.0, 0.0, 1.5],
    ),
    (
        "handle",
        r#"
h: T.let[T.handle("float32")] = A.data
V = T.decl_buffer((8,), "float32", data=h)
for i in range(8):
    V[i] = V[i] * T.float32(2)
    B[i] = A[i]
"#,
        [1.0, -2.0, 4.0, 6.5, -8.0, 10.0, 13.0, -1.5],
    ),
    (
        "handle_plain",
        r#"
h = A.data
V = T.decl_buffer((8,), "float32", data=h)
for i in range(8):
    B[i] = V[i]
"#,
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "decl_without_data",
        r#"
V = T.decl_buffer((8,), "float32")
for i in range(8):
    V[i] = A[i]
for i in range(8):
    B[i] = V[7 - i]
"#,
        [-0.75, 6.5, 5.0, -4.0, 3.25, 2.0, -1.0, 0.5],
    ),
    (
        "alloc_in_loop",
        r#"
for i in range(8):
    X = T.alloc_buffer((4,), "float32", scope="local")
    for k in range(4):
        X[k] = A[i] * T.Cast("float32", k)
    B[i] = X[3] + X[1]
"#,
        [2.0, -4.0, 8.0, 13.0, -16.0, 20.0, 26.0, -3.0],
    ),
    (
        "attr",
        r#"
for i in range(8):
    with T.attr(0, "pragma_x", 1):
        B[i] = A[i]
    T.attr({"a": 1})
    B[i] = B[i] + T.float32(1)
"#,
        [1.5, 0.0, 3.0, 4.25, -3.0, 6.0, 7.5, 0.25],
    ),
    (
        "assert_holds",
        r#"
for i in range(8):
    assert N[i] < 100, "too large"
    B[i] = A[i]
"#,
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
];

/// Bodies of the classic dialect, where an assigned name is a value.
const CLASSIC: &[(&str, &str, [f64; 8])] = &[
    (
        "plain",
        "for i in range(8):\n    x = A[i]\n    A[i] = T.float32(9)\n    B[i] = x",
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "annotated",
        "for i in range(8):\n    x: T.float32 = A[i]\n    A[i] = T.float32(9)\n    B[i] = x",
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "a_second_value_in_a_branch_ends_with_it",
        "for i in range(8):\n    x = A[i]\n    if N[i] > 0:\n        x = A[i] + T.float32(1)\n        A[i] = x\n    B[i] = x",
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "let_stmt",
        "for i in range(8):\n    with T.LetStmt(A[i]) as x:\n        A[i] = T.float32(9)\n        B[i] = x",
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "let_stmt_with_var",
        "x = T.var(\"float32\")\nfor i in range(8):\n    with T.LetStmt(A[i], var=x):\n        B[i] = x + x",
        [1.0, -2.0, 4.0, 6.5, -8.0, 10.0, 13.0, -1.5],
    ),
    (
        "allocate",
        "p = T.allocate([4], \"float32\", \"local\")\nX = T.decl_buffer((2, 2), data=p, scope=\"local\")\nfor i in range(8):\n    X[1, 1] = A[i]\n    B[i] = X[1, 1]",
        [0.5, -1.0, 2.0, 3.25, -4.0, 5.0, 6.5, -0.75],
    ),
    (
        "alloc_buffer",
        "X = T.alloc_buffer((8,))\nfor i in range(8):\n    X[i] = A[i]\nfor i in range(8):\n    B[i] = X[7 - i]",
        [-0.75, 6.5, 5.0, -4.0, 3.25, 2.0, -1.0, 0.5],
    ),
];

fn program(dialect: Dialect, body: &str) -> String {
    let head = match dialect {
        Dialect::Current => "@T.prim_func(s_tir=True)\n",
        Dialect::Classic => "from tvm.script import tir as T\n@T.prim_func\n",
    };
    let params = "A: T.Buffer((8,), \"float32\"), N: T.Buffer((8,), \"int32\"), B: T.Buffer((8,), \"float32\")";
    let body: String = body.trim_matches('\n').lines().map(|l| format!("    {l}\n")).collect();
    format!("{head}def main({params}):\n{body}")
}

fn read(text: &str) -> Func {
    let parsed = parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let func = parsed.module.funcs[0].clone();
    assert_eq!(verify(&func, Checks::ALL), [], "{text}");
    func
}

fn refused(text: &str, code: &str) {
    match parse(text, "test", &ParseOptions { bind: BTreeMap::new(), ..Default::default() }) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(e) => assert!(e.to_string().contains(&format!("error[{code}]")), "{e}"),
    }
}

fn interpret(func: &Func) -> Result<Vec<f64>, Fault> {
    let floats = |v: [f64; 8]| Tensor::from_values(DType::Float32, &[8], v.into_iter().map(Value::Float));
    let ints = Tensor::from_values(DType::Int32, &[8], N.into_iter().map(|v| Value::Int(v as i64)));
    let mut args = [Arg::Tensor(floats(A)), Arg::Tensor(ints), Arg::Tensor(floats([0.0; 8]))];
    interp::run(func, &mut args, Options { max_steps: 1 << 20, ..Options::default() }).map_err(|e| e.fault)?;
    Ok(args[2].tensor().expect("a tensor").to_f64s())
}

#[repr(align(64))]
struct Floats([f32; 16]);
#[repr(align(64))]
struct Ints([i32; 16]);

#[expect(unsafe_code, reason = "compiled code takes pointers")]
fn execute(func: &Func, threads: u32) -> Result<Vec<f64>, RuntimeFailure> {
    let kernel = lower(func).unwrap_or_else(|e| panic!("{e}"));
    let options = CodegenOptions { threads, ..CodegenOptions::default() };
    let compiled = compile(&kernel, &options).expect("compiles");
    let (mut a, mut n, mut b) = (Floats([0.0; 16]), Ints([0; 16]), Floats([0.0; 16]));
    for i in 0..8 {
        (a.0[i], n.0[i]) = (A[i] as f32, N[i] as i32);
    }
    let args = [a.0.as_mut_ptr().cast(), n.0.as_mut_ptr().cast(), b.0.as_mut_ptr().cast()];
    // SAFETY: three arrays of more elements than the parameters have, aligned to 64 bytes, none shared.
    unsafe { compiled.call(&args, &mut RunContext::serial()) }?;
    Ok(b.0[..8].iter().map(|&v| f64::from(v)).collect())
}

fn check(name: &str, text: &str, expected: [f64; 8]) {
    let func = read(text);
    assert_eq!(interpret(&func).as_deref(), Ok(&expected[..]), "{name}: interpreted");
    assert_eq!(execute(&func, 1).as_deref(), Ok(&expected[..]), "{name}: compiled");
    let module = parse(text, "test", &ParseOptions::default()).expect("read before").module;
    for dialect in [Dialect::Classic, Dialect::Current] {
        let printed = print_module(&module, dialect);
        let again = parse(&printed, "printed", &ParseOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(print_module(&again.module, dialect), printed, "{name}: printed twice");
        let func = read(&printed);
        assert_eq!(interpret(&func).as_deref(), Ok(&expected[..]), "{name}: interpreted from\n{printed}");
    }
}

#[test]
fn names_and_statements_of_the_current_dialect() {
    for (name, body, expected) in CURRENT {
        check(name, &program(Dialect::Current, body), *expected);
    }
}

#[test]
fn names_and_statements_of_the_classic_dialect() {
    for (name, body, expected) in CLASSIC {
        check(name, &program(Dialect::Classic, body), *expected);
    }
}

/// A text without words specific to a dialect.
fn unmarked(body: &str) -> String {
    program(Dialect::Classic, body).replace("from tvm.script import tir as T\n", "")
}

#[test]
fn a_text_that_may_mean_two_things_is_refused() {
    // A value that is never assigned again is the same in both dialects.
    check("once", &unmarked("for i in range(8):\n    x = A[i]\n    B[i] = x"), A);
    let again = "x: T.float32 = T.float32(0)\nfor i in range(8):\n    x = x + A[i]\n    B[i] = x";
    refused(&unmarked(again), "ambiguous-assignment");
    refused(&unmarked(&again.replace("x = x + A[i]", "x += A[i]")), "ambiguous-assignment");
    // Words of both dialects together decide nothing.
    let mixed = format!("{}\n    T.func_attr({{\"tir.noalias\": True, \"tirx.x\": 1}})\n", "");
    let text = program(Dialect::Current, again).replacen("\n    x:", &format!("{mixed}    x:"), 1);
    refused(&text, "ambiguous-assignment");
    // A variable without an initial value means the current dialect.
    let uninitialised = "for i in range(8):\n    x: T.float32\n    x = A[i]\n    B[i] = x";
    check("without a value", &unmarked(uninitialised), A);
}

#[test]
fn what_tvm_refuses_is_refused() {
    let current = |body: &str| program(Dialect::Current, body);
    refused(&current("x: T.float32 = A[0]\nx: T.float32 = A[1]\nB[0] = x"), "duplicate-name");
    refused(&current("for i in range(8):\n    x = A[i]\nB[0] = x"), "undefined-name");
    refused(&current("u: T.let = A[0]\nu: T.let = A[1]\nB[0] = u"), "duplicate-name");
    refused(&current("a = b = A[0]\nB[0] = a"), "unsupported");
    refused(&current("assert N[0] > 0\nB[0] = A[0]"), "argument-count");
    refused(&current("break"), "jump-outside-loop");
    refused(&current("x: T.handle = A.data\nB[0] = A[0]"), "type-mismatch");
}

#[test]
fn an_assertion_that_fails_is_an_error_with_its_message() {
    let text = program(
        Dialect::Current,
        "for i in range(8):\n    assert N[i] >= 0, (\"ValueError\", [\"negative \", \"number\"])\n    B[i] = A[i]",
    );
    let func = read(&text);
    let message = "negative number".to_string();
    assert_eq!(interpret(&func), Err(Fault::Assertion { kind: "ValueError".into(), message }));
    assert_eq!(execute(&func, 1), Err(RuntimeFailure::Assertion { index: 0 }));
    let kernel = lower(&func).expect("lowers");
    assert_eq!(kernel.assertions, ["ValueError: negative number"]);
}

#[test]
fn names_for_memory_are_checked_against_it() {
    // Outside the shape of the name, but inside the memory.
    let text = program(
        Dialect::Current,
        "V = T.decl_buffer((1,), \"float32\", data=A.data)\nfor i in range(8):\n    B[i] = V[i]",
    );
    check("inside", &text, A);
    let beyond = read(&text.replace("V[i]", "V[i + N[0]]"));
    assert!(matches!(interpret(&beyond), Err(Fault::OutOfBounds { .. })));
    assert!(matches!(execute(&beyond, 1), Err(RuntimeFailure::OutOfBounds { .. })));
}

#[test]
fn what_a_condition_says_of_an_element_ends_where_it_is_stored() {
    let text =
        program(Dialect::Current, "if N[2] < 8:\n    if N[2] >= 0:\n        N[2] = N[2] + 100\n        B[N[2]] = A[0]");
    let func = read(&text);
    assert!(matches!(interpret(&func), Err(Fault::OutOfBounds { .. })));
    assert!(matches!(execute(&func, 1), Err(RuntimeFailure::OutOfBounds { .. })));
}

#[test]
#[expect(unsafe_code, reason = "compiled code takes pointers")]
fn a_loop_that_does_not_end_can_be_stopped() {
    let text = program(Dialect::Current, "while N[0] > 0:\n    N[1] = N[1] + 1");
    let kernel = lower(&read(&text)).expect("lowers");
    for compiled in [compile(&kernel, &CodegenOptions { threads: 1, ..Default::default() }), compile_plain(&kernel)] {
        let compiled = compiled.expect("compiles");
        let mut context = RunContext::serial();
        let flag = context.stop_flag().clone();
        let raise = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            flag.raise();
        });
        let (mut a, mut n, mut b) = (Floats([0.0; 16]), Ints([3; 16]), Floats([0.0; 16]));
        let args = [a.0.as_mut_ptr().cast(), n.0.as_mut_ptr().cast(), b.0.as_mut_ptr().cast()];
        // SAFETY: three arrays of more elements than the parameters have, aligned to 64 bytes, none shared.
        let result = unsafe { compiled.call(&args, &mut context) };
        assert_eq!(result, Err(RuntimeFailure::Stopped));
        raise.join().expect("does not panic");
    }
}

#[test]
fn functions_return_values() {
    let text = "@T.prim_func(s_tir=True)
def main(x: T.int32, y: T.int32) -> T.int32:
    for i in range(10):
        if i * i >= x:
            return i * y
    return T.int32(-1)
";
    let func = read(text);
    let result = |x: i64, y: i64| {
        let mut args = [Arg::Scalar(Value::Int(x)), Arg::Scalar(Value::Int(y))];
        interp::run(&func, &mut args, Options::default()).map_err(|e| e.fault)
    };
    assert_eq!(result(10, 3), Ok(Some(Value::Int(12))));
    assert_eq!(result(1000, 3), Ok(Some(Value::Int(-1))));
    let module = parse(text, "test", &ParseOptions::default()).expect("read before").module;
    let printed = print_module(&module, Dialect::Current);
    assert!(printed.contains("-> T.int32:\n") && printed.contains("        return i * y\n"), "{printed}");
}
