use super::*;
use crate::ir::Const;
use crate::loopir::eval;
use crate::loopir::parse::parse;

/// The ends of `Y` for these `X`; `None` if there are no intervals.
fn ends(body: &str, x: &[f64], y: &str) -> Option<Vec<(f64, f64)>> {
    let n = x.len();
    let text = format!("kernel @f(X: in float32[{n}], Y: out {y}[{n}]) {{\n{body}\n}}");
    let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let Bounds { kernel, ends } = bounds(&kernel)?;
    crate::loopir::verify::assert_valid(&kernel, "bounding");
    let (lo, hi) = ends[1].expect("`Y` is rounded");
    let mut memory: Vec<eval::Memory> = kernel.params().iter().map(|p| vec![None; p.len as usize]).collect();
    memory[0] = x.iter().map(|&v| Some(Const::Float(DType::Float32.round(v)))).collect();
    eval::run(&kernel, &mut memory).unwrap_or_else(|e| panic!("{e:?}"));
    let value = |v: &Option<Const>| match v {
        Some(Const::Int(v)) => *v as f64,
        Some(Const::Float(v)) => *v,
        None => panic!("every element has an end"),
    };
    Some(memory[lo].iter().zip(&memory[hi]).map(|(a, b)| (value(a), value(b))).collect())
}

fn each(value: &str, x: &[f64], y: &str) -> Vec<(f64, f64)> {
    ends(&format!("for i in {} {{ Y[i] = {value} }}", x.len()), x, y).expect("intervals")
}

