//! Functions that return values, and calls within a module.

use super::{A, Floats, Ints, N, execute, interpret};
use tvmr::codegen::{CodegenOptions, RunContext, compile};
use tvmr::ir::inline::{calls, with_calls_inlined};
use tvmr::ir::interp::{self, Arg, Options, Tensor, Value};
use tvmr::ir::verify::{Checks, verify};
use tvmr::ir::{DType, Func, Module};
use tvmr::lower::{LowerError, lower};
use tvmr::script::{ParseOptions, parse};

fn module(text: &str) -> Module {
    parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).module
}

// ---- results -----------------------------------------------------------------------------------------------------

/// A function over `A` (float32) and `N` (int32) with this result type and body.
fn returning(ty: &str, body: &str) -> Func {
    let body: String = body.trim_matches('\n').lines().map(|l| format!("    {l}\n")).collect();
    let params = "A: T.Buffer((8,), \"float32\"), N: T.Buffer((8,), \"int32\"), unused: T.handle";
    let text = format!("@T.prim_func(s_tir=True)\ndef main({params}) -> T.{ty}:\n{body}");
    module(&text).funcs[0].clone()
}

/// The value that the interpreter returns for a function without its unused handle, and the final contents of `A`.
fn interpreted(func: &Func) -> (Option<Value>, Vec<f64>) {
    let mut func = func.clone();
    func.params.pop();
    let floats = Tensor::from_values(DType::Float32, &[8], A.into_iter().map(Value::Float));
    let ints = Tensor::from_values(DType::Int32, &[8], N.into_iter().map(|v| Value::Int(v as i64)));
    let mut args = [Arg::Tensor(floats), Arg::Tensor(ints)];
    let result = interp::run(&func, &mut args, Options::default()).unwrap_or_else(|e| panic!("{}", e.message(&func)));
    (result, args[0].tensor().expect("a tensor").to_f64s())
}

#[expect(unsafe_code, reason = "compiled code takes pointers")]
fn compiled(func: &Func, result: *mut u8, threads: u32) -> Vec<f64> {
    let kernel = lower(func).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(kernel.params().len(), 3, "two buffers and the result");
    let compiled = compile(&kernel, &CodegenOptions { threads, ..CodegenOptions::default() }).expect("compiles");
    let (mut a, mut n) = (Floats([0.0; 16]), Ints([0; 16]));
    for i in 0..8 {
        (a.0[i], n.0[i]) = (A[i] as f32, N[i] as i32);
    }
    let args = [a.0.as_mut_ptr().cast(), n.0.as_mut_ptr().cast(), result];
    // SAFETY: arrays of more elements than the parameters have, aligned to 64 bytes, none shared.
    unsafe { compiled.call(&args, &mut RunContext::serial()) }.expect("runs");
    a.0[..8].iter().map(|&v| f64::from(v)).collect()
}

fn check_int(body: &str, expected: i64) {
    let func = returning("int32", body);
    let (result, left) = interpreted(&func);
    assert_eq!(result, Some(Value::Int(expected)), "{body}");
    for threads in [1, 2] {
        let mut out = Ints([-77; 16]);
        assert_eq!(compiled(&func, out.0.as_mut_ptr().cast(), threads), left, "{body}");
        assert_eq!(i64::from(out.0[0]), expected, "{body}");
        assert_eq!(out.0[1], -77, "one element is the result");
    }
}

fn check_float(body: &str, expected: f64) {
    let func = returning("float32", body);
    let (result, left) = interpreted(&func);
    assert_eq!(result, Some(Value::Float(expected)), "{body}");
    let mut out = Floats([0.0; 16]);
    assert_eq!(compiled(&func, out.0.as_mut_ptr().cast(), 1), left, "{body}");
    assert_eq!(f64::from(out.0[0]), expected, "{body}");
}

