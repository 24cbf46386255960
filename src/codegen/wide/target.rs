//! The interface between vector code and the machines that it is encoded for.

use super::assign::Registers;
use super::build::Features;
use super::code::Code;
use crate::codegen::isa;
use crate::machine::{Isa, streams_wait};

/// A kind of machine that region code can be made for. Everything before encoding asks it, and names no instruction.
pub(super) trait VectorTarget {
    /// Bytes of a vector register.
    fn vector_bytes(&self) -> usize;

    /// The registers that code may use.
    fn registers(&self) -> Registers;

    /// The operations that it has. `dot_products`: whether dot products of bytes may be one instruction; `shares`: whether
    /// loaded vectors are kept for other uses.
    fn features(&self, dot_products: bool, shares: bool) -> Features;

    /// The bytes of a function of one pointer; `None` if the code needs more general registers than there are. `registers`
    /// has the machine register of each virtual register.
    fn encode(&self, code: &Code, registers: &[u8]) -> Option<Vec<u8>>;
}

/// Extensions that a machine may have beside an instruction set.
#[derive(Clone, Copy, Debug)]
pub(in crate::codegen) struct Host {
    /// Dot products of bytes.
    pub dots: bool,
    /// Conversion of float16.
    pub halves: bool,
    /// Long streams of data wait unless they are fetched ahead.
    pub streams_wait: bool,
}

impl Host {
    /// This machine, for code of an instruction set.
    pub(in crate::codegen) fn here(isa: Isa) -> Host {
        Host { dots: isa::has_dot_products(isa), halves: isa::has_half_conversion(), streams_wait: streams_wait() }
    }
}
