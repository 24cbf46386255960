//! Tests that the search predicts the register tiles of the code generator, for sampled candidates of all workloads and
//! each instruction set.

use super::kernel::{Kernel, LanesBy};
use super::{CodeModel, leaf};
use crate::ir::Func;
use crate::machine::cascade_lake;
use crate::machine::{Core, Isa};
use crate::schedule::Schedule;
use crate::script::{ParseOptions, parse};
use crate::space::sample::stream;
use crate::space::{Rules, generate};
use crate::stop::StopFlag;
use std::fmt::Write;
use std::path::Path;
use tvmr_compiler::codegen::CodegenOptions;
use tvmr_compiler::codegen::opt::register_tiles;

/// Number of candidates of each workload and instruction set.
const SAMPLES: u64 = 6;

/// Minimum percentage of correctly predicted tiles, weighted by updates, as an average per instruction set. Most
/// mispredictions are in remainders of uneven splits, which the search does not see, and in byte dot products.
const FLOORS: [(Isa, f64); 4] = [(Isa::Portable, 89.7), (Isa::Avx2, 88.3), (Isa::Avx512Ymm, 87.8), (Isa::Avx512, 88.2)];

/// Totals over candidates: the number of updates, the share with predicted tiles, and descriptions of the others.
#[derive(Default)]
struct Tally {
    all: f64,
    right: f64,
    mistakes: String,
}

#[test]
fn register_tiles_are_foreseen() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("workloads").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    let mut tallies: Vec<(Isa, Tally)> = FLOORS.iter().map(|&(isa, _)| (isa, Tally::default())).collect();
    let mut n_candidates = 0;
    for path in files.iter().filter(|p| p.extension().is_some_and(|e| e == "tir")) {
        let text = std::fs::read_to_string(path).expect("a workload");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let parsed = parse(&text, &name, &ParseOptions::default()).or_else(|_| {
            let bind = [("n".into(), 64)].into();
            parse(&text, &name, &ParseOptions { bind, ..ParseOptions::default() })
        });
        let parsed = parsed.unwrap_or_else(|e| panic!("{name}: {e}"));
        for (isa, tally) in &mut tallies {
            for func in candidates(&parsed.module, *isa) {
                compare(&func, *isa, &name, tally);
                n_candidates += 1;
            }
        }
    }
    assert!(n_candidates > 300, "{n_candidates} candidates");
    for (isa, tally) in &tallies {
        let share = 100.0 * tally.right / tally.all;
        println!("{isa}: {share:.1} % of the updates\n{}", tally.mistakes);
    }
    for ((isa, tally), (_, floor)) in tallies.iter().zip(FLOORS) {
        let share = 100.0 * tally.right / tally.all;
        assert!(share >= floor, "{isa}: {share:.1} % of the updates\n{}", tally.mistakes);
    }
}

/// Some candidates of the functions of a module.
fn candidates(module: &crate::ir::Module, isa: Isa) -> Vec<Func> {
    let mut found = Vec::new();
    for index in 0..module.funcs.len() {
        let one = crate::ir::Module { funcs: vec![module.funcs[index].clone()], ..module.clone() };
        let core = Core::new(&cascade_lake(), isa, 1);
        let Ok(space) = generate(&one, 0, Rules::auto(core), &StopFlag::new()) else { continue };
        let base = Schedule::new(&one, 0);
        let samples = (0..SAMPLES).filter_map(|i| space.sample(&base, stream(7, i)).ok());
        found.extend(samples.map(|(schedule, _)| schedule.func(0).clone()));
    }
    found
}

/// Adds the reductions of a program to a tally.
fn compare(func: &Func, isa: Isa, name: &str, tally: &mut Tally) {
    let model = CodeModel::new(&cascade_lake(), isa, false, 1);
    let foreseen: Vec<Kernel> = leaf::leaves(func).iter().map(|leaf| Kernel::of(leaf, &model).0).collect();
    let Ok(kernel) = tvmr_compiler::lower::lower(func) else { return };
    let options = CodegenOptions { isa, ..CodegenOptions::default() };
    let tiles = register_tiles(kernel, &options);
    let updates: f64 = tiles.iter().map(|t| t.updates).sum();
    for tile in tiles {
        let share = tile.updates / updates;
        tally.all += share;
        let is_foreseen = |k: &Kernel| match k.lanes_by {
            // The tile is irrelevant here: partial sums replace it.
            LanesBy::Reduction => !tile.is_vector,
            by => {
                (by == LanesBy::Space, k.rows, k.vectors, k.trips)
                    == (tile.is_vector, tile.rows as f64, tile.vectors as f64, tile.trips as f64)
            }
        };
        if foreseen.iter().any(is_foreseen) {
            tally.right += share;
        } else {
            let _ = writeln!(tally.mistakes, "{name}: {tile:?}");
            for k in &foreseen {
                let _ = writeln!(tally.mistakes, "    {:?} {} x {}, {} trips", k.lanes_by, k.rows, k.vectors, k.trips);
            }
        }
    }
}
