//! Applies a schedule to a program, and prints the program and the trace.
//!
//! `cargo run --example apply_schedule`

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use tvmr::ir::Module;
use tvmr::schedule::Schedule;
use tvmr::schedule::arg::Arg;
use tvmr::script::{Dialect, ParseOptions, parse, print_module};

const PROGRAM: &str = r#"
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i, j, k in T.grid(128, 128, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let module: Module = parse(PROGRAM, "matmul.tir", &ParseOptions::default()).map_err(|e| e.render(false))?.module;
    let mut schedule = Schedule::new(&module, 0);

    // The methods are those of TVM's Schedule; an instruction that is refused says why, and changes nothing.
    let block = schedule.get_block("C", "main")?;
    let loops = schedule.get_loops(block)?;
    let [i, j, k] = loops[..] else { return Err("three loops".into()) };
    let rows = schedule.split(i, vec![Arg::Int(32), Arg::Int(4)])?;
    let columns = schedule.split(j, vec![Arg::Int(2), Arg::Int(64)])?;
    schedule.reorder(&[rows[0], columns[0], k, rows[1], columns[1]])?;
    schedule.vectorize(columns[1])?;
    schedule.decompose_reduction(block, k)?;

    println!("{}", print_module(&schedule.module(), Dialect::Current));
    println!("{}", schedule.trace().to_python(Dialect::Current));
    Ok(())
}
