//! The interface between vector code and target machines.

use super::assign::Registers;
use super::build::Features;
use super::code::Code;
use crate::codegen::{CodegenOptions, isa};
use crate::machine::{Isa, prefetching_pays, shuffles_are_cheap};

/// A target of region code. All steps before encoding query it, and are independent of instructions.
pub(super) trait VectorTarget {
    /// Bytes of a vector register.
    fn vector_bytes(&self) -> usize;

    /// The available registers.
    fn registers(&self) -> Registers;

    /// The optional features that code with these options may use. `shares`: whether loaded vectors are kept for other uses.
    fn features(&self, options: &CodegenOptions, shares: bool) -> Features;

    /// Encodes a function of one pointer; `None` if the code needs too many general registers. `registers` has the
    /// machine register of each virtual register.
    fn encode(&self, code: &Code, registers: &[u8]) -> Option<Vec<u8>>;
}

/// Extensions of a machine beyond its instruction set.
#[derive(Clone, Copy, Debug)]
pub(in crate::codegen) struct Host {
    /// Dot products of bytes.
    pub dots: bool,
    /// Conversion of float16.
    pub halves: bool,
    /// Conversion to bfloat16 (AVX512-BF16).
    pub bf16: bool,
    /// Permutations of bytes (AVX512-VBMI).
    pub byte_permutes: bool,
    /// Arithmetic of float16 (AVX512-FP16).
    pub float16: bool,
    /// Whether long streams of data profit from software prefetching.
    pub prefetching_pays: bool,
    /// Whether shuffles of whole registers of 512 bits take less time than loads of their chunks.
    pub cheap_shuffles: bool,
}

impl Host {
    /// The current machine, for code of an instruction set.
    pub(in crate::codegen) fn here(isa: Isa) -> Host {
        Host {
            dots: isa::has_dot_products(isa),
            halves: isa::has_half_conversion(),
            bf16: isa::has_bf16_conversion(isa),
            byte_permutes: isa::has_byte_permutes(),
            float16: isa::has_float16_arithmetic(isa),
            prefetching_pays: prefetching_pays(),
            cheap_shuffles: shuffles_are_cheap(),
        }
    }
}
