//! The floating-point state of generated code, set by two small functions of the module.
//!
//! The state is rounding to nearest, no traps, and, unless floats are strict, flushing of subnormal numbers to zero,
//! which would cost hundreds of cycles each. No instruction of Cranelift's IR accesses this state, so the functions are
//! given as bytes.

use super::Encoded;
use crate::codegen::{CodegenError, CodegenOptions};
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_module::{Linkage, Module};
use target_lexicon_arch::{Architecture, architecture_of};

/// Declares and defines `enter() -> i32`, which sets the state and returns the previous one, and `leave(i32)`, which
/// restores it.
pub(super) fn define(
    module: &mut dyn Module,
    options: &CodegenOptions,
    name: &str,
) -> Result<[Encoded; 2], CodegenError> {
    let call_conv = module.target_config().default_call_conv;
    let mut enter = Signature::new(call_conv);
    enter.returns.push(AbiParam::new(types::I32));
    let mut leave = Signature::new(call_conv);
    leave.params.push(AbiParam::new(types::I32));
    let enter = module.declare_function(&format!("{name}.fp_enter"), Linkage::Local, &enter)?;
    let leave = module.declare_function(&format!("{name}.fp_leave"), Linkage::Local, &leave)?;
    let (enter_bytes, leave_bytes) = match architecture_of(module.isa()) {
        Architecture::X86_64 => x86_64(!options.strict_fp),
        Architecture::Aarch64 => aarch64(!options.strict_fp),
    };
    module.define_function_bytes(enter, 16, &enter_bytes, &[])?;
    module.define_function_bytes(leave, 16, &leave_bytes, &[])?;
    Ok([Encoded::new(enter, &enter_bytes), Encoded::new(leave, &leave_bytes)])
}

mod target_lexicon_arch {
    use cranelift_codegen::isa::TargetIsa;

    pub(super) enum Architecture {
        X86_64,
        Aarch64,
    }

    pub(super) fn architecture_of(isa: &dyn TargetIsa) -> Architecture {
        if isa.name() == "x64" { Architecture::X86_64 } else { Architecture::Aarch64 }
    }
}

fn x86_64(flush: bool) -> (Vec<u8>, Vec<u8>) {
    const RESERVE: [u8; 4] = [0x48, 0x83, 0xec, 0x08]; // sub rsp, 8
    const LOAD: [u8; 4] = [0x0f, 0xae, 0x14, 0x24]; // ldmxcsr [rsp]
    const RETURN: [u8; 5] = [0x48, 0x83, 0xc4, 0x08, 0xc3]; // add rsp, 8; ret
    /// Masks of the six exceptions.
    const MASKS: u32 = 0x1f80;
    /// Flush to zero, and denormals are zero.
    const FLUSH: u32 = 0x8040;
    let set = MASKS | if flush { FLUSH } else { 0 };
    let mut enter = RESERVE.to_vec();
    enter.extend([0x0f, 0xae, 0x1c, 0x24]); // stmxcsr [rsp]
    enter.extend([0x8b, 0x04, 0x24]); // mov eax, [rsp]
    enter.extend([0xb9]); // mov ecx, set
    enter.extend(set.to_le_bytes());
    enter.extend([0x89, 0x0c, 0x24]); // mov [rsp], ecx
    enter.extend(LOAD);
    enter.extend(RETURN);
    let mut leave = RESERVE.to_vec();
    leave.extend([0x89, 0x3c, 0x24]); // mov [rsp], edi
    leave.extend(LOAD);
    leave.extend(RETURN);
    (enter, leave)
}

fn aarch64(flush: bool) -> (Vec<u8>, Vec<u8>) {
    const RETURN: u32 = 0xd65f_03c0; // ret
    let set = if flush { 0xb268_0001 } else { 0xaa00_03e1 }; // orr x1, x0, #1 << 24; mov x1, x0
    let enter: [u32; 4] = [0xd53b_4400, set, 0xd51b_4401, RETURN]; // mrs x0, fpcr; …; msr fpcr, x1; ret
    let leave: [u32; 2] = [0xd51b_4400, RETURN]; // msr fpcr, x0; ret
    let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect();
    (bytes(&enter), bytes(&leave))
}
