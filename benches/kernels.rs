//! Speed of kernels through the Cranelift back end: `cargo bench --bench kernels [-- FILTER]`.
//!
//! Each kernel is as lowering makes it. The output is GFLOP/s (or GB/s), the share of the peak of 128-bit
//! multiply-adds, measured alternately with the kernel, and the compile time.

#![expect(clippy::disallowed_methods, reason = "measures time")]
#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use std::time::{Duration, Instant};
use tvmr::codegen::{CodegenOptions, CompiledKernel, RunContext, compile};
use tvmr::loopir::Kernel;
use tvmr::loopir::parse::parse;
use tvmr::machine::Isa;
use tvmr::measure::{Peak, PeakLoop, PeakWork};

/// Number of pairs of kernel and peak loop.
const PAIRS: usize = 31;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let show = args.iter().any(|a| a == "--show");
    let filter = args.iter().find(|a| !a.starts_with("--"));
    println!("{:<38} {:>9} {:>7} {:>9} {:>8} {:>8}", "kernel", "GFLOP/s", "share", "GB/s", "opt us", "all us");
    for case in cases() {
        if filter.is_none_or(|f| case.name.contains(f.as_str())) {
            report(&case, show);
        }
    }
}

/// A kernel, with its operation count.
struct Case {
    name: String,
    text: String,
    flops: f64,
    bytes: f64,
}

