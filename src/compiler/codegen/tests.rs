//! Differential tests of machine code against the evaluator.

#![expect(clippy::disallowed_methods, reason = "a kernel that is stopped ends in time")]

use super::testing::memory::{Flush, GuardedBuffer};
use super::testing::random::{Numbers, random_kernel, random_scheduled};
use super::testing::{Closeness, assert_close, check, random_params, run_compiled, wide_sets};
use super::{CodegenOptions, Pinning, RunContext, RuntimeFailure, Workers, compile};
use crate::ir::DType;
use crate::loopir::eval;
use crate::loopir::parse::parse;
use crate::loopir::verify::assert_valid;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn options() -> CodegenOptions {
    CodegenOptions::default()
}

/// Tests random kernels of a range of seeds.
fn check_random(seeds: std::ops::Range<u64>, numbers: Numbers, options: &CodegenOptions, closeness: Closeness) {
    for seed in seeds {
        let kernel = random_kernel(seed, numbers);
        assert_valid(&kernel, "generation");
        check(&kernel, options, seed, closeness);
    }
}

#[test]
fn random_integer_kernels() {
    check_random(0..150, Numbers::Integers, &options(), Closeness::Exact);
}

#[test]
fn random_float_kernels() {
    check_random(1000..1100, Numbers::Floats(DType::Float32), &options(), Closeness::Ulps(64.0));
    check_random(1100..1150, Numbers::Floats(DType::Float64), &options(), Closeness::Ulps(64.0));
}

#[test]
fn random_half_kernels() {
    check_random(2000..2030, Numbers::Floats(DType::Float16), &options(), Closeness::Ulps(32.0));
    check_random(2030..2060, Numbers::Floats(DType::BFloat16), &options(), Closeness::Ulps(32.0));
}

#[test]
fn scheduled_integer_kernels() {
    for seed in 0..400 {
        let kernel = random_scheduled(seed, Numbers::Integers);
        assert_valid(&kernel, "generation");
        check(&kernel, &options(), seed, Closeness::Exact);
    }
}

#[test]
fn scheduled_float_kernels() {
    for seed in 0..400 {
        let dtype = if seed % 3 == 0 { DType::Float64 } else { DType::Float32 };
        let kernel = random_scheduled(10_000 + seed, Numbers::Floats(dtype));
        assert_valid(&kernel, "generation");
        // Sums of a few hundred terms, in any order with fast floats, as written with strict floats.
        check(&kernel, &options(), seed, Closeness::Ulps(2048.0));
        check(&kernel, &CodegenOptions { strict_fp: true, ..options() }, seed, Closeness::Ulps(64.0));
    }
}

#[test]
fn every_function_of_every_type() {
    use crate::ir::op::Domain;
    use crate::ir::{BinOp, Intrinsic};
    use crate::loopir::{Access, For, Kernel, Ty};
    // Every intrinsic, operator and cast, scalar and in vectors of 8 lanes.
    for dtype in DType::ELEMENTS {
        for lanes in [1u16, 2, 8] {
            let mut k = Kernel::new("functions");
            let inputs = ["X", "Y", "Z"].map(|name| k.add_param(name, dtype, 64, Access::In));
            let ty = Ty::vector(dtype, lanes);
            let (var, i) = k.arena.new_index("i");
            let index = k.arena.mul_const(i, lanes as i64);
            let x = inputs.map(|b| k.arena.load(b, index, ty));
            let mut results = Vec::new();
            for &f in Intrinsic::ALL {
                let takes = match f.domain() {
                    Domain::Float => dtype.is_float(),
                    Domain::Integer => !dtype.is_float(),
                    Domain::Number => dtype != DType::Bool,
                    Domain::Bool => dtype == DType::Bool,
                };
                if takes && !matches!(f, Intrinsic::Asin | Intrinsic::Acos) {
                    results.push(k.arena.call(f, &x[..f.arity()]));
                }
            }
            let ops: &[BinOp] = if dtype == DType::Bool {
                &[BinOp::And, BinOp::Or]
            } else {
                &[BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Min, BinOp::Max]
            };
            results.extend(ops.iter().map(|&op| k.arena.binary(op, x[0], x[1])).collect::<Vec<_>>());
            results.extend(DType::ELEMENTS.map(|to| k.arena.cast(to, x[0])));
            let c = k.arena.compare(crate::ir::CmpOp::Lt, x[0], x[1]);
            results.push(k.arena.select(c, x[1], x[2]));
            results.push(k.arena.not(c));
            let mut stmts = Vec::new();
            for (n, value) in results.into_iter().enumerate() {
                let out = {
                    // Parameters are declared in order, although the value exists in the arena already.
                    k.add_param(format!("R{n}").as_str(), k.arena.dtype(value), 64, Access::Out)
                };
                stmts.push(k.store(out, index, value));
            }
            let body = k.stmts.body(&stmts);
            let extent = k.arena.index(64 / lanes as i64);
            k.body = k.stmts.single(crate::loopir::Stmt::For(For::serial(var, extent, body)));
            assert_valid(&k, "building");
            for strict_fp in [false, true] {
                // Functions differ from the evaluator's, which rounds double-precision results.
                check(&k, &CodegenOptions { strict_fp, ..options() }, 5, Closeness::Ulps(4.0));
            }
        }
    }
}

