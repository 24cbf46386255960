//! The instruction sets of the code generator, by their names for `--isa`.

use super::feature::{Feature, FeatureSet};
use super::{Arch, Target};
use std::fmt;
use std::str::FromStr;

/// A vector instruction set of the code generator, in order of preference: a later one is faster on machines that have
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// 128-bit vectors through Cranelift alone: any CPU.
    Portable,
    /// 256-bit VEX instructions with FMA, 16 vector registers.
    Avx2,
    /// 256-bit EVEX instructions: 32 vector registers and mask registers.
    Avx512Ymm,
    /// 512-bit EVEX instructions: 32 vector registers and mask registers.
    Avx512,
}

impl Isa {
    /// All instruction sets, the least demanding first.
    pub const ALL: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::Avx512Ymm, Isa::Avx512];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512Ymm => "avx512-256",
            Isa::Avx512 => "avx512",
        }
    }

    /// Width of a vector register in bits.
    pub fn vector_bits(self) -> u32 {
        match self {
            Isa::Portable => 128,
            Isa::Avx2 | Isa::Avx512Ymm => 256,
            Isa::Avx512 => 512,
        }
    }

    /// The features that the instruction set requires.
    pub fn required(self) -> FeatureSet {
        use Feature::*;
        match self {
            Isa::Portable => FeatureSet::EMPTY,
            Isa::Avx2 => [Avx, Avx2, Fma].into(),
            Isa::Avx512Ymm => [Avx, Avx2, Fma, Avx512f, Avx512bw, Avx512dq, Avx512vl].into(),
            Isa::Avx512 => [Avx, Avx2, Fma, Avx512f, Avx512bw, Avx512dq, Avx512vl].into(),
        }
    }

    /// Whether the machine can run the instruction set.
    pub fn is_available(self, target: &Target) -> bool {
        target.features.has_all(self.required())
    }

    /// Number of vector registers that generated code may use.
    pub fn vector_registers(self, arch: Arch) -> u32 {
        match self {
            Isa::Portable => match arch {
                Arch::X86_64 => 16,
                Arch::Aarch64 => 32,
            },
            Isa::Avx2 => 16,
            Isa::Avx512Ymm | Isa::Avx512 => 32,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of an instruction set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected one of `portable`, `avx2`, `avx512-256`, `avx512`, found `{0}`")]
pub struct UnknownIsa(pub String);

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Isa::ALL.into_iter().find(|i| i.name() == text).ok_or_else(|| UnknownIsa(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        let error = "sse9".parse::<Isa>().unwrap_err();
        assert_eq!(error.to_string(), "expected one of `portable`, `avx2`, `avx512-256`, `avx512`, found `sse9`");
    }

    #[test]
    fn a_later_one_is_never_narrower() {
        for pair in Isa::ALL.windows(2) {
            assert!(pair[0].vector_bits() <= pair[1].vector_bits());
            assert!(pair[0].vector_registers(Arch::X86_64) <= pair[1].vector_registers(Arch::X86_64));
            assert!(pair[1].required().has_all(pair[0].required()));
        }
    }
}