fn report(case: &Case, show: bool) {
    let kernel = parse(&case.text).unwrap_or_else(|e| panic!("{}: {e}\n{}", case.name, case.text));
    let options = CodegenOptions::default();
    if show {
        println!("{}", tvmr::loopir::print::print(&tvmr::codegen::opt::optimize(kernel.clone(), &options)));
        println!("{}", tvmr::codegen::inspect::listing(&kernel, &options).expect("compiles").assembly);
    }
    let times: Vec<_> = (0..9).map(|_| compile(&kernel, &options).expect("compiles").times()).collect();
    let compiled = compile(&kernel, &options).expect("compiles");
    let mut run = Run::new(&kernel, compiled);
    let peak = PeakLoop::new(Isa::Portable, PeakWork::Float32).map(|p| Peak::measure(&p, 1, &[]).flops());
    let calls = run.calibrate();
    let mut shares = Vec::new();
    let mut seconds = Vec::new();
    for _ in 0..PAIRS {
        let s = run.time(calls);
        seconds.push(s);
        shares.extend(peak.map(|peak| case.flops / s / peak));
    }
    let s = median(&mut seconds);
    let us = |f: fn(&tvmr::codegen::CompileTimes) -> Duration| {
        median(&mut times.iter().map(|t| f(t).as_secs_f64() * 1e6).collect::<Vec<_>>())
    };
    println!(
        "{:<38} {:>9.2} {:>7.3} {:>9.2} {:>8.0} {:>8.0}",
        case.name,
        case.flops / s / 1e9,
        if shares.is_empty() { 0.0 } else { median(&mut shares) },
        case.bytes / s / 1e9,
        us(|t| t.optimize),
        us(|t| t.total()),
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A kernel with its arguments.
struct Run {
    compiled: CompiledKernel,
    /// 64 bytes of slack to align each.
    memory: Vec<Vec<u8>>,
    context: RunContext,
}

impl Run {
    fn new(kernel: &Kernel, compiled: CompiledKernel) -> Run {
        let memory = kernel
            .params()
            .iter()
            .enumerate()
            .map(|(n, p)| {
                let mut bytes = vec![0u8; p.bytes() + 64];
                for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                    let value = ((i * 7 + n * 3) % 13) as f32 / 13.0 - 0.5;
                    chunk.copy_from_slice(&value.to_le_bytes());
                }
                bytes
            })
            .collect();
        Run { compiled, memory, context: RunContext::serial() }
    }

    fn time(&mut self, calls: usize) -> f64 {
        let args: Vec<*mut u8> = self
            .memory
            .iter_mut()
            .map(|m| {
                let p = m.as_mut_ptr();
                p.wrapping_add(p.align_offset(64))
            })
            .collect();
        let start = Instant::now();
        for _ in 0..calls {
            // SAFETY: each parameter has an aligned buffer of its own.
            unsafe { self.compiled.call(&args, &mut self.context) }.expect("the kernel runs");
        }
        start.elapsed().as_secs_f64() / calls as f64
    }

    fn calibrate(&mut self) -> usize {
        let mut calls = 1;
        while self.time(calls) * (calls as f64) < 200e-6 {
            calls *= 2;
        }
        calls
    }
}

// ---- kernels -----------------------------------------------------------------------------------------------

fn cases() -> Vec<Case> {
    let mut cases = vec![as_written("ijk", 128), as_written("ikj", 128), as_written("ijk", 512)];
    // (i0, i1, i2, i3), (j0, …), (k0, k1): good and bad tilings of 128.
    for (i, j, k) in [
        ([4, 2, 4, 4], [4, 4, 1, 8], [8, 16]),
        ([4, 4, 2, 4], [2, 8, 1, 8], [1, 128]),
        ([8, 2, 2, 4], [2, 4, 2, 8], [4, 32]),
        ([2, 8, 2, 4], [4, 1, 2, 16], [16, 8]),
        ([4, 2, 8, 2], [2, 2, 2, 16], [2, 64]),
        ([2, 4, 1, 16], [2, 1, 1, 64], [8, 16]),
        ([16, 1, 1, 8], [1, 4, 1, 32], [4, 32]),
        ([4, 4, 8, 1], [4, 2, 4, 4], [32, 4]),
        ([2, 2, 32, 1], [32, 1, 4, 1], [64, 2]),
        ([128, 1, 1, 1], [1, 2, 1, 64], [1, 128]),
        ([1, 16, 4, 2], [1, 128, 1, 1], [2, 64]),
    ] {
        cases.push(tiled(128, i, j, k, 0));
    }
    cases.push(tiled(128, [4, 4, 2, 4], [2, 8, 1, 8], [1, 128], 64));
    cases.push(tiled(128, [4, 4, 2, 4], [2, 8, 1, 8], [32, 4], 512));
    cases.push(tiled(96, [4, 4, 1, 6], [2, 6, 1, 8], [3, 32], 0));
    cases.push(tiled(96, [4, 6, 1, 4], [2, 4, 1, 12], [1, 96], 0));
    cases.push(tiled(512, [8, 8, 2, 4], [4, 4, 4, 8], [8, 64], 0));
    cases.extend(streams());
    cases
}

/// `for i, j, k` in some order, with the initialisation in place.
fn as_written(order: &str, n: i64) -> Case {
    let kind = |c: char| if c == 'k' { "reduction" } else { "independent" };
    let loops: String = order.chars().map(|c| format!("for {c} in {n} {} {{ ", kind(c))).collect();
    Case {
        name: format!("matmul {n} as written {order}"),
        text: format!(
            "kernel @matmul(A: in float32[{0}], B: in float32[{0}], C: out float32[{0}]) {{
               {loops}
                 if k == 0 {{ C[i * {n} + j] = 0.0 }}
                 C[i * {n} + j] = C[i * {n} + j] + A[i * {n} + k] * B[k * {n} + j]
               }} }} }} }}",
            n * n
        ),
        flops: 2.0 * (n * n * n) as f64,
        bytes: 12.0 * (n * n) as f64,
    }
}