#[test]
fn division_is_guarded() {
    let kernel = parse(
        "kernel @f(X: in int32[64], Y: in int32[64], Z: out int32[64]) {
           for i in 64 { Z[i] = X[i] // (Y[i] * Y[i] + int32(1)) + X[i] % (Y[i] * Y[i] + int32(3)) + mod(X[i], int32(7)) }
         }",
    )
    .expect("parses");
    check(&kernel, &options(), 3, Closeness::Exact);
    let kernel = parse("kernel @f(X: in int32[64], Y: out int32[64]) { for i in 64 { Y[i] = int32(1) // X[i] } }")
        .expect("parses");
    check(&kernel, &options(), 3, Closeness::Exact);
    let kernel = parse(
        "kernel @f(X: in int8[8], Y: out int8[8]) { for i in 8 { Y[i] = mod(int8(-128), min(X[i], int8(-1))) } }",
    )
    .expect("parses");
    check(&kernel, &options(), 3, Closeness::Exact);
}

#[test]
fn what_a_kernel_stored_before_it_stopped_stays() {
    let texts = [
        // An overwrite after a loop, after a division, and after statements that cannot stop.
        "kernel @f(A: in float32[16], I: in int64[64], C: inout float32[1], D: inout float32[64]) {
           C[0] = 1.0
           for k in 64 { let i: int64 = I[k] check i >= 0 && i < 16 else out_of_bounds(A) D[k] = A[i] }
           C[0] = 2.0
         }",
        "kernel @f(N: in int32[64], C: inout int32[2], D: inout int32[64]) {
           C[0] = int32(1) C[0] = int32(2)
           for k in 64 { D[k] = int32(100) // N[k] }
           C[0] = int32(3)
         }",
        // Sums.
        "kernel @f(A: in int32[64], C: inout int32[1]) { for i in 64 reduction { C[0] = C[0] + int32(100) // A[i] } }",
        "kernel @f(A: in int32[8], I: in int64[64], C: inout int32[1]) {
           for k in 64 reduction {
             let i: int64 = I[k] check i >= 0 && i < 8 else out_of_bounds(A) C[0] = C[0] + A[i]
           }
         }",
        // Scratch that could be computed in a result's memory.
        "kernel @f(A: in float32[512], I: in int64[64], B: out float32[512]) {
           scratch E: float32[64]
           for i in 8 {
             for k in 64 independent { E[k] = A[i * 64 + k] * 2.0 }
             for k in 64 {
               let p: int64 = I[k] check p >= 0 && p < 64 else out_of_bounds(A) B[i * 64 + k] = E[k] + A[i * 64 + p]
             }
           }
         }",
    ];
    for text in texts {
        let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
        for (seed, options) in
            (0..4).flat_map(|seed| [options()].into_iter().chain(wide_sets()).map(move |o| (seed, o)))
        {
            let params = random_params(&kernel, seed);
            let mut expected = params.clone();
            eval::run(&kernel, &mut expected).expect_err("some index or divisor does not fit");
            let compiled = compile(&kernel, &options).expect("compiles");
            let contents = kernel.params().iter().zip(&params);
            let mut buffers: Vec<GuardedBuffer> =
                contents.map(|(p, v)| GuardedBuffer::with_contents(p.dtype, v, Flush::Start)).collect();
            let args: Vec<*mut u8> = buffers.iter_mut().map(GuardedBuffer::as_mut_ptr).collect();
            // SAFETY: the buffers are as long as the parameters, and distinct.
            unsafe { compiled.call(&args, &mut RunContext::serial()) }.expect_err("stops, too");
            let found: Vec<_> = buffers.iter().map(GuardedBuffer::contents).collect();
            assert_close(&kernel, &expected, &found, Closeness::Exact, &format!("seed {seed}, {options:?}"));
        }
    }
}

#[test]
fn a_word_left_over_is_taken_apart_to_bytes() {
    // 25 words of bytes of the same sign, which are shifted: some in vectors, one alone.
    let kernel = parse(
        "kernel @f(A: in int8[600], B: in int8[5000], C: out int32[300]) {
           for i in 6 independent { for j in 50 independent {
             C[i * 50 + j] = int32(0)
             for k in 100 reduction {
               C[i * 50 + j] = C[i * 50 + j] + cast(int32, A[i * 100 + k]) * cast(int32, B[j * 100 + k])
             }
           } }
         }",
    )
    .expect("parses");
    for options in [options()].into_iter().chain(wide_sets()) {
        check(&kernel, &options, 13, Closeness::Exact);
        check(&kernel, &CodegenOptions { dot_products: false, ..options }, 13, Closeness::Exact);
    }
}

