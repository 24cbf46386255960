//! Running small functions on arrays.

use super::*;
use crate::arrays::Array;
use crate::ir::DType;
use crate::machine::Isa;
use crate::script::{ParseOptions, parse};
use crate::workload::{Setting, Workload};

fn compiled(text: &str) -> Function {
    let parsed = parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{}", e.render(false)));
    let workload = Workload::of(&parsed.module, 0);
    let setting = Setting { isa: Isa::Portable, ..Setting::native() };
    Function::compile(&workload, workload.func(), &setting).unwrap_or_else(|e| panic!("{e}"))
}

fn ints(shape: &[i64], values: &[i32]) -> Array {
    Array::new(DType::Int32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()).expect("an array")
}

/// `B[i] = f` and, in the head, more parameters; all of 4 `int32`.
fn program(params: &str, f: &str) -> String {
    format!(
        "@T.prim_func
def main(A: T.Buffer((4,), \"int32\"), {params}B: T.Buffer((4,), \"int32\")):
    for i in range(4):
        with T.block(\"B\"):
            v = T.axis.spatial(4, i)
            B[v] = {f}
"
    )
}

#[test]
fn outputs_follow_from_inputs() {
    let function = compiled(&program("", "A[v] * 2"));
    let roles: Vec<Role> = function.params().iter().map(|p| p.role).collect();
    assert_eq!(roles, [Role::Input, Role::Output]);
    let outputs = function.run(vec![("A", ints(&[4], &[1, 2, 3, 4]))]).expect("it runs");
    assert_eq!(outputs, [("B".to_owned(), ints(&[4], &[2, 4, 6, 8]))]);
}

#[test]
fn values_must_fit_their_parameters() {
    let function = compiled(&program("", "A[v] * 2"));
    let error = |inputs| function.run(inputs).expect_err("refused").to_string();
    assert_eq!(error(vec![]), "no value for `A` (int32 [4])");
    assert_eq!(
        error(vec![("A", ints(&[2, 2], &[1, 2, 3, 4]))]),
        "`A` (int32 [4]), and the array given for it is int32 [2, 2]"
    );
    let float = Array::new(DType::Float32, &[4], vec![0; 16]).expect("an array");
    assert!(error(vec![("A", float)]).ends_with("is float32 [4]"));
    assert_eq!(error(vec![("B", ints(&[4], &[0; 4]))]), "`B` is only written");
    assert_eq!(error(vec![("C", ints(&[4], &[0; 4]))]), "no single parameter is called `C`");
    let mut call = function.bind(vec![None, None], Unset::Random { seed: 1 }).expect("random values");
    call.run().expect("it runs");
    let random = call.outputs().expect("arrays");
    let mut again = function.bind(vec![None, None], Unset::Random { seed: 1 }).expect("random values");
    again.run().expect("it runs");
    assert_eq!(again.outputs().expect("arrays"), random);
}

#[test]
fn every_call_starts_from_the_values_that_were_bound() {
    let function = compiled(&program("", "B[v] + A[v]"));
    assert_eq!(function.params()[1].role, Role::InOut);
    let values = vec![Some(ints(&[4], &[1; 4])), Some(ints(&[4], &[10, 20, 30, 40]))];
    let mut call = function.bind(values, Unset::Refused).expect("values");
    let expected = vec![(1, ints(&[4], &[11, 21, 31, 41]))];
    call.run().expect("it runs");
    assert_eq!(call.outputs().expect("arrays"), expected);
    call.run().expect("it runs");
    assert_eq!(call.outputs().expect("arrays"), expected);
    let times = call.repeat(3).expect("it runs");
    assert!(times.len() == 3 && times.iter().all(|t| *t > 0.0), "{times:?}");
    assert_eq!(call.outputs().expect("arrays"), expected);
}

#[test]
fn preparations_run_on_the_values_that_were_bound() {
    let text = "@T.prim_func
def main(W: T.Buffer((4,), \"int32\"), Y: T.Buffer((4,), \"int32\")):
    T.func_attr({\"layout_free_buffers\": [0]})
    P = T.alloc_buffer((4,), \"int32\")
    for i in range(4):
        with T.block(\"P\"):
            v = T.axis.spatial(4, i)
            T.block_attr({\"meta_schedule.layout_rewrite_preproc\": True})
            P[v] = W[3 - v]
    for i in range(4):
        with T.block(\"Y\"):
            v = T.axis.spatial(4, i)
            Y[v] = P[v] + 1
";
    let function = compiled(text);
    for values in [[1, 2, 3, 4], [5, 6, 7, 8]] {
        let outputs = function.run(vec![("W", ints(&[4], &values))]).expect("it runs");
        let expected: Vec<i32> = values.iter().rev().map(|v| v + 1).collect();
        assert_eq!(outputs[0].1, ints(&[4], &expected));
    }
}

#[test]
fn elements_may_have_gaps_in_memory() {
    let text = "@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (2, 2), \"int32\", strides=(8, 2))
    B = T.match_buffer(b, (2, 2), \"int32\", strides=(4, 1))
    for i, j in T.grid(2, 2):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vj, vi]
";
    let function = compiled(text);
    let values = vec![Some(ints(&[2, 2], &[1, 2, 3, 4])), None];
    let mut call = function.bind(values, Unset::Random { seed: 0 }).expect("values");
    call.run().expect("it runs");
    assert_eq!(call.outputs().expect("arrays"), [(1, ints(&[2, 2], &[1, 3, 2, 4]))]);
}

#[test]
fn what_a_function_returns_is_an_output() {
    let text = "@T.prim_func(s_tir=True)
def first(A: T.Buffer((4,), \"int32\")) -> T.int32:
    return A[0]
";
    let outputs = compiled(text).run(vec![("A", ints(&[4], &[7, 0, 0, 0]))]).expect("it runs");
    assert_eq!(outputs, [("result".to_owned(), ints(&[1], &[7]))]);
}

#[test]
fn a_program_that_fails_says_why() {
    let function = compiled(&program("I: T.Buffer((4,), \"int32\"), ", "A[I[v]]"));
    let run = |indices: &[i32]| function.run(vec![("A", ints(&[4], &[1, 2, 3, 4])), ("I", ints(&[4], indices))]);
    assert_eq!(run(&[3, 2, 1, 0]).expect("it runs")[0].1, ints(&[4], &[4, 3, 2, 1]));
    let error = run(&[0, 4, 0, 0]).expect_err("out of bounds");
    assert_eq!(error, RunError::Failed("access out of bounds of `A`".to_owned()));
}
