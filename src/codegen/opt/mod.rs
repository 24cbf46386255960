//! Loop optimisation: passes from kernels to kernels, each a function in a file of its own.
//!
//! [`optimize`] lists them in order. A pass reorders only what the facts of the loops ([`crate::loopir::Iterations`]) or
//! disjoint accesses allow, never tiles, packs or interchanges spatial loops, and leaves a valid kernel.

mod accumulate;
mod contract;
mod forward;
mod machine;
mod nest;
mod pieces;
mod promote;
mod ranges;
mod simplify;
mod unfuse;
mod unroll;
mod vectorize;
mod widen;

pub use pieces::cut_long_loops;

use super::CodegenOptions;
use crate::loopir::Kernel;
use machine::Machine;

/// All passes, in order.
pub fn optimize(mut kernel: Kernel, options: &CodegenOptions) -> Kernel {
    let machine = Machine::new(options);
    let k = &mut kernel;
    run("simplify", k, simplify::simplify);
    if run("unfuse", k, unfuse::unfuse) {
        run("simplify", k, simplify::simplify);
    }
    run("accumulate", k, |k| accumulate::accumulate(k, &machine));
    run("vectorize", k, |k| vectorize::vectorize(k, &machine));
    run("unroll", k, unroll::unroll);
    run("simplify", k, simplify::simplify);
    run("promote", k, |k| promote::promote(k, &machine));
    run("forward", k, forward::forward);
    if machine.contracts {
        run("contract", k, contract::contract);
    }
    run("cut_long_loops", k, cut_long_loops);
    kernel
}

/// Runs a pass, and in debug builds verifies what it made.
fn run<R>(name: &str, kernel: &mut Kernel, pass: impl FnOnce(&mut Kernel) -> R) -> R {
    let result = pass(kernel);
    if cfg!(debug_assertions) {
        crate::loopir::verify::assert_valid(kernel, name);
    }
    result
}
