//! What features and estimates need to know of a machine.
//!
//! Rates are per cycle, and nominal: an estimate ranks candidates, and what all of them have in common does not matter.
//! Nothing here is measured, so that equal descriptions give equal candidates.

use crate::machine::{Isa, Target};

/// A machine, as seen by one of its cores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Bytes of a vector register.
    pub vector_bytes: f64,
    /// Vector registers.
    pub registers: i64,
    /// Can vectors be loaded and stored in part, under a mask?
    pub has_masks: bool,
    /// May sums of floats be computed in another order?
    pub reassociates: bool,
    /// Threads that parallel loops use.
    pub threads: f64,
    /// Bytes of the caches, the nearest first; a last level that other cores share counts in part.
    pub caches: [f64; 3],
    /// Bytes a cycle that come from behind each of them.
    pub bandwidth: [f64; 3],
    /// Bytes of a cache line.
    pub line: f64,
    /// Bytes after which addresses meet in the same set of the nearest cache.
    pub way: f64,
    /// Cycles a second.
    pub hertz: f64,
}

/// Bytes a cycle from the second level, the third, and memory: what cores of the last years have, roughly.
const BANDWIDTH: [f64; 3] = [64.0, 28.0, 8.0];
/// Nominal clock.
const HERTZ: f64 = 3.5e9;
/// A way of the nearest cache is a page on nearly all machines, so that it can be looked up before the page is known.
const WAY: f64 = 4096.0;

impl Machine {
    /// The machine of a description, for code of an instruction set.
    pub fn of(target: &Target, isa: Isa, strict_fp: bool, threads: u32) -> Machine {
        let threads = f64::from(threads.max(1));
        let l2 = target.l2.bytes as f64;
        let last = target.l3.map_or(l2, |c| c.bytes as f64 / f64::from(c.shared_by.max(1)) * threads);
        Machine {
            vector_bytes: f64::from(isa.vector_bits()) / 8.0,
            registers: i64::from(isa.vector_registers(target.arch)),
            has_masks: isa != Isa::Portable,
            reassociates: !strict_fp,
            threads,
            caches: [target.l1d.bytes as f64, l2, last.max(l2)],
            bandwidth: BANDWIDTH,
            line: f64::from(target.line_bytes.max(1)),
            way: WAY,
            hertz: HERTZ,
        }
    }

    /// Lanes of a vector of elements of so many bytes; narrow ones are computed in 32 bits.
    pub fn lanes(&self, bytes: f64) -> f64 {
        (self.vector_bytes / bytes.max(4.0)).max(1.0)
    }

    /// Do the sums of a tile of `rows` by `vectors` fit the registers, as the code generator reckons
    /// (`codegen/opt/machine.rs`)?
    pub fn holds_tile(&self, rows: i64, vectors: i64) -> bool {
        let loaded = if rows == 1 { vectors.min(4) } else { vectors };
        rows.saturating_mul(vectors) + loaded + 3 <= self.registers
    }
}
