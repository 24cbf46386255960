//! Tests every function over all exponents, with machine code of every available instruction set.

use crate::codegen::testing::memory::Flush;
use crate::codegen::testing::{rng, run_compiled, wide_sets};
use crate::codegen::{CodegenOptions, RunContext, compile};
use crate::ir::{Const, DType};
use crate::loopir::eval::Memory;
use crate::loopir::parse::parse;
use crate::machine::Isa;
use rand_chacha::rand_core::Rng;

/// A function in double precision.
type Reference = fn(f64) -> f64;

/// Maximum error, in units in the last place.
const BOUND: f64 = 4.0;

/// Special inputs of functions.
const SPECIAL: &[f32] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    88.722_83,
    88.722_84,
    -87.336_54,
    -87.336_55,
    -103.972_08,
    -103.972_09,
    std::f32::consts::LN_2,
    std::f32::consts::SQRT_2,
    std::f32::consts::FRAC_1_SQRT_2,
    127.999_99,
    128.0,
    -126.0,
    -149.0,
    -150.0,
    38.531_84,
    -37.929_78,
    9.010_913,
    3.919_206,
];

/// All exponents with random fractions, many numbers of ordinary size, and the special ones.
fn inputs() -> Vec<f32> {
    let mut rng = rng(17);
    let mut all = SPECIAL.to_vec();
    for exponent in 0..=255u32 {
        for n in 0..12 {
            let fraction = match n {
                0 => 0,
                1 => (1 << 23) - 1,
                _ => rng.next_u64() as u32 & ((1 << 23) - 1),
            };
            let bits = exponent << 23 | fraction;
            all.extend([f32::from_bits(bits), f32::from_bits(bits | 1 << 31)]);
        }
    }
    for scale in [0.1f64, 1.0, 10.0, 100.0, 1000.0] {
        for _ in 0..3000 {
            let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            all.push(((unit * 2.0 - 1.0) * scale) as f32);
        }
    }
    for _ in 0..3000 {
        // Around 1, where logarithms vanish.
        all.push(1.0 + (rng.next_u64() as i32 as f32) / 2f32.powi(33));
    }
    all.extend(near_quarters());
    // An odd number, so that there are remainders of all kinds.
    all.push(1.5);
    all
}

