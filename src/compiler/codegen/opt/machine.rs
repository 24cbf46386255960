//! Capabilities of the target: the vector unit, and the rewrites of floats that the options allow.

use crate::codegen::cost::{Costs, UNPOLLED};
use crate::codegen::{CodegenOptions, isa};
use crate::loopir::{For, Kernel};
use crate::machine::{Isa, VectorUnit};

/// The vector unit, and the rewrites of floats that are allowed on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Vector registers and their lanes.
    pub vectors: VectorUnit,
    /// Whether fused multiply-add is an instruction.
    pub has_fma: bool,
    /// Whether multiplication and addition may become one operation with one rounding.
    pub contracts: bool,
    /// Whether sums of floats may be computed in another order.
    pub reassociates: bool,
}

impl Machine {
    /// The machine that options ask for.
    pub(super) fn new(options: &CodegenOptions) -> Machine {
        // Every instruction set with region code has it.
        let has_fma = options.isa != Isa::Portable || (!options.any_cpu && isa::has_fma());
        Machine {
            vectors: VectorUnit::here(options.isa),
            has_fma,
            contracts: !options.strict_fp && has_fma,
            reassociates: !options.strict_fp,
        }
    }

    /// Whether a vector may stay in a register all through a loop. Not if the loop is too long for a region, as those
    /// inside could not be regions either.
    pub(super) fn keeps_vectors(&self, kernel: &Kernel, l: &For) -> bool {
        !self.vectors.has_regions() || Costs::total(kernel, self.vectors.isa, l) <= UNPOLLED
    }
}
