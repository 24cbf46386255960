//! Tunes a function, compiles the best version, and calls it on arrays.
//!
//! `cargo run --release --example tune_function`

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use tvmr::codegen::{CompiledKernel, RunContext, compile};
use tvmr::database::Database;
use tvmr::lower::lower;
use tvmr::script::{ParseOptions, parse};
use tvmr::tune::config::Config;
use tvmr::tune::events::Silent;
use tvmr::tune::native::Native;
use tvmr::tune::{Interrupt, best, tune};
use tvmr::workload::{Setting, Workload};

const N: usize = 96;

const PROGRAM: &str = r#"
@T.prim_func
def main(A: T.Buffer((96, 96), "float32"), B: T.Buffer((96, 96), "float32"), C: T.Buffer((96, 96), "float32")):
    for i, j, k in T.grid(96, 96, 96):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#;

/// An array at a multiple of 64 bytes, as kernels expect their arguments.
#[repr(align(64))]
struct Matrix([f32; N * N]);

fn main() -> Result<(), Box<dyn Error>> {
    let module = parse(PROGRAM, "matmul.tir", &ParseOptions::default()).map_err(|e| e.render(false))?.module;
    let setting = Setting::native();
    let config = Config { trials: 16, ..Config::new(setting.clone()) };

    // Records go to a database, from which later runs resume.
    let dir = std::env::temp_dir().join(format!("tvmr-example-{}", std::process::id()));
    let mut db = Database::create(&dir)?;
    let interrupt = Interrupt::new();
    let native = Native::new(&setting, None, &interrupt)?;
    let summary = tune(&module, &[0], &config, &mut db, &native, &mut Silent, &interrupt)?;
    println!("{} trials, {:?} us", summary.total.trials, summary.total.best_us);

    // The best version, as machine code in memory of its own.
    let found = best::find(&Workload::of(&module, 0), &db, &setting.filter(), 1)?;
    let best = found.best.ok_or("no valid record")?;
    let kernel: CompiledKernel = compile(&lower(best.schedule.func(0))?, &setting.codegen())?;

    let a = Box::new(Matrix([0.5; N * N]));
    let b = Box::new(Matrix([2.0; N * N]));
    let mut c = Box::new(Matrix([f32::NAN; N * N]));
    let pointers = [a.0.as_ptr().cast_mut().cast(), b.0.as_ptr().cast_mut().cast(), c.0.as_mut_ptr().cast()];
    // SAFETY: the function has three parameters of 96 x 96 floats, of which it writes the last one alone; the arrays are
    // aligned, do not overlap, and live until the call is over.
    unsafe { kernel.call(&pointers, &mut RunContext::serial()) }.map_err(|e| format!("{e:?}"))?;
    assert!(c.0.iter().all(|&x| x == N as f32), "96 products of 0.5 and 2.0");
    println!("C[0, 0] = {}", c.0[0]);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