#[test]
fn a_result_is_the_last_parameter_of_a_kernel() {
    check_int("return N[0] * 2", 6);
    check_float("A[0] = A[1] + T.float32(4)\nreturn A[0]", 3.0);
    check_float(
        "
S = T.sblock_alloc_buffer((1,), \"float32\")
for i in range(8):
    with T.sblock(\"S\"):
        vi = T.axis.reduce(8, i)
        with T.init():
            S[0] = T.float32(0)
        S[0] = S[0] + A[vi]
return S[0]",
        11.5,
    );
}

#[test]
fn what_stands_behind_a_return_does_not_run() {
    // Returns from nested loops of all kinds.
    for (outer, inner) in [("range", "range"), ("T.parallel", "range"), ("range", "T.unroll")] {
        let body = format!(
            "
for i in {outer}(8):
    for j in {inner}(8):
        A[i] = A[i] + T.float32(1)
        if N[i] * 8 + j > 26:
            return i * 10 + j
    A[i] = T.float32(0)
A[7] = T.float32(100)
return -1"
        );
        check_int(&body, 3);
    }
    check_int("if N[0] > 5:\n    return 1\nA[0] = T.float32(7)\nreturn 2", 2);
    check_int("if N[0] > 2:\n    return 1\nA[0] = T.float32(7)\nreturn 2", 1);
    // Returns from loops without a count, before other statements.
    check_int(
        "
i: T.int32 = 0
while i < 8:
    i += 1
    if N[i] == 1:
        return i
    A[i] = T.float32(0)
A[0] = T.float32(7)
return -1",
        4,
    );
    // After an inner loop that has jumps of its own.
    check_int(
        "
for i in range(8):
    for j in range(8):
        if j == 3:
            break
        if j == 1:
            continue
        A[i] = A[i] + T.float32(1)
    if N[i] == 0:
        return i
return -1",
        2,
    );
}

#[test]
fn a_handle_that_is_read_is_refused_by_name() {
    let text = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), \"float32\"), h: T.handle):
    B = T.decl_buffer((8,), \"float32\", data=h)
    A[0] = B[0]
";
    let error = lower(&module(text).funcs[0]).err().expect("refused").to_string();
    assert!(error.contains("`h`"), "{error}");
}

// ---- calls -------------------------------------------------------------------------------------------------------

/// A module whose `main` has this body over `A`, `N` and `B`, with these functions besides.
fn calling(others: &str, body: &str) -> Module {
    let indent =
        |text: &str, by: &str| text.trim_matches('\n').lines().map(|l| format!("{by}{l}\n")).collect::<String>();
    let params = "A: T.Buffer((8,), \"float32\"), N: T.Buffer((8,), \"int32\"), B: T.Buffer((8,), \"float32\")";
    module(&format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n    def main({params}):\n{}\n{}",
        indent(body, "        "),
        indent(others, "    "),
    ))
}

fn check_call(others: &str, body: &str, expected: [f64; 8]) {
    let module = calling(others, body);
    let func = with_calls_inlined(&module, 0);
    assert!(calls(&func).is_empty(), "{body}");
    assert_eq!(verify(&func, Checks::ALL), [], "{body}");
    assert_eq!(interpret(&func).as_deref(), Ok(&expected[..]), "{body}: interpreted");
    assert_eq!(execute(&func, 1).as_deref(), Ok(&expected[..]), "{body}: compiled");
}

const SCALE: &str = "
@T.prim_func(s_tir=True)
def scale(X: T.Buffer((8,), \"float32\"), Y: T.Buffer((8,), \"float32\"), by: T.float32):
    Z = T.sblock_alloc_buffer((8,), \"float32\")
    for i in range(8):
        with T.sblock(\"Z\"):
            vi = T.axis.spatial(8, i)
            Z[vi] = X[vi] * by
    for i in range(8):
        with T.sblock(\"Y\"):
            vi = T.axis.spatial(8, i)
            Y[vi] = Z[vi] + T.float32(1)
";

#[test]
fn the_body_of_a_function_stands_in_the_place_of_its_call() {
    let once = A.map(|a| a * 2.0 + 1.0);
    check_call(SCALE, "Module.scale(A, B, T.float32(2))", once);
    let twice = once.map(|a| a * 4.0 + 1.0);
    check_call(SCALE, "Module.scale(A, B, T.float32(2))\nModule.scale(B.data, B, T.float32(4))", twice);
    // An argument that the call changes is evaluated first.
    check_call(SCALE, "B[0] = T.float32(2)\nModule.scale(A, B, B[0])", once);
    // Inlined blocks get names of their own.
    let module = calling(SCALE, "Module.scale(A, B, T.float32(2))\nModule.scale(B, B, T.float32(4))");
    let func = with_calls_inlined(&module, 0);
    let names: Vec<String> = func.blocks().iter().map(|&b| func.block(b).name.to_string()).collect();
    assert_eq!(names, ["Z", "Y", "Z_1", "Y_1", "root"]);
}

#[test]
fn a_parameter_of_another_shape_is_a_name_for_the_memory() {
    let fill = "
@T.prim_func
def fill(X: T.Buffer((2, 2), \"float32\"), n: T.int32):
    for i in range(2):
        for j in range(2):
            X[i, j] = T.Cast(\"float32\", n * 10 + i * 2 + j)
";
    check_call(
        fill,
        "Module.fill(B, 1)\nModule.fill(T.address_of(B[4]), 2)",
        [10.0, 11.0, 12.0, 13.0, 20.0, 21.0, 22.0, 23.0],
    );
    check_call(
        fill,
        "for k in range(2):\n    Module.fill(T.address_of(B[k * 4]), k)",
        [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0],
    );
    let symbolic = "
@T.prim_func
def fill(x: T.handle, n: T.int32):
    m = T.int32()
    X = T.match_buffer(x, (m,), \"float32\")
    for i in range(m):
        X[i] = T.Cast(\"float32\", n + i)
";
    check_call(symbolic, "Module.fill(B, 3)", [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
}

#[test]
fn a_function_that_computes_a_value_stands_where_its_value_is_needed() {
    let square = "
@T.prim_func
def square(x: T.float32) -> T.float32:
    return x * x
@T.prim_func
def quartic(x: T.float32) -> T.float32:
    return Module.square(Module.square(x))
";
    let squares = A.map(|a| a * a);
    check_call(square, "for i in range(8):\n    B[i] = Module.square(A[i])", squares);
    let quartics = squares.map(|a| a * a);
    check_call(square, "for i in range(8):\n    B[i] = Module.square(Module.square(A[i]))", quartics);
    check_call(square, "for i in range(8):\n    B[i] = Module.quartic(A[i])", quartics);
}

#[test]
fn a_call_that_cannot_be_written_out_is_refused_by_name() {
    let endless = "
@T.prim_func
def again(X: T.Buffer((8,), \"float32\")):
    Module.again(X)
";
    let leaves = "
@T.prim_func
def find(X: T.Buffer((8,), \"float32\")) -> T.int32:
    for i in range(8):
        if X[i] > T.float32(1):
            return i
    return -1
";
    let cases = [
        (endless, "Module.again(A)", "again"),
        (leaves, "B[0] = T.Cast(\"float32\", Module.find(A))", "find"),
        (SCALE, "Module.scale(A, T.reinterpret(\"handle\", T.int64(0)), T.float32(1))", "scale"),
    ];
    for (others, body, name) in cases {
        let module = calling(others, body);
        let func = with_calls_inlined(&module, 0);
        assert_eq!(lower(&func).err(), Some(LowerError::ModuleCall(name.into())), "{body}");
        assert!(interpret(&func).is_err());
    }
}
