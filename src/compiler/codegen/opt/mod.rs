//! Loop optimisation: passes from kernels to kernels, each a function in a file of its own.
//!
//! `PIPELINE` lists them in order. A pass reorders only what the facts of the loops ([`crate::loopir::Iterations`]) or disjoint
//! accesses allow, and leaves a valid kernel. Loops of a reduction are tiled and interchanged (`accumulate`); elsewhere the
//! order of loops stays as written.

mod accumulate;
mod arg_reduce;
mod coalesce;
mod collect_checks;
mod combine_rows;
mod constant_lanes;
mod constant_tables;
mod contract;
mod delinearize;
mod divide;
mod divide_in_floats;
mod dot;
mod effects;
mod forward;
mod functions;
mod fuse;
mod hoist;
mod hoist_checks;
mod horizontal;
mod in_place;
mod interleave;
mod machine;
mod merge_stores;
mod multiversion;
mod narrow_indices;
mod nest;
mod not_nan;
mod overlap;
mod partition;
mod planes_in_lanes;
mod preconvert;
mod promote;
mod reciprocal;
mod reroll;
mod row_order;
mod rows_in_registers;
mod scan;
mod separate_windows;
mod several_rows;
mod share_out;
mod shared_divisors;
mod signed_words;
mod simplify;
mod specialize;
mod speculate;
mod stagger;
mod strip_mine;
mod sums_of_halves;
mod tabulate;
mod tabulate_repeated;
mod ties;
mod transform;
mod transpose;
mod transpose_copies;
mod unroll;
mod unrounded_halves;
mod vectorize;
mod version_checks;
mod walk;
mod wide_copies;
mod widen;

pub use strip_mine::strip_mine;

use super::CodegenOptions;
use crate::loopir::Kernel;
use machine::Machine;
use partition::Cuts;

/// All passes, in order. Kernels with loops that are not counted, or with jumps, stay as they are: no pass knows what
/// their registers mean.
pub fn optimize(mut kernel: Kernel, options: &CodegenOptions) -> Kernel {
    let machine = Machine::new(options);
    if kernel.is_irregular() {
        strip_mine(&mut kernel, machine.vectors.isa);
        return kernel;
    }
    for pass in PIPELINE {
        pass.run(&mut kernel, &machine);
    }
    kernel
}

/// A step of the pipeline.
struct Pass {
    name: &'static str,
    run: Run,
}

/// Whether a pass needs a simplification after it.
enum Run {
    /// The pass leaves indices simple.
    Plain(fn(&mut Kernel, &Machine)),
    /// The kernel is simplified after the pass, if it returns true.
    Simplified(fn(&mut Kernel, &Machine) -> bool),
}

use Run::{Plain, Simplified};

/// The only pass over kernels with loops that are not counted, or with jumps.
const STRIP_MINE: &str = "strip_mine";