/// Floats of each exponent that are close to multiples of pi/2, where the reduced argument is tiny.
fn near_quarters() -> Vec<f32> {
    let mut all = vec![16_367_173.0 * 2f32.powi(72)];
    for exponent in 127..255u32 {
        // Add half turns to a random float, and keep the closest result.
        let base = f32::from_bits(exponent << 23);
        let ulp = f64::from(base) * 2f64.powi(-23);
        let distance = |bits: u32| {
            let x = f64::from(f32::from_bits(bits));
            x.sin().abs().min(x.cos().abs())
        };
        let fractions = (0..1u32 << 23).step_by(if ulp < 1e-3 { 257 } else { 4099 });
        let mut closest: Vec<u32> = fractions.map(|f| exponent << 23 | f).collect();
        closest.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        all.extend(closest.iter().take(4).map(|&bits| f32::from_bits(bits)));
    }
    for n in 1..2000u32 {
        // The nearest floats to multiples of pi/2.
        let x = (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
        all.extend([x, x.next_up(), x.next_down(), -x]);
    }
    all
}

/// Options for portable and wide code, with strict and fast floats.
fn all_options() -> Vec<CodegenOptions> {
    let mut all = vec![CodegenOptions::default()];
    all.extend(wide_sets());
    let strict: Vec<_> = all.iter().map(|&o| CodegenOptions { strict_fp: true, ..o }).collect();
    all.extend(strict);
    all
}

/// The error of a result, in units in the last place.
fn error(found: f32, reference: f64) -> f64 {
    let rounded = reference as f32;
    if reference.is_nan() || found.is_nan() {
        return if reference.is_nan() && found.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if found == rounded {
        return if rounded.is_infinite() { 0.0 } else { (f64::from(found) - reference).abs() / unit(reference) };
    }
    let clamped = |x: f64| x.clamp(-2f64.powi(128), 2f64.powi(128));
    (clamped(f64::from(found)) - clamped(reference)).abs() / unit(reference)
}

fn unit(x: f64) -> f64 {
    let exponent = if x == 0.0 { -126.0 } else { x.abs().log2().floor().clamp(-126.0, 127.0) };
    (exponent - 23.0).exp2()
}

fn is_subnormal(x: f64) -> bool {
    x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE)
}

/// The error, if subnormal numbers may be flushed to zero.
fn error_flushed(found: f32, x: f32, f: Reference) -> f64 {
    error_flushed_by(found, x, &f)
}

fn error_flushed_by(found: f32, x: f32, f: &dyn Fn(f64) -> f64) -> f64 {
    let zero = if is_subnormal(f64::from(x)) { 0f64.copysign(f64::from(x)) } else { f64::from(x) };
    let of = |x: f64| {
        let reference = f(x);
        let is_flushed = found == 0.0 && reference.abs() < f64::from(f32::MIN_POSITIVE) * 1.000_000_5;
        if is_flushed { 0.0 } else { error(found, reference) }
    };
    of(f64::from(x)).min(of(zero))
}

fn run(text: &str, options: &CodegenOptions, params: &[Memory]) -> Vec<f32> {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let compiled = compile(&kernel, options).unwrap_or_else(|e| panic!("{e}"));
    let found = run_compiled(&compiled, params, Flush::Start, &mut RunContext::serial()).expect("it runs");
    let number = |v: &Option<Const>| match v {
        Some(Const::Float(v)) => *v as f32,
        _ => unreachable!("results are floats"),
    };
    found.last().map(|y| y.iter().map(number).collect()).unwrap_or_default()
}

fn memory(values: &[f32]) -> Memory {
    values.iter().map(|&v| Some(Const::Float(f64::from(v)))).collect()
}

/// The first position with different bits, other than NaN.
fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    (0..a.len()).find(|&i| a[i] != b[i] && !f32::from_bits(b[i]).is_nan())
}

