//! Tunes a function, compiles the best version, and calls it on arrays.
//!
//! `cargo run --release --example tune_function`

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use tvmr::callable::{ArrayRef, Callable};
use tvmr::database::Database;
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
    let workload = Workload::of(&module, 0);
    let found = best::find(&workload, &db, &setting.filter(), 1)?;
    let best = found.best.ok_or("no valid record")?;
    let matmul = Callable::compile(&workload, best.schedule.func(0), &setting, None)?;

    let (a, b, mut c) = (vec![0.5f32; N * N], vec![2.0f32; N * N], vec![f32::NAN; N * N]);
    let shape = [N as i64, N as i64];
    matmul.call(&[ArrayRef::of(&a, &shape), ArrayRef::of(&b, &shape), ArrayRef::of_mut(&mut c, &shape)])?;
    assert!(c.iter().all(|&x| x == N as f32), "96 products of 0.5 and 2.0");
    println!("C[0, 0] = {}", c[0]);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
