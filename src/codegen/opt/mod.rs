//! Loop optimisation: passes from kernels to kernels, each a function in a file of its own.
//!
//! [`optimize`] lists them in order. A pass reorders only what the facts of the loops ([`crate::loopir::Iterations`]) or
//! disjoint accesses allow, never tiles, packs or interchanges spatial loops, and leaves a valid kernel.

mod accumulate;
mod contract;
mod forward;
mod hoist;
mod machine;
mod nest;
mod partition;
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
use partition::Cuts;

/// All passes, in order.
pub fn optimize(mut kernel: Kernel, options: &CodegenOptions) -> Kernel {
    for pass in PIPELINE {
        pass.run(&mut kernel, &Machine::new(options));
    }
    kernel
}

/// A step of the pipeline.
struct Pass {
    name: &'static str,
    /// Returns whether the kernel is to be simplified again.
    run: fn(&mut Kernel, &Machine) -> bool,
}

const PIPELINE: &[Pass] = &[
    // What the program is: affine accesses, loops without conditions.
    pass("simplify", |_, _| true),
    pass("unfuse", |k, _| unfuse::unfuse(k)),
    pass("partition", |k, _| partition::partition(k, Cuts::Order)),
    // What it becomes: tiles, vectors, straight code.
    pass("accumulate", |k, m| done(accumulate::accumulate(k, m))),
    pass("partition_first", |k, _| partition::partition(k, Cuts::All)),
    pass("vectorize", |k, m| done(vectorize::vectorize(k, m))),
    pass("unroll", |k, _| {
        unroll::unroll(k);
        true
    }),
    // How it is computed: registers, no work twice.
    pass("promote", |k, m| done(promote::promote(k, m))),
    pass("forward", |k, _| done(forward::forward(k))),
    pass("hoist", |k, m| done(hoist::hoist(k, m))),
    pass("contract", |k, m| {
        if m.contracts {
            contract::contract(k);
        }
        false
    }),
    pass("cut_long_loops", |k, _| done(cut_long_loops(k))),
];

const fn pass(name: &'static str, run: fn(&mut Kernel, &Machine) -> bool) -> Pass {
    Pass { name, run }
}

/// Nothing is left to simplify.
fn done((): ()) -> bool {
    false
}

impl Pass {
    /// Runs the pass, and in debug builds verifies what it made.
    fn run(&self, kernel: &mut Kernel, machine: &Machine) {
        if (self.run)(kernel, machine) {
            simplify::simplify(kernel);
        }
        if cfg!(debug_assertions) {
            crate::loopir::verify::assert_valid(kernel, self.name);
        }
    }
}

/// Runs one pass by its name, for tests; nothing if there is none.
pub fn run_pass(name: &str, mut kernel: Kernel, options: &CodegenOptions) -> Option<Kernel> {
    let pass = PIPELINE.iter().find(|p| p.name == name)?;
    pass.run(&mut kernel, &Machine::new(options));
    Some(kernel)
}