#[test]
fn steps_are_open_next_to_themselves_only() {
    // 0.3 is not a number of float32, but 0.3f times 10 is almost 3; 5 * 0.3f is next to the step at 1.5.
    let found = each("cast(int8, round(X[i] * 0.3))", &[1.0, 5.0, 6.0, -5.0, 100.0], "int8");
    assert_eq!(found, [(0.0, 0.0), (1.0, 2.0), (2.0, 2.0), (-2.0, -1.0), (30.0, 30.0)]);
    // Exact values stay exact next to a step, and on it.
    let found = each("cast(int8, floor(X[i] * 0.5))", &[2.0, 1.0, 3.0, -1.0], "int8");
    assert_eq!(found, [(1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (-1.0, -1.0)]);
    let found = each("select(X[i] * 0.1 < 0.5, 0.0, 1.0)", &[4.0, 5.0, 6.0], "float32");
    assert_eq!(found, [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]);
}

#[test]
fn half_precision_may_be_rounded_or_not() {
    let found = each("cast(float32, cast(float16, X[i]))", &[1.0, 1.0001], "float32");
    assert_eq!(found[0], (1.0, 1.0));
    let x = f64::from(1.0001f32);
    assert!(found[1].0 <= 1.0 && found[1].1 >= x && found[1].1 - found[1].0 < 2e-3, "{found:?}");
    // A value that is too large may become infinite.
    let found = each("cast(float32, cast(float16, X[i] * 3.0))", &[30000.0], "float32");
    assert!(found[0].0 < 90000.0 && found[0].1 == f64::INFINITY, "{found:?}");
}

#[test]
fn what_is_not_known_is_nan() {
    // A divisor that may be zero.
    let found = each("1.0 / (X[i] * 0.1 - 0.3)", &[3.0, 13.0], "float32");
    assert!(found[0].0.is_nan() && (found[1].0 - 1.0).abs() < 1e-5, "{found:?}");
    // Either of two indices is possible.
    let found = each("X[cast(int64, floor(X[i] * 0.1))]", &[0.0, 10.0, 5.0], "float32");
    assert!(found[0] == (0.0, 0.0) && found[1].0.is_nan() && found[2] == (0.0, 0.0), "{found:?}");
}

#[test]
fn sums_widen_with_their_length() {
    let sum = |n: usize| {
        let x: Vec<f64> = (0..n).map(|i| 0.1 + (i * 7 % 13) as f64 / 13.0).collect();
        let body = format!("for i in {n} {{ Y[i] = 0.0 }}\nfor k in {n} {{ Y[0] = Y[0] + sqrt(X[k]) }}");
        let (lo, hi) = ends(&body, &x, "float32").expect("intervals")[0];
        let exact: f64 = x.iter().map(|&v| DType::Float32.round(v).sqrt()).sum();
        assert!(lo < exact && exact < hi);
        (hi - lo) / exact
    };
    let (short, long) = (sum(4), sum(400));
    assert!(short < 3e-6 && long < 2e-5 && short < long, "{short} {long}");
}

#[test]
fn a_choice_that_is_open_has_both_results() {
    let body = "for i in 3 {\n Y[i] = 1.0\n if X[i] * 0.1 < 0.5 { Y[i] = 3.0 }\n}";
    let found = ends(body, &[4.0, 5.0, 6.0], "float32").expect("intervals");
    assert_eq!(found, [(3.0, 3.0), (1.0, 3.0), (1.0, 1.0)]);
}

#[test]
fn programs_without_need_or_hope_have_no_intervals() {
    assert_eq!(ends("for i in 2 { Y[i] = X[i] * 3.0 + 1.0 }", &[1.0, 2.0], "float32"), None);
    assert_eq!(ends("for i in 2 { Y[cast(int64, round(X[i] * 0.3))] = 1.0 }", &[1.0, 2.0], "float32"), None);
}

#[test]
fn what_is_used_twice_is_evaluated_over_pieces() {
    // 0.1 times 5 is next to the step: the value is near 7 or near -7.
    let step = "let x: float32 = select(X[i] * 0.1 < 0.5, -7.0, 7.0) + X[i]\nY[i] = x / (1.0 + abs(x))";
    let found = ends(&format!("for i in 2 {{ {step} }}"), &[5.0, 9.0], "float32").expect("intervals");
    // The least and the greatest value of an increasing function; over the whole interval it would be 12 wide.
    assert!(found[0].0 < -2.0 / 3.0 && found[0].1 > 12.0 / 13.0, "{found:?}");
    assert!(found[0].0 > -2.0 && found[0].1 < 2.0, "{found:?}");
    assert!((found[1].0 - 16.0 / 17.0).abs() < 1e-5 && (found[1].1 - 16.0 / 17.0).abs() < 1e-5, "{found:?}");
    // An interval with infinite or unknown ends is not cut.
    let over = "let x: float32 = X[i] * 1e38\nY[i] = select(x > 1.0, x * 1e-38, 0.0) + x * 1e-38";
    let found = ends(&format!("for i in 3 {{ {over} }}"), &[1e38, f64::NAN, 1.0], "float32").expect("intervals");
    assert!(found[0].1 == f64::INFINITY && found[1].0.is_nan() && (found[2].1 - 2.0).abs() < 1e-5, "{found:?}");
}

#[test]
fn a_sum_of_several_terms_at_a_time_is_a_sum() {
    let width = |body: &str| {
        let x: Vec<f64> = (0..100).map(|i| 0.1 + f64::from(i * 7 % 13) / 13.0).collect();
        let (lo, hi) =
            ends(&format!("for i in 100 {{ Y[i] = round(X[i]) }}\n{body}"), &x, "float32").expect("intervals")[0];
        hi - lo
    };
    let one = width("for k in 100 { Y[0] = Y[0] + sqrt(X[k]) }");
    let two = width("for k in 50 { Y[0] = Y[0] + sqrt(X[k]) + sqrt(X[k + 50]) }");
    let less = width("for k in 50 { Y[0] = Y[0] + sqrt(X[k]) - sqrt(X[k + 50]) }");
    assert!(one > 0.0 && two < 1.2 * one && two > 0.8 * one && less < one, "{one} {two} {less}");
}

#[test]
fn functions_and_quotients_are_exactly_zero() {
    let found = each("cast(float32, ceil(sqrt(X[i]) + X[i] / 3.0))", &[0.0, 2.0], "float32");
    assert_eq!(found, [(0.0, 0.0), (3.0, 3.0)]);
}

#[test]
fn a_single_rounding_of_a_long_sum_is_within_reach() {
    // Multiples of 2^-10 up to 2 are numbers of half precision; the last sum is halfway between two.
    let mut x = vec![0.0; 100];
    (x[0], x[99]) = (1.5, 0.5 + 2f64.powi(-10));
    let body = "for i in 100 { Y[i] = cast(float16, 0.0) }\nfor k in 100 { Y[0] = Y[0] + cast(float16, X[k]) }";
    let (lo, hi) = ends(body, &x, "float16").expect("intervals")[0];
    assert!(lo <= 2.0 && 2.0 + 2f64.powi(-9) <= hi, "{lo} {hi}");
}
