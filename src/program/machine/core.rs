//! One core as generated code uses it: vector registers, caches, nominal rates.
//!
//! Search spaces, the estimates of the search and the code generator all use this model, so that they agree on the
//! number of lanes and registers, and on the tile of results that fits the registers. Rates are per cycle and nominal:
//! estimates only rank candidates, so a common factor does not matter. No value is measured, so that equal descriptions
//! give equal candidates.

use super::{Arch, Cache, Isa, Target};
use crate::ir::DType;

/// The vector registers of an instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VectorUnit {
    /// The instruction set.
    pub isa: Isa,
    /// Bytes of a vector register.
    pub bytes: usize,
    /// Number of vector registers.
    pub registers: usize,
}

impl VectorUnit {
    /// The vector unit that code for an instruction set uses on an architecture.
    pub fn new(isa: Isa, arch: Arch) -> VectorUnit {
        VectorUnit { isa, bytes: isa.vector_bits() as usize / 8, registers: isa.vector_registers(arch) as usize }
    }

    /// The vector unit of the architecture that this process runs on.
    pub fn here(isa: Isa) -> VectorUnit {
        VectorUnit::new(isa, Arch::HERE)
    }

    /// Whether inner nests become region code, which loads and stores vectors in part, under a mask.
    pub fn has_regions(&self) -> bool {
        self.isa != Isa::Portable
    }

    /// Whether elements of less than 32 bits are also loaded and stored in part, under a mask (EVEX).
    pub fn has_narrow_masks(&self) -> bool {
        matches!(self.isa, Isa::Avx512 | Isa::Avx512Ymm)
    }

    /// 32-bit lanes that one permute (`vpermd`) can index; `None` without such an instruction.
    pub fn lookup_lanes(&self) -> Option<usize> {
        (self.isa == Isa::Avx512).then_some(16)
    }

    /// Bytes per lane during computation with values of a type. Half precision is computed in `float32`, and region
    /// code computes 8-bit and 16-bit integers in 32 bits.
    pub fn lane_bytes(&self, dtype: DType) -> usize {
        match dtype {
            DType::Float16 | DType::BFloat16 => 4,
            _ if self.has_regions() => dtype.bytes().max(4),
            _ => dtype.bytes(),
        }
    }

    /// Lanes of a vector register during computation with values of a type.
    pub fn lanes(&self, dtype: DType) -> i64 {
        (self.bytes / self.lane_bytes(dtype)).max(1) as i64
    }

    /// Vector registers that a vector of `lanes` values occupies.
    pub fn registers_of(&self, dtype: DType, lanes: usize) -> usize {
        lanes.div_ceil(self.lanes(dtype) as usize)
    }
}

/// One core of a machine that runs code of an instruction set, and the number of cores that run a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// Vector registers of the core.
    pub vectors: VectorUnit,
    /// Bytes of first-level data cache.
    pub l1: i64,
    /// Bytes of second-level cache.
    pub l2: i64,
    /// Bytes of the last-level cache available to all threads of a kernel together, considering other cores that share
    /// it; at least those of the second level.
    pub last_level: i64,
    /// Bytes of a cache line.
    pub line: i64,
    /// Number of cores that run a kernel.
    pub threads: i64,
}

impl Core {
    /// Bytes per cycle that reach a core from the second level, the third level and memory: typical of cores of the
    /// last ten years.
    pub const BANDWIDTH: [f64; 3] = [64.0, 28.0, 8.0];
    /// Nominal clock in cycles per second.
    pub const HERTZ: f64 = 3.5e9;
    /// Bytes of a way of the first-level cache. On nearly all machines this is a page, so that the cache can be indexed
    /// before the address is translated. Addresses at this distance fall into the same set.
    pub const WAY: i64 = 4096;
    /// Vector arithmetic instructions issued per cycle (x86-64 cores since Haswell).
    pub const VECTOR_PORTS: f64 = 2.0;
    /// Scalar arithmetic instructions issued per cycle.
    pub const SCALAR_PORTS: f64 = 3.0;
    /// Loads issued per cycle.
    pub const LOAD_PORTS: f64 = 2.0;
    /// Stores issued per cycle.
    pub const STORE_PORTS: f64 = 1.0;
    /// Latency of a multiply-add in cycles.
    pub const LATENCY: f64 = 4.0;

    /// The cores of a machine, for code of an instruction set on `threads` of them.
    pub fn new(target: &Target, isa: Isa, threads: usize) -> Core {
        let bytes = |c: Cache| i64::try_from(c.bytes_per_core()).unwrap_or(i64::MAX);
        let threads = i64::try_from(threads).unwrap_or(1).max(1);
        let l2 = bytes(target.l2);
        Core {
            vectors: VectorUnit::new(isa, target.arch),
            l1: bytes(target.l1d),
            l2,
            last_level: target.l3.map_or(l2, |c| bytes(c).saturating_mul(threads)).max(l2),
            line: i64::from(target.line_bytes.max(1)),
            threads,
        }
    }

    /// Bytes of the caches, the nearest first.
    pub fn caches(&self) -> [i64; 3] {
        [self.l1, self.l2, self.last_level]
    }

    /// Lanes of a vector during computation with values of a type.
    pub fn lanes(&self, dtype: DType) -> i64 {
        self.vectors.lanes(dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::cascade_lake;

    #[test]
    fn narrow_types_are_computed_in_32_bits_by_region_code() {
        let wide = VectorUnit::new(Isa::Avx512, Arch::X86_64);
        let portable = VectorUnit::new(Isa::Portable, Arch::X86_64);
        for (dtype, in_regions, elsewhere) in [
            (DType::Int8, 16, 16),
            (DType::Int16, 16, 8),
            (DType::BFloat16, 16, 4),
            (DType::Float32, 16, 4),
            (DType::Float64, 8, 2),
            (DType::Int64, 8, 2),
        ] {
            assert_eq!((wide.lanes(dtype), portable.lanes(dtype)), (in_regions, elsewhere), "{dtype:?}");
        }
    }

    #[test]
    fn a_core_of_a_machine() {
        let core = Core::new(&cascade_lake(), Isa::Avx512, 2);
        assert_eq!((core.vectors.bytes, core.vectors.registers, core.threads), (64, 32, 2));
        assert!(core.l1 <= core.l2 && core.l2 <= core.last_level);
        assert_eq!(VectorUnit::new(Isa::Portable, Arch::Aarch64).registers, 32);
    }
}
