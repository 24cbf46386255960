//! Cranelift's descriptions of this machine, each created once.

use super::options::{CodegenError, CodegenOptions};
use crate::machine::Isa;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use std::sync::OnceLock;

/// The machine that this process runs on, for code in this process; `any_cpu`: without the features that a CPU of its
/// architecture may lack.
pub(super) fn here(any_cpu: bool) -> Result<OwnedTargetIsa, CodegenError> {
    static ALL: [OnceLock<Result<OwnedTargetIsa, CodegenError>>; 2] = [const { OnceLock::new() }; 2];
    ALL[usize::from(any_cpu)].get_or_init(|| build(false, if any_cpu { Cpu::Any } else { Cpu::Native })).clone()
}

/// The CPU that code of an object file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// Every one of the architecture.
    Any,
    /// One with AVX2 and what came with it, whatever this machine has beyond.
    Avx2,
    /// This machine's.
    Native,
}

impl Cpu {
    /// The CPU that code with these options is for.
    pub fn of(options: &CodegenOptions) -> Cpu {
        match (options.any_cpu, options.isa) {
            (true, _) => Cpu::Any,
            (false, Isa::Avx2) => Cpu::Avx2,
            (false, Isa::Portable | Isa::Avx512Ymm | Isa::Avx512) => Cpu::Native,
        }
    }
}

/// A description for position-independent code of object files.
pub(super) fn for_objects(cpu: Cpu) -> Result<OwnedTargetIsa, CodegenError> {
    static ALL: [OnceLock<Result<OwnedTargetIsa, CodegenError>>; 3] = [const { OnceLock::new() }; 3];
    ALL[cpu as usize].get_or_init(|| build(true, cpu)).clone()
}

fn build(for_objects: bool, cpu: Cpu) -> Result<OwnedTargetIsa, CodegenError> {
    let mut flags = settings::builder();
    let settings = [
        ("is_pic", if for_objects { "true" } else { "false" }),
        ("use_colocated_libcalls", "false"),
        // Our own passes have optimised; Cranelift's optimiser would make all loads of an unrolled body live at once.
        ("opt_level", "none"),
        ("enable_alias_analysis", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        // Generated code never unwinds, and has no large stack frames; but debuggers and profilers of a host program follow
        // its calls through objects.
        ("unwind_info", if for_objects { "true" } else { "false" }),
        ("enable_probestack", "false"),
    ];
    for (name, value) in settings {
        flags.set(name, value).map_err(|e| CodegenError::Machine(e.to_string()))?;
    }
    let builder = cranelift_native::builder_with_options(cpu == Cpu::Native);
    let mut builder = builder.map_err(|e| CodegenError::Machine(e.to_string()))?;
    if cpu == Cpu::Avx2 {
        // The first CPU with AVX2.
        builder.enable("haswell").map_err(|e| CodegenError::Machine(e.to_string()))?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|e| CodegenError::Machine(e.to_string()))
}

/// Whether this machine has an instruction for dot products of four bytes, in EVEX or VEX encoding.
pub(super) fn has_dot_products(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        match isa {
            Isa::Avx512 | Isa::Avx512Ymm => std::arch::is_x86_feature_detected!("avx512vnni"),
            Isa::Avx2 => std::arch::is_x86_feature_detected!("avxvnni"),
            Isa::Portable => false,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Whether this machine has instructions for float16 conversion.
pub(super) fn has_half_conversion() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("f16c")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Whether this machine has an instruction that rounds `float32` to bfloat16, in EVEX encoding.
pub(super) fn has_bf16_conversion(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        matches!(isa, Isa::Avx512 | Isa::Avx512Ymm) && std::arch::is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Whether this machine has instructions that permute the bytes of registers of any width.
pub(super) fn has_byte_permutes() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512vbmi") && std::arch::is_x86_feature_detected!("avx512bw")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Whether this machine has instructions that compute with float16, in EVEX encoding.
pub(super) fn has_float16_arithmetic(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        matches!(isa, Isa::Avx512 | Isa::Avx512Ymm) && std::arch::is_x86_feature_detected!("avx512fp16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Whether this machine has fused multiply-add. Without it, Cranelift emits a call, which is slower than two
/// operations.
pub(super) fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        cfg!(target_arch = "aarch64")
    }
}
