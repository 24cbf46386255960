//! x86-64: encodes region code with VEX and EVEX.
//!
//!  file | owns |
//! | --- | --- |
//! | [`asm`] | the bytes of an instruction |
//! | [`instructions`] | the table of vector instructions |
//! | [`encode`](mod@encode) | vector code to instructions |

mod asm;
mod encode;
#[cfg(test)]
mod encode_tests;
mod instructions;

use super::assign::Registers;
use super::build::{Features, Lanes};
use super::code::Code;
use super::target::{Host, VectorTarget};
use crate::codegen::CodegenOptions;
use crate::machine::{Isa, VectorUnit};
use asm::Form;

/// An x86-64 processor with 256-bit or 512-bit vectors.
pub(super) struct X86 {
    vectors: VectorUnit,
    form: Form,
    host: Host,
}

impl X86 {
    /// The target for an instruction set, on a machine with these extensions; `None` if it has no region code.
    pub(super) fn new(isa: Isa, host: Host) -> Option<X86> {
        let form = match isa {
            Isa::Portable => return None,
            Isa::Avx2 => Form::Vex,
            Isa::Avx512Ymm | Isa::Avx512 => Form::Evex,
        };
        Some(X86 { vectors: VectorUnit::here(isa), form, host })
    }
}

impl VectorTarget for X86 {
    fn vector_bytes(&self) -> usize {
        self.vectors.bytes
    }

    fn registers(&self) -> Registers {
        let masks = match self.form {
            Form::Vex => 0,
            Form::Evex => 8,
        };
        Registers { vectors: self.vectors.registers as u8, masks, pointers: encode::GPRS.len() as u8 }
    }

    fn features(&self, options: &CodegenOptions, shares: bool) -> Features {
        let masks = self.form == Form::Evex;
        let dots = options.dot_products && self.host.dots;
        // The instruction flushes subnormal numbers to zero.
        let rounds_bf16 = masks && self.host.bf16 && !options.strict_fp;
        let byte_permutes = masks && self.host.byte_permutes;
        Features {
            masks,
            dots,
            halves: self.host.halves,
            rounds_bf16,
            byte_permutes,
            cheap_shuffles: self.host.cheap_shuffles,
            float16: masks && self.host.float16,
            lanes: Lanes::Wide,
            shares,
        }
    }

    fn encode(&self, code: &Code, registers: &[u8]) -> Option<Vec<u8>> {
        encode::encode(code, registers, self.form, self.vectors.bytes)
    }
}