const PIPELINE: &[Pass] = &[
    // Canonical form: affine accesses, loops without conditions.
    Pass { name: "simplify", run: Plain(|k, _| simplify::simplify(k)) },
    Pass { name: "powers", run: Plain(|k, _| functions::powers(k)) },
    Pass { name: "specialize", run: Simplified(specialize::specialize) },
    Pass { name: "in_place", run: Simplified(|k, _| in_place::in_place(k)) },
    Pass { name: "signed_words", run: Simplified(|k, _| signed_words::signed_words(k)) },
    Pass { name: "delinearize", run: Simplified(delinearize::delinearize) },
    Pass { name: "scan", run: Simplified(scan::scan) },
    Pass { name: "planes_in_lanes", run: Simplified(planes_in_lanes::planes_in_lanes) },
    Pass { name: "separate_windows", run: Simplified(separate_windows::separate_windows) },
    Pass { name: "transform", run: Simplified(transform::transform) },
    Pass { name: "partition", run: Simplified(|k, m| partition::partition(k, m, Cuts::Order)) },
    Pass { name: "hoist_checks", run: Plain(|k, _| hoist_checks::hoist_checks(k)) },
    Pass { name: "divide_in_floats", run: Simplified(divide_in_floats::divide_in_floats) },
    Pass { name: "version_checks", run: Simplified(version_checks::version_checks) },
    Pass { name: "collect_checks", run: Plain(collect_checks::collect_checks) },
    // Operands: bytes four at a time, other narrow operands converted once.
    Pass { name: "reroll", run: Simplified(|k, _| reroll::reroll(k)) },
    Pass { name: "merge_stores", run: Simplified(|k, _| merge_stores::merge_stores(k)) },
    Pass { name: "dot", run: Simplified(|k, _| dot::dot(k)) },
    Pass { name: "sums_of_halves", run: Simplified(sums_of_halves::sums_of_halves) },
    Pass { name: "unrounded_halves", run: Simplified(unrounded_halves::unrounded_halves) },
    Pass { name: "wide_copies", run: Simplified(wide_copies::wide_copies) },
    Pass { name: "preconvert", run: Simplified(|k, _| preconvert::preconvert(k)) },
    // Arrangement: tiles, vectors, straight-line code.
    Pass { name: "accumulate", run: Plain(accumulate::accumulate) },
    Pass { name: "partition_first", run: Simplified(|k, m| partition::partition(k, m, Cuts::All)) },
    Pass { name: "speculate", run: Simplified(speculate::speculate) },
    Pass { name: "combine_rows", run: Simplified(combine_rows::combine_rows) },
    Pass { name: "share_out", run: Simplified(|k, _| share_out::share_out(k)) },
    Pass { name: "tabulate", run: Simplified(tabulate::tabulate) },
    Pass { name: "tabulate_repeated", run: Simplified(tabulate_repeated::tabulate_repeated) },
    Pass { name: "reciprocal", run: Plain(reciprocal::reciprocal) },
    Pass { name: "shared_divisors", run: Simplified(shared_divisors::shared_divisors) },
    Pass { name: "divide", run: Plain(divide::divide) },
    Pass { name: "coalesce", run: Simplified(coalesce::coalesce) },
    Pass { name: "transpose", run: Plain(transpose::transpose) },
    Pass { name: "interleave", run: Plain(interleave::interleave) },
    Pass { name: "vectorize", run: Plain(vectorize::vectorize) },
    Pass { name: "narrow_indices", run: Plain(narrow_indices::narrow_indices) },
    Pass { name: "unroll", run: Plain(unroll::unroll) },
    Pass { name: "simplify_copies", run: Plain(|k, _| simplify::simplify(k)) },
    Pass { name: "rows_in_registers", run: Simplified(rows_in_registers::rows_in_registers) },
    Pass { name: "constant_tables", run: Simplified(constant_tables::constant_tables) },
    // Evaluation: in registers, without recomputation.
    Pass { name: "promote", run: Plain(promote::promote) },
    Pass { name: "unroll_around_registers", run: Plain(unroll::unroll_around_registers) },
    Pass { name: "simplify_iterations", run: Plain(|k, _| simplify::simplify(k)) },
    Pass { name: "overlap", run: Plain(overlap::overlap) },
    Pass { name: "row_order", run: Plain(row_order::row_order) },
    Pass { name: "fuse", run: Plain(fuse::fuse) },
    Pass { name: "forward", run: Plain(|k, _| forward::forward(k)) },
    Pass { name: "ties", run: Plain(|k, _| ties::ties(k)) },
    Pass { name: "hoist", run: Plain(hoist::hoist) },
    Pass { name: "several_rows", run: Simplified(several_rows::several_rows) },
    Pass { name: "contract", run: Plain(contract::contract) },
    Pass { name: "stagger", run: Simplified(stagger::stagger) },
    Pass { name: "functions", run: Plain(functions::functions) },
    Pass { name: STRIP_MINE, run: Plain(|k, m| strip_mine(k, m.vectors.isa)) },
];

impl Pass {
    /// Runs the pass, and in debug builds verifies the result.
    fn run(&self, kernel: &mut Kernel, machine: &Machine) {
        match self.run {
            Plain(run) => run(kernel, machine),
            Simplified(run) => {
                if run(kernel, machine) {
                    simplify::simplify(kernel);
                }
            }
        }
        if cfg!(debug_assertions) {
            crate::loopir::verify::assert_valid(kernel, self.name);
        }
    }
}

/// The names of the passes that run over a kernel, in their order; of all if none is given.
pub fn passes(kernel: Option<&Kernel>) -> impl Iterator<Item = &'static str> + use<> {
    let is_irregular = kernel.is_some_and(Kernel::is_irregular);
    PIPELINE.iter().map(|p| p.name).filter(move |&name| !is_irregular || name == STRIP_MINE)
}

/// Whether there is a pass of this name.
pub fn is_pass(name: &str) -> bool {
    PIPELINE.iter().any(|p| p.name == name)
}

/// Runs one pass by its name; `None` if there is none.
pub fn run_pass(name: &str, mut kernel: Kernel, options: &CodegenOptions) -> Option<Kernel> {
    let pass = PIPELINE.iter().find(|p| p.name == name)?;
    pass.run(&mut kernel, &Machine::new(options));
    Some(kernel)
}

/// The register tiles that the code generator will make of a kernel.
#[cfg(any(test, feature = "testing"))]
pub fn register_tiles(mut kernel: Kernel, options: &CodegenOptions) -> Vec<accumulate::RegisterTile> {
    let machine = Machine::new(options);
    if kernel.is_irregular() {
        return Vec::new();
    }
    for pass in PIPELINE.iter().take_while(|p| p.name != "accumulate") {
        pass.run(&mut kernel, &machine);
    }
    accumulate::register_tiles(&mut kernel, &machine)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Later runs of `simplify` under names of their own.
    const AGAIN: [&str; 2] = ["simplify_copies", "simplify_iterations"];

    #[test]
    fn every_pass_has_a_file_test() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/opt");
        let entries = fs::read_dir(dir).expect("the directory of cases");
        let cases = entries.map(|e| fs::read_to_string(e.expect("an entry").path()).expect("a readable case"));
        let tested: Vec<String> = cases
            .filter_map(|case| {
                let words: Vec<&str> = case.lines().next()?.split_whitespace().collect();
                let at = words.iter().position(|&w| w == "pass")?;
                Some((*words.get(at + 1)?).to_string())
            })
            .collect();
        for name in super::passes(None).filter(|name| !AGAIN.contains(name)) {
            assert!(
                tested.iter().any(|t| t == name),
                "no case in tests/filetests/opt begins `# test: opt pass {name}`"
            );
        }
    }
}