/// SSRSRS with a local copy of the result.
fn tiled(n: i64, i: [i64; 4], j: [i64; 4], k: [i64; 2], unroll: i64) -> Case {
    let (mi, mj) = (i[2] * i[3], j[2] * j[3]);
    let hint = if unroll > 0 { format!("hint unroll {unroll}") } else { String::new() };
    let vector = |x: &str, n: i64| format!("for {x} in {n} {}independent", if n > 1 { "vector " } else { "" });
    let text = format!(
        "kernel @matmul(A: in float32[{size}], B: in float32[{size}], C: out float32[{size}]) {{
           scratch L: float32[{local}] per_worker
           for f in {fused} parallel independent {hint} {{
           for i1 in {i1} independent {{ for j1 in {j1} independent {{
             for i2i in {i2} independent {{ for j2i in {j2} independent {{
             for i3i in {i3} independent {{ {vi} {{ L[(i2i * {i3} + i3i) * {mj} + j2i * {j3} + j3i] = 0.0 }} }} }} }}
             for k0 in {k0} reduction {{
               for i2 in {i2} independent {{ for j2 in {j2} independent {{
                 for k1 in {k1} reduction {{
                   for i3 in {i3} independent {{ {v3} {{
                     L[(i2 * {i3} + i3) * {mj} + j2 * {j3} + j3] = L[(i2 * {i3} + i3) * {mj} + j2 * {j3} + j3]
                       + A[(f // {j0} * {si0} + i1 * {mi} + i2 * {i3} + i3) * {n} + k0 * {k1} + k1]
                       * B[(k0 * {k1} + k1) * {n} + f % {j0} * {sj0} + j1 * {mj} + j2 * {j3} + j3]
                   }} }} }} }} }} }}
             for ax0 in {mi} independent {{ {va} {{
               C[(f // {j0} * {si0} + i1 * {mi} + ax0) * {n} + f % {j0} * {sj0} + j1 * {mj} + ax1] = L[ax0 * {mj} + ax1]
             }} }}
           }} }} }} }}",
        size = n * n,
        local = mi * mj,
        fused = i[0] * j[0],
        i1 = i[1],
        j1 = j[1],
        i2 = i[2],
        j2 = j[2],
        i3 = i[3],
        j3 = j[3],
        j0 = j[0],
        k0 = k[0],
        k1 = k[1],
        si0 = i[1] * mi,
        sj0 = j[1] * mj,
        vi = vector("j3i", j[3]),
        v3 = vector("j3", j[3]),
        va = vector("ax1", mj),
    );
    let dots = |x: &[i64]| x.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(".");
    Case {
        name: format!("matmul {n} {} {} {} u{unroll}", dots(&i), dots(&j), dots(&k)),
        text,
        flops: 2.0 * (n * n * n) as f64,
        bytes: 12.0 * (n * n) as f64,
    }
}

fn streams() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [4096i64, 1 << 22] {
        let mut push = |name: &str, text: String, per_element: f64| {
            let (name, flops) = (format!("{name} {n}"), n as f64);
            cases.push(Case { name, text, flops, bytes: per_element * n as f64 });
        };
        push(
            "vector add as written",
            format!(
                "kernel @add(X: in float32[{n}], Y: in float32[{n}], Z: out float32[{n}]) {{
                   for i in {n} independent {{ Z[i] = X[i] + Y[i] }} }}"
            ),
            12.0,
        );
        push(
            "vector add scheduled",
            format!(
                "kernel @add(X: in float32[{n}], Y: in float32[{n}], Z: out float32[{n}]) {{
                   for i in {} parallel independent {{ for j in 64 vector independent {{
                     Z[i * 64 + j] = X[i * 64 + j] + Y[i * 64 + j] }} }} }}",
                n / 64
            ),
            12.0,
        );
        push(
            "relu",
            format!(
                "kernel @relu(X: in float32[{n}], Z: out float32[{n}]) {{
                   for i in {n} independent {{ Z[i] = max(X[i], 0.0) }} }}"
            ),
            8.0,
        );
        push(
            "row sum of 1024",
            format!(
                "kernel @sum(X: in float32[{n}], Z: out float32[{m}]) {{
                   for i in {m} independent {{ for k in 1024 reduction {{
                     if k == 0 {{ Z[i] = 0.0 }}
                     Z[i] = Z[i] + X[i * 1024 + k] }} }} }}",
                m = n / 1024
            ),
            4.0,
        );
    }
    cases
}
