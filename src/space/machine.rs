//! What rules want to know of a machine.

use crate::ir::DType;
use crate::machine::{Isa, Target};

/// Vectors, registers and caches of one core, and how many cores run a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Width of a vector register in bytes.
    pub vector_bytes: i64,
    /// Number of vector registers.
    pub registers: i64,
    /// Bytes of first-level data cache.
    pub l1: i64,
    /// Bytes of second-level cache.
    pub l2: i64,
    /// Cores that run a kernel.
    pub threads: i64,
}

impl Machine {
    /// What `target` is to code for `isa` on so many threads.
    pub fn new(target: &Target, isa: Isa, threads: usize) -> Machine {
        let bytes = |c: crate::machine::Cache| i64::try_from(c.bytes_per_core()).unwrap_or(i64::MAX);
        Machine {
            vector_bytes: i64::from(isa.vector_bits() / 8),
            registers: i64::from(isa.vector_registers(target.arch)),
            l1: bytes(target.l1d),
            l2: bytes(target.l2),
            threads: i64::try_from(threads).unwrap_or(1).max(1),
        }
    }

    /// Elements of a vector in which values of a type are computed: half precision and short integers in 32 bits.
    pub fn lanes(&self, dtype: DType) -> i64 {
        (self.vector_bytes / (dtype.bytes() as i64).max(4)).max(1)
    }
}
