//! Differential soak test: runs random programs of every kind of region, compiled for every instruction set, against
//! the evaluator.
//!
//! `cargo test` runs a few of each kind. `TVMR_SOAK=N cargo test --release --lib soak -- --nocapture` runs `N`,
//! starting at seed `TVMR_SOAK_SEED`, and only kind `TVMR_SOAK_KIND` if that is set. The current program is written to
//! the temporary directory first, so that one that crashes can be found there.

use super::testing::programs::{Kind, Program, program};
use super::testing::{Closeness, Evaluated, below, random_params, rng, wide_sets};
use super::{CodegenOptions, opt};
use crate::ir::{Const, DType};
use crate::loopir::Kernel;
use crate::loopir::eval::Memory;
use crate::loopir::parse::parse;
use crate::loopir::verify::assert_valid;
use rand_chacha::rand_core::Rng;
use std::collections::BTreeMap;

/// Number of programs of each kind in an ordinary test run.
const FEW: u64 = 30;

/// Number of failures after which a kind stops.
const ENOUGH: usize = 5;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Results of all programs of a kind.
#[derive(Default)]
struct Tally {
    programs: u64,
    /// Number of comparisons of machine code and evaluator.
    runs: u64,
    /// Number of comparisons with at least one region, by instruction set.
    with_regions: BTreeMap<String, u64>,
}

#[test]
fn soak() {
    let n = setting("TVMR_SOAK");
    let first = setting("TVMR_SOAK_SEED").unwrap_or(0);
    let (mut failures, mut uncovered) = (Vec::new(), Vec::new());
    let only = std::env::var("TVMR_SOAK_KIND").ok();
    let mut kinds = Kind::ALL.to_vec();
    kinds.retain(|k| only.as_ref().is_none_or(|only| *only == format!("{k:?}")));
    assert!(!kinds.is_empty(), "no kind {only:?}; there are {:?}", Kind::ALL);
    for kind in kinds {
        let mut tally = Tally::default();
        let before = failures.len();
        for seed in first..first + n.unwrap_or(FEW) {
            let program = program(kind, seed);
            if n.is_some() {
                let path = std::env::temp_dir().join("tvmr-soak.lir");
                std::fs::write(path, format!("// {kind:?} {seed}\n{}", program.text)).expect("a writable directory");
            }
            let attempt = std::panic::AssertUnwindSafe(|| run(&program, seed, &mut tally));
            if let Err(panic) = std::panic::catch_unwind(attempt) {
                let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                failures.push(format!("{kind:?} {seed}: {why}\n{}", program.text));
                if failures.len() >= before + ENOUGH {
                    break;
                }
            }
        }
        let Tally { programs, runs, with_regions } = tally;
        println!(
            "{kind:?}: {programs} programs, {runs} runs, with regions: {with_regions:?}, {} failures",
            failures.len() - before
        );
        for set in wide_sets() {
            if with_regions.get(&set.isa.to_string()).is_none_or(|&n| n == 0) {
                uncovered.push((kind, set.isa));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(uncovered.is_empty(), "no regions of {uncovered:?}");
    if wide_sets().is_empty() {
        println!(
            "this machine has no wide vectors: there were no regions, and only the Cranelift back end was looked at"
        );
    }
}

/// Runs one program with all options.
fn run(program: &Program, seed: u64, tally: &mut Tally) {
    let kernel = parse(&program.text).unwrap_or_else(|e| panic!("{e}"));
    assert_valid(&kernel, "generation");
    let mut params = random_params(&kernel, seed);
    let mut rng = rng(seed);
    if program.specials && below(&mut rng, 2) == 0 {
        add_specials(&kernel, &mut params, seed);
    }
    tally.programs += 1;
    let evaluated = Evaluated::new(&kernel, params, seed);
    // Portable code with the features of this CPU, and as objects have it for every CPU.
    let portable = CodegenOptions::default();
    let mut sets = vec![portable, CodegenOptions { any_cpu: true, ..portable }];
    sets.extend(wide_sets());
    let has_dots = sets.iter().any(|o| opt_has_dots(&kernel, o));
    // Strict floats, and byte dot products without their instruction, with one of the instruction sets.
    let chosen = sets[below(&mut rng, sets.len())];
    let is_inexact = matches!(program.fast, Closeness::Ulps(_));
    if is_inexact || program.specials {
        sets.push(CodegenOptions { strict_fp: true, ..chosen });
    }
    if has_dots {
        sets.push(CodegenOptions { dot_products: false, ..chosen });
    }
    for options in sets {
        let closeness = if options.strict_fp { program.strict } else { program.fast };
        let regions = evaluated.check(&options, closeness);
        tally.runs += 1;
        *tally.with_regions.entry(options.isa.to_string()).or_default() += u64::from(regions > 0);
    }
}

/// Whether there are byte dot products.
fn opt_has_dots(kernel: &Kernel, options: &CodegenOptions) -> bool {
    let bytes = kernel.params().iter().filter(|b| b.dtype.bytes() == 1).count();
    bytes >= 2 && crate::loopir::print::print(&opt::optimize(kernel.clone(), options)).contains("dot4(")
}

/// Replaces some floats by infinities, NaN, zeros and very large numbers.
fn add_specials(kernel: &Kernel, params: &mut [Memory], seed: u64) {
    let mut rng = rng(seed ^ 0x5bec);
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 3e9, -3e9, 65519.0, 65520.0, 127.5, -128.6];
    for (p, memory) in kernel.params().iter().zip(params) {
        for v in memory.iter_mut() {
            if p.dtype.is_float() && below(&mut rng, 8) == 0 {
                *v = Some(Const::Float(p.dtype.round(special[below(&mut rng, special.len())])));
            } else if p.dtype == DType::Int32 && below(&mut rng, 8) == 0 {
                *v = Some(Const::Int(p.dtype.wrap(rng.next_u64() as i64)));
            }
        }
    }
}