const PARALLEL: &str = "kernel @f(X: in float32[6400], Y: out float32[6400], Z: out float32[64]) {
  scratch P: float32[100] per_worker
  scratch S: float32[64]
  for t in 2 {
    let base: int64 = t * 32
    let scale: float32 = cast(float32, t + 1)
    for i in 32 parallel independent {
      for j in 100 { P[j] = X[(base + i) * 100 + j] * scale }
      for j in 100 { Y[(base + i) * 100 + j] = P[99 - j] + 1.0 }
      S[base + i] = P[0]
    }
  }
  for i in 64 { Z[i] = S[i] }
}";

#[test]
fn parallel_loops_use_all_workers_and_their_own_scratch() {
    let kernel = parse(PARALLEL).expect("parses");
    assert_valid(&kernel, "parsing");
    check(&kernel, &options(), 1, Closeness::Exact);
    let compiled = compile(&kernel, &CodegenOptions { threads: 3, ..options() }).expect("compiles");
    let params = random_params(&kernel, 1);
    let mut expected = params.clone();
    eval::run(&kernel, &mut expected).expect("runs");
    let workers = Arc::new(Workers::new(3, &Pinning::None).expect("threads start"));
    let mut context = RunContext::new(workers);
    for _ in 0..50 {
        let found = run_compiled(&compiled, &params, Flush::End, &mut context).expect("runs");
        assert_close(&kernel, &expected, &found, Closeness::Exact, "three workers");
    }
}

#[test]
fn a_raised_flag_stops_a_kernel_soon() {
    let texts = [
        // Nested loops, one flat loop, and a parallel one.
        "kernel @f(X: inout float64[64]) { for i in 100000 { for j in 1000 { for k in 64 { X[k] = X[k] * 0.5:64 } } } }",
        "kernel @f(X: inout float64[64]) { for i in 10000000000 { X[i % 64] = X[i % 64] + 1.0:64 } }",
        "kernel @f(X: inout float64[64]) { for i in 64 parallel { for k in 1000000000 { X[i] = X[i] + 1.0:64 } } }",
    ];
    for text in texts {
        let text = text.replace("0.5:64", "float64(0.5)").replace("1.0:64", "float64(1.0)");
        let kernel = parse(&text).expect("parses");
        for threads in [1, 2] {
            let compiled = compile(&kernel, &CodegenOptions { threads, ..options() }).expect("compiles");
            let workers = Workers::new(threads as usize, &Pinning::None).expect("threads start");
            let mut context = RunContext::new(Arc::new(workers));
            let flag = context.stop_flag().clone();
            let raise = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                flag.raise();
                Instant::now()
            });
            let params = random_params(&kernel, 1);
            let result = run_compiled(&compiled, &params, Flush::Start, &mut context);
            let late = raise.join().expect("does not panic").elapsed();
            assert_eq!(result.map(|_| ()), Err(RuntimeFailure::Stopped));
            // A generous limit: other tests run on the same cores.
            assert!(late < Duration::from_millis(50), "stopped {late:?} after the flag was raised");
        }
    }
}

#[test]
fn memory_stays_flat() {
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) * 4096
    }
    let kernel = random_kernel(7, Numbers::Integers);
    let compile_some = |n| (0..n).for_each(|_| drop(compile(&kernel, &options()).expect("compiles")));
    compile_some(100);
    let before = resident();
    compile_some(500);
    let grown = resident().saturating_sub(before);
    // Other tests run in this process as well.
    assert!(grown < 64 << 20, "500 compilations left {grown} bytes behind");
}

#[test]
fn floating_point_state_is_restored() {
    let kernel = parse("kernel @f(X: in float32[1], Y: out float32[1]) { Y[0] = X[0] * 0.5 }").expect("parses");
    let tiny = f32::MIN_POSITIVE as f64;
    for (strict_fp, expected) in [(false, 0.0), (true, tiny / 2.0)] {
        let compiled = compile(&kernel, &CodegenOptions { strict_fp, ..options() }).expect("compiles");
        let params = [vec![Some(crate::ir::Const::Float(tiny))], vec![Some(crate::ir::Const::Float(1.0))]];
        let found = run_compiled(&compiled, &params, Flush::Start, &mut RunContext::serial()).expect("runs");
        assert_eq!(found[1][0], Some(crate::ir::Const::Float(expected)));
        let half = std::hint::black_box(f32::MIN_POSITIVE) / 2.0;
        assert!(half > 0.0, "subnormal numbers are back after the call");
    }
}

#[test]
fn random_kernels_in_wide_vectors() {
    for (i, options) in wide_sets().into_iter().enumerate() {
        let first = 5000 + 1000 * i as u64;
        check_random(first..first + 60, Numbers::Floats(DType::Float32), &options, Closeness::Ulps(64.0));
        check_random(first + 60..first + 90, Numbers::Floats(DType::Float64), &options, Closeness::Ulps(64.0));
        check_random(first + 90..first + 130, Numbers::Integers, &options, Closeness::Exact);
    }
}
