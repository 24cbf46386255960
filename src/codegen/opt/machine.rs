//! What the passes need to know of the machine they optimise for.

use crate::codegen::cost::{Costs, UNPOLLED};
use crate::codegen::{CodegenOptions, isa};
use crate::ir::DType;
use crate::loopir::{For, Kernel};
use crate::machine::Isa;

/// The machine, and what may be done to floats on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// The instruction set.
    pub isa: Isa,
    /// Bytes of a vector register.
    pub vector_bytes: usize,
    /// Vector registers.
    pub registers: usize,
    /// Do inner nests become region code, which can load and store vectors in part, and allocates registers well?
    pub has_regions: bool,
    /// Is fused multiply-add an instruction?
    pub has_fma: bool,
    /// Is there one that picks lanes of 32 bits from a whole register, of so many?
    pub looks_up: Option<usize>,
    /// May multiplication and addition become one operation with one rounding?
    pub contracts: bool,
    /// May sums of floats be computed in another order?
    pub reassociates: bool,
}

impl Machine {
    /// The machine that options ask for.
    pub(super) fn new(options: &CodegenOptions) -> Machine {
        let registers = match options.isa {
            Isa::Portable | Isa::Avx2 => 16,
            Isa::Avx512Ymm | Isa::Avx512 => 32,
        };
        // Instruction sets that have regions have it.
        let has_fma = options.isa != Isa::Portable || isa::has_fma();
        Machine {
            isa: options.isa,
            vector_bytes: options.isa.vector_bits() as usize / 8,
            registers,
            has_regions: options.isa != Isa::Portable,
            has_fma,
            looks_up: (options.isa == Isa::Avx512).then_some(16),
            contracts: !options.strict_fp && has_fma,
            reassociates: !options.strict_fp,
        }
    }

    /// May a vector stay in a register all through a loop? Not if the loop is too long for a region, as those inside could
    /// not be regions either.
    pub(super) fn keeps_vectors(&self, kernel: &Kernel, l: &For) -> bool {
        !self.has_regions || Costs::total(kernel, self.isa, l) <= UNPOLLED
    }

    /// Lanes of a vector register.
    pub(super) fn lanes(&self, dtype: DType) -> i64 {
        (self.vector_bytes / computed_bytes(dtype)) as i64
    }

    /// Do the sums of a tile of `rows` by `vectors` fit the registers, with the vectors that are added to them beside? A
    /// sum moves when it is added to, which takes a register, its factor takes one, and one must be left: without it
    /// Cranelift's register allocator spills several.
    pub(super) fn holds_tile(&self, rows: i64, vectors: i64) -> bool {
        let loaded = if rows == 1 { vectors.min(ROW) } else { vectors };
        rows * vectors + loaded + 3 <= self.registers as i64
    }

    /// The share of the speed that a tile keeps: where registers are scarce, one sum is spilled, and what depends on it
    /// waits (0.70 instead of 0.84 of the peak for 2 rows of 4 vectors).
    pub(super) fn ease_of_tile(&self, rows: i64, vectors: i64) -> f64 {
        let is_tight = rows > 1 && rows * vectors + vectors + 5 > self.registers as i64;
        if is_tight { 0.8 } else { 1.0 }
    }
}

/// Vectors in the longest row that is computed by one operation.
pub(super) const ROW: i64 = 4;

/// Bytes that a lane of the type occupies while it is computed with.
fn computed_bytes(dtype: DType) -> usize {
    match dtype {
        DType::Float16 | DType::BFloat16 => 4,
        DType::Bool => 1,
        _ => dtype.bytes(),
    }
}