#[test]
fn powers() {
    let numbers = inputs();
    let mut rng = rng(23);
    let mut pick = |from: &[f32]| from[(rng.next_u64() % from.len() as u64) as usize];
    let mut pairs: Vec<(f32, f32)> = Vec::new();
    let exponents = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 0.5, 1.5, -2.5, 1e10, 16_777_215.0, f32::NAN];
    let exponents = exponents.iter().chain(&[f32::INFINITY, f32::NEG_INFINITY, 1e-30, -7.0, 1.0 / 3.0]);
    for &y in exponents {
        pairs.extend(SPECIAL.iter().map(|&x| (x, y)));
        pairs.extend((0..200).map(|_| (pick(&numbers), y)));
    }
    pairs.extend((0..20_000).map(|_| (pick(&numbers), pick(&numbers))));
    for _ in 0..40_000 {
        // Results over the whole range.
        let x = pick(&numbers).abs();
        let z = pick(&numbers).rem_euclid(300.0) - 150.0;
        pairs.push((x, (f64::from(z) / f64::from(x).log2()) as f32));
    }
    let n = pairs.len();
    let text = format!(
        "kernel @f(A: in float32[{n}], B: in float32[{n}], Y: out float32[{n}]) {{
           for i in {n} independent {{ Y[i] = pow(A[i], B[i]) }}
         }}"
    );
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let mut failures = Vec::new();
    for options in all_options() {
        let found = run(&text, &options, &[memory(&a), memory(&b), memory(&vec![0.0; n])]);
        let mut worst = (0.0, 0.0, 0.0, 0.0);
        for (&(x, y), &r) in pairs.iter().zip(&found) {
            let of = |x: f32, y: f32| {
                let reference = f64::from(x).powf(f64::from(y));
                let smallest = f64::from(f32::MIN_POSITIVE) * 1.000_000_5;
                let is_flushed = !options.strict_fp && r == 0.0 && reference.abs() < smallest;
                let same_sign = r.is_nan() || r.is_sign_negative() == reference.is_sign_negative();
                if !same_sign {
                    f64::INFINITY
                } else if is_flushed {
                    0.0
                } else {
                    error(r, reference)
                }
            };
            let flush = |x: f32| if is_subnormal(f64::from(x)) { 0f32.copysign(x) } else { x };
            let mut e = of(x, y);
            if !options.strict_fp {
                e = e.min(of(flush(x), y)).min(of(x, flush(y))).min(of(flush(x), flush(y)));
            }
            if e > worst.0 {
                worst = (e, x, y, r);
            }
        }
        eprintln!("pow {:>10?} {:5} {:6.3} at {:e}, {:e}", options.isa, options.strict_fp, worst.0, worst.1, worst.2);
        if worst.0 > BOUND {
            failures.push(format!("pow({:e}, {:e}) = {:e}, {} off, {options:?}", worst.1, worst.2, worst.3, worst.0));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn powers_by_products() {
    let inputs = inputs();
    let n = inputs.len();
    let mut failures = Vec::new();
    for y in [1.0f64, 2.0, 3.0, 4.0, -1.0, 0.5] {
        let text = format!(
            "kernel @f(X: in float32[{n}], Y: out float32[{n}]) {{
               for i in {n} independent {{ Y[i] = pow(X[i], {y:?}) }}
             }}"
        );
        for options in all_options() {
            let found = run(&text, &options, &[memory(&inputs), memory(&vec![0.0; n])]);
            for (&x, &r) in inputs.iter().zip(&found) {
                let f = |x: f64| x.powf(y);
                let e = if options.strict_fp { error(r, f(f64::from(x))) } else { error_flushed_by(r, x, &f) };
                let flipped = !r.is_nan() && r != 0.0 && r.is_sign_negative() != f(f64::from(x)).is_sign_negative();
                if e > 2.0 || flipped {
                    failures.push(format!("pow({x:e}, {y}) = {r:e}, {e} off, {options:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{:#?}", &failures[..failures.len().min(10)]);
}

#[test]
fn remainders_are_exact() {
    let numbers: Vec<f64> = inputs().into_iter().map(f64::from).collect();
    let mut rng = rng(29);
    let mut pick = || numbers[(rng.next_u64() % numbers.len() as u64) as usize];
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for _ in 0..3000 {
        let (x, y, n) = (pick(), pick(), pick().abs() % 4e6);
        // Any quotients, small ones, and those next to integers.
        let multiple = (y as f32 * n.trunc() as f32) as f64;
        let next = f64::from((multiple as f32).next_down());
        pairs.extend([(x, y), (y * n, y), (multiple, y), (next, y), (x, x), (y, x * 1.5)]);
    }
    for &x in SPECIAL {
        pairs.extend(SPECIAL.iter().map(|&y| (f64::from(x), f64::from(y))));
    }
    // Vectors whose quotients are all small, so that no lane is done by a call.
    pairs.extend((0..4096).map(|i| (f64::from(i) * 1.37 - 2000.0, f64::from(i % 61) * 0.25 + 0.5)));
    let n = pairs.len();
    for dtype in [DType::Float32, DType::Float64, DType::Float16, DType::BFloat16] {
        let of = |v: f64| dtype.round(v);
        let text = format!(
            "kernel @f(A: in {dtype}[{n}], B: in {dtype}[{n}], Y: out {dtype}[{n}]) {{
               for i in {n} independent {{ Y[i] = fmod(A[i], B[i]) }}
             }}"
        );
        let memory = |values: &mut dyn Iterator<Item = f64>| values.map(|v| Some(Const::Float(of(v)))).collect();
        let params: [Memory; 3] = [
            memory(&mut pairs.iter().map(|p| p.0)),
            memory(&mut pairs.iter().map(|p| p.1)),
            memory(&mut pairs.iter().map(|_| 0.0)),
        ];
        for options in all_options() {
            let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}"));
            let compiled = compile(&kernel, &options).unwrap_or_else(|e| panic!("{e}"));
            let found = run_compiled(&compiled, &params, Flush::Start, &mut RunContext::serial()).expect("it runs");
            for (&(x, y), found) in pairs.iter().zip(found.last().expect("a result")) {
                let Some(Const::Float(found)) = *found else { unreachable!("results are floats") };
                let (x, y) = (of(x), of(y));
                let expected = x % y;
                let least = if dtype == DType::Float64 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() };
                let flushed = |v: f64| if v.abs() < least { 0f64.copysign(v) } else { v };
                let same = |e: f64| found.to_bits() == e.to_bits() || found.is_nan() && e.is_nan();
                let operands = [(x, y), (flushed(x), y), (x, flushed(y)), (flushed(x), flushed(y))];
                let is_flushed =
                    !options.strict_fp && operands.iter().any(|(x, y)| same(x % y) || same(flushed(x % y)));
                assert!(
                    same(expected) || is_flushed,
                    "{dtype}: {x:e} % {y:e} = {found:e}, not {expected:e}, {options:?}"
                );
            }
        }
    }
}

#[test]
fn errors_are_small_everywhere() {
    let functions: &[(&str, Reference)] = &[
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("exp10", |x| 10f64.powf(x)),
        ("sigmoid", |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }),
        ("tanh", f64::tanh),
        ("erf", crate::ir::scalar::math::erf),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tan", f64::tan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("asinh", crate::ir::scalar::math::asinh),
        ("acosh", crate::ir::scalar::math::acosh),
        ("atanh", crate::ir::scalar::math::atanh),
        ("asin", f64::asin),
        ("acos", f64::acos),
        ("atan", f64::atan),
        ("sqrt", f64::sqrt),
        ("rsqrt", |x| 1.0 / x.sqrt()),
    ];
    let inputs = inputs();
    let n = inputs.len();
    let mut failures = Vec::new();
    for (name, f) in functions {
        let kernel = |independent: &str| {
            format!(
                "kernel @f(X: in float32[{n}], Y: out float32[{n}]) {{
                   for i in {n}{independent} {{ Y[i] = {name}(X[i]) }}
                 }}"
            )
        };
        let mut bits: Vec<(bool, Isa, Vec<u32>)> = Vec::new();
        for options in all_options() {
            let [found, one_by_one] =
                [" independent", ""].map(|how| run(&kernel(how), &options, &[memory(&inputs), memory(&vec![0.0; n])]));
            let mut worst = (0.0, 0.0, 0.0);
            for (&x, &y) in inputs.iter().zip(&found) {
                let e = if options.strict_fp { error(y, f(f64::from(x))) } else { error_flushed(y, x, *f) };
                if e > worst.0 {
                    worst = (e, x, y);
                }
            }
            eprintln!("{name:>8} {:>10?} {:5} {:6.3} at {:e}", options.isa, options.strict_fp, worst.0, worst.1);
            if worst.0 > BOUND {
                failures.push(format!("{name}({:e}) = {:e}, {} off, {options:?}", worst.1, worst.2, worst.0));
            }
            let [found, one_by_one] =
                [found, one_by_one].map(|all| all.iter().map(|y| y.to_bits()).collect::<Vec<_>>());
            if let Some(i) = first_difference(&found, &one_by_one) {
                let (x, options) = (inputs[i], &options);
                failures.push(format!("{name}({x:e}) is {:x} and alone {:x}, {options:?}", found[i], one_by_one[i]));
            }
            bits.push((options.strict_fp, options.isa, found));
        }
        // All instruction sets give the same bits, unless one of them uses table look-up.
        let looks_up = |strict: bool, isa: Isa| !strict && isa == Isa::Avx512 && matches!(*name, "exp" | "sigmoid");
        for (strict, isa, found) in bits.iter().filter(|b| !looks_up(b.0, b.1)) {
            let (.., first) = bits.iter().find(|b| b.0 == *strict).expect("the one at hand");
            if let Some(i) = first_difference(first, found) {
                failures.push(format!("{name}({:e}) is {:x} and {:x} on {isa:?}", inputs[i], first[i], found[i]));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
